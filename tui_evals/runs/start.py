"""Prepares a run: a request is read, checked and planned, and the plan is stored with every answer pending."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, field, replace
from pathlib import Path
from typing import Any

from tui_evals.datasets.attachments import with_pinned_files
from tui_evals.datasets.document import Document
from tui_evals.datasets.matrix import expanded
from tui_evals.datasets.model import Dataset
from tui_evals.datasets.paths import DatasetError, Problem
from tui_evals.datasets.prompts import prompt_of
from tui_evals.datasets.validate import CheckedDataset, checked_dataset, rubric_of
from tui_evals.evaluators.base import Evaluator
from tui_evals.evaluators.registry import Registry
from tui_evals.light_records import dataclass
from tui_evals.runs.errors import CannotPlan
from tui_evals.runs.estimating import Estimate, estimate_run
from tui_evals.runs.execution import Job, Terms, check_place, destinations_of
from tui_evals.runs.executors.cluster.terms import ClusterTerms
from tui_evals.runs.experiments import Experiment
from tui_evals.runs.judges import SOURCE, asked_targets, check_roles, named_identity, suggested, with_embedder
from tui_evals.runs.plan import Plan
from tui_evals.runs.project import Project, note_begun
from tui_evals.runs.prompting import PromptUnderTest, kept_prompt, prompts_from, unfilled_items
from tui_evals.runs.readiness import check_can_begin, check_judgeable
from tui_evals.runs.resuming import stored_job
from tui_evals.runs.scoring_passes import judging_config
from tui_evals.runs.selection import ItemSelection, chosen_positions, find_run, select_items
from tui_evals.store.reader import Reader
from tui_evals.store.records import NewRun, RunRow
from tui_evals.store.writer import Writer
from tui_evals.targets.base import ConfigurationError, Target, TargetConfig
from tui_evals.targets.config import Settings, with_door
from tui_evals.targets.opening import target_kind
from tui_evals.targets.permissions import NotApproved, Permission
from tui_evals.targets.sweep import Sweep, swept
from tui_evals.text.safe import safe_line

from .approving import agree_to_typed, find_typed, missing_of_targets, missing_permissions
from .status import DESTINATIONS, EXPERIMENT, FILES, METRICS, UNJUDGED_TOO


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRequest:
    """A request to run; the project's configuration sets what is not given."""

    document: Document
    source: str
    """The source of the items, as baselines and lists of runs name it."""
    name: str
    tags: tuple[str, ...] = ()
    suite: str = ""
    parent: str | None = None
    """The run that this one retries, as the user names it."""
    targets: tuple[str | TargetConfig, ...] = ()
    sweep: Sweep = field(default_factory=dict)
    """Parameters whose values every target takes in turn, each as a column of its own."""
    door: str | None = None
    """The target that answers the model calls of every agent among the targets."""
    judge: str | TargetConfig | None = None
    without_judges: bool = False
    evaluators: Mapping[str, Mapping[str, Any]] | None = None
    """Evaluators with their options instead of the dataset's defaults."""
    own_evaluators: Mapping[str, type[Evaluator]] = field(default_factory=dict)
    """Evaluators given as code, by name."""
    ready: Mapping[str, Target] = field(default_factory=dict)
    """Targets by name that need not be opened, such as Python functions."""
    prompts: tuple[Path | PromptUnderTest, ...] = ()
    repeats: int | None = None
    items: ItemSelection | frozenset[int] | None = None
    positions: frozenset[int] | None = None
    """Which items are asked, by their positions once a matrix is expanded; used instead of `items`."""
    concurrency: int | None = None
    max_cost: float | None = None
    shared_limit: str = ""
    """The name of the runs that share `max_cost`; empty where it is the run's own."""
    use_cache: bool = True
    cluster: ClusterTerms | None = None
    allow_unjudged: bool = False
    """Whether to run though some evaluators can judge nothing here."""
    experiment: Experiment | None = None
    """The experiment that describes it; its targets are in the settings of the project."""


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
    """Whether the user asked for it here. A run that follows another takes its terms from the store."""
    permissions: tuple[Permission, ...] = ()
    """Further permissions it needs, because a file of the project asks for them."""

    def missing_permissions(self) -> list[Permission]:
        """The missing permissions of the run."""
        cluster = None if self.typed else self.terms.cluster
        judges = asked_targets(self.plan, self.project.settings)
        missing = missing_permissions(self.project, self.plan, cluster, judges, judging=not self.allow_unjudged)
        return [*missing_of_targets(self.project, (), self.permissions), *missing]

    def estimate(self) -> Estimate:
        """Its calls and their possible cost, from earlier answers if there are some."""
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
        """The destinations of its targets and judges, by name."""
        return destinations_of(self.plan, self.project.settings, self.project.environment, self.ready)

    def store(self, writer: Writer, *, apart: bool = False) -> Job:
        """Commit the plan once it can begin: from then on the run exists with every answer pending.

        Raises NotApproved or ConfigurationError before anything is stored. Typed options count as approved. With
        `apart`, another process will execute the run.
        """
        if missing := self.missing_permissions():
            raise NotApproved(missing, self.project.root)
        if self.typed:
            asked = [config for config in self.plan.targets if config.name not in self.ready]
            judges = asked_targets(self.plan, self.project.settings)
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


def prepare(request: RunRequest, project: Project) -> PreparedRun:
    """Find and check everything a run needs; raises CannotPlan, DatasetError or ConfigurationError."""
    prompts = request.prompts or tuple(filter(None, [prompt_of(request.document)]))
    files = [one for one in prompts if isinstance(one, Path)]
    project = project.with_prompt(files[0] if files else None)
    document = request.document
    if request.evaluators is not None:
        document = replace(document, data={**document.data, "default_evaluators": dict(request.evaluators)})
    document, unpinned = with_pinned_files(document), document
    asked, origins = expanded(document)
    settings, defaults = project.settings, project.settings.run
    words = request.targets or settings.usual_targets
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
        targets=swept(_recorded(_target_configs(words, settings), request.door), request.sweep),
        registry=registry,
        judge=_target_configs([judge], settings)[0] if judge else None,
        without_judges=request.without_judges,
        prompts=prompts_from(prompts),
        repeats=request.repeats or defaults.repeats or 1,
    )
    chosen = request.positions
    plan = replace(plan, only=_selected_positions(plan, request.items, origins, project) if chosen is None else chosen)
    _check_asks(plan)
    check_place(plan, request.cluster)
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
        shared_limit=request.shared_limit,
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
        "experiment": None if request.experiment is None else request.experiment.where,
    }
    return PreparedRun(
        project=project,
        plan=plan,
        terms=terms,
        document=asked.data,
        about=about,
        ready=request.ready,
        allow_unjudged=request.allow_unjudged,
        permissions=() if request.experiment is None else tuple(request.experiment.permissions()),
    )


def _folder_of(document: Document, project: Project) -> str:
    return os.path.relpath(document.file.absolute().resolve().parent, project.root.resolve())


_NAMED_ITEMS = 10


def dataset_to_ask(document: Document, asked: Document, registry: Registry) -> CheckedDataset:
    """The typed dataset of a run; problems refer to the file before its matrix is expanded."""
    checked = checked_dataset(document, registry.catalogue, registry.own)
    return checked if asked is document else replace(checked, dataset=Dataset.model_validate(asked.data))


def _check_asks(plan: Plan) -> None:
    """Raise CannotPlan if an item has only variables and there is no prompt to fill in."""
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
    """Raise DatasetError if a prompt under test needs a value that an item does not have, before anything is paid."""
    problems = unfilled_items(document, plan.dataset, plan.asked_prompts, plan.only, origins)
    if not problems:
        return
    named, more = problems[:_NAMED_ITEMS], len(problems) - _NAMED_ITEMS
    rest = [Problem(f"… and {more:,} more like these")] if more > 0 else []
    raise DatasetError(str(document.file), [*named, *rest])


def _selected_positions(
    plan: Plan, items: ItemSelection | frozenset[int] | None, origins: Sequence[int], project: Project
) -> frozenset[int] | None:
    """The positions among what is asked. The user names positions in the file, where one item may expand to several."""
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


def _recorded(targets: Sequence[TargetConfig], door: str | None) -> Sequence[TargetConfig]:
    """The targets, agents among them through a door."""
    if door is None:
        return targets
    agents = [target for target in targets if not target_kind(target).asks_model]
    if not agents:
        raise ConfigurationError("--door records what an agent asks its models, and no target of the run is an agent.")
    return [with_door(target, door) if target in agents else target for target in targets]


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
    experiment: str | None = None,
    destinations: Mapping[str, Mapping[str, str | None]] | None = None,
    allow_unjudged: bool = False,
    settings: Settings | None = None,
    **more: Any,
) -> RunRow:
    """Commit a plan: from now on the run exists, whole, with every answer pending.

    `metrics` is the folder of the prompt under test, next to which evaluators lie; `files` that of the dataset, where
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
            **({EXPERIMENT: experiment} if experiment else {}),
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
