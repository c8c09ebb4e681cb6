"""A server on loopback that answers whoever asks as a provider does, in the provider's own words.

What it says next is set by the test; every request is kept.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from time import sleep
from typing import Any


@dataclass
class Provider:
    """A running server as its tests see it."""

    url: str
    status: int = 200
    document: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)
    latency: float = 0.0
    first: list[Any] = field(default_factory=list)
    """Documents that the first requests are answered with, one each."""
    asked: list[tuple[str, Any]] = field(default_factory=list)
    """The path and the body of every request."""

    def says(
        self, document: Any, status: int = 200, latency: float = 0.0, first: Sequence[Any] = (), **headers: str
    ) -> None:
        """What every request is answered from now on, but for the first ones."""
        self.document, self.status, self.latency = document, status, latency
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}
        self.first = list(first)
        self.asked.clear()


@contextmanager
def speaking() -> Iterator[Provider]:
    """A server that serves until the block ends."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            provider.asked.append((self.path, json.loads(body)))
            sleep(provider.latency)
            status, document = (200, provider.first.pop(0)) if provider.first else (provider.status, provider.document)
            said = json.dumps(document).encode()
            self.send_response(status)
            for name, value in {"Content-Type": "application/json", **provider.headers}.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(said)))
            with suppress(OSError):  # who asked waited no longer
                self.end_headers()
                self.wfile.write(said)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        provider = Provider(f"http://127.0.0.1:{server.server_port}")
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        thread.start()
        yield provider
        server.shutdown()
        thread.join()


def openai_chat(finish: str = "stop", usage: Mapping[str, Any] | None = None, **message: Any) -> dict[str, Any]:
    """OpenAI, Azure, DeepSeek, Mistral, OpenRouter."""
    counted = usage or {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120}
    choice = {"index": 0, "finish_reason": finish, "message": {"role": "assistant", "content": "Hi", **message}}
    return {"id": "x", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice], "usage": counted}


def anthropic(stop: str = "end_turn", text: str = "Hi", **usage: int) -> dict[str, Any]:
    counted = {"input_tokens": 100, "output_tokens": 20, **usage}
    content = [{"type": "text", "text": text}] if text else []
    head = {"id": "msg_1", "type": "message", "role": "assistant", "model": "claude-sonnet-4-5"}
    return {**head, "content": content, "stop_reason": stop, "stop_sequence": None, "usage": counted}


def gemini(finish: str = "STOP", text: str = "Hi", **usage: int) -> dict[str, Any]:
    content = {"content": {"role": "model", "parts": [{"text": text}]}} if text else {}
    counted = {"promptTokenCount": 100, "candidatesTokenCount": 20, "totalTokenCount": 120, **usage}
    candidate = {**content, "finishReason": finish, "index": 0}
    return {"candidates": [candidate], "usageMetadata": counted, "modelVersion": "gemini-2.5-flash"}


GEMINI_BLOCKED = {
    "promptFeedback": {"blockReason": "SAFETY"},
    "usageMetadata": {"promptTokenCount": 100, "totalTokenCount": 100},
    "modelVersion": "gemini-2.5-flash",
}
AZURE_BLOCKED = {
    "error": {
        "message": "The response was filtered due to the prompt triggering Azure OpenAI's content management policy.",
        "type": None,
        "param": "prompt",
        "code": "content_filter",
        "status": 400,
        "innererror": {"code": "ResponsibleAIPolicyViolation", "content_filter_result": {"hate": {"filtered": True}}},
    }
}
GEMINI_BAD_KEY = {
    "error": {
        "code": 400,
        "message": "API key not valid. Please pass a valid API key.",
        "status": "INVALID_ARGUMENT",
        "details": [{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "API_KEY_INVALID"}],
    }
}


def gemini_quota(quota: str, delay: str) -> dict[str, Any]:
    """Google's 429: which quota, and how long to wait."""
    said = "You exceeded your current quota, please check your plan and billing details."
    details = [
        {"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": [{"quotaId": quota}]},
        {"@type": "type.googleapis.com/google.rpc.Help"},
        {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": delay},
    ]
    return {"error": {"code": 429, "message": said, "status": "RESOURCE_EXHAUSTED", "details": details}}


def bedrock(stop: str = "end_turn", **usage: int) -> dict[str, Any]:
    counted = {"inputTokens": 60, "outputTokens": 20, "totalTokens": 120, **usage}
    said = {"message": {"role": "assistant", "content": [{"text": "Hi"}]}}
    return {"metrics": {"latencyMs": 300}, "output": said, "stopReason": stop, "usage": counted}
