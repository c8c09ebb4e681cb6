"""The parts of a compound value: the pairs of variables, the messages of a chat, the entries of a list, tools."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import count
from typing import Any, Literal, get_args

from tui_evals.datasets.paths import MAX_TURNS, CannotEdit, Data, Path, Role
from tui_evals.light_records import dataclass

Shape = Literal["pairs", "messages", "texts", "tools"]

ROLES: tuple[str, ...] = get_args(Role)
_NEXT_ROLES = {"user": "assistant", "assistant": "user", "system": "user", "tool": "assistant"}
_BY_NAME: dict[str, Shape] = {"variables": "pairs", "messages": "messages", "ideal": "texts", "tools": "tools"}
_WORDS = frozenset(("tags", "allowed_tools", "default_allowed_tools", "metadata.tags"))
"""Lists of words, which are quicker to write one a line than as parts."""


@dataclass(frozen=True, slots=True)
class FieldPart:
    """One part: what it is called, and what of it is edited, with its place in the compound value."""

    label: str
    place: Path
    value: Any


def shape_of(name: str, value: Any) -> Shape | None:
    """How the value of a field is taken apart; None when it is edited as one."""
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
    """The value with a part moved, as far as it can go."""
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
    """The messages with the next role for one of them; what else it holds stays."""
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
    """A tool to begin with: a function of one argument, which the model is told of."""
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
    """The item that repeats a chat; what is unanswered, and exchanges beyond MAX_TURNS, are history."""
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
