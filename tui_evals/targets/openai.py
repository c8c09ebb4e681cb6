"""OpenAI-compatible endpoints over one connection pool, without an SDK."""

from __future__ import annotations

import socket
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import aiohttp
from yarl import URL

from .base import ConfigurationError, Reply, Request, TargetConfig, TargetContext, TargetError, TargetKind
from .chat import completion_body, demand_reference, parse_body, resolve_reference, url_secrets
from .failures import MAX_BODY, MAX_ERROR_BODY, Failures
from .providers import PROVIDERS
from .reaching import missing_key, proxy_of
from .takes import REFUSALS, Fitting
from .worker import json_line


class OpenAI:
    """A model behind an OpenAI-compatible endpoint."""

    def __init__(self, config: TargetConfig, environment: Mapping[str, str]) -> None:
        demand_reference(config)
        provider, slash, model = config.model.partition("/")
        known = PROVIDERS.get(provider) if slash else None
        ours = known if known is not None and known.ours else None
        self._provider = ours or PROVIDERS["openai"]
        self._model = model if ours else config.model
        self._config = config
        self._environment = environment
        written = self._base_url()
        self._base = written.with_user(None)
        self._login = aiohttp.encode_basic_auth(written.user, written.password or "") if written.user else None
        self._secrets = tuple(url_secrets(str(written)))
        self._url = (self._base / "chat/completions").with_query(self._base.query)
        self.url = str(self._url.with_query(None))
        self._where = self._url.host_port_subcomponent or ""
        self._session: aiohttp.ClientSession | None = None
        self._fitting = Fitting(config)

    async def ask(self, request: Request) -> Reply:
        """The answer to one request, or TargetError; one attempt, within the target's timeout.

        A question that is refused for one of its parameters is put again without that.
        """
        while True:
            body = {**self._provider.asks_besides, **completion_body(self._config, self._model, request)}
            changes = self._fitting.fit(body)
            started = time.perf_counter()
            reply = await self._ask_once(body)
            if reply is not None:
                seconds = time.perf_counter() - started
                return replace(reply, changes=changes, seconds=seconds) if changes else reply

    async def _ask_once(self, sent: Mapping[str, Any]) -> Reply | None:
        """The answer, None where the model refused a parameter that it is spared from now on."""
        key = self._key()
        failures = Failures(self._where, self._environment, (*self._secrets, *filter(None, [key])))
        headers = {"Content-Type": "application/json"}
        if shown := f"Bearer {key}" if key else self._login:
            headers["Authorization"] = shown
        data = json_line(sent)
        try:
            async with self._pool().post(self._url, data=data, headers=headers, allow_redirects=False) as response:
                body = await _read_body(response, MAX_BODY if response.ok else MAX_ERROR_BODY, failures)
        except TimeoutError:
            raise failures.timed_out(self._config.timeout) from None
        except (aiohttp.ClientError, OSError) as error:
            raise _connection_error(failures, error) from None
        if response.status in REFUSALS and self._fitting.learn((body or b"").decode("utf-8", "replace"), sent):
            return None
        return _parse_response(response, body, failures)

    async def close(self) -> None:
        """Give the connections back."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    def _base_url(self) -> URL:
        config, variables = self._config, self._provider.variables
        address = resolve_reference(config.base_url, self._environment, "base_url", config.name)
        usual = (self._environment.get(f"{variables}_{word}") for word in ("BASE_URL", "API_BASE"))
        address = address or next(filter(None, usual), self._provider.url)
        if address is None:
            raise ConfigurationError(
                f"The target {config.name} ({config.model}) needs an address. "
                f"Set base_url in [targets.{config.name}], or the environment variable {variables}_API_BASE."
            )
        try:
            url = URL(address.rstrip("/"))
        except ValueError:
            url = URL()
        if url.scheme not in ("http", "https") or not url.host:
            raise ConfigurationError(f"The base_url of the target {config.name} must look like https://host/v1.")
        return url / "v1" if variables == "OLLAMA" and not url.path.endswith("/v1") else url

    def _key(self) -> str | None:
        """The key as it is now; a provider's usual key never goes to a configured address."""
        config = self._config
        if config.api_key is not None:
            return resolve_reference(config.api_key, self._environment, "api_key", config.name)
        if config.base_url is not None:
            return None
        variables = self._provider.keys or (f"{self._provider.variables}_API_KEY",)
        key = next(filter(None, map(self._environment.get, variables)), None)
        if key is None and self._provider.keys and str(self._base) == self._provider.url:
            raise missing_key(config, variables[:1])
        return key

    def check(self) -> str | None:
        """The address at which somebody has to listen, None behind a proxy; ConfigurationError where a key is missing.

        Nothing is sent.
        """
        self._key()
        return str(self._base) if proxy_of(self._url, self._environment) is None else None

    def _pool(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=self._config.concurrency),
                timeout=aiohttp.ClientTimeout(total=self._config.timeout),
                cookie_jar=aiohttp.DummyCookieJar(),
                proxy=proxy_of(self._url, self._environment),
            )
        return self._session


async def _read_body(response: aiohttp.ClientResponse, limit: int, failures: Failures) -> bytes | None:
    """The body, or None if it is longer than that; the start of an error's body is enough."""
    read = bytearray()
    try:
        async for piece in response.content.iter_any():
            read += piece
            if len(read) > limit:
                response.close()
                return bytes(read[:limit]) if not response.ok else None
    except TimeoutError:
        raise
    except (aiohttp.ClientError, OSError):
        if not response.ok:
            raise
        raise failures.broken_off(read.decode("utf-8", "replace")) from None
    return bytes(read)


def _parse_response(response: aiohttp.ClientResponse, body: bytes | None, failures: Failures) -> Reply:
    if body is None:
        raise failures.too_long()
    if not 200 <= response.status < 300:
        retry_after, location = (response.headers.get(name) for name in ("Retry-After", "Location"))
        said = body.decode("utf-8", "replace")
        if blocked := failures.blocked(response.status, said):
            return blocked
        raise failures.refused(response.status, retry_after, said, location)
    try:
        return parse_body(body, response.content_type == "text/event-stream")
    except ValueError:
        raise failures.unreadable(body.decode("utf-8", "replace")) from None


def _connection_error(failures: Failures, error: Exception) -> TargetError:
    """A refused or broken connection may come back; a host name that does not exist will not."""
    cause = getattr(error, "os_error", error)
    if isinstance(cause, socket.gaierror):
        return failures.unreachable("its host name is not known", cause.errno == socket.EAI_AGAIN)
    if isinstance(cause, ConnectionRefusedError):
        return failures.unreachable("it refuses connections", nobody_there=True)
    if isinstance(error, aiohttp.ClientConnectorError | aiohttp.ClientSSLError):
        return failures.unreachable(str(cause), not isinstance(error, aiohttp.ClientConnectorCertificateError))
    return failures.unreachable("the connection broke", sent=True)


def _open(config: TargetConfig, context: TargetContext) -> OpenAI:
    return OpenAI(config, context.environment)


KIND = TargetKind(
    form="openai", open=_open, asks_model=True, check=lambda config, context: _open(config, context).check()
)
