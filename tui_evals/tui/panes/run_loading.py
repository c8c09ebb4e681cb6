"""When the list of runs is loaded: away from the screen, one load at a time, and for what goes on once a second."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from textual.timer import Timer
from textual.widget import Widget

from tui_evals.store.database import StoreError
from tui_evals.tui.state.history import PAGE, History, Shelf

_PACE = 1.0  # seconds


class Loading:
    """Loads runs for a widget, and tells it when they are there or why they are not."""

    def __init__(
        self, widget: Widget, history: History, done: Callable[[Shelf], None], failed: Callable[[str], None]
    ) -> None:
        self.text = ""
        self._limit = PAGE
        self._widget, self._history = widget, history
        self._done, self._failed = done, failed
        self._wanted = self._busy = self._missed = False
        self._last = 0.0
        self._timer: Timer | None = None

    def now(self) -> None:
        """Load now, or once more when what is being loaded is there."""
        self._wanted, self._missed, self._last = True, False, time.monotonic()
        if not self._busy:
            self._busy = True
            self._widget.run_worker(self._load(), group="runs", name="loading the runs", exit_on_error=False)

    def soon(self) -> None:
        """Load when the last time is long enough ago; nothing is loaded for a widget that nobody sees."""
        self._missed = not self._widget.display
        if self._timer is None and not self._missed:
            wait = max(self._last + _PACE - time.monotonic(), 0.001)
            self._timer = self._widget.set_timer(wait, self._due)

    def seen(self) -> None:
        """The widget is in sight again: catch up with what went on."""
        if self._missed:
            self.soon()

    def filter(self, text: str) -> None:
        """Only runs with these words."""
        self.text, self._limit = text, PAGE
        self.now()

    def more(self, shelf: Shelf) -> None:
        """Earlier runs than those on a shelf too, unless they are on their way."""
        if len(shelf.past) >= self._limit:
            self._limit += PAGE
            self.now()

    def _due(self) -> None:
        self._timer = None
        self.now()

    async def _load(self) -> None:
        try:
            while self._wanted:
                self._wanted = False
                shelf = await asyncio.to_thread(self._history.load, self._limit, self.text)
                self._last = time.monotonic()
                self._wanted |= not shelf.counted
                self._done(shelf)
        except StoreError as problem:
            self._failed(str(problem))
        finally:
            self._busy = False
