"""Where the store of a project is."""

from __future__ import annotations

import os
from pathlib import Path

from tui_evals.datasets.discover import make_project
from tui_evals.store.database import open_store
from tui_evals.store.read_only import why_read_only

DATABASE = "TUI_EVALS_DB"
"""The variable that names another store than the project's own."""


def store_of(root: Path) -> Path:
    """The store that TUI_EVALS_DB names, else the project's own; made where there is none yet."""
    place = place_of_store(root)
    if not os.environ.get(DATABASE) and not why_read_only(place):
        make_project(root)
    return open_store(place)


def place_of_store(root: Path) -> Path:
    """Where that is, whatever is there."""
    return Path(os.environ.get(DATABASE) or root / ".evals" / "evals.db").absolute()
