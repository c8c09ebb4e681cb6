"""Pane 2, the item: its fields, the box one of them is edited in, and the way through items and turns."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.timer import Timer

from tui_evals.datasets.layout import Path as UnitPath
from tui_evals.datasets.paths import CannotEdit
from tui_evals.tui import item_edits
from tui_evals.tui.actions import Where, bindings
from tui_evals.tui.item_edits import NO_ITEM, NOT_OPEN, go_to, step_to_neighbour
from tui_evals.tui.kept import keep_text
from tui_evals.tui.messages import ItemShown, Place, SaveDataset, ShowPane
from tui_evals.tui.pane import Pane
from tui_evals.tui.widgets.dialogs import Entry, Menu, unread_menu
from tui_evals.tui.widgets.field import FieldBox, Then
from tui_evals.tui.widgets.focus import give_keys
from tui_evals.tui.widgets.lines import Lines
from tui_evals.tui.workspace import Selection, Workspace

from . import external, field_edit, fields
from .field_edit import FieldEdit
from .rows import page_rows, title
from .walk import neighbour_field


def why_not(workspace: Workspace, action: str, key: Hashable) -> str | None:
    """Why an action cannot be done with the row of this key; None when it can."""
    if workspace.editing is None:
        return NOT_OPEN
    broken = bool(workspace.where) and workspace.unit is None
    if action in ("new_turn", "duplicate", "conversation") and not workspace.where:
        return NO_ITEM
    if action in ("edit", "external", "clear", "field") and broken:
        return "what stands here is no object; mend it in the file"
    if action in ("edit", "external", "clear"):
        return _why_not_field(workspace, action, key)
    return None


def _why_not_field(workspace: Workspace, action: str, key: Hashable) -> str | None:
    if isinstance(key, tuple):
        return None if action == "edit" else "enter goes there; what it holds is edited on its own page"
    if not isinstance(key, str):
        return "go to a field first"
    if locked := fields.read_only(key, workspace.where):
        return locked
    if key in fields.JUDGING:
        return None if action == "edit" else "evaluators are edited in their own pane: 3"
    value = fields.value_at(workspace.data, workspace.where, key)
    if action == "edit":
        return fields.why_not_here(key, value)
    return _why_not_clear(workspace, key, value) if action == "clear" else None


def _why_not_clear(workspace: Workspace, name: str, value: object) -> str | None:
    if value is None:
        return f"there is no {name} to take away"
    if name == "prompt" and fields.prompt_is_needed(workspace.data, workspace.where):
        return "there must be a prompt; enter edits it"
    return None


async def edit_externally(pane: Pane, name: str, number: int) -> None:
    """Hand a field to $EDITOR and take what it makes of it; what cannot be taken is kept in a file."""
    try:
        edit, text = field_edit.begin_edit(pane.workspace, name, number)
    except RecursionError:
        pane.say(fields.too_deep(name), "warn")
        return
    suffix = fields.suffix_of(edit.kind, text)
    try:
        after = await external.edit_in_editor(pane.app, text, suffix)
    except external.NotEdited as problem:
        pane.say(str(problem), "warn")
        return
    if after is None:
        pane.say(f"{name} is as it was")
        return
    edit = field_edit.apply_text(pane.workspace, edit, after)
    if edit.fault:
        kept = external.keep_in_file(after, suffix)
        pane.say(f"{name} was left as it was: {edit.fault}; what you wrote is kept in {kept}", "error")
        return
    pane.say(f"{name} taken from the editor")
    pane.changed()


async def choose_field(pane: Pane) -> str | None:
    """Which field of those that can still be given here."""
    workspace = pane.workspace
    names = fields.addable_fields(workspace.unit or workspace.data, workspace.where)
    entries = [Entry(name, name, fields.field_about(name, workspace.where)) for name in names]
    name: str | None = await pane.app.push_screen_wait(
        Menu("add a field", entries, empty="every field that can stand here does")
    )
    return name


def make_edit(pane: Pane, step: Callable[[Workspace], str]) -> bool:
    """Make a step, and say what it did or why it could not be done; whether it was."""
    try:
        outcome = step(pane.workspace)
    except CannotEdit as problem:
        pane.say(str(problem), "warn")
        return False
    pane.say(outcome)
    pane.changed()
    return True


def clear_field(workspace: Workspace, name: str) -> str:
    """Take a field away where one is."""
    workspace.apply(fields.with_value(workspace.data, workspace.where, name, None), f"clear {name}")
    return f"took {name} away; u brings it back"


def put_into_file(workspace: Workspace, edit: FieldEdit, text: str) -> str:
    """Put a text that cannot be read into a file; the sentence that says where. OSError says why that cannot be."""
    file = keep_text(workspace.root, edit.name, fields.suffix_of(edit.kind, text), text)
    return f"what you wrote is kept in {file}; {edit.name} was left as it was"


_SOON = 0.2
_END = {
    1: "this was the last field of the last item: esc, then n makes another",
    -1: "this is the first field of all",
}


class EditorPane(Pane):
    """Where one is: the dataset itself, an item or a turn."""

    place: ClassVar[Place] = "editor"
    number: ClassVar[int] = 2
    name_: ClassVar[str] = "Item"
    BINDINGS: ClassVar[list[BindingType]] = [*bindings("editor")]

    _edit: FieldEdit | None = None
    _edit_count = 0
    _soon: Timer | None = None
    _shown: tuple[object, UnitPath] = (None, ())

    def compose(self) -> ComposeResult:
        """The fields, and the box one of them is edited in."""
        yield Lines(id="fields")
        yield FieldBox(id="field")

    @property
    def lines(self) -> Lines:
        """The fields."""
        return self.query_one("#fields", Lines)

    @property
    def box(self) -> FieldBox:
        """The box one of them is edited in."""
        return self.query_one("#field", FieldBox)

    def sync(self) -> None:
        """Show where one is as it is now; the box stays while its field is the one it was."""
        workspace, before = self.workspace, self._shown
        if self._edit is not None and field_edit.is_over(workspace, self._edit):
            self._drop()
        self._tell()
        lit = self._edit.name if self._edit else None
        self._shown = (workspace.editing, workspace.where)
        moved = before != self._shown
        self.lines.show(lambda width: page_rows(workspace, width, lit), at=lit or (self._landing() if moved else None))
        self.entitle(title(workspace))

    def _landing(self) -> Hashable:
        """At another item the cursor stays on the field it was on where that is there too, else on what is asked."""
        key, unit, where = self.lines.key, self.workspace.unit or {}, self.workspace.where
        if key in fields.shown_fields(unit, where):
            return key
        return (*where, "turns", 0) if len(where) == 2 and unit.get("turns") else "prompt"

    def on_lines_moved(self, event: Lines.Moved) -> None:
        """Bring all of a field into view, not only its name."""
        event.stop()
        _into_view(event.lines)

    def on_lines_chosen(self, event: Lines.Chosen) -> None:
        """Enter edits a field and goes into a turn."""
        event.stop()
        self.action_act("edit")

    def focus_lines(self) -> None:
        """The keys go on into the box while it is open."""
        if self._edit is not None:
            self.box.focus_text()
        else:
            give_keys(self.lines)

    @property
    def keys_place(self) -> Where:
        """The box has keys of its own while it is open."""
        return "editor" if self._edit is None else "field"

    def selection(self) -> Selection | None:
        """The item one is in, or the dataset."""
        number = self.workspace.item
        if self.workspace.editing is None:
            return None
        return Selection() if number is None else Selection((number,), f"item {self.workspace.name_of(number)}")

    def why_not(self, action: str) -> str | None:
        """Why an action cannot be done now."""
        if self._edit is not None:
            return "esc ends the field that is being edited first"
        return why_not(self.workspace, action, self.lines.key)

    def escape(self) -> bool:
        """Leave the box."""
        if self._edit is None:
            return False
        self.box.do_done()
        return True

    def would_be_lost(self) -> str | None:
        """A text in the box that the field cannot take."""
        edit = self._edit
        if edit is None or not edit.fault:
            return None
        return f"what is written for {edit.name} would only be in a file, because it cannot be taken: {edit.fault}"

    # -- the box

    def _open(self, name: str) -> None:
        self._edit_count += 1
        self._edit, text = field_edit.begin_edit(self.workspace, name, self._edit_count)
        about = fields.field_about(name, self.workspace.where)
        one_line = self._edit.kind in ("line", "number")
        self.box.begin(f"{name} · {about}" if about else name, text, one_line=one_line)
        if text and text == fields.first_text(name):
            self.box.to_index((text.rfind('""') if '""' in text else 0) + 1)
        self.sync()
        self.call_after_refresh(self.lines.to_key, name)

    def on_field_box_typed(self, event: FieldBox.Typed) -> None:
        """Apply what can be read, and have it shown soon."""
        event.stop()
        if self._edit is not None:
            self._type(event.text)
            self._tell()

    def on_field_box_ended(self, event: FieldBox.Ended) -> None:
        """Go on once the text is taken; one that cannot be read is asked about, so that it is not lost."""
        event.stop()
        if self._edit is None:
            return
        self._type(event.text)
        if self._edit.fault:
            self._tell()
            asking = self._ask(self._edit, event)
            self.app.run_worker(asking, group="acts", name="a text that cannot be read", exit_on_error=False)
        else:
            self._go_on(event.then)

    async def _ask(self, edit: FieldEdit, event: FieldBox.Ended) -> None:
        choice = await self.app.push_screen_wait(unread_menu(edit.name, edit.fault))
        if self._edit is None:
            return
        if choice not in ("file", "drop"):
            self.focus_lines()
            return
        says = f"{edit.name} was left as it was"
        if choice == "file":
            try:
                says = put_into_file(self.workspace, edit, event.text)
            except OSError as problem:
                self.say(f"the text could not be put into a file: {problem.strerror}", "error")
                return
        self._go_on(event.then)
        self.say(says)

    def _go_on(self, then: Then) -> None:
        """The field is done with: to the next one, or out of the box."""
        assert self._edit is not None
        if then in ("next", "previous"):
            way = 1 if then == "next" else -1
            there = neighbour_field(self.workspace, self._edit.name, way)
            if there is None:
                self.say(_END[way], "warn")
                if self._edit.fault:
                    self._open(self._edit.name)
            else:
                self.workspace.where = there[0]
                self._open(there[1])
                self.post_message(ItemShown())
        else:
            self._close()
        self._announce()
        if then == "save":
            self.post_message(SaveDataset())

    def _close(self) -> None:
        self._edit = None
        if self.box.has_focus_within:
            give_keys(self.lines)
        self.box.close()

    def _type(self, text: str) -> None:
        assert self._edit is not None
        version = self._edit.editing.version
        self._edit = field_edit.apply_text(self.workspace, self._edit, text)
        if self._edit.editing.version != version and self._soon is None:
            self._soon = self.set_timer(_SOON, self._announce)

    def _announce(self) -> None:
        """Tell everybody now what was typed."""
        if self._soon is not None:
            self._soon.stop()
            self._soon = None
        self.changed()

    def _tell(self) -> None:
        """Say beside the box what is wrong with the field."""
        edit = self._edit
        if edit is not None:
            problem = field_edit.edit_problem(self.workspace, edit)
            if problem is not None:
                self.box.tell(problem, wrong=bool(problem))

    def _drop(self) -> None:
        """Close the box because its field is no longer there to be edited; what was not taken goes into a file."""
        said = self.keep_unread()
        self._close()
        if said is not None:
            self.say(said, "warn")

    def keep_unread(self) -> str | None:
        """Put a text that cannot be read into a file."""
        if self._edit is None or not self._edit.fault:
            return None
        try:
            return put_into_file(self.workspace, self._edit, self.box.text)
        except OSError as problem:
            return f"{self._edit.name} was left as it was, what you wrote is lost: {problem.strerror}"

    # -- what can be done

    def do_edit(self) -> None:
        """Open the box with the field under the cursor, or go where it is edited."""
        key = self.lines.key
        if isinstance(key, tuple):
            go_to(self, key)
        elif key in fields.JUDGING:
            self.post_message(ShowPane("judges"))
        elif isinstance(key, str):
            self._open(key)

    async def do_external(self) -> None:
        """Hand the field to $EDITOR and take what it makes of it."""
        self._edit_count += 1
        await edit_externally(self, str(self.lines.key), self._edit_count)

    async def do_field(self) -> None:
        """Choose a field that is not given, and edit it."""
        name = await choose_field(self)
        if name is not None:
            self._open(name)

    def write(self, name: str) -> None:
        """Edit a field where one is now."""
        if self._edit is None or (self._edit.where, self._edit.name) != (self.workspace.where, name):
            self._open(name)

    def do_clear(self) -> None:
        """Take the field away."""
        name = str(self.lines.key)
        make_edit(self, lambda workspace: clear_field(workspace, name))

    def do_new(self) -> None:
        """A new item, to be written at once."""
        if make_edit(self, item_edits.new_item):
            self.write("prompt")

    def do_new_turn(self) -> None:
        """A new turn, to be written at once."""
        if make_edit(self, item_edits.new_turn):
            self.write("prompt")

    def do_duplicate(self) -> None:
        """A copy of the item or turn."""
        make_edit(self, item_edits.duplicate)

    def do_conversation(self) -> None:
        """Turns instead of one prompt, or back."""
        make_edit(self, item_edits.conversation)

    def do_next(self) -> None:
        """The next item or turn."""
        step_to_neighbour(self, 1)

    def do_previous(self) -> None:
        """The item or turn before."""
        step_to_neighbour(self, -1)


def _into_view(lines: Lines) -> None:
    start = stop = lines.cursor
    while stop + 1 < len(lines.rows) and lines.rows[stop + 1].key is None:
        stop += 1
    room = lines.size.height
    height, top = min(stop - start + 1, room), lines.scroll_offset.y
    if height and not top <= start <= top + room - height:
        lines.scroll_to(y=start if start < top else start + height - room, animate=False)
