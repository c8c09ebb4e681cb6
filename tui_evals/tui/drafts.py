"""Unsaved edits are kept in the store as drafts: every few seconds and on leaving; the next start offers them."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from tui_evals.datasets.document import load
from tui_evals.datasets.editing import Editing
from tui_evals.datasets.paths import DatasetError
from tui_evals.files import CannotSave
from tui_evals.garbage import give_memory_back
from tui_evals.present.status import LIVE
from tui_evals.store.database import StoreError
from tui_evals.store.rows import Draft
from tui_evals.tui.widgets.dialogs import Confirm, Entry, Menu
from tui_evals.tui.workspace import StoreWriter, Workspace

from .desk import Command, Commands, Desk
from .layout import PLACES
from .messages import StateChanged

if TYPE_CHECKING:
    from tui_evals.store.writer import Writer

_PUT_ASIDE = "\t"
"""Stands in the name of a draft that is offered, before the time it was written at."""
_GLANCE = 0.5


class Drafts:
    """Writes the unsaved edits of all open datasets, each version once."""

    def __init__(self, workspace: Workspace, writer: StoreWriter) -> None:
        self._workspace = workspace
        self._writer = writer
        self._written: dict[Path, tuple[int, str]] = {}

    async def keep(self) -> None:
        """Write what has changed since the last time; a dataset without unsaved edits needs no draft."""
        for file, editing in list(self._workspace.open.items()):
            version = (editing.version, editing.document.digest if editing.in_file else "")
            if self._written.get(file, (0, editing.document.digest)) == version:
                continue
            if editing.dirty:
                text = await asyncio.to_thread(editing.draft)
                await self._writer.write(partial(_put, file=file, digest=version[1], text=text))
            else:
                editing.forget_draft()
                await self._writer.write(partial(_drop, file=file))
                await asyncio.to_thread(give_memory_back)
            self._written[file] = version


def _put(writer: Writer, *, file: Path, digest: str, text: str) -> None:
    writer.draft_put(str(file), digest, text)


def _drop(writer: Writer, *, file: Path) -> None:
    writer.draft_drop(str(file))


async def offer_drafts(desk: Desk) -> None:
    """Offer the edits that were not saved when the workbench ended last, without interrupting typing."""
    for draft in [await _put_aside(desk, one) for one in desk.watching.reader.drafts()]:
        if desk.writing:
            desk.tell(f"unsaved edits of {_file_of(draft).name} were kept; they are offered once this is done", "warn")
        while desk.writing:
            await asyncio.sleep(_GLANCE)
        await _offer(desk, draft)


async def _put_aside(desk: Desk, draft: Draft) -> Draft:
    """The draft under a name of its own, so that new edits of its file do not take its place."""
    if _PUT_ASIDE in draft.file:
        return draft
    aside = replace(draft, file=f"{draft.file}{_PUT_ASIDE}{draft.time}")

    def move(writer: Writer) -> None:
        writer.draft_put(aside.file, aside.digest, aside.data)
        writer.draft_drop(draft.file)

    await desk.writer.write(move)
    return aside


def _file_of(draft: Draft) -> Path:
    return Path(draft.file.partition(_PUT_ASIDE)[0])


async def _offer(desk: Desk, draft: Draft) -> None:
    file = _file_of(draft)
    try:
        editing = desk.workspace.open.get(file) or _editing_of(file)
    except (CannotSave, DatasetError) as problem:
        desk.tell(f"a draft of {file.name} is kept, but {problem}", "warn")
        return
    stale = editing.document.digest != draft.digest
    choice = await desk.push_screen_wait(
        Menu(
            f"unsaved edits of {file.name} were kept",
            [
                Entry(
                    "take", "take them up", "the file has changed since; u shows it" if stale else "u takes them off"
                ),
                Entry("later", "ask me again later", "they stay kept"),
                Entry("drop", "forget them", "they are lost"),
            ],
        )
    )
    if choice == "take":
        await asyncio.to_thread(editing.restore, draft.data)
        desk.workspace.enter(editing)
        desk.post_message(StateChanged())
        desk.tell("edits recovered; ctrl+s saves them")
        await desk.keep_drafts()
    if choice in ("take", "drop"):
        await desk.writer.write(lambda writer: writer.draft_drop(draft.file))


def _editing_of(file: Path) -> Editing:
    return Editing(load(file)) if file.exists() else Editing.new_file(file)


async def ask_and_leave(desk: Desk) -> None:
    """Close the workbench; what no draft keeps is asked about first."""
    if lost := desk.would_be_lost():
        question = "\n".join(f"{sentence[0].upper()}{sentence[1:]}." for sentence in lost)
        if not await desk.push_screen_wait(Confirm("Leaving would lose something", question, "leave all the same")):
            return
    await leave(desk)


async def leave(desk: Desk) -> None:
    """Close the workbench: drafts are kept first, runs go on."""
    unsaved = [file.name for file, editing in desk.workspace.open.items() if editing.dirty]
    try:
        await desk.keep_drafts()
        await desk.writer.close()
    except StoreError as problem:
        if unsaved:
            desk.tell(f"the edits of {', '.join(unsaved)} could not be kept, so this stays open: {problem}", "error")
            return
    remarks = [f"unsaved edits of {', '.join(unsaved)} are kept and will be offered next time"] if unsaved else []
    remarks += [said for place in PLACES if (said := desk.pane(place).keep_unread()) is not None]
    run = desk.watching.run
    if run is not None and run.status in LIVE:
        remarks.append(f"run {run.key} goes on; `tui-evals watch {run.key}` follows it")
    desk.exit("\n".join(remarks))


COMMANDS: Commands = {"quit": Command(ask_and_leave)}
