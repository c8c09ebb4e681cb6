"""Replacing a file in one step, so that a kill at any moment leaves the old one or the new one whole."""

from __future__ import annotations

import contextlib
import os
import stat
import tempfile
from pathlib import Path

from tui_evals.private_files import UnsafeFile, check_private, is_private


class CannotSave(Exception):
    """The file could not be written; nothing was changed."""


def write_atomically(file: Path, content: bytes, *, private: bool = False) -> None:
    """Replace the file in one step: a kill at any moment leaves the old one or the new one whole.

    A new one that is `private`, or lies below `.evals/`, is its owner's alone. What is no file, as a pipe or
    `/dev/stdout`, is written to and never replaced.
    """
    try:
        # A link of the user's to a dataset is followed; one below `.evals/` is not, for anybody may have put it there.
        target = check_private(file) if is_private(file) else file.resolve()
        if _is_stream(file):
            return _write_stream(file, content)
    except UnsafeFile as error:
        raise CannotSave(str(error)) from None
    try:
        descriptor, temporary = tempfile.mkstemp(prefix=f".{target.name}.", suffix=".tmp", dir=target.parent)
    except OSError as error:
        raise CannotSave(f"{target.parent} cannot be written to: {error.strerror}") from None
    try:
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        os.chmod(temporary, _mode_of(target, private or is_private(file)))
        os.replace(temporary, target)
        _sync_folder(target.parent)
    except OSError as error:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        raise CannotSave(f"{file} could not be written: {error.strerror}; it is as it was") from None


def _is_stream(file: Path) -> bool:
    """Whether a path leads to a device, a pipe or a socket."""
    try:
        mode = file.stat().st_mode
    except OSError:
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


def _write_stream(file: Path, content: bytes) -> None:
    try:
        with open(file, "wb") as stream:
            stream.write(content)
    except OSError as error:
        raise CannotSave(f"{file} could not be written: {error.strerror}") from None


def _mode_of(file: Path, private: bool) -> int:
    try:
        return file.stat().st_mode & 0o777
    except FileNotFoundError:
        if private:
            return 0o600
        umask = os.umask(0)
        os.umask(umask)
        return 0o666 & ~umask


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
