"""The desk of the driver: letters come in, their records are committed, and what their workers may do goes out."""

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
from tui_evals.runs.executors.cluster.wire import Letter, call_of, cells_text, scores_of
from tui_evals.store.records import AnswerRecord, WorkerRow
from tui_evals.store.rows import answer_record, body_of

from .leases import Pot, Treasury
from .shards import Shards

PATIENCE = 1.0
"""Seconds a worker may wait for something to say."""
_STARVED = 0.1
_RATE_OVER = 10.0
_RECORDS = ("calls", "answers", "scores", "keeps", "keys")
_GATHER = 0.05
"""Seconds a worker gathers what it has to say, where there are few."""
_LETTERS = 1_000
"""Letters a second that the driver asks for where there are many."""
_LONGEST = 2.0


class ClusterSink(Sink, Protocol):
    """The Sink of a run, which also knows what is committed of a cell, and shows who works."""

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
class Worker:
    """What the driver knows of one session on one worker process."""

    name: str
    address: str
    number: int = 0
    ordered: bool = False
    lost: bool = False
    cells: int = 0
    calls: int = 0
    errors: int = 0
    heard: float = 0.0
    """When its last letter came, by the clock of the event loop."""
    seen: float = field(default_factory=time.time)
    waiting: Mapping[int, int] = field(default_factory=dict)
    given_up: int = 0
    """The number of the letter it was owed when it was lost."""
    heard_out: bool = False
    """It was lost and came back, and has no records left to hand in."""
    wanted: list[int] = field(default_factory=list)
    recalled: set[int] = field(default_factory=set)
    rates: deque[tuple[float, int]] = field(default_factory=deque)
    next: Letter = field(default_factory=dict)

    def row(self, over: bool) -> WorkerRow:
        """It, as the store shows it."""
        state: Any = "gone" if over or self.lost else "silent" if time.time() - self.seen > 5 * PATIENCE else "alive"
        return WorkerRow(
            self.address, state, 0 if self.lost else self.cells, self.calls, self._rate(), self.errors, self.seen
        )

    def note(self, calls: int) -> None:
        """Remember when so many calls had been made."""
        now = time.monotonic()
        self.rates.append((now, calls))
        while len(self.rates) > 2 and now - self.rates[0][0] > _RATE_OVER:
            self.rates.popleft()

    def _rate(self) -> float:
        if len(self.rates) < 2 or time.time() - self.seen > _RATE_OVER:
            return 0.0
        (first, before), (last, calls) = self.rates[0], self.rates[-1]
        return (calls - before) / (last - first) if last > first else 0.0


class WorkDistributor:
    """Commits what workers send, and shares out the run among them."""

    def __init__(
        self, sink: ClusterSink, asked: Sequence[PricedTarget], shards: Shards, order: str, budget: Budget
    ) -> None:
        self.workers: dict[str, Worker] = {}
        self._sink = sink
        self._shards = shards
        self._order = order
        self._pots: dict[str, Pot] = {}
        for one in asked:
            self._pots.setdefault(f"{one.kind} {one.config.name}", Pot(one.config))
        self._treasury = Treasury(budget)
        self._over = False
        self._alive = 0
        self.reason: Stopped | None = None
        """Why the run must not go on; what is in flight is let finish."""

    def stop(self, reason: Stopped) -> None:
        """Let no worker begin anything more."""
        self.reason = self.reason or reason

    def first(self, worker: Worker) -> Letter:
        """The letter that begins the talk with a worker, or goes on with one that was lost."""
        if worker.name not in self.workers:
            self._alive += 1
        self.workers[worker.name] = worker
        if not worker.next:
            return self._reply(worker, [], [])
        if worker.lost:  # what it was granted once belongs to others by now
            worker.next |= self._nothing(worker)
        return worker.next

    async def received(self, worker: Worker, letter: Letter) -> Letter:
        """Commit a letter and answer it."""
        worker.seen = time.time()
        worker.cells = letter["cells"]
        worker.waiting = dict(letter["waiting"])
        worker.wanted += letter.get("shards", ())
        firsts, kept = await self._commit(worker, letter)
        for name, demand, pauses in letter["demand"] if not worker.lost else ():
            self._pots[name].told(worker.name, demand, list(pauses))
        if worker.lost and letter["number"] > worker.given_up:
            worker.heard_out = not any(letter.get(kind) for kind in _RECORDS)
        if "money" in letter:
            self._treasury.told(worker.name, *letter["money"])
        if letter.get("stopped"):
            message, code = letter["stopped"]
            self.stop(Stopped(f"on the worker {worker.address}: {message}", code))
        return self._reply(worker, firsts, kept)

    async def _commit(self, worker: Worker, letter: Letter) -> tuple[list[Any], list[Any]]:
        for row in letter.get("calls", ()):
            call = call_of(row)
            self._sink.called(call)
            worker.calls += not call.from_cache
            worker.errors += call.code is not None
            if call.code is None and not call.from_cache:
                self._pots[f"{call.kind} {call.target}"].succeeded()
        worker.note(worker.calls)
        for answer in letter.get("running", ()):
            self._sink.running(answer)
        answers = [
            (answer, answer_record(*body), key, target) for answer, body, key, target in letter.get("answers", ())
        ]
        keeps = [self._sink.keep(key, target, answer_record(*body)) for key, target, body in letter.get("keeps", ())]
        scores = [
            self._sink.scored(answer, scores_of(rows), status, score)
            for answer, rows, status, score in letter.get("scores", ())
            if self._shards.scored(answer)
        ]
        verdicts = await asyncio.gather(
            *(self._sink.answered(answer, record, key, target) for answer, record, key, target in answers)
        )
        await asyncio.gather(*keeps, *scores)
        for (answer, record, _, _), first in zip(answers, verdicts, strict=True):
            if first:
                self._shards.answered(answer, record)
        kept = [[key, await self._found(key)] for key in letter.get("keys", ())]
        firsts = [[answer, first] for (answer, *_), first in zip(answers, verdicts, strict=True)]
        return firsts, kept

    async def _found(self, key: str) -> tuple[str, str | None, str] | None:
        record = await self._sink.cached(key)
        return None if record is None else body_of(record)

    def _reply(self, worker: Worker, firsts: list[Any], kept: list[Any]) -> Letter:
        worker.number += 1
        reply: Letter = {"number": worker.number, "firsts": firsts, "kept": kept}
        if not worker.ordered:
            reply["order"] = self._order
            worker.ordered = True
        if worker.wanted and not worker.lost:
            found = [(number, self._shards.contents(number, worker.name)) for number in worker.wanted]
            reply["shards"] = [[number, cells_text(cells)] for number, cells in found]
            worker.wanted = []
        if not worker.lost:
            reply["leases"] = [[name, pot.grant(worker.name)] for name, pot in self._pots.items()]
            reply["granted"], reply["refused"] = self._treasury.grant(worker.name)
        starved = any(pot.starving(worker.name) for pot in self._pots.values())
        share = min(_LONGEST, self._alive / _LETTERS)
        reply["patience"] = max(share, _STARVED if starved or not worker.cells else PATIENCE)
        reply["gather"] = max(share, _GATHER)
        reply["recalled"] = sorted(worker.recalled)
        reply["stopping"] = self._sink.stopping or self.reason is not None
        reply["paused"] = self._sink.paused
        reply["over"] = self._over or worker.heard_out
        if worker.lost:
            reply |= self._nothing(worker)
        worker.next = reply
        return reply

    def _nothing(self, worker: Worker) -> Letter:
        """What lets a worker that was lost begin nothing more, and hand in what it has."""
        return {"leases": [[name, (0, 0, 0, 0.0)] for name in self._pots], "stopping": True}

    def lost(self, worker: Worker) -> list[int]:
        """Give up a worker; its places are free again, and the shards it held are returned."""
        self._alive -= not worker.lost
        worker.lost = True
        worker.given_up = worker.number
        for pot in self._pots.values():
            pot.lost(worker.name)
        self._treasury.lost(worker.name)
        return [number for number, shard in self._shards.out.items() if shard.worker == worker.name]

    def end(self) -> None:
        """From now on every letter says that it is over."""
        self._over = True

    def show(self) -> None:
        """Write down who works and how."""
        if self.workers:
            self._sink.workers([worker.row(self._over) for worker in self.workers.values()])
