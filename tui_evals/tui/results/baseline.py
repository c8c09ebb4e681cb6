"""Keeps up how the run on screen stands against its baseline, away from the screen's thread and seldom."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from tui_evals.store.database import StoreError
from tui_evals.store.reader import Reader
from tui_evals.store.records import RunRow
from tui_evals.tui.watch import StoreChange, Watch

if TYPE_CHECKING:
    from tui_evals.compare.baseline import AgainstBaseline, BaselineComparison

_LEAST = 1.5
"""Seconds between two comparisons."""
_SHARE = 50
"""A comparison that takes long waits so many times as long for the next one."""


class BaselineMeter:
    """Compares the run on screen with the baseline of its dataset, again only after something changed in the store."""

    def __init__(self, watch: Watch, root: Path, now: Callable[[], float]) -> None:
        self._watch = watch
        self._root = root
        self._comparison: BaselineComparison | None = None
        self._now = now
        self._wanted, self._busy, self._after = watch.run is not None, False, 0.0
        self.against: AgainstBaseline | None = None
        """What was found last."""

    def note(self, change: StoreChange) -> None:
        """Something changed; a run that has another status is looked at at once."""
        self._wanted = True
        if change.run or change.reload:
            self._after = 0.0

    def due(self) -> bool:
        """Whether a comparison is to begin now."""
        return self._wanted and not self._busy and self._watch.run is not None and self._now() >= self._after

    async def measure(self) -> None:
        """Compare once."""
        run = self._watch.run
        if run is None:
            return
        self._wanted, self._busy = False, True
        begun = time.perf_counter()
        try:
            self.against = await asyncio.to_thread(self._measured, run)
        finally:
            self._busy = False
            self._after = self._now() + max(_LEAST, _SHARE * (time.perf_counter() - begun))

    def _measured(self, run: RunRow) -> AgainstBaseline | None:
        from tui_evals.compare.baseline import BaselineComparison

        self._comparison = self._comparison or BaselineComparison(self._root)
        try:
            with Reader(self._watch.database) as reader:
                return self._comparison.measure(reader, run)
        except StoreError:
            return self.against  # the rows say what is wrong with the store; what was found before still holds
