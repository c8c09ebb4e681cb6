"""Notices what other programs write into the datasets that are open, and puts it together with what is edited here."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from tui_evals.datasets.editing import Editing, Incoming
from tui_evals.datasets.merging import Conflict, Merge, paired
from tui_evals.datasets.paths import get_at
from tui_evals.datasets.problems import DatasetError, place_in_words

from .conflicts import ChooseSides
from .desk import Desk
from .messages import StateChanged

_Stamp = tuple[int, int, int] | None


class DiskChanges:
    """Looks at the files of the open datasets, and reads those that are no longer as they were."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._stamps: dict[Path, _Stamp] = {}
        """What each file looked like when it was read last."""
        self._told: tuple[Path, _Stamp] | None = None
        self._reading = False

    def look(self) -> None:
        """Look whether a file was written since; what is being written or asked here is never interrupted."""
        if self._reading:
            return
        space = self._desk.workspace
        for file, editing in space.open.items():
            stamp = _stamp(file)
            if stamp is None and editing.note_absence():
                self._stamps[file] = None
                self._desk.post_message(StateChanged())
                self._desk.tell(f"{file.name} was deleted; it is all here, and ctrl+s writes it again", "warn")
            if stamp is None or stamp == self._stamps.get(file, _NEVER):
                continue
            if self._desk.writing:
                self._say_later(file, stamp)
            elif editing is space.editing or not editing.dirty:
                self._stamps[file], self._reading = stamp, True
                self._desk.run_worker(self._read(editing), "a change on disk", "disk", exit_on_error=False)
                return

    def _say_later(self, file: Path, stamp: _Stamp) -> None:
        if file in self._stamps and self._told != (file, stamp):
            self._told = (file, stamp)
            self._desk.tell(f"{file.name} was changed on disk; it is read once this is done", "warn")

    async def _read(self, editing: Editing) -> None:
        try:
            await take_up_changes(self._desk, editing)
        except DatasetError as problem:
            name = editing.document.file.name
            self._desk.tell(f"{name} was changed on disk and cannot be read now: {problem}", "warn")
        finally:
            self._reading = False


_NEVER: _Stamp = (0, 0, 0)


def _stamp(file: Path) -> _Stamp:
    """What changes when a file is written; None where there is none."""
    try:
        status = os.stat(file)
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino


async def take_up_changes(desk: Desk, editing: Editing) -> bool:
    """Read what somebody else wrote into a file and put it together with the edits here; False where it is not yet."""
    while True:
        gone = not editing.in_file
        incoming = await asyncio.to_thread(editing.incoming)
        if incoming is None:
            if gone and editing.in_file:
                desk.post_message(StateChanged())
                desk.tell(f"{editing.document.file.name} is back as it was")
            return True
        merge = incoming.merge
        theirs: frozenset[int] | None = frozenset()
        if merge is not None and merge.conflicts:
            places = [_place_in_words(merge, conflict) for conflict in merge.conflicts]
            dialog = ChooseSides(editing.document.file.name, merge.conflicts, places)
            theirs = await desk.push_screen_wait(dialog)
        if theirs is None:
            desk.tell(f"{editing.document.file.name} is as you edited it; ctrl+s asks again", "warn")
            return False
        merged = incoming.document.data if merge is None else merge.settled(theirs)
        places_now = await asyncio.to_thread(paired, _items(editing.data), _items(merged))
        if desk.workspace.take_up(editing, incoming, merged, places_now):
            desk.post_message(StateChanged())
            desk.tell(_sentence(incoming))
            return True


def _items(data: dict[str, object]) -> list[object]:
    items = data.get("items")
    return items if isinstance(items, list) else []


def _place_in_words(merge: Merge, conflict: Conflict) -> str:
    """Where a conflict is, with the testId of its item."""
    item = get_at(merge.draft, conflict.path[:2])
    name = item.get("testId") if isinstance(item, dict) else None
    return f"{place_in_words(conflict.path)}{f' · {name}' if isinstance(name, str) and name else ''}"


def _sentence(incoming: Incoming) -> str:
    name = incoming.document.file.name
    if incoming.merge is None:
        return f"{name} was changed on disk and is read again; u shows it as it was"
    return f"{name} was changed on disk: your edits and the file are put together; ctrl+s saves, u shows either"
