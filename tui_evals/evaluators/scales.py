"""The scale on which an evaluator scores, declared alike by all: its two ends, yes/no, or labels with their values."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Any

from pydantic import AfterValidator, Field, WithJsonSchema

from tui_evals.text.measures import Measure, plain_number

from .base import Options, Score, measured_score, skipped_score
from .judging import UnreadableReply, refuse_quotation, reply_text, verdict_object

YES_NO = "yes/no"
SKIPPED = "skipped"
"""The `result` of a reply that says the answer is not to be judged by this."""
_NUMBER = re.compile(r"-?\d{1,9}(?:\.\d{1,9})?")
_AROUND = " \t\r\n*_#>.`\"'"


class WrongScale(ValueError):
    """What is declared is no scale; the message says what one looks like."""


class OffScale(ValueError):
    """A score that is not on the scale; the message says so."""


@dataclass(frozen=True, slots=True)
class Scale:
    """The scores there are."""

    lowest: float
    highest: float
    whole: bool = False
    """Whether nothing lies between whole numbers."""
    labels: Mapping[str, float | None] = field(default_factory=dict)
    """The values of labels, where it has some; one without a value says that there is nothing to judge."""

    @property
    def threshold(self) -> float:
        """The score from which an answer passes unless another is given: the middle, of labels the best."""
        return self.highest if self.labels else (self.lowest + self.highest) / 2

    @property
    def worst(self) -> float | str:
        """The lowest score there is, as it would be said."""
        return next((label for label, value in self.labels.items() if value == self.lowest), self.lowest)

    @property
    def measure(self) -> Measure:
        """How its scores are written and compared."""
        return Measure("at least", bounds=(self.lowest, self.highest))

    def __str__(self) -> str:
        if self.labels:
            listed = [
                f"{label} ({SKIPPED if value is None else plain_number(value)})" for label, value in self.labels.items()
            ]
            return f"{', '.join(listed[:-1])} or {listed[-1]}"
        kind = "a whole number " if self.whole else ""
        return f"{kind}from {plain_number(self.lowest)} to {plain_number(self.highest)}"

    def read(self, value: object) -> tuple[float | None, str | None]:
        """The number of a score and its label; no number where the label says that there is nothing to judge."""
        if self.labels:
            label = self._label(value)
            return self.labels[label], label
        number = _number(value)
        if number is None or not self.lowest <= number <= self.highest or (self.whole and number != int(number)):
            raise self._off(value)
        return number, None

    def _label(self, value: object) -> str:
        word = {True: "yes", False: "no"}[value] if isinstance(value, bool) else value
        by_word = {label.casefold(): label for label in self.labels}
        if isinstance(word, str) and (found := by_word.get(word.strip(_AROUND).casefold())) is not None:
            return found
        number = _number(value)
        found = next((label for label, worth in self.labels.items() if worth is not None and worth == number), None)
        if found is None:
            raise self._off(value)
        return found

    def _off(self, value: object) -> OffScale:
        shown = f"{value:g}" if isinstance(value, int | float) and not isinstance(value, bool) else repr(value)[:40]
        return OffScale(f"{shown} is not on its scale, {self}")

    def score(self, value: object, threshold: float | None, reason: str, **details: object) -> Score:
        """The record of a score; OffScale for one that is not on the scale."""
        number, label = self.read(value)
        if number is None:
            return replace(skipped_score(reason), label=label, details=details)
        record = measured_score(number, threshold, reason, label=label, **details)
        return replace(record, measure=str(self.measure))


def _number(value: object) -> float | None:
    if isinstance(value, str):
        return float(value) if _NUMBER.fullmatch(value := value.strip(_AROUND)) else None
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


RATING = Scale(1.0, 5.0, whole=True)
"""That of judges which answer as those of M365 do."""


def parse_scale(declared: object) -> Scale:
    """The scale that is declared: `[0, 1]`, `yes/no`, or labels with values, such as `{good: 1, fair: 0.5, bad: 0}`."""
    if isinstance(declared, str) and declared.strip().casefold() == YES_NO:
        declared = {"yes": 1, "no": 0}
    if isinstance(declared, list | tuple) and len(declared) == 2:
        low, high = map(_finite, declared)
        if low is not None and high is not None and low < high:
            return Scale(low, high)
    if isinstance(declared, Mapping) and all(isinstance(label, str) and label.strip(_AROUND) for label in declared):
        labels = {label: None if value is None else _finite(value) for label, value in declared.items()}
        values = [value for value in labels.values() if value is not None]
        given = [value for value in declared.values() if value is not None]
        distinct = {label.strip(_AROUND).casefold() for label in labels}
        if len(values) == len(given) and len(set(values)) > 1 and len(distinct) == len(labels):
            return Scale(min(values), max(values), labels=labels)
    raise WrongScale(
        "a scale is [lowest, highest], such as [0, 1], or yes/no, or labels of which two at least differ in value, "
        "such as {good: 1, fair: 0.5, bad: 0}; a label whose value is null skips"
    )


def _finite(value: object) -> float | None:
    number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    return float(value) if number else None  # type: ignore[arg-type]


def _checked(declared: Any) -> Any:
    if declared is not None:
        parse_scale(declared)
    return declared


_FORMS = WithJsonSchema({"anyOf": [{"type": "array"}, {"const": YES_NO}, {"type": "object"}, {"type": "null"}]})


class ScaledOptions(Options):
    """For evaluators whose scale can be declared."""

    scale: Annotated[Any, AfterValidator(_checked), _FORMS] = Field(
        None,
        description="The scores there are: [lowest, highest], yes/no, or labels with their values, such as "
        '{"good": 1, "fair": 0.5, "bad": 0}; a label whose value is null skips.',
    )


def threshold_on(scale: Scale, options: Any, declared: float | None = None) -> float | None:
    """The score from which it passes: what the options say (null for none), else the declared, else the scale's own."""
    if "threshold" in options.model_fields_set:
        return None if options.threshold is None else float(options.threshold)
    return scale.threshold if declared is None else declared


def threshold_problem(scale: Scale, threshold: float | None) -> str | None:
    """Why a threshold makes no sense on a scale, if it does not."""
    if threshold is None or scale.lowest <= threshold <= scale.highest:
        return None
    return f"the threshold {threshold:g} is not on the scale, {scale}"


def skipped_reason(reply: str, judged: Collection[str] = ()) -> str | None:
    """Why a judge's reply says that there is nothing to judge; None where it does not say so."""
    text = reply_text(reply)
    if not _SKIPS.search(text):
        return None
    verdict = verdict_object(text, "result", lambda value: value == SKIPPED, judged)
    if verdict is None or verdict.get("score") is not None:
        raise UnreadableReply("it skips and scores at once")
    return str(verdict.get("reason") or "")


_SKIPS = re.compile(rf'"result"\s*:\s*"{SKIPPED}"')
_NAMED = re.compile(r"(?:final |overall )?(?:score|rating|verdict)[ *_]{0,4}[:=](.*)", re.IGNORECASE)


def read_on_scale(reply: str, scale: Scale, judged: Collection[str] = ()) -> tuple[Any, str]:
    """The score in a judge's reply, as it is said there, and the reason; a reply beyond the scale is none."""
    try:
        text = reply_text(reply)
        verdict = verdict_object(text, "score", lambda value: value is not None, judged) if "{" in text else None
        value = _score_in_words(text, scale, judged) if verdict is None else verdict["score"]
        scale.read(value)
    except (OffScale, UnreadableReply) as problem:
        shown = '"<label>"' if scale.labels else "n"
        form = f'{{"reason": "...", "score": {shown}}} with a score that is {scale}'
        raise UnreadableReply(f"{problem}; one JSON object {form} was expected") from None
    reason = verdict.get("reason") or verdict.get("explanation") if verdict else text
    return value, reason if isinstance(reason, str) else ""


def _score_in_words(text: str, scale: Scale, judged: Collection[str]) -> str:
    """The score of a reply without JSON: the whole of it, or what its first or last line gives."""
    lines = [line.strip(_AROUND) for line in text.splitlines() if line.strip(_AROUND)]
    said: dict[object, str] = {}
    for line in dict.fromkeys([*lines[:1], *lines[-1:]]):
        named = _NAMED.fullmatch(line)
        word = named[1].strip(_AROUND) if named else line
        if _is_on(word, scale):
            if named or len(lines) > 1:
                refuse_quotation(line, judged)
            said[scale.read(word)] = word
    if len(said) != 1:
        raise UnreadableReply("it gives more than one score" if said else "it gives no score")
    return next(iter(said.values()))


def _is_on(word: str, scale: Scale) -> bool:
    try:
        scale.read(word)
    except OffScale:
        return False
    return True
