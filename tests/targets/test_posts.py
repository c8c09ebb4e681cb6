"""What our own client writes to a connection and reads from it, byte by byte, as a session of aiohttp would."""

import asyncio
import gzip
import json
from contextlib import asynccontextmanager

import pytest

from tui_evals.targets import http_calls
from tui_evals.targets.base import Request, TargetConfig, TargetError
from tui_evals.targets.openai import OpenAI

ANSWER = json.dumps({"choices": [{"message": {"content": "yes"}, "finish_reason": "stop"}]}).encode()
QUESTION = Request(messages=({"role": "user", "content": "?"},))


def whole(body=ANSWER, *headers, status="200 OK"):
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def in_chunks(body):
    pieces = [body[:7], body[7:], b""]
    return b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Encoding: gzip\r\n\r\n" + b"".join(
        b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces
    )


@pytest.fixture(params=[True, False], ids=["prepared", "session"])
def either_way(request, monkeypatch):
    """Our own way and that of a session, which is taken with later releases of aiohttp."""
    monkeypatch.setattr(http_calls, "_KNOWN", request.param)


class Server:
    """Sends a reply of bytes to each request that it has read, and keeps what it read by connection."""

    def __init__(self, *replies, read_body=True):
        self.replies, self.read_body = list(replies), read_body
        self.connections = []
        self.bodies = []

    async def serve(self, reader, writer):
        self.connections.append(heads := [])
        try:
            while self.replies:
                heads.append(await reader.readuntil(b"\r\n\r\n"))
                length = next(int(line[16:]) for line in heads[-1].split(b"\r\n") if line.startswith(b"Content-Length"))
                if self.read_body:
                    self.bodies.append(await reader.readexactly(length))
                reply, *self.replies = self.replies
                writer.write(reply)
                await writer.drain()
                if b"close" in reply.lower():
                    break
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # the client has gone
        finally:
            writer.close()


@asynccontextmanager
async def asked(*replies, read_body=True, environment=(), **settings):
    served = Server(*replies, read_body=read_body)
    server = await asyncio.start_server(served.serve, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
    config = TargetConfig(name="t", model="openai/m", base_url=url, api_key="env:KEY", **settings)
    target = OpenAI(config, {"KEY": "sk-own", **dict(environment)})
    try:
        yield served, target
    finally:
        await target.close()
        server.close()


async def test_what_is_sent_is_what_a_session_sends(monkeypatch):
    sent = []
    for is_known in (True, False):
        monkeypatch.setattr(http_calls, "_KNOWN", is_known)
        async with asked(whole(), whole(), headers={"X-Team": "blue", "user-agent": "mine"}) as (served, target):
            assert [(await target.ask(QUESTION)).text for _ in range(2)] == ["yes", "yes"]
        (heads,) = served.connections
        lines = [sorted(head.lower().split(b"\r\n")) for head in heads]
        sent.append(([[line for line in head if not line.startswith(b"host")] for head in lines], served.bodies))
    assert sent[0] == sent[1]
    assert b"x-team: blue" in sent[0][0][0] and b"user-agent: mine" in sent[0][0][0]


@pytest.mark.usefixtures("either_way")
@pytest.mark.parametrize(
    ("first", "connections"),
    [
        (whole(), 1),
        (b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n" + whole(), 1),
        (in_chunks(gzip.compress(ANSWER)), 1),
        (whole(ANSWER, "Connection: close"), 2),
        (b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" + ANSWER, 2),
        (b"HTTP/1.0 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(ANSWER), ANSWER), 2),
    ],
    ids=["length", "hints", "gzip in chunks", "closing", "until the end", "HTTP/1.0"],
)
async def test_an_answer_is_read_however_it_comes_and_its_connection_used_again_if_it_may_be(first, connections):
    async with asked(first, whole()) as (served, target):
        assert [(await target.ask(QUESTION)).text for _ in range(2)] == ["yes", "yes"]
        assert len(served.connections) == connections


@pytest.mark.usefixtures("either_way")
@pytest.mark.parametrize(
    ("reply", "words"),
    [
        (b"SSH-2.0-OpenSSH_9.2\r\n\r\n", "the connection broke"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 500\r\nConnection: close\r\n\r\n{", "broke off"),
        (b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 3\r\n\r\nabc", "broke off"),
        (b"close", "the connection broke"),
    ],
    ids=["another protocol", "cut off", "no gzip", "nothing"],
)
async def test_what_is_no_answer_is_one_sentence_and_its_connection_is_left(reply, words):
    async with asked(reply, whole()) as (served, target):
        with pytest.raises(TargetError, match=words):
            await target.ask(QUESTION)
        assert (await target.ask(QUESTION)).text == "yes"
        assert len(served.connections) == 2


async def test_a_refusal_before_all_is_sent_is_told_and_the_rest_goes_nowhere():
    refusal = whole(b'{"error": {"message": "too long"}}', status="413 Too Large")
    async with asked(refusal, whole(), read_body=False) as (served, target):
        with pytest.raises(TargetError, match="too long"):
            await target.ask(Request(messages=({"role": "user", "content": "long " * 4_000_000},)))
        served.read_body = True
        assert (await target.ask(QUESTION)).text == "yes"
        assert len(served.connections) == 2


async def test_a_key_of_two_lines_is_no_header():
    async with asked(whole(), environment={"KEY": "sk-own\r\nX-Other: 1"}.items()) as (served, target):
        with pytest.raises(ValueError, match="header"):
            await target.ask(QUESTION)
        assert served.connections == []


async def test_a_key_that_changes_is_sent_as_it_is_now():
    async with asked(whole(), whole()) as (served, target):
        await target.ask(QUESTION)
        target._environment = {"KEY": "other"}
        await target.ask(QUESTION)
    heads = [head for heads in served.connections for head in heads]
    assert [b"Bearer sk-own\r" in heads[0], b"Bearer other\r" in heads[1]] == [True, True]


async def test_a_proxy_is_asked_by_the_session():
    proxy = Server(whole())
    server = await asyncio.start_server(proxy.serve, "127.0.0.1", 0)
    config = TargetConfig(name="t", model="openai/m", base_url="http://nowhere.example/v1", api_key="env:KEY")
    address = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    target = OpenAI(config, {"KEY": "sk-own", "http_proxy": address})
    assert (await target.ask(QUESTION)).text == "yes"
    assert proxy.connections[0][0].startswith(b"POST http://nowhere.example/v1/chat/completions HTTP/1.1")
    await target.close()
    server.close()
