"""Whether every page of a store can be read, and what can where some cannot."""

from __future__ import annotations

import contextlib
import sqlite3
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

from .database import StoreError, connect, explained, is_unreadable, page_errors, schema_version
from .records import AnswerStatus, RunStatus

_STEPS = 10_000  # of the database, between two looks at the clock
_FAILURES = 1_000_000  # attempts at a table, for a damaged key may name a range without end
_SHOWN = {"runs": "id", "answers": "id", "scores": "answer"}
"""The tables that say how much a store holds, and what their keys begin with."""
_TYPES = {"INTEGER": "'integer'", "REAL": "'real', 'integer'", "TEXT": "'text'"}
"""What SQLite may call the values of a column."""
_MEANT = {
    "answers": ("pos >= 0", f"status IN {get_args(AnswerStatus)}"),
    "runs": (f"status IN {get_args(RunStatus)}",),
}


@dataclass(frozen=True, slots=True)
class StoreCheck:
    """What a look at every page of a store found."""

    problems: tuple[str, ...]
    """What is wrong; empty for a sound store."""
    whole: bool
    """Whether there was time for every page."""
    readable: Mapping[str, int]
    """How many runs, answers and scores can be read."""
    counted: bool
    """Whether there was time to count all of those."""


def check(path: Path, *, seconds: float | None = None, thorough: bool = False) -> StoreCheck:
    """Look at every page of a store, within some seconds where they are limited; StoreError if it is none of ours.

    A `thorough` look compares every index with its table too.
    """
    with contextlib.closing(connect_damaged(path)) as connection:
        _limit(connection, seconds)
        try:
            problems = page_errors(connection, "integrity_check" if thorough else "quick_check")
        except sqlite3.OperationalError:  # its time was over
            return StoreCheck((), False, {}, False)
        _limit(connection, seconds)
        readable = dict.fromkeys(_SHOWN, 0)
        try:
            for table, key in _SHOWN.items():
                _count(connection, table, key, readable, damaged=bool(problems))
        except sqlite3.OperationalError:
            return StoreCheck(tuple(problems), True, readable, False)
    return StoreCheck(tuple(problems), True, readable, True)


def connect_damaged(path: Path) -> sqlite3.Connection:
    """A connection that reads what it can of a store of ours; StoreError says why there is none."""
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
    """Queries of which each says up to where the keys of a table may go."""
    queries = [
        f"SELECT max({key}) FROM {table} NOT INDEXED",
        f"SELECT seq FROM sqlite_sequence WHERE name = '{table}'",
    ]
    if key in ("rowid", "id"):
        queries += [f"SELECT max(rowid) FROM {table} INDEXED BY {name}" for name in indexes(connection, table)]
    if key == "answer":
        queries += highest_keys(connection, "answers", "id")
    return queries


def indexes(connection: sqlite3.Connection, table: str) -> list[str]:
    """The indexes of a table that are a second list of its rows; one of some of them is not."""
    try:
        listed = connection.execute(f"PRAGMA index_list({table})")
        return [str(name) for _, name, _, _, partial in listed if not partial]
    except sqlite3.DatabaseError as problem:
        if not is_lost(problem):
            raise
        return []


def _limit(connection: sqlite3.Connection, seconds: float | None) -> None:
    """Interrupt what the connection does once the time is over."""
    deadline = None if seconds is None else time.monotonic() + seconds
    late = None if deadline is None else lambda: int(time.monotonic() > deadline)
    connection.set_progress_handler(late, _STEPS)


def written_rows(connection: sqlite3.Connection, table: str) -> str:
    """The condition that a row is one that was written: SQLite takes every byte of a page that it can follow for data.

    It is said by types, because SQLite takes for granted that a column which may not be empty is not.
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
