"""Datasets: save, undo, open."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

from tui_evals.datasets.document import load
from tui_evals.datasets.editing import Editing
from tui_evals.datasets.problems import DatasetError
from tui_evals.datasets.save import CannotSave, ChangedOnDisk
from tui_evals.tui.messages import Changed, Show
from tui_evals.tui.screens.menu import Entry, Menu

from .naming import save_under, shown, told_saved

if TYPE_CHECKING:
    from tui_evals.tui.app import Workbench

_NONE_OPEN = "no dataset is open: o opens one, ctrl+n begins one"


def why_none_open(app: Workbench) -> str | None:
    """Nothing is open."""
    return _NONE_OPEN if app.workspace.editing is None else None


def why_no_save(app: Workbench) -> str | None:
    """Nothing open, or nothing to save."""
    editing = app.workspace.editing
    if editing is None:
        return _NONE_OPEN
    return None if editing.dirty else "nothing to save: the file is as it is here"


async def save(app: Workbench) -> None:
    """Save; when the file is another one than was read, ask which of the two is wanted."""
    editing = app.workspace.editing
    assert editing is not None
    try:
        done = await asyncio.to_thread(editing.save)
    except ChangedOnDisk:
        await _somebody_else_wrote(app, editing)
    except (CannotSave, DatasetError) as problem:
        app.tell(f"{problem}; W saves it under another name", "error")
    else:
        more = f"; the older shape is kept as {done.backup.name}" if done.backup else ""
        await told_saved(app, editing, more)


async def _somebody_else_wrote(app: Workbench, editing: Editing) -> None:
    file = editing.document.file
    choice = await app.push_screen_wait(
        Menu(
            f"{file.name} was changed on disk since it was read",
            [
                Entry("as", "save under another name", "both stay"),
                Entry("read", "read it again", "your edits are taken off; u brings them back"),
                Entry("over", "overwrite it", "what the file holds now is lost"),
            ],
        )
    )
    try:
        if choice == "as":
            await save_under(app, editing)
        elif choice == "read":
            await asyncio.to_thread(editing.reload)
            app.workspace.settle()
            app.post_message(Changed())
            app.tell("read again; u brings your edits back")
        elif choice == "over":
            await asyncio.to_thread(editing.overwrite)
            await told_saved(app, editing)
    except (CannotSave, ChangedOnDisk, DatasetError) as problem:
        app.tell(str(problem), "error")


def why_no_undo(app: Workbench) -> str | None:
    """Nothing to take back."""
    editing = app.workspace.editing
    return None if editing is not None and editing.can_undo else "there is nothing to take back"


def why_no_redo(app: Workbench) -> str | None:
    """Nothing was taken back."""
    editing = app.workspace.editing
    return None if editing is not None and editing.can_redo else "nothing was taken back"


def undo(app: Workbench) -> None:
    """Take back the last edit."""
    assert app.workspace.editing is not None
    _settled(app, "taken back", app.workspace.step(-1))


def redo(app: Workbench) -> None:
    """Do the last one again."""
    assert app.workspace.editing is not None
    _settled(app, "done again", app.workspace.step(1))


def _settled(app: Workbench, what: str, step: str | None) -> None:
    app.post_message(Changed())
    app.tell(f"{what}: {step}")


async def open_other(app: Workbench) -> None:
    """Choose another dataset of the project."""
    app.workspace.look()
    files = dict.fromkeys((*app.workspace.open, *(file.resolve() for file in app.workspace.files)))
    entries = [Entry(file, shown(app, file), _about(app, file)) for file in files]
    file = await app.push_screen_wait(
        Menu("open a dataset", entries, empty="no dataset in this folder; esc, then ctrl+n begins one")
    )
    if file is not None:
        try:
            if file not in app.workspace.open:
                app.workspace.open[file] = Editing(await asyncio.to_thread(load, file))
            app.workspace.enter(app.workspace.open[file])
        except DatasetError as problem:
            app.tell(str(problem), "error")
            return
        app.post_message(Changed())
        app.post_message(Show("tree"))


def _about(app: Workbench, file: Path) -> str:
    editing = app.workspace.open.get(file)
    if editing is None:
        return ""
    words = ("on screen" if editing is app.workspace.editing else "", "unsaved edits" if editing.dirty else "")
    return ", ".join(filter(None, words))
