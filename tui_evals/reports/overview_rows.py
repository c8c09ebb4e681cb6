"""An overview as rows, and these as a table, CSV and JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from tui_evals.text.cells import csv_line, guard

from .metrics import Measured, Metric

_NAMES = ("run", "model", "prompt", "scenario")
_KINDS = ("positive", "negative", "valid", "invalid")
_FALLIBLE = frozenset(("errors", "tests not judged", "baseline", "baseline compliant", "baseline not judged")) | {
    f"tests {kind}{end}" for kind in _KINDS for end in ("", " compliant")
}
"""Columns that are left out where every row of them says nothing."""
_NOTHING = frozenset(("0", "0%", "--", "---"))


@dataclass(frozen=True, slots=True)
class Counted:
    """Answers, and how many of them keep to the rules; those without a verdict are in no share."""

    answers: int
    judged: int
    compliant: int

    @property
    def unjudged(self) -> int:
        """How many answers have no verdict."""
        return self.answers - self.judged


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One model in one scenario of a run."""

    run: str
    model: str
    prompt: str
    scenario: str
    errors: int
    """Answers without a text, to tests and baseline tests."""
    waiting: int
    """Answers that are not there yet."""
    tests: Counted
    baseline: Counted
    positive: Counted
    negative: Counted
    valid: Counted
    invalid: Counted
    metrics: Mapping[Metric, Measured]
    """Over the answers to tests, baseline tests left out."""


@dataclass(frozen=True, slots=True)
class Overview:
    """The rows of one run after the other, and what to know before reading them."""

    rows: tuple[Row, ...]
    metrics: tuple[Metric, ...]
    notes: tuple[str, ...]


def percent(part: int, whole: int) -> str:
    """A share as a whole number of percent, halves rounded up; `--` of nothing."""
    return f"{(200 * part + whole) // (2 * whole)}%" if whole else "--"


def named(found: Overview) -> list[str]:
    """The columns that say whose row it is; all but the model only where they tell rows apart."""
    several = {name for name in ("run", "prompt") if len({getattr(row, name) for row in found.rows}) > 1}
    scenario = {"scenario"} if any(row.scenario for row in found.rows) else set()
    return [name for name in _NAMES if name in {"model"} | several | scenario]


def table(found: Overview, *, counts: bool = False) -> tuple[list[str], list[list[str]]]:
    """Headings and rows, without columns that say nothing; `counts` adds what stands behind each metric."""
    names = named(found)
    counted = [_cells(row) for row in found.rows]
    shown = [
        column
        for column in counted[0]
        if column not in _FALLIBLE or not _NOTHING.issuperset(cells[column] for cells in counted)
    ]
    headings = [*names, *shown, *(part for metric in found.metrics for part in _headings(metric, counts))]
    rows = [
        [
            *(getattr(row, name) for name in names),
            *(cells[column] for column in shown),
            *(part for metric in found.metrics for part in _figures(row.metrics.get(metric), counts)),
        ]
        for row, cells in zip(found.rows, counted, strict=True)
    ]
    return headings, rows


def _cells(row: Row) -> dict[str, str]:
    cells = {"errors": str(row.errors)}
    for name, counted in (("tests", row.tests), ("baseline", row.baseline)):
        cells[name] = str(counted.answers)
        cells[f"{name} compliant"] = percent(counted.compliant, counted.judged)
        cells[f"{name} not judged"] = str(counted.unjudged)
    for kind in _KINDS:
        counted = getattr(row, kind)
        cells[f"tests {kind}"] = str(counted.answers)
        cells[f"tests {kind} compliant"] = str(counted.compliant)
    return cells


def _headings(metric: Metric, counts: bool) -> list[str]:
    return [metric.heading, f"{metric.heading} n"] if counts else [metric.heading]


def _figures(found: Measured | None, counts: bool) -> list[str]:
    figure, count = ("", "") if found is None else (_figure(found), str(found.counted))
    return [figure, count] if counts else [figure]


def _figure(found: Measured) -> str:
    """The mean of the scores; of a metric that only says OK or ERR, how many are OK, and their share."""
    if found.mean is not None:
        return f"{found.mean:.2f}".rstrip("0").rstrip(".")
    return f"{found.passed} ({percent(found.passed, found.counted)})" if found.counted else "--"


def csv_text(found: Overview, *, raw: bool = False) -> str:
    """The overview as CSV; names that a spreadsheet could run are made harmless unless `raw`."""
    headings, rows = table(found, counts=True)
    names = len(named(found))
    foreign = [True] * len(headings), *([place < names for place in range(len(headings))] for _ in rows)
    return "".join(
        csv_line(guard(cell) if guarded and not raw else cell for cell, guarded in zip(line, guarding, strict=True))
        for line, guarding in zip((headings, *rows), foreign, strict=True)
    )


def json_text(found: Overview) -> str:
    """The overview with every number, also those that its table leaves out."""
    document = {"rows": [_object(row) for row in found.rows], "notes": list(found.notes)}
    return json.dumps(document, ensure_ascii=False, indent=2) + "\n"


def _object(row: Row) -> dict[str, Any]:
    return {
        **{name: getattr(row, name) for name in (*_NAMES, "errors", "waiting")},
        **{name: _counted(getattr(row, name)) for name in ("tests", "baseline", *_KINDS)},
        "metrics": [_measured(metric, found) for metric, found in row.metrics.items()],
    }


def _counted(counted: Counted) -> dict[str, Any]:
    return {
        "answers": counted.answers,
        "compliant": counted.compliant,
        "not_compliant": counted.judged - counted.compliant,
        "not_judged": counted.unjudged,
        "share": counted.compliant / counted.judged if counted.judged else None,
    }


def _measured(metric: Metric, found: Measured) -> dict[str, Any]:
    known = {"column": metric.heading, "metric": metric.name, "judge": metric.judge or None}
    if metric.judge is None:
        return known | {"average": True, "mean": found.mean, "scored": found.scored}
    return known | {"average": False, **asdict(found)}
