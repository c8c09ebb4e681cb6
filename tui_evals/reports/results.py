"""The results of a run as files: the kinds there are, an eval document, a table, or lines of JSON."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from datetime import UTC, datetime
from itertools import chain, groupby
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

from tui_evals.light_records import dataclass
from tui_evals.plugins import Plugins, installed, installed_named, offered
from tui_evals.present.gates import gates_data
from tui_evals.present.provenance import head_data
from tui_evals.present.runs import standing_data
from tui_evals.store import chains
from tui_evals.store.answer_facts import FACTS, Kind
from tui_evals.store.details import group_scores, read_details
from tui_evals.store.reader import Reader
from tui_evals.store.records import AnswerRecord, AnswerRow, RunRow, ScoreRecord, step_count, transcript_of
from tui_evals.store.rows import EarlierAttempt, body_of, expected_item, loads
from tui_evals.text.measures import parse_measure
from tui_evals.text.safe import csv_line, escape_formula
from tui_evals.text.strictjson import indented, one_line, pieces
from tui_evals.transcript import json_in_pieces, read_steps
from tui_evals.version import __version__

_PUBLIC = frozenset(
    {"Relevance", "Coherence", "Groundedness", "Similarity", "Citations", "ExactMatch", "PartialMatch"}
    | {"RetrievalQuery", "RetrievalResult", "ToolCallSelection", "ToolCallExecution"}
)
_SUMMARY = {"pass": "turns_passed", "fail": "turns_failed", "partial": "turns_partial", "error": "turns_errored"}
_WORST = ("error", "partial", "fail", "unjudged", "pass", "scored")


class AnswerEntry(NamedTuple):
    """One answer with its question and its scores; a plain tuple, because a run has many."""

    row: AnswerRow
    record: AnswerRecord | None
    scores: tuple[ScoreRecord, ...]
    together: tuple[ScoreRecord, ...]
    """The scores of all answers to the same question, which count into the status of none of them."""
    unit: Mapping[str, Any]
    """The turn of a conversation, else the item itself."""
    item: Mapping[str, Any]
    rejudged: EarlierAttempt | None = None
    """Its earlier state, if it is judged by an edited expectation."""


def conversations(
    reader: Reader,
    run: RunRow,
    items: Sequence[Mapping[str, Any]],
    rows: Iterable[AnswerRow] | None = None,
    *,
    requests: bool = False,
) -> Iterator[list[AnswerEntry]]:
    """Each conversation of a run, or of these rows of it: its answers turn by turn."""
    entries = read(reader, run, reader.all_rows(run.id) if rows is None else rows, items, requests=requests)
    for _, conversation in groupby(entries, key=lambda entry: entry.row.cell):
        yield list(conversation)


def read(
    reader: Reader,
    run: RunRow,
    rows: Iterable[AnswerRow],
    items: Sequence[Mapping[str, Any]],
    *,
    requests: bool = False,
) -> Iterator[AnswerEntry]:
    """Answers with their records, a page at once; requests only if `requests`."""
    place = -1
    item: Mapping[str, Any] = {}
    for told in read_details(reader, run, rows, requests=requests):
        row = told.row
        if row.item != place:
            place, item = row.item, items[row.item]
        own = item if told.rejudged is None else expected_item(told.rejudged, item, row.turn)
        unit = (own.get("turns") or [own])[row.turn]
        yield AnswerEntry(row, told.answer, told.scores, told.together, unit, own, told.rejudged)


def document(reader: Reader, run: RunRow) -> Iterator[str]:
    """The results as an eval document: the dataset with its output fields filled in."""
    dataset = reader.dataset(run)
    head = {
        **_with_extension(dataset.head, "tui_evals_run", _run_extension(reader, run)),
        "metadata": {
            **(dataset.head.get("metadata") or {}),
            "evaluatedAt": datetime.fromtimestamp(run.finished or run.created, UTC).isoformat(),
            "agentName": ", ".join(run.targets),
            "cliVersion": __version__,
        },
        "items": [],
    }
    several = len(run.targets) * len(run.prompts) > 1
    items = (_item(entries, run, several) for entries in conversations(reader, run, dataset.items))
    opening = "{\n  "
    for name, value in head.items():
        yield f"{opening}{indented(name)}: "
        yield from _list(items) if name == "items" else (indented(value, "\n  "),)
        opening = ",\n  "
    yield "\n}\n"


def _list(items: Iterable[dict[str, Any]]) -> Iterator[str]:
    """A list within a document, an item at a time."""
    opening = "[\n    "
    for item in items:
        yield opening
        yield from pieces(item, "\n    ")
        opening = ",\n    "
    yield "[]" if opening.startswith("[") else "\n  ]"


def _run_extension(reader: Reader, run: RunRow) -> dict[str, Any]:
    """The state of the whole run."""
    standing = standing_data(run, reader.totals(run.id))
    prompts = {"prompts": list(run.prompts)} if any(run.prompts) else {}
    gates = {"gates": gates_data(run.gates)} if run.gates else {}
    head = head_data(chains.last_link(reader.query, run.key))
    signed = {"provenance": head} if head else {}
    return {"run": run.key, "name": run.name, **prompts, **standing, **gates, **signed}


def _item(entries: list[AnswerEntry], run: RunRow, several: bool) -> dict[str, Any]:
    first, item = entries[0].row, entries[0].item
    written = dict(item)
    if several or first.repeat:
        column = {"target": run.targets[first.target], "repeat": first.repeat + 1}
        if run.prompts[first.prompt]:
            column["prompt"] = run.prompts[first.prompt]
        written = _with_extension(written, "tui_evals_run", column)
    if "turns" not in item:
        return _with_outputs(written, entries[0])
    written["turns"] = [_with_outputs(answered.unit, answered) for answered in entries]
    statuses = [answered.row.status for answered in entries]
    overall = next((status for status in _WORST if status in statuses), "")
    if overall in _SUMMARY and all(status in _WORST for status in statuses):
        counts = {field: statuses.count(status) for status, field in _SUMMARY.items()}  # type: ignore[arg-type]
        written["summary"] = {"turns_total": len(entries), **counts, "overall_status": overall}
    return written


def _with_outputs(unit: Mapping[str, Any], answered: AnswerEntry) -> dict[str, Any]:
    """A turn or item with its outputs; scores of all answers to it are separate."""
    filled = {**unit, **_outputs(answered)}
    if answered.row.status in ("unjudged", "scored"):  # statuses that the published format does not know
        filled = _with_extension(filled, "tui_evals_status", answered.row.status)
    record = answered.record
    if record is not None and step_count(record):
        steps = map(dict, record.steps or read_steps(transcript_of(record)))
        filled = _with_extension(filled, "tui_evals_steps", steps)
    if record is not None and record.transcript is not None:
        filled = _with_extension(filled, TRANSCRIPT, json_in_pieces(record.transcript))
    if rest := _rest(answered):
        filled = _with_extension(filled, "tui_evals_answer", rest)
    if together := _score_objects(answered.together):
        filled = _with_extension(filled, "tui_evals_together", together)
    skipped = {key_of(score): score.reason for score in answered.scores if score.result == "skipped"}
    return _with_extension(filled, "tui_evals_skipped", skipped) if skipped else filled


def _rest(answered: AnswerEntry) -> dict[str, Any]:
    """The facts about an answer and its scores that the published format has no place for."""
    kept = {} if answered.record is None else loads(body_of(replace(answered.record, transcript=None))[2])
    answer = {name: part for name, part in kept.items() if name not in ("text", "diagnostics")}
    scores = {
        key_of(score): {"evaluator": score.evaluator, "weight": score.weight, "measure": score.measure}
        | ({"details": dict(score.details)} if score.details else {})
        for score in (*answered.scores, *(one for one in answered.together if one.result != "skipped"))
    }
    total = {} if answered.row.score is None else {"score": answered.row.score}
    return {name: part for name, part in {"answer": answer, "scores": scores, **total}.items() if part != {}}


def _with_extension(unit: Mapping[str, Any], name: str, value: object) -> dict[str, Any]:
    return {**unit, "extensions": {**(unit.get("extensions") or {}), name: value}}


def _outputs(answered: AnswerEntry) -> dict[str, Any]:
    row, record = answered.row, answered.record
    if record is None:
        return {}
    outputs: dict[str, Any] = {"status": row.status} if row.status in _SUMMARY else {}
    if record.text is not None:
        outputs["response"] = record.text
    if record.diagnostics:
        outputs["diagnostics"] = dict(record.diagnostics)
    outputs["scores"] = _score_objects(answered.scores)
    if row.status == "error":
        outputs["error"] = {"code": record.code or "agentRequestFailed", "message": record.message or ""}
    elif row.status == "partial":
        errored = sum(score.result == "error" for score in answered.scores)
        total = len(answered.scores)
        message = f"Agent response obtained. {errored} of {total} evaluators failed to run."
        outputs["error"] = {"code": "evaluatorsFailed", "message": message}
    return outputs


def _score_objects(scores: Iterable[ScoreRecord]) -> dict[str, Any]:
    return {key_of(score): score_object(score) for score in scores if score.result != "skipped"}


def key_of(score: ScoreRecord) -> str:
    """The name of a score in a results document: the published names start in lower case, ours stay."""
    if score.key == score.evaluator and score.evaluator in _PUBLIC:
        return score.key[0].lower() + score.key[1:]
    return score.key


def score_object(score: ScoreRecord) -> dict[str, Any]:
    """A score as results documents hold it."""
    if score.result == "error":
        code = score.details.get("code")
        failure: dict[str, Any] = {"result": "error", "error": score.reason or "no reason was given"}
        return {**failure, "code": code} if code else failure
    record: dict[str, Any] = {"result": score.result}
    if score.evaluator == "ExactMatch":
        record["match"] = score.score == 1.0
    elif score.evaluator == "Citations":
        record["count"] = int(score.score or 0)
    else:
        record["score"] = score.score
    if score.threshold is not None:
        record["threshold"] = score.threshold
    if score.label is not None:
        record["label"] = score.label
    if score.evaluator not in _PUBLIC and (bounds := parse_measure(score.measure).bounds) is not None:
        record["scale"] = list(bounds)
    return {**record, "reason": score.reason}


def json_lines(reader: Reader, run: RunRow) -> Iterator[str]:
    """One line of JSON for each answer, with all its facts."""
    for entry in read(reader, run, reader.all_rows(run.id), reader.dataset(run).items):
        yield from pieces(_line(entry, run), None)
        yield "\n"


_ANSWER = tuple(field.name for field in fields(AnswerRecord) if field.name != "request")
_NOT_IN_ANSWER = tuple(fact for fact in FACTS if fact.name.removeprefix("error_") not in _ANSWER)
_SCORE = tuple(field.name for field in fields(ScoreRecord))
_answer_values: Callable[[AnswerRecord], tuple[Any, ...]] = attrgetter(*_ANSWER)
_score_values: Callable[[ScoreRecord], tuple[Any, ...]] = attrgetter(*_SCORE)


def _score_dict(score: ScoreRecord) -> dict[str, Any]:
    return dict(zip(_SCORE, _score_values(score), strict=False))


def _answer_dict(record: AnswerRecord) -> dict[str, Any]:
    told = None if record.transcript is None else json_in_pieces(record.transcript)
    return {**dict(zip(_ANSWER, _answer_values(record), strict=False)), "transcript": told}


def _line(answered: AnswerEntry, run: RunRow) -> dict[str, Any]:
    row, record = answered.row, answered.record
    return {
        "run": run.key,
        "item": row.name,
        "turn": row.turn + 1,
        "target": run.targets[row.target],
        "prompt_under_test": run.prompts[row.prompt],
        "repeat": row.repeat + 1,
        "category": answered.item.get("category"),
        "prompt": answered.unit.get("prompt"),
        "expected_response": answered.unit.get("expected_response"),
        **{fact.name: fact.value(row, record) for fact in _NOT_IN_ANSWER},
        "answer": None if record is None else _answer_dict(record),
        "scores": [_score_dict(score) for score in answered.scores],
        "together": [_score_dict(score) for score in answered.together],
    }


def table(reader: Reader, run: RunRow, *, raw: bool = False) -> Iterator[str]:
    """The results as CSV; formulas are made harmless unless `raw`."""
    return csv_lines(*rows(reader, run), raw=raw)


def rows(reader: Reader, run: RunRow) -> tuple[list[str], Iterator[list[object]]]:
    """The columns of the table of results, and a row for each answer."""
    names = list(dict.fromkeys(_column_name(key, grouped) for key, grouped in reader.score_keys(run)))
    entries = read(reader, run, reader.all_rows(run.id), reader.dataset(run).items)
    columns = [*_COLUMNS, *(f"{name}.{part}" for name in names for part in _PARTS)]
    return columns, (_row(entry, run, names) for entry in entries)


def csv_lines(columns: Sequence[str], rows: Iterable[Sequence[object]], *, raw: bool) -> Iterator[str]:
    """A table as CSV; formulas are made harmless unless `raw`, in the header too."""
    text = _cell_text if raw else _harmless_cell_text
    for row in chain((columns,), rows):
        yield csv_line(["" if value is None else text(value) for value in row])


def _cell_text(value: object) -> str:
    return value if isinstance(value, str) else one_line(value)


def _harmless_cell_text(value: object) -> str:
    text = value if isinstance(value, str) else one_line(value)
    return text if text[:1].isalnum() else escape_formula(text)


_PARTS = ("score", "result", "threshold", "reason")
_EMPTY = (None,) * len(_PARTS)
_ASKED = (
    *("kind", "item", "thread", "turn", "target", "prompt_under_test", "repeat"),
    *("tags", "extensions", "conversation_id", "prompt", "expected_response", "response"),
)
_COLUMNS = (*_ASKED, *(fact.name for fact in FACTS))
TRANSCRIPT = "tui_evals_transcript"
"""The extension that holds all that was said and done for an answer."""
COLUMN_KINDS: Mapping[str, Kind] = {"turn": "whole", "repeat": "whole", **{fact.name: fact.kind for fact in FACTS}}
"""The types of columns that are not text."""


def _row(answered: AnswerEntry, run: RunRow, names: Sequence[str]) -> list[object]:
    row, record, unit, item = answered.row, answered.record, answered.unit, answered.item
    scores = {score.key: score for score in answered.scores}
    scores |= {_column_name(score.key, True): score for score in answered.together}
    return [
        "turn" if "turns" in item else "item",
        row.name,
        item.get("name") if "turns" in item else None,
        row.turn + 1,
        run.targets[row.target],
        run.prompts[row.prompt],
        row.repeat + 1,
        item.get("tags"),
        item.get("extensions"),
        item.get("conversation_id"),
        unit.get("prompt"),
        unit.get("expected_response"),
        record.text if record else None,
        *(fact.value(row, record) for fact in FACTS),
        *(value for name in names for value in _score_cells(scores.get(name))),
    ]


def _score_cells(score: ScoreRecord | None) -> tuple[object, ...]:
    """The cells of a score, in the order of `_PARTS`."""
    return _EMPTY if score is None else (score.score, score.result, score.threshold, score.reason)


def _column_name(key: str, grouped: bool) -> str:
    """The name of a score's columns, with a prefix for scores of all answers to the item."""
    return f"together.{key}" if grouped else key


def whole_runs(reader: Reader, runs: Sequence[RunRow], digest: str) -> Iterator[str]:
    """The companion of a file that was written from runs: a line for all of them, then one for each answer.

    `digest` is that of the file. Lines have what the file cannot hold: the dataset, prompts, requests, and every field
    of answers and scores.
    """
    yield one_line({"of": digest, "runs": [_whole_head(reader, run) for run in runs]}) + "\n"
    for number, run in enumerate(runs):
        for entry in read(reader, run, reader.all_rows(run.id), reader.dataset(run).items, requests=True):
            if entry.record is not None:
                yield from pieces(_whole_answer(number, entry, entry.record), None)
                yield "\n"


def _whole_head(reader: Reader, run: RunRow) -> dict[str, Any]:
    dataset = reader.dataset(run)
    groups = group_scores(reader, run.id, run.scoring_pass)
    return {
        "name": run.name,
        "suite": run.suite,
        "tags": run.tags,
        "targets": run.targets,
        "prompts": run.prompts,
        "config": {name: run.config[name] for name in ("targets", "judge", "prompts") if name in run.config},
        "started": run.started,
        "finished": run.finished,
        "dataset": {**dataset.head, "items": list(dataset.items)},
        "together": [{"item": one.item, "turn": one.turn, "score": score_record_data(one.record)} for one in groups],
        "waiting": sum(row.status in ("pending", "running") for row in reader.all_rows(run.id)),
        "gates": len(run.gates),
    }


def _whole_answer(number: int, entry: AnswerEntry, record: AnswerRecord) -> dict[str, Any]:
    row = entry.row
    request, text, rest = body_of(replace(record, transcript=None))
    told = {} if record.transcript is None else {"transcript": json_in_pieces(record.transcript)}
    return {
        "run": number,
        "place": [row.item, row.turn, row.prompt, row.target, row.repeat],
        "status": row.status,
        "score": row.score,
        "request": loads(request),
        "text": text,
        "rest": loads(rest) | told,
        "scores": [score_record_data(score) for score in entry.scores],
    }


def score_record_data(score: ScoreRecord) -> dict[str, Any]:
    """A score without the pass it comes from, which only its store knows."""
    return {name: value for name, value in _score_dict(score).items() if name != "origin"}


Write = Callable[[Reader, Sequence[RunRow], bool], str | Iterable[str] | Iterable[bytes]]
"""A report of one run or of several compared ones: in pieces, so that no run is too large, or as one text.

For a table, True leaves formulas unchanged.
"""


@dataclass(frozen=True, slots=True)
class ReportKind:
    """A kind of report, which the module that writes it declares under its name in `KINDS`.

    An installed package adds one through the entry-point group `tui_evals.reports`, under the name of the kind. The
    first of its endings is the one its files get.
    """

    endings: tuple[str, ...]
    write: Write
    missing: Callable[[], str | None] = lambda: None
    """Why it cannot be written on this machine, and what mends that; None where it can."""
    is_text: bool = True
    """Whether it can be shown, and not only be written into a file."""
    has_companion: bool = False
    """Whether an importer reads it, so that a companion keeps what it cannot hold."""
    about: str = ""
    """Its purpose, in a few words."""


GROUP = "tui_evals.reports"
_BUILT_IN = {
    "html": "page",
    "md": "markdown",
    "junit": "junit",
    "csv": "comparison",
    "json": "comparison",
    "jsonl": "comparison",
    "parquet": "comparison",
    "oaieval-log": "oaieval",
    "inspect": "inspect_log",
}
"""The module that declares each kind; imported on first use, because some are slow to import."""


def names() -> list[str]:
    """The names of all kinds; those of installed packages may turn out to be unusable."""
    return list(dict.fromkeys((*_BUILT_IN, *(point.name for point in offered(GROUP)))))


def report_kind(name: str) -> ReportKind:
    """The kind of a name; UnusablePlugin where an installed package cannot be used, LookupError where there is none."""
    if name in _BUILT_IN:
        kind: ReportKind = importlib.import_module(f".{_BUILT_IN[name]}", __package__).KINDS[name]
        return kind
    added = installed_named(GROUP, name, ReportKind, "report")
    if added is None:
        raise LookupError(f"there is no kind of report {name}")
    return added


def kind_of(file: Path) -> str | None:
    """The kind of report that a file's ending means; a built-in kind keeps its endings."""
    ending = file.suffix.lower()
    alike = ending.removeprefix(".")
    longer = "".join(file.suffixes[-2:]).lower()
    if longer != ending and (named := next((name for name, kind in _every_kind() if longer in kind.endings), None)):
        return named
    if alike in _BUILT_IN and ending in report_kind(alike).endings:
        return alike
    return next((name for name, kind in _every_kind() if ending in kind.endings), None)


def endings() -> str:
    """All endings, for messages, and errors of installed packages that would add some."""
    known = dict.fromkeys(ending for _, kind in _every_kind() for ending in kind.endings)
    return "; ".join((", ".join(known), *_added().problems))


_TOGETHER = 2**16
"""Characters that are written at once, because writers return a piece for each answer."""


def write(name: str, reader: Reader, runs: Sequence[RunRow], *, raw: bool = False) -> Iterator[str | bytes]:
    """The report in pieces, with text as UTF-8; `raw` leaves formulas in CSV unchanged."""
    made = report_kind(name).write(reader, runs, raw)
    return together([made] if isinstance(made, str) else made)


def together(made: Iterable[str] | Iterable[bytes]) -> Iterator[str | bytes]:
    """Small pieces in larger ones, text as UTF-8 can hold it."""
    pieces: list[str] = []
    size = 0
    for piece in made:
        if isinstance(piece, bytes):
            yield piece
            continue
        pieces.append(piece)
        size += len(piece)
        if size >= _TOGETHER:
            yield _as_utf8(pieces)
            pieces, size = [], 0
    if pieces:
        yield _as_utf8(pieces)


def _as_utf8(pieces: Iterable[str]) -> str:
    # Half a surrogate pair becomes its escape, which is what JSON calls it too.
    return "".join(pieces).encode("utf-8", "backslashreplace").decode("utf-8")


def _every_kind() -> Iterator[tuple[str, ReportKind]]:
    yield from ((name, report_kind(name)) for name in _BUILT_IN)
    yield from _added().by_name.items()


def _added() -> Plugins[ReportKind]:
    return installed(GROUP, ReportKind, "report", _BUILT_IN)
