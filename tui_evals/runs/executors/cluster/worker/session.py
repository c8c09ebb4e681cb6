"""What a worker has to say to the driver, gathered into letters, each of which is sent until it is answered."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import groupby
from pathlib import Path
from typing import Any

from platformdirs import user_cache_path
from pydantic import ValidationError

from tui_evals.evaluators.registry import UnknownEvaluator
from tui_evals.runs.asking import PricedTarget
from tui_evals.runs.executors.base import Cell, Stopped
from tui_evals.runs.executors.cluster.code import unpacked
from tui_evals.runs.executors.cluster.wire import (
    Letter,
    Order,
    call_row,
    cells_of,
    order_of,
    plan_of,
    score_rows,
    versions,
)
from tui_evals.runs.executors.local import LocalExecutor
from tui_evals.runs.judges import Judges
from tui_evals.runs.opening import opened
from tui_evals.runs.plan import Plan
from tui_evals.runs.status import Status
from tui_evals.store.records import AnswerRecord, CallRecord, ScoreRecord, StopCode
from tui_evals.store.redact import secrets_of, spellings, without
from tui_evals.store.rows import answer_record, body_of, cleaned, plain
from tui_evals.targets.base import ConfigurationError, TargetConfig

from .leased import Lease, LeasedMoney, leased_room

_KINDS = ("calls", "running", "answers", "scores", "keeps", "keys", "shards")
_URGENT = ("keys", "shards")
_MOMENTS = 10


class Outbox:
    """Lists of rows for the next letter, and who waits for what to be safe; texts pass through `clean` first."""

    def __init__(self, clean: Callable[[str], str]) -> None:
        self._clean = clean
        self._rows: dict[str, list[Any]] = {kind: [] for kind in _KINDS}
        self._news = asyncio.Event()
        self._urgent = False
        self._firsts: dict[int, asyncio.Future[bool]] = {}
        self._kept: dict[str, asyncio.Future[AnswerRecord | None]] = {}
        self._unsafe: list[asyncio.Future[None]] = []
        self._sent: list[asyncio.Future[None]] = []

    def nudge(self) -> None:
        """There is something to say that others wait for."""
        self._urgent = True
        self._news.set()

    async def something(self, patience: float, gather: float, idle: Callable[[int], bool]) -> None:
        """Wait until there is something to say, and a moment for more, unless with so many answers too few are busy."""
        try:
            async with asyncio.timeout(patience):
                await self._news.wait()
        except TimeoutError:
            return
        moment = gather / _MOMENTS
        for number in range(_MOMENTS):
            if idle(len(self._rows["answers"])) or (self._urgent and number):
                return
            await asyncio.sleep(moment)

    def letter(self) -> Letter:
        """All that was gathered; whoever waits is told when the answer to it comes."""
        self._news.clear()
        self._urgent = False
        found, self._rows = self._rows, {kind: [] for kind in _KINDS}
        self._sent, self._unsafe = self._unsafe, []
        return {kind: rows for kind, rows in found.items() if rows}

    def answered(self, firsts: Sequence[tuple[int, bool]], kept: Sequence[tuple[str, Any]]) -> None:
        """The driver has committed the letter: these answers were the first of their turn, and these were kept."""
        for answer, first in firsts:
            _resolve(self._firsts.pop(answer, None), first)
        for key, body in kept:
            _resolve(self._kept.pop(key, None), None if body is None else answer_record(*body))
        sent, self._sent = self._sent, []
        for waiting in sent:
            _resolve(waiting, None)

    def add(self, kind: str, row: object) -> None:
        """Say something that nobody waits for."""
        self._rows[kind].append(row)
        self._urgent |= kind in _URGENT
        if kind != "running":  # which is worth no letter of its own
            self._news.set()

    def called(self, record: CallRecord) -> None:
        """Tell of one attempt."""
        message = None if record.message is None else self._clean(record.message)
        self.add("calls", call_row(replace(record, message=message)))

    async def cached(self, key: str) -> AnswerRecord | None:
        """Ask what is kept under a key."""
        if key not in self._kept:
            self._kept[key] = asyncio.get_running_loop().create_future()
            self.add("keys", key)
        return await asyncio.shield(self._kept[key])

    async def keep(self, key: str, target: str, record: AnswerRecord) -> None:
        """Have a judge's reply kept."""
        self.add("keeps", [key, target, self._body(record)])
        await self.safe()

    async def answer(self, answer: int, record: AnswerRecord, cache_key: str | None, target: str) -> bool:
        """Have an answer committed; whether it was the first."""
        waiting: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._firsts[answer] = waiting
        self.add("answers", [answer, self._body(record), cache_key, target])
        return await waiting

    async def scored(self, answer: int, records: Sequence[ScoreRecord], status: Status, score: float | None) -> None:
        """Have scores committed."""
        self.add("scores", [answer, [self._score(row) for row in score_rows(records)], status, score])
        await self.safe()

    async def safe(self) -> None:
        """Wait until all that was said so far is committed."""
        waiting: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._unsafe.append(waiting)
        self._news.set()
        await waiting

    def _body(self, record: AnswerRecord) -> list[str | None]:
        request, text, rest = body_of(record)
        return [cleaned(request, self._clean), text and self._clean(text), cleaned(rest, self._clean)]

    def _score(self, row: Sequence[Any]) -> list[Any]:
        *known, label, reason, details, weight = row
        return [*known, label and self._clean(label), self._clean(reason), cleaned(details, self._clean), weight]


def _resolve(waiting: asyncio.Future[Any] | None, value: object) -> None:
    if waiting is not None and not waiting.done():
        waiting.set_result(value)


class Abandoned(Exception):
    """The driver is gone, or wants no more of this worker."""


@dataclass
class _Shard:
    """Some cells on this worker; `recalled` when those that are not asked yet are wanted back."""

    cells: asyncio.Future[list[Cell]]
    task: asyncio.Task[Any] | None
    size: int = 0
    recalled: bool = False
    begun: set[int] = field(default_factory=set)


@dataclass
class _Opened:
    """The run as it stands on this worker once its order has come."""

    order: Order
    plan: Plan
    targets: tuple[PricedTarget, ...]
    judges: Mapping[str | None, PricedTarget]


class Session:
    """One run on one worker process."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.heard = asyncio.get_running_loop().time()
        self.outbox = Outbox(lambda text: without(text, self._secrets))
        self._secrets = spellings(secrets_of(os.environ))
        self._shards: dict[int, _Shard] = {}
        self._leases: dict[str, Lease] = {}
        self._purse: LeasedMoney | None = None
        self._opened: asyncio.Future[_Opened] = asyncio.get_running_loop().create_future()
        self._opened.add_done_callback(lambda done: done.cancelled() or done.exception())
        self._unpaused = asyncio.Event()
        self._unpaused.set()
        self._stopped: tuple[str, StopCode] | None = None
        self._stopping = self.over = False
        self._number = 0
        self._letter: Letter = {}
        self._turn = asyncio.Lock()

    @property
    def unheard(self) -> bool:
        """Whether no letter has come yet."""
        return self._number == 0

    @property
    def held(self) -> list[int]:
        """The numbers of the shards on this worker."""
        return list(self._shards)

    async def hold(self, number: int) -> None:
        """Hold the conversations of a shard, until each of their records is committed."""
        if self.over:
            raise Abandoned(f"the shard {number} came too late")
        self._shards[number] = shard = _Shard(asyncio.get_running_loop().create_future(), asyncio.current_task())
        self.outbox.add("shards", number)
        try:
            await self._held(shard)
            await self.outbox.safe()
        finally:
            del self._shards[number]

    async def _held(self, shard: _Shard) -> None:
        try:
            cells = await shard.cells
            shard.size = len(cells)
            here = await self._opened
            judges = Judges(here.judges, self.outbox, here.order.use_cache)
            sink = ShardSink(self, shard)
            executor = LocalExecutor(here.plan, here.targets, judges, sink, here.order.use_cache)
            ordered = sorted(cells, key=lambda cell: cell.target)
            grouped = {target: list(found) for target, found in groupby(ordered, key=lambda cell: cell.target)}
            await executor.execute({target: iter(found) for target, found in grouped.items()})
        except (Stopped, ConfigurationError, UnknownEvaluator) as reason:
            self._stop(str(reason), getattr(reason, "code", "configuration"))
        except ValidationError as problem:
            self._stop(f"an evaluator cannot be made here: {problem}", "configuration")

    def _stop(self, reason: str, code: StopCode) -> None:
        self._stopped = plain(without(reason, self._secrets)), code

    async def exchange(self, reply: Letter) -> Letter:
        """Take a letter of the driver and answer it; one that comes again, or late, is answered as the last one was."""
        self.heard = asyncio.get_running_loop().time()
        async with self._turn:
            if reply["number"] > self._number:
                self._number = reply["number"]
                self._take(reply)
                await self.outbox.something(reply["patience"], reply["gather"], self._idle)
                self._letter = self._written()
        self.heard = asyncio.get_running_loop().time()
        return self._letter

    def _take(self, reply: Letter) -> None:
        if (order := reply.get("order")) is not None:
            self._open(order_of(order))
        self.outbox.answered(reply.get("firsts", ()), reply.get("kept", ()))
        for name, lease in reply.get("leases", ()):
            if name in self._leases:
                self._leases[name].set(*lease)
        if self._purse is not None and "granted" in reply:
            self._purse.set(reply["granted"])
            if reply["refused"] is not None:
                self._purse.refuse(reply["refused"])
        for number, cells in reply.get("shards", ()):
            if number in self._shards and not self._shards[number].cells.done():
                self._shards[number].cells.set_result(cells_of(cells))
        for number in reply.get("recalled", ()):
            if number in self._shards:
                self._shards[number].recalled = True
        self._stopping = reply.get("stopping", False)
        if reply.get("paused", False) and not self._stopping:
            self._unpaused.clear()
        else:
            self._unpaused.set()
        if reply.get("over", False):
            self.abandon()

    def _idle(self, answers: int) -> bool:
        """Whether half of what is in flight, or more, are answers that wait for the driver."""
        return sum(lease.in_use for lease in self._leases.values()) <= 2 * answers

    def _written(self) -> Letter:
        letter = self.outbox.letter()
        letter["number"] = self._number
        letter["cells"] = sum(shard.size for shard in self._shards.values())
        letter["waiting"] = [[number, shard.size - len(shard.begun)] for number, shard in self._shards.items()]
        letter["demand"] = [[name, *lease.told()] for name, lease in self._leases.items()]
        if self._purse is not None:
            letter["money"] = self._purse.told()
        if self._stopped is not None:
            letter["stopped"] = self._stopped
        return letter

    def _open(self, order: Order) -> None:
        if self._opened.done():
            return
        environment = {**os.environ, **order.environment}
        self._secrets = spellings([*secrets_of(environment), *order.environment.values()])
        purse = self._purse = LeasedMoney(order.budget, self.outbox.nudge)
        root = Path(order.root) if Path(order.root).is_dir() else Path.cwd()

        def asked(config: TargetConfig, kind: Any) -> PricedTarget:
            lease = self._leases.setdefault(f"{kind} {config.name}", Lease(self.outbox.nudge))
            return opened(config, kind, purse, environment, root, room=leased_room(lease, kind))

        try:
            if order.versions != versions():
                raise ConfigurationError(
                    f"this worker has {_said(versions())}, and the run needs {_said(order.versions)}"
                )
            registry = unpacked(order.code, user_cache_path("tui_evals") / "evaluators", os.environ)
            targets = tuple(asked(config, "target") for config in order.targets)
            judges = {name: asked(config, "judge") for name, config in order.judges}
            self._opened.set_result(_Opened(order, plan_of(order, registry), targets, judges))
        except ConfigurationError as problem:
            self._opened.set_exception(problem)

    def abandon(self) -> None:
        """End everything here at once."""
        self.over = True
        for shard in self._shards.values():
            if shard.task is not None:
                shard.task.cancel()

    async def close(self) -> None:
        """Give back the connections of the targets."""
        with suppress(ConfigurationError, asyncio.CancelledError):
            if self._opened.done():
                here = self._opened.result()
                for asked in (*here.targets, *here.judges.values()):
                    await asked.target.close()

    def stopping(self, shard: _Shard) -> bool:
        """Whether no further cell of a shard may start."""
        return self._stopping or shard.recalled or self._stopped is not None

    async def unpaused(self) -> None:
        """Wait while the run is paused."""
        await self._unpaused.wait()


class ShardSink:
    """The Sink of a shard: what comes of it goes into the letters of its session."""

    def __init__(self, session: Session, shard: _Shard) -> None:
        self._session = session
        self._shard = shard

    @property
    def stopping(self) -> bool:
        """Whether no new cell may start."""
        return self._session.stopping(self._shard)

    async def may_start(self) -> bool:
        """Wait while the run is paused; False when no cell may start."""
        await self._session.unpaused()
        return not self.stopping

    async def may_begin(self, answer: int) -> bool:
        """The same for a conversation whose turn has come; from then on it is not given back."""
        if not await self.may_start():
            return False
        self._shard.begun.add(answer)
        return True

    def running(self, answer: int) -> None:
        """Tell that a question has been put."""
        self._session.outbox.add("running", answer)

    async def answered(self, answer: int, record: AnswerRecord, cache_key: str | None, target: str) -> bool:
        """Have an answer committed."""
        return await self._session.outbox.answer(answer, record, cache_key, target)

    async def scored(self, answer: int, records: Sequence[ScoreRecord], status: Status, score: float | None) -> None:
        """Have scores committed."""
        await self._session.outbox.scored(answer, records, status, score)

    def called(self, record: CallRecord) -> None:
        """Tell of one attempt."""
        self._session.outbox.called(record)

    async def cached(self, key: str) -> AnswerRecord | None:
        """Ask what is kept."""
        return await self._session.outbox.cached(key)

    async def keep(self, key: str, target: str, record: AnswerRecord) -> None:
        """Have a reply kept."""
        await self._session.outbox.keep(key, target, record)


def _said(found: Mapping[str, str]) -> str:
    return " and ".join(f"{name} {version}" for name, version in found.items())
