"""One target as a run asks it: through its gate, within the budget, every attempt noted, errors as records."""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from tui_evals.evaluators.judging import CUT_OFF
from tui_evals.runs.executors.base import Ledger, Stopped
from tui_evals.store.reader import Reader
from tui_evals.store.records import AnswerRecord, CallRecord, StopCode, Wait
from tui_evals.store.results import CacheKey
from tui_evals.store.writer import Writer
from tui_evals.targets.base import (
    ConfigurationError,
    Price,
    Reply,
    Request,
    Target,
    TargetConfig,
    TargetError,
    attempt_clock,
    short_question,
)

from .budget import ANSWER_TOKENS, BudgetSpent, Reservations, most_it_can_cost
from .limits import Room, WaitTooLong, persistent
from .outage import IS_THERE, Outage

RECIPE = 1
"""Version of what a cache key is made of; a change of the recipe makes old entries unknown, never wrong."""

current_answer: ContextVar[int | None] = ContextVar("current_answer", default=None)
_UNSEEN = nullcontext()


@dataclass(frozen=True, slots=True)
class TimedReply:
    """A reply with what asking for it took."""

    reply: Reply
    latency_ms: float
    attempts: int
    cost: float | None


def cache_key(identity: Mapping[str, Any], request: Request) -> str:
    """The key of an answer: target configuration, messages, tools, form, parameters and repeat."""
    return ConversationKeys().key(identity, request)


class ConversationKeys:
    """The keys of a conversation's answers, turn after turn: its messages, which only grow, are read once."""

    def __init__(self) -> None:
        self._known = 0
        self._hash = hashlib.sha256(b'{"messages": [')

    def key(self, identity: Mapping[str, Any], request: Request) -> str:
        """The key of the answer to a request, whose messages begin with those of the request before."""
        for message in request.messages[self._known :]:
            self._hash.update(f"{', ' if self._known else ''}{json.dumps(dict(message), sort_keys=True)}".encode())
            self._known += 1
        # As JSON the recipe begins with its messages, for its keys are sorted.
        rest = json.dumps(recipe(identity, replace(request, messages=())), sort_keys=True)
        whole = self._hash.copy()
        whole.update(rest.removeprefix('{"messages": [').encode())
        return whole.hexdigest()


def recipe(identity: Mapping[str, Any], request: Request) -> dict[str, Any]:
    """What a cache key is made of, in words a person can compare."""
    form = request.response_format
    return {
        "recipe": RECIPE,
        "target": dict(identity),
        "messages": [dict(message) for message in request.messages],
        "tools": [dict(tool) for tool in request.tools],
        "response_format": dict(form) if isinstance(form, Mapping) else form,
        "params": dict(request.params),
        "repeat": request.repeat,
    }


@dataclass
class PricedTarget:
    """A target with its price, and the room there is for asking it."""

    config: TargetConfig
    target: Target
    identity: Mapping[str, Any]
    price: Price | None
    budget: Reservations
    room: Room
    kind: Literal["target", "judge"] = "target"
    cacheable: bool = True
    """Whether the same question always deserves the same answer; code and files change without a new name."""
    outage: Outage = field(init=False)
    """Whether it is there."""
    largest_answer: int = 0
    """The tokens of the largest answer it has given in the run."""
    stopped: Stopped | None = None
    """Why the target is not asked any more."""

    def __post_init__(self) -> None:
        self.outage = Outage(self.config)

    @property
    def answers(self) -> int:
        """How many questions it has answered."""
        return self.outage.answers

    async def _probe(self, ledger: Ledger) -> tuple[TargetError | None, float]:
        """The failure of a short question where nobody is there, and what it cost.

        Any answer, a refusal too, means that somebody is. No money is set aside for it: those who hold what is left may
        be waiting for the target as well.
        """
        clock = asyncio.get_running_loop().time
        started, began, cost = time.time(), clock(), None
        try:
            async with attempt_clock(self.target, self.config.timeout):
                outcome: Reply | TargetError = await self.target.ask(short_question(self.config))
        except TimeoutError:
            outcome = TargetError("agentTimeout", f"no answer within {self.config.timeout:g} s", retryable=True)
        except TargetError as failure:
            outcome = failure
        else:
            cost = self._cost(outcome)
        ledger.called(replace(self._call(1, started, clock() - began, outcome, cost), answer=None))
        away = isinstance(outcome, TargetError) and outcome.retryable and outcome.code not in IS_THERE
        return outcome if isinstance(outcome, TargetError) and away else None, cost or 0.0

    def with_params(self, request_params: Mapping[str, Any]) -> dict[str, Any]:
        """The parameters of a call: the configuration's, the call's over them, and under a budget a longest answer."""
        params = {**self.config.params, **request_params}
        if self.budget.most is not None and not params.keys() & {"max_tokens", "max_completion_tokens"}:
            params["max_tokens"] = ANSWER_TOKENS
        return params

    async def ask(
        self, request: Request, ledger: Ledger, flight: AbstractContextManager[object] = _UNSEEN
    ) -> TimedReply:
        """The reply, or TargetError; Stopped when asking any further cannot succeed.

        Each attempt is made within `flight`, which shows it.
        """
        if self.stopped is not None:
            raise self.stopped
        answers_before = self.answers
        most = 0.0
        if self.budget.most is not None and self.price is not None:
            most = most_it_can_cost(request.messages, request.params, self.price, self.largest_answer)
        reserved: float | None = None
        took = cost = charged = None
        probing = 0.0
        started = time.time()

        async def set_aside() -> None:
            nonlocal reserved
            if reserved is None:
                await self._reserve(most)
                reserved = most

        async def probe() -> TargetError | None:
            nonlocal probing
            failure, spent = await self._probe(ledger)
            probing += spent
            return failure

        def note_attempt(attempt: int, seconds: float, outcome: Reply | TargetError) -> None:
            nonlocal took, cost, charged, reserved, probing
            took = seconds
            cost = self._cost(outcome)
            # An answer without counts was paid for as well, and may have cost what was set aside for it.
            charged = most if cost is None and isinstance(outcome, Reply) else cost
            if isinstance(outcome, TargetError) and outcome.code == "agentResponseUnparseable":  # so may this one
                self.budget.settle(most, most + probing)
                reserved, probing = None, 0.0
            if isinstance(outcome, Reply) and outcome.usage is not None:
                self.largest_answer = max(self.largest_answer, outcome.usage.output_tokens)
            ledger.called(self._call(attempt, started, seconds, outcome, cost))

        try:
            reply, attempts = await persistent(
                self.target,
                request,
                self.config,
                self.room.gate,
                self.outage,
                flight=flight,
                set_aside=set_aside,
                note_attempt=note_attempt,
                note_wait=lambda wait: ledger.waiting(wait, current_answer.get()),
                probe=probe if self.cacheable else None,
            )
        except (TargetError, ConfigurationError) as problem:
            limited = isinstance(problem, WaitTooLong)
            if isinstance(problem, TargetError) and not limited and not self._is_fatal(problem, answers_before):
                raise
            gone = self.answers and isinstance(problem, TargetError)
            code: StopCode = "limited" if limited else "failed" if gone else "configuration"
            self.stopped = Stopped(f"{self.config.name}: {problem}", code)
            self.room.gate.halt()
            raise self.stopped from None
        finally:
            if reserved is not None:
                self.budget.settle(reserved, (charged or 0.0) + probing)
        return TimedReply(reply, 1000 * (took or 0.0), attempts, cost)

    async def _reserve(self, cost: float) -> None:
        try:
            await self.budget.reserve(cost)
        except BudgetSpent as spent:
            raise Stopped(f"the budget is spent: {spent}", "budget") from None

    def _cost(self, outcome: Reply | TargetError) -> float | None:
        if isinstance(outcome, TargetError):
            return None
        if outcome.cost is not None:
            return outcome.cost
        return self.price.cost(outcome.usage) if self.price and outcome.usage else None

    def _call(
        self, attempt: int, started: float, seconds: float, outcome: Reply | TargetError, cost: float | None
    ) -> CallRecord:
        usage = None if isinstance(outcome, TargetError) else outcome.usage
        return CallRecord(
            answer=current_answer.get(),
            kind=self.kind,
            target=self.config.name,
            attempt=attempt,
            started=started,
            latency_ms=1000 * seconds,
            input_tokens=usage.input_tokens if usage else None,
            output_tokens=usage.output_tokens if usage else None,
            cost=cost,
            code=outcome.code if isinstance(outcome, TargetError) else None,
            message=str(outcome) if isinstance(outcome, TargetError) else None,
        )

    def _is_fatal(self, problem: TargetError, answers_before: int) -> bool:
        """A wrong key, model or address, or nobody there, before the target ever answered: more asking cannot help."""
        if self.answers:
            # It was there and is gone: nobody else was answered either while this question was put again and again.
            return problem.nobody_there and self.answers == answers_before
        status = problem.status or 0
        refused = status in (401, 403, 404) or 300 <= status < 400 or problem.code == "agentAuthenticationError"
        unreachable = problem.status is None and problem.retryable and problem.code == "agentRequestFailed"
        return refused or unreachable


async def recalled(
    target: PricedTarget,
    request: Request,
    ledger: Ledger,
    scope: str | None,
    worth: Callable[[str], bool] = lambda text: True,
) -> AnswerRecord:
    """The reply that is kept, or else one asked for, and kept if it is whole and worth it; TargetError without one.

    `scope` is a word that sets what is kept apart from what others asked; with None nothing is kept or recalled. The
    limit that a budget sets to an answer is no part of the question.
    """
    key = "" if scope is None else cache_key({**target.identity, **({"scope": scope} if scope else {})}, request)
    if key and (kept := await ledger.cached(key)) is not None:
        ledger.called(_cached_call(target))
        return kept
    timed = await target.ask(replace(request, params=target.with_params(request.params)), ledger)
    reply = timed.reply
    record = AnswerRecord(
        text=reply.text, request={}, scripted=reply.scripted, model=reply.model, finish_reason=reply.finish_reason
    )
    if key and worth(reply.text) and (reply.finish_reason or "").lower() not in CUT_OFF:
        await ledger.keep(key, target.config.name, record)
    return record


def _cached_call(target: PricedTarget) -> CallRecord:
    return CallRecord(
        answer=current_answer.get(),
        kind=target.kind,
        target=target.config.name,
        attempt=1,
        started=0.0,
        latency_ms=0.0,
        cost=0.0,
        from_cache=True,
    )


class StoreLedger:
    """A ledger that notes the calls of a run in the store."""

    def __init__(self, reader: Reader, writer: Writer, run: int) -> None:
        self._reader = reader
        self._writer = writer
        self._run = run

    def called(self, record: CallRecord) -> None:
        """Note one attempt."""
        self._writer.call(record, self._run)

    def waiting(self, wait: Wait, answer: int | None) -> None:
        """Note a pause before the next attempt."""
        self._writer.waiting(self._run, wait, None)

    async def cached(self, key: str) -> AnswerRecord | None:
        """What is kept under a key."""
        kept = self._reader.cache_get(key)
        return kept.answer if kept else None

    async def keep(self, key: str, target: str, record: AnswerRecord) -> None:
        """Keep a reply."""
        await self._writer.cache_put(CacheKey(key, str(RECIPE), target), record)
