"""Services that retrieve, call tools and work at jobs: what they tell is read by the paths of the configuration."""

import asyncio
import json
from contextlib import asynccontextmanager

import pytest
from aiohttp import web

from tui_evals.targets.base import ConfigurationError, HttpService, Request, TargetConfig, TargetError
from tui_evals.targets.service import Exchange, Service
from tui_evals.transcript import Citation, calls_with_results, documents_of, parts_of, reasoning_text

RAG = {
    "reply": {"text": "It is paid.", "thoughts": "look it up"},
    "hits": [{"body": "Order 7: paid", "doc": "orders", "rank": 0.9}, {"body": "Order 8: open", "doc": "orders"}],
    "trace": [{"tool": "find", "input": {"order": 7}, "output": {"status": "paid"}, "duration_ms": 120}],
    "links": [{"url": "https://shop.example/7", "title": "Order 7"}],
    "debug": {"index": "v2"},
}
PATHS = {
    "answer": "$.reply.text",
    "reasoning": "$.reply.thoughts",
    "chunks": {"path": "$.hits[*]", "text": "body", "source": "doc", "score": "rank"},
    "tool_calls": "$.trace",
    "citations": "$.links[*]",
    "diagnostics": {"index": "$.debug.index"},
}
REQUEST = Request(messages=({"role": "user", "content": "Is order 7 paid?"},))


@asynccontextmanager
async def serving(replies, asked=None):
    """A service that gives replies one after the other, and the last one again and again."""
    left = list(replies)

    async def answer(request):
        if asked is not None:
            asked.append((request.method, request.path, request.headers.get("X-Key")))
        return web.json_response(left.pop(0) if len(left) > 1 else left[0])

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


async def ask(replies, asked=None, exchange=None, headers=None, timeout=10.0, **http):
    async with serving(replies, asked) as origin:
        settings = {
            name: value.replace("HOST", origin) if isinstance(value, str) else value for name, value in http.items()
        }
        service = HttpService(url=f"{origin}/ask", body={"q": "{{ prompt }}"}, **settings)
        target = Service(TargetConfig(name="rag", model="http:rag", http=service, headers=headers or {}), {"KEY": "k"})
        target.exchange = exchange
        try:
            async with asyncio.timeout(timeout):
                return await target.ask(REQUEST)
        finally:
            await target.close()


async def test_a_service_hands_over_chunks_calls_reasoning_and_citations():
    reply = await ask([RAG], **PATHS)
    assert reply.text == "It is paid." and reasoning_text(reply.transcript) == "look it up"
    found = [(one.text, one.source, one.score) for one in documents_of(reply.transcript)]
    assert found == [("Order 7: paid", "orders", 0.9), ("Order 8: open", "orders", None)]
    ((call, result),) = calls_with_results(reply.transcript)
    assert (call.name, json.loads(call.arguments), json.loads(result.text)) == (
        "find",
        {"order": 7},
        {"status": "paid"},
    )
    assert result.took.seconds == 0.12
    assert [one.source for one in parts_of(reply.transcript, Citation)] == ["https://shop.example/7"]
    assert reply.diagnostics == {"index": "v2"}


async def test_what_no_setting_names_is_suggested_to_whoever_checks():
    seen = Exchange()
    reply = await ask(
        [{"reply": {"text": "It is paid.", "tool_calls": [{"name": "f"}]}, "contexts": ["a"]}], exchange=seen
    )
    assert reply.transcript is None
    assert seen.unmapped == [
        'the reply has $.reply.text: set answer = "$.reply.text"',
        'the reply has $.reply.tool_calls: set tool_calls = "$.reply.tool_calls"',
        'the reply has $.contexts: set chunks = "$.contexts"',
    ]


async def test_calls_that_cannot_be_read_leave_the_answer_as_it_is():
    reply = await ask([{"text": "Paid.", "calls": [{"what": 1}]}], answer="$.text", tool_calls="$.calls")
    assert reply.text == "Paid." and reply.diagnostics == {"tool_calls not used": "tool call 1 has no name"}


async def test_a_job_is_begun_and_asked_for_until_it_is_done():
    asked = []
    job = {"poll": "HOST/jobs/{{ job }}", "job": "$.id", "done": "$.status", "every": 0.001, "error": "$.error"}
    replies = [{"id": "a/b", "status": "queued"}, {"status": "running"}, {"status": "COMPLETED", "text": "Paid."}]
    headers = {"X-Key": "env:KEY"}
    reply = await ask(replies, asked, headers=headers, answer="$.text", **job)
    assert reply.text == "Paid."
    assert asked == [("POST", "/ask", "k"), ("GET", "/jobs/a/b", "k"), ("GET", "/jobs/a/b", "k")]
    with pytest.raises(TargetError, match="out of paper"):
        await ask([{"id": 1}, {"status": "failed", "error": "out of paper"}], answer="$.text", **job)
    with pytest.raises(TargetError, match=r"http\.job: the path \$\.id matched nothing"):
        await ask([{"name": 1}], answer="$.text", **job)
    with pytest.raises(TimeoutError):
        await ask([{"id": 1, "status": "queued"}], timeout=0.2, answer="$.text", **job)
    with pytest.raises(ConfigurationError, match=r"http\.poll: the host"):
        await ask([{}], **{**job, "poll": "https://elsewhere.example/{{ job }}"})
