"""Reads messages, calls, documents and results of other tools and agent frameworks as parts of a transcript.

It knows chat completions, Responses items, Anthropic's blocks, LangChain's and PydanticAI's messages and
OpenTelemetry's `parts` by their fields. What it does not know becomes `Unknown`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from typing import Any

from tui_evals.transcript import (
    Audio,
    Call,
    Citation,
    Document,
    File,
    Image,
    Message,
    Part,
    Reasoning,
    Refusal,
    Result,
    Retrieval,
    Text,
    Took,
    Transcript,
    Unknown,
    answer_text,
)

_NAMES = ("name", "tool", "tool_name", "toolName", "function_name", "function")
_ARGUMENTS = ("arguments", "args", "input", "tool_input", "parameters", "kwargs", "tool_kwargs", "raw_input")
_RESULTS = ("result", "output", "tool_output", "response", "observation")
_IDS = ("call_id", "tool_call_id", "toolCallId", "tool_use_id", "tool_id", "id")
_DOCUMENT_TEXTS = ("text", "content", "page_content", "chunk", "snippet", "extract")
_ROLES: Mapping[str, str] = {
    "ai": "assistant",
    "AIMessageChunk": "assistant",
    "model": "assistant",
    "response": "assistant",
    "human": "user",
    "developer": "system",
    "function": "tool",
}
"""The roles and kinds of messages of other tools."""
_CALLS = frozenset(("tool_use", "tool_call", "tool-call", "function_call", "builtin-tool-call", "server_tool_use"))
_CALLS |= {"mcp_call", "custom_tool_call"}
_RESULT_TYPES = frozenset(("tool_result", "tool_call_response", "tool-return", "builtin-tool-return"))
_RESULT_TYPES |= {"function_call_output", "custom_tool_call_output", "retry-prompt"}
_TEXTS = frozenset(("text", "output_text", "input_text"))
_THOUGHTS = frozenset(("thinking", "redacted_thinking", "reasoning"))


def transcript_of_messages(messages: Sequence[object]) -> Transcript:
    """The transcript of a conversation's messages: what comes after the last message of the user."""
    read = [message for one in messages for message in read_messages(one)]
    last = max((place for place, message in enumerate(read) if message.role == "user"), default=-1)
    return Transcript(tuple(message for message in read[last + 1 :] if message.role != "system"))


def read_messages(data: object) -> Iterator[Message]:
    """The messages in one of another tool, which may contain both text and results of tools."""
    if isinstance(data, str):
        yield Message(role="assistant", parts=(Text(data),))
        return
    if not isinstance(data, Mapping):
        yield Message(role="assistant", parts=(Unknown("", {"value": str(data)}),))
        return
    kind = _text_of(data.get("type"))
    role = _text_of(data.get("role")) or ("" if kind in _CALLS | _RESULT_TYPES | _THOUGHTS else kind)
    role = _ROLES.get(role or _text_of(data.get("kind")), role)
    if not role or role == "message":
        yield Message(role="tool" if kind in _RESULT_TYPES else "assistant", parts=tuple(read_parts(data)))
        return
    if role == "tool" and data.get("content") is not None and "parts" not in data:
        yield Message(role="tool", parts=(*_results(data), *_artifacts(data)))
        return
    parts = [*_thoughts_beside(data), *_content(data), *_parts_beside(data)]
    results = [part for part in parts if isinstance(part, Result | Retrieval)]
    said = [part for part in parts if not isinstance(part, Result | Retrieval)]
    if said or not results:
        yield Message(
            role=role,
            parts=tuple(said),
            took=took_of(data),
            model=_text_of(data.get("model_name") or data.get("model")),
        )
    if results:
        yield Message(role="tool", parts=tuple(results))


def _content(data: Mapping[str, Any]) -> Iterator[Part]:
    content = data.get("content") if "content" in data else data.get("parts")
    if isinstance(content, str):
        if content:
            yield Text(content)
        return
    for block in content if isinstance(content, list | tuple) else ():
        yield from read_parts(block)


def _results(data: Mapping[str, Any]) -> Iterator[Result]:
    failed = data.get("status") == "error" or data.get("is_error") is True
    yield Result(_first_text(data, _IDS), text_of(data.get("content")), failed)


def _artifacts(data: Mapping[str, Any]) -> Iterator[Retrieval]:
    """The documents that a tool of LangChain gives besides its text."""
    artifact = data.get("artifact")
    documents = tuple(read_documents(artifact)) if isinstance(artifact, list | tuple) else ()
    if documents:
        yield Retrieval(documents)


def _thoughts_beside(data: Mapping[str, Any]) -> Iterator[Reasoning]:
    """Reasoning outside the content of a chat completion, to be sent back unchanged."""
    beside = data.get("additional_kwargs")
    yield from reasoning_of({**(beside if isinstance(beside, Mapping) else {}), **data})


def reasoning_of(message: Mapping[str, Any]) -> tuple[Reasoning, ...]:
    """The reasoning of a chat completion's message, with the fields that go back in a tool loop."""
    names = ("reasoning_content", "reasoning", "reasoning_details", "thinking_blocks")
    return tuple(_reasoning({name: message[name] for name in names if message.get(name) is not None}))


def _reasoning(block: Mapping[str, Any]) -> Iterator[Reasoning]:
    if not block:
        return
    for name in ("reasoning_content", "reasoning"):
        if isinstance(text := block.get(name), str) and text:
            break
    else:
        rows = block.get("reasoning_details") or block.get("thinking_blocks") or ()
        texts = (_first_text(row, ("text", "thinking", "summary")) for row in rows if isinstance(row, Mapping))
        text = "\n".join(filter(None, texts))
    yield Reasoning(text, {"message": dict(block)})


def _parts_beside(data: Mapping[str, Any]) -> Iterator[Part]:
    """The parts of a message outside its content: calls, a refusal, sounds, pictures, citations."""
    for call in _list(data.get("tool_calls")):
        yield from read_call(call)
    if refusal := _text_of(data.get("refusal")):
        yield Refusal(refusal)
    if isinstance(audio := data.get("audio"), Mapping):
        yield Audio(_text_of(audio.get("transcript")), data=_media(audio.get("data")), media_type="")
    for picture in _list(data.get("images")):
        yield from read_parts(picture)
    for note in _list(data.get("annotations")):
        yield read_citation(note)
    for url in _list(data.get("citations")):
        yield read_citation(url)


def read_parts(block: object) -> Iterator[Part]:
    """The parts in a block of content or an item of another tool."""
    if isinstance(block, str):
        yield Text(block)
        return
    if not isinstance(block, Mapping):
        yield Unknown("", {"value": str(block)})
        return
    kind = _text_of(block.get("type") or block.get("part_kind"))
    if kind in _TEXTS:
        yield Text(_first_text(block, ("text", "content")))
        for note in (*_list(block.get("annotations")), *_list(block.get("citations"))):
            yield read_citation(note)
    elif kind in _THOUGHTS:
        yield Reasoning(_thought(block), dict(block))
    elif kind in _CALLS:
        yield from read_call(block)
    elif kind in _RESULT_TYPES:
        given = next((block[name] for name in ("content", *_RESULTS) if block.get(name) is not None), "")
        failed = block.get("is_error") is True or kind == "retry-prompt"
        yield Result(_first_text(block, _IDS), text_of(given), failed)
    elif kind == "message":
        yield from _content(block)
    elif kind == "refusal":
        yield Refusal(_first_text(block, ("refusal", "text")))
    elif kind in ("image_url", "input_image", "output_image", "image", "image_generation_call"):
        yield _image(block)
    elif kind in ("input_audio", "audio", "output_audio"):
        held = block[kind] if isinstance(block.get(kind), Mapping) else block
        form = _text_of(held.get("format") or held.get("media_type"))
        yield Audio(_text_of(held.get("transcript")), _text_of(held.get("url")), _media(held.get("data")), form)
    elif kind in ("file", "document", "input_file"):
        held = block["file"] if isinstance(block.get("file"), Mapping) else block
        yield File(
            _first_text(held, ("filename", "name", "title")),
            _first_text(held, ("url", "uri", "file_url")),
            _media(held.get("data") or held.get("file_data")),
            _first_text(held, ("media_type", "mime_type", "mimeType")),
        )
    else:
        yield Unknown(kind, {name: _plain(value) for name, value in block.items() if name not in ("type", "part_kind")})


def read_call(value: object) -> Iterator[Part]:
    """A call in the form of any tool, with its result where that is in it; `Unknown` where it has no name."""
    outer = value if isinstance(value, Mapping) else {}
    inner = outer["function"] if isinstance(outer.get("function"), Mapping) else outer
    name = next((inner[each] for each in _NAMES if isinstance(inner.get(each), str) and inner[each]), "")
    if not name:
        yield Unknown("call", {"value": _plain(value)} if not outer else dict(_plain(outer)))
        return
    given = next((inner[each] for each in _ARGUMENTS if inner.get(each) is not None), "{}")
    arguments = given if isinstance(given, str) else json.dumps(_plain(given), ensure_ascii=False)
    id = _first_text(outer, _IDS) or _first_text(inner, _IDS)
    yield Call(id, name, arguments, took=took_of(outer))
    error = outer.get("error")
    given = next((outer[each] for each in _RESULTS if outer.get(each) is not None), error)
    if given is not None:
        failed = any(outer.get(each) is True for each in ("failed", "is_error", "isError", "error"))
        failed = failed or outer.get("status") in ("error", "failed") or (error is not None and given is error)
        yield Result(id, text_of(given), failed, took=took_of(outer))


def read_documents(value: object) -> Iterator[Document]:
    """The results of a search: a list of texts, or of objects with a text; others are left out."""
    for row in _list(value):
        inner = row["node"] if isinstance(row, Mapping) and isinstance(row.get("node"), Mapping) else row
        if not isinstance(inner, Mapping):
            if text := text_of(inner):
                yield Document(text)
            continue
        inner = inner.get("document", inner) if isinstance(inner.get("document"), Mapping) else inner
        about = inner["metadata"] if isinstance(inner.get("metadata"), Mapping) else {}
        text = next((inner[name] for name in _DOCUMENT_TEXTS if isinstance(inner.get(name), str)), "")
        score = next((each[name] for each in (row, inner) for name in ("score", "relevance") if name in each), None)
        if not text.strip():
            continue
        yield Document(
            text,
            _first_text(inner, ("id", "id_", "chunk_id", "doc_id", "node_id")),
            _first_text(inner, ("source", "url", "uri")) or _first_text(about, ("source", "url", "file_name")),
            _first_text(inner, ("title",)) or _first_text(about, ("title",)),
            float(score) if isinstance(score, int | float) and not isinstance(score, bool) else None,
        )


def read_citation(note: object) -> Part:
    """A citation in the form of any provider."""
    if isinstance(note, str):
        return Citation(source=note)
    if not isinstance(note, Mapping):
        return Unknown("citation", {"value": str(note)})
    held = next((note[kind] for kind in ("url_citation", "file_citation") if isinstance(note.get(kind), Mapping)), note)
    start, end = (
        next((held[name] for name in names if type(held.get(name)) is int), None)
        for names in (("start_index", "start_char_index", "start"), ("end_index", "end_char_index", "end"))
    )
    return Citation(
        _first_text(held, ("cited_text", "text", "quote")),
        _first_text(held, ("url", "source", "file_id", "uri")),
        _first_text(held, ("title", "document_title", "filename")),
        start,
        end,
    )


def text_of(value: object) -> str:
    """A value as text: blocks of content by their texts, other data as JSON."""
    if value is None or isinstance(value, str):
        return value or ""
    if isinstance(value, list | tuple) and value and all(isinstance(one, Mapping) for one in value):
        texts = [one.get("text") for one in value]
        if all(isinstance(text, str) for text in texts):
            return "\n".join(map(str, texts))
    return json.dumps(_plain(value), ensure_ascii=False)


def _thought(block: Mapping[str, Any]) -> str:
    if text := _first_text(block, ("thinking", "text", "reasoning")):
        return text
    rows = [*_list(block.get("summary")), *_list(block.get("content"))]
    texts = (row if isinstance(row, str) else _first_text(row, ("text",)) for row in rows)
    content = block.get("content")
    return "\n".join(filter(None, texts)) or (content if isinstance(content, str) else "")


def _image(block: Mapping[str, Any]) -> Image:
    held: Any = block.get("image_url") or block.get("source") or block
    url = held if isinstance(held, str) else _first_text(held, ("url", "uri", "image_url"))
    data = "" if isinstance(held, str) else _media(held.get("data") or held.get("base64") or block.get("result"))
    kind = "" if isinstance(held, str) else _first_text(held, ("media_type", "mime_type", "mimeType"))
    return Image(_media(url), data, kind)


MAX_MEDIA = 4_000_000
"""The most characters of a picture, a sound or a file to keep; a larger one keeps its name and type."""


def _media(value: object) -> str:
    return value if isinstance(value, str) and len(value) <= MAX_MEDIA else ""


_TOKENS: Mapping[str, tuple[str, ...]] = {
    "input_tokens": ("input_tokens", "prompt_tokens", "request_tokens"),
    "output_tokens": ("output_tokens", "completion_tokens", "response_tokens"),
    "cached_tokens": ("cached_tokens", "cache_read_tokens", "cache_read_input_tokens"),
    "reasoning_tokens": ("reasoning_tokens",),
}


def read_tokens(usage: object) -> dict[str, int]:
    """The token counts of a usage under our names, without values that are not counts."""
    counts = usage if isinstance(usage, Mapping) else {}
    return {
        ours: count
        for ours, theirs in _TOKENS.items()
        if (count := next((counts[name] for name in theirs if type(counts.get(name)) is int), None)) is not None
    }


def took_of(data: Mapping[str, Any]) -> Took | None:
    """The tokens and the time of a message or a call, if it has them."""
    facts: dict[str, Any] = dict(read_tokens(data.get("usage_metadata") or data.get("usage")))
    seconds = next((data[name] for name in ("seconds", "duration", "duration_s") if _is_number(data.get(name))), None)
    ms = next((data[name] for name in ("ms", "duration_ms", "latency_ms") if _is_number(data.get(name))), None)
    if seconds is not None or ms is not None:
        facts["seconds"] = seconds if seconds is not None else ms / 1000 if ms is not None else None
    if _is_number(data.get("cost")):
        facts["cost"] = data["cost"]
    return Took(**facts) if facts else None


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _list(value: object) -> Sequence[Any]:
    return value if isinstance(value, list | tuple) else ()


def _text_of(value: object) -> str:
    return value if isinstance(value, str) else ""


def _first_text(data: object, names: Iterable[str]) -> str:
    held = data if isinstance(data, Mapping) else {}
    return next((held[name] for name in names if isinstance(held.get(name), str) and held[name]), "")


def _plain(value: Any) -> Any:
    """A value as JSON data; other objects become their text."""
    return json.loads(json.dumps(value, default=str))


def framework_parts(value: object) -> dict[str, Any] | None:
    """The transcript of a framework's result, and its usage if there is one; None for other values."""
    if isinstance(value, Mapping):
        messages = value.get("messages")
        return _of_messages(messages) if isinstance(messages, list | tuple) and any(map(_is_object, messages)) else None
    if hasattr(value, "new_items") and hasattr(value, "final_output"):
        return _of_openai_agents(value)
    if callable(getattr(value, "all_messages", None)) and hasattr(value, "output"):
        return _of_pydantic_ai(value)
    if getattr(value, "type", None) in ("ai", "AIMessageChunk") and hasattr(value, "content"):
        return _of_messages([value])
    if hasattr(value, "response") and (hasattr(value, "source_nodes") or hasattr(value, "tool_calls")):
        return _of_llama_index(value)
    return None


def _is_object(message: object) -> bool:
    return not isinstance(message, Mapping | str) and hasattr(message, "content")


def _of_openai_agents(value: Any) -> dict[str, Any]:
    messages = [
        replace(message, name=str(name)) if message.role == "assistant" and name else message
        for item in value.new_items
        for name in [getattr(getattr(item, "agent", None), "name", "")]
        for message in _item_messages(item)
    ]
    joined = _joined(messages)
    return _with_output(Transcript(tuple(joined)), value.final_output) | _usage(
        getattr(getattr(value, "context_wrapper", None), "usage", None)
    )


def _item_messages(item: Any) -> Iterator[Message]:
    raw = plain_data(getattr(item, "raw_item", item))
    if getattr(item, "type", "").endswith("output_item") and "output" in getattr(item, "__dict__", {}):
        given = raw if isinstance(raw, Mapping) else {}
        call = str(given.get("call_id") or "")
        yield Message(role="tool", parts=(Result(call, text_of(plain_data(item.output))),))
        return
    yield from read_messages(raw)


def _of_pydantic_ai(value: Any) -> dict[str, Any]:
    new = getattr(value, "new_messages", None)
    given = new() if callable(new) else value.all_messages()
    messages = [message for one in given for message in _pydantic_messages(plain_data(one))]
    usage = getattr(value, "usage", None)
    if callable(usage) and not hasattr(usage, "input_tokens"):
        usage = usage()
    return _with_output(_after_user(messages), value.output) | _usage(usage)


def _pydantic_messages(data: Any) -> Iterator[Message]:
    """A request has the texts of the user and the tools, a response those of the model."""
    parts = data.get("parts") if isinstance(data, Mapping) else None
    if not isinstance(parts, list):
        return
    if data.get("kind") == "response":
        yield from read_messages({**data, "role": "assistant"})
        return
    for part in parts:
        kind = part.get("part_kind") if isinstance(part, Mapping) else None
        if kind == "user-prompt":
            yield Message(role="user", parts=(Text(text_of(part.get("content"))),))
        elif kind in ("tool-return", "retry-prompt") and part.get("tool_call_id"):
            yield Message(role="tool", parts=tuple(read_parts(part)))


def _of_messages(messages: Sequence[object]) -> dict[str, Any]:
    transcript = transcript_of_messages([plain_data(message) for message in messages])
    return {"transcript": transcript}


def _of_llama_index(value: Any) -> dict[str, Any]:
    response = value.response
    if not isinstance(response, str) and response is not None:  # a message of a chat
        response = getattr(response, "content", None) or str(response)
    calls = [*_llama_calls(getattr(value, "tool_calls", None)), *_llama_calls(getattr(value, "sources", None))]
    documents = tuple(read_documents(plain_data(list(getattr(value, "source_nodes", None) or ()))))
    messages = []
    if asked := tuple(part for part in calls if isinstance(part, Call)):
        messages.append(Message(role="assistant", parts=asked))
    given = tuple(part for part in calls if not isinstance(part, Call))
    if given or documents:
        messages.append(Message(role="tool", parts=(*given, *([Retrieval(documents)] if documents else []))))
    messages.append(Message(role="assistant", parts=(Text(response),) if response else ()))
    return {"transcript": Transcript(tuple(messages))}


def _llama_calls(calls: Iterable[Any] | None) -> Iterator[Any]:
    for number, call in enumerate(calls or (), 1):
        output = getattr(call, "tool_output", call)
        gave = hasattr(output, "raw_output")
        raw = plain_data(getattr(call, "tool_kwargs", None) or getattr(call, "raw_input", None) or {})
        arguments = raw.get("kwargs", raw) if isinstance(raw, Mapping) else raw
        yield from read_call(
            {
                "id": str(getattr(call, "tool_id", "") or f"call_{number}"),
                "name": getattr(call, "tool_name", ""),
                "arguments": arguments,
                **({"result": str(output.content), "failed": output.is_error is True} if gave else {}),
            }
        )


def _joined(messages: Iterable[Message]) -> Iterator[Message]:
    """Messages in which consecutive ones of the same speaker are merged."""
    last: Message | None = None
    for message in messages:
        if last is not None and (last.role, last.name) == (message.role, message.name):
            last = replace(last, parts=(*last.parts, *message.parts))
            continue
        if last is not None:
            yield last
        last = message
    if last is not None:
        yield last


def _after_user(messages: Sequence[Message]) -> Transcript:
    last = max((place for place, message in enumerate(messages) if message.role == "user"), default=-1)
    return Transcript(tuple(messages[last + 1 :]))


def _with_output(transcript: Transcript, output: object) -> dict[str, Any]:
    """The transcript, which ends with the output where that is another than its last text, as a structured one is."""
    data = plain_data(output)
    text = data if isinstance(data, str) else "" if data is None else json.dumps(data, ensure_ascii=False, default=str)
    if text and text != answer_text(transcript):
        transcript = Transcript((*transcript.messages, Message(role="assistant", parts=(Text(text),))))
    return {"transcript": transcript}


def _usage(usage: object) -> dict[str, Any]:
    counts = read_tokens(_attributes(usage))
    return {"usage": counts} if {"input_tokens", "output_tokens"} <= counts.keys() else {}


def _attributes(value: object) -> dict[str, Any]:
    names = ("input_tokens", "output_tokens", "request_tokens", "response_tokens", "cache_read_tokens")
    found = {name: getattr(value, name, None) for name in names}
    for group, name in (("input_tokens_details", "cached_tokens"), ("output_tokens_details", "reasoning_tokens")):
        found[name] = getattr(getattr(value, group, None), name, None)
    return found


def plain_data(value: Any) -> Any:
    """A value as plain data: models and dataclasses as mappings, each whole."""
    if isinstance(value, Mapping):
        return {name: plain_data(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [plain_data(part) for part in value]
    if callable(dump := getattr(value, "model_dump", None)) and not isinstance(value, type):
        return _dumped(dump)
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain_data(getattr(value, field.name)) for field in fields(value)}
    return value


def _dumped(dump: Any) -> Any:
    try:
        return dump(warnings=False)
    except TypeError:  # a model that is none of pydantic's
        return dump()
