"""OpenAI-compatible endpoints over one connection pool, without an SDK."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import aiohttp
from yarl import URL

from tui_evals.light_records import dataclass
from tui_evals.targets.chat import (
    EMBEDDINGS_WANTED,
    ENCRYPTED_REASONING,
    begins_answer,
    completion_body,
    demand_reference,
    embedding_body,
    parse_body,
    parse_embeddings_body,
    parse_response_body,
    resolve_reference,
    response_body,
    url_secrets,
)
from tui_evals.targets.failures import MAX_BODY, MAX_ERROR_BODY, MODEL, Failures, Settings, StatedError, stated_status
from tui_evals.targets.http_calls import (
    Posts,
    Response,
    StreamReader,
    connection_error,
    missing_key,
    plain_headers,
    proxy_of,
    read_body,
    variables_in,
    with_headers,
)
from tui_evals.targets.model_table import Fitting, traits_of
from tui_evals.targets.providers import PROVIDERS, RESPONSES_PREFIX, asks_responses

from .base import ConfigurationError, Reply, Request, TargetConfig, TargetContext, TargetError, TargetKind
from .worker import json_line


@dataclass(frozen=True, slots=True)
class _Protocol:
    """One of the protocols of such an endpoint."""

    path: str
    body: Callable[[Mapping[str, Any]], Mapping[str, Any]]
    """Converts a request of the chat protocol to this one."""
    parse: Callable[[bytes, bool], Reply]
    streaming: Mapping[str, Any]
    """Additional fields of a streaming request."""
    begins_answer: Callable[[Mapping[str, Any]], bool]
    """Whether an event of a stream has a piece of the answer; reasoning before it does not count."""
    settings: Settings = MODEL
    question: Callable[[TargetConfig, str, Request], dict[str, Any]] = completion_body
    """A request in the chat protocol or, for vectors, in that of embeddings."""


def _delta_says_something(event: Mapping[str, Any]) -> bool:
    delta = event["choices"][0]["delta"]
    return any(delta.get(name) for name in ("content", "refusal", "tool_calls"))


_CHAT = _Protocol(
    "chat/completions",
    lambda chat: chat,
    parse_body,
    {"stream": True, "stream_options": {"include_usage": True}},
    _delta_says_something,
)
_RESPONSES = _Protocol(
    "responses",
    response_body,
    parse_response_body,
    {"stream": True},
    begins_answer,
    replace(MODEL, answer="a response of the Responses API"),
)
_EMBEDDINGS = _Protocol(
    "embeddings",
    lambda question: question,
    parse_embeddings_body,
    {},
    lambda event: False,
    replace(MODEL, answer=EMBEDDINGS_WANTED),
    embedding_body,
)


class OpenAI:
    """A model behind an OpenAI-compatible endpoint."""

    keeps_time = True

    def __init__(self, config: TargetConfig, environment: Mapping[str, str]) -> None:
        demand_reference(config)
        provider, slash, model = config.model.partition("/")
        known = PROVIDERS.get(provider) if slash else None
        ours = known if known is not None and known.ours else None
        self._provider = ours or PROVIDERS["openai"]
        self._model = model.removeprefix(RESPONSES_PREFIX) if ours else config.model
        self._protocol = _RESPONSES if asks_responses(config) else _CHAT
        if config.kind == "embedding":
            self._protocol = _EMBEDDINGS
        self._config = config
        self._environment = environment
        written = self._base_url()
        self._base = written.with_user(None)
        self._login = aiohttp.encode_basic_auth(written.user, written.password or "") if written.user else None
        self._secrets = tuple(url_secrets(str(written)))
        self._url = (self._base / self._protocol.path).with_query(self._base.query)
        self.url = str(self._url.with_query(None))
        self._where = self._url.host_port_subcomponent or ""
        self._posts: Posts | None = None
        self._fitting = Fitting(config)
        self._thinks = traits_of(config).thinks

    async def ask(self, request: Request) -> Reply:
        """The answer to one request, or TargetError; one attempt, within the target's timeout.

        If a parameter is refused, the request is sent again without it.
        """
        while True:
            body = self._protocol.question(self._config, self._model, request)
            if self._protocol is not _EMBEDDINGS:
                body = {**self._provider.asks_besides, **body}
            if self._protocol is _RESPONSES and self._thinks and request.tools and not body.get("store"):
                body["include"] = [*body.get("include", ()), ENCRYPTED_REASONING]
            if "extra_headers" in body:
                name = self._config.name
                message = f"extra_headers in params would go into the body; set headers in [targets.{name}] instead"
                raise TargetError("agentRequestFailed", message, unbilled=True)
            changes = self._fitting.fit(body)
            started = time.perf_counter()
            reply = await self._ask_once(body)
            if reply is not None:
                seconds = time.perf_counter() - started
                return replace(reply, changes=changes, seconds=seconds) if changes else reply

    async def _ask_once(self, sent: Mapping[str, Any]) -> Reply | None:
        """The answer, None where the model refused a parameter that it is spared from now on."""
        key, named = self._key(), variables_in(self._config, self._environment)
        secrets = (*self._secrets, *named.values(), *filter(None, [key]))
        failures = Failures(self._where, self._environment, secrets, self._protocol.settings)
        headers = {"Content-Type": "application/json"}
        if shown := f"Bearer {key}" if key else self._login:
            headers["Authorization"] = shown
        if self._config.headers:
            headers = with_headers(headers, plain_headers(self._config, named))
        asked = self._protocol.body(sent)
        clock = _FirstPiece(self._protocol) if self._config.stream else None
        data = json_line(asked if clock is None else {**asked, **self._protocol.streaming})
        try:
            async with asyncio.timeout(self._config.timeout), self._pool().post(data, headers) as response:
                limit = MAX_BODY if response.ok else MAX_ERROR_BODY
                body = await read_body(response, limit, failures, clock.see if clock is not None else None)
        except TimeoutError:
            raise failures.timed_out(self._config.timeout) from None
        except (aiohttp.ClientError, OSError) as error:
            raise connection_error(failures, error) from None
        if not response.ok:
            said = (body or b"").decode("utf-8", "replace")
            if self._fitting.learn(said, sent, response.status):
                return None
        reply = self._parsed(response, body, failures)
        return reply if clock is None else replace(reply, first_token_seconds=clock.seconds)

    def _parsed(self, response: Response, body: bytes | None, failures: Failures) -> Reply:
        if body is None:
            raise failures.too_long()
        if not 200 <= response.status < 300:
            retry_after, location = (response.headers.get(name) for name in ("Retry-After", "Location"))
            said = body.decode("utf-8", "replace")
            if self._protocol is not _EMBEDDINGS and (blocked := failures.blocked(response.status, said)):
                return blocked
            raise failures.refused(response.status, retry_after, said, location)
        try:
            return self._protocol.parse(body, response.content_type == "text/event-stream")
        except StatedError as stated:
            said = json.dumps({"error": stated.error})
            if self._protocol is not _EMBEDDINGS and (blocked := failures.blocked(stated_status(stated.error), said)):
                return blocked
            raise failures.stated(stated) from None
        except ValueError:
            raise failures.unreadable(body.decode("utf-8", "replace")) from None

    async def close(self) -> None:
        """Give the connections back."""
        if self._posts is not None:
            await self._posts.close()
            self._posts = None

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
        """The current key; a provider's usual key never goes to a configured address."""
        config = self._config
        if config.api_key is not None:
            return resolve_reference(config.api_key, self._environment, "api_key", config.name)
        if config.base_url is not None:
            return None
        variables = self._provider.keys or (f"{self._provider.variables}_API_KEY",)
        key = next(filter(None, map(self._environment.get, variables)), None)
        if any(name.lower() == "authorization" for name in config.headers):
            return None
        if key is None and self._provider.keys and str(self._base) == self._provider.url:
            raise missing_key(config, variables[:1])
        return key

    def check(self) -> str | None:
        """The address that must accept connections, None behind a proxy; ConfigurationError where a key is missing.

        Nothing is sent.
        """
        self._key()
        variables_in(self._config, self._environment)
        return str(self._base) if proxy_of(self._url, self._environment) is None else None

    def _pool(self) -> Posts:
        if self._posts is None:
            self._posts = Posts(self._config, self._url, self._environment)
        return self._posts


class _FirstPiece:
    """How long it takes until the first piece of an answer has come, of a stream of them."""

    def __init__(self, protocol: _Protocol) -> None:
        self.seconds: float | None = None
        self._protocol = protocol
        self._began = time.perf_counter()
        self._reader = StreamReader("sse")

    def see(self, piece: bytes) -> None:
        """Watch the stream until the answer begins."""
        if self.seconds is None and any(self._begins(data) for _, data in self._reader.feed(piece)):
            self.seconds = time.perf_counter() - self._began

    def _begins(self, data: str) -> bool:
        try:
            return self._protocol.begins_answer(json.loads(data))
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError):  # read as a whole, it is judged
            return False


def _open(config: TargetConfig, context: TargetContext) -> OpenAI:
    return OpenAI(config, context.environment)


KIND = TargetKind(
    form="openai", open=_open, asks_model=True, check=lambda config, context: _open(config, context).check()
)
