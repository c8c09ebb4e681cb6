"""The dialog for values that two people changed apart: both beside each other, and which of them is to hold."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import zip_longest
from typing import Any, ClassVar

from textual.binding import Binding, BindingType
from textual.widget import Widget

from tui_evals.datasets.merging import ABSENT, Conflict
from tui_evals.tui.widgets.dialogs import Dialog
from tui_evals.tui.widgets.lines import Lines

from .rows import Row, Style, fit, row, wrapped

_MOST = 12
"""Lines of a value that are shown."""


class ChooseSides(Dialog[frozenset[int]]):
    """Which conflicts are to be as they are on disk; the answer is None when it is to be decided later."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("m", "side(False)", "mine", show=False),
        Binding("t", "side(True)", "theirs", show=False),
        Binding("M", "all(False)", "all mine", show=False),
        Binding("T", "all(True)", "all theirs", show=False),
        Binding("enter", "take", "take", show=False, priority=True),
    ]

    def __init__(self, name: str, conflicts: Sequence[Conflict], places: Sequence[str]) -> None:
        values = "1 value" if len(conflicts) == 1 else f"{len(conflicts)} values"
        super().__init__(
            f"{name} was changed on disk: {values} changed on both sides",
            "m mine · t theirs · M T all of them · enter puts both together · esc later · undo shows either",
        )
        self._conflicts = conflicts
        self._places = places
        self._theirs: frozenset[int] = frozenset()

    def body(self) -> list[Widget]:
        """The values."""
        self._lines = Lines(id="conflicts", classes="tall")
        self._lines.show(self._rows)
        return [self._lines]

    def on_mount(self) -> None:
        """The cursor chooses what m and t are about."""
        self._lines.focus()

    def _rows(self, width: int) -> list[Row]:
        rows: list[Row] = []
        for number, (conflict, place) in enumerate(zip(self._conflicts, self._places, strict=True)):
            rows += _conflict_rows(number, conflict, place, number in self._theirs, width)
        return rows

    def action_side(self, theirs: bool) -> None:
        """Choose for the value under the cursor, and go on to the next."""
        key = self._lines.key
        if isinstance(key, int):
            self._theirs = self._theirs | {key} if theirs else self._theirs - {key}
            self._lines.show(self._rows, at=min(key + 1, len(self._conflicts) - 1))

    def action_all(self, theirs: bool) -> None:
        """Choose for all of them."""
        self._theirs = frozenset(range(len(self._conflicts))) if theirs else frozenset()
        self._lines.show(self._rows)

    def action_take(self) -> None:
        """Put both together so."""
        self.dismiss(self._theirs)


def _conflict_rows(number: int, conflict: Conflict, place: str, theirs: bool, width: int) -> list[Row]:
    """A value as it is here and on disk; the side that is to hold is named and marked."""
    room = max((width - 3) // 2, 1)
    holds = "theirs holds" if theirs else "mine holds"
    rows = [row(fit(place, max(width - len(holds) - 1, 1), "strong"), " ", (holds, "accent"), key=number)]
    heads = fit(f"{' ' if theirs else '▸'} mine", room, "dim" if theirs else "accent")
    rows.append(row(heads, "   ", fit(f"{'▸' if theirs else ' '} theirs", room, "accent" if theirs else "dim")))
    mine, others = _lines_apart(_text(conflict.mine), _text(conflict.theirs))
    styles: tuple[Style, Style] = ("dim", "") if theirs else ("", "dim")
    for one, other in zip_longest(_shown(mine, room), _shown(others, room), fillvalue=""):
        rows.append(row(fit(one, room, styles[0]), (" │ ", "dim"), fit(other, room, styles[1])))
    return [*rows, row()]


def _text(value: Any) -> str:
    if value is ABSENT:
        return "taken away"
    return value if isinstance(value, str) else json.dumps(value, indent=2, ensure_ascii=False)


def _lines_apart(mine: str, theirs: str) -> tuple[list[str], list[str]]:
    """Both texts from a line before the first one that differs."""
    left, right = mine.split("\n"), theirs.split("\n")
    same = next((number for number, (a, b) in enumerate(zip(left, right, strict=False)) if a != b), 0)
    if same < 3:
        return left, right
    note = f"… {same - 1} lines alike"
    return [note, *left[same - 1 :]], [note, *right[same - 1 :]]


def _shown(lines: Sequence[str], room: int) -> list[str]:
    wide = [part for line in lines[: _MOST + 1] for part in wrapped(line[: room * _MOST], room) or [""]]
    more = len(lines) > _MOST + 1 or len(wide) > _MOST
    return [*wide[:_MOST], "…"] if more else wide
