"""Files sent with a prompt: pictures, sounds, PDFs and texts next to the dataset, checked and pinned by hash.

A dataset refers to them by path. A run stores the type, size and hash of each, so that a file that is edited later is
reported instead of being sent as if it were the original.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from pathlib import Path as FilePath
from typing import Any

from tui_evals.datasets.paths import DatasetError, Path, Problem, set_at
from tui_evals.project_files import TooLarge, read_bytes

from .document import Document

MAX_BYTES = 20_000_000
PART = "attachment"
"""The type of a message part that is a file."""
_STARTS: tuple[tuple[bytes, str], ...] = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"%PDF-", "application/pdf"),
    (b"ID3", "audio/mpeg"),
    (b"\xff\xfb", "audio/mpeg"),
    (b"\xff\xf3", "audio/mpeg"),
    (b"\xff\xf2", "audio/mpeg"),
)
_IN_RIFF = {b"WEBP": "image/webp", b"WAVE": "audio/wav"}
_NAMED = {
    "image/png": (".png",),
    "image/jpeg": (".jpg", ".jpeg"),
    "image/gif": (".gif",),
    "image/webp": (".webp",),
    "application/pdf": (".pdf",),
    "audio/mpeg": (".mp3",),
    "audio/wav": (".wav",),
}
_TYPED_NAMES = {ending: kind for kind, endings in _NAMED.items() for ending in endings}
_TEXTS = {".csv": "text/csv", ".json": "application/json", ".md": "text/markdown", ".html": "text/html"}

_NO_FILES_IN = frozenset(("node_modules", "__pycache__", "site-packages"))
_PREVIEW = 2000
"""Bytes of a text that are read before it is chosen."""


class CannotAttach(ValueError):
    """A file cannot go along; the sentence says why."""


def read_attachment(folder: FilePath, name: str) -> bytes:
    """The content of a file in the dataset's folder or below it; CannotAttach for anything else."""
    try:
        return read_bytes(_file(folder, name), root=folder, most=MAX_BYTES)
    except TooLarge:
        raise CannotAttach(f"{name!r} is larger than the {MAX_BYTES // 1_000_000} MB that a file may have") from None
    except OSError as problem:
        raise CannotAttach(f"{name!r} cannot be read: {problem.strerror}") from None


def _file(folder: FilePath, name: str) -> FilePath:
    """The path of a file that a dataset may name; raises CannotAttach."""
    if "://" in name or name.startswith("data:"):
        raise CannotAttach(f"{name[:80]!r} is an address. Nothing is downloaded: put the file next to the dataset")
    written = FilePath(name)
    if "\0" in name or written.is_absolute() or any(part.startswith(".") for part in written.parts):
        raise CannotAttach(f"{name!r} is no path to a file in the dataset's folder, without .. and hidden names")
    try:
        base = folder.resolve()
        file = (base / written).resolve()
        if not file.is_relative_to(base) or any(part.startswith(".") for part in file.relative_to(base).parts):
            raise CannotAttach(f"{name!r} leads out of the dataset's folder, or to a hidden file; put a copy there")
        if not file.is_file():
            raise CannotAttach(f"there is no file {name!r} in the dataset's folder")
    except (OSError, RuntimeError) as problem:  # such as links in a circle
        raise CannotAttach(f"{name!r} cannot be found: {problem}") from None
    return file


def attachable_files(folder: FilePath) -> Iterator[tuple[str, int]]:
    """The files in a folder and below that may go along, by their paths from it and with their sizes."""
    for place, folders, names in os.walk(folder):
        here = FilePath(place)
        folders[:] = sorted(name for name in folders if not name.startswith(".") and name not in _NO_FILES_IN)
        for name in sorted(names):
            if not name.startswith("."):
                with suppress(OSError):
                    yield (here / name).relative_to(folder).as_posix(), (here / name).stat().st_size


def has_media_name(name: str) -> bool:
    """Whether a file is called as a picture, a sound or a PDF."""
    return FilePath(name).suffix.lower() in _TYPED_NAMES


def describe_file(folder: FilePath, name: str) -> str:
    """The type of a file and the beginning of its text, or why it cannot be attached."""
    try:
        content = read_attachment(folder, name)
        kind = media_type(name, content)
    except CannotAttach as problem:
        return str(problem)
    return content[:_PREVIEW].decode("utf-8", "ignore") if is_text_type(kind) else kind


def media_type(name: str, content: bytes) -> str:
    """The media type of a file by its content; CannotAttach if its name contradicts it, or it cannot be sent."""
    ending = FilePath(name).suffix.lower()
    kind = next((kind for start, kind in _STARTS if content.startswith(start)), None)
    if content.startswith(b"RIFF"):
        kind = _IN_RIFF.get(content[8:12])
    named = _TYPED_NAMES.get(ending)
    if kind is None and named is None and _is_text(content):
        return _TEXTS.get(ending, "text/plain")
    if kind is None:
        is_none = f"is no {named}, whatever its name says" if named else "is no picture, sound, PDF or text in UTF-8"
        raise CannotAttach(f"{name!r} {is_none}; PNG, JPEG, GIF, WebP, WAV, MP3, PDF and texts can go along")
    if ending not in _NAMED[kind]:
        raise CannotAttach(f"{name!r} is {kind} by its content; name it {' or '.join(_NAMED[kind])}")
    return kind


def _is_text(content: bytes) -> bool:
    try:
        content.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return b"\0" not in content


def is_text_type(media_type: str) -> bool:
    """Whether a file of this type goes along as the text that it is."""
    return media_type.startswith("text/") or media_type == "application/json"


def digest(content: bytes) -> str:
    """The hash that identifies a file."""
    return hashlib.sha256(content).hexdigest()


def attachment_problems(document: Document) -> list[Problem]:
    """Files of a dataset that cannot be attached, each with its line."""
    found: list[Problem] = []
    for path, given in _attachments(document.data):
        try:
            _looked_at(document.file.absolute().parent, given)
        except CannotAttach as problem:
            found.append(Problem(str(problem), path, document.line(path)))
    return found


def pictures_of(unit: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The pictures among the files that an item, a turn or a chat names."""
    files = [{"path": given} if isinstance(given, str) else given for _, given in _in_unit(unit, ())]
    kinds = (_TYPED_NAMES.get(FilePath(file["path"]).suffix.lower(), "") for file in files)
    return [file for file, kind in zip(files, kinds, strict=True) if kind.startswith("image/")]


def with_pinned_files(document: Document) -> Document:
    """The document with type, size and hash of each of its files; DatasetError says which cannot go along."""
    if problems := attachment_problems(document):
        raise DatasetError(str(document.file), problems)
    data = document.data
    for path, given in list(_attachments(data)):
        data = set_at(data, path, _looked_at(document.file.absolute().parent, given))
    return document if data is document.data else replace(document, data=data)


def _looked_at(folder: FilePath, given: str | Mapping[str, Any]) -> dict[str, Any]:
    """The file with its type, size and hash; a file that did not change since the last look is not read again."""
    known: Mapping[str, Any] = {"path": given} if isinstance(given, str) else given
    try:
        stat = _file(folder, known["path"]).stat()
    except OSError as problem:
        raise CannotAttach(f"{known['path']!r} cannot be read: {problem.strerror}") from None
    about = _about(folder, known["path"], stat.st_mtime_ns, stat.st_ctime_ns, stat.st_size)
    if known.get("sha256", about["sha256"]) != about["sha256"]:
        raise CannotAttach(f"{known['path']!r} is another file than the one whose sha256 is given")
    return {**known, **about}


@lru_cache(maxsize=1024)
def _about(folder: FilePath, name: str, *_stamp: int) -> Mapping[str, Any]:
    content = read_attachment(folder, name)
    return {"media_type": media_type(name, content), "size": len(content), "sha256": digest(content)}


_MAY_HOLD_FILES = frozenset(("attachments", "messages", "turns"))


def _attachments(data: Mapping[str, Any]) -> Iterator[tuple[Path, str | Mapping[str, Any]]]:
    """Every file that a document names, with its place."""
    yield from _in_messages(data, ())
    for number, item in enumerate(_list(data.get("items"))):
        if not isinstance(item, dict) or _MAY_HOLD_FILES.isdisjoint(item):
            continue
        yield from _in_unit(item, ("items", number))
        for at, turn in enumerate(_list(item.get("turns"))):
            if isinstance(turn, dict):
                yield from _in_unit(turn, ("items", number, "turns", at))


def _in_unit(unit: Mapping[str, Any], place: Path) -> Iterator[tuple[Path, str | Mapping[str, Any]]]:
    for at, given in enumerate(_list(unit.get("attachments"))):
        if isinstance(given, str) or (isinstance(given, dict) and isinstance(given.get("path"), str)):
            yield (*place, "attachments", at), given
    yield from _in_messages(unit, place)


def _list(value: object) -> Sequence[Any]:
    return value if isinstance(value, list) else ()


def _in_messages(unit: Mapping[str, Any], place: Path) -> Iterator[tuple[Path, Mapping[str, Any]]]:
    for number, message in enumerate(_list(unit.get("messages"))):
        for at, part in enumerate(_list(message.get("content") if isinstance(message, dict) else None)):
            if isinstance(part, dict) and part.get("type") == PART and isinstance(part.get("path"), str):
                yield (*place, "messages", number, "content", at), part
