"""How fast a target may be asked: so many calls at once, fewer after a 429, so many a minute, and when to try again."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Protocol

from tui_evals.targets.base import Reply, Request, Target, TargetConfig, TargetError, attempt_clock

ATTEMPTS = 4
TIMEOUT_ATTEMPTS = 2
_FIRST_DELAY = 0.5
_LONGEST_DELAY = 60.0
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
        """The target asked for a pause."""
        ...


class Gate:
    """The calls a target may have in flight: one more after a round without a 429, half as many after one."""

    def __init__(self, config: TargetConfig) -> None:
        self.most = config.concurrency
        self.now = float(config.concurrency)
        self.in_flight = 0
        self._opens_at = 0.0
        self._interval = 60.0 / config.requests_per_minute if config.requests_per_minute else 0.0
        self._tokens = 60.0 / config.tokens_per_minute if config.tokens_per_minute else 0.0
        self._waiters: list[asyncio.Future[None]] = []

    async def enter(self) -> None:
        """Take a place among the calls in flight, once one is free and the pause after a 429 is over."""
        loop = asyncio.get_running_loop()
        while True:
            if (pause := self._opens_at - loop.time()) > 0:
                await asyncio.sleep(pause)
            elif self.in_flight < int(self.now):
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
        """A call went through: room grows by one for each full round."""
        self.now = min(float(self.most), self.now + 1.0 / max(self.now, 1.0))
        if self._tokens and tokens:
            self._opens_at = max(self._opens_at, asyncio.get_running_loop().time()) + tokens * self._tokens
        self._wake()

    def pushed_back(self, pause: float) -> None:
        """The target asked for less: half the room, and nobody calls before the pause is over."""
        self.now = max(1.0, self.now / 2)
        self._opens_at = max(self._opens_at, asyncio.get_running_loop().time() + pause)

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
    """Held from the question of a turn until its answer is committed."""


def room_of(config: TargetConfig) -> Room:
    """The room that the configuration of a target gives."""
    return Room(Gate(config), asyncio.Semaphore(config.concurrency))


async def persistent(
    target: Target, request: Request, config: TargetConfig, gate: Limits, note_attempt: _NoteAttempt
) -> tuple[Reply, int]:
    """The reply, and at which attempt it came; every attempt is noted, the last failure is raised."""
    clock = asyncio.get_running_loop().time
    attempt = 0
    while True:
        attempt += 1
        await gate.enter()
        started = clock()
        try:
            async with attempt_clock(target, config.timeout):
                reply = await target.ask(request)
        except TimeoutError:
            failure = TargetError("agentTimeout", f"no answer within {config.timeout:g} s", retryable=True)
        except TargetError as problem:
            failure = problem
        else:
            note_attempt(attempt, clock() - started if reply.seconds is None else reply.seconds, reply)
            gate.succeeded(reply.usage.input_tokens + reply.usage.output_tokens if reply.usage else 0)
            return reply, attempt
        finally:
            gate.leave()
        note_attempt(attempt, clock() - started, failure)
        most = TIMEOUT_ATTEMPTS if failure.code == "agentTimeout" else ATTEMPTS
        if failure.code == "agentRateLimited":
            most *= 3
        if not failure.retryable or attempt >= most:
            raise failure
        delay = _delay(attempt, failure.retry_after)
        if failure.code == "agentRateLimited":
            gate.pushed_back(delay)
        else:
            await asyncio.sleep(delay)


def _delay(attempt: int, requested: float | None) -> float:
    """Twice as long each time with jitter; what the target asked for, where it said so."""
    backoff = min(_FIRST_DELAY * 2 ** (attempt - 1), _LONGEST_DELAY) * random.uniform(0.5, 1.0)
    return backoff if requested is None else min(max(requested, 0.0), _LONGEST_DELAY * 5) + random.uniform(0, 0.05)
