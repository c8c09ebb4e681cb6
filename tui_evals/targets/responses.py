"""OpenAI's Responses protocol: a question of the chat protocol in its words, and the parsing of its answer."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tui_evals.text.chats import content_text
from tui_evals.text.logprobs import choices_of, tokens_in

from .base import MAX_TOKENS, Reply, TargetError, Usage
from .chat import parse_cost
from .failures import Failures

_ENDS = {"max_output_tokens": "length", "content_filter": "content_filter"}
"""Why an answer is incomplete, in the words of the chat protocol."""
_PASSING = ("server_error", "rate_limit_exceeded", "vector_store_timeout")
_LOGPROBS = "message.output_text.logprobs"
_INSTRUCTING = ("system", "developer")


class NotAnswered(Exception):
    """The model failed at a question that was taken on; `code` is the provider's word for why."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code

    def error(self, failures: Failures) -> TargetError:
        """The error it is for whoever asked."""
        told = failures.readable(f"{str(self) or 'it does not say why'} ({self.code})".rstrip("."))
        passing = self.code in _PASSING
        advice = "It may pass; ask again." if passing else "Check the question and its parameters."
        return TargetError(
            "agentRateLimited" if self.code == "rate_limit_exceeded" else "agentRequestFailed",
            f"{failures.where} took the question and could not answer it: {told}. {advice}",
            retryable=passing,
        )


def response_body(chat: Mapping[str, Any]) -> dict[str, Any]:
    """What a question of the chat protocol is here; the provider is to keep nothing of it unless `store` says so."""
    body: dict[str, Any] = {"store": False, **_input(chat["messages"])}
    text: dict[str, Any] = dict(chat.get("text") or {})
    for name, value in chat.items():
        match name:
            case "messages" | "text":
                pass
            case "max_tokens" | "max_completion_tokens":
                body["max_output_tokens"] = value
            case "reasoning_effort":
                body["reasoning"] = {**body.get("reasoning", {}), "effort": value}
            case "reasoning":
                body["reasoning"] = {**value, **body.get("reasoning", {})}
            case "verbosity":
                text["verbosity"] = value
            case "response_format":
                text["format"] = {**value, **value.get("json_schema", {})}
                text["format"].pop("json_schema", None)
            case "logprobs" | "include":
                # Log-probabilities come where they are named among what the answer is to include.
                named = value if name == "include" else [_LOGPROBS] if value else []
                body["include"] = [*body.get("include", ()), *named]
            case "tools":
                body["tools"] = list(map(_tool, value))
            case "tool_choice":
                body["tool_choice"] = _flat(value) if isinstance(value, Mapping) else value
            case _:
                body[name] = value
    return {**body, "text": text} if text else body


def _flat(function: Mapping[str, Any]) -> dict[str, Any]:
    """A function of the chat protocol as this one has it: what it is stands beside its type."""
    return {"type": "function", **function["function"]} if "function" in function else dict(function)


def _tool(tool: Mapping[str, Any]) -> dict[str, Any]:
    flat = _flat(tool)
    # Here functions are strict unless they say otherwise, in the chat protocol the other way round.
    return {**flat, "strict": flat.get("strict", False)} if flat.get("type") == "function" else flat


def _input(messages: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The chat as input items, with what it begins with as instructions."""
    opening = 0
    while opening < len(messages) - 1 and messages[opening].get("role") in _INSTRUCTING:
        opening += 1
    items = [item for message in messages[opening:] for item in _items(message)]
    instructions = "\n\n".join(content_text(message.get("content")) for message in messages[:opening])
    return {"input": items, **({"instructions": instructions} if instructions else {})}


def _items(message: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """A message as the items it is here: what was said, and each call of a function or its result."""
    role, content = message.get("role", "user"), message.get("content")
    if role == "tool":
        output = content_text(content)
        yield {"type": "function_call_output", "call_id": message.get("tool_call_id", ""), "output": output}
        return
    if content:
        parts = content if isinstance(content, str) else [_part(part, role) for part in content]
        yield {"role": role, "content": parts}
    for call in message.get("tool_calls") or ():
        function = call.get("function", call)
        arguments = function.get("arguments") or ""
        sent = arguments if isinstance(arguments, str) else json.dumps(arguments)
        yield {"type": "function_call", "call_id": call.get("id", ""), "name": function["name"], "arguments": sent}


def _part(part: Mapping[str, Any], role: str) -> dict[str, Any]:
    """A part of a message: a text, a picture or a file; what is not known is left for the provider to judge."""
    match part.get("type"):
        case "text":
            return {"type": "output_text" if role == "assistant" else "input_text", "text": part.get("text", "")}
        case "image_url":
            picture = part["image_url"]
            about = {"url": picture} if isinstance(picture, str) else dict(picture)
            return {"type": "input_image", "image_url": about.pop("url", None), **about}
        case "file":
            return {"type": "input_file", **part["file"]}
    return dict(part)


def parse_response_body(body: bytes, streamed: bool) -> Reply:
    """The reply in a body, streamed or not; ValueError if there is none, NotAnswered where the model failed."""
    try:
        is_stream = streamed or body.startswith((b"data:", b"event:"))
        return parse_response(_last_of_stream(body) if is_stream else json.loads(body))
    except RecursionError:
        raise ValueError("the brackets are nested too deeply") from None


def _last_of_stream(body: bytes) -> Any:
    """The whole answer, which the event that ends a stream repeats."""
    whole: Any = None
    for line in body.splitlines():
        data = line.removeprefix(b"data:").strip()
        if not line.startswith(b"data:") or data == b"[DONE]":
            continue
        event = json.loads(data)
        if not isinstance(event, Mapping):
            raise ValueError("an event of the stream is not an object")
        if event.get("type") == "error":
            raise NotAnswered(str(event.get("code") or "error"), str(event.get("message") or ""))
        if event.get("type") in ("response.completed", "response.incomplete", "response.failed"):
            whole = event.get("response")
    if whole is None:
        raise ValueError("the stream broke off")
    return whole


def begins_answer(event: Mapping[str, Any]) -> bool:
    """Whether an event of a stream holds a piece of the answer; what the model thought before is none."""
    kinds = ("response.output_text.delta", "response.refusal.delta", "response.function_call_arguments.delta")
    return event.get("type") in kinds and bool(event.get("delta"))


def parse_response(document: Any) -> Reply:
    """The reply in a response; ValueError if there is none, NotAnswered where the model failed."""
    try:
        if document["status"] in ("failed", "cancelled"):
            error = document.get("error") or {}
            raise NotAnswered(str(error.get("code") or document["status"]), str(error.get("message") or ""))
        items = document["output"]
        parts = [part for item in items if item["type"] == "message" for part in item["content"]]
        text = "".join(part["text"] for part in parts if part["type"] == "output_text")
        refusal = "".join(part["refusal"] for part in parts if part["type"] == "refusal")
        thought = [part["text"] for item in items if item["type"] == "reasoning" for part in item.get("summary") or ()]
        calls = [
            {"id": item.get("call_id") or "", "name": item["name"], "arguments": item.get("arguments") or ""}
            for item in items
            if item["type"] == "function_call"
        ]
        counted = document.get("usage") or {}
        usage, wrong_counts = _usage(counted)
        notes = {"refusal": refusal, "reasoning": "\n".join(thought), "usage": wrong_counts}
        return Reply(
            text=text or refusal,
            tool_calls=tuple(calls),
            usage=usage,
            cost=parse_cost(counted.get("cost")),
            model=document.get("model"),
            finish_reason=_finish(document, bool(calls)),
            diagnostics={name: note for name, note in notes.items() if note} or None,
            choices=choices_of([token for part in parts for token in tokens_in(part.get("logprobs"))]),
        )
    except (KeyError, IndexError, TypeError, AttributeError):
        raise ValueError("the document is not a response") from None


def _finish(document: Mapping[str, Any], calls: bool) -> str:
    if document["status"] == "incomplete":
        reason = (document.get("incomplete_details") or {}).get("reason")
        return _ENDS.get(str(reason), str(reason or "incomplete"))
    return "tool_calls" if calls else "stop"


def _usage(counted: Mapping[str, Any]) -> tuple[Usage | None, str]:
    """The tokens counted, and a note where what the provider states cannot be a count."""
    stated: dict[str, Any] = {
        "input_tokens": counted.get("input_tokens"),
        "output_tokens": counted.get("output_tokens"),
        "cached_tokens": (counted.get("input_tokens_details") or {}).get("cached_tokens") or 0,
        "reasoning_tokens": (counted.get("output_tokens_details") or {}).get("reasoning_tokens") or 0,
    }
    if stated["input_tokens"] is None and stated["output_tokens"] is None:
        return None, ""
    if not all(type(count) is int and 0 <= count <= MAX_TOKENS for count in stated.values()):
        return None, f"not counted: {str(stated)[:100]} was stated"
    read, written = stated["input_tokens"], stated["output_tokens"]
    cached, thought = min(stated["cached_tokens"], read), min(stated["reasoning_tokens"], written)
    return Usage(read, written, cached, thought), ""
