"""Keeping the statuses beside the items up to date, with every look at the store away from the screen."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Hashable
from pathlib import Path

from textual.timer import Timer

from tui_evals.store.records import AnswerStatus
from tui_evals.tui.state.latest import Latest, latest_of, news
from tui_evals.tui.state.watch import Pulse

from .pane import Pane

_PACE = 0.5  # seconds between two looks at runs that are not on screen


class Statuses:
    """How the items of the open file did last; tells `new` when there is another run, `changed` which items changed."""

    def __init__(self, pane: Pane, new: Callable[[], None], changed: Callable[[Collection[Hashable]], None]) -> None:
        self._pane = pane
        self._new = new
        self._changed = changed
        self._file: Path | None = None
        self._latest: Latest | None = None
        self._timer: Timer | None = None

    @property
    def by_item(self) -> dict[Hashable, AnswerStatus]:
        """The statuses by the key of the item; the same object for as long as no other run is read."""
        return self._latest.statuses if self._latest else {}

    def of(self, file: Path | None) -> None:
        """Be about this file."""
        if file != self._file:
            self._file, self._latest = file, None
            self._look()

    def pulse(self, pulse: Pulse) -> None:
        """The store has changed."""
        if self._file is None:
            return
        if pulse.reload:
            self._latest = None
            self._look()
        elif self._latest is not None and pulse.rows:
            self._told(self._latest.take(pulse.rows))
        if pulse.runs and self._timer is None:
            self._timer = self._pane.set_timer(_PACE, self._look_again)

    def _look_again(self) -> None:
        self._timer = None
        self._look()

    def _look(self) -> None:
        if self._file is not None:
            self._pane.app.run_worker(
                self._read(self._file), group="statuses", name="statuses", exclusive=True, exit_on_error=False
            )

    async def _read(self, file: Path) -> None:
        space = self._pane.workspace
        known = self._latest
        if known is not None:
            found = await asyncio.to_thread(news, known, space.root, space.database)
            if found is not None:
                if known is self._latest:
                    known.seq, rows = found
                    self._told(known.take(rows))
                return
        latest = await asyncio.to_thread(latest_of, file, space.root, space.database, space.items)
        if file == self._file:
            self._latest = latest
            self._new()

    def _told(self, keys: Collection[Hashable]) -> None:
        if keys:
            self._changed(keys)
