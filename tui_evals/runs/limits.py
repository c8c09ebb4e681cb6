"""How fast a target may be asked: so many calls at once, fewer after a 429, so many a minute, and when to try again."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AbstractContextManager, suppress
from dataclasses import dataclass
from typing import Protocol

from tui_evals.runs.executors.base import WaitCut
from tui_evals.store.records import Wait
from tui_evals.targets.base import (
    ConfigurationError,
    Reply,
    Request,
    Target,
    TargetConfig,
    TargetError,
    attempt_clock,
)
from tui_evals.targets.function import raised_error

from .outage import IS_THERE, Outage, Probe

TIMEOUT_ATTEMPTS = 2
"""Attempts at a question that was not answered in time, at most: each costs a whole timeout."""
UNREADABLE_ATTEMPTS = 3
"""Attempts at a question whose answer could not be read, at most: each may have been paid for."""
LIMITED_FACTOR = 3
"""A question that met a rate limit is tried so many times as often again, because that costs nothing but time."""
_FIRST_DELAY = 0.5
_LONGEST_DELAY = 60.0
_CAREFUL_ROUNDS = 10.0
_NoteAttempt = Callable[[int, float, "Reply | TargetError"], None]


class Limits(Protocol):
    """Whoever says when a target may be called."""

    async def enter(self) -> None:
        """Wait until a call may be made."""
        ...

    def leave(self) -> None:
        """The call is over."""
        ...

    def succeeded(self, tokens: int = 0) -> None:
        """It went through, and took so many tokens."""
        ...

    def pushed_back(self, pause: float) -> None:
        """The target refused a call because it has too many, and asked for a pause, which may be none."""
        ...

    async def rest(self, seconds: float) -> None:
        """Let time pass before another attempt; WaitCut when the run stops meanwhile."""
        ...

    def hold(self, held: bool) -> None:
        """Let nobody call until told so: what came of it could not be stored."""
        ...

    def halt(self) -> None:
        """The run is stopping: whoever waits for time to pass, now or later, is given up with WaitCut."""
        ...


class Gate:
    """The calls a target may have in flight: each that it refuses was one too many, and it is tried with more later.

    What was refused once is tried again slowly: one more call after a round of answers below that number, after ten
    rounds above it.
    """

    def __init__(self, config: TargetConfig) -> None:
        self.most = config.concurrency
        self.now = float(config.concurrency)
        self.in_flight = 0
        self._longest = config.max_wait
        self._opens_at = 0.0
        self._refused_at = float("inf")
        """So many calls in flight were too many when the target last refused one."""
        self._refused = self._pauses = 0
        """How many calls it refused since it answered one, and how many pauses that came to."""
        self._interval = 60.0 / config.requests_per_minute if config.requests_per_minute else 0.0
        self._tokens = 60.0 / config.tokens_per_minute if config.tokens_per_minute else 0.0
        self._waiters: list[asyncio.Future[None]] = []
        self._halted = asyncio.Event()
        self._held = False

    async def enter(self) -> None:
        """Take a place among the calls in flight, once one is free and the pause after a 429 is over."""
        loop = asyncio.get_running_loop()
        while True:
            if (pause := self._opens_at - loop.time()) > 0:
                await self.rest(pause)
            elif self._held and self._halted.is_set():
                raise WaitCut
            elif self.in_flight < int(self.now) and not self._held:
                break
            else:
                waiter: asyncio.Future[None] = loop.create_future()
                self._waiters.append(waiter)
                await waiter
        self.in_flight += 1
        if self._interval:
            self._opens_at = max(self._opens_at, loop.time()) + self._interval

    @property
    def pause(self) -> float:
        """Seconds until calls may be made again."""
        return max(0.0, self._opens_at - asyncio.get_running_loop().time())

    def leave(self) -> None:
        """Give the place back."""
        self.in_flight -= 1
        self._wake()

    def succeeded(self, tokens: int = 0) -> None:
        """A call went through: room grows by one for each full round, or for ten of them."""
        self._refused = self._pauses = 0
        rounds = 1.0 if self.now + 1.0 < self._refused_at else _CAREFUL_ROUNDS
        self.now = min(float(self.most), self.now + 1.0 / (rounds * max(self.now, 1.0)))
        if self._tokens and tokens:
            self._opens_at = max(self._opens_at, asyncio.get_running_loop().time()) + tokens * self._tokens
        self._wake()

    def pushed_back(self, pause: float) -> None:
        """The target asked for less: one call fewer, and nobody calls before the pause is over.

        Where it has refused as many as may be in flight, and asks for no pause, there is one all the same.
        """
        self._refused_at = self.now
        self.now = max(1.0, self.now - 1.0)
        self._refused += 1
        if self._refused > self.now:
            pause = max(pause, own_delay(self._pauses + 1, self._longest))
            self._pauses += 1
            self._refused = 0
        self._opens_at = max(self._opens_at, asyncio.get_running_loop().time() + pause)

    async def rest(self, seconds: float) -> None:
        """Let time pass, unless the run is stopping."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._halted.wait()
        if self._halted.is_set():
            self._wake()  # the place that this call does not take
            raise WaitCut

    def halt(self) -> None:
        """Give up those who wait for a pause to end; those who wait for a place look whether there is one."""
        self._halted.set()
        self._wake_all()

    def hold(self, held: bool) -> None:
        """Let nobody call, or let those call who waited."""
        self._held = held
        self._wake_all()

    def _wake_all(self) -> None:
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    def _wake(self) -> None:
        while self._waiters and self.in_flight < int(self.now):
            waiter = self._waiters.pop(0)
            if not waiter.done():
                waiter.set_result(None)
                return


@dataclass(frozen=True, slots=True)
class Room:
    """How many calls a target takes at once: a gate for each attempt, and a place for each turn."""

    gate: Limits
    flight: AbstractAsyncContextManager[None]
    """Held from a question until its answer is committed, or the reply of a judge is."""


def room_of(config: TargetConfig) -> Room:
    """The room that the configuration of a target gives."""
    return Room(Gate(config), asyncio.Semaphore(config.concurrency))


class WaitTooLong(TargetError):
    """The target asked for a longer pause than its configuration allows."""


async def persistent(
    target: Target,
    request: Request,
    config: TargetConfig,
    gate: Limits,
    outage: Outage,
    *,
    flight: AbstractContextManager[object],
    note_attempt: _NoteAttempt,
    note_wait: Callable[[Wait], None],
    reserve: Callable[[], Awaitable[None]] | None = None,
    probe: Probe | None = None,
) -> tuple[Reply, int]:
    """The reply, and at which attempt it came; every attempt is noted, the last failure is raised.

    Those made before an outage count for neither the delay nor how many there may be.

    A call is in `flight` while it is out, and not while it waits for its turn or for the next attempt; just before it
    goes out its money is `reserve`d, so that nothing is set aside for what waits. While the target is away, which a
    `probe` tells, nothing is an attempt.
    """
    clock = asyncio.get_running_loop().time
    made = attempt = 0
    answers_before, outages_before = outage.answers, outage.count
    while True:
        await outage.end()
        made, attempt = made + 1, attempt + 1
        await gate.enter()
        try:
            if reserve is not None:
                await reserve()
            started = clock()
            with flight:
                outcome = await one_attempt(target, request, config)
        finally:
            gate.leave()
        note_attempt(made, clock() - started if outcome.seconds is None else outcome.seconds, outcome)
        if isinstance(outcome, Reply):
            outage.answered()
            gate.succeeded(outcome.usage.input_tokens + outcome.usage.output_tokens if outcome.usage else 0)
            return outcome, made
        failure = outcome
        if not failure.retryable:
            raise failure
        if (failure.retry_after or 0.0) > config.max_wait:
            raise _too_long(failure, config)
        delay = max(failure.retry_after or 0.0, own_delay(attempt, config.max_wait))
        if failure.code == "agentRateLimited":
            gate.pushed_back(failure.retry_after or 0.0)
        most = _most_attempts(failure, config)
        looks_away = probe is not None and outage.answers == answers_before and _looks_away(failure, outage)
        if probe is not None and looks_away and (outage.failed() or attempt >= most):
            await outage.look(failure, probe, note_wait, gate.rest)
        answers_before = outage.answers  # whoever is answered from now on shows that the target is there
        if outage.count > outages_before:
            attempt, outages_before = 0, outage.count
            continue
        if attempt >= most:
            raise failure
        until = time.time() + delay
        note_wait(Wait(target=config.name, code=failure.code, until=until, attempt=attempt + 1, attempts=most))
        await gate.rest(delay)


async def one_attempt(target: Target, request: Request, config: TargetConfig) -> Reply | TargetError:
    """What came of asking once; ConfigurationError where the target cannot be asked at all."""
    try:
        async with attempt_clock(target, config.timeout):
            return await target.ask(request)
    except TimeoutError:
        return TargetError("agentTimeout", f"no answer within {config.timeout:g} s", retryable=True)
    except TargetError as problem:
        return problem
    except ConfigurationError:
        raise
    except Exception as problem:  # whatever else the code of a target raises is the record of an answer
        return raised_error(config.name, problem)


def _looks_away(failure: TargetError, outage: Outage) -> bool:
    """Whether the target may be gone; one that nobody could be reached at from the first is configured wrongly."""
    unreachable = failure.code == "agentRequestFailed" and failure.status is None
    return failure.code not in IS_THERE and not (unreachable and not outage.answers)


def _most_attempts(failure: TargetError, config: TargetConfig) -> int:
    if failure.code == "agentRateLimited":
        return LIMITED_FACTOR * config.retries + 1
    fewer = {"agentTimeout": TIMEOUT_ATTEMPTS, "agentResponseUnparseable": UNREADABLE_ATTEMPTS}
    return min(config.retries + 1, fewer.get(failure.code, config.retries + 1))


def own_delay(attempt: int, longest: float) -> float:
    """How long to wait after an attempt, whatever the target asks for: twice as long each time, with jitter."""
    return min(_FIRST_DELAY * 2.0 ** (attempt - 1), _LONGEST_DELAY, longest) * random.uniform(0.5, 1.0)


def _too_long(failure: TargetError, config: TargetConfig) -> WaitTooLong:
    pause = f"It asks for a pause of {failure.retry_after or 0.0:,.0f} s"
    limit = f"the target's max_wait is {config.max_wait:,.0f} s"
    message = f"{failure} {pause}, and {limit}: resume later, or raise max_wait"
    return WaitTooLong(failure.code, message, status=failure.status)
