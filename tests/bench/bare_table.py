"""The floor of a live run in the workbench: Textual's own table, which follows the newest answers of a store.

    python -m tests.bench.bare_table STORE RUN FIRST

It holds the 5,000 answers from FIRST on, looks twice a second and goes to the newest once a second.
"""

from __future__ import annotations

import sqlite3
import sys
from typing import ClassVar

from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.widgets import DataTable

_ROWS = 5_000
_COLUMNS = ("name", "status", "preview", "latency_ms", "cost")
_CHANGED = f"SELECT seq, pos, {', '.join(_COLUMNS)} FROM answers WHERE run = ? AND pos >= ? AND pos < ? AND seq > ?"


class BareTable(App[None]):
    """A table over a store, and nothing else."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("j", "down"), Binding("f", "follow")]

    def __init__(self, store: str, run: int, first: int) -> None:
        super().__init__()
        self._database = sqlite3.connect(store)
        self._run, self._first, self._seq = run, first, 0
        self._newest, self._follows, self._looks = first, False, 0
        self.table: DataTable[str] = DataTable(cursor_type="row")

    def compose(self) -> ComposeResult:
        """The table."""
        yield self.table

    def on_mount(self) -> None:
        """Fill it, and look for what changed from then on."""
        for name in _COLUMNS:
            self.table.add_column(name, key=name)
        for _, place, *cells in self._changed():
            self.table.add_row(*map(str, cells), key=str(place))
        self.set_interval(0.5, self._look)

    def action_down(self) -> None:
        """Go to the next answer."""
        self.table.action_cursor_down()

    def action_follow(self) -> None:
        """Go to the newest answer from now on."""
        self._follows = True

    def _changed(self) -> list[tuple[int, int, str]]:
        rows = self._database.execute(_CHANGED, (self._run, self._first, self._first + _ROWS, self._seq)).fetchall()
        self._seq = max((seq for seq, *_ in rows), default=self._seq)
        return rows

    def _look(self) -> None:
        for _, place, *cells in self._changed():
            for name, cell in zip(_COLUMNS, cells, strict=True):
                self.table.update_cell(str(place), name, str(cell))
            self._newest = max(self._newest, place) if cells[1] in ("pass", "fail") else self._newest
        self._looks += 1
        if self._follows and self._looks % 2:
            self.table.move_cursor(row=self._newest - self._first)


if __name__ == "__main__":
    BareTable(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])).run()
