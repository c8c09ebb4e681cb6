"""Where the store of a project is."""

from __future__ import annotations

import os
from pathlib import Path

from tui_evals.datasets.discover import make_project
from tui_evals.store.database import StoreError, open_store
from tui_evals.store.read_only import why_read_only
from tui_evals.store.runlock import alive, executed_runs, run_lock

DATABASE = "TUI_EVALS_DB"
"""The variable that names another store than the project's own."""


def store_of(root: Path) -> Path:
    """The store that TUI_EVALS_DB names, else the project's own; made where there is none yet."""
    place = place_of_store(root)
    if not os.environ.get(DATABASE) and not why_read_only(place):
        make_project(root)
    if not place.exists():
        demand_unused(place)
    return open_store(place)


def place_of_store(root: Path) -> Path:
    """Where that is, whatever is there."""
    return Path(os.environ.get(DATABASE) or root / ".evals" / "evals.db").absolute()


def demand_unused(path: Path) -> None:
    """StoreError where no store is to be made, because a run that goes on writes into the one that stood there."""
    for key in executed_runs(path):
        if alive(run_lock(path, key)):
            raise StoreError(
                f"{path} was deleted while the run {key} writes into it. The run ends at once and writes it there "
                "again; then try again."
            )
