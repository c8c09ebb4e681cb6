"""One run on one worker process: executes shards, and collects their records into messages to the driver."""

from __future__ import annotations

import asyncio
import os
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, field, replace
from itertools import groupby
from pathlib import Path
from typing import Any

from platformdirs import user_cache_path
from pydantic import ValidationError

from tui_evals.evaluators.registry import UnknownEvaluator
from tui_evals.light_records import dataclass
from tui_evals.runs.asking import PricedTarget, close_all
from tui_evals.runs.availability import Room
from tui_evals.runs.executors import Cell, Stopped
from tui_evals.runs.executors.cluster.code import unpack_evaluators
from tui_evals.runs.executors.cluster.terms import (
    OP,
    Message,
    Order,
    dump_call,
    dump_scores,
    load_cells,
    load_order,
    reveal_order,
    versions,
    worker_plan,
)
from tui_evals.runs.executors.cluster.worker_limits import BudgetLease, TargetLease, leased_room
from tui_evals.runs.executors.local import LocalExecutor
from tui_evals.runs.judges import Judges, opened
from tui_evals.runs.plan import Plan
from tui_evals.runs.status import Status
from tui_evals.runs.tools import open_toolbox
from tui_evals.store.records import AnswerRecord, CallRecord, ScoreRecord, StopCode, Wait
from tui_evals.store.rows import answer_record, body_of, cleaned, plain
from tui_evals.targets.base import ConfigurationError, TargetConfig
from tui_evals.targets.environment import Variables
from tui_evals.text.safe import secrets_of, spellings, without

_KINDS = ("calls", "changes", "running", "waits", "answers", "scores", "keeps", "left_open", "keys", "shards")
_URGENT = ("keys", "shards")
_GATHER_STEPS = 10


class Outbox:
    """The rows of the next message, and the calls that wait until theirs are committed; texts pass through `clean`."""

    def __init__(self, clean: Callable[[str], str]) -> None:
        self._clean = clean
        self._rows: dict[str, list[Any]] = {kind: [] for kind in _KINDS}
        self._has_rows = asyncio.Event()
        self._urgent = False
        self._firsts: dict[int, asyncio.Future[bool]] = {}
        self._cache_lookups: dict[str, asyncio.Future[AnswerRecord | None]] = {}
        self._uncommitted: list[asyncio.Future[None]] = []
        self._sent: list[asyncio.Future[None]] = []

    def nudge(self) -> None:
        """Send the next message soon."""
        self._urgent = True
        self._has_rows.set()

    async def wait_for_rows(self, patience: float, gather: float, idle: Callable[[int], bool]) -> None:
        """Wait for rows and briefly for more, unless so many answers wait that too little is in flight."""
        try:
            async with asyncio.timeout(patience):
                await self._has_rows.wait()
        except TimeoutError:
            return
        moment = gather / _GATHER_STEPS
        for number in range(_GATHER_STEPS):
            if idle(len(self._rows["answers"])) or (self._urgent and number):
                return
            await asyncio.sleep(moment)

    def message(self) -> Message:
        """A message with all rows; callers waiting for them are released by its reply."""
        self._has_rows.clear()
        self._urgent = False
        gathered, self._rows = self._rows, {kind: [] for kind in _KINDS}
        self._sent, self._uncommitted = self._uncommitted, []
        return {kind: rows for kind, rows in gathered.items() if rows}

    def answered(self, firsts: Sequence[tuple[int, bool]], cached: Sequence[tuple[str, Any]]) -> None:
        """The driver has committed the message: these answers were the first of their turn, and these were kept."""
        for answer, first in firsts:
            _resolve(self._firsts.pop(answer, None), first)
        for key, body in cached:
            _resolve(self._cache_lookups.pop(key, None), None if body is None else answer_record(*body))
        sent, self._sent = self._sent, []
        for waiting in sent:
            _resolve(waiting, None)

    def add(self, kind: str, row: object) -> None:
        """Add a row that nothing waits for."""
        self._rows[kind].append(row)
        self._urgent |= kind in _URGENT
        if kind != "running":  # which is worth no message of its own
            self._has_rows.set()

    def called(self, record: CallRecord) -> None:
        """Report one attempt."""
        message = None if record.message is None else self._clean(record.message)
        self.add("calls", dump_call(replace(record, message=message)))

    def changed(self, target: str, changes: Sequence[str]) -> None:
        """Report how requests to a target were changed."""
        self.add("changes", [target, [self._clean(change) for change in changes]])

    def waiting(self, wait: Wait, answer: int | None) -> None:
        """Report a pause by its remaining time, because clocks differ."""
        self.add("waits", [{**asdict(wait), "until": wait.until - time.time()}, answer])

    async def cached(self, key: str) -> AnswerRecord | None:
        """Ask the driver's cache."""
        if key not in self._cache_lookups:
            self._cache_lookups[key] = asyncio.get_running_loop().create_future()
            self.add("keys", key)
        return await asyncio.shield(self._cache_lookups[key])

    async def keep(self, key: str, target: str, record: AnswerRecord) -> None:
        """Send a judge's reply to be cached, and wait."""
        self.add("keeps", [key, target, self._body(record)])
        await self.wait_until_committed()

    async def answer(self, answer: int, record: AnswerRecord, cache_key: str | None, target: str) -> bool:
        """Send an answer to be committed; returns whether it was the first."""
        waiting: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._firsts[answer] = waiting
        self.add("answers", [answer, self._body(record), cache_key, target])
        return await waiting

    async def scored(self, answer: int, records: Sequence[ScoreRecord], status: Status, score: float | None) -> None:
        """Send scores to be committed, and wait."""
        self.add("scores", [answer, [self._score(row) for row in dump_scores(records)], status, score])
        await self.wait_until_committed()

    async def wait_until_committed(self) -> None:
        """Wait until all rows so far are committed."""
        waiting: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._uncommitted.append(waiting)
        self._has_rows.set()
        await waiting

    def _body(self, record: AnswerRecord) -> list[str | None]:
        request, text, rest = body_of(record)
        return [cleaned(request, self._clean), text and self._clean(text), cleaned(rest, self._clean)]

    def _score(self, row: Sequence[Any]) -> list[Any]:
        *columns, label, reason, details, weight, measure, origin = row
        texts = (label and self._clean(label), self._clean(reason), cleaned(details, self._clean))
        return [*columns, *texts, weight, self._clean(measure), origin]


def _resolve(waiting: asyncio.Future[Any] | None, value: object) -> None:
    if waiting is not None and not waiting.done():
        waiting.set_result(value)


class Abandoned(Exception):
    """The driver is gone or no longer needs this worker."""


@dataclass
class _HeldShard:
    """Cells on this worker; `recalled` when the driver wants those back that are not begun."""

    cells: asyncio.Future[list[Cell]]
    task: asyncio.Task[Any] | None
    size: int = 0
    recalled: bool = False
    begun: set[int] = field(default_factory=set)


@dataclass
class _OpenedRun:
    """The order of a run, prepared on a worker."""

    order: Order
    plan: Plan
    targets: tuple[PricedTarget, ...]
    judges: Mapping[str | None, PricedTarget]


class WorkerSession:
    """One run on one worker process."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.last_message = asyncio.get_running_loop().time()
        self.outbox = Outbox(lambda text: without(text, self._secrets))
        self._secrets = spellings(secrets_of(os.environ))
        self._shards: dict[int, _HeldShard] = {}
        self._leases: dict[str, TargetLease] = {}
        self._rooms: dict[str, Room] = {}
        self._budget: BudgetLease | None = None
        self._run: asyncio.Future[_OpenedRun] = asyncio.get_running_loop().create_future()
        self._run.add_done_callback(lambda done: done.cancelled() or done.exception())
        self._unpaused = asyncio.Event()
        self._unpaused.set()
        self._stopped: tuple[str, StopCode] | None = None
        self._stopping = self.over = False
        self._number = 0
        self._message: Message = {}
        self._exchanging = asyncio.Lock()

    @property
    def unreached(self) -> bool:
        """Whether no message has come yet."""
        return self._number == 0

    @property
    def held(self) -> list[int]:
        """The numbers of the shards on this worker."""
        return list(self._shards)

    async def hold(self, number: int) -> None:
        """Hold the conversations of a shard, until each of their records is committed."""
        if self.over:
            raise Abandoned(f"the shard {number} came too late")
        self._shards[number] = shard = _HeldShard(asyncio.get_running_loop().create_future(), asyncio.current_task())
        self.outbox.add("shards", number)
        try:
            await self._hold_cells(shard)
            await self.outbox.wait_until_committed()
        finally:
            del self._shards[number]

    async def _hold_cells(self, shard: _HeldShard) -> None:
        try:
            cells = await shard.cells
            shard.size = len(cells)
            run = await self._run
            judges = Judges(run.judges, self.outbox, run.order.use_cache)
            sink = ShardSink(self, shard)
            executor = LocalExecutor(run.plan, run.targets, judges, sink, run.order.use_cache)
            ordered = sorted(cells, key=lambda cell: cell.target)
            grouped = {target: list(group) for target, group in groupby(ordered, key=lambda cell: cell.target)}
            await executor.execute({target: iter(group) for target, group in grouped.items()})
        except (Stopped, ConfigurationError, UnknownEvaluator) as reason:
            self._stop(str(reason), getattr(reason, "code", "configuration"))
        except ValidationError as problem:
            self._stop(f"an evaluator cannot be made here: {problem}", "configuration")

    def _stop(self, reason: str, code: StopCode) -> None:
        self._stopped = self._plainly(reason), code

    def _plainly(self, reason: str) -> str:
        return plain(without(reason, self._secrets))

    async def exchange(self, reply: Message) -> Message:
        """Handle a message of the driver; a repeated or late one gets the last reply again."""
        self.last_message = asyncio.get_running_loop().time()
        async with self._exchanging:
            if reply["number"] > self._number:
                self._number = reply["number"]
                self._take(reply)
                await self.outbox.wait_for_rows(reply["patience"], reply["gather"], self._idle)
                self._message = self._next_message()
        self.last_message = asyncio.get_running_loop().time()
        return self._message

    def _take(self, reply: Message) -> None:
        if (order := reply.get("order")) is not None:
            self._open(load_order(order))
        self.outbox.answered(reply.get("firsts", ()), reply.get("kept", ()))
        for name, lease in reply.get("leases", ()):
            if name in self._leases:
                self._leases[name].set(*lease)
        for name, answers in reply.get("answers", ()):
            if name in self._rooms:
                self._rooms[name].availability.note_others(answers)
        for name, reason, code in reply.get("closed", ()):
            if name in self._rooms:
                self._rooms[name].availability.close(reason, code)
        if self._budget is not None and "granted" in reply:
            self._budget.set(reply["granted"])
            if reply["refused"] is not None:
                self._budget.refuse(reply["refused"])
        for number, cells in reply.get("shards", ()):
            if number in self._shards and not self._shards[number].cells.done():
                self._shards[number].cells.set_result(load_cells(cells))
        for number in reply.get("recalled", ()):
            if number in self._shards:
                self._shards[number].recalled = True
        self._stopping = reply.get("stopping", False)
        if self._stopping:
            for target_lease in self._leases.values():
                target_lease.halt()
        if reply.get("paused", False) and not self._stopping:
            self._unpaused.clear()
        else:
            self._unpaused.set()
        if reply.get("over", False):
            self.abandon()

    def _idle(self, answers: int) -> bool:
        """Whether at least half of the requests in flight are answers that wait for the driver."""
        return sum(lease.in_use for lease in self._leases.values()) <= 2 * answers

    def _next_message(self) -> Message:
        message = self.outbox.message()
        message["number"] = self._number
        message["cells"] = sum(shard.size for shard in self._shards.values())
        message["waiting"] = [[number, shard.size - len(shard.begun)] for number, shard in self._shards.items()]
        message["demand"] = [[name, *lease.usage_report()] for name, lease in self._leases.items()]
        if self._budget is not None:
            message["money"] = self._budget.spending_report()
        closed = [(name, room.availability.closed) for name, room in self._rooms.items()]
        message["closed"] = [[name, self._plainly(str(why)), why.code] for name, why in closed if why is not None]
        if self._stopped is not None:
            message["stopped"] = self._stopped
        return message

    def _open(self, order: Order) -> None:
        if self._run.done():
            return
        environment = Variables({}, {**os.environ, **order.environment}, trusting=True)  # the driver was asked
        sent = [environment.get(name, "") for config in order.targets for name in config.header_variables]
        self._secrets = spellings([*secrets_of(environment), *order.environment.values(), *sent])
        budget = self._budget = BudgetLease(order.budget, self.outbox.nudge)
        root = Path(order.root) if Path(order.root).is_dir() else Path.cwd()

        def open_target(config: TargetConfig, kind: Any) -> PricedTarget:
            lease = self._leases.setdefault(f"{kind} {config.name}", TargetLease(self.outbox.nudge))
            tools = open_toolbox(plan.dataset, config, environment, root) if kind == "target" else None
            files = None if order.files is None else Path(order.files)
            room = self._rooms.setdefault(f"{kind} {config.name}", leased_room(lease, config, kind))
            return opened(config, kind, budget, environment, root, room=room, tools=tools, files=files)

        try:
            if order.versions != versions():
                raise ConfigurationError(
                    f"this worker has {_version_text(versions())}, and the run needs {_version_text(order.versions)}"
                )
            registry = unpack_evaluators(order.code, user_cache_path("tui_evals") / "evaluators", os.environ)
            plan = worker_plan(order, registry)
            targets = tuple(open_target(config, "target") for config in order.targets)
            judges = {name: open_target(config, "judge") for name, config in order.judges}
            self._run.set_result(_OpenedRun(order, plan, targets, judges))
        except ConfigurationError as problem:
            self._run.set_exception(problem)

    def abandon(self) -> None:
        """End everything here at once."""
        self.over = True
        for shard in self._shards.values():
            if shard.task is not None:
                shard.task.cancel()

    async def close(self) -> None:
        """Give back the connections of the targets."""
        with suppress(ConfigurationError, asyncio.CancelledError):
            if self._run.done():
                run = self._run.result()
                await close_all((*run.targets, *run.judges.values()))

    def stopping(self, shard: _HeldShard) -> bool:
        """Whether no further cell of a shard may start."""
        return self._stopping or shard.recalled or self._stopped is not None

    async def unpaused(self) -> None:
        """Wait while the run is paused."""
        await self._unpaused.wait()


class ShardSink:
    """The Sink of a shard: its records go into the messages of its session."""

    def __init__(self, session: WorkerSession, shard: _HeldShard) -> None:
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
        """Like `may_start`, for a conversation in flight; once begun, it is not returned."""
        if not await self.may_start():
            return False
        self._shard.begun.add(answer)
        return True

    def running(self, answer: int) -> None:
        """Report that a question was sent."""
        self._session.outbox.add("running", answer)

    def left_open(self, answers: Sequence[int]) -> None:
        """Report answers that stay pending, so that they are not handed out again."""
        for answer in answers:
            self._session.outbox.add("left_open", answer)

    async def answered(self, answer: int, record: AnswerRecord, cache_key: str | None, target: str) -> bool:
        """Send an answer to be committed."""
        return await self._session.outbox.answer(answer, record, cache_key, target)

    async def scored(self, answer: int, records: Sequence[ScoreRecord], status: Status, score: float | None) -> None:
        """Send scores to be committed."""
        await self._session.outbox.scored(answer, records, status, score)

    def called(self, record: CallRecord) -> None:
        """Report one attempt."""
        self._session.outbox.called(record)

    def changed(self, target: str, changes: Sequence[str]) -> None:
        """Report how requests to a target were changed."""
        self._session.outbox.changed(target, changes)

    def waiting(self, wait: Wait, answer: int | None) -> None:
        """Report a pause."""
        self._session.outbox.waiting(wait, answer)

    async def cached(self, key: str) -> AnswerRecord | None:
        """Ask the driver's cache."""
        return await self._session.outbox.cached(key)

    async def keep(self, key: str, target: str, record: AnswerRecord) -> None:
        """Send a reply to be cached."""
        await self._session.outbox.keep(key, target, record)


def _version_text(versions_by_name: Mapping[str, str]) -> str:
    return " and ".join(f"{name} {version}" for name, version in versions_by_name.items())


_HELLO_SECONDS = 3.0
"""Seconds without a message after which a worker announces itself again."""
ORPHANED_SECONDS = 120.0
"""Seconds without a message after which the driver is taken for dead."""
_FORGOTTEN_SECONDS = 5.0
"""`ORPHANED_SECONDS` when the scheduler has forgotten the tasks, as it does without the driver's connection."""

_sessions: dict[str, WorkerSession] = {}
_session_tasks: set[asyncio.Task[None]] = set()


async def hold_shard(topic: str, number: int) -> None:
    """Hold a shard of the run that talks under a topic; the cells come by message, so that a task holds no data."""
    session = _sessions.get(topic)
    if session is None or session.over:
        session = _begin_session(topic)
    work = asyncio.create_task(session.hold(number))
    try:
        await asyncio.wait([work])
    finally:
        work.cancel()
    if work.cancelled():
        raise Abandoned(f"the shard {number} was given up")
    work.result()


def _begin_session(topic: str) -> WorkerSession:
    from distributed import get_worker

    worker = get_worker()
    worker.handlers.setdefault(OP, _handle_message)
    session = _sessions[topic] = WorkerSession(secrets.token_hex(8))
    keeper = asyncio.create_task(_keep_session(worker, topic, session))
    _session_tasks.add(keeper)
    keeper.add_done_callback(_session_tasks.discard)
    return session


async def _handle_message(topic: str, session: str, letter: Message) -> Message:
    """Handle a message of the driver; the answer says so when the session has ended."""
    current = _sessions.get(topic)
    if current is None or current.name != session:
        return {"gone": True}
    return await current.exchange(reveal_order(letter))


async def _keep_session(worker: Any, topic: str, session: WorkerSession) -> None:
    """Announce the session until the driver talks to it, and end it when the driver has fallen silent."""
    clock = asyncio.get_running_loop().time
    started, announced = clock(), 0.0
    while not session.over:
        silent = clock() - max(session.last_message, started)
        if silent > ORPHANED_SECONDS or (silent > _FORGOTTEN_SECONDS and _is_forgotten(worker, topic, session)):
            session.abandon()
        elif (session.unreached or silent > _HELLO_SECONDS) and clock() - announced > _HELLO_SECONDS:
            worker.log_event(topic, {"session": session.name, "address": worker.address})
            announced = clock()
        await asyncio.sleep(0.2)
    await session.close()
    if _sessions.get(topic) is session:
        del _sessions[topic]


def _is_forgotten(worker: Any, topic: str, session: WorkerSession) -> bool:
    """Whether the scheduler has dropped the tasks of all shards held here."""
    tasks = [worker.state.tasks.get(f"{topic}-{number}") for number in session.held]
    return all(task is None or task.state == "cancelled" for task in tasks)
