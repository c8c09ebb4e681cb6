"""The workers of a run that many execute, as `watch` shows them: a line each on a terminal, one for all elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from tui_evals.store.records import WorkerRow
from tui_evals.store.workers import Crew, WorkerTotals, counted

from .tables import table

_MOST = 6
_ORDER = {"alive": 0, "silent": 1, "gone": 2}
_GLYPHS = {"alive": "●", "silent": "◌", "gone": "○"}


def crew_lines(crew: Crew, live: bool, room: int | None) -> list[str]:
    """What there is to say of the workers: one by one while a person watches and some are there, else all together."""
    if not crew.rows:
        return []
    if live and crew.totals.alive + crew.totals.silent:
        return worker_lines(crew.rows, crew.totals, room)
    return [summary(crew.totals)]


def worker_lines(rows: Sequence[WorkerRow], totals: WorkerTotals, room: int | None) -> list[str]:
    """A line for each of the busiest workers, by name; where there are more, one for all of them."""
    shown = sorted(busiest(rows), key=lambda row: row.name)
    cells = [
        [
            row.name,
            f"{_GLYPHS[row.state]} {row.state}",
            counted(row.cells, "cell"),
            f"{row.rate:,.1f} calls/s",
            counted(row.calls, "call"),
            counted(row.errors, "error"),
        ]
        for row in shown
    ]
    lines = table(cells, right=(2, 3, 4, 5), room=room)
    left = len(rows) - len(shown)
    return [*lines, f"… and {left:,} more; all: {summary(totals)}"] if left else lines


def busiest(rows: Sequence[WorkerRow]) -> list[WorkerRow]:
    """The workers that are most worth a line: those that are there, then those that hold most."""
    return sorted(rows, key=lambda row: (_ORDER[row.state], -row.cells, -row.calls, row.name))[:_MOST]


def summary(totals: WorkerTotals) -> str:
    """All workers in one line; once none is there any more, what they did."""
    errors = counted(totals.errors, "error")
    if not totals.alive + totals.silent:
        return " · ".join([counted(totals.gone, "worker"), counted(totals.calls, "call"), errors])
    parts = [f"{counted(totals.alive, 'worker')} alive", counted(totals.cells, "cell"), f"{totals.rate:,.1f} calls/s"]
    parts.append(errors)
    others = {"silent": totals.silent, "gone": totals.gone}
    return " · ".join([*parts, *(f"{count:,} {word}" for word, count in others.items() if count)])


def event(crew: Crew) -> dict[str, Any]:
    """All workers as one event."""
    return {"event": "workers", "workers": [asdict(row) for row in crew.rows]}
