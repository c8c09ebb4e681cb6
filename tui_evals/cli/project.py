"""The project of a command: its root, evaluators, datasets and store."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from tui_evals.cli.output import Stop, warn
from tui_evals.datasets.discover import project_root
from tui_evals.files import CannotSave
from tui_evals.present.stores import read_only_note
from tui_evals.runs.project import DATABASE, store_of
from tui_evals.store.database import StoreError
from tui_evals.store.filters import Filter, FilterError, parse_filter
from tui_evals.store.reader import Reader
from tui_evals.store.records import RunRow
from tui_evals.text.safe import secrets_of

if TYPE_CHECKING:
    from tui_evals.store.writer import Writer


def store_path(root: Path | None = None) -> Path:
    """The database of this project, or of the one at a folder, made where there is none yet."""
    root = root or project_root(Path.cwd())
    try:
        return store_of(root)
    except StoreError as problem:
        raise Stop(str(problem), 1) from None
    except (OSError, CannotSave) as problem:
        path = os.environ.get(DATABASE) or root / ".evals" / "evals.db"
        raise Stop(f"the database {path} cannot be made: {problem}", 1) from None


def reader() -> Reader:
    """A reader of the project's store; prints a note if it is read-only."""
    path = store_path()
    if note := read_only_note(path):
        warn(f"note: {note}")
    return Reader(path)


def writer(environment: Mapping[str, str]) -> Writer:
    """A writer for the project's store, which removes secrets of the environment from texts."""
    # Late: commands that only read do not need the modules for settings and commits.
    from tui_evals.store.writer import Writer
    from tui_evals.targets.base import ConfigurationError
    from tui_evals.targets.config import load_settings

    try:
        durable = load_settings(project_root(Path.cwd())).durable
    except ConfigurationError:  # which a command that needs the settings says
        durable = False
    return Writer(store_path(), secrets=secrets_of(environment), durable=durable)


def run_named(reader: Reader, word: str) -> RunRow:
    """The run that a word names; ends the command without one."""
    try:
        return reader.find_run(word)
    except LookupError as problem:
        raise Stop(str(problem.args[0])) from None


_SHORTEST = 4
"""Characters of an id that are enough to delete its run."""


def run_to_delete(reader: Reader, word: str) -> RunRow:
    """The run that a word names: `last`, its id, its name, or a long enough beginning of its id; raises Stop."""
    run = run_named(reader, word)
    if len(word) >= _SHORTEST or word.lower() == run.key or word == run.name:
        return run
    raise Stop(
        f"'{word}' is the beginning of run {run.key} ({run.name}). To delete it, give its id, its name, or at least "
        f"{_SHORTEST} characters of its id: `tui-evals delete {run.key}`"
    )


def filter_or_stop(text: str | None) -> Filter | None:
    """The typed filter, or None; ends the command if it is invalid."""
    try:
        return parse_filter(text) if text else None
    except FilterError as problem:
        raise Stop(str(problem)) from None
