"""What a command takes from its project: the settings, the evaluators and the datasets."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from tui_evals.datasets.discover import ENDINGS, STARTER, find_dataset, is_generation_file, make_project, project_root
from tui_evals.datasets.document import Document, load
from tui_evals.datasets.problems import DatasetError
from tui_evals.datasets.prompts import OWN_SUFFIXES
from tui_evals.datasets.starter import write_starter
from tui_evals.evaluators.registry import Registry, load_registry
from tui_evals.evaluators.trust import Trust
from tui_evals.runs.project import Project, load_project
from tui_evals.targets.base import ConfigurationError

from .asking import confirmed
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
    if not confirmed("Create a starter evals file with sample prompts?", default=True):
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
