"""What the test server can answer: the behaviours of its models and every kind of reply, good and bad."""

from __future__ import annotations

import asyncio
import json
import math
import re
import socket
import struct
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from email.utils import formatdate
from typing import Any

from aiohttp import web

from tests.server_wires import written

MARKER = re.compile(r"\[\[(\w+)(?:\*(\d+))?\]\]")
SAY = re.compile(r"\[\[say (.*?)\]\]", re.DOTALL)
HUGE = 40_000_000
SAID = {
    "401": "Incorrect API key provided.",
    "404": "The model `{model}` does not exist.",
    "429": "Rate limit reached.",
    "429date": "Rate limit reached.",
    "429garbage": "Rate limit reached.",
}
GARBAGE = ("soon", "-5", "1e999", "nan", "Thu, 99 Nov 2026 77:00:00 GMT", "")
CODES = {"404": "model_not_found", "429quota": "insufficient_quota", "400filter": "content_filter"}


@dataclass(frozen=True)
class Behaviour:
    """How a model behaves; seconds everywhere, shares between 0 and 1 of the calls."""

    always: str = "answer"
    shares: dict[str, float] = field(default_factory=dict)
    first: list[str] = field(default_factory=list)
    """What the first, second, … call of each question meets, before the shares count."""
    latency: float = 0.0
    jitter: float = 0.0
    seed: int = 0
    retry_after: float = 1
    say: str = ""
    """The answer to everything, e.g. the verdict of a judge."""
    says: list[str] = field(default_factory=list)
    """The answers to a question that is put again and again, one after the other, and then from the first on."""
    size: int = 0
    """Answers are filled up to this many characters."""
    tokens: int | None = None
    """The tokens of each answer as the server counts them, whatever it says."""
    likely: dict[str, float] = field(default_factory=dict)
    """How probable each piece is that might stand in the place of a digit, told to whoever asks for logprobs."""
    rules: str = ""
    """By what rules its parameters are refused, as in `server_rules`."""
    markers: bool = True
    """Whether markers in questions count; not for a judge who reads the questions of others."""
    after: int | None = None
    """After so many calls of the model every one meets `then`, the short question that looks for it too."""
    then: str = "401"
    calls: int | None = None
    """So many calls meet that; None for all."""


@dataclass(frozen=True)
class Call:
    """One request on its way to an answer."""

    http: web.Request
    body: dict[str, Any]
    text: str
    key: str
    behaviour: Behaviour

    def answer(self) -> str:
        """The same text for the same chat, whenever it is asked."""
        said = SAY.search(self.text) if self.behaviour.markers else None
        text = said.group(1) if said else self.behaviour.say or f"Answer {self.key}: {MARKER.sub('', self.text)[:200]}"
        if (self.body.get("response_format") or {}).get("type") in ("json_object", "json_schema") and not said:
            text = self.behaviour.say or json.dumps({"answer": self.key})
        return text.ljust(self.behaviour.size, ".")


Answerer = Callable[[Call], Awaitable[web.StreamResponse]]


def completion(call: Call, finish: str = "stop", usage: bool = True, **message: Any) -> dict[str, Any]:
    message = {"role": "assistant", "content": call.answer(), **message}
    asked = sum(len(str(said.get("content")).split()) for said in call.body["messages"])
    answered = len(str(message["content"] or "").split()) or 1
    if call.behaviour.tokens is not None:
        answered = call.behaviour.tokens
    counted = {"prompt_tokens": asked, "completion_tokens": answered, "total_tokens": asked + answered}
    choice = {"index": 0, "message": message, "finish_reason": finish}
    if call.behaviour.likely and call.body.get("logprobs"):
        choice["logprobs"] = {"content": list(tokens(str(message["content"]), call.behaviour.likely))}
    head = {"id": f"chatcmpl-{call.key}", "object": "chat.completion", "created": 0, "model": call.body["model"]}
    return {**head, "choices": [choice], **({"usage": counted} if usage else {})}


def tokens(text: str, likely: dict[str, float]) -> Iterator[dict[str, Any]]:
    """A text in pieces as logprobs list them, letters beyond ASCII byte by byte."""
    others = [{"token": token, "logprob": math.log(share), "bytes": None} for token, share in likely.items()]
    for piece in re.findall(r"\w+|\W", text):
        whole = [piece] if piece.isascii() else [chr(byte) for byte in piece.encode()]
        written = [list(piece.encode())] if piece.isascii() else [[byte] for byte in piece.encode()]
        for token, data in zip(whole, written, strict=True):
            known = others if token.isdigit() else [{"token": token, "logprob": -0.1, "bytes": data}]
            logprob = math.log(likely.get(token, 0.9))
            yield {"token": token, "logprob": logprob, "bytes": data, "top_logprobs": known}


def plain(**options: Any) -> Answerer:
    async def answer(call: Call) -> web.StreamResponse:
        return web.json_response(completion(call, **options))

    return answer


def raw(text: str, kind: str = "application/json", status: int = 200) -> Answerer:
    async def answer(call: Call) -> web.StreamResponse:
        return web.Response(text=text, content_type=kind, status=status)

    return answer


async def answer(call: Call) -> web.StreamResponse:
    """The plain answer, in the words of whoever was asked."""
    return web.json_response(written(call.http, completion(call)))


async def redirect(call: Call) -> web.StreamResponse:
    """To an address of this server where nobody answers, so that whoever follows meets a 404."""
    return web.Response(status=307, headers={"Location": f"{call.http.url.origin()}/elsewhere{call.http.path}"})


async def tools(call: Call) -> web.StreamResponse:
    called = {"name": "look_up", "arguments": json.dumps({"question": call.key})}
    calls = [{"id": f"call_{place}", "type": "function", "function": called} for place in (1, 2)]
    return web.json_response(completion(call, "tool_calls", content=None, tool_calls=calls))


async def agent(call: Call) -> web.StreamResponse:
    """One after the other the calls that the question names, as in `call find {"id": 7}`, then the last result.

    Where it should call `fail`, it fails instead.
    """
    place = max(number for number, message in enumerate(call.body["messages"]) if message["role"] == "user")
    results = [message["content"] for message in call.body["messages"][place:] if message["role"] == "tool"]
    planned = re.findall(r"call (\w+) (\{.*?\}|broken)", call.text)
    if len(results) == len(planned):
        return web.json_response(completion(call, content=f"Answer: {results[-1] if results else 'none'}"))
    name, arguments = planned[len(results)]
    if name == "fail":
        return refused("500", call)
    called = {"id": f"call_{len(results)}", "type": "function", "function": {"name": name, "arguments": arguments}}
    return web.json_response(completion(call, "tool_calls", content=None, tool_calls=[called]))


async def huge(call: Call) -> web.StreamResponse:
    return web.json_response(completion(call, content="x" * HUGE))


async def echo(call: Call) -> web.StreamResponse:
    sent = call.http.headers.get("Authorization", "")
    return web.json_response({"error": {"message": f"Bad header Authorization: {sent}"}}, status=400)


async def hang(call: Call) -> web.StreamResponse:
    await asyncio.Event().wait()
    raise AssertionError("an event nobody sets was set")


async def reset(call: Call) -> web.StreamResponse:
    transport = call.http.transport
    assert transport is not None
    transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    transport.abort()
    return web.Response()


async def drip(call: Call) -> web.StreamResponse:
    """A body that never ends, a byte at a time."""
    response = web.StreamResponse()
    await response.prepare(call.http)
    while True:
        await response.write(b" ")
        await asyncio.sleep(0.05)


async def cut(call: Call) -> web.StreamResponse:
    """Half of the body that was promised."""
    body = json.dumps(completion(call)).encode()
    response = web.StreamResponse(headers={"Content-Type": "application/json", "Content-Length": str(len(body))})
    await response.prepare(call.http)
    await response.write(body[: len(body) // 2])
    assert call.http.transport is not None
    call.http.transport.close()
    return response


async def stream(call: Call) -> web.StreamResponse:
    whole = completion(call)
    words = re.findall(r"\S+\s*", call.answer())
    deltas = [{"role": "assistant", "content": ""}, *({"content": word} for word in words), {}]
    head = {"id": whole["id"], "object": "chat.completion.chunk", "model": whole["model"]}
    chunks: list[dict[str, Any]] = [{**head, "choices": [{"index": 0, "delta": delta}]} for delta in deltas]
    chunks[-1]["choices"][0]["finish_reason"] = "stop"
    chunks.append({**head, "choices": [], "usage": whole["usage"]})
    text = "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks) + "data: [DONE]\n\n"
    return web.Response(text=text, content_type="text/event-stream")


def stated(code: int, message: str) -> Answerer:
    """An error instead of the answer, in a body of HTTP 200."""

    async def answer(call: Call) -> web.StreamResponse:
        return web.json_response({"error": {"message": message, "code": code}})

    return answer


async def stream_error(call: Call) -> web.StreamResponse:
    """A stream that begins with a piece of the answer and ends with an error."""
    piece = {"object": "chat.completion.chunk", "choices": [{"index": 0, "delta": {"content": "An"}}]}
    error = {"error": {"message": "Provider returned error", "code": 502}, "choices": []}
    text = f"data: {json.dumps(piece)}\n\n: ping\n\ndata: {json.dumps(error)}\n\n"
    return web.Response(text=text, content_type="text/event-stream")


KINDS: dict[str, Answerer] = {
    "answer": answer,
    "length": plain(finish="length"),
    "content_filter": plain(finish="content_filter"),
    "redirect": redirect,
    "refusal": plain(content=None, refusal="I cannot help with that."),
    "no_usage": plain(usage=False),
    "empty_answer": plain(content=""),
    "tools": tools,
    "agent": agent,
    "huge": huge,
    "stream": stream,
    "wrong_json": raw('{"choices": [{"message": '),
    "not_chat": raw('{"hello": "world"}'),
    "empty": raw(""),
    "html": raw("<html><body>Bad gateway</body></html>", "text/html"),
    "html502": raw("<html><body>Bad gateway</body></html>", "text/html", 502),
    "echo": echo,
    "hang": hang,
    "reset": reset,
    "drip": drip,
    "cut": cut,
    "stated401": stated(401, "User not found."),
    "stated529": stated(529, "Overloaded"),
    "stream_error": stream_error,
}
BROKEN = {"reset", "drip", "cut", "stated401", "stated529", "stream_error"}
UNBILLED = {"redirect", "echo", "html502", "stated401", "stated529"}
"""Kinds that no provider charges for, beside those that are a status."""


def refused(kind: str, call: Call) -> web.Response:
    headers = {}
    if kind == "429garbage":
        headers["Retry-After"] = GARBAGE[int(call.key, 16) % len(GARBAGE)]
    elif kind == "429date":
        headers["Retry-After"] = formatdate(time.time() + call.behaviour.retry_after, usegmt=True)
    elif kind in ("429", "503"):
        headers["Retry-After"] = f"{call.behaviour.retry_after:g}"
    message = SAID.get(kind, "The server is unwell.").format(model=call.body["model"])
    error = {"message": message, "type": "error", "code": CODES.get(kind)}
    return web.json_response({"error": error}, status=int(kind[:3]), headers=headers)
