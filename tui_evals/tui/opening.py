"""Opens, saves and merges datasets: files that cannot be read, changes on disk, conflicts.

A table with other column names becomes a dataset by naming its columns.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import chain, count, zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from textual.binding import Binding, BindingType
from textual.widget import Widget

from tui_evals.datasets.discover import STARTER
from tui_evals.datasets.document import Document, dialect_of_name, load
from tui_evals.datasets.editing import Editing, Incoming
from tui_evals.datasets.history import recorded_save
from tui_evals.datasets.merging import ABSENT, Conflict, Merge, paired
from tui_evals.datasets.paths import DatasetError, get_at, place_in_words
from tui_evals.datasets.rows import COLUMNS, header_of, likely_columns
from tui_evals.datasets.save import ChangedOnDisk, ReadOnlyFile, Saved
from tui_evals.files import CannotSave
from tui_evals.project_files import read_head
from tui_evals.tui.desk import Command, Commands, Desk
from tui_evals.tui.external_programs import edit_file
from tui_evals.tui.messages import ShowPane, StateChanged, WritePrompt
from tui_evals.tui.rows import Row, Style, fit, paragraph, row, wrapped
from tui_evals.tui.widgets.dialogs import Ask, Confirm, Dialog, Entry, Menu
from tui_evals.tui.widgets.form import Form
from tui_evals.tui.widgets.form_fields import Field
from tui_evals.tui.widgets.lines import Lines
from tui_evals.tui.workspace import NO_DATASET_OPEN, Workspace

if TYPE_CHECKING:
    from tui_evals.datasets.validate import ValidationReport


_Done = TypeVar("_Done")
_FIRST_STEPS = "tab: the next field · ctrl+s saves · esc, then 3: the evaluators"


def dataset_names(workspace: Workspace) -> dict[Path, str]:
    """The datasets that are open or in the project, each with its name in the project."""
    workspace.look()
    files = (*workspace.open, *(file.resolve() for file in workspace.files))
    return {file: _name_in_project(workspace, file) for file in files}


def _name_in_project(workspace: Workspace, file: Path) -> str:
    root = workspace.root.resolve()
    return str(file.relative_to(root)) if file.is_relative_to(root) else str(file)


async def _after_saving(desk: Desk, editing: Editing, more: str = "", *, elsewhere: bool = False) -> None:
    """Announce that a dataset was saved, with its remaining errors; its draft is no longer needed."""
    file = editing.document.file
    await desk.keep_drafts()
    desk.workspace.look()
    desk.post_message(StateChanged())
    report = await asyncio.to_thread(desk.workspace.check)
    wrong = _what_is_wrong(report)
    export = f". {report.export_note}" if report is not None and elsewhere and report.valid else ""
    desk.tell(f"saved {_name_in_project(desk.workspace, file)}{more}{wrong}{export}", "warn" if wrong else "info")


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
    whole = editing.document.is_json and old.suffix == ".json"
    start = f"{old.stem}-mine.json" if whole else f"{old.name.partition('.')[0]}.json"
    endings = tuple(dict.fromkeys((".json", old.suffix))) if old.suffix != ".gz" else (".json",)
    name = await _ask_name(desk, "save under another name", old.with_name(start), endings)
    if name is None:
        return
    _, unkept = await asyncio.to_thread(_recorded, editing, partial(editing.save_as, name), name)
    desk.workspace.open.pop(old, None)
    desk.workspace.open[editing.document.file] = editing
    await _after_saving(desk, editing, unkept, elsewhere=True)


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


async def open_sample(desk: Desk) -> bool:
    """Write the sample project into this folder and open it; returns whether to run it."""
    from tui_evals.datasets.discover import make_demo

    try:
        file = await asyncio.to_thread(make_demo, desk.workspace.root.resolve())
    except (OSError, CannotSave) as problem:
        desk.tell(f"the sample project cannot be made: {problem}", "error")
        return False
    if not await enter_file(desk, file):
        return False
    desk.workspace.look()
    await asyncio.to_thread(desk.workspace.read_settings)
    desk.post_message(StateChanged())
    next_steps = (
        Entry("run", "run it", "the scripted target answers and judges"),
        Entry("read", "read it first", "r runs it later"),
    )
    return bool(await desk.push_screen_wait(Menu("the sample project is written", next_steps)) == "run")


async def _ask_name(desk: Desk, title: str, start: Path, endings: tuple[str, ...]) -> Path | None:
    """Ask for the name of a file that does not exist yet."""
    name = await desk.push_screen_wait(
        Ask(
            title,
            _name_in_project(desk.workspace, _free_name(desk, start)),
            check=lambda name: _why_not(desk, name, endings),
        )
    )
    return _file(desk, name, endings) if name else None


def _file(desk: Desk, name: str, endings: tuple[str, ...]) -> Path:
    """The file of a name, to which an ending is added where it has none."""
    file = (desk.workspace.root / name.strip()).resolve()
    return file if file.suffix else file.with_name(file.name + endings[0])


_LONGEST_NAME = 255
"""Bytes; common file systems refuse longer names of files and folders."""


def _why_not(desk: Desk, name: str, endings: tuple[str, ...]) -> str | None:
    if not name.strip():
        return "give the file a name"
    file = _file(desk, name, endings)
    if name.strip().endswith("/") or not file.name.endswith(endings):
        return f"give it a name that ends in {' or '.join(endings)}"
    if file in desk.workspace.open:
        return "that dataset is open already: esc, then o goes there"
    if any(len(os.fsencode(part)) > _LONGEST_NAME for part in file.parts):
        return f"no file can have so long a name: at most {_LONGEST_NAME} bytes"
    return "that file is there already: choose another name, or esc and o to open it" if os.path.exists(file) else None


def _free_name(desk: Desk, file: Path) -> Path:
    """The file, or a numbered variant of its name that is free."""
    others = (file.with_name(f"{file.stem}-{number}{file.suffix}") for number in count(2))
    return next(
        one for one in chain((file,), others) if not (os.path.exists(one) or one.resolve() in desk.workspace.open)
    )


def why_none_open(desk: Desk) -> str | None:
    """Why there is nothing to act on: no dataset is open."""
    return NO_DATASET_OPEN if desk.workspace.editing is None else None


def why_no_save(desk: Desk) -> str | None:
    """Why saving is not possible: nothing is open, or nothing changed."""
    editing = desk.workspace.editing
    if editing is None:
        return NO_DATASET_OPEN
    return None if editing.dirty else "nothing to save: the file is as it is here"


async def save(desk: Desk) -> None:
    """Save; if the file has changed on disk or is read-only, ask what to do."""
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
            saved, unkept = done
            more = f"; the older shape is kept as {saved.backup.name}" if saved.backup else ""
            await _after_saving(desk, editing, f"{more}{unkept}")


def _recorded(editing: Editing, write: Callable[[], _Done], file: Path | None = None) -> tuple[_Done, str]:
    """Save and record it in the file's history; also returns why that could not be recorded."""
    edits = tuple(editing.edits)
    with recorded_save(file or editing.document.file, edits) as why:
        done = write()
    editing.forget_edits(len(edits))
    return done, f"; its history is not kept: {why[0]}" if why else ""


async def _written(desk: Desk, editing: Editing, write: Callable[..., Saved]) -> tuple[Saved, str] | None:
    """Write the file, a read-only one only once that was agreed to; None where it was not."""
    try:
        return await asyncio.to_thread(_recorded, editing, write)
    except ReadOnlyFile:
        name = editing.document.file.name
        agreed = await desk.push_screen_wait(
            Confirm("a read-only file", f"{name} is read-only; write it anyway?", "writes it")
        )
        if not agreed:
            desk.tell(f"{name} is as it was; W saves your edits under another name", "warn")
            return None
    return await asyncio.to_thread(_recorded, editing, partial(write, even_read_only=True))


async def _somebody_else_wrote(desk: Desk, editing: Editing) -> None:
    file = editing.document.file
    both = [Entry("both", "put both together", "your edits and the file's; asks where they conflict")]
    choice = await desk.push_screen_wait(
        Menu(
            f"{file.name} was changed on disk since it was read",
            [
                *(both if editing.in_file and os.path.exists(file) else ()),
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
        elif choice == "over" and (done := await _written(desk, editing, editing.overwrite)) is not None:
            await _after_saving(desk, editing, done[1])
    except (CannotSave, ChangedOnDisk, DatasetError) as problem:
        desk.tell(str(problem), "error")


def why_no_undo(desk: Desk) -> str | None:
    """Why undo is not possible: there is nothing to undo."""
    editing = desk.workspace.editing
    return None if editing is not None and editing.can_undo else "there is nothing to undo"


def why_no_redo(desk: Desk) -> str | None:
    """Why redo is not possible: nothing was undone."""
    editing = desk.workspace.editing
    return None if editing is not None and editing.can_redo else "there is nothing to redo"


def undo(desk: Desk) -> None:
    """Take back the last edit."""
    assert desk.workspace.editing is not None
    _after_step(desk, "undone", desk.workspace.step(-1))


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
    entries = [Entry(file, name, _about(desk, file)) for file, name in dataset_names(desk.workspace).items()]
    file = await desk.push_screen_wait(
        Menu("open a dataset", entries, empty="no dataset in this folder; esc, then ctrl+n creates one")
    )
    if file is not None and await enter_file(desk, file):
        desk.post_message(ShowPane("tree"))


async def enter_file(desk: Desk, file: Path) -> bool:
    """Show a dataset; an open one keeps its unsaved edits. False if it cannot be read."""
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


# -- files that cannot be read

_AROUND = 8
_READ = 2**20
_SHOWN = 3


async def opened(desk: Desk, file: Path) -> Editing | None:
    """A dataset from its file; an unreadable one is shown, and read again once it was fixed."""
    while True:
        try:
            return Editing(await asyncio.to_thread(load, file))
        except DatasetError as error:
            problem = error
        header = await asyncio.to_thread(_columns, file)
        page = BrokenFile(file, problem, await asyncio.to_thread(_head_text, file), mappable=bool(header))
        answer = await desk.push_screen_wait(page)
        if answer == "edit":
            failure = edit_file(desk, file, page.line or 1)
            if failure:
                desk.tell(failure, "warn")
                return None
        elif answer == "map":
            return await _mapped(desk, file, header)
        else:
            desk.tell(f"{file.name} was not opened", "warn")
            return None


class BrokenFile(Dialog[str]):
    """The problems of a file and the lines around the first one; returns the user's choice."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("e", "answer('edit')", "edit", show=False),
        Binding("c", "answer('map')", "columns", show=False),
    ]

    def __init__(self, file: Path, problem: DatasetError, text: str, *, mappable: bool) -> None:
        columns = " · c says which column is what" if mappable else ""
        keys = f"e opens it in $EDITOR, and here again{columns} · j k scroll · esc leaves it"
        super().__init__(f"{file.name} cannot be opened", keys)
        self._problem = problem
        self._head_text = text
        self._mappable = mappable
        self.line = next((one.line for one in problem.problems if one.line is not None), None)
        """The line of the first problem that has one."""

    def body(self) -> list[Widget]:
        lines = Lines(choosing=False, classes="tall")
        lines.show(self._rows)
        return [lines]

    def _rows(self, width: int) -> list[Row]:
        rows: list[Row] = []
        for one in self._problem.problems:
            where = f"line {one.line}: " if one.line is not None else ""
            rows += paragraph(f"{where}{one}", width, "error")
        if self.line is None or not self._head_text:
            return rows
        rows.append(row())
        lines = self._head_text.split("\n")
        first = max(self.line - 1 - _AROUND, 0)
        for number, line in enumerate(lines[first : self.line + _AROUND], first + 1):
            here = number == self.line
            mark = fit(f"{'▸' if here else ' '}{number:>6} ", 8, "error" if here else "dim")
            rows.append(row(mark, fit(line, max(width - 8, 1), "" if here else "dim")))
        return rows

    def action_answer(self, what: str) -> None:
        """Close with the chosen answer."""
        if what == "edit" or self._mappable:
            self.dismiss(what)


def _head_text(file: Path) -> str:
    """The start of a file, as far as it can be shown."""
    try:
        return read_head(file, _READ, follow_out=True).decode("utf-8", "replace")
    except OSError:
        return ""


def _columns(file: Path) -> list[str]:
    """The columns of a table that has none for prompts; none for anything else."""
    if dialect_of_name(file) != "csv" or file.name.lower().endswith(".gz"):
        return []
    header = header_of(_head_text(file))
    return [] if COLUMNS["prompt"] in header or len(set(header)) < len(header) else header


# -- which column is what


async def _mapped(desk: Desk, file: Path, header: list[str]) -> Editing | None:
    """A new dataset made of a table; the table is not changed."""
    form = ColumnsForm(file, header)
    columns = await desk.push_screen_wait(form)
    if columns is None or form.table is None:
        desk.tell(f"{file.name} was not opened", "warn")
        return None
    editing = Editing.new_file(_free_json_name(file))
    editing.apply({**editing.data, "items": form.table.data["items"]}, f"items of {file.name}")
    desk.tell(f"{len(editing.data['items'])} items of {file.name}; ctrl+s writes {editing.document.file.name}")
    return editing


def _free_json_name(file: Path) -> Path:
    """The dataset next to a table, numbered where there is one."""
    names = (f"{file.stem}{f'-{number}' if number > 1 else ''}.json" for number in range(1, 10_000))
    return next(there for name in names if not (there := file.with_name(name)).exists())


class ColumnsForm(Form):
    """Which column holds prompts, references, answers and contexts, with the first items that this makes."""

    def __init__(self, file: Path, header: list[str]) -> None:
        self._file = file
        self._unread = ""
        self.table: Document | None = None
        """The table read by these columns; None where it cannot be."""
        fields = (
            Field("prompt", "choice", "What is asked.", header),
            Field("expected_response", "choice", "The reference the answer is compared with.", header),
            Field("response", "choice", "An answer that is there already.", header),
            Field("context", "choice", "What judges are given besides.", header),
        )
        values = likely_columns(header)
        super().__init__(
            f"{file.name}: which column is what", fields, values, check=self._faults, done="make a dataset"
        )
        self.values_changed()

    def _faults(self, values: Mapping[str, Any]) -> dict[str, str]:
        if "prompt" not in values:
            return {"prompt": "choose the column with the prompt"}
        if len(set(values.values())) < len(values):
            return {"": "a column can be one thing only"}
        return {"": self._unread} if self._unread else {}

    def values_changed(self) -> None:
        """Read the table by these columns, and show what comes of it."""
        self.table, self._unread = None, ""
        if not self._faults(self.values):
            try:
                self.table = load(self._file, self.values)
            except DatasetError as problem:
                self._unread = str(problem)
        preview = _preview(self.table)
        if self.is_mounted:
            self.redraw(preview)
        else:
            self._says = preview


def _preview(table: Document | None) -> str:
    """The first items as lines."""
    if table is None:
        return ""
    items = table.data["items"]
    lines = [f"{len(items):,} item{'s' * (len(items) != 1)}; the other columns become variables:"]
    for number, item in enumerate(items[:_SHOWN], 1):
        lines += [f"{number}  {name}: {_one_line(value)}" for name, value in item.items()]
    return "\n".join(lines)


def _one_line(value: object) -> str:
    text = value if isinstance(value, str) else ", ".join(f"{name} = {one}" for name, one in dict(value).items())  # type: ignore[call-overload]
    return " ".join(text.split())[:100]


# -- changes on disk, and conflicts with them

_Stamp = tuple[int, int, int] | None


class DiskChanges:
    """Watches the files of the open datasets, and reads those that have changed."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._stamps: dict[Path, _Stamp] = {}
        """The stamp of each file when it was last read."""
        self._put_off: dict[Path, _Stamp] = {}
        """The stamps of files with changes that were put off, and are read once nothing is unsaved."""
        self._told: tuple[Path, _Stamp] | None = None
        self._reading = False

    def look(self) -> None:
        """Check whether a file was written; waits while a dialog or a box is open."""
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
            if editing.dirty and stamp == self._put_off.get(file):
                continue
            if self._desk.writing:
                self._say_later(file, stamp)
            elif editing is space.editing or not editing.dirty:
                self._stamps[file], self._reading = stamp, True
                self._desk.run_worker(self._read(editing, stamp), "a change on disk", "disk", exit_on_error=False)
                return

    def _say_later(self, file: Path, stamp: _Stamp) -> None:
        if file in self._stamps and self._told != (file, stamp):
            self._told = (file, stamp)
            self._desk.tell(f"{file.name} was changed on disk; it is read once this is done", "warn")

    async def _read(self, editing: Editing, stamp: _Stamp) -> None:
        file = editing.document.file
        try:
            if not await take_up_changes(self._desk, editing):
                self._stamps[file], self._put_off[file] = None, stamp
        except DatasetError as problem:
            self._desk.tell(f"{file.name} was changed on disk and cannot be read now: {problem}", "warn")
        finally:
            self._reading = False


_NEVER: _Stamp = (0, 0, 0)


def _stamp(file: Path) -> _Stamp:
    """A file's stamp, which changes when the file is written; None if there is no file."""
    try:
        status = os.stat(file)
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino


async def take_up_changes(desk: Desk, editing: Editing) -> bool:
    """Merge what another program wrote into a file with the edits here; False if that is put off."""
    while True:
        gone = not editing.in_file
        incoming = await asyncio.to_thread(editing.incoming)
        if incoming is None:
            if gone and editing.in_file:
                desk.post_message(StateChanged())
                desk.tell(f"{editing.document.file.name} was restored unchanged")
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
    """The location of a conflict, with the testId of its item."""
    item = get_at(merge.draft, conflict.path[:2])
    name = item.get("testId") if isinstance(item, dict) else None
    return f"{place_in_words(conflict.path)}{f' · {name}' if isinstance(name, str) and name else ''}"


def _sentence(incoming: Incoming) -> str:
    name = incoming.document.file.name
    if incoming.merge is None:
        return f"{name} was changed on disk and is read again; u shows it as it was"
    return f"{name} was changed on disk: your edits and the file are put together; ctrl+s saves, u shows either"


_MOST = 12
"""Lines of a value that are shown."""


class ChooseSides(Dialog[frozenset[int]]):
    """Asks for each conflict which side to keep; the answer is None to decide later."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("m", "side(False)", "mine", show=False),
        Binding("t", "side(True)", "theirs", show=False),
        Binding("M", "all(False)", "all mine", show=False),
        Binding("T", "all(True)", "all theirs", show=False),
        Binding("enter", "take", "take", show=False, priority=True),
    ]

    def __init__(self, name: str, conflicts: Sequence[Conflict], places: Sequence[str]) -> None:
        values = "1 value" if len(conflicts) == 1 else f"{len(conflicts)} values"
        super().__init__(
            f"{name} was changed on disk: {values} changed on both sides",
            "m mine · t theirs · M T all of them · enter puts both together · esc later · undo shows either",
        )
        self._conflicts = conflicts
        self._places = places
        self._theirs: frozenset[int] = frozenset()

    def body(self) -> list[Widget]:
        self._lines = Lines(id="conflicts", classes="tall")
        self._lines.show(self._rows)
        return [self._lines]

    def on_mount(self) -> None:
        self._lines.focus()

    def _rows(self, width: int) -> list[Row]:
        rows: list[Row] = []
        for number, (conflict, place) in enumerate(zip(self._conflicts, self._places, strict=True)):
            rows += _conflict_rows(number, conflict, place, number in self._theirs, width)
        return rows

    def action_side(self, theirs: bool) -> None:
        """Choose for the value under the cursor, and continue to the next."""
        key = self._lines.key
        if isinstance(key, int):
            self._theirs = self._theirs | {key} if theirs else self._theirs - {key}
            self._lines.show(self._rows, at=min(key + 1, len(self._conflicts) - 1))

    def action_all(self, theirs: bool) -> None:
        """Choose for all of them."""
        self._theirs = frozenset(range(len(self._conflicts))) if theirs else frozenset()
        self._lines.show(self._rows)

    def action_take(self) -> None:
        """Put both together so."""
        self.dismiss(self._theirs)


def _conflict_rows(number: int, conflict: Conflict, place: str, theirs: bool, width: int) -> list[Row]:
    """A value here and on disk; the side that will be kept is marked."""
    room = max((width - 3) // 2, 1)
    holds = "theirs holds" if theirs else "mine holds"
    rows = [row(fit(place, max(width - len(holds) - 1, 1), "strong"), " ", (holds, "accent"), key=number)]
    heads = fit(f"{' ' if theirs else '▸'} mine", room, "dim" if theirs else "accent")
    rows.append(row(heads, "   ", fit(f"{'▸' if theirs else ' '} theirs", room, "accent" if theirs else "dim")))
    mine, others = _lines_apart(_value_text(conflict.mine), _value_text(conflict.theirs))
    styles: tuple[Style, Style] = ("dim", "") if theirs else ("", "dim")
    for one, other in zip_longest(_shown(mine, room), _shown(others, room), fillvalue=""):
        rows.append(row(fit(one, room, styles[0]), (" │ ", "dim"), fit(other, room, styles[1])))
    return [*rows, row()]


def _value_text(value: Any) -> str:
    if value is ABSENT:
        return "removed"
    return value if isinstance(value, str) else json.dumps(value, indent=2, ensure_ascii=False)


def _lines_apart(mine: str, theirs: str) -> tuple[list[str], list[str]]:
    """Both texts from a line before the first one that differs."""
    left, right = mine.split("\n"), theirs.split("\n")
    same = next((number for number, (a, b) in enumerate(zip(left, right, strict=False)) if a != b), 0)
    if same < 3:
        return left, right
    note = f"… {same - 1} lines alike"
    return [note, *left[same - 1 :]], [note, *right[same - 1 :]]


def _shown(lines: Sequence[str], room: int) -> list[str]:
    wide = [part for line in lines[: _MOST + 1] for part in wrapped(line[: room * _MOST], room) or [""]]
    more = len(lines) > _MOST + 1 or len(wide) > _MOST
    return [*wide[:_MOST], "…"] if more else wide


COMMANDS: Commands = {
    "save": Command(save, why_no_save),
    "save_as": Command(save_as, why_none_open),
    "undo": Command(undo, why_no_undo),
    "redo": Command(redo, why_no_redo),
    "open": Command(open_other, why_not_shown=why_none_to_open),
    "new_dataset": Command(new_dataset),
}
