"""Runs once more: items asked again in a new run, answers judged again in the same one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from tui_evals.cli import project
from tui_evals.cli.compare.baseline import key_of
from tui_evals.cli.output import Stop
from tui_evals.cli.project import World, world
from tui_evals.cli.sources import checked_dataset, evaluators_named, in_memory, items_found, judged_by, target_or_stop
from tui_evals.datasets.problems import DatasetError
from tui_evals.runs import start
from tui_evals.runs.plan import Plan
from tui_evals.runs.status import METRICS
from tui_evals.store.reader import Reader
from tui_evals.store.records import RunRow

from .start import (
    check_judges,
    cluster_words,
    execute,
    execution_options,
    plan_of_stored,
    require_free,
    run_detached,
    say_estimate,
    with_baseline,
    with_cluster,
)


def rerun(word: str, only: str, **options: Any) -> int:
    """`tui-evals rerun`: a new run of the items a filter finds, with its parent named."""
    how = execution_options(options)
    here = world(how.env_name, how.trusting)
    with project.reader() as reader:
        parent = project.run_named(reader, word)
        how = with_baseline(how, reader, key_of(parent, here.root))
        items = items_found(reader, parent, only)
        plan = replace(plan_of_stored(parent, reader, here), only=frozenset(items))
        document = reader.snapshot(parent.snapshot)
    if how.plan_only:
        return say_estimate(plan, how.as_json)
    with project.writer(here.environment) as writer:
        terms = with_cluster(replace(start.terms_of(parent), use_cache=False), options, here.environment)
        name = f"{parent.name} again"
        details: dict[str, Any] = {"parent": parent.id, "tags": parent.tags, "metrics": parent.config.get(METRICS)}
        run = start.store_plan(
            plan, document, terms, writer, here.environment, name=name, source=parent.source, **details
        )
        if not how.detach:
            return execute(run, plan, terms, writer, here, how)
    return run_detached(run, how)


def rescore(
    word: str,
    *,
    dataset: Path | None,
    evaluators: str | None,
    judge: str | None,
    without_judges: bool,
    no_cache: bool,
    **options: Any,
) -> int:
    """`tui-evals rescore`: a new scoring pass over the answers that are there."""
    how = execution_options(options)
    here = world(how.env_name, how.trusting)
    with project.reader() as reader:
        run = project.run_named(reader, word)
        how = with_baseline(how, reader, key_of(run, here.root), run)
        plan = _judging(run, reader, here, dataset, evaluators)
        if judge or here.settings.judge:
            plan = replace(plan, judge=target_or_stop(judge, here.settings) or plan.judge)
        plan = replace(plan, without_judges=without_judges or (plan.without_judges and not judge))
        check_judges(plan)
        if how.plan_only:
            return say_estimate(plan, how.as_json, start.estimate_again(plan, reader.all_rows(run.id)))
    if how.detach:
        require_free(run)
        words: list[object] = ["rescore", run.key]
        words += ["--dataset", dataset] if dataset is not None else []
        words += ["--evaluators", evaluators] if evaluators is not None else []
        words += ["--judge", judge] if judge is not None else []
        words += ["--without-judges"] if without_judges else []
        words += ["--no-cache"] if no_cache else []
        words += cluster_words(options)
        return run_detached(run, how, words, lambda now: now.scoring_pass > run.scoring_pass)
    with project.writer(here.environment) as writer:
        terms = start.terms_of(run)
        terms = replace(terms, max_cost=None, use_cache=terms.use_cache and not no_cache)
        terms = with_cluster(terms, options, here.environment)
        return execute(run, plan, terms, writer, here, how, again=True)


def _judging(run: RunRow, reader: Reader, here: World, dataset: Path | None, evaluators: str | None) -> Plan:
    """The plan of a run with the evaluators that are asked for instead of its own."""
    plan = plan_of_stored(run, reader, here)
    if dataset is not None and evaluators is not None:
        raise Stop("give --dataset or --evaluators, not both")
    if evaluators is not None:
        data = {**reader.snapshot(run.snapshot), "default_evaluators": evaluators_named(evaluators)}
        try:
            return replace(plan, dataset=checked_dataset(in_memory(data), plan.registry))
        except DatasetError as problem:
            raise Stop(str(problem)) from None
    if dataset is not None:
        return replace(plan, dataset=judged_by(plan.dataset, checked_dataset(project.read(dataset), plan.registry)))
    return plan
