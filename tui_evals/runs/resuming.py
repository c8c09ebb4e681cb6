"""Makes a job of a stored run, to continue it: with a configuration corrected since, or without some of its targets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from tui_evals.datasets.model import Dataset
from tui_evals.evaluators.base import Evaluator
from tui_evals.evaluators.registry import Registry, with_prompt_metrics
from tui_evals.runs.errors import CannotPlan
from tui_evals.runs.execution import Job, Terms
from tui_evals.runs.executors.cluster.terms import saved_terms
from tui_evals.runs.experiments import project_of_run
from tui_evals.runs.judges import asked_targets, demand_price, judge_configs, named_identity, settings_of_run
from tui_evals.runs.plan import Plan
from tui_evals.runs.project import Project
from tui_evals.runs.prompting import prompt_kept
from tui_evals.runs.scoring_passes import ANEW, NAMED
from tui_evals.runs.status import GENERATION, METRICS, RUBRIC
from tui_evals.store import run_figures
from tui_evals.store.reader import Reader
from tui_evals.store.records import LIVE_STATUSES, RunRow
from tui_evals.store.repair import LOST
from tui_evals.store.writer import Writer
from tui_evals.targets.base import ConfigurationError, TargetConfig
from tui_evals.targets.config import Settings, find_target
from tui_evals.targets.opening import identity, identity_changes
from tui_evals.targets.permissions import destinations
from tui_evals.targets.sweep import base_name
from tui_evals.text.names import did_you_mean

from .status import DESTINATIONS, RECORDED

_JUDGES = ("judge", "embedder")
"""The keys of judging targets in the config of a run."""


def resumed_job(
    run: RunRow,
    reader: Reader,
    writer: Writer,
    project: Project,
    own_evaluators: Mapping[str, type[Evaluator]] | None = None,
) -> tuple[Job, tuple[str, ...]]:
    """A stored run ready to continue, and a sentence for each part whose configuration has changed.

    CannotPlan or ConfigurationError names a change that contradicts earlier answers.
    """
    project = project_of_run(run, project)
    run, notes = _corrected(run, reader, settings_of_run(run, reader, project.settings), project.environment)
    if notes:
        writer.run_config(run.id, run.config)
    return (judged_onwards if run.staged_pass else stored_job)(run, reader, project, own_evaluators), notes


def _corrected(
    run: RunRow, reader: Reader, settings: Settings, environment: Mapping[str, str]
) -> tuple[RunRow, tuple[str, ...]]:
    """The run, with the current configuration of every target and judge that has not answered yet."""
    if RECORDED in run.config or "targets" not in run.config:
        return run, ()
    config, notes, moved = dict(run.config), list[str](), list[str]()

    def now(kept: Mapping[str, Any], answered: bool) -> Mapping[str, Any]:
        found = find_target(kept["name"], settings, "the stored run")
        fresh = identity(found, environment) | {"name": found.name}
        if answered or fresh == dict(kept):
            return kept
        changed = identity_changes(kept, fresh)
        notes.append(f"{found.name} had answered nothing and is asked as it is configured now: {changed}")
        moved.append(found.name)
        return fresh

    config["targets"] = [
        now(kept, run_figures.has_answered(reader, run.id, place)) for place, kept in enumerate(config["targets"])
    ]
    for key in _JUDGES:
        if kept := config.get(key):
            config[key] = now(kept, run.staged_pass > 0 or run_figures.has_judged(reader, run.id, kept["name"]))
    if moved:
        configs = [find_target(name, settings, "the stored run") for name in moved]
        sent = destinations((replace(each, name=base_name(each.name)) for each in configs), environment)
        config[DESTINATIONS] = {**config.get(DESTINATIONS, {}), **sent}
    return replace(run, config=config), tuple(notes)


def leaving_out(job: Job, project: Project, only: Sequence[str], without: Sequence[str]) -> Job:
    """The job with only the targets in `only`, if any are named, and without those in `without`.

    Raises CannotPlan if a name is unknown, or nothing would be left.
    """
    targets = job.run.targets
    judges = {config.name for config in judge_configs(job.plan, project.settings).values()}
    wanted = {number for word in only for number in _numbers(word, targets)} if only else set(range(len(targets)))
    judges_out = {word for word in without if word in judges}
    for word in without:
        if word not in judges_out:
            wanted -= _numbers(word, (*targets, *judges))
    if not wanted:
        raise CannotPlan("no target is left to ask; name fewer with --without, or others with --target", "arguments")
    out = frozenset(range(len(targets))) - wanted
    return replace(job, left_out=out, judges_left_out=frozenset(judges_out))


def _numbers(word: str, names: Sequence[str]) -> set[int]:
    """The numbers of the names that a word means: one of them, or all that vary its parameters."""
    found = {number for number, name in enumerate(names) if word in (name, base_name(name))}
    if not found:
        near = did_you_mean(word, names)
        raise CannotPlan(f"the run asks no {word}{near}; it asks {', '.join(dict.fromkeys(names))}", "arguments")
    return found


def stored_job(
    run: RunRow,
    reader: Reader,
    project: Project,
    own_evaluators: Mapping[str, type[Evaluator]] | None = None,
    *,
    only_judging: bool = False,
) -> Job:
    """A stored run ready to be executed again; CannotPlan or ConfigurationError says what has changed since.

    `own_evaluators` are those that are given as code. With `only_judging` no target is asked, so targets that are code
    need not be given.
    """
    if LOST in run.config:
        raise CannotPlan(
            f"{run.config[LOST]:,} answers of {run.key} were lost with a damaged store, which no longer says what was "
            f"asked. Start a new run: `tui-evals run {run.source}`"
        )
    project = project_of_run(run, project)
    settings = settings_of_run(run, reader, project.settings)
    project = replace(project, settings=settings)
    registry = with_prompt_metrics(project.registry, metrics_folder(run, reader, project.root))
    registry = replace(registry, by_name={**registry.by_name, **(own_evaluators or {})})
    plan = stored_plan(run, reader, settings, project.environment, registry, only_judging=only_judging)
    if not only_judging:
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
    if run.status == "finished" and not run_figures.errors(reader, run.id):
        raise CannotPlan(f"{run.key} is finished and has no errors; nothing was asked")


def with_limit(job: Job, max_cost: float | None, writer: Writer) -> Job:
    """The job with its own cost limit, which also applies whenever the run continues; None leaves the limit.

    Raises ConfigurationError if a price is missing, and then the limit is unchanged.
    """
    if max_cost is None:
        return job
    for asked in (*job.plan.targets, *asked_targets(job.plan, job.project.settings)):
        demand_price(asked, max_cost)
    terms = {**job.run.config["terms"], "max_cost": max_cost, "shared_limit": ""}
    config = {**job.run.config, "terms": terms}
    writer.run_config(job.run.id, config)
    limited = replace(job.terms, max_cost=max_cost, shared_limit="")
    return replace(job, run=replace(job.run, config=config), terms=limited)


def metrics_folder(run: RunRow, reader: Reader, root: Path) -> Path | None:
    """The folder of the prompt under test: as stored with the run, else from the prompt file of its dataset."""
    if METRICS in run.config:
        return root / str(run.config[METRICS])
    prompt = reader.snapshot(run.snapshot).get("prompt_file")
    return (root / run.source).parent.joinpath(prompt).parent if isinstance(prompt, str) else None


def terms_of(run: RunRow) -> Terms:
    """On what terms a stored run was started."""
    kept = run.config.get("terms", {})
    return Terms(**{**kept, "cluster": saved_terms(kept.get("cluster"))})


def stored_plan(
    run: RunRow,
    reader: Reader,
    settings: Settings,
    environment: Mapping[str, str],
    registry: Registry,
    *,
    only_judging: bool = False,
) -> Plan:
    """The plan of a stored run; CannotPlan when a target has been configured otherwise since."""
    kept = run.config
    if GENERATION in kept:
        prompt = kept[GENERATION].get("prompt")
        how = f"`tui-evals generate {prompt}` continues it or starts again" if prompt else "ask again in the workbench"
        raise CannotPlan(f"{run.key} wrote tests and asked none of them; {how}")
    prompts = tuple(map(prompt_kept, kept["prompts"]))
    return Plan(
        dataset=Dataset.model_validate(reader.snapshot(run.snapshot)),
        targets=tuple(
            unchanged_target(target, settings, environment, recorded=RECORDED in kept, is_asked=not only_judging)
            for target in kept["targets"]
        ),
        registry=registry,
        judge=unchanged_target(kept["judge"], settings, environment) if kept["judge"] else None,
        without_judges=kept["without_judges"],
        embedder=kept_embedder(kept, settings, environment),
        prompts=prompts,
        repeats=kept["repeats"],
        rubric=kept.get(RUBRIC, "strict"),
        only=frozenset(kept["only"]) if kept["only"] is not None else None,
        only_judging=only_judging,
    )


def kept_embedder(kept: Mapping[str, Any], settings: Settings, environment: Mapping[str, str]) -> TargetConfig | None:
    """The target of kind embedding that a run or a pass was begun with."""
    return unchanged_target(kept["embedder"], settings, environment) if "embedder" in kept else None


def unchanged_target(
    kept: Mapping[str, Any],
    settings: Settings,
    environment: Mapping[str, str],
    *,
    recorded: bool = False,
    is_asked: bool = True,
) -> TargetConfig:
    """The target of a name, which must be configured as in the run; a run of another tool is not checked.

    One that is not asked again may be missing, as functions are that a program gave.
    """
    try:
        config = find_target(kept["name"], settings, "the stored run")
    except ConfigurationError:
        if is_asked:
            raise
        return TargetConfig(name=kept["name"], model=str(kept["model"]))
    if not recorded and named_identity(config, environment) != dict(kept):
        changed = identity_changes(kept, named_identity(config, environment))
        raise CannotPlan(
            f"{kept['name']} has answered questions of this run, and is configured differently now: {changed}. Its "
            "answers would not be comparable. Change it back in .evals/config.toml, or start a new run"
        )
    return config


def judged_onwards(
    run: RunRow, reader: Reader, project: Project, own_evaluators: Mapping[str, type[Evaluator]] | None = None
) -> Job:
    """The scoring pass of a run that was begun and is not whole, on the terms on which it began."""
    config = reader.staged_pass(run)[0]
    job = by_pass(stored_job(run, reader, project, own_evaluators, only_judging=True), config, reader)
    named, anew = frozenset(config.get(NAMED, ())), bool(config.get(ANEW))
    return replace(job, terms=replace(job.terms, max_cost=None), named=named, anew=anew)


def by_pass(job: Job, kept: Mapping[str, Any], reader: Reader, judge: TargetConfig | None = None) -> Job:
    """A run with the dataset and judge of a stored scoring pass, or with another judge."""
    plan, project = job.plan, job.project
    if kept.get("dataset"):
        plan = replace(plan, dataset=Dataset.model_validate(reader.snapshot(kept["dataset"])))
    if judge is None and kept["judge"]:
        judge = unchanged_target(kept["judge"], project.settings, project.environment)
    rubric = kept.get(RUBRIC, plan.rubric)
    plan = replace(plan, judge=judge, without_judges=kept["without_judges"], rubric=rubric, only_judging=True)
    plan = replace(plan, embedder=kept_embedder(kept, project.settings, project.environment))
    plan.check_evaluators()
    return replace(job, plan=plan, terms=replace(job.terms, use_cache=kept["terms"]["use_cache"]))
