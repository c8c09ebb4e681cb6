"""Judges one answer again by the edited dataset, and shows the next failure."""

from __future__ import annotations

import asyncio
import time
from functools import partial

from tui_evals.datasets.paths import DatasetError
from tui_evals.datasets.validate import document_of_data
from tui_evals.present.answers import rejudged_change
from tui_evals.present.figures import estimate_sentence
from tui_evals.present.runs import column_names, command_wait_sentence
from tui_evals.runs.errors import CannotPlan
from tui_evals.runs.estimating import Estimate
from tui_evals.runs.rescoring import Rejudging, prepare_rejudging, rejudge
from tui_evals.store.database import StoreError
from tui_evals.store.reader import Reader
from tui_evals.store.records import AnswerRow, RunRow, StoreWait
from tui_evals.targets.base import ConfigurationError
from tui_evals.targets.permissions import NotApproved
from tui_evals.tui.answer_actions import answer_in_view, unit_of_answer
from tui_evals.tui.answer_context import AnswerContext
from tui_evals.tui.pane import Pane
from tui_evals.tui.permissions import NOT_AGREED, approve
from tui_evals.tui.widgets.dialogs import ask_priced

_REFUSALS = (CannotPlan, ConfigurationError, DatasetError, NotApproved, StoreError, LookupError)


async def rejudge_answer(pane: Pane) -> int | None:
    """Judge the shown answer again by its edited dataset; returns the next failure, if there is one."""
    case = await answer_in_view(pane)
    place = None if case is None else await unit_of_answer(pane, case)
    if case is None or place is None or not isinstance(place[1], int):
        return None
    watch, before = pane.watching, case.row
    number = watch.number_of(before.id) or 0
    try:
        work = await ask_priced(pane.app, "judge again", partial(_priced, pane, case, place[1]))
        if work is None or not await _allowed(pane, work):
            return None
        pane.say(f"judging {before.name} again…")
        (now,) = await asyncio.to_thread(_rejudged, pane, work)
    except _REFUSALS as problem:
        pane.say(str(problem), "warn")
        return None
    told = rejudged_change(before, now, work.expected is not None)
    following = await _next_failure(pane, now, number)
    pane.say(f"{told}; {_next_words(case.run, now, following)}")
    return None if following is None else following.id


def _rejudged(pane: Pane, work: Rejudging) -> list[AnswerRow]:
    """The answers with their new verdicts; the writer waits while the store is not writable."""

    def show(wait: StoreWait, is_over: bool) -> None:
        sentence = command_wait_sentence(wait, time.time(), is_over=is_over)
        pane.say(sentence, "info" if is_over else "warn")

    with work.job.project.writer() as writer:
        return asyncio.run(rejudge(work, writer, show))


def _next_words(run: RunRow, judged: AnswerRow, following: AnswerRow | None) -> str:
    """The name of the next answer; one of the same item is identified by its column."""
    if following is None:
        return "no other failure is left"
    again = following.item == judged.item and len(run.targets) * len(run.prompts) > 1
    whose = f" by {column_names(run)[following.prompt, following.target]}" if again else ""
    return f"next: {following.name}{whose}"


def _prepared(pane: Pane, case: AnswerContext, place: int) -> tuple[Rejudging, Estimate]:
    """The prepared judging of an answer and its cost; run in a thread."""
    workspace = pane.workspace
    assert workspace.editing is not None
    document = document_of_data(dict(workspace.data), workspace.editing.document.file)
    with Reader(pane.watching.database) as reader:
        run = reader.run(case.run.id)
        work = prepare_rejudging(run, reader.rows([case.row.id]), reader, workspace.project(), document, place)
        return work, work.estimate(reader)


async def _priced(pane: Pane, case: AnswerContext, place: int) -> tuple[str, Rejudging]:
    """The question that says what judges cost; empty where none is asked."""
    work, estimate = await asyncio.to_thread(_prepared, pane, case, place)
    says = f"Judge the answer to {work.rows[0].name} again: {estimate_sentence(estimate)}."
    return says if estimate.judge_calls else "", work


async def _allowed(pane: Pane, work: Rejudging) -> bool:
    """Whether what needs a yes has it."""
    if await approve(pane.app, await asyncio.to_thread(work.missing_permissions), pane.workspace.root):
        return True
    pane.say(NOT_AGREED, "warn")
    return False


async def _next_failure(pane: Pane, judged: AnswerRow, number: int) -> AnswerRow | None:
    """The failure after an answer, even if a filter hides that answer now."""
    watch = pane.watching
    if watch.run is None or watch.run.id != judged.run:
        return None
    place = watch.number_of(judged.id)
    following = await watch.failure(number - 1 if place is None else place, 1)
    return None if following in (None, judged.id) else next(iter(watch.reader.rows([following])), None)
