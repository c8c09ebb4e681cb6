"""The only way to read a file of a project, which may be a clone from a stranger.

Only regular files are read, up to the size that the caller gives. A link may lead to another file of the project. It
may leave the project only if the caller allows it, for a file that the user named. Pipes and devices are not opened.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Sequence
from io import BufferedReader
from pathlib import Path

MOST = 2**24
"""The largest file that is read, in bytes, unless a reader names another size."""

_KINDS = (
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
    (stat.S_ISSOCK, "a socket"),
)


class RefusedFile(OSError):
    """A file that is not read. `strerror` says why, as the second half of "FILE cannot be read: …"."""

    def __init__(self, file: Path, why: str) -> None:
        super().__init__(errno.EINVAL, why, str(file))

    def __str__(self) -> str:
        return str(self.strerror)


class TooLarge(RefusedFile):
    """A file that is larger than its reader takes."""

    def __init__(self, file: Path, most: int) -> None:
        unit, name = (2**20, "MiB") if most % 2**20 == 0 else (10**6, "MB") if most >= 10**6 else (1, "bytes")
        super().__init__(file, f"it is larger than {most // unit:,} {name}")


def read_bytes(file: Path, *, root: Path | None = None, most: int = MOST, follow_out: bool = False) -> bytes:
    """The content of a file. RefusedFile, or another OSError, where there is none to read."""
    with open_file(file, root=root, most=most, follow_out=follow_out) as stream:
        content = stream.read(os.fstat(stream.fileno()).st_size + 1)
        while len(content) <= most and (more := stream.read(2**20)):  # a file that grows, or says no size as in /proc
            content += more
    if len(content) > most:
        raise TooLarge(file, most)
    return content


def read_text(
    file: Path,
    *,
    encoding: str = "utf-8",
    errors: str = "strict",
    root: Path | None = None,
    most: int = MOST,
    follow_out: bool = False,
) -> str:
    """The text of a file, each line ending in `\\n`. UnicodeDecodeError where it is not in this encoding."""
    text = read_bytes(file, root=root, most=most, follow_out=follow_out).decode(encoding, errors)
    return text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text


def read_head(file: Path, size: int, *, root: Path | None = None, follow_out: bool = False) -> bytes:
    """The first bytes of a file of any size."""
    with open_file(file, root=root, most=None, follow_out=follow_out) as stream:
        return stream.read(size)


def open_file(
    file: Path, *, root: Path | None = None, most: int | None = MOST, follow_out: bool = False
) -> BufferedReader:
    """An ordinary file, open for reading. Its size is checked here; callers that read in pieces limit it themselves."""
    real = Path(os.path.realpath(file)) if follow_out else real_path(file, root)
    _check_kind(file, os.stat(real).st_mode)  # before it is opened, because opening some devices does something
    descriptor = os.open(real, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        status = os.fstat(descriptor)
        _check_kind(file, status.st_mode)
        if most is not None and status.st_size > most:
            raise TooLarge(file, most)
        return os.fdopen(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def real_path(file: Path, root: Path | None = None) -> Path:
    """The path with links followed. RefusedFile if they lead out of the folder `root`, by default its project."""
    real = Path(os.path.realpath(file))
    for place in [root] if root is not None else _projects_around(Path(os.path.abspath(file))):
        home = Path(os.path.realpath(place))
        if not real.is_relative_to(home):
            raise RefusedFile(file, f"it leads to {real}, outside the project {home}")
    return real


def resolved(file: Path) -> Path:
    """The path with links followed as far as possible: `Path.resolve` raises for a link to itself."""
    return Path(os.path.realpath(file))


def _projects_around(file: Path) -> Sequence[Path]:
    """The projects that a path passes through; else the clone, else the current folder if it is inside.

    All of them, because a link in one may lead into another. The user named any file outside of them.
    """
    if projects := [folder for folder in file.parents if (folder / ".evals").is_dir()]:
        return projects
    here = Path.cwd()
    clone = next((folder for folder in file.parents if (folder / ".git").exists()), None)
    return [clone] if clone is not None else [here] if here in file.parents else []


def _check_kind(file: Path, mode: int) -> None:
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(file))
    if not stat.S_ISREG(mode):
        kind = next((name for holds, name in _KINDS if holds(mode)), "something else")
        raise RefusedFile(file, f"it is {kind}, not an ordinary file")
