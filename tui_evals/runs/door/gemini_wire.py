"""Gemini's generateContent as an agent speaks it."""

from __future__ import annotations

import json
from collections import deque
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
from tui_evals.transcript import reasoning_text

from .openai_wires import pieces

_PARAMS = {
    "temperature": "temperature",
    "topP": "top_p",
    "topK": "top_k",
    "maxOutputTokens": "max_tokens",
    "stopSequences": "stop",
    "seed": "seed",
    "presencePenalty": "presence_penalty",
    "frequencyPenalty": "frequency_penalty",
}
_CHOICES = {"AUTO": "auto", "ANY": "required", "NONE": "none", "VALIDATED": "auto"}


def _read(body: Mapping[str, Any], model: str) -> Asked:
    settings = body.get("generationConfig") or {}
    if settings.get("candidateCount") not in (None, 1):
        raise Unreadable("candidateCount asks for several answers; ask several times instead")
    params = renamed(settings, _PARAMS)
    schema = settings.get("responseJsonSchema") or _plain_schema(settings.get("responseSchema"))
    if schema:
        about = {"name": "answer", "schema": schema}
        params["response_format"] = {"type": "json_schema", "json_schema": about}
    elif settings.get("responseMimeType") == "application/json":
        params["response_format"] = {"type": "json_object"}
    calling = (body.get("toolConfig") or {}).get("functionCallingConfig") or {}
    if mode := _CHOICES.get(str(calling.get("mode"))):
        params["tool_choice"] = mode
    instruction = body.get("systemInstruction") or body.get("system_instruction")
    opening = [{"role": "system", "content": _text(instruction.get("parts") or ())}] if instruction else []
    return Asked(
        model=model,
        messages=(*opening, *_messages(demand_list(body.get("contents"), "contents"))),
        tools=tuple(_tools(body.get("tools") or ())),
        params=params,
    )


def _tools(tools: Any) -> Iterator[Mapping[str, Any]]:
    for tool in tools:
        declared = tool.get("functionDeclarations") or tool.get("function_declarations")
        if declared is None:
            raise Unreadable(f"the tool {', '.join(tool)} runs at the provider, and is not offered here")
        for one in declared:
            schema = one.get("parametersJsonSchema") or _plain_schema(one.get("parameters"))
            yield function_tool(one["name"], one.get("description"), schema)


def _plain_schema(schema: Any) -> Any:
    """Gemini's form of a schema as JSON Schema, whose types are written small."""
    if isinstance(schema, list):
        return [_plain_schema(part) for part in schema]
    if not isinstance(schema, Mapping):
        return schema
    return {
        name: value.lower() if name == "type" and isinstance(value, str) else _plain_schema(value)
        for name, value in schema.items()
    }


def _messages(contents: Any) -> Iterator[Mapping[str, Any]]:
    """Contents as messages; a result belongs to the first open call of its name where it has no id."""
    open_calls: dict[str, deque[str]] = {}
    number = 0
    for content in contents:
        parts = demand_list(content.get("parts"), "parts")
        if content.get("role") == "model":
            calls = []
            for part in parts:
                if (call := part.get("functionCall")) is None:
                    continue
                number += 1
                calls.append(tool_call(number, call.get("id"), call["name"], call.get("args")))
                open_calls.setdefault(call["name"], deque()).append(calls[-1]["id"])
            text = _text([part for part in parts if not part.get("thought")])
            said: dict[str, Any] = {"role": "assistant", "content": text or (None if calls else "")}
            yield {**said, "tool_calls": calls} if calls else said
            continue
        for part in parts:
            if (given := part.get("functionResponse")) is not None:
                waiting = open_calls.get(given["name"]) or deque([""])
                id = given.get("id") or waiting.popleft()
                yield {"role": "tool", "tool_call_id": id, "content": _result(given.get("response"))}
        if plain := [_part(part) for part in parts if "functionResponse" not in part]:
            is_text = all(part["type"] == "text" for part in plain)
            yield {"role": "user", "content": "".join(part["text"] for part in plain) if is_text else plain}


_WRAPPERS = ("result", "output", "return_value")
"""The keys under which agents put what a tool gave, because a response must be an object."""


def _result(response: Any) -> str:
    if isinstance(response, Mapping) and len(response) == 1 and next(iter(response)) in _WRAPPERS:
        response = next(iter(response.values()))
    return response if isinstance(response, str) else json.dumps(response, ensure_ascii=False)


def _text(parts: Any) -> str:
    return "".join(part.get("text", "") for part in parts)


def _part(part: Mapping[str, Any]) -> Mapping[str, Any]:
    if "text" in part:
        return {"type": "text", "text": part["text"]}
    if data := part.get("inlineData") or part.get("inline_data"):
        address = f"data:{data.get('mimeType') or data.get('mime_type')};base64,{data['data']}"
        if address.startswith("data:image/"):
            return {"type": "image_url", "image_url": {"url": address}}
        return {"type": "file", "file": {"filename": "file", "file_data": address}}
    raise Unreadable(f"a part with {', '.join(part)} is not known here")


def _write(answer: AnswerRecord, model: str, id: str) -> Mapping[str, Any]:
    parts: list[dict[str, Any]] = []
    if thought := reasoning_text(transcript_of(answer)):
        parts.append({"text": thought, "thought": True})
    if answer.text or not answer.tool_calls:
        parts.append({"text": answer.text or ""})
    for call in answer.tool_calls:
        about = {"id": call["id"]} if call.get("id") else {}
        parts.append({"functionCall": {**about, "name": call["name"], "args": arguments_of(call)}})
    ends = {"length": "MAX_TOKENS", "content_filter": "SAFETY"}
    counts = {
        "promptTokenCount": answer.input_tokens or 0,
        "candidatesTokenCount": (answer.output_tokens or 0) - answer.reasoning_tokens,
        "thoughtsTokenCount": answer.reasoning_tokens,
        "cachedContentTokenCount": answer.cached_tokens,
        "totalTokenCount": (answer.input_tokens or 0) + (answer.output_tokens or 0),
    }
    finish = ends.get(answer.finish_reason or "", "STOP")
    candidate = {"index": 0, "content": {"role": "model", "parts": parts}, "finishReason": finish}
    return {"candidates": [candidate], "usageMetadata": counts, "modelVersion": answer.model or model, "responseId": id}


def _stream(body: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    head = {name: body[name] for name in ("modelVersion", "responseId")}
    candidate = body["candidates"][0]

    def chunk(part: Mapping[str, Any]) -> tuple[str, Any]:
        return "", {**head, "candidates": [{"index": 0, "content": {"role": "model", "parts": [part]}}]}

    *early, last = candidate["content"]["parts"]
    for part in early:
        yield chunk(part)
    if last.get("text") and not last.get("thought"):
        *begun, end = pieces(last["text"])
        for piece in begun:
            yield chunk({"text": piece})
        last = {"text": end}
    ended = {**candidate, "content": {"role": "model", "parts": [last]}}
    yield "", {**head, "candidates": [ended], "usageMetadata": body["usageMetadata"]}


def _error(status: int, message: str) -> Mapping[str, Any]:
    states = {400: "INVALID_ARGUMENT", 401: "UNAUTHENTICATED", 403: "PERMISSION_DENIED", 429: "RESOURCE_EXHAUSTED"}
    return {"error": {"code": status, "message": message, "status": states.get(status, "UNAVAILABLE")}}


GENERATE = Wire(_read, _write, _stream, _error)
