"""Keeping a store sound: check every page, back up, vacuum, count again."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field
from itertools import pairwise
from pathlib import Path
from typing import get_args

from tui_evals.files import make_private_folder
from tui_evals.interpreter import python_command
from tui_evals.light_records import dataclass
from tui_evals.store import identity, ledger, schema
from tui_evals.store.connection import Connection, StoreLock, refuse_live_runs
from tui_evals.store.database import (
    StoreError,
    connect,
    damaged_error,
    explained,
    is_unreadable,
    page_errors,
    refuse_read_only,
    schema_version,
)
from tui_evals.store.identity import connect_alone, read_base
from tui_evals.store.records import AnswerStatus, RunStatus
from tui_evals.store.schema import SchemaFindings, schema_findings

_STEPS = 10_000  # of the database, between two looks at the clock
_PATIENCE = 120.0  # seconds for each look into a foreign store, whose indexes may compute for ever
_FAILURES = 1_000_000  # attempts at a table, because a damaged key may give an endless range
_SHOWN = {"runs": "id", "answers": "id", "scores": "answer"}
"""The tables that say how much a store holds, and what their keys begin with."""
_TYPES = {"INTEGER": "'integer'", "REAL": "'real', 'integer'", "TEXT": "'text'", "BLOB": "'blob'"}
"""The types that SQLite may report for the values of a column."""
_MEANT = {
    "answers": ("pos >= 0", f"status IN {get_args(AnswerStatus)}"),
    "runs": (f"status IN {get_args(RunStatus)}",),
}


@dataclass(frozen=True, slots=True)
class StoreCheck:
    """The result of checking every page of a store."""

    problems: tuple[str, ...]
    """The errors; empty for a sound store."""
    whole: bool
    """Whether there was time for every page."""
    readable: Mapping[str, int]
    """How many runs, answers and scores can be read."""
    counted: bool
    """Whether there was time to count all of those."""
    miscounted: tuple[str, ...] = ()
    """Differences between the cached counts of a run and its rows; only in a thorough check."""
    schema: SchemaFindings = field(default_factory=SchemaFindings)
    """Its objects besides the tables of tui-evals."""
    own: bool = True
    """Whether it was begun on this machine by this user, or adopted by them."""

    @property
    def is_sound(self) -> bool:
        """Whether it has no errors."""
        return not (self.problems or self.miscounted or self.schema.harmful)


def check(path: Path, *, seconds: float | None = None, thorough: bool = False) -> StoreCheck:
    """Look at every page of a store, within some seconds where they are limited; StoreError if it is none of ours.

    A `thorough` look compares every index with its table too.
    """
    with contextlib.closing(connect_damaged(path)) as connection:
        schema, own = readable_schema(connection), identity.is_own(path.absolute(), identity.store_number(connection))
        _limit(connection, seconds)
        try:
            problems = page_errors(connection, "integrity_check" if thorough else "quick_check")
        except sqlite3.OperationalError:  # its time was over
            return StoreCheck((), False, {}, False, schema=schema, own=own)
        _limit(connection, seconds)
        readable = {table: 0 for table in _SHOWN if table not in schema.replaced}
        try:
            for table in readable:
                _count(connection, table, _SHOWN[table], readable, damaged=bool(problems))
        except sqlite3.OperationalError:
            return StoreCheck(tuple(problems), True, readable, False, schema=schema, own=own)
        miscounted: tuple[str, ...] = ()
        if thorough and not (problems or schema.replaced):
            try:
                miscounted = _miscounted(connection, path)
            except sqlite3.OperationalError as problem:
                if not is_lost(problem):
                    raise
                problems = [str(problem)]
    return StoreCheck(tuple(problems), True, readable, True, miscounted, schema, own)


def readable_schema(connection: sqlite3.Connection) -> SchemaFindings:
    """The objects of a store besides our tables; none if it is unreadable."""
    try:
        return schema_findings(connection)
    except sqlite3.DatabaseError:  # which the look at its pages says
        return SchemaFindings()


def _miscounted(connection: sqlite3.Connection, path: Path) -> tuple[str, ...]:
    """Each run whose kept counts differ from its rows, as of one moment."""
    if schema_version(connection, path) < ledger.SINCE:
        return ()

    def ask(query: str, values: Sequence[object]) -> list[tuple[object, ...]]:
        return connection.execute(query, values).fetchall()

    connection.execute("BEGIN")
    try:
        runs = ask("SELECT id, key FROM runs WHERE total IS NOT NULL", [])
        return tuple(f"run {key}: {found}" for run, key in runs for found in ledger.differences(ask, int(str(run))))
    finally:
        connection.execute("ROLLBACK")


def connect_damaged(path: Path) -> Connection:
    """A connection that reads the readable parts of one of our stores; raises StoreError."""
    connection = connect(path, damaged=True)
    try:
        if not schema_version(connection, path):
            raise StoreError(f"{path} is empty: no store was made in it yet.")
    except BaseException as problem:
        connection.close()
        if isinstance(problem, sqlite3.Error):
            raise explained(problem, path) from problem
        raise
    return connection


def is_lost(problem: sqlite3.Error) -> bool:
    """Whether an error says that something of a store cannot be read: a page, or the page that describes a table."""
    return is_unreadable(problem) or "no such table" in str(problem)


def in_readable_ranges(attempt: Callable[[int, int], object], low: int, high: int) -> None:
    """Make an attempt at a range of keys, and where it meets what cannot be read, at each half of the range."""
    failures = 0
    ranges = [(low, high)]
    while ranges and failures < _FAILURES:
        low, high = ranges.pop()
        try:
            attempt(low, high)
        except sqlite3.DatabaseError as problem:
            if not is_lost(problem):
                raise
            failures += 1
            middle = (low + high) // 2
            if low < high:
                ranges += [(middle + 1, high), (low, middle)]


def readable_number(connection: sqlite3.Connection, queries: Sequence[str]) -> int | None:
    """The largest of those numbers that can be read; None where none can."""
    numbers = []
    for query in queries:
        try:
            numbers += [number for (number,) in connection.execute(query) if isinstance(number, int)]
        except sqlite3.DatabaseError as problem:
            if not is_lost(problem):
                raise
    return max(numbers, default=None)


def highest_keys(connection: sqlite3.Connection, table: str, key: str) -> list[str]:
    """Queries that each return an upper bound for the keys of a table."""
    queries = [
        f"SELECT max({key}) FROM {table} NOT INDEXED",
        f"SELECT seq FROM sqlite_sequence WHERE name = '{table}'",
    ]
    if key in ("rowid", "id"):
        queries += [f"SELECT max(rowid) FROM {table} INDEXED BY {name}" for name in indexes(connection, table)]
    if key == "answer" and "answers" not in readable_schema(connection).replaced:
        queries += highest_keys(connection, "answers", "id")
    return queries


def indexes(connection: sqlite3.Connection, table: str) -> list[str]:
    """The indexes of a table that list all its rows; partial ones do not."""
    try:
        listed = connection.execute(f"PRAGMA index_list({table})")
        return [str(name) for _, name, _, _, partial in listed if not partial]
    except sqlite3.DatabaseError as problem:
        if not is_lost(problem):
            raise
        return []


def _limit(connection: Connection, seconds: float | None) -> None:
    """Interrupt the connection once the time is over."""
    seconds = _PATIENCE if seconds is None and connection.is_limited else seconds
    deadline = None if seconds is None else time.monotonic() + seconds
    late = None if deadline is None else lambda: int(time.monotonic() > deadline)
    connection.set_progress_handler(late, _STEPS)


def written_rows(connection: sqlite3.Connection, table: str) -> str:
    """The condition for a row that was really written: SQLite reads all bytes of a page as data.

    It tests types, because SQLite assumes that a NOT NULL column is never null.
    """
    columns = connection.execute(f"PRAGMA table_info({table})").fetchall()
    allowed = ((name, _TYPES[kind] if filled else f"{_TYPES[kind]}, 'null'") for _, name, kind, filled, *_ in columns)
    typed = (f'typeof("{name}") IN ({types})' for name, types in allowed)
    return " AND ".join((*typed, *_MEANT.get(table, ())))


def _count(connection: sqlite3.Connection, table: str, key: str, readable: dict[str, int], *, damaged: bool) -> None:
    """How many rows can be read, each of them once, though a damaged table may lead to one twice."""
    rows = f"SELECT 1 FROM {table} NOT INDEXED WHERE {key} BETWEEN ? AND ?"
    if damaged:
        columns = connection.execute(f"PRAGMA table_info({table})").fetchall()
        keys = ", ".join(name for _, name, *_, place in columns if place)
        rows = rows.replace("SELECT 1", f"SELECT DISTINCT {keys}") + f" AND {written_rows(connection, table)}"

    def attempt(low: int, high: int) -> None:
        readable[table] += connection.execute(f"SELECT count(*) FROM ({rows})", [low, high]).fetchone()[0]

    high = readable_number(connection, highest_keys(connection, table, key))
    if high is not None:
        in_readable_ranges(attempt, 0, high)


_KEPT = 2
_SOON = 16 * 2**20  # bytes; a smaller store is copied in less time than it takes to start a process


@dataclass(frozen=True, slots=True)
class Backup:
    """A copy of a store, and when it was made."""

    path: Path
    time: float


def keep_backup(path: Path) -> None:
    """Copy a store in place of the oldest copy; a large one in a process of its own, which is not waited for."""
    if os.stat(path).st_size <= _SOON:
        make_backup(path)
        return
    process = subprocess.Popen(
        python_command("-m", __name__, str(path)),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    threading.Thread(target=process.wait, daemon=True, name="end of a backup").start()  # so that it leaves no zombie


def make_backup(path: Path) -> None:
    """Update the backups of a store, unless it is damaged."""
    places = _places(path)
    with contextlib.suppress(StoreError, OSError, sqlite3.Error):  # the run is whole without a copy
        make_private_folder(places[0].parent, path.parent)
        draft = places[0].with_suffix(".new")
        with contextlib.closing(connect(path)) as connection:
            schema.back_up(connection, draft, durable=False)
        with contextlib.closing(connect_alone(draft)) as copy:
            is_sound = not page_errors(copy)
        if not is_sound:
            draft.unlink()
            return
        for newer, older in reversed(list(pairwise(places))):
            with contextlib.suppress(FileNotFoundError):
                os.replace(newer, older)
        os.replace(draft, places[0])


def newest_backup(path: Path) -> Backup | None:
    """The newest readable backup that has runs and belongs to the store at `path`.

    If the store has no id, or was created again and has no run, any backup may be its own.
    """
    base = read_base(path) if _has_runs(path) else None
    for backup in _backups(path):
        copied = read_base(backup.path)
        if copied is not None and (base is None or base.store in (None, copied.store)) and _has_runs(backup.path):
            return backup
    return None


def can_restore(path: Path) -> bool:
    """Whether the store is missing, unreadable or without runs, and a backup has runs."""
    if newest_backup(path) is None:
        return False
    try:
        with contextlib.closing(connect_damaged(path)) as connection:
            return not _any_run(connection)
    except StoreError:
        return True


def _has_runs(path: Path) -> bool:
    with contextlib.suppress(StoreError, sqlite3.Error), contextlib.closing(connect_alone(path)) as connection:
        return bool(schema_version(connection, path)) and _any_run(connection)
    return False


def _any_run(connection: sqlite3.Connection) -> bool:
    try:
        return bool(connection.execute("SELECT EXISTS (SELECT 1 FROM runs)").fetchone()[0])
    except sqlite3.DatabaseError:  # there is something, which cannot be read
        return True


def _backups(path: Path) -> Iterator[Backup]:
    for place in _places(path):
        with contextlib.suppress(OSError):
            yield Backup(place, os.stat(place).st_mtime)


def _places(path: Path) -> list[Path]:
    """The paths of a store's backups, the newest first."""
    return [path.parent / "backups" / f"{path.name}.{number}" for number in range(1, _KEPT + 1)]


if __name__ == "__main__":
    os.nice(10)
    make_backup(Path(sys.argv[1]))


def vacuum(path: Path) -> tuple[int, int]:
    """Rewrite the store without its free space while no run is executing; returns its bytes before and after."""
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


def recount(path: Path) -> None:
    """Recount every run from its rows."""
    connect_damaged(path).close()
    refuse_read_only(path)
    try:
        with (
            contextlib.closing(StoreLock(path)) as lock,
            contextlib.closing(connect(path, write=True)) as connection,
            lock.held("counting its runs"),
        ):
            connection.execute("BEGIN IMMEDIATE")
            ledger.recount_all(connection)
            connection.execute("COMMIT")
    except sqlite3.Error as problem:
        raise explained(problem, path) from problem


def back_up(path: Path, copy: Path, *, replace: bool = False) -> tuple[Path, int]:
    """Copy a store to a file, completely or not at all, even while it is written; returns the path and its bytes.

    An existing file is kept unless `replace`. A damaged store is not backed up.
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
                schema.back_up(connection, draft)
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
