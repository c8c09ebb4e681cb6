"""Evaluating from Python: datasets, targets and evaluators as a program has them, and the run they come to."""

from __future__ import annotations

import asyncio
import inspect
import warnings
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from tui_evals.datasets.discover import project_root
from tui_evals.datasets.document import Document, load
from tui_evals.datasets.model import Dataset, Item
from tui_evals.datasets.validate import document_of_data
from tui_evals.datasets.versions import CURRENT_VERSION
from tui_evals.evaluators.base import Evaluator
from tui_evals.present.causes import cause_sentence
from tui_evals.runs.approving import find_typed
from tui_evals.runs.plan import CannotPlan
from tui_evals.runs.project import Project, load_project
from tui_evals.runs.start import (
    RunOutcome,
    RunRequest,
    demand_errors,
    execute,
    judged_onwards,
    prepare,
    stored_job,
    with_limit,
)
from tui_evals.runs.status import UNJUDGED_TOO
from tui_evals.store.baselines import dataset_key
from tui_evals.store.reader import Reader
from tui_evals.targets.base import ConfigurationError, Target, TargetConfig
from tui_evals.targets.config import Settings
from tui_evals.targets.function import given_function
from tui_evals.targets.permissions import NotApproved
from tui_evals.targets.sweep import Sweep, base_name, swept
from tui_evals.text.endings import ENDINGS

from .functions import evaluator_of
from .results import Run, read_run

Answers = Callable[..., Any]
"""A function that answers: it takes the prompt (or `messages`, or `request`) and returns text, now or when awaited."""
DatasetLike = str | Path | Dataset | Mapping[str, Any] | Sequence[Item | Mapping[str, Any]]
TargetLike = str | Target | Answers
EvaluatorsLike = str | Mapping[str, Any] | Sequence[Any]


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
    return _wait_for(work)


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
    return _wait_for(_resumed(run, target, errors, evaluators, judge, max_cost, trust, project))


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
    here = load_project(project_root(Path(project) if project is not None else Path.cwd()), trusting=trust)
    if isinstance(run, Run) and run.store != Path():
        here = replace(here, database=run.store)
    given = [judge] if judge is not None else []
    code = [pair for pair in _configurations([*_target_list(target), *given], here.settings) if pair[1] is not None]
    own = _evaluators_and_code(evaluators)[1] if evaluators is not None else {}
    configured = {**here.settings.targets, **{config.name: config for config, _ in code}}
    here = replace(here, settings=replace(here.settings, targets=configured))
    with here.writer() as writer:
        with Reader(here.store) as reader:
            found = reader.find_run(run.key if isinstance(run, Run) else run)
            if errors:
                demand_errors(reader, found)
            elif found.status == "finished":
                raise CannotPlan(f"{found.key} is finished; nothing is left to ask")
            job = (judged_onwards if found.staged_pass else stored_job)(found, reader, here, own)
        if missing := job.missing_permissions(judging=UNJUDGED_TOO not in found.config):
            raise NotApproved(missing, here.root)
        job = with_limit(replace(job, ready=_code_by_name(code, job.plan.targets)), max_cost, writer)
        return _run_of(await execute(job, writer, again=bool(found.staged_pass), errors=errors), here)


def _wait_for(work: Coroutine[Any, Any, Run]) -> Run:
    if not _in_a_loop():
        return asyncio.run(work)
    with ThreadPoolExecutor(1) as pool:  # a notebook has a loop of its own already
        return pool.submit(asyncio.run, work).result()


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
    document = _document(dataset, here.root)
    chosen, own = _evaluators_and_code(evaluators) if evaluators is not None else (None, {})
    targets = _configurations(_target_list(target), here.settings)
    judges = _configurations([judge] if judge is not None else [], here.settings)
    _refuse_same_name(targets, judges, judge in _target_list(target))
    asked = swept((config for config, _ in targets), sweep or {})
    request = RunRequest(
        document=document,
        source=dataset_key(str(document.file), here.root),
        name=name or document.file.stem,
        tags=tuple(tags),
        targets=asked,
        judge=judges[0][0] if judges else None,
        without_judges=without_judges,
        evaluators=chosen,
        own_evaluators=own,
        ready=_code_by_name([*targets, *judges], asked),
        allow_unjudged=allow_unjudged,
        prompts=tuple(Path(prompt) for prompt in prompts),
        repeats=repeats,
        items=frozenset(only) if only is not None else None,
        concurrency=concurrency,
        max_cost=max_cost,
        use_cache=use_cache,
    )
    prepared = prepare(request, here)
    for caution in prepared.plan.cautions():
        warnings.warn(caution, stacklevel=2)
    with here.writer() as writer:
        outcome = await execute(prepared.store(writer), writer)
    return _run_of(outcome, here)


def _run_of(outcome: RunOutcome, here: Project) -> Run:
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


def _document(dataset: DatasetLike, root: Path) -> Document:
    """The dataset as a document; one that is no file stands for `dataset.json` in the project."""
    if isinstance(dataset, str | Path):
        return load(Path(dataset))
    data: dict[str, Any]
    if isinstance(dataset, Dataset):
        data = dataset.model_dump(exclude_unset=True)
    elif isinstance(dataset, Mapping):
        data = dict(dataset)
    else:
        data = {
            "items": [item.model_dump(exclude_unset=True) if isinstance(item, Item) else dict(item) for item in dataset]
        }
    data = {"schemaVersion": CURRENT_VERSION, **data}
    return document_of_data(data, root / "dataset")


def _target_list(target: TargetLike | Sequence[TargetLike] | None) -> list[TargetLike]:
    if target is None:
        return []
    return list(target) if isinstance(target, Sequence) and not isinstance(target, str) else [target]


def _configurations(targets: Sequence[TargetLike], settings: Settings) -> list[tuple[TargetConfig, Target | None]]:
    """Each target's configuration, and the target itself where it is a function at hand."""
    configured: list[tuple[TargetConfig, Target | None]] = []
    for target in targets:
        if isinstance(target, str):
            configured.append((find_typed(target, settings), None))
            continue
        name = str(getattr(target, "name", None) or getattr(target, "__name__", type(target).__name__))
        place = f"{getattr(target, '__module__', '')}:{getattr(target, '__qualname__', type(target).__qualname__)}"
        config = TargetConfig(name=name, model=f"python:{place}")
        configured.append((config, _target_of(target, config)))
    names = [config.name for config, _ in configured]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise ConfigurationError(f"two targets are called {twice}; give the functions names of their own")
    return configured


_Configured = tuple[TargetConfig, Target | None]


def _code_by_name(given: Iterable[_Configured], asked: Iterable[TargetConfig]) -> dict[str, Target]:
    """Which code answers by each name, that of a target with other parameters too."""
    code = {config.name: target for config, target in given if target is not None}
    varied = {config.name: code[base] for config in asked if (base := base_name(config.name)) in code}
    return code | varied


def _refuse_same_name(targets: Sequence[_Configured], judges: Sequence[_Configured], same: bool) -> None:
    """ConfigurationError where a function that answers and another that judges could not be told apart."""
    names = {config.name for config, ready in targets if ready is not None}
    if not same and (twice := next((config.name for config, _ in judges if config.name in names), None)):
        raise ConfigurationError(
            f"the target and the judge are both called {twice}; give the functions names of their own"
        )


def _target_of(target: Target | Answers, config: TargetConfig) -> Target:
    if not inspect.iscoroutinefunction(getattr(target, "ask", None)):
        return given_function(cast(Answers, target), config)
    if inspect.isclass(target):
        raise ConfigurationError(f"{config.name} is a class of targets; give an object of it, such as {config.name}()")
    if not inspect.iscoroutinefunction(getattr(target, "close", None)):
        raise ConfigurationError(f"the target {config.name} has no `async def close(self)`, which ends what it holds")
    return cast(Target, target)


def _evaluators_and_code(evaluators: EvaluatorsLike) -> tuple[dict[str, Any], dict[str, type[Evaluator]]]:
    """The default evaluators of the dataset, and those of them that were given as code."""
    if isinstance(evaluators, str):
        evaluators = [word for part in evaluators.split(",") if (word := part.strip())]
    by_name = (
        evaluators if isinstance(evaluators, Mapping) else {_name_of(evaluator): evaluator for evaluator in evaluators}
    )
    chosen: dict[str, Any] = {}
    own: dict[str, type[Evaluator]] = {}
    for name, evaluator in by_name.items():
        if isinstance(evaluator, Mapping):
            chosen[name] = dict(evaluator)
        elif isinstance(evaluator, str):
            chosen[name] = {}
        elif inspect.isclass(evaluator) and issubclass(evaluator, Evaluator):
            own[name], chosen[name] = evaluator, {}
        else:
            own[name], chosen[name] = evaluator_of(name, evaluator), {}
    return chosen, own


def _name_of(evaluator: Any) -> str:
    if isinstance(evaluator, str):
        return evaluator
    if inspect.isroutine(evaluator) or inspect.isclass(evaluator):
        return str(getattr(evaluator, "name", None) or evaluator.__name__)
    name = getattr(evaluator, "name", None)
    return name if isinstance(name, str) and name.isidentifier() else type(evaluator).__name__
