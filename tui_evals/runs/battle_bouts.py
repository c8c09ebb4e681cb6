"""The bouts of a battle: which are due, what the judge is shown, what they cost, and asking for the verdicts."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence

from tui_evals.datasets.model import Dataset
from tui_evals.evaluators.base import Ask, CannotJudge
from tui_evals.evaluators.grading import BattleAnswer, Place, ask_preference, battle_question
from tui_evals.light_records import dataclass
from tui_evals.runs.engine import ExecutionEnd
from tui_evals.runs.estimating import Estimate
from tui_evals.runs.executors.base import Stopped
from tui_evals.runs.store_trouble import ShowWait, Storing
from tui_evals.store.battles import SCRIPTED, BattleRow, Bout, Winner, keep_bout, note_call
from tui_evals.store.database import StoreError
from tui_evals.store.reader import Reader
from tui_evals.store.records import AnswerRow, CallRecord
from tui_evals.store.writer import Writer
from tui_evals.targets.base import Price
from tui_evals.text.measures import estimate_tokens

from .asking import PricedTarget, StoreLedger, current_answer, current_phase
from .availability import Left, why_left_open
from .judges import Judges
from .scoring import scripted

_VERDICT_TOKENS = 80
_READ_FOR_ESTIMATE = 200


@dataclass(frozen=True, slots=True)
class DueBout:
    """Two answers, by their ids, that are to be judged, and what an earlier battle left of it."""

    left: int
    right: int
    run: int
    """The later run of the two, which keeps the record of the calls."""
    known: Bout | None = None

    @property
    def calls(self) -> int:
        """How many questions are left."""
        return 2 if self.known is None else (self.known.first, self.known.second).count(None)


@dataclass(frozen=True, slots=True)
class BoutQuestion:
    """What a judge is shown of a bout."""

    left: BattleAnswer
    right: BattleAnswer
    expected: tuple[str, ...]


class BoutMaterial:
    """The answers of bouts with their questions and references, as the store has them."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._datasets: dict[int, Dataset] = {}

    def of(self, due: DueBout) -> BoutQuestion:
        """What there is to show of a bout; LookupError when an answer is gone."""
        left, row = self._contender(due.left)
        right, _ = self._contender(due.right)
        unit = self._dataset(row.run).items[row.item].units[row.turn]
        expected = (*([unit.reference] if unit.reference else []), *unit.references)
        return BoutQuestion(left, right, tuple(dict.fromkeys(expected)))

    def _contender(self, answer: int) -> tuple[BattleAnswer, AnswerRow]:
        detail = self._reader.detail(answer)
        if detail.answer is None:
            raise LookupError(f"answer number {answer} is no longer in the store")
        chat = detail.answer.request.get("messages", ())
        return BattleAnswer(chat, detail.answer.text or "", detail.answer.tool_calls), detail.row

    def _dataset(self, run: int) -> Dataset:
        if run not in self._datasets:
            self._datasets[run] = Dataset.model_validate(self._reader.snapshot(self._reader.run(run).snapshot))
        return self._datasets[run]


def estimate_battle(due: Sequence[DueBout], criteria: str, reader: Reader, judge: str, price: Price | None) -> Estimate:
    """How many calls the bouts take, and about how much money, from the texts of some of them."""
    calls = sum(bout.calls for bout in due)
    if price is None or not calls:
        return Estimate(0, calls, 0.0, unpriced=(judge,) if calls else ())
    material, every = BoutMaterial(reader), -(-len(due) // _READ_FOR_ESTIMATE)
    sizes = [_size(material.of(bout), criteria) for bout in due[::every]]
    read = calls * sum(sizes) / len(sizes)
    return Estimate(
        0, calls, (read * price.input_per_million + calls * _VERDICT_TOKENS * price.output_per_million) / 1e6
    )


def _size(shown: BoutQuestion, criteria: str) -> int:
    try:
        question = battle_question(shown.left, shown.right, shown.expected, criteria)
    except CannotJudge:
        return 0
    return sum(estimate_tokens(message["content"]) for message in question.messages)


_ORDERS: tuple[Mapping[Place, Winner], ...] = (
    {"first": "left", "second": "right", "tie": "tie"},
    {"first": "right", "second": "left", "tie": "tie"},
)


class _BattleLedger(StoreLedger):
    """Notes calls with the later run, and their costs with the battle too."""

    def __init__(self, reader: Reader, writer: Writer, run: int, asked: BattleRow) -> None:
        super().__init__(reader, writer, run)
        self._asked = asked

    def called(self, record: CallRecord) -> None:
        """Note one attempt."""
        note_call(self._writer, record, self._run, self._asked)


class BoutQueue:
    """Asks the judge about bouts, as many at once as it takes; every verdict is kept, whatever ends it."""

    def __init__(
        self,
        due: Iterable[DueBout],
        judge: PricedTarget,
        asked: BattleRow,
        reader: Reader,
        writer: Writer,
        storing: Storing,
    ) -> None:
        self._due = list(due)
        self._judge = judge
        self._asked = asked
        self._reader = reader
        self._writer = writer
        self._storing = storing
        self._material = BoutMaterial(reader)
        self._stop = False
        self._reason: Stopped | None = None
        self.total = len(self._due)
        self.done = 0
        self.undecided = 0

    def stop(self) -> None:
        """Begin no bout any more; those in flight are let finish."""
        self._stop = True
        self._storing.give_up()
        self._judge.room.gate.halt()

    def hold_asking(self) -> None:
        """Ask nothing, because what comes of it could not be stored."""
        self._judge.room.gate.hold(True)

    def go_on_asking(self) -> None:
        """Ask again."""
        self._judge.room.gate.hold(False)

    async def fight(self, show: ShowWait) -> ExecutionEnd:
        """Put every bout to the judge; `show` hears where that waits for the store."""
        self._storing.watch(self, show)
        waiting = iter(self._due)
        most = min(self._judge.config.concurrency, self.total)
        workers = [asyncio.create_task(self._work(waiting)) for _ in range(most)]
        try:
            await asyncio.gather(*workers)
        except (StoreError, LookupError) as problem:
            if not await self._storing.is_to_blame():  # else a read failed of what cannot be written
                raise
            return ExecutionEnd(False, str(problem), "failed")
        finally:
            for worker in workers:
                worker.cancel()
            await asyncio.gather(*workers, return_exceptions=True)
            await self._judge.target.close()
        if self._reason is not None:
            return self._stopped_outcome(self._reason)
        finished = self.done == self.total
        return ExecutionEnd(finished, "" if finished else "stopped before the end", "" if finished else "asked")

    def _stopped_outcome(self, reason: Stopped) -> ExecutionEnd:
        """Why it stopped; where the judge cannot be asked, what that leaves open too."""
        if self._judge.availability.closed is None:
            return ExecutionEnd(False, str(reason), reason.code)
        return ExecutionEnd(False, *why_left_open([self._judge.availability], (), Left(bouts=self.total - self.done)))

    async def end(self, outcome: ExecutionEnd, note: Callable[[], Awaitable[None]]) -> ExecutionEnd:
        """Store the result by `note`; returns how it ended, which a store that takes nothing changes."""
        await self._storing.end(finished=outcome.finished, note=note)
        if not self._storing.is_lost:
            return outcome
        return ExecutionEnd(False, await self._storing.conclude(), "lost" if self._storing.is_overwritten else "store")

    async def _work(self, waiting: Iterable[DueBout]) -> None:
        for due in waiting:
            if self._stop:
                return
            try:
                bout = await self._bout(due)
            except Stopped as reason:
                self._reason = self._reason or reason
                self.stop()
                return
            await keep_bout(self._writer, bout)
            self.done += 1
            self.undecided += bout.winner is None

    async def _bout(self, due: DueBout) -> Bout:
        """Both verdicts, of which those that are known are not asked for again."""
        current_answer.set(max(due.left, due.right))
        current_phase.set("battle")
        shown = self._material.of(due)
        # A reply that could not be read lies in the cache, and would only be unreadable once more.
        ledger = _BattleLedger(self._reader, self._writer, due.run, self._asked)
        judges = Judges({None: self._judge}, ledger, due.known is None)
        ask = judges.ask_of(None)
        assert ask is not None
        known = due.known
        reasons = known.reason.split("\n") if known else ["", ""]
        verdicts: list[Winner | None] = [known.first, known.second] if known else [None, None]
        for order, verdict in enumerate(verdicts):
            if verdict is None:
                verdicts[order], reasons[order] = await self._verdict(ask, shown, order)
                if order == 0 and verdicts[0] is not None and not judges.cached(None):
                    # A verdict that the cache does not know is kept before the other one is asked for.
                    await keep_bout(self._writer, self._fought(due, verdicts, reasons))
        return self._fought(due, verdicts, reasons)

    def _fought(self, due: DueBout, verdicts: Sequence[Winner | None], reasons: Sequence[str]) -> Bout:
        return Bout(
            left=due.left,
            right=due.right,
            judge=self._judge.config.name,
            question=self._asked.question,
            first=verdicts[0],
            second=verdicts[1],
            reason="\n".join(reasons),
        )

    async def _verdict(self, ask: Ask, shown: BoutQuestion, order: int) -> tuple[Winner | None, str]:
        """The verdict in one order and why, in one line; without a verdict, why there is none."""
        scripted.set(False)
        first, second = (shown.left, shown.right) if order == 0 else (shown.right, shown.left)
        try:
            preference = await ask_preference(ask, first, second, shown.expected, self._asked.criteria)
        except CannotJudge as problem:
            return None, " ".join(str(problem).split())
        note = SCRIPTED if scripted.get() else ""
        return _ORDERS[order][preference.winner], " ".join(f"{note}{preference.reason}".split())
