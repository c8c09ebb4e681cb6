"""Runs as data: JSON with every number of a comparison, a table of its lines, and either table as Parquet."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from importlib.util import find_spec
from itertools import islice
from typing import Any

from tui_evals.compare.measures import MeasuredDifference, RunDifference
from tui_evals.compare.runs import (
    ComparedLine,
    Comparison,
    Region,
    RunSide,
    facing_columns,
    read_columns,
    read_comparison,
)
from tui_evals.compare.verdicts import JUDGED_OTHERWISE, NAMES, caveats, difference_sentence
from tui_evals.figures import Interval
from tui_evals.present.comparisons import RateRow, category_rates, population_sentence, rate_rows
from tui_evals.present.figures import figure_data
from tui_evals.present.runs import run_cost, stop_reason
from tui_evals.reports import results
from tui_evals.reports.results import ReportKind, csv_lines
from tui_evals.store.answer_facts import Kind
from tui_evals.store.reader import Reader
from tui_evals.store.records import AnswerRecord, RunRow, Totals
from tui_evals.text.strictjson import indented, one_line


def document(reader: Reader, runs: Sequence[RunRow]) -> dict[str, Any]:
    """All data of a comparison; later runs are each compared with the first, which is A."""
    totals = [reader.totals(run.id) for run in runs]
    return _document(reader, read_comparison(reader, [run.id for run in runs]), totals)


def columns_document(reader: Reader, run: RunRow, regions: tuple[Region, Region]) -> dict[str, Any]:
    """Two regions of one run, compared, as a document."""
    totals = [reader.totals_in(run.id, region) for region in facing_columns(regions)]
    return _document(reader, read_columns(reader, run.id, regions), totals)


def _document(reader: Reader, comparison: Comparison, totals: Sequence[Totals]) -> dict[str, Any]:
    rates = rate_rows(comparison)
    return {
        "runs": [
            _run_json(name, side, one, [row for row in rates if row.letter == name])
            for name, side, one in zip(NAMES, comparison.sides, totals, strict=False)
        ],
        "population": population_sentence(comparison),
        "against": [
            {"run": name, "verdict": difference_sentence(difference, NAMES[0], name), **_difference_json(difference)}
            for difference, name in zip(comparison.against, NAMES[1:], strict=False)
        ],
        "notes": list(caveats(comparison)),
        "categories": [
            {
                "category": own[0].category,
                "columns": {row.letter: row.column for row in own},
                "rates": {row.letter: figure_data(row.figure) for row in own},
            }
            for own in category_rates(comparison)
        ],
        "lines": list(_lines(reader, comparison)),
    }


def broken_in(reader: Reader, runs: Sequence[RunRow]) -> frozenset[int]:
    """The answers of the last run that are broken since the first."""
    comparison = read_comparison(reader, [run.id for run in runs])
    return frozenset(
        line.answers[-1].id for line in comparison.lines if line.answers[-1] and line.kinds[-1] == "broken"
    )


def json_text(reader: Reader, runs: Sequence[RunRow]) -> str:
    """The comparison as one JSON document."""
    return indented(document(reader, runs)) + "\n"


def json_lines(reader: Reader, runs: Sequence[RunRow]) -> Iterator[str]:
    """One line of JSON for each line of the comparison."""
    for line in _lines(reader, read_comparison(reader, [run.id for run in runs])):
        yield one_line(line) + "\n"


def table(reader: Reader, runs: Sequence[RunRow], *, raw: bool = False) -> Iterator[str]:
    """The comparison as CSV; formulas are made harmless unless `raw`."""
    return csv_lines(*rows(reader, runs), raw=raw)


def rows(reader: Reader, runs: Sequence[RunRow]) -> tuple[list[str], Iterator[list[object]]]:
    """The columns of the table of a comparison, and a row for each of its lines."""
    names = NAMES[: len(runs)]
    columns = [*_COLUMNS, *(f"{name}.kind" for name in names[1:])]
    columns += [f"{name}.{part}" for name in names for part in ("status", "score", "answer")]
    comparison = read_comparison(reader, [run.id for run in runs])
    return columns, map(_row, _lines(reader, comparison))


_PAGE = 100
_COLUMNS = ("item", "turn", "repeat", "column", "category", "edited", "kind")


def _row(line: dict[str, Any]) -> list[object]:
    answers = [answer or {"status": None, "score": None, "answer": None} for answer in line["answers"].values()]
    return [
        *(line[name] for name in _COLUMNS),
        *line["kinds"].values(),
        *(answer[part] for answer in answers for part in ("status", "score", "answer")),
    ]


def _lines(reader: Reader, comparison: Comparison) -> Iterator[dict[str, Any]]:
    for line, said in _with_answers(reader, comparison.lines):
        yield {
            "item": line.item,
            "turn": _one_based(line.turn),
            "repeat": _one_based(line.repeat),
            "column": line.column,
            "category": line.category,
            "kind": line.kind,
            "kinds": dict(zip(NAMES[1:], line.kinds, strict=False)),
            "matched_by": line.how,
            "edited": line.edited,
            "why_not_comparable": JUDGED_OTHERWISE if any(line.otherwise) else None,
            "without_time_and_cost": any(line.without_calls),
            "answers": dict(zip(NAMES, _answers(line, said), strict=False)),
        }


def _one_based(number: int | None) -> int | None:
    return None if number is None else number + 1


def _with_answers(
    reader: Reader, lines: Iterable[ComparedLine]
) -> Iterator[tuple[ComparedLine, Mapping[int, AnswerRecord]]]:
    """Each line with the records of its answers, by their ids, a page of lines at once."""
    waiting = iter(lines)
    while page := list(islice(waiting, _PAGE)):
        said = reader.records(answer.id for line in page for answer in line.answers if answer)
        yield from ((line, said) for line in page)


def _answers(line: ComparedLine, said: Mapping[int, AnswerRecord]) -> Iterator[dict[str, Any] | None]:
    for answer in line.answers:
        if answer is None:
            yield None
            continue
        record = said.get(answer.id)
        text, error = (record.text, record.message) if record else (None, None)
        yield {"status": answer.status, "score": answer.score, "answer": text, "error": error}


def _run_json(name: str, side: RunSide, totals: Totals, rates: Sequence[RateRow]) -> dict[str, Any]:
    run, cost = side.run, run_cost(totals)
    return {
        "called": name,
        "run": run.key,
        "name": run.name,
        "dataset": run.source,
        "targets": list(run.targets),
        "prompts": [prompt for prompt in run.prompts if prompt],
        "status": run.status,
        "message": stop_reason(run) or None,
        "partial": asdict(side.part) if side.part else None,
        "pass_rates": [{"column": row.column, **(figure_data(row.figure) or {})} for row in rates if row.figure],
        "shared": {name or "all": asdict(used) for name, used in side.usage.items()},
        "whole_run": {
            "labels": side.labels,
            "not_judged": totals.partial + totals.unjudged,
            "without_answer": totals.errored,
            "cost": cost.amount,
            "unpriced": cost.unpriced,
        },
    }


def _interval_json(interval: Interval | None) -> list[float] | None:
    return None if interval is None else [interval.low, interval.high]


def _difference_json(difference: RunDifference) -> dict[str, Any]:
    return {
        "items": difference.items,
        "broken": difference.broken,
        "fixed": difference.fixed,
        "lines": dict(difference.counts),
        "judged_by_another_expectation": difference.judged_otherwise,
        "compared_without_time_and_cost": difference.without_calls,
        "items_not_tested_because_cached": dict(difference.untested),
        "passes": _test_json(difference.passes),
        "tests": [_test_json(test) for test in difference.tests],
    }


def _test_json(test: MeasuredDifference) -> dict[str, Any]:
    return {
        "evaluator": test.what or None,
        "column": test.column or None,
        "columns": test.columns,
        "items": test.items,
        "before": test.before if test.what or test.columns == 1 else None,
        "after": test.after if test.what or test.columns == 1 else None,
        "difference": test.difference,
        "interval": _interval_json(test.interval),
        "p": test.p,
        "adjusted_p": test.adjusted,
        "shown": test.shown,
        "items_needed": test.needed,
        "unit": test.measure.unit or None,
        "more_is": {1: "better", -1: "worse", 0: "unknown"}[test.direction],
    }


def _csv(reader: Reader, runs: Sequence[RunRow], raw: bool) -> Iterator[str]:
    return table(reader, runs, raw=raw) if len(runs) > 1 else results.table(reader, runs[0], raw=raw)


def _json(reader: Reader, runs: Sequence[RunRow], raw: bool) -> str | Iterator[str]:
    return json_text(reader, runs) if len(runs) > 1 else results.document(reader, runs[0])


def _json_lines(reader: Reader, runs: Sequence[RunRow], raw: bool) -> Iterator[str]:
    return json_lines(reader, runs) if len(runs) > 1 else results.json_lines(reader, runs[0])


_ROW_GROUP = 5_000
"""Rows of a row group, which is held in memory until it is written."""
_TYPES: Mapping[Kind, type] = {"text": str, "whole": int, "number": float, "yes or no": bool}
_KINDS: Mapping[str, Kind] = {**results.COLUMN_KINDS, "edited": "yes or no", "threshold": "number"}
"""The type of a column, by its name or its last part; all others are text."""


class _Sink(io.RawIOBase):
    """Holds the data written since it was last taken, and counts all of it."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._size = 0

    def writable(self) -> bool:
        return True

    def write(self, piece: Any) -> int:
        self._pieces.append(bytes(piece))
        self._size += len(self._pieces[-1])
        return len(self._pieces[-1])

    def tell(self) -> int:
        return self._size

    def take(self) -> bytes:
        taken, self._pieces = b"".join(self._pieces), []
        return taken


def parquet_table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> Iterator[bytes]:
    """A table as Parquet, a row group at a time."""
    import pyarrow
    from pyarrow.parquet import ParquetWriter

    kinds = [_kind(column) for column in columns]
    types = {float: pyarrow.float64(), int: pyarrow.int64(), bool: pyarrow.bool_(), str: pyarrow.string()}
    schema = pyarrow.schema([(column, types[kind]) for column, kind in zip(columns, kinds, strict=True)])
    sink, waiting = _Sink(), iter(rows)
    with ParquetWriter(pyarrow.PythonFile(sink, mode="w"), schema, compression="zstd") as writer:
        while group := list(islice(waiting, _ROW_GROUP)):
            by_column = zip(*group, strict=True)
            arrays = [
                pyarrow.array([_value(value, kind) for value in values], types[kind])
                for values, kind in zip(by_column, kinds, strict=True)
            ]
            writer.write_batch(pyarrow.record_batch(arrays, schema=schema))
            yield sink.take()
    yield sink.take()


def _kind(column: str) -> type:
    known = _KINDS.get(column) or _KINDS.get(column.rpartition(".")[2])
    return str if known is None else _TYPES[known]


def _value(value: object, kind: type) -> object:
    if value is None or kind is not str:
        return value
    text = value if isinstance(value, str) else one_line(value)
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()


def _missing_pyarrow() -> str | None:
    if find_spec("pyarrow") is not None:
        return None
    return "a Parquet file is written by pyarrow, which is not installed: pip install 'tui_evals[parquet]'"


def _parquet(reader: Reader, runs: Sequence[RunRow], raw: bool) -> Iterator[bytes]:
    return parquet_table(*(rows(reader, runs) if len(runs) > 1 else results.rows(reader, runs[0])))


KINDS = {
    "csv": ReportKind((".csv",), _csv, has_companion=True, about="a table with a row for each answer"),
    "json": ReportKind((".json",), _json, has_companion=True, about="the figures and every answer, for programs"),
    "jsonl": ReportKind((".jsonl",), _json_lines, has_companion=True, about="a line of JSON for each answer"),
    "parquet": ReportKind(
        (".parquet",), _parquet, missing=_missing_pyarrow, is_text=False, about="a table for data frames"
    ),
}
