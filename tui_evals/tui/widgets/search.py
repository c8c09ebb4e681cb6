"""A line to search rows with: what is typed stands out at once, n and N go from place to place."""

from __future__ import annotations

import asyncio
from typing import ClassVar, Protocol

from textual.binding import Binding, BindingType
from textual.widgets import Input

from tui_evals.text.safe import safe_line
from tui_evals.tui.messages import StatusMessage
from tui_evals.tui.rows import Rows, rows_with_text

from .focus import HOLDS_KEYS, give_keys
from .pasting import LineInput


class Searched(Protocol):
    """The rows that are searched."""

    @property
    def rows(self) -> Rows:
        """The rows as they are shown now."""

    @property
    def view(self) -> range:
        """The numbers of the rows where one is: a match among them is the one one is at."""

    def mark(self, text: str) -> None:
        """Make a text stand out wherever it stands."""

    def to_match(self, number: int) -> None:
        """Go to a row."""

    def take_keys(self) -> None:
        """The keys belong to the rows."""


class SearchLine(LineInput):
    """Searches rows, many of them away from the screen's thread; it is there while one types."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "end_search", "end", show=False)]

    def __init__(self, searched: Searched) -> None:
        super().__init__(placeholder="find", classes=f"filter {HOLDS_KEYS}", select_on_focus=False)
        self._searched = searched
        self._matches: list[int] = []
        self._at = -1

    def begin(self) -> None:
        """Ask what to find."""
        self.value = ""
        self.display = True
        give_keys(self)

    def end(self) -> bool:
        """Forget what was searched for; False when nothing was."""
        if not (self.display or self.value):
            return False
        self.value, self._matches, self.display = "", [], False
        self._searched.mark("")
        self._searched.take_keys()
        return True

    def action_end_search(self) -> None:
        """Escape leaves the line."""
        self.end()

    def again(self) -> None:
        """The rows were made anew, if often the same ones."""
        if self.value:
            self._look("search", jump=self.display and self._at < 0)

    def on_input_changed(self, event: Input.Changed) -> None:
        """Mark what is typed as it is typed."""
        event.stop()
        self._searched.mark(event.value)
        self._at = -1
        self._look("search", jump=True)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Back to the rows; what was found stays for n and N."""
        event.stop()
        self.display = False
        self._searched.take_keys()
        if event.value:
            self._at = -1
            self.workers.cancel_group(self, "search")
            self._look("acts", jump=True)  # what is typed behind enter waits for it

    def _tell(self) -> None:
        if not self._matches:
            self.post_message(StatusMessage(f"{self._named} does not stand here · esc ends it", "warn"))
            return
        count = len(self._matches)
        here = f": {self._matches.index(self._at) + 1} of {count}" if self._at in self._matches else f": {count} lines"
        self.post_message(StatusMessage(f"{self._named}{here} · n N · esc ends it"))

    @property
    def _named(self) -> str:
        return f"“{safe_line(self.value, 40)}”"

    def _look(self, group: str, *, jump: bool) -> None:
        self.run_worker(self._find(jump), group=group, name="searching", exclusive=True, exit_on_error=False)

    async def _find(self, jump: bool) -> None:
        self._matches = await asyncio.to_thread(rows_with_text, self._searched.rows, self.value)
        if self._at not in self._matches:
            self._at = -1
        if jump and self.value and (self._matches or not self.display):
            self.go(1)

    def go(self, way: int) -> None:
        """To the next row that was found, round the end; from where one is when one has gone away."""
        if not self._matches:
            self._tell()
            return
        view = self._searched.view
        start = self._at if self._at in view else view.start - 1 if way > 0 else view.start
        later = [number for number in self._matches if (number > start if way > 0 else number < start)]
        self._at = (later or self._matches)[0 if way > 0 else -1]
        self._searched.to_match(self._at)
        if not self.display:
            self._tell()
