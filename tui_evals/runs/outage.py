"""Whether a target is gone, or a question is to blame that it has no answer: a short question of ours tells them apart.

Questions that meet a target which is gone wait until it is back and are no failures; the run ends where it stays away.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

from tui_evals.runs.executors.base import Stopped
from tui_evals.store.records import Wait
from tui_evals.targets.base import TargetConfig, TargetError

Probe = Callable[[], Awaitable[TargetError | None]]
"""Puts a short question; the failure where nobody is there."""
IS_THERE = ("agentRateLimited", "agentResponseUnparseable")
"""Failures of a target that is there: it asks for a pause, or says what nobody can read."""
_ENOUGH = 8
"""So many failures with no answer between them are worth a short question, before any is tried to the end."""
_FIRST_PAUSE = 0.5
_LONGEST_PAUSE = 30.0


class Outage:
    """What is known of whether one target is there."""

    def __init__(self, config: TargetConfig) -> None:
        self._config = config
        self.answers = 0
        """How many questions were answered."""
        self.count = 0
        """How many outages are over."""
        self._failures = 0
        """How many calls failed since one was answered."""
        self._wait: asyncio.Task[None] | None = None

    def answered(self) -> None:
        """A question was answered."""
        self.answers += 1
        self._failures = 0

    def failed(self) -> bool:
        """A call failed as one does where nobody is there; whether so many did, after some did not, that it went."""
        self._failures += 1
        return self.answers > 0 and self._failures >= _ENOUGH

    async def end(self) -> None:
        """Wait while the target is known to be away."""
        if self._wait is not None:
            await asyncio.shield(self._wait)

    async def look(
        self,
        failure: TargetError,
        probe: Probe,
        note_wait: Callable[[Wait], None],
        rest: Callable[[float], Awaitable[None]],
    ) -> None:
        """Find out whether the target is there after a failure, and wait until it is; all share one short question.

        Stopped when it stays away for longer than its configuration allows.
        """
        if self._wait is None:
            self._wait = asyncio.create_task(self._until_back(failure, probe, note_wait, rest))
            self._wait.add_done_callback(self._ended)
        await asyncio.shield(self._wait)

    def _ended(self, wait: asyncio.Task[None]) -> None:
        self._wait = None
        if not wait.cancelled():
            wait.exception()  # whoever waited was told

    async def _until_back(
        self,
        failure: TargetError,
        probe: Probe,
        note_wait: Callable[[Wait], None],
        rest: Callable[[float], Awaitable[None]],
    ) -> None:
        clock = asyncio.get_running_loop().time
        began, tries = clock(), 0
        while (problem := await probe()) is not None:
            away = clock() - began
            # What never answered in this run is more likely wrong than away, and whoever started it is still there.
            if not self.answers or away >= self._config.max_outage:
                raise Stopped(f"{self._config.name}: {self._sentence(failure, problem, away)}", "failed")
            tries += 1
            pause = min(_FIRST_PAUSE * 2.0 ** (tries - 1), _LONGEST_PAUSE, self._config.max_outage - away)
            note_wait(
                Wait(target=self._config.name, code="outage", until=time.time() + pause, attempt=tries + 1, attempts=0)
            )
            await rest(pause)
        self.count += tries > 0
        self.answered()

    def _sentence(self, failure: TargetError, problem: TargetError, away: float) -> str:
        if not self.answers:
            return f"{problem} It has answered no question of this run, nor a short one"
        limit = f"the target's max_outage is {self._config.max_outage:,.0f} s"
        return f"{failure} It was away for {away:,.0f} s, and {limit}; questions stay pending"
