"""Code as you agreed to it, kept in your state folder, and its differences from the code now."""

from __future__ import annotations

import difflib
import hashlib
import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tui_evals.files import make_private_folder, open_private
from tui_evals.project_files import read_bytes

from .sources import UNREADABLE, Manifest

_LARGEST = 2**18
_MOST = 2**26
_FOLDER = "agreed"
_UNCHANGED_AROUND = 3
_MOST_LINES = 400


@dataclass(frozen=True, slots=True)
class CodeReview:
    """The code that a yes is asked for, as a person reads it."""

    files: tuple[str, ...]
    """The names of what would run."""
    uncovered: tuple[str, ...]
    is_sealed: bool
    is_new: bool
    """Whether nothing was agreed to before that would be done now with other code."""
    diff: tuple[str, ...] = ()
    """The lines of a unified diff since the last yes."""


def keep_texts(manifest: Manifest, folder: Path) -> None:
    """Keep what the files of a manifest hold, the oldest of what is kept making room."""
    place = folder / _FOLDER
    for text in manifest.texts.values():
        file = place / hashlib.sha256(text).hexdigest()
        if len(text) <= _LARGEST and not file.exists():
            make_private_folder(place, folder)
            with os.fdopen(open_private(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, folder), "wb") as stream:
                stream.write(text)
    _make_room(place)


def _make_room(place: Path) -> None:
    if not place.is_dir():
        return
    kept = [(file.stat().st_mtime, file.stat().st_size, file) for file in place.iterdir()]
    total = sum(size for _, size, _ in kept)
    for _, size, file in sorted(kept):
        if total <= _MOST:
            return
        file.unlink(missing_ok=True)
        total -= size


def review_of(manifest: Manifest, before: Mapping[str, str] | None, folder: Path) -> CodeReview:
    """What there is to read before a yes, `before` being the files of the last one, None where there was none."""
    now = dict(manifest.files)
    lines = [] if before is None else list(_diff(manifest, before, now, folder / _FOLDER))
    if len(lines) > _MOST_LINES:
        lines[_MOST_LINES:] = [f"… and {len(lines) - _MOST_LINES} more lines; read the files themselves"]
    return CodeReview(tuple(now), manifest.uncovered, manifest.is_sealed, before is None, tuple(lines))


def _diff(manifest: Manifest, before: Mapping[str, str], now: Mapping[str, str], place: Path) -> Iterator[str]:
    for name in sorted(before.keys() | now.keys()):
        if before.get(name) == now.get(name):
            continue
        old = [] if name not in before else _kept_lines(place, before[name])
        new = [] if name not in now else _lines(manifest.texts.get(name)) if now[name] != UNREADABLE else None
        names = name if name in before else "nothing", name if name in now else "nothing"
        if old is None or new is None:
            yield from (f"--- {names[0]}", f"+++ {names[1]}", "  what it holds cannot be shown; read the file itself")
            continue
        yield from (
            line.removesuffix("\n") for line in difflib.unified_diff(old, new, *names, n=_UNCHANGED_AROUND, lineterm="")
        )


def _kept_lines(place: Path, digest: str) -> list[str] | None:
    with suppress(OSError):
        return _lines(read_bytes(place / digest, follow_out=True))
    return None


def _lines(content: bytes | None) -> list[str] | None:
    """The lines of a text; None for what is no text."""
    if content is None or b"\0" in content or len(content) > _LARGEST:
        return None
    return content.decode("utf-8", "replace").splitlines()
