"""The fields of a dataset, item or turn: where each is, how it is written, read and set, and its parts."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import count
from typing import Any, Literal, get_args

from tui_evals.datasets import paths, steps
from tui_evals.datasets.paths import MAX_TURNS, CannotEdit, Data, Path, Role, get_at
from tui_evals.light_records import dataclass
from tui_evals.text import strictjson
from tui_evals.text.names import did_you_mean
from tui_evals.text.safe import safe

Kind = Literal["text", "line", "lines", "few", "number", "value", "format", "json"]
"""How a value is written for editing. `lines` has one entry per line; so has `few`, but a single line is a text. A
`value` is a text unless it reads as JSON. A `format` is a word or JSON.
"""

RESULTS = ("status", "response", "citations", "scores", "diagnostics", "error", "summary", "conversation_id")
KINDS: Mapping[str, Kind] = {
    **dict.fromkeys(("testId", "name", "category", "prompt_file", "metadata.name", "tool_functions"), "line"),
    **dict.fromkeys(("evaluators_mode", "allowed_tools_mode"), "line"),
    **dict.fromkeys(("tags", "ideal", "allowed_tools", "default_allowed_tools", "metadata.tags"), "lines"),
    **dict.fromkeys(("weight", "threshold", "repeats", "max_steps"), "number"),
    **dict.fromkeys(("variables", "matrix", "messages", "attachments", "user", "other_questions"), "json"),
    **dict.fromkeys(("tools", "tool_results"), "json"),
    "mcp": "few",
    **dict.fromkeys(("extensions", "metadata.extensions", "metadata"), "json"),
    "response_format": "format",
}


class Unreadable(ValueError):
    """The typed text is no valid value; the message says why, `wanted` what is expected."""

    def __init__(self, wanted: str) -> None:
        super().__init__(f"not yet {wanted}")
        self.wanted = wanted


def place_of(where: Path, name: str) -> Path:
    """The path of a field in the data; fields of the metadata are shown among those of the dataset."""
    if not where and name.startswith("metadata."):
        return ("metadata", name.removeprefix("metadata."))
    return (*where, name)


def value_at(data: dict[str, Any], where: Path, name: str) -> Any:
    """The value of a field; None while it is not given."""
    return paths.get_at(data, place_of(where, name))


def with_value(data: dict[str, Any], where: Path, name: str, value: Any) -> dict[str, Any]:
    """The data with a field set, or taken away with None; CannotEdit says why that cannot be."""
    place = place_of(where, name)
    if len(place) == len(where) + 1:
        return steps.set_field(data, where, name, value)
    if value is not None:
        return paths.set_at(data, place, value)
    kept = paths.remove_at(data, place)
    return kept if kept.get("metadata") else paths.remove_at(kept, ("metadata",))


def read_only(name: str, where: Path) -> str | None:
    """Why a field is not edited here; None when it is."""
    if not where:
        return "schemaVersion changes with `tui-evals upgrade` only" if name == "schemaVersion" else None
    return f"{name} is what a run wrote; it is not edited here" if name in RESULTS else None


def read_value(kind: Kind, text: str) -> Any:
    """The value of an edited text, None if it is empty; raises Unreadable."""
    if kind == "text":
        return text or None
    if kind == "line":
        return text.replace("\n", " ").strip() or None
    if kind == "lines":
        return [line.strip() for line in text.split("\n") if line.strip()] or None
    if not text.strip():
        return None
    if kind == "few" and not text.lstrip().startswith("["):
        lines = [line.strip() for line in text.split("\n") if line.strip()]
        return lines if len(lines) > 1 else lines[0]
    if kind == "value":
        try:
            return strictjson.loads(text)
        except strictjson.JsonError:
            return text
    if kind == "format" and not text.lstrip().startswith(("{", "[")):
        return text.strip()
    try:
        return strictjson.loads(text)
    except strictjson.JsonError as problem:
        if kind == "number":
            raise Unreadable(f"a number: {text.strip()[:40]}") from None
        reason = str(problem).removeprefix("not valid JSON: ")
        place = f" (line {problem.line}, column {problem.column})" if problem.line and problem.column else ""
        raise Unreadable(f"JSON: {reason}{place}") from None


def pretty(value: Any) -> str:
    """JSON to read and edit; characters that must not reach a terminal are escaped."""
    text = json.dumps(value, indent=2, ensure_ascii=False)
    return text if safe(text) == text else json.dumps(value, indent=2)


_SEGMENT = r'(?:"[^"]+"|[^".=:]+)'
_FIELD = re.compile(rf"{_SEGMENT}(?:\.{_SEGMENT})*")
_ASSIGNMENT = re.compile(rf"(?P<field>{_FIELD.pattern})(?P<sign>:?=)(?P<text>.*)", re.DOTALL)

_OPEN = ("variables", "matrix", "extensions", "metadata")
"""Objects that go when the last thing in them does."""


@dataclass(frozen=True, slots=True)
class Assignment:
    """A field by its names from the outermost on, and its new value: text to be parsed, or JSON."""

    names: tuple[str, ...]
    text: str
    is_json: bool = False

    @property
    def field(self) -> str:
        """The name of the field, with dots."""
        return ".".join(self.names)


def parse_assignment(word: str) -> Assignment:
    """The assignment of one argument."""
    match = _ASSIGNMENT.fullmatch(word)
    if match is None:
        raise CannotEdit(
            f"{word[:80]!r} sets no field; write FIELD=VALUE, or FIELD:=JSON, as in prompt=Hello or variables.city=Rome"
        )
    return Assignment(field_names(match["field"]), match["text"], match["sign"] == ":=")


def field_names(text: str) -> tuple[str, ...]:
    """The names of a field, one in quotation marks may hold any sign."""
    if not _FIELD.fullmatch(text):
        raise CannotEdit(f"{text[:80]!r} is no name of a field; write it as in category or variables.city")
    return tuple(part.strip('"') for part in re.findall(_SEGMENT, text))


def assign(data: Data, where: Path, assignments: Sequence[Assignment], unset: Iterable[tuple[str, ...]] = ()) -> Data:
    """The data with fields of the dataset, an item or a turn set, and others taken away."""
    for assignment in _joined_assignments(assignments):
        data = _set(data, where, assignment.names, _read(assignment))
    for names in unset:
        data = _set(data, where, names, None)
    return data


def value_of(data: Data, where: Path, names: Sequence[str]) -> Any:
    """The value of a field of the dataset, an item or a turn; CannotEdit where there is none."""
    value = get_at(data, _place(data, where, names))
    if value is None:
        known = unit if isinstance(unit := get_at(data, where), dict) else {}
        raise CannotEdit(f"there is no '{'.'.join(names)}' here{did_you_mean(names[0], known)}")
    return value


def _joined_assignments(assignments: Sequence[Assignment]) -> list[Assignment]:
    """One assignment for each field: a list may be given in several entries, anything else only once."""
    by_field: dict[tuple[str, ...], Assignment] = {}
    for one in assignments:
        known = by_field.get(one.names)
        if known is not None and (KINDS.get(_known_name(one.names)) != "lines" or one.is_json or known.is_json):
            raise CannotEdit(f"'{one.field}' is given twice; give it once")
        by_field[one.names] = Assignment(one.names, f"{known.text}\n{one.text}") if known is not None else one
    return list(by_field.values())


def _known_name(names: tuple[str, ...]) -> str:
    """The name under which it is known how a field is written; a turn's fields are written as an item's."""
    names = names[2:] if names[0] == "turns" else names
    return ".".join(names) if len(names) == 1 or names[:1] == ("metadata",) else ""


def _read(assignment: Assignment) -> Any:
    if assignment.is_json:
        try:
            return strictjson.loads(assignment.text)
        except strictjson.JsonError as problem:
            raise CannotEdit(f"{assignment.field}: {problem}") from None
    name = _known_name(assignment.names)
    if not name:
        return assignment.text
    text = assignment.text.replace(",", "\n") if name in ("tags", "metadata.tags") else assignment.text
    try:
        return read_value(KINDS.get(name, "text"), text)
    except Unreadable as problem:
        raise CannotEdit(f"{assignment.field}: this is not {problem.wanted}") from None


def _set(data: Data, where: Path, names: tuple[str, ...], value: Any) -> Data:
    """The data with a field of a unit set to a value, or taken away with None."""
    name, *inner = names
    _check_name(data, where, name)
    if name == "turns" and inner and len(where) == 2:
        return _set_turn(data, where, inner, value)
    if not inner:
        return with_value(data, where, name, value)
    place = _place(data, (*where, name), inner)
    if value is None:
        changed = paths.remove_at(data, place)
        emptied = name in _OPEN and not get_at(changed, (*where, name))
        return paths.remove_at(changed, (*where, name)) if emptied else changed
    parent = get_at(data, place[:-1])
    if isinstance(parent, list) and place[-1] == len(parent):
        return paths.set_at(data, place[:-1], [*parent, value])
    return paths.set_at(data, place, value)


def _check_name(data: Data, where: Path, name: str) -> None:
    """CannotEdit for a field that does not exist, or is not set by hand."""
    from tui_evals.datasets.model import Dataset, Item, Turn  # late: the first frame needs no pydantic

    model = Dataset if not where else Item if len(where) == 2 else Turn
    if name == "items" and not where:
        raise CannotEdit("items are edited one by one: `tui-evals item --help` says how")
    if name not in model.model_fields and name not in paths.unit_at(data, where):
        raise CannotEdit(f"there is no field '{name}'{did_you_mean(name, model.model_fields)}")
    if reason := read_only(name, where):
        raise CannotEdit(reason)


def _set_turn(data: Data, where: Path, inner: list[str], value: Any) -> Data:
    """Set a turn, or a field of it; the one after the last is a new turn."""
    item = where[1]
    assert isinstance(item, int)
    turns = get_at(data, (*where, "turns"))
    if not isinstance(turns, list):
        raise CannotEdit("the item is a single prompt; `tui-evals item conversation` makes it a conversation first")
    number = _position(inner[0], turns, "turns")
    if value is None and len(inner) == 1:
        return steps.remove_turn(data, item, number)
    if number == len(turns):
        data = steps.insert_turn(data, item, number, {})
    if len(inner) == 1:
        return paths.set_at(data, (*where, "turns", number), value)
    return _set(data, (*where, "turns", number), tuple(inner[1:]), value)


def _place(data: Data, field: Path, inner: Sequence[str]) -> Path:
    """The path of a value inside a field; the entries of a list are counted from 1."""
    place = field
    for name in inner:
        node = get_at(data, place)
        place = (*place, _position(name, node, str(place[-1])) if isinstance(node, list) else name)
    return place


def _position(name: str, entries: Sequence[Any], of: str) -> int:
    if not name.isdecimal() or not 1 <= int(name) <= len(entries) + 1:
        count = len(entries)
        raise CannotEdit(f"{of} has entries 1 to {count}, and {count + 1} adds one; {name!r} is none of them")
    return int(name) - 1


Shape = Literal["pairs", "messages", "texts", "tools"]

ROLES: tuple[str, ...] = get_args(Role)
_NEXT_ROLES = {"user": "assistant", "assistant": "user", "system": "user", "tool": "assistant"}
_BY_NAME: dict[str, Shape] = {"variables": "pairs", "messages": "messages", "ideal": "texts", "tools": "tools"}
_WORDS = frozenset(("tags", "allowed_tools", "default_allowed_tools", "metadata.tags"))
"""Lists of words, which are quicker to write one a line than as parts."""


@dataclass(frozen=True, slots=True)
class FieldPart:
    """One part: its label, its editable value, and its path in the compound value."""

    label: str
    place: Path
    value: Any


def shape_of(name: str, value: Any) -> Shape | None:
    """The kind of compound value; None if the field is edited as one."""
    if name in _BY_NAME:
        shape = _BY_NAME[name]
        return shape if value is None or isinstance(value, dict if shape == "pairs" else list) else None
    texts = isinstance(value, list) and bool(value) and all(isinstance(one, str) for one in value)
    return "texts" if texts and name not in (*_WORDS, "attachments") else None


def parts_of(shape: Shape, value: Any) -> list[FieldPart]:
    """The parts in their order; none of a value that is not given."""
    if shape == "pairs":
        return [FieldPart(name, (name,), one) for name, one in (value or {}).items()]
    read = _message if shape == "messages" else _tool if shape == "tools" else _text
    return [read(number, one) for number, one in enumerate(value or ())]


def _text(number: int, text: Any) -> FieldPart:
    return FieldPart(str(number + 1), (number,), text)


def _message(number: int, message: Any) -> FieldPart:
    if not isinstance(message, dict):
        return FieldPart("?", (number,), message)
    role, content = str(message.get("role", "?")), message.get("content")
    if isinstance(content, str) or (content is None and "tool_calls" not in message):
        return FieldPart(role, (number, "content"), content)
    return FieldPart(role, (number,), message)


def _tool(number: int, tool: Any) -> FieldPart:
    described = tool.get("function", tool) if isinstance(tool, dict) else None
    name = described.get("name") if isinstance(described, dict) else None
    return FieldPart(name if isinstance(name, str) else str(number + 1), (number,), tool)


def with_new_part(shape: Shape, value: Any, number: int, name: str = "") -> Any:
    """The value with a part to begin with at a position: a pair has the name, a message the role that comes next."""
    entries = _entries(value)
    entry: Any = ""
    if shape == "pairs":
        entry = (_free_name(name, (value or {}).keys()), "")
    elif shape == "messages":
        before = entries[number - 1] if 0 < number <= len(entries) else None
        role = before.get("role") if isinstance(before, dict) else None
        entry = {"role": _NEXT_ROLES.get(role, "user") if isinstance(role, str) else "user", "content": ""}
    elif shape == "tools":
        entry = new_tool()
    return _joined(shape, [*entries[:number], entry, *entries[number:]])


def without_part(shape: Shape, value: Any, number: int) -> Any:
    """The value without a part; None when it was the last one."""
    entries = _entries(value)
    return _joined(shape, [*entries[:number], *entries[number + 1 :]]) if len(entries) > 1 else None


def with_copied_part(shape: Shape, value: Any, number: int) -> Any:
    """The value with a copy of a part after it; a pair gets a name of its own."""
    entries = _entries(value)
    entry = entries[number]
    if shape == "pairs":
        name, one = entry
        names = value.keys()
        entry = (next(new for new in (f"{name}_{n}" for n in count(2)) if new not in names), one)
    return _joined(shape, [*entries[: number + 1], entry, *entries[number + 1 :]])


def with_moved_part(shape: Shape, value: Any, number: int, by: int) -> Any:
    """The value with a part moved, at most to the end."""
    if shape == "pairs":
        raise CannotEdit("the order of these says nothing, and a file keeps the order it has")
    entries = _entries(value)
    entry = entries.pop(number)
    entries.insert(min(max(number + by, 0), len(entries)), entry)
    return entries


def with_renamed_part(value: Any, number: int, name: str) -> Any:
    """The pairs with another name for one of them, which stays where it is."""
    entries = _entries(value)
    old, one = entries[number]
    if name == old:
        return value
    entries[number] = (_free_name(name, value.keys()), one)
    return dict(entries)


def with_next_role(value: Any, number: int) -> Any:
    """The messages with the next role for one of them."""
    message = value[number]
    if not isinstance(message, dict):
        raise CannotEdit("this is not a message: it has no role. Press v to fix it as JSON")
    role = message.get("role")
    after = ROLES[(ROLES.index(role) + 1) % len(ROLES)] if role in ROLES else "user"
    return [*value[:number], {**message, "role": after}, *value[number + 1 :]]


def why_not_name(name: str, taken: Iterable[str]) -> str | None:
    """Why a pair cannot have a name; None when it can."""
    if not name.strip():
        return "give it a name"
    return f"there is a {name} already" if name in taken else None


def new_tool() -> dict[str, Any]:
    """A tool to start with: a function of one argument."""
    return {
        "type": "function",
        "function": {
            "name": "function_name",
            "description": "What it does, and when to call it.",
            "parameters": {
                "type": "object",
                "properties": {"argument": {"type": "string", "description": "What it is."}},
                "required": ["argument"],
            },
        },
    }


def _free_name(name: str, taken: Iterable[str]) -> str:
    if problem := why_not_name(name, taken):
        raise CannotEdit(problem)
    return name


def _entries(value: Any) -> list[Any]:
    return list(value.items()) if isinstance(value, dict) else list(value or ())


def _joined(shape: Shape, entries: Sequence[Any]) -> Any:
    return dict(entries) if shape == "pairs" else list(entries)


Message = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class _Exchange:
    """A prompt of the chat with its index, its reply, and the messages that have to come before it."""

    index: int
    before: tuple[Message, ...]
    prompt: str
    answer: str | None

    def as_turn(self, history: Sequence[Message]) -> Data:
        """The turn, or single prompt, that asks it again after a history."""
        turn: Data = {"messages": _without_nulls(history)} if history else {}
        turn["prompt"] = self.prompt
        return turn if self.answer is None else {**turn, "expected_response": self.answer}


def item_of_messages(messages: Sequence[Message], variables: Mapping[str, Any] | None = None) -> Data:
    """The item that repeats a chat; an unanswered message, and exchanges beyond MAX_TURNS, become history."""
    if not messages:
        raise CannotEdit("nothing has been said yet; ask something first")
    item: Data = {"variables": dict(variables)} if variables else {}
    prompt_indexes = [index for index, message in enumerate(messages) if message.get("role") == "user"]
    if not prompt_indexes or _message_text(messages[prompt_indexes[-1]]) is None:
        return item | _item_of_history(messages, prompt_indexes)
    first, *later = _find_exchanges(messages, prompt_indexes)[-MAX_TURNS:]
    history = messages[: first.index]
    if not later:
        return item | first.as_turn(history)
    if history:
        item["messages"] = _without_nulls(history)
    return item | {"turns": [first.as_turn(()), *(exchange.as_turn(exchange.before) for exchange in later)]}


def _find_exchanges(messages: Sequence[Message], prompt_indexes: Sequence[int]) -> list[_Exchange]:
    """The answered prompts and the last one; other messages become history of the next prompt."""
    exchanges: list[_Exchange] = []
    waiting: list[Message] = [*messages[: prompt_indexes[0]]]
    for index, end in zip(prompt_indexes, [*prompt_indexes[1:], len(messages)], strict=True):
        prompt, replies = _message_text(messages[index]), messages[index + 1 : end]
        answer = _last_reply(replies)
        if prompt is not None and (answer is not None or end == len(messages)):
            exchanges.append(_Exchange(index, tuple(waiting), prompt, answer))
            waiting = [message for message in replies if message.get("role") == "system"]
        else:
            waiting += messages[index:end]
    return exchanges


def _item_of_history(messages: Sequence[Message], prompt_indexes: Sequence[int]) -> Data:
    """An item for a chat whose last question is not plain text (an image, say): the chat becomes its messages."""
    end = prompt_indexes[-1] + 1 if prompt_indexes else len(messages)
    answer = _last_reply(messages[end:])
    item: Data = {"messages": _without_nulls(messages[:end])}
    return item if answer is None else {**item, "expected_response": answer}


def _last_reply(replies: Sequence[Message]) -> str | None:
    texts = (_message_text(message) for message in reversed(replies) if message.get("role") == "assistant")
    return next((text for text in texts if text is not None), None)


def _message_text(message: Message) -> str | None:
    """The text of a message, None if it holds anything but text."""
    content = message.get("content")
    if isinstance(content, list):
        parts = [part.get("text") for part in content if isinstance(part, dict) and part.get("type") == "text"]
        texts = [part for part in parts if isinstance(part, str)]
        content = "\n".join(texts) if len(texts) == len(content) else None
    return content if isinstance(content, str) and content else None


def _without_nulls(messages: Sequence[Message]) -> list[Data]:
    return [{name: value for name, value in message.items() if value is not None} for message in messages]
