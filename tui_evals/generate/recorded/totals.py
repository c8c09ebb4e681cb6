"""The totals that PromptPex wrote into overview.csv, and whether the recorded answers come to the same."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from .artefacts import Artefacts
from .pieces import table_of
from .rows import RecordedResult

Rows = Sequence[Mapping[str, Any]]


def overview_of(found: Artefacts) -> list[dict[str, Any]]:
    """The rows of overview.csv; none where there is no such file."""
    piece = found.pieces.get("overview")
    return [] if piece is None else table_of(piece)


def differences(overview: Rows, recorded: Sequence[RecordedResult], kept: Sequence[RecordedResult]) -> list[str]:
    """What overview.csv says otherwise than the answers do; rows that stand twice in the file may count twice in it."""
    asked = [row for row in recorded if not row.isGroundtruth]
    once, all_rows = _counted(kept), _counted(asked)
    if not _differing(overview, all_rows):
        return []
    return _differing(overview, once)


def _differing(overview: Rows, counted: Mapping[tuple[str, str], Mapping[str, str]]) -> list[str]:
    said = []
    for row in overview:
        model = str(row.get("model") or "")
        if not model:
            said.append("overview.csv has totals of no model: its first line should name the column model")
            return said
        scenario = str(row.get("scenario") or "")
        ours = counted.get((model, scenario)) or counted.get((model, "")) or {}
        name = _short(f"{model}, {scenario}" if scenario else model)
        if not ours:
            said.append(f"overview.csv has totals of {name}, of which there are no answers")
            continue
        parts = [
            f"{column} {value} (the answers: {ours[column]})"
            for column, value in row.items()
            if column in ours and str(value).strip() and str(value).strip() != ours[column]
        ]
        if parts:
            said.append(f"overview.csv says otherwise of {name}: {', '.join(parts)}")
    return said


def _short(name: str) -> str:
    return name if len(name) <= 80 else f"{name[:79]}…"


def _counted(rows: Iterable[RecordedResult]) -> dict[tuple[str, str], dict[str, str]]:
    """The columns of each model and scenario, and of each model in all of them."""
    groups: defaultdict[tuple[str, str], list[RecordedResult]] = defaultdict(list)
    for row in rows:
        for key in {(row.model or "", row.scenario or ""), (row.model or "", "")}:
            groups[key].append(row)
    return {key: _columns(group) for key, group in groups.items()}


def _columns(rows: Sequence[RecordedResult]) -> dict[str, str]:
    good = [row for row in rows if not row.error]
    tests = [row for row in good if not row.baseline]
    baseline = [row for row in good if row.baseline]
    positive = [row for row in tests if not row.inverse]
    negative = [row for row in tests if row.inverse]
    return {
        "tests": str(len(tests)),
        "tests compliant": _share(tests),
        "baseline compliant": _share(baseline),
        "tests positive": str(len(positive)),
        "tests positive compliant": str(_compliant(positive)),
        "tests negative": str(len(negative)),
        "tests negative compliant": str(_compliant(negative)),
        "baseline": str(len(baseline)),
    }


def _compliant(rows: Iterable[RecordedResult]) -> int:
    return sum(row.compliance == "ok" for row in rows)


def _share(rows: Sequence[RecordedResult]) -> str:
    whole = len(rows)
    return f"{(200 * _compliant(rows) + whole) // (2 * whole)}%" if whole else "--"
