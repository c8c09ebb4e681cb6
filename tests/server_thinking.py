"""Models that think and call a tool, on loopback, each as strict as its provider about what has to come back.

The first question is answered with reasoning and a call of `find`, the second, if it brings both back untouched, with
text. What a provider refuses with 400 is refused here.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

SIGNATURE = "c2lnbmF0dXJl"
ANSWER = "Order 7 is paid."
Json = dict[str, Any]


class Refused(Exception):
    """What the provider says with its 400."""


@dataclass
class Thinker:
    """A running server as tests see it."""

    origin: str
    asked: list[tuple[str, Json]] = field(default_factory=list)
    """The path and the body of every request."""

    def bodies(self, ending: str) -> list[Json]:
        """The bodies that came to one wire."""
        return [body for path, body in self.asked if path.endswith(ending)]


def demand(condition: object, message: str) -> None:
    if not condition:
        raise Refused(message)


def chat(body: Json) -> Json:
    """DeepSeek and vLLM: the field in which the reasoning came goes back with the call."""
    name = "reasoning" if "vllm" in body["model"] else "reasoning_content"
    text = "" if "silent" in body["model"] else "look it up"
    called = [message for message in body["messages"] if message.get("tool_calls")]
    for message in called:
        demand(message.get(name) == text, f"Missing `{name}` field in the assistant message with tool calls.")
    call = {"id": "c1", "type": "function", "function": {"name": "find", "arguments": '{"order": 7}'}}
    message = (
        {"role": "assistant", "content": ANSWER, name: "it is paid"}
        if called
        else {"role": "assistant", "content": None, name: text, "tool_calls": [call]}
    )
    choice = {"index": 0, "finish_reason": "stop" if called else "tool_calls", "message": message}
    usage = {"prompt_tokens": 9, "completion_tokens": 3, "total_tokens": 12}
    return {"id": "x", "object": "chat.completion", "model": body["model"], "choices": [choice], "usage": usage}


def responses(body: Json) -> Json:
    """OpenAI: what it keeps nothing of needs its encrypted reasoning back, before the call that it led to."""
    demand("temperature" not in body, "Unsupported parameter: 'temperature' is not supported with this model.")
    demand(body.get("store") is False, "this organization keeps nothing: store must be false")
    reasoning = {
        "type": "reasoning",
        "id": "rs_1",
        "encrypted_content": SIGNATURE,
        "summary": [{"type": "summary_text", "text": "look it up"}],
    }
    call = {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "find", "arguments": '{"order": 7}'}
    items = body["input"]
    places = [place for place, item in enumerate(items) if item.get("type") == "function_call"]
    for place in places:
        before = items[place - 1]
        demand(
            before.get("type") == "reasoning",
            "Item 'fc_1' of type 'function_call' was provided without its required 'reasoning' item: 'rs_1'.",
        )
        demand(
            before.get("encrypted_content") == SIGNATURE,
            "Item with id 'rs_1' not found. Items are not persisted when `store` is set to false.",
        )
    if "reasoning.encrypted_content" not in body.get("include", ()):
        del reasoning["encrypted_content"]
    text = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": ANSWER}]}
    usage = {"input_tokens": 9, "output_tokens": 3}
    return {
        "object": "response",
        "status": "completed",
        "model": body["model"],
        "usage": usage,
        "output": [text] if places else [reasoning, call],
    }


def messages(body: Json) -> Json:
    """Anthropic: with thinking on no temperature but 1, and its blocks come back with their signatures."""
    thinking = body.get("thinking") or {}
    demand(thinking.get("type") == "enabled", "thinking is off")
    demand(body.get("temperature", 1) == 1, "`temperature` may only be set to 1 when thinking is enabled.")
    demand(
        body["max_tokens"] > thinking["budget_tokens"], "`max_tokens` must be greater than `thinking.budget_tokens`."
    )
    block = {"type": "thinking", "thinking": "look it up", "signature": SIGNATURE}
    called = [
        message
        for message in body["messages"]
        if any(isinstance(part, dict) and part.get("type") == "tool_use" for part in message["content"])
    ]
    for message in called:
        first = message["content"][0]
        demand(first.get("type") == "thinking", "Expected `thinking` or `redacted_thinking`, but found `tool_use`.")
        demand(first == block, "Invalid `signature` in `thinking` block")
    call = {"type": "tool_use", "id": "c1", "name": "find", "input": {"order": 7}}
    content = [block, {"type": "text", "text": ANSWER}] if called else [block, call]
    return {
        "id": "m",
        "type": "message",
        "role": "assistant",
        "model": body["model"],
        "content": content,
        "stop_reason": "end_turn" if called else "tool_use",
        "usage": {"input_tokens": 9, "output_tokens": 3},
    }


def gemini(body: Json) -> Json:
    """Gemini: the signature comes back on the very part of the call."""
    calls = [
        part for turn in body["contents"] for part in turn["parts"] if "functionCall" in part or "function_call" in part
    ]
    for part in calls:
        signature = part.get("thoughtSignature") or part.get("thought_signature")
        demand(signature == SIGNATURE, "Function call is missing a thought_signature in functionCall parts.")
    call = {"functionCall": {"name": "find", "args": {"order": 7}}, "thoughtSignature": SIGNATURE}
    thought = {"text": "look it up", "thought": True}
    parts = [{"text": ANSWER}] if calls else [thought, call]
    candidate = {"content": {"role": "model", "parts": parts}, "finishReason": "STOP", "index": 0}
    usage = {"promptTokenCount": 9, "candidatesTokenCount": 3, "totalTokenCount": 12}
    return {"candidates": [candidate], "usageMetadata": usage, "modelVersion": "gemini-3-pro"}


_WIRES: Mapping[str, Callable[[Json], Json]] = {
    "/chat/completions": chat,
    "/responses": responses,
    "/messages": messages,
    ":generateContent": gemini,
}


@contextmanager
def thinking() -> Iterator[Thinker]:
    """A server that serves until the block ends."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            path = self.path.partition("?")[0]
            thinker.asked.append((path, body))
            wire = next(wire for ending, wire in _WIRES.items() if path.endswith(ending))
            try:
                status, document = 200, wire(body)
            except Refused as refusal:
                status, document = 400, {"error": {"type": "invalid_request_error", "message": str(refusal)}}
            said = json.dumps(document).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(said)))
            with suppress(OSError):  # who asked waited no longer
                self.end_headers()
                self.wfile.write(said)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thinker = Thinker(f"http://127.0.0.1:{server.server_port}")
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        thread.start()
        yield thinker
        server.shutdown()
        thread.join()
