"""Similarity of meaning, measured by models: BERTScore and embeddings."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from functools import lru_cache
from importlib import import_module
from typing import Any, ClassVar

from pydantic import AliasChoices, Field

from tui_evals.light_records import dataclass
from tui_evals.text.measures import Measure
from tui_evals.text.model_output import cosine, unpack_vector

from .base import (
    CannotJudge,
    Evaluator,
    Evidence,
    Misconfigured,
    ModelOptions,
    Question,
    Score,
    ValueOptions,
    is_installed,
    measured_score,
)
from .judging import check_shown_size
from .style import answer_text
from .values import quoted, response_texts, target_texts

READ_CHARS = 20_000
"""How much of a text is handed to a model, which reads some hundred tokens of it at most."""

_worker = ThreadPoolExecutor(1, "bertscore")  # a single thread, because a tokenizer must not serve two at once


@dataclass(frozen=True, slots=True)
class BertSimilarity:
    """How alike two texts are by their words' embeddings."""

    precision: float
    recall: float
    f1: float


async def bert_similarity(options: ModelOptions, text: str, references: Sequence[str]) -> list[BertSimilarity]:
    """The similarity of a text to each reference, computed off the event loop; `CannotJudge` without a usable model."""
    loop = asyncio.get_running_loop()
    scorer = await loop.run_in_executor(_worker, load_scorer, options.model, options.num_layers)
    if isinstance(scorer, str):
        raise Misconfigured(scorer)
    text = _tokenizer_text(text)
    return [await loop.run_in_executor(_worker, _compare, scorer, text, _tokenizer_text(other)) for other in references]


def _compare(scorer: Any, text: str, reference: str) -> BertSimilarity:
    if not text or not reference:  # defined as 0 by the library, which cannot compute it with every tokenizer
        return BertSimilarity(0.0, 0.0, 0.0)
    return BertSimilarity(*(float(column[0]) for column in scorer.score([text], [reference])))


def _tokenizer_text(text: str) -> str:
    """The part of a text that a tokenizer is given: its beginning, without surrogates."""
    return text.strip()[:READ_CHARS].encode("utf-8", "replace").decode()


@lru_cache(maxsize=2)
def load_scorer(model: str, num_layers: int | None) -> Any:
    """The scorer with its model in memory, or a sentence why there is none, so that a run tries it once."""
    if model.startswith("scibert"):
        return (
            f"the library would fetch {model} with shell commands; name it allenai/scibert_scivocab_uncased or the like"
        )
    try:
        library, tables, logging = map(import_module, ("bert_score", "bert_score.utils", "transformers.utils.logging"))
    except ImportError as error:
        return f"the bert-score library is not installed ({error}): pip install 'tui-evals[bertscore]'"
    layer = num_layers or tables.model2layers.get(model)
    if layer is None:
        return f"the bert-score library knows no layer to compare for the model {model}: give num_layers"
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        scorer = library.BERTScorer(model_type=model, num_layers=layer)
    except Exception as error:  # a loader of models raises whatever it met
        cause = " ".join(str(error).split())[:300]
        return f"the model {model} could not be loaded; is it a folder, or a name on the hub? {cause}"
    positions = getattr(scorer._model.config, "max_position_embeddings", 0)
    # Without this a tokenizer that states no limit overflows, and a long answer would take memory by its square.
    scorer._tokenizer.model_max_length = min(scorer._tokenizer.model_max_length, positions if positions > 0 else 512)
    return scorer


def missing_library(model: str) -> str | None:
    """Why no text can be likened by a model here; None where the library is there."""
    if is_installed("bert_score"):
        return None
    return f"the bert-score library that loads {model} is not installed: pip install 'tui-evals[bertscore]'"


class BertScoreOptions(ModelOptions):
    """The options of BertScore."""

    precision_weight: float = Field(
        0.1,
        ge=0,
        le=1,
        validation_alias=AliasChoices("precision_weight", "precisionWeight"),
        description="How much of the score is precision; the rest is recall.",
    )
    threshold: float | None = Field(
        None, description="The likeness from which the answer passes; without it the number is shown only."
    )


class BertScore(Evaluator):
    """Measures how alike in meaning answer and reference are (BERTScore); passes only where you set a threshold.

    The score is `precision_weight` x precision + the rest x recall, about 0 to 1, neither weighted by rarity nor
    rescaled. It is computed on this machine and needs `pip install 'tui-evals[bertscore]'`; the default model is
    downloaded at first use. A model reads the beginning of a text only (512 tokens for the default one). With several
    references the one the answer is most like counts; an empty text scores 0.
    """

    name = "BertScore"
    aliases = ("bertscore",)
    family = "Arthur Bench"
    measure = Measure("at least")
    needs = ("response", "expected")
    Options = BertScoreOptions
    example: ClassVar = {
        "options": {"threshold": 0.6},
        "response": "The shop shuts at six.",
        "expected": "The shop closes at 6 pm.",
    }

    def obstacle(self) -> str | None:
        """The library that is not there."""
        return missing_library(self.options.model)

    async def score(self, evidence: Evidence) -> Score:
        """The weighted likeness to the reference the answer is most like."""
        weight = self.options.precision_weight
        text = answer_text(evidence, self.options.json_path)
        similarities = await bert_similarity(self.options, text, evidence.references)
        scores = [weight * similarity.precision + (1 - weight) * similarity.recall for similarity in similarities]
        best = max(range(len(scores)), key=scores.__getitem__)
        return measured_score(
            scores[best],
            self.options.threshold,
            f"precision {similarities[best].precision:.2f}, recall {similarities[best].recall:.2f}",
            reference=best,
            model=self.options.model,
            **asdict(similarities[best]),
        )


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
    compares = True
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
