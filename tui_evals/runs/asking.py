"""Asks one target for a run: through its gate, within the budget, with every attempt recorded and errors as records."""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from contextvars import ContextVar
from dataclasses import field, replace
from pathlib import Path
from typing import Any, Literal

from tui_evals.evaluators.judging import CUT_OFF
from tui_evals.light_records import dataclass
from tui_evals.runs.executors import Ledger, Stopped
from tui_evals.runs.limits import BudgetSpent, Reservations, most_it_can_cost, reading_costs
from tui_evals.runs.prompting import has_files, with_files
from tui_evals.runs.tools import Toolbox
from tui_evals.store.database import StoreError
from tui_evals.store.reader import Reader
from tui_evals.store.records import AnswerRecord, CallRecord, Wait
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
    Usage,
)
from tui_evals.targets.model_table import ANSWER_TOKENS, UNSET, has_length, longest_unlimited, short_question, with_room
from tui_evals.text.model_output import BLOCKED, Choice, choices_data, choices_from, ending_word

from .availability import Availability, Room, one_attempt

RECIPE = 1
"""The version of cache keys; changing it makes old entries unknown, never wrong."""

current_answer: ContextVar[int | None] = ContextVar("current_answer", default=None)
current_evaluator: ContextVar[str] = ContextVar("current_evaluator", default="")
current_phase: ContextVar[str] = ContextVar("current_phase", default="")
_UNSEEN = nullcontext()


@dataclass(frozen=True, slots=True)
class TimedReply:
    """A reply with the time and attempts it took."""

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
        self._read: Any = None
        """The hash of the messages that are known."""

    def key(self, identity: Mapping[str, Any], request: Request) -> str:
        """The key of the answer to a request, whose messages begin with those of the request before."""
        if self._read is None:  # late, because a run without the cache needs none
            self._read = hashlib.sha256(b'{"messages": [')
        for message in request.messages[self._known :]:
            self._read.update(f"{', ' if self._known else ''}{json.dumps(dict(message), sort_keys=True)}".encode())
            self._known += 1
        # The JSON of the recipe starts with its messages, because its keys are sorted.
        rest = json.dumps(recipe(identity, replace(request, messages=())), sort_keys=True)
        whole = self._read.copy()
        whole.update(rest.removeprefix('{"messages": [').encode())
        return str(whole.hexdigest())


def recipe(identity: Mapping[str, Any], request: Request) -> dict[str, Any]:
    """The parts of a cache key, readable and comparable.

    They leave out the session: its name changes each time, and its content is in the messages.
    """
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
    kind: Literal["target", "judge", "generator"] = "target"
    files: Path | None = None
    """The folder of the dataset, whose files go along with questions."""
    tools: Toolbox | None = None
    """The tools that the engine calls for it, where there are any that no item brings."""
    behind: PricedTarget | None = None
    """The target that answers the model calls of an agent."""
    cacheable: bool = True
    """Whether the same question always deserves the same answer; code and files change without a new name."""
    largest_answer: int = 0
    """The tokens of the largest answer it has given in the run."""
    changes: set[str] = field(default_factory=set)
    """Known changes to the requests of this target."""

    @property
    def availability(self) -> Availability:
        """Whether it can be asked."""
        return self.room.availability

    @property
    def is_closed(self) -> bool:
        """Whether this target, or the one behind it, cannot be asked any more."""
        return self.availability.closed is not None or (self.behind is not None and self.behind.is_closed)

    async def _probe(self, ledger: Ledger) -> TargetError | None:
        """The failure of a short question; None where it was answered.

        Its money is set aside like that of any call: those who wait for the target hold none.
        """
        account = _Account(self, short_question(self.config), ledger, None)
        clock = asyncio.get_running_loop().time
        try:
            await account.reserve()
            began = clock()
            outcome = await one_attempt(self.target, account.request, self.config)
            account.note(1, clock() - began, outcome)
        except ConfigurationError as problem:
            account.release()
            raise self.availability.refuse(str(problem)) from None
        finally:
            account.close()
        return outcome if isinstance(outcome, TargetError) else None

    def with_params(self, request_params: Mapping[str, Any]) -> dict[str, Any]:
        """The parameters of a call: the configuration's, the call's over them, and under a budget a longest answer."""
        merged = {**self.config.params, **request_params}
        params = {name: value for name, value in merged.items() if UNSET not in (value, self.config.params.get(name))}
        if self.budget.most is not None and not has_length(params):
            params["max_tokens"] = with_room(self.config, ANSWER_TOKENS)
        return params

    async def ask(
        self, request: Request, ledger: Ledger, flight: AbstractContextManager[object] = _UNSEEN
    ) -> TimedReply:
        """The reply; TargetError where the target cannot answer this question, Unavailable where it can answer none.

        Each attempt is made within `flight`, which shows it.
        """
        availability = self.availability
        availability.demand()
        sent = await asyncio.to_thread(with_files, request, self.files) if has_files(request) else request
        answer = current_answer.get()
        account = _Account(self, request, ledger, answer)
        clock = asyncio.get_running_loop().time

        async def attempt(number: int) -> Reply | TargetError:
            await account.reserve()
            began = clock()
            with flight:
                outcome = await one_attempt(self.target, sent, self.config)
            account.note(number, clock() - began if outcome.seconds is None else outcome.seconds, outcome)
            return outcome

        probe = (lambda: self._probe(ledger)) if self.cacheable else None
        try:
            reply, attempts = await availability.ask(attempt, probe, lambda wait: ledger.waiting(wait, answer))
        except ConfigurationError as problem:
            account.release()
            raise availability.refuse(str(problem)) from None
        finally:
            account.close()
        return TimedReply(reply, 1000 * account.took, attempts, account.cost)


class _Account:
    """The money of one question: reserved before each attempt, and replaced by its cost after it."""

    def __init__(self, priced: PricedTarget, request: Request, ledger: Ledger, answer: int | None) -> None:
        self.request = request
        self.took = 0.0
        """Seconds that the last attempt took."""
        self.cost: float | None = None
        """The cost of the last attempt, if known."""
        self._priced = priced
        self._ledger = ledger
        self._answer = answer
        self._evaluator, self._phase = current_evaluator.get(), current_phase.get()
        self.attempts = 0
        """How many attempts are over."""
        self._out: float | None = None
        """The reservation of the attempt in flight."""
        self._began = 0.0

    async def reserve(self) -> None:
        """Set money aside for an attempt; Stopped when there is none left."""
        budget, cost = self._priced.budget, 0.0
        try:
            if budget.most is not None:
                cost = self._bound()
                await budget.reserve(cost)
        except BudgetSpent as spent:
            raise Stopped(f"the budget is spent: {spent}", "budget") from None
        except StoreError as problem:
            raise Stopped(str(problem), "failed") from None
        self._out = cost
        self._began = time.time()

    def note(self, attempt: int, seconds: float, outcome: Reply | TargetError) -> None:
        """Record an attempt with its outcome."""
        priced = self._priced
        self.attempts, self.took = attempt, seconds
        is_noted = isinstance(outcome, Reply) and outcome.is_noted
        usage = outcome.usage if isinstance(outcome, Reply) and not is_noted else None
        if isinstance(outcome, Reply) and (new := [each for each in outcome.changes if each not in priced.changes]):
            priced.changes.update(new)
            self._ledger.changed(priced.config.name, new)
        self.cost = self._cost(outcome)
        if usage is not None:
            priced.largest_answer = max(priced.largest_answer, usage.output_tokens)
        may_cost = None
        if self.cost is None and not is_noted and not (isinstance(outcome, TargetError) and outcome.unbilled):
            refused = isinstance(outcome, Reply) and BLOCKED in (outcome.diagnostics or {})
            may_cost = (self._reading() if refused else self._out or self._bound()) or None
        self._settle(
            CallRecord(
                answer=self._answer,
                kind=self._priced.kind,
                target=self._priced.config.name,
                attempt=attempt,
                started=self._began if outcome.started is None else outcome.started,
                latency_ms=1000 * seconds,
                input_tokens=usage.input_tokens if usage else None,
                output_tokens=usage.output_tokens if usage else None,
                cached_tokens=usage.cached_tokens if usage else 0,
                reasoning_tokens=usage.reasoning_tokens if usage else 0,
                cost=0.0 if is_noted else self.cost,
                code=outcome.code if isinstance(outcome, TargetError) else None,
                message=str(outcome) if isinstance(outcome, TargetError) else None,
                may_cost=may_cost,
                evaluator=self._evaluator,
                phase=self._phase,
            )
        )

    def release(self) -> None:
        """Release the money reserved for an attempt that was not made."""
        if self._out is not None:
            self._priced.budget.settle(self._out, 0.0)
            self._out = None

    def close(self) -> None:
        """Note an attempt that was given up while it was out: it may be answered, and billed, all the same."""
        if self._out is None:
            return
        self._settle(
            CallRecord(
                answer=self._answer,
                kind=self._priced.kind,
                target=self._priced.config.name,
                attempt=self.attempts + 1,
                started=self._began,
                latency_ms=1000 * (time.time() - self._began),
                code="givenUp",
                message="given up while it was out, because the run was stopped",
                may_cost=self._out or self._bound() or None,
                evaluator=self._evaluator,
                phase=self._phase,
            )
        )

    def _settle(self, call: CallRecord) -> None:
        reserved, self._out = self._out or 0.0, None
        self._ledger.called(call)
        self._priced.budget.settle(reserved, call.cost or 0.0, call.may_cost or 0.0)

    def _bound(self) -> float:
        """An upper bound of an attempt's cost; 0 without a known price."""
        priced = self._priced
        largest = max(priced.largest_answer, longest_unlimited(priced.config))
        return 0.0 if priced.price is None else most_it_can_cost(self.request, priced.price, largest)

    def _reading(self) -> float:
        """The cost of the question alone, for an answer that a filter withheld."""
        return 0.0 if self._priced.price is None else reading_costs(self.request, self._priced.price)

    def _cost(self, outcome: Reply | TargetError) -> float | None:
        if isinstance(outcome, TargetError):
            return None
        if outcome.cost is not None:
            return outcome.cost
        price = self._priced.price
        if price is not None and price.is_per_call:
            return price.cost(Usage(0, 0))
        return price.cost(outcome.usage) if price and outcome.usage else None


REPLY = "reply "
"""The prefix of the key of a reply that is stored with its run until the judging is done, and not cached."""
_CHOICES = "choices"
"""The diagnostic of a cached reply that holds its alternatives."""


def kept_key(target: PricedTarget, request: Request, scope: str = "") -> str:
    """The cache key of a reply; `scope` separates it from other questions."""
    return cache_key({**target.identity, **({"scope": scope} if scope else {})}, request)


async def recalled(
    target: PricedTarget,
    request: Request,
    ledger: Ledger,
    key: str,
    worth: Callable[[str], bool] = lambda text: True,
    *,
    may_be_kept: bool = True,
) -> AnswerRecord:
    """The cached reply, or a new one, which is cached if it is complete and `worth` it; raises TargetError.

    An empty key disables the cache. The answer limit that a budget sets is not part of the key.
    """
    if may_be_kept and (kept := await kept_reply(target, ledger, key)) is not None:
        return kept
    async with target.room.flight:
        timed = await target.ask(replace(request, params=target.with_params(request.params)), ledger)
        reply = timed.reply
        record = AnswerRecord(
            text=reply.text,
            request={},
            diagnostics={_CHOICES: choices_data(reply.choices)} if reply.choices else None,
            scripted=reply.scripted,
            model=reply.model,
            finish_reason=reply.finish_reason,
        )
        if key and worth(reply.text) and ending_word(reply.finish_reason) not in CUT_OFF:
            await ledger.keep(key, target.config.name, record)
    return record


def kept_choices(kept: AnswerRecord) -> tuple[Choice, ...]:
    """The alternatives to a cached reply, if they are known."""
    return choices_from((kept.diagnostics or {}).get(_CHOICES))


async def kept_reply(target: PricedTarget, ledger: Ledger, key: str) -> AnswerRecord | None:
    """The reply that is kept under a key, noted as a call that cost nothing; None without one, or without a key."""
    kept = await ledger.cached(key) if key else None
    if kept is not None and not key.startswith(REPLY):  # the call that asked for that is in the run itself
        ledger.called(_cached_call(target))
    return kept


def _cached_call(target: PricedTarget) -> CallRecord:
    return CallRecord(
        answer=current_answer.get(),
        kind=target.kind,
        target=target.config.name,
        attempt=1,
        started=time.time(),
        latency_ms=0.0,
        cost=0.0,
        from_cache=True,
        evaluator=current_evaluator.get(),
        phase=current_phase.get(),
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

    def changed(self, target: str, changes: Sequence[str]) -> None:
        """Record changes to the requests of a target."""
        self._writer.changed(self._run, target, changes)

    async def cached(self, key: str) -> AnswerRecord | None:
        """The cached answer of a key."""
        kept = self._reader.cache_get(key)
        return kept.answer if kept else None

    async def keep(self, key: str, target: str, record: AnswerRecord) -> None:
        """Keep a reply."""
        await self._writer.cache_put(CacheKey(key, str(RECIPE), target), record)


async def close_all(asked: Iterable[PricedTarget]) -> None:
    """Close targets and their tools; an object that serves several targets is closed once."""
    held: dict[int, Target | Toolbox] = {}
    for priced in asked:
        held.update((id(part), part) for part in (priced.target, priced.tools) if part is not None)
    await asyncio.gather(*(part.close() for part in held.values()))
