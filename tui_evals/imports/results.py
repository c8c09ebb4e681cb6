"""Results JSON that `tui-evals export` wrote, read as the finished run it was exported from."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pydantic import BaseModel, Field, ValidationError

from tui_evals.datasets.document import Document, load
from tui_evals.datasets.model import Dataset, Item, Turn
from tui_evals.datasets.paths import DatasetError, Problem, path_text
from tui_evals.datasets.paths import Path as Place
from tui_evals.datasets.portable import PUBLIC
from tui_evals.datasets.resolve import EffectiveEvaluator, resolve_evaluators
from tui_evals.datasets.validate import parse_dataset, with_lines
from tui_evals.imports.base import Losses
from tui_evals.light_records import dataclass
from tui_evals.reports.results import TRANSCRIPT
from tui_evals.runs.prompting import PromptUnderTest, of_dataset
from tui_evals.runs.scoring import FORMAT_KEY
from tui_evals.store.database import StoreError
from tui_evals.store.records import AnswerRecord, ScoreRecord
from tui_evals.store.rows import answer_record
from tui_evals.text.measures import Measure, counted
from tui_evals.transcript import from_json

from .base import Importer
from .keeping import keep_run
from .recording import RecordedAnswer, RecordedGroup, Recording, chat_before, digest_of

COLUMN, TOGETHER, SKIPPED, REST = "tui_evals_run", "tui_evals_together", "tui_evals_skipped", "tui_evals_answer"
_ADDED = frozenset((COLUMN, TOGETHER, SKIPPED, REST, TRANSCRIPT, "tui_evals_status", "tui_evals_steps"))
OUTPUTS = ("response", "scores", "diagnostics", "status", "error", "summary")

Data = dict[str, Any]
Refuse = Callable[[str, Place], DatasetError]
"""The error of a place in the document."""


@dataclass(frozen=True, slots=True, order=True)
class Column:
    """The target of an item, its prompt under test, and the number of the repeat."""

    prompt: str
    target: str
    repeat: int


@dataclass(frozen=True, slots=True)
class ExportedItem:
    """An exported item: its position in the document, its item in the dataset, its column."""

    position: int
    item: int
    column: Column


@dataclass(slots=True)
class _Known:
    number: int
    columns: set[Column] = field(default_factory=set)


def entries_of(items: list[Data], alone: str, refuse: Refuse) -> tuple[list[Data], list[ExportedItem]]:
    """The items of the dataset with their entries; `alone` is the target if none is named.

    Equal entries are one item, until a column repeats, which means that the dataset has the item twice.
    """
    bare: list[Data] = []
    entries: list[ExportedItem] = []
    known: dict[str, list[_Known]] = {}
    for position, item in enumerate(items):
        column = _column(item, position, alone, refuse)
        bare_item = without_outputs(item)
        same = known.setdefault(json.dumps(bare_item, sort_keys=True), [])
        match = next((one for one in same if column not in one.columns), None)
        if match is None:
            match = _Known(len(bare))
            same.append(match)
            bare.append(bare_item)
        match.columns.add(column)
        entries.append(ExportedItem(position, match.number, column))
    return bare, entries


def _column(item: Data, position: int, alone: str, refuse: Refuse) -> Column:
    place: Place = ("items", position, "extensions", COLUMN)
    about = (item.get("extensions") or {}).get(COLUMN, {})
    if not isinstance(about, dict):
        raise refuse("must be an object", place)
    prompt, target, repeat = about.get("prompt", ""), about.get("target", alone), about.get("repeat", 1)
    for name, value in (("prompt", prompt), ("target", target)):
        if not isinstance(value, str):
            raise refuse("must be text", (*place, name))
    if not isinstance(repeat, int) or isinstance(repeat, bool) or not 1 <= repeat <= 1_000_000:
        raise refuse("must be a whole number from 1 to 1,000,000", (*place, "repeat"))
    return Column(prompt, target, repeat - 1)


def without_outputs(item: Mapping[str, Any]) -> Data:
    """An item as it was asked."""
    bare = _bare(item)
    if "turns" in item:
        bare["turns"] = [_bare(turn) for turn in item["turns"]]
    return bare


def _bare(unit: Mapping[str, Any]) -> Data:
    return _without_own_extensions({name: value for name, value in unit.items() if name not in OUTPUTS})


def _without_own_extensions(unit: Mapping[str, Any]) -> Data:
    """An item, turn or document without what results files add to its extensions."""
    bare = dict(unit)
    if isinstance(extensions := bare.get("extensions"), dict) and extensions.keys() & _ADDED:
        bare["extensions"] = {name: value for name, value in extensions.items() if name not in _ADDED}
        if not bare["extensions"]:
            del bare["extensions"]
    return bare


def units_of(item: Mapping[str, Any], position: int) -> Iterator[tuple[Place, Mapping[str, Any]]]:
    """The turns of an item as written, or the item itself, each with its place."""
    if "turns" not in item:
        yield ("items", position), item
        return
    for number, turn in enumerate(item["turns"]):
        yield ("items", position, "turns", number), turn


_RESULTS = ("pass", "fail", "error", "skipped", None)
_LOWER = {name[0].lower() + name[1:]: name for name in PUBLIC}
_NUMBERS = {"ExactMatch": "match", "Citations": "count"}
"""The field with the number of an evaluator that does not call it its score."""


def scores_in(
    dataset: Dataset, item: Item, unit: Item | Turn, scores: Mapping[str, Any], place: Place, refuse: Refuse
) -> tuple[ScoreRecord, ...]:
    """The records of a unit; the error of `refuse` names the first that is not as it should be."""
    evaluators = {entry.key: entry for entry in resolve_evaluators(dataset, unit)}
    records = []
    for name, score in scores.items():
        key = _LOWER[name] if name in _LOWER and name not in evaluators else name
        if not isinstance(score, Mapping):
            raise refuse("must be an object", (*place, name))
        evaluator, weight = _evaluator(key, evaluators.get(key), item, dataset)
        records.append(_record(key, evaluator, weight, score, (*place, name), refuse))
    return tuple(records)


def _evaluator(key: str, known: EffectiveEvaluator | None, item: Item, dataset: Dataset) -> tuple[str, float]:
    """Which evaluator a key means in the dataset, and how much it counts."""
    if known is not None:
        weight = known.settings.get("weight", 1.0)
        return known.evaluator, float(weight) if isinstance(weight, (int, float)) else 1.0
    if key == FORMAT_KEY:
        wanted = item.response_format or dataset.response_format
        return "JsonSchema" if isinstance(wanted, dict) else "JsonValid", 0.0
    return key, 1.0


def _record(
    key: str, evaluator: str, weight: float, score: Mapping[str, Any], place: Place, refuse: Refuse
) -> ScoreRecord:
    result = score.get("result")
    if result not in _RESULTS:
        raise refuse("must be pass, fail, error, skipped or null", (*place, "result"))
    if result == "error":
        details = {"code": score["code"]} if "code" in score else {}
        return ScoreRecord(
            key=key,
            evaluator=evaluator,
            score=None,
            result=result,
            reason=score["error"],
            details=details,
            weight=weight,
        )
    return ScoreRecord(
        key=key,
        evaluator=evaluator,
        score=_number(score, evaluator, place, refuse),
        result=result,
        threshold=_real(score.get("threshold"), (*place, "threshold"), refuse),
        label=_text(score.get("label"), (*place, "label"), refuse),
        reason=_text(score.get("reason"), (*place, "reason"), refuse) or "",
        weight=weight,
        measure=_measure(score.get("scale"), (*place, "scale"), refuse),
    )


def _measure(scale: object, place: Place, refuse: Refuse) -> str:
    """The measure of a scale; on all declared scales, higher is better."""
    if scale is None:
        return ""
    if not isinstance(scale, list) or len(scale) != 2:
        raise refuse("must be the lowest and the highest score", place)
    low, high = (_real(end, place, refuse) for end in scale)
    if low is None or high is None or low >= high:
        raise refuse("must be the lowest and the highest score", place)
    return str(Measure("at least", bounds=(low, high)))


def _number(score: Mapping[str, Any], evaluator: str, place: Place, refuse: Refuse) -> float | None:
    named = _NUMBERS.get(evaluator, "score")
    if named == "match" and isinstance(matched := score.get(named), bool):
        return float(matched)
    name = named if named in score else "score"
    return _real(score.get(name), (*place, name), refuse)


def _real(value: object, place: Place, refuse: Refuse) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or abs(value) > 1e300:
        raise refuse("must be a number or null", place)
    return float(value)


def _text(value: object, place: Place, refuse: Refuse) -> str | None:
    if value is not None and not isinstance(value, str):
        raise refuse("must be text", place)
    return value


BY = "tui-evals"
UNKNOWN_TARGET = "unknown target"
_STAMPS = ("evaluatedAt", "agentName", "cliVersion")
_JUDGED = ("status", "scores")
_ANSWERED = (*_JUDGED, "response", "error")


def recognises(path: Path) -> bool:
    """Whether a file is an eval document with results in it."""
    if not path.name.lower().endswith((".json", ".json.gz")):
        return False
    try:
        return _has_results(load(path).data)
    except DatasetError:
        return False


def _has_results(data: Mapping[str, Any]) -> bool:
    items = data.get("items")
    units = (
        [unit for item in items if isinstance(item, dict) for unit in _parts(item)] if isinstance(items, list) else ()
    )
    return any(name in unit for unit in units for name in _JUDGED)


def _parts(item: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    turns = item.get("turns")
    return [turn for turn in turns if isinstance(turn, dict)] if isinstance(turns, list) else [item]


def read(path: Path) -> tuple[Recording, Losses]:
    """The run in a results file, and the losses; raises DatasetError."""
    document, losses = load(path), Losses()
    dataset, problems = parse_dataset(document.data)
    if dataset is None:
        raise DatasetError(str(path), with_lines(problems, document))
    if not _has_results(document.data):
        message = "holds no results: no item has a status or scores; as a dataset it can be run with `tui-evals run`"
        raise DatasetError(str(path), [Problem(message)])

    def refuse(message: str, place: tuple[str | int, ...]) -> DatasetError:
        return DatasetError(str(path), with_lines([Problem(message, place)], document))

    recording = _recording(document, path, refuse, losses)
    losses.carried(f"{counted(len(recording.answers), 'answer')} with scores and statuses")
    what = "requests as they were sent, thresholds and details of errors"
    if not any(REST in (unit.get("extensions") or {}) for item in document.data["items"] for unit in _parts(item)):
        what += ", tool calls, tokens, costs and times of answers, details of scores"
    losses.left_out(what, why="the results file does not hold them")
    if recording.prompts or "prompt_file" in recording.document:
        losses.left_out("the prompt under test", why="a results file names it and does not hold it")
    return recording, losses


def _recording(document: Document, path: Path, refuse: Refuse, losses: Losses) -> Recording:
    metadata = document.data.get("metadata") or {}
    alone = metadata.get("agentName") or UNKNOWN_TARGET
    if not isinstance(alone, str):
        raise refuse("must be text", ("metadata", "agentName"))
    finished = _time(metadata.get("evaluatedAt"), refuse)
    items, entries = entries_of(document.data["items"], alone, refuse)
    source = _source(document.data, items)
    targets = tuple(dict.fromkeys(entry.column.target for entry in entries))
    prompts = tuple(dict.fromkeys(entry.column.prompt for entry in entries))
    dataset = Dataset.model_validate(source)
    answers = [
        one for entry in entries for one in _answers(dataset, document.data, entry, prompts, targets, refuse, losses)
    ]
    if not answers:
        raise refuse("no item has been answered, so there is no run in it", ("items",))
    together = _together(dataset, document.data, entries, refuse)
    return Recording(
        by=BY,
        digest=digest_of(source, prompts, targets, answers, together, finished),
        document=source,
        source=str(path),
        name=_stem(path),
        targets=targets,
        answers=tuple(answers),
        together=together,
        prompts=tuple(map(PromptUnderTest, prompts)) if any(prompts) else (),
        about={name: metadata[name] for name in _STAMPS if name in metadata},
        finished=finished,
    )


def _stem(path: Path) -> str:
    name = path.name
    for ending in (".gz", ".json"):
        name = name[: -len(ending)] if name.lower().endswith(ending) else name
    return name or path.name


def _source(data: Mapping[str, Any], items: Sequence[Data]) -> Data:
    """The document as it was asked."""
    source = {**_without_own_extensions(data), "items": list(items)}
    if metadata := {name: value for name, value in (data.get("metadata") or {}).items() if name not in _STAMPS}:
        return {**source, "metadata": metadata}
    return {name: value for name, value in source.items() if name != "metadata"}


def _time(stamp: object, refuse: Refuse) -> float | None:
    if stamp is None:
        return None
    try:
        when = datetime.fromisoformat(str(stamp))
        return (when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        raise refuse("must be a time such as 2026-01-31T12:00:00+00:00", ("metadata", "evaluatedAt")) from None


def _answers(
    dataset: Dataset,
    data: Mapping[str, Any],
    entry: ExportedItem,
    prompts: Sequence[str],
    targets: Sequence[str],
    refuse: Refuse,
    losses: Losses,
) -> list[RecordedAnswer]:
    """The answers of one entry, turn by turn; waiting ones are reported as losses."""
    item = dataset.items[entry.item]
    answers: list[RecordedAnswer] = []
    for turn, (place, unit) in enumerate(units_of(data["items"][entry.position], entry.position)):
        if not any(name in unit for name in _ANSWERED):
            losses.left_out("an answer that had not come yet", path_text(place))
            continue
        scores = {**(unit.get("scores") or {}), **_skipped(unit, place, refuse)}
        rest = _rest_of(unit, place, refuse)
        answers.append(
            RecordedAnswer(
                item=entry.item,
                turn=turn,
                prompt=prompts.index(entry.column.prompt),
                target=targets.index(entry.column.target),
                repeat=entry.column.repeat,
                answer=rest.answer(_answer(dataset, item, turn, unit, [one.answer for one in answers])),
                scores=rest.scores(scores_in(dataset, item, item.units[turn], scores, (*place, "scores"), refuse)),
                status=unit.get("status") or (unit.get("extensions") or {}).get("tui_evals_status"),
                score=rest.score,
            )
        )
    return answers


class _RestOfScore(BaseModel):
    evaluator: str
    weight: float = Field(ge=0, le=1e6)
    measure: str = ""
    details: dict[str, Any] = {}


class _Rest(BaseModel):
    """Fields of an answer in results files besides the published format."""

    known: dict[str, Any] = Field({}, alias="answer")
    of_scores: dict[str, _RestOfScore] = Field({}, alias="scores")
    score: float | None = None

    def answer(self, record: AnswerRecord) -> AnswerRecord:
        """The record with everything that is known of it."""
        whole = answer_record("", record.text, json.dumps(self.known))
        return replace(whole, request=record.request, diagnostics=record.diagnostics, transcript=record.transcript)

    def scores(self, records: tuple[ScoreRecord, ...]) -> tuple[ScoreRecord, ...]:
        """The scores with everything that is known of them."""
        given = {_LOWER.get(key, key): one for key, one in self.of_scores.items()} | self.of_scores
        return tuple(
            replace(record, **given[record.key].model_dump()) if record.key in given else record for record in records
        )


def _rest_of(unit: Mapping[str, Any], place: Place, refuse: Refuse) -> _Rest:
    try:
        rest = _Rest.model_validate((unit.get("extensions") or {}).get(REST, {}))
        rest.answer(AnswerRecord(text=None, request={}))
    except ValidationError as problem:
        first = problem.errors(include_url=False)[0]
        raise refuse(first["msg"], (*place, "extensions", REST, *first["loc"])) from None
    except (StoreError, TypeError, ValueError):
        raise refuse("holds what no answer has", (*place, "extensions", REST, "answer")) from None
    return rest


def _skipped(unit: Mapping[str, Any], place: Place, refuse: Refuse) -> dict[str, dict[str, Any]]:
    """The evaluators that skipped, with reasons, which the published format cannot express."""
    skipped = (unit.get("extensions") or {}).get(SKIPPED, {})
    if not isinstance(skipped, Mapping):
        raise refuse("must be an object", (*place, "extensions", SKIPPED))
    return {key: {"result": "skipped", "reason": reason} for key, reason in skipped.items()}


def _answer(
    dataset: Dataset, item: Item, turn: int, unit: Mapping[str, Any], before: Sequence[AnswerRecord]
) -> AnswerRecord:
    request = (
        {"messages": list(chat_before(dataset, item, turn, of_dataset(dataset), before))} if len(before) == turn else {}
    )
    text, error = unit.get("response"), unit.get("error") or {}
    if unit.get("status") == "error" or text is None:
        return AnswerRecord(
            text=None,
            request=request,
            diagnostics=unit.get("diagnostics"),
            code=error.get("code", "agentRequestFailed"),
            message=error.get("message", "neither a response nor an error was recorded"),
        )
    extensions = unit.get("extensions") or {}
    try:
        told = from_json(extensions[TRANSCRIPT]) if TRANSCRIPT in extensions else None
    except ValueError:  # another program's, which is none of ours
        told = None
    return AnswerRecord(text=text, request=request, diagnostics=unit.get("diagnostics"), transcript=told)


def _together(
    dataset: Dataset, data: Mapping[str, Any], entries: Sequence[ExportedItem], refuse: Refuse
) -> tuple[RecordedGroup, ...]:
    """The scores of all answers to an item, which are written with each of them."""
    groups: dict[tuple[int, int, str], RecordedGroup] = {}
    for entry in entries:
        item = dataset.items[entry.item]
        for turn, (place, unit) in enumerate(units_of(data["items"][entry.position], entry.position)):
            place = (*place, "extensions", TOGETHER)
            scores = (unit.get("extensions") or {}).get(TOGETHER, {})
            if not isinstance(scores, Mapping):
                raise refuse("must be an object", place)
            found = scores_in(dataset, item, item.units[turn], scores, place, refuse)
            for score in _rest_of(unit, place, refuse).scores(found):
                groups.setdefault((entry.item, turn, score.key), RecordedGroup(entry.item, turn, score))
    return tuple(groups.values())


IMPORTER = Importer(
    kind="results",
    about="results that tui-evals exported (.json)",
    recognises=recognises,
    read=lambda request: keep_run(request, read),
    recordings=lambda request: (read(request.path)[0],),
    order=70,
)
