"""Files that are their owner's alone: a folder somebody cloned must not lead what lies below `.evals/` elsewhere."""

from __future__ import annotations

import errno
import json
import os
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

FOLDER = ".evals"


class UnsafeFile(OSError):
    """Something below `.evals/` is a link, belongs to somebody else or is no file; `strerror` is the sentence."""

    def __init__(self, path: Path, why: str) -> None:
        super().__init__(errno.ELOOP, f"{path} {why}", str(path))

    def __str__(self) -> str:
        return str(self.strerror)


def is_private(path: Path) -> bool:
    """Whether a path lies below a folder `.evals`."""
    return FOLDER in path.absolute().parts[:-1]


def check_private(path: Path, base: Path | None = None, *, links_within: Path | None = None) -> Path:
    """The path, if nothing on the way from `.evals/`, or from below `base`, leads elsewhere; UnsafeFile says what does.

    The file itself may be a link to another file `links_within` a folder.
    """
    path = path.absolute()
    for place in _places(path, base):
        try:
            status = os.lstat(place)
        except FileNotFoundError:
            break
        if stat.S_ISLNK(status.st_mode):
            _check_link(place, links_within if place == path else None)
        elif not (stat.S_ISDIR(status.st_mode) or (place == path and stat.S_ISREG(status.st_mode))):
            raise UnsafeFile(place, "is no ordinary file; remove it")
        if status.st_uid not in (os.geteuid(), 0) and os.geteuid() != 0:
            raise UnsafeFile(
                place,
                f"belongs to another user (number {status.st_uid}), who could lead you anywhere with it; work in a "
                "project of your own, or become the owner of the folder",
            )
    return path


def _places(path: Path, base: Path | None) -> Iterator[Path]:
    """What is looked at: `.evals` and all below it on the way to the path, else all below the base, else the path."""
    every = [*reversed(path.parents), path]
    if FOLDER in path.parts:
        first = len(path.parts) - 1 - path.parts[::-1].index(FOLDER)
    else:
        first = len(base.absolute().parts) if base is not None else len(every) - 1
    yield from every[first:]


def _check_link(place: Path, links_within: Path | None) -> None:
    target = Path(os.path.realpath(place))
    if links_within is not None and target.is_relative_to(os.path.realpath(links_within)):
        return
    if place.name == FOLDER:
        advice = "make it a folder, and name a store elsewhere with --db or TUI_EVALS_DB"
    else:
        advice = "remove the link"
    raise UnsafeFile(place, f"is a link to {target}, and what tui-evals keeps is never led elsewhere; {advice}")


def open_private(path: Path, flags: int, base: Path | None = None) -> int:
    """A descriptor of a file that only its owner can read; no link on the way is followed."""
    check_private(path, base)
    try:
        return os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError as problem:
        if problem.errno == errno.ELOOP:  # it became a link just now
            raise UnsafeFile(path, "is a link, and what tui-evals keeps is never led elsewhere; remove it") from None
        raise


def private_opener(name: str, flags: int) -> int:
    """For `open(..., opener=private_opener)`."""
    return open_private(Path(name), flags, Path(name).absolute().parent.parent)


def make_private_folder(folder: Path, base: Path | None = None) -> Path:
    """Make a folder that only its owner can enter, with the folders above it, where there is none yet."""
    missing = []
    while not os.path.lexists(folder):
        missing.append(folder)
        folder = folder.parent
    if base is not None or FOLDER in folder.absolute().parts:
        check_private(folder, base)
    for place in reversed(missing):
        place.mkdir(mode=0o700, exist_ok=True)
    return missing[0] if missing else folder


def write_private_json(file: Path, value: object) -> None:
    """Replace a file of the user's own state in one step, in a folder that only they can enter."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.parent.chmod(0o700)
    handle, draft = tempfile.mkstemp(dir=file.parent, prefix=f".{file.stem}-")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as stream:
            json.dump(value, stream, indent=1, sort_keys=True)
        Path(draft).replace(file)
    except BaseException:
        Path(draft).unlink(missing_ok=True)
        raise
