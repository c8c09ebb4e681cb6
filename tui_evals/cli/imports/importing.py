"""`tui-evals import` and `item from-conversation`: what was imported and what became of it, as lines or as JSON."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

from tui_evals.cli import project
from tui_evals.cli.output import Stop, columns, say, say_json, warn
from tui_evals.datasets.discover import project_root
from tui_evals.imports import doors, messages
from tui_evals.imports.base import (
    Configuration,
    ImportFailed,
    ImportOptions,
    ImportProject,
    ImportRequest,
    ImportResult,
    NoStore,
    WrongSettings,
    shown,
)
from tui_evals.imports.losses import Losses
from tui_evals.present.columns import table

_EXIT_CODES: Mapping[type[ImportFailed], int] = {NoStore: 1, WrongSettings: 3}
_DATASET_IS = {
    "written": "written",
    "added to": "added at its end",
    "unchanged": "was there already, the same",
    "kept": "was changed since it was imported, and stays as it is",
    "": "",
}
_RUN_IS = {
    "new": "new",
    "finished now": "was begun by an earlier import, and is whole now",
    "known": "was imported before; no second one was made",
    "": "",
}


def import_path(path: Path, kind: str | None, options: ImportOptions, as_json: bool) -> None:
    """Import what a path holds and print what came of it."""
    try:
        result = doors.import_from(path, kind, options, project=_project())
    except ImportFailed as problem:
        raise _stop(problem) from None
    if as_json:
        say_json(_as_json(result))
    else:
        _say(result)


def add_conversations(path: Path, into: Path, with_checks: bool) -> None:
    """Add the conversations of a file to a dataset as items."""
    importer = replace(messages.IMPORTER, read=partial(messages.add_conversations, with_checks=with_checks))
    try:
        result = doors.run_importer(importer, ImportRequest(path, ImportOptions(into=into), _project()))
    except ImportFailed as problem:
        raise _stop(problem) from None
    for line in Losses(list(result.losses)).sentences():
        say(line)
    say(f"added {_many(result.items, 'item')} to {into}", fg="green")
    for note in result.notes:
        warn(f"note: {note}")


def run_in_file(path: Path) -> str | None:
    """The key of the run in a results file or log, which is imported unless it is there; None for any other file."""
    try:
        result = doors.import_run(path, _project())
    except ImportFailed as problem:
        raise _stop(problem) from None
    if result is None:
        return None
    was = "was imported before as" if result.run_is == "known" else "is now"
    warn(f"note: {path} {was} run {result.run}; `tui-evals import {shlex.quote(str(path))}` says what was left out")
    return result.run


def _project() -> ImportProject:
    def configuration() -> Configuration:
        here = project.open_project(None, False)
        return here.settings, here.environment

    return ImportProject(root=project_root(Path.cwd()), open_store=project.store_path, configuration=configuration)


def _stop(problem: ImportFailed) -> Stop:
    return Stop(str(problem), _EXIT_CODES.get(type(problem), 2))


def _as_json(result: ImportResult) -> dict[str, Any]:
    plain = {key: list(value) if isinstance(value, tuple) else value for key, value in asdict(result).items()}
    paths = {
        "dataset": None if result.dataset is None else shown(result.dataset),
        "prompts": [shown(prompt) for prompt in result.prompts],
    }
    return {"read": str(plain.pop("source")), **plain, **paths}


def _say(result: ImportResult) -> None:
    if result.dataset_is == "none needed":
        say(f"{result.source} is a dataset already, with {_many(result.items, 'item')}, and needs no import", bold=True)
    elif result.dataset is None and result.run is None and not result.suites:
        say(f"{result.source} holds only totals, no answers, so there is no run to open; these are they:")
        for line in _totals(result.overview):
            say(f"  {line}")
    else:
        say(f"read {_counted(result)} from {result.source}", bold=True)
    for line in Losses(list(result.losses)).sentences():
        say(line)
    for note in result.notes:
        warn(f"note: {note}")
    for prompt in result.prompts:
        say(f"prompt: {shown(prompt)} (written)")
    if result.dataset is not None and result.dataset_is != "none needed":
        say(f"dataset: {shown(result.dataset)} ({_DATASET_IS[result.dataset_is]})", fg="green")
    for suite in result.suites:
        say(f"suite: {suite}", fg="green")
    for run in result.runs:
        say(f"run: {run.key} {run.name} of {run.suite} ({_RUN_IS[run.run_is]})", fg="green")
    if result.run is not None and not result.runs:
        say(f"run: {result.run} ({_RUN_IS[result.run_is]})", fg="green")
    if result.next:
        say(f"next: `{result.next}`")


def _counted(result: ImportResult) -> str:
    tests = _many(result.items, "test" if result.kind == "promptpex" else "item")
    if not result.results:
        return f"{tests} and no answers" if result.kind == "promptpex" else tests
    answers = "result" if result.kind == "promptpex" else "answer"
    return f"{tests}, {_many(result.results, answers)} of {_many(len(result.models), 'model')}"


def _many(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def _totals(rows: Sequence[dict[str, Any]]) -> list[str]:
    if not rows:
        return ["there is no row in it"]
    heads = list(dict.fromkeys(key for row in rows for key in row))
    cells = [heads, *([str(row.get(head, "")) for head in heads] for row in rows)]
    return table(cells, right=range(1, len(heads)), elastic=range(len(heads)), room=columns())
