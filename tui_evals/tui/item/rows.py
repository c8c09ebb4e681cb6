"""The fields of a dataset, item or turn: which there are, how values are read and shown, their problems."""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterator, Mapping, Sequence, Sized
from dataclasses import field
from itertools import islice
from typing import Any

from tui_evals.datasets.fields import (
    KINDS,
    RESULTS,
    Kind,
    Unreadable,
    parts_of,
    place_of,
    pretty,
    read_only,
    read_value,
    value_at,
    with_value,
)
from tui_evals.datasets.paths import Path as DataPath
from tui_evals.datasets.paths import Problem, get_at, path_text, same_data
from tui_evals.light_records import dataclass
from tui_evals.present.columns import cell_width
from tui_evals.text.measures import counted
from tui_evals.text.safe import safe, spell_out, without_sequences
from tui_evals.tui.rows import Piece, Row, Style, fit, row, wrapped
from tui_evals.tui.workspace import Workspace

__all__ = ["Kind", "Unreadable", "place_of", "pretty", "read_only", "read_value", "value_at", "with_value"]


"""The names that the pane imports from here and that need no screen."""

JUDGING = ("evaluators", "default_evaluators")

_BEGUN = {"extensions": "{}", "metadata.extensions": "{}"}
_UNIT = (
    *("prompt", "attachments", "user", "expected_response", "context", "messages", "variables", "matrix"),
    *("testId", "name", "description", "category", "tags", "notes", "ideal"),
    *("tools", "tool_results", "max_steps", "response_format"),
    *("weight", "threshold", "repeats", "other_questions"),
    *("allowed_tools", "allowed_tools_mode", "evaluators", "evaluators_mode", "extensions"),
)
_DATASET = (
    *("metadata.name", "metadata.description", "metadata.tags", "description", "prompt_file", "messages"),
    *("variables", "matrix", "tools", "tool_results", "tool_functions", "mcp", "max_steps", "response_format"),
    *("repeats", "default_allowed_tools", "default_evaluators"),
)
_ABOUT = {
    "description": "What it is about.",
    "metadata.name": "Display name of the dataset.",
    "metadata.description": "What the dataset is about.",
    "metadata.tags": "Words to find it by.",
    "metadata.extensions": "Anything else; kept as it is.",
    "default_allowed_tools": "Tools the target may use, where an item says nothing.",
    "tools": "Tool definitions sent to the model.",
    "max_steps": "How often the model is asked in a turn with tools; 10 if absent.",
    "response_format": "text, json, or a JSON Schema of the answer.",
    "repeats": "How often each item is asked.",
}
_LONG = 100_000


def shown_fields(unit: Mapping[str, Any], where: DataPath, also: str | None = None) -> list[str]:
    """The fields to show in the order people read them: the usual ones and `also`, others when they are there."""
    names = dict(_flat(unit) if not where else unit)
    if also is not None:
        names.setdefault(also, None)
    names.pop("items" if not where else "turns", None)
    always = {"metadata.name", "description"} if not where else {"prompt", "expected_response"}
    if len(where) == 2:
        always |= {"testId", "category"}
        if "turns" in unit:
            always -= {"prompt", "expected_response"}
        if "user" in unit:
            always -= {"prompt"}
    order = _UNIT if where else _DATASET
    known = [name for name in order if name in names or name in always]
    last = [name for name in (RESULTS if where else ("schemaVersion",)) if name in names]
    return [*known, *(name for name in names if name not in {*known, *last}), *last]


def _flat(data: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """The members of the dataset with those of its metadata among them."""
    for name, value in data.items():
        if name == "metadata" and isinstance(value, dict):
            yield from ((f"metadata.{key}", inner) for key, inner in value.items())
        else:
            yield name, value


def addable_fields(unit: Mapping[str, Any], where: DataPath) -> list[str]:
    """The fields of the model that can be given here and are not."""
    if not where:
        present = dict(_flat(unit))
        return [name for name in (*_DATASET, "metadata.extensions") if name not in present and name not in JUDGING]
    # Imported when needed, to keep the start fast.
    from tui_evals.datasets.model import TURN_ONLY_FIELDS, Item, Turn

    known = Turn.model_fields if len(where) > 2 else Item.model_fields
    barred = {"turns", *RESULTS, *JUDGING}
    if "turns" in unit:
        barred |= TURN_ONLY_FIELDS
    if "evaluators" not in unit:
        barred.add("evaluators_mode")
    return [name for name in _UNIT if name in known and name not in unit and name not in barred]


def field_about(name: str, where: DataPath) -> str:
    """The description of a field in the model."""
    from tui_evals.datasets.model import Dataset, Item, Turn  # when needed, as above

    model = (Turn if len(where) > 2 else Item) if where else Dataset
    field = model.model_fields.get(name)
    text = field.description if field else None
    return text or _ABOUT.get(
        name, "" if field or name.startswith("metadata.") else "A field the format does not know."
    )


def prompt_is_needed(data: dict[str, Any], where: DataPath) -> bool:
    """Whether a prompt cannot be taken away here."""
    return value_at(with_value(data, where, "prompt", None), where, "prompt") is not None


def kind_of(name: str, value: Any) -> Kind:
    """How a field is edited: as its name suggests, or otherwise if that would change its value."""
    usual = KINDS.get(name, "text" if value is None or isinstance(value, str) else "json")
    if value in (None, ""):
        return usual
    ways: tuple[Kind, ...] = (usual, "text") if isinstance(value, (dict, list)) else (usual, "text", "value")
    return next((kind for kind in ways if kind != "json" and _keeps(kind, value)), "json")


def _keeps(kind: Kind, value: Any) -> bool:
    try:
        return same_data(read_value(kind, value_as_text(kind, value)), value)
    except Unreadable:
        return False


def value_as_text(kind: Kind, value: Any) -> str:
    """The value as a text to edit."""
    if value in (None, ""):
        return ""
    if kind in ("lines", "few") and isinstance(value, list):
        return "\n".join(one if isinstance(one, str) else json.dumps(one) for one in value)
    if (
        kind in ("json", "number", "lines", "few") and not (kind == "few" and isinstance(value, str))
    ) or not isinstance(value, str):
        return pretty(value)
    return value


def first_text(name: str) -> str:
    """The initial text of the box for a field without a value."""
    return _BEGUN.get(name, "")


def why_not_here(name: str, value: Any, *, as_json: bool = False) -> str | None:
    """Why a field, or a part of one, cannot be edited in place but in $EDITOR; None when it can."""
    try:
        size = len(value) if isinstance(value, str) else len(json.dumps(value))
        text = "" if size > _LONG else pretty(value) if as_json else value_as_text(kind_of(name, value), value)
    except RecursionError:
        return too_deep(name)
    if max(size, len(text)) > _LONG:
        return f"{name} is {max(size, len(text)):,} characters long, too long to edit in place; e edits it in $EDITOR"
    if without_sequences(text) != text:
        return f"{name} holds control characters, which cannot be edited in place; e edits it in $EDITOR"
    return None


def too_deep(name: str) -> str:
    """The message about a value that cannot be serialized."""
    return f"{name} is nested too deeply to be edited here; edit the file itself"


def suffix_of(kind: Kind, text: str) -> str:
    """The suffix of the file for $EDITOR, for syntax highlighting."""
    structured = kind in ("json", "number") or (kind == "format" and text.lstrip().startswith("{"))
    return ".json" if structured else ".txt" if kind == "lines" else ".md"


_SHOWN = 8


@dataclass(frozen=True, slots=True)
class Faults:
    """The problems of a unit: its own, those of its fields, and those of the units in it."""

    own: list[Problem] = field(default_factory=list)
    fields: dict[str, list[Problem]] = field(default_factory=dict)
    units: dict[DataPath, list[Problem]] = field(default_factory=dict)


def faults(workspace: Workspace) -> Faults:
    """The problems at the current place from the last validation, by field."""
    sorted_faults, depth = Faults(), len(workspace.where)
    for problem in workspace.problems_at(workspace.where):
        rest = problem.path[depth:]
        if len(rest) > 1 and rest[0] in ("items", "turns"):
            unit = problem.path[: 4 if len(problem.path) > 3 and problem.path[2] == "turns" else 2]
            sorted_faults.units.setdefault(unit, []).append(problem)
        elif rest:
            inner = f".{rest[1]}" if not depth and rest[0] == "metadata" and len(rest) > 1 else ""
            sorted_faults.fields.setdefault(f"{rest[0]}{inner}", []).append(problem)
        else:
            sorted_faults.own.append(problem)
    return sorted_faults


def problem_rows(problems: Sequence[Problem], depth: int, width: int) -> list[Row]:
    """Problems in words, with the place inside the value where it has one."""
    rows: list[Row] = []
    for problem in problems[:_SHOWN]:
        inside = path_text(problem.path[depth:])
        text = f"{problem.severity}: {inside + ': ' if inside else ''}{problem.message}"
        rows += sentence_rows(text, "error" if problem.severity == "error" else "warn", width, indent=2)
    if len(problems) > _SHOWN:
        rows += sentence_rows(f"… {counted(len(problems) - _SHOWN, 'more problem')}", "dim", width, indent=2)
    return rows


def sentence_rows(text: str, style: Style, width: int, *, indent: int = 0, key: Hashable = None) -> list[Row]:
    """A sentence over as many lines as it needs; only the first can be chosen."""
    lines = wrapped(text, width - indent)
    return [row(" " * indent, (line, style), key=None if number else key) for number, line in enumerate(lines)]


_BEGIN = "ctrl+n creates one."
_COLUMN = 19
_BESIDE = 60
LEAST_LINES = 9
"""Lines that a long value is shown with at least, however many there are of them; the last says how much more."""
_UNITS = 20
_TURNS = 100
_JSON_LINES = 400

Line = tuple[Piece, ...]


def page_rows(workspace: Workspace, width: int, editing: str | None = None, height: int = 0) -> list[Row]:
    """All fields of the current place; `editing` is shown even if empty. If they do not fit the height, long values
    share the remaining space.
    """
    whole = _page_rows(workspace, width, editing, max(height, LEAST_LINES))
    if len(whole.rows) <= height or not whole.values:
        return whole.rows
    room = height - (len(whole.rows) - sum(whole.values))
    return _page_rows(workspace, width, editing, fair_share(whole.values, room)).rows


def fair_share(lengths: Sequence[int], room: int, least: int = LEAST_LINES) -> int:
    """The most lines for each of some values so that they fit a room together; short ones leave theirs to the long."""
    share, left = 0, room
    for place, length in enumerate(sorted(lengths)):
        share = left // (len(lengths) - place)
        if length > share:
            break
        left -= length
    return max(share, least)


@dataclass(slots=True)
class _Page:
    rows: list[Row] = field(default_factory=list)
    values: list[int] = field(default_factory=list)
    """How many lines each value takes of them, without that of its name."""


def _page_rows(workspace: Workspace, width: int, editing: str | None, most: int) -> _Page:
    """The page, with at most `most` lines for each value."""
    if workspace.editing is None:
        way = "1, then enter opens one. " if workspace.files else ""
        return _Page([row("No dataset is open.", key="empty"), row((way, "dim"), (_BEGIN, "dim"))])
    unit = workspace.unit if workspace.where else workspace.data
    if unit is None:
        text = f"{path_text(workspace.where)} is no object; fix it in the file"
        return _Page(sentence_rows(text, "error", width, key="broken"))
    unit_faults = faults(workspace)
    names = shown_fields(unit, workspace.where, editing)
    unit_faults.own.extend(one for name, some in unit_faults.fields.items() if name not in names for one in some)
    page = _Page(_head(workspace, unit, unit_faults, width))
    rows = page.rows
    begun = False
    for name in names:
        locked = read_only(name, workspace.where) is not None
        if locked and not begun and workspace.where:
            begun = True
            rows += [row(), row(("from a run", "dim"))]
        value = value_at(workspace.data, workspace.where, name)
        of_field = field_rows(name, value, width, dim=locked, lit=name == editing, most=most)
        page.values.append(len(of_field) - (width < _BESIDE))
        rows += of_field
        if name != editing or value:  # an unwritten field is no error
            rows += problem_rows(unit_faults.fields.get(name, ()), len(place_of(workspace.where, name)), width)
    if workspace.where:
        rows += _turn_rows(workspace, unit, unit_faults, width)
        return page
    rows += _unit_rows(workspace, unit_faults, width)
    if workspace.report is not None:
        rows += [row(), *sentence_rows(workspace.report.export_note, "dim", width)]
    return page


def headline(workspace: Workspace) -> str:
    """Which item and turn of how many."""
    number = workspace.item
    if number is None:
        count = len(workspace.items)
        return f"{count:,} item{'s' if count != 1 else ''}"
    place = f"item {number + 1:,} of {len(workspace.items):,}"
    if len(workspace.where) < 4:
        return place
    turns = get_at(workspace.data, workspace.where[:3])
    return f"turn {int(workspace.where[3]) + 1} of {len(turns)} · {place}"


def title(workspace: Workspace) -> str:
    """The title of the frame: the current place, and whether it is saved."""
    editing, number = workspace.editing, workspace.item
    if editing is None:
        return ""
    if number is None:
        return editing.document.file.name + (" •" if editing.dirty else "")
    turn = f" · turn {int(workspace.where[3]) + 1}" if len(workspace.where) > 3 else ""
    return workspace.name_of(number) + turn + (" •" if number in editing.changed_items() else "")


def _head(workspace: Workspace, unit: Mapping[str, Any], unit_faults: Faults, width: int) -> list[Row]:
    editing = workspace.editing
    assert editing is not None
    unsaved = editing.dirty if workspace.item is None else workspace.item in editing.changed_items()
    line = [Piece(headline(workspace), "dim"), Piece("  • not saved" if unsaved else "", "mark")]
    return [row(*line), *_own_problem_rows(workspace, unit_faults, width), row()]


def _own_problem_rows(workspace: Workspace, unit_faults: Faults, width: int) -> list[Row]:
    """The problems of the current place itself."""
    return problem_rows(unit_faults.own, len(workspace.where), width)


def field_rows(
    name: str, value: Any, width: int, *, dim: bool = False, lit: bool = False, most: int = LEAST_LINES
) -> list[Row]:
    """A field: its name, and at most `most` lines of its value, next to it or below."""
    label: Style = "dim" if dim else "accent" if lit else "strong"
    base: Style = "dim" if dim else ""
    if width >= _BESIDE:
        first, *rest = preview(name, value, width - _COLUMN, base, most)
        beside = [Row((fit(name, _COLUMN - 1, label), Piece(" "), *first), name)]
        return [*beside, *(Row((Piece(" " * _COLUMN), *line)) for line in rest)]
    lines = preview(name, value, width - 2, base, most)
    called = fit(name, min(cell_width(safe(name)), width), label)
    room = width - cell_width(called.text) - 2
    if len(lines) == 1 and sum(cell_width(piece.text) for piece in lines[0]) <= room:
        return [Row((called, Piece("  "), *lines[0]), name)]
    return [Row((called,), name), *(Row((Piece("  "), *line)) for line in lines)]


def preview(name: str, value: Any, width: int, style: Style = "", most: int = LEAST_LINES) -> list[Line]:
    """The first lines of a value, and in the last of them how much more there is."""
    if value is None:
        return [(Piece("–", "dim"),)]
    if name in JUDGING and isinstance(value, dict):
        return [(fit(f"{', '.join(value) or 'none'} · 3 edits them", width, style),)]
    if isinstance(value, list) and value and name in ("messages", "ideal"):
        shown = _room_for(value, most)
        return _entry_lines([_entry(one) for one in value[:shown]], len(value), "entries", width, style, most)
    if isinstance(value, dict) and value and name == "variables":
        shown = _room_for(value, most)
        return _entry_lines(list(islice(value.items(), shown)), len(value), "values", width, style, most)
    if isinstance(value, dict) and value and name in _BEGUN:
        entries = [*_outline(value)]
        return _entry_lines(entries[: _room_for(entries, most)], len(entries), "values", width, style, most)
    if isinstance(value, list) and value and name == "tools":
        shown = _room_for(value, most)
        entries = [(part.label, tool_outline(part.value)) for part in parts_of("tools", value[:shown])]
        return _entry_lines(entries, len(value), "tools", width, style, most)
    if isinstance(value, list) and value and all(isinstance(one, str) for one in value):
        value = ", ".join(value)
    if isinstance(value, str):
        return _text_lines(value, width, style, most)
    text = _json_head(value)
    return _text_lines(text, width, style, most, "over " if text.count("\n") > _JSON_LINES else "")


def _outline(value: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """The values of a mapping by their names; those of a mapping in it below its name."""
    for name, part in value.items():
        if isinstance(part, dict) and part:
            yield name, ""
            yield from ((f"  {inner}", one) for inner, one in part.items())
        else:
            yield name, part


def _room_for(values: Sized, most: int) -> int:
    """How many of some values have a line, if the last line says how many there are besides."""
    return len(values) if len(values) <= most else most - 1


def _entry_lines(
    entries: Sequence[tuple[str, Any]], count: int, what: str, width: int, style: Style, most: int
) -> list[Line]:
    """The first of `count` parts of a value, whole if there is room, else each with its share of the lines."""
    room = most - (len(entries) < count)
    whole = [_labelled(*entry, width, style, room) for entry in entries]
    share = fair_share([len(lines) for lines in whole], room, 1)
    shown = [
        lines if len(lines) <= share else _labelled(*entry, width, style, share)
        for entry, lines in zip(entries, whole, strict=True)
    ]
    return [*(line for lines in shown for line in lines), *_more_line(count - len(entries), what)]


def _entry(one: Any) -> tuple[str, Any]:
    """The label and the text of a message or an acceptable reference."""
    if not isinstance(one, dict):
        return "", one
    content = one.get("content")
    if content is None and "tool_calls" in one:
        content = f"calls {' '.join(_json_head(one['tool_calls']).split())}"
    return str(one.get("role", "?")), content


def _labelled(label: str, value: Any, width: int, style: Style, most: int) -> list[Line]:
    """A part with its label: a text in at most `most` lines, anything else in one."""
    text = value if isinstance(value, str) else _json_head(value)
    called = f"{fit(label, min(cell_width(safe(label)), width // 3)).text}: " if label else ""
    indent = cell_width(safe(called))
    lines: list[Line] = [(fit(text, width - indent, style),)]
    if most > 1 and isinstance(value, str):
        lines = _text_lines(text, width - indent, style, most)
    before = [Piece(called, "dim" if style else "accent"), *[Piece(" " * indent)] * (len(lines) - 1)]
    return [(piece, *line) for piece, line in zip(before, lines, strict=True)] if called else lines


def tool_outline(tool: Any) -> Any:
    """The description of a function, then a line for each parameter; any other tool unchanged."""
    body = tool.get("function", tool) if isinstance(tool, dict) else None
    if not isinstance(body, dict) or not isinstance(body.get("name"), str):
        return tool
    schema = body.get("parameters", {})
    properties = schema.get("properties", {}) if isinstance(schema, dict) else None
    if not isinstance(properties, dict) or (not properties and not schema.keys() <= _WITHOUT_PARAMETERS):
        return tool  # a schema of another kind, whose parameters are not listed by name
    about, required = body.get("description"), schema.get("required")
    lines = [about] if isinstance(about, str) and about else []
    for name, one in properties.items():
        kind = one.get("type") if isinstance(one, dict) else None
        needed = isinstance(required, list) and name in required
        facts = [*([kind] if isinstance(kind, str) else []), *(["required"] if needed else [])]
        lines.append(f"{name}: {', '.join(facts)}" if facts else name)
    return "\n".join(lines if properties else [*lines, "takes no parameters"])


_WITHOUT_PARAMETERS = {"type", "properties", "required", "additionalProperties"}
"""Keys of a schema that name no parameter by themselves."""


def _more_line(count: int, what: str) -> list[Line]:
    return [(Piece(f"… {count:,} more {what}", "dim"),)] if count > 0 else []


def _text_lines(text: str, width: int, style: Style, most: int, over: str = "") -> list[Line]:
    texts, hidden = _beginning(text, width, most)
    if hidden:
        texts, hidden = _beginning(text, width, most - 1)
    lines: list[Line] = [(Piece(line, style),) for line in texts]
    return [*lines, (Piece(f"… {over if 'line' in hidden else ''}{hidden}", "dim"),)] if hidden else lines


def _beginning(text: str, width: int, most: int) -> tuple[list[str], str]:
    """The first lines of a text, broken at a width, and how much of it they do not show."""
    budget = (most + 1) * (max(width, 1) + 1)
    texts: list[str] = []
    whole, cut = 0, False
    for line in text.split("\n", most)[:most]:
        if len(texts) == most:
            break
        start = line[:budget]
        rows = wrapped(start if safe(start) == start else spell_out(start), width)
        room = most - len(texts)
        texts += rows[:room]
        cut = len(rows) > room or len(line) > budget
        if cut:
            break
        whole += 1
    left = text.count("\n") + 1 - whole - cut
    if left:
        return texts, f"{left:,} more line{'s' if left > 1 else ''}"
    return texts, f"{len(text):,} characters in all" if cut else ""


def _json_head(value: Any) -> str:
    """The value as indented JSON, or its beginning where it is very long."""
    try:
        text = _json_start(value, ascii=False)
        return text if safe(text) == text else _json_start(value, ascii=True)
    except RecursionError:
        return "nested too deeply to be shown"


def _json_start(value: Any, *, ascii: bool) -> str:
    chunks: list[str] = []
    count = 0
    for chunk in json.JSONEncoder(indent=2, ensure_ascii=ascii).iterencode(value):
        chunks.append(chunk)
        count += chunk.count("\n")
        if count > _JSON_LINES:
            break
    return "".join(chunks)


def _turn_rows(workspace: Workspace, unit: Mapping[str, Any], unit_faults: Faults, width: int) -> list[Row]:
    turns = unit.get("turns")
    if not isinstance(turns, list):
        return []
    rows = [row(), row((f"{len(turns)} turn{'s' if len(turns) != 1 else ''}", "title"), ("  enter goes in", "dim"))]
    for number, turn in enumerate(turns[:_TURNS]):
        place = (*workspace.where, "turns", number)
        prompt = turn.get("prompt") if isinstance(turn, dict) else turn
        text = prompt if isinstance(prompt, str) else _json_head(prompt)
        rows.append(row((f"turn {number + 1} ", "strong"), fit(text, width - 6 - len(str(number + 1))), key=place))
        rows += problem_rows(unit_faults.units.get(place, ()), len(place), width)
    return [*rows, *(Row(line) for line in _more_line(len(turns) - _TURNS, "turns"))]


def _unit_rows(workspace: Workspace, unit_faults: Faults, width: int) -> list[Row]:
    """The items with problems, to go to."""
    rows: list[Row] = []
    for place, problems in list(unit_faults.units.items())[:_UNITS]:
        more = f" (+{len(problems) - 1})" if len(problems) > 1 else ""
        first = problems[0]
        text = f"{first.severity}: {first}{more}"
        rows.append(row(fit(text, width, "error" if first.severity == "error" else "warn"), key=place))
    rows += [Row(line) for line in _more_line(len(unit_faults.units) - _UNITS, "items and turns with problems")]
    return [row(), row(("problems", "title"), ("  enter goes there", "dim")), *rows] if rows else []
