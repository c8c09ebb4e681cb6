"""Bringing an older document to the current version of the format."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from .document import Document
from .model import CURRENT_VERSION
from .problems import DatasetError, Problem
from .save import save
from .validate import placed, typed


@dataclass(frozen=True, slots=True)
class Upgrade:
    """What an upgrade did: the version before (None for an unversioned shape) and the backup, where one was made."""

    before: str | None
    backup: Path | None


def upgrade(document: Document) -> Upgrade:
    """Write the document with the current version; only an older shape is rewritten, and then backed up first."""
    if document.dialect in ("csv", "jsonl"):
        message = "is no eval document; `tui-evals convert --to m365` writes one beside it"
        raise DatasetError(str(document.file), [Problem(message)])
    before = None if document.needs_upgrade else document.data["schemaVersion"]
    _, problems = typed(document.data)
    if problems:
        raise DatasetError(str(document.file), placed(problems, document))
    saved = save(document, {**document.data, "schemaVersion": CURRENT_VERSION})
    return Upgrade(before, saved.backup)
