"""The cluster that a command names, checked before anything is asked of it."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from tui_evals.cli import project
from tui_evals.cli.compare.baseline import key_of
from tui_evals.cli.output import Stop, say, say_json_line, warn
from tui_evals.cli.project import World, world
from tui_evals.cli.sources import (
    checked_dataset,
    chosen_items,
    document_of,
    evaluators_named,
    prompt_file,
    prompts_of,
    settings_of,
    target_or_stop,
    targets_named,
)
from tui_evals.datasets.document import Document
from tui_evals.evaluators.registry import with_prompt_metrics
from tui_evals.runs import start as launch
from tui_evals.runs.detach import DetachFailed, has_begun, start_detached
from tui_evals.runs.engine import Engine, Outcome
from tui_evals.runs.executors.cluster.terms import ClusterTerms, checked, place
from tui_evals.runs.opening import price_for
from tui_evals.runs.plan import CannotPlan, Estimate, Plan, estimate
from tui_evals.runs.start import Terms
from tui_evals.runs.status import METRICS, RECORDED
from tui_evals.store.baselines import dataset_key
from tui_evals.store.database import StoreError
from tui_evals.store.reader import Reader
from tui_evals.store.records import RunRow
from tui_evals.store.runlock import hold, run_lock
from tui_evals.store.writer import Writer
from tui_evals.targets.base import ConfigurationError

from .finishing import finish, kind_named
from .gating import Gates, gates_of, measured_against
from .watching import Progress

HERE = "none"
"""The word that brings a run back from its cluster into this process."""
OPTIONS = ("cluster", "insecure_cluster", "tls_ca", "tls_cert", "tls_key", "forward_env")


def with_cluster(terms: Terms, options: Mapping[str, Any], environment: Mapping[str, str]) -> Terms:
    """The terms of a run with the cluster that the command names instead of the one it had."""
    word = options["cluster"]
    if word is None:
        lost = [name for name in OPTIONS if options[name]]
        if lost:
            raise Stop(f"--{lost[0].replace('_', '-')} belongs to --cluster; name a cluster as well")
        found = terms.cluster
    elif word == HERE:
        found = None
    else:
        kind, _, rest = word.partition(":")
        found = ClusterTerms(
            word=f"ssh:{_whole(rest)}" if kind == "ssh" and rest else word,
            insecure=options["insecure_cluster"],
            **{name: options[name] and _whole(options[name]) for name in ("tls_ca", "tls_cert", "tls_key")},
            forward=tuple(options["forward_env"]),
        )
    if found is not None:
        for note in _notes(found, environment):
            warn(f"warning: {note}")
    return replace(terms, cluster=found)


def _notes(found: ClusterTerms, environment: Mapping[str, str]) -> tuple[str, ...]:
    """What is to be said of a cluster, or the end of the command with what is wrong with it."""
    try:
        place(found.word)
    except ConfigurationError as problem:
        raise Stop(str(problem)) from None
    for name in found.forward:
        if name not in environment:
            raise Stop(f"--forward-env {name}: there is no such variable here")
    try:
        return checked(found)
    except ConfigurationError as problem:
        raise Stop(str(problem), 3) from None


def _whole(path: str) -> str:
    """The path from the root, for whoever goes on with the run from another folder."""
    return str(Path(path).expanduser().absolute())


def cluster_words(options: Mapping[str, Any]) -> list[str]:
    """The same options as words, for the process that goes on with a run in the background."""
    words: list[str] = []
    for name in OPTIONS:
        given, option = options[name], f"--{name.replace('_', '-')}"
        if given is True:
            words.append(option)
        elif isinstance(given, tuple):
            words += [word for each in given for word in (option, each)]
        elif given:
            words += [option, given]
    return words


_SWITCH = 0.0005
"""Seconds a busy loop keeps the interpreter from the writer's thread, which needs it at every statement."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionOptions:
    """How a command goes about a run: only saying what it takes, here or in the background, and what it prints."""

    plan_only: bool = False
    detach: bool = False
    quiet: bool = False
    as_json: bool = False
    env_name: str | None = None
    trusting: bool = False
    gates: Gates = field(default_factory=Gates)


def execution_options(options: Mapping[str, Any]) -> ExecutionOptions:
    """The manner that the options of a command ask for, or the end of it with what cannot be done."""
    gates = gates_of(options)
    for file in gates.outputs:
        kind_named(file)
    return ExecutionOptions(
        plan_only=options.get("plan_only", False),
        detach=options.get("detach", False),
        quiet=options["quiet"],
        as_json=options["as_json"],
        env_name=options["env_name"],
        trusting=options["trusting"],
        gates=gates,
    )


def with_baseline(how: ExecutionOptions, reader: Reader, dataset: str, run: RunRow | None = None) -> ExecutionOptions:
    """The manner with the run that `run`, or a new one of a dataset, is to be measured against."""
    return replace(how, gates=measured_against(how.gates, reader, dataset, run))


def check_judges(plan: Plan) -> None:
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
    how: ExecutionOptions,
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


def run_detached(
    run: RunRow, how: ExecutionOptions, arguments: Sequence[object] = (), begun: Callable[[RunRow], bool] = has_begun
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


def require_free(run: RunRow) -> None:
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


@dataclass(frozen=True, slots=True, kw_only=True)
class RunLabel:
    """How a run is called, and where what it asks comes from."""

    source: str
    name: str
    tags: tuple[str, ...] = ()


def start(*, registry: str | None, max_samples: int | None, **options: Any) -> int:
    """`tui-evals run`."""
    how = execution_options(options)
    if registry is not None:
        from .registry import run_evals

        return run_evals(registry, max_samples, how, options)
    if max_samples is not None:
        raise Stop("--max-samples belongs to --registry; --limit takes so many items of a dataset")
    document, source = document_of(options)
    prompt = prompt_file(document, options["prompts"])
    here = world(how.env_name, how.trusting, prompt)
    name, tags = options["name"] or Path(source).stem, tuple(options["tags"])
    about = RunLabel(source=dataset_key(source, here.root), name=name, tags=tags)
    return run_document(document, about, here, how, options, prompt)[1]


def target_words(options: Mapping[str, Any]) -> list[str]:
    """The targets that the command line names, by commas or one by one."""
    return [word for given in options["targets"] for word in given.split(",") if word]


def run_document(
    document: Document,
    about: RunLabel,
    here: World,
    how: ExecutionOptions,
    options: Mapping[str, Any],
    prompt: Path | None = None,
) -> tuple[RunRow | None, int]:
    """Run a dataset as the options say; the run (None where it is only estimated) and the exit code."""
    if options["evaluators"]:
        document = replace(
            document, data={**document.data, "default_evaluators": evaluators_named(options["evaluators"])}
        )
    defaults = here.settings.run
    plan = Plan(
        dataset=checked_dataset(document, here.registry),
        targets=targets_named(target_words(options) or list(defaults.targets), here.settings),
        registry=here.registry,
        judge=target_or_stop(options["judge"] or here.settings.judge, here.settings),
        without_judges=options["without_judges"],
        prompts=prompts_of(document, options["prompts"]),
        repeats=options["repeats"] or defaults.repeats or 1,
    )
    plan = replace(plan, only=chosen_items(plan, options))
    check_judges(plan)
    how, parent = _before(how, about.source, options["parent"])
    terms = launch.Terms(
        concurrency=options["concurrency"] or defaults.concurrency,
        max_cost=options["max_cost"] or defaults.max_cost,
        use_cache=not options["no_cache"],
    )
    terms = with_cluster(terms, options, here.environment)
    if how.plan_only:
        return None, say_estimate(plan, how.as_json)
    with project.writer(here.environment) as writer:
        metrics = os.path.relpath(prompt.resolve().parent, here.root) if prompt else None
        more: dict[str, Any] = {**asdict(about), "parent": parent, "metrics": metrics}
        run = launch.store_plan(plan, document.data, terms, writer, here.environment, **more)
        if not how.detach:
            return run, execute(run, plan, terms, writer, here, how)
    return run, run_detached(run, how)


def _before(how: ExecutionOptions, source: str, parent: str | None) -> tuple[ExecutionOptions, int | None]:
    """The earlier runs that a new one is measured against and goes back to."""
    if not how.gates.measuring and parent is None:
        return how, None
    with project.reader() as reader:
        number = project.run_named(reader, parent).id if parent is not None else None
        return with_baseline(how, reader, source), number


def resume(word: str, *, max_cost: float | None, **options: Any) -> int:
    """`tui-evals resume`; a paused run that is alive is let go on where it runs."""
    how = execution_options(options)
    here = world(how.env_name, how.trusting)
    with project.writer(here.environment) as writer:
        with project.reader() as reader:
            run = project.run_named(reader, word)
            if run.status == "paused":
                if how.gates.asked:
                    raise Stop(f"{run.key} is paused where it runs, which checks its gates; leave them out here")
                writer.control(run.id, "")
                if how.detach:
                    say_key(run, how.as_json)
                else:
                    say(f"{run.key} goes on")
                return 0
            if run.status == "finished":
                raise Stop(f"{run.key} is finished; `tui-evals rerun {run.key} --only failed` asks again", 2)
            if RECORDED in run.config:
                raise Stop(f"{run.key} was made elsewhere, and its import was cut off; import it again")
            how = with_baseline(how, reader, key_of(run, here.root), run)
            plan = plan_of_stored(run, reader, here)
        terms = launch.terms_of(run)
        terms = replace(terms, max_cost=max_cost) if max_cost else terms
        terms = with_cluster(terms, options, here.environment)
        if not how.detach:
            return execute(run, plan, terms, writer, here, how)
    require_free(run)
    words = ["resume", run.key, *(("--max-cost", max_cost) if max_cost else ()), *cluster_words(options)]
    return run_detached(run, how, words)


def plan_of_stored(run: RunRow, reader: Reader, here: World) -> Plan:
    """The plan of a stored run, or the end of the command with what has changed since."""
    try:
        evaluators = with_prompt_metrics(here.registry, _metrics_of(run, reader, here.root))
        return launch.stored_plan(run, reader, settings_of(run, reader, here.settings), here.environment, evaluators)
    except (CannotPlan, ConfigurationError) as problem:
        raise Stop(str(problem), 3) from None


def _metrics_of(run: RunRow, reader: Reader, root: Path) -> Path | None:
    """The folder of the prompt under test of a run: as it was noted, else as its dataset names the prompt."""
    if METRICS in run.config:
        return root / str(run.config[METRICS])
    named = reader.snapshot(run.snapshot).get("prompt_file")
    return (root / run.source).parent.joinpath(named).parent if isinstance(named, str) else None
