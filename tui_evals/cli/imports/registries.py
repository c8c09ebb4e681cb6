"""`tui-evals registry`: the evals of a registry of OpenAI Evals that run here, and why the others do not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from tui_evals.cli import project
from tui_evals.cli.output import Stop, columns, say, say_json, warn
from tui_evals.datasets.problems import DatasetError
from tui_evals.imports.openai_evals import Listed, Registry, load
from tui_evals.present.columns import table, wrap


def registry_at(paths: str, catalogue: Mapping[str, type[BaseModel]]) -> Registry:
    """The registry in the folders that are named by commas, or the end of the command with what is wrong in it."""
    named = [paths] if Path(paths).is_dir() else [part.strip() for part in paths.split(",") if part.strip()]
    if not named:
        raise Stop("name the folder of a registry, or several by commas")
    try:
        return load([Path(part) for part in named], catalogue)
    except DatasetError as problem:
        raise Stop(str(problem)) from None


def list_registry(paths: str, words: Sequence[str], as_json: bool) -> None:
    """Say what a registry holds: what runs, what does not and why, its sets, and what is odd about it."""
    registry = registry_at(paths, project.evaluators().catalogue)
    found = [row for row in registry.listing() if fits(row, words)]
    sets = _sets(registry, {row.name for row in found} if words else None)
    if as_json:
        rows = [{**asdict(row), "runs": row.runs, **_needs(registry, row)} for row in found]
        say_json({"evals": rows, "sets": sets, "remarks": registry.remarks()})
        return
    _say_evals(found)
    for name, evals in sets.items():
        say(f"set {name}: {', '.join(evals) or 'none of its evals is known'}")
    for remark in registry.remarks():
        warn(f"note: {remark}")
    running = sum(row.runs for row in found)
    say(f"{running} of {len(found)} evals run here" + (f" ({' '.join(words)})" if words else ""), bold=True)
    if running:
        name = next(row.name for row in found if row.runs)
        say(f"next: `tui-evals run --registry {paths} {name} --target NAME`")


def fits(row: Listed, words: Sequence[str]) -> bool:
    """Whether an eval has every word in its names, class or description, and none of those with a ! before them."""
    text = " ".join((row.name, *row.aliases, row.class_name, row.description)).casefold()
    return all((word.removeprefix("!").casefold() in text) != word.startswith("!") for word in words)


def _say_evals(found: Sequence[Listed]) -> None:
    rows = [[row.name, kind_of(row), ", ".join(row.aliases), row.description] for row in found if row.runs]
    if rows:
        heads = ["Eval", "Class", "Also", "Description"]
        first, *lines = table([heads, *rows], elastic=(3, 2, 0), room=columns())
        say(first, bold=True)
        for line in lines:
            say(line)
    others = [row for row in found if not row.runs]
    if others:
        say("These do not run here:", bold=True)
    for row in others:
        room = columns()
        say(f"{row.name}  {row.where}")
        for reason in row.reasons:
            for line in wrap(reason, room - 2 if room is not None else None):
                say(f"  {line}")


def kind_of(row: Listed) -> str:
    """The class of an eval without the module it is in."""
    return row.class_name.rpartition(":")[2]


def _sets(registry: Registry, shown: set[str] | None) -> dict[str, list[str]]:
    """The evals of each set, where some of them are shown."""
    found: dict[str, list[str]] = {}
    for name in registry.entries["eval_sets"]:
        if name in registry.entries["evals"]:
            continue  # an eval hides it, which is a remark
        try:
            evals = [spec.name for spec in registry.find(name)]
        except DatasetError:  # a remark says which of its names lead nowhere
            evals = []
        if shown is None or shown & set(evals):
            found[name] = evals
    return found


def _needs(registry: Registry, row: Listed) -> dict[str, Any]:
    if not row.runs:
        return {}
    needs = next(spec.needs for spec in registry.find(row.name) if spec.name == row.name)
    return {"needs": {"judge": needs.judge, "answers": needs.answers, "targets": needs.targets, **needs.plain()}}
