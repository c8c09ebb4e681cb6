"""The one door to a run for every face: RunRequest → Plan → RunRow, its execution, and the RunOutcome at its end."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

from tui_evals.datasets.attachments import with_pinned_files
from tui_evals.datasets.document import Document
from tui_evals.datasets.matrix import expanded
from tui_evals.datasets.model import Dataset
from tui_evals.datasets.paths import DatasetError, Problem
from tui_evals.datasets.prompts import prompt_of
from tui_evals.datasets.validate import CheckedDataset, checked_dataset, rubric_of
from tui_evals.evaluators.base import Evaluator
from tui_evals.evaluators.registry import Registry, with_prompt_metrics
from tui_evals.files import Calls, fit_calls
from tui_evals.runs.engine import STOPPED, Engine, Outcome, sign_ended
from tui_evals.runs.errors import CannotPlan
from tui_evals.runs.estimating import Estimate, estimate_run
from tui_evals.runs.evaluator_checks import check_judgeable
from tui_evals.runs.executors.cluster.terms import ClusterTerms, saved_terms
from tui_evals.runs.gate_options import Gates
from tui_evals.runs.gates import GateResults, check_gates
from tui_evals.runs.judges import check_roles, judge_configs, needed_judges, with_embedder
from tui_evals.runs.limits import Budget
from tui_evals.runs.plan import Plan
from tui_evals.runs.project import Project, note_begun
from tui_evals.runs.prompting import kept_prompt, prompt_kept, prompts_from, unfilled_items
from tui_evals.runs.readiness import check_can_begin
from tui_evals.runs.scoring_passes import KeptScores, judging_config, pass_config
from tui_evals.runs.selection import ItemSelection, chosen_positions, find_run, select_items
from tui_evals.runs.store_trouble import Storing, longest_wait
from tui_evals.runs.target_opening import (
    SOURCE,
    calls_at_once,
    demand_price,
    items_of,
    judge_label,
    named_identity,
    opened,
    settings_of_run,
    suggested,
)
from tui_evals.runs.tools import open_toolbox
from tui_evals.store.database import StoreError
from tui_evals.store.reader import Reader
from tui_evals.store.records import LIVE_STATUSES, FailureCause, NewRun, RunRow, StopCode, Totals
from tui_evals.store.repair import LOST
from tui_evals.store.runlock import hold, run_lock
from tui_evals.store.upkeep import keep_backup
from tui_evals.store.writer import Writer
from tui_evals.targets.base import ConfigurationError, Target, TargetConfig
from tui_evals.targets.config import Settings, find_target
from tui_evals.targets.opening import Later, identity_changes, open_target
from tui_evals.targets.permissions import NotApproved, Permission, destinations
from tui_evals.targets.sweep import Sweep, base_name, swept
from tui_evals.text.safe import safe_line

from .approving import agree_to_typed, demand, find_typed, missing_permissions
from .asking import PricedTarget
from .availability import Room
from .status import DESTINATIONS, FILES, GENERATION, METRICS, RECORDED, RUBRIC, UNJUDGED_TOO, exit_code_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """On what terms a run is executed."""

    concurrency: int | None = None
    max_cost: float | None = None
    use_cache: bool = True
    cluster: ClusterTerms | None = None
    """The cluster that executes it, where this process does not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRequest:
    """What somebody wants to run; what is left open is taken from the project's configuration."""

    document: Document
    source: str
    """Where the items come from, as baselines and lists of runs name it."""
    name: str
    tags: tuple[str, ...] = ()
    suite: str = ""
    parent: str | None = None
    """The run that this one asks again, as a person names it."""
    targets: tuple[str | TargetConfig, ...] = ()
    sweep: Sweep = field(default_factory=dict)
    """Parameters whose values every target takes in turn, each as a column of its own."""
    judge: str | TargetConfig | None = None
    without_judges: bool = False
    evaluators: Mapping[str, Mapping[str, Any]] | None = None
    """Evaluators with their options instead of the dataset's defaults."""
    own_evaluators: Mapping[str, type[Evaluator]] = field(default_factory=dict)
    """Evaluators given as code, by name."""
    ready: Mapping[str, Target] = field(default_factory=dict)
    """Targets by name that need not be opened, such as functions at hand."""
    prompts: tuple[Path, ...] = ()
    repeats: int | None = None
    items: ItemSelection | frozenset[int] | None = None
    concurrency: int | None = None
    max_cost: float | None = None
    use_cache: bool = True
    cluster: ClusterTerms | None = None
    allow_unjudged: bool = False
    """Whether to run though some evaluators can judge nothing here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedRun:
    """A request that can be planned: everything is found and checked, nothing stored and nothing asked."""

    project: Project
    plan: Plan
    terms: Terms
    document: Mapping[str, Any]
    about: Mapping[str, Any]
    """Name, source, tags, suite, parent and metrics folder of the run to be."""
    ready: Mapping[str, Target] = field(default_factory=dict)
    allow_unjudged: bool = False
    """Whether evaluators that cannot judge keep it from nothing."""
    typed: bool = True
    """Whether somebody asked for it here; a run that follows another takes its terms from the store."""

    def missing_permissions(self) -> list[Permission]:
        """What it would do that nobody has agreed to yet."""
        cluster = None if self.typed else self.terms.cluster
        judges = needed_judges(self.plan, self.project.settings)
        return missing_permissions(self.project, self.plan, cluster, judges, judging=not self.allow_unjudged)

    def estimate(self) -> Estimate:
        """The calls it takes, and what they may cost, by earlier answers where there are some."""
        terms = self.terms
        return estimate_run(
            self.plan,
            self.project,
            self.about["source"],
            self.document,
            use_cache=terms.use_cache,
            max_cost=terms.max_cost,
            concurrency=terms.concurrency,
        )

    @property
    def destinations(self) -> Mapping[str, Mapping[str, str | None]]:
        """Where its targets and judges send questions and keys, by name."""
        return _destinations(self.plan, self.project.settings, self.project.environment, self.ready)

    def store(self, writer: Writer, *, apart: bool = False) -> Job:
        """Commit the plan once it can begin: from now on the run exists, whole, with every answer pending.

        NotApproved says what it would do that nobody has agreed to, and ConfigurationError what keeps it from
        beginning; then nothing is stored. What was typed is remembered as a yes. With `apart` another process will
        execute it.
        """
        if missing := self.missing_permissions():
            raise NotApproved(missing, self.project.root)
        if self.typed:
            asked = [config for config in self.plan.targets if config.name not in self.ready]
            judges = needed_judges(self.plan, self.project.settings)
            agree_to_typed((*asked, *judges), self.project.environment, self.project.root, self.terms.cluster)
        opened_targets = check_can_begin(
            self.plan,
            self.project,
            ready=self.ready,
            max_cost=self.terms.max_cost,
            use_cache=self.terms.use_cache,
            elsewhere=self.terms.cluster is not None,
            apart=apart,
        )
        about = {**self.about, "destinations": self.destinations, "allow_unjudged": self.allow_unjudged}
        about["settings"] = self.project.settings
        run = store_plan(self.plan, self.document, self.terms, writer, self.project.environment, **about)
        note_begun(self.project.store, run)
        ready = {**self.ready, **opened_targets}
        return Job(run=run, plan=self.plan, terms=self.terms, project=self.project, ready=ready)


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A stored run with all that executing it takes."""

    run: RunRow
    plan: Plan
    terms: Terms
    project: Project
    ready: Mapping[str, Target] = field(default_factory=dict)
    judged: frozenset[int] | None = None
    """The answers that are to be judged again, by their ids; None for all."""
    left_out: frozenset[int] = frozenset()
    """The numbers of the targets that are not asked this time, whose answers stay pending."""
    judges_left_out: frozenset[str] = frozenset()
    """The judges that are not asked this time, whose verdicts stay pending."""
    named: frozenset[str] = frozenset()
    """The evaluators that are to judge again; none for all."""
    anew: bool = False
    """Whether they judge again what they judged alike before."""
    notes: tuple[str, ...] = ()
    """What a person should know before it is judged again."""

    def kept(self, reader: Reader) -> KeptScores | None:
        """The scores that judging again leaves as they are; None where all are made again."""
        if self.anew and not self.named:
            return None
        return KeptScores(self.run, self.plan, self.project, reader, named=self.named, anew=self.anew)

    @property
    def calls_at_once(self) -> Mapping[str, Calls]:
        """The calls that it would have in flight, if the system allows so many open files."""
        judges = needed_judges(self.plan, self.project.settings)
        return calls_at_once(self.plan.targets, judges, self.terms.concurrency)

    def missing_permissions(self, *, judging: bool = True) -> list[Permission]:
        """What executing it would do that nobody has agreed to yet; evaluators count where it depends on them."""
        judges = needed_judges(self.plan, self.project.settings)
        return missing_permissions(self.project, self.plan, self.terms.cluster, judges, judging=judging)


def _destinations(
    plan: Plan, settings: Settings, environment: Mapping[str, str], ready: Mapping[str, Target]
) -> dict[str, dict[str, str | None]]:
    """Where each target sends what, once for all that is varied of it."""
    asked = [config for config in (*plan.targets, *needed_judges(plan, settings)) if config.name not in ready]
    return destinations((replace(config, name=base_name(config.name)) for config in asked), environment)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOutcome:
    """How an execution ended, for every face to print."""

    run: RunRow
    """The run as it is stored now."""
    finished: bool
    message: str
    """Why it is not finished."""
    code: StopCode
    totals: Totals
    by_column: Mapping[tuple[int, int], Totals]
    causes: tuple[FailureCause, ...]
    """Why answers are missing or could not be judged, the most frequent first."""
    gates: GateResults

    @property
    def exit_code(self) -> int:
        """The exit code of a command that executed the run."""
        if not self.finished:
            return exit_code_of(self.code)
        return 0 if self.gates.met else 1


def prepare(request: RunRequest, project: Project) -> PreparedRun:
    """Find and check everything a run needs; CannotPlan, DatasetError or ConfigurationError says what is missing."""
    files = request.prompts or tuple(filter(None, [prompt_of(request.document)]))
    project = project.with_prompt(files[0] if files else None)
    document = request.document
    if request.evaluators is not None:
        document = replace(document, data={**document.data, "default_evaluators": dict(request.evaluators)})
    document, unpinned = with_pinned_files(document), document
    asked, origins = expanded(document)
    settings, defaults = project.settings, project.settings.run
    words = request.targets or tuple(defaults.targets)
    judge = request.judge or settings.judge
    if request.source.startswith(SOURCE):
        named = [word for word in words if isinstance(word, str)]
        settings = suggested(settings, document.data, named, judge if isinstance(judge, str) else None, "")
        project = replace(project, settings=settings)
    registry = project.registry
    if request.own_evaluators:
        registry = replace(registry, by_name={**registry.by_name, **request.own_evaluators})
    checked = dataset_to_ask(document, asked, registry)
    plan = Plan(
        dataset=checked.dataset,
        rubric=rubric_of(checked.portable),
        targets=swept(_target_configs(words, settings), request.sweep),
        registry=registry,
        judge=_target_configs([judge], settings)[0] if judge else None,
        without_judges=request.without_judges,
        prompts=prompts_from(files),
        repeats=request.repeats or defaults.repeats or 1,
    )
    plan = replace(plan, only=_selected_positions(plan, request.items, origins, project))
    _check_asks(plan)
    plan.check_evaluators()
    plan = with_embedder(plan, settings)
    plan.check_judges()
    check_roles(plan, settings)
    _check_values(document, plan, origins)
    if not request.allow_unjudged and (request.cluster is None or request.cluster.word.startswith("local")):
        check_judgeable(plan)
    terms = Terms(
        concurrency=request.concurrency or defaults.concurrency,
        max_cost=request.max_cost or defaults.max_cost,
        use_cache=request.use_cache,
        cluster=request.cluster,
    )
    metrics = os.path.relpath(files[0].resolve().parent, project.root) if files else None
    about = {
        "name": safe_line(request.name),
        "source": request.source,
        "tags": request.tags,
        "suite": request.suite,
        "parent": _parent_id(request.parent, project),
        "metrics": metrics,
        "files": None if document is unpinned else _folder_of(document, project),
    }
    return PreparedRun(
        project=project,
        plan=plan,
        terms=terms,
        document=asked.data,
        about=about,
        ready=request.ready,
        allow_unjudged=request.allow_unjudged,
    )


def _folder_of(document: Document, project: Project) -> str:
    return os.path.relpath(document.file.absolute().resolve().parent, project.root.resolve())


_NAMED_ITEMS = 10


def dataset_to_ask(document: Document, asked: Document, registry: Registry) -> CheckedDataset:
    """The typed dataset of a run; what is wrong is said of the file, before its matrix is expanded."""
    checked = checked_dataset(document, registry.catalogue, registry.own)
    return checked if asked is document else replace(checked, dataset=Dataset.model_validate(asked.data))


def _check_asks(plan: Plan) -> None:
    """CannotPlan when items ask nothing by themselves and there is no prompt that their variables fill in."""
    if plan.prompts or plan.dataset.messages:
        return
    numbers = range(len(plan.dataset.items)) if plan.only is None else sorted(plan.only)
    items = ((number, plan.dataset.items[number]) for number in numbers)
    bare = [number for number, item in items if not (item.prompt or item.turns or item.user or item.messages)]
    if bare:
        more = f" and {len(bare) - 1:,} more" if len(bare) > 1 else ""
        raise CannotPlan(
            f"{plan.name_of(bare[0])}{more} of the dataset: variables only, and no prompt for them to fill in. Name "
            "one with --prompt FILE (or under prompts in the run form), or as prompt_file of the dataset"
        )


def _check_values(document: Document, plan: Plan, origins: Sequence[int]) -> None:
    """DatasetError when a prompt under test needs a value that an item does not have: nothing is paid for it."""
    problems = unfilled_items(document, plan.dataset, plan.asked_prompts, plan.only, origins)
    if not problems:
        return
    named, more = problems[:_NAMED_ITEMS], len(problems) - _NAMED_ITEMS
    rest = [Problem(f"… and {more:,} more like these; `tui-evals validate` lists them all")] if more > 0 else []
    raise DatasetError(str(document.file), [*named, *rest])


def _selected_positions(
    plan: Plan, items: ItemSelection | frozenset[int] | None, origins: Sequence[int], project: Project
) -> frozenset[int] | None:
    """The positions among what is asked; a person means positions in the file, whose items may stand for several."""
    if isinstance(items, ItemSelection) and items.items is None:
        if not items.run:
            return select_items(plan, items, None)
        with Reader(project.store) as reader:
            return select_items(plan, items, reader)
    if isinstance(items, ItemSelection):
        items = chosen_positions(items, max(origins) + 1)
    return items and frozenset(number for number, origin in enumerate(origins) if origin in items)


def _parent_id(word: str | None, project: Project) -> int | None:
    if word is None:
        return None
    with Reader(project.store) as reader:
        return find_run(reader, word).id


def _target_configs(words: Sequence[str | TargetConfig], settings: Settings) -> tuple[TargetConfig, ...]:
    if not words:
        raise ConfigurationError(
            "no target is named. Name what answers with --target: a model such as openai/gpt-4o-mini, a section of "
            ".evals/config.toml, replay:FILE for answers you have, or demo to try tui-evals without a model; in Python "
            "a function answers too"
        )
    return tuple(find_typed(word, settings) if isinstance(word, str) else word for word in words)


def stored_job(
    run: RunRow, reader: Reader, project: Project, own_evaluators: Mapping[str, type[Evaluator]] | None = None
) -> Job:
    """A stored run ready to be executed again; CannotPlan or ConfigurationError says what has changed since.

    `own_evaluators` are those that are given as code.
    """
    if LOST in run.config:
        raise CannotPlan(
            f"{run.config[LOST]:,} answers of {run.key} were lost with a damaged store, which no longer says what was "
            f"asked. Start a new run: `tui-evals run {run.source}`"
        )
    settings = settings_of_run(run, reader, project.settings)
    project = replace(project, settings=settings)
    registry = with_prompt_metrics(project.registry, metrics_folder(run, reader, project.root))
    registry = replace(registry, by_name={**registry.by_name, **(own_evaluators or {})})
    plan = stored_plan(run, reader, settings, project.environment, registry)
    plan.check_evaluators()
    return Job(run=run, plan=plan, terms=terms_of(run), project=project)


def demand_errors(reader: Reader, run: RunRow) -> None:
    """CannotPlan where the errors of a run cannot be asked again in place."""
    if run.status in LIVE_STATUSES:
        raise CannotPlan(
            f"{run.key} is {run.status} where it is executed; its errors can be asked again once it is over"
        )
    if RECORDED in run.config:
        raise CannotPlan(f"{run.key} was made elsewhere, so that none of its targets can be asked here")
    if run.staged_pass:
        raise CannotPlan(f"{run.key} is being judged again; `tui-evals resume {run.key}` ends that first")
    if run.status == "finished" and not reader.errors(run.id):
        raise CannotPlan(f"{run.key} is finished and has no errors; nothing was asked")


def with_limit(job: Job, max_cost: float | None, writer: Writer) -> Job:
    """The job with another limit to what it may spend, which holds whenever the run goes on; None leaves it.

    ConfigurationError says where a price is missing, and then the limit is as it was.
    """
    if max_cost is None:
        return job
    for asked in (*job.plan.targets, *needed_judges(job.plan, job.project.settings)):
        demand_price(asked, max_cost)
    config = {**job.run.config, "terms": {**job.run.config["terms"], "max_cost": max_cost}}
    writer.run_config(job.run.id, config)
    return replace(job, run=replace(job.run, config=config), terms=replace(job.terms, max_cost=max_cost))


def rerun_items(
    parent: RunRow, items: Iterable[int], reader: Reader, project: Project, *, allow_unjudged: bool = False
) -> PreparedRun:
    """A new run of some items of another."""
    job = stored_job(parent, reader, project)
    plan = replace(job.plan, only=frozenset(items))
    if not allow_unjudged:
        check_judgeable(plan)
    return PreparedRun(
        project=job.project,
        plan=plan,
        terms=replace(job.terms, use_cache=False),
        document=reader.snapshot(parent.snapshot),
        about={
            "name": f"{parent.name} again",
            "source": parent.source,
            "tags": parent.tags,
            "parent": parent.id,
            "metrics": parent.config.get(METRICS),
            "files": parent.config.get(FILES),
        },
        typed=False,
        allow_unjudged=allow_unjudged,
    )


def metrics_folder(run: RunRow, reader: Reader, root: Path) -> Path | None:
    """The folder of the prompt under test of a run: as it was noted, else as its dataset names the prompt."""
    if METRICS in run.config:
        return root / str(run.config[METRICS])
    prompt = reader.snapshot(run.snapshot).get("prompt_file")
    return (root / run.source).parent.joinpath(prompt).parent if isinstance(prompt, str) else None


Companion = Callable[[Engine, "asyncio.Task[Outcome]"], Coroutine[Any, Any, None]]
"""What a face does while a run is executed, such as showing how it goes; it ends when the task does."""


async def execute(
    job: Job,
    writer: Writer,
    *,
    again: bool = False,
    errors: bool = False,
    gates: Gates | None = None,
    companion: Companion | None = None,
) -> RunOutcome:
    """Execute a stored run here, or judge its answers `again`; the store says why where it does not begin or end.

    With `errors` what ended as one is asked or judged again in place.
    """
    run, path = job.run, job.project.store
    with hold(run_lock(path, run.key)) as lock, Reader(path) as reader:
        await writer.take_spilled(run)
        writer.control(run.id, "")
        asked = (*job.plan.targets, *needed_judges(job.plan, job.project.settings))
        storing = Storing(writer, path, run, lock, longest_wait(asked))
        found = reader.unsigned_answers(run)
        try:
            engine = assemble(job, writer, reader, storing, again=again)
        except ConfigurationError as problem:
            note_refusal(writer, run, problem)
            raise
        if errors:
            writer.reopen_errors(run.id)
        work = asyncio.create_task(engine.execute(again=again))
        beside_it = asyncio.create_task(companion(engine, work)) if companion is not None else None
        try:
            outcome = await work
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            outcome = STOPPED
        if beside_it is not None:
            await beside_it
        if storing.is_overwritten:
            return _outcome_of_lost_store(run, path, await storing.conclude())
        old_rules = job.project.settings.run.gates == "0.2"
        ended = _run_outcome(reader, run, outcome, replace(gates or Gates(), rules_of_0_2=old_rules))
        if ended.run.verdict or run.verdict:
            await writer.patient_gates(run.id, ended.run.gates, ended.run.verdict)
        if not storing.is_lost:
            await asyncio.to_thread(sign_ended, writer, run, outcome.finished, again, found)
        if ended.finished:
            await asyncio.to_thread(keep_backup, path)
        if storing.is_lost:
            message = await storing.conclude()
            stored = replace(ended.run, status="interrupted", message=message, code="store")
            return replace(ended, run=stored, finished=False, message=message, code="store")
    return ended


def _outcome_of_lost_store(run: RunRow, path: Path, message: str) -> RunOutcome:
    """How a run ended whose store was overwritten, in the numbers of what the store holds now."""
    code: StopCode = "store"
    totals: Totals = Totals.of_pending(run.total)
    by_column: Mapping[tuple[int, int], Totals] = {}
    with suppress(StoreError), Reader(path) as reader:  # one that cannot be read may be repaired
        if reader.knows(run):
            totals, by_column = reader.totals(run.id), reader.totals_by(run.id, "column")
        else:
            code = "lost"
    return RunOutcome(
        run=replace(run, status="interrupted", message=message, code=code, waiting=None),
        finished=False,
        message=message,
        code=code,
        totals=totals,
        by_column=by_column,
        causes=(),
        gates=GateResults(),
    )


def note_refusal(writer: Writer, run: RunRow, problem: Exception) -> None:
    """Keep in the store why a run could not begin or go on."""
    if run.status != "finished":
        writer.run_status(run.id, "interrupted", message=str(problem), code="configuration")


def _run_outcome(reader: Reader, run: RunRow, outcome: Outcome, gates: Gates) -> RunOutcome:
    run = reader.run(run.id)
    totals = reader.totals(run.id)
    checked = check_gates(reader, run, totals, gates, finished=outcome.finished)
    return RunOutcome(
        run=replace(run, verdict=checked.line, gates=checked.checks),
        finished=outcome.finished,
        message=outcome.message,
        code=outcome.code,
        totals=totals,
        by_column=reader.totals_by(run.id, "column"),
        causes=reader.causes(run.id),
        gates=checked,
    )


def store_plan(
    plan: Plan,
    document: Mapping[str, Any],
    terms: Terms,
    writer: Writer,
    environment: Mapping[str, str],
    *,
    name: str,
    source: str,
    metrics: str | None = None,
    files: str | None = None,
    destinations: Mapping[str, Mapping[str, str | None]] | None = None,
    allow_unjudged: bool = False,
    settings: Settings | None = None,
    **more: Any,
) -> RunRow:
    """Commit a plan: from now on the run exists, whole, with every answer pending.

    `metrics` is the folder of the prompt under test, beside which evaluators lie; `files` that of the dataset, where
    files go along with questions; `destinations` says where questions and keys go. With `settings` the judges that
    evaluators name are kept too.
    """
    new = NewRun(
        name=name,
        snapshot=writer.snapshot(dict(document), source),
        source=source,
        targets=tuple(target.name for target in plan.targets),
        prompts=tuple(prompt.name for prompt in plan.asked_prompts),
        config={
            **_run_config(plan, terms, environment, settings),
            **({METRICS: metrics} if metrics else {}),
            **({FILES: files} if files else {}),
            **({DESTINATIONS: dict(destinations)} if destinations else {}),
            **({UNJUDGED_TOO: True} if allow_unjudged else {}),
        },
        **more,
    )
    return writer.plan(new, plan.answers())


def _run_config(plan: Plan, terms: Terms, environment: Mapping[str, str], settings: Settings | None) -> dict[str, Any]:
    prompts = [{"name": prompt.name, **kept_prompt(prompt)} for prompt in plan.prompts]
    return {
        "targets": [named_identity(target, environment) for target in plan.targets],
        **judging_config(plan, settings, environment),
        "repeats": plan.repeats,
        "only": sorted(plan.only) if plan.only is not None else None,
        "prompts": prompts,
        "terms": asdict(terms),
    }


def terms_of(run: RunRow) -> Terms:
    """On what terms a stored run was started."""
    kept = run.config.get("terms", {})
    return Terms(**{**kept, "cluster": saved_terms(kept.get("cluster"))})


def stored_plan(
    run: RunRow, reader: Reader, settings: Settings, environment: Mapping[str, str], registry: Registry
) -> Plan:
    """The plan of a stored run; CannotPlan when a target has been configured otherwise since."""
    kept = run.config
    if GENERATION in kept:
        raise CannotPlan(
            f"{run.key} wrote tests and asked none of them; `tui-evals generate {kept[GENERATION]['prompt']}` goes on "
            "with it or begins anew"
        )
    prompts = tuple(map(prompt_kept, kept["prompts"]))
    return Plan(
        dataset=Dataset.model_validate(reader.snapshot(run.snapshot)),
        targets=tuple(
            unchanged_target(target, settings, environment, recorded=RECORDED in kept) for target in kept["targets"]
        ),
        registry=registry,
        judge=unchanged_target(kept["judge"], settings, environment) if kept["judge"] else None,
        without_judges=kept["without_judges"],
        embedder=kept_embedder(kept, settings, environment),
        prompts=prompts,
        repeats=kept["repeats"],
        rubric=kept.get(RUBRIC, "strict"),
        only=frozenset(kept["only"]) if kept["only"] is not None else None,
    )


def kept_embedder(kept: Mapping[str, Any], settings: Settings, environment: Mapping[str, str]) -> TargetConfig | None:
    """The target of kind embedding that a run or a pass was begun with."""
    return unchanged_target(kept["embedder"], settings, environment) if "embedder" in kept else None


def unchanged_target(
    kept: Mapping[str, Any], settings: Settings, environment: Mapping[str, str], *, recorded: bool = False
) -> TargetConfig:
    """The target of a name, which must be configured as in the run; a run of another tool is not checked."""
    config = find_target(kept["name"], settings, "the stored run")
    if not recorded and named_identity(config, environment) != dict(kept):
        changed = identity_changes(kept, named_identity(config, environment))
        raise CannotPlan(
            f"{kept['name']} has answered questions of this run, and is configured differently now: {changed}. Its "
            "answers would not be comparable. Change it back in .evals/config.toml, or start a new run"
        )
    return config


def assemble(job: Job, writer: Writer, reader: Reader, storing: Storing, *, again: bool = False) -> Engine:
    """The engine of a run, its targets and judges opened; to judge `again` it begins a pass or goes on with one.

    On a cluster the targets are opened by the workers, and here only once something asks them; so is a judge that no
    evaluator needs.
    """
    run, plan, terms, project = job.run, job.plan, job.terms, job.project
    budget = Budget(terms.max_cost)
    budget.of_run(run.id, reader, writer)
    largest = reader.largest_answers(run.id) if terms.max_cost is not None else {}
    rooms: dict[tuple[str, str], Room] = {}  # shared by what is one target with other parameters

    files = project.root / str(run.config[FILES]) if FILES in run.config else None

    def priced(config: TargetConfig, kind: Literal["target", "judge"]) -> PricedTarget:
        target = job.ready.get(config.name)
        if target is None and (terms.cluster is not None or (kind == "judge" and config.name not in judging)):
            target = Later(lambda: open_target(config, project.environment, project.root, items_of))
        tools = None
        if kind == "target" and terms.cluster is None:
            tools = open_toolbox(plan.dataset, config, project.environment, project.root)
        of = kind, base_name(config.name)
        most = fitted.get(of[1] if kind == "target" else judge_label(config.name), terms.concurrency)
        made = opened(
            config,
            kind,
            budget,
            project.environment,
            project.root,
            most,
            target,
            rooms.get(of),
            tools=tools,
            files=files,
        )
        rooms[of] = made.room
        made.largest_answer = largest.get((kind, config.name), 0)
        return made

    configs = judge_configs(plan, project.settings)
    demand(project, plan, terms.cluster, needed_judges(plan, project.settings))
    judging = {configs[key].name for key in plan.judges_needed if key in configs} if configs else set()
    fitted, note = fit_calls(job.calls_at_once if terms.cluster is None else {})
    targets = [priced(config, "target") for config in plan.targets]
    judges = {name: priced(config, "judge") for name, config in configs.items()}
    for judge in judges.values():
        if judge.config.name in job.judges_left_out:
            judge.availability.close(f"{judge.config.name} is left out", "left out")
    if again and not run.staged_pass:
        config = pass_config(
            plan, run, project, reader, writer, use_cache=terms.use_cache, named=job.named, anew=job.anew
        )
        run = replace(run, staged_pass=writer.begin_pass(run.id, config, job.judged))
    kept = job.kept(reader) if again else None
    elsewhere = None
    if terms.cluster is not None:
        from tui_evals.runs.executors.cluster.executor import ClusterPlace, cluster_executor

        metrics = project.root / str(run.config[METRICS]) if METRICS in run.config else None
        place = ClusterPlace(
            terms=terms.cluster,
            environment=project.environment,
            root=project.root,
            metrics=metrics,
            trusting=project.trusting,
            files=files,
        )
        elsewhere = partial(cluster_executor, place, plan, targets, judges, budget, terms.use_cache)
    cached = terms.use_cache
    engine = Engine(
        plan,
        run,
        writer,
        reader,
        targets,
        judges,
        storing,
        use_cache=cached,
        left_out=job.left_out,
        elsewhere=elsewhere,
        kept=kept,
    )
    engine.note = note
    return engine
