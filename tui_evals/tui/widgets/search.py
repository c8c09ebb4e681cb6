"""A line to search a viewer with: what is typed stands out at once, n and N go from place to place."""

from __future__ import annotations

import asyncio

from textual.widgets import Input

from tui_evals.text.safe import safe_line
from tui_evals.tui.messages import StatusMessage
from tui_evals.tui.rows import rows_with_text

from .focus import give_keys
from .lines import Lines


class SearchLine(Input):
    """Searches the rows of a viewer, long ones away from the screen's thread."""

    def __init__(self, lines: Lines) -> None:
        super().__init__(placeholder="find", classes="filter")
        self._viewer = lines
        self._matches: list[int] = []
        self._at = -1

    def begin(self) -> None:
        """Ask what to find."""
        self.display = True
        give_keys(self)

    def end(self) -> bool:
        """Forget what was searched for; False when nothing was."""
        if not (self.display or self.value):
            return False
        self.value, self._matches, self.display = "", [], False
        self._viewer.mark("")
        give_keys(self._viewer)
        return True

    def again(self) -> None:
        """The rows are others now."""
        self._at = -1
        if self.value:
            self._look(jump=False)

    def on_input_changed(self, event: Input.Changed) -> None:
        """Mark what is typed as it is typed."""
        event.stop()
        self._viewer.mark(event.value)
        self._at = -1
        self._look(jump=True)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Back to the rows; what was found stays for n and N."""
        event.stop()
        self.display = False
        give_keys(self._viewer)
        if event.value:
            self._tell()

    def _tell(self) -> None:
        if not self._matches:
            self.post_message(StatusMessage(f"{self._named} does not stand here", "warn"))
            return
        count = len(self._matches)
        here = f": {self._matches.index(self._at) + 1} of {count}" if self._at in self._matches else f": {count} lines"
        self.post_message(StatusMessage(f"{self._named}{here} · n N · esc ends it"))

    @property
    def _named(self) -> str:
        return f"“{safe_line(self.value, 40)}”"

    def _look(self, jump: bool) -> None:
        self.run_worker(self._find(jump), group="search", name="searching", exclusive=True, exit_on_error=False)

    async def _find(self, jump: bool) -> None:
        self._matches = await asyncio.to_thread(rows_with_text, self._viewer.rows, self.value)
        if jump and self._matches:
            self.go(1)

    def go(self, way: int) -> None:
        """To the next row that was found, round the end; from what is in view when one has scrolled away."""
        if not self._matches:
            self._tell()
            return
        top = self._viewer.scroll_offset.y
        seen = top <= self._at < top + self._viewer.size.height
        start = self._at if seen else top - 1 if way > 0 else top
        later = [number for number in self._matches if (number > start if way > 0 else number < start)]
        self._at = (later or self._matches)[0 if way > 0 else -1]
        self._viewer.scroll_to(y=max(self._at - 1, 0), animate=False)
        if not self.display:
            self._tell()
