"""A run is alive while a process holds the lock file of its id, whatever process numbers and clocks say."""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator
from pathlib import Path

from tui_evals.private_files import UnsafeFile, make_private_folder, open_private

from .database import StoreError, explained

_PATIENCE = 1.0  # seconds; somebody who only looks holds the lock for a microsecond


def run_lock(store: Path, key: str) -> Path:
    """Where the lock file of a run is."""
    return store.parent / "locks" / f"{key}.lock"


@contextlib.contextmanager
def hold(path: Path) -> Iterator[None]:
    """Own a run for a block; refused while another process owns it."""
    try:
        make_private_folder(path.parent, path.parent.parent)
        file = open_private(path, os.O_CREAT | os.O_RDWR, path.parent.parent)
    except OSError as problem:
        raise explained(problem, path) from problem
    try:
        _acquire(file, path)
        os.ftruncate(file, 0)
        os.pwrite(file, str(os.getpid()).encode(), 0)
        yield
    finally:
        os.close(file)


def alive(path: Path) -> bool:
    """Whether a process owns the run of this lock file."""
    try:
        file = open_private(path, os.O_RDONLY, path.parent.parent)
    except FileNotFoundError:
        return False
    except UnsafeFile as problem:
        raise explained(problem, path) from problem
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(file)
    return False


def live_runs(path: Path) -> list[str]:
    """The runs that are being executed in the folder of a store, whatever can be read of it."""
    locks = sorted((path.parent / "locks").glob("*.lock"))
    return [lock.stem for lock in locks if alive(lock)]


def refuse_live_runs(path: Path) -> None:
    """StoreError where a run is being executed, with how to end it."""
    if live := live_runs(path):
        raise StoreError(
            f"run {', '.join(live)} is being executed, and would lose what it writes. "
            f"`tui-evals stop {live[0]}` first, then try again."
        )


def _acquire(file: int, path: Path) -> None:
    deadline = time.monotonic() + _PATIENCE
    while True:
        try:
            return fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                owner = os.pread(file, 20, 0).decode("utf-8", "replace") or "unknown"
                raise StoreError(
                    f"run {path.stem} is being executed by another process ({owner}). "
                    f"Watch it with `tui-evals watch {path.stem}`, or stop it first."
                ) from None
        time.sleep(0.005)
