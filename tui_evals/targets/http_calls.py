"""What every target of ours that calls over HTTP shares: connections, headers, bodies and streams, and what fails."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator, Mapping
from typing import Literal

import aiohttp
from yarl import URL

from .base import ConfigurationError, TargetConfig, TargetError, references_in, replace_references
from .failures import Failures
from .reaching import proxy_of


def new_pool(config: TargetConfig, url: URL, environment: Mapping[str, str]) -> aiohttp.ClientSession:
    """The connections to an address, as many as the target may have calls in flight."""
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=config.concurrency),
        timeout=aiohttp.ClientTimeout(total=config.timeout),
        cookie_jar=aiohttp.DummyCookieJar(),
        proxy=proxy_of(url, environment),
    )


def variables_in(config: TargetConfig, environment: Mapping[str, str]) -> dict[str, str]:
    """The values of the variables that the headers name; ConfigurationError where one is not set."""
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
    response: aiohttp.ClientResponse,
    limit: int,
    failures: Failures,
    seen: Callable[[bytes], None] | None = None,
) -> bytes | None:
    """The body, or None if it is longer than that; the start of an error's body is enough.

    What comes in of a success is shown to `seen` as it comes.
    """
    read = bytearray()
    try:
        async for piece in response.content.iter_any():
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
    """A stream cut into what it is made of as it comes in: the data of its events, or its lines."""

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
        """What was not completed yet when the stream ended."""
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
