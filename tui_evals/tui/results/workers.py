"""The workers of a run that many execute: all in one line above the results, and each in a row of a list."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar, overload

from textual.binding import Binding, BindingType
from textual.widget import Widget

from tui_evals.present.columns import GAP, Column, cell_width, elide, fit_columns
from tui_evals.present.figures import duration
from tui_evals.store.records import WorkerRow, WorkerState
from tui_evals.store.workers import WorkerTotals, worker_totals
from tui_evals.text.safe import safe_line
from tui_evals.tui.desk import Command, Commands, Desk
from tui_evals.tui.rows import Piece, Row, Rows, Style, fit, row, wrapped
from tui_evals.tui.watch import Watch
from tui_evals.tui.widgets.dialogs import Dialog
from tui_evals.tui.widgets.lines import Lines

from .totals import join_fitting

STATES: Mapping[WorkerState, tuple[str, Style]] = {
    "silent": ("◌", "warn"),
    "alive": ("●", "pass"),
    "gone": ("○", "dim"),
}
"""In the order of the list: those one wonders about come first."""

_ORDER = {state: number for number, state in enumerate(STATES)}
_NUMBERS = ("cells", "calls/s", "calls", "errors", "last heard")
"""The most important first."""
_STATE = max(map(len, STATES)) + 2
_LEAST_NAME = 8


def workers_line(totals: WorkerTotals, width: int, hint: str = "") -> Row:
    """All workers of a run, with as much as fits; last the key that lists them."""
    counts: dict[WorkerState, int] = {"alive": totals.alive, "silent": totals.silent, "gone": totals.gone}
    state, *others = [state for state in counts if counts[state]] or ["gone"]
    glyph, style = STATES[state]
    word = "" if state == "alive" else f" {state}"
    groups = [[Piece(f"{glyph} {worker_totals(counts[state], 'worker')}{word}", style)]]
    if totals.alive or totals.silent:
        rate = f"{totals.rate:,.0f}" if totals.rate >= 100 else f"{totals.rate:.1f}"
        groups += [[Piece(worker_totals(totals.cells, "cell"))], [Piece(f"{rate}/s")]]
    else:
        groups.append([Piece(worker_totals(totals.calls, "call"))])
    groups.append([Piece(f"! {worker_totals(totals.errors, 'error')}", "error" if totals.errors else "dim")])
    groups += [[Piece(f"{STATES[other][0]} {counts[other]:,} {other}", "warn")] for other in others]
    groups += [[Piece(hint, "key"), Piece(" lists them", "dim")]] if hint else []
    return join_fitting(groups, width)


def worker_columns(workers: Sequence[WorkerRow], width: int, now: float) -> list[Column]:
    """What of each worker is told in a width, the columns as wide as what stands in them."""
    told = [_cells(worker, now) for worker in workers]

    def wanted(by: str) -> int:
        return max((cell_width(safe_line(cells[by].text, width)) for cells in told), default=0)

    numbers = (
        Column(word, word, max(wanted(word), len(word)) if wanted(word) else 0, -place, right=True)
        for place, word in enumerate(_NUMBERS)
    )
    name = Column("worker", "worker", max(wanted("worker"), 6), 1, _LEAST_NAME, rest=True)
    return fit_columns((Column("state", "state", _STATE, 2), name, *numbers), width)


def heading(columns: Sequence[Column]) -> Row:
    """The words above the columns of the list."""
    return _line({column.by: Piece(column.word, "dim") for column in columns}, columns)


class WorkerRows(Sequence[Row]):
    """The list; each row is made when it comes into view."""

    def __init__(self, workers: Sequence[WorkerRow], width: int, now: float) -> None:
        self._workers = sorted(workers, key=lambda worker: (_ORDER[worker.state], worker.name))
        self._columns = worker_columns(workers, width, now)
        self._now = now

    def __len__(self) -> int:
        return len(self._workers)

    @overload
    def __getitem__(self, number: int) -> Row: ...
    @overload
    def __getitem__(self, number: slice) -> list[Row]: ...
    def __getitem__(self, number: int | slice) -> Row | list[Row]:
        if isinstance(number, slice):
            return [self[one] for one in range(*number.indices(len(self)))]
        return _line(_cells(self._workers[number], self._now), self._columns)


def _cells(worker: WorkerRow, now: float) -> dict[str, Piece]:
    """What there is to tell of a worker, by the column it stands in."""
    glyph, style = STATES[worker.state]
    return {
        "state": Piece(f"{glyph} {worker.state}", style),
        "worker": Piece(worker.name.partition("://")[2] or worker.name),
        "cells": Piece(f"{worker.cells:,}"),
        "calls/s": Piece(f"{worker.rate:,.1f}"),
        "calls": Piece(f"{worker.calls:,}"),
        "errors": Piece(f"{worker.errors:,}", "error" if worker.errors else ""),
        "last heard": Piece(duration(max(now - worker.seen, 0.0)) if worker.state != "alive" else ""),
    }


def _line(cells: Mapping[str, Piece], columns: Sequence[Column]) -> Row:
    pieces: list[Piece] = []
    for column in columns:
        text, style = cells[column.by]
        text = elide(text, column.width) if column.by == "worker" else text
        pieces += [Piece(" " * GAP)] * bool(pieces) + [fit(text, column.width, style, right=column.right)]
    return Row(tuple(pieces))


def no_workers_rows(width: int) -> list[Row]:
    """What stands where no worker is known."""
    message = "None is known: this run has not heard of any worker."
    return [row((line, "dim")) for line in wrapped(message, width)]


_LOOK = 0.1


class WorkersDialog(Dialog[None]):
    """A list that stays current: whoever watches the run asks the store, and here is looked whether that found some."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("q,M", "leave", "back", show=False)]

    def __init__(self, watch: Watch, now: Callable[[], float] = time.time) -> None:
        super().__init__("workers of the run on screen", "j k scroll · g G top and bottom · esc back")
        self._watch = watch
        self._now = now
        self._drawn: Sequence[WorkerRow] = watch.crew.rows

    def body(self) -> list[Widget]:
        """All of them together, the words above the columns, and a row for each."""
        self._head = Lines(choosing=False, id="crew")
        self._head.can_focus = False
        self._head.show(self._above)
        self._list = Lines(choosing=False, classes="tall")
        self._list.show(self._rows)
        return [self._head, self._list]

    def on_mount(self) -> None:
        """From now on it is looked whether something was heard of them."""
        self.set_interval(_LOOK, self._look)

    def _above(self, width: int) -> Rows:
        return [workers_line(self._watch.crew.totals, width), heading(self._columns(width))]

    def _columns(self, width: int) -> list[Column]:
        return worker_columns(self._watch.crew.rows, width, self._now())

    def _rows(self, width: int) -> Rows:
        return WorkerRows(self._watch.crew.rows, width, self._now()) or no_workers_rows(width)

    def _look(self) -> None:
        rows = self._watch.crew.rows
        if rows is not self._drawn:
            self._drawn = rows
            self._head.show(self._above)
            self._list.show(self._rows)


def why_no_workers(desk: Desk) -> str | None:
    """No run, or one without workers."""
    if desk.watching.run is None:
        return "no run is on screen: 6 lists runs"
    if desk.watching.crew.rows:
        return None
    shared = desk.watching.run.config.get("terms", {}).get("cluster") is not None
    return "no worker has said anything yet" if shared else "this run has no workers: it is executed by one process"


def open_workers(desk: Desk) -> None:
    """The list, over what is on screen."""
    desk.push_screen(WorkersDialog(desk.watching))


COMMANDS: Commands = {"workers": Command(open_workers, why_no_workers)}
