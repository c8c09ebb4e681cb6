"""The protocols that an agent may speak: OpenAI's chat completions and responses, Anthropic's Messages, Gemini's."""

from __future__ import annotations

import json
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field
from typing import Any

from tui_evals.light_records import dataclass
from tui_evals.store.records import AnswerRecord, transcript_of
from tui_evals.text.chats import content_text
from tui_evals.transcript import reasoning_text


class Unreadable(Exception):
    """A request that this server cannot answer; the message names the unsupported part."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A request of an agent, in the form of the chat protocol."""

    model: str
    messages: tuple[Mapping[str, Any], ...]
    tools: tuple[Mapping[str, Any], ...] = ()
    params: Mapping[str, Any] = field(default_factory=dict)
    streamed: bool = False
    previous: str = ""
    """The id of the response that this one continues from, where the server keeps the conversation."""


@dataclass(frozen=True, slots=True)
class Wire:
    """One protocol."""

    read: Callable[[Mapping[str, Any], str], Asked]
    """Reads a request from its body and the model in its URL; raises Unreadable."""
    write: Callable[[AnswerRecord, str, str], Mapping[str, Any]]
    """The body of an answer, given with the model that was asked for and an id of its own."""
    stream: Callable[[Mapping[str, Any]], Iterator[tuple[str, Any]]]
    """The events of a body, each with its name, which is empty where the protocol names none."""
    error: Callable[[int, str], Mapping[str, Any]]


def event_bytes(name: str, data: Any) -> bytes:
    """An event as a stream has it."""
    text = data if isinstance(data, str) else json.dumps(data, ensure_ascii=False)
    return f"event: {name}\ndata: {text}\n\n".encode() if name else f"data: {text}\n\n".encode()


def tool_call(number: int, id: object, name: object, arguments: object) -> dict[str, Any]:
    """A call in the form of the chat protocol."""
    text = arguments if isinstance(arguments, str) else json.dumps(arguments or {}, ensure_ascii=False)
    return {"id": str(id or f"call_{number}"), "type": "function", "function": {"name": str(name), "arguments": text}}


def function_tool(name: str, description: object, parameters: object, **more: Any) -> dict[str, Any]:
    """The definition of a tool in the form of the chat protocol."""
    about = {"description": description} if description else {}
    return {"type": "function", "function": {"name": name, **about, "parameters": parameters or {}, **more}}


def arguments_of(call: Mapping[str, Any]) -> Any:
    """The arguments of a call as data; as text under `input` where they are no JSON object."""
    try:
        value = json.loads(call.get("arguments") or "{}")
    except ValueError:
        value = None
    return value if isinstance(value, dict) else {"input": call.get("arguments")}


def renamed(data: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    """The settings of a request that the chat protocol has, under the names it uses."""
    return {ours: data[theirs] for theirs, ours in names.items() if data.get(theirs) is not None}


def demand_list(value: object, what: str) -> Sequence[Any]:
    """The value as a list; Unreadable where it is none."""
    if not isinstance(value, list):
        raise Unreadable(f"{what} must be a list")
    return value


_CHAT_SETTINGS = ("model", "messages", "tools", "stream", "stream_options", "n", "store", "metadata", "user")
_PIECE = 40
"""Characters of a piece of a streamed text."""


def _openai_error(status: int, message: str) -> Mapping[str, Any]:
    kinds = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}
    kind = kinds.get(status, "invalid_request_error" if status < 500 else "server_error")
    return {"error": {"message": message, "type": kind, "code": None, "param": None}}


def pieces(text: str) -> Iterator[str]:
    """A text in the pieces in which it is streamed."""
    return (text[at : at + _PIECE] for at in range(0, len(text), _PIECE))


# -- chat completions


def _read_chat(body: Mapping[str, Any], model: str) -> Asked:
    if body.get("n") not in (None, 1):
        raise Unreadable("n asks for several answers; ask several times instead")
    messages = [dict(message) for message in demand_list(body.get("messages"), "messages")]
    return Asked(
        model=str(body.get("model") or model),
        messages=tuple(messages),
        tools=tuple(body.get("tools") or ()),
        params={name: value for name, value in body.items() if name not in _CHAT_SETTINGS and value is not None},
        streamed=body.get("stream") is True,
    )


def _write_chat(answer: AnswerRecord, model: str, id: str) -> Mapping[str, Any]:
    calls = [tool_call(n, one.get("id"), one["name"], one["arguments"]) for n, one in enumerate(answer.tool_calls, 1)]
    message: dict[str, Any] = {"role": "assistant", "content": answer.text or (None if calls else "")}
    if calls:
        message["tool_calls"] = calls
    if thought := reasoning_text(transcript_of(answer)):
        message["reasoning_content"] = thought
    usage = {
        "prompt_tokens": answer.input_tokens or 0,
        "completion_tokens": answer.output_tokens or 0,
        "total_tokens": (answer.input_tokens or 0) + (answer.output_tokens or 0),
        "prompt_tokens_details": {"cached_tokens": answer.cached_tokens},
        "completion_tokens_details": {"reasoning_tokens": answer.reasoning_tokens},
    }
    return {
        "id": f"chatcmpl-{id}",
        "object": "chat.completion",
        "created": int(time.time()),
        "model": answer.model or model,
        "choices": [{"index": 0, "message": message, "finish_reason": _finish(answer), "logprobs": None}],
        "usage": usage,
    }


def _finish(answer: AnswerRecord) -> str:
    if answer.tool_calls:
        return "tool_calls"
    known = ("stop", "length", "content_filter")
    return answer.finish_reason if answer.finish_reason in known else "stop"


def _stream_chat(body: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    head = {name: body[name] for name in ("id", "created", "model")} | {"object": "chat.completion.chunk"}

    def chunk(delta: Mapping[str, Any], finish: str | None = None) -> tuple[str, Any]:
        return "", {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}

    choice = body["choices"][0]
    message = choice["message"]
    yield chunk({"role": "assistant", "content": ""})
    for piece in pieces(message.get("reasoning_content") or ""):
        yield chunk({"reasoning_content": piece})
    for piece in pieces(message["content"] or ""):
        yield chunk({"content": piece})
    for number, call in enumerate(message.get("tool_calls") or ()):
        yield chunk({"tool_calls": [{"index": number, **call}]})
    yield chunk({}, choice["finish_reason"])
    yield "", {**head, "choices": [], "usage": body["usage"]}
    yield "", "[DONE]"


CHAT = Wire(_read_chat, _write_chat, _stream_chat, _openai_error)


# -- responses

_RESPONSE_PARAMS = {
    "max_output_tokens": "max_tokens",
    "temperature": "temperature",
    "top_p": "top_p",
    "parallel_tool_calls": "parallel_tool_calls",
    "top_logprobs": "top_logprobs",
}


def _read_response(body: Mapping[str, Any], model: str) -> Asked:
    text = body.get("text") or {}
    params = renamed(body, _RESPONSE_PARAMS)
    if effort := (body.get("reasoning") or {}).get("effort"):
        params["reasoning_effort"] = effort
    if text.get("verbosity"):
        params["verbosity"] = text["verbosity"]
    form = text.get("format") or {}
    if form.get("type") == "json_schema":
        about = {name: form[name] for name in ("name", "schema", "strict") if name in form}
        params["response_format"] = {"type": "json_schema", "json_schema": about}
    elif form.get("type") == "json_object":
        params["response_format"] = {"type": "json_object"}
    if (choice := body.get("tool_choice")) is not None:
        is_named = isinstance(choice, Mapping) and choice.get("type") == "function"
        params["tool_choice"] = {"type": "function", "function": {"name": choice["name"]}} if is_named else choice
    opening = [{"role": "system", "content": body["instructions"]}] if body.get("instructions") else []
    return Asked(
        model=str(body.get("model") or model),
        messages=(*opening, *_response_messages(body.get("input"))),
        tools=tuple(map(_response_tool, body.get("tools") or ())),
        params=params,
        streamed=body.get("stream") is True,
        previous=str(body.get("previous_response_id") or ""),
    )


def _response_tool(tool: Mapping[str, Any]) -> Mapping[str, Any]:
    if tool.get("type") != "function":
        raise Unreadable(f"the tool {tool.get('type')} runs at the provider, and is not offered here")
    more = {"strict": tool["strict"]} if tool.get("strict") is not None else {}
    return function_tool(tool["name"], tool.get("description"), tool.get("parameters"), **more)


def _response_messages(given: object) -> Iterator[Mapping[str, Any]]:
    """Input items as messages: the calls of one step belong to one message."""
    if isinstance(given, str):
        yield {"role": "user", "content": given}
        return
    calling: dict[str, Any] | None = None
    for number, item in enumerate(demand_list(given, "input"), 1):
        kind = item.get("type", "message")
        if kind == "function_call":
            if calling is None:
                calling = {"role": "assistant", "content": None, "tool_calls": []}
            calling["tool_calls"].append(tool_call(number, item.get("call_id"), item["name"], item.get("arguments")))
            continue
        if kind == "reasoning":  # the server remembers its own
            continue
        if kind == "message" and item.get("role") == "assistant" and calling is None:
            calling = {"role": "assistant", "content": _said(item), "tool_calls": []}
            continue
        if calling is not None:
            yield _whole(calling)
            calling = None
        if kind == "function_call_output":
            output = item.get("output")
            text = output if isinstance(output, str) else content_text(output) or json.dumps(output)
            yield {"role": "tool", "tool_call_id": item.get("call_id", ""), "content": text}
        elif kind == "message":
            role = "system" if item.get("role") == "developer" else item.get("role", "user")
            if role == "assistant":
                calling = {"role": role, "content": _said(item), "tool_calls": []}
            else:
                yield {"role": role, "content": _content(item.get("content"))}
        else:
            raise Unreadable(f"an input item of the type {kind} is not known here")
    if calling is not None:
        yield _whole(calling)


def _whole(message: dict[str, Any]) -> Mapping[str, Any]:
    return message if message["tool_calls"] else {"role": message["role"], "content": message["content"] or ""}


def _said(item: Mapping[str, Any]) -> str:
    content = item.get("content")
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content or ())


def _content(content: object) -> Any:
    if not isinstance(content, list):
        return content or ""
    return [_response_part(part) for part in content]


def _response_part(part: Mapping[str, Any]) -> Mapping[str, Any]:
    match part.get("type"):
        case "input_text" | "output_text" | "text":
            return {"type": "text", "text": part.get("text", "")}
        case "input_image":
            detail = {"detail": part["detail"]} if part.get("detail") else {}
            return {"type": "image_url", "image_url": {"url": part.get("image_url"), **detail}}
        case "input_file":
            return {"type": "file", "file": {name: value for name, value in part.items() if name != "type"}}
    raise Unreadable(f"a part of the type {part.get('type')} is not known here")


def _write_response(answer: AnswerRecord, model: str, id: str) -> Mapping[str, Any]:
    output: list[dict[str, Any]] = []
    if thought := reasoning_text(transcript_of(answer)):
        summary = [{"type": "summary_text", "text": thought}]
        output.append({"id": f"rs_{id}", "type": "reasoning", "summary": summary})
    if answer.text or not answer.tool_calls:
        said = {"type": "output_text", "text": answer.text or "", "annotations": []}
        about = {"id": f"msg_{id}", "type": "message", "role": "assistant", "status": "completed"}
        output.append({**about, "content": [said]})
    for number, call in enumerate(answer.tool_calls, 1):
        about = {"call_id": call.get("id") or f"call_{number}", "name": call["name"], "arguments": call["arguments"]}
        output.append({"id": f"fc_{id}_{number}", "type": "function_call", "status": "completed", **about})
    is_cut = answer.finish_reason == "length"
    return {
        "id": f"resp_{id}",
        "object": "response",
        "created_at": int(time.time()),
        "model": answer.model or model,
        "status": "incomplete" if is_cut else "completed",
        "error": None,
        "incomplete_details": {"reason": "max_output_tokens"} if is_cut else None,
        "output": output,
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "usage": {
            "input_tokens": answer.input_tokens or 0,
            "input_tokens_details": {"cached_tokens": answer.cached_tokens},
            "output_tokens": answer.output_tokens or 0,
            "output_tokens_details": {"reasoning_tokens": answer.reasoning_tokens},
            "total_tokens": (answer.input_tokens or 0) + (answer.output_tokens or 0),
        },
    }


def _stream_response(body: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    events = _response_events(body)
    return ((name, {"type": name, "sequence_number": n, **data}) for n, (name, data) in enumerate(events))


_HOLLOW_ITEMS: Mapping[str, Mapping[str, Any]] = {
    "message": {"content": []},
    "function_call": {"arguments": ""},
    "reasoning": {"summary": []},
}
"""The initial form of an output item, before its pieces."""


def _response_events(body: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    begun = {**body, "status": "in_progress", "output": [], "usage": None}
    yield "response.created", {"response": begun}
    yield "response.in_progress", {"response": begun}
    for place, item in enumerate(body["output"]):
        at = {"output_index": place}
        of = {"item_id": item["id"], **at}
        begins = {**item, "status": "in_progress", **_HOLLOW_ITEMS[item["type"]]}
        yield "response.output_item.added", {**at, "item": begins}
        if item["type"] == "message":
            part = item["content"][0]
            inside = {**of, "content_index": 0}
            yield "response.content_part.added", {**inside, "part": {**part, "text": ""}}
            for piece in pieces(part["text"]):
                yield "response.output_text.delta", {**inside, "delta": piece, "logprobs": []}
            yield "response.output_text.done", {**inside, "text": part["text"], "logprobs": []}
            yield "response.content_part.done", {**inside, "part": part}
        elif item["type"] == "function_call":
            yield "response.function_call_arguments.delta", {**of, "delta": item["arguments"]}
            done = {"arguments": item["arguments"], "name": item["name"]}
            yield "response.function_call_arguments.done", {**of, **done}
        yield "response.output_item.done", {**at, "item": item}
    ended = "response.incomplete" if body["status"] == "incomplete" else "response.completed"
    yield ended, {"response": body}


RESPONSES = Wire(_read_response, _write_response, _stream_response, _openai_error)


_ANTHROPIC_PARAMS = {
    "max_tokens": "max_tokens",
    "temperature": "temperature",
    "top_p": "top_p",
    "top_k": "top_k",
    "stop_sequences": "stop",
    "thinking": "thinking",
}


def _read_anthropic(body: Mapping[str, Any], model: str) -> Asked:
    params = renamed(body, _ANTHROPIC_PARAMS)
    if choice := body.get("tool_choice"):
        named = {"type": "function", "function": {"name": choice.get("name")}}
        params["tool_choice"] = {"any": "required", "tool": named}.get(choice.get("type"), choice.get("type"))
    opening = [{"role": "system", "content": content_text(body["system"])}] if body.get("system") else []
    messages = [
        one for message in demand_list(body.get("messages"), "messages") for one in _anthropic_messages(message)
    ]
    return Asked(
        model=str(body.get("model") or model),
        messages=(*opening, *messages),
        tools=tuple(map(_anthropic_tool, body.get("tools") or ())),
        params=params,
        streamed=body.get("stream") is True,
    )


def _anthropic_tool(tool: Mapping[str, Any]) -> Mapping[str, Any]:
    if "input_schema" not in tool:
        raise Unreadable(f"the tool {tool.get('type')} runs at the provider, and is not offered here")
    return function_tool(tool["name"], tool.get("description"), tool["input_schema"])


def _anthropic_messages(message: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """A message as those of the chat protocol, where results of tools are messages of their own."""
    role, content = message.get("role"), message.get("content")
    if isinstance(content, str):
        yield {"role": role, "content": content}
        return
    blocks = demand_list(content, "the content of a message")
    calls = [
        tool_call(n, one.get("id"), one["name"], one.get("input"))
        for n, one in enumerate(_blocks_of(blocks, "tool_use"))
    ]
    for result in _blocks_of(blocks, "tool_result"):
        text = content_text(result.get("content"))
        shown = f"Error: {text}" if result.get("is_error") else text
        yield {"role": "tool", "tool_call_id": result.get("tool_use_id", ""), "content": shown}
    if role == "assistant":
        text = "".join(part.get("text", "") for part in _blocks_of(blocks, "text"))
        yield {"role": role, "content": text or None, "tool_calls": calls} if calls else {"role": role, "content": text}
        return
    if parts := [_anthropic_part(part) for part in blocks if part.get("type") not in ("tool_result", "tool_use")]:
        is_text = all(part["type"] == "text" for part in parts)
        yield {"role": role, "content": "\n".join(part["text"] for part in parts) if is_text else parts}


def _blocks_of(blocks: Any, kind: str) -> list[Mapping[str, Any]]:
    return [block for block in blocks if block.get("type") == kind]


def _anthropic_part(part: Mapping[str, Any]) -> Mapping[str, Any]:
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


def _write_anthropic(answer: AnswerRecord, model: str, id: str) -> Mapping[str, Any]:
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


_HOLLOW_BLOCKS: Mapping[str, Mapping[str, Any]] = {
    "text": {"text": ""},
    "thinking": {"thinking": "", "signature": ""},
    "tool_use": {"input": {}},
}
"""The initial form of a block, before its pieces."""


def _stream_anthropic(body: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    def event(name: str, **data: Any) -> tuple[str, Any]:
        return name, {"type": name, **data}

    begun = {**body, "content": [], "stop_reason": None, "usage": {**body["usage"], "output_tokens": 0}}
    yield event("message_start", message=begun)
    for place, block in enumerate(body["content"]):
        deltas = list(_block_deltas(block))
        yield event("content_block_start", index=place, content_block={**block, **_HOLLOW_BLOCKS[block["type"]]})
        for delta in deltas:
            yield event("content_block_delta", index=place, delta=delta)
        yield event("content_block_stop", index=place)
    ending = {"stop_reason": body["stop_reason"], "stop_sequence": None}
    yield event("message_delta", delta=ending, usage={"output_tokens": body["usage"]["output_tokens"]})
    yield event("message_stop")


def _block_deltas(block: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    match block["type"]:
        case "text":
            for piece in pieces(block["text"]):
                yield {"type": "text_delta", "text": piece}
        case "thinking":
            yield {"type": "thinking_delta", "thinking": block["thinking"]}
            yield {"type": "signature_delta", "signature": block["signature"]}
        case "tool_use":
            yield {"type": "input_json_delta", "partial_json": json.dumps(block["input"], ensure_ascii=False)}


def _anthropic_error(status: int, message: str) -> Mapping[str, Any]:
    kinds = {401: "authentication_error", 403: "permission_error", 404: "not_found_error", 429: "rate_limit_error"}
    kind = kinds.get(status, "invalid_request_error" if status < 500 else "api_error")
    return {"type": "error", "error": {"type": kind, "message": message}}


MESSAGES = Wire(_read_anthropic, _write_anthropic, _stream_anthropic, _anthropic_error)


_GEMINI_PARAMS = {
    "temperature": "temperature",
    "topP": "top_p",
    "topK": "top_k",
    "maxOutputTokens": "max_tokens",
    "stopSequences": "stop",
    "seed": "seed",
    "presencePenalty": "presence_penalty",
    "frequencyPenalty": "frequency_penalty",
}
_GEMINI_CHOICES = {"AUTO": "auto", "ANY": "required", "NONE": "none", "VALIDATED": "auto"}


def _read_gemini(body: Mapping[str, Any], model: str) -> Asked:
    settings = body.get("generationConfig") or {}
    if settings.get("candidateCount") not in (None, 1):
        raise Unreadable("candidateCount asks for several answers; ask several times instead")
    params = renamed(settings, _GEMINI_PARAMS)
    schema = settings.get("responseJsonSchema") or _plain_schema(settings.get("responseSchema"))
    if schema:
        about = {"name": "answer", "schema": schema}
        params["response_format"] = {"type": "json_schema", "json_schema": about}
    elif settings.get("responseMimeType") == "application/json":
        params["response_format"] = {"type": "json_object"}
    calling = (body.get("toolConfig") or {}).get("functionCallingConfig") or {}
    if mode := _GEMINI_CHOICES.get(str(calling.get("mode"))):
        params["tool_choice"] = mode
    instruction = body.get("systemInstruction") or body.get("system_instruction")
    opening = [{"role": "system", "content": _gemini_text(instruction.get("parts") or ())}] if instruction else []
    return Asked(
        model=model,
        messages=(*opening, *_gemini_messages(demand_list(body.get("contents"), "contents"))),
        tools=tuple(_gemini_tools(body.get("tools") or ())),
        params=params,
    )


def _gemini_tools(tools: Any) -> Iterator[Mapping[str, Any]]:
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


def _gemini_messages(contents: Any) -> Iterator[Mapping[str, Any]]:
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
            text = _gemini_text([part for part in parts if not part.get("thought")])
            said: dict[str, Any] = {"role": "assistant", "content": text or (None if calls else "")}
            yield {**said, "tool_calls": calls} if calls else said
            continue
        for part in parts:
            if (given := part.get("functionResponse")) is not None:
                waiting = open_calls.get(given["name"]) or deque([""])
                id = given.get("id") or waiting.popleft()
                yield {"role": "tool", "tool_call_id": id, "content": _gemini_result(given.get("response"))}
        if plain := [_gemini_part(part) for part in parts if "functionResponse" not in part]:
            is_text = all(part["type"] == "text" for part in plain)
            yield {"role": "user", "content": "".join(part["text"] for part in plain) if is_text else plain}


_RESULT_WRAPPERS = ("result", "output", "return_value")
"""The keys in which agents wrap the result of a tool, because a response must be an object."""


def _gemini_result(response: Any) -> str:
    if isinstance(response, Mapping) and len(response) == 1 and next(iter(response)) in _RESULT_WRAPPERS:
        response = next(iter(response.values()))
    return response if isinstance(response, str) else json.dumps(response, ensure_ascii=False)


def _gemini_text(parts: Any) -> str:
    return "".join(part.get("text", "") for part in parts)


def _gemini_part(part: Mapping[str, Any]) -> Mapping[str, Any]:
    if "text" in part:
        return {"type": "text", "text": part["text"]}
    if data := part.get("inlineData") or part.get("inline_data"):
        address = f"data:{data.get('mimeType') or data.get('mime_type')};base64,{data['data']}"
        if address.startswith("data:image/"):
            return {"type": "image_url", "image_url": {"url": address}}
        return {"type": "file", "file": {"filename": "file", "file_data": address}}
    raise Unreadable(f"a part with {', '.join(part)} is not known here")


def _write_gemini(answer: AnswerRecord, model: str, id: str) -> Mapping[str, Any]:
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


def _stream_gemini(body: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
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


def _gemini_error(status: int, message: str) -> Mapping[str, Any]:
    states = {400: "INVALID_ARGUMENT", 401: "UNAUTHENTICATED", 403: "PERMISSION_DENIED", 429: "RESOURCE_EXHAUSTED"}
    return {"error": {"code": status, "message": message, "status": states.get(status, "UNAVAILABLE")}}


GENERATE = Wire(_read_gemini, _write_gemini, _stream_gemini, _gemini_error)
