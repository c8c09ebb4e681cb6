"""The project of a command: its root, evaluators, datasets and store."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import click

from tui_evals.datasets.discover import ENDINGS, STARTER, find_dataset, is_generation_file, project_root
from tui_evals.datasets.document import Document, load
from tui_evals.datasets.problems import DatasetError
from tui_evals.datasets.prompts import OWN_SUFFIXES
from tui_evals.datasets.save import CannotSave
from tui_evals.datasets.starter import make_project, write_starter
from tui_evals.evaluators.registry import Registry, load_registry
from tui_evals.evaluators.trust import Trust
from tui_evals.runs.project import DATABASE, Project, load_project, store_of
from tui_evals.store.database import StoreError
from tui_evals.store.filters import Filter, FilterError, parse_filter
from tui_evals.store.reader import Reader
from tui_evals.store.records import RunRow
from tui_evals.store.redact import secrets_of
from tui_evals.store.writer import Writer
from tui_evals.targets.base import ConfigurationError

from .datasets_named import dataset_of_word
from .output import Stop, say, warn

SUFFIXES = (*ENDINGS, *OWN_SUFFIXES)


def evaluators(trusting: bool = False, prompt: Path | None = None) -> Registry:
    """The evaluators of the project and the metrics beside a prompt; `trusting` lets the project's code run unasked."""
    return load_registry(project_root(Path.cwd()), Trust(always=trusting), prompt.parent if prompt else None)


def read(file: Path) -> Document:
    """The document of a file, or of the dataset of that name, or Stop with its problems."""
    try:
        return load(dataset_of_word(file))
    except DatasetError as problem:
        raise Stop(str(problem)) from None


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
    """A reader of the project's store."""
    return Reader(store_path())


def writer(environment: Mapping[str, str]) -> Writer:
    """The writing door of the project's store; what looks like a secret of the environment never passes it."""
    return Writer(store_path(), secrets=secrets_of(environment))


def run_named(reader: Reader, word: str) -> RunRow:
    """The run a person means, or the end of the command."""
    try:
        return reader.find_run(word)
    except LookupError as problem:
        raise Stop(str(problem.args[0])) from None


def filter_or_stop(text: str | None) -> Filter | None:
    """The filter that a person typed, None for none, or the end of the command with what is wrong with it."""
    try:
        return parse_filter(text) if text else None
    except FilterError as problem:
        raise Stop(str(problem)) from None


def dataset_files(paths: tuple[Path, ...]) -> Iterator[Path]:
    """The files named, those inside named folders, or the one that discovery finds."""
    if not paths:
        yield found_or_started()
    for path in paths:
        if path.is_dir():
            files = (file for file in path.rglob("*") if file.name.lower().endswith(SUFFIXES))
            yield from sorted(file for file in files if not is_generation_file(file))
        else:
            yield dataset_of_word(path)


def found_or_started() -> Path:
    """The dataset that discovery finds; where there is none, a person at a terminal is offered a starter."""
    dataset = find_dataset(Path())
    if dataset is not None:
        return dataset
    message = "no dataset found in the current directory or ./evals/ (prompts.json, evals.json or tests.json)"
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise Stop(f"{message}; name a file, or run `tui-evals init`")
    say(f"⚠ {message}")
    if not click.confirm("Create a starter evals file with sample prompts?", default=True):
        raise Stop("nothing was written; name a file, or run `tui-evals init`")
    write_starter(STARTER)
    make_project(Path.cwd())
    say(f"wrote {STARTER}; edit it, then run this command again")
    raise SystemExit(0)


def open_project(env_name: str | None, trusting: bool, prompt: Path | None = None) -> Project:
    """The project of the current folder, or Stop with its problem."""
    try:
        here = load_project(project_root(Path.cwd()), env_name, trusting=trusting)
    except ConfigurationError as problem:
        raise Stop(str(problem), 3) from None
    for note in here.notes:
        warn(f"note: {note}")
    return here.with_prompt(prompt)
