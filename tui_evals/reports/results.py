"""The results of a run as files: an eval document, a table, or lines of JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from itertools import groupby
from typing import Any

from tui_evals.present.runs import standing_data
from tui_evals.store.reader import Reader
from tui_evals.store.records import AnswerRecord, AnswerRow, RunRow, ScoreRecord
from tui_evals.text.cells import csv_line, escape_formula
from tui_evals.version import __version__

_PUBLIC = frozenset(
    {"Relevance", "Coherence", "Groundedness", "Similarity", "Citations", "ExactMatch", "PartialMatch"}
    | {"RetrievalQuery", "RetrievalResult", "ToolCallSelection", "ToolCallExecution"}
)
_SUMMARY = {"pass": "turns_passed", "fail": "turns_failed", "partial": "turns_partial", "error": "turns_errored"}
_WORST = ("error", "partial", "fail", "unjudged", "pass", "scored")


@dataclass(frozen=True, slots=True)
class AnswerEntry:
    """One answer with its question and its scores."""

    row: AnswerRow
    record: AnswerRecord | None
    scores: tuple[ScoreRecord, ...]
    together: tuple[ScoreRecord, ...]
    """The scores of all answers to the same question, which count into the status of none of them."""
    unit: Mapping[str, Any]
    """The turn of a conversation, else the item itself."""
    item: Mapping[str, Any]


def answers(reader: Reader, run: RunRow) -> Iterator[tuple[Mapping[str, Any], list[AnswerEntry]]]:
    """Each conversation of a run: its item, and its answers turn by turn."""
    items = reader.judged_by(run).document["items"]
    for _, rows in groupby(reader.all_rows(run.id), key=lambda row: row.cell):
        cell_rows = list(rows)
        item = items[cell_rows[0].item]
        yield item, [read(reader, run, row, item) for row in cell_rows]


def read(reader: Reader, run: RunRow, row: AnswerRow, item: Mapping[str, Any]) -> AnswerEntry:
    """One answer whole."""
    unit = (item.get("turns") or [item])[row.turn]
    if row.status in ("pending", "running"):
        return AnswerEntry(row, None, (), (), unit, item)
    detail, number = reader.detail(row.id), run.scoring_pass
    return AnswerEntry(row, detail.answer, detail.scores.get(number, ()), detail.together.get(number, ()), unit, item)


def document(reader: Reader, run: RunRow) -> dict[str, Any]:
    """The results as an eval document: the dataset with its output fields filled in."""
    source = reader.snapshot(run.snapshot)
    metadata = {
        **(source.get("metadata") or {}),
        "evaluatedAt": datetime.fromtimestamp(run.finished or run.created, UTC).isoformat(),
        "agentName": ", ".join(run.targets),
        "cliVersion": __version__,
    }
    several = len(run.targets) * len(run.prompts) > 1
    items = [_item(item, entries, run, several) for item, entries in answers(reader, run)]
    return {
        **_with_extension(source, "tui_evals_run", _run_extension(reader, run)),
        "metadata": metadata,
        "items": items,
    }


def _run_extension(reader: Reader, run: RunRow) -> dict[str, Any]:
    """How the run as a whole stands."""
    standing = standing_data(run, reader.totals(run.id), reader.spent(run.id)[1])
    return {"run": run.key, "name": run.name, **standing}


def _item(item: Mapping[str, Any], entries: list[AnswerEntry], run: RunRow, several: bool) -> dict[str, Any]:
    first = entries[0].row
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
    """A turn or item with its outputs; the scores of all answers to it stand apart from its own."""
    filled = {**unit, **_outputs(answered)}
    if answered.row.status in ("unjudged", "scored"):  # statuses that the published format does not know
        filled = _with_extension(filled, "tui_evals_status", answered.row.status)
    return (
        _with_extension(filled, "tui_evals_together", together)
        if (together := _score_objects(answered.together))
        else filled
    )


def _with_extension(unit: Mapping[str, Any], name: str, value: Mapping[str, Any] | str) -> dict[str, Any]:
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
    return {**record, "reason": score.reason}


def json_text(reader: Reader, run: RunRow) -> str:
    """The results document as text."""
    return json.dumps(document(reader, run), ensure_ascii=False, indent=2) + "\n"


def json_lines(reader: Reader, run: RunRow) -> Iterator[str]:
    """One line of JSON for each answer, with everything that is known of it."""
    for item, entries in answers(reader, run):
        for answered in entries:
            yield json.dumps(_line(item, answered, run), ensure_ascii=False) + "\n"


def _line(item: Mapping[str, Any], answered: AnswerEntry, run: RunRow) -> dict[str, Any]:
    row, record = answered.row, answered.record
    return {
        "run": run.key,
        "item": row.name,
        "turn": row.turn + 1,
        "target": run.targets[row.target],
        "prompt_under_test": run.prompts[row.prompt],
        "repeat": row.repeat + 1,
        "category": item.get("category"),
        "prompt": answered.unit.get("prompt"),
        "expected_response": answered.unit.get("expected_response"),
        "status": row.status,
        "score": row.score,
        "ending": row.ending or None,
        "answer": None if record is None else {k: v for k, v in asdict(record).items() if k != "request"},
        "scores": [asdict(score) for score in answered.scores],
        "together": [asdict(score) for score in answered.together],
    }


def table(reader: Reader, run: RunRow, *, raw: bool = False) -> str:
    """The results as a table, a row for each answer; formulas are made harmless unless `raw`."""
    keys: dict[str, None] = {}
    rows = []
    for item, entries in answers(reader, run):
        for answered in entries:
            keys |= dict.fromkeys(name for name, _ in _column_scores(answered))
            rows.append(_row(item, answered, run))
    columns = [*_COLUMNS, *(f"{key}.{part}" for key in keys for part in _PARTS)]
    return csv_text(columns, ([row.get(column) for column in columns] for row in rows), raw=raw)


def csv_text(columns: Sequence[str], rows: Iterable[Sequence[object]], *, raw: bool) -> str:
    """A table as CSV; formulas are made harmless unless `raw`, in the header too."""
    lines = ([_cell_text(value) for value in row] for row in (columns, *rows))
    return "".join(csv_line(cells if raw else map(escape_formula, cells)) for cells in lines)


_PARTS = ("score", "result", "threshold", "reason")
_COLUMNS = (
    *("kind", "item", "thread", "turn", "target", "repeat", "prompt", "expected_response", "response"),
    *("status", "score", "error_code", "error_message", "latency_ms", "from_cache"),
    *("input_tokens", "output_tokens", "cost", "tags", "extensions", "conversation_id", "ending"),
)


def _row(item: Mapping[str, Any], answered: AnswerEntry, run: RunRow) -> dict[str, Any]:
    row, record, unit = answered.row, answered.record, answered.unit
    cells: dict[str, Any] = {
        "kind": "turn" if "turns" in item else "item",
        "item": row.name,
        "thread": item.get("name") if "turns" in item else None,
        "turn": row.turn + 1,
        "target": run.targets[row.target],
        "repeat": row.repeat + 1,
        "prompt": unit.get("prompt"),
        "expected_response": unit.get("expected_response"),
        "response": record.text if record else None,
        "status": row.status,
        "score": row.score,
        "error_code": record.code if record else None,
        "error_message": record.message if record else None,
        "latency_ms": row.latency_ms,
        "from_cache": row.from_cache,
        "input_tokens": row.input_tokens,
        "output_tokens": row.output_tokens,
        "cost": row.cost,
        "tags": item.get("tags"),
        "extensions": item.get("extensions"),
        "conversation_id": item.get("conversation_id"),
        "ending": row.ending,
    }
    return cells | {
        f"{name}.{part}": getattr(score, part) for name, score in _column_scores(answered) for part in _PARTS
    }


def _column_scores(answered: AnswerEntry) -> Iterator[tuple[str, ScoreRecord]]:
    """The scores under the names of their columns; those of all answers to the item say so."""
    yield from ((score.key, score) for score in answered.scores)
    yield from ((f"together.{score.key}", score) for score in answered.together)


def _cell_text(value: object) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
