"""A cluster that is not there: a clock that leaps over idle waiting, and a client without Dask."""

from __future__ import annotations

import asyncio
import selectors
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

from tests.bench.cluster_worker import Network, VirtualWorker
from tui_evals.runs.executors.cluster.terms import OP

THREADS = 4


class Clock(asyncio.SelectorEventLoop):
    """An event loop by the CPU time of this process, so that neighbours count for nothing; it leaps over waiting."""

    def __init__(self) -> None:
        self.waited = 0
        """How many wait for a commit, for which time passes as it does."""
        self.elsewhere = 0.0
        """CPU seconds of this thread that were somebody else's."""
        self._leapt = self._now = 0.0
        self._looking = _cost()
        super().__init__(_Leaping(self))

    def time(self) -> float:
        """The modelled time, as it was when the loop last looked."""
        return self._now

    def look(self) -> None:
        """See how much time has passed."""
        self.elsewhere += self._looking
        self._now = max(self._now, time.process_time() - self.elsewhere + self._leapt)

    def leap(self, seconds: float) -> None:
        """Nothing happens for so long."""
        self._leapt += seconds

    @contextmanager
    def others(self) -> Iterator[None]:
        """What is done meanwhile is done on other machines."""
        took = time.thread_time()
        yield
        self.elsewhere += time.thread_time() - took + self._looking


def _cost() -> float:
    """What it takes to look at the time a process has taken, which is no small thing."""
    took = time.thread_time()
    for _ in range(1_000):
        time.process_time()
    return (time.thread_time() - took) / 1_000


class _Leaping(selectors.DefaultSelector):
    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self._clock = clock

    def select(self, timeout: float | None = None) -> list[Any]:
        if timeout is None or timeout <= 0 or self._clock.waited:
            found = super().select(timeout)
        elif not (found := super().select(0)):
            self._clock.leap(timeout)
        self._clock.look()
        return found


class VirtualFuture:
    """A task of the cluster as its client sees it."""

    def __init__(self) -> None:
        self.status = "pending"
        self._told: list[Callable[[Any], None]] = []

    def done(self) -> bool:
        """Whether the task has ended."""
        return self.status != "pending"

    def add_done_callback(self, told: Callable[[Any], None]) -> None:
        """Call when it ends."""
        self._told.append(told)

    def end(self, status: str) -> None:
        """It is over."""
        self.status = status
        for told in self._told:
            told(self)

    def release(self) -> None:
        """Nothing is kept."""


class VirtualClient:
    """What the executor asks of a client of Dask; a task goes to the worker that has waited longest."""

    status = "running"

    def __init__(self, workers: int, clock: Clock, latency: float, size: int) -> None:
        self.network = Network(clock, latency, size, self._free_again)
        self.loop = SimpleNamespace(add_callback=clock.call_soon)
        made = [VirtualWorker(self.network, number) for number in range(workers)]
        self._workers = {worker.address: worker for worker in made}
        self._free = deque(worker for _ in range(THREADS) for worker in self._workers.values())
        self._queued: deque[tuple[int, VirtualFuture]] = deque()

    def submit(self, _: Any, topic: str, number: int, **__: Any) -> VirtualFuture:
        """Hand a shard to a worker, now or when one is free."""
        future = VirtualFuture()
        self._queued.append((number, future))
        self._hand_out()
        return future

    def _free_again(self, worker: VirtualWorker) -> None:
        self._free.append(worker)
        self._hand_out()

    def _hand_out(self) -> None:
        while self._free and self._queued:
            self._free.popleft().hold(*self._queued.popleft())

    async def nthreads(self) -> dict[str, int]:
        """The threads of each worker."""
        return dict.fromkeys(self._workers, THREADS)

    async def cancel(self, futures: Iterable[VirtualFuture]) -> None:
        """Whoever holds these goes on with them."""
        for future in futures:
            future.end("cancelled")

    def subscribe_topic(self, _: str, hello: Callable[[Any], Any]) -> None:
        """Call who listens when a worker is there."""
        self.network.hello = hello

    def unsubscribe_topic(self, _: str) -> None:
        """Nobody listens any more."""

    def rpc(self, address: str) -> Any:
        """The line to a worker."""
        return SimpleNamespace(**{OP: self._workers[address].exchange})
