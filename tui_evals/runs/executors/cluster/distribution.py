"""Share the cells of a run among workers in shards and leases, and take unfinished cells back."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from itertools import islice
from math import ceil
from typing import Any, Protocol

from tui_evals.light_records import dataclass
from tui_evals.runs.asking import PricedTarget
from tui_evals.runs.availability import Availability
from tui_evals.runs.executors import Cell, Sink, Stopped
from tui_evals.runs.executors.cluster.terms import Message, dump_cells, load_call, load_scores
from tui_evals.runs.limits import Budget, BudgetSpent, Gate
from tui_evals.store.records import AnswerRecord, Wait, WorkerRow
from tui_evals.store.rows import answer_record, body_of
from tui_evals.targets.base import TargetConfig

_CALLS_AHEAD = 4
"""Calls a worker may make for each of its places before the driver hears of them."""
_BURST = 2.0
"""Seconds' worth of a rate that may be leased at once."""


@dataclass(slots=True)
class WorkerShare:
    """The places granted to one worker for one target, and its reported use; calls and tokens are totals."""

    places: int = 0
    held: int = 0
    """Places it may be using: those it had count until it has heard that they are fewer."""
    in_use: int = 0
    wanted: int = 0
    calls: int = 0
    called: int = 0
    tokens: int = 0
    took: int = 0


_NO_SHARE = WorkerShare()


class RateAllowance:
    """An allowance per second; up to two seconds of it accumulate. None means no limit."""

    def __init__(self, a_minute: float | None) -> None:
        self._a_second = None if a_minute is None else a_minute / 60
        self._saved = 1.0
        self._updated = asyncio.get_running_loop().time()

    @property
    def limited(self) -> bool:
        """Whether there is a limit at all."""
        return self._a_second is not None

    def take(self, wanted: int) -> int:
        """Take up to `wanted` from what has accumulated."""
        if self._a_second is None:
            return wanted
        now = asyncio.get_running_loop().time()
        largest = max(1.0, self._a_second * _BURST)
        self._saved = min(largest, self._saved + (now - self._updated) * self._a_second)
        self._updated = now
        amount = max(0, min(wanted, int(self._saved)))
        self._saved -= amount
        return amount


class TargetLeases:
    """The limits of one target or judge for all workers together."""

    def __init__(self, config: TargetConfig) -> None:
        self._gate = Gate(config)
        self._calls = RateAllowance(config.requests_per_minute)
        self._tokens = RateAllowance(config.tokens_per_minute)
        self.shares: dict[str, WorkerShare] = {}
        self._held = self._short = self._wanting = 0
        """Of all workers: the places they may be using, how many want more, and how many want any."""

    def _add_to_sums(self, share: WorkerShare, sign: int) -> None:
        """Remove a share from the sums before it changes, or add it after."""
        self._held += sign * share.held
        self._short += sign * (share.wanted > share.places)
        self._wanting += sign * (share.wanted > 0)

    def note_usage(self, worker: str, usage: Mapping[str, int], pauses: list[float]) -> None:
        """Store a worker's use and demand; a pause that a target asked of one worker applies to all."""
        share = self.shares.setdefault(worker, WorkerShare())
        self._add_to_sums(share, -1)
        share.in_use, share.wanted = usage["in_use"], usage["in_use"] + usage["waiting"]
        share.places = min(share.places, share.wanted)
        share.held = max(share.places, share.in_use)
        self._add_to_sums(share, 1)
        share.called, share.took = usage["called"], usage["took"]
        for pause in pauses:
            self._gate.pushed_back(pause)

    @property
    def paused(self) -> bool:
        """Whether the target has asked for a pause that is not over."""
        return self._gate.pause > 0

    def succeeded(self) -> None:
        """A call went through somewhere."""
        self._gate.succeeded()

    def grant(self, worker: str) -> tuple[int, int, int | None, float]:
        """The limits of a worker from now on: places, total calls and tokens, and seconds of pause."""
        share = self.shares.setdefault(worker, WorkerShare())
        self._add_to_sums(share, -1)
        free = max(0, int(self._gate.now) - self._held)
        fair = ceil(int(self._gate.now) / (1 + self._wanting))
        share.places = min(share.wanted, free, fair if self._short else free)
        share.held = max(share.held, share.places)
        self._add_to_sums(share, 1)
        calls_wanted = max(share.in_use, share.places) if self._calls.limited else _CALLS_AHEAD * share.wanted
        share.calls += self._calls.take(max(0, share.called + calls_wanted - share.calls))
        return share.places, share.calls, self._leased_tokens(share), self._gate.pause

    def _leased_tokens(self, share: WorkerShare) -> int | None:
        if not self._tokens.limited:
            return None
        if share.wanted and share.took >= share.tokens:
            # Tokens above the lease are deducted from the next one.
            share.tokens += self._tokens.take(share.took - share.tokens + 1_000_000_000)
        return share.tokens

    def is_starving(self, worker: str) -> bool:
        """Whether a worker wants more than it was granted."""
        share = self.shares.get(worker, _NO_SHARE)
        return share.wanted > share.places or (share.wanted > 0 and share.called >= share.calls)

    def forget(self, worker: str) -> None:
        """Forget a worker and free its places."""
        if (share := self.shares.pop(worker, None)) is not None:
            self._add_to_sums(share, -1)


@dataclass(slots=True)
class WorkerAccount:
    """The money one worker was given, spent and gave back, in sums since it began."""

    granted: float = 0.0
    spent: float = 0.0
    returned: float = 0.0
    charged: float = 0.0
    """The part that the budget counts as spent."""
    lost: bool = False
    needs: list[float] = field(default_factory=list)

    @property
    def held(self) -> float:
        """The money that it may be spending now."""
        return self.granted - self.spent - self.returned


class BudgetLeases:
    """The budget of a run, shared out among workers."""

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._accounts: dict[str, WorkerAccount] = {}
        self._held = 0.0
        """The money that connected workers may be spending now."""
        self._secured = 0.0
        """The amount last stored for all workers, lost ones included."""

    async def secure(self) -> None:
        """Store the amount that workers may be spending, before they get it."""
        if self._budget.lent or self._secured:
            self._secured = self._budget.lent
            await self._budget.secure()

    def note_spending(self, worker: str, spent: float, returned: float, needs: list[float]) -> None:
        """Store what a worker has spent and returned."""
        account = self._accounts.setdefault(worker, WorkerAccount())
        before = account.held
        account.spent, account.returned, account.needs = spent, returned, needs
        self._held += 0.0 if account.lost else account.held - before
        self._budget.lent += max(0.0, account.held) - max(0.0, before)
        self._charge(account)

    def grant(self, worker: str) -> tuple[float, str | None]:
        """The total that a worker may spend, and why its next call can never be paid, if it cannot."""
        account = self._accounts.setdefault(worker, WorkerAccount())
        limit = self._budget.most
        if limit is None:
            return 0.0, None
        refused, before = None, account.held
        for cost in account.needs:
            if self._budget.committed + self._held + cost > limit + 1e-9:
                refused = self._refusal(cost)
                break
            account.granted += cost
            self._held += cost
        account.needs = []
        self._budget.lent += max(0.0, account.held) - max(0.0, before)
        return account.granted, refused

    def _refusal(self, cost: float) -> str | None:
        try:
            self._budget.demand(cost)
        except BudgetSpent as spent:
            return str(spent)
        return None

    def write_off(self, worker: str) -> None:
        """Count the money of a lost worker as spent, because it may be; a later report corrects it."""
        account = self._accounts.setdefault(worker, WorkerAccount())
        self._held -= 0.0 if account.lost else account.held
        account.lost = True
        self._charge(account)

    def _charge(self, account: WorkerAccount) -> None:
        spent = account.spent + (max(0.0, account.held) if account.lost else 0.0)
        self._budget.spent += spent - account.charged
        account.charged = spent


CELLS_PER_CALL = 4
"""Conversations handed out for each call a target takes at once, as in one process."""
MAX_SHARD = 50


@dataclass(slots=True)
class Shard:
    """Cells that one task holds; `open` has the answers that are not judged yet, with their cell."""

    target: int
    cells: dict[int, Cell]
    open: dict[int, int]
    scored: set[int]
    new: bool
    """Whether no worker has had these cells before, so none of them can already be committed."""
    worker: str | None = None


class Shards:
    """The cells of a run: handed out in shards, and taken back where a shard ends before they are finished."""

    def __init__(
        self,
        cells: Mapping[int, Iterator[Cell]],
        concurrency: Sequence[int],
        known: Callable[[Cell], Mapping[int, AnswerRecord]],
        is_closed: Callable[[int], bool] = lambda target: False,
    ) -> None:
        self._cells = dict(cells)
        self._room = [CELLS_PER_CALL * number for number in concurrency]
        self._known = known
        self._is_closed = is_closed
        """Whether the target of a number is not asked any more, so that its cells stay pending."""
        self._returned: deque[list[Cell]] = deque()
        self._held = dict.fromkeys(range(len(concurrency)), 0)
        """How many cells of each target are out."""
        self._number = 0
        self._shard_of: dict[int, int] = {}
        """The last shard of each answer that is not judged yet."""
        self._late: set[int] = set()
        """Answers that were judged after their shard had ended."""
        self.out: dict[int, Shard] = {}

    def next_shard(self, slots: int) -> int | None:
        """The number of a new shard; None while enough cells are out, or when there are no more."""
        self._drop_closed()
        if self._returned:
            return self._hand_out(self._returned.popleft(), new=False)
        for target in sorted(self._cells, key=lambda target: self._held[target] / self._room[target]):
            if self._held[target] >= max(self._room[target], slots):
                continue
            size = min(MAX_SHARD, max(1, -(-self._room[target] // max(slots, 1))))
            if cells := list(islice(self._cells[target], size)):
                return self._hand_out(cells, new=True)
            del self._cells[target]
        return None

    def _drop_closed(self) -> None:
        """Hand out no cells of targets that are not asked any more."""
        for target in [target for target in self._cells if self._is_closed(target)]:
            del self._cells[target]
        if any(self._is_closed(cells[0].target) for cells in self._returned):
            self._returned = deque(cells for cells in self._returned if not self._is_closed(cells[0].target))

    @property
    def exhausted(self) -> bool:
        """Whether every cell has been handed out at least once."""
        self._drop_closed()
        return not self._cells and not self._returned

    def contents(self, number: int, worker: str) -> list[Cell]:
        """The open cells of a shard in the store, for the worker that holds it from now on."""
        shard = self.out.get(number)
        if shard is None:
            return []
        shard.worker = worker
        if shard.new:
            shard.new = False
            return list(shard.cells.values())
        return [self._as_committed(shard, cell) for cell in shard.cells.values()]

    def answered(self, answer: int, record: AnswerRecord) -> None:
        """Record a committed answer; a failed one is not judged."""
        if record.text is None:
            self.scored(answer)

    def scored(self, answer: int) -> bool:
        """Note that an answer is scored; False when it was already."""
        if (number := self._shard_of.pop(answer, None)) is None:
            return False
        if (shard := self.out.get(number)) is None:
            self._late.add(answer)
            return True
        first = shard.open.pop(answer)
        shard.scored.add(answer)
        if all(other not in shard.open for other in shard.cells[first].answers):
            del shard.cells[first]
            self._held[shard.target] -= 1
        return True

    def take_back(self, number: int) -> list[Cell]:
        """Take a shard back; returns its cells that are not finished."""
        shard = self.out.pop(number)
        self._held[shard.target] -= len(shard.cells)
        return [self._as_committed(shard, cell) for cell in shard.cells.values()]

    def put_back(self, cells: Sequence[Cell], *, singly: bool = False, parts: int = 1) -> None:
        """Queue cells to be handed out again: one by one if one of them may crash its worker, else in `parts` parts."""
        size = 1 if singly else max(1, -(-len(cells) // parts))
        self._returned.extend(list(cells[start : start + size]) for start in range(0, len(cells), size))

    def _hand_out(self, cells: list[Cell], *, new: bool) -> int:
        self._number += 1
        places: dict[int, int] = {}
        for cell in cells:
            for turn, answer in enumerate(cell.answers):
                failed = turn in cell.known and cell.known[turn].text is None
                if turn not in cell.final and not failed and answer not in self._late:
                    places[answer] = cell.answers[0]
        waiting = set(places.values())
        cells_waiting = {cell.answers[0]: cell for cell in cells if cell.answers[0] in waiting}
        late = {answer for cell in cells for answer in cell.answers if answer in self._late}
        self.out[self._number] = Shard(cells[0].target, cells_waiting, places, late, new)
        self._held[cells[0].target] += len(cells_waiting)
        self._shard_of |= dict.fromkeys(places, self._number)
        return self._number

    def _as_committed(self, shard: Shard, cell: Cell) -> Cell:
        final = {turn for turn, answer in enumerate(cell.answers) if answer in shard.scored}
        return replace(cell, known=self._known(cell), final=cell.final | final)


PATIENCE = 1.0
"""Seconds a worker may wait for records to send."""
_STARVED_PATIENCE = 0.1
_RATE_SECONDS = 10.0
_RECORDS = ("calls", "answers", "scores", "keeps", "left_open", "keys")
_GATHER_SECONDS = 0.05
"""Seconds a worker gathers records before it sends them, where workers are few."""
_MESSAGES_A_SECOND = 1_000
"""Messages a second that the driver asks for where workers are many."""
_MAX_PATIENCE = 2.0


class ClusterSink(Sink, Protocol):
    """The Sink of a run, which also knows the committed answers of a cell and shows the workers."""

    def known(self, cell: Cell) -> Mapping[int, AnswerRecord]:
        """The answers of a cell that are committed by now, by turn."""
        ...

    def workers(self, rows: Sequence[WorkerRow]) -> None:
        """Show the state of the workers."""
        ...

    @property
    def paused(self) -> bool:
        """Whether the run is paused."""
        ...


@dataclass(slots=True)
class WorkerState:
    """The driver's state of one session on one worker process."""

    name: str
    address: str
    number: int = 0
    has_order: bool = False
    lost: bool = False
    cells: int = 0
    calls: int = 0
    errors: int = 0
    last_message: float = 0.0
    """When its last message came, by the clock of the event loop."""
    last_seen: float = field(default_factory=time.time)
    waiting: Mapping[int, int] = field(default_factory=dict)
    lost_at: int = 0
    """The number of the message that was due to it when it was lost."""
    drained: bool = False
    """Whether it was lost, came back and has delivered all records."""
    requested_shards: list[int] = field(default_factory=list)
    recalled: set[int] = field(default_factory=set)
    rates: deque[tuple[float, int]] = field(default_factory=deque)
    next_message: Message = field(default_factory=dict)

    def row(self, over: bool) -> WorkerRow:
        """The row of the store for this worker."""
        silent = time.time() - self.last_seen > 5 * PATIENCE
        state: Any = "gone" if over or self.lost else "silent" if silent else "alive"
        return WorkerRow(
            self.address, state, 0 if self.lost else self.cells, self.calls, self._rate(), self.errors, self.last_seen
        )

    def note(self, calls: int) -> None:
        """Record the number of calls at this time."""
        now = time.monotonic()
        self.rates.append((now, calls))
        while len(self.rates) > 2 and now - self.rates[0][0] > _RATE_SECONDS:
            self.rates.popleft()

    def _rate(self) -> float:
        if len(self.rates) < 2 or time.time() - self.last_seen > _RATE_SECONDS:
            return 0.0
        (first, before), (last, calls) = self.rates[0], self.rates[-1]
        return (calls - before) / (last - first) if last > first else 0.0


VARIABLES_HINT = (
    " The variables of the worker count: set it where that starts, or hand yours on with --forward-env NAME."
)


class WorkDistributor:
    """Commits what workers send, and shares out the run among them."""

    def __init__(
        self, sink: ClusterSink, targets: Sequence[PricedTarget], shards: Shards, order: str, budget: Budget
    ) -> None:
        self.workers: dict[str, WorkerState] = {}
        self._sink = sink
        self._shards = shards
        self._order = order
        self._targets: dict[str, TargetLeases] = {}
        self._availabilities: dict[str, Availability] = {}
        for priced in targets:
            name = f"{priced.kind} {priced.config.name}"
            self._targets.setdefault(name, TargetLeases(priced.config))
            self._availabilities[name] = priced.availability
        self._budget = BudgetLeases(budget)
        self._over = False
        self._alive = 0
        self.reason: Stopped | None = None
        """Why the run must stop; requests in flight finish."""

    def stop(self, reason: Stopped) -> None:
        """Stop all workers from beginning more work."""
        self.reason = self.reason or reason

    def first_message(self, worker: WorkerState) -> Message:
        """The first message to a worker, or the next one to a worker that was lost and is back."""
        if worker.name not in self.workers:
            self._alive += 1
        self.workers[worker.name] = worker
        if not worker.next_message:
            return self._reply(worker, [], [])
        if worker.lost:  # its earlier leases now belong to others
            worker.next_message |= self._no_leases(worker)
        return worker.next_message

    async def receive(self, worker: WorkerState, message: Message) -> Message:
        """Commit a message and answer it."""
        worker.last_seen = time.time()
        worker.cells = message["cells"]
        worker.waiting = dict(message["waiting"])
        worker.requested_shards += message.get("shards", ())
        firsts, cached = await self._commit(worker, message)
        for name, demand, pauses in message["demand"] if not worker.lost else ():
            self._targets[name].note_usage(worker.name, demand, list(pauses))
        if worker.lost and message["number"] > worker.lost_at:
            worker.drained = not any(message.get(kind) for kind in _RECORDS)
        for name, reason, code in message.get("closed", ()):
            hint = VARIABLES_HINT if "environment variable" in reason else ""
            self._availabilities[name].close(f"on the worker {worker.address}: {reason}{hint}", code)
        if "money" in message:
            self._budget.note_spending(worker.name, *message["money"])
        if message.get("stopped"):
            reason, code = message["stopped"]
            self.stop(Stopped(f"on the worker {worker.address}: {reason}", code))
        reply = self._reply(worker, firsts, cached)
        await self._budget.secure()
        return reply

    async def _commit(self, worker: WorkerState, message: Message) -> tuple[list[Any], list[Any]]:
        for row in message.get("calls", ()):
            call = load_call(row)
            self._sink.called(call)
            worker.calls += not call.from_cache
            worker.errors += call.code is not None
            if call.code is None and not call.from_cache:
                self._targets[f"{call.kind} {call.target}"].succeeded()
                self._availabilities[f"{call.kind} {call.target}"].answers += 1
        worker.note(worker.calls)
        for target, changes in message.get("changes", ()):
            self._sink.changed(target, changes)
        for answer in message.get("running", ()):
            self._sink.running(answer)
        for wait, answer in message.get("waits", ()):
            self._sink.waiting(Wait(**{**wait, "until": time.time() + wait["until"]}), answer)
        for answer in message.get("left_open", ()):
            self._shards.scored(answer)
        answers = [
            (answer, answer_record(*body), key, target) for answer, body, key, target in message.get("answers", ())
        ]
        keeps = [self._sink.keep(key, target, answer_record(*body)) for key, target, body in message.get("keeps", ())]
        scores = [
            self._sink.scored(answer, load_scores(rows), status, score)
            for answer, rows, status, score in message.get("scores", ())
            if self._shards.scored(answer)
        ]
        verdicts = await asyncio.gather(
            *(self._sink.answered(answer, record, key, target) for answer, record, key, target in answers)
        )
        await asyncio.gather(*keeps, *scores)
        for (answer, record, _, _), first in zip(answers, verdicts, strict=True):
            if first:
                self._shards.answered(answer, record)
        cached = [[key, await self._cached_body(key)] for key in message.get("keys", ())]
        firsts = [[answer, first] for (answer, *_), first in zip(answers, verdicts, strict=True)]
        return firsts, cached

    async def _cached_body(self, key: str) -> tuple[str, str | None, str] | None:
        record = await self._sink.cached(key)
        return None if record is None else body_of(record)

    def _reply(self, worker: WorkerState, firsts: list[Any], cached: list[Any]) -> Message:
        worker.number += 1
        reply: Message = {"number": worker.number, "firsts": firsts, "kept": cached}
        if not worker.has_order:
            reply["order"] = self._order
            worker.has_order = True
        if worker.requested_shards and not worker.lost:
            contents = [(number, self._shards.contents(number, worker.name)) for number in worker.requested_shards]
            reply["shards"] = [[number, dump_cells(cells)] for number, cells in contents]
            worker.requested_shards = []
        if not worker.lost:
            reply["leases"] = [[name, leases.grant(worker.name)] for name, leases in self._targets.items()]
            reply["granted"], reply["refused"] = self._budget.grant(worker.name)
        # A worker that sits out a pause is to hear of a stop at once.
        starved = any(leases.paused or leases.is_starving(worker.name) for leases in self._targets.values())
        share = min(_MAX_PATIENCE, self._alive / _MESSAGES_A_SECOND)
        reply["patience"] = max(share, _STARVED_PATIENCE if starved or not worker.cells else PATIENCE)
        reply["gather"] = max(share, _GATHER_SECONDS)
        reply["recalled"] = sorted(worker.recalled)
        closed = ((name, state.closed) for name, state in self._availabilities.items())
        reply["closed"] = [[name, str(why), why.code] for name, why in closed if why is not None]
        reply["answers"] = [[name, state.answers] for name, state in self._availabilities.items() if state.answers]
        reply["stopping"] = self._sink.stopping or self.reason is not None
        reply["paused"] = self._sink.paused
        reply["over"] = self._over or worker.drained
        if worker.lost:
            reply |= self._no_leases(worker)
        worker.next_message = reply
        return reply

    def _no_leases(self, worker: WorkerState) -> Message:
        """A message that stops a lost worker from beginning more, and asks for its records."""
        return {"leases": [[name, (0, 0, 0, 0.0)] for name in self._targets], "stopping": True}

    def give_up(self, worker: WorkerState) -> None:
        """Give up a worker; its places are free again."""
        self._alive -= not worker.lost
        worker.lost = True
        worker.lost_at = worker.number
        for target_leases in self._targets.values():
            target_leases.forget(worker.name)
        self._budget.write_off(worker.name)

    def end(self) -> None:
        """From now on, tell every worker that the run is over."""
        self._over = True

    def show_workers(self) -> None:
        """Write the workers to the store."""
        if self.workers:
            self._sink.workers([worker.row(self._over) for worker in self.workers.values()])
