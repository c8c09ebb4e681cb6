"""Datasets under a name of one's own: begin one, save one as another file."""

from __future__ import annotations

import asyncio
from functools import partial
from itertools import chain, count
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
from tui_evals.tui.widgets.dialogs import Ask, Entry, Menu

from .messages import ShowPane, StateChanged

if TYPE_CHECKING:
    from .app import Workbench


_BEGUN = "enter writes the prompt · a adds a field · 3 says who judges · ctrl+s saves"


def shown(app: Workbench, file: Path) -> str:
    """A file as it is called in the project."""
    root = app.workspace.root.resolve()
    return str(file.relative_to(root)) if file.is_relative_to(root) else str(file)


async def told_saved(app: Workbench, editing: Editing, more: str = "") -> None:
    """Say that a dataset was saved; its draft is no longer needed."""
    file = editing.document.file
    await app.pen.write(lambda writer: writer.draft_drop(str(file)))
    app.workspace.look()
    app.post_message(StateChanged())
    app.tell(f"{shown(app, file)} saved{more}")


async def save_as(app: Workbench) -> None:
    """Save under another name, which is the file that is edited from now on."""
    editing = app.workspace.editing
    assert editing is not None
    try:
        await save_under(app, editing)
    except (CannotSave, DatasetError) as problem:
        app.tell(str(problem), "error")


async def save_under(app: Workbench, editing: Editing) -> None:
    """Ask for another name and save under it; CannotSave says why that could not be done."""
    old = editing.document.file
    whole = editing.document.dialect not in ("csv", "jsonl") and old.suffix == ".json"
    start = f"{old.stem}-mine.json" if whole else f"{old.name.partition('.')[0]}.json"
    endings = tuple(dict.fromkeys((".json", old.suffix))) if old.suffix != ".gz" else (".json",)
    name = await _named(app, "save under another name", old.with_name(start), endings)
    if name is None:
        return
    await asyncio.to_thread(editing.save_as, name)
    app.workspace.open.pop(old, None)
    app.workspace.open[editing.document.file] = editing
    await app.pen.write(lambda writer: writer.draft_drop(str(old)))
    await told_saved(app, editing)


async def new_dataset(app: Workbench) -> None:
    """Begin a dataset from nothing; the file appears when it is saved."""
    file = await _named(app, "a new dataset: its file", app.workspace.root.resolve() / STARTER, (".json",))
    if file is None:
        return
    app.workspace.enter(Editing.new_file(file))
    app.workspace.where = ("items", 0)
    app.post_message(StateChanged())
    app.post_message(ShowPane("editor"))
    app.tell(_BEGUN)


async def _named(app: Workbench, title: str, start: Path, endings: tuple[str, ...]) -> Path | None:
    """A file that is not there yet, as a person calls it."""
    hint = "enter takes it · esc leaves it"
    name = await app.push_screen_wait(
        Ask(title, shown(app, _free(app, start)), hint=hint, check=lambda name: _why_not(app, name, endings))
    )
    return _file(app, name) if name else None


def _file(app: Workbench, name: str) -> Path:
    return (app.workspace.root / name.strip()).resolve()


def _why_not(app: Workbench, name: str, endings: tuple[str, ...]) -> str | None:
    if not name.strip():
        return "give the file a name"
    if not name.strip().endswith(endings):
        return f"give it a name that ends in {' or '.join(endings)}"
    file = _file(app, name)
    if file in app.workspace.open:
        return "that dataset is open already: esc, then o goes there"
    return "that file is there already: choose another name, or esc and o to open it" if file.exists() else None


def _free(app: Workbench, file: Path) -> Path:
    """The file, or one numbered after it, that nothing stands in the way of."""
    others = (file.with_name(f"{file.stem}-{number}{file.suffix}") for number in count(2))
    return next(one for one in chain((file,), others) if not (one.exists() or one.resolve() in app.workspace.open))


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
            app.post_message(StateChanged())
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
    app.post_message(StateChanged())
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
        app.post_message(StateChanged())
        app.post_message(ShowPane("tree"))


def _about(app: Workbench, file: Path) -> str:
    editing = app.workspace.open.get(file)
    if editing is None:
        return ""
    words = ("on screen" if editing is app.workspace.editing else "", "unsaved edits" if editing.dirty else "")
    return ", ".join(filter(None, words))


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
        app.post_message(StateChanged())
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
    return Editing(load(file)) if file.exists() else Editing.new_file(file)
