"""The executor of recorded answers: no call is made, so they are judged and committed a page at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from inspect import iscoroutinefunction
from itertools import chain, islice
from time import monotonic

from tui_evals.runs.asking import PricedTarget, TimedReply
from tui_evals.runs.executors.base import Cell, PageSink
from tui_evals.runs.executors.local import (
    SKIPPED,
    SharedEvaluators,
    answer_record,
    demand_chat,
    failed_record,
    request_for_turn,
    stored_request,
    unanswered_record,
    unmade_record,
)
from tui_evals.runs.plan import Plan
from tui_evals.runs.prompting import Chat, messages_of_answer, opening_of, question_of
from tui_evals.runs.scoring import evidence_for, judge
from tui_evals.store.records import AnswerRecord, Settled
from tui_evals.targets.base import StoredAnswers, TargetError
from tui_evals.text.templates import TemplateError

_PAGE = 500
"""Conversations in a transaction at most."""
_SECONDS = 0.25
"""How long judging continues until what is judged is committed: what a kill costs is to judge so much again."""


def asks_nobody(plan: Plan, targets: Sequence[PricedTarget]) -> bool:
    """Whether all answers of a plan are at hand, and no judge, tool, file or process has a part in it."""
    if not all(isinstance(priced.target, StoredAnswers) and priced.tools is None for priced in targets):
        return False
    if plan.judges_needed or plan.dataset.tool_results:
        return False
    for kind in map(plan.registry.find, plan.evaluators_used()):
        if kind.may_ask or kind.may_embed or (iscoroutinefunction(kind.score) and not kind.batched):
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
        """Keep a page of conversations before evaluators that judge many at once, and commit what they are done with.

        What is not judged yet when the run is stopped stays pending.
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
        """The answers of one conversation that are not final yet, with what judged them."""
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
