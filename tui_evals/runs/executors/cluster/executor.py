"""On the driver: hands shards to the cluster as Dask tasks, and exchanges messages with the workers that hold them."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections import deque
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence, Set
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tui_evals.light_records import dataclass
from tui_evals.runs.asking import PricedTarget
from tui_evals.runs.executors import Cell, Stopped
from tui_evals.runs.executors.cluster.code import pack_evaluators
from tui_evals.runs.executors.cluster.connection import open_cluster
from tui_evals.runs.executors.cluster.distribution import (
    VARIABLES_HINT,
    ClusterSink,
    Shards,
    WorkDistributor,
    WorkerState,
)
from tui_evals.runs.executors.cluster.terms import (
    OP,
    ClusterTerms,
    LocalWorkers,
    Message,
    Order,
    dataset_header,
    dump_order,
    dump_prompts,
    hide_order,
    parse_place,
    versions,
)
from tui_evals.runs.limits import Budget
from tui_evals.runs.plan import Plan
from tui_evals.store.database import StoreError
from tui_evals.store.records import AnswerRecord
from tui_evals.targets.base import ConfigurationError, TargetConfig

if TYPE_CHECKING:
    from distributed import Client, Future


_DIRECT_SECONDS = 4.0
"""Seconds to try whether a worker can be reached from here."""
_ANSWER_SECONDS = 10.0


class WorkerGone(Exception):
    """The worker has ended its session."""


class WorkerLine:
    """Sends messages to one worker session: directly where it can be reached, else through the scheduler."""

    def __init__(self, client: Client, topic: str, worker: WorkerState) -> None:
        self._client = client
        self._worker = worker
        self._address = {"topic": topic, "session": worker.name}
        self._is_direct: bool | None = None

    async def exchange(self, message: Message) -> Message:
        """The answer to a message; OSError or TimeoutError while it cannot be reached, WorkerGone when it has ended."""
        if self._is_direct is None:
            try:
                async with asyncio.timeout(_DIRECT_SECONDS):
                    answer = await self._send_directly(message)
                self._is_direct = True
                return answer
            except (OSError, TimeoutError):
                self._is_direct = False
        async with asyncio.timeout(_ANSWER_SECONDS):
            return await (self._send_directly(message) if self._is_direct else self._send_relayed(message))

    async def _send_directly(self, message: Message) -> Message:
        ask = getattr(self._client.rpc(self._worker.address), OP)
        return _check_gone(await ask(**self._address, letter=hide_order(message)))

    async def _send_relayed(self, message: Message) -> Message:
        envelope = {"op": OP, **self._address, "letter": hide_order(message)}
        return _check_gone(await self._client.scheduler.proxy(msg=envelope, worker=self._worker.address))


def _check_gone(answer: Any) -> Message:
    if answer.get("gone"):
        raise WorkerGone
    message: Message = answer
    return message


_log = logging.getLogger(__name__)

SILENCE = 30.0
"""Seconds without a message after which the cells of a worker go to others."""
_UNREACHABLE = (OSError, TimeoutError, RuntimeError)
"""Exceptions of Dask for a broken or slow connection, or a closed client."""
_RETRY_SECONDS = 0.5
_TICK_SECONDS = 0.25
_SHOW_SECONDS = 1.0
_LOOK_SECONDS = 2.0
_RECALL_SECONDS = 5.0
"""Seconds without anything left to hand out after which a slow worker is asked to give cells back."""
_END_SECONDS = 5.0


class ClusterExecutor:
    """Holds the conversations of cells on the workers of a Dask cluster."""

    def __init__(
        self, client: Client, sink: ClusterSink, targets: Sequence[PricedTarget], order: str, budget: Budget
    ) -> None:
        self._client = client
        self._sink = sink
        self._targets = targets
        self._order = order
        self._budget = budget
        self._topic = f"tui-evals-{secrets.token_hex(8)}"
        self._threads: dict[str, int] = {}
        self._futures: dict[int, Future] = {}
        self._done: set[int] = set()
        self._orphaned: dict[int, float] = {}
        """Shards that a worker continues with although the scheduler has forgotten their task."""
        self._silent: set[str] = set()
        """Addresses of workers that the scheduler still has, but that do not answer us."""
        self._heartbeats: dict[str, tuple[float, float]] = {}
        """The last heartbeat of workers that do not talk to us, and when it came by our clock."""
        self._allowed: dict[int, Set[str]] = {}
        """The only workers that may hold a shard, where it was handed out while another was silent."""
        self._suspects: deque[Cell] = deque()
        """Conversations whose workers died: each is held once more, alone, to find the one that kills workers."""
        self._suspect_shard: int | None = None
        self._conversations: dict[str, asyncio.Task[None]] = {}
        self._changed = asyncio.Event()
        self._failed: BaseException | None = None

    async def execute(self, cells: Mapping[int, Iterator[Cell]]) -> None:
        """Work through the cells of each target; Stopped when the run must not continue."""
        concurrency = [one.config.concurrency for one in self._targets if one.kind == "target"]
        closed = lambda target: self._targets[target].availability.closed is not None  # noqa: E731
        self._shards = Shards(cells, concurrency, self._sink.known, closed)
        self._distributor = WorkDistributor(self._sink, self._targets, self._shards, self._order, self._budget)
        watching = asyncio.create_task(self._watch_workers())
        try:
            await self._work()
        finally:
            await self._end(watching)
        if self._distributor.reason is not None:
            raise self._distributor.reason

    async def _work(self) -> None:
        clock = asyncio.get_running_loop().time
        busy_since = clock()
        while True:
            if self._failed is not None:
                raise self._failed
            if self._client.status == "closed":
                raise Stopped("the connection to the cluster's scheduler is lost")
            slots = sum(self._threads.values())
            await self._submit(slots)
            handed_out = len(self._shards.out)
            if not handed_out and (self._stopping or (self._shards.exhausted and not self._suspects)):
                return
            if handed_out >= slots or not self._shards.exhausted:
                busy_since = clock()
            elif clock() - busy_since > _RECALL_SECONDS:
                self._recall()
                busy_since = clock()
            with suppress(TimeoutError):
                async with asyncio.timeout(_TICK_SECONDS):
                    await self._changed.wait()
            self._changed.clear()
            await self._collect(slots)

    @property
    def _stopping(self) -> bool:
        return self._sink.stopping or self._distributor.reason is not None

    @property
    def _answering(self) -> Set[str]:
        return self._threads.keys() - self._silent

    async def _submit(self, slots: int) -> None:
        """Hand out as many shards as there are threads for, and one in reserve for each worker."""
        from tui_evals.runs.executors.cluster.worker_session import hold_shard

        if self._stopping:
            return await self._cancel(self._unclaimed())
        if self._client.status != "running" or self._sink.paused:
            return None
        # The scheduler continues giving tasks to a worker that is frozen, until it has noticed.
        workers = self._answering if self._silent else None
        if workers == set():  # which Dask takes for any worker
            return None
        while len(self._shards.out) < slots + len(self._threads) and self._suspect_shard not in self._shards.out:
            if (number := self._next(slots)) is None:
                return None
            key = f"{self._topic}-{number}"
            future = self._client.submit(hold_shard, self._topic, number, key=key, pure=False, workers=workers)
            self._futures[number] = future
            if workers is not None:
                self._allowed[number] = workers
            future.add_done_callback(partial(self._on_task_ended, number))

    def _next(self, slots: int) -> int | None:
        """The number of the next shard; if nothing else is left or running, that of a suspect."""
        number = self._shards.next_shard(slots)
        if number is None and self._suspects and not self._shards.out:
            self._shards.put_back([self._suspects.popleft()])
            number = self._suspect_shard = self._shards.next_shard(slots)
        return number

    def _unclaimed(self) -> list[int]:
        """Shards whose task no worker has begun."""
        return [number for number in self._futures if self._shards.out[number].worker is None]

    def _stranded(self) -> list[int]:
        """Shards that no worker holds which answers, and whose task may lie with one that does not."""
        return [number for number in self._futures if not self._is_held(number)] if self._silent else []

    def _is_held(self, number: int) -> bool:
        worker = self._distributor.workers.get(self._shards.out[number].worker or "")
        allowed = self._allowed.get(number)
        return (worker is not None and not worker.lost) or (allowed is not None and allowed <= self._answering)

    async def _cancel(self, numbers: Sequence[int]) -> None:
        """Cancel tasks; the scheduler drops those it cannot be reached for when our connection ends."""
        futures = [future for number in numbers if not (future := self._futures[number]).done()]
        if futures:
            with suppress(*_UNREACHABLE):
                await self._client.cancel(futures)

    def _on_task_ended(self, number: int, _: Future) -> None:
        """A task has ended; Dask says so from a thread of its own."""
        self._client.loop.add_callback(partial(self._note_done, number))

    def _note_done(self, number: int) -> None:
        self._done.add(number)
        self._changed.set()

    async def _collect(self, slots: int) -> None:
        """Take back the shards whose tasks have ended, and queue their unfinished cells."""
        done, self._done = self._done, set()
        for number in done:
            future = self._futures.pop(number)
            self._allowed.pop(number, None)
            if future.status == "error":
                await self._handle_failure(number, future)
            elif future.status == "finished":
                self._take_back(number, slots)
            else:
                self._orphaned[number] = asyncio.get_running_loop().time()
            future.release()
        for number, since in list(self._orphaned.items()):
            shard = self._shards.out[number]
            worker = self._distributor.workers.get(shard.worker or "")
            if worker is None or worker.lost or (worker.last_message > since and number not in worker.waiting):
                del self._orphaned[number]
                self._take_back(number, slots)

    def _take_back(self, number: int, slots: int) -> None:
        cells = self._shards.take_back(number)
        if cells and not self._stopping:
            self._shards.put_back(cells, parts=max(1, slots - len(self._shards.out)))

    async def _handle_failure(self, number: int, future: Future) -> None:
        """A task failed: its workers died, perhaps because of one of its cells, or there is a fault of our own."""
        problem = await future.exception()
        if type(problem).__name__ == "Abandoned":
            return self._take_back(number, 1)
        if type(problem).__name__ != "KilledWorker":
            self._distributor.stop(Stopped(f"a worker failed: {type(problem).__name__}: {problem}"))
            self._shards.take_back(number)
            return None
        cells = self._shards.take_back(number)
        if len(cells) > 1:
            self._shards.put_back(cells, singly=True)
        elif number != self._suspect_shard:
            self._suspects.extend(cells)
        else:
            for cell in cells:
                await self._give_up(cell)
        return None

    async def _give_up(self, cell: Cell) -> None:
        """Record the turns of a conversation that no worker survives as failed."""
        target = self._targets[cell.target].config.name
        died = "Agent request failed: every worker that held this conversation died, the last one too (out of memory?)"
        code, message = "agentRequestFailed", died
        for turn, answer in enumerate(cell.answers):
            if turn not in cell.known:
                record = AnswerRecord(text=None, request={}, code=code, message=message)
                await self._sink.answered(answer, record, None, target)
                code, message = "turnSkipped", "Turn not attempted: preceding turn failed"

    def _recall(self) -> None:
        """Ask the worker that keeps most conversations waiting to give them back, where another has none."""
        alive = [worker for worker in self._distributor.workers.values() if not worker.lost]
        if len(alive) < len(self._threads) or any(not worker.cells for worker in alive):
            slowest = max(alive, key=lambda worker: sum(worker.waiting.values()), default=None)
            if slowest is not None:
                slowest.recalled |= {number for number, waiting in slowest.waiting.items() if waiting}

    async def _watch_workers(self) -> None:
        """Keep the list of workers, listen for new ones, and show them."""
        while True:
            if self._client.status == "running":
                with suppress(*_UNREACHABLE):
                    self._client.subscribe_topic(self._topic, self._on_hello)
                    async with asyncio.timeout(_LOOK_SECONDS):
                        self._threads = await self._client.nthreads()
                        self._silent &= self._threads.keys()
                        await self._follow_heartbeats()
                        await self._cancel(self._stranded())
                    self._changed.set()
            for _ in range(int(_LOOK_SECONDS / _SHOW_SECONDS)):
                self._distributor.show_workers()
                await asyncio.sleep(_SHOW_SECONDS if self._threads else _TICK_SECONDS)

    async def _follow_heartbeats(self) -> None:
        """Learn from the scheduler who froze before saying a word, and who is back when no other is left."""
        spoken = {worker.address for worker in self._distributor.workers.values()}
        unsure = {address for address in self._threads if address not in spoken or not self._answering}
        if not self._silent and not (unsure and self._unclaimed()):
            return self._heartbeats.clear()
        known = (await self._client.scheduler.identity())["workers"]
        now = asyncio.get_running_loop().time()
        for address in unsure & known.keys():
            heartbeat = known[address]["last_seen"]
            before, since = self._heartbeats.get(address, (None, now))
            if heartbeat != before:
                self._heartbeats[address] = heartbeat, now
                if before is not None:
                    self._silent.discard(address)
            elif now - since > SILENCE:
                self._silent.add(address)
        return None

    async def _on_hello(self, event: tuple[float, Mapping[str, Any]]) -> None:
        """Handle a worker that announced itself, for the first time or again."""
        hello = event[1]
        name = hello["session"]
        if name not in self._conversations or self._conversations[name].done():
            worker = self._distributor.workers.get(name) or WorkerState(name, hello["address"])
            self._conversations[name] = asyncio.create_task(self._converse(worker))

    async def _converse(self, worker: WorkerState) -> None:
        """Exchange messages with a worker until it is lost or the run ends."""
        clock = asyncio.get_running_loop().time
        line = WorkerLine(self._client, self._topic, worker)
        worker.last_message = clock()
        message = self._distributor.first_message(worker)
        try:
            while True:
                try:
                    answer = await line.exchange(message)
                except _UNREACHABLE:
                    if self._client.status == "closed":
                        return None
                    if clock() - worker.last_message > SILENCE or await self._is_unregistered(worker):
                        return await self._lose(worker)
                    await asyncio.sleep(_RETRY_SECONDS)
                    continue
                if message["over"]:
                    return self._silent.discard(worker.address)
                worker.last_message = clock()
                message = await self._distributor.receive(worker, answer)
                self._changed.set()
        except WorkerGone:
            return await self._lose(worker)
        except StoreError as problem:
            self._failed = problem
        except Exception as problem:  # any exception ends the run, in the task that all others wait for
            _log.debug("the talk with %s failed", worker.address, exc_info=True)
            reason = f"{type(problem).__name__}: {problem}"
            self._failed = Stopped(f"the worker {worker.address} cannot be understood ({reason})")
        self._changed.set()
        return None

    async def _is_unregistered(self, worker: WorkerState) -> bool:
        """Whether the scheduler has removed a worker as well."""
        try:
            async with asyncio.timeout(_LOOK_SECONDS):
                return worker.address not in await self._client.nthreads()
        except _UNREACHABLE:
            return False

    async def _lose(self, worker: WorkerState) -> None:
        """Give a worker up: the scheduler moves its tasks, or we do where it has not noticed."""
        self._distributor.give_up(worker)
        if not await self._is_unregistered(worker):
            self._silent.add(worker.address)
            await self._cancel(self._stranded())
        self._changed.set()

    async def _end(self, watching: asyncio.Task[None]) -> None:
        """Tell every worker that the run is over, and release the tasks."""
        watching.cancel()
        self._distributor.end()
        await self._cancel(list(self._futures))
        if self._conversations:
            await asyncio.wait(self._conversations.values(), timeout=_END_SECONDS)
        for task in self._conversations.values():
            task.cancel()
        await asyncio.gather(*self._conversations.values(), watching, return_exceptions=True)
        if self._client.status != "closed":
            with suppress(*_UNREACHABLE, ValueError):
                self._client.unsubscribe_topic(self._topic)
        self._distributor.show_workers()


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterPlace:
    """The cluster that executes a run, and what its workers need from this machine."""

    terms: ClusterTerms
    environment: Mapping[str, str]
    root: Path
    metrics: Path | None
    """The folder of the prompt under test, which has metrics next to it."""
    trusting: bool
    files: Path | None = None
    """The folder of the dataset, whose files go along with questions."""


def _agreed(config: TargetConfig) -> TargetConfig:
    """A target as workers open it: permission was asked for here; workers do not ask."""
    return replace(config, where="")


@asynccontextmanager
async def cluster_executor(
    where: ClusterPlace,
    plan: Plan,
    targets: Sequence[PricedTarget],
    judges: Mapping[str | None, PricedTarget],
    budget: Budget,
    use_cache: bool,
    sink: ClusterSink,
) -> AsyncIterator[ClusterExecutor]:
    """The executor of a run on a cluster, which is started or joined for it; Stopped says why that fails."""
    order = Order(
        versions=versions(),
        header=dataset_header(plan.dataset),
        targets=tuple(map(_agreed, plan.targets)),
        judges=tuple((name, _agreed(priced.config)) for name, priced in judges.items()),
        prompts=dump_prompts(plan),
        without_judges=plan.without_judges,
        rubric=plan.rubric,
        use_cache=use_cache,
        budget=budget.most,
        root=str(where.root),
        files=None if where.files is None else str(where.files.resolve()),
        code=pack_evaluators(plan.registry, where.root, where.metrics, plan.evaluators_used()),
        environment={name: where.environment[name] for name in where.terms.forward},
    )
    async with AsyncExitStack() as stack:
        try:
            client = await stack.enter_async_context(open_cluster(where.terms, where.environment, where.trusting))
        except ConfigurationError as problem:
            raise Stopped(str(problem), "configuration") from None
        try:
            yield ClusterExecutor(client, sink, [*targets, *judges.values()], dump_order(order), budget)
        except Stopped as reason:
            if "environment variable" not in str(reason) or isinstance(parse_place(where.terms.word), LocalWorkers):
                raise
            raise Stopped(f"{reason}{VARIABLES_HINT}", reason.code) from None
