"""On the driver: commits the records in the messages of workers, and answers with what each worker may do next."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from tui_evals.runs.asking import PricedTarget
from tui_evals.runs.budget import Budget
from tui_evals.runs.executors.base import Cell, Sink, Stopped
from tui_evals.runs.executors.cluster.wire import Message, dump_cells, load_call, load_scores
from tui_evals.store.records import AnswerRecord, Wait, WorkerRow
from tui_evals.store.rows import answer_record, body_of

from .leases import BudgetLeases, TargetLeases
from .shards import Shards

PATIENCE = 1.0
"""Seconds a worker may wait for records to send."""
_STARVED_PATIENCE = 0.1
_RATE_SECONDS = 10.0
_RECORDS = ("calls", "answers", "scores", "keeps", "keys")
_GATHER_SECONDS = 0.05
"""Seconds a worker gathers records before it sends them, where workers are few."""
_MESSAGES_A_SECOND = 1_000
"""Messages a second that the driver asks for where workers are many."""
_MAX_PATIENCE = 2.0


class ClusterSink(Sink, Protocol):
    """The Sink of a run, which also knows what is committed of a cell and shows the workers."""

    def known(self, cell: Cell) -> Mapping[int, AnswerRecord]:
        """The answers of a cell that are committed by now, by turn."""
        ...

    def workers(self, rows: Sequence[WorkerRow]) -> None:
        """Show the workers as they are."""
        ...

    @property
    def paused(self) -> bool:
        """Whether the run is paused."""
        ...


@dataclass(slots=True)
class WorkerState:
    """What the driver knows of one session on one worker process."""

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
    """It was lost, came back and has handed in all records."""
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
        """Remember when so many calls had been made."""
        now = time.monotonic()
        self.rates.append((now, calls))
        while len(self.rates) > 2 and now - self.rates[0][0] > _RATE_SECONDS:
            self.rates.popleft()

    def _rate(self) -> float:
        if len(self.rates) < 2 or time.time() - self.last_seen > _RATE_SECONDS:
            return 0.0
        (first, before), (last, calls) = self.rates[0], self.rates[-1]
        return (calls - before) / (last - first) if last > first else 0.0


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
        for priced in targets:
            self._targets.setdefault(f"{priced.kind} {priced.config.name}", TargetLeases(priced.config))
        self._budget = BudgetLeases(budget)
        self._over = False
        self._alive = 0
        self.reason: Stopped | None = None
        """Why the run must not go on; what is in flight is let finish."""

    def stop(self, reason: Stopped) -> None:
        """Let no worker begin anything more."""
        self.reason = self.reason or reason

    def first_message(self, worker: WorkerState) -> Message:
        """The first message to a worker, or the next one to a worker that was lost and is back."""
        if worker.name not in self.workers:
            self._alive += 1
        self.workers[worker.name] = worker
        if not worker.next_message:
            return self._reply(worker, [], [])
        if worker.lost:  # what it was granted once belongs to others by now
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
        worker.note(worker.calls)
        for target, changes in message.get("changes", ()):
            self._sink.changed(target, changes)
        for answer in message.get("running", ()):
            self._sink.running(answer)
        for wait, answer in message.get("waits", ()):
            self._sink.waiting(Wait(**{**wait, "until": time.time() + wait["until"]}), answer)
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
        reply["stopping"] = self._sink.stopping or self.reason is not None
        reply["paused"] = self._sink.paused
        reply["over"] = self._over or worker.drained
        if worker.lost:
            reply |= self._no_leases(worker)
        worker.next_message = reply
        return reply

    def _no_leases(self, worker: WorkerState) -> Message:
        """Lets a worker that was lost begin nothing more, and hand in what it has."""
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
        """Tell every worker from now on that the run is over."""
        self._over = True

    def show_workers(self) -> None:
        """Write the workers to the store."""
        if self.workers:
            self._sink.workers([worker.row(self._over) for worker in self.workers.values()])
