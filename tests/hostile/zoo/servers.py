"""Model endpoints that mean harm: a process of its own that answers on loopback as its path says."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import threading
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from .malice import TEXTS

_PIECE = 2**16
_MOST = 2**31
"""Bytes after which even an endless answer ends, so that a client without a limit fails instead of never ending."""


@dataclass(frozen=True)
class Caller:
    """Whoever asked, and where a redirect would lead them."""

    connection: socket.socket
    elsewhere: int

    def send(self, data: bytes) -> None:
        self.connection.sendall(data)

    def reply(self, body: bytes, *headers: str, status: str = "200 OK") -> None:
        """A whole reply."""
        lines = (f"HTTP/1.1 {status}", "Content-Type: application/json", f"Content-Length: {len(body)}", *headers)
        self.send("\r\n".join([*lines, "", ""]).encode() + body)

    def endless(self, piece: bytes, *headers: str, before: bytes = b"") -> None:
        """A reply in pieces that does not end."""
        lines = ("HTTP/1.1 200 OK", "Content-Type: application/json", "Transfer-Encoding: chunked", *headers)
        self.send("\r\n".join([*lines, "", ""]).encode())
        chunk = b"%x\r\n%s\r\n" % (len(piece), piece)
        self.send(b"%x\r\n%s\r\n" % (len(before), before) if before else b"")
        for _ in range(_MOST // len(chunk)):
            self.send(chunk)


def completion(text: object, **more: object) -> bytes:
    message = {"role": "assistant", "content": text, **more}
    return json.dumps({"choices": [{"message": message, "finish_reason": "stop"}], "model": str(text)[:100]}).encode()


def _headers(caller: Caller) -> None:
    caller.send(b"HTTP/1.1 200 OK\r\n")
    for number in range(_MOST // 64):
        caller.send(b"X-%d: %s\r\n" % (number, b"a" * 50))


def _long_header(caller: Caller) -> None:
    caller.send(b"HTTP/1.1 200 OK\r\nX: ")
    for _ in range(_MOST // _PIECE):
        caller.send(b"a" * _PIECE)


def _slow(caller: Caller) -> None:
    caller.send(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n")
    for _ in range(600):
        caller.send(b" ")
        threading.Event().wait(0.1)


def _continues(caller: Caller) -> None:
    for _ in range(_MOST // 64):
        caller.send(b"HTTP/1.1 100 Continue\r\n\r\n")


def _zipped(caller: Caller) -> None:
    squeeze = zlib.compressobj(9, zlib.DEFLATED, 31)
    packed = b"".join(squeeze.compress(b" " * 2**20) for _ in range(1024)) + squeeze.flush()
    caller.reply(packed, "Content-Encoding: gzip")


def _redirects(caller: Caller) -> None:
    caller.reply(b"", f"Location: http://127.0.0.1:{caller.elsewhere}/v1/chat/completions", status="307 Elsewhere")


def _says(text: str) -> Callable[[Caller], None]:
    return lambda caller: caller.reply(completion(text))


def _fails(text: str) -> Callable[[Caller], None]:
    body = json.dumps({"error": {"message": text, "code": text, "type": text}}).encode()
    return lambda caller: caller.reply(body, status="400 Bad")


_EVERY = "".join(TEXTS)
SERVERS: Mapping[str, Callable[[Caller], None]] = {
    "headers": _headers,
    "long-header": _long_header,
    "body": lambda caller: caller.endless(b"x" * _PIECE, before=b'{"choices": [{"message": {"content": "'),
    "space": lambda caller: caller.endless(b" " * _PIECE),
    "events": lambda caller: caller.endless(
        b'data: {"choices":[{"index":0,"delta":{"content":"x"}}]}\n\n' * 500, "Content-Type: text/event-stream"
    ),
    "comments": lambda caller: caller.endless(b": ping\n" * 5000, "Content-Type: text/event-stream"),
    "zipped": _zipped,
    "slow": _slow,
    "continues": _continues,
    "redirects": _redirects,
    "silent": lambda caller: threading.Event().wait(60) and None,
    "reason": lambda caller: caller.send(f"HTTP/1.1 500 {_EVERY[:2000]}\r\n\r\n".replace("\n", " ").encode()),
    "garbage": lambda caller: caller.send(bytes(range(256)) * 200),
    "length": lambda caller: caller.send(b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\n{}"),
    "later": lambda caller: caller.reply(b"{}", "Retry-After: 99999999999", status="429 Slow"),
    "deep": lambda caller: caller.reply(b'{"choices":' + b"[" * 200_000),
    "number": lambda caller: caller.reply(
        b'{"choices":[{"message":{"content":"a"}}],"usage":{"prompt_tokens":' + b"9" * 6000 + b"}}"
    ),
    "usage": lambda caller: caller.reply(
        b'{"choices":[{"message":{"content":"a"}}],"usage":{"prompt_tokens":1e999,"completion_tokens":-5}}'
    ),
    "tools": lambda caller: caller.reply(
        completion(
            None, tool_calls=[{"id": _EVERY, "type": "function", "function": {"name": _EVERY, "arguments": _EVERY}}]
        )
    ),
    **{f"says-{number}": _says(text) for number, text in enumerate(TEXTS)},
    **{f"fails-{number}": _fails(text) for number, text in enumerate(TEXTS)},
}


@contextmanager
def serving() -> Iterator[tuple[int, int]]:
    """The port of the endpoints, and another one, of which the number of connections is a file's length."""
    with socket.create_server(("127.0.0.1", 0), backlog=64) as server, socket.create_server(("127.0.0.1", 0)) as other:
        ports = server.getsockname()[1], other.getsockname()[1]
        child = os.fork()
        if child == 0:
            try:
                _serve(server, ports[1])
            finally:
                os._exit(0)
        try:
            yield ports
        finally:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)


def _serve(server: socket.socket, elsewhere: int) -> None:
    while True:
        connection, _ = server.accept()
        threading.Thread(target=_answer, args=(connection, elsewhere), daemon=True).start()


def _answer(connection: socket.socket, elsewhere: int) -> None:
    with connection, contextlib.suppress(OSError):  # whoever asked has heard enough
        asked = connection.recv(2**20)
        name = asked.split(b" ", 2)[1].decode().strip("/").split("/")[0]
        SERVERS[name](Caller(connection, elsewhere))
