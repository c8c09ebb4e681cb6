"""Datasets: save, undo, open, begin; drafts that survive a crash; and leaving."""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from tui_evals.datasets.discover import STARTER
from tui_evals.datasets.document import load
from tui_evals.datasets.editing import Editing
from tui_evals.datasets.problems import DatasetError
from tui_evals.datasets.save import CannotSave, ChangedOnDisk
from tui_evals.store.database import StoreError
from tui_evals.store.rows import Draft
from tui_evals.store.writer import Writer
from tui_evals.tui.messages import Changed, Show
from tui_evals.tui.screens.ask import Ask
from tui_evals.tui.screens.menu import Entry, Menu

if TYPE_CHECKING:
    from tui_evals.tui.app import Workbench

_LATER = "\t"
_NONE_OPEN = "no dataset is open: o opens one, ctrl+n begins one"


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
        saved = await asyncio.to_thread(editing.save)
    except ChangedOnDisk:
        await _somebody_else_wrote(app, editing)
    except (CannotSave, DatasetError) as problem:
        app.tell(str(problem), "error")
    else:
        more = f"; the older shape is kept as {saved.backup.name}" if saved.backup else ""
        await _saved(app, editing, more)


async def _saved(app: Workbench, editing: Editing, more: str = "") -> None:
    file = editing.document.file
    await app.pen.write(lambda writer: writer.draft_drop(str(file)))
    app.workspace.look()
    app.post_message(Changed())
    app.tell(f"{_shown(app, file)} saved{more}")


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
            await _save_as(app, editing)
        elif choice == "read":
            await asyncio.to_thread(editing.reload)
            app.workspace.settle()
            app.post_message(Changed())
            app.tell("read again; u brings your edits back")
        elif choice == "over":
            await asyncio.to_thread(editing.overwrite)
            await _saved(app, editing)
    except (CannotSave, ChangedOnDisk, DatasetError) as problem:
        app.tell(str(problem), "error")


async def _save_as(app: Workbench, editing: Editing) -> None:
    old = editing.document.file
    name = await app.push_screen_wait(
        Ask("save under another name", _shown(app, old.with_name(f"{old.stem}-mine{old.suffix}")), check=_json_name)
    )
    if name:
        editing.save_as(app.workspace.root / name)
        app.workspace.open.pop(old, None)
        app.workspace.open[editing.document.file] = editing
        await app.pen.write(lambda writer: writer.draft_drop(str(old)))
        await _saved(app, editing)


def _json_name(name: str) -> str | None:
    if not name.strip():
        return "give the file a name"
    return None if name.endswith(".json") else "a dataset written here ends in .json"


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
    _settled(app, "taken back", app.workspace.editing.undo())


def redo(app: Workbench) -> None:
    """Do the last one again."""
    assert app.workspace.editing is not None
    _settled(app, "done again", app.workspace.editing.redo())


def _settled(app: Workbench, what: str, step: str | None) -> None:
    app.workspace.marks = frozenset()  # they are positions, and undo may have moved the items
    app.workspace.settle()
    app.post_message(Changed())
    app.tell(f"{what}: {step}")


async def open_other(app: Workbench) -> None:
    """Choose another dataset of the project."""
    app.workspace.look()
    entries = [
        Entry(file, _shown(app, file), "unsaved edits" if _dirty(app, file) else "")
        for file in dict.fromkeys((*app.workspace.open, *app.workspace.files))
    ]
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


def _dirty(app: Workbench, file: Path) -> bool:
    return file in app.workspace.open and app.workspace.open[file].dirty


async def new_dataset(app: Workbench) -> None:
    """Begin a dataset from nothing; the file appears when it is saved."""
    start = STARTER if not (app.workspace.root / STARTER).exists() else Path("evals", "more.json")
    name = await app.push_screen_wait(Ask("a new dataset: its file", str(start), check=_json_name))
    if not name:
        return
    file = (app.workspace.root / name).resolve()
    if file.exists():
        app.tell(f"{name} is there already: o opens it", "warn")
        return
    app.workspace.enter(Editing.fresh(file))
    app.workspace.where = ("items", 0)
    app.post_message(Changed())
    app.post_message(Show("editor"))
    app.tell("i writes the prompt, a adds a field, 3 says how answers are judged, ctrl+s saves, r runs")


def _shown(app: Workbench, file: Path) -> str:
    return str(file.relative_to(app.workspace.root)) if file.is_relative_to(app.workspace.root) else str(file)


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
