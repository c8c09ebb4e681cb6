"""Transcripts: everything a system said and did for one answer, as messages of typed parts with time, tokens and cost.

The answer of a transcript is the text of the last assistant message with text, without reasoning (`answer_text`). For a
message with only audio, its transcript counts, and for a refusal, the refusal's text.

The JSON form is `{"version": 1, "messages": [{"role": ..., "parts": [{"type": ..., ...}]}]}`. Unknown content is kept
and written back: parts of other types as `Unknown`, additional fields in `more`.
"""

from __future__ import annotations

import json
import operator
import re
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import MISSING, field, fields, replace
from functools import cache
from typing import Any, Literal, TypeAlias, TypeVar, cast, get_args, overload

from tui_evals.light_records import dataclass

VERSION = 1
Which: TypeAlias = Literal["last", "all"]
"""Which messages are the answer: the last one of the assistant that has text, or all of them together."""
Think: TypeAlias = Literal["auto", "on", "off"]
"""When to remove reasoning from a text: `auto` if it starts with `<think>`, `on` also if it only has `</think>`."""
_NOTHING: Mapping[str, Any] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Took:
    """Time, tokens and cost of a message or a part; None where that is not known."""

    started: float | None = None
    """Seconds since 1970."""
    seconds: float | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int | None = None
    reasoning_tokens: int | None = None
    cost: float | None = None
    """US dollars."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _MessagePart:
    took: Took | None = None
    more: Mapping[str, Any] = field(default_factory=dict)
    """Fields that this version does not know."""


@dataclass(frozen=True, slots=True)
class Text(_MessagePart):
    """Text that was said."""

    text: str


@dataclass(frozen=True, slots=True)
class Reasoning(_MessagePart):
    """The reasoning of a model before its answer, or a summary of it."""

    text: str = ""
    block: Any = None
    """The provider's own form of it, JSON data. Under `message` are the fields of an assistant message that have to go
    back untouched in a tool loop."""


@dataclass(frozen=True, slots=True)
class Call(_MessagePart):
    """A call of a tool."""

    id: str
    name: str
    arguments: str = ""
    """The text that was sent, JSON as a rule."""


@dataclass(frozen=True, slots=True)
class Result(_MessagePart):
    """The result of the call with the same id."""

    id: str
    text: str = ""
    failed: bool = False
    by: str = ""
    """Its source: an MCP server, a file of functions, a script."""
    traceback: str = ""


@dataclass(frozen=True, slots=True)
class Document(_MessagePart):
    """A text that a search found."""

    text: str
    id: str = ""
    source: str = ""
    title: str = ""
    score: float | None = None


@dataclass(frozen=True, slots=True)
class Retrieval(_MessagePart):
    """The results of a search, best first."""

    documents: tuple[Document, ...] = ()
    query: str = ""
    source: str = ""


@dataclass(frozen=True, slots=True)
class Citation(_MessagePart):
    """A source that the text names."""

    text: str = ""
    """The words that are cited."""
    source: str = ""
    """Its URL, or its id among the documents."""
    title: str = ""
    start: int | None = None
    end: int | None = None
    """The range of characters in the message that it supports."""


@dataclass(frozen=True, slots=True)
class Image(_MessagePart):
    """A picture, by its address or its bytes as base64."""

    url: str = ""
    data: str = ""
    media_type: str = ""


@dataclass(frozen=True, slots=True)
class Audio(_MessagePart):
    """A sound with its transcript."""

    transcript: str = ""
    url: str = ""
    data: str = ""
    media_type: str = ""


@dataclass(frozen=True, slots=True)
class File(_MessagePart):
    """A file, by its address or its bytes as base64."""

    name: str = ""
    url: str = ""
    data: str = ""
    media_type: str = ""


@dataclass(frozen=True, slots=True)
class Refusal(_MessagePart):
    """Why the model does not answer."""

    text: str


@dataclass(frozen=True, slots=True)
class Unknown(_MessagePart):
    """A part of a type or form that this version does not know, unchanged."""

    type: str
    data: Mapping[str, Any] = field(default_factory=dict)


Part: TypeAlias = Text | Reasoning | Call | Result | Retrieval | Citation | Image | Audio | File | Refusal | Unknown
_TYPES: Mapping[str, type[Any]] = {kind.__name__.lower(): kind for kind in get_args(Part) if kind is not Unknown}


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """The parts of one message: of the assistant, of a user, or of tools."""

    role: str
    parts: tuple[Part, ...] = ()
    took: Took | None = None
    model: str = ""
    name: str = ""
    """Which agent said it, where there are several."""
    more: Mapping[str, Any] = field(default_factory=dict)

    def texts(self) -> Iterator[str]:
        """Its text parts."""
        return (part.text for part in self.parts if isinstance(part, Text))


@dataclass(frozen=True, slots=True)
class Transcript:
    """The messages of one answer in order; the question is none of them."""

    messages: Sequence[Message] = ()
    more: Mapping[str, Any] = field(default_factory=dict)

    @property
    def parts(self) -> Iterator[Part]:
        """All parts in order."""
        return (part for message in self.messages for part in message.parts)


P = TypeVar("P")


def parts_of(transcript: Transcript, kind: type[P]) -> tuple[P, ...]:
    """The parts of one type."""
    return tuple(part for part in transcript.parts if isinstance(part, kind))


# -- views


def answer_text(transcript: Transcript, which: Which = "last") -> str:
    """The answer: the last message of the assistant with a text, or all of them, without reasoning."""
    said = [text for message in transcript.messages if (text := _said(message))]
    return "\n\n".join(said) if which == "all" else said[-1] if said else ""


def _said(message: Message) -> str:
    if message.role != "assistant":
        return ""
    if text := "".join(message.texts()):
        return text
    heard = (part.transcript for part in message.parts if isinstance(part, Audio))
    refused = (part.text for part in message.parts if isinstance(part, Refusal))
    return "".join(heard) or "".join(refused)


def reasoning_text(transcript: Transcript) -> str:
    """All reasoning that can be read."""
    return "\n\n".join(part.text for part in parts_of(transcript, Reasoning) if part.text)


Place: TypeAlias = tuple[int, int]
"""The position of a part: the number of its message, and of the part in it."""


def outcome_places(messages: Iterable[Message]) -> dict[Place, Place | None]:
    """The position of each call's result, None if it is unknown; a repeated id is another call."""
    places: dict[Place, Place | None] = {}
    waiting: dict[str, list[Place]] = {}
    for number, message in enumerate(messages):
        for at, part in enumerate(message.parts):
            if isinstance(part, Call):
                waiting.setdefault(part.id, []).append((number, at))
                places[number, at] = None
            elif isinstance(part, Result) and waiting.get(part.id):
                places[waiting[part.id].pop(0)] = number, at
    return places


def calls_with_results(transcript: Transcript) -> tuple[tuple[Call, Result | None], ...]:
    """Each call with its result, None if it is unknown."""
    return tuple(
        (cast(Call, transcript.messages[number].parts[at]), _result_at(transcript, result))
        for (number, at), result in outcome_places(transcript.messages).items()
    )


def documents_of(transcript: Transcript) -> tuple[Document, ...]:
    """The retrieved documents, search after search."""
    return tuple(document for search in parts_of(transcript, Retrieval) for document in search.documents)


def steps_of(transcript: Transcript) -> tuple[dict[str, Any], ...]:
    """The steps of an assistant, each with its text, its calls and their results; empty for one plain message.

    A user's message in between is `asked` of the next step, and `parts` has all other parts.
    """
    return tuple(read_steps(transcript))


def read_steps(transcript: Transcript) -> Iterator[dict[str, Any]]:
    """The steps of `steps_of`, each created from its messages when it is read."""
    if not count_steps(transcript):
        return
    outcomes = outcome_places(transcript.messages)
    step: dict[str, Any] = {}
    asked: dict[str, Any] = {}
    for number, message in enumerate(transcript.messages):
        calls = [
            _step_call(part, _result_at(transcript, outcomes[number, at]))
            for at, part in enumerate(message.parts)
            if isinstance(part, Call)
        ]
        if message.role == "user":
            if step and _USER in message.more:
                step[_USER] = message.more[_USER]
            else:
                asked = {"asked": "".join(message.texts())}
        elif message.role == "assistant":
            if step:
                yield step
            step = {**asked, "text": _said(message), "calls": calls, **_step_facts(message)}
            asked = {}
        elif step:
            step["calls"] += calls
            if others := other_parts(Transcript((message,))):
                step["parts"] = [*step.get("parts", ()), *others]
    if step:
        yield step


def _result_at(transcript: Transcript, place: Place | None) -> Result | None:
    return None if place is None else cast(Result, transcript.messages[place[0]].parts[place[1]])


def count_steps(transcript: Transcript) -> int:
    """How many steps `steps_of` tells."""
    count, has_results, called = 0, False, set[str]()
    for message in transcript.messages:
        count += message.role == "assistant"
        called |= {part.id for part in message.parts if isinstance(part, Call)}
        has_results |= any(isinstance(part, Result) and part.id in called for part in message.parts)
    return count if has_results or count > 1 else 0


_USER = "user"
"""The field of a message that says how a simulated user ended the conversation."""


def _step_call(call: Call, result: Result | None) -> dict[str, Any]:
    data: dict[str, Any] = {"id": call.id, "name": call.name, "arguments": call.arguments}
    if result is None:
        return data
    data |= {"result": result.text} | ({"by": result.by} if result.by else {})
    if (took := result.took or call.took) is not None and took.seconds is not None:
        data["ms"] = round(1000 * took.seconds, 1)
    if result.failed:
        data["failed"] = True
    return data | ({"traceback": result.traceback} if result.traceback else {})


def other_parts(transcript: Transcript) -> list[dict[str, Any]]:
    """The parts other than texts, calls and results, as JSON data."""
    return [part_data(part) for part in transcript.parts if not isinstance(part, Text | Call | Result)]


_STEP_FACTS = ("input_tokens", "output_tokens", "cached_tokens", "reasoning_tokens", "cost")


def _step_facts(message: Message) -> dict[str, Any]:
    others = other_parts(Transcript((message,)))
    facts: dict[str, Any] = {"parts": others} if others else {}
    if (took := message.took) is not None:
        facts |= {name: value for name in _STEP_FACTS if (value := getattr(took, name)) is not None}
        facts |= {} if took.seconds is None else {"latency_ms": 1000 * took.seconds}
    return facts | ({"from_cache": True} if message.more.get("from_cache") is True else {})


def transcript_of_steps(steps: Iterable[Mapping[str, Any]]) -> Transcript:
    """The transcript of the steps that a run or an earlier version kept."""
    messages: list[Message] = []
    for step in steps:
        if "asked" in step:
            messages.append(Message(role="user", parts=(Text(step["asked"]),)))
        messages.append(_message_of_step(step))
        results = [_result_of_step(call) for call in step["calls"] if "result" in call]
        if results:
            messages.append(Message(role="tool", parts=tuple(results)))
        if _USER in step:
            said = str(step[_USER].get("message") or "")
            messages.append(Message(role="user", parts=(Text(said),), more={_USER: step[_USER]}))
    return Transcript(tuple(messages))


def _message_of_step(step: Mapping[str, Any]) -> Message:
    others = [part_from_data(part) for part in step.get("parts", ())]
    before = [part for part in others if isinstance(part, Reasoning)]
    after = [part for part in others if not isinstance(part, Reasoning)]
    text = [Text(step["text"])] if step.get("text") else []
    facts = {name: step[name] for name in _STEP_FACTS if step.get(name) is not None}
    if step.get("latency_ms") is not None:
        facts["seconds"] = step["latency_ms"] / 1000
    return Message(
        role="assistant",
        parts=(*before, *text, *map(_plain_call, step["calls"]), *after),
        took=Took(**facts) if facts else None,
        more={"from_cache": True} if step.get("from_cache") else {},
    )


def _plain_call(call: Mapping[str, Any]) -> Call:
    arguments = call.get("arguments") or ""
    text = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
    return Call(str(call.get("id") or ""), str(call.get("name") or ""), text)


def _result_of_step(call: Mapping[str, Any]) -> Result:
    seconds = call.get("ms")
    return Result(
        str(call.get("id") or ""),
        call["result"],
        call.get("failed") is True,
        call.get("by") or "",
        call.get("traceback") or "",
        took=None if seconds is None else Took(seconds=seconds / 1000),
    )


def plain_transcript(text: str | None, tool_calls: Iterable[Mapping[str, Any]] = (), refusal: str = "") -> Transcript:
    """The transcript of an answer that is a text and the calls that it asks for."""
    said: Part = Refusal(refusal) if refusal and refusal == text else Text(text or "")
    calls = tuple(map(_plain_call, tool_calls))
    return Transcript((Message(role="assistant", parts=((said,) if text else ()) + calls),) if text or calls else ())


# -- reasoning in a text

_OPENING = re.compile(r"\s*<think>", re.IGNORECASE)
_CLOSING = re.compile(r"</think>\s*", re.IGNORECASE)


def split_think(text: str, think: Think = "auto") -> tuple[str, str]:
    """The reasoning that a text begins with, and the rest; a block that does not end is reasoning to the end."""
    opening = _OPENING.match(text) if think != "off" else None
    if opening is None and think != "on":
        return "", text
    closing = _CLOSING.search(text)
    if closing is None:
        return (text[opening.end() :].strip(), "") if opening else ("", text)
    return text[opening.end() if opening else 0 : closing.start()].strip(), text[closing.end() :]


def without_think(transcript: Transcript, think: Think) -> Transcript:
    """The transcript with the reasoning in its texts as parts of their own."""
    return replace(transcript, messages=tuple(_without_think(message, think) for message in transcript.messages))


def _without_think(message: Message, think: Think) -> Message:
    if message.role != "assistant":
        return message
    first = next((place for place, part in enumerate(message.parts) if isinstance(part, Text)), None)
    if first is None:
        return message
    part = message.parts[first]
    assert isinstance(part, Text)
    thought, rest = split_think(part.text, think)
    if rest == part.text:
        return message
    split = ((Reasoning(thought),) if thought else ()) + ((replace(part, text=rest),) if rest else ())
    return replace(message, parts=(*message.parts[:first], *split, *message.parts[first + 1 :]))


# -- JSON


def to_json(transcript: Transcript) -> dict[str, Any]:
    """The transcript as JSON data."""
    return {"version": VERSION, "messages": list(map(message_data, transcript.messages)), **transcript.more}


def json_in_pieces(transcript: Transcript) -> dict[str, Any]:
    """The result of `to_json`, with an iterator that creates the messages one at a time."""
    return {**to_json(replace(transcript, messages=())), "messages": map(message_data, transcript.messages)}


def from_json(data: object) -> Transcript:
    """The transcript in JSON data; ValueError says why there is none."""
    if not isinstance(data, Mapping) or not isinstance(data.get("messages"), list):
        raise ValueError("a transcript is an object with a list of messages")
    version = data.get("version", VERSION)
    if type(version) is not int or version > VERSION:
        raise ValueError(f"the transcript is of version {version}, and this tui-evals knows version {VERSION}")
    more = {name: value for name, value in data.items() if name not in ("version", "messages")}
    return Transcript(tuple(map(message_from_data, data["messages"])), more)


_NEAR = 3


class StoredMessages(Sequence[Message]):
    """The messages of a long transcript in their stored JSON text, each read on access."""

    __slots__ = ("_near", "_places", "_text")

    def __init__(self, text: str, places: Sequence[tuple[int, int]]) -> None:
        self._text = text
        self._places = places
        """The beginning and end of each in the text."""
        self._near: dict[int, Message] = {}
        """The last that were read: a call and what its tool gave are neighbors."""

    def __len__(self) -> int:
        return len(self._places)

    @overload
    def __getitem__(self, number: int) -> Message: ...
    @overload
    def __getitem__(self, number: slice) -> tuple[Message, ...]: ...
    def __getitem__(self, number: int | slice) -> Message | tuple[Message, ...]:
        if isinstance(number, slice):
            return tuple(self[one] for one in range(*number.indices(len(self))))
        if (message := self._near.get(number)) is None:
            begin, end = self._places[number]
            message = message_from_data(json.loads(self._text[begin:end]))
            if len(self._near) > _NEAR:
                self._near = {}  # a new one, because others may be reading the old one
            self._near[number] = message
        return message

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, tuple | StoredMessages):
            return NotImplemented
        return len(self) == len(other) and all(map(operator.eq, self, other))

    __hash__ = None  # type: ignore[assignment]


_SPACE = re.compile(r"[ \t\n\r]*")
decode_at = json.JSONDecoder().raw_decode
"""The JSON value that begins at a place of a text, and where it ends; ValueError where there is none."""


def long_transcript(text: str, at: int) -> tuple[Transcript, int]:
    """The transcript that begins at a place of a JSON text, and where it ends; its messages stay text.

    ValueError says why there is none.
    """
    rest: dict[str, Any] = {}
    places: list[tuple[int, int]] = []

    def value(name: str, begin: int) -> int:
        if name != "messages":
            rest[name], end = decode_at(text, begin)
            return end
        end = read_array(text, begin, message)
        rest[name] = []
        return end

    def message(begin: int) -> int:
        data, end = decode_at(text, begin)
        message_from_data(data)  # what cannot be read is found now, and not where it is shown
        places.append((begin, end))
        return end

    end = read_object(text, at, value)
    return replace(from_json(rest), messages=StoredMessages(text, places)), end


def read_object(text: str, at: int, value: Callable[[str, int], int]) -> int:
    """Go through a JSON object; `value` is given each name and where its value begins, and returns where it ends."""

    def pair(begin: int) -> int:
        name, end = decode_at(text, begin)
        return value(str(name), _after(text, end, ":"))

    return _read_entries(text, at, "{}", pair)


def read_array(text: str, at: int, entry: Callable[[int], int]) -> int:
    """Go through a JSON array; `entry` is given where each entry begins, and returns where it ends."""
    return _read_entries(text, at, "[]", entry)


def _read_entries(text: str, at: int, brackets: str, entry: Callable[[int], int]) -> int:
    at = _after(text, at, brackets[0])
    while text[at : at + 1] != brackets[1]:
        at = _space(text, entry(at))
        if text[at : at + 1] != brackets[1]:
            at = _after(text, at, ",")
    return at + 1


def _after(text: str, at: int, sign: str) -> int:
    """The place after a sign and the spaces around it."""
    at = _space(text, at)
    if text[at : at + 1] != sign:
        raise ValueError(f"the JSON text has no {sign} at {at}")
    return _space(text, at + 1)


def _space(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return at if found is None else found.end()


def message_data(message: Message) -> dict[str, Any]:
    """A message as JSON data."""
    facts = {name: value for name in ("model", "name") if (value := getattr(message, name))}
    took = {} if message.took is None else {"took": _fields_data(message.took)}
    return {"role": message.role, "parts": list(map(part_data, message.parts)), **facts, **took, **message.more}


def message_from_data(data: object) -> Message:
    """The message in JSON data; ValueError where it has no role."""
    if not isinstance(data, Mapping) or not isinstance(data.get("role"), str):
        raise ValueError("a message of a transcript has a role")
    parts, took = data.get("parts") or (), data.get("took")
    if not isinstance(parts, list | tuple):
        raise ValueError("the parts of a message are a list")
    known = {name: data[name] for name in ("model", "name") if isinstance(data.get(name), str)}
    read = _took(took) if took is not None else None
    names = {"role", "parts", *known, *(("took",) if read is not None else ())}
    return Message(
        role=data["role"],
        parts=tuple(map(part_from_data, parts)),
        took=read,
        more={name: value for name, value in data.items() if name not in names},
        **known,
    )


def part_data(part: Part) -> dict[str, Any]:
    """A part as JSON data."""
    if isinstance(part, Unknown):
        return {**({"type": part.type} if part.type else {}), **part.data}
    return {"type": type(part).__name__.lower(), **_fields_data(part)}


def part_from_data(data: object) -> Part:
    """The part in JSON data, `Unknown` where its type or its form is another."""
    if not isinstance(data, Mapping) or not isinstance(data.get("type"), str) or not data["type"]:
        return Unknown("", {"value": data} if not isinstance(data, Mapping) else dict(data))
    rest = {name: value for name, value in data.items() if name != "type"}
    kind = _TYPES.get(data["type"])
    try:
        if kind is None:
            raise ValueError(data["type"])
        read: Part = _read(kind, rest)
    except ValueError:
        return Unknown(data["type"], rest)
    return read


def _fields_data(value: Any) -> dict[str, Any]:
    """The fields of a record that differ from their defaults."""
    data: dict[str, Any] = {}
    for name, default, _ in _fields_of(cast(Hashable, type(value))):
        own = getattr(value, name)
        if name == "more" or own == default:
            continue
        if isinstance(own, Took):
            own = _fields_data(own)
        elif name == "documents":
            own = list(map(_fields_data, own))
        data[name] = own
    return data | dict(getattr(value, "more", _NOTHING))


def _read(kind: type[Any], data: Mapping[str, Any]) -> Any:
    """A record from its data; ValueError where a field has another form."""
    known: dict[str, Any] = {}
    for name, default, is_form in _fields_of(cast(Hashable, kind)):
        if name not in data or name == "more":
            if default is MISSING:
                raise ValueError(name)
            continue
        value = data[name]
        if name == "took":
            if (value := _took(value)) is None:
                continue
        elif name == "documents":
            if not isinstance(value, list):
                raise ValueError(name)
            value = tuple(_read(Document, one if isinstance(one, Mapping) else {}) for one in value)
        elif not is_form(value):
            raise ValueError(name)
        known[name] = value
    return kind(**known, more={name: value for name, value in data.items() if name not in known})


def _took(data: object) -> Took | None:
    """The time, tokens and cost in some data; None if it has any other field."""
    forms = {name: is_form for name, _, is_form in _fields_of(Took)}
    if not isinstance(data, Mapping) or not all(name in forms and forms[name](value) for name, value in data.items()):
        return None
    return Took(**data)


def _is_count(value: object) -> bool:
    return type(value) is int


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


_FORMS: Mapping[str, Callable[[object], bool]] = {
    "str": lambda value: isinstance(value, str),
    "bool": lambda value: isinstance(value, bool),
    "int | None": _is_count,
    "float | None": _is_number,
}


@cache
def _fields_of(kind: Hashable) -> Sequence[tuple[str, Any, Callable[[object], bool]]]:
    """The fields of a record: name, default, and what its value must be like."""
    return tuple(
        (one.name, {} if one.name == "more" else one.default, _FORMS.get(str(one.type), lambda value: True))
        for one in fields(cast(Any, kind))
    )
