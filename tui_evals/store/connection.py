"""How a database file is opened, why a store cannot be used, and the lock files of its writers and runs.

A schema may be a stranger's, and must run nothing of its own. A lock says who writes, and which runs are alive.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import sqlite3
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal

from tui_evals.files import UnsafeFile, make_private_folder, open_private
from tui_evals.light_records import dataclass
from tui_evals.store.records import StoreWait

_INDEX_SIZE = 32 * 2**10
_SOMEBODY = "another program"
_WRITING = "120"  # the byte of the index of a WAL that a writer locks

TroubleCode = Literal["full", "locked", "unwritable", "damaged", "moved", "overwritten", "upgraded"]
"""Why nothing can be stored.

A store that was *moved* was deleted, or another file has its name; the open file is still whole. An *overwritten* one
has other content in the same file. An *upgraded* one has tables of a newer tui-evals.
"""


class StoreError(Exception):
    """The store cannot be used: what happened, where, and what to do next."""


class MissingSnapshot(StoreError, LookupError):
    """The dataset of a run is not in its store any more."""

    def __init__(self, digest: str, store: Path) -> None:
        super().__init__(
            f"The dataset {digest[:12]} of a run is missing in {store}: the store was changed or damaged. "
            "`tui-evals db check` says what else is wrong with it."
        )


class StoreTrouble(StoreError):
    """The store is not writable at the moment: a sentence, a code, and the cause (who or why)."""

    def __init__(self, message: str, code: TroubleCode, cause: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.cause = cause


def file_identity(path: Path | str) -> tuple[int, int] | None:
    """The identity of the file at a path, whatever its name; None without one."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino


def explained(problem: sqlite3.Error | OSError, path: Path) -> StoreError:
    """A sentence about an error of the database or of its files."""
    if isinstance(problem, UnsafeFile):
        return StoreError(f"{problem}.")
    name = getattr(problem, "sqlite_errorname", "")
    if getattr(problem, "errno", None) in (errno.EMFILE, errno.ENFILE) or (
        name.startswith("SQLITE_CANTOPEN") and _has_no_descriptor()
    ):
        return StoreTrouble(
            f"{path} cannot be opened: this process has as many open files as the system allows. "
            "Raise the limit with `ulimit -n 4096`, or use a smaller --concurrency.",
            "unwritable",
            "too many open files",
        )
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
    if name == "SQLITE_INTERRUPT":
        return StoreError(
            f"{path} was not begun here, and reading it took too long, so that was stopped. `tui-evals db check` says "
            "what its schema holds."
        )
    if name.startswith("SQLITE_BUSY"):
        holder = _holder(path)
        return StoreTrouble(f"{holder} keeps {path} locked. End it, then try again.", "locked", holder)
    if name == "SQLITE_TOOBIG":
        return StoreError(
            f"{path} holds a text that is larger than 32 MiB, which is not read from a store that was not begun here. "
            "If you know it: `tui-evals trust --store`"
        )
    return StoreError(f"{path}: the database said: {problem}.")


def is_unreadable(problem: object) -> bool:
    """Whether an error says that a page cannot be read, or holds what no page of a store does."""
    return getattr(problem, "sqlite_errorname", "").startswith(("SQLITE_CORRUPT", "SQLITE_IOERR_READ"))


def _has_no_room(path: Path) -> bool:
    """Whether the disk has no room for the smallest of the files that SQLite keeps next to a store."""
    try:
        disk = os.statvfs(path.parent)
    except OSError:
        return False
    return disk.f_bavail * disk.f_frsize < _INDEX_SIZE


def _has_no_descriptor() -> bool:
    """Whether the process can open no further file."""
    try:
        os.close(os.open(os.devnull, os.O_RDONLY))
    except OSError as problem:
        return problem.errno in (errno.EMFILE, errno.ENFILE)
    return False


def _holder(path: Path) -> str:
    """The process whose open transaction locks the store, if the system tells."""
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


def damaged_error(path: Path, damage: str) -> StoreTrouble:
    """The error for a store that can only be read in part."""
    return StoreTrouble(
        f"{path} is damaged ({damage}). It was left as it is; `tui-evals db repair` saves what can be read of it "
        "into a new store, or put a backup in its place.",
        "damaged",
        damage,
    )


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
        """Limit the time of each statement from now on; None lifts the limit."""
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
        """The first row of a query with a short time limit; None without one."""
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
"""Copies that this process made, by their originals; deleted when the process ends."""


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
    """Copy a file into one that only its owner can read; unreadable blocks become zeros."""
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
    """The rows of a query in a database of another tool; raises StoreError."""
    try:
        with closing(open_database(f"{path.absolute().as_uri()}?mode=ro")) as connection:
            connection.limit(SLOW)
            connection.row_factory = sqlite3.Row
            return [dict(row) for row in connection.execute(query)]
    except sqlite3.Error as problem:
        raise StoreError(f"{path} cannot be read as a database: {problem}") from problem


_ROOM = 4_000  # bytes; less than the smallest block of a disk
_PATIENCE = 1.0  # seconds; a reader holds the lock for a microsecond


def run_lock(store: Path, key: str) -> Path:
    """The path of a run's lock file."""
    return store.parent / "locks" / f"{key}.lock"


def executed_runs(store: Path) -> tuple[str, ...]:
    """The runs that were executed into a store, by the lock files they leave, which outlive it.

    None where several stores share a folder, because they could belong to any of them.
    """
    if any(file.name != f"{store.name}.lock" for file in store.parent.glob("*.lock")):
        return ()
    return tuple(sorted(file.stem for file in (store.parent / "locks").glob("*.lock") if "-" not in file.stem))


class RunLock:
    """The held lock of a run, with a note for watching processes that the store cannot take."""

    def __init__(self, file: int) -> None:
        self._file = file
        self.note(None)

    def note(self, wait: StoreWait | None) -> None:
        """Write to the lock file that the run waits for the store. Overwrites reserved bytes, so needs no space."""
        text = "" if wait is None else json.dumps(asdict(wait))
        os.pwrite(self._file, f"{os.getpid()}\n{text}".encode()[:_ROOM].ljust(_ROOM), 0)


@contextlib.contextmanager
def hold(path: Path) -> Iterator[RunLock]:
    """Own a run for a block; refused while another process owns it."""
    try:
        make_private_folder(path.parent, path.parent.parent)
        file = open_private(path, os.O_CREAT | os.O_RDWR, path.parent.parent)
    except OSError as problem:
        raise explained(problem, path) from problem
    try:
        _acquire(file, path)
        try:
            lock = RunLock(file)
        except OSError as problem:
            raise explained(problem, path) from problem
        yield lock
    finally:
        os.close(file)


def store_wait(path: Path) -> StoreWait | None:
    """The wait that the owner of a lock has noted in it, because the store cannot take it."""
    try:
        note = path.read_text(encoding="utf-8").partition("\n")[2].strip()
        return StoreWait(**json.loads(note)) if note else None
    except (OSError, ValueError):  # deleted, or being written
        return None


def alive(path: Path) -> bool:
    """Whether a process owns the run of this lock file."""
    try:
        file = open_private(path, os.O_RDONLY, path.parent.parent)
    except FileNotFoundError:
        return False
    except OSError as problem:
        raise explained(problem, path) from problem
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(file)
    return False


def owner_of(path: Path) -> str:
    """The number of the process that took a lock last, as it noted it there."""
    try:
        return path.read_text(encoding="utf-8").partition("\n")[0].strip() or "unknown"
    except OSError:
        return "unknown"


def live_runs(path: Path) -> list[str]:
    """The runs that are being executed in the folder of a store, even if the store is unreadable."""
    locks = sorted((path.parent / "locks").glob("*.lock"))
    return [lock.stem for lock in locks if alive(lock)]


def refuse_live_runs(path: Path) -> None:
    """StoreError where a run is being executed, with how to end it."""
    if live := live_runs(path):
        is_run = "-" not in live[0]
        stop = f"`tui-evals stop {live[0]}` first" if is_run else "Stop it in the workbench or where it runs"
        raise StoreError(
            f"run {', '.join(live)} is being executed, and would lose what it writes. {stop}, then try again."
        )


def _acquire(file: int, path: Path) -> None:
    deadline = time.monotonic() + _PATIENCE
    while True:
        try:
            return fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise StoreError(
                    f"run {path.stem} is being executed by another process ({owner_of(path)}). "
                    f"Watch it with `tui-evals watch {path.stem}`, or stop it first."
                ) from None
        time.sleep(0.005)


NOTE_AT = 200
"""Where the note begins in the lock file of a store. The bytes before it name the holder of the lock."""


_NOTE_SIZE = 200


@dataclass(frozen=True, slots=True)
class Base:
    """The identity and state in the database file."""

    store: int | None
    """The random number of the store; None before schema 18."""
    writer: int | None
    """The random number of the process that was the last to begin writing."""
    seq: int
    """The highest sequence number of an answer."""

    def is_before(self, other: Base) -> bool:
        """Whether `other` is a different store, or a later state of this one."""
        return self.store != other.store or self.seq < other.seq


@dataclass(frozen=True, slots=True)
class Note:
    """The note of the last process that emptied, or was about to empty, the log into the file."""

    base: Base
    is_moving: bool


def note_text(base: Base, *, is_moving: bool) -> bytes:
    """A note as the lock file keeps it."""
    return json.dumps({**asdict(base), "is_moving": is_moving}).encode().ljust(_NOTE_SIZE)


def note_in(descriptor: int) -> Note | None:
    """The note in an open lock file; None where there is none that can be read."""
    try:
        fields = json.loads(os.pread(descriptor, _NOTE_SIZE, NOTE_AT))
        return Note(Base(fields["store"], fields["writer"], fields["seq"]), bool(fields["is_moving"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


LOCK_SECONDS = 5.0


_WAL_LIMIT = 4 * 2**20


_CHECKPOINT_PAUSE = 0.25


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
                os.pwrite(self._file, f"process {os.getpid()}, {purpose}".encode()[:NOTE_AT].ljust(NOTE_AT), 0)
                yield
            finally:
                fcntl.flock(self._file, fcntl.LOCK_UN)
        finally:
            self._threads.release()

    @property
    def note(self) -> Note | None:
        """The note about the database file when its log was last emptied into it."""
        return note_in(self._file)

    def write_note(self, base: Base, *, is_moving: bool = False) -> None:
        """Note the state of the database file, or that the log is about to be moved into it; for the holder."""
        os.pwrite(self._file, note_text(base, is_moving=is_moving), NOTE_AT)

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
        holder = os.pread(self._file, NOTE_AT, 0).decode("utf-8", "replace").strip(" \0") or "another process"
        return StoreTrouble(
            f"{self._path} has been locked for more than {LOCK_SECONDS:g} s by {holder}. If it is stopped (Ctrl-Z) "
            "resume or end it, then try again.",
            "locked",
            holder,
        )


def checkpoint_due(path: Path, last: float) -> bool:
    """Whether the log is large, and the last attempt to empty it was a while ago."""
    if time.monotonic() - last < _CHECKPOINT_PAUSE:
        return False
    try:
        return os.stat(f"{path}-wal").st_size > _WAL_LIMIT
    except FileNotFoundError:
        return False


def empty_log(connection: sqlite3.Connection) -> bool:
    """Move the log into the database file; only for the holder of the lock. False if a reader is in the way."""
    connection.execute("PRAGMA busy_timeout=0")  # a reader in the way is not waited for; the next try will do
    try:
        ((is_busy, _, _),) = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    except sqlite3.OperationalError:
        return False  # everything is in the log still, and the commit before it was good
    finally:
        connection.execute("PRAGMA busy_timeout=5000")
    return not is_busy
