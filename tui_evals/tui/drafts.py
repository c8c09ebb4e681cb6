"""Keeps unsaved edits in the store, by session; the next start offers those of crashed sessions.

Saved edits are in the history of the file, which can be browsed, and undone in one step, even after a restart.

A session is one workbench. It holds a lock file while it runs, so the edits of a running one are never taken for those
of a crashed one, and several workbenches can edit one file.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import time
import uuid
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from tui_evals.datasets.document import load
from tui_evals.datasets.editing import Editing, changed_names
from tui_evals.datasets.history import CannotUndo, History, Step, history_of
from tui_evals.datasets.paths import CannotEdit, DatasetError
from tui_evals.files import CannotSave
from tui_evals.garbage import give_memory_back
from tui_evals.present.status import LIVE
from tui_evals.store.connection import alive, hold
from tui_evals.store.database import StoreError
from tui_evals.store.rows import Draft
from tui_evals.tui.widgets.dialogs import Confirm, Entry, Menu
from tui_evals.tui.workspace import NO_DATASET_OPEN, StoreWriter, Workspace

from .desk import Command, Commands, Desk
from .layout import PLACES
from .messages import StateChanged

if TYPE_CHECKING:
    from tui_evals.store.reader import Reader
    from tui_evals.store.writer import Writer

_OF_SESSION = "\t"
"""Separates file and session in a draft's name; up to version 0.2 it had no session, or a time."""
_GLANCE = 0.5
_LARGE, _LARGE_SECONDS = 1_000_000, 3.0
"""A draft of at least this many characters is written only this often."""
_NAMED = 5


class Drafts:
    """Writes the unsaved edits of all open datasets, each version once, and notices those of other sessions."""

    def __init__(self, workspace: Workspace, writer: StoreWriter) -> None:
        self._workspace = workspace
        self._writer = writer
        self._session = uuid.uuid4().hex
        self._keeping = asyncio.Lock()
        self._lock: contextlib.ExitStack | None = None
        self._written: dict[Path, tuple[int, str]] = {}
        self._large: dict[Path, float] = {}
        """When each large draft was written last."""
        self._seen: dict[str, float] = {}
        """The time of each draft of another living session that was told."""

    async def keep(self, *, now: bool = False) -> None:
        """Write what has changed since the last time; a dataset without unsaved edits needs no draft."""
        async with self._keeping:
            await self._keep(now)

    async def _keep(self, now: bool) -> None:
        for file in self._written.keys() - self._workspace.open.keys():  # saved under another name
            await self._forget(file)
            del self._written[file]
        for file, editing in list(self._workspace.open.items()):
            version = (editing.version, editing.document.digest if editing.in_file else "")
            if self._written.get(file, (0, editing.document.digest)) == version:
                continue
            if editing.dirty:
                if not now and time.monotonic() - self._large.get(file, -_LARGE_SECONDS) < _LARGE_SECONDS:
                    continue
                text = await asyncio.to_thread(editing.draft)
                self._live()
                await self._writer.write(partial(_put, name=self._name(file), digest=version[1], text=text))
                if len(text) > _LARGE:
                    self._large[file] = time.monotonic()
            else:
                editing.forget_draft()
                await self._forget(file)
                await asyncio.to_thread(give_memory_back)
            self._written[file] = version

    def _name(self, file: Path) -> str:
        return f"{file}{_OF_SESSION}{self._session}"

    async def _forget(self, file: Path) -> None:
        await self._writer.write(partial(_drop, name=self._name(file)))

    def _live(self) -> None:
        """Hold the lock file of this session, from its first draft on."""
        if self._lock is None and not self._writer.read_only:
            lock = contextlib.ExitStack()
            lock.enter_context(hold(session_lock(self._workspace.database, self._session)))
            self._lock = lock

    def end(self) -> None:
        """Release the lock file, so that the next start offers the draft."""
        if self._lock is not None:
            self._lock.close()
            session_lock(self._workspace.database, self._session).unlink(missing_ok=True)
            self._lock = None

    async def of_others(self, reader: Reader) -> list[str]:
        """A sentence for each open file that another living session has edited since the last time."""
        sentences = []
        for name in reader.draft_names():
            file, session = _parts(name)
            editing = self._workspace.open.get(file)
            if editing is None or session == self._session or not alive(session_lock(reader.path, session)):
                continue
            draft = reader.draft_changed(name, self._seen.get(name, 0.0))
            if draft is not None:
                self._seen[name] = draft.time
                names = await asyncio.to_thread(changed_names, editing.document.data, draft.data)
                sentences.append(f"{file.name}: edited in another window, {_items(len(names))}, not saved there yet")
        return sentences


def session_lock(store: Path, session: str) -> Path:
    """The path of a session's lock file."""
    return store.parent / "sessions" / f"{session}.lock"


def _put(writer: Writer, *, name: str, digest: str, text: str) -> None:
    writer.draft_put(name, digest, text)


def _drop(writer: Writer, *, name: str) -> None:
    writer.draft_drop(name)


def _parts(name: str) -> tuple[Path, str]:
    """The file and the session of a draft."""
    file, _, session = name.partition(_OF_SESSION)
    return Path(file), session


def _items(count: int) -> str:
    return f"{count} item{'s' * (count != 1)}"


def _left_behind(reader: Reader) -> list[str]:
    """The drafts whose session is no longer alive, by name."""
    return [name for name in reader.draft_names() if not alive(session_lock(reader.path, _parts(name)[1]))]


async def offer_drafts(desk: Desk) -> None:
    """Offer the edits of each session that ended without saving, one at a time, without interrupting typing.

    The open dataset comes last, because restored edits are shown.
    """
    reader = desk.watching.reader
    names = frozenset(_left_behind(reader))
    opened = desk.workspace.editing
    drafts = [one for one in reader.drafts() if one.file in names] if names else []
    drafts.sort(key=lambda draft: opened is not None and _parts(draft.file)[0] == opened.document.file)
    for draft in drafts:
        if desk.writing:
            name = _parts(draft.file)[0].name
            desk.tell(f"unsaved edits of {name} were kept; they are offered once this is done", "warn")
        while desk.writing:
            await asyncio.sleep(_GLANCE)
        if draft.file in _left_behind(reader):  # unless another window has taken them
            await _offer(desk, draft)


async def _offer(desk: Desk, draft: Draft) -> None:
    file, session = _parts(draft.file)
    try:
        editing = desk.workspace.open.get(file) or _editing_of(file)
        names = await asyncio.to_thread(changed_names, editing.document.data, draft.data)
    except (CannotEdit, CannotSave, DatasetError) as problem:
        desk.tell(f"a draft of {file.name} is kept, but {problem}", "warn")
        return
    choice = await desk.push_screen_wait(_question(draft, file, names, editing))
    if choice in ("take", "drop") and draft.file not in _left_behind(desk.watching.reader):
        desk.tell(f"another window has already decided about these edits of {file.name}", "warn")
        return
    if choice == "take":
        conflicts = await asyncio.to_thread(editing.restore, draft.data)
        desk.workspace.enter(editing)
        desk.post_message(StateChanged())
        also = f"; {conflicts} values differ from your own, which are kept: u shows the recovered ones"
        desk.tell(f"edits recovered; ctrl+s saves them{also if conflicts else ''}", "warn" if conflicts else "info")
        await desk.keep_drafts()
    if choice in ("take", "drop"):
        await desk.writer.write(lambda writer: writer.draft_drop(draft.file))
        session_lock(desk.workspace.database, session).unlink(missing_ok=True)


def _question(draft: Draft, file: Path, names: list[str], editing: Editing) -> Menu:
    """The menu for a session's unsaved edits: when they were made, and to which items."""
    when = time.strftime("%Y-%m-%d %H:%M", time.localtime(draft.time))
    about = "u undoes it"
    if editing.document.digest != draft.digest:
        about = "the file has changed since; u shows it"
    elif editing.dirty:
        about = "they are merged with your own; u undoes it"
    some = ", ".join(names[:_NAMED]) + (f" and {len(names) - _NAMED} more" if len(names) > _NAMED else "")
    more = f"{_items(len(names))} changed: {some}" if names else "no item changed; the settings of the dataset did"
    return Menu(
        f"unsaved edits were kept · {when} · {_items(len(names))} · {file.name}",
        [
            Entry("take", "restore them", about, more),
            Entry("later", "ask again later", "they are kept", more),
            Entry("drop", "discard them", "they are lost", more),
        ],
    )


def _editing_of(file: Path) -> Editing:
    is_there = os.path.exists(file)  # False too for a name that is too long for a file
    return Editing(load(file)) if is_there else Editing.new_file(file)


async def ask_and_leave(desk: Desk) -> None:
    """Close the workbench; asks first if there are edits that no draft keeps."""
    if lost := desk.would_be_lost():
        question = "\n".join(f"{sentence[0].upper()}{sentence[1:]}." for sentence in lost)
        if not await desk.push_screen_wait(Confirm("Leaving would lose something", question, "leave all the same")):
            return
    await leave(desk)


async def leave(desk: Desk) -> None:
    """Close the workbench: drafts are kept first, runs continue."""
    unsaved = [file.name for file, editing in desk.workspace.open.items() if editing.dirty]
    try:
        await desk.keep_drafts(now=True)
        await desk.writer.close()
    except StoreError as problem:
        if unsaved:
            desk.tell(f"the edits of {', '.join(unsaved)} could not be kept, so this stays open: {problem}", "error")
            return
    remarks = [f"unsaved edits of {', '.join(unsaved)} are kept and will be offered next time"] if unsaved else []
    remarks += [said for place in PLACES if (said := desk.pane(place).keep_unread()) is not None]
    run = desk.watching.run
    if run is not None and run.status in LIVE:
        remarks.append(f"run {run.key} continues; `tui-evals watch {run.key}` follows it")
    desk.exit("\n".join(remarks))


_COMPARED = 2_000_000
"""The largest file, in bytes, that is compared with the dataset on screen while the cursor is on its step."""


HISTORY_REFUSALS = (CannotSave, CannotUndo, DatasetError, OSError)
"""Why a history cannot be read."""


async def go_back(desk: Desk) -> str:
    """Show the edits, saves and commands, and go back to before a chosen one; returns what was done."""
    editing = desk.workspace.editing
    assert editing is not None
    name = editing.document.file.name
    history = await asyncio.to_thread(history_of, editing.document.file)
    entries = [*_unsaved_entries(editing), *_saved_entries(editing, history)]
    empty = f"nothing was saved yet; ctrl+s keeps {name} as it was, and lists it here"
    title = f"history of {name}"
    chosen = await desk.push_screen_wait(Menu(title, entries, does="goes back to before this save", empty=empty))
    if chosen is None:
        return ""
    step = history.steps[chosen[0]]
    data = await asyncio.to_thread(_data_before, history, step)
    if desk.workspace.editing is not editing:
        return ""
    desk.workspace.apply(data, f"go back to before {_clock(step.time)}")
    desk.post_message(StateChanged())
    return f"{name} is as it was before {_clock(step.time)}; ctrl+s saves it, u undoes this"


async def show_history(desk: Desk) -> None:
    """Go back in the history, and say so in the workbench."""
    try:
        said = await go_back(desk)
    except HISTORY_REFUSALS as problem:
        desk.tell(str(problem), "error")
        return
    if said:
        desk.tell(said)


def why_no_history(desk: Desk) -> str | None:
    """Why there is no history: no dataset is open."""
    return NO_DATASET_OPEN if desk.workspace.editing is None else None


def _unsaved_entries(editing: Editing) -> list[Entry]:
    edits = reversed(editing.edits) if editing.dirty else ()
    group = "not saved yet; u undoes the last edit"
    return [Entry(None, f"{_clock(when)}  {what}", group=group) for when, what in edits]


def _saved_entries(editing: Editing, history: History) -> list[Entry]:
    """The edits of each save, and each command, the latest first; each leads to before its save."""
    entries = []
    for place, step in reversed([*enumerate(history.steps[: history.done])]):
        who = f"saved in the workbench, process {step.process}" if step.edits else "a command"
        group = f"{place + 1} · {_clock(step.time)} · {who}"
        why = "" if step.before else "the file did not exist before this"
        more = partial(_differs, editing, history, step)
        for number, (when, what) in enumerate(reversed(step.edits or ((step.time, step.what),))):
            entries.append(Entry((place, number), f"{_clock(when)}  {what}", more=more, why_not=why, group=group))
    return entries


def _clock(when: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(when))


def _data_before(history: History, step: Step) -> dict[str, object]:
    """The dataset as its file was before a step; CannotUndo or DatasetError where that cannot be read."""
    assert step.before is not None
    return load(history.content(step.before)).data


def _differs(editing: Editing, history: History, step: Step) -> str:
    """Which items going back would change."""
    try:
        if step.before is None or history.kept(step.before).stat().st_size > _COMPARED:
            return ""
        names = changed_names(editing.data, json.dumps(_data_before(history, step)))
    except (CannotEdit, CannotSave, CannotUndo, DatasetError, OSError) as problem:
        return str(problem)
    some = ", ".join(names[:_NAMED]) + (f" and {len(names) - _NAMED} more" if len(names) > _NAMED else "")
    return f"going back changes {_items(len(names))}: {some}" if names else "going back changes no item"


COMMANDS: Commands = {"quit": Command(ask_and_leave), "history": Command(show_history, why_no_history)}
