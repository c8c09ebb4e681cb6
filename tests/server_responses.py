"""OpenAI's Responses protocol for the test server: its questions as chats, and the chat's completions in its words."""

from __future__ import annotations

import json
import re
from typing import Any

from aiohttp import web

_ENDS = {"length": "max_output_tokens", "content_filter": "content_filter"}


def as_messages(body: dict[str, Any]) -> list[dict[str, Any]]:
    """The input as a chat; what is not of this protocol is refused by an error of the server."""
    assert not body.keys() & {"messages", "max_tokens", "response_format", "reasoning_effort"}
    messages = [{"role": "system", "content": body["instructions"]}] if body.get("instructions") else []
    for item in body["input"]:
        match item.get("type", "message"):
            case "message":
                messages.append({"role": item["role"], "content": item["content"]})
            case "function_call":
                messages.append({"role": "assistant", "content": f"{item['name']}({item['arguments']})"})
            case "function_call_output":
                messages.append({"role": "tool", "content": item["output"]})
    return messages


def as_response(response: web.StreamResponse, body: dict[str, Any]) -> web.StreamResponse:
    """A completion of the chat as a response, streamed where that is asked for; errors stay what they are."""
    if not isinstance(response, web.Response) or response.status != 200 or not response.text:
        return response
    try:
        chat = json.loads(response.text)
        choice = chat["choices"][0]
        message = choice["message"]
    except (ValueError, LookupError):
        return response
    text, refusal = message.get("content"), message.get("refusal")
    content = [{"type": "refusal", "refusal": refusal}] if refusal else [{"type": "output_text", "text": text or ""}]
    output: list[dict[str, Any]] = [{"type": "reasoning", "summary": [{"type": "summary_text", "text": "I thought."}]}]
    if text or refusal:
        output.append({"type": "message", "role": "assistant", "content": content})
    for call in message.get("tool_calls") or ():
        output.append({"type": "function_call", "call_id": call["id"], **call["function"]})
    counted = chat.get("usage")
    usage = counted and {
        "input_tokens": counted["prompt_tokens"],
        "input_tokens_details": {"cached_tokens": 1},
        "output_tokens": counted["completion_tokens"],
        "output_tokens_details": {"reasoning_tokens": 2},
    }
    why = _ENDS.get(choice["finish_reason"])
    whole = {
        "object": "response",
        "status": "incomplete" if why else "completed",
        "incomplete_details": {"reason": why} if why else None,
        "model": chat["model"],
        "output": output,
        "usage": usage,
    }
    if (text or "").startswith("fail "):
        code = str(text).split()[1]
        whole |= {"status": "failed", "error": {"code": code, "message": "The model failed."}, "output": []}
    if not body.get("stream"):
        return web.json_response(whole)
    events: list[dict[str, Any]] = [{"type": "response.created", "response": {}}]
    pieces = re.findall(r"\S+\s*", text or "")
    events += [{"type": "response.output_text.delta", "delta": piece} for piece in pieces]
    events.append({"type": f"response.{whole['status']}", "response": whole})
    lines = "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events)
    return web.Response(text=lines, content_type="text/event-stream")
