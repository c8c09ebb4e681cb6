"""Keeping a store small and safe: giving back what is empty in it, and a copy that can be relied on."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import tempfile
from pathlib import Path

from . import migrations
from .damage import connect_damaged
from .database import StoreError, StoreLock, connect, damaged_error, explained, page_errors, refuse_read_only
from .runlock import refuse_live_runs


def vacuum(path: Path) -> tuple[int, int]:
    """Write the store anew without what was deleted in it, while no run is executed; its bytes before and after."""
    connect_damaged(path).close()
    refuse_read_only(path)
    refuse_live_runs(path)
    before = _bytes(path)
    try:
        with (
            contextlib.closing(StoreLock(path)) as lock,
            contextlib.closing(connect(path, write=True)) as connection,
            lock.held("making the store smaller"),
        ):
            connection.execute("VACUUM")
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    except (sqlite3.Error, OSError) as problem:
        raise explained(problem, path) from problem
    return before, _bytes(path)


def back_up(path: Path, copy: Path, *, replace: bool = False) -> tuple[Path, int]:
    """Copy a store, whatever is written into it meanwhile, to a file that is there whole or not at all.

    Returns where that is, and its bytes. A file that is there is left alone unless it is to be replaced. A store that
    is damaged makes no backup.
    """
    connect_damaged(path).close()
    if copy.is_dir():
        copy /= path.name
    if os.path.lexists(copy) and (not replace or not copy.is_file() or copy.samefile(path)):
        advice = "; --force replaces it" if copy.is_file() and not copy.samefile(path) else ""
        raise StoreError(f"{copy} is already there; choose another name{advice}.")
    try:
        with tempfile.TemporaryDirectory(prefix=".backup-", dir=copy.parent) as folder:
            draft = Path(folder) / copy.name
            with contextlib.closing(connect(path)) as connection:
                migrations.back_up(connection, draft)
            with contextlib.closing(connect(draft)) as connection:
                damage = page_errors(connection)
            if damage:
                raise damaged_error(path, damage[0])
            descriptor = os.open(draft, os.O_RDONLY)
            os.fsync(descriptor)
            os.close(descriptor)
            os.replace(draft, copy)
    except sqlite3.Error as problem:
        raise explained(problem, path) from problem
    except OSError as problem:
        raise StoreError(f"{copy} could not be written: {problem.strerror}. Nothing was changed.") from problem
    return copy, copy.stat().st_size


def _bytes(path: Path) -> int:
    """How large a store is with its log."""
    return sum(file.stat().st_size for file in (path, Path(f"{path}-wal")) if file.exists())
