"""Files written as a whole or not at all, files that only their owner can read, and how many may be open."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import resource
import stat
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from tui_evals.light_records import dataclass
from tui_evals.project_files import RefusedFile, real_path

FOLDER = ".evals"


class UnsafeFile(OSError):
    """Something below `.evals/` is a link, belongs to another user or is not a file; `strerror` is the sentence."""

    def __init__(self, path: Path, why: str) -> None:
        super().__init__(errno.ELOOP, f"{path} {why}", str(path))

    def __str__(self) -> str:
        return str(self.strerror)


def is_private(path: Path) -> bool:
    """Whether a path is inside a folder `.evals`."""
    return FOLDER in path.absolute().parts[:-1]


def check_private(path: Path, base: Path | None = None, *, links_within: Path | None = None) -> Path:
    """The path, if no link from `.evals/`, or from below `base`, leads elsewhere; UnsafeFile names the link.

    The file itself may be a link to another file in the folder `links_within`.
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
    """The places to check: `.evals` and all below it up to the path, else all below the base, else the path."""
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
    """A descriptor of a file that only its owner can read; no link in its path is followed."""
    check_private(path, base)
    try:
        return os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError as problem:
        if problem.errno == errno.ELOOP:  # it became a link just now
            raise UnsafeFile(path, "is a link, and what tui-evals keeps is never led elsewhere; remove it") from None
        raise


def private_opener(name: str, flags: int) -> int:
    """The opener for `open(..., opener=private_opener)`."""
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


_MOST_LINKS = 40


class CannotSave(Exception):
    """The file could not be written; nothing was changed."""


def write_atomically(
    file: Path, content: bytes | Iterable[bytes], *, private: bool = False, follow_out: bool = False
) -> None:
    """Replace the file in one step: a kill at any moment leaves the old one or the new one complete.

    The content may come in pieces; an exception while producing them leaves the old file too. A new file that is
    `private`, or inside `.evals/`, is readable by its owner only. Only regular files are replaced: pipes, devices and
    open files, such as `/dev/stdout`, are written into. A link is followed within its project. With `follow_out` it may
    lead anywhere, because its target was read and shown before.
    """
    pieces = (content,) if isinstance(content, bytes) else content
    try:
        target = check_private(file) if is_private(file) else _check_links(file, follow_out)
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


def make_folder(folder: Path) -> None:
    """Make a folder with those above it, where there is none; CannotSave says why it cannot be made."""
    _check_links(folder, follow_out=False)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise CannotSave(f"the folder {folder} cannot be made: {problem.strerror}") from None


def _check_links(file: Path, follow_out: bool) -> Path:
    """The target of a path; CannotSave if a link, perhaps of a clone, leads out of its project."""
    if follow_out or descriptor_of(file) is not None or os.path.realpath(file) == os.devnull:
        return Path(os.path.realpath(file))
    try:
        return real_path(file)
    except RefusedFile as problem:
        raise CannotSave(f"{file} was not written: {problem}. Remove the link, or name another file.") from None


def descriptor_of(file: Path) -> int | None:
    """The descriptor that a path such as `/dev/stdout` or `/dev/fd/63` names; None for any other."""
    for _ in range(_MOST_LINKS):
        file = Path(os.path.realpath(file.parent), file.name)
        if str(file.parent) in (f"/proc/{os.getpid()}/fd", "/dev/fd") and file.name.isdecimal():
            return int(file.name)
        if not file.is_symlink():
            return None
        file = file.parent / os.readlink(file)
    return None


def is_stream(file: Path) -> bool:
    """Whether a path is written into and never replaced: a pipe, a device, an open file."""
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


_MOST = 65_536
"""More is not asked for: some programs that a target starts close every possible file before they begin."""
_ON_MACOS = 10_240
"""The limit that macOS enforces, whatever it reports."""
_RESERVE = 20
"""Files that are open for a moment: names are looked up, modules imported, logs and locks looked at."""


def raise_limit() -> None:
    """Let this process open as many files as the system allows."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    for wanted in (_MOST, _ON_MACOS):
        wanted = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        if soft == resource.RLIM_INFINITY or soft >= wanted:
            return
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        except (OSError, ValueError):
            continue
        return


@dataclass(frozen=True, slots=True)
class Calls:
    """The calls that are to be made at once, and how many files each needs."""

    number: int
    files: int = 1


def fit_calls(wanted: Mapping[str, Calls]) -> tuple[dict[str, int], str]:
    """How many calls of each target may be in flight beneath the limit, and a sentence where that is fewer."""
    files = sum(calls.number * calls.files for calls in wanted.values())
    if files > _room():
        raise_limit()
    room = _room()
    if files <= room:
        return {name: calls.number for name, calls in wanted.items()}, ""
    fitted = {name: max(1, calls.number * room // files) for name, calls in wanted.items()}
    fewer = ", ".join(
        f"{name} {fitted[name]} instead of {calls.number}"
        for name, calls in wanted.items()
        if fitted[name] < calls.number
    )
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    why = f"because this process may have only {limit} open files. `ulimit -n 4096` before the command allows more."
    return fitted, f"Calls at once: {fewer}, {why}" if fewer else ""


def _room() -> int:
    """How many more files can be opened for calls."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return _MOST
    return max(soft - len(os.listdir("/dev/fd")) - _RESERVE, 1)
