"""A cluster that exists in memory only: a clock that leaps, lines that fail, workers that die, and who watches it."""

from __future__ import annotations

import asyncio
import json
import random
import selectors
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

from tui_evals.datasets.model import Dataset
from tui_evals.evaluators.registry import Registry, load_registry
from tui_evals.runs import judges
from tui_evals.runs.executors import Cell
from tui_evals.runs.executors.cluster import executor as talking
from tui_evals.runs.executors.cluster import worker_session
from tui_evals.runs.executors.cluster.executor import ClusterExecutor
from tui_evals.runs.executors.cluster.terms import OP, Message, Order, dataset_header, dump_order, versions
from tui_evals.runs.limits import Budget
from tui_evals.store.records import AnswerRecord, CallRecord, ScoreRecord, WorkerRow
from tui_evals.targets.base import Reply, Request, TargetConfig, TargetError, Usage

THREADS = 2
registered: Callable[[], Registry] = cache(load_registry)


class Clock(asyncio.SelectorEventLoop):
    """An event loop whose time passes only while everybody waits; when nothing can ever happen again it says so."""

    def __init__(self) -> None:
        self.now = 1000.0
        super().__init__(_Leaping(self))

    def time(self) -> float:
        return self.now


class _Leaping(selectors.DefaultSelector):
    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self._clock = clock

    def select(self, timeout: float | None = None) -> list[Any]:
        assert timeout is not None, "everybody waits, and nothing will ever happen"
        assert self._clock.now < 4000, "it never ends"
        self._clock.now += max(timeout, 0.0)
        return super().select(0)


def lived(story: Callable[[], Any]) -> Any:
    """Run a story by the clock that leaps."""
    with asyncio.Runner(loop_factory=Clock) as runner:
        return runner.run(story())


@dataclass
class Weather:
    """How things go wrong: chances for each letter, and seconds."""

    request_lost: float = 0.0
    answer_lost: float = 0.0
    repeated: float = 0.0
    delay: float = 0.0
    throttled: float = 0.0
    failing: float = 0.0
    """The chance that a question is refused for good."""
    refusing: tuple[str, int] | None = None
    """The kind, target or judge, that refuses its key after so many answers."""
    deaths: Sequence[float] = ()
    cuts: Sequence[tuple[float, float]] = ()
    """When a worker that lives is cut off from the driver, and for how long."""


@dataclass
class World:
    """The store, the targets, and what must never happen there."""

    dice: random.Random
    weather: Weather
    concurrency: int
    answers: dict[int, AnswerRecord] = field(default_factory=dict)
    scores: Counter[int] = field(default_factory=Counter)
    kept: dict[str, AnswerRecord] = field(default_factory=dict)
    log: list[CallRecord] = field(default_factory=list)
    asked: Counter[tuple[int, int]] = field(default_factory=Counter)
    """How often a turn of an item was answered by the target."""
    ids: dict[tuple[int, int], int] = field(default_factory=dict)
    in_flight: Counter[str] = field(default_factory=Counter)
    peak: Counter[str] = field(default_factory=Counter)
    late: list[int] = field(default_factory=list)
    """Answers that were asked for although they were committed."""
    begun: list[float] = field(default_factory=list)
    """When each call was made."""
    answered_by: Counter[str] = field(default_factory=Counter)
    refused: int = 0
    """How many calls were refused, short questions included."""
    spent: float = 0.0
    stopping: bool = False
    paused: bool = False
    rows: Sequence[WorkerRow] = ()

    # The Sink.

    def running(self, answer: int) -> None:
        pass

    async def answered(self, answer: int, record: AnswerRecord, key: str | None, target: str) -> bool:
        await asyncio.sleep(self.dice.random() * 0.02)
        first = answer not in self.answers
        self.answers.setdefault(answer, record)
        if first and key is not None:
            self.kept[key] = record
        return first

    async def scored(self, answer: int, records: Sequence[ScoreRecord], status: str, score: float | None) -> None:
        await asyncio.sleep(self.dice.random() * 0.02)
        assert self.answers[answer].text is not None
        self.scores[answer] += 1

    def waiting(self, wait: object, answer: int | None) -> None:
        """Nobody watches."""

    def changed(self, target: str, changes: Sequence[str]) -> None:
        """Nobody looks."""

    def called(self, record: CallRecord) -> None:
        self.log.append(record)

    async def cached(self, key: str) -> AnswerRecord | None:
        return self.kept.get(key)

    async def keep(self, key: str, target: str, record: AnswerRecord) -> None:
        await asyncio.sleep(self.dice.random() * 0.02)
        self.kept[key] = record

    def known(self, cell: Cell) -> Mapping[int, AnswerRecord]:
        return {turn: self.answers[answer] for turn, answer in enumerate(cell.answers) if answer in self.answers}

    def workers(self, rows: Sequence[WorkerRow]) -> None:
        self.rows = rows


class Model:
    """A target or a judge, which watches how it is asked."""

    def __init__(self, world: World, config: TargetConfig, kind: str) -> None:
        self._world = world
        self._config = config
        self._name = f"{kind} {config.name}"
        self._kind = kind

    async def ask(self, request: Request) -> Reply:
        world, name = self._world, self._name
        kind, after = world.weather.refusing or ("", 0)
        if kind == self._kind and world.answered_by[kind] >= after:
            await asyncio.sleep(0.05)
            world.refused += 1
            raise TargetError("agentAuthenticationError", "the key expired", status=401, unbilled=True)
        world.answered_by[self._kind] += 1
        if self._kind == "target" and world.ids[request.position, request.turn] in world.answers:
            world.late.append(world.ids[request.position, request.turn])
        world.begun.append(asyncio.get_running_loop().time())
        world.in_flight[name] += 1
        world.peak[name] = max(world.peak[name], world.in_flight[name])
        try:
            await asyncio.sleep(0.05 + world.dice.random() * 0.5)
        finally:
            world.in_flight[name] -= 1
        if world.dice.random() < world.weather.throttled:
            raise TargetError("agentRateLimited", "slowly", retryable=True, retry_after=0.2)
        world.asked[request.position, request.turn] += self._kind == "target"
        if self._kind == "target" and _luck(request.position, request.turn) < world.weather.failing:
            raise TargetError("agentRequestFailed", "never", status=400)
        usage = Usage(10, 10)
        world.spent += self._config.price.cost(usage) if self._config.price else 0.0
        return Reply(text=f"{request.position} {request.turn}", usage=usage)

    async def close(self) -> None:
        pass


def _luck(*of: int) -> float:
    return random.Random(repr(of)).random()


class Future:
    """A task of the cluster as its client sees it."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.status = "pending"
        self.deaths = 0
        self._problem: BaseException | None = None
        self._told: list[Callable[[Any], None]] = []

    def done(self) -> bool:
        return self.status != "pending"

    def add_done_callback(self, told: Callable[[Any], None]) -> None:
        self._told.append(told)

    def end(self, status: str, problem: BaseException | None = None) -> None:
        if not self.done():
            self.status, self._problem = status, problem
            for told in self._told:
                told(self)

    async def exception(self) -> BaseException | None:
        return self._problem

    def release(self) -> None:
        pass


class Process:
    """A worker process: what Dask runs there, and the session it has."""

    def __init__(self, dask: Dask, number: int) -> None:
        self.address = f"tcp://worker:{number}"
        self.alive = True
        self.cut_until = 0.0
        self.session: worker_session.WorkerSession | None = None
        self.held: dict[Future, asyncio.Task[None]] = {}
        self.state = SimpleNamespace(tasks=self)
        self._dask = dask
        self._tasks: set[asyncio.Task[Any]] = set()

    def get(self, key: str) -> Any:
        """What Dask knows here of a task."""
        for future in self.held:
            if key.endswith(f"-{future.number}"):
                return SimpleNamespace(state="cancelled" if future.status == "cancelled" else "executing")
        return None

    def start(self, future: Future) -> None:
        self.held[future] = self.go(self._hold(future))

    def go(self, work: Any) -> asyncio.Task[Any]:
        made = asyncio.create_task(work)
        self._tasks.add(made)
        made.add_done_callback(self._tasks.discard)
        return made

    async def _hold(self, future: Future) -> None:
        """As the task that Dask is given does it."""
        if self.session is None or self.session.over:
            self.session = worker_session.WorkerSession(f"{self.address} {self._dask.dice.random()}")
            self.go(worker_session._keep_session(self, "topic", self.session))
        work = self.go(self.session.hold(future.number))
        await asyncio.wait([work])
        if not self.alive:
            return
        del self.held[future]
        problem = worker_session.Abandoned() if work.cancelled() else work.exception()
        future.end("finished" if problem is None else "error", problem)
        self._dask.hand_out()

    def log_event(self, _: str, said: Mapping[str, Any]) -> None:
        if self.reachable:
            self._dask.say_hello(said)

    @property
    def reachable(self) -> bool:
        return self.alive and asyncio.get_running_loop().time() >= self.cut_until

    async def exchange(self, *, topic: str, session: str, letter: Message) -> Message:
        """As the handler of letters does it."""
        found = self.session
        if found is None or found.name != session or (found.over and found.unreached):
            return {"gone": True}
        return await found.exchange(letter)

    async def die(self) -> None:
        self.alive = False
        while self._tasks:
            for made in tuple(self._tasks):
                made.cancel()
            await asyncio.wait(tuple(self._tasks))


class Dask:
    """What the executor asks of a client of Dask, with the scheduler and the workers behind it."""

    status = "running"

    def __init__(self, world: World, workers: int) -> None:
        self.dice = world.dice
        self.weather = world.weather
        self.loop = SimpleNamespace(add_callback=lambda told: asyncio.get_running_loop().call_soon(told))
        self.scheduler = SimpleNamespace(proxy=self._proxy, identity=self._identity)
        self.processes = {made.address: made for made in (Process(self, number) for number in range(workers))}
        self._number = workers
        self._queue: deque[tuple[Future, set[str] | None]] = deque()
        self._hello: Callable[[Any], Any] | None = None
        self._tasks: set[asyncio.Task[Any]] = set()

    # The client.

    def submit(self, _: Any, topic: str, number: int, *, workers: Any = None, **__: Any) -> Future:
        future = Future(number)
        self._queue.append((future, set(workers) if workers else None))
        self.hand_out()
        return future

    async def cancel(self, futures: Sequence[Future]) -> None:
        for future in futures:
            self._queue = deque(queued for queued in self._queue if queued[0] is not future)
            future.end("cancelled")

    async def nthreads(self) -> dict[str, int]:
        return dict.fromkeys(self.processes, THREADS)

    async def _identity(self) -> dict[str, Any]:
        now = asyncio.get_running_loop().time()
        return {"workers": {made.address: {"last_seen": now} for made in self.processes.values() if made.alive}}

    def subscribe_topic(self, _: str, hello: Callable[[Any], Any]) -> None:
        self._hello = hello

    def unsubscribe_topic(self, _: str) -> None:
        self._hello = None

    def rpc(self, address: str) -> Any:
        async def ask(**words: Any) -> Message:
            return await self._carried(address, words)

        return SimpleNamespace(**{OP: ask})

    async def _proxy(self, msg: Mapping[str, Any], worker: str) -> Message:
        return await self._carried(worker, {name: value for name, value in msg.items() if name != "op"})

    # The lines.

    async def _carried(self, address: str, words: Mapping[str, Any]) -> Message:
        weather, process = self.weather, self.processes.get(address)
        await asyncio.sleep(self.dice.random() * weather.delay)
        if process is None or not process.reachable or self.dice.random() < weather.request_lost:
            raise OSError("nobody answers")
        sent = _written(words)
        if self.dice.random() < weather.repeated:
            self._go(self._once_more(process, sent))
        asking = process.go(process.exchange(**sent))
        await asyncio.wait([asking])
        if not process.reachable or asking.cancelled() or self.dice.random() < weather.answer_lost:
            raise OSError("the answer is lost")
        answer: Message = _written(asking.result())
        await asyncio.sleep(self.dice.random() * weather.delay)
        return answer

    async def _once_more(self, process: Process, sent: Mapping[str, Any]) -> None:
        """A letter that was on its way for long, to which nobody hears the answer."""
        await asyncio.sleep(self.dice.random() * 5)
        if process.reachable:
            await process.exchange(**sent)

    def say_hello(self, said: Mapping[str, Any]) -> None:
        if self._hello is not None:
            self._go(self._hello((0.0, said)))

    # The scheduler.

    def hand_out(self) -> None:
        for _ in range(len(self._queue)):
            future, only = self._queue.popleft()
            free = [each for each in self.processes.values() if each.alive and len(each.held) < THREADS]
            free = [each for each in free if only is None or each.address in only]
            if free:
                min(free, key=lambda each: len(each.held)).start(future)
            else:
                self._queue.append((future, only))

    async def kill_one(self) -> None:
        """A worker dies; a while later that is noticed, its tasks go elsewhere, and another takes its place."""
        process = self.dice.choice([each for each in self.processes.values() if each.alive])
        await process.die()
        await asyncio.sleep(0.1 + self.dice.random() * 5)
        del self.processes[process.address]
        fresh = Process(self, self._number)
        self._number += 1
        self.processes[fresh.address] = fresh
        self._queue.extend((future, None) for future in process.held if not future.done())
        self.hand_out()

    def cut_one(self, seconds: float) -> None:
        """The driver cannot reach a worker, which the scheduler does not notice."""
        process = self.dice.choice([each for each in self.processes.values() if each.alive])
        process.cut_until = asyncio.get_running_loop().time() + seconds

    async def befall(self) -> None:
        """Let happen what the weather says."""
        begun = asyncio.get_running_loop().time()
        for at in sorted([*self.weather.deaths, *self.weather.cuts], key=lambda at: at if type(at) is float else at[0]):
            when, seconds = (at, 0.0) if isinstance(at, float) else at
            await asyncio.sleep(max(0.0, begun + when - asyncio.get_running_loop().time()))
            if seconds:
                self.cut_one(seconds)
            else:
                await self.kill_one()

    def _go(self, work: Any) -> None:
        made = asyncio.create_task(work)
        self._tasks.add(made)
        made.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        for process in self.processes.values():
            await process.die()
        for made in tuple(self._tasks):
            made.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


def _written(value: Any) -> Any:
    """What arrives of something that is sent: plain data, its lists as tuples."""

    def arrived(part: Any) -> Any:
        if isinstance(part, dict):
            return {name: arrived(inner) for name, inner in part.items()}
        return tuple(map(arrived, part)) if isinstance(part, list) else part

    return arrived(json.loads(json.dumps(value)))


def cells_for(dataset: Dataset, world: World) -> Iterator[Cell]:
    """A cell for each item; the ids of its answers begin at 1."""
    number = 0
    for position, item in enumerate(dataset.items):
        ids = tuple(range(number + 1, number + 1 + len(item.units)))
        number += len(ids)
        world.ids |= {(position, turn): answer for turn, answer in enumerate(ids)}
        yield Cell(item, f"#{position + 1}", position, 0, 0, 0, ids, {}, frozenset())


async def shared_out(
    world: World,
    dataset: Dataset,
    target: TargetConfig,
    workers: int,
    *,
    judge: TargetConfig | None = None,
    budget: Budget | None = None,
) -> list[Any]:
    """Execute a dataset on an imagined cluster, and give its target and judge; Stopped when the run must not go on."""
    money, root = budget or Budget(None), Path.cwd()
    order = Order(
        versions=versions(),
        header=dataset_header(dataset),
        targets=(target,),
        judges=((None, judge),) if judge else (),
        prompts=(),
        without_judges=judge is None,
        rubric="strict",
        use_cache=True,
        budget=money.most,
        root=str(root),
        code={},
        environment={},
    )

    def opened(config: TargetConfig, kind: Any, *rest: Any, **more: Any) -> Any:
        return judges.opened(config, kind, *rest, target=Model(world, config, kind), **more)

    asked = [opened(target, "target", money, {}, root), *([opened(judge, "judge", money, {}, root)] if judge else [])]
    cells = list(cells_for(dataset, world))
    dask = Dask(world, workers)
    with _in_place_of_the_real(opened):
        executor = ClusterExecutor(dask, world, asked, dump_order(order), money)
        weather = asyncio.create_task(dask.befall())
        try:
            await executor.execute({0: iter(cells)})
        finally:
            weather.cancel()
            await asyncio.gather(weather, return_exceptions=True)
            await dask.close()
    return asked


@contextmanager
def _in_place_of_the_real(opened: Any) -> Iterator[None]:
    known = registered()
    with (
        patch.object(worker_session, "opened", opened),
        patch.object(worker_session, "unpack_evaluators", lambda *_: known),
        patch.object(talking, "hide_order", lambda letter: letter),
    ):
        yield
