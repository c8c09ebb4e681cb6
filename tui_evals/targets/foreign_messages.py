"""Reads messages, calls and retrieved documents of other tools as parts of a transcript.

It knows chat completions, Responses items, Anthropic's blocks, LangChain's and PydanticAI's messages and
OpenTelemetry's `parts` by their fields. What it does not know becomes `Unknown`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
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
"""What other tools call a role or a kind of message."""
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
    """The messages in one of another tool, which may hold what was said and what tools gave."""
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
    """What a chat completion has of reasoning besides its content, to be sent back as it came."""
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
    """What a message has besides its content: calls, a refusal, sounds, pictures, citations."""
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
    """What a search found: a list of texts, or of objects with a text; what has none is left out."""
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
"""Characters of a picture, a sound or a file that are kept; of a longer one its name and its type are."""


def _media(value: object) -> str:
    return value if isinstance(value, str) and len(value) <= MAX_MEDIA else ""


_TOKENS: Mapping[str, tuple[str, ...]] = {
    "input_tokens": ("input_tokens", "prompt_tokens", "request_tokens"),
    "output_tokens": ("output_tokens", "completion_tokens", "response_tokens"),
    "cached_tokens": ("cached_tokens", "cache_read_tokens", "cache_read_input_tokens"),
    "reasoning_tokens": ("reasoning_tokens",),
}


def read_tokens(usage: object) -> dict[str, int]:
    """The counts of a usage by our names, without what is no count."""
    counts = usage if isinstance(usage, Mapping) else {}
    return {
        ours: count
        for ours, theirs in _TOKENS.items()
        if (count := next((counts[name] for name in theirs if type(counts.get(name)) is int), None)) is not None
    }


def took_of(data: Mapping[str, Any]) -> Took | None:
    """What a message or a call took, as far as it says so."""
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
    """A value as JSON data; what JSON does not know is its text."""
    return json.loads(json.dumps(value, default=str))
