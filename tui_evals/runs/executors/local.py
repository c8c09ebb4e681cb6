"""The executors of this process: a window of conversations per target, and answers that were recorded elsewhere."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from inspect import iscoroutinefunction
from itertools import chain, islice
from time import monotonic
from typing import Any

from tui_evals.datasets.model import Dataset, Item, SimulatedUser
from tui_evals.evaluators.base import Ask, Evaluator
from tui_evals.light_records import dataclass
from tui_evals.runs.asking import ConversationKeys, PricedTarget, TimedReply, current_answer
from tui_evals.runs.availability import Unavailable
from tui_evals.runs.executors import Cell, PageSink, Sink, Stopped, WaitCut
from tui_evals.runs.judges import Judges
from tui_evals.runs.plan import Assigned, Plan
from tui_evals.runs.prompting import Chat, chat_up_to, messages_of_answer, opening_of, question_of
from tui_evals.runs.scoring import Judgement, JudgeQuestions, evidence_for, judge, questions
from tui_evals.runs.tool_loop import ToolLoop, converse
from tui_evals.runs.tools import TurnTools, tools_of_turn
from tui_evals.store.records import MESSAGES_BEFORE, AnswerRecord, Settled
from tui_evals.targets.base import Request, StoredAnswers, TargetError
from tui_evals.targets.tools import defined_name
from tui_evals.text.model_output import ending_word
from tui_evals.text.templates import TemplateError

_CONVERSATIONS_PER_CALL = 4
"""Conversations under way for each call in flight: while one asks, others are judged and committed."""
_SHOW_RUNNING_AFTER = 0.2
"""Seconds a call may take before it is shown as running; a row that is final sooner need not be written twice."""


class _Attempts:
    """The attempts in flight; each is shown as running once it takes a while."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._due: dict[_InFlight, float] = {}
        """When to show each of them, in order."""
        self._timer: asyncio.TimerHandle | None = None

    def add(self, attempt: _InFlight) -> None:
        """Take in an attempt that goes out now."""
        loop = asyncio.get_running_loop()
        self._due[attempt] = due = loop.time() + _SHOW_RUNNING_AFTER
        if self._timer is None:
            self._timer = loop.call_at(due, self._look)

    def remove(self, attempt: _InFlight) -> None:
        """Forget an attempt that is over."""
        self._due.pop(attempt, None)

    def _look(self) -> None:
        loop, self._timer = asyncio.get_running_loop(), None
        while self._due:
            attempt, due = next(iter(self._due.items()))
            if due > loop.time():
                self._timer = loop.call_at(due, self._look)
                return
            del self._due[attempt]
            self._sink.running(attempt.answer)


class _InFlight:
    """Keeps the attempts at an answer among those that are out."""

    __slots__ = ("_attempts", "answer")

    def __init__(self, attempts: _Attempts, answer: int) -> None:
        self._attempts = attempts
        self.answer = answer

    def __enter__(self) -> None:
        self._attempts.add(self)

    def __exit__(self, *_: object) -> None:
        self._attempts.remove(self)


@dataclass(slots=True)
class _Conversation:
    """The state of a conversation that its next question needs."""

    keys: ConversationKeys = field(default_factory=ConversationKeys)
    sent: int = 0
    """How many messages were sent with the questions before."""
    session: Any = None
    """The session of the target's last answer."""
    is_cached: bool = False
    """Whether that answer came from the cache, so that the session is one of an earlier run."""
    failed: bool = False

    def go_on(self, record: AnswerRecord, sent: int) -> None:
        """Take in an answer, and how many messages the target was sent for it."""
        self.sent = sent
        if record.session is not None:
            self.session, self.is_cached = record.session, record.from_cache


class SharedEvaluators:
    """The evaluators of a plan, made once for all turns that are judged alike."""

    def __init__(self, plan: Plan, ask_of: Callable[[str | None], Ask | None]) -> None:
        self._plan = plan
        self._ask_of = ask_of
        self._by_mark: dict[str, list[Assigned]] = {}

    def of(self, item: Item, turn: int) -> list[Assigned]:
        """The evaluators of a turn."""
        own = item.units[turn]
        mark = "" if own.evaluators is None else json.dumps([own.evaluators, own.evaluators_mode])
        if mark not in self._by_mark:
            self._by_mark[mark] = self._plan.evaluators(item, turn, self._ask_of)
        return self._by_mark[mark]


def _judges_at_once(kind: type[Evaluator]) -> bool:
    """Whether evaluators of a kind judge each answer alone, by code of ours that waits for nothing."""
    is_alone = kind.scope == "answer" and not (kind.groups or kind.judged or kind.batched)
    return is_alone and _asks_nobody(kind) and kind.__module__.startswith("tui_evals.")


def _asks_nobody(kind: type[Evaluator]) -> bool:
    """Whether evaluators of a kind ask no judge and wait for no process."""
    return not (kind.may_ask or kind.may_embed or (iscoroutinefunction(kind.score) and not kind.batched))


Settle = Callable[[int, AnswerRecord, str | None, str, Judgement], Awaitable[bool]]
"""Commits an answer as `Sink.answered` does, and its verdict with it."""
SKIPPED = "turnSkipped", "Turn not attempted: preceding turn failed"
"""The error of a turn that was skipped because an earlier turn failed."""


class LocalExecutor:
    """Asks and judges with asyncio; the turns of a conversation follow each other, conversations overlap."""

    def __init__(
        self,
        plan: Plan,
        targets: Sequence[PricedTarget],
        judges: Judges,
        sink: Sink,
        use_cache: bool,
        settle: Settle | None = None,
    ) -> None:
        self._plan = plan
        self._targets = targets
        self._judges = judges
        self._sink = sink
        self._use_cache = use_cache
        kinds = map(plan.registry.find, plan.evaluators_used())
        self._settle = settle if all(map(_judges_at_once, kinds)) else None
        self._attempts = _Attempts(sink)
        self._evaluators = SharedEvaluators(plan, judges.ask_of)
        self._reason: BaseException | None = None
        """Why nothing new may begin."""

    async def execute(self, cells: Mapping[int, Iterator[Cell]]) -> None:
        """Work through the cells of each target at its own pace.

        After the first reason to stop, nothing new begins and requests in flight finish. An unavailable target does not
        stop the others.
        """
        feeders = [asyncio.create_task(self._feed(number, iterator)) for number, iterator in cells.items()]
        try:
            await asyncio.gather(*feeders)
        except BaseException:
            for feeder in feeders:
                feeder.cancel()
            await asyncio.gather(*feeders, return_exceptions=True)
            raise
        if self._reason is not None:
            raise self._reason

    async def _feed(self, target: int, cells: Iterator[Cell]) -> None:
        """Execute several conversations at a time; those that have begun finish, unless this is cancelled."""
        priced = self._targets[target]
        ahead = 1 if self._settle is not None else _CONVERSATIONS_PER_CALL
        most = ahead * priced.config.concurrency
        tasks = {asyncio.create_task(self._hold_all(priced, chain((cell,), cells))) for cell in islice(cells, most)}
        try:
            if tasks:
                await asyncio.wait(tasks)
        except asyncio.CancelledError:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            raise

    async def _hold_all(self, priced: PricedTarget, cells: Iterator[Cell]) -> None:
        """Hold one conversation after the other while there are some that no other task has taken."""
        try:
            for cell in cells:
                if self._reason is not None or priced.is_closed or not await self._sink.may_start():
                    return
                await self._hold(cell)
        except Exception as reason:
            self._reason = self._reason or reason
            self._halt()

    def _halt(self) -> None:
        """Cancel waiting attempts, because the run ends."""
        self._judges.halt()
        for priced in self._targets:
            priced.room.gate.halt()

    async def _hold(self, cell: Cell) -> None:
        """Execute one conversation, until the run is stopped or its target cannot be asked."""
        try:
            await self._converse(cell)
        except WaitCut:
            pass  # the run is stopped
        except Unavailable:
            self._sink.left_open(cell.answers)

    async def _converse(self, cell: Cell) -> None:
        """Ask, commit, judge, commit, turn after turn."""
        opening = self._opening(cell)
        messages = list(opening) if isinstance(opening, tuple) else []
        so_far, begun = _Conversation(), False
        for turn, (answer, unit) in enumerate(zip(cell.answers, cell.item.units, strict=False)):
            current_answer.set(answer)
            record = cell.known.get(turn)
            messages += question_of(unit) if turn else ()
            chat = opening if isinstance(opening, TemplateError) else tuple(messages)
            is_judged = turn in cell.final
            if record is None:
                async with self._targets[cell.target].room.flight:
                    if not begun and not await self._sink.may_begin(answer):
                        return
                    begun = True
                    record, key = await self._answer(cell, turn, chat, so_far)
                    first, is_judged = await self._commit(cell, turn, chat, record, key)
                if not first:
                    return
            if record.text is None:
                so_far.failed = True
                continue
            if not is_judged:
                try:
                    judged = await self._judge(cell, turn, chat, record)
                except Unavailable:  # it is judged once the judge can be asked, and the conversation continues
                    self._sink.left_open((answer,))
                else:
                    await self._sink.scored(answer, judged.records, judged.status, judged.score)
            so_far.go_on(record, len(messages))
            messages += messages_of_answer(record)

    async def _commit(
        self, cell: Cell, turn: int, chat: Chat | TemplateError, record: AnswerRecord, key: str | None
    ) -> tuple[bool, bool]:
        """Commit an answer, with its verdict if that is ready; returns whether it was the first and is judged."""
        answer, target = cell.answers[turn], self._targets[cell.target].config.name
        if self._settle is not None and record.text is not None:
            try:
                judged = await self._judge(cell, turn, chat, record)
                is_told = not any(one.result == "error" for one in judged.records)  # an error may stop the run
            except Exception:  # the paid answer is kept first; judging it again reports the error
                is_told = False
            if is_told:
                return await self._settle(answer, record, key, target, judged), True
        return await self._sink.answered(answer, record, key, target), False

    async def _judge(self, cell: Cell, turn: int, chat: Chat | TemplateError, record: AnswerRecord) -> Judgement:
        """The scores of a turn's evaluators."""
        prompt = self._plan.asked_prompts[cell.prompt]
        evidence = evidence_for(self._plan, cell.item, turn, prompt, demand_chat(chat), record)
        if self._settle is None:  # otherwise nothing is asked
            questions.set(JudgeQuestions(f"answer {cell.answers[turn]}", again=turn in cell.known))
        said, evaluators = cell.scores.get(turn, ()), self._evaluators.of(cell.item, turn)
        return await judge(evaluators, evidence, self._plan, cell.item, turn, said)

    def _opening(self, cell: Cell) -> Chat | TemplateError:
        try:
            return opening_of(self._plan.dataset, cell.item, self._plan.asked_prompts[cell.prompt])
        except TemplateError as problem:
            return problem

    def request(self, cell: Cell, turn: int, chat: Chat, session: Any = None) -> Request:
        """The request to the target of a cell for a turn."""
        params = self._targets[cell.target].with_params({})
        return request_for_turn(self._plan.dataset, cell, turn, chat, params, session)

    def _caches(self, priced: PricedTarget) -> bool:
        return self._use_cache and priced.cacheable

    async def _answer(
        self, cell: Cell, turn: int, chat: Chat | TemplateError, so_far: _Conversation
    ) -> tuple[AnswerRecord, str | None]:
        """The answer to a turn, and its cache key."""
        if so_far.failed:
            return failed_record(*SKIPPED, {}), None
        if not isinstance(chat, tuple):
            return unmade_record(chat), None
        if (given := self._plan.given_answer(cell.item)) is not None:
            return AnswerRecord(text=given, request={}, cost=0.0, attempts=0), None
        priced, request = self._targets[cell.target], self.request(cell, turn, chat, so_far.session)
        if cell.item.user is not None:
            return await self._answer_to_user(cell, turn, request, cell.item.user), None
        if (tools := tools_of_turn(self._plan.dataset, cell.item, cell.item.units[turn], priced.tools)) is not None:
            record, asked = await self._answer_with_tools(cell, turn, request, tools)
            return replace(record, request=stored_request(asked, so_far.sent)), None
        sent = stored_request(request, so_far.sent)
        key = so_far.keys.key(priced.identity, request) if self._caches(priced) else None
        if key is not None and (cached := await self._cached(key, cell, request, so_far)) is not None:
            return _from_cache(cached, sent), None
        if so_far.is_cached:  # the cache was cleared since: the session is another conversation's, and ends here
            key, request = None, replace(request, session=None)
        try:
            timed = await priced.ask(request, self._sink, _InFlight(self._attempts, cell.answers[turn]))
        except TargetError as problem:
            return unanswered_record(problem, sent), None
        # Filters change, so an answer that one withheld is not cached.
        withheld = ending_word(timed.reply.finish_reason) == "content_filter"
        return answer_record(timed, sent), None if withheld else key

    async def _answer_with_tools(
        self, cell: Cell, turn: int, request: Request, tools: TurnTools, *, part: str = "", may_be_cached: bool = True
    ) -> tuple[AnswerRecord, Request]:
        """The answer to a turn, or a part of it, once the model calls no more tools, and its request."""
        priced, answer = self._targets[cell.target], cell.answers[turn]

        async def ask(request: Request) -> AnswerRecord:
            return answer_record(await priced.ask(request, self._sink, _InFlight(self._attempts, answer)), {})

        caches = may_be_cached and self._caches(priced)
        return await ToolLoop(priced, tools, ask, self._sink, f"{answer}{part}", caches=caches).answer(request)

    async def _answer_to_user(self, cell: Cell, turn: int, request: Request, user: SimulatedUser) -> AnswerRecord:
        """The whole conversation with a simulated user."""
        priced = self._targets[cell.target]
        tools = tools_of_turn(self._plan.dataset, cell.item, cell.item.units[turn], priced.tools)
        # If calls are not made here, the first that the model asks for are its answer.
        approved = frozenset(map(defined_name, request.tools))
        asks = self._judges.ask_of(user.target)
        if asks is None:
            raise Stopped(f"no target is named that plays the user of {cell.name}", "configuration")

        async def answer(request: Request, exchange: int, may_be_cached: bool) -> AnswerRecord:
            if exchange:
                await priced.availability.demand_more()
            with_tools = tools or TurnTools((), approved, 1)
            part = f".{exchange}"
            answered = self._answer_with_tools(cell, turn, request, with_tools, part=part, may_be_cached=may_be_cached)
            return (await answered)[0]

        questions.set(JudgeQuestions(f"user {cell.answers[turn]}"))
        record = await converse(user, asks, answer, request)
        last = replace(request, messages=chat_up_to(record, request.messages))
        return replace(record, request=stored_request(last, 0))

    async def _cached(self, key: str, cell: Cell, request: Request, so_far: _Conversation) -> AnswerRecord | None:
        """The cached answer of a turn, or None.

        A session belongs to its conversation. So a conversation with sessions is either completely cached or asked: a
        session of an earlier run is never continued, and no turn is skipped.
        """
        if so_far.session is not None and not so_far.is_cached:
            return None
        cached = await self._sink.cached(key)
        if cached is None or cached.session is None or so_far.is_cached:
            return cached
        identity, keys = self._targets[cell.target].identity, ConversationKeys()
        later, messages = cached, list(request.messages)
        for turn in range(request.turn + 1, len(cell.item.units)):
            messages += [*messages_of_answer(later), *question_of(cell.item.units[turn])]
            found = await self._sink.cached(keys.key(identity, self.request(cell, turn, tuple(messages))))
            if found is None:
                return None
            later = found
        return cached


def stored_request(request: Request, before: int) -> dict[str, Any]:
    """A request as the store keeps it: of a chat that continues, the messages after those sent before."""
    sent: dict[str, Any] = {"messages": list(request.messages[before:]), "params": dict(request.params)}
    if before:
        sent[MESSAGES_BEFORE] = before
    if request.tools:
        sent["tools"] = list(request.tools)
    if request.session is not None:
        sent["session"] = request.session
    return sent


def request_for_turn(
    dataset: Dataset, cell: Cell, turn: int, chat: Chat, params: Mapping[str, Any], session: Any = None
) -> Request:
    """The request to a target for a turn of a cell."""
    item = cell.item
    return Request(
        messages=chat,
        tools=tuple(item.tools or dataset.tools or ()),
        response_format=item.response_format or dataset.response_format,
        params=params,
        item=cell.name,
        position=cell.position,
        turn=turn,
        repeat=cell.repeat,
        variables=item.variables or {},
        session=session,
    )


def demand_chat(chat: Chat | TemplateError) -> Chat:
    """The chat of a turn that is answered; Stopped where it cannot be made any more."""
    if isinstance(chat, TemplateError):
        raise Stopped(f"an answered turn cannot be judged because its prompt can no longer be made: {chat}")
    return chat


def answer_record(timed: TimedReply, sent: Mapping[str, Any]) -> AnswerRecord:
    """A reply as an answer, with its request."""
    reply = timed.reply
    return AnswerRecord(
        text=reply.text,
        request=sent,
        tool_calls=reply.tool_calls,
        diagnostics=reply.diagnostics,
        input_tokens=reply.usage.input_tokens if reply.usage else None,
        output_tokens=reply.usage.output_tokens if reply.usage else None,
        cached_tokens=reply.usage.cached_tokens if reply.usage else 0,
        reasoning_tokens=reply.usage.reasoning_tokens if reply.usage else 0,
        cost=timed.cost,
        latency_ms=timed.latency_ms,
        first_token_ms=None if reply.first_token_seconds is None else 1000 * reply.first_token_seconds,
        attempts=timed.attempts,
        scripted=reply.scripted,
        model=reply.model,
        finish_reason=reply.finish_reason,
        session=reply.session,
        transcript=reply.transcript,
    )


def _from_cache(cached: AnswerRecord, sent: Mapping[str, Any]) -> AnswerRecord:
    """A cached answer for this request, with the time and the price of the call that once fetched it."""
    return replace(cached, request=sent, from_cache=True, attempts=0)


def unanswered_record(problem: TargetError, sent: Mapping[str, Any]) -> AnswerRecord:
    """Why a target gave no answer."""
    unanswered = failed_record(problem.code, f"Agent request failed: {problem}", sent, problem.traceback)
    return replace(unanswered, attempts=problem.attempts)


def unmade_record(problem: TemplateError) -> AnswerRecord:
    """Why nothing could be asked."""
    return failed_record("agentRequestFailed", f"the prompt cannot be made: {problem}", {})


def failed_record(code: str, message: str, sent: Mapping[str, Any], traceback: str | None = None) -> AnswerRecord:
    """A missing answer for which no call was made."""
    return AnswerRecord(text=None, request=sent, code=code, message=message, traceback=traceback, attempts=0)


_PAGE = 500
"""Conversations in a transaction at most."""
_SECONDS = 0.25
"""How long to judge between commits. A killed process loses at most this much judging."""


def asks_nobody(plan: Plan, targets: Sequence[PricedTarget]) -> bool:
    """Whether all answers of a plan exist already and no judge, tool, file or process is needed."""
    if not all(isinstance(priced.target, StoredAnswers) and priced.tools is None for priced in targets):
        return False
    if plan.judges_needed or plan.dataset.tool_results:
        return False
    if not all(_asks_nobody(plan.registry.find(name)) for name in plan.evaluators_used()):
        return False
    return not any(item.tool_results or any(unit.attachments for unit in item.units) for _, item in plan.asked_items)


class GivenExecutor:
    """Takes the answers, judges them, and has many conversations committed in one transaction."""

    def __init__(self, plan: Plan, targets: Sequence[PricedTarget], sink: PageSink) -> None:
        self._plan = plan
        self._targets = targets
        self._sink = sink
        self._evaluators = SharedEvaluators(plan, lambda _: None)

    async def execute(self, cells: Mapping[int, Iterator[Cell]]) -> None:
        """Work through the cells of each target, as many as there are before the run is stopped."""
        waiting = chain.from_iterable(cells.values())
        if any(kind.batched for kind in map(self._plan.registry.find, self._plan.evaluators_used())):
            await self._side_by_side(waiting)
        else:
            await self._one_by_one(waiting)

    async def _one_by_one(self, waiting: Iterator[Cell]) -> None:
        """Judge page after page; while one is committed, the next is judged."""
        commit: asyncio.Task[None] | None = None
        try:
            while await self._sink.may_start() and (first := next(waiting, None)) is not None:
                page = await self._page(chain((first,), waiting))
                if commit is not None:
                    await commit
                commit = asyncio.create_task(self._sink.settled(page))
                await asyncio.sleep(0)
        finally:
            if commit is not None:
                await commit

    async def _page(self, waiting: Iterator[Cell]) -> list[Settled]:
        page, until = list[Settled](), monotonic() + _SECONDS
        for cell in islice(waiting, _PAGE):
            page += await self._converse(cell)
            if monotonic() > until:
                break
        return page

    async def _side_by_side(self, waiting: Iterator[Cell]) -> None:
        """Execute pages of conversations for evaluators that judge many at once, and commit the judged ones.

        Answers that are not judged when the run stops stay pending.
        """
        judging = set[asyncio.Task[list[Settled]]]()
        try:
            while await self._sink.may_start():
                room = _PAGE - len(judging)
                judging |= {asyncio.create_task(self._converse(cell)) for cell in islice(waiting, room)}
                if not judging:
                    break
                done, judging = await asyncio.wait(judging, timeout=_SECONDS)
                await self._sink.settled([one for task in done for one in task.result()])
        finally:
            for task in judging:
                task.cancel()
            await asyncio.gather(*judging, return_exceptions=True)

    async def _converse(self, cell: Cell) -> list[Settled]:
        """The answers of one conversation that are not final yet, with their scores."""
        prompt, settled, failed = self._plan.asked_prompts[cell.prompt], list[Settled](), False
        try:
            opening: Chat | TemplateError = opening_of(self._plan.dataset, cell.item, prompt)
        except TemplateError as problem:
            opening = problem
        messages = list(opening) if isinstance(opening, tuple) else []
        sent = 0
        for turn, (answer, unit) in enumerate(zip(cell.answers, cell.item.units, strict=False)):
            messages += question_of(unit) if turn else ()
            chat = opening if isinstance(opening, TemplateError) else tuple(messages)
            record = cell.known.get(turn)
            new = self._answer(cell, turn, chat, sent, failed) if record is None else None
            record = record or new
            if record is None or record.text is None:
                failed = True
                if new is not None:
                    settled.append(Settled(answer, new, None, "error", None))
                continue
            if turn not in cell.final:
                evidence = evidence_for(self._plan, cell.item, turn, prompt, demand_chat(chat), record)
                said, evaluators = cell.scores.get(turn, ()), self._evaluators.of(cell.item, turn)
                judged = await judge(evaluators, evidence, self._plan, cell.item, turn, said)
                settled.append(Settled(answer, new, judged.records, judged.status, judged.score))
            sent = len(messages)
            messages += messages_of_answer(record)
        return settled

    def _answer(self, cell: Cell, turn: int, chat: Chat | TemplateError, sent: int, failed: bool) -> AnswerRecord:
        """The answer to a turn; no call is noted, because none is made."""
        if failed:
            return failed_record(*SKIPPED, {})
        if isinstance(chat, TemplateError):
            return unmade_record(chat)
        priced = self._targets[cell.target]
        request = request_for_turn(self._plan.dataset, cell, turn, chat, priced.with_params({}))
        stored = stored_request(request, sent)
        try:
            reply = priced.target.stored_answer(request)  # type: ignore[attr-defined]  # see asks_nobody
        except TargetError as problem:
            problem.attempts = 1
            return unanswered_record(problem, stored)
        return answer_record(TimedReply(reply, 0.0, 1, None), stored)
