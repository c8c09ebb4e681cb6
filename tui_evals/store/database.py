"""The one door to the database file: how it is opened, made, locked between processes and checkpointed."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import sqlite3
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from platformdirs import user_state_path

from tui_evals.private_files import UnsafeFile, check_private, make_private_folder, open_private

from . import migrations
from .figures import keep_totals
from .read_only import frozen_address, why_read_only

LOCK_SECONDS = 5.0
_CHECKED = 16 * 2**20  # bytes; checking reads every page, so a larger file is checked when somebody asks
_WAL_LIMIT = 4 * 2**20
_CHECKPOINT_PAUSE = 0.25
_INDEX_SIZE = 32 * 2**10
_SOMEBODY = "another program"
_WRITING = "120"  # the byte of the index of a WAL that is locked by whoever writes

TroubleCode = Literal["full", "locked", "unwritable", "damaged", "moved"]
"""Why nothing can be stored; what was moved was deleted, or another file stands in its place."""


class StoreError(Exception):
    """The store cannot be used: what happened, where, and what to do next."""


class StoreTrouble(StoreError):
    """Nothing can be stored for the time being, in a sentence and as a code with its cause, which is who or why."""

    def __init__(self, message: str, code: TroubleCode, cause: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.cause = cause


def file_identity(path: Path) -> tuple[int, int] | None:
    """Which file stands at a path, whatever it is called by now; None where there is none."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino


def explained(problem: sqlite3.Error | OSError, path: Path) -> StoreError:
    """A sentence for whoever meets an error of the database or of its files."""
    if isinstance(problem, UnsafeFile):
        return StoreError(f"{problem}.")
    name = getattr(problem, "sqlite_errorname", "")
    is_full = name == "SQLITE_FULL" or getattr(problem, "errno", None) in (errno.ENOSPC, errno.EDQUOT)
    if is_full or (name.startswith("SQLITE_IOERR") and _has_no_room(path)):
        return StoreTrouble(
            f"the disk that holds {path} is full. What was committed is safe; free some space, then resume.", "full"
        )
    if name.startswith("SQLITE_IOERR"):
        return StoreTrouble(
            f"{path} cannot be written or read ({problem}). What was committed is safe; "
            "look at the disk, its free space and your quota, then resume.",
            "unwritable",
            str(problem),
        )
    if name == "SQLITE_NOTADB":
        return StoreTrouble(
            f"{path} is damaged or is not a tui-evals store ({problem}: another kind of file, or encrypted). It was "
            "left as it is; move it away to start a new one, or put a backup in its place.",
            "damaged",
            str(problem),
        )
    if is_unreadable(problem):
        return damaged_error(path, str(problem))
    if name.startswith(("SQLITE_READONLY", "SQLITE_CANTOPEN")) or isinstance(problem, OSError):
        return StoreTrouble(
            f"{path} cannot be opened for this ({problem}). Make sure that you may write in the folder "
            f"{path.parent}, or name another store with --db.",
            "unwritable",
            str(problem),
        )
    if name.startswith("SQLITE_BUSY"):
        holder = _holder(path)
        return StoreTrouble(f"{holder} keeps {path} locked. End it, then try again.", "locked", holder)
    return StoreError(f"{path}: the database said: {problem}.")


def is_unreadable(problem: object) -> bool:
    """Whether an error says that a page cannot be read, or holds what no page of a store does."""
    return getattr(problem, "sqlite_errorname", "").startswith(("SQLITE_CORRUPT", "SQLITE_IOERR_READ"))


def _has_no_room(path: Path) -> bool:
    """Whether the disk has no room for the smallest of the files that SQLite keeps beside a store."""
    try:
        disk = os.statvfs(path.parent)
    except OSError:
        return False
    return disk.f_bavail * disk.f_frsize < _INDEX_SIZE


def _holder(path: Path) -> str:
    """Who writes in the store by a transaction that has not ended, where the system tells."""
    try:
        index = os.stat(f"{path}-shm").st_ino
        locks = Path("/proc/locks").read_text(encoding="ascii").splitlines()
    except OSError:
        return _SOMEBODY
    for words in map(str.split, locks):
        # 12: POSIX ADVISORY WRITE 4321 fe:00:1234 120 120
        if words[1:4] == ["POSIX", "ADVISORY", "WRITE"] and words[5].endswith(f":{index}") and words[6] == _WRITING:
            with contextlib.suppress(OSError):
                return f"process {words[4]} ({Path(f'/proc/{words[4]}/comm').read_text(encoding='utf-8').strip()})"
    return _SOMEBODY


def connect(path: Path, *, write: bool = False, damaged: bool = False, durable: bool = False) -> sqlite3.Connection:
    """A connection in which the caller begins and ends transactions; without `write` it cannot change a thing.

    One to a store that may be `damaged` reads what is there where others refuse. What a `durable` one commits is on the
    disk before it goes on, and so survives a power cut.
    """
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


def _open(address: str, write: bool, damaged: bool, durable: bool) -> sqlite3.Connection:
    connection = sqlite3.connect(
        address, uri=True, isolation_level=None, check_same_thread=False, cached_statements=256
    )
    try:
        if damaged:  # which lets SQLite open a file that is shorter than its first page says
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
    """StoreError where nothing can be written into a store, with the reason."""
    if why := why_read_only(path):
        raise StoreError(
            f"{path} can only be read: {why}. Copy it to where you may write in the folder, or name another store "
            "with --db."
        )


def check_files(path: Path) -> None:
    """Refuse a store whose database, or a file that SQLite keeps beside it, leads elsewhere."""
    try:
        for end in ("", "-wal", "-shm", "-journal"):
            check_private(Path(f"{path}{end}"))
    except UnsafeFile as problem:
        raise explained(problem, path) from problem


def schema_version(connection: sqlite3.Connection, path: Path) -> int:
    """The schema version of a store, 0 for an empty file; refuses newer ones and other programs' databases."""
    (owner,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if owner != migrations.APPLICATION:
        (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        if owner or version or tables:
            raise StoreError(f"{path} is a database of another program. Name another file with --db.")
        return 0
    if version > migrations.VERSION:
        raise StoreError(
            f"{path} was written by a newer tui-evals (its schema is {version}, this one knows "
            f"{migrations.VERSION}). Update tui-evals, or name another store with --db."
        )
    return int(version)


class StoreLock:
    """The lock every write transaction of any process holds, because SQLite before 3.51.3 can lose a WAL without it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._threads = threading.Lock()  # one descriptor does not exclude the threads of its own process
        try:
            self._file = open_private(Path(f"{path}.lock"), os.O_CREAT | os.O_RDWR)
        except OSError as problem:
            raise explained(problem, path) from problem

    @contextlib.contextmanager
    def held(self, purpose: str) -> Iterator[None]:
        """Hold the lock for a block, or say who has had it for too long."""
        deadline = time.monotonic() + LOCK_SECONDS
        if not self._threads.acquire(timeout=LOCK_SECONDS):
            raise self._taken()
        try:
            self._acquire(deadline)
            try:
                os.ftruncate(self._file, 0)
                os.pwrite(self._file, f"process {os.getpid()}, {purpose}".encode(), 0)
                yield
            finally:
                fcntl.flock(self._file, fcntl.LOCK_UN)
        finally:
            self._threads.release()

    def close(self) -> None:
        """Give back the file."""
        os.close(self._file)

    def _acquire(self, deadline: float) -> None:
        pause = 0.0005
        while True:
            try:
                return fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise self._taken() from None
            time.sleep(pause)
            pause = min(pause * 2, 0.01)

    def _taken(self) -> StoreError:
        holder = os.pread(self._file, 200, 0).decode("utf-8", "replace") or "another process"
        return StoreTrouble(
            f"{self._path} has been locked for more than {LOCK_SECONDS:g} s by {holder}. If it is stopped (Ctrl-Z) "
            "let it go on or end it, then try again.",
            "locked",
            holder,
        )


def checkpoint(connection: sqlite3.Connection, path: Path, last: float) -> float:
    """Empty a large WAL into the database; only for the holder of the lock. Returns when it was last tried."""
    now = time.monotonic()
    if now - last < _CHECKPOINT_PAUSE:
        return last
    try:
        size = os.stat(f"{path}-wal").st_size
    except FileNotFoundError:
        return last
    if size <= _WAL_LIMIT:
        return last
    connection.execute("PRAGMA busy_timeout=0")  # a reader in the way is not waited for; the next try will do
    try:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    except sqlite3.OperationalError:
        pass  # everything is in the WAL still, and the commit before it was good
    finally:
        connection.execute("PRAGMA busy_timeout=5000")
    return now


def open_store(path: Path) -> Path:
    """Make the store or bring it up to date, readable by its owner only; returns where it is.

    One that can only be read is left as it is.
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
    with contextlib.closing(connect(path, write=not why)) as connection:
        try:
            if schema_version(connection, path) != migrations.VERSION:
                if why:
                    raise StoreError(
                        f"{path} is from an earlier tui-evals and can only be read: {why}. Copy it to where you may "
                        "write; `tui-evals --db COPY runs` brings the copy up to date."
                    )
                _migrate(connection, path)
            elif path.stat().st_size < _CHECKED and (damage := page_errors(connection)):
                raise damaged_error(path, damage[0])
        except sqlite3.Error as problem:
            raise explained(problem, path) from problem
    return path


def rescue(connection: sqlite3.Connection, path: Path, name: str) -> Path:
    """Write a store that was deleted while it was open to its path again; where another file stands, beside it.

    There, or where nothing can be written any more, it gets a name of its own.
    """
    problem: sqlite3.Error | OSError = FileNotFoundError(errno.ENOENT, "there is no place", str(path))
    for place in spill_places(path):
        copy = place / name
        try:
            make_private_folder(place)
            migrations.back_up(connection, copy)
            return _in_place(copy, path) if place == path.parent else copy
        except (sqlite3.Error, OSError) as failure:
            problem = failure
            copy.unlink(missing_ok=True)
    raise explained(problem, path)


def _in_place(copy: Path, path: Path) -> Path:
    """Put a copy to the path of its store if nothing stands there; returns where it is."""
    try:
        with contextlib.closing(StoreLock(path)) as lock, lock.held("writing a deleted store again"):
            if os.path.lexists(path):
                return copy
            for end in ("-wal", "-shm"):  # what is left of the deleted file would be taken for what is new in this one
                Path(f"{path}{end}").unlink(missing_ok=True)
            os.link(copy, path)
    except (StoreError, OSError):  # somebody has it, or the disk knows no links: it stays beside it
        return copy
    copy.unlink()
    return path


def spill_places(path: Path) -> tuple[Path, ...]:
    """Where what a store does not take may be put: beside it, among the user's own state, among temporary files."""
    return path.parent, user_state_path("tui_evals"), Path(tempfile.gettempdir())


def _migrate(connection: sqlite3.Connection, path: Path) -> None:
    with contextlib.closing(StoreLock(path)) as lock, lock.held("bringing the store up to date"):
        version = schema_version(connection, path)
        if version == migrations.VERSION:
            return
        if version and (damage := page_errors(connection)):
            raise damaged_error(path, damage[0])
        migrations.migrate(connection, path, version)
        if version:
            keep_totals(connection)


def page_errors(connection: sqlite3.Connection, check: str = "quick_check") -> list[str]:
    """What a check of every page finds wrong with a store; empty if it is sound."""
    try:
        messages = [str(text) for (text,) in connection.execute(f"PRAGMA {check}(10)").fetchall()]
    except sqlite3.DatabaseError as problem:
        if getattr(problem, "sqlite_errorname", "") == "SQLITE_INTERRUPT":
            raise
        messages = [str(problem)]
    return [line for text in messages for line in text.splitlines() if line != "ok" and not line.startswith("***")]


def damaged_error(path: Path, damage: str) -> StoreTrouble:
    """The sentence about a store of which not everything can be read."""
    return StoreTrouble(
        f"{path} is damaged ({damage}). It was left as it is; `tui-evals db repair` saves what can be read of it "
        "into a new store, or put a backup in its place.",
        "damaged",
        damage,
    )
