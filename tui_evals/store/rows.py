"""Between rows of the tables and the frozen records: columns, JSON that can always be stored, and what readers add."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, field, fields, replace
from functools import wraps
from operator import attrgetter
from typing import Any, Literal, NamedTuple, ParamSpec, TypeVar, get_args

from tui_evals.figures import Figure, Interval, Sample, mean_interval, pass_rate
from tui_evals.light_records import dataclass
from tui_evals.store.connection import StoreError
from tui_evals.text.measures import parse_measure
from tui_evals.text.model_output import ending_word
from tui_evals.transcript import decode_at, from_json, long_transcript, read_object, to_json

from .records import (
    AnswerRecord,
    AnswerRow,
    AnswerStatus,
    CallRecord,
    CheckedGate,
    RunRow,
    ScoreRecord,
    Wait,
    WorkerRow,
)

T = TypeVar("T")
P = ParamSpec("P")


def _from_store(decode: Callable[P, T]) -> Callable[P, T]:
    """Turns exceptions for a value that tui-evals did not write into a StoreError."""

    @wraps(decode)
    def checked(*given: P.args, **named: P.kwargs) -> T:
        try:
            return decode(*given, **named)
        except (TypeError, ValueError, KeyError, AttributeError, RecursionError) as problem:
            raise StoreError(
                "the store holds what tui-evals never wrote into it. Another program changed it or made it "
                "up. Open a backup, or move it away to start a new one."
            ) from problem

    return checked


@_from_store
def loads(text: str) -> Any:
    """The value of a JSON column; StoreError if something else was put into it."""
    return json.loads(text)


ANSWER_COLUMNS = tuple(field.name for field in fields(AnswerRow) if field.name != "incomplete")
RUN_COLUMNS = tuple(field.name for field in fields(RunRow))
RUN_SELECTED = (
    ", ".join(RUN_COLUMNS[:-3]) + ", (SELECT count(*) FROM staged WHERE run = runs.id), (SELECT count(*) FROM "
    "(SELECT e.judging ->> '$.expected' AS expected, max(e.id) FROM earlier e WHERE e.run = runs.id "
    "AND e.judging IS NOT NULL AND e.judging ->> '$.pass' = runs.scoring_pass GROUP BY e.answer) "
    "WHERE expected IS NOT NULL), (SELECT count(*) FROM earlier WHERE run = runs.id AND judging IS NOT NULL)"
)
"""The selected columns of a run; the last three are counts."""
SCORE_COLUMNS = tuple(field.name for field in fields(ScoreRecord))
CALL_COLUMNS = tuple(field.name for field in fields(CallRecord))
WORKER_COLUMNS = tuple(field.name for field in fields(WorkerRow))
call_values: Callable[[CallRecord], tuple[Any, ...]] = attrgetter(*CALL_COLUMNS)
"""A call as a row of the columns CALL_COLUMNS."""
worker_values: Callable[[WorkerRow], tuple[Any, ...]] = attrgetter(*WORKER_COLUMNS)
"""A worker as a row of the columns WORKER_COLUMNS."""
_FROM_CACHE, _SCRIPTED = ANSWER_COLUMNS.index("from_cache"), ANSWER_COLUMNS.index("scripted")
_RUN_JSON = ("targets", "prompts", "tags")
_BODY = tuple((field.name, field.default) for field in fields(AnswerRecord) if field.name not in ("text", "request"))
_body_values: Callable[[AnswerRecord], tuple[Any, ...]] = attrgetter(*(name for name, _ in _BODY))
_PREVIEW = 80
PREVIEWED = 5 * _PREVIEW
"""Characters of an answer that its preview is made of."""
_USUAL_ENDINGS = ("stop", "tool_calls")


@dataclass(frozen=True, slots=True)
class Label:
    """A person's verdict on an answer as a whole, or on what one evaluator made of it."""

    run: int
    answer: int
    evaluator: str | None
    verdict: Literal["pass", "fail"]
    author: str
    time: float
    note: str
    blind: bool = False
    """The author had not seen any score of it."""


@dataclass(frozen=True, slots=True)
class Draft:
    """Unsaved edits of a file; the digest is that of the file they were made to."""

    file: str
    digest: str
    data: str
    time: float


@dataclass(frozen=True, slots=True)
class GroupScore:
    """One evaluator's record for all answers to one item and turn."""

    scoring_pass: int
    item: int
    turn: int
    record: ScoreRecord


@dataclass(frozen=True, slots=True)
class ScoringPass:
    """One scoring of a run's answers, and its basis."""

    number: int
    created: float
    config: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class JudgedBy:
    """The expectations of a run in its current scoring pass."""

    document: Mapping[str, Any]
    since: float
    """When it was judged so: when the run began, or was judged again by an edited dataset."""
    digest: str = ""
    """The snapshot whose expectations these are; empty if unknown."""


EXPECTATION = ("expected_response", "ideal", "evaluators", "threshold")
"""The fields of an item or turn that hold its expectation."""


def judged_document(asked: Mapping[str, Any], judging: Mapping[str, Any]) -> dict[str, Any]:
    """The dataset `asked` with the expectations of `judging`, which has the same items and turns."""
    items = [with_expectation(*both) for both in zip(asked.get("items", ()), judging.get("items", ()), strict=False)]
    return {**asked, "default_evaluators": judging.get("default_evaluators"), "items": items}


def with_expectation(asked: Mapping[str, Any], judging: Mapping[str, Any]) -> dict[str, Any]:
    """An item or turn as it was asked, with the expectation of `judging`."""
    item = {name: value for name, value in asked.items() if name not in EXPECTATION}
    item |= {name: judging[name] for name in EXPECTATION if judging.get(name) is not None}
    turns = asked.get("turns")
    if isinstance(turns, list):
        item["turns"] = [
            with_expectation(*both) for both in zip(turns, judging.get("turns") or ({},) * len(turns), strict=False)
        ]
    return item


@dataclass(frozen=True, slots=True)
class Cached:
    """An answer kept in the cache."""

    key: str
    recipe: str
    target: str
    created: float
    answer: AnswerRecord
    run: str = ""
    """The key of the run that asked it; empty if unknown."""


@dataclass(frozen=True, slots=True)
class CacheInfo:
    """How much the cache holds."""

    entries: int
    characters: int
    oldest: float | None


@dataclass(frozen=True, slots=True)
class ScoreSpread:
    """How many scores of an evaluator are in each of the equal parts between two ends."""

    low: float
    high: float
    counts: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluatorMean:
    """How one evaluator scored one column, or the whole run where prompt and target are None."""

    key: str
    evaluator: str
    scope: Literal["answer", "group"]
    """Whether its records are of answers, or of all answers to an item together, which belong to no column."""
    prompt: int | None
    target: int | None
    scored: int
    """How many records hold a number; the mean is over these."""
    mean: float | None
    passed: int
    failed: int
    errored: int
    skipped: int
    measure: str = ""
    """The measure of its scores."""
    squares: float | None = None
    """The mean of the squared numbers, which tells how far they spread."""
    least: float | None = None
    most: float | None = None
    """The lowest and the highest number."""
    labels: Mapping[str, int] = field(default_factory=dict)
    """How often each label was given by a record that neither passes nor fails."""
    rated: Sample | None = None
    """Its verdicts by item; None if columns, which share their items, would be pooled."""
    values: Sample | None = None
    """Its numbers by item, for the same columns; also None if there are several scales."""

    @property
    def pass_rate(self) -> Figure | None:
        """The share of its verdicts that pass."""
        return pass_rate(self.rated, missing=self.errored)

    @property
    def mean_figure(self) -> Figure | None:
        """The mean of its numbers; None where it gave none, or where columns would be pooled."""
        if self.mean is None or self.values is None or not self.values.answers:
            return None
        own = parse_measure(self.measure)
        given = [value for value in (self.least, self.most) if value is not None]
        interval, method = mean_interval(self.values, own.limits(given))
        return Figure(self.mean, self.values.items, self.values.answers, interval, method, own.unit, "scored")


class AnswerDetail(NamedTuple):
    """An answer with its texts and current scores; a plain tuple, because a run has many."""

    row: AnswerRow
    answer: AnswerRecord | None
    scores: tuple[ScoreRecord, ...]
    together: tuple[ScoreRecord, ...]
    """The scores of all answers to its item and turn, which count into the status of none of them."""
    rejudged: EarlierAttempt | None = None
    """Its earlier state, if it is judged by an edited expectation."""


class Mark(NamedTuple):
    """The fields of a score that figures need; a plain tuple, because hundreds of thousands are created at once."""

    key: str
    score: float | None
    result: str | None
    threshold: float | None
    label: str | None
    weight: float


@dataclass(frozen=True, slots=True)
class Rejudged:
    """A single answer judged again in its run, and its verdict before."""

    scoring_pass: int
    status: AnswerStatus
    score: float | None
    expected: Mapping[str, Any] | None = None
    """The expectation then, `default_evaluators` and `item`; None if it was that of its run."""

    def item(self, asked: Mapping[str, Any], turn: int) -> Mapping[str, Any]:
        """The item `asked` with the expectation that the answer to `turn` was judged by."""
        if self.expected is None:
            return asked
        judged = with_expectation(asked, self.expected["item"])
        turns = asked.get("turns")
        if isinstance(turns, list):
            judged["turns"] = [judged["turns"][n] if n == turn else one for n, one in enumerate(turns)]
        return judged


@dataclass(frozen=True, slots=True)
class EarlierAttempt:
    """An earlier state of an answer that was asked or judged again in its run."""

    time: float
    """When it was asked or judged again."""
    answer: AnswerRecord | None
    """The error that it had ended as; None where there was an answer, and it was only judged again."""
    scores: tuple[ScoreRecord, ...] = ()
    """The errors of evaluators, or all scores if this answer was judged again."""
    rejudged: Rejudged | None = None
    """How it was judged again, where that was asked of this answer."""


@dataclass(frozen=True, slots=True)
class Detail:
    """Everything that is known of one answer; scores by the number of their pass."""

    row: AnswerRow
    answer: AnswerRecord | None
    scores: Mapping[int, tuple[ScoreRecord, ...]]
    together: Mapping[int, tuple[ScoreRecord, ...]]
    """The score of all answers to its item and turn; counts into the status of none of them."""
    calls: tuple[CallRecord, ...]
    labels: tuple[Label, ...]
    earlier: tuple[EarlierAttempt, ...] = ()
    """Its earlier states in order; the calls hold every attempt."""


# Stored values are trees; checking them for cycles takes a third of the time.
_encoded = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), check_circular=False).encode


def rejudged_now(earlier: Sequence[EarlierAttempt], scoring_pass: int) -> EarlierAttempt | None:
    """The last time that a single answer was judged again, where that is what counts."""
    own = (one for one in reversed(earlier) if one.rejudged and one.rejudged.scoring_pass == scoring_pass)
    return next(own, None)


def expected_item(attempt: EarlierAttempt, asked: Mapping[str, Any], turn: int) -> Mapping[str, Any]:
    """The item `asked` with the expectation that `turn` was judged by after an earlier attempt."""
    return asked if attempt.rejudged is None else attempt.rejudged.item(asked, turn)


@_from_store
def rejudged_of(judging: str | None) -> Rejudged | None:
    """How an answer was judged again, from the column of table `earlier`."""
    if judging is None:
        return None
    kept = loads(judging)
    return Rejudged(kept["pass"], kept["status"], kept["score"], kept["expected"])


def dumps(value: object) -> str:
    """Compact JSON that SQLite accepts, even with unpaired surrogates from a model."""
    if value == {}:
        return "{}"
    text = _encoded(value)
    return text if storable(text) else json.dumps(value, separators=(",", ":"))


def cleaned(written: str, clean: Callable[[str], str]) -> str:
    """An object of JSON with its texts cleaned one by one: cleaned as a whole it might be JSON no more.

    Its own names are ours, and stay.
    """
    if clean(written) == written:
        return written
    return dumps({name: _within(value, clean) for name, value in loads(written).items()})


def _within(value: object, clean: Callable[[str], str]) -> object:
    if isinstance(value, dict):
        return {clean(name): _within(part, clean) for name, part in value.items()}
    if isinstance(value, list):
        return [_within(part, clean) for part in value]
    return clean(value) if isinstance(value, str) else value


def storable(text: str) -> bool:
    """Whether the text can be written as UTF-8."""
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def plain(text: str) -> str:
    """The text with question marks for what cannot be written as UTF-8."""
    return text if storable(text) else text.encode("utf-8", "replace").decode()


def preview(record: AnswerRecord) -> str:
    """The beginning of the answer, of its calls, or of its error, as one short line."""
    text = record.text if record.text is not None else record.message or ""
    if not text.strip() and record.tool_calls:
        text = " ".join(f"→ {call.get('name')}({call.get('arguments')})" for call in record.tool_calls)
    return plain(" ".join(text[:PREVIEWED].split())[:_PREVIEW])


def ending_of(record: AnswerRecord) -> str:
    """Why the target ended the answer, empty where it ended as usual; a refusal is one under any finish reason."""
    word = ending_word(record.finish_reason, record.diagnostics)
    return "" if word in _USUAL_ENDINGS else plain(word)


def body_of(record: AnswerRecord) -> tuple[str, str | None, str]:
    """The request, the text and the rest of an answer as its body holds them; defaults are left out."""
    values = zip(_BODY, _body_values(record), strict=True)
    rest = {name: value for (name, default), value in values if value is not default and value != default}
    if record.transcript is not None:
        rest["transcript"] = to_json(record.transcript)
    text = record.text
    if text is not None and not storable(text):
        rest["text"] = text
        text = plain(text)
    return dumps(record.request), text, dumps(rest)


_LONG = 2**18
"""From this many characters on, the messages of a transcript stay text until they are read."""


def _long_rest(text: str) -> dict[str, Any]:
    """The result of `loads`, except that the messages of a transcript stay text."""
    values: dict[str, Any] = {}

    def value(name: str, begin: int) -> int:
        values[name], end = (long_transcript if name == "transcript" else decode_at)(text, begin)
        return end

    if read_object(text, 0, value) != len(text):
        raise ValueError("something follows the JSON object")
    return values


@_from_store
def answer_record(request: str, text: str | None, rest: str) -> AnswerRecord:
    """An answer from its body."""
    values = {"text": text, **(loads(rest) if len(rest) < _LONG else _long_rest(rest))}
    for name in ("tool_calls", "steps"):
        if name in values:
            values[name] = tuple(values[name])
    if isinstance(values.get("transcript"), dict):
        values["transcript"] = from_json(values["transcript"])
    return AnswerRecord(request=loads(request) if request else {}, **values)


def answer_row(row: tuple[Any, ...]) -> AnswerRow:
    """A row of the columns ANSWER_COLUMNS, and whether it is incomplete."""
    values = list(row)
    values[-1] = row[-1] == 1
    values[_FROM_CACHE] = row[_FROM_CACHE] == 1
    values[_SCRIPTED] = row[_SCRIPTED] == 1
    return AnswerRow(*values)


_STATUSES: dict[str, AnswerStatus] = {status: status for status in get_args(AnswerStatus)}


@_from_store
def known_status(text: str) -> AnswerStatus:
    """The status of a column; StoreError if something else was put into it."""
    return _STATUSES[text]


def _texts(values: Sequence[object]) -> tuple[str, ...]:
    return tuple(_text(value) for value in values)


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"not a text: {type(value).__name__}")
    return value


@_from_store
def run_row(row: tuple[Any, ...]) -> RunRow:
    """A row of the columns RUN_COLUMNS."""
    values = dict(zip(RUN_COLUMNS, row, strict=True))
    values |= {name: _texts(loads(values[name])) for name in _RUN_JSON}
    values["config"] = dict(loads(values["config"]))
    if values["started"] is not None and values["finished"] is not None:  # stored under a clock that was set back
        values["finished"] = max(values["started"], values["finished"])
    values["gates"] = tuple(map(_gate, loads(values["gates"] or "[]")))
    values["waiting"] = Wait(**loads(values["waiting"])) if values["waiting"] else None
    return RunRow(**values)


def gates_text(gates: Sequence[CheckedGate]) -> str:
    """Checked gates as the store keeps them; empty for none."""
    return dumps([asdict(gate) for gate in gates]) if gates else ""


def _gate(kept: dict[str, Any]) -> CheckedGate:
    figure = kept.pop("figure")
    if figure is not None:
        ends = figure.pop("interval")
        figure = Figure(**figure, interval=ends and Interval(**ends))
    return CheckedGate(**kept, figure=figure)


def score_values(record: ScoreRecord) -> tuple[Any, ...]:
    """A score as a row of the columns SCORE_COLUMNS."""
    return (
        record.key,
        record.evaluator,
        record.score,
        record.result,
        record.threshold,
        None if record.label is None else plain(record.label),
        plain(record.reason),
        dumps(record.details),
        record.weight,
        record.measure,
        record.origin,
    )


def label_row(row: tuple[Any, ...]) -> Label:
    """A label from its columns; the last one says whether it was given blind."""
    return replace(Label(*row), blind=row[-1] == 1)


@_from_store
def score_record(row: tuple[Any, ...]) -> ScoreRecord:
    """A record from the columns SCORE_COLUMNS; records that earlier versions stored as JSON have no origin."""
    key, evaluator, score, result, threshold, label, reason, details, weight, measure, *origin = row
    return ScoreRecord(
        key=key,
        evaluator=evaluator,
        score=score,
        result=result,
        threshold=threshold,
        label=label,
        reason=reason,
        details={} if details == "{}" else loads(details),
        weight=weight,
        measure=measure,
        origin=origin[0] if origin else 0,
    )


def call_record(row: tuple[Any, ...]) -> CallRecord:
    """A row of the columns CALL_COLUMNS."""
    values = dict(zip(CALL_COLUMNS, row, strict=True))
    return CallRecord(**{**values, "from_cache": values["from_cache"] == 1})


def references(unit: Mapping[str, Any]) -> Sequence[str]:
    """The expected response of an item or turn, then its ideals."""
    ideal = unit.get("ideal")
    given = (unit.get("expected_response"), *(ideal if isinstance(ideal, list) else (ideal,)))
    return [text for text in given if isinstance(text, str)]
