"""One visit of the box a field, or a part of one, is edited in: what can be read of the text is applied while typed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from tui_evals.datasets.editing import Editing
from tui_evals.datasets.layout import Layout
from tui_evals.datasets.layout import Path as Place
from tui_evals.datasets.paths import CannotEdit, get_at, same_data, set_at
from tui_evals.datasets.problems import path_text
from tui_evals.tui.workspace import Workspace

from .fields import Kind, Unreadable, first_text, kind_of, place_of, pretty, read_value, value_as_text, with_value

_MOST = 3


@dataclass(frozen=True, slots=True)
class FieldEdit:
    """What is being edited, and what became of the text so far."""

    editing: Editing
    where: Place
    field: str
    part: Place
    """Where in the value of the field what is edited stands; nothing where it is all of it."""
    kind: Kind
    merge: str
    """One per visit, so that undo takes back a visit and not a letter."""
    value: Any
    """What it holds since the last text that could be read."""
    text: str
    """That text."""
    fault: str = ""
    """Why the text in the box is not applied."""

    @property
    def name(self) -> str:
        """What is edited, as people write it: messages[0].content."""
        return path_text((self.field, *self.part))

    @property
    def place(self) -> Place:
        """Where it stands in the data."""
        return (*place_of(self.where, self.field), *self.part)


def begin_edit(
    workspace: Workspace, field: str, number: int, part: Place = (), *, as_json: bool = False
) -> tuple[FieldEdit, str]:
    """A visit of a field or a part of one where one is, and the text that stands in the box at first."""
    assert workspace.editing is not None
    where = workspace.where
    value = get_at(workspace.data, (*place_of(where, field), *part))
    if part:
        kind: Kind = "json" if as_json or not (value is None or isinstance(value, str)) else "text"
    else:
        kind = "json" if as_json else kind_of(field, value)
    if value is None:
        text = "" if part else first_text(field)
    else:
        text = pretty(value) if as_json else value_as_text(kind, value)
    return FieldEdit(
        workspace.editing, where, field, part, kind, visit_mark(workspace, field, number), value, text
    ), text


def visit_mark(workspace: Workspace, field: str, number: int) -> str:
    """What a visit is known by: a step that has the same one is undone together with it."""
    return f"{workspace.where}.{field} {number}"


def apply_text(workspace: Workspace, visit: FieldEdit, text: str) -> FieldEdit:
    """Apply a text as far as it can be read; else the field keeps what it held."""
    try:
        value = _read_part(visit.kind, text) if visit.part else read_value(visit.kind, text)
        if same_data(value, visit.value):
            return replace(visit, fault="", text=text)
        if visit.part:
            data = set_at(workspace.data, visit.place, value)
        else:
            data = with_value(workspace.data, visit.where, visit.field, value)
    except (Unreadable, CannotEdit) as problem:
        return replace(visit, fault=str(problem))
    workspace.apply(data, f"edit {visit.name}", visit.merge)
    return replace(visit, value=get_at(workspace.data, visit.place), fault="", text=text)


def _read_part(kind: Kind, text: str) -> Any:
    """The value of a part, which may be an empty text but not nothing."""
    if kind == "text":
        return text
    if not text.strip():
        raise Unreadable('JSON: a value is needed, such as ""; D takes the part away')
    return read_value(kind, text)


def is_over(workspace: Workspace, visit: FieldEdit) -> bool:
    """Whether it is no longer what it was: one is elsewhere, or something else has changed it."""
    if workspace.editing is not visit.editing or workspace.where != visit.where:
        return True
    return not same_data(get_at(workspace.data, visit.place), visit.value)


def edit_problem(workspace: Workspace, visit: FieldEdit) -> str | None:
    """What is wrong with the text in the box, or else with the value; None while validation has not seen it yet.

    Of a field that is still empty nothing is said: whoever has just opened it knows. In JSON it is said by line.
    """
    if visit.fault or visit.value in (None, ""):
        return visit.fault
    if workspace.reported != visit.editing.state:
        return None
    problems = workspace.problems_at(visit.place)
    if visit.kind not in ("json", "format") or not visit.text.lstrip().startswith(("{", "[")):
        return next((one.message for one in problems), "")
    layout, depth = Layout(visit.text), len(visit.place)
    lines = [f"line {layout.line(one.path[depth:])}: {one.message}" for one in problems]
    more = [f"… {len(lines) - _MOST} more"] if len(lines) > _MOST else []
    return "\n".join((*lines[:_MOST], *more))
