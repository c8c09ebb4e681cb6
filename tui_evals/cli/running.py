"""Starting runs and going on with them: plan, commit, execute, say how it went."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import click

from tui_evals.datasets.discover import project_root
from tui_evals.datasets.document import Document, load
from tui_evals.datasets.inline import inline
from tui_evals.datasets.model import Dataset
from tui_evals.datasets.problems import DatasetError
from tui_evals.datasets.prompts import prompt_of
from tui_evals.datasets.validate import dataset_of, typed
from tui_evals.evaluators.registry import Registry
from tui_evals.runs import launch
from tui_evals.runs.detach import DetachFailed, start_detached
from tui_evals.runs.engine import Engine, Outcome
from tui_evals.runs.plan import CannotPlan, Plan, estimate, limited
from tui_evals.store.database import StoreError
from tui_evals.store.filters import FilterError, parse_filter
from tui_evals.store.reader import Reader
from tui_evals.store.records import RunRow
from tui_evals.store.runlock import hold, run_lock
from tui_evals.store.writer import Writer
from tui_evals.targets.base import ConfigurationError, TargetConfig
from tui_evals.targets.config import Settings, load_settings, target_named
from tui_evals.targets.environment import environment
from tui_evals.text import strictjson

from . import project
from .finishing import Gates, finish
from .output import Stop, say, say_json_line, warn
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
    document, source = _source(options)
    if options["evaluators"]:
        document = replace(document, data={**document.data, "default_evaluators": _maps(options["evaluators"])})
    here = world(env_name, trusting, _prompt(document, prompts))
    defaults = here.settings.run
    words = [word for given in targets for word in given.split(",") if word] or list(defaults.targets)
    plan = Plan(
        dataset=_dataset(document, here.registry),
        targets=_targets(words, here.settings),
        registry=here.registry,
        judge=_target(judge or here.settings.judge, here.settings),
        without_judges=options["without_judges"],
        prompts=_prompts(document, prompts),
        repeats=options["repeats"] or defaults.repeats or 1,
    )
    plan = replace(plan, only=_only(plan, options))
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
            items = _items_found(reader, parent, only)
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
            plan = replace(plan, judge=_target(judge, here.settings) or plan.judge)
        plan = replace(plan, without_judges=without_judges or (plan.without_judges and not judge))
        if dataset is not None and evaluators is not None:
            raise Stop("give --dataset or --evaluators, not both")
        if evaluators is not None:
            data = {**reader.snapshot(run.snapshot), "default_evaluators": _maps(evaluators)}
            plan = replace(plan, dataset=_dataset(_in_memory(data), here.registry))
        if dataset is not None:
            plan = replace(plan, dataset=_with_evaluators(plan.dataset, _dataset(project.read(dataset), here.registry)))
        _checked(plan)
        terms = replace(launch.terms_of(run), max_cost=None)
        run = replace(run, scoring_pass=writer.new_pass(run.id, {"judge": plan.judge.name if plan.judge else None}))
        return _execute(run, plan, terms, writer, here, more, quiet, as_json, again=True)


def _maps(text: str) -> dict[str, Any]:
    """Evaluators as the command line names them."""
    if not text.lstrip().startswith("{"):
        return {name.strip(): {} for name in text.split(",") if name.strip()}
    try:
        found = strictjson.loads(text)
    except strictjson.JsonError as problem:
        raise Stop(f"--evaluators: {problem}") from None
    if not isinstance(found, dict) or not all(isinstance(options, dict) for options in found.values()):
        raise Stop("--evaluators: each name needs an object of options, such as {}")
    return found


def _with_evaluators(answered: Dataset, judging: Dataset) -> Dataset:
    """The dataset that was run, judged by the evaluators of another of the same shape."""
    if [len(item.units) for item in answered.items] != [len(item.units) for item in judging.items]:
        raise Stop("the dataset has other items or turns than the run, so its evaluators do not fit its answers")
    return judging


def _source(options: Mapping[str, Any]) -> tuple[Document, str]:
    file = options["dataset"] or options["prompts_file"]
    given = [bool(file), bool(options["inline"]), options["interactive"], bool(options["snapshot"])]
    if sum(given) > 1:
        raise Stop("name one source: a dataset, --prompts, --interactive or --snapshot")
    if options["expected"] and not options["inline"]:
        raise Stop("--expected belongs to --prompts")
    try:
        if options["inline"]:
            return _in_memory(inline(options["inline"], options["expected"])), "prompts"
        if options["interactive"]:
            return _in_memory(inline(*_asked())), "interactive"
        if options["snapshot"]:
            with project.reader() as reader:
                return _in_memory(reader.snapshot(options["snapshot"])), f"snapshot {options['snapshot'][:12]}"
        path = file or project.found_or_started()
        return load(path), str(path)
    except DatasetError as problem:
        raise Stop(str(problem)) from None
    except LookupError as problem:
        raise Stop(str(problem)) from None


def _asked() -> tuple[list[str], list[str]]:
    """Prompts typed one at a time, until an empty line."""
    if not sys.stdin.isatty():
        raise Stop("--interactive needs a terminal; give --prompts instead")
    prompts: list[str] = []
    expected: list[str] = []
    while prompt := click.prompt("Prompt (empty to run)", default="", show_default=False):
        prompts.append(prompt)
        expected.append(click.prompt("Expected response", default="", show_default=False))
    if not prompts:
        raise Stop("no prompt was given", 2)
    return prompts, expected if any(expected) else []


def _in_memory(data: dict[str, Any]) -> Document:
    _, problems = typed(data)
    if problems:
        raise DatasetError("prompts", problems)
    return Document(Path("prompts"), strictjson.dumps(data), "", "document", data)


def _prompt(document: Document, prompts: Sequence[Path]) -> Path | None:
    try:
        return prompts[0] if prompts else prompt_of(document)
    except DatasetError as problem:
        raise Stop(str(problem)) from None


def _prompts(document: Document, files: Sequence[Path]) -> tuple[Any, ...]:
    try:
        named = prompt_of(document)
        return launch.prompts_from(list(files) or ([named] if named else []))
    except DatasetError as problem:
        raise Stop(str(problem)) from None


def _dataset(document: Document, registry: Registry) -> Dataset:
    try:
        return dataset_of(document, registry.catalogue, registry.own)
    except DatasetError as problem:
        raise Stop(str(problem)) from None


def _targets(words: Sequence[str], settings: Settings) -> tuple[TargetConfig, ...]:
    if not words:
        raise Stop(
            "no target is named. Name what answers with --target: a model such as openai/gpt-4o-mini, a section of "
            ".evals/config.toml, replay:FILE for answers you have, or demo to try tui-evals without a model",
            3,
        )
    found = [_target(word, settings) for word in words]
    return tuple(target for target in found if target is not None)


def _target(word: str | None, settings: Settings) -> TargetConfig | None:
    if word is None:
        return None
    try:
        return target_named(word, settings)
    except ConfigurationError as problem:
        raise Stop(str(problem), 3) from None


def _only(plan: Plan, options: Mapping[str, Any]) -> frozenset[int] | None:
    """The items that are run, where not all are."""
    text, limit = options["only"], options["limit"]
    if text is None and limit is None:
        return None
    if options["from_run"]:
        with project.reader() as reader:
            run = project.run_named(reader, options["from_run"])
            found = sorted(set(_items_found(reader, run, text or "")) & set(range(len(plan.dataset.items))))
    else:
        found = [number for number in range(len(plan.dataset.items)) if _matches(plan, number, text or "")]
    if not found:
        raise Stop(f"no item of the dataset fits --only {text!r}")
    return frozenset(limited(found, limit, options["seed"]))


def _matches(plan: Plan, number: int, text: str) -> bool:
    """Whether an item fits a filter that needs no run to look at."""
    item = plan.dataset.items[number]
    words = " ".join([item.name or "", *(unit.prompt or "" for unit in item.units)]).casefold()
    for term in text.split():
        wanted, negated = term.removeprefix("!"), term.startswith("!")
        field, _, value = wanted.partition(":")
        if field == "id":
            fits = fnmatchcase(plan.name_of(number), value)
        elif field == "category":
            fits = (item.category or "") == value
        elif field == "tag":
            fits = value in (item.tags or ())
        elif ":" in wanted or wanted in ("failed", "errored", "flaky"):
            raise Stop(f"--only {term} looks at answers; say of which run with --from RUN")
        else:
            fits = wanted.casefold() in words
        if fits == negated:
            return False
    return True


def _items_found(reader: Reader, run: RunRow, text: str) -> list[int]:
    try:
        ids = reader.ids(run.id, parse_filter(text))
    except FilterError as problem:
        raise Stop(str(problem)) from None
    items = sorted({row.item for row in reader.rows(ids)})
    if not items:
        raise Stop(f"no answer of {run.key} fits {text!r}; nothing was started")
    return items


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
