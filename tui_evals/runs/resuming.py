"""Continuing a stored run: by a configuration that was corrected since, and without some of its targets or judges."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from tui_evals.evaluators.base import Evaluator
from tui_evals.runs.errors import CannotPlan
from tui_evals.runs.judges import judge_configs
from tui_evals.runs.project import Project
from tui_evals.runs.rescoring import judged_onwards
from tui_evals.runs.target_opening import settings_of_run
from tui_evals.store.reader import Reader
from tui_evals.store.records import RunRow
from tui_evals.store.writer import Writer
from tui_evals.targets.config import Settings, find_target
from tui_evals.targets.opening import identity, identity_changes
from tui_evals.targets.permissions import destinations
from tui_evals.targets.sweep import base_name
from tui_evals.text.names import did_you_mean

from .start import Job, stored_job
from .status import DESTINATIONS, RECORDED

_JUDGES = ("judge", "embedder")
"""The keys in the config of a run for what judges it."""


def resumed_job(
    run: RunRow,
    reader: Reader,
    writer: Writer,
    project: Project,
    own_evaluators: Mapping[str, type[Evaluator]] | None = None,
) -> tuple[Job, tuple[str, ...]]:
    """A stored run ready to continue, and a sentence for each part of it that is configured differently now.

    CannotPlan or ConfigurationError says what has changed that contradicts what was answered.
    """
    run, notes = _corrected(run, reader, settings_of_run(run, reader, project.settings), project.environment)
    if notes:
        writer.run_config(run.id, run.config)
    return (judged_onwards if run.staged_pass else stored_job)(run, reader, project, own_evaluators), notes


def _corrected(
    run: RunRow, reader: Reader, settings: Settings, environment: Mapping[str, str]
) -> tuple[RunRow, tuple[str, ...]]:
    """The run with every target and judge that has answered nothing yet as it is configured now."""
    if RECORDED in run.config or "targets" not in run.config:
        return run, ()
    config, notes, moved = dict(run.config), list[str](), list[str]()

    def now(kept: Mapping[str, Any], answered: bool) -> Mapping[str, Any]:
        found = find_target(kept["name"], settings, "the stored run")
        fresh = identity(found, environment) | {"name": found.name}
        if answered or fresh == dict(kept):
            return kept
        changed = identity_changes(kept, fresh)
        notes.append(f"{found.name} had answered nothing and is asked as it is configured now: {changed}")
        moved.append(found.name)
        return fresh

    config["targets"] = [now(kept, reader.has_answered(run.id, place)) for place, kept in enumerate(config["targets"])]
    for key in _JUDGES:
        if kept := config.get(key):
            config[key] = now(kept, run.staged_pass > 0 or reader.has_judged(run.id, kept["name"]))
    if moved:
        configs = [find_target(name, settings, "the stored run") for name in moved]
        sent = destinations((replace(each, name=base_name(each.name)) for each in configs), environment)
        config[DESTINATIONS] = {**config.get(DESTINATIONS, {}), **sent}
    return replace(run, config=config), tuple(notes)


def leaving_out(job: Job, project: Project, only: Sequence[str], without: Sequence[str]) -> Job:
    """The job without the targets that are not among `only`, where any are named, and what it is to do `without`.

    CannotPlan where a name is none of the run's, or nothing would be left.
    """
    targets = job.run.targets
    judges = {config.name for config in judge_configs(job.plan, project.settings).values()}
    wanted = {number for word in only for number in _numbers(word, targets)} if only else set(range(len(targets)))
    judges_out = {word for word in without if word in judges}
    for word in without:
        if word not in judges_out:
            wanted -= _numbers(word, (*targets, *judges))
    if not wanted:
        raise CannotPlan("no target is left to ask; name fewer with --without, or others with --target", "arguments")
    out = frozenset(range(len(targets))) - wanted
    return replace(job, left_out=out, judges_left_out=frozenset(judges_out))


def _numbers(word: str, names: Sequence[str]) -> set[int]:
    """The numbers of the names that a word means: one of them, or all that vary its parameters."""
    found = {number for number, name in enumerate(names) if word in (name, base_name(name))}
    if not found:
        near = did_you_mean(word, names)
        raise CannotPlan(f"the run asks no {word}{near}; it asks {', '.join(dict.fromkeys(names))}", "arguments")
    return found
