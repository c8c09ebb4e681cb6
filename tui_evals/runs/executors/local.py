"""The executor of this process: a window of conversations per target, each a task made when there is room for it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from tui_evals.datasets.model import Dataset, Item
from tui_evals.runs.asking import PricedTarget, TimedReply, cache_key, current_answer
from tui_evals.runs.judges import Judges
from tui_evals.runs.plan import Assigned, Plan
from tui_evals.runs.prompting import Chat, assistant, chat_for
from tui_evals.runs.scoring import evidence_for, judge
from tui_evals.store.records import AnswerRecord
from tui_evals.targets.base import Request, TargetError
from tui_evals.text.box import TemplateError

from .base import Cell, Sink, Stopped, WaitCut

_CONVERSATIONS_PER_CALL = 4
"""Conversations under way for each call in flight: while one asks, others are judged and committed."""
_SHOW_RUNNING_AFTER = 0.2
"""Seconds a call may take before it is shown as running; a row that is final sooner need not be written twice."""


class _InFlight:
    """An attempt that is out: it is shown as running once it takes a while."""

    __slots__ = ("_answer", "_mark", "_sink")

    def __init__(self, sink: Sink, answer: int) -> None:
        self._sink = sink
        self._answer = answer

    def __enter__(self) -> None:
        self._mark = asyncio.get_running_loop().call_later(_SHOW_RUNNING_AFTER, self._sink.running, self._answer)

    def __exit__(self, *_: object) -> None:
        self._mark.cancel()


class LocalExecutor:
    """Asks and judges with asyncio; the turns of a conversation follow each other, conversations overlap."""

    def __init__(
        self, plan: Plan, targets: Sequence[PricedTarget], judges: Judges, sink: Sink, use_cache: bool
    ) -> None:
        self._plan = plan
        self._targets = targets
        self._judges = judges
        self._sink = sink
        self._use_cache = use_cache
        self._evaluators_by_unit: dict[str, list[Assigned]] = {}

    async def execute(self, cells: Mapping[int, Iterator[Cell]]) -> None:
        """Work through the cells of each target at its own pace; the first reason to stop ends all."""
        feeders = [asyncio.create_task(self._feed(number, iterator)) for number, iterator in cells.items()]
        try:
            await asyncio.gather(*feeders)
        except BaseException:
            for feeder in feeders:
                feeder.cancel()
            await asyncio.gather(*feeders, return_exceptions=True)
            raise

    async def _feed(self, target: int, cells: Iterator[Cell]) -> None:
        """Start a cell whenever there is room; what has started is let finish, unless this is cancelled."""
        room = asyncio.Semaphore(_CONVERSATIONS_PER_CALL * self._targets[target].config.concurrency)
        tasks: set[asyncio.Task[None]] = set()
        reasons: list[BaseException] = []

        def ended(task: asyncio.Task[None]) -> None:
            tasks.discard(task)
            room.release()
            if not task.cancelled() and (reason := task.exception()) is not None:
                reasons.append(reason)
                self._halt()

        try:
            for cell in cells:
                await room.acquire()
                if reasons or not await self._sink.may_start():
                    room.release()
                    break
                task = asyncio.create_task(self._hold(cell))
                tasks.add(task)
                task.add_done_callback(ended)
            while tasks:
                await asyncio.wait(tasks)
        except asyncio.CancelledError:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            raise
        if reasons:
            raise reasons[0]

    def _halt(self) -> None:
        """What waits for its next attempt is given up, because the run ends."""
        self._judges.halt()
        for priced in self._targets:
            priced.room.gate.halt()

    async def _hold(self, cell: Cell) -> None:
        """Hold one conversation, as far as it goes before the run is stopped."""
        with suppress(WaitCut):
            await self._converse(cell)

    async def _converse(self, cell: Cell) -> None:
        """Ask, commit, judge, commit, turn after turn."""
        messages: list[Mapping[str, Any]] = []
        failed = begun = False
        for turn, answer in enumerate(cell.answers):
            current_answer.set(answer)
            record, chat = cell.known.get(turn), None
            if record is None:
                chat = None if failed else self._chat(cell, turn, messages)
                async with self._targets[cell.target].room.flight:
                    if not begun and not await self._sink.may_begin(answer):
                        return
                    begun = True
                    record, key = await self._answer(cell, turn, chat, failed)
                    first = await self._sink.answered(answer, record, key, self._targets[cell.target].config.name)
                if not first:
                    return
            if record.text is None:
                failed = True
                continue
            messages.append(assistant(record.text, record.tool_calls))
            if turn not in cell.final:
                chat = chat if isinstance(chat, tuple) else self._chat(cell, turn, messages[:-1])
                prompt = self._plan.asked_prompts[cell.prompt]
                evidence = evidence_for(self._plan, cell.item, turn, prompt, _demand_chat(chat), record)
                judged = await judge(self._evaluators(cell.item, turn), evidence, self._plan, cell.item)
                await self._sink.scored(answer, judged.records, judged.status, judged.score)

    def _chat(self, cell: Cell, turn: int, messages: Sequence[Mapping[str, Any]]) -> Chat | TemplateError:
        prompt = self._plan.asked_prompts[cell.prompt]
        try:
            return chat_for(self._plan.dataset, cell.item, turn, prompt, messages)
        except TemplateError as problem:
            return problem

    def _evaluators(self, item: Item, turn: int) -> list[Assigned]:
        """The evaluators of a unit; units that are judged alike share them."""
        own = item.units[turn]
        mark = "" if own.evaluators is None else json.dumps([own.evaluators, own.evaluators_mode])
        if mark not in self._evaluators_by_unit:
            self._evaluators_by_unit[mark] = self._plan.evaluators(item, turn, self._judges.ask_of)
        return self._evaluators_by_unit[mark]

    def request(self, cell: Cell, turn: int, chat: Chat) -> Request:
        """The request to the target of a cell for a turn."""
        return request_for_turn(self._plan.dataset, cell, turn, chat, self._targets[cell.target].with_params({}))

    def _caches(self, priced: PricedTarget) -> bool:
        return self._use_cache and priced.cacheable

    async def _answer(
        self, cell: Cell, turn: int, chat: Chat | TemplateError | None, failed: bool
    ) -> tuple[AnswerRecord, str | None]:
        """The answer, and under what key it is to be kept; None where it is not."""
        if failed:
            return _failed_record("turnSkipped", "Turn not attempted: preceding turn failed", {}), None
        if not isinstance(chat, tuple):
            return _failed_record("agentRequestFailed", f"the prompt cannot be made: {chat}", {}), None
        priced, request = self._targets[cell.target], self.request(cell, turn, chat)
        sent = {"messages": list(request.messages), "params": dict(request.params)}
        if request.tools:
            sent["tools"] = list(request.tools)
        key = cache_key(priced.identity, request) if self._caches(priced) else None
        cached = await self._sink.cached(key) if key is not None else None
        if cached is not None:
            return _from_cache(cached, sent), None
        try:
            timed = await priced.ask(request, self._sink, _InFlight(self._sink, cell.answers[turn]))
        except TargetError as problem:
            return _failed_record(problem.code, f"Agent request failed: {problem}", sent, problem.traceback), None
        return _answer_record(timed, sent), key


def request_for_turn(dataset: Dataset, cell: Cell, turn: int, chat: Chat, params: Mapping[str, Any]) -> Request:
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
    )


def _demand_chat(chat: Chat | TemplateError) -> Chat:
    if isinstance(chat, TemplateError):
        raise Stopped(f"an answered turn cannot be judged, for its prompt cannot be made any more: {chat}")
    return chat


def _answer_record(timed: TimedReply, sent: Mapping[str, Any]) -> AnswerRecord:
    reply = timed.reply
    return AnswerRecord(
        text=reply.text,
        request=sent,
        tool_calls=reply.tool_calls,
        diagnostics=reply.diagnostics,
        input_tokens=reply.usage.input_tokens if reply.usage else None,
        output_tokens=reply.usage.output_tokens if reply.usage else None,
        cost=timed.cost,
        latency_ms=timed.latency_ms,
        attempts=timed.attempts,
        scripted=reply.scripted,
        model=reply.model,
        finish_reason=reply.finish_reason,
    )


def _from_cache(cached: AnswerRecord, sent: Mapping[str, Any]) -> AnswerRecord:
    """A cached answer for this request, with the time and the price of the call that once fetched it."""
    return replace(cached, request=sent, from_cache=True, attempts=0)


def _failed_record(code: str, message: str, sent: Mapping[str, Any], traceback: str | None = None) -> AnswerRecord:
    return AnswerRecord(text=None, request=sent, code=code, message=message, traceback=traceback)
