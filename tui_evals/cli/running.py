"""Starting runs and going on with them: plan, commit, execute, say how it went."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tui_evals.datasets.discover import project_root
from tui_evals.evaluators.registry import Registry
from tui_evals.runs import launch
from tui_evals.runs.detach import DetachFailed, start_detached
from tui_evals.runs.engine import Engine, Outcome
from tui_evals.runs.plan import CannotPlan, Plan, estimate
from tui_evals.store.database import StoreError
from tui_evals.store.reader import Reader
from tui_evals.store.records import RunRow
from tui_evals.store.runlock import hold, run_lock
from tui_evals.store.writer import Writer
from tui_evals.targets.base import ConfigurationError
from tui_evals.targets.config import Settings, load_settings
from tui_evals.targets.environment import environment

from . import project
from .finishing import Gates, finish
from .output import Stop, say, say_json_line, warn
from .sources import (
    checked_dataset,
    chosen_items,
    document_of,
    evaluators_named,
    in_memory,
    items_found,
    judged_by,
    prompt_file,
    prompts_of,
    target_or_stop,
    targets_named,
)
from .watching import Progress

_SWITCH = 0.0005
"""Seconds a busy loop keeps the interpreter from the writer's thread, which needs it at every statement."""


@dataclass(frozen=True)
class World:
    """Where a command runs: the project, its settings, its environment, its evaluators."""

    root: Path
    settings: Settings
    environment: Mapping[str, str]
    registry: Registry


def world(env_name: str | None, trusting: bool, prompt: Path | None = None) -> World:
    """The project's world, or the end of the command with what is wrong in it."""
    root = project_root(Path.cwd())
    try:
        settings = load_settings(root)
        values, notes = environment(root, env_name)
    except ConfigurationError as problem:
        raise Stop(str(problem), 3) from None
    for note in notes:
        warn(f"note: {note}")
    return World(root, settings, values, project.evaluators(trusting, prompt))


def start(
    *,
    targets: Sequence[str],
    prompts: Sequence[Path],
    judge: str | None,
    env_name: str | None,
    trusting: bool,
    plan_only: bool,
    detach: bool,
    no_cache: bool,
    quiet: bool,
    as_json: bool,
    **options: Any,
) -> int:
    """`tui-evals run`."""
    document, source = document_of(options)
    if options["evaluators"]:
        document = replace(
            document, data={**document.data, "default_evaluators": evaluators_named(options["evaluators"])}
        )
    here = world(env_name, trusting, prompt_file(document, prompts))
    defaults = here.settings.run
    words = [word for given in targets for word in given.split(",") if word] or list(defaults.targets)
    plan = Plan(
        dataset=checked_dataset(document, here.registry),
        targets=targets_named(words, here.settings),
        registry=here.registry,
        judge=target_or_stop(judge or here.settings.judge, here.settings),
        without_judges=options["without_judges"],
        prompts=prompts_of(document, prompts),
        repeats=options["repeats"] or defaults.repeats or 1,
    )
    plan = replace(plan, only=chosen_items(plan, options))
    _checked(plan)
    terms = launch.Terms(
        concurrency=options["concurrency"] or defaults.concurrency,
        max_cost=options["max_cost"] or defaults.max_cost,
        use_cache=not no_cache,
    )
    if plan_only:
        _say_estimate(plan, as_json)
        return 0
    with project.writer(here.environment) as writer:
        name = options["name"] or Path(source).stem
        more = {"tags": tuple(options["tags"])}
        run = launch.store_plan(plan, document.data, terms, writer, here.environment, name=name, source=source, **more)
        if not detach:
            return _execute(run, plan, terms, writer, here, options, quiet, as_json)
    return _detached(run, here, env_name, trusting, as_json)


def resume(
    word: str, *, max_cost: float | None, env_name: str | None, trusting: bool, quiet: bool, as_json: bool, **more: Any
) -> int:
    """`tui-evals resume`; a paused run that is alive is let go on where it runs."""
    here = world(env_name, trusting)
    with project.writer(here.environment) as writer:
        with project.reader() as reader:
            run = project.run_named(reader, word)
            if run.status == "paused":
                writer.control(run.id, "")
                say(f"{run.key} goes on")
                return 0
            if run.status == "finished":
                raise Stop(f"{run.key} is finished; `tui-evals rerun {run.key} --only failed` asks again", 2)
            plan = _stored(run, reader, here)
        terms = launch.terms_of(run)
        terms = replace(terms, max_cost=max_cost) if max_cost else terms
        return _execute(run, plan, terms, writer, here, more, quiet, as_json)


def rerun(
    word: str, only: str, *, env_name: str | None, trusting: bool, quiet: bool, as_json: bool, **more: Any
) -> int:
    """`tui-evals rerun`: a new run of the items a filter finds, with its parent named."""
    here = world(env_name, trusting)
    with project.writer(here.environment) as writer:
        with project.reader() as reader:
            parent = project.run_named(reader, word)
            items = items_found(reader, parent, only)
            plan = replace(_stored(parent, reader, here), only=frozenset(items))
            document = reader.snapshot(parent.snapshot)
        terms = replace(launch.terms_of(parent), use_cache=False)
        name = f"{parent.name} again"
        details = {"parent": parent.id, "tags": parent.tags}
        run = launch.store_plan(
            plan, document, terms, writer, here.environment, name=name, source=parent.source, **details
        )
        return _execute(run, plan, terms, writer, here, more, quiet, as_json)


def rescore(
    word: str,
    *,
    dataset: Path | None,
    evaluators: str | None,
    judge: str | None,
    without_judges: bool,
    env_name: str | None,
    trusting: bool,
    quiet: bool,
    as_json: bool,
    **more: Any,
) -> int:
    """`tui-evals rescore`: a new scoring pass over the answers that are there."""
    here = world(env_name, trusting)
    with project.writer(here.environment) as writer, project.reader() as reader:
        run = project.run_named(reader, word)
        plan = _stored(run, reader, here)
        if judge or here.settings.judge:
            plan = replace(plan, judge=target_or_stop(judge, here.settings) or plan.judge)
        plan = replace(plan, without_judges=without_judges or (plan.without_judges and not judge))
        if dataset is not None and evaluators is not None:
            raise Stop("give --dataset or --evaluators, not both")
        if evaluators is not None:
            data = {**reader.snapshot(run.snapshot), "default_evaluators": evaluators_named(evaluators)}
            plan = replace(plan, dataset=checked_dataset(in_memory(data), here.registry))
        if dataset is not None:
            plan = replace(plan, dataset=judged_by(plan.dataset, checked_dataset(project.read(dataset), here.registry)))
        _checked(plan)
        terms = replace(launch.terms_of(run), max_cost=None)
        run = replace(run, scoring_pass=writer.new_pass(run.id, {"judge": plan.judge.name if plan.judge else None}))
        return _execute(run, plan, terms, writer, here, more, quiet, as_json, again=True)


def _stored(run: RunRow, reader: Reader, here: World) -> Plan:
    try:
        return launch.stored_plan(run, reader, here.settings, here.environment, here.registry)
    except (CannotPlan, ConfigurationError) as problem:
        raise Stop(str(problem), 3) from None


def _checked(plan: Plan) -> None:
    try:
        plan.check_judges()
    except CannotPlan as problem:
        raise Stop(str(problem), 3) from None
    if plan.judge is not None and any(plan.judge.model == target.model for target in plan.targets):
        warn(f"note: the judge {plan.judge.name} also answers; judges favour their own answers")


def _say_estimate(plan: Plan, as_json: bool) -> None:
    found = estimate(plan, launch.price_for)
    if as_json:
        say_json_line({"answers": found.answers, "judge_calls": found.judge_calls, "cost": found.cost})
        return
    cost = "cost unknown: a price is missing" if found.cost is None else f"about {found.cost:.2f} USD"
    say(f"{found.answers} answers and {found.judge_calls} judge calls, {cost}; repairs and retries may add some")


def _execute(
    run: RunRow,
    plan: Plan,
    terms: launch.Terms,
    writer: Writer,
    here: World,
    options: Mapping[str, Any],
    quiet: bool,
    as_json: bool,
    *,
    again: bool = False,
) -> int:
    """Execute a run here, show how it goes, and end with its exit code."""
    path = project.store_path()
    progress = Progress(quiet=quiet, as_json=as_json)
    sys.setswitchinterval(_SWITCH)
    try:
        with hold(run_lock(path, run.key)), Reader(path) as reader:
            writer.control(run.id, "")
            engine = launch.assemble(plan, run, terms, writer, reader, here.settings, here.environment, here.root)
            outcome, interrupted = asyncio.run(_alive(engine, run, path, progress, again))
            writer.flush()
    except ConfigurationError as problem:
        raise Stop(str(problem), 3) from None
    except StoreError as problem:
        raise Stop(f"{problem}\nNothing that was stored is lost: `tui-evals resume {run.key}` goes on", 1) from None
    gates = Gates(options.get("fail_under"), options.get("fail_on"), tuple(options.get("outputs") or ()))
    with Reader(path) as reader:
        return finish(reader, run, outcome, interrupted, gates, quiet=quiet, as_json=as_json)


async def _alive(engine: Engine, run: RunRow, path: Path, progress: Progress, again: bool) -> tuple[Outcome, bool]:
    """Execute with Ctrl-C at hand: the first lets what is in flight finish, the second stops now."""
    work = asyncio.create_task(engine.execute(again=again))
    presses = 0

    def pressed() -> None:
        nonlocal presses
        presses += 1
        if presses == 1:
            warn(f"\nfinishing what is in flight; Ctrl-C again stops now. `tui-evals resume {run.key}` goes on later")
            engine.stop()
        else:
            work.cancel()

    loop = asyncio.get_running_loop()
    for name in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(name, pressed)
    showing = asyncio.create_task(progress.follow(path, run, work))
    try:
        outcome = await work
    except asyncio.CancelledError:
        outcome = Outcome(False, "stopped")
    await showing
    return outcome, presses > 0


def _detached(run: RunRow, here: World, env_name: str | None, trusting: bool, as_json: bool) -> int:
    arguments = ["resume", run.key, "--quiet"]
    arguments += ["--env", env_name] if env_name else []
    arguments += ["--trust"] if trusting else []
    try:
        start_detached(project.store_path(), run.key, arguments)
    except DetachFailed as problem:
        raise Stop(str(problem), 1) from None
    if as_json:
        say_json_line({"run": run.key})
    else:
        say(run.key)
    return 0
