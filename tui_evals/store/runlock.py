"""A run is alive while a process holds the lock file of its id, whatever process numbers and clocks say."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

from tui_evals.files import make_private_folder, open_private

from .errors import StoreError, explained
from .records import StoreWait

_ROOM = 4_000  # bytes; less than the smallest block of a disk
_PATIENCE = 1.0  # seconds; somebody who only looks holds the lock for a microsecond


def run_lock(store: Path, key: str) -> Path:
    """Where the lock file of a run is."""
    return store.parent / "locks" / f"{key}.lock"


def executed_runs(store: Path) -> tuple[str, ...]:
    """The runs that were executed into a store, by the lock files they leave, which outlive it.

    None where several stores share a folder, for then nobody knows whose they were.
    """
    if any(file.name != f"{store.name}.lock" for file in store.parent.glob("*.lock")):
        return ()
    return tuple(sorted(file.stem for file in (store.parent / "locks").glob("*.lock") if "-" not in file.stem))


class RunLock:
    """The lock of a run while it is held; it carries what the store cannot, for whoever watches from elsewhere."""

    def __init__(self, file: int) -> None:
        self._file = file
        self.note(None)

    def note(self, wait: StoreWait | None) -> None:
        """Say that the run waits until it can store something; written over what stands there, it needs no room."""
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
