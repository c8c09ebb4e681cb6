"""Evaluating from Python: datasets, targets and evaluators as a program has them, and the run they come to."""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Callable, Coroutine, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from tui_evals.datasets.discover import project_root
from tui_evals.present.answers import cause_sentence
from tui_evals.runs.errors import CannotPlan
from tui_evals.runs.estimating import Estimate
from tui_evals.runs.execution import RunOutcome, execute
from tui_evals.runs.project import Project, load_project, store_note
from tui_evals.runs.resuming import demand_errors, resumed_job, with_limit
from tui_evals.runs.start import PreparedRun, RunRequest, prepare
from tui_evals.runs.status import UNJUDGED_TOO
from tui_evals.store.baselines import dataset_key
from tui_evals.store.reader import Reader
from tui_evals.targets.permissions import NotApproved
from tui_evals.targets.sweep import Sweep, swept
from tui_evals.text.model_output import ENDINGS

from .given import (
    Configured,
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
from .results import Run, read_run


class RunStopped(Exception):
    """A run ended before its end; `run` holds what there is, and `tui-evals resume` goes on with it."""

    def __init__(self, message: str, run: Run) -> None:
        super().__init__(message)
        self.run = run


class EveryCallFailed(RunStopped):
    """No call of a run was answered, all for the same reason; `run` holds what there is. Its note says where."""


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
    tags: Sequence[str] = (),
    concurrency: int | None = None,
    max_cost: float | None = None,
    use_cache: bool = True,
    trust: bool = False,
    allow_unjudged: bool = False,
    project: str | Path | None = None,
) -> Run:
    """Ask every item of every target, judge the answers, and return the run, which is kept in the store.

    `dataset` is a file, a Dataset, a document or a list of items; `target` a name of the configuration, a model, a
    function that answers, a Target, or several of them. `evaluators` replace the dataset's defaults: names, a mapping
    of names to options, classes of evaluators or functions that judge. `judge` is what judges, where a model does, and
    `without_judges` leaves out the evaluators that need one. `prompts` are prompt files under test, `sweep`
    the values that parameters of the targets take in turn, as in `{"temperature": [0, 0.7]}`, `repeats` how often each
    item is asked, `only` the positions of the items that are asked, from 0. `max_cost` is in US dollars, `trust`
    lets code of the project run unasked, `allow_unjudged` goes on though an evaluator lacks what it needs to judge (a
    library, code you trust) and is refused else, and `project` is the folder whose `.evals/` is used.

    DatasetError, ConfigurationError and CannotPlan say what is wrong before anything is asked; RunStopped says why a
    run ended early, and EveryCallFailed why nothing was answered, where that is one reason for all.
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
        tags=tags,
        concurrency=concurrency,
        max_cost=max_cost,
        use_cache=use_cache,
        trust=trust,
        allow_unjudged=allow_unjudged,
        project=project,
    )
    return wait_for(work)


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
    """Go on with a run where it stopped, and return it; nothing answered is asked again.

    With `errors` what ended as an error is asked again in the run, and judged again by evaluators that could not. What
    it was stays in the record, and its cost in the sum. `run` is a run, its id or its name. A `target`, `evaluators`
    or a `judge` that are code have to be given again, because a store keeps none; `max_cost` is a new limit.
    """
    return wait_for(_resumed(run, target, errors, evaluators, judge, max_cost, trust, project))


def project_of_run(
    run: str | Run,
    target: TargetLike | Sequence[TargetLike] | None,
    judge: TargetLike | None,
    project: str | Path | None,
    *,
    trust: bool = False,
) -> tuple[Project, list[Configured]]:
    """The project of a run, which knows the code that answers and judges, and that code."""
    here = load_project(project_root(Path(project) if project is not None else Path.cwd()), trusting=trust)
    if isinstance(run, Run) and run.store != Path():
        here = replace(here, database=run.store)
    given = [*target_list(target), *([judge] if judge is not None else [])]
    code = [pair for pair in configurations(given, here.settings) if pair[1] is not None]
    configured = {**here.settings.targets, **{config.name: config for config, _ in code}}
    return replace(here, settings=replace(here.settings, targets=configured)), code


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


Returned = TypeVar("Returned")


def wait_for(work: Coroutine[Any, Any, Returned]) -> Returned:
    """The result of some work, for code that may run in an event loop or not."""
    if not _in_a_loop():
        return _run_interruptible(work)
    with ThreadPoolExecutor(1) as pool:  # a notebook has a loop of its own already
        return pool.submit(asyncio.run, work).result()


def _run_interruptible(work: Coroutine[Any, Any, Returned]) -> Returned:
    """`asyncio.run`, whose KeyboardInterrupt names the run that Ctrl-C ended."""
    try:
        return asyncio.run(work)
    except KeyboardInterrupt as interrupt:
        notes = getattr(interrupt.__context__, "__notes__", ())
        if not notes:
            raise
        raise KeyboardInterrupt(*notes) from None


def _in_a_loop() -> bool:
    """Whether this thread runs a loop; asked apart, so that what is raised later has no error of asyncio before it."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


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
    tags: Sequence[str] = (),
    concurrency: int | None = None,
    max_cost: float | None = None,
    use_cache: bool = True,
    trust: bool = False,
    allow_unjudged: bool = False,
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
    return await execute_prepared(prepared, here)


async def execute_prepared(
    prepared: PreparedRun, here: Project, *, stored: Callable[[str], None] = lambda key: None
) -> Run:
    """Store and execute what is prepared; `stored` is called with the key before anything is asked."""
    unused = store_note(here.store) if prepared.terms.use_cache and not here.trusting else ""
    for caution in filter(None, (*prepared.plan.cautions(), unused)):
        warnings.warn(caution, stacklevel=3)
    with here.writer() as writer:
        job = prepared.store(writer)
        stored(job.run.key)
        try:
            outcome = await execute(job, writer)
        except asyncio.CancelledError as cancelled:
            cancelled.add_note(f"The run {job.run.key} was interrupted. Continue it with resume({job.run.key!r}).")
            raise
    return run_of(outcome, here)


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
    """What `evaluate` with the same arguments will take: its calls, cost and seconds. Nothing is asked or stored.

    Cost and time come from earlier answers and verdicts of the same dataset, target and judge. Without them the cost
    is guessed from the length of the chats, and `seconds` is None.
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
    **request: Any,
) -> PreparedRun:
    """What a program asks for, found and checked; `request` are further fields of a RunRequest."""
    document = document_of(dataset, here.root)
    chosen, own = evaluators_and_code(evaluators) if evaluators is not None else (None, {})
    targets = configurations(target_list(target), here.settings)
    judges = configurations([judge] if judge is not None else [], here.settings)
    refuse_same_name(targets, judges, judge in target_list(target))
    asked = swept((config for config, _ in targets), sweep)
    return prepare(
        RunRequest(
            document=document,
            source=dataset_key(str(document.file), here.root),
            name=name or document.file.stem,
            targets=asked,
            judge=judges[0][0] if judges else None,
            evaluators=chosen,
            own_evaluators=own,
            ready=code_by_name([*targets, *judges], asked),
            **request,
        ),
        here,
    )


def run_of(outcome: RunOutcome, here: Project) -> Run:
    """The run as it is now; RunStopped where it ended early, EveryCallFailed where nothing was answered."""
    with Reader(here.store) as reader:
        run = read_run(reader, outcome.run)
    if not outcome.finished:
        raise RunStopped(f"{run.key} stopped: {outcome.message}", run)
    _demand_answer(run, outcome)
    return run


def _demand_answer(run: Run, outcome: RunOutcome) -> None:
    """Raise when one error is all that came of a run; code that reads only its score would take it for a result."""
    missing = [cause for cause in outcome.causes if not cause.evaluator and cause.code not in (*ENDINGS, "turnSkipped")]
    if not run.totals.errored or run.totals.errored != run.totals.total or len(missing) != 1:
        return
    failure = EveryCallFailed(f"all calls of {run.key} failed: {cause_sentence(missing[0])}", run)
    if traceback := next((answer.traceback for answer in run.answers if answer.traceback), None):
        failure.add_note(traceback)
    raise failure
