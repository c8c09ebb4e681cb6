"""The fields of a form: what kinds of values they hold, how a value is written as text, and how it is read."""

from __future__ import annotations

import json
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import field, replace
from typing import Any, Literal, Protocol

from tui_evals.light_records import dataclass
from tui_evals.text import strictjson
from tui_evals.text.safe import safe, safe_line

Kind = Literal[
    "text", "number", "whole", "yes", "choice", "several", "list", "values", "map", "value", "object", "rows", "json"
]
"""A list of texts, or of any values, is written one a line, a map one `name: value` a line.

A value is a text unless it reads as a number, yes or no. An object has a form of its own. Rows are a list or a mapping
whose entries are edited one by one. JSON is only written with the key for it.
"""
Values = Mapping[str, Any]
Faults = Mapping[str, str]
"""Problems by field name; those of no single field have an empty name."""


class Shape(Protocol):
    """The fields of an object's form, and the conversion between an object in a file and their values."""

    def fields(self, before: Values) -> Sequence[Field]:
        """A field for each member."""

    def values(self, before: Values) -> dict[str, Any]:
        """The given values, by field name."""

    def written(self, before: Values, values: Values) -> dict[str, Any]:
        """The object with the values of a form."""

    def faults(self, written: Values) -> Faults:
        """The problems of an object."""


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a form; its value is None if it is not given."""

    name: str
    kind: Kind = "text"
    about: str = ""
    choices: Sequence[str] | Callable[[Values], Sequence[str]] = field(default_factory=tuple)
    default: str = ""
    """The default value, in words."""
    make: tuple[str, Any] | None = None
    """A value that can be made of existing data, with its name."""
    shape: Shape | None = None
    """The fields of an object."""
    rows: ListShape | None = None
    """The entries of a list or mapping."""
    applies: Callable[[Values], bool] = lambda values: True
    """Whether it can be given next to these values; one that cannot is shown only while it has a value."""


@dataclass(frozen=True, slots=True)
class Start:
    """An initial value for a new entry: its name and description."""

    name: str
    value: Any
    about: str = ""
    more: str = ""
    key: str = ""
    """Its key in a mapping; empty if the user is asked for it."""


def _unchanged(old: str, new: str, value: Any) -> Any:
    return value


@dataclass(frozen=True, slots=True)
class ListShape:
    """The entries of a list, or of a mapping if `named`: how they are edited, and their initial values."""

    entry: Callable[[str, Any], Field]
    """The field of an entry, by its name or number and its value."""
    starts: Sequence[Start]
    named: bool = False
    pair: Callable[[str], Any] | None = None
    """The value typed after the name and a colon; None if it is invalid."""
    pair_hint: str = "a name"
    renamed: Callable[[str, str, Any], Any] = _unchanged
    """The value of an entry once its name is another one."""

    def starting_with(self, starts: Sequence[Start]) -> ListShape:
        """These entries, with further starts before the usual ones."""
        return replace(self, starts=(*starts, *self.starts))


def free_key(name: str, taken: Container[str]) -> str:
    """A name that is not taken: this one, else with a number."""
    number, key = 1, name
    while key in taken:
        number += 1
        key = f"{name}{number}"
    return key


def entry_faults(one: Field, value: Any) -> str:
    """The problems of a value and its parts, in one line."""
    if one.kind == "object" and one.shape is not None and isinstance(value, dict):
        return "; ".join(f"{inner}: {said}" if inner else said for inner, said in one.shape.faults(value).items())
    if one.kind == "rows" and one.rows is not None and isinstance(value, (dict, list)):
        entries = value.items() if isinstance(value, dict) else ((str(n), part) for n, part in enumerate(value, 1))
        said = ((name, entry_faults(one.rows.entry(name, part), part)) for name, part in entries)
        return "; ".join(f"{name}: {fault}" for name, fault in said if fault)
    return ""


def data_field(name: str, value: Any) -> Field:
    """How any JSON value is edited: a text, number, yes or no in a line, a list and a mapping by their entries."""
    for kind in ("values", "map"):
        if value and can_write(kind, value):
            return Field(name, kind)
    if isinstance(value, dict):
        return Field(name, "rows", rows=MAPPING)
    if isinstance(value, list):
        return Field(name, "rows" if value else "values", rows=LIST)
    return Field(name, "value" if value == "" or can_write("value", value) else "text")


DATA_STARTS = (
    Start("a text or number", "", "typed in a line; quotation marks keep a number a text"),
    Start("a list", [], "one value a line"),
    Start("a mapping", {}, "names with values, which may be lists and mappings too"),
)


def _pretty(value: Any) -> str:
    """JSON for reading and editing, with unsafe characters escaped."""
    text = json.dumps(value, indent=2, ensure_ascii=False)
    return text if safe(text) == text else json.dumps(value, indent=2)


IN_LINES: Mapping[Kind, str] = {
    "list": " · one a line",
    "values": " · one a line",
    "map": " · name: value, one a line",
    "json": " · JSON",
}
"""Kinds that are written in a box of their own, and how."""


NOT_TYPED = frozenset((*IN_LINES, "yes", "choice", "several", "object", "rows"))
"""Kinds that are not typed in the line of the form."""


def written_value(kind: Kind, value: Any) -> str:
    """A value as the text of its box."""
    if kind == "list":
        return "\n".join(value)
    if kind == "map":
        return "\n".join(f"{name}: {_plain(part)}" for name, part in value.items())
    if kind == "values":
        return "\n".join(map(_plain, value))
    if kind == "value":
        return _plain(value)
    return _pretty(value) if kind == "json" else str(value)


def can_write(kind: Kind, value: Any) -> bool:
    """Whether a value written in lines is read back unchanged, without hidden characters."""
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    if (kind == "value" and isinstance(value, (dict, list))) or any(isinstance(one, (dict, list)) for one in parts):
        return False
    try:
        text = written_value(kind, value)
    except (AttributeError, RecursionError, TypeError, ValueError):
        return False
    read, problem = read_value(kind, text)
    return problem is None and json.dumps(read) == json.dumps(value) and safe(text) == text


def _plain(part: Any) -> str:
    """A value of a map as text, quoted if it would be read as something else."""
    plain = isinstance(part, str) and part == part.strip() and _read_part(part) == part
    return part if plain else json.dumps(part, ensure_ascii=False)


def line_text(kind: Kind, value: Any) -> str:
    """A value as the text of a line in the form."""
    return safe_line(_plain(value) if kind == "value" else shown_value(value))


def fits_line(value: Any) -> bool:
    """Whether a line of the form shows the text completely; a box escapes what the line cannot show."""
    return not isinstance(value, str) or safe_line(value) == value


def _read_part(text: str) -> Any:
    try:
        return strictjson.loads(text)
    except strictjson.JsonError:
        return text


def _read_map(text: str) -> tuple[Any, str | None]:
    """The map in a text, and its error."""
    read: dict[str, Any] = {}
    for line in text.splitlines():
        name, colon, part = (piece.strip() for piece in line.partition(":"))
        if not line.strip():
            continue
        if not colon or not name:
            return None, f"no name before a colon in {safe_line(line, 40)!r}"
        if name in read:
            return None, f"{safe_line(name, 40)} is given twice"
        read[name] = _read_part(part)
    return read or None, None


def shown_value(value: Any) -> str:
    """A value as it is shown and typed."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str):
        return value
    if isinstance(value, list) and not any(isinstance(one, (dict, list)) for one in value):
        return ", ".join(map(shown_value, value))
    if isinstance(value, list) and value and all(isinstance(one, dict) for one in value):
        return f"{len(value)}: " + " · ".join(map(shown_value, value))
    if isinstance(value, dict):
        return ", ".join(f"{name}: {shown_value(part)}" for name, part in value.items())
    return json.dumps(value, ensure_ascii=False)


def read_value(kind: Kind, text: str) -> tuple[Any, str | None]:
    """The value of a typed text, and its error; an empty text has no value."""
    if not text.strip():
        return None, None
    if kind in ("number", "whole"):
        try:
            return (int(text) if kind == "whole" else float(text)), None
        except ValueError:
            return None, f"{text!r} is not a {'whole ' if kind == 'whole' else ''}number"
    if kind == "list":
        return [line for line in text.split("\n") if line.strip()], None
    if kind == "values":
        return [_read_part(line.strip()) for line in text.split("\n") if line.strip()], None
    if kind == "map":
        return _read_map(text)
    if kind == "value":
        return _read_part(text), None
    if kind == "json":
        try:
            return strictjson.loads(text), None
        except strictjson.JsonError as problem:
            return None, f"this is {problem}; put texts in quotation marks"
    return text, None


MAPPING = ListShape(data_field, DATA_STARTS, named=True, pair=_read_part, pair_hint="a name, or name: value")
LIST = ListShape(data_field, DATA_STARTS)
"""Any mapping and any list, as far down as they go."""
