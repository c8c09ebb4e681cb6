"""Edits fields in the box, part by part, or in $EDITOR; readable text is applied while it is typed."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Hashable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from tui_evals.datasets import fields
from tui_evals.datasets.editing import Editing
from tui_evals.datasets.fields import FieldPart, Shape, parts_of, shape_of
from tui_evals.datasets.paths import CannotEdit, Layout, Problem, get_at, path_text, same_data, set_at
from tui_evals.datasets.paths import Path as DataPath
from tui_evals.light_records import dataclass
from tui_evals.present.columns import cell_width
from tui_evals.text.safe import safe, safe_line
from tui_evals.tui import external_programs
from tui_evals.tui.editing import NO_ITEM, NOT_OPEN
from tui_evals.tui.external_programs import keep_text
from tui_evals.tui.item import rows
from tui_evals.tui.item.rows import (
    LEAST_LINES,
    Kind,
    Line,
    Unreadable,
    fair_share,
    field_about,
    first_text,
    headline,
    kind_of,
    place_of,
    pretty,
    preview,
    problem_rows,
    read_value,
    sentence_rows,
    tool_outline,
    value_as_text,
    value_at,
    why_not_here,
    with_value,
)
from tui_evals.tui.pane import Pane
from tui_evals.tui.rows import Piece, Row, fit, row
from tui_evals.tui.widgets.dialogs import Ask, Entry, Menu
from tui_evals.tui.workspace import Workspace

_MOST = 3


@dataclass(frozen=True, slots=True)
class FieldEdit:
    """The field that is being edited, and the state of its text."""

    editing: Editing
    where: DataPath
    field: str
    part: DataPath
    """The path of the edited part in the value of the field; empty for all of it."""
    kind: Kind
    merge: str
    """One for each visit, so that undo reverts a visit and not a letter."""
    value: Any
    """The value of the last text that was valid."""
    text: str
    """The text of the edited value."""
    fault: str = ""
    """Why the text in the box is not applied."""

    @property
    def name(self) -> str:
        """The field's path in readable form: messages[0].content."""
        return path_text((self.field, *self.part))

    @property
    def place(self) -> DataPath:
        """The field's path in the data."""
        return (*place_of(self.where, self.field), *self.part)


def begin_edit(
    workspace: Workspace, field: str, number: int, part: DataPath = (), *, as_json: bool = False
) -> tuple[FieldEdit, str]:
    """Start editing a field or a part of it at the current place; returns the edit and the initial text."""
    assert workspace.editing is not None
    where = workspace.where
    value = get_at(workspace.data, (*place_of(where, field), *part))
    if part:
        kind: Kind = "json" if as_json else "text" if value is None or isinstance(value, str) else "value"
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
    """Identifies the visit; steps with equal ids are undone together."""
    return f"{workspace.where}.{field} {number}"


def apply_text(workspace: Workspace, visit: FieldEdit, text: str) -> FieldEdit:
    """Apply a text if it is valid; otherwise the field keeps its value."""
    try:
        value = _read_part(visit.kind, text) if visit.part else read_value(visit.kind, text)
        if same_data(value, visit.value):
            return replace(visit, fault="", text=text)
        if visit.field == "testId" and (other := _item_with(workspace, value, visit.where)) is not None:
            return replace(visit, fault=f"testId {safe_line(value, 40)} is already that of item {other + 1}")
        if visit.part:
            data = set_at(workspace.data, visit.place, value)
        else:
            data = with_value(workspace.data, visit.where, visit.field, value)
    except (Unreadable, CannotEdit) as problem:
        return replace(visit, fault=str(problem))
    workspace.apply(data, f"edit {visit.name}", visit.merge)
    return replace(visit, value=get_at(workspace.data, visit.place), fault="", text=text)


def _item_with(workspace: Workspace, name: object, where: DataPath) -> int | None:
    """The number of another item that has a test id."""
    if not isinstance(name, str) or not name:
        return None
    others = (number for number, item in enumerate(workspace.items) if ("items", number) != where[:2])
    return next(
        (one for one in others if isinstance(item := workspace.items[one], dict) and item.get("testId") == name), None
    )


def _read_part(kind: Kind, text: str) -> Any:
    """The value of a part, which may be an empty text but not nothing."""
    if kind in ("text", "value"):
        return read_value(kind, text) if text.strip() else text
    if not text.strip():
        raise Unreadable('JSON: a value is needed, such as ""; D takes the part away')
    return read_value(kind, text)


def is_over(workspace: Workspace, visit: FieldEdit) -> bool:
    """Whether it is outdated: the current place or the value has changed."""
    if workspace.editing is not visit.editing or workspace.where != visit.where:
        return True
    return not same_data(get_at(workspace.data, visit.place), visit.value)


def edit_problem(workspace: Workspace, visit: FieldEdit) -> str | None:
    """The problem of the text in the box, otherwise of the value; None until it is validated. Empty fields have none;
    JSON problems are shown by line.
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


_WORDS: dict[Shape, str] = {"pairs": "value", "messages": "message", "texts": "text", "tools": "tool"}
_KEYS: dict[Shape, str] = {
    "pairs": "enter edits · a adds · D deletes · c name · v JSON · esc back",
    "messages": "enter edits · a adds · D deletes · J K move · c role · v JSON · esc back",
    "texts": "enter edits · a adds · D deletes · J K move · esc back",
    "tools": "enter edits · a adds · D deletes · J K move · esc back",
}
_COLUMN = 18
_OF_ONE = frozenset(("external", "json", "clear", "duplicate", "down", "up", "rename"))
ACTIONS = _OF_ONE | {"edit", "field"}
"""The actions of the pane that are about parts while they are shown."""


def is_compound(workspace: Workspace, field: str) -> bool:
    """Whether a field of the current place has a page of its parts."""
    return shape_of(field, value_at(workspace.data, workspace.where, field)) is not None


def has_page(workspace: Workspace, field: str) -> bool:
    """Whether the page of a field can continue being shown: it holds parts, or none yet."""
    return is_compound(workspace, field) or value_at(workspace.data, workspace.where, field) is None


def parts_at(workspace: Workspace, field: str) -> list[FieldPart]:
    """The parts of a field of the current place."""
    shape, value = _taken_apart(workspace, field)
    return parts_of(shape, value)


def _taken_apart(workspace: Workspace, field: str) -> tuple[Shape, Any]:
    value = value_at(workspace.data, workspace.where, field)
    shape = shape_of(field, value) or ("texts" if value is None else None)  # the last text of a list was taken away
    if shape is None:
        raise CannotEdit(f"{field} can no longer be split; esc, then v edits it as JSON")
    return shape, value


def part_rows(workspace: Workspace, field: str, width: int, lit: Hashable = None, height: int = 0) -> list[Row]:
    """The parts of a field with their problems; the key of a row is the number of its part. If they do not fit the
    height, long parts share the remaining space.
    """
    try:
        shape, value = _taken_apart(workspace, field)
    except CannotEdit as problem:
        return sentence_rows(str(problem), "warn", width, key="empty")
    made = parts_of(shape, value)
    column = min(max((cell_width(safe(part.label)) for part in made), default=0) + 2, _COLUMN, width // 3)

    shown = [tool_outline(part.value) if shape == "tools" else part.value for part in made]

    def previews(most: int) -> list[list[Line]]:
        return [preview("", one if one != "" else None, width - column, most=most) for one in shown]

    def page(values: list[list[Line]]) -> list[Row]:
        return _page_of_parts(workspace, field, shape, [*zip(made, values, strict=True)], column, width, lit)

    values = previews(max(height, LEAST_LINES))
    rows = page(values)
    if len(rows) <= height or not made:
        return rows
    lengths = [len(lines) for lines in values]
    return page(previews(fair_share(lengths, height - (len(rows) - sum(lengths)))))


def _page_of_parts(
    workspace: Workspace,
    field: str,
    shape: Shape,
    parts_shown: Sequence[tuple[FieldPart, list[Line]]],
    column: int,
    width: int,
    lit: Hashable,
) -> list[Row]:
    count = f"{len(parts_shown)} {_WORDS[shape]}{'s' if len(parts_shown) != 1 else ''}"
    rows = [row((f"{headline(workspace)} · ", "dim"), (field, "strong"), (f" · {count}", "dim"))]
    rows += sentence_rows(field_about(field, workspace.where), "dim", width)
    rows += [*sentence_rows(_KEYS[shape], "dim", width), row()]
    place = place_of(workspace.where, field)
    problems = workspace.problems_at(place)
    rows += problem_rows([one for one in problems if one.path == place], len(place), width)
    for number, (part, (first, *rest)) in enumerate(parts_shown):
        label = fit(part.label, column - 1, "accent" if number == lit else "strong")
        rows.append(Row((label, Piece(" "), *first), number))
        rows += [Row((Piece(" " * column), *line)) for line in rest]
        rows += problem_rows(_problems_of(problems, (*place, part.place[0])), len(place) + len(part.place), width)
    if not parts_shown:
        rows.append(row((f"no {_WORDS[shape]} yet; a adds one", "dim"), key="empty"))
    return rows


def _problems_of(problems: list[Problem], place: tuple[str | int, ...]) -> list[Problem]:
    return [one for one in problems if one.path[: len(place)] == place]


def why_not_part(workspace: Workspace, field: str, action: str, key: Hashable) -> str | None:
    """Why an action cannot be done with a part; None when it can."""
    shape, value = _taken_apart(workspace, field)
    made = parts_of(shape, value)
    if not isinstance(key, int) or key >= len(made):
        return f"there is no {_WORDS[shape]} yet; a adds one" if action in _OF_ONE else None
    if action == "field":
        return None
    part = made[key]
    name = path_text((field, *part.place))
    if action == "edit":
        return why_not_here(name, part.value)
    if action == "json":
        return why_not_here(name, value[part.place[0]], as_json=True)
    if action == "rename" and shape not in ("pairs", "messages"):
        return f"a {_WORDS[shape]} has no name or role of its own besides what Enter edits"
    if action in ("down", "up") and shape == "pairs":
        return "the order of these says nothing"
    return None


def number_of(workspace: Workspace, field: str, place: DataPath) -> int | None:
    """The number of the part that holds a place in the value of a field; None where there is none."""
    entries = [part.place[0] for part in parts_at(workspace, field)] if place and is_compound(workspace, field) else []
    return entries.index(place[0]) if place and place[0] in entries else None


def writable_parts(workspace: Workspace, field: str) -> list[int]:
    """The numbers of the parts that can be edited in place; none of a field that has no parts."""
    if not is_compound(workspace, field):
        return []
    return [
        number
        for number, part in enumerate(parts_at(workspace, field))
        if why_not_part(workspace, field, "edit", number) is None and not isinstance(part.value, (dict, list))
    ]


async def _ask_pair_name(pane: Pane, field: str) -> str | None:
    """The name of a new value: one that the item's texts or other items have, or a new one; None to cancel."""
    taken = {part.label for part in parts_at(pane.workspace, field)}
    known = known_names(pane.workspace, field, taken)

    def typed(text: str) -> Entry | None:
        name = text.strip()
        if not name or name in known:
            return None
        return Entry(name, name, "a new name", why_not=fields.why_not_name(name, taken) or "")

    name: str | None = await pane.app.push_screen_wait(
        Menu(
            "the name of the new value",
            [Entry(name, name, about) for name, about in known.items()],
            empty="type a name",
            typed=typed,
        )
    )
    return name


_USED = re.compile(r"\{\{\s*([A-Za-z_]\w*)\s*\}\}")
_TEXTS = ("prompt", "messages", "turns", "expected_response")


def known_names(workspace: Workspace, field: str, taken: Collection[str]) -> dict[str, str]:
    """Names that a value may get, and where each is from: `{{name}}` in the texts of the item first."""
    used = {name: "{{" + name + "}} is in a text of the item" for name in _used_names(workspace, field)}
    values = [one.get(field) for one in (workspace.data, *workspace.items[:1000]) if isinstance(one, dict)]
    elsewhere = {name: "other items have it" for value in values if isinstance(value, dict) for name in value}
    found = used | {name: about for name, about in elsewhere.items() if name not in used}
    return {name: about for name, about in found.items() if name not in taken}


def _used_names(workspace: Workspace, field: str) -> list[str]:
    """The names of variables that the texts of the item have, in their order."""
    unit = workspace.unit or {}
    texts = [json.dumps(unit.get(text)) for text in _TEXTS] if field in ("variables", "matrix") else []
    return list(dict.fromkeys(name for text in texts for name in _USED.findall(text)))


def add_missing_value(workspace: Workspace, field: str, mark: str) -> int | None:
    """Begin the value of a variable that a text of the item uses and nothing gives; its number, if there is one."""
    units = (workspace.unit, get_at(workspace.data, workspace.where[:2]), workspace.data)
    given = [one.get(name) for one in units if isinstance(one, dict) for name in ("variables", "matrix")]
    names = {name for value in given if isinstance(value, dict) for name in value}
    missing = next((name for name in _used_names(workspace, field) if name not in names), None)
    if missing is None or field != "variables":
        return None
    number = len(parts_at(workspace, field))
    add_part(workspace, field, number, missing, mark)
    return number


async def another_name(pane: Pane, field: str, number: int) -> Callable[[Workspace, str, int], str] | None:
    """The new name, asked for, or the new role, chosen from a few; None to cancel."""
    shape, value = _taken_apart(pane.workspace, field)
    if shape != "pairs":
        return turn_role
    old = parts_of(shape, value)[number].label
    taken = value.keys() - {old}
    answer = await pane.app.push_screen_wait(
        Ask("another name", old, check=lambda text: fields.why_not_name(text.strip(), taken))
    )
    # The input shows control characters as symbols, which must not get into a name.
    return None if answer in (None, safe_line(old)) else partial(rename_part, name=str(answer).strip())


async def begin_part(pane: Pane, field: str, number: int, mark: str) -> bool:
    """Start a part at a position, after asking for its name if it needs one; False if the user cancelled."""
    shape, _ = _taken_apart(pane.workspace, field)
    name = await _ask_pair_name(pane, field) if shape == "pairs" else ""
    if name is None:
        return False
    add_part(pane.workspace, field, number, name, mark)
    return True


def add_part(workspace: Workspace, field: str, number: int, name: str, mark: str) -> None:
    """A part to begin with at a position, as the beginning of the step in which it is written."""
    shape, value = _taken_apart(workspace, field)
    _set(workspace, field, fields.with_new_part(shape, value, number, name), f"add a {_WORDS[shape]}", mark)


def remove_part(workspace: Workspace, field: str, number: int) -> str:
    """Take a part away; a field without any is no longer given."""
    shape, value = _taken_apart(workspace, field)
    label = parts_of(shape, value)[number].label
    word = _WORDS[shape] if shape in ("messages", "texts") else label
    _set(workspace, field, fields.without_part(shape, value, number), f"take a {_WORDS[shape]} away")
    return f"took {word} {number + 1 if word != label else ''}".rstrip() + " away; u brings it back"


def copy_part(workspace: Workspace, field: str, number: int) -> str:
    """A copy of a part after it."""
    shape, value = _taken_apart(workspace, field)
    _set(workspace, field, fields.with_copied_part(shape, value, number), f"copy of a {_WORDS[shape]}")
    return f"copied {_WORDS[shape]} {number + 1}"


def move_part(workspace: Workspace, field: str, number: int, way: int) -> str:
    """Move a part one position up or down, within the bounds."""
    shape, value = _taken_apart(workspace, field)
    _set(workspace, field, fields.with_moved_part(shape, value, number, way), f"move a {_WORDS[shape]}")
    there = min(max(number + way, 0), len(value) - 1)
    return f"{_WORDS[shape]} {there + 1} of {len(value)}"


def rename_part(workspace: Workspace, field: str, number: int, name: str) -> str:
    """Another name for a value."""
    shape, value = _taken_apart(workspace, field)
    _set(workspace, field, fields.with_renamed_part(value, number, name), "rename a value")
    return f"{parts_of(shape, value)[number].label} is {name} now"


def turn_role(workspace: Workspace, field: str, number: int) -> str:
    """The next role for a message."""
    _, value = _taken_apart(workspace, field)
    after = fields.with_next_role(value, number)
    _set(workspace, field, after, "change a role")
    return f"message {number + 1} is of the {after[number]['role']} now; c changes it again"


def _set(workspace: Workspace, field: str, value: Any, what: str, mark: str | None = None) -> None:
    workspace.apply(with_value(workspace.data, workspace.where, field, value), f"{what} of {field}", mark)


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
        return "this is not an object; fix it in the file"
    return _why_not_field(workspace, action, key) if action in _OF_A_FIELD else None


_OF_A_FIELD = ("edit", "external", "json", "clear")
_OF_PARTS = ("down", "up", "rename")


def items_to_edit(workspace: Workspace) -> list[int]:
    """The marked items, else the current one."""
    return sorted(workspace.marks) or ([] if workspace.item is None else [workspace.item])


def _why_not_field(workspace: Workspace, action: str, key: Hashable) -> str | None:
    if isinstance(key, tuple):
        return None if action == "edit" else "enter goes there; what it holds is edited on its own page"
    if not isinstance(key, str):
        return "go to a field first"
    if locked := rows.read_only(key, workspace.where):
        return locked
    if key in rows.JUDGING:
        return None if action == "edit" else "evaluators are edited in their own pane: 3"
    value = rows.value_at(workspace.data, workspace.where, key)
    if action == "edit" and is_compound(workspace, key):
        return None
    if action in ("edit", "json"):
        return rows.why_not_here(key, value, as_json=action == "json")
    return _why_not_clear(workspace, key, value) if action == "clear" else None


def _why_not_clear(workspace: Workspace, name: str, value: object) -> str | None:
    if value is None:
        return f"there is no {name} to take away"
    if name == "prompt" and rows.prompt_is_needed(workspace.data, workspace.where):
        return "there must be a prompt; enter edits it"
    return None


async def edit_externally(pane: Pane, field: str, number: int, part: DataPath = ()) -> None:
    """Edit a field or part in $EDITOR and apply the result; an invalid result is kept in a file."""
    try:
        edit, text = begin_edit(pane.workspace, field, number, part)
    except RecursionError:
        pane.say(rows.too_deep(field), "warn")
        return
    name = edit.name
    suffix = rows.suffix_of(edit.kind, text)
    try:
        after = await external_programs.edit_in_editor(pane.app, text, suffix)
    except external_programs.NotEdited as problem:
        pane.say(str(problem), "warn")
        return
    if after is None:
        pane.say(f"{name} is as it was")
        return
    edit = apply_text(pane.workspace, edit, after)
    if edit.fault:
        kept = external_programs.keep_in_file(after, suffix)
        pane.say(f"{name} was left as it was: {edit.fault}; what you wrote is kept in {kept}", "error")
        return
    pane.say(f"{name} taken from the editor")
    pane.changed()


async def choose_field(pane: Pane) -> str | None:
    """Which field of those that can still be given here."""
    workspace = pane.workspace
    names = rows.addable_fields(workspace.unit or workspace.data, workspace.where)
    entries = [Entry(name, name, rows.field_about(name, workspace.where)) for name in names]
    name: str | None = await pane.app.push_screen_wait(
        Menu("add a field", entries, empty="the item has every possible field")
    )
    return name


def make_edit(pane: Pane, step: Callable[[Workspace], str]) -> bool:
    """Run an edit and report its message or its error; returns whether it succeeded."""
    try:
        outcome = step(pane.workspace)
    except CannotEdit as problem:
        pane.say(str(problem), "warn")
        return False
    pane.say(outcome)
    pane.changed()
    return True


def clear_field(workspace: Workspace, name: str) -> str:
    """Take a field away from the current place."""
    workspace.apply(rows.with_value(workspace.data, workspace.where, name, None), f"clear {name}")
    return f"took {name} away; u brings it back"


def put_into_file(workspace: Workspace, edit: FieldEdit, text: str) -> str:
    """Put a text that cannot be read into a file; the sentence that says where. OSError says why that cannot be."""
    file = keep_text(workspace.root, edit.name, rows.suffix_of(edit.kind, text), text)
    return f"what you wrote is kept in {file}; {edit.name} was left as it was"


def value_under_cursor(workspace: Workspace, page: str | None, key: Hashable) -> dict[str, Any]:
    """The field of this row, or the part of a field, by its name; nothing where the row is neither."""
    if page is not None:
        parts = parts_at(workspace, page)
        part = parts[key] if isinstance(key, int) and key < len(parts) else None
        return {} if part is None else {path_text((page, *part.place)): part.value}
    return {key: rows.value_at(workspace.data, workspace.where, key)} if isinstance(key, str) else {}
