"""How the database file is opened, made, locked between processes and checkpointed."""

from __future__ import annotations

import contextlib
import errno
import os
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from platformdirs import user_state_path

from tui_evals.files import UnsafeFile, check_private, make_private_folder
from tui_evals.store import identity, schema, views
from tui_evals.store.connection import (
    SLOW,
    Connection,
    StoreLock,
    empty_log,
    frozen_address,
    live_runs,
    open_database,
    owner_of,
    run_lock,
    why_read_only,
)
from tui_evals.store.connection import StoreError as StoreError
from tui_evals.store.connection import StoreTrouble as StoreTrouble
from tui_evals.store.connection import damaged_error as damaged_error
from tui_evals.store.connection import explained as explained
from tui_evals.store.connection import file_identity as file_identity
from tui_evals.store.connection import is_unreadable as is_unreadable
from tui_evals.store.identity import has_foreign_log, set_log_aside
from tui_evals.store.schema import demand_own_schema

_CHECKED = 16 * 2**20  # bytes; checking reads every page, so a larger file is checked on request


def connect(path: Path, *, write: bool = False, damaged: bool = False, durable: bool = False) -> Connection:
    """Open a connection in which the caller begins and ends transactions; read-only unless `write`.

    Refuses to write where the schema could change what is written. Limits the time of each query unless the store is
    the user's own. `damaged` reads what is left of a damaged store. Each commit of a `durable` connection is synced to
    disk, so it survives a power cut.
    """
    connection = _connected(path, write=write, damaged=damaged, durable=durable)
    try:
        if write:
            demand_own_schema(connection, path)
        else:
            connection.limit(SLOW)
            if not damaged:
                demand_own_schema(connection, path, write=False)
            if identity.is_own(path.absolute(), identity.store_number(connection)):
                connection.limit(None)
    except sqlite3.Error as problem:
        connection.close()
        raise explained(problem, path) from problem
    except BaseException:
        connection.close()
        raise
    return connection


def _connected(path: Path, *, write: bool, damaged: bool = False, durable: bool = False) -> Connection:
    """A connection to a store, with any schema."""
    check_files(path)
    if not path.exists():
        raise StoreError(f"there is no store at {path} yet; the first run makes it, or name another with --db.")
    if write:
        refuse_read_only(path)
    try:
        return _open(f"{path.absolute().as_uri()}?mode={'rw' if write else 'ro'}", write, damaged, durable)
    except sqlite3.Error as problem:
        is_closed = getattr(problem, "sqlite_errorname", "").startswith(("SQLITE_CANTOPEN", "SQLITE_READONLY"))
        if write or not is_closed or not why_read_only(path):
            raise explained(problem, path) from problem
    try:
        return _open(frozen_address(path.absolute()), write, damaged, durable)
    except sqlite3.Error as problem:
        raise explained(problem, path) from problem
    except OSError as problem:
        raise StoreError(
            f"{path} can only be read ({why_read_only(path)}), and its log only in a copy, which could not be made in "
            f"{tempfile.gettempdir()}: {problem.strerror}. TMPDIR names another folder."
        ) from problem


def _open(address: str, write: bool, damaged: bool, durable: bool) -> Connection:
    connection = open_database(address, check_same_thread=False, cached_statements=256)
    try:
        if damaged:  # lets SQLite open a file that is shorter than its header says
            connection.execute("PRAGMA writable_schema=ON")
        # Automatic checkpoints would run outside the lock between processes.
        synchronous = f"synchronous={'FULL' if durable else 'NORMAL'}"
        for pragma in ("busy_timeout=5000", synchronous, "wal_autocheckpoint=0", "schema_version"):
            connection.execute(f"PRAGMA {pragma}")
        if not write:
            connection.execute("PRAGMA query_only=1")
    except BaseException:
        connection.close()
        raise
    return connection


def refuse_read_only(path: Path) -> None:
    """Raise StoreError, with the reason, if a store is not writable."""
    if why := why_read_only(path):
        raise StoreError(
            f"{path} can only be read: {why}. Copy it to where you may write in the folder, or name another store "
            "with --db."
        )


def check_files(path: Path) -> None:
    """Refuse a store whose database, or a file that SQLite keeps next to it, leads elsewhere."""
    try:
        for end in ("", "-wal", "-shm", "-journal"):
            check_private(Path(f"{path}{end}"))
    except UnsafeFile as problem:
        raise explained(problem, path) from problem


def schema_version(connection: sqlite3.Connection, path: Path) -> int:
    """The schema version of a store, 0 for an empty file; refuses newer ones and other programs' databases."""
    (owner,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if owner != schema.APPLICATION or version < 1:
        (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        if owner or version or tables:
            raise StoreError(f"{path} is a database of another program. Name another file with --db.")
        return 0
    if version > schema.VERSION:
        raise StoreError(
            f"{path} was written by a newer tui-evals (its schema is {version}, this one knows "
            f"{schema.VERSION}). Update tui-evals, or name another store with --db."
        )
    return int(version)


def open_store(path: Path) -> Path:
    """Create the store or migrate it, readable by its owner only; returns its absolute path.

    A read-only store is not changed.
    """
    path = Path(path).absolute()
    check_files(path)
    why = why_read_only(path)
    try:
        make_private_folder(path.parent)
        # SQLite gives its other files the mode of this one; an existing file is never opened here, because
        # closing any descriptor of it would drop the locks of this process.
        with contextlib.suppress(FileExistsError):
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    except OSError as problem:
        raise explained(problem, path) from problem
    if not why:
        _demand_own_log(path)
    with contextlib.closing(_connected(path, write=not why)) as connection:
        try:
            connection.limit(SLOW)
            if schema_version(connection, path) != schema.VERSION:
                if why:
                    raise StoreError(
                        f"{path} is from an earlier tui-evals and can only be read: {why}. Copy it to where you may "
                        "write; `tui-evals --db COPY runs` brings the copy up to date."
                    )
                _migrate(connection, path)
            elif path.stat().st_size < _CHECKED and (damage := page_errors(connection)):
                raise damaged_error(path, damage[0])
            identity.notice(path, connection)
        except sqlite3.Error as problem:
            raise explained(problem, path) from problem
    return path


def rescue(connection: sqlite3.Connection, path: Path, name: str) -> Path:
    """Write a store that was deleted while open to its path again, or next to it if another file has that path now.

    Next to it, or where the folder is not writable, the copy gets a name of its own.
    """
    problem: sqlite3.Error | OSError = FileNotFoundError(errno.ENOENT, "there is no place", str(path))
    for place in spill_places(path):
        copy = place / name
        try:
            make_private_folder(place)
            schema.back_up(connection, copy)
            return _in_place(copy, path) if place == path.parent else copy
        except (sqlite3.Error, OSError) as failure:
            problem = failure
            copy.unlink(missing_ok=True)
    raise explained(problem, path)


def _in_place(copy: Path, path: Path) -> Path:
    """Link a copy to the path of its store if nothing is there; returns where the store is now."""
    try:
        with contextlib.closing(StoreLock(path)) as lock, lock.held("writing a deleted store again"):
            if os.path.lexists(path):
                return copy
            for end in ("-wal", "-shm"):  # SQLite would replay leftovers of the deleted file
                Path(f"{path}{end}").unlink(missing_ok=True)
            os.link(copy, path)
    except (StoreError, OSError):  # in use, or the disk has no links: it stays next to it
        return copy
    copy.unlink()
    return path


def spill_places(path: Path) -> tuple[Path, ...]:
    """Folders for rows that a store does not take: next to it, the user's state folder, temporary files."""
    return path.parent, user_state_path("tui_evals"), Path(tempfile.gettempdir())


def _demand_own_log(path: Path) -> None:
    """StoreError where a log was left next to a file that was replaced since: SQLite would play it into that file."""
    if not has_foreign_log(path):
        return
    with contextlib.closing(StoreLock(path)) as lock, lock.held("setting a log aside"):
        if not has_foreign_log(path):
            return
        aside = set_log_aside(path)
    raise StoreError(
        f"{path} was replaced, but the log of the store before was still next to it. The log does not fit this file, "
        f"so it was moved to {aside}. Nothing else was changed. Run the command again to use the store as it is now."
    )


def _migrate(connection: Connection, path: Path) -> None:
    with contextlib.closing(StoreLock(path)) as lock, lock.held("bringing the store up to date"):
        version = schema_version(connection, path)
        if version == schema.VERSION:
            return
        demand_own_schema(connection, path)
        connection.limit(None)
        if version:
            _demand_no_living_run(connection, path)
        if version and (damage := page_errors(connection)):
            raise damaged_error(path, damage[0])
        schema.migrate(connection, path, version)
        if not version:
            identity.own(path, identity.store_number(connection), "begun")
        empty_log(connection)  # so that the file says which store it is


def _demand_no_living_run(connection: sqlite3.Connection, path: Path) -> None:
    """StoreError where a process of the earlier tui-evals executes a run: it cannot write into newer tables."""
    keys = {key for (key,) in connection.execute("SELECT key FROM runs").fetchall()}
    owners = {key: owner_of(run_lock(path, key)) for key in live_runs(path) if key in keys}
    if owners:
        runs = ", ".join(f"{key} (process {owner})" for key, owner in owners.items())
        raise StoreError(
            f"{path} is from an earlier tui-evals, which is still executing run {runs}. Bringing the store up to date "
            f"would stop that run. Wait until it ends, or stop it with `kill -INT {next(iter(owners.values()))}`: it "
            "can be resumed. Then try again."
        )


def page_errors(connection: sqlite3.Connection, check: str = "quick_check") -> list[str]:
    """The errors that a check of every page finds in a store; empty if it is sound."""
    try:
        messages = [str(text) for (text,) in connection.execute(f"PRAGMA {check}(10)").fetchall()]
    except sqlite3.DatabaseError as problem:
        if getattr(problem, "sqlite_errorname", "") == "SQLITE_INTERRUPT":
            raise
        messages = [str(problem)]
    return [line for text in messages for line in text.splitlines() if line != "ok" and not line.startswith("***")]


_READING = frozenset((sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE))
_LOOK_AROUND = 10_000  # of SQLite's steps between two looks whether the user pressed Ctrl-C


def select(path: Path, statement: str) -> tuple[list[str], Iterator[tuple[Any, ...]]]:
    """The columns and rows of a query that can change nothing; raises StoreError if it is invalid."""
    connection = connect(path)
    # Our own definitions: nothing that a file brings may call functions, as views of ours do.
    for step in ("PRAGMA temp_store=MEMORY", "PRAGMA query_only=0"):
        connection.execute(step)
    views.make_views(connection, "TEMP ")
    connection.execute("PRAGMA query_only=1")
    connection.set_authorizer(_only_reading)
    if not connection.is_limited:
        connection.set_progress_handler(lambda: 0, _LOOK_AROUND)
    try:
        cursor = connection.execute(statement)
    except (sqlite3.Error, sqlite3.Warning) as problem:
        connection.close()
        raise StoreError(_explained(problem)) from None
    if cursor.description is None:
        connection.close()
        raise StoreError("The statement gives no rows. Only SELECT is possible here.")

    def rows() -> Iterator[tuple[Any, ...]]:
        with closing(connection):
            try:
                yield from cursor
            except sqlite3.Error as problem:
                raise StoreError(_explained(problem)) from None

    return [name for name, *_ in cursor.description], rows()


def _only_reading(action: int, *_: object) -> int:
    return sqlite3.SQLITE_OK if action in _READING else sqlite3.SQLITE_DENY


def _explained(problem: Exception) -> str:
    if "authoriz" in str(problem):
        return "The statement would do more than read. Only SELECT is possible here."
    return f"SQL: {str(problem).rstrip('.')}. `tui-evals help store` lists the views and their columns."
