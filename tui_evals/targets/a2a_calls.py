"""The HTTP calls of the A2A SDK, made over our own connections: what is sent where, how long, and what fails is ours.

httpx and the SDK are imported with this module, which is why it is imported when an agent is asked for the first time.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import field

import aiohttp
import httpx
from yarl import URL

from tui_evals.light_records import dataclass
from tui_evals.targets.failures import MAX_BODY, MAX_ERROR_BODY, Failures
from tui_evals.targets.http_calls import connection_error, read_body

_OF_ONE_HOP = frozenset(("host", "connection", "content-length", "content-encoding", "transfer-encoding"))
_OURS = _OF_ONE_HOP | {"accept-encoding", "user-agent"}


@dataclass(slots=True)
class Credentials:
    """What goes along with a call to prove who asks, and the only origin that is given it."""

    origin: URL
    headers: Mapping[str, str] = field(default_factory=dict)
    query: Mapping[str, str] = field(default_factory=dict)


class Calls(httpx.AsyncBaseTransport):
    """Makes the calls; one that fails is a TargetError, and a redirect is not followed."""

    def __init__(
        self, pool: aiohttp.ClientSession, failures: Failures, credentials: Credentials, timeout: float
    ) -> None:
        self._pool = pool
        self._failures = failures
        self._timeout = timeout
        self.credentials = credentials

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Make one call; a success is read as it comes in."""
        url = URL(str(request.url))
        headers = {name: value for name, value in request.headers.items() if name not in _OURS}
        if url.origin() == self.credentials.origin:
            headers |= {name.lower(): value for name, value in self.credentials.headers.items()}
            url = url.update_query(self.credentials.query)
        data = await request.aread()
        try:
            response = await self._pool.request(
                request.method, url, data=data or None, headers=headers, allow_redirects=False
            )
            if not 200 <= response.status < 300:
                body = await read_body(response, MAX_ERROR_BODY, self._failures) or b""
                retry_after, location = (response.headers.get(name) for name in ("Retry-After", "Location"))
                text = body.decode("utf-8", "replace")
                raise self._failures.refused(response.status, retry_after, text, location)
        except TimeoutError:
            raise self._failures.timed_out(self._timeout) from None
        except (aiohttp.ClientError, OSError) as error:
            raise connection_error(self._failures, error) from None
        said = [(name, value) for name, value in response.headers.items() if name.lower() not in _OF_ONE_HOP]
        return httpx.Response(response.status, headers=said, stream=_Body(response, self._failures, self._timeout))


class _Body(httpx.AsyncByteStream):
    """What comes in of a success."""

    def __init__(self, response: aiohttp.ClientResponse, failures: Failures, timeout: float) -> None:
        self._response = response
        self._failures = failures
        self._timeout = timeout

    async def __aiter__(self) -> AsyncIterator[bytes]:
        length = 0
        try:
            async for piece in self._response.content.iter_any():
                length += len(piece)
                if length > MAX_BODY:
                    raise self._failures.too_long()
                yield piece
        except TimeoutError:
            raise self._failures.timed_out(self._timeout) from None
        except (aiohttp.ClientError, OSError):
            raise self._failures.broken_off("") from None

    async def aclose(self) -> None:
        """Give the connection back, or end it where there is more to come."""
        self._response.release() if self._response.content.at_eof() else self._response.close()
