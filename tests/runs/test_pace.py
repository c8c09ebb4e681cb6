"""A target that refuses is not asked faster, and its capacity is found and used."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from tui_evals.runs.availability import Availability, one_attempt
from tui_evals.runs.limits import Gate
from tui_evals.targets.base import Reply, Request, TargetConfig, TargetError

QUESTION = Request(messages=({"role": "user", "content": "?"},))


class Hurried(asyncio.SelectorEventLoop):
    """A loop whose clock jumps to whatever comes next."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        select = self._selector.select

        def jump(timeout: float | None = None) -> Any:
            self.now += timeout or 0.0
            return select(0)

        self._selector.select = jump  # type: ignore[method-assign]

    def time(self) -> float:
        return self.now


def hurried(main: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
    with asyncio.Runner(loop_factory=Hurried) as runner:
        return runner.run(main())


class Crowded:
    """Answers so many at once, in a tenth of a second, and refuses all others at once."""

    def __init__(self, capacity: int, retry_after: float | None = None) -> None:
        self.capacity, self.retry_after = capacity, retry_after
        self.inside = self.refused = self.answered = 0

    async def ask(self, request: Request) -> Reply:
        if self.inside >= self.capacity:
            self.refused += 1
            await asyncio.sleep(0.01)
            raise TargetError("agentRateLimited", "no", retryable=True, retry_after=self.retry_after)
        self.inside += 1
        await asyncio.sleep(0.1)
        self.inside -= 1
        self.answered += 1
        return Reply(text="x")

    async def close(self) -> None: ...


async def questions(target: Crowded, concurrency: int, seconds: float) -> None:
    """As many questions as there is time for, each put again as often as it takes."""
    config = TargetConfig(name="t", model="demo", concurrency=concurrency, retries=100)
    availability = Availability(config, Gate(config))

    async def attempt(number: int) -> Reply | TargetError:
        return await one_attempt(target, QUESTION, config)

    async def one_after_the_other() -> None:
        while True:
            await availability.ask(attempt, None, lambda _: None)

    tasks = [asyncio.create_task(one_after_the_other()) for _ in range(4 * concurrency)]
    await asyncio.sleep(seconds)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


@pytest.mark.parametrize("capacity", [1, 5, 20])
@pytest.mark.parametrize("concurrency", [50, 8])
def test_a_capacity_is_found_and_used(capacity, concurrency):
    target = Crowded(capacity)
    hurried(lambda: questions(target, concurrency, 30.0))
    possible = min(capacity, concurrency) / 0.1 * 30.0
    assert target.answered >= 0.8 * possible
    assert target.refused <= 0.1 * target.answered + concurrency


@pytest.mark.parametrize("retry_after", [0.0, None, 0.001])
def test_whoever_refuses_everything_is_not_asked_faster_for_asking_for_no_pause(retry_after):
    target = Crowded(0, retry_after)
    hurried(lambda: questions(target, 10, 60.0))
    assert target.refused <= 10 + 30
