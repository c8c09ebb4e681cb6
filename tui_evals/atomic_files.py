"""Replacing a file in one step, so that a kill at any moment leaves the old one or the new one whole."""

from __future__ import annotations

import contextlib
import os
import stat
import tempfile
from collections.abc import Iterable
from pathlib import Path

from tui_evals.private_files import UnsafeFile, check_private, is_private

_MOST_LINKS = 40


class CannotSave(Exception):
    """The file could not be written; nothing was changed."""


def write_atomically(file: Path, content: bytes | Iterable[bytes], *, private: bool = False) -> None:
    """Replace the file in one step: a kill at any moment leaves the old one or the new one whole.

    The content may come in pieces; whatever making them raises leaves the old file too. A new file that is `private`,
    or lies below `.evals/`, is its owner's alone. Only a file is replaced: a pipe, a device and what a program was
    given open, as `/dev/stdout`, are written into.
    """
    pieces = (content,) if isinstance(content, bytes) else content
    try:
        # A link of the user's to a dataset is followed; one below `.evals/` is not, for anybody may have put it there.
        target = check_private(file) if is_private(file) else file.resolve()
        if (stream := _open_stream(file)) is not None:
            return _write_stream(file, stream, pieces)
    except UnsafeFile as error:
        raise CannotSave(str(error)) from None
    try:
        descriptor, temporary = tempfile.mkstemp(prefix=f".{target.name}.", suffix=".tmp", dir=target.parent)
    except OSError as error:
        raise CannotSave(f"{target.parent} cannot be written to: {error.strerror}") from None
    try:
        with os.fdopen(descriptor, "wb") as draft:
            draft.writelines(pieces)
            draft.flush()
            os.fsync(draft.fileno())
        os.chmod(temporary, _mode_of(target, private or is_private(file)))
        os.replace(temporary, target)
        _sync_folder(target.parent)
    except BaseException as error:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        if isinstance(error, OSError):
            raise CannotSave(f"{file} could not be written: {error.strerror}; it is as it was") from None
        raise


def descriptor_of(file: Path) -> int | None:
    """The number of the open file that a path such as `/dev/stdout` or `/dev/fd/63` stands for; None for any other."""
    for _ in range(_MOST_LINKS):
        file = Path(os.path.realpath(file.parent), file.name)
        if str(file.parent) in (f"/proc/{os.getpid()}/fd", "/dev/fd") and file.name.isdecimal():
            return int(file.name)
        if not file.is_symlink():
            return None
        file = file.parent / os.readlink(file)
    return None


def is_stream(file: Path) -> bool:
    """Whether a path stands for something that is written into and never replaced: a pipe, a device, an open file."""
    return descriptor_of(file) is not None or (file.exists() and not (file.is_file() or file.is_dir()))


def _open_stream(file: Path) -> int | None:
    """A descriptor to write into, where a path leads to a device, a pipe, a socket or something open; else None."""
    try:
        if (number := descriptor_of(file)) is not None:
            return os.dup(number)  # opened by its name again, a file would be written from its beginning
        mode = file.stat().st_mode
        return None if stat.S_ISREG(mode) or stat.S_ISDIR(mode) else os.open(file, os.O_WRONLY | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise CannotSave(f"{file} could not be written: {error.strerror}") from None


def _write_stream(file: Path, descriptor: int, pieces: Iterable[bytes]) -> None:
    try:
        with os.fdopen(descriptor, "wb") as stream:
            stream.writelines(pieces)
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
