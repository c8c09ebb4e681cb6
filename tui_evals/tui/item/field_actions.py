"""What can be done with the fields of an item, and why not: given, taken away, handed to $EDITOR, kept in a file."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

from tui_evals.datasets.layout import Path as UnitPath
from tui_evals.datasets.paths import CannotEdit
from tui_evals.datasets.problems import path_text
from tui_evals.tui import external_editor
from tui_evals.tui.item_edits import NO_ITEM, NOT_OPEN
from tui_evals.tui.kept import keep_text
from tui_evals.tui.pane import Pane
from tui_evals.tui.widgets.dialogs import Entry, Menu
from tui_evals.tui.workspace import Workspace

from . import field_edit, fields, parts_page
from .field_edit import FieldEdit


def why_not(workspace: Workspace, action: str, key: Hashable) -> str | None:
    """Why an action cannot be done with the row of this key; None when it can."""
    if workspace.editing is None:
        return NOT_OPEN
    broken = bool(workspace.where) and workspace.unit is None
    if action in ("new_turn", "duplicate", "conversation") and not workspace.where:
        return NO_ITEM
    if action == "whole":
        return None if items_to_edit(workspace) else NO_ITEM
    if action in _OF_PARTS:
        return "enter on a field of several parts (variables, messages, ideal, tools) shows them first"
    if action in ("field", *_OF_A_FIELD) and broken:
        return "what stands here is no object; mend it in the file"
    return _why_not_field(workspace, action, key) if action in _OF_A_FIELD else None


_OF_A_FIELD = ("edit", "external", "json", "clear")
_OF_PARTS = ("down", "up", "rename")


def items_to_edit(workspace: Workspace) -> list[int]:
    """The marked items, else the one one is in."""
    return sorted(workspace.marks) or ([] if workspace.item is None else [workspace.item])


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
    if action == "edit" and parts_page.is_compound(workspace, key):
        return None
    if action in ("edit", "json"):
        return fields.why_not_here(key, value, as_json=action == "json")
    return _why_not_clear(workspace, key, value) if action == "clear" else None


def _why_not_clear(workspace: Workspace, name: str, value: object) -> str | None:
    if value is None:
        return f"there is no {name} to take away"
    if name == "prompt" and fields.prompt_is_needed(workspace.data, workspace.where):
        return "there must be a prompt; enter edits it"
    return None


async def edit_externally(pane: Pane, field: str, number: int, part: UnitPath = ()) -> None:
    """Hand a field, or a part, to $EDITOR and take what it makes of it; what cannot be taken is kept in a file."""
    try:
        edit, text = field_edit.begin_edit(pane.workspace, field, number, part)
    except RecursionError:
        pane.say(fields.too_deep(field), "warn")
        return
    name = edit.name
    suffix = fields.suffix_of(edit.kind, text)
    try:
        after = await external_editor.edit_in_editor(pane.app, text, suffix)
    except external_editor.NotEdited as problem:
        pane.say(str(problem), "warn")
        return
    if after is None:
        pane.say(f"{name} is as it was")
        return
    edit = field_edit.apply_text(pane.workspace, edit, after)
    if edit.fault:
        kept = external_editor.keep_in_file(after, suffix)
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


def value_under_cursor(workspace: Workspace, page: str | None, key: Hashable) -> dict[str, Any]:
    """The field of this row, or the part of a field, by its name; nothing where the row is neither."""
    if page is not None:
        parts = parts_page.parts_at(workspace, page)
        part = parts[key] if isinstance(key, int) and key < len(parts) else None
        return {} if part is None else {path_text((page, *part.place)): part.value}
    return {key: fields.value_at(workspace.data, workspace.where, key)} if isinstance(key, str) else {}
