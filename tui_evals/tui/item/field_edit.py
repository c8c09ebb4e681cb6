"""One visit of the box a field is edited in: what can be read of the text is applied while it is typed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from tui_evals.datasets.editing import Editing
from tui_evals.datasets.layout import Path as Place
from tui_evals.datasets.paths import CannotEdit, same_data
from tui_evals.tui.workspace import Workspace

from .fields import Kind, Unreadable, first_text, kind_of, place_of, read_value, value_as_text, value_at, with_value


@dataclass(frozen=True, slots=True)
class FieldEdit:
    """The field that is being edited, and what became of the text so far."""

    editing: Editing
    where: Place
    name: str
    kind: Kind
    merge: str
    """One per visit, so that undo takes back a visit and not a letter."""
    value: Any
    """What the field holds since the last text that could be read."""
    fault: str = ""
    """Why the text in the box is not applied."""


def begin_edit(workspace: Workspace, name: str, number: int) -> tuple[FieldEdit, str]:
    """A visit of a field where one is, and the text that stands in the box at first."""
    assert workspace.editing is not None
    value = value_at(workspace.data, workspace.where, name)
    kind = kind_of(name, value)
    merge = f"{workspace.where}.{name} {number}"
    text = first_text(name) if value is None else value_as_text(kind, value)
    return FieldEdit(workspace.editing, workspace.where, name, kind, merge, value), text


def apply_text(workspace: Workspace, visit: FieldEdit, text: str) -> FieldEdit:
    """Apply a text as far as it can be read; else the field keeps what it held."""
    try:
        value = read_value(visit.kind, text)
        if same_data(value, visit.value):
            return replace(visit, fault="")
        data = with_value(workspace.data, visit.where, visit.name, value)
    except (Unreadable, CannotEdit) as problem:
        return replace(visit, fault=str(problem))
    workspace.apply(data, f"edit {visit.name}", visit.merge)
    return replace(visit, value=value_at(workspace.data, visit.where, visit.name), fault="")


def is_over(workspace: Workspace, visit: FieldEdit) -> bool:
    """Whether the field is no longer the one it was: one is elsewhere, or something else has changed it."""
    if workspace.editing is not visit.editing or workspace.where != visit.where:
        return True
    return not same_data(value_at(workspace.data, visit.where, visit.name), visit.value)


def edit_problem(workspace: Workspace, visit: FieldEdit) -> str | None:
    """What is wrong with the text in the box, or else with the field; None while validation has not seen it yet.

    Of a field that is still empty nothing is said: whoever has just opened it knows.
    """
    if visit.fault or visit.value in (None, ""):
        return visit.fault
    if workspace.reported != (id(visit.editing), visit.editing.version):
        return None
    return next((one.message for one in workspace.problems_at(place_of(visit.where, visit.name))), "")
