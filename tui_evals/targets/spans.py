"""OpenTelemetry spans of agents as transcripts: the GenAI conventions, old and new, and OpenInference.

Reads OTLP requests as JSON and as protobuf, whose few messages are decoded here.
"""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from typing import Any

from tui_evals.light_records import dataclass
from tui_evals.transcript import (
    Call,
    Document,
    File,
    Image,
    Message,
    Part,
    Reasoning,
    Result,
    Retrieval,
    Text,
    Took,
    Transcript,
    Unknown,
)


@dataclass(frozen=True, slots=True)
class Span:
    """One span with its attributes as plain data."""

    trace: str
    id: str
    parent: str
    name: str
    started: float | None = None
    ended: float | None = None
    attributes: Mapping[str, Any] = field(default_factory=dict)
    events: tuple[tuple[str, Mapping[str, Any]], ...] = ()
    error: str = ""

    @property
    def seconds(self) -> float | None:
        """How long it took."""
        return None if self.started is None or self.ended is None else max(0.0, self.ended - self.started)

    def first(self, *names: str) -> Any:
        """The first of some attributes that is there."""
        return next((self.attributes[name] for name in names if self.attributes.get(name) is not None), None)


# -- reading OTLP


def spans_of_otlp(body: bytes, media_type: str = "") -> list[Span]:
    """The spans of an OTLP request; ValueError where it is none."""
    if "json" in media_type or body.lstrip()[:1] == b"{":
        return spans_of_json(json.loads(body))
    return [_span_of_message(span) for span in _spans_in(body)]


def spans_of_json(data: Any) -> list[Span]:
    """The spans of an OTLP request, or of a line of a file of them, as JSON data; ValueError where it is none."""
    try:
        resources = data.get("resourceSpans") or data.get("resource_spans")
        scopes = (
            scope
            for one in resources
            for scope in (one.get("scopeSpans") or one.get("scope_spans") or one.get("instrumentationLibrarySpans"))
        )
        return [_span_of_json(span) for scope in scopes for span in scope["spans"]]
    except (AttributeError, KeyError, TypeError):
        raise ValueError("not an OTLP request: it has no resourceSpans with scopeSpans") from None


def _span_of_json(span: Mapping[str, Any]) -> Span:
    status = span.get("status") or {}
    failed = status.get("code") in (2, "STATUS_CODE_ERROR")
    attributes = _attributes(span.get("attributes") or ())
    return Span(
        trace=str(span.get("traceId") or span.get("trace_id") or ""),
        id=str(span.get("spanId") or span.get("span_id") or ""),
        parent=str(span.get("parentSpanId") or span.get("parent_span_id") or ""),
        name=str(span.get("name") or ""),
        started=_seconds(span.get("startTimeUnixNano") or span.get("start_time_unix_nano")),
        ended=_seconds(span.get("endTimeUnixNano") or span.get("end_time_unix_nano")),
        attributes=attributes,
        events=tuple(
            (str(one.get("name")), _attributes(one.get("attributes") or ())) for one in span.get("events") or ()
        ),
        error=str(status.get("message") or attributes.get("error.type") or "failed") if failed else "",
    )


def _seconds(nanoseconds: object) -> float | None:
    return int(nanoseconds) / 1e9 if isinstance(nanoseconds, int | str) and str(nanoseconds).isdigit() else None


def _attributes(given: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    return {str(one["key"]): _value(one.get("value") or {}) for one in given}


def _value(value: Mapping[str, Any]) -> Any:
    for name, data in value.items():
        match name:
            case "arrayValue" | "array_value":
                return [_value(one) for one in data.get("values") or ()]
            case "kvlistValue" | "kvlist_value":
                return _attributes(data.get("values") or ())
            case "intValue" | "int_value":
                return int(data)
            case _:
                return data
    return None


# Protobuf: a message is a list of fields, each a number with a varint, eight bytes, or bytes.


def _fields(data: bytes) -> Iterator[tuple[int, Any]]:
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        number, kind = tag >> 3, tag & 7
        if kind == 0:
            value, at = _varint(data, at)
            yield number, value
        elif kind in (1, 5):
            size = 8 if kind == 1 else 4
            yield number, data[at : at + size]
            at += size
        elif kind == 2:
            size, at = _varint(data, at)
            if at + size > len(data):
                raise ValueError("not an OTLP request: it is cut off")
            yield number, data[at : at + size]
            at += size
        else:
            raise ValueError("not an OTLP request")


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if at >= len(data) or shift > 63:
            raise ValueError("not an OTLP request: it is cut off")
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, at


def _within(data: bytes, number: int) -> Iterator[Any]:
    return (value for found, value in _fields(data) if found == number)


def _spans_in(body: bytes) -> Iterator[bytes]:
    for resource in _within(body, 1):
        for scope in _within(resource, 2):
            yield from _within(scope, 2)


def _span_of_message(data: bytes) -> Span:
    known: dict[int, list[Any]] = {}
    for number, value in _fields(data):
        known.setdefault(number, []).append(value)

    def text(number: int) -> str:
        return known[number][0].decode("utf-8", "replace") if number in known else ""

    def identifier(number: int) -> str:
        return known[number][0].hex() if number in known else ""

    def moment(number: int) -> float | None:
        return int.from_bytes(known[number][0], "little") / 1e9 if number in known else None

    attributes = dict(map(_pair, known.get(9, ())))
    status = dict(_fields(known[15][0])) if 15 in known else {}
    said = status[2].decode("utf-8", "replace") if isinstance(status.get(2), bytes) else ""
    events = []
    for event in known.get(11, ()):
        name = next((one.decode("utf-8", "replace") for one in _within(event, 2)), "")
        events.append((name, dict(map(_pair, _within(event, 3)))))
    return Span(
        trace=identifier(1),
        id=identifier(2),
        parent=identifier(4),
        name=text(5),
        started=moment(7),
        ended=moment(8),
        attributes=attributes,
        events=tuple(events),
        error=(said or str(attributes.get("error.type") or "failed")) if status.get(3) == 2 else "",
    )


def _pair(data: bytes) -> tuple[str, Any]:
    known = dict(_fields(data))
    return known.get(1, b"").decode("utf-8", "replace"), _any(known.get(2, b""))


def _any(data: bytes) -> Any:
    for number, value in _fields(data):
        match number:
            case 1:
                return value.decode("utf-8", "replace")
            case 2:
                return bool(value)
            case 3:
                return value - 2**64 if value >= 2**63 else value
            case 4:
                return struct.unpack("<d", value)[0]
            case 5:
                return [_any(one) for one in _within(value, 1)]
            case 6:
                return dict(map(_pair, _within(value, 1)))
            case 7:
                return base64.b64encode(value).decode()
    return None


# -- from spans to a transcript

_MODELS = ("chat", "text_completion", "generate_content", "message_creation", "LLM")
_TOOLS = ("execute_tool", "TOOL")
_SEARCHES = ("retrieval", "RETRIEVER")


def kind_of_span(span: Span) -> str:
    """`model`, `tool`, `retrieval`, `agent`, or nothing known."""
    if span.name.rpartition(".")[2].startswith("_"):  # LlamaIndex tells what its models do before they ask
        return ""
    said = span.first("gen_ai.operation.name", "openinference.span.kind")
    word = str(said) if said is not None else span.name.split(" ")[0]
    if word in _MODELS:
        return "model"
    if word in _TOOLS:
        return "tool"
    if word in _SEARCHES:
        return "retrieval"
    return "agent" if word in ("invoke_agent", "create_agent", "AGENT", "CHAIN") else ""


def question_of_spans(spans: Sequence[Span]) -> list[dict[str, Any]]:
    """The messages that the first model call was given, as the chat protocol has them."""
    first = next((span for span in _ordered(spans) if kind_of_span(span) == "model"), None)
    if first is None:
        return []
    return [
        {"role": one.role, "content": "".join(one.texts())} for one in _input(first) if one.role in ("system", "user")
    ]


def transcript_of_spans(spans: Sequence[Span]) -> Transcript:
    """The transcript in the spans of one answer, in the order of their starts; unknown facts are missing."""
    messages: list[Message] = []
    open_calls: list[Call] = []
    told: set[str] = set()
    ordered = _ordered(spans)
    models = [span for span in ordered if kind_of_span(span) == "model"]
    for place, span in enumerate(ordered):
        kind = kind_of_span(span)
        if kind == "model":
            message = _answer(span)
            open_calls += [part for part in message.parts if isinstance(part, Call)]
            messages.append(message)
        elif kind == "tool":
            result, call = _tool_run(span, place)
            if (asked := _asked_as(call, open_calls)) is not None:
                open_calls.remove(asked)
                result = replace(result, id=asked.id)
            elif call.id in told:  # two instrumentations saw the same run
                continue
            else:  # a tool that no model is seen to ask for
                messages.append(Message(role="assistant", parts=(call,)))
            told.add(result.id)
            messages.append(Message(role="tool", parts=(result,)))
        elif kind == "retrieval":
            messages.append(_retrieved(span))
    shown = [part for span in models for one in _input(span) for part in one.parts if isinstance(part, Result)]
    return Transcript(tuple(_with_results(messages, {part.id: part for part in shown if part.id not in told})))


def _asked_as(run: Call, open_calls: Sequence[Call]) -> Call | None:
    """The open call that a tool's span ran: of its id, else of its name and arguments, else the first of its name."""
    named = [call for call in open_calls if call.name == run.name]
    alike = [call for call in named if _parsed(call.arguments) == _parsed(run.arguments)]
    return next((call for call in open_calls if call.id == run.id), next(iter(alike or named), None))


def _with_results(messages: Iterable[Message], results: Mapping[str, Result]) -> Iterator[Message]:
    """The messages with the results that only a later question shows, after the calls they belong to."""
    for message in messages:
        yield message
        late = [results[part.id] for part in message.parts if isinstance(part, Call) and part.id in results]
        if late:
            yield Message(role="tool", parts=tuple(late))


def _ordered(spans: Sequence[Span]) -> list[Span]:
    return sorted(spans, key=lambda span: span.started or 0.0)


def _took(span: Span) -> Took:
    def count(*names: str) -> int | None:
        value = span.first(*names)
        return value if isinstance(value, int) else None

    cost = span.first("llm.cost.total", "gen_ai.usage.cost")
    return Took(
        started=span.started,
        seconds=span.seconds,
        input_tokens=count("gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens", "llm.token_count.prompt"),
        output_tokens=count(
            "gen_ai.usage.output_tokens", "gen_ai.usage.completion_tokens", "llm.token_count.completion"
        ),
        cached_tokens=count("gen_ai.usage.cache_read.input_tokens", "llm.token_count.prompt_details.cache_read"),
        reasoning_tokens=count("gen_ai.usage.reasoning.output_tokens", "llm.token_count.completion_details.reasoning"),
        cost=float(cost) if isinstance(cost, int | float) else None,
    )


def _answer(span: Span) -> Message:
    said = _messages(span, "output")
    parts: tuple[Part, ...] = tuple(part for message in said for part in message.parts)
    if span.error:
        parts = (*parts, Unknown("error", {"message": span.error}))
    model = span.first("gen_ai.response.model", "gen_ai.request.model", "llm.model_name")
    return Message(role="assistant", parts=parts, took=_took(span), model=str(model or ""))


def _input(span: Span) -> list[Message]:
    return _messages(span, "input")


def _messages(span: Span, side: str) -> list[Message]:
    """The messages of one side of a model's span, in whichever convention they are."""
    written = _parsed(span.first(f"gen_ai.{side}.messages"))
    if isinstance(written, list):
        opening = _parsed(span.first("gen_ai.system_instructions")) if side == "input" else None
        before = [Message(role="system", parts=tuple(map(_part, opening)))] if isinstance(opening, list) else []
        return before + [_message(one) for one in written if isinstance(one, Mapping)]
    if flat := _unflattened(span.attributes, f"llm.{side}_messages."):
        return [_openinference(one.get("message", {})) for one in flat]
    if events := [_of_event(name, data) for name, data in span.events if _side(name) == side]:
        return events
    plain = span.first(f"{side}.value")
    role = "user" if side == "input" else "assistant"
    return [Message(role=role, parts=(Text(plain),))] if isinstance(plain, str) and plain else []


def _parsed(value: Any) -> Any:
    try:
        return json.loads(value) if isinstance(value, str) else value
    except ValueError:
        return value


def _message(data: Mapping[str, Any]) -> Message:
    parts = data.get("parts")
    if parts is None and isinstance(data.get("content"), str):
        parts = [{"type": "text", "content": data["content"]}]
    return Message(role=str(data.get("role") or "user"), parts=tuple(map(_part, parts or ())))


def _part(data: Any) -> Part:
    if not isinstance(data, Mapping):
        return Text(str(data))
    content = data.get("content")
    match data.get("type"):
        case "text":
            return Text(str(content or ""))
        case "reasoning":
            return Reasoning(str(content or ""))
        case "tool_call":
            return Call(str(data.get("id") or ""), str(data.get("name") or ""), _written(data.get("arguments")))
        case "tool_call_response":
            given = data.get("response", data.get("result"))
            return Result(str(data.get("id") or ""), _written(given))
        case "blob":
            media_type = str(data.get("mime_type") or "")
            kind = Image if media_type.startswith("image/") else File
            return kind(data=str(content or ""), media_type=media_type)
        case "uri":
            kind = Image if data.get("modality") == "image" else File
            return kind(url=str(data.get("uri") or ""))
        case "file":
            return File(name=str(data.get("file_id") or ""))
    return Unknown(str(data.get("type") or ""), {name: value for name, value in data.items() if name != "type"})


def _written(value: Any) -> str:
    return value if isinstance(value, str) else "" if value is None else json.dumps(value, ensure_ascii=False)


def _side(event: str) -> str:
    if event in ("gen_ai.system.message", "gen_ai.user.message", "gen_ai.assistant.message", "gen_ai.tool.message"):
        return "input"
    return "output" if event == "gen_ai.choice" else ""


def _of_event(name: str, data: Mapping[str, Any]) -> Message:
    """A message of the conventions until 1.36, which emitted an event for each."""
    body = _parsed(data.get("gen_ai.event.content")) or data
    inner = _parsed(body.get("message")) if isinstance(body, Mapping) else None
    said = inner if isinstance(inner, Mapping) else body
    role = "assistant" if name == "gen_ai.choice" else name.split(".")[1]
    text = _written(said.get("content"))
    if role == "tool":
        return Message(role=role, parts=(Result(str(said.get("id") or ""), text),))
    calls = _parsed(said.get("tool_calls")) or ()
    parts: list[Part] = [Text(text)] if text else []
    for call in calls:
        function = call.get("function", call)
        parts.append(Call(str(call.get("id") or ""), str(function.get("name")), _written(function.get("arguments"))))
    return Message(role=role, parts=tuple(parts))


def _unflattened(attributes: Mapping[str, Any], prefix: str) -> list[dict[str, Any]]:
    """The list that attributes such as `llm.input_messages.0.message.role` spell out."""
    root: dict[str, Any] = {}
    for name, value in attributes.items():
        if not name.startswith(prefix):
            continue
        *path, last = name[len(prefix) :].split(".")
        place = root
        for step in path:
            below = place.setdefault(step, {})
            place = below if isinstance(below, dict) else {}
        place[last] = value
    return _list(root)


def _list(data: Any) -> list[Any]:
    if not isinstance(data, Mapping):
        return []
    return [data[key] for key in sorted((key for key in data if key.isdigit()), key=int)]


def _openinference(message: Mapping[str, Any]) -> Message:
    role = str(message.get("role") or "user")
    contents = [one.get("message_content", {}) for one in _list(message.get("contents"))]
    text = str(message.get("content") or "") or "".join(str(one.get("text") or "") for one in contents)
    if role == "tool":
        return Message(role=role, parts=(Result(str(message.get("tool_call_id") or ""), text),))
    parts: list[Part] = [Text(text)] if text else []
    for one in _list(message.get("tool_calls")):
        call = one.get("tool_call", {})
        function = call.get("function", {})
        arguments = _written(function.get("arguments"))
        parts.append(Call(str(call.get("id") or ""), str(function.get("name") or ""), arguments))
    return Message(role=role, parts=tuple(parts))


def _tool_run(span: Span, place: int) -> tuple[Result, Call]:
    name = str(span.first("gen_ai.tool.name", "tool.name") or span.name.removeprefix("execute_tool "))
    given = span.first("gen_ai.tool.call.result", "output.value")
    message = _tool_message(given)
    known = span.first("gen_ai.tool.call.id", "tool_call.id", "tool.id") or message.get("tool_call_id")
    id = str(known or f"span_{span.id or place}")
    arguments = _written(span.first("gen_ai.tool.call.arguments", "input.value", "tool.parameters"))
    text = _written(message.get("content", given))
    failed = bool(span.error) or message.get("status") == "error"
    took = Took(started=span.started, seconds=span.seconds)
    return Result(id, text or span.error, failed, took=took), Call(id, name, arguments)


def _tool_message(given: Any) -> Mapping[str, Any]:
    """The message that spans of LangChain and LlamaIndex have in place of a tool's result."""
    written = _parsed(given)
    if not isinstance(written, Mapping):
        return {}
    if {"tool_name", "raw_output", "is_error"} <= written.keys():
        texts = [block.get("text") for block in written.get("blocks") or () if isinstance(block, Mapping)]
        shown = "\n".join(text for text in texts if isinstance(text, str))
        return {
            "content": shown or written["raw_output"],
            "status": "error" if written["is_error"] is True else "success",
        }
    data = written.get("data") if written.get("type") == "tool" else None
    return data if isinstance(data, Mapping) and "content" in data else {}


def _retrieved(span: Span) -> Message:
    written = _parsed(span.first("gen_ai.retrieval.documents"))
    flat = [one.get("document", {}) for one in _unflattened(span.attributes, "retrieval.documents.")]
    documents = tuple(_document(one) for one in (written if isinstance(written, list) else flat))
    query = span.first("gen_ai.retrieval.query.text", "gen_ai.retrieval.query", "input.value")
    took = Took(started=span.started, seconds=span.seconds)
    found = Retrieval(documents, _written(query), str(span.first("gen_ai.data_source.id") or ""))
    return Message(role="tool", parts=(replace(found, took=took),), took=took)


def _document(data: Any) -> Document:
    if not isinstance(data, Mapping):
        return Document(str(data))
    about = _parsed(data.get("metadata"))
    source = about.get("source") if isinstance(about, Mapping) else None
    score = data.get("score")
    return Document(
        text=_written(data.get("content", data.get("text"))),
        id=str(data.get("id") or ""),
        source=str(data.get("source") or source or ""),
        title=str(data.get("title") or ""),
        score=float(score) if isinstance(score, int | float) and not isinstance(score, bool) else None,
    )
