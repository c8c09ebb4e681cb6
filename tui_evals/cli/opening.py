"""A request to open the workbench, and datasets named on the command line; imports no screen."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from tui_evals.cli.output import Stop
from tui_evals.datasets.discover import ENDINGS, dataset_named, project_root
from tui_evals.datasets.paths import DatasetError
from tui_evals.light_records import dataclass


def is_dataset(word: str) -> bool:
    """Whether a word that is not a command names a dataset: an existing file, a known ending, or one of the project."""
    if word.lower().endswith(ENDINGS) or Path(word).is_file():
        return True
    return dataset_of_word(Path(word)).is_file()


def dataset_of_word(word: Path) -> Path:
    """The dataset that a word names; ends the command if there are several."""
    try:
        return dataset_named(word, project_root(Path.cwd()))
    except DatasetError as problem:
        raise Stop(str(problem)) from None


@dataclass(frozen=True, slots=True)
class Opening:
    """A request to open the workbench on a project, and optionally on a dataset or a run."""

    root: Path
    database: Path
    dataset: Path | None = None
    run: str | None = None
    mouse: bool = True
    demo: bool = False


@dataclass(frozen=True, slots=True)
class GlobalOptions:
    """Options given before the command name."""

    mouse: bool = True


def need_terminal(instead: str) -> None:
    """End the command if no workbench can be shown, with an alternative."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise Stop(f"the workbench needs a terminal; {instead}")
    if os.environ.get("TERM") == "dumb":
        raise Stop(f"the workbench needs a terminal that can move its cursor, and TERM is dumb; {instead}")


def opening(dataset: Path | None, mouse: bool) -> Opening:
    """`tui-evals` and `tui-evals DATASET`."""
    instead = "`tui-evals --help` lists the commands that do not"
    if dataset is not None:
        dataset = dataset_of_word(dataset)
        instead = f"`tui-evals validate {dataset}` and `tui-evals run {dataset}` do not"
    need_terminal(instead)
    from tui_evals.cli.project import store_path

    root = project_root(Path.cwd())
    if dataset is not None:
        dataset = dataset.absolute()
        if not dataset.resolve().is_relative_to(root):
            root = project_root(dataset.parent)
    return Opening(root, store_path(root), dataset, mouse=mouse)
