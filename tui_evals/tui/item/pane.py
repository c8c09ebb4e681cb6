"""Pane 2, the item: its fields, the box one of them is edited in, and the way through items and turns."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Hashable, Mapping
from functools import partial
from typing import Any, ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.timer import Timer

from tui_evals.datasets.attachments import pictures_of
from tui_evals.datasets.fields import shape_of
from tui_evals.datasets.paths import Path as DataPath
from tui_evals.datasets.paths import get_at
from tui_evals.tui import editing
from tui_evals.tui.actions import Where, bindings
from tui_evals.tui.completion import Completer
from tui_evals.tui.editing import copy_menu, copyable_values, edit_whole_items, go_to, neighbour_unit, step_to_neighbour
from tui_evals.tui.item import field_edit, forms, rows
from tui_evals.tui.item.field_edit import (
    FieldEdit,
    choose_field,
    clear_field,
    edit_externally,
    items_to_edit,
    make_edit,
    put_into_file,
    value_under_cursor,
    why_not,
)
from tui_evals.tui.item.rows import JUDGING, page_rows, read_only, shown_fields, title, value_at, why_not_here
from tui_evals.tui.messages import ItemShown, Place, SaveDataset, ShowPane
from tui_evals.tui.pane import Pane
from tui_evals.tui.pictures import NO_PICTURE, show_pictures
from tui_evals.tui.widgets.dialogs import unread_menu
from tui_evals.tui.widgets.field import FieldBox, Then
from tui_evals.tui.widgets.inputs import give_keys
from tui_evals.tui.widgets.lines import Lines
from tui_evals.tui.workspace import Selection, Workspace


def neighbour_field(workspace: Workspace, name: str, way: int) -> tuple[DataPath, str] | None:
    """The next or previous field, in the next item or turn past the last; None at either end."""
    names = writable_fields(workspace, workspace.where, name)
    place = names.index(name) + way if name in names else -1
    if 0 <= place < len(names):
        return workspace.where, names[place]
    there = neighbour_unit(workspace, way)
    beyond = writable_fields(workspace, there) if there is not None else []
    return (there, beyond[0 if way > 0 else -1]) if there is not None and beyond else None


def _in_form(name: str, value: Any) -> bool:
    return shape_of(name, value) is None and forms.has_form(name, value)


def writable_fields(workspace: Workspace, where: DataPath, also: str | None = None) -> list[str]:
    """The fields of a unit that can be edited in place, and `also`; empty if it is not an object."""
    unit = get_at(workspace.data, where) if where else workspace.data
    if not isinstance(unit, dict):
        return []
    return [
        name
        for name in shown_fields(unit, where, also)
        if name not in JUDGING
        and not _in_form(name, value_at(workspace.data, where, name))
        and read_only(name, where) is None
        and why_not_here(name, value_at(workspace.data, where, name)) is None
    ]


_SOON = 0.2
_END = {
    1: "this was the last field of the last item: esc, then n makes another",
    -1: "this is the first field of all",
}


class EditorPane(Pane):
    """The current place: the dataset itself, an item or a turn."""

    place: ClassVar[Place] = "editor"
    number: ClassVar[int] = 2
    name_: ClassVar[str] = "Item"
    BINDINGS: ClassVar[list[BindingType]] = [*bindings("editor")]

    _edit: FieldEdit | None = None
    _edit_count = 0
    _soon: Timer | None = None
    _shown: tuple[object, DataPath] = (None, ())
    _page: tuple[object, DataPath, str] | None = None
    """The field whose parts are shown in place of the fields, and where it was when they were asked for."""

    def compose(self) -> ComposeResult:
        yield Lines(id="fields", by_height=True)
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
        """Show the current place; the box stays open if its field is still there."""
        workspace, before = self.workspace, self._shown
        if self._edit is not None and field_edit.is_over(workspace, self._edit):
            self._drop()
        self._tell()
        self._shown = (workspace.editing, workspace.where)
        moved = before != self._shown
        edit, page, name, lines = self._edit, self.page, title(workspace), self.lines
        if page is not None:
            part = None if edit is None else field_edit.number_of(workspace, page, edit.part)
            lines.show(lambda width: field_edit.part_rows(workspace, page, width, part, lines.size.height), at=part)
            self.entitle(f"{name} · {page}")
            return
        lit = edit.field if edit else None
        lines.show(
            lambda width: page_rows(workspace, width, lit, lines.size.height),
            at=lit or (self._landing() if moved else None),
        )
        self.entitle(name)

    @property
    def page(self) -> str | None:
        """The field whose parts are shown; None where the fields are."""
        if self._page is None or self._page[:2] != (self.workspace.editing, self.workspace.where):
            return None
        return self._page[2] if field_edit.has_page(self.workspace, self._page[2]) else None

    def _turn_to(self, field: str | None) -> None:
        """Show the parts of a field, or the fields again."""
        self._page = None if field is None else (self.workspace.editing, self.workspace.where, field)

    def _landing(self) -> Hashable:
        """The row for the cursor on another item: its field of before if there is one, else the question."""
        key, unit, where = self.lines.key, self.workspace.unit or {}, self.workspace.where
        if key in rows.shown_fields(unit, where):
            return key
        return (*where, "turns", 0) if len(where) == 2 and unit.get("turns") else "prompt"

    def on_lines_moved(self, event: Lines.Moved) -> None:
        """Bring all of a field into view, not only its name."""
        event.stop()
        event.lines.reveal()

    def on_lines_chosen(self, event: Lines.Chosen) -> None:
        event.stop()
        self.action_act("edit")

    def focus_lines(self) -> None:
        if self._edit is not None:
            self.box.focus_text()
        else:
            give_keys(self.lines)

    @property
    def keys_place(self) -> Where:
        return "editor" if self._edit is None else "field"

    def selection(self) -> Selection | None:
        number = self.workspace.item
        if self.workspace.editing is None:
            return None
        return Selection() if number is None else Selection((number,), f"item {self.workspace.name_of(number)}")

    @property
    def writing(self) -> bool:
        return self._edit is not None

    def why_not(self, action: str) -> str | None:
        if self._edit is not None:
            return "esc ends the field that is being edited first"
        if action == "pictures":
            return None if self._pictures() else NO_PICTURE
        page, key = self.page, self.lines.key
        if page is not None and action in field_edit.ACTIONS:
            return field_edit.why_not_part(self.workspace, page, action, key)
        return why_not(self.workspace, action, key)

    def escape(self) -> bool:
        page = self.page
        if self._edit is not None:
            self.box.do_done()
        elif page is not None:
            self._turn_to(None)
            self.sync()
            self.lines.to_key(page)
        return self._edit is not None or page is not None

    def would_be_lost(self) -> str | None:
        edit = self._edit
        if edit is None or not edit.fault:
            return None
        return f"the text of {edit.name} would only be in a file, because it is not valid: {edit.fault}"

    # -- the box

    def _open(self, field: str, number: int | None = None, *, as_json: bool = False) -> None:
        """Open the box with a field, or with a part of the one whose parts are shown."""
        self._edit_count += 1
        workspace, part, about = self.workspace, None, rows.field_about(field, self.workspace.where)
        if number is not None:
            part = field_edit.parts_at(workspace, field)[number]
            about = part.label
        place = () if part is None else part.place[:1] if as_json else part.place
        self._edit, text = field_edit.begin_edit(workspace, field, self._edit_count, place, as_json=as_json)
        kind = self._edit.kind
        self.box.begin(
            f"{field} · {about}" if about else field,
            text,
            one_line=kind in ("line", "number"),
            json=kind in ("json", "format"),
            complete=Completer(workspace, field),
        )
        if text.startswith("{") and (part is not None or text == rows.first_text(field)):
            self.box.to_index(1)
        self.sync()
        self.call_after_refresh(self.lines.to_key, field if number is None else number)

    def on_field_box_typed(self, event: FieldBox.Typed) -> None:
        """Apply what can be read, and have it shown soon."""
        event.stop()
        if self._edit is not None:
            self._type(event.text)
            self._tell()

    def on_field_box_ended(self, event: FieldBox.Ended) -> None:
        """Move on after the text is applied; asks about an invalid one, so that it is not lost."""
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
        """Finish the field: go to the next one, or leave the box."""
        assert self._edit is not None
        if then in ("next", "previous"):
            self._walk(1 if then == "next" else -1)
        else:
            self._close()
        self._announce()
        if then == "save":
            self.post_message(SaveDataset())

    def _walk(self, way: int) -> None:
        """Go to the next or previous part or field; a field with several parts is walked through."""
        assert self._edit is not None
        edit, workspace = self._edit, self.workspace
        numbers = field_edit.writable_parts(workspace, edit.field) if edit.part else []
        here = field_edit.number_of(workspace, edit.field, edit.part)
        beyond = [number for number in numbers[::way] if here is not None and (number - here) * way > 0]
        if beyond:
            self._open(edit.field, beyond[0])
            return
        if edit.part and way > 0:
            mark = field_edit.visit_mark(workspace, edit.field, self._edit_count + 1)
            missing = field_edit.add_missing_value(workspace, edit.field, mark)
            if missing is not None:
                self._open(edit.field, missing)
                return
        there = neighbour_field(workspace, edit.field, way)
        if there is None:
            self.say(_END[way], "warn")
            if edit.fault:
                self._open(edit.field, here, as_json=edit.kind == "json")
            return
        workspace.where, field = there
        within = field_edit.writable_parts(workspace, field)
        self._turn_to(field if within else None)
        self._open(field, within[0 if way > 0 else -1] if within else None)
        self.post_message(ItemShown())

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
        """Post the changes typed so far."""
        if self._soon is not None:
            self._soon.stop()
            self._soon = None
        self.changed()

    def _tell(self) -> None:
        """Show the problem of the field next to the box."""
        edit = self._edit
        if edit is not None:
            problem = field_edit.edit_problem(self.workspace, edit)
            if problem is not None:
                self.box.tell(problem, wrong=bool(problem))

    def _drop(self) -> None:
        """Close the box because its field no longer exists; text that was not applied goes into a file."""
        said = self.keep_unread()
        self._close()
        if said is not None:
            self.say(said, "warn")

    def keep_unread(self) -> str | None:
        if self._edit is None or not self._edit.fault:
            return None
        try:
            return put_into_file(self.workspace, self._edit, self.box.text)
        except OSError as problem:
            return f"{self._edit.name} was left as it was, what you wrote is lost: {problem.strerror}"

    # -- what can be done

    def _pictures(self) -> list[Mapping[str, Any]]:
        return pictures_of(self.workspace.unit or self.workspace.data)

    async def do_pictures(self) -> None:
        opened = self.workspace.editing
        await show_pictures(self, opened.document.file.parent if opened else None, self._pictures())

    def do_edit(self) -> Coroutine[Any, Any, None] | None:
        key, page = self.lines.key, self.page
        if page is not None:
            if not isinstance(key, int):
                return self.do_field()
            if forms.part_has_form(field_edit.parts_at(self.workspace, page)[key].value):
                return forms.edit_part(self, page, key)
            self._open(page, key)
        elif isinstance(key, tuple):
            go_to(self, key)
        elif key in rows.JUDGING:
            self.post_message(ShowPane("judges"))
        elif isinstance(key, str) and field_edit.is_compound(self.workspace, key):
            self._turn_to(key)
            self.sync()
            self.lines.to_key(0)
        elif isinstance(key, str) and _in_form(key, value_at(self.workspace.data, self.workspace.where, key)):
            return forms.edit_in_form(self, key)
        elif isinstance(key, str):
            self._open(key)
        return None

    def do_json(self) -> None:
        key, page = self.lines.key, self.page
        if page is None:
            self._open(str(key), as_json=True)
        elif isinstance(key, int):
            self._open(page, key, as_json=True)

    async def do_external(self) -> None:
        self._edit_count += 1
        key, page = self.lines.key, self.page
        if page is None:
            await edit_externally(self, str(key), self._edit_count)
        elif isinstance(key, int):
            part = field_edit.parts_at(self.workspace, page)[key].place
            await edit_externally(self, page, self._edit_count, part)

    async def do_copy(self) -> None:
        under_cursor = value_under_cursor(self.workspace, self.page, self.lines.key)
        await copy_menu(self, under_cursor | copyable_values(self.workspace))

    async def do_whole(self) -> None:
        await edit_whole_items(self, items_to_edit(self.workspace))

    async def do_field(self) -> None:
        field = self.page or await choose_field(self)
        if field is None:
            return
        if self.page is None and _in_form(field, None):
            await forms.edit_in_form(self, field)
            return
        if not field_edit.is_compound(self.workspace, field) and self.page is None:
            self._open(field)
            return
        key = self.lines.key
        number = key + 1 if self.page and isinstance(key, int) else 0
        if field == "tools":
            if await forms.add_tool(self, field, number):
                self._turn_to(field)
                self.sync()
                self.lines.to_key(number)
            return
        mark = field_edit.visit_mark(self.workspace, field, self._edit_count + 1)
        if await field_edit.begin_part(self, field, number, mark):
            self._turn_to(field)
            self._open(field, number)

    def write(self, name: str) -> None:
        """Edit a field of the current place."""
        if self._edit is None or (self._edit.where, self._edit.field) != (self.workspace.where, name):
            self._open(name)

    def do_clear(self) -> None:
        name = str(self.lines.key)
        if self.page is None:
            make_edit(self, lambda workspace: clear_field(workspace, name))
        else:
            self._change_part(field_edit.remove_part)

    def _change_part(self, change: Callable[[Workspace, str, int], str], by: int = 0) -> None:
        """Change the part under the cursor, which goes along with it."""
        page, key = self.page, self.lines.key
        if page is not None and isinstance(key, int):
            make_edit(self, lambda workspace: change(workspace, page, key))
            self.sync()
            self.lines.to_key(min(max(key + by, 0), len(field_edit.parts_at(self.workspace, page)) - 1))

    def do_down(self) -> None:
        self._change_part(partial(field_edit.move_part, way=1), 1)

    def do_up(self) -> None:
        self._change_part(partial(field_edit.move_part, way=-1), -1)

    async def do_rename(self) -> None:
        page, key = self.page, self.lines.key
        if page is not None and isinstance(key, int):
            change = await field_edit.another_name(self, page, key)
            if change is not None:
                self._change_part(change)

    def do_new(self) -> None:
        if make_edit(self, editing.new_item):
            self.write("prompt")

    def do_new_turn(self) -> None:
        if make_edit(self, editing.new_turn):
            self.write("prompt")

    def do_duplicate(self) -> None:
        if self.page is None:
            make_edit(self, editing.duplicate)
        else:
            self._change_part(field_edit.copy_part, 1)

    def do_conversation(self) -> None:
        make_edit(self, editing.conversation)

    def do_next(self) -> None:
        step_to_neighbour(self, 1)

    def do_previous(self) -> None:
        step_to_neighbour(self, -1)
