"""The workers of the run on screen, one row each, as they are told of."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.widget import Widget

from tui_evals.store.records import WorkerRow
from tui_evals.tui.lines import Rows
from tui_evals.tui.state.watch import Watch
from tui_evals.tui.views.workers import WorkerRows, heading, none_there, workers_line
from tui_evals.tui.widgets.lines import Lines

from .dialog import Dialog

_LOOK = 0.1


class Workers(Dialog[None]):
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
        return WorkerRows(self._watch.crew.rows, width, self._now()) or none_there(width)

    def _look(self) -> None:
        rows = self._watch.crew.rows
        if rows is not self._drawn:
            self._drawn = rows
            self._head.show(self._above)
            self._list.show(self._rows)
