"""`tui-evals suite create` and `suite run`: a suite of a table, and the candidates of a table scored as a run of it."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tui_evals.datasets.problems import DatasetError
from tui_evals.evaluators.registry import Registry
from tui_evals.runs import launch
from tui_evals.runs.plan import CannotPlan, Plan
from tui_evals.runs.suites import cases, keeping, running
from tui_evals.runs.suites.methods import Method, method_named
from tui_evals.runs.suites.problems import ArthurError, ArthurInternalError

from . import project
from .executing import Manner, execute
from .output import Stop, say, say_json
from .sources import evaluators_named, target_or_stop
from .suites_views import run_data, say_run
from .world import World, world


@contextmanager
def said() -> Iterator[None]:
    """End the command with the sentence of what is wrong with a suite or a run."""
    try:
        yield
    except ArthurInternalError as problem:
        raise Stop(str(problem), 1) from None
    except (ArthurError, DatasetError) as problem:
        raise Stop(str(problem)) from None


def create(
    name: str,
    *,
    data: Path,
    scoring: str,
    input_column: str,
    reference_column: str,
    description: str | None,
    as_json: bool,
) -> None:
    """Make a suite of the cases in a table."""
    here = world(None, False)
    with said():
        method = _method(scoring, here.registry)
        found = cases.cases_from(
            frame=None,
            path=data,
            inputs=None,
            references=None,
            input_column=input_column,
            reference_column=reference_column,
            needs_reference=method.requires_reference,
        )
        document = keeping.document_of(name, found, method, description)
        keeping.keep(here.root, name, document)
    file = keeping.suite_file(here.root, name)
    if as_json:
        say_json({"suite": name, "cases": len(found.inputs), "scoring_method": method.record, "file": str(file)})
        return
    say(f"suite {name}: {len(found.inputs):,} cases, scored by {method.name}; kept in {file}", fg="green")
    say(f"next: `tui-evals suite run {shlex.quote(name)} RUN --candidates FILE.csv`")


def _method(scoring: str, known: Registry) -> Method:
    named = evaluators_named(scoring)
    if len(named) != 1:
        raise Stop(
            f"--scoring must name one evaluator; a suite is scored in one way, and {scoring!r} names {len(named)}"
        )
    ((name, options),) = named.items()
    return method_named(name, options, known)


def run(
    suite: str,
    name: str,
    *,
    candidates: Path,
    candidate_column: str,
    context_column: str | None,
    judge: str | None,
    as_json: bool,
    **metadata: str | None,
) -> int:
    """Score the candidates in a table as a run of a suite."""
    here = world(None, False)
    with said():
        kept = keeping.found(here.root, suite)
        needs_context = _stored_method(kept, here.registry).requires_context
        texts, contexts = cases.candidates_from(
            frame=None,
            path=candidates,
            candidates=None,
            candidate_column=candidate_column,
            context_column=context_column,
            contexts=None,
        )
        asked = running.asked(kept, name, texts, contexts, metadata, needs_context=needs_context)
        plan = _plan(asked, here, judge)
        with project.writer(here.environment) as writer:
            with project.reader() as reader:
                stored = running.store(asked, plan, here.root, reader, writer, here.environment)
            code = execute(stored, plan, launch.Terms(), writer, here, Manner(quiet=as_json))
    with project.reader() as reader:
        stored = reader.find_run(stored.key)
        if as_json:
            say_json(run_data(reader, stored))
        else:
            say_run(reader, stored)
    return code


def _plan(asked: running.Asked, here: World, judge: str | None) -> Plan:
    config = target_or_stop(judge or here.settings.judge, here.settings)
    try:
        return running.plan_of(asked, here.root, here.settings, here.registry, config)
    except CannotPlan as problem:
        raise Stop(str(problem), 3) from None


def _stored_method(kept: keeping.Suite, known: Registry) -> Method:
    """How a suite scores; a scorer that only a Python program has cannot be found here."""
    name = str(kept.method["name"])
    if kept.method.get("type") == "custom" and name not in known.by_name:
        raise Stop(
            f"the suite {kept.name} is scored by {name!r}, a scorer of a Python program; run it there with "
            f"TestSuite({kept.name!r}, scorer).run(...)"
        )
    options: Mapping[str, Any] = next(iter(kept.data["default_evaluators"].values()))
    return method_named(name, {key: value for key, value in options.items() if key != "type"}, known)
