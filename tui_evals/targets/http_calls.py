"""Shared by our targets that call over HTTP: connections, headers, bodies, streams and failures."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Literal
from urllib.parse import urlsplit
from urllib.request import proxy_bypass_environment  # type: ignore[attr-defined]

import aiohttp
from yarl import URL

from tui_evals.targets.base import ConfigurationError, TargetConfig, TargetError, references_in, replace_references
from tui_evals.targets.failures import Failures

_KNOWN = tuple(map(int, aiohttp.__version__.split(".")[:2])) <= (3, 14)
"""Whether the connections of the installed aiohttp are known; for a later version only its public calls are used."""
_PORTS = {"http": 80, "https": 443}
_PATIENCE = 3.0
"""Seconds a server may take to accept a connection: a lost packet is sent again after one and after three."""


def missing_key(config: TargetConfig, variables: Sequence[str]) -> ConfigurationError:
    """No key is there, and what to do about it."""
    own = f"[targets.{config.name}]" if config.name != config.model else "a [targets.NAME] section"
    return ConfigurationError(
        f"The target {config.name} needs a key. Set {' or '.join(variables)} in the environment or .env.local. If the "
        f'key is in another variable, name that: api_key = "env:MY_KEY" in {own} of .evals/config.toml. To try '
        "tui-evals without a key, take the target demo."
    )


def proxy_of(url: URL, environment: Mapping[str, str]) -> str | None:
    """The proxy the environment names for an address; found once, because aiohttp's own way costs time at each call."""
    named = {
        name.lower().removesuffix("_proxy"): text for name, text in environment.items() if "_proxy" in name.lower()
    }
    return None if proxy_bypass_environment(url.host or "", named) else named.get(url.scheme) or None


def connection_problem(address: str) -> str | None:
    """Why no connection to an address is possible, or None; nothing is sent over it."""
    parts = urlsplit(address)
    try:
        with socket.create_connection((parts.hostname, parts.port or _PORTS[parts.scheme]), _PATIENCE):
            return None
    except TimeoutError:
        return f"it accepted no connection within {_PATIENCE:g} s"
    except socket.gaierror as problem:
        passing = problem.errno == socket.EAI_AGAIN
        return "its host name cannot be looked up just now" if passing else "its host name is not known"
    except ConnectionRefusedError:
        return "it refuses connections"
    except (OSError, UnicodeError) as problem:
        return (problem.strerror if isinstance(problem, OSError) else None) or str(problem)


def unreachable(config: TargetConfig, address: str, reason: str) -> ConfigurationError:
    """The error for an address that accepts no connections, and what to do."""
    parts = urlsplit(address)
    where = parts.netloc.rpartition("@")[2]
    remedy = "Check base_url and that the server runs."
    if config.base_url is None:
        remedy = "Check that the server runs, and your connection to it."
    return ConfigurationError(f"{config.name}: No answer from {where}: {reason}. {remedy}")


def new_pool(config: TargetConfig, url: URL, environment: Mapping[str, str]) -> aiohttp.ClientSession:
    """The connections to an address, as many as the target may have calls in flight."""
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=config.concurrency),
        timeout=aiohttp.ClientTimeout(total=config.timeout),
        cookie_jar=aiohttp.DummyCookieJar(),
        proxy=proxy_of(url, environment),
    )


class Posts:
    """Posts bodies to one address over connections of its own.

    A session of aiohttp creates a request, its headers and a timer for each call, which is half of the time of a call.
    Here the common parts are created once and sent over the connections of the session.
    """

    def __init__(self, config: TargetConfig, url: URL, environment: Mapping[str, str]) -> None:
        self._session = new_pool(config, url, environment)
        self._url = url
        self._is_prepared = _KNOWN and proxy_of(url, environment) is None
        self._headers: Mapping[str, str] = {}
        self._request: aiohttp.ClientRequest | None = None
        self._head = b""

    def post(self, data: bytes, headers: Mapping[str, str]) -> AbstractAsyncContextManager[Response]:
        """Post a body; the answer is there as soon as its headers are."""
        if not self._is_prepared:
            return self._session.post(self._url, data=data, headers=headers, allow_redirects=False)
        if self._request is None or headers != self._headers:
            self._request, self._headers = self._prepare(headers), headers
        connector = self._session.connector
        assert connector is not None
        return _Exchange(connector, self._request, b"%s%d\r\n\r\n%s" % (self._head, len(data), data))

    async def close(self) -> None:
        """Give the connections back."""
        await self._session.close()

    def _prepare(self, headers: Mapping[str, str]) -> aiohttp.ClientRequest:
        """The request that all calls with these headers are, up to the length of their body."""
        request = aiohttp.ClientRequest(
            "POST", self._url, headers=headers, loop=asyncio.get_running_loop(), session=self._session
        )
        named = [(name, value) for name, value in request.headers.items() if name.lower() != "content-length"]
        lines = [f"POST {self._url.raw_path_qs} HTTP/1.1", *(f"{name}: {value}" for name, value in named)]
        if any(character in line for line in lines for character in "\r\n\0"):
            raise ValueError("a header holds the end of a line, which no header can")
        self._head = "\r\n".join([*lines, "Content-Length: "]).encode()
        return request


class _Exchange:
    """One whole request and its response, on a connection that is free again after both."""

    __slots__ = ("_connection", "_connector", "_data", "_request", "content", "headers", "status")

    def __init__(self, connector: aiohttp.BaseConnector, request: aiohttp.ClientRequest, data: bytes) -> None:
        self._connector = connector
        self._request = request
        self._data = data

    async def __aenter__(self) -> _Exchange:
        self._connection = await self._connector.connect(self._request, [], _UNTIMED)
        protocol, transport = self._connection.protocol, self._connection.transport
        try:
            if protocol is None or transport is None or transport.is_closing():
                raise aiohttp.ServerDisconnectedError
            protocol.set_response_params(read_until_eof=True)
            transport.write(self._data)
            message, self.content = await protocol.read()
            while 100 <= message.code < 200:
                message, self.content = await protocol.read()
        except aiohttp.http.HttpProcessingError as problem:
            self._connection.close()
            raise aiohttp.ClientPayloadError(problem.message) from problem
        except BaseException:
            self._connection.close()
            raise
        self.status, self.headers = message.code, message.headers
        return self

    async def __aexit__(self, *_: object) -> None:
        transport = self._connection.transport
        is_sent = transport is not None and not transport.get_write_buffer_size()
        if is_sent and self.content.is_eof() and self.content.exception() is None:
            self._connection.release()
        else:
            self._connection.close()

    @property
    def ok(self) -> bool:
        """Whether the server did not refuse."""
        return self.status < 400

    @property
    def content_type(self) -> str:
        """The media type of the body."""
        return self.headers.get("Content-Type", "").partition(";")[0].strip().lower()

    def close(self) -> None:
        """Read no more of it."""
        self._connection.close()


Response = aiohttp.ClientResponse | _Exchange
_UNTIMED = aiohttp.ClientTimeout()


def variables_in(config: TargetConfig, environment: Mapping[str, str]) -> dict[str, str]:
    """The values of the variables in the headers; ConfigurationError if one is not set."""
    if not config.headers:
        return {}
    values = {name: environment.get(name, "").strip() for name in config.header_variables}
    if missing := [name for name, value in values.items() if not value]:
        header = next(name for name, text in config.headers.items() if missing[0] in references_in(text))
        raise ConfigurationError(
            f"The target {config.name} takes its header {header} from the environment variable {missing[0]}, which is "
            f"not set. Set {missing[0]}, or write it to .env.local."
        )
    return values


def plain_headers(config: TargetConfig, values: Mapping[str, str]) -> dict[str, str]:
    """The headers with the values of the variables that they name."""
    return {name: replace_references(text, values.__getitem__) for name, text in config.headers.items()}


def with_headers(usual: Mapping[str, str], own: Mapping[str, str]) -> dict[str, str]:
    """The usual headers with those of the configuration in their place, however they are spelled."""
    if not own:
        return dict(usual)
    given = {name.lower() for name in own}
    return {**{name: value for name, value in usual.items() if name.lower() not in given}, **own}


async def read_body(
    response: Response,
    limit: int,
    failures: Failures,
    seen: Callable[[bytes], None] | None = None,
) -> bytes | None:
    """The body, or None if it is longer than that; the start of an error's body is enough.

    What comes in of a success is shown to `seen` as it comes.
    """
    read, content = bytearray(), response.content
    if content.is_eof() and content.exception() is None and content.total_bytes <= limit:  # all is there
        whole = content.read_nowait()
        if seen is not None and response.status < 300:
            seen(whole)
        return whole
    try:
        async for piece in content.iter_any():
            read += piece
            if len(read) > limit:
                response.close()
                return bytes(read[:limit]) if not response.ok else None
            if seen is not None and response.status < 300:
                seen(piece)
    except TimeoutError:
        raise
    except (aiohttp.ClientError, OSError):
        if not response.ok:
            raise
        raise failures.broken_off(read.decode("utf-8", "replace")) from None
    return bytes(read)


def connection_error(failures: Failures, error: Exception) -> TargetError:
    """A refused or broken connection may come back; a host name that does not exist will not."""
    cause = getattr(error, "os_error", error)
    if isinstance(cause, socket.gaierror):
        return failures.unreachable("its host name is not known", cause.errno == socket.EAI_AGAIN)
    if isinstance(cause, ConnectionRefusedError):
        return failures.unreachable("it refuses connections", nobody_there=True)
    if isinstance(error, aiohttp.ClientConnectorError | aiohttp.ClientSSLError):
        return failures.unreachable(str(cause), not isinstance(error, aiohttp.ClientConnectorCertificateError))
    return failures.unreachable("the connection broke", sent=True)


class StreamReader:
    """Splits a stream into the data of its events, or its lines, as it arrives."""

    def __init__(self, kind: Literal["sse", "jsonl"]) -> None:
        self._is_lines = kind == "jsonl"
        self._rest = bytearray()
        self._data: list[str] = []
        self._event = ""

    def feed(self, piece: bytes) -> Iterator[tuple[str, str]]:
        """The name, mostly empty, and the data of each event that this piece completes."""
        self._rest += piece
        if b"\n" not in piece:
            return
        *lines, self._rest = self._rest.split(b"\n")
        for line in lines:
            yield from self._line(line)

    def end(self) -> Iterator[tuple[str, str]]:
        """The incomplete rest at the end of the stream."""
        rest, self._rest = self._rest, bytearray()
        yield from self._line(rest)
        yield from self._line(bytearray())

    def _line(self, raw: bytearray) -> Iterator[tuple[str, str]]:
        line = raw.decode("utf-8", "replace").removesuffix("\r")
        if self._is_lines:
            if line.strip():
                yield "", line
        elif not line:
            if self._data:
                yield self._event, "\n".join(self._data)
            self._data, self._event = [], ""
        elif line.startswith("data:"):
            self._data.append(line.removeprefix("data:").removeprefix(" "))
        elif line.startswith("event:"):
            self._event = line.removeprefix("event:").strip()
