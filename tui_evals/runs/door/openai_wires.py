"""What every protocol of an agent is to the server, and OpenAI's two: chat completions and responses."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field
from typing import Any

from tui_evals.light_records import dataclass
from tui_evals.store.records import AnswerRecord, transcript_of
from tui_evals.text.chats import content_text
from tui_evals.transcript import reasoning_text


class Unreadable(Exception):
    """A request that this server cannot answer; the message says what it does not know."""


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
    """From a body, and the model in its address, to what is asked; Unreadable."""
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
    """Those settings of a request that have a name in the chat protocol, under that name."""
    return {ours: data[theirs] for theirs, ours in names.items() if data.get(theirs) is not None}


def demand_list(value: object, what: str) -> Sequence[Any]:
    """The value as a list; Unreadable where it is none."""
    if not isinstance(value, list):
        raise Unreadable(f"{what} must be a list")
    return value


_OURS = ("model", "messages", "tools", "stream", "stream_options", "n", "store", "metadata", "user")
_PIECE = 40
"""Characters of a piece of a streamed text."""


def _error(status: int, message: str) -> Mapping[str, Any]:
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
        params={name: value for name, value in body.items() if name not in _OURS and value is not None},
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


CHAT = Wire(_read_chat, _write_chat, _stream_chat, _error)


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
        messages=(*opening, *_messages(body.get("input"))),
        tools=tuple(map(_tool, body.get("tools") or ())),
        params=params,
        streamed=body.get("stream") is True,
        previous=str(body.get("previous_response_id") or ""),
    )


def _tool(tool: Mapping[str, Any]) -> Mapping[str, Any]:
    if tool.get("type") != "function":
        raise Unreadable(f"the tool {tool.get('type')} runs at the provider, and is not offered here")
    more = {"strict": tool["strict"]} if tool.get("strict") is not None else {}
    return function_tool(tool["name"], tool.get("description"), tool.get("parameters"), **more)


def _messages(given: object) -> Iterator[Mapping[str, Any]]:
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
    return [_part(part) for part in content]


def _part(part: Mapping[str, Any]) -> Mapping[str, Any]:
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


_HOLLOW: Mapping[str, Mapping[str, Any]] = {
    "message": {"content": []},
    "function_call": {"arguments": ""},
    "reasoning": {"summary": []},
}
"""What an output item begins as, before its pieces come."""


def _response_events(body: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    begun = {**body, "status": "in_progress", "output": [], "usage": None}
    yield "response.created", {"response": begun}
    yield "response.in_progress", {"response": begun}
    for place, item in enumerate(body["output"]):
        at = {"output_index": place}
        of = {"item_id": item["id"], **at}
        begins = {**item, "status": "in_progress", **_HOLLOW[item["type"]]}
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


RESPONSES = Wire(_read_response, _write_response, _stream_response, _error)
