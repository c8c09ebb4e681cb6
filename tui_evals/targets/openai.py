"""OpenAI-compatible endpoints over one connection pool, without an SDK."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import replace

import aiohttp
from yarl import URL

from .base import ConfigurationError, Reply, Request, TargetConfig, TargetContext, TargetKind
from .chat import completion_body, demand_reference, parse_body, resolve_reference, url_secrets
from .failures import MAX_BODY, MAX_ERROR_BODY, Failures
from .http_calls import StreamReader, connection_error, new_pool, plain_headers, read_body, variables_in, with_headers
from .providers import PROVIDERS
from .reaching import missing_key, proxy_of
from .worker import json_line


class OpenAI:
    """A model behind an OpenAI-compatible endpoint."""

    def __init__(self, config: TargetConfig, environment: Mapping[str, str]) -> None:
        demand_reference(config)
        provider, slash, model = config.model.partition("/")
        known = PROVIDERS.get(provider) if slash else None
        self._provider = known or PROVIDERS["openai"]
        self._model = model if known else config.model
        self._config = config
        self._environment = environment
        written = self._base_url()
        self._base = written.with_user(None)
        self._login = aiohttp.encode_basic_auth(written.user, written.password or "") if written.user else None
        self._secrets = tuple(url_secrets(str(written)))
        self._url = (self._base / "chat/completions").with_query(self._base.query)
        self._where = self._url.host_port_subcomponent or ""
        self._session: aiohttp.ClientSession | None = None

    async def ask(self, request: Request) -> Reply:
        """The answer to one request, or TargetError; one attempt, within the target's timeout."""
        key, named = self._key(), variables_in(self._config, self._environment)
        failures = Failures(self._where, self._environment, (*self._secrets, *named.values(), *filter(None, [key])))
        headers = {"Content-Type": "application/json"}
        if shown := f"Bearer {key}" if key else self._login:
            headers["Authorization"] = shown
        headers = with_headers(headers, plain_headers(self._config, named))
        asked = completion_body(self._config, self._model, request)
        clock = None
        if self._config.stream:
            asked |= {"stream": True, "stream_options": {"include_usage": True}}
            clock = _FirstPiece()
        data = json_line(asked)
        try:
            async with self._pool().post(self._url, data=data, headers=headers, allow_redirects=False) as response:
                limit = MAX_BODY if response.ok else MAX_ERROR_BODY
                body = await read_body(response, limit, failures, clock.see if clock is not None else None)
        except TimeoutError:
            raise failures.timed_out(self._config.timeout) from None
        except (aiohttp.ClientError, OSError) as error:
            raise connection_error(failures, error) from None
        reply = _parse_response(response, body, failures)
        return reply if clock is None else replace(reply, first_token_seconds=clock.seconds)

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
        variable = f"{self._provider.variables}_API_KEY"
        key = self._environment.get(variable) or None
        if any(name.lower() == "authorization" for name in config.headers):
            return None
        if key is None and str(self._base) == PROVIDERS["openai"].url:
            raise missing_key(config, [variable])
        return key

    def check(self) -> str | None:
        """The address at which somebody has to listen, None behind a proxy; ConfigurationError where a key is missing.

        Nothing is sent.
        """
        self._key()
        variables_in(self._config, self._environment)
        return str(self._base) if proxy_of(self._url, self._environment) is None else None

    def _pool(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = new_pool(self._config, self._url, self._environment)
        return self._session


class _FirstPiece:
    """How long it takes until the first piece of an answer has come, of a stream of them."""

    def __init__(self) -> None:
        self.seconds: float | None = None
        self._began = time.perf_counter()
        self._reader = StreamReader("sse")

    def see(self, piece: bytes) -> None:
        """Look at what came in, as long as nothing of the answer has."""
        if self.seconds is None and any(_says_something(data) for _, data in self._reader.feed(piece)):
            self.seconds = time.perf_counter() - self._began


def _says_something(data: str) -> bool:
    """Whether an event holds a piece of an answer; what it thought before is none."""
    try:
        delta = json.loads(data)["choices"][0]["delta"]
        return any(delta.get(name) for name in ("content", "refusal", "tool_calls"))
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):  # read as a whole, it is judged
        return False


def _parse_response(response: aiohttp.ClientResponse, body: bytes | None, failures: Failures) -> Reply:
    if body is None:
        raise failures.too_long()
    if not 200 <= response.status < 300:
        retry_after, location = (response.headers.get(name) for name in ("Retry-After", "Location"))
        raise failures.refused(response.status, retry_after, body.decode("utf-8", "replace"), location)
    try:
        return parse_body(body, response.content_type == "text/event-stream")
    except ValueError:
        raise failures.unreadable(body.decode("utf-8", "replace")) from None


def _open(config: TargetConfig, context: TargetContext) -> OpenAI:
    return OpenAI(config, context.environment)


KIND = TargetKind(
    form="openai", open=_open, asks_model=True, check=lambda config, context: _open(config, context).check()
)
