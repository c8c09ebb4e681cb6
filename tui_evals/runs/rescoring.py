"""Judging the answers of a run again, as a difference to how they were judged: request, job and estimate."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import field, replace
from pathlib import Path
from typing import Any, Literal

from tui_evals.datasets.document import Document
from tui_evals.datasets.matrix import expanded, with_expected_texts
from tui_evals.datasets.model import Dataset, Item, Turn
from tui_evals.datasets.resolve import SYSTEM_DEFAULTS, EffectiveEvaluator, resolve_evaluators
from tui_evals.datasets.validate import CheckedDataset, dataset_of, document_of_data, rubric_of
from tui_evals.evaluators.base import Evaluator, JudgingStopped
from tui_evals.evaluators.verdicts import label_scale, parse_scale
from tui_evals.light_records import dataclass
from tui_evals.runs.activities import ShowWait, Storing, longest_wait
from tui_evals.runs.approving import demand, find_typed, missing_permissions
from tui_evals.runs.asking import RECIPE, PricedTarget, current_answer
from tui_evals.runs.errors import CannotPlan
from tui_evals.runs.estimating import Estimate, estimate_judging
from tui_evals.runs.execution import Job
from tui_evals.runs.judges import Judges, check_roles, judge_configs, needed_judges, opened, with_embedder
from tui_evals.runs.limits import Budget
from tui_evals.runs.plan import Plan
from tui_evals.runs.project import Project
from tui_evals.runs.readiness import check_judgeable
from tui_evals.runs.resuming import by_pass, stored_job
from tui_evals.runs.scoring import judge, stored_evidence
from tui_evals.runs.scoring_passes import is_named
from tui_evals.runs.start import dataset_to_ask
from tui_evals.runs.status import RECORDED
from tui_evals.store import run_figures
from tui_evals.store.connection import hold, run_lock
from tui_evals.store.database import StoreError
from tui_evals.store.details import read_details
from tui_evals.store.reader import Reader
from tui_evals.store.records import LIVE_STATUSES, AnswerRecord, AnswerRow, CallRecord, RunRow, Wait
from tui_evals.store.results import CacheKey
from tui_evals.store.rows import EXPECTATION
from tui_evals.store.writer import Writer
from tui_evals.targets.permissions import Permission
from tui_evals.text.templates import TemplateError

RuleName = Literal["threshold", "weight", "scale", "pass rule"]


@dataclass(frozen=True, slots=True)
class Rule:
    """One number by which scores become verdicts."""

    name: RuleName
    value: float
    key: str = ""
    """The evaluator it is of; empty for the pass rule, the share of its weights that an item needs."""
    label: str = ""
    """The label on a scale that has the value."""

    @property
    def words(self) -> tuple[str, str]:
        """The option of `tui-evals rescore` that gives it."""
        named = f"{self.key}:{self.label}" if self.label else self.key
        return f"--{self.name.replace(' ', '-')}", f"{named}={self.value!r}" if named else repr(self.value)


@dataclass(frozen=True, slots=True, kw_only=True)
class RescoreRequest:
    """How the answers of a run are to be judged again.

    With a dataset, evaluators or a judge, only what these change is judged. Without them, but with answers or
    evaluators named, those are judged again though nothing changed.
    """

    dataset: Document | None = None
    """The dataset whose evaluators and expectations hold now."""
    evaluators: Mapping[str, Mapping[str, Any]] | None = None
    """Evaluators with their options instead of the dataset's defaults."""
    judge: str | None = None
    without_judges: bool = False
    named: frozenset[str] = frozenset()
    """The evaluators that are to judge, by key or name; the scores of all others stay."""
    answers: frozenset[int] | None = None
    """The ids of the answers to judge; all others keep their scores."""
    rules: tuple[Rule, ...] = ()
    """Other thresholds, weights, values of labels or pass rule; the rest stays as it is now."""
    use_cache: bool = True
    """Whether to keep valid scores and cached replies."""
    allow_unjudged: bool = False
    own_evaluators: Mapping[str, type[Evaluator]] = field(default_factory=dict)
    """Evaluators given as code, by name."""

    @property
    def changes(self) -> bool:
        """Whether something else is to judge than does now."""
        given = self.dataset is not None or self.evaluators is not None or bool(self.rules)
        return given or bool(self.judge) or self.without_judges


def prepare_rescore(run: RunRow, request: RescoreRequest, reader: Reader, project: Project) -> Job:
    """A new scoring pass over answers of a run; CannotPlan, DatasetError or ConfigurationError says why not."""
    job = stored_job(run, reader, project, request.own_evaluators, only_judging=True)
    if request.answers is not None and request.changes:
        raise CannotPlan(
            "--only and --items judge some answers again by what judges the run. Anything else judges all: leave out "
            "--dataset, --evaluators, --judge and --without-judges, or --only and --items",
            "arguments",
        )
    by_what_counts = request.answers is not None or bool(request.named) or bool(request.rules)
    job = _as_judged_now(job, request, reader) if by_what_counts else job
    plan = _judging_plan(job.plan, request, run, reader, project, by_what_counts)
    if request.named:
        _check_named(plan, request.named, run)
    plan.check_evaluators()
    plan = with_embedder(plan, project.settings)
    plan.check_judges()
    check_roles(plan, project.settings)
    if not request.allow_unjudged:
        check_judgeable(plan)
    return replace(
        job,
        run=replace(job.run, staged_pass=0),
        plan=plan,
        terms=replace(job.terms, max_cost=None, use_cache=job.terms.use_cache and request.use_cache),
        judged=request.answers,
        named=request.named,
        anew=not request.use_cache or (by_what_counts and not request.changes),
        notes=_rubric_notes(job.plan, plan),
    )


def _rubric_notes(before: Plan, now: Plan) -> tuple[str, ...]:
    """Notes that ratings changed their meaning, because the whole dataset decides their rubric."""
    if before.rubric == now.rubric or now.without_judges:
        return ()
    known = {entry.key for entries, _ in before.evaluator_sets for entry in entries}
    entries = {entry.key: entry for entries, _ in now.evaluator_sets for entry in entries if entry.key in known}
    kinds = {key: now.registry.find(entry.evaluator) for key, entry in entries.items()}
    rated = [key for key, kind in kinds.items() if kind.levelled and "rubric" not in entries[key].settings]
    if not rated:
        return ()
    portable = "is one" if now.rubric == "m365" else "is not one"
    return (
        f"{', '.join(rated)}: rated by the rubric {now.rubric}, and by {before.rubric} before, because the dataset now "
        f"{portable} that runevals takes as it is. Their option rubric sets one",
    )


def _judging_plan(
    plan: Plan, request: RescoreRequest, run: RunRow, reader: Reader, project: Project, by_what_counts: bool
) -> Plan:
    """The plan with the dataset and the judge of a request."""
    if request.rules:
        if request.dataset is not None or request.evaluators is not None:
            raise CannotPlan(
                "give rules (--threshold, --weight, --scale, --pass-rule) or what judges instead (--dataset, "
                "--evaluators), not both",
                "arguments",
            )
        _check_named(plan, [rule.key for rule in request.rules if rule.key], run)
        _check_labels(plan, [rule for rule in request.rules if rule.name == "scale"])
        plan = replace(plan, dataset=with_rules(plan.dataset, request.rules))
        _check_options(plan, request.rules)
    if request.dataset is not None or request.evaluators is not None:
        judging = _judging_dataset(run, reader, plan, request)
        dataset = judging.dataset
        if request.named:
            dataset = with_named(plan.dataset, dataset, request.named)
        plan = replace(plan, dataset=dataset, rubric=rubric_of(judging.portable))
    word = request.judge or (None if by_what_counts else project.settings.judge)
    if word:
        plan = replace(plan, judge=find_typed(word, project.settings))
    return replace(plan, without_judges=request.without_judges or (plan.without_judges and not request.judge))


def judging_now(run: RunRow, reader: Reader, project: Project) -> Plan:
    """The plan that currently judges the answers of a run."""
    return _as_judged_now(stored_job(run, reader, project), RescoreRequest(), reader).plan


def _as_judged_now(job: Job, request: RescoreRequest, reader: Reader) -> Job:
    """A run by what judges it now, which a later pass may have changed."""
    passes = reader.passes(job.run.id)
    if job.run.scoring_pass < 2:
        return job
    terms = job.terms
    judge = find_typed(request.judge, job.project.settings) if request.judge else None
    return replace(by_pass(job, passes[-1].config, reader, judge), terms=terms)


def _judging_dataset(run: RunRow, reader: Reader, plan: Plan, request: RescoreRequest) -> CheckedDataset:
    """The dataset that was asked, with the evaluators that are to judge it now."""
    dataset = request.dataset
    if dataset is not None and request.evaluators is not None:
        raise CannotPlan("give --dataset or --evaluators, not both", "arguments")
    if dataset is None:
        data = {**reader.snapshot(run.snapshot), "default_evaluators": dict(request.evaluators or {})}
        dataset = document_of_data(data, Path(run.source))
    judging = dataset_to_ask(dataset, expanded(dataset)[0], plan.registry)
    if [len(item.units) for item in plan.dataset.items] != [len(item.units) for item in judging.dataset.items]:
        raise CannotPlan(
            "the dataset has other items or turns than the run, so its evaluators do not fit its answers", "arguments"
        )
    return judging


def _check_named(plan: Plan, names: Collection[str], run: RunRow) -> None:
    """CannotPlan where an evaluator was named that judges nothing here."""
    entries = {entry.key: entry for entries, _ in plan.evaluator_sets for entry in entries}
    for name in sorted(names):
        if not any(is_named(entry, (name,)) for entry in entries.values()):
            known = ", ".join(entries) or "none"
            raise CannotPlan(f"no evaluator {name!r} judges {run.key}. Its evaluators: {known}", "arguments")


def _check_labels(plan: Plan, rules: Iterable[Rule]) -> None:
    """CannotPlan where a scale was named that no dataset declares with that label."""
    for rule in rules:
        entries = {entry.key: entry for entries, _ in plan.evaluator_sets for entry in entries}
        named = [entry for entry in entries.values() if is_named(entry, (rule.key,))]
        judging = [plan.assigned(entry, lambda _: None).evaluator for entry in named]
        scales = [label_scale(type(evaluator), evaluator.options) for evaluator in judging]
        labels = [label for scale in scales if scale is not None for label in scale.best_first]
        if rule.label not in labels:
            known = f"Its labels: {', '.join(labels)}" if labels else "The dataset declares no scale of labels for it"
            raise CannotPlan(f"no label {rule.label!r} on the scale of {rule.key}. {known}", "arguments")


def _check_options(plan: Plan, rules: Iterable[Rule]) -> None:
    """CannotPlan where an evaluator takes no such threshold, weight or scale."""
    from pydantic import ValidationError

    from tui_evals.evaluators.rows import options_problem

    entries = {(entry.key, repr(entry.options)): entry for entries, _ in plan.evaluator_sets for entry in entries}
    for entry in entries.values():
        if any(rule.key and is_named(entry, (rule.key,)) for rule in rules):
            try:
                plan.assigned(entry, lambda _: None)
            except ValidationError as problem:
                raise CannotPlan(f"{entry.key}: {options_problem(problem)}", "arguments") from None


def with_named(before: Dataset, now: Dataset, names: Collection[str]) -> Dataset:
    """The dataset `before` with the evaluators in `names` from `now`."""

    def merged(unit_before: Item | Turn, unit: Item | Turn) -> dict[str, Any]:
        entries = [one for one in resolve_evaluators(before, unit_before) if not is_named(one, names)]
        entries += [one for one in resolve_evaluators(now, unit) if is_named(one, names)]
        return _options_by_key(entries)

    none = Turn(prompt="-")
    defaults = merged(none, none)

    def judged_by(unit_before: Item | Turn, unit: Item | Turn) -> dict[str, Any]:
        own = merged(unit_before, unit)
        return {} if own == defaults else {"evaluators": own, "evaluators_mode": "replace"}

    items = []
    for item_before, item in zip(before.items, now.items, strict=True):
        changes = judged_by(item_before, item)
        if item.turns is not None and item_before.turns is not None:
            pairs = zip(item_before.turns, item.turns, strict=True)
            changes = {"turns": [_judged_by(turn, judged_by(turn_before, turn)) for turn_before, turn in pairs]}
        items.append(_judged_by(item, changes))
    return now.model_copy(update={"default_evaluators": defaults, "items": items})


def with_rules(dataset: Dataset, rules: Iterable[Rule]) -> Dataset:
    """A dataset with other thresholds, weights, values of labels or pass rule, wherever they are set."""
    for rule in rules:
        if rule.name == "pass rule":
            items = [_judged_by(item, _own(item) | {"threshold": rule.value}) for item in dataset.items]
            dataset = dataset.model_copy(update={"items": items})
            continue
        base = SYSTEM_DEFAULTS if dataset.default_evaluators is None else dataset.default_evaluators
        items = []
        for item in dataset.items:
            changes = _ruled(item, rule)
            if item.turns is not None:
                changes["turns"] = [_judged_by(turn, _ruled(turn, rule)) for turn in item.turns]
            items.append(_judged_by(item, changes))
        update: dict[str, Any] = {"items": items}
        if any(_is_of(rule, key, options) for key, options in base.items()):
            update["default_evaluators"] = _with_rule(base, rule)
        dataset = dataset.model_copy(update=update)
    return dataset


def _own(unit: Item | Turn) -> dict[str, Any]:
    return {"evaluators": unit.evaluators, "evaluators_mode": unit.evaluators_mode}


def _ruled(unit: Item | Turn, rule: Rule) -> dict[str, Any]:
    return _own(unit) if unit.evaluators is None else _own(unit) | {"evaluators": _with_rule(unit.evaluators, rule)}


def _with_rule(evaluators: Mapping[str, Mapping[str, Any]], rule: Rule) -> dict[str, Any]:
    return {
        key: _options_by(rule, options) if _is_of(rule, key, options) else dict(options)
        for key, options in evaluators.items()
    }


def _options_by(rule: Rule, options: Mapping[str, Any]) -> dict[str, Any]:
    if rule.name != "scale":
        return {**options, rule.name: rule.value}
    declared = options.get("scale")
    labels = declared if isinstance(declared, Mapping) else {} if declared is None else parse_scale(declared).labels
    return {**options, "scale": {**labels, rule.label: rule.value}} if rule.label in labels else dict(options)


def _is_of(rule: Rule, key: str, options: Mapping[str, Any]) -> bool:
    return rule.key in (key, options.get("type"))


def _judged_by(unit: Any, changes: Mapping[str, Any]) -> Any:
    kept = {name: value for name, value in unit.__dict__.items() if name not in ("evaluators", "evaluators_mode")}
    return type(unit).model_construct(**{**kept, **changes})


def _options_by_key(entries: Collection[EffectiveEvaluator]) -> dict[str, Any]:
    return {entry.key: dict(entry.options) for entry in entries}


def estimate_rescore(job: Job, reader: Reader) -> Estimate:
    """The estimate of rescoring."""
    rows = reader.all_rows(job.run.id) if job.judged is None else iter(reader.rows(job.judged))
    use_cache, concurrency = job.terms.use_cache, job.terms.concurrency
    asked = job.plan, job.project, job.run, rows, reader, job.kept(reader)
    estimate = estimate_judging(*asked, use_cache=use_cache, concurrency=concurrency)
    return replace(estimate, cautions=(*estimate.cautions, *job.notes))


_JUDGED_BY = (*EXPECTATION, "evaluators_mode", "context", "response_format", "extensions")
"""The fields of an item or turn that judging reads; all others stay as they were asked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rejudging:
    """Answers to one item with their current evaluators; nothing is judged yet."""

    job: Job
    rows: tuple[AnswerRow, ...]
    expected: Mapping[str, Any] | None
    """The new expectation, if it differs from that of the run."""

    def estimate(self, reader: Reader) -> Estimate:
        """Its calls, and their possible cost."""
        return estimate_rescore(replace(self.job, judged=frozenset(row.id for row in self.rows)), reader)

    def missing_permissions(self) -> list[Permission]:
        """Its missing permissions; no target is asked."""
        plan, project = self.job.plan, self.job.project
        return missing_permissions(project, plan, None, needed_judges(plan, project.settings))


def prepare_rejudging(
    run: RunRow,
    rows: Sequence[AnswerRow],
    reader: Reader,
    project: Project,
    dataset: Document | None = None,
    place: int | None = None,
) -> Rejudging:
    """Find what judges answers to one item: the run's own, or a dataset in which the item now is at a `place`.

    CannotPlan or DatasetError says why they cannot be judged.
    """
    _check_rows(run, rows)
    passes = reader.passes(run.id)
    job = by_pass(stored_job(run, reader, project, only_judging=True), passes[-1].config, reader)
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
    return Rejudging(job=replace(job, plan=plan, anew=dataset is None), rows=tuple(rows), expected=expected)


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
    now = with_expected_texts(items[place]) if place < len(items) and isinstance(items[place], dict) else {}
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
    """An item or turn as it was asked, with the judging fields of `now`."""
    item = {name: value for name, value in asked.items() if name not in _JUDGED_BY}
    item |= {name: now[name] for name in _JUDGED_BY if name in now}
    turns, current = asked.get("turns"), now.get("turns")
    if isinstance(turns, list) and isinstance(current, list) and len(turns) == len(current):
        item["turns"] = [_judged_item(*both) for both in zip(turns, current, strict=True)]
    return item


def _expectation(item: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of an item or turn that hold its expectation."""
    kept = {name: item[name] for name in EXPECTATION if item.get(name) is not None}
    turns = item.get("turns")
    return kept | ({"turns": [_expectation(turn) for turn in turns]} if isinstance(turns, list) else {})


class NotStored(StoreError):
    """The store took no more rows; paid results are kept, and the same command continues."""


class _Questions:
    """The questions to judges, which wait while nothing can be stored."""

    def __init__(self, judges: Collection[PricedTarget]) -> None:
        self._gates = [judge.room.gate for judge in judges]

    def hold_asking(self) -> None:
        """Begin no question."""
        for gate in self._gates:
            gate.hold(True)

    def go_on_asking(self) -> None:
        """Begin questions again."""
        for gate in self._gates:
            gate.hold(False)

    def stop(self) -> None:
        """Begin no question any more, and give up what waits for its turn."""
        for gate in self._gates:
            gate.halt()


async def rejudge(work: Rejudging, writer: Writer, show: ShowWait = lambda wait, is_over: None) -> list[AnswerRow]:
    """Judge the answers, each stored in one transaction with its earlier scores; returns their new rows.

    CannotPlan says why not, after the answers before the failed one were judged. While the store is not writable
    nothing is asked, and `show` is called; NotStored says where the results are in the end.
    """
    run, plan, project, terms = work.job.run, work.job.plan, work.job.project, work.job.terms
    asked = needed_judges(plan, project.settings)
    demand(project, replace(plan, targets=()), None, asked)
    held = hold(run_lock(project.store, run.key)) if asked else nullcontext()
    with held as lock, Reader(project.store) as reader:
        if asked:
            await writer.take_spilled(run)
        budget = Budget(terms.max_cost)
        if asked:
            budget.of_run(run.id, reader, writer)
        largest = run_figures.largest_answers(reader, run.id) if terms.max_cost is not None else {}
        opened_judges = {
            name: opened(config, "judge", budget, project.environment, project.root, terms.concurrency)
            for name, config in judge_configs(plan, project.settings).items()
            if config in asked
        }
        for priced in opened_judges.values():
            priced.largest_answer = largest.get(("judge", priced.config.name), 0)
        judges = Judges(opened_judges, _Ledger(run, reader, writer), terms.use_cache)
        storing = Storing(writer, project.store, run, lock, longest_wait(asked))
        storing.watch(_Questions(opened_judges.values()), show)
        try:
            for row in work.rows:
                await _rejudge_one(work, row, judges, reader, writer)
        except (JudgingStopped, StoreError) as reason:
            if storing.is_in_trouble or storing.is_lost:
                storing.give_up()
                raise NotStored(await storing.conclude()) from None
            raise (CannotPlan(str(reason)) if isinstance(reason, JudgingStopped) else reason) from None
        finally:
            if storing.is_in_trouble and not storing.is_spilled:  # a caller does not want to wait
                storing.give_up()
                await storing.conclude()
            for priced in opened_judges.values():
                await priced.target.close()
        writer.flush()
        return reader.rows(row.id for row in work.rows)


async def _rejudge_one(work: Rejudging, row: AnswerRow, judges: Judges, reader: Reader, writer: Writer) -> None:
    run, plan = work.job.run, work.job.plan
    item = plan.dataset.items[row.item].asking(row.repeat)
    known = {
        one.row.turn: one.answer
        for one in read_details(reader, run, reader.window(run.id, row.pos - row.turn, row.turn + 1))
        if one.answer is not None
    }
    current_answer.set(row.id)
    try:
        evidence = stored_evidence(plan, row, known)
    except TemplateError as problem:
        raise CannotPlan(str(problem)) from None
    kept = work.job.kept(reader)
    held = () if kept is None else kept.of([row]).get(row.id, ())
    # Scores of this pass have no origin.
    own = [replace(record, origin=0) if record.origin == run.scoring_pass else record for record in held]
    judged = await judge(plan.evaluators(item, row.turn, judges.ask_of), evidence, plan, item, row.turn, own)
    if not await writer.rejudge(row, run.scoring_pass, judged.records, judged.status, judged.score, work.expected):
        raise CannotPlan(f"the answer to {row.name} changed while it was judged; judge it again")


class _Ledger:
    """Notes the calls of judges with the run whose answer they judge, and keeps their replies in the cache."""

    def __init__(self, run: RunRow, reader: Reader, writer: Writer) -> None:
        self._run, self._reader, self._writer = run, reader, writer

    def called(self, record: CallRecord) -> None:
        """Note one attempt."""
        self._writer.call(record, self._run.id)

    def waiting(self, wait: Wait, answer: int | None) -> None:
        """Not shown."""

    def changed(self, target: str, changes: Sequence[str]) -> None:
        """Record changes to the requests of a target."""
        self._writer.changed(self._run.id, target, changes)

    async def cached(self, key: str) -> AnswerRecord | None:
        """The cached answer of a key."""
        kept = self._reader.cache_get(key)
        return kept.answer if kept else None

    async def keep(self, key: str, target: str, record: AnswerRecord) -> None:
        """Keep a judge's reply."""
        await self._writer.cache_put(CacheKey(key, str(RECIPE), target), record)
