"""`tui-evals run`, `resume`, `rerun` and `rescore`: from options to a request, and from a stored run to a job."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from tui_evals.cli import inputs, project
from tui_evals.cli.approving import approve
from tui_evals.cli.inputs import open_project
from tui_evals.cli.output import Stop, say, say_end
from tui_evals.cli.sources import document_of, evaluators_named
from tui_evals.runs.detach import has_begun, is_asked_again, is_being_judged
from tui_evals.runs.plan import CannotPlan
from tui_evals.runs.readiness import needed_judges
from tui_evals.runs.selection import answers_chosen, items_in_run
from tui_evals.runs.start import (
    demand_errors,
    estimate_again,
    judged_again,
    judged_onwards,
    note_refusal,
    rerun_items,
    some_judged_again,
    stored_job,
    with_limit,
)
from tui_evals.runs.status import RECORDED, UNJUDGED_TOO
from tui_evals.store.baselines import dataset_key
from tui_evals.store.reader import Reader
from tui_evals.store.records import RunRow
from tui_evals.targets.base import ConfigurationError
from tui_evals.targets.permissions import destinations

from .execution import (
    execution_options,
    find_baseline,
    open_writer,
    refusals,
    require_free,
    run_detached,
    run_here,
    run_request,
    say_estimate,
    say_key,
    start_prepared,
    stop_about,
    warn_of_plan,
)
from .request import chosen_cluster, cluster_words, request_of


def start(*, registry: str | None, max_samples: int | None, faithful: bool, data: Path | None, **options: Any) -> int:
    """`tui-evals run`."""
    how = execution_options(options)
    if registry is not None:
        from .registry import Manner, run_evals

        return run_evals(registry, Manner(max_samples, faithful, data), how, options)
    if max_samples is not None:
        raise Stop("--max-samples belongs to --registry; --limit takes so many items of a dataset")
    if faithful or data is not None:
        raise Stop(f"{'--faithful' if faithful else '--data'} belongs to --registry, which names evals of OpenAI Evals")
    document, source = document_of(options)
    here = open_project(how.env_name, how.trusting)
    name = options["name"] or Path(source).stem
    request = request_of(document, here, options, source=dataset_key(source, here.root), name=name)
    return run_request(request, here, how)[1]


def resume(word: str, *, max_cost: float | None, errors: bool = False, **options: Any) -> int:
    """`tui-evals resume`; a paused run that is alive is let go on where it runs."""
    how = execution_options(options)
    here = open_project(how.env_name, how.trusting)
    with open_writer(here) as writer:
        with project.reader() as reader:
            run = project.run_named(reader, word)
            if errors:
                _demand_errors(reader, run)
            if run.status == "paused":
                if how.gates.has_checks:
                    raise Stop(f"{run.key} is paused where it runs, which checks its gates; leave them out here")
                writer.control(run.id, "")
                if how.detach:
                    say_key(run, how.as_json)
                elif how.as_json:
                    say_end(run.key, "running", "", 0)
                else:
                    say(f"{run.key} goes on")
                return 0
            if run.status == "finished" and not errors:
                again = f"`tui-evals rerun {run.key} --only '!pass'` asks again what did not pass"
                in_place = (
                    f", `tui-evals resume {run.key} --errors` its errors in place" if reader.errors(run.id) else ""
                )
                raise Stop(f"{run.key} is finished; {again}{in_place}", 2)
            if RECORDED in run.config:
                raise Stop(f"{run.key} was made elsewhere, and its import was cut off; import it again")
            how = find_baseline(how, dataset_key(run.source, here.root, here.root), run)
            with stop_about(run), refusals():
                try:
                    job = (judged_onwards if run.staged_pass else stored_job)(run, reader, here)
                except (CannotPlan, ConfigurationError) as problem:
                    note_refusal(writer, run, problem)
                    raise
        warn_of_plan(job.plan)
        cluster = chosen_cluster(options, here.environment, job.terms.cluster)
        job = replace(job, terms=replace(job.terms, cluster=cluster))
        approve(job.missing_permissions(judging=UNJUDGED_TOO not in run.config), here.root)
        if not how.detach:
            with stop_about(run), refusals():
                job = with_limit(job, max_cost, writer)
            return run_here(job, writer, how, again=bool(run.staged_pass), errors=errors)
    require_free(run)
    words = ["resume", run.key, *(("--max-cost", max_cost) if max_cost else ()), *cluster_words(options)]
    words += ["--errors"] if errors else []
    return run_detached(run, how, words, is_asked_again(run) if errors else has_begun)


def _demand_errors(reader: Reader, run: RunRow) -> None:
    """End the command where errors of a run cannot be asked again."""
    try:
        demand_errors(reader, run)
    except CannotPlan as problem:
        raise Stop(str(problem), 2) from None


def rerun(word: str, only: str, *, allow_unjudged: bool, **options: Any) -> int:
    """`tui-evals rerun`: a new run of the items a filter finds, with its parent named."""
    how = execution_options(options)
    here = open_project(how.env_name, how.trusting)
    with refusals(), project.reader() as reader:
        parent = project.run_named(reader, word)
        how = find_baseline(how, dataset_key(parent.source, here.root, here.root))
        items = items_in_run(reader, parent, only)
        prepared = rerun_items(parent, items, reader, here, allow_unjudged=allow_unjudged or how.plan_only)
    if not how.plan_only:
        cluster = chosen_cluster(options, here.environment, prepared.terms.cluster)
        prepared = replace(prepared, terms=replace(prepared.terms, cluster=cluster))
    return start_prepared(prepared, how, allow_unjudged=allow_unjudged)[1]


def rescore(
    word: str,
    *,
    only: str | None,
    items: str | None,
    dataset: Path | None,
    evaluators: str | None,
    judge: str | None,
    without_judges: bool,
    no_cache: bool,
    allow_unjudged: bool,
    **options: Any,
) -> int:
    """`tui-evals rescore`: a new scoring pass over the answers that are there."""
    how = execution_options(options)
    here = open_project(how.env_name, how.trusting)
    with refusals(), project.reader() as reader:
        run = project.run_named(reader, word)
        how = find_baseline(how, dataset_key(run.source, here.root, here.root), run)
        unjudged_too = allow_unjudged or how.plan_only
        if only is None and items is None:
            job = judged_again(
                run,
                reader,
                here,
                dataset=inputs.read(dataset) if dataset is not None else None,
                evaluators=evaluators_named(evaluators) if evaluators is not None else None,
                judge=judge,
                without_judges=without_judges,
                use_cache=not no_cache,
                allow_unjudged=unjudged_too,
            )
        else:
            if dataset is not None or evaluators is not None or judge is not None or without_judges:
                raise Stop(
                    "--only and --items judge some answers again by what judges the run; anything else judges all"
                )
            answers = answers_chosen(reader, run, only, items)
            job = some_judged_again(run, answers, reader, here, allow_unjudged=unjudged_too)
            job = replace(job, terms=replace(job.terms, use_cache=job.terms.use_cache and not no_cache))
        warn_of_plan(job.plan)
        if how.plan_only:
            rows = reader.all_rows(run.id) if job.judged is None else reader.rows(job.judged)
            estimate = estimate_again(job.plan, rows)
            sent = destinations(needed_judges(job.plan, here.settings), here.environment)
            return say_estimate(job.plan, estimate, sent, how.as_json, allow_unjudged=allow_unjudged)
    cluster = chosen_cluster(options, here.environment, job.terms.cluster)
    job = replace(job, terms=replace(job.terms, cluster=cluster))
    approve(job.missing_permissions(judging=not allow_unjudged), here.root)
    if how.detach:
        require_free(run)
        words: list[object] = ["rescore", run.key]
        words += ["--only", only] if only is not None else []
        words += ["--items", items] if items is not None else []
        words += ["--dataset", dataset] if dataset is not None else []
        words += ["--evaluators", evaluators] if evaluators is not None else []
        words += ["--judge", judge] if judge is not None else []
        words += ["--without-judges"] if without_judges else []
        words += ["--no-cache"] if no_cache else []
        words += ["--allow-unjudged"] if allow_unjudged else []
        words += cluster_words(options)
        return run_detached(run, how, words, is_being_judged(run))
    with open_writer(here) as writer:
        return run_here(job, writer, how, again=True)
