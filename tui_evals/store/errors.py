"""What keeps a store from being used, as sentences and codes."""

from __future__ import annotations

import contextlib
import errno
import os
import sqlite3
from pathlib import Path
from typing import Literal

from tui_evals.files import UnsafeFile

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
    """Nothing can be stored for the time being, in a sentence and as a code with its cause, which is who or why."""

    def __init__(self, message: str, code: TroubleCode, cause: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.cause = cause


def file_identity(path: Path | str) -> tuple[int, int] | None:
    """Which file is at a path, whatever it is called by now; None where there is none."""
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


def damaged_error(path: Path, damage: str) -> StoreTrouble:
    """The sentence about a store of which not everything can be read."""
    return StoreTrouble(
        f"{path} is damaged ({damage}). It was left as it is; `tui-evals db repair` saves what can be read of it "
        "into a new store, or put a backup in its place.",
        "damaged",
        damage,
    )
