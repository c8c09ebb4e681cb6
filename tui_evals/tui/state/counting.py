"""When the run on screen is counted: away from the screen, one count at a time, at most a hundredth of the time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from tui_evals.store.records import Totals
from tui_evals.tui.views.totals import FINAL, Pace, Tally, done

from .watch import Pulse, Watch

_SHARE = 100
_LEAST = 0.4


class Counting:
    """The numbers of one run, kept up between two counts by what is seen to change."""

    def __init__(self, watch: Watch, now: Callable[[], float]) -> None:
        self._watch = watch
        self._now = now
        self._run = watch.run.id if watch.run else None
        self._tally, self._pace = Tally(), Pace()
        self._wanted, self._busy, self._after = True, False, 0.0
        self.latest: int | None = None
        """The answer that became final last."""

    @property
    def totals(self) -> Totals | None:
        """The run as far as one knows."""
        return self._tally.totals

    def rate(self) -> float | None:
        """How many answers became final per second lately; asked twice a second."""
        totals = self.totals
        if totals is None:
            return None
        self._pace.note(self._now(), done(totals))
        return self._pace.rate()

    def note(self, pulse: Pulse) -> None:
        """Something changed."""
        self._wanted = True
        if pulse.run or pulse.reload:
            self._after = 0.0
        self._tally.note(pulse.rows)
        self.latest = next((row.id for row in reversed(pulse.rows) if row.status in FINAL), self.latest)

    def soon(self) -> None:
        """Count as soon as it can be."""
        self._wanted, self._after = True, 0.0

    def due(self) -> bool:
        """Whether a count is to begin now."""
        return self._run is not None and self._wanted and not self._busy and self._now() >= self._after

    async def count(self) -> bool:
        """Count; says whether the numbers are those of the run on screen now."""
        self._wanted, self._busy = False, True
        begun = time.perf_counter()
        try:
            found = await asyncio.to_thread(self._watch.count)
        finally:
            self._busy = False
            self._after = self._now() + max(_LEAST, _SHARE * (time.perf_counter() - begun))
        if found is None or found.run != self._run or not self._watch.counted(found):
            return False
        self._tally.counted(found.totals, found.seq, found.first_pass)
        return True
