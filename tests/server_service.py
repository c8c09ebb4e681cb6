"""Services of the test server that speak no known protocol: JSON with sessions, forms, streams, plain text."""

from __future__ import annotations

import asyncio
import itertools
import json
from typing import Any

from aiohttp import web

from tests.server_replies import Call

SERVE: web.AppKey[Any] = web.AppKey("serve", object)
"""What has a question meet what its marker says."""
_NUMBERS = itertools.count(1)
_HEARD: dict[str, list[str]] = {}
"""What was said in each session."""


async def _ask(http: web.Request, body: dict[str, Any], text: str, answer: Any) -> web.StreamResponse:
    return await http.app[SERVE](http, body, text, answer)


async def chat(http: web.Request) -> web.StreamResponse:
    """`{"message", "conversation"}`: the answer is all that was said in the conversation, whose number is given."""
    body = await http.json()

    async def answer(call: Call) -> web.StreamResponse:
        session = body.get("conversation") or f"session-{next(_NUMBERS)}"
        heard = _HEARD.setdefault(session, [])
        heard.append(call.text)
        told: dict[str, Any] = {"result": {"text": " / ".join(heard)}, "conv": session}
        if "calls" in call.text:
            told["result"]["calls"] = [{"name": "look_up", "arguments": {"for": call.text}}]
        if "broken" in call.text:
            told = {"failure": {"message": f"no service for {http.headers.get('X-Key')}"}}
        return web.json_response({**told, "meta": {"tokens": {"prompt_tokens": 7, "completion_tokens": 5}}})

    return await _ask(http, body, str(body["message"]), answer)


async def form(http: web.Request) -> web.StreamResponse:
    """A form, however it is encoded: the answer is its fields, of files their names, types and lengths."""
    posted = await http.post()
    fields = {name: value for name, value in posted.items() if isinstance(value, str)}
    uploads = [value for value in posted.values() if not isinstance(value, str)]
    files = [f"{upload.filename}: {upload.content_type}, {len(upload.file.read())}" for upload in uploads]

    async def answer(call: Call) -> web.StreamResponse:
        return web.json_response({"kind": http.content_type, "fields": fields, "files": files})

    return await _ask(http, {"fields": fields, "files": files}, fields["message"], answer)


async def text(http: web.Request) -> web.StreamResponse:
    """Plain text, of what stands in the query."""

    async def answer(call: Call) -> web.StreamResponse:
        return web.Response(text=f"{http.match_info['room']} heard: {http.query['q']}")

    return await _ask(http, {}, http.query["q"], answer)


async def stream(http: web.Request) -> web.StreamResponse:
    """The words of the message as events or lines, a pause after the first."""
    body, lines = await http.json(), http.match_info["kind"] == "jsonl"

    async def answer(call: Call) -> web.StreamResponse:
        kind = "application/x-ndjson" if lines else "text/event-stream"
        response = web.StreamResponse(headers={"Content-Type": kind})
        await response.prepare(http)
        events: list[dict[str, Any]] = [{"type": "begin", "conv": "streamed"}]
        events += [{"type": "piece", "delta": {"text": word}} for word in call.text.replace(" ", " \0").split("\0")]
        events.append({"type": "end", "usage": {"input_tokens": 3, "output_tokens": 4}})
        if "overload" in call.text:
            await response.write(b'event: error\ndata: {"message": "overloaded"}\n\n')
        for number, event in enumerate(events):
            written = json.dumps(event)
            # Cut in two, because a network cuts where it likes.
            whole = f"{written}\r\n" if lines else f": ping\r\nevent: {event['type']}\ndata: {written}\n\n"
            for part in (whole[:9], whole[9:]):
                await response.write(part.encode())
                await asyncio.sleep(0)
            if number == 1:
                await asyncio.sleep(0.05)
            if "hang up" in call.text and number == 2:
                assert http.transport is not None
                http.transport.close()
                return response
        if not lines:
            await response.write(b"data: [DONE]\n\n")
        return response

    return await _ask(http, body, str(body["message"]), answer)


ROUTES = [
    web.post("/service/chat", chat),
    web.post("/service/form", form),
    web.get("/service/{room}/text", text),
    web.post("/service/stream/{kind}", stream),
]
