"""Results of agent frameworks, recognised by their shape without importing them, as what a reply holds.

OpenAI Agents SDK (`RunResult`), PydanticAI (`AgentRunResult`), LangChain (`AIMessage`) and LangGraph (a state with
`messages`), LlamaIndex (`Response`, `AgentChatResponse`, `AgentOutput`).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from typing import Any

from tui_evals.transcript import Call, Message, Result, Retrieval, Text, Transcript, answer_text

from .foreign_messages import (
    read_call,
    read_documents,
    read_messages,
    read_parts,
    read_tokens,
    text_of,
    transcript_of_messages,
)


def framework_parts(value: object) -> dict[str, Any] | None:
    """The transcript, and the usage where it is told, of a framework's result; None where it is none."""
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
    """A request has what the user and the tools said, a response what the model did."""
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
    """Messages of which each item was one, the neighbours of one speaker together."""
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
