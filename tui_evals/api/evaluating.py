"""Evaluating from Python: datasets, targets and evaluators as a program has them, and the run they come to."""

from __future__ import annotations

import asyncio
import re
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from tui_evals.datasets.discover import project_root
from tui_evals.runs.errors import CannotPlan
from tui_evals.runs.estimating import Estimate
from tui_evals.runs.execution import Companion, execute
from tui_evals.runs.project import Project, load_project, store_note
from tui_evals.runs.resuming import demand_errors, resumed_job, with_limit
from tui_evals.runs.start import PreparedRun, RunRequest, prepare
from tui_evals.runs.status import UNJUDGED_TOO
from tui_evals.store.baselines import dataset_key
from tui_evals.store.reader import Reader
from tui_evals.store.records import RunRow
from tui_evals.targets.permissions import NotApproved
from tui_evals.targets.sweep import Sweep, swept

from .arguments import (
    DatasetLike,
    EvaluatorsLike,
    TargetLike,
    code_by_name,
    configurations,
    document_of,
    evaluators_and_code,
    refuse_same_name,
    target_list,
)
from .run import EveryCallFailed, Run, project_of_run, run_of
from .watching import OnAnswer, Watch, in_a_loop, wait_for


def evaluate(
    dataset: DatasetLike,
    target: TargetLike | Sequence[TargetLike] | None = None,
    *,
    evaluators: EvaluatorsLike | None = None,
    judge: TargetLike | None = None,
    without_judges: bool = False,
    prompts: Sequence[str | Path] = (),
    sweep: Sweep | None = None,
    repeats: int | None = None,
    only: Iterable[int] | None = None,
    name: str | None = None,
    dataset_name: str | None = None,
    tags: Sequence[str] = (),
    concurrency: int | None = None,
    max_cost: float | None = None,
    use_cache: bool = True,
    trust: bool = False,
    allow_unjudged: bool = False,
    on_answer: OnAnswer | None = None,
    progress: bool | None = None,
    project: str | Path | None = None,
) -> Run:
    """Run every item against every target, judge the answers, store the run, and return it.

    `dataset` is a file, a Dataset, a document or a list of items; `target` a name from the configuration, a model, a
    function that answers, a Target, or several of them. `evaluators` replace the dataset's defaults: names, a mapping
    of names to options, evaluator classes or functions that judge. `judge` is the target for evaluators that need a
    model; `without_judges` omits those evaluators. `prompts` are prompt files under test, `sweep` the values of target
    parameters to try, as in `{"temperature": [0, 0.7]}`, `repeats` the number of answers per item, `only` the positions
    of the items to run, from 0. `dataset_name` names a dataset made in code, to identify its trend and baseline;
    without it they are identified by its prompts. `max_cost` is in US dollars; `trust` lets code of the project run
    without asking. `allow_unjudged` starts even if an evaluator lacks a requirement (a library, trusted code).
    `on_answer` is called with each judged answer; `progress` shows a bar on standard error, by default on a terminal.
    `project` is the folder with `.evals/`.

    Raises DatasetError, ConfigurationError or CannotPlan before anything is sent, RunStopped if the run ended early,
    and EveryCallFailed if all calls failed for one reason.
    """
    work = aevaluate(
        dataset,
        target,
        evaluators=evaluators,
        judge=judge,
        without_judges=without_judges,
        prompts=prompts,
        sweep=sweep,
        repeats=repeats,
        only=only,
        name=name,
        dataset_name=dataset_name,
        tags=tags,
        concurrency=concurrency,
        max_cost=max_cost,
        use_cache=use_cache,
        trust=trust,
        allow_unjudged=allow_unjudged,
        on_answer=on_answer,
        progress=progress,
        project=project,
    )
    return _with_hint(lambda: wait_for(work))


def resume(
    run: str | Run,
    target: TargetLike | Sequence[TargetLike] | None = None,
    *,
    errors: bool = False,
    evaluators: EvaluatorsLike | None = None,
    judge: TargetLike | None = None,
    max_cost: float | None = None,
    trust: bool = False,
    project: str | Path | None = None,
) -> Run:
    """Continue an interrupted run and return it; answered items are not sent again.

    With `errors`, answers that ended as errors are requested again, and judged again if evaluators failed. The earlier
    attempts and their cost stay in the run. `run` is a run, its id or its name. A `target`, `evaluators` or `judge`
    made in code must be passed again, because the store cannot keep code; `max_cost` is a new limit.
    """
    work = _resumed(run, target, errors, evaluators, judge, max_cost, trust, project)
    return _with_hint(lambda: wait_for(work))


async def _resumed(
    run: str | Run,
    target: TargetLike | Sequence[TargetLike] | None,
    errors: bool,
    evaluators: EvaluatorsLike | None,
    judge: TargetLike | None,
    max_cost: float | None,
    trust: bool,
    project: str | Path | None,
) -> Run:
    here, code = project_of_run(run, target, judge, project, trust=trust)
    own = evaluators_and_code(evaluators)[1] if evaluators is not None else {}
    with here.writer() as writer:
        with Reader(here.store) as reader:
            found = reader.find_run(run.key if isinstance(run, Run) else run)
            if errors:
                demand_errors(reader, found)
            elif found.status == "finished":
                raise CannotPlan(f"{found.key} is finished; nothing is left to ask")
            job, notes = resumed_job(found, reader, writer, here, own)
        for note in notes:
            warnings.warn(note, stacklevel=2)
        if missing := job.missing_permissions(judging=UNJUDGED_TOO not in found.config):
            raise NotApproved(missing, here.root)
        job = with_limit(replace(job, ready=code_by_name(code, job.plan.targets)), max_cost, writer)
        return run_of(await execute(job, writer, again=bool(found.staged_pass), errors=errors), here)


async def aevaluate(
    dataset: DatasetLike,
    target: TargetLike | Sequence[TargetLike] | None = None,
    *,
    evaluators: EvaluatorsLike | None = None,
    judge: TargetLike | None = None,
    without_judges: bool = False,
    prompts: Sequence[str | Path] = (),
    sweep: Sweep | None = None,
    repeats: int | None = None,
    only: Iterable[int] | None = None,
    name: str | None = None,
    dataset_name: str | None = None,
    tags: Sequence[str] = (),
    concurrency: int | None = None,
    max_cost: float | None = None,
    use_cache: bool = True,
    trust: bool = False,
    allow_unjudged: bool = False,
    on_answer: OnAnswer | None = None,
    progress: bool | None = None,
    project: str | Path | None = None,
) -> Run:
    """`evaluate` for async code."""
    here = load_project(project_root(Path(project) if project is not None else Path.cwd()), trusting=trust)
    prepared = prepared_run(
        here,
        dataset,
        target,
        judge,
        evaluators,
        name=name,
        dataset_name=dataset_name,
        tags=tuple(tags),
        sweep=sweep or {},
        without_judges=without_judges,
        allow_unjudged=allow_unjudged,
        prompts=tuple(Path(prompt) for prompt in prompts),
        repeats=repeats,
        items=frozenset(only) if only is not None else None,
        concurrency=concurrency,
        max_cost=max_cost,
        use_cache=use_cache,
    )
    watch = Watch(on_answer, progress)
    return await execute_prepared(prepared, here, companion=watch.companion if watch.is_needed else None)


async def execute_prepared(
    prepared: PreparedRun,
    here: Project,
    *,
    stored: Callable[[str], None] = lambda key: None,
    companion: Callable[[RunRow, Path], Companion] | None = None,
) -> Run:
    """Store and execute a prepared run; `stored` is called with the key before anything is asked."""
    unused = store_note(here.store) if prepared.terms.use_cache and not here.trusting else ""
    for caution in filter(None, (*prepared.plan.cautions(), unused)):
        warnings.warn(caution, stacklevel=3)
    with here.writer() as writer:
        job = prepared.store(writer)
        stored(job.run.key)
        try:
            beside_it = companion(job.run, here.store) if companion is not None else None
            outcome = await execute(job, writer, companion=beside_it)
        except asyncio.CancelledError as cancelled:
            cancelled.add_note(f"The run {job.run.key} was interrupted. Continue it with resume({job.run.key!r}).")
            raise
    return run_of(outcome, here)


def _with_hint(evaluated: Callable[[], Run]) -> Run:
    """The run; where the caller's event loop is the likely cause of errors, they say so."""
    if not in_a_loop():
        return evaluated()
    try:
        run = evaluated()
    except EveryCallFailed as failed:
        if _is_loop_trouble(failed.run):
            failed.args = (f"{failed}. {_LOOP_HINT}",)
        raise
    if _is_loop_trouble(run):
        warnings.warn(_LOOP_HINT, stacklevel=3)
    return run


_LOOP_HINT = (
    "evaluate() runs in an event loop of its own while yours is running, and an async client made in yours fails in "
    "it: use `await aevaluate(...)` with the same arguments."
)


def _is_loop_trouble(run: Run) -> bool:
    """Whether an error of a run speaks of an event loop, as those of clients do that belong to another one."""
    return any(re.search(r"\bloop\b", answer.error or "") for answer in run.answers)


def estimate(
    dataset: DatasetLike,
    target: TargetLike | Sequence[TargetLike] | None = None,
    *,
    evaluators: EvaluatorsLike | None = None,
    judge: TargetLike | None = None,
    without_judges: bool = False,
    prompts: Sequence[str | Path] = (),
    sweep: Sweep | None = None,
    repeats: int | None = None,
    only: Iterable[int] | None = None,
    concurrency: int | None = None,
    max_cost: float | None = None,
    use_cache: bool = True,
    project: str | Path | None = None,
) -> Estimate:
    """The calls, cost and seconds that `evaluate` would take with these arguments. Sends and stores nothing.

    Cost and time are based on earlier answers and scores of the same dataset, target and judge. Without them the cost
    is estimated from the length of the chats, and `seconds` is None.
    """
    here = load_project(project_root(Path(project) if project is not None else Path.cwd()))
    prepared = prepared_run(
        here,
        dataset,
        target,
        judge,
        evaluators,
        sweep=sweep or {},
        without_judges=without_judges,
        allow_unjudged=True,
        prompts=tuple(Path(prompt) for prompt in prompts),
        repeats=repeats,
        items=frozenset(only) if only is not None else None,
        concurrency=concurrency,
        max_cost=max_cost,
        use_cache=use_cache,
    )
    return prepared.estimate()


def prepared_run(
    here: Project,
    dataset: DatasetLike,
    target: TargetLike | Sequence[TargetLike] | None,
    judge: TargetLike | None,
    evaluators: EvaluatorsLike | None,
    *,
    sweep: Sweep,
    name: str | None = None,
    dataset_name: str | None = None,
    **request: Any,
) -> PreparedRun:
    """A checked run for the arguments of a program; `request` has further fields of a RunRequest."""
    document = document_of(dataset, here.root, dataset_name)
    is_file = isinstance(dataset, str | Path)
    chosen, own = evaluators_and_code(evaluators) if evaluators is not None else (None, {})
    targets = configurations(target_list(target), here.settings)
    judges = configurations([judge] if judge is not None else [], here.settings)
    refuse_same_name(targets, judges, judge in target_list(target))
    asked = swept((config for config, _ in targets), sweep)
    return prepare(
        RunRequest(
            document=document,
            source=dataset_key(str(document.file), here.root) if is_file else document.file.name,
            name=name or (document.file.stem if is_file else document.file.name),
            targets=asked,
            judge=judges[0][0] if judges else None,
            evaluators=chosen,
            own_evaluators=own,
            ready=code_by_name([*targets, *judges], asked),
            **request,
        ),
        here,
    )
