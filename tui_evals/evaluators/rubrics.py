"""Ratings from 1 to 5 by a judge: four fixed questions, and criteria of your own."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar, Literal

from pydantic import AliasChoices, BaseModel, ConfigDict, Field, model_validator

from tui_evals.evaluators.judging import EVIDENCE, HEADINGS, reference_text, request_texts, shown_parts, source_of
from tui_evals.light_records import dataclass
from tui_evals.text.measures import plain_number
from tui_evals.text.model_output import Choice

from .base import (
    EMPTY_ANSWER,
    Evaluator,
    Evidence,
    JudgedOptions,
    Misconfigured,
    Score,
    consulted,
    measured_score,
    skipped_score,
    withheld,
)
from .judging import (
    Parts,
    UnreadableReply,
    ask_judge,
    judge_question,
    reply_text,
    score_line,
    shipped_prompt,
    stated_number,
    verdict_and_source,
)
from .verdicts import (
    RATING,
    SKIPPED,
    OffScale,
    Scale,
    ScaledOptions,
    parse_scale,
    read_on_scale,
    skipped_reason,
    threshold_on,
    threshold_problem,
)

_NUMBER = re.compile(r"\d+(?:\.\d+)?")
_NAMED = re.compile(r'"score"\s*:\s*"?(\d+(?:\.\d+)?)')
_ABOVE_ZERO = 0.01
"""The largest value of a log probability after rounding."""
_LEVEL = re.compile(r"[^\w.-]*([1-5])(?![\d.])\W*")
"""A piece that is a level, with anything around it, such as a blank or a quotation mark."""


@dataclass(frozen=True, slots=True)
class ExpectedScore:
    """The expected score, and how likely each level was of those that were considered."""

    score: float
    levels: dict[str, float]


def expected_score(reply: str, verdict: str, written: float, choices: Sequence[Choice]) -> ExpectedScore | None:
    """The expected value of the score instead of the one written in the reply's verdict; None if unknown.

    Only the levels from 1 to 5 count, and their probabilities are normalized.
    """
    place = _place_of(reply, verdict, written)
    choice = next((one for one in choices if one.start <= place < one.start + len(one.text)), None)
    if choice is None or not reply.startswith(choice.text, choice.start):
        return None
    likely: dict[int, float] = {}
    for text, logprob in choice.likely.items():
        level = _LEVEL.fullmatch(text)
        if level and logprob < _ABOVE_ZERO:
            likely[int(level[1])] = likely.get(int(level[1]), 0.0) + math.exp(logprob)
    whole = sum(likely.values())
    if not whole or written not in likely:
        return None
    shares = {level: share / whole for level, share in sorted(likely.items())}
    levels = {str(level): round(share, 4) for level, share in shares.items()}
    return ExpectedScore(round(sum(level * share for level, share in shares.items()), 4), levels)


def _place_of(reply: str, verdict: str, written: float) -> int:
    """The character of a reply at which the score of its verdict is; -1 where it is not found."""
    start = reply.rfind(verdict)
    pattern, group = (_NAMED, 1) if verdict.startswith("{") else (_NUMBER, 0)
    places = (match.start(group) for match in pattern.finditer(verdict) if float(match[group]) == written)
    place = next(places, -1)
    return -1 if -1 in (start, place) else start + place


RATING_SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {"reason": {"type": "string"}, "score": {"type": "integer", "enum": [1, 2, 3, 4, 5]}},
    "required": ["reason", "score"],
    "additionalProperties": False,
}


def rating_schema(labels: Sequence[str] = ()) -> Mapping[str, Any]:
    """The JSON Schema of a rating, which has a label before its score where there are some to choose from."""
    if not labels:
        return RATING_SCHEMA
    reason, score = RATING_SCHEMA["properties"].items()
    properties = dict([reason, ("label", {"type": "string", "enum": list(labels)}), score])
    return {**RATING_SCHEMA, "properties": properties, "required": list(properties)}


RUBRICS = ("strict", "m365")
"""The meanings of the levels of Relevance, Coherence and Groundedness: ours, or those of Microsoft's evaluators."""


@dataclass(frozen=True, slots=True)
class Rating:
    """The score of a judge on its scale, and the reason; None if the criteria do not apply."""

    score: Any
    reason: str
    source: str = ""
    """The part of the reply that has the score."""
    label: str | None = None


class Example(BaseModel):
    """An answer with the score it earns, which the judge is shown."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    score: float | str = Field(description="The score it earns.")
    answer: str = Field(min_length=1, description="The answer.")
    about: str = Field("", description="What it answers, such as its request; it holds for those that follow too.")
    reason: str = Field("", description="Why it earns that.")

    @property
    def line(self) -> str:
        """How a judge is shown it."""
        verdict = self.score if isinstance(self.score, str) else f"{self.score:g}"
        return example_line(verdict, self.answer, self.about, self.reason)


def example_line(verdict: str, answer: str, about: str, reason: str) -> str:
    """An answer with the verdict it gets, as a judge is shown it."""
    line = f"{verdict}: {answer.strip()}{f' - {reason}' if reason else ''}"
    return f"{about.strip()}\n{line}" if about else line


_ANY_RATING = replace(RATING, whole=False)


class RatingOptions(JudgedOptions):
    """Options of evaluators that rate from 1 to 5."""

    threshold: float = Field(3.0, ge=1, le=5, description="The lowest rating, from 1 to 5, that passes.")
    examples: list[Example] | None = Field(
        None, description="Answers with the score each earns, instead of ours: [{score, answer, about, reason}, ...]."
    )
    expected_score: bool = Field(
        False,
        validation_alias=AliasChoices("expected_score", "expectedScore", "weighted"),
        description="Count the mean of the scores a judge might have given, by their log-probabilities, where it "
        "tells them. `weighted` is another word for it.",
    )

    @property
    def own_scale(self) -> Scale | None:
        """The scale, where it is not from 1 to 5."""
        return None

    @model_validator(mode="after")
    def _examples_are_on_the_scale(self) -> RatingOptions:
        scale = self.own_scale or _ANY_RATING
        for example in self.examples or ():
            try:
                scale.read(example.score)
            except OffScale as problem:
                raise ValueError(f"the score of an example, {problem}") from None
        return self


class _LevelsOptions(JudgedOptions):
    """The choice of levels, for evaluators whose levels another tool has under the same name."""

    rubric: Literal["strict", "m365"] | None = Field(
        None,
        description="What the levels mean: strict is ours, m365 that of Microsoft's evaluator. Without it m365 in a "
        "dataset that runevals takes as it is, else strict.",
    )


class LevelledOptions(RatingOptions, _LevelsOptions):
    """Options of evaluators that rate by levels that another tool has under the same name."""


class RubricOptions(ScaledOptions, RatingOptions):
    """Options of Rubric."""

    criteria: str = Field(
        min_length=1, pattern=r"\S", description="What a good answer must do, in free text; the judge follows it."
    )
    threshold: float = Field(
        3.0, description="The lowest score that passes; on a scale of yours its middle, of labels the best."
    )
    applies: str | None = Field(
        None, pattern=r"\S", description="When the criteria apply, in free text; what they do not apply to is skipped."
    )

    @property
    def own_scale(self) -> Scale | None:
        """The scale that is declared."""
        return None if self.scale is None else parse_scale(self.scale)

    @model_validator(mode="after")
    def _threshold_is_on_the_scale(self) -> RubricOptions:
        if self.scale is not None and self.expected_score:
            raise ValueError("expected_score counts ratings from 1 to 5, so it has no meaning on another scale")
        scale = self.own_scale or _ANY_RATING
        if problem := threshold_problem(scale, threshold_on(scale, self, 3.0 if self.scale is None else None)):
            raise ValueError(problem)
        return self


def _read_reply(
    reply: str, judged: Collection[str], labels: Collection[str], scale: Scale | None, *, may_skip: bool
) -> Rating:
    """The rating in a judge's reply, from 1 to 5 or on another scale; none where the judge may skip and does."""
    if may_skip and (skipped := skipped_reason(reply, judged)) is not None:
        return Rating(None, skipped)
    if scale is not None:
        return Rating(*read_on_scale(reply, scale, judged))
    return read_rating(reply, judged, labels)


def read_rating(reply: str, judged: Collection[str] = (), labels: Collection[str] = ()) -> Rating:
    """The rating in a judge's reply to the texts that were judged, with its label where there are some to choose."""
    try:
        text = reply_text(reply)
        found = None
        if '"score"' in text or "'score'" in text or _is_one_object(text):  # other braces are words of the reason
            found = verdict_and_source(text, "score", lambda value: stated_number(value) is not None, judged)
        if found is None:
            verdict: Mapping[str, Any] = {"reason": text}
            score, source = score_line(text, judged)
        else:
            verdict, source = found
            score = stated_number(verdict["score"]) or 0
        if not 1 <= score <= 5:
            raise UnreadableReply(f"its score is {str(score)[:20]}")
    except UnreadableReply as problem:
        form = '{"reason": "...", "score": n}'
        raise UnreadableReply(f"{problem}; one JSON object {form} with n from 1 to 5 was expected") from None
    reason, label = verdict.get("reason"), verdict.get("label")
    return Rating(float(score), reason if isinstance(reason, str) else "", source, label if label in labels else None)


def _is_one_object(text: str) -> bool:
    return text.startswith("{") and text.endswith("}")


def examples_text(prompt: str, own: Sequence[Any] | None, form: Any = Example, *, scale: Scale | None = None) -> str:
    """The examples a judge is shown: those of the options, else those that come with the prompt for its own scale."""
    shipped: Any = () if scale else shipped_prompt(prompt).front.get("examples", ())
    examples = [form.model_validate(one) for one in shipped] if own is None else own
    return "\n".join(example.line for example in examples) or "(none given)"


async def rate_answer(
    evaluator: Evaluator,
    evidence: Evidence,
    texts: Mapping[str, str] | None = None,
    trusted: Mapping[str, object] | None = None,
    *,
    parts: Parts | None = None,
    shows: Collection[str] = ("steps",),
    labels: Sequence[str] = (),
    **details: Any,
) -> Score:
    """The record of a rating by the prompt that bears the evaluator's name, with the parts of the evidence it shows."""
    options = evaluator.options
    scale: Scale | None = options.own_scale
    applies = getattr(options, "applies", None)
    rubric = getattr(options, "rubric", None) or "strict"
    prompt = evaluator.name.lower() + ("" if rubric == "strict" else f"_{rubric}")
    judged_texts = {**request_texts(evidence), **(texts or {})}
    parts = {**shown_parts(evidence, shows), **(parts or {})}
    question = judge_question(
        prompt,
        judged_texts,
        {"steps": "(none given)", "examples": examples_text(prompt, options.examples, scale=scale), **(trusted or {})},
        parts=parts,
        headings=HEADINGS,
        schema=_reply_schema(scale, labels, may_skip=applies is not None),
        judge=options.judge,
    )
    question = replace(question, likelihoods=options.expected_score)
    if scale is not None:
        question = replace(question, rubric=f"{question.rubric} ({scale})")
    judged = [*judged_texts.values(), *(piece.text for part in parts.values() for piece in part)]
    read = partial(_read_reply, judged=judged, labels=labels, scale=scale, may_skip=applies is not None)
    rating, reply = await ask_judge(evaluator.ask, question, read)
    if rating.score is None:
        reason = rating.reason.strip() or "the judge found that the criteria do not apply"
        return replace(skipped_score(reason), details={**details, "reply": reply})
    if scale is not None:
        reason = rating.reason.strip() or f"the judge gave {rating.score} and no reason"
        return scale.score(rating.score, threshold_on(scale, options), reason, **details, reply=reply)
    reason = rating.reason.strip() or f"the judge gave {rating.score:g} of 5 and no reason"
    record = measured_score(rating.score, options.threshold, reason, label=rating.label, **details, reply=reply)
    return _with_expected(record, rating, reply) if options.expected_score else record


def _with_expected(record: Score, rating: Rating, reply: str) -> Score:
    """The record with the score that was to be expected, or with the written one and why that counts."""
    asked = consulted.get()
    choices = asked.choices if asked is not None else ()
    found = expected_score(reply, rating.source, rating.score, choices)
    details = {"written": rating.score, "expected": None, **record.details}
    if found is None:
        why = "do not tell how likely that score was" if choices else "did not come"
        said = f"The written score counts, for the judge's log-probabilities {why}."
        return replace(record, reason=f"{_sentence(record.reason)} {said}", details=details)
    said = f"Expected score {found.score:.2f}, written {rating.score:g}."
    counted = measured_score(found.score, record.threshold)
    return replace(
        record,
        score=counted.score,
        result=counted.result,
        reason=f"{_sentence(record.reason)} {said}",
        details={**details, "expected": found.score, "levels": found.levels},
    )


def _sentence(text: str) -> str:
    return text if text.endswith((".", "!", "?")) else f"{text}."


def _reply_schema(scale: Scale | None, labels: Sequence[str], *, may_skip: bool) -> Mapping[str, Any]:
    """The schema of a reply: on another scale its score is another, and where it may skip it has a result."""
    schema = rating_schema(labels)
    if scale is not None:
        bounds = {"minimum": scale.lowest, "maximum": scale.highest}
        score = {"enum": list(scale.labels)} if scale.labels else {"type": "number", **bounds}
        schema = {**schema, "properties": {**schema["properties"], "score": score}}
    if not may_skip:
        return schema
    properties = {**schema["properties"], "result": {"enum": [SKIPPED]}}
    return {**schema, "properties": properties, "required": ["reason"]}


class RatedEvaluator(Evaluator):
    """An evaluator whose score is a judge's rating from 1 to 5, by the shipped prompt of its name."""

    measure = RATING.measure
    judged = True
    compares = True
    lowest = 1.0
    Options: ClassVar[type[JudgedOptions]] = RatingOptions
    shows: ClassVar[tuple[str, ...]] = ("steps",)
    """The parts of the evidence that the judge sees next to the texts."""
    texts: ClassVar[Mapping[str, Callable[[Evidence], str]]] = {}
    """Texts of the evidence that the prompt names, beyond conversation, request and answer."""
    trusted: ClassVar[Mapping[str, Callable[[Any], object]]] = {}
    """Values of the options that the prompt names."""

    async def score(self, evidence: Evidence) -> Score:
        """Ask for the rating."""
        trusted = {name: value(self.options) for name, value in self.trusted.items()}
        return await self.rate(evidence, trusted)

    async def rate(self, evidence: Evidence, trusted: Mapping[str, object], labels: Sequence[str] = ()) -> Score:
        """The rating, with the best one for an answer withheld on purpose; the last label then says "nothing"."""
        if self.judges_withheld and (why := withheld(evidence)):
            reason = f"it was {why}, so nothing of it was said"
            return measured_score(5.0, self.options.threshold, reason, label=labels[-1] if labels else None)
        texts = {name: text(evidence) for name, text in self.texts.items()}
        return await rate_answer(self, evidence, texts, trusted, shows=self.shows, labels=labels)


class Relevance(RatedEvaluator):
    """Passes when the answer addresses the request directly and fully.

    A judge rates from 1 (not at all) over 3 (partly) to 5 (fully), and sees the conversation, the request and the
    answer. Facts are not checked.
    """

    name = "Relevance"
    family = "M365"
    needs = ("response", "prompt")
    levelled = True
    Options = LevelledOptions
    example: ClassVar = {
        "options": {"threshold": 4},
        "prompt": "What is the capital of Australia?",
        "response": "Canberra.",
        "judge_reply": '{"reason": "The capital is named.", "score": 5}',
    }


class Coherence(RatedEvaluator):
    """Passes when the answer is logical, orderly and easy to follow.

    A judge rates from 1 (scattered) over 3 (can be followed with effort) to 5 (clear and well organised). Whether the
    answer is right or on the subject does not matter here.
    """

    name = "Coherence"
    family = "M365"
    levelled = True
    Options = LevelledOptions
    example: ClassVar = {
        "prompt": "How do I file expenses?",
        "response": "First collect the receipts. Then open the form and attach them.",
        "judge_reply": '{"reason": "Two steps in a workable order.", "score": 5}',
    }


class Groundedness(RatedEvaluator):
    """Passes when the claims of the answer are supported by the context.

    A judge rates from 1 (unsupported) over 3 (partly supported) to 5 (every claim is supported). With the rubric m365,
    3 means that nothing needs a source, and 2 that a claim is not supported. The sources are the item's `context`, the
    retrieved chunks and the results of tools; without any, its expected response.
    """

    name = "Groundedness"
    family = "M365"
    levelled = True
    Options = LevelledOptions
    example: ClassVar = {
        "prompt": "How many days may I work from home?",
        "context": "Staff may work from home up to three days a week.",
        "response": "Up to three days a week.",
        "judge_reply": '{"reason": "The source says three days.", "score": 5}',
    }

    async def score(self, evidence: Evidence) -> Score:
        """Rate the grounding."""
        sources, grounded_in = source_of(evidence)
        if not sources and (reference := reference_text(evidence)).strip():
            return await rate_answer(self, evidence, {"source": reference}, shows=(), grounded_in="expected")
        if not sources:
            raise Misconfigured(
                "Groundedness needs something to hold the answer against (context, chunks, what tools gave or an "
                "expected response), and there is nothing"
            )
        return await rate_answer(self, evidence, parts={"source": sources}, shows=(), grounded_in=grounded_in)


class Similarity(RatedEvaluator):
    """Passes when the answer means the same as the expected response.

    A judge rates from 1 (another meaning) over 3 (some main facts agree) to 5 (the same meaning). Of several
    references the closest counts; wording does not.
    """

    name = "Similarity"
    family = "M365"
    needs = ("response", "expected")
    texts: ClassVar = {"reference": reference_text}
    example: ClassVar = {
        "prompt": "When does the shop close?",
        "response": "At 6 pm.",
        "expected": "The shop closes at 18:00.",
        "judge_reply": '{"reason": "The same time in another notation.", "score": 5}',
    }


class Rubric(RatedEvaluator):
    """Passes when the answer meets criteria you write in your own words.

    A judge rates from 1 (no criterion met) over 3 (some that matter are met) to 5 (all met), or on the `scale` of the
    options, unless the criteria say themselves what earns which score. What does not meet the condition `applies` is
    skipped. The judge also sees what there is of the expected response, the context, tool calls with their results,
    retrieved chunks and diagnostics.
    """

    name = "Rubric"
    family = "model-graded"
    labelled = True
    Options = RubricOptions
    example: ClassVar = {
        "options": {"criteria": "Names a price and a currency."},
        "prompt": "What does it cost?",
        "response": "It costs 12 euros.",
        "judge_reply": '{"reason": "Both are named.", "score": 5}',
    }

    async def score(self, evidence: Evidence) -> Score:
        """Rate against the criteria."""
        texts = {"reference": reference_text(evidence), "context": evidence.context or ""}
        scale = self.options.own_scale
        trusted = {
            "criteria": self.options.criteria,
            "applies": self.options.applies or "",
            **dict.fromkeys(("scale", "scores", "score"), ""),
            **({} if scale is None else _scale_words(scale)),
        }
        return await rate_answer(self, evidence, texts, trusted, shows=EVIDENCE)

    @property
    def passing_score(self) -> float | None:
        """The threshold of the options, or the one its own scale sets."""
        scale: Scale | None = self.options.own_scale
        return super().passing_score if scale is None else threshold_on(scale, self.options)

    def empty_score(self) -> Score | None:
        """The lowest score; where the criteria need not apply the judge is asked."""
        scale: Scale | None = self.options.own_scale
        if self.options.applies is not None:
            return None
        if scale is None:
            return super().empty_score()
        return scale.score(scale.worst, threshold_on(scale, self.options), EMPTY_ANSWER)


def _scale_words(scale: Scale) -> dict[str, str]:
    """How the prompt speaks of a scale: what its scores mean, which there are, and how a reply gives one."""
    met, unmet = (
        "every criterion is met",
        "no criterion is met, something the criteria forbid is done, or there is no content to judge",
    )
    if not scale.labels:
        low, middle, high = map(plain_number, (scale.lowest, scale.threshold, scale.highest))
        lines = (
            "Scores:",
            f"{high} - Fully: {met}.",
            f"{middle} - Partly: some criteria that matter are met and some are not.",
            f"{low} - Not at all: {unmet}.",
            "What lies between these gets a number between.",
        )
        return {"scale": "\n".join(lines), "scores": f"a number {scale}", "score": "<number>"}
    worths = {label: value for label, value in scale.labels.items() if value is not None}
    best = scale.best_first
    last = unmet if len(best) > 2 else "otherwise"
    none = [f"{label} - the criteria do not apply here." for label in scale.labels if label not in worths]
    listed = ["Scores, the best first:", f"{best[0]} - {met}.", *best[1:-1], f"{best[-1]} - {last}.", *none]
    return {"scale": "\n".join(listed), "scores": "one of these words", "score": '"<word>"'}
