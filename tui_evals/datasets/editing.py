"""One dataset being edited: its current data, undo and redo, and the unsaved edits."""

from __future__ import annotations

import json
import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path as File
from typing import TYPE_CHECKING, Any

from tui_evals.datasets.merging import Merge, Patch, merge, patch_between, splice
from tui_evals.datasets.paths import CURRENT_VERSION, CannotEdit, Data, pretty_json, same_data
from tui_evals.files import CannotSave, make_folder
from tui_evals.light_records import dataclass
from tui_evals.text import strictjson

from .document import Document, dialect_of_name, digest_of, load
from .save import ChangedOnDisk, Saved, overwrite, save
from .steps import new_item

if TYPE_CHECKING:
    from .validate import Checker

_MAX_UNDO = 1000
_NAMED = 3


@dataclass(frozen=True, slots=True)
class _Step:
    """One undoable step, what it changed, and the caller's cursor before and after it."""

    description: str
    patch: Patch
    before: object = None
    after: object = None


@dataclass(frozen=True, slots=True)
class Incoming:
    """Changes on disk of an open dataset, and their merge with the changes here."""

    document: Document
    merge: Merge | None
    """None if nothing is unsaved here."""
    base: Document
    version: int


class Editing:
    """One dataset being edited; `document` is the file as it was last read or written."""

    def __init__(self, document: Document) -> None:
        self.document = document
        self.data: Data = document.data
        self.version = 0
        self._undo: list[_Step] = []
        self._redo: list[_Step] = []
        self.cursor: object = None
        """The caller's cursor that belongs to the data which undo or redo has just restored."""
        self._merge: str | None = None
        self.edits: list[tuple[float, str]] = []
        """Edits since the last save with their times; saving adds them to the history of the file."""
        self._saved_ids: tuple[Document, frozenset[int]] = (document, _item_ids(document.data))
        self._changed: tuple[Document, int, frozenset[int]] | None = None
        self._dirty: tuple[Document, int, bool] | None = None
        self._drafted: Sequence[Any] = ()
        """The items of the last draft, and below the text of each."""
        self._drafts: list[str] = []
        self._drafting = threading.Lock()
        """Held by the one thread that makes a draft."""
        self._gone = False
        """The file was there and is not now."""
        self._disk = threading.Lock()
        """Held while the file is read or written, so that our own write is not taken for a foreign change."""

    @classmethod
    def new_file(cls, file: File) -> Editing:
        """A new dataset without a file; saving creates the file unless another program created it meanwhile."""
        if dialect_of_name(file) != "document" or file.name.lower().endswith(".gz"):
            raise CannotSave(f"{file} is no name for a new dataset; give it one that ends in .json")
        data = {"schemaVersion": CURRENT_VERSION, "items": [new_item()]}
        return cls(Document(file, pretty_json(data), "", "document", data))

    @cached_property
    def checker(self) -> Checker:
        """Validates the current data, and only the items that changed."""
        # Imported when needed, because a dataset is shown before it is checked.
        from .validate import Checker

        return Checker()

    @property
    def in_file(self) -> bool:
        """Whether the dataset is in a file that is not known to be deleted."""
        return bool(self.document.digest) and not self._gone

    def note_absence(self) -> bool:
        """Take note that the file was deleted, after which saving writes it again; False where it was not, or known."""
        if not self.in_file or os.path.lexists(self.document.file):
            return False
        self._gone = True
        return True

    @property
    def state(self) -> tuple[int, int, str]:
        """The state that a check is about: these edits, and the file whose lines it names."""
        return id(self), self.version, self.document.digest

    @property
    def dirty(self) -> bool:
        """Whether there are changes that the file does not hold."""
        if not self.in_file:
            return True
        known = self._dirty
        if known is None or known[0] is not self.document or known[1] != self.version:
            differs = not same_data(self.data, self.document.data)
            known = self._dirty = (self.document, self.version, differs)
        return known[2]

    @property
    def can_undo(self) -> bool:
        """Whether there is a step to undo."""
        return bool(self._undo)

    @property
    def can_redo(self) -> bool:
        """Whether there is a step to redo."""
        return bool(self._redo)

    def changed_items(self) -> frozenset[int]:
        """The positions of items that differ from the file; an item that only moved does not count."""
        if not self.in_file:
            return frozenset(range(len(_items(self.data))))
        if self._changed is None or self._changed[0] is not self.document or self._changed[1] != self.version:
            self._changed = (self.document, self.version, self._changed_now())
        return self._changed[2]

    def _changed_now(self) -> frozenset[int]:
        current, saved = _items(self.data), _items(self.document.data)
        if self._saved_ids[0] is not self.document:
            self._saved_ids = (self.document, _item_ids(self.document.data))
        saved_ids, shift = self._saved_ids[1], len(saved) - len(current)
        differing = splice(saved, current)
        unknown = [index for index, item in enumerate(differing.added, differing.start) if id(item) not in saved_ids]
        return frozenset(
            index
            for index in unknown
            if not any(
                same_data(current[index], saved[saved_index])
                for saved_index in {index, index + shift}
                if 0 <= saved_index < len(saved)
            )
        )

    def apply(self, data: Data, description: str, merge: str | None = None, cursor: object = None) -> None:
        """Take one step; consecutive steps with the same `merge` are undone together."""
        if data is self.data:
            return
        merged = merge is not None and merge == self._merge and bool(self._undo)
        before = self._undo[-1].patch.back(self.data) if merged else self.data
        if same_data(data, before):
            self._merge = None
            if merged:
                self._undo.pop()
                del self.edits[-1:]
                self._set_data(before)
            return
        patch = patch_between(before, data)
        if merged:
            self._undo[-1] = replace(self._undo[-1], patch=patch)
            del self.edits[-1:]
        else:
            self._undo.append(_Step(description, patch, cursor, cursor))
            del self._undo[:-_MAX_UNDO]
        self._redo.clear()
        self._merge = merge
        self._note(description, patch)
        self._set_data(data)

    def set_cursor(self, cursor: object) -> None:
        """Set the cursor after the last step, which redo restores."""
        if self._undo:
            self._undo[-1] = replace(self._undo[-1], after=cursor)

    def undo(self) -> str | None:
        """Undo the last step and return its description; None when there is none."""
        step = self._move(self._undo, self._redo)
        self.cursor = step.before if step else None
        if step is not None:
            self._note(f"undo {step.description}", step.patch)
            self._set_data(step.patch.back(self.data))
        return step.description if step else None

    def redo(self) -> str | None:
        """Redo the step undone last and return its description; None when there is none."""
        step = self._move(self._redo, self._undo)
        self.cursor = step.after if step else None
        if step is not None:
            self._note(f"redo {step.description}", step.patch)
            self._set_data(step.patch.forward(self.data))
        return step.description if step else None

    def _move(self, source: list[_Step], target: list[_Step]) -> _Step | None:
        self._merge = None
        if source:
            target.append(source.pop())
            return target[-1]
        return None

    def forget_edits(self, count: int) -> None:
        """Forget the oldest edits, which the history of the file has; all of them if nothing is unsaved."""
        del self.edits[: count if self.dirty else None]

    def _note(self, description: str, patch: Patch) -> None:
        """Note an edit with the items it changed, unless it names them or they are many."""
        found = patch.items
        items = () if found is None else found.added or found.removed
        names = [_name(item, number) for number, item in enumerate(items, found.start + 1)] if found and items else []
        about = f" · {', '.join(names)}" if 0 < len(names) <= _NAMED and names[0] not in description else ""
        self.edits.append((time.time(), f"{description}{about}"))
        del self.edits[:-_MAX_UNDO]

    def _set_data(self, data: Data) -> None:
        self.data = data
        self.version += 1

    def save(self, *, even_read_only: bool = False) -> Saved:
        """Write the data to its file; ChangedOnDisk when the file has changed since it was read."""
        if not self.in_file and os.path.lexists(self.document.file):
            raise ChangedOnDisk(
                f"{self.document.file} has been made by someone else; "
                "save under another name, read that file, or overwrite it"
            )
        return self._write(self.document, save if self.in_file else overwrite, even_read_only)

    def overwrite(self, *, even_read_only: bool = False) -> Saved:
        """Write the data over any current content of the file."""
        return self._write(self.document, overwrite, even_read_only)

    def save_as(self, file: File) -> Saved:
        """Write the data to a new file and continue editing that one."""
        if os.path.lexists(file):
            raise CannotSave(f"{file} is already there; choose another name")
        dialect = dialect_of_name(file)
        current = self.document
        if dialect == current.dialect:
            return self._write(replace(current, file=file), overwrite, False)
        return self._write(Document(file, pretty_json(self.data), "", dialect, {}), overwrite, False)

    def _write(self, document: Document, write: Callable[..., Saved], even_read_only: bool) -> Saved:
        with self._disk:
            return self._write_alone(document, write, even_read_only)

    def _write_alone(self, document: Document, write: Callable[..., Saved], even_read_only: bool) -> Saved:
        data = self.data
        try:
            if write is overwrite:
                make_folder(document.file.parent)
            saved = write(document, data, even_read_only=even_read_only)
        except OSError as error:
            raise CannotSave(f"{document.file} could not be written: {error.strerror}") from None
        except UnicodeEncodeError as error:
            code = ord(error.object[error.start])
            raise CannotSave(
                f"{document.file} was not written: a text holds U+{code:04X}, half of a character, which no file can; "
                "delete it there"
            ) from None
        reloaded = _reuse_items(data, saved.document.data)
        self.document, self._gone = saved.document.with_data(reloaded), False
        self._merge = None
        if self.data is data:
            self.apply(reloaded, "leaving out what the file cannot hold")
        return Saved(self.document, saved.backup)

    def reload(self) -> None:
        """Read the file again as one step, so that undo restores the dropped edits."""
        with self._disk:
            document = _sharing(self.data, load(self.document.file))
        self.take_up(Incoming(document, None, self.document, self.version), document.data)

    def incoming(self) -> Incoming | None:
        """Changes that another program wrote into the file; None where it is unchanged or missing."""
        with self._disk:
            base, data, version = self.document, self.data, self.version
            digest = digest_of(base.file) if base.digest else None
            if digest is None:
                return None
            self._gone = False
            dirty = self.dirty
            if digest == base.digest:
                return None
            document = _sharing(data, load(base.file))
        return Incoming(document, merge(base.data, data, document.data) if dirty else None, base, version)

    def take_up(self, incoming: Incoming, merged: Data, cursor: object = None) -> bool:
        """Continue from the current file, then from the merge of edits and file: one undoable step each.

        Returns False and does nothing if an edit or a save happened since the file was read.
        """
        if self.document is not incoming.base or self.version != incoming.version:
            return False
        self.document = incoming.document
        self.apply(incoming.document.data, "reading the file again", cursor=cursor)
        self.apply(merged, "putting your edits and the file together", cursor=cursor)
        return True

    def draft(self) -> str:
        """The unsaved data as text, for a recovery file."""
        with self._drafting:
            fields = (f"{json.dumps(name)}: {self._json(name, value)}" for name, value in self.data.items())
            return f"{{{', '.join(fields)}}}"

    def forget_draft(self) -> None:
        """Free the memory of drafts, since nothing is unsaved now."""
        with self._drafting:
            self._drafted, self._drafts = (), []

    def _json(self, name: str, value: Any) -> str:
        """A field as JSON; only items that changed since the last draft are encoded, to keep keys responsive."""
        if name != "items" or not isinstance(value, list):
            return json.dumps(value)
        found = splice(self._drafted, value)
        self._drafts[found.start : found.start + len(found.removed)] = map(json.dumps, found.added)
        self._drafted = value
        return f"[{', '.join(self._drafts)}]"

    def restore(self, text: str) -> int:
        """Load a draft as one undoable step, and merge it with unsaved edits in another; returns how many conflict."""
        data, mine = _reuse_items(self.data, _read_draft(text)), self.data
        both = merge(self.document.data, mine, data) if self.in_file and self.dirty else None
        self.apply(data, "recovered edits")
        if both is None:
            return 0
        self.apply(both.settled(), "putting your edits and the recovered ones together")
        return len(both.conflicts)


def _read_draft(text: str) -> Data:
    try:
        data = strictjson.loads(text)
    except strictjson.JsonError as problem:
        raise CannotEdit(f"the recovered edits cannot be read and were left alone: {problem}") from None
    if not isinstance(data, dict) or not isinstance(data.get("items"), list):
        raise CannotEdit("the recovered edits are no dataset and were left alone")
    return data


def changed_names(data: Data, text: str) -> list[str]:
    """The items of a draft that differ from the data, and those it lacks, by test id or number."""
    before, after = _items(data), _items(_read_draft(text))
    left = Counter(json.dumps(item, sort_keys=True) for item in before)
    names = []
    for number, item in enumerate(after, 1):
        spelled = json.dumps(item, sort_keys=True)
        if left[spelled]:
            left[spelled] -= 1
        else:
            names.append(_name(item, number))
    lacking = sum(left.values()) - len(names)  # changed ones are in neither
    return [*names, *["a deleted item"] * lacking]


def _name(item: Any, number: int) -> str:
    known = item.get("testId") if isinstance(item, dict) else None
    return known if isinstance(known, str) and known else f"item {number}"


def _sharing(data: Data, document: Document) -> Document:
    """The document with the item objects that are known already."""
    return document.with_data(_reuse_items(data, document.data))


def _reuse_items(old: Data, new: Data) -> Data:
    """The new data with the old objects for equal items; the old data itself if nothing differs."""
    if same_data(old, new):
        return old
    known = {json.dumps(item, sort_keys=True): item for item in _items(old)}
    if not isinstance(new.get("items"), list):
        return new
    return {**new, "items": [known.get(json.dumps(item, sort_keys=True), item) for item in new["items"]]}


def _items(data: Data) -> list[Any]:
    items = data.get("items")
    return items if isinstance(items, list) else []


def _item_ids(data: Data) -> frozenset[int]:
    return frozenset(map(id, _items(data)))
