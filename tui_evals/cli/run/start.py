"""`tui-evals run`, `resume`, `rerun` and `rescore`: from options to a request, and from a stored run to a job."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from tui_evals.cli import inputs, project
from tui_evals.cli.inputs import approve, approve_store, document_of, evaluators_named, open_project
from tui_evals.cli.output import Stop, colour, say, say_end, say_json_line, warn
from tui_evals.cli.run.execution import (
    chosen_cluster,
    cluster_words,
    execution_options,
    find_baseline,
    open_writer,
    refusals,
    request_of,
    require_free,
    run_detached,
    run_here,
    run_request,
    say_estimate,
    say_key,
    start_prepared,
    stop_about,
    target_words,
    warn_of_plan,
)
from tui_evals.datasets.discover import project_root
from tui_evals.datasets.document import Document
from tui_evals.datasets.matrix import place_of
from tui_evals.datasets.paths import DatasetError
from tui_evals.present.answers import rejudged_change
from tui_evals.present.runs import command_wait_sentence, line_names, rejudged_sentence
from tui_evals.present.status import ANSWER_LOOKS
from tui_evals.runs.detach import has_begun, is_asked_again, is_being_judged
from tui_evals.runs.errors import CannotPlan
from tui_evals.runs.execution import note_refusal
from tui_evals.runs.experiments import (
    Experiment,
    experiment_named,
    is_given,
    read_experiment,
    swept_targets,
    usual_experiment,
    with_experiment,
)
from tui_evals.runs.judges import needed_judges
from tui_evals.runs.project import Project
from tui_evals.runs.rescoring import (
    NotStored,
    RescoreRequest,
    Rule,
    RuleName,
    estimate_rescore,
    prepare_rejudging,
    prepare_rescore,
    rejudge,
)
from tui_evals.runs.resuming import demand_errors, leaving_out, resumed_job, with_limit
from tui_evals.runs.selection import answers_chosen, items_in_run
from tui_evals.runs.start import RunRequest, rerun_items
from tui_evals.runs.status import RECORDED, UNJUDGED_TOO
from tui_evals.store import run_figures
from tui_evals.store.baselines import dataset_key
from tui_evals.store.database import StoreError
from tui_evals.store.reader import Reader
from tui_evals.store.records import RunRow, StoreWait
from tui_evals.targets.base import ConfigurationError
from tui_evals.targets.permissions import destinations


def start(*, registry: str | None, max_samples: int | None, faithful: bool, data: Path | None, **options: Any) -> int:
    """`tui-evals run`."""
    experiment = _experiment(options) if registry is None else None
    given, options = options, options if experiment is None else _with_experiment(options, experiment)
    how = execution_options(options)
    if registry is not None:
        from tui_evals.cli.run.registry import Manner, run_evals

        return run_evals(registry, Manner(max_samples, faithful, data), how, options)
    if max_samples is not None:
        raise Stop("--max-samples belongs to --registry; --limit takes the first items of a dataset")
    if faithful or data is not None:
        raise Stop(f"{'--faithful' if faithful else '--data'} belongs to --registry, which names evals of OpenAI Evals")
    here = open_project(how.env_name, how.trusting)
    if experiment is not None:
        with refusals():
            here = with_experiment(here, experiment)
        return run_request(_request_of_experiment(experiment, here, options, given), here, how)[1]
    document, source = document_of(options)
    name = options["name"] or Path(source).stem
    request = request_of(document, here, options, source=dataset_key(source, here.root), name=name)
    _warn_of_dropped(request, document.data.get("default_evaluators"), source, how.quiet)
    return run_request(request, here, how)[1]


def _warn_of_dropped(request: RunRequest, before: Iterable[str] | None, source: str, quiet: bool) -> None:
    """Name the evaluators that --evaluators leaves out."""
    dropped = [key for key in before or () if key not in (request.evaluators or ())]
    if request.evaluators is not None and dropped and not quiet:
        warn(f"note: --evaluators replaces the evaluators of {source}. Not judged by: {', '.join(dropped)}.")


_SELECTING = ("items", "only", "from_run", "limit", "seed")


def _experiment(options: Mapping[str, Any]) -> Experiment | None:
    """The named experiment, or without a name that of the project."""
    word, root = options["dataset"], project_root(Path.cwd())
    if any(options[name] for name in ("inline", "interactive", "snapshot")):
        return None
    try:
        file = experiment_named(word, root) if word is not None else None
        if word is None and not options["prompts_file"]:
            file = usual_experiment(root)
            if file is not None and not (options["quiet"] or options["as_json"]):
                say(f"experiment {file}", dim=True)
        return None if file is None else read_experiment(file, root)
    except DatasetError as problem:
        raise Stop(str(problem)) from None


def _with_experiment(options: Mapping[str, Any], experiment: Experiment) -> dict[str, Any]:
    """The options, with those of the experiment where none were typed."""
    typed = {name: value for name, value in options.items() if is_given(value)}
    of_file = experiment.options
    if typed.keys() & set(_SELECTING):
        of_file = {name: value for name, value in of_file.items() if name not in _SELECTING}
    return {**options, **of_file, **typed}


def _request_of_experiment(
    experiment: Experiment, here: Project, options: Mapping[str, Any], given: Mapping[str, Any]
) -> RunRequest:
    """The request of an experiment, with typed options in place of its parts; `given` has the typed ones."""
    with refusals():
        if given["prompts_file"]:
            document, file = inputs.read(given["prompts_file"]), given["prompts_file"]
        else:
            document, file = experiment.document()
        source = dataset_key(str(file), here.root)
        request = request_of(document, here, options, source=source, name=options["name"])
        if not request.targets:
            request = replace(request, targets=experiment.targets(here.settings))
        elif options["sweep"] and not given["sweep"]:
            swept = swept_targets(target_words(options), experiment, here.settings)
            request = replace(request, targets=swept)
        if given["evaluators"]:
            if (before := experiment.evaluators) is not None:
                _warn_of_dropped(request, before, experiment.where, options["quiet"])
            else:
                _warn_of_dropped(request, document.data.get("default_evaluators"), source, options["quiet"])
        return replace(
            request,
            judge=request.judge or experiment.judge(here.settings),
            evaluators=request.evaluators if given["evaluators"] else experiment.evaluators,
            prompts=request.prompts or experiment.prompts(),
            experiment=experiment,
        )


def resume(
    word: str,
    *,
    max_cost: float | None,
    errors: bool = False,
    only: Sequence[str] = (),
    without: Sequence[str] = (),
    **options: Any,
) -> int:
    """`tui-evals resume`; a paused run that is alive continues where it runs."""
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
                    say(f"{run.key} continues")
                return 0
            if run.status == "finished" and not errors:
                again = f"`tui-evals rerun {run.key} --only '!pass'` asks again what did not pass"
                has_errors = run_figures.errors(reader, run.id) > 0
                in_place = f", `tui-evals resume {run.key} --errors` its errors in place" if has_errors else ""
                raise Stop(f"{run.key} is finished; {again}{in_place}", 2)
            if RECORDED in run.config:
                raise Stop(f"{run.key} was made elsewhere, and its import was cut off; import it again")
            how = find_baseline(how, dataset_key(run.source, here.root, here.root), run)
            with stop_about(run), refusals():
                try:
                    job, notes = resumed_job(run, reader, writer, here)
                except (CannotPlan, ConfigurationError) as problem:
                    note_refusal(writer, run, problem)
                    raise
                job = leaving_out(job, here, _words(only), _words(without))
            for note in notes:
                warn(f"note: {note}")
        warn_of_plan(job.plan)
        cluster = chosen_cluster(options, here.environment, job.terms.cluster)
        job = replace(job, terms=replace(job.terms, cluster=cluster))
        approve(job.missing_permissions(judging=UNJUDGED_TOO not in run.config), here.root)
        approve_store(here, wanted=job.terms.use_cache)
        if not how.detach:
            with stop_about(run), refusals():
                job = with_limit(job, max_cost, writer)
            return run_here(job, writer, how, again=bool(run.staged_pass), errors=errors)
    require_free(run)
    words = ["resume", run.key, *(("--max-cost", max_cost) if max_cost else ()), *cluster_words(options)]
    words += ["--errors"] if errors else []
    words += [part for name in only for part in ("--target", name)]
    words += [part for name in without for part in ("--without", name)]
    return run_detached(run, how, words, is_asked_again(run) if errors else has_begun)


def _words(options: Sequence[str]) -> list[str]:
    """Names that were given by commas or one by one."""
    return [word for names in options for word in names.split(",") if word]


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
    named: tuple[str, ...],
    judge: str | None,
    without_judges: bool,
    no_cache: bool,
    allow_unjudged: bool,
    thresholds: tuple[str, ...] = (),
    weights: tuple[str, ...] = (),
    scales: tuple[str, ...] = (),
    pass_rule: float | None = None,
    only_try: bool = False,
    **options: Any,
) -> int:
    """`tui-evals rescore`: a new scoring pass over the answers that are there."""
    how = execution_options(options)
    here = open_project(how.env_name, how.trusting)
    with refusals(), project.reader() as reader:
        run = project.run_named(reader, word)
        how = find_baseline(how, dataset_key(run.source, here.root, here.root), run)
        some = only is not None or items is not None
        request = RescoreRequest(
            dataset=inputs.read(dataset) if dataset is not None else None,
            evaluators=evaluators_named(evaluators) if evaluators is not None else None,
            judge=judge,
            without_judges=without_judges,
            named=frozenset(named),
            answers=frozenset(answers_chosen(reader, run, only, items)) if some else None,
            rules=_rules(thresholds, weights, scales, pass_rule),
            use_cache=not no_cache,
            allow_unjudged=allow_unjudged or how.plan_only,
        )
        if only_try:
            return _say_what_if(run, request, reader, here, how.as_json)
        job = prepare_rescore(run, request, reader, here)
        warn_of_plan(job.plan)
        for note in job.notes:
            warn(note)
        if how.plan_only:
            sent = destinations(needed_judges(job.plan, here.settings), here.environment)
            estimate = estimate_rescore(job, reader)
            return say_estimate(job.plan, estimate, sent, how.as_json, allow_unjudged=allow_unjudged)
    cluster = chosen_cluster(options, here.environment, job.terms.cluster)
    job = replace(job, terms=replace(job.terms, cluster=cluster))
    approve(job.missing_permissions(judging=not allow_unjudged), here.root)
    approve_store(here, wanted=job.terms.use_cache)
    if how.detach:
        require_free(run)
        words: list[object] = ["rescore", run.key]
        words += ["--only", only] if only is not None else []
        words += ["--items", items] if items is not None else []
        words += ["--dataset", dataset] if dataset is not None else []
        words += ["--evaluators", evaluators] if evaluators is not None else []
        words += [word for name in named for word in ("--evaluator", name)]
        words += [word for rule in request.rules for word in rule.words]
        words += ["--judge", judge] if judge is not None else []
        words += ["--without-judges"] if without_judges else []
        words += ["--no-cache"] if no_cache else []
        words += ["--allow-unjudged"] if allow_unjudged else []
        words += cluster_words(options)
        return run_detached(run, how, words, is_being_judged(run))
    with open_writer(here) as writer:
        return run_here(job, writer, how, again=True)


_OF_WHOLE_RUNS = ("only", "items", "evaluators", "named", "judge", "without_judges", "no_cache", "detach", "cluster")


def rescore_item(word: str, item: str, dataset: Path | None, options: Mapping[str, Any]) -> int:
    """Judge the answers to an item again by the evaluators of its run, or by the current state of a dataset."""
    how = execution_options(options)
    other = next((f"--{name.replace('_', '-')}" for name in _OF_WHOLE_RUNS if options.get(name)), "")
    if other or how.gates.has_checks:
        raise Stop(f"--item judges the answers to one item in place; {other or 'a gate'} is for a whole run")
    from tui_evals.cli.look.show import answers_to  # takes long to import

    here = open_project(how.env_name, how.trusting)
    with refusals(), project.reader() as reader:
        run = project.run_named(reader, word)
        rows = answers_to(reader, run, item)
        document = inputs.read(dataset) if dataset is not None else None
        place = None if document is None else _place(reader, run, rows[0].item, document)
        work = prepare_rejudging(run, rows, reader, here, document, place)
        warn_of_plan(work.job.plan)
        if how.plan_only:
            sent = destinations(needed_judges(work.job.plan, here.settings), here.environment)
            return say_estimate(work.job.plan, work.estimate(reader), sent, how.as_json, allow_unjudged=True)
    approve(work.missing_permissions(), here.root)
    approve_store(here, wanted=True)
    with open_writer(here) as writer, refusals():
        try:
            after = asyncio.run(rejudge(work, writer, say_wait))
        except NotStored as problem:
            raise Stop(f"stopped: {problem} The same command continues", 4) from None
        except StoreError as problem:
            raise Stop(str(problem), 1) from None
    with project.reader() as reader:
        run = reader.run(run.id)
    for before, now in zip(work.rows, after, strict=True):
        if how.as_json:
            say_json_line({"answer": asdict(now), "before": {"status": before.status, "score": before.score}})
        elif not how.quiet:
            say(rejudged_change(before, now, work.expected is not None), fg=colour(ANSWER_LOOKS[now.status].tone))
    if not how.as_json and not how.quiet and (sentence := rejudged_sentence(run)):
        say(f"{run.key}: {sentence}")
    return 0


def _say_what_if(run: RunRow, request: RescoreRequest, reader: Reader, here: Project, as_json: bool) -> int:
    """Print what other rules would change, from stored scores."""
    from tui_evals.present.runs import what_if_lines
    from tui_evals.runs.what_if import what_if

    if request.answers is not None or request.named or not request.changes:
        raise Stop(
            "--what-if needs the rules to try: --threshold, --weight, --scale, --pass-rule, --evaluators or --dataset, "
            "and neither --only nor --evaluator"
        )
    found = what_if(run, request, reader, here)
    if as_json:
        changed = [asdict(one) for one in found.changed]
        say_json_line({"run": run.key, "changed": changed, "open": found.open, "contradicted": found.contradicted})
        return 0
    for line in what_if_lines(found, line_names(run)):
        say(line)
    return 0


def _rules(
    thresholds: Sequence[str], weights: Sequence[str], scales: Sequence[str], pass_rule: float | None
) -> tuple[Rule, ...]:
    """The rules that options give."""
    given: list[tuple[RuleName, str]] = [*(("threshold", word) for word in thresholds)]
    given += [("weight", word) for word in weights]
    given += [("scale", word) for word in scales]
    rules = []
    for name, word in given:
        key, _, value = word.rpartition("=")
        example = "Tone:fair=0.5" if name == "scale" else "Relevance=3"
        key, label = (key.rpartition(":")[::2]) if name == "scale" else (key, "")
        try:
            rules.append(Rule(name, float(value), key, label))
        except ValueError:
            raise Stop(f"--{name} {word}: not a number behind the evaluator. Write --{name} {example}") from None
        if not key:
            raise Stop(f"--{name} {word}: name the evaluator. Write --{name} {example}")
    return (*rules, *([Rule("pass rule", pass_rule)] if pass_rule is not None else []))


def say_wait(wait: StoreWait, is_over: bool) -> None:
    """Print what the run waits for, and that it continues."""
    with suppress(OSError):  # the output may go to the full disk
        warn(command_wait_sentence(wait, time.time(), is_over=is_over))


def _place(reader: Reader, run: RunRow, number: int, document: Document) -> int:
    """The current position of a run's item in a dataset."""
    asked = reader.snapshot(run.snapshot)["items"][number]
    place = place_of(document.data["items"], asked, number)
    if place is None:
        raise Stop(f"the item is not in {document.file} any more, or asks something else now")
    return place
