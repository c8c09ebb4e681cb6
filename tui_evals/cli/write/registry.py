"""`tui-evals registry`: the evals of a registry of OpenAI Evals that run here, and why the others do not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from pydantic import BaseModel

from tui_evals.cli import inputs
from tui_evals.cli.output import Stop, columns, say, say_json, warn
from tui_evals.datasets.paths import DatasetError
from tui_evals.imports.openai_evals import Listed, NoFolder, Registry, by_reason, load_named
from tui_evals.present.columns import table, wrap


def registry_at(paths: str, catalogue: Mapping[str, type[BaseModel]]) -> Registry:
    """The registry in the folders that are named by commas, or Stop with its problem."""
    try:
        return load_named(paths, catalogue)
    except (DatasetError, NoFolder) as problem:
        raise Stop(str(problem)) from None


def list_registry(paths: str, words: Sequence[str], as_json: bool) -> None:
    """Say what a registry holds: what runs, what does not and why, its sets, and what is odd about it."""
    registry = registry_at(paths, inputs.evaluators().catalogue)
    rows = [row for row in registry.listing() if row.fits(words)]
    sets = registry.sets({row.name for row in rows} if words else None)
    if as_json:
        evals = [{**asdict(row), "runs": row.runs, **_needs(registry, row)} for row in rows]
        say_json({"evals": evals, "sets": sets, "remarks": registry.remarks()})
        return
    running = [row.name for row in rows if row.runs]
    say(f"{len(running)} of {len(rows)} evals run here" + (f" ({' '.join(words)})" if words else ""), bold=True)
    for reason, names in by_reason({row.name: row.reasons for row in rows if not row.runs}).items():
        for line in wrap(f"{len(names):>5}  {reason}", columns()):
            say(line)
    say()
    _say_evals(rows)
    for name, evals_of_set in sets.items():
        say(f"set {name}: {', '.join(evals_of_set) or 'none of its evals is known'}")
    for remark in registry.remarks():
        warn(f"note: {remark}")
    if running:
        say(f"next: `tui-evals run --registry {paths} {running[0]} --target NAME`")


def _say_evals(rows: Sequence[Listed]) -> None:
    cells = [[row.name, row.kind, ", ".join(row.aliases), row.description] for row in rows if row.runs]
    if cells:
        heads = ["Eval", "Class", "Also", "Description"]
        first, *lines = table([heads, *cells], elastic=(3, 2, 0), room=columns())
        say(first, bold=True)
        for line in lines:
            say(line)
    others = [row for row in rows if not row.runs]
    if others:
        say("These do not run here:", bold=True)
    width = columns()
    for row in others:
        say(f"{row.name}  {row.where}")
        for reason in row.reasons:
            for line in wrap(reason, width - 2 if width is not None else None):
                say(f"  {line}")


def _needs(registry: Registry, row: Listed) -> dict[str, Any]:
    if not row.runs:
        return {}
    needs = registry.needs(row.name)
    return {"needs": {"judge": needs.judge, "answers": needs.answers, "targets": needs.targets, **needs.plain()}}
