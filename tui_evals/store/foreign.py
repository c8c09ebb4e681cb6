"""SQLite databases of other tools, which are read and never written."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from .database import StoreError

_HEAD = b"SQLite format 3\x00"


def is_database(path: Path, tables: Sequence[str]) -> bool:
    """Whether a file is a database that has these tables."""
    with path.open("rb") as stream:
        if stream.read(len(_HEAD)) != _HEAD:
            return False
    try:
        rows = foreign_rows(path, "SELECT name FROM sqlite_master WHERE type = 'table'")
    except StoreError:
        return False
    return set(tables) <= {row["name"] for row in rows}


def foreign_rows(path: Path, query: str) -> list[dict[str, Any]]:
    """What a query finds in a database of another tool; StoreError says why it cannot be read."""
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as connection:
            connection.row_factory = sqlite3.Row
            return [dict(row) for row in connection.execute(query)]
    except sqlite3.Error as problem:
        raise StoreError(f"{path} cannot be read as a database: {problem}") from problem
