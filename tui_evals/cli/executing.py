"""A planned run on its way: what it will take, its execution here, or a process of its own for it."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tui_evals.runs import launch
from tui_evals.runs.detach import DetachFailed, has_begun, start_detached
from tui_evals.runs.engine import Engine, Outcome
from tui_evals.runs.opening import price_for
from tui_evals.runs.plan import CannotPlan, Estimate, Plan, estimate
from tui_evals.store.database import StoreError
from tui_evals.store.reader import Reader
from tui_evals.store.records import RunRow
from tui_evals.store.runlock import hold, run_lock
from tui_evals.store.writer import Writer
from tui_evals.targets.base import ConfigurationError

from . import project
from .finishing import finish, kind_named
from .gating import Gates, gates_of, measured_against
from .output import Stop, say, say_json_line, warn
from .watching import Progress
from .world import World

_SWITCH = 0.0005
"""Seconds a busy loop keeps the interpreter from the writer's thread, which needs it at every statement."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Manner:
    """How a command goes about a run: only saying what it takes, here or in the background, and what it prints."""

    plan_only: bool = False
    detach: bool = False
    quiet: bool = False
    as_json: bool = False
    env_name: str | None = None
    trusting: bool = False
    gates: Gates = field(default_factory=Gates)


def manner(options: Mapping[str, Any]) -> Manner:
    """The manner that the options of a command ask for, or the end of it with what cannot be done."""
    gates = gates_of(options)
    for file in gates.outputs:
        kind_named(file)
    return Manner(
        plan_only=options.get("plan_only", False),
        detach=options.get("detach", False),
        quiet=options["quiet"],
        as_json=options["as_json"],
        env_name=options["env_name"],
        trusting=options["trusting"],
        gates=gates,
    )


def facing(how: Manner, reader: Reader, dataset: str, run: RunRow | None = None) -> Manner:
    """The manner with the run that `run`, or a new one of a dataset, is to be measured against."""
    return replace(how, gates=measured_against(how.gates, reader, dataset, run))


def checked(plan: Plan) -> None:
    """End the command when a judge is missing; say so when a judge would judge itself."""
    try:
        plan.check_judges()
    except CannotPlan as problem:
        raise Stop(str(problem), 3) from None
    if plan.judge is not None and any(plan.judge.model == target.model for target in plan.targets):
        warn(f"note: the judge {plan.judge.name} also answers; judges favour their own answers")


def say_estimate(plan: Plan, as_json: bool, found: Estimate | None = None) -> int:
    """Say what a plan will take: all of it, or what was estimated otherwise."""
    found = found or estimate(plan, price_for)
    if as_json:
        items = len(plan.dataset.items) if plan.only is None else len(plan.only)
        targets = [target.name for target in plan.targets]
        judge = plan.judge.name if plan.judge else None
        calls = {"answers": found.answers, "judge_calls": found.judge_calls, "cost": found.cost}
        say_json_line({**calls, "items": items, "targets": targets, "judge": judge})
        return 0
    cost = "cost unknown: a price is missing" if found.cost is None else f"about {found.cost:.2f} USD"
    say(f"{found.answers} answers and {found.judge_calls} judge calls, {cost}; repairs and retries may add some")
    return 0


def execute(
    run: RunRow,
    plan: Plan,
    terms: launch.Terms,
    writer: Writer,
    here: World,
    how: Manner,
    *,
    again: bool = False,
) -> int:
    """Execute a run here, or judge its answers `again`; show how it goes, and end with its exit code."""
    path = project.store_path()
    progress = Progress(run, quiet=how.quiet, as_json=how.as_json)
    go_on = f"`tui-evals rescore {run.key}` judges again" if again else f"`tui-evals resume {run.key}` goes on"
    sys.setswitchinterval(_SWITCH)
    if terms.cluster is not None and not (how.quiet or how.as_json):
        say(f"the cluster {terms.cluster.word} is being opened")
    try:
        with hold(run_lock(path, run.key)), Reader(path) as reader:
            writer.control(run.id, "")
            world = (here.settings, here.environment, here.root)
            engine = launch.assemble(plan, run, terms, writer, reader, *world, again=again, trusting=how.trusting)
            outcome, interrupted = asyncio.run(_alive(engine, path, progress, go_on, again))
            writer.flush()
            if again and not outcome.finished:
                writer.drop_empty_pass(run.id)
    except ConfigurationError as problem:
        raise Stop(str(problem), 3) from None
    except StoreError as problem:
        raise Stop(f"{problem}\nNothing that was stored is lost: {go_on}", 1) from None
    with Reader(path) as reader:
        return finish(reader, run, outcome, interrupted, go_on, how.gates, quiet=how.quiet, as_json=how.as_json)


async def _alive(engine: Engine, path: Path, progress: Progress, go_on: str, again: bool) -> tuple[Outcome, bool]:
    """Execute with Ctrl-C at hand: the first lets what is in flight finish, the second stops now."""
    work = asyncio.create_task(engine.execute(again=again))
    presses = 0

    def pressed() -> None:
        nonlocal presses
        presses += 1
        if presses == 1:
            warn(f"\nfinishing what is in flight; Ctrl-C again stops now. {go_on} later")
            progress.leave()
            engine.stop()
        else:
            work.cancel()

    loop = asyncio.get_running_loop()
    for name in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(name, pressed)
    showing = asyncio.create_task(progress.follow(path, work))
    try:
        outcome = await work
    except asyncio.CancelledError:
        outcome = Outcome(False, "stopped")
    await showing
    return outcome, presses > 0


def detached(
    run: RunRow, how: Manner, arguments: Sequence[object] = (), begun: Callable[[RunRow], bool] = has_begun
) -> int:
    """Let a process of its own go on with a run, or do what it is told; print the key once it has begun."""
    words = [str(word) for word in arguments or ("resume", run.key)] + ["--quiet"]
    words += ["--env", how.env_name] if how.env_name else []
    words += ["--trust"] if how.trusting else []
    words += [word for file in how.gates.outputs for word in ("--output", str(file))]
    start_apart(run, words, begun)
    say_key(run, how.as_json)
    return 0


def start_apart(run: RunRow, words: Sequence[str], begun: Callable[[RunRow], bool] = has_begun) -> None:
    """Start `tui-evals WORDS` in a session of its own, or end the command with what kept it from beginning."""
    try:
        start_detached(project.store_path(), run.key, words, begun)
    except DetachFailed as problem:
        raise Stop(str(problem), 1) from None


def free(run: RunRow) -> None:
    """End the command when another process executes the run."""
    try:
        with hold(run_lock(project.store_path(), run.key)):
            return
    except StoreError as problem:
        raise Stop(str(problem), 1) from None


def say_key(run: RunRow, as_json: bool) -> None:
    """Print how a run in the background is called."""
    if as_json:
        say_json_line({"run": run.key})
    else:
        say(run.key)
