"""The workers of a run that many execute: all in one line above the results, and each in a row of a list."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar, overload

from textual.binding import Binding, BindingType
from textual.widget import Widget

from tui_evals.present.figures import duration
from tui_evals.store.records import WorkerRow, WorkerState
from tui_evals.store.workers import WorkerTotals, worker_totals
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
_STATE = 10
_COLUMNS = (("cells", 6), ("calls/s", 9), ("calls", 10), ("errors", 8), ("last heard", 12))
_NUMBERS = sum(width for _, width in _COLUMNS)
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


def heading(width: int) -> Row:
    """The words above the columns of the list."""
    name = _name_width(width)
    numbers = (fit(word, size, "dim", right=True) for word, size in _COLUMNS[: _shown(width)])
    return row(fit("state", _STATE, "dim"), fit("worker", name, "dim"), *numbers)


class WorkerRows(Sequence[Row]):
    """The list; each row is made when it comes into view."""

    def __init__(self, workers: Sequence[WorkerRow], width: int, now: float) -> None:
        self._workers = sorted(workers, key=lambda worker: (_ORDER[worker.state], worker.name))
        self._width = width
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
        return worker_line(self._workers[number], self._width, self._now)


def worker_line(worker: WorkerRow, width: int, now: float) -> Row:
    """One worker: as many of its facts as fit, the most important ones first."""
    glyph, style = STATES[worker.state]
    heard = duration(max(now - worker.seen, 0.0)) if worker.state != "alive" else ""
    values = (f"{worker.cells:,}", f"{worker.rate:,.1f}", f"{worker.calls:,}", f"{worker.errors:,}", heard)
    name = worker.name.partition("://")[2] or worker.name
    pieces = [Piece(f"{glyph} {worker.state}".ljust(_STATE), style), fit(name, _name_width(width))]
    for (word, size), value in list(zip(_COLUMNS, values, strict=True))[: _shown(width)]:
        wrong: Style = "error" if word == "errors" and worker.errors else ""
        pieces.append(fit(value, size, wrong, right=True))
    return Row(tuple(pieces))


def no_workers_rows(width: int) -> list[Row]:
    """What stands where no worker is known."""
    message = "None is known: this run has not heard of any worker."
    return [row((line, "dim")) for line in wrapped(message, width)]


def _shown(width: int) -> int:
    """How many columns of numbers there is room for."""
    left, count = width - _STATE - _LEAST_NAME, 0
    for _, size in _COLUMNS:
        left -= size
        count += left >= 0
    return count


def _name_width(width: int) -> int:
    return max(width - _STATE - sum(size for _, size in _COLUMNS[: _shown(width)]), 0)


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
        return [workers_line(self._watch.crew.totals, width), heading(width)]

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
