"""EmbeddingSimilarity: how near in meaning answer and reference are, by the vectors that a model gives them."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from tui_evals.text.measures import Measure
from tui_evals.text.vectors import cosine, unpack_vector

from .base import CannotJudge, Evaluator, Evidence, Misconfigured, Question, Score, ValueOptions, measured_score
from .judging import check_shown_size
from .values import quoted, response_texts, target_texts


class EmbeddingOptions(ValueOptions):
    """Options of EmbeddingSimilarity."""

    value: str | None = Field(None, description="The text to compare with; without it, any reference of the item.")
    threshold: float | None = Field(
        0.75, ge=-1, le=1, description="The similarity from which it passes; null only shows the number."
    )
    embedder: str | None = Field(
        None, description="The target of kind embedding that gives the vectors, instead of [judge] embedding."
    )


class EmbeddingSimilarity(Evaluator):
    """Passes when the answer is near enough in meaning to a reference: the cosine of their embeddings.

    The vectors come from a target with `kind = "embedding"` in .evals/config.toml, which the option `embedder` names or
    `[judge] embedding = "NAME"`; never from the model that answers. They are kept in the cache, so that a reference is
    paid for once. The score is from -1 to 1, and what is near depends on the model: look at the numbers of some good
    and bad answers before you set the threshold. With several references the nearest one counts.
    """

    name = "EmbeddingSimilarity"
    family = "text"
    measure = Measure("at least")
    judged = True
    embeds = True
    Options = EmbeddingOptions
    example: ClassVar = {
        "options": {"threshold": 0.7},
        "response": "The shop shuts at six.",
        "expected": "The shop closes at 6 pm.",
        "judge_reply": "[0.9, 0.1, 0.4]\n[0.8, 0.2, 0.5]",
    }

    async def score(self, evidence: Evidence) -> Score:
        """The cosine to the nearest reference."""
        targets = target_texts(evidence, None if self.options.value is None else [self.options.value])
        references = [reference for reference in targets if reference.strip()]
        texts = [text for text in response_texts(evidence, self.options.json_path) if text.strip()]
        if not references:
            raise Misconfigured("every expected response is blank, so that there is nothing to be near to")
        if not texts:
            return measured_score(0.0, self.options.threshold, "the text to compare is blank")
        check_shown_size((*texts, *references))
        asked = tuple(dict.fromkeys((*texts, *references)))
        vectors = dict(zip(asked, await self._vectors(asked), strict=True))
        try:
            near = [(cosine(vectors[text], vectors[other]), other) for text in texts for other in references]
        except ValueError as problem:
            raise CannotJudge("evaluatorError", f"the vectors cannot be compared: {problem}") from None
        similarity, reference = max(near)
        return measured_score(similarity, self.options.threshold, f"cosine {similarity:.3f} to {quoted(reference)}")

    async def _vectors(self, texts: tuple[str, ...]) -> list[list[float]]:
        lines = (await self.ask(Question(texts=texts))).split("\n")
        try:
            vectors = list(map(unpack_vector, lines))
        except (ValueError, TypeError) as problem:
            raise CannotJudge("judgeOutputUnparseable", f"the vectors cannot be read: {problem}") from None
        if len(vectors) != len(texts):
            reason = f"{len(texts)} texts were given and {len(vectors)} vectors came back"
            raise CannotJudge("judgeOutputUnparseable", reason)
        return vectors
