"""Similarity of meaning, measured by models: BERTScore, embeddings, and answers that hide behind being a machine."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from functools import cache, lru_cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any, ClassVar, Literal

import re2
from pydantic import AliasChoices, Field

from tui_evals.evaluators.base import (
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
from tui_evals.evaluators.judging import check_shown_size
from tui_evals.evaluators.style import answer_text
from tui_evals.evaluators.values import quoted, response_texts, target_texts
from tui_evals.light_records import dataclass
from tui_evals.text.measures import Measure
from tui_evals.text.model_output import cosine, unpack_vector

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
    except Exception as error:  # a loader of models can raise anything
        cause = " ".join(str(error).split())[:300]
        return f"the model {model} could not be loaded; is it a folder, or a name on the hub? {cause}"
    positions = getattr(scorer._model.config, "max_position_embeddings", 0)
    # Without this, a tokenizer without a limit overflows, and a long answer takes memory by its square.
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
    """Passes when the answer is similar enough in meaning to a reference: the cosine of their embeddings.

    The vectors come from a target with `kind = "embedding"` in .evals/config.toml, named by the option `embedder` or by
    `[judge] embedding = "NAME"`, never from the model that answers. They are cached, so that a reference is paid for
    once. The score is from -1 to 1, and the right threshold depends on the model: look at the scores of some good and
    bad answers before you set it. With several references the most similar one counts.
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


DISCLAIMER = "As an AI language model, I don't have personal opinions, emotions, or beliefs."

_SPEAKER = r"(?:^|\W)i"
_CANNOT = r"(?: cannot| can't| can not| (?:do not|don't) have the ability to|(?: am|'m) (?:unable|not able) to)"
_MACHINE = (
    r"(?:(?:ai|artificial intelligence|llm|chatbot)(?: language)?(?: (?:model|assistant|system|program|chatbot|bot))?"
    r"|(?:large )?language model|(?:virtual|digital|computer) (?:assistant|program)|machine learning model)"
)
_NAME_ENDS = (  # so that an "AI researcher" is not a machine
    r"(?:[^\w -]| ?$| -| (?:it|and|or|that|which|who|here|so|with|without|developed|trained|created|made|by)\b)"
)
_MIND = r"(?:opinions?|emotions?|feelings?|beliefs?|views?|preferences?|experiences?|desires?|consciousness)"
_TRAIT = (
    rf"(?:(?:personal|human|subjective|my own)(?:,| or| and)? (?:\w+,? (?:or |and )?){{0,3}}{_MIND}"
    rf"|{_MIND},? (?:or |and )?(?:personal |human )?{_MIND}"
    r"|emotions|consciousness|sentience|self-awareness|a physical (?:body|form|presence))\b"
)
_DISCLAIMERS = {
    "speaks as a machine": (
        r"(?:^|[^\w\s] ?|\b(?:but|and|that|since|being|speaking) )as (?:an?|your) (?:(?:mere|simple|helpful) )?"
        rf"{_MACHINE}(?: |{_NAME_ENDS}[^.!?]*\b)(?:i|me|my|myself)\b"
        rf"|{_SPEAKER}, as an? {_MACHINE}{_NAME_ENDS}"
    ),
    "is only a machine": (
        rf"{_SPEAKER}(?: am|'m) (?:(?:just|only|merely|simply) an? {_MACHINE}{_NAME_ENDS}"
        rf"|an? {_MACHINE}(?: |{_NAME_ENDS}[^.!?]*\b)(?:not|cannot|can't|don't|unable|without|lack|no)\b)"
    ),
    "denies a mind": (
        rf"{_SPEAKER}(?:(?:{_CANNOT}| do not| don't|(?: am|'m) (?:not capable|incapable) of) (?:[\w'-]+ ){{0,5}}"
        r"(?:have|having|possess|hold|experienc(?:e|ing)|form|feel|share|offer|give|express)| lack| have no)"
        rf" (?:(?:an?|any|real|true|genuine) )?{_TRAIT}"
    ),
    "names the end of its training": (
        r"\bmy (?:knowledge|training)(?: data)? (?:cut[- ]?off|(?:only )?(?:goes|extends|reaches|ends)|is limited)\b"
        r"|\b(?:as of|until|up to) my (?:last|latest|most recent) (?:(?:knowledge|training) )?(?:update|cut-?off)\b"
    ),
    "cannot look things up": (
        rf"{_SPEAKER}(?:{_CANNOT} (?:\w+ ){{0,2}}(?:browse|access|search|retrieve|provide|give|check)"
        r"|(?: do not| don't) (?:\w+ )?have (?:\w+ )?access to)"
        r" (?:\w+ ){0,3}(?:the internet|the web|real[- ]time|live (?:data|information)|up-to-date)\b"
    ),
    "is no professional": (
        rf"{_SPEAKER}(?:(?: am|'m) not (?:an?|your) (?:(?:licensed|qualified|medical|real) )?(?:doctor|physician|lawyer"
        r"|attorney|therapist|(?:medical|legal|financial|tax|health|healthcare) (?:professional|advis[eo]r|expert))"
        rf"|{_CANNOT} (?:provide|give|offer) (?:[\w,]+ ){{0,4}}(?:medical|legal|financial|investment|tax)"
        r" (?:advice|opinions?|diagnos[ei]s))\b"
    ),
}
_QUOTATION = re.compile(rb'"[^" ]+(?: [^" ]+){3,60}"')


def find_disclaimers(text: str) -> dict[str, str]:
    """The first phrase of every kind in which the speaker of a text hides behind being a machine."""
    normalized = _normalized_bytes(text)
    unquoted = _QUOTATION.sub(b" ", normalized).translate(None, b'"*_`')
    if not re.search(rb"\w", unquoted):  # all of it is one quotation
        unquoted = normalized
    matches = {kind: pattern.search(unquoted) for kind, pattern in _compiled_disclaimers().items()}
    return {kind: match.group().decode("utf-8", "replace")[:120].strip() for kind, match in matches.items() if match}


@cache
def _compiled_disclaimers() -> dict[str, Any]:
    """The phrases as patterns that take linear time on any text."""
    options = re2.Options()
    options.log_errors = False
    return {kind: re2.compile(pattern, options) for kind, pattern in _DISCLAIMERS.items()}


def _normalized_bytes(text: str) -> bytes:
    """Lower case, plain quotes and apostrophes, single blanks, and a stop where a paragraph ends."""
    normalized = text.lower().encode("utf-8", "replace").replace(b"\r", b"").replace(b"\n\n", b" . ")
    for variant, replacement in (
        ("\t", " "),
        ("\n", " "),
        ("\u00a0", " "),
        ("’", "'"),
        ("‘", "'"),
        ("“", '"'),
        ("”", '"'),
    ):
        normalized = normalized.replace(variant.encode(), replacement.encode())
    while b"  " in normalized:
        normalized = normalized.replace(b"  ", b" ")
    return normalized


class HedgingLanguageOptions(ModelOptions):
    """The options of HedgingLanguage."""

    method: Literal["auto", "lexical", "bertscore"] = Field(
        "auto",
        description="How hedging is found: by its phrases (lexical), by likeness to the disclaimer (bertscore), "
        "or by the second where the bertscore extra is installed and its model can be loaded (auto).",
    )
    disclaimer: str = Field(
        DISCLAIMER,
        min_length=1,
        validation_alias=AliasChoices("disclaimer", "hedging_language", "hedgingLanguage"),
        description="The sentence an answer is likened to by the method bertscore.",
    )
    threshold: float = Field(0.5, ge=0, lt=1, description="Above this score the answer counts as hedging.")


class HedgingLanguage(Evaluator):
    """Passes when the answer does not hide behind being a machine, as in "As an AI, I cannot have opinions".

    The score measures hedging, so less is better: with the method bertscore it is the similarity (F1) to a disclaimer
    sentence, with the lexical one 1 if a disclaimer was found and otherwise 0: speaking as a machine, denying opinions
    or feelings, naming the end of its training, not being able to look things up, not being a doctor or lawyer. Quoted
    disclaimers of others do not count. The details name the method that was used.
    """

    name = "HedgingLanguage"
    aliases = ("hedging_language",)
    family = "Arthur Bench"
    measure = Measure("at most")
    Options = HedgingLanguageOptions
    example: ClassVar = {"response": "Rye bread keeps longer than wheat bread.", "options": {"method": "lexical"}}

    def obstacle(self) -> str | None:
        """The library that the method bertscore lacks."""
        return missing_library(self.options.model) if self.options.method == "bertscore" else None

    async def score(self, evidence: Evidence) -> Score:
        """How much the answer hedges, by the chosen method, or by the one that is installed."""
        text = answer_text(evidence, self.options.json_path)
        method = self.options.method
        if method == "lexical" or (method == "auto" and not find_spec("bert_score")):
            return self._by_phrases(text)
        try:
            (similarity,) = await bert_similarity(self.options, text, (self.options.disclaimer,))
        except Misconfigured as why:
            if method == "auto":
                return self._by_phrases(text, f"; judged by phrases, because {why}")
            raise
        return self._record(
            similarity.f1, f"likeness to the disclaimer {similarity.f1:.2f}", "bertscore", model=self.options.model
        )

    def _by_phrases(self, text: str, note: str = "") -> Score:
        phrases = find_disclaimers(text)
        listed = "; ".join(f"{kind} ({phrase!r})" for kind, phrase in phrases.items())
        reason = (listed or "no phrase of disclaiming found") + note
        return self._record(float(bool(phrases)), reason, "lexical", phrases=phrases)

    def _record(self, hedging: float, reason: str, method: str, **details: object) -> Score:
        """The record of an amount of hedging; up to the threshold passes, so `measured` does not fit."""
        threshold = self.options.threshold
        hedges = hedging > threshold
        label = "hedging" if hedges else "no hedging"
        return Score(hedging, "fail" if hedges else "pass", threshold, label, reason, {"method": method, **details})
