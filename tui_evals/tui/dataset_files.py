"""Commands about dataset files: begin one, open one, save one here or under another name, undo and redo."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import chain, count
from pathlib import Path
from typing import TYPE_CHECKING

from tui_evals.atomic_files import CannotSave
from tui_evals.datasets.discover import STARTER
from tui_evals.datasets.editing import Editing
from tui_evals.datasets.problems import DatasetError, place_in_words
from tui_evals.datasets.save import ChangedOnDisk, ReadOnlyFile, Saved
from tui_evals.tui.widgets.dialogs import Ask, Confirm, Entry, Menu

from .broken_file import opened
from .desk import Command, Commands, Desk
from .disk_changes import take_up_changes
from .messages import ShowPane, StateChanged, WritePrompt
from .workspace import NO_DATASET_OPEN

if TYPE_CHECKING:
    from tui_evals.datasets.validate import ValidationReport

_FIRST_STEPS = "tab goes on to the answer · ctrl+s saves · esc, then 3 says who judges"


def _short_name(desk: Desk, file: Path) -> str:
    """A file as it is called in the project."""
    root = desk.workspace.root.resolve()
    return str(file.relative_to(root)) if file.is_relative_to(root) else str(file)


async def _after_saving(desk: Desk, editing: Editing, more: str = "", *, elsewhere: bool = False) -> None:
    """Say that a dataset was saved, and what is still wrong with it; its draft is no longer needed."""
    file = editing.document.file
    await desk.writer.write(lambda writer: writer.draft_drop(str(file)))
    desk.workspace.look()
    desk.post_message(StateChanged())
    report = await asyncio.to_thread(desk.workspace.check)
    wrong = _what_is_wrong(report)
    export = f"; export: {report.export_note}" if report is not None and elsewhere and report.valid else ""
    desk.tell(f"saved {_short_name(desk, file)}{more}{wrong}{export}", "warn" if wrong else "info")


def _what_is_wrong(report: ValidationReport | None) -> str:
    """How many problems a dataset has, and the first of them."""
    errors = [problem for problem in report.problems if problem.severity == "error"] if report else []
    if not errors:
        return ""
    first = f"{place_in_words(errors[0].path)}: {errors[0].message}"
    return f"; 1 problem: {first}" if len(errors) == 1 else f"; {len(errors)} problems: {first} …; ! goes through them"


async def save_as(desk: Desk) -> None:
    """Save under another name, which is the file that is edited from now on."""
    editing = desk.workspace.editing
    assert editing is not None
    try:
        await _save_under(desk, editing)
    except (CannotSave, DatasetError) as problem:
        desk.tell(str(problem), "error")


async def _save_under(desk: Desk, editing: Editing) -> None:
    """Ask for another name and save under it; CannotSave says why that could not be done."""
    old = editing.document.file
    whole = editing.document.dialect not in ("csv", "jsonl") and old.suffix == ".json"
    start = f"{old.stem}-mine.json" if whole else f"{old.name.partition('.')[0]}.json"
    endings = tuple(dict.fromkeys((".json", old.suffix))) if old.suffix != ".gz" else (".json",)
    name = await _ask_name(desk, "save under another name", old.with_name(start), endings)
    if name is None:
        return
    await asyncio.to_thread(editing.save_as, name)
    desk.workspace.open.pop(old, None)
    desk.workspace.open[editing.document.file] = editing
    await desk.writer.write(lambda writer: writer.draft_drop(str(old)))
    await _after_saving(desk, editing, elsewhere=True)


async def new_dataset(desk: Desk) -> None:
    """Begin a dataset from nothing; the file appears when it is saved."""
    file = await _ask_name(desk, "a new dataset: its file", desk.workspace.root.resolve() / STARTER, (".json",))
    if file is None:
        return
    desk.workspace.enter(Editing.new_file(file))
    desk.workspace.where = ("items", 0)
    desk.post_message(StateChanged())
    desk.post_message(WritePrompt())
    desk.tell(_FIRST_STEPS)


async def _ask_name(desk: Desk, title: str, start: Path, endings: tuple[str, ...]) -> Path | None:
    """A file that is not there yet, as a person calls it."""
    name = await desk.push_screen_wait(
        Ask(
            title,
            _short_name(desk, _free_name(desk, start)),
            check=lambda name: _why_not(desk, name, endings),
        )
    )
    return _file(desk, name, endings) if name else None


def _file(desk: Desk, name: str, endings: tuple[str, ...]) -> Path:
    """The file of a name, to which an ending is added where it has none."""
    file = (desk.workspace.root / name.strip()).resolve()
    return file if file.suffix else file.with_name(file.name + endings[0])


def _why_not(desk: Desk, name: str, endings: tuple[str, ...]) -> str | None:
    if not name.strip():
        return "give the file a name"
    file = _file(desk, name, endings)
    if name.strip().endswith("/") or not file.name.endswith(endings):
        return f"give it a name that ends in {' or '.join(endings)}"
    if file in desk.workspace.open:
        return "that dataset is open already: esc, then o goes there"
    return "that file is there already: choose another name, or esc and o to open it" if file.exists() else None


def _free_name(desk: Desk, file: Path) -> Path:
    """The file, or one numbered after it, that nothing stands in the way of."""
    others = (file.with_name(f"{file.stem}-{number}{file.suffix}") for number in count(2))
    return next(one for one in chain((file,), others) if not (one.exists() or one.resolve() in desk.workspace.open))


def why_none_open(desk: Desk) -> str | None:
    """Nothing is open."""
    return NO_DATASET_OPEN if desk.workspace.editing is None else None


def why_no_save(desk: Desk) -> str | None:
    """Nothing open, or nothing to save."""
    editing = desk.workspace.editing
    if editing is None:
        return NO_DATASET_OPEN
    return None if editing.dirty else "nothing to save: the file is as it is here"


async def save(desk: Desk) -> None:
    """Save; when the file is another one than was read, or is read-only, ask what is wanted."""
    editing = desk.workspace.editing
    assert editing is not None
    try:
        done = await _written(desk, editing, editing.save)
    except ChangedOnDisk:
        await _somebody_else_wrote(desk, editing)
    except (CannotSave, DatasetError) as problem:
        desk.tell(f"{problem}; W saves it under another name", "error")
    else:
        if done is not None:
            more = f"; the older shape is kept as {done.backup.name}" if done.backup else ""
            await _after_saving(desk, editing, more)


async def _written(desk: Desk, editing: Editing, write: Callable[..., Saved]) -> Saved | None:
    """Write the file, a read-only one only once that was agreed to; None where it was not."""
    try:
        return await asyncio.to_thread(write)
    except ReadOnlyFile:
        name = editing.document.file.name
        agreed = await desk.push_screen_wait(
            Confirm("a read-only file", f"{name} is read-only; write it anyway?", "writes it")
        )
        if not agreed:
            desk.tell(f"{name} is as it was; W saves your edits under another name", "warn")
            return None
    return await asyncio.to_thread(write, even_read_only=True)


async def _somebody_else_wrote(desk: Desk, editing: Editing) -> None:
    file = editing.document.file
    both = [Entry("both", "put both together", "your edits and the file's; asks where they conflict")]
    choice = await desk.push_screen_wait(
        Menu(
            f"{file.name} was changed on disk since it was read",
            [
                *(both if editing.in_file and file.exists() else ()),
                Entry("as", "save under another name", "both stay"),
                Entry("read", "read it again", "your edits are taken off; u brings them back"),
                Entry("over", "overwrite it", "what the file holds now is lost"),
            ],
        )
    )
    try:
        if choice == "both":
            await take_up_changes(desk, editing)
        elif choice == "as":
            await _save_under(desk, editing)
        elif choice == "read":
            await asyncio.to_thread(editing.reload)
            desk.workspace.settle()
            desk.post_message(StateChanged())
            desk.tell("read again; u brings your edits back")
        elif choice == "over" and await _written(desk, editing, editing.overwrite) is not None:
            await _after_saving(desk, editing)
    except (CannotSave, ChangedOnDisk, DatasetError) as problem:
        desk.tell(str(problem), "error")


def why_no_undo(desk: Desk) -> str | None:
    """Nothing to take back."""
    editing = desk.workspace.editing
    return None if editing is not None and editing.can_undo else "there is nothing to take back"


def why_no_redo(desk: Desk) -> str | None:
    """Nothing was taken back."""
    editing = desk.workspace.editing
    return None if editing is not None and editing.can_redo else "nothing was taken back"


def undo(desk: Desk) -> None:
    """Take back the last edit."""
    assert desk.workspace.editing is not None
    _after_step(desk, "taken back", desk.workspace.step(-1))


def redo(desk: Desk) -> None:
    """Do the last one again."""
    assert desk.workspace.editing is not None
    _after_step(desk, "done again", desk.workspace.step(1))


def _after_step(desk: Desk, what: str, step: str | None) -> None:
    desk.post_message(StateChanged())
    desk.tell(f"{what}: {step}")


def why_none_to_open(desk: Desk) -> str | None:
    """There was no dataset in the folder when it was looked through last."""
    space = desk.workspace
    return None if space.files or space.open else "there is no dataset here"


async def open_other(desk: Desk) -> None:
    """Choose another dataset of the project."""
    desk.workspace.look()
    files = dict.fromkeys((*desk.workspace.open, *(file.resolve() for file in desk.workspace.files)))
    entries = [Entry(file, _short_name(desk, file), _about(desk, file)) for file in files]
    file = await desk.push_screen_wait(
        Menu("open a dataset", entries, empty="no dataset in this folder; esc, then ctrl+n begins one")
    )
    if file is not None and await enter_file(desk, file):
        desk.post_message(ShowPane("tree"))


async def enter_file(desk: Desk, file: Path) -> bool:
    """Put a dataset on screen; one that is open comes back with its unsaved edits. False where it cannot be read."""
    editing = desk.workspace.open.get(file) or await opened(desk, file)
    if editing is None:
        return False
    desk.workspace.enter(editing)
    desk.post_message(StateChanged())
    return True


def _about(desk: Desk, file: Path) -> str:
    editing = desk.workspace.open.get(file)
    if editing is None:
        return ""
    words = ("on screen" if editing is desk.workspace.editing else "", "unsaved edits" if editing.dirty else "")
    return ", ".join(filter(None, words))


COMMANDS: Commands = {
    "save": Command(save, why_no_save),
    "save_as": Command(save_as, why_none_open),
    "undo": Command(undo, why_no_undo),
    "redo": Command(redo, why_no_redo),
    "open": Command(open_other, why_not_shown=why_none_to_open),
    "new_dataset": Command(new_dataset),
}
