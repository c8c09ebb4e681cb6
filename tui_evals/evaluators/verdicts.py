"""Forms of a judge's verdict: a score on a scale, or a checklist with a yes or no per entry."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import field, replace
from functools import partial
from typing import Annotated, Any, ClassVar

from pydantic import AfterValidator, Field, WithJsonSchema

from tui_evals.light_records import dataclass
from tui_evals.text.measures import Measure, plain_number

from .base import Evaluator, Evidence, JudgedOptions, Options, Score, measured_score, skipped_score
from .judging import (
    Parts,
    Piece,
    UnreadableReply,
    ask_judge,
    judge_question,
    refuse_quotation,
    reply_text,
    required_verdict,
    verdict_object,
)
from .values import quoted_list

YES_NO = "yes/no"
SKIPPED = "skipped"
"""The `result` of a reply that says the answer is not to be judged by this."""
_NUMBER = re.compile(r"-?\d{1,9}(?:\.\d{1,9})?")
_AROUND = " \t\r\n*_#>.`\"'"


class WrongScale(ValueError):
    """The declared scale is invalid; the message shows valid ones."""


class OffScale(ValueError):
    """A score that is not on the scale; the message says so."""


@dataclass(frozen=True, slots=True)
class Scale:
    """The scores there are."""

    lowest: float
    highest: float
    whole: bool = False
    """Whether only whole numbers are scores."""
    labels: Mapping[str, float | None] = field(default_factory=dict)
    """The values of labels, if it has labels; a label without a value means that there is nothing to judge."""

    @property
    def threshold(self) -> float:
        """The score from which an answer passes unless another is given: the middle, of labels the best."""
        return self.highest if self.labels else (self.lowest + self.highest) / 2

    @property
    def worst(self) -> float | str:
        """The lowest score there is, as it would be said."""
        return next((label for label, value in self.labels.items() if value == self.lowest), self.lowest)

    @property
    def best_first(self) -> tuple[str, ...]:
        """The labels with a value, the best first; equal ones in the direction in which the labels are declared."""
        worths = {label: value for label, value in self.labels.items() if value is not None}
        declared = list(worths)
        if worths and worths[declared[0]] < worths[declared[-1]]:
            declared.reverse()
        return tuple(sorted(declared, key=worths.__getitem__, reverse=True))

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
        """The number and the label of a score; no number if the label means that there is nothing to judge."""
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
"""The scale of ratings from 1 to 5."""


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
        "a scale is [lowest, highest], such as [0, 1], or yes/no, or labels with at least two different values, "
        "such as {good: 1, fair: 0.5, bad: 0}; a label whose value is null skips"
    )


def label_scale(kind: type[Evaluator], options: Any) -> Scale | None:
    """The scale of labels in the options, for an evaluator whose score depends on a label."""
    declared = options.scale if kind.labelled else None
    scale = None if declared is None else parse_scale(declared)
    return scale if scale is not None and scale.labels else None


def _finite(value: object) -> float | None:
    number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    return float(value) if number else None  # type: ignore[arg-type]


def _checked(declared: Any) -> Any:
    if declared is not None:
        parse_scale(declared)
    return declared


_FORMS = WithJsonSchema({"anyOf": [{"type": "array"}, {"const": YES_NO}, {"type": "object"}, {"type": "null"}]})


class ScaledOptions(Options):
    """Options of evaluators whose scale can be declared."""

    scale: Annotated[Any, AfterValidator(_checked), _FORMS] = Field(
        None,
        description="The scores there are: [lowest, highest], yes/no, or labels with their values, such as "
        '{"good": 1, "fair": 0.5, "bad": 0}; a label whose value is null skips.',
    )


def threshold_on(scale: Scale, options: Any, declared: float | None = None) -> float | None:
    """The passing score: from the options (null for none), else the declared one, else the scale's own."""
    if "threshold" in options.model_fields_set:
        return None if options.threshold is None else float(options.threshold)
    return scale.threshold if declared is None else declared


def threshold_problem(scale: Scale, threshold: float | None) -> str | None:
    """Why a threshold makes no sense on a scale, if it does not."""
    if threshold is None or scale.lowest <= threshold <= scale.highest:
        return None
    return f"the threshold {threshold:g} is not on the scale, {scale}"


def skipped_reason(reply: str, judged: Collection[str] = ()) -> str | None:
    """Why a judge found nothing to judge; None if the reply is another verdict."""
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
    """The score in a judge's reply, in its own words, and the reason; UnreadableReply if it is not on the scale."""
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
    """The score of a reply without JSON: the whole reply, or its first or last line."""
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


LONG_REPLY = 4096
"""Tokens that a judge has for a list."""
Entries = list[dict[str, Any]]


class ShareOptions(JudgedOptions):
    """Options of evaluators whose score is a share."""

    threshold: float = Field(0.7, ge=0, le=1, description="The share from which it passes.")


@dataclass(frozen=True, slots=True)
class Checklist:
    """The form of a list in a reply: its key, the subject of an entry, and its yes or no."""

    key: str
    about: str
    verdict: str
    count: int | None = None
    """How many entries there must be, numbered from 1; None where the judge finds them and writes what each is."""
    numbers: tuple[int, ...] = ()
    """Their numbers, where these are others."""
    least: int = 0
    """How many entries there must be, where the judge finds them."""

    @property
    def wanted(self) -> tuple[int, ...] | None:
        """The numbers of the entries; None where they are not numbered."""
        return self.numbers or (None if self.count is None else tuple(range(1, self.count + 1)))

    @property
    def schema(self) -> Mapping[str, Any]:
        """Its JSON Schema."""
        entry = {
            "type": "object",
            "properties": {
                self.about: {"type": "string" if self.wanted is None else "integer"},
                "reason": {"type": "string"},
                self.verdict: {"type": "boolean"},
            },
            "required": [self.about, "reason", self.verdict],
            "additionalProperties": False,
        }
        return {"type": "array", "items": entry}

    @property
    def form(self) -> str:
        """The form as text, for a judge."""
        about = '"..."' if self.wanted is None else "1"
        return f'"{self.key}": [{{"{self.about}": {about}, "reason": "...", "{self.verdict}": true}}]'

    def fits(self, value: object) -> bool:
        """Whether a value is such a list, with an entry for each number where they are numbered."""
        if not isinstance(value, list) or not all(isinstance(entry, dict) for entry in value):
            return False
        if not all(
            isinstance(entry.get(self.verdict), bool) and isinstance(entry.get("reason", ""), str) for entry in value
        ):
            return False
        if self.wanted is None:
            return len(value) >= self.least and all(isinstance(entry.get(self.about), str) for entry in value)
        numbers = [entry.get(self.about) for entry in value]
        return all(type(number) is int for number in numbers) and sorted(numbers) == sorted(self.wanted)


def lists_schema(lists: Sequence[Checklist]) -> Mapping[str, Any]:
    """The JSON Schema of a reply that holds these lists."""
    return {
        "type": "object",
        "properties": {one.key: one.schema for one in lists},
        "required": [one.key for one in lists],
        "additionalProperties": False,
    }


def read_lists(reply: str, lists: Sequence[Checklist], judged: Collection[str] = ()) -> dict[str, Entries]:
    """The lists in a reply to the texts that were judged, numbered entries in their order."""
    form = "{" + ", ".join(one.form for one in lists) + "}"
    verdict = required_verdict(reply, lists[0].key, lists[0].fits, judged, form)
    for one in lists:
        if not one.fits(verdict.get(one.key)):
            raise UnreadableReply(f"it holds no valid {one.key}; one JSON object {form} was expected")
    return {
        one.key: verdict[one.key]
        if one.wanted is None
        else sorted(verdict[one.key], key=lambda entry: entry[one.about])
        for one in lists
    }


async def ask_lists(
    evaluator: Evaluator,
    lists: Sequence[Checklist],
    texts: Mapping[str, str],
    parts: Parts | None = None,
    trusted: Mapping[str, object] | None = None,
) -> tuple[dict[str, Entries], str]:
    """The lists that a judge makes by the prompt that bears the evaluator's name, and its reply."""
    question = judge_question(
        evaluator.name.lower(), texts, trusted, parts=parts, schema=lists_schema(lists), judge=evaluator.options.judge
    )
    judged = [*texts.values(), *(piece.text for part in (parts or {}).values() for piece in part)]
    read = partial(read_lists, lists=lists, judged=judged)
    return await ask_judge(evaluator.ask, replace(question, max_tokens=LONG_REPLY), read)


def share_score(
    entries: Entries, form: Checklist, threshold: float, reply: str, *, nothing: str, **details: object
) -> Score:
    """The share of entries with a yes, with all entries; without entries it passes, with a reason."""
    good = [entry for entry in entries if entry[form.verdict]]
    bad = [entry for entry in entries if not entry[form.verdict]]
    shown: dict[str, Any] = {
        form.key: entries,
        "counted": len(entries),
        form.verdict: len(good),
        **details,
        "reply": reply,
    }
    if not entries:
        return measured_score(1.0, threshold, nothing, **shown)
    reason = f"{form.verdict}, {len(good)} of {len(entries)}"
    if bad:
        named = [about if isinstance(about := entry[form.about], str) else f"{form.about} {about}" for entry in bad]
        reason += f"; not: {quoted_list(named)}"
    return measured_score(len(good) / len(entries), threshold, reason, **shown)


class ChecklistEvaluator(Evaluator):
    """An evaluator whose score is the share of yeses in the list that a judge writes, by the prompt of its name."""

    measure = Measure("at least")
    judged = True
    compares = True
    Options: ClassVar[type[JudgedOptions]] = ShareOptions
    form: ClassVar[Checklist]
    parts: ClassVar[Mapping[str, Callable[[Evidence], Sequence[Piece]]]]
    """The parts of the evidence that the prompt names."""
    nothing: ClassVar[str] = ""
    """The reason of an answer that passes because the list is empty."""
    skips: ClassVar[str] = ""
    """The reason of an answer that is skipped because the list is empty."""

    async def score(self, evidence: Evidence) -> Score:
        """Ask for the list."""
        parts = {name: pieces(evidence) for name, pieces in self.parts.items()}
        lists, reply = await ask_lists(self, [self.form], {}, parts)
        entries = lists[self.form.key]
        if self.skips and not entries:
            return skipped_score(self.skips)
        return share_score(entries, self.form, self.options.threshold, reply, nothing=self.nothing)
