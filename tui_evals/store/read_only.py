"""Stores that nothing can be written beside: on media that are read-only, or in a folder of somebody else."""

from __future__ import annotations

import contextlib
import errno
import os
import sqlite3
import tempfile
from pathlib import Path

_BLOCK = 4096
_copies: dict[tuple[object, ...], tempfile.TemporaryDirectory[str]] = {}
"""The copies of this process, by what they are copies of; gone when it ends."""


def why_read_only(path: Path) -> str:
    """Why nothing can be written into a store that is there; empty where it can, or where there is none."""
    for place in (path, path.parent):
        if path.exists() and not os.access(place, os.W_OK, effective_ids=os.access in os.supports_effective_ids):
            if os.statvfs(place).f_flag & os.ST_RDONLY:
                return "the file system it lies on is mounted read-only"
            return f"you may not write in the folder {place}" if place != path else f"you may not write to {path}"
    return ""


def frozen_address(path: Path) -> str:
    """How SQLite is asked for a store that nobody writes, with nothing beside it: the file itself, or a copy.

    SQLite reads a log only beside a database that it may write, so a store with a log is copied with it.
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
        with contextlib.closing(sqlite3.connect(Path(folder.name, path.name), isolation_level=None)) as connection:
            connection.execute("PRAGMA writable_schema=ON")  # whether it is damaged is found by whoever reads it
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
