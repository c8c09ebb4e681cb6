"""A battle: pairs of answers put to a judge in both orders, each bout committed as soon as it is over."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping

from tui_evals.evaluators.base import Ask, CannotJudge
from tui_evals.evaluators.battling import Place, preference
from tui_evals.store.bouts import SCRIPTED, Bout, Winner, keep_bout
from tui_evals.store.reader import Reader
from tui_evals.store.writer import Writer

from .asking import Asked, StoreLedger, current_answer
from .contenders import Due, Material, Shown
from .engine import Outcome
from .executors.base import Stopped
from .judges import Judges
from .scoring import scripted

_ORDERS: tuple[Mapping[Place, Winner], ...] = (
    {"first": "left", "second": "right", "tie": "tie"},
    {"first": "right", "second": "left", "tie": "tie"},
)


class Battle:
    """Fights bouts as many at once as the judge takes; whatever ends it, what was decided is kept."""

    def __init__(
        self, due: Iterable[Due], judge: Asked, criteria: str, question: str, reader: Reader, writer: Writer
    ) -> None:
        self._due = list(due)
        self._judge = judge
        self._criteria = criteria
        self._question = question
        self._reader = reader
        self._writer = writer
        self._material = Material(reader)
        self._stop = False
        self._reason: Stopped | None = None
        self.total = len(self._due)
        self.done = 0
        self.undecided = 0

    def stop(self) -> None:
        """Begin no bout any more; those in flight are let finish."""
        self._stop = True

    async def fight(self) -> Outcome:
        """Put every bout to the judge."""
        waiting = iter(self._due)
        most = min(self._judge.config.concurrency, self.total)
        workers = [asyncio.create_task(self._work(waiting)) for _ in range(most)]
        try:
            await asyncio.gather(*workers)
        finally:
            for worker in workers:
                worker.cancel()
            await asyncio.gather(*workers, return_exceptions=True)
            await self._judge.target.close()
        if self._reason is not None:
            return Outcome(False, str(self._reason), self._reason.configuration)
        finished = self.done == self.total
        return Outcome(finished, "" if finished else "stopped before the end")

    async def _work(self, waiting: Iterable[Due]) -> None:
        for due in waiting:
            if self._stop:
                return
            try:
                bout = await self._bout(due)
            except Stopped as reason:
                self._reason = self._reason or reason
                self.stop()
                return
            await asyncio.to_thread(keep_bout, self._writer, bout)
            self.done += 1
            self.undecided += bout.winner is None

    async def _bout(self, due: Due) -> Bout:
        """Both verdicts, of which those that are known are not asked for again."""
        current_answer.set(max(due.left, due.right))
        shown = self._material.of(due)
        # A reply that could not be read lies in the cache, and would only be unreadable once more.
        judges = Judges({None: self._judge}, StoreLedger(self._reader, self._writer, due.run), due.known is None)
        ask = judges.ask_of(None)
        assert ask is not None
        known = due.known
        reasons = known.reason.split("\n") if known else ["", ""]
        verdicts: list[Winner | None] = [known.first, known.second] if known else [None, None]
        for order, found in enumerate(verdicts):
            if found is None:
                verdicts[order], reasons[order] = await self._verdict(ask, shown, order)
        return Bout(
            left=due.left,
            right=due.right,
            judge=self._judge.config.name,
            question=self._question,
            first=verdicts[0],
            second=verdicts[1],
            reason="\n".join(reasons),
        )

    async def _verdict(self, ask: Ask, shown: Shown, order: int) -> tuple[Winner | None, str]:
        """The verdict in one order and why, in one line; without a verdict, why there is none."""
        scripted.set(False)
        first, second = (shown.left, shown.right) if order == 0 else (shown.right, shown.left)
        try:
            found = await preference(ask, first, second, shown.expected, self._criteria)
        except CannotJudge as problem:
            return None, " ".join(str(problem).split())
        note = SCRIPTED if scripted.get() else ""
        return _ORDERS[order][found.winner], " ".join(f"{note}{found.reason}".split())
