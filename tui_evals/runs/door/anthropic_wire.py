"""Anthropic's Messages as an agent speaks them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from tui_evals.runs.door.openai_wires import (
    Asked,
    Unreadable,
    Wire,
    arguments_of,
    demand_list,
    function_tool,
    renamed,
    tool_call,
)
from tui_evals.store.records import AnswerRecord, transcript_of
from tui_evals.text.chats import content_text
from tui_evals.transcript import reasoning_text

from .openai_wires import pieces

_PARAMS = {
    "max_tokens": "max_tokens",
    "temperature": "temperature",
    "top_p": "top_p",
    "top_k": "top_k",
    "stop_sequences": "stop",
    "thinking": "thinking",
}


def _read(body: Mapping[str, Any], model: str) -> Asked:
    params = renamed(body, _PARAMS)
    if choice := body.get("tool_choice"):
        named = {"type": "function", "function": {"name": choice.get("name")}}
        params["tool_choice"] = {"any": "required", "tool": named}.get(choice.get("type"), choice.get("type"))
    opening = [{"role": "system", "content": content_text(body["system"])}] if body.get("system") else []
    messages = [one for message in demand_list(body.get("messages"), "messages") for one in _messages(message)]
    return Asked(
        model=str(body.get("model") or model),
        messages=(*opening, *messages),
        tools=tuple(map(_tool, body.get("tools") or ())),
        params=params,
        streamed=body.get("stream") is True,
    )


def _tool(tool: Mapping[str, Any]) -> Mapping[str, Any]:
    if "input_schema" not in tool:
        raise Unreadable(f"the tool {tool.get('type')} runs at the provider, and is not offered here")
    return function_tool(tool["name"], tool.get("description"), tool["input_schema"])


def _messages(message: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """A message as those of the chat protocol, where results of tools are messages of their own."""
    role, content = message.get("role"), message.get("content")
    if isinstance(content, str):
        yield {"role": role, "content": content}
        return
    blocks = demand_list(content, "the content of a message")
    calls = [
        tool_call(n, one.get("id"), one["name"], one.get("input")) for n, one in enumerate(_of(blocks, "tool_use"))
    ]
    for result in _of(blocks, "tool_result"):
        text = content_text(result.get("content"))
        shown = f"Error: {text}" if result.get("is_error") else text
        yield {"role": "tool", "tool_call_id": result.get("tool_use_id", ""), "content": shown}
    if role == "assistant":
        text = "".join(part.get("text", "") for part in _of(blocks, "text"))
        yield {"role": role, "content": text or None, "tool_calls": calls} if calls else {"role": role, "content": text}
        return
    if parts := [_part(part) for part in blocks if part.get("type") not in ("tool_result", "tool_use")]:
        is_text = all(part["type"] == "text" for part in parts)
        yield {"role": role, "content": "\n".join(part["text"] for part in parts) if is_text else parts}


def _of(blocks: Any, kind: str) -> list[Mapping[str, Any]]:
    return [block for block in blocks if block.get("type") == kind]


def _part(part: Mapping[str, Any]) -> Mapping[str, Any]:
    source = part.get("source") or {}
    match part.get("type"), source.get("type"):
        case "text", _:
            return {"type": "text", "text": part.get("text", "")}
        case "image" | "document", "base64":
            address = f"data:{source.get('media_type')};base64,{source.get('data')}"
            if part["type"] == "image":
                return {"type": "image_url", "image_url": {"url": address}}
            return {"type": "file", "file": {"filename": part.get("title") or "document", "file_data": address}}
        case "image", "url":
            return {"type": "image_url", "image_url": {"url": source.get("url")}}
    raise Unreadable(f"a block of the type {part.get('type')} is not known here")


def _write(answer: AnswerRecord, model: str, id: str) -> Mapping[str, Any]:
    content: list[dict[str, Any]] = []
    if thought := reasoning_text(transcript_of(answer)):
        content.append({"type": "thinking", "thinking": thought, "signature": id})
    if answer.text:
        content.append({"type": "text", "text": answer.text})
    for number, call in enumerate(answer.tool_calls, 1):
        about = {"id": call.get("id") or f"toolu_{id}_{number}", "name": call["name"], "input": arguments_of(call)}
        content.append({"type": "tool_use", **about})
    stops = {"length": "max_tokens", "content_filter": "refusal"}
    return {
        "id": f"msg_{id}",
        "type": "message",
        "role": "assistant",
        "model": answer.model or model,
        "content": content,
        "stop_reason": "tool_use" if answer.tool_calls else stops.get(answer.finish_reason or "", "end_turn"),
        "stop_sequence": None,
        "usage": {
            "input_tokens": max(0, (answer.input_tokens or 0) - answer.cached_tokens),
            "output_tokens": answer.output_tokens or 0,
            "cache_read_input_tokens": answer.cached_tokens,
            "cache_creation_input_tokens": 0,
        },
    }


_HOLLOW: Mapping[str, Mapping[str, Any]] = {
    "text": {"text": ""},
    "thinking": {"thinking": "", "signature": ""},
    "tool_use": {"input": {}},
}
"""What a block begins as, before its pieces come."""


def _stream(body: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    def event(name: str, **data: Any) -> tuple[str, Any]:
        return name, {"type": name, **data}

    begun = {**body, "content": [], "stop_reason": None, "usage": {**body["usage"], "output_tokens": 0}}
    yield event("message_start", message=begun)
    for place, block in enumerate(body["content"]):
        deltas = list(_deltas(block))
        yield event("content_block_start", index=place, content_block={**block, **_HOLLOW[block["type"]]})
        for delta in deltas:
            yield event("content_block_delta", index=place, delta=delta)
        yield event("content_block_stop", index=place)
    ending = {"stop_reason": body["stop_reason"], "stop_sequence": None}
    yield event("message_delta", delta=ending, usage={"output_tokens": body["usage"]["output_tokens"]})
    yield event("message_stop")


def _deltas(block: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    match block["type"]:
        case "text":
            for piece in pieces(block["text"]):
                yield {"type": "text_delta", "text": piece}
        case "thinking":
            yield {"type": "thinking_delta", "thinking": block["thinking"]}
            yield {"type": "signature_delta", "signature": block["signature"]}
        case "tool_use":
            yield {"type": "input_json_delta", "partial_json": json.dumps(block["input"], ensure_ascii=False)}


def _error(status: int, message: str) -> Mapping[str, Any]:
    kinds = {401: "authentication_error", 403: "permission_error", 404: "not_found_error", 429: "rate_limit_error"}
    kind = kinds.get(status, "invalid_request_error" if status < 500 else "api_error")
    return {"type": "error", "error": {"type": kind, "message": message}}


MESSAGES = Wire(_read, _write, _stream, _error)
