"""Drafts of unsaved edits that survive a crash, and leaving the workbench."""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from tui_evals.datasets.document import load
from tui_evals.datasets.editing import Editing
from tui_evals.datasets.problems import DatasetError
from tui_evals.store.database import StoreError
from tui_evals.store.rows import Draft
from tui_evals.store.writer import Writer
from tui_evals.tui.messages import Changed
from tui_evals.tui.screens.menu import Entry, Menu

if TYPE_CHECKING:
    from tui_evals.tui.app import Workbench

_LATER = "\t"


async def keep_draft(app: Workbench) -> None:
    """Keep unsaved edits, and what is on screen, in the store."""
    for file, editing in list(app.workspace.open.items()):
        mark = (editing.version, editing.document.digest)
        if app.drafted.get(file, (0, editing.document.digest)) == mark:
            continue
        if editing.dirty:
            await app.pen.write(partial(_put, file=file, digest=editing.document.digest, text=editing.draft()))
        else:
            await app.pen.write(partial(_drop, file=file))
        app.drafted[file] = mark
    app.remembered.note(app.workspace, app.watching, app.front)
    await app.remembered.keep()


def _put(writer: Writer, *, file: Path, digest: str, text: str) -> None:
    writer.draft_put(str(file), digest, text)


def _drop(writer: Writer, *, file: Path) -> None:
    writer.draft_drop(str(file))


async def offer_drafts(app: Workbench) -> None:
    """Offer back what was not saved when the workbench ended last."""
    for draft in app.watching.reader.drafts():
        await _offer(app, draft)


async def _offer(app: Workbench, draft: Draft) -> None:
    file = Path(draft.file.partition(_LATER)[0])
    try:
        editing = app.workspace.open.get(file) or _editing_of(file)
    except DatasetError as problem:
        app.tell(f"a draft of {file.name} is kept, but {problem}", "warn")
        return
    stale = editing.document.digest != draft.digest
    choice = await app.push_screen_wait(
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
        app.workspace.enter(editing)
        app.post_message(Changed())
        app.tell("edits recovered; ctrl+s saves them")
    elif choice != "drop":
        # Under a name of its own, so that new edits of the file do not take its place.
        later = f"{file}{_LATER}{draft.time}"
        await app.pen.write(lambda writer: writer.draft_put(later, draft.digest, draft.data))
    if choice != "take" or _LATER in draft.file:
        await app.pen.write(lambda writer: writer.draft_drop(draft.file))


async def leave(app: Workbench) -> None:
    """Leave: drafts are kept first, runs go on."""
    unsaved = [file.name for file, editing in app.workspace.open.items() if editing.dirty]
    try:
        await keep_draft(app)
        await app.pen.close()
    except StoreError as problem:
        if unsaved:
            app.tell(f"the edits of {', '.join(unsaved)} could not be kept, so this stays open: {problem}", "error")
            return
    says = [f"unsaved edits of {', '.join(unsaved)} are kept and will be offered next time"] if unsaved else []
    run = app.watching.run
    if run is not None and run.status in ("running", "paused", "stopping"):
        says.append(f"run {run.key} goes on; `tui-evals watch {run.key}` follows it")
    app.exit("\n".join(says))


def _editing_of(file: Path) -> Editing:
    return Editing(load(file)) if file.exists() else Editing.fresh(file)
