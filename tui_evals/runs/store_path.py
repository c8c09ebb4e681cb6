"""Where the store of a project is."""

from __future__ import annotations

import os
from pathlib import Path

from tui_evals.datasets.discover import make_project
from tui_evals.store.database import open_store

DATABASE = "TUI_EVALS_DB"
"""The variable that names another store than the project's own."""


def store_of(root: Path) -> Path:
    """The store that TUI_EVALS_DB names, else the project's own; made where there is none yet."""
    named = os.environ.get(DATABASE)
    if not named:
        make_project(root)
    return open_store(Path(named) if named else root / ".evals" / "evals.db")
