"""A service of any kind as a target, against a real server: how it is asked, what is read of it, how it fails."""

import os
from contextlib import asynccontextmanager

import pytest

from tests.server import running
from tui_evals.targets.base import ConfigurationError, HttpService, Reply, Request, TargetConfig, TargetError, Usage
from tui_evals.targets.service import Exchange, Service

pytestmark = pytest.mark.asyncio(loop_scope="module")

CANARY = "canary-7f3a9d52c1"
ENVIRONMENT = {"PATH": os.environ["PATH"], "MY_LOGIN": CANARY}
CHAT = {
    "url": "/service/chat",
    "body": {"message": "{{ prompt }}", "conversation": "{{ session }}", "history": "{{ messages }}", "n": 1},
    "answer": "$.result.text",
    "tool_calls": "$.result.calls[*]",
    "usage": "$.meta.tokens",
    "session": "$.conv",
    "error": "$.failure",
}


@pytest.fixture(scope="module")
def server():
    with running() as server:
        yield server


@pytest.fixture(autouse=True)
def fresh(server):
    server.reset()


@asynccontextmanager
async def opened(server, headers=None, timeout=5.0, **http):
    settings = {**CHAT, **http} if "url" not in http else http
    settings["url"] = settings["url"] if "//" in settings["url"] else f"{server.origin}{settings['url']}"
    service = HttpService(**settings)
    config = TargetConfig(name="bot", model="http:bot", http=service, headers=headers or {}, timeout=timeout)
    target = Service(config, ENVIRONMENT)
    try:
        yield target
    finally:
        await target.close()


def said(text, **more):
    return Request(messages=({"role": "system", "content": "s"}, {"role": "user", "content": text}), **more)


async def outcome(server, text="hello", request=None, **http):
    async with opened(server, **http) as target:
        try:
            return await target.ask(request or said(text))
        except TargetError as error:
            return error


async def test_a_table_is_sent_as_json_and_paths_find_the_answer(server):
    wild = 'He said "{{ prompt }}", env:MY_LOGIN\n\ud800 äö'
    reply = await outcome(server, wild, headers={"X-Key": "Bearer env:MY_LOGIN", "X-Turn": "{{ turn }}/env:MY_LOGIN"})
    assert isinstance(reply, Reply) and reply.usage == Usage(7, 5) and str(reply.session).startswith("session-")
    sent = server.last()
    assert sent["headers"]["X-Key"] == f"Bearer {CANARY}" and sent["headers"]["X-Turn"] == f"0/{CANARY}"
    assert sent["headers"]["Content-Type"] == "application/json"
    assert sent["body"]["conversation"] is None and sent["body"]["n"] == 1
    assert sent["body"]["message"] == wild and sent["body"]["history"][1] == {"role": "user", "content": wild}
    again = await outcome(server, "calls", request=said("calls", session=reply.session))
    assert again.session == reply.session and again.text.endswith(" / calls")
    assert again.tool_calls == ({"id": "call_1", "name": "look_up", "arguments": '{"for": "calls"}'},)


async def test_a_text_is_a_template_that_must_come_out_as_json(server):
    body = '{"message": {{ prompt | tojson }}, "conversation": {{ session | tojson }}, "topic": {{ topic | tojson }}}'
    request = said('a "quoted" word', variables={"topic": ["x"], "prompt": "never"})
    reply = await outcome(server, request=request, body=body)
    assert reply.text == 'a "quoted" word' and server.last()["body"]["topic"] == ["x"]
    error = await outcome(server, 'a "quoted" word', body='{"message": "{{ prompt }}"}')
    assert "http.body makes no JSON" in str(error) and "{{ prompt | tojson }}" in str(error) and error.unbilled
    error = await outcome(server, body='{"message": {{ nothing | tojson }}}')
    assert "uses {{ nothing }}, which has no value" in str(error) and server.counts()["asked"] == 1


async def test_forms_parts_and_queries(server):
    fields = {"message": "{{ prompt }}", "list": "{{ [1, 2] }}", "session": "{{ session }}", "plain": "p"}
    for name, kind in (("form", "application/x-www-form-urlencoded"), ("multipart", "multipart/form-data")):
        reply = await outcome(server, "a&b=ü\n2", url="/service/form", answer="$.kind", **{name: fields})
        assert reply.text == kind
        assert server.last()["body"]["fields"] == {"message": "a&b=ü\n2", "list": "[1, 2]", "plain": "p"}
    reply = await outcome(
        server,
        "a&b=c/d?",
        request=said("a&b=c/d?", variables={"room": "x/y"}),
        url="/service/{{ room }}/text?q={{ prompt }}",
    )
    assert reply.text == "x/y heard: a&b=c/d?" and server.last()["method"] == "GET"


@pytest.mark.parametrize("kind", ["sse", "jsonl"])
async def test_a_stream_is_joined_and_its_first_piece_is_timed(server, kind):
    stream = {
        "url": f"/service/stream/{kind}",
        "body": {"message": "{{ prompt }}"},
        "answer": "$.delta.text",
        "usage": "$.usage",
        "session": "$.conv",
        "stream": kind,
    }
    reply = await outcome(server, "one two ü", **stream)
    assert (reply.text, reply.usage, reply.session) == ("one two ü", Usage(3, 4), "streamed")
    assert reply.first_token_seconds is not None
    error = await outcome(server, "one two hang up", **stream)
    assert error.code == "agentResponseUnparseable" and error.retryable and "broke off" in str(error)
    error = await outcome(server, "one", **{**stream, "answer": "$.delta.txt"})
    assert "http.answer: the path $.delta.txt matched nothing" in str(error) and "$.delta.text" in str(error)
    if kind == "sse":
        error = await outcome(server, "overload", **stream)
        assert "says it failed: overloaded" in str(error)
        whole = await outcome(server, "whole", **{**CHAT, "stream": "sse"})  # it does not stream after all
        assert whole.text == "whole" and whole.first_token_seconds is None


async def test_a_path_that_finds_nothing_says_what_the_reply_has(server):
    error = await outcome(server, answer="$.result.txt")
    assert error.code == "agentResponseUnparseable" and not error.retryable
    assert "http.answer: the path $.result.txt matched nothing" in str(error)
    assert "the reply has $.result.text, $.conv" in str(error) or "$.result.text" in str(error)
    async with opened(server, headers={"X-Key": "env:MY_LOGIN"}, session="$.nothing") as target:
        target.exchange = seen = Exchange()
        assert (await target.ask(said("hello"))).text == "hello"
        assert seen.sent.startswith("POST http://127.0.0.1:") and "X-Key: [hidden]" in seen.sent
        assert '"message": "hello"' in seen.sent and '"result"' in seen.received and CANARY not in seen.sent
        assert [sentence for sentence in seen.unmatched if sentence.startswith("http.session: the path $.nothing")]


FAILURES = {
    "429": ("agentRateLimited", True, "answered 429: Rate limit reached. Lower concurrency"),
    "401": ("agentAuthenticationError", False, "Check the login: no header is sent."),
    "404": ("agentRequestFailed", False, "Check http.url."),
    "500": ("agentRequestFailed", True, "It may pass; ask again."),
    "redirect": ("agentRequestFailed", False, "it redirects to "),
    "html": ("agentResponseUnparseable", True, "answered what is not the JSON that its paths need: an HTML page"),
    "empty": ("agentResponseUnparseable", True, "nothing at all"),
    "wrong_json": ("agentResponseUnparseable", True, "Check http.url."),
    "cut": ("agentResponseUnparseable", True, "broke off after:"),
    "reset": ("agentRequestFailed", True, "the connection broke. Check http.url"),
    "hang": ("agentTimeout", True, "did not answer within 0.3 s"),
    "drip": ("agentTimeout", True, "did not answer within 0.3 s"),
    "huge": ("agentResponseUnparseable", False, "more than 32 MB, which was dropped. Ask it for shorter answers."),
}


@pytest.mark.parametrize("kind", FAILURES)
async def test_failures_are_those_of_every_target(server, kind):
    timeout = 0.3 if kind in ("hang", "drip") else 20.0
    error = await outcome(server, f"[[{kind}]]", timeout=timeout)
    code, retryable, sentence = FAILURES[kind]
    assert isinstance(error, TargetError)
    assert (error.code, error.retryable) == (code, retryable) and sentence in str(error)
    if kind == "429":
        assert error.retry_after == 1
    if kind == "redirect":
        assert "Set http.url to the address it leads to" in str(error) and "nothing was sent there" in str(error)


async def test_an_error_in_a_reply_is_one_and_shows_no_key(server):
    error = await outcome(server, "broken", headers={"X-Key": "env:MY_LOGIN"})
    assert "says it failed: no service for [hidden]" in str(error) and not error.retryable
    gone = await outcome(server, url="http://127.0.0.1:9/x", body={})
    assert gone.nobody_there and "Check http.url and that the server runs." in str(gone)


@pytest.mark.parametrize(
    ("http", "said_so"),
    [
        ({"answer": "$.a["}, "targets.bot.http.answer: the path"),
        ({"body": {"a": "{{ prompt "}}, "targets.bot.http.body: "),
        ({"body": "{% include 'x' %}"}, "targets.bot.http.body: "),
        ({"usage": {"input": "$.a"}}, "targets.bot.http.usage counts no input; known are input_tokens"),
        ({"url": "env:NOBODY_SET_IT"}, "takes its http.url from the environment variable NOBODY_SET_IT"),
    ],
)
async def test_what_cannot_be_read_is_found_before_anybody_is_asked(server, http, said_so):
    settings = {**CHAT, "url": f"{server.origin}/service/chat", **http}
    config = TargetConfig(name="bot", model="http:bot", http=HttpService(**settings))
    with pytest.raises(ConfigurationError, match="bot") as problem:
        Service(config, ENVIRONMENT)
    assert said_so in str(problem.value)
