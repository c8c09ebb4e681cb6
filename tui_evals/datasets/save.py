"""Save a dataset atomically, in the style it had, and never over a change by another program."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

from tui_evals.datasets import rows
from tui_evals.datasets.paths import CURRENT_VERSION, DatasetError, Problem, pretty_json, rewrite_json
from tui_evals.files import CannotSave, write_atomically
from tui_evals.light_records import dataclass
from tui_evals.project_files import read_bytes

from .document import MAX_BYTES, Document, digest_of, load

_IMPLIED_FIELDS = frozenset(("schemaVersion", "items"))


class ChangedOnDisk(Exception):
    """The file is no longer the one that was read, so writing it would lose changes."""


class ReadOnlyFile(CannotSave):
    """The file is read-only and was not replaced."""


class Saved(NamedTuple):
    """The document after saving, and the backup of the older shape it replaced."""

    document: Document
    backup: Path | None = None


def save(document: Document, data: dict[str, Any], *, even_read_only: bool = False) -> Saved:
    """Write `data` to the document's file; an older shape becomes a versioned document, the original is kept."""
    text = _file_text(document, data)
    if text == document.text:
        return Saved(document)
    if digest_of(document.file) != document.digest:
        raise ChangedOnDisk(
            f"{document.file} was changed by someone else since it was read; "
            "save under another name, read it again, or overwrite it"
        )
    return _write(document, text, even_read_only)


def overwrite(document: Document, data: dict[str, Any], *, even_read_only: bool = False) -> Saved:
    """Write `data` over any current content of the file."""
    return _write(document, _file_text(document, data), even_read_only)


def is_read_only(file: Path) -> bool:
    """Whether a file exists whose permissions forbid writing."""
    try:
        return not file.stat().st_mode & 0o222 or not os.access(file, os.W_OK)
    except OSError:
        return False


def _write(document: Document, text: str, even_read_only: bool) -> Saved:
    if not even_read_only and is_read_only(document.file):
        raise ReadOnlyFile(f"{document.file} is read-only; make it writable, or save under another name")
    backup = back_up(document.file) if document.needs_upgrade and document.file.exists() else None
    write_atomically(document.file, text.encode("utf-8"), follow_out=True)
    return Saved(load(document.file), backup)


def _file_text(document: Document, data: dict[str, Any]) -> str:
    if document.file.suffix == ".gz":
        raise CannotSave(f"{document.file} is packed; save the dataset under another name")
    if document.dialect in ("csv", "jsonl") and data == document.data:
        return document.text
    if document.dialect in ("yaml", "parquet"):
        raise CannotSave(
            f"{document.file} is only read. Edit it in an editor, or write it as JSON: "
            f"`tui-evals convert {document.file} --to m365 -o {document.file.with_suffix('.json').name}`"
        )
    if document.dialect == "csv":
        return _without_loss(document, data, rows.write_csv(data["items"], raw=True))
    if document.dialect == "jsonl":
        return _without_loss(document, data, rows.write_jsonl(data["items"]))
    return rewrite_json(document.text, data) if document.dialect == "document" else pretty_json(data)


def _without_loss(document: Document, data: dict[str, Any], rendered: tuple[str, list[str]]) -> str:
    text, lost = rendered
    if dropped := sorted(data.keys() - document.data.keys() - _IMPLIED_FIELDS):
        lost = [f"it has no place for {', '.join(dropped)} of the dataset", *lost]
    if lost:
        raise CannotSave(f"{document.file} cannot hold this dataset: {lost[0]}; save it as a .json file")
    return text


def back_up(file: Path, now: Callable[[], datetime] = datetime.now) -> Path:
    """A byte-identical copy next to the file, named after the time; an earlier backup is never overwritten."""
    content = read_bytes(file, most=MAX_BYTES, follow_out=True)
    stamp = now().strftime("%Y%m%d%H%M%S")
    number = 0
    while True:
        backup = file.with_name(f"{file.name}.bak.{stamp}" + (f"-{number}" if number else ""))
        try:
            with open(backup, "xb") as stream:
                stream.write(content)
                stream.flush()
                os.fsync(stream.fileno())
            return backup
        except FileExistsError:
            number += 1


@dataclass(frozen=True, slots=True)
class Upgrade:
    """The result of an upgrade: the version before (None for an unversioned shape) and the backup, if one was made."""

    before: str | None
    backup: Path | None


def upgrade(document: Document) -> Upgrade:
    """Write the document with the current version; only an older shape is rewritten, and then backed up first."""
    # Imported when needed, because a dataset is shown before it is checked.
    from .validate import parse_dataset, with_lines

    if not document.is_json:
        message = "is not an eval document. `tui-evals convert --to m365` writes one next to it"
        raise DatasetError(str(document.file), [Problem(message)])
    before = None if document.needs_upgrade else document.data["schemaVersion"]
    _, problems = parse_dataset(document.data)
    if problems:
        raise DatasetError(str(document.file), with_lines(problems, document))
    saved = save(document, {**document.data, "schemaVersion": CURRENT_VERSION})
    return Upgrade(before, saved.backup)
