"""Datasets named on the command line, by their path or by their name alone."""

from __future__ import annotations

from pathlib import Path

from tui_evals.datasets.discover import ENDINGS, dataset_named, project_root
from tui_evals.datasets.problems import DatasetError

from .output import Stop


def is_dataset(word: str) -> bool:
    """Whether a word that is no command names a dataset: a file that is there, by its ending, or of the project."""
    if word.lower().endswith(ENDINGS) or Path(word).is_file():
        return True
    return dataset_of_word(Path(word)).is_file()


def dataset_of_word(word: Path) -> Path:
    """The dataset that a person names, or the end of the command where several are called so."""
    try:
        return dataset_named(word, project_root(Path.cwd()))
    except DatasetError as problem:
        raise Stop(str(problem)) from None
