"""The one way in which a database file is opened. Its schema may be a stranger's, and must run nothing of its own."""

from __future__ import annotations

import contextlib
import errno
import os
import sqlite3
import tempfile
import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from tui_evals.store.errors import StoreError

SLOW = 20.0
"""Seconds that one query in a foreign store may take."""
_BRIEF = 2.0
_STEPS = 100_000  # of the database between two looks at the clock, a few milliseconds
_LONGEST = 2**25  # bytes of one text; a clone can bring longer ones, and a schema have SQLite make them of nothing


class Connection(sqlite3.Connection):
    """A connection whose statements end after some seconds where they are limited."""

    _seconds: float | None = None
    _until = 0.0

    def limit(self, seconds: float | None) -> None:
        """Let no statement take longer from now on; None lifts the limit."""
        self._seconds = seconds
        self.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, 1_000_000_000 if seconds is None else _LONGEST)
        self.set_progress_handler(None if seconds is None else self._is_over, _STEPS)

    @property
    def is_limited(self) -> bool:
        """Whether its statements have to end in time."""
        return self._seconds is not None

    def execute(self, statement: str, values: Any = (), /) -> sqlite3.Cursor:
        """Execute a statement, whose time begins now."""
        if self._seconds is not None:
            self._until = time.monotonic() + self._seconds
        try:
            return super().execute(statement, values)
        except UnicodeDecodeError:  # SQLite's own message quotes bytes of a damaged schema
            problem = sqlite3.DatabaseError("malformed database schema (its text is not UTF-8)")
            problem.sqlite_errorcode, problem.sqlite_errorname = sqlite3.SQLITE_CORRUPT, "SQLITE_CORRUPT"
            raise problem from None

    def brief_row(self, statement: str) -> Any:
        """The first row of a query that takes no longer than a moment, whatever it reads from; None without one."""
        seconds = self._seconds
        self.limit(_BRIEF)
        try:
            return self.execute(statement).fetchone()
        finally:
            self.limit(seconds)

    def _is_over(self) -> int:
        return int(time.monotonic() > self._until)


def open_database(address: str | Path, *, limited: bool = False, **options: Any) -> Connection:
    """A connection to a file or address in which the caller begins and ends transactions.

    Views and indexes of the file can call none of the functions that reach beyond it. With `limited` no statement
    takes longer than a moment.
    """
    is_address = str(address).startswith("file:")
    connection = sqlite3.connect(address, uri=is_address, isolation_level=None, factory=Connection, **options)
    try:
        connection.execute("PRAGMA trusted_schema=OFF")
        connection.execute("PRAGMA cell_size_check=ON")
        if limited:
            connection.limit(_BRIEF)
    except BaseException:
        connection.close()
        raise
    return connection


_BLOCK = 4096
_copies: dict[tuple[object, ...], tempfile.TemporaryDirectory[str]] = {}
"""The copies of this process, by what they are copies of; gone when it ends."""


def why_read_only(path: Path) -> str:
    """Why nothing can be written into a store that is there; empty where it can, or where there is none."""
    for place in (path, path.parent):
        if path.exists() and not os.access(place, os.W_OK, effective_ids=os.access in os.supports_effective_ids):
            if os.statvfs(place).f_flag & os.ST_RDONLY:
                return "its file system is mounted read-only"
            return f"you may not write in the folder {place}" if place != path else f"you may not write to {path}"
    return ""


def frozen_address(path: Path) -> str:
    """How SQLite opens a store without writers and without other files: the file itself, or a copy.

    SQLite reads a log only next to a database that it may write, so a store with a log is copied with it.
    """
    log = Path(f"{path}-wal")
    if log.exists() and log.stat().st_size:
        path = _copy(path, log)
    return f"{path.as_uri()}?mode=ro&immutable=1"


def _copy(path: Path, log: Path) -> Path:
    state = tuple((str(file), file.stat().st_mtime_ns, file.stat().st_size) for file in (path, log))
    if state not in _copies:
        folder = tempfile.TemporaryDirectory(prefix="tui-evals-")
        copy_readable(path, Path(folder.name, path.name))
        copy_readable(log, Path(folder.name, log.name))
        with contextlib.closing(open_database(Path(folder.name, path.name))) as connection:
            connection.execute("PRAGMA writable_schema=ON")  # damage is found when it is read
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        _copies[state] = folder
    return Path(_copies[state].name, path.name)


def copy_readable(source: Path, copy: Path) -> None:
    """Copy a file into one that its owner alone can read; what the disk does not give is zeros in the copy."""
    with open(source, "rb", buffering=0) as file:
        left = os.fstat(file.fileno()).st_size
        with open(os.open(copy, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "wb") as written:
            at, size = 0, 256 * _BLOCK
            while at < left:
                try:
                    piece = os.pread(file.fileno(), size, at)
                except OSError as problem:
                    if problem.errno != errno.EIO:
                        raise
                    if size > _BLOCK:  # so that no more is missing than has to be
                        size = _BLOCK
                        continue
                    piece = b"\0" * min(_BLOCK, left - at)
                if not piece:
                    return
                written.write(piece)
                at += len(piece)


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
        with closing(open_database(f"{path.absolute().as_uri()}?mode=ro")) as connection:
            connection.limit(SLOW)
            connection.row_factory = sqlite3.Row
            return [dict(row) for row in connection.execute(query)]
    except sqlite3.Error as problem:
        raise StoreError(f"{path} cannot be read as a database: {problem}") from problem
