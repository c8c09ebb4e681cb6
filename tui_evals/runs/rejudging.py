"""Judging answers to one item again in their run, each at once and for itself: what was before stays in the record."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any

from tui_evals.datasets.document import Document
from tui_evals.datasets.model import Dataset
from tui_evals.datasets.validate import dataset_of, document_of_data
from tui_evals.evaluators.base import JudgingStopped
from tui_evals.store.reader import Reader
from tui_evals.store.records import LIVE_STATUSES, AnswerRecord, AnswerRow, CallRecord, RunRow, Wait
from tui_evals.store.results import CacheKey
from tui_evals.store.rows import EXPECTATION
from tui_evals.store.runlock import hold, run_lock
from tui_evals.store.writer import Writer
from tui_evals.targets.permissions import Permission
from tui_evals.text.box import TemplateError

from .approving import demand, missing_permissions
from .asking import RECIPE, current_answer
from .budget import Budget
from .judges import Judges
from .opening import opened
from .plan import CannotPlan, Estimate, Plan
from .project import Project
from .prompting import Chat, assistant, opening_of, question_of
from .readiness import judge_configs, needed_judges, with_embedder
from .scoring import evidence_for, judge
from .start import Job, by_pass, estimate_again, stored_job
from .status import RECORDED

_JUDGED_BY = (*EXPECTATION, "evaluators_mode", "context", "response_format", "extensions")
"""The fields of an item or turn that its answers are judged by; all others stay as they were when it was asked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rejudging:
    """Answers to one item with what is to judge them now; nothing is judged yet."""

    job: Job
    rows: tuple[AnswerRow, ...]
    expected: Mapping[str, Any] | None
    """What is expected now, where that is not what the run is judged by."""

    def estimate(self) -> Estimate:
        """The calls it takes, and what they may cost."""
        return estimate_again(self.job.plan, self.rows)

    def missing_permissions(self) -> list[Permission]:
        """What it would do that nobody has agreed to yet; no target is asked."""
        plan, project = self.job.plan, self.job.project
        return missing_permissions(project, replace(plan, targets=()), None, needed_judges(plan, project.settings))


def prepare_rejudging(
    run: RunRow,
    rows: Sequence[AnswerRow],
    reader: Reader,
    project: Project,
    dataset: Document | None = None,
    place: int | None = None,
) -> Rejudging:
    """Find what judges answers to one item: the run's own, or a dataset in which the item now stands at a `place`.

    CannotPlan or DatasetError says why they cannot be judged.
    """
    _check_rows(run, rows)
    passes = reader.passes(run.id)
    job = by_pass(stored_job(run, reader, project), passes[-1].config, reader)
    number, expected = rows[0].item, None
    if dataset is not None:
        own = passes[-1].config.get("dataset") or run.snapshot
        job, expected = _by_dataset(job, number, dataset, number if place is None else place, reader.snapshot(own))
    plan = replace(job.plan, only=frozenset((number,)))
    if plan.embedder is None:
        plan = with_embedder(plan, project.settings)
    plan.check_judges()
    asks = bool(needed_judges(plan, project.settings))
    if asks and run.status in LIVE_STATUSES:
        raise CannotPlan(f"{run.key} is {run.status}, and its judge is asked where it is executed; wait for its end")
    return Rejudging(job=replace(job, plan=plan), rows=tuple(rows), expected=expected)


def _check_rows(run: RunRow, rows: Sequence[AnswerRow]) -> None:
    if RECORDED in run.config:
        raise CannotPlan(f"{run.key} was made elsewhere, and its answers cannot be judged one by one")
    if run.staged_pass:
        raise CannotPlan(f"{run.key} is being judged again as a whole; `tui-evals resume {run.key}` ends that first")
    for row in rows:
        if row.code is not None or row.status in ("pending", "running", "answered", "error"):
            why = "ended as an error" if row.code is not None else "is not there yet"
            raise CannotPlan(f"the answer to {row.name} {why}, so that there is nothing to judge")


def _by_dataset(
    job: Job, number: int, dataset: Document, place: int, own: Mapping[str, Any]
) -> tuple[Job, Mapping[str, Any] | None]:
    """The job with one item judged as a dataset says now; and what that expects, None where it is the same."""
    items = dataset.data.get("items") or []
    now = items[place] if place < len(items) and isinstance(items[place], dict) else {}
    asked = own["items"][number]
    defaults = dataset.data.get("default_evaluators")
    item = _judged_item(asked, now)
    registry, plan = job.plan.registry, job.plan
    alone = document_of_data({**own, "default_evaluators": defaults, "items": [item]}, dataset.file)
    typed = dataset_of(alone, registry.catalogue, registry.own)
    before = plan.dataset.items[number]
    if len(typed.items[0].units) != len(before.units):
        raise CannotPlan(f"{dataset.file.name} has other turns in this item than the run", "arguments")
    judging = plan.dataset.model_copy(
        update={
            "default_evaluators": typed.default_evaluators,
            "items": [*plan.dataset.items[:number], typed.items[0], *plan.dataset.items[number + 1 :]],
        }
    )
    job = replace(job, plan=replace(plan, dataset=judging))
    job.plan.check_evaluators()
    if _same(judging, plan.dataset, number):
        return job, None
    return job, {"default_evaluators": defaults, "item": _expectation(item)}


def _same(one: Dataset, other: Dataset, number: int) -> bool:
    return one.default_evaluators == other.default_evaluators and one.items[number] == other.items[number]


def _judged_item(asked: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, Any]:
    """An item or turn as it was asked, with what its answers are judged by as it is now."""
    item = {name: value for name, value in asked.items() if name not in _JUDGED_BY}
    item |= {name: now[name] for name in _JUDGED_BY if name in now}
    turns, current = asked.get("turns"), now.get("turns")
    if isinstance(turns, list) and isinstance(current, list) and len(turns) == len(current):
        item["turns"] = [_judged_item(*both) for both in zip(turns, current, strict=True)]
    return item


def _expectation(item: Mapping[str, Any]) -> dict[str, Any]:
    """What of an item or turn says what is expected of its answers."""
    kept = {name: item[name] for name in EXPECTATION if item.get(name) is not None}
    turns = item.get("turns")
    return kept | ({"turns": [_expectation(turn) for turn in turns]} if isinstance(turns, list) else {})


async def rejudge(work: Rejudging, writer: Writer) -> list[AnswerRow]:
    """Judge the answers, each stored in one transaction with its earlier scores kept; how they are now.

    CannotPlan says why not; an answer before the one it happened to is judged.
    """
    run, plan, project, terms = work.job.run, work.job.plan, work.job.project, work.job.terms
    asked = needed_judges(plan, project.settings)
    demand(project, replace(plan, targets=()), None, asked)
    lock = hold(run_lock(project.store, run.key)) if asked else nullcontext()
    with lock, Reader(project.store) as reader:
        budget = Budget(terms.max_cost)
        if asked:
            budget.of_run(run.id, reader, writer)
        largest = reader.largest_answers(run.id) if terms.max_cost is not None else {}
        opened_judges = {
            name: opened(config, "judge", budget, project.environment, project.root, terms.concurrency)
            for name, config in judge_configs(plan, project.settings).items()
            if config in asked
        }
        for priced in opened_judges.values():
            priced.largest_answer = largest.get(("judge", priced.config.name), 0)
        judges = Judges(opened_judges, _Ledger(run, reader, writer), terms.use_cache)
        try:
            for row in work.rows:
                await _rejudge_one(work, row, judges, reader, writer)
        except JudgingStopped as reason:
            raise CannotPlan(str(reason)) from None
        finally:
            for priced in opened_judges.values():
                await priced.target.close()
            writer.flush()
        return reader.rows(row.id for row in work.rows)


async def _rejudge_one(work: Rejudging, row: AnswerRow, judges: Judges, reader: Reader, writer: Writer) -> None:
    run, plan = work.job.run, work.job.plan
    item = plan.dataset.items[row.item].asking(row.repeat)
    said = {
        one.row.turn: one.answer
        for one in reader.told(run, reader.window(run.id, row.pos - row.turn, row.turn + 1))
        if one.answer is not None
    }
    current_answer.set(row.id)
    evidence = evidence_for(
        plan, item, row.turn, plan.asked_prompts[row.prompt], _chat(plan, row, said), said[row.turn]
    )
    judged = await judge(plan.evaluators(item, row.turn, judges.ask_of), evidence, plan, item, row.turn)
    if not writer.rejudge(row, run.scoring_pass, judged.records, judged.status, judged.score, work.expected):
        raise CannotPlan(f"the answer to {row.name} changed meanwhile; judge it again")


def _chat(plan: Plan, row: AnswerRow, said: Mapping[int, AnswerRecord]) -> Chat:
    """What the target was sent for an answer."""
    item = plan.dataset.items[row.item].asking(row.repeat)
    try:
        messages = [*opening_of(plan.dataset, item, plan.asked_prompts[row.prompt])]
    except TemplateError as problem:
        raise CannotPlan(str(problem)) from None
    for turn in range(row.turn + 1):
        messages += question_of(item.units[turn])
        if turn < row.turn and (before := said.get(turn)) is not None and before.text is not None:
            messages.append(assistant(before.text, before.tool_calls))
    return tuple(messages)


class _Ledger:
    """Notes the calls of judges with the run whose answer they judge, and keeps their replies in the cache."""

    def __init__(self, run: RunRow, reader: Reader, writer: Writer) -> None:
        self._run, self._reader, self._writer = run, reader, writer

    def called(self, record: CallRecord) -> None:
        """Note one attempt."""
        self._writer.call(record, self._run.id)

    def waiting(self, wait: Wait, answer: int | None) -> None:
        """Nobody watches it wait."""

    def changed(self, target: str, changes: Sequence[str]) -> None:
        """Note what is not sent as it stands."""
        self._writer.changed(self._run.id, target, changes)

    async def cached(self, key: str) -> AnswerRecord | None:
        """What is kept under a key."""
        kept = self._reader.cache_get(key)
        return kept.answer if kept else None

    async def keep(self, key: str, target: str, record: AnswerRecord) -> None:
        """Keep a judge's reply."""
        await self._writer.cache_put(CacheKey(key, str(RECIPE), target), record)
