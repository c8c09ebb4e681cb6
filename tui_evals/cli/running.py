"""Starting runs and going on with them: plan, commit, execute, say how it went."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from tui_evals.datasets.document import Document
from tui_evals.evaluators.registry import beside
from tui_evals.runs import launch
from tui_evals.runs.plan import CannotPlan, Plan
from tui_evals.runs.status import METRICS, RECORDED
from tui_evals.store.baselines import dataset_key
from tui_evals.store.reader import Reader
from tui_evals.store.records import RunRow
from tui_evals.targets.base import ConfigurationError

from . import project
from .baseline import key_of
from .clustering import clustered, said_again
from .executing import Manner, checked, detached, execute, facing, free, manner, say_estimate, say_key
from .output import Stop, say
from .sources import (
    checked_dataset,
    chosen_items,
    document_of,
    evaluators_named,
    prompt_file,
    prompts_of,
    target_or_stop,
    targets_named,
)
from .suggesting import settings_of
from .world import World, world


@dataclass(frozen=True, slots=True, kw_only=True)
class About:
    """How a run is called, and where what it asks comes from."""

    source: str
    name: str
    tags: tuple[str, ...] = ()


def start(*, registry: str | None, max_samples: int | None, **options: Any) -> int:
    """`tui-evals run`."""
    how = manner(options)
    if registry is not None:
        from .registries_running import run_evals

        return run_evals(registry, max_samples, how, options)
    if max_samples is not None:
        raise Stop("--max-samples belongs to --registry; --limit takes so many items of a dataset")
    document, source = document_of(options)
    prompt = prompt_file(document, options["prompts"])
    here = world(how.env_name, how.trusting, prompt)
    name, tags = options["name"] or Path(source).stem, tuple(options["tags"])
    about = About(source=dataset_key(source, here.root), name=name, tags=tags)
    return run_document(document, about, here, how, options, prompt)[1]


def words_of(options: Mapping[str, Any]) -> list[str]:
    """The targets that the command line names, by commas or one by one."""
    return [word for given in options["targets"] for word in given.split(",") if word]


def run_document(
    document: Document, about: About, here: World, how: Manner, options: Mapping[str, Any], prompt: Path | None = None
) -> tuple[RunRow | None, int]:
    """Run a dataset as the options say; the run (None where it is only estimated) and the exit code."""
    if options["evaluators"]:
        document = replace(
            document, data={**document.data, "default_evaluators": evaluators_named(options["evaluators"])}
        )
    defaults = here.settings.run
    plan = Plan(
        dataset=checked_dataset(document, here.registry),
        targets=targets_named(words_of(options) or list(defaults.targets), here.settings),
        registry=here.registry,
        judge=target_or_stop(options["judge"] or here.settings.judge, here.settings),
        without_judges=options["without_judges"],
        prompts=prompts_of(document, options["prompts"]),
        repeats=options["repeats"] or defaults.repeats or 1,
    )
    plan = replace(plan, only=chosen_items(plan, options))
    checked(plan)
    how, parent = _before(how, about.source, options["parent"])
    terms = launch.Terms(
        concurrency=options["concurrency"] or defaults.concurrency,
        max_cost=options["max_cost"] or defaults.max_cost,
        use_cache=not options["no_cache"],
    )
    terms = clustered(terms, options, here.environment)
    if how.plan_only:
        return None, say_estimate(plan, how.as_json)
    with project.writer(here.environment) as writer:
        metrics = os.path.relpath(prompt.resolve().parent, here.root) if prompt else None
        more: dict[str, Any] = {**asdict(about), "parent": parent, "metrics": metrics}
        run = launch.store_plan(plan, document.data, terms, writer, here.environment, **more)
        if not how.detach:
            return run, execute(run, plan, terms, writer, here, how)
    return run, detached(run, how)


def _before(how: Manner, source: str, parent: str | None) -> tuple[Manner, int | None]:
    """The earlier runs that a new one is measured against and goes back to."""
    if not how.gates.measuring and parent is None:
        return how, None
    with project.reader() as reader:
        number = project.run_named(reader, parent).id if parent is not None else None
        return facing(how, reader, source), number


def resume(word: str, *, max_cost: float | None, **options: Any) -> int:
    """`tui-evals resume`; a paused run that is alive is let go on where it runs."""
    how = manner(options)
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
            how = facing(how, reader, key_of(run, here.root), run)
            plan = stored(run, reader, here)
        terms = launch.terms_of(run)
        terms = replace(terms, max_cost=max_cost) if max_cost else terms
        terms = clustered(terms, options, here.environment)
        if not how.detach:
            return execute(run, plan, terms, writer, here, how)
    free(run)
    words = ["resume", run.key, *(("--max-cost", max_cost) if max_cost else ()), *said_again(options)]
    return detached(run, how, words)


def stored(run: RunRow, reader: Reader, here: World) -> Plan:
    """The plan of a stored run, or the end of the command with what has changed since."""
    try:
        evaluators = beside(here.registry, _metrics_of(run, reader, here.root))
        return launch.stored_plan(run, reader, settings_of(run, reader, here.settings), here.environment, evaluators)
    except (CannotPlan, ConfigurationError) as problem:
        raise Stop(str(problem), 3) from None


def _metrics_of(run: RunRow, reader: Reader, root: Path) -> Path | None:
    """The folder of the prompt under test of a run: as it was noted, else as its dataset names the prompt."""
    if METRICS in run.config:
        return root / str(run.config[METRICS])
    named = reader.snapshot(run.snapshot).get("prompt_file")
    return (root / run.source).parent.joinpath(named).parent if isinstance(named, str) else None
