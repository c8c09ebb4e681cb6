"""Lock files: who writes a store and when its log is moved into it, and whether a run is alive."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import sqlite3
import threading
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

from tui_evals.files import make_private_folder, open_private
from tui_evals.light_records import dataclass
from tui_evals.store.connection import StoreError, explained
from tui_evals.store.connection import StoreTrouble as StoreTrouble
from tui_evals.store.records import StoreWait

_ROOM = 4_000  # bytes; less than the smallest block of a disk
_PATIENCE = 1.0  # seconds; a reader holds the lock for a microsecond


def run_lock(store: Path, key: str) -> Path:
    """Where the lock file of a run is."""
    return store.parent / "locks" / f"{key}.lock"


def executed_runs(store: Path) -> tuple[str, ...]:
    """The runs that were executed into a store, by the lock files they leave, which outlive it.

    None where several stores share a folder, because they could belong to any of them.
    """
    if any(file.name != f"{store.name}.lock" for file in store.parent.glob("*.lock")):
        return ()
    return tuple(sorted(file.stem for file in (store.parent / "locks").glob("*.lock") if "-" not in file.stem))


class RunLock:
    """The lock of a run while it is held; it carries what the store cannot, for processes that watch."""

    def __init__(self, file: int) -> None:
        self._file = file
        self.note(None)

    def note(self, wait: StoreWait | None) -> None:
        """Say that the run waits until it can store something; it overwrites what is there and so needs no room."""
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
    """What the owner of a lock cannot store, as it has noted it there."""
    try:
        note = path.read_text(encoding="utf-8").partition("\n")[2].strip()
        return StoreWait(**json.loads(note)) if note else None
    except (OSError, ValueError):  # it is gone, or being written
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
    """The runs that are being executed in the folder of a store, whatever can be read of it."""
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
"""Where the note begins in the lock file of a store; before it stands who holds the lock."""


_NOTE_SIZE = 200


@dataclass(frozen=True, slots=True)
class Base:
    """What the database file says about itself."""

    store: int | None
    """The random number of the store; None before schema 18."""
    writer: int | None
    """The random number of the process that was the last to begin writing."""
    seq: int
    """The highest sequence number of an answer."""

    def is_before(self, other: Base) -> bool:
        """Whether this is another store, or an earlier state of the same one."""
        return self.store != other.store or self.seq < other.seq


@dataclass(frozen=True, slots=True)
class Note:
    """What the last process noted about the file when it had moved the log into it, or was about to."""

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
        """What was noted about the database file when the log was last moved into it."""
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
