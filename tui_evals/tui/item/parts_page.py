"""A page of parts: a field that holds several things, each of them a row that is edited, moved and taken away."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from functools import partial
from typing import Any

from tui_evals.datasets import parts
from tui_evals.datasets.layout import Path as Place
from tui_evals.datasets.parts import Part, Shape, parts_of, shape_of
from tui_evals.datasets.paths import CannotEdit
from tui_evals.datasets.problems import Problem, path_text
from tui_evals.present.columns import cell_width
from tui_evals.text.safe import safe, safe_line
from tui_evals.tui.pane import Pane
from tui_evals.tui.rows import Piece, Row, fit, row
from tui_evals.tui.widgets.dialogs import Ask, Entry, Menu
from tui_evals.tui.workspace import Workspace

from .fields import field_about, place_of, value_at, why_not_here, with_value
from .rows import LEAST_LINES, Line, fair_share, headline, preview, problem_rows, sentence_rows

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
    """Whether a field where one is has a page of its parts."""
    return shape_of(field, value_at(workspace.data, workspace.where, field)) is not None


def has_page(workspace: Workspace, field: str) -> bool:
    """Whether the page of a field can go on being shown: it holds parts, or none yet."""
    return is_compound(workspace, field) or value_at(workspace.data, workspace.where, field) is None


def parts_at(workspace: Workspace, field: str) -> list[Part]:
    """The parts of a field where one is."""
    shape, value = _taken_apart(workspace, field)
    return parts_of(shape, value)


def _taken_apart(workspace: Workspace, field: str) -> tuple[Shape, Any]:
    value = value_at(workspace.data, workspace.where, field)
    shape = shape_of(field, value) or ("texts" if value is None else None)  # the last text of a list was taken away
    if shape is None:
        raise CannotEdit(f"{field} cannot be taken apart any more; esc, then v edits it as JSON")
    return shape, value


def part_rows(workspace: Workspace, field: str, width: int, lit: Hashable = None, height: int = 0) -> list[Row]:
    """The parts of a field, each with its problems; the key of a row is the number of its part.

    Where all of it does not fit the height, long parts share what the others leave them.
    """
    try:
        shape, value = _taken_apart(workspace, field)
    except CannotEdit as problem:
        return sentence_rows(str(problem), "warn", width, key="empty")
    made = parts_of(shape, value)
    column = min(max((cell_width(safe(part.label)) for part in made), default=0) + 2, _COLUMN, width // 3)

    def previews(most: int) -> list[list[Line]]:
        return [preview("", part.value if part.value != "" else None, width - column, most=most) for part in made]

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
    parts_shown: Sequence[tuple[Part, list[Line]]],
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
        return f"a {_WORDS[shape]} has no name or role of its own beside what enter edits"
    if action in ("down", "up") and shape == "pairs":
        return "the order of these says nothing"
    return None


def number_of(workspace: Workspace, field: str, place: Place) -> int | None:
    """The number of the part that holds a place in the value of a field; None where there is none."""
    entries = [part.place[0] for part in parts_at(workspace, field)] if place and is_compound(workspace, field) else []
    return entries.index(place[0]) if place and place[0] in entries else None


def writable_parts(workspace: Workspace, field: str) -> list[int]:
    """The numbers of the parts that can be edited in place; none of a field that has no parts."""
    if not is_compound(workspace, field):
        return []
    return [
        number
        for number in range(len(parts_at(workspace, field)))
        if why_not_part(workspace, field, "edit", number) is None
    ]


async def _ask_pair_name(pane: Pane, field: str) -> str | None:
    """The name of a new value: one that other items have and this one has not, or another; None to leave it."""
    taken = {part.label for part in parts_at(pane.workspace, field)}
    known = dict.fromkeys(name for name in _names_elsewhere(pane.workspace, field) if name not in taken)

    def typed(text: str) -> Entry | None:
        name = text.strip()
        if not name or name in known:
            return None
        return Entry(name, name, "a new name", why_not=parts.why_not_name(name, taken) or "")

    name: str | None = await pane.app.push_screen_wait(
        Menu(
            "the name of the new value",
            [Entry(name, name, "other items have it") for name in known],
            empty="type a name",
            typed=typed,
        )
    )
    return name


def _names_elsewhere(workspace: Workspace, field: str) -> list[str]:
    units = [workspace.data, *workspace.items[:1000]]
    values = [unit.get(field) for unit in units if isinstance(unit, dict)]
    return [name for value in values if isinstance(value, dict) for name in value]


async def another_name(pane: Pane, field: str, number: int) -> Callable[[Workspace, str, int], str] | None:
    """The change of a name one is asked for, or of a role, which there are few of; None to leave it."""
    shape, value = _taken_apart(pane.workspace, field)
    if shape != "pairs":
        return turn_role
    old = parts_of(shape, value)[number].label
    taken = value.keys() - {old}
    answer = await pane.app.push_screen_wait(
        Ask("another name", old, check=lambda text: parts.why_not_name(text.strip(), taken))
    )
    # What a terminal must not be sent stands in the line as a picture, which nobody wants for a name.
    return None if answer in (None, safe_line(old)) else partial(rename_part, name=str(answer).strip())


async def begin_part(pane: Pane, field: str, number: int, mark: str) -> bool:
    """Begin a part at a position, once it has the name it needs; False when it was thought better of."""
    shape, _ = _taken_apart(pane.workspace, field)
    name = await _ask_pair_name(pane, field) if shape == "pairs" else ""
    if name is None:
        return False
    add_part(pane.workspace, field, number, name, mark)
    return True


def add_part(workspace: Workspace, field: str, number: int, name: str, mark: str) -> None:
    """A part to begin with at a position, as the beginning of the step in which it is written."""
    shape, value = _taken_apart(workspace, field)
    _set(workspace, field, parts.with_new_part(shape, value, number, name), f"add a {_WORDS[shape]}", mark)


def remove_part(workspace: Workspace, field: str, number: int) -> str:
    """Take a part away; a field without any is no longer given."""
    shape, value = _taken_apart(workspace, field)
    label = parts_of(shape, value)[number].label
    word = _WORDS[shape] if shape in ("messages", "texts") else label
    _set(workspace, field, parts.without_part(shape, value, number), f"take a {_WORDS[shape]} away")
    return f"took {word} {number + 1 if word != label else ''}".rstrip() + " away; u brings it back"


def copy_part(workspace: Workspace, field: str, number: int) -> str:
    """A copy of a part after it."""
    shape, value = _taken_apart(workspace, field)
    _set(workspace, field, parts.with_copied_part(shape, value, number), f"copy of a {_WORDS[shape]}")
    return f"copied {_WORDS[shape]} {number + 1}"


def move_part(workspace: Workspace, field: str, number: int, way: int) -> str:
    """Move a part one place on or back, as far as it can go."""
    shape, value = _taken_apart(workspace, field)
    _set(workspace, field, parts.with_moved_part(shape, value, number, way), f"move a {_WORDS[shape]}")
    there = min(max(number + way, 0), len(value) - 1)
    return f"{_WORDS[shape]} {there + 1} of {len(value)}"


def rename_part(workspace: Workspace, field: str, number: int, name: str) -> str:
    """Another name for a value."""
    shape, value = _taken_apart(workspace, field)
    _set(workspace, field, parts.with_renamed_part(value, number, name), "rename a value")
    return f"{parts_of(shape, value)[number].label} is {name} now"


def turn_role(workspace: Workspace, field: str, number: int) -> str:
    """The next role for a message."""
    _, value = _taken_apart(workspace, field)
    after = parts.with_next_role(value, number)
    _set(workspace, field, after, "change a role")
    return f"message {number + 1} is of the {after[number]['role']} now; c goes on"


def _set(workspace: Workspace, field: str, value: Any, what: str, mark: str | None = None) -> None:
    workspace.apply(with_value(workspace.data, workspace.where, field, value), f"{what} of {field}", mark)
