"""Whether a target or judge can be asked, and the meaning of its failures: one state machine for each.

A target is *working*, *limited* (it asks for a slower pace), *away* (no answer) or *refused* (key, permission, model,
quota). A question is *broken* if the target cannot answer it but answers others. Only a broken question becomes a row;
in all other states, its cells stay pending. A short probe after the failure decides between the two. A failure with a
known cause needs none: a malformed question is broken, and a target without credit is refused.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Literal

from tui_evals.light_records import dataclass
from tui_evals.runs.executors import Stopped, WaitCut
from tui_evals.runs.limits import Gate, Limits, own_delay
from tui_evals.store.records import StopCode, Wait
from tui_evals.targets.answers import settled_reply
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
from tui_evals.targets.sweep import base_name

State = Literal["working", "limited", "away", "refused"]
Attempt = Callable[[int], Awaitable[Reply | TargetError]]
"""Makes the attempt of a number at one question, within its budget."""
Probe = Callable[[], Awaitable[TargetError | None]]
"""Asks a short question; the failure where it is not answered."""
NoteWait = Callable[[Wait], None]

TIMEOUT_ATTEMPTS = 2
"""Attempts at a question that was not answered in time, at most: each costs a whole timeout."""
UNREADABLE_ATTEMPTS = 3
"""Attempts at a question whose answer could not be read, at most: each may have been paid for."""
LIMITED_FACTOR = 3
"""The factor for retries after a rate limit, which cost nothing but time."""
MOST_OUTAGES = 3
"""A question whose target went away so often while it was asked is what breaks it."""
_ENOUGH = 8
"""So many failures with no answer between them are worth a short question, before any is tried to the end."""
_FIRST_PAUSE = 0.5
_LONGEST_PAUSE = 30.0
_WORST_FIRST: tuple[StopCode, ...] = ("refused", "misnamed", "away", "limited", "left out")
_ABOUT_KEYS = (401, 402, 407)
"""Statuses that say nothing about the question, by the HTTP standard."""


class Unavailable(Stopped):
    """A target or judge cannot be asked any more in this execution; its cells stay pending."""

    def __init__(self, name: str, reason: str, code: StopCode) -> None:
        super().__init__(reason, code)
        self.name = name


class Availability:
    """The state of one target or judge, shared by all that ask it."""

    def __init__(self, config: TargetConfig, gate: Limits) -> None:
        self.name = base_name(config.name)
        self.state: State = "working"
        self.answers = 0
        """How many questions it has answered, the short ones too."""
        self._config = config
        self._gate = gate
        self._closed: tuple[str, StopCode] | None = None
        self._failures = 0
        """How many calls failed to reach the target since the last answer."""
        self._outages = 0
        """How many outages are over."""
        self._looks = self._looked = 0
        """How many looks at the target have begun, and how many are over."""
        self._looking: asyncio.Task[None] | None = None
        self._holds_back = False
        """Whether nothing new is asked until the look is over."""
        self._pardoned: set[object] = set()
        """Failures that turned out to be those of single questions."""

    @property
    def closed(self) -> Unavailable | None:
        """Why it is not asked any more; None while it is."""
        return None if self._closed is None else Unavailable(self.name, *self._closed)

    def demand(self) -> None:
        """Raise Unavailable where it is not asked any more."""
        if self._closed is not None:
            raise Unavailable(self.name, *self._closed)

    async def demand_more(self) -> None:
        """Raise where a conversation is not to take its next step: Unavailable, or WaitCut when the run is stopping."""
        self.demand()
        await self._gate.rest(0.0)

    def close(self, reason: str, code: StopCode) -> Unavailable:
        """Ask nothing any more, and give up what waits for its turn; the first reason counts."""
        if self._closed is None:
            self._closed = reason, code
            self._gate.halt()
        return Unavailable(self.name, *self._closed)

    def note_others(self, answers: int) -> None:
        """Count answers of earlier executions: a target that gave some is away, not misconfigured."""
        self.answers = max(self.answers, answers)

    def refuse(self, reason: str | TargetError) -> Unavailable:
        """Ask nothing any more, because the target refuses every question."""
        self.state = "refused"
        sentence = f"{self.name} cannot be asked: {reason}"
        if isinstance(reason, TargetError) and self._is_misnamed(reason):
            return self.close(f"{sentence} The name was typed, so this run cannot change it", "misnamed")
        return self.close(sentence, "refused")

    def _is_misnamed(self, failure: TargetError) -> bool:
        """Whether the model is unknown, only a change of the target can help, and it has answered nothing yet."""
        about_model = failure.code == "agentRequestFailed" and failure.status in (400, 404)
        return about_model and not self.answers and base_name(self._config.model) == self.name

    async def ask(self, attempt: Attempt, probe: Probe | None, note_wait: NoteWait) -> tuple[Reply, int]:
        """The reply to one question, and at which attempt it came.

        TargetError: the question is broken. Unavailable: the target cannot be asked. Without a `probe`, as for code
        that may do anything, every failure is one of the question, but for a target that never answered.
        """
        made = tries = met = 0
        known = self._outages
        try:
            while True:
                made, tries = made + 1, tries + 1
                await self._let_in()
                try:
                    outcome = await attempt(made)
                finally:
                    self._gate.leave()
                if isinstance(outcome, Reply):
                    self._gate.succeeded(
                        outcome.usage.input_tokens + outcome.usage.output_tokens if outcome.usage else 0
                    )
                    self._note_answer()
                    return outcome, made
                outcome.attempts = made
                self._weigh(outcome)
                most = self._most_attempts(outcome)
                if probe is None:
                    if tries >= most:
                        raise self._unprobed(outcome)
                elif tries >= most or not outcome.retryable or self._seems_gone(outcome):
                    await self._look(outcome, probe, note_wait)
                if self._outages > known:
                    known, tries, met = self._outages, 0, met + 1
                    if met > MOST_OUTAGES:
                        raise outcome
                    continue
                if tries >= most:
                    raise outcome
                delay = max(outcome.retry_after or 0.0, own_delay(tries, self._config.max_wait))
                note_wait(self._wait(outcome.code, delay, tries + 1, most))
                await self._gate.rest(delay)
        except WaitCut:
            self.demand()  # that is why the wait was cut
            raise

    async def _let_in(self) -> None:
        while True:
            self.demand()
            while self._holds_back and self._looking is not None:
                await asyncio.shield(self._looking)
                self.demand()
            await self._gate.enter()
            if self._closed is None and not self._holds_back:
                return
            self._gate.leave()

    def _note_answer(self) -> None:
        self.answers += 1
        self._failures = 0
        if self._closed is None:
            self.state = "working"

    def _weigh(self, failure: TargetError) -> None:
        """Raise a failure whose cause is known: that of a broken question, or Unavailable."""
        if failure.fault == "question":
            raise failure
        if failure.fault == "target":
            raise self.refuse(failure)
        if (failure.retry_after or 0.0) > self._config.max_wait:
            raise self._waits_too_long(failure)
        if failure.code == "agentRateLimited":
            self.state = "limited"
            self._gate.pushed_back(failure.retry_after or 0.0)
        elif failure.code != "agentResponseUnparseable":  # a target with unreadable replies is reachable
            self._failures += 1

    def _most_attempts(self, failure: TargetError) -> int:
        """How often a question may be tried that met a failure, before it is broken."""
        retries = self._config.retries
        if failure.code == "agentRateLimited":
            return LIMITED_FACTOR * retries + 1
        if not failure.retryable:
            return retries + 1 if failure.status == 401 else 1  # which gateways say of one of their keys, now and then
        fewer = {"agentTimeout": TIMEOUT_ATTEMPTS, "agentResponseUnparseable": UNREADABLE_ATTEMPTS}
        return min(retries + 1, fewer.get(failure.code, retries + 1))

    def _seems_gone(self, failure: TargetError) -> bool:
        """Whether enough calls failed after a success to suspect that the target is unavailable."""
        passing = failure.code in ("agentRateLimited", "agentResponseUnparseable")
        return not passing and self.answers > 0 and self._failures >= _ENOUGH

    def _unprobed(self, failure: TargetError) -> TargetError | Unavailable:
        """The error for the failure of a target without a probe."""
        status = failure.status or 0
        refused = status in (401, 403, 404) or 300 <= status < 400 or failure.code == "agentAuthenticationError"
        if not self.answers and (refused or _is_unreachable(failure)):
            return self.refuse(failure)
        return failure

    # -- looking whether the target is there

    async def _look(self, failure: TargetError, probe: Probe, note_wait: NoteWait) -> None:
        """Wait until the target answers again after a failure; raises Unavailable if it does not.

        All failed calls share the next probe, because an earlier one says nothing about later failures. New questions
        wait meanwhile, unless earlier failures of this kind concerned single questions only.
        """
        kind = failure.status or failure.code
        wanted, outages = self._looks + 1, self._outages
        while self._looked < wanted and self._outages == outages:
            if self._looking is None:
                self._looks += 1
                self._looking = asyncio.create_task(self._find_out(failure, probe, note_wait))
                self._looking.add_done_callback(lambda look: look.cancelled() or look.exception())  # all were told
            self._holds_back |= kind not in self._pardoned
            await asyncio.shield(self._looking)
        if self._outages == outages:
            self._pardoned.add(kind)

    async def _find_out(self, failure: TargetError, probe: Probe, note_wait: NoteWait) -> None:
        """Probe once; the result is set before waiting calls are released."""
        try:
            await self._ask_until_answered(failure, probe, note_wait)
        finally:
            self._looking, self._looked, self._holds_back = None, self._looks, False

    async def _ask_until_answered(self, failure: TargetError, probe: Probe, note_wait: NoteWait) -> None:
        """Ask short questions until one is answered, as long as the target may be away."""
        clock = asyncio.get_running_loop().time
        began, tries = clock(), 0
        while (problem := await probe()) is not None:
            if problem.fault == "question":  # the target is reachable, but refuses the short question
                if failure.status in _ABOUT_KEYS:
                    raise self.refuse(failure)
                break
            if not problem.retryable:
                raise self.refuse(problem)
            if (problem.retry_after or 0.0) > self._config.max_wait:
                raise self._waits_too_long(problem)
            self.state, self._holds_back = "limited" if problem.code == "agentRateLimited" else "away", True
            away = clock() - began
            if (self.state == "away" and not self.answers) or away >= self._config.max_outage:
                raise self._gone(failure, problem, away)
            tries += 1
            pause = max(problem.retry_after or 0.0, min(_FIRST_PAUSE * 2.0 ** (tries - 1), _LONGEST_PAUSE))
            pause = min(pause, self._config.max_outage - away)
            note_wait(self._wait("outage" if self.state == "away" else problem.code, pause, tries + 1, 0))
            await self._gate.rest(pause)
        self._outages += tries > 0
        self._note_answer()

    def _gone(self, failure: TargetError, problem: TargetError, away: float) -> Unavailable:
        """Close a target that does not answer, with its last message."""
        if self.state == "away" and not self.answers:
            # A target that never answered is probably misconfigured, and the user is probably still at the terminal.
            if _is_unreachable(problem) or problem.code == "agentResponseUnparseable":
                return self.refuse(problem)
            return self.close(
                f"{self.name}: {problem} It has answered no question of this run, nor a short one", "away"
            )
        code: StopCode = "limited" if self.state == "limited" else "away"
        limit = f"the target's max_outage is {self._config.max_outage:,.0f} s"
        return self.close(f"{self.name}: {failure} It was {self.state} for {away:,.0f} s, and {limit}", code)

    def _waits_too_long(self, failure: TargetError) -> Unavailable:
        self.state = "limited"
        pause = f"It asks for a pause of {failure.retry_after or 0.0:,.0f} s"
        limit = f"the target's max_wait is {self._config.max_wait:,.0f} s"
        return self.close(f"{self.name}: {failure} {pause}, and {limit}: resume later, or raise max_wait", "limited")

    def _wait(self, code: str, seconds: float, attempt: int, attempts: int) -> Wait:
        until = time.time() + seconds
        return Wait(target=self._config.name, code=code, until=until, attempt=attempt, attempts=attempts)


def _is_unreachable(failure: TargetError) -> bool:
    """Whether the address could not be reached."""
    return failure.status is None and failure.code == "agentRequestFailed" and failure.fault == "unknown"


@dataclass(frozen=True, slots=True)
class Left:
    """What a run or a battle leaves open."""

    answers: int = 0
    verdicts: int = 0
    """Answers that wait to be judged."""
    bouts: int = 0

    def __str__(self) -> str:
        answers = f"{self.answers:,} {'answer stays' if self.answers == 1 else 'answers stay'} pending"
        verdicts = f"{self.verdicts:,} {'waits' if self.verdicts == 1 else 'wait'} for a verdict"
        bouts = f"{self.bouts:,} {'bout stays' if self.bouts == 1 else 'bouts stay'} undecided"
        parts = {answers: self.answers, verdicts: self.verdicts, bouts: self.bouts}
        return ", ".join(part for part, count in parts.items() if count)


def why_left_open(states: Sequence[Availability], left_out: Sequence[str], left: Left) -> tuple[str, StopCode]:
    """Why a run leaves cells open, in sentences, and its stop code.

    The code is `configuration` if nothing was answered and everything refused.
    """
    closed = [state.closed for state in states if state.closed is not None]
    reasons = [*map(str, closed), *(f"{name} is left out" for name in left_out), *filter(None, [str(left)])]
    codes = {each.code for each in closed}
    sentences = ". ".join(reason.rstrip(".") for reason in reasons)
    code: StopCode = next((known for known in _WORST_FIRST if known in codes), "left out")
    if codes <= {"refused", "misnamed"} and codes and not any(state.answers for state in states):
        return sentences, "misnamed" if codes == {"misnamed"} else "configuration"
    return sentences, "refused" if code == "misnamed" else code


@dataclass(frozen=True, slots=True)
class Room:
    """How many calls a target takes at once, and whether it takes any."""

    gate: Limits
    """The pace of attempts."""
    flight: AbstractAsyncContextManager[None]
    """Held from a question until its answer is committed, or the reply of a judge is."""
    availability: Availability


def room_of(config: TargetConfig) -> Room:
    """The room that the configuration of a target gives."""
    gate = Gate(config)
    return Room(gate, asyncio.Semaphore(config.concurrency), Availability(config, gate))


async def one_attempt(target: Target, request: Request, config: TargetConfig) -> Reply | TargetError:
    """The result of one attempt; raises ConfigurationError if the target cannot be asked at all."""
    try:
        async with attempt_clock(target, config.timeout):
            reply = await target.ask(request)
        return reply if config.kind == "embedding" else settled_reply(reply, config.answer, config.think)
    except TimeoutError:
        return TargetError("agentTimeout", f"no answer within {config.timeout:g} s", retryable=True)
    except TargetError as problem:
        return problem
    except (ConfigurationError, Stopped):
        raise
    except Exception as problem:  # any other exception of a target's code is the record of an answer
        return raised_error(config.name, problem)
