"""All other providers, through litellm in a process of its own, because its import blocks an event loop for seconds.

This module is both ends: the target, and the process that it starts, the only place where litellm is imported.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import socket
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from typing import Any
from urllib.parse import urlsplit

from yarl import URL

from tui_evals.interpreter import forbid_core_dumps
from tui_evals.light_records import dataclass
from tui_evals.targets.chat import (
    EMBEDDINGS_WANTED,
    SAMPLING_PARAMS,
    completion_body,
    demand_reference,
    embedding_body,
    parse_completion,
    parse_embeddings,
    resolve_reference,
    url_secrets,
)
from tui_evals.targets.failures import MAX_BODY, MAX_ERROR_BODY, MODEL, Failures, StatedError, error_in
from tui_evals.targets.http_calls import missing_key, proxy_of, variables_in
from tui_evals.targets.model_table import Fitting, is_known_provider, similar_provider
from tui_evals.targets.providers import PROVIDERS, Provider, address_variable, provider_of

from .base import (
    ConfigurationError,
    Reply,
    Request,
    TargetConfig,
    TargetContext,
    TargetError,
    TargetKind,
    replace_references,
)
from .worker import READY, Worker, json_line

_LITELLM_SETTINGS = {
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "LITELLM_LOCAL_ANTHROPIC_BETA_HEADERS": "True",
    # Otherwise litellm reads .env files of its own choice.
    "LITELLM_MODE": "PRODUCTION",
    # Otherwise an address in a foreign dataset could make this machine fetch anything in its network.
    "MAX_IMAGE_URL_DOWNLOAD_SIZE_MB": "0",
}
_NO_LOGIN = {
    "NoCredentialsError": "no AWS credentials were found; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or "
    "AWS_PROFILE",
    "ProfileNotFound": "the profile that AWS_PROFILE names is not in your AWS configuration",
    "DefaultCredentialsError": "no Google credentials were found; set GOOGLE_APPLICATION_CREDENTIALS to a key file, or "
    "log in with `gcloud auth application-default login`",
}
"""The missing login, by the class of the exception."""
_OWN_NAME = re.compile(r"litellm\.\w+(Error)?: (\w+Exception - )?")
_OWN_ADVICE = re.compile(
    r"\s*(Traceback \(most|To drop |If you want to use these|LiteLLM |Learn more|Received Model Group|set `?litellm)"
)
_VERSION = re.compile(r"/v\d\w*$")
_AROUND_CALL = 30.0
"""Seconds that litellm may need before and after its call, such as for imports at the first one."""


class ThroughLitellm:
    """A model named by a litellm string; its child process is on its way as soon as this is made."""

    keeps_time = True
    """The child ends the call after the timeout, by a clock that starts when the call goes out."""

    def __init__(self, config: TargetConfig, environment: Mapping[str, str]) -> None:
        demand_reference(config)
        _demand_whole(config)
        self._config = config
        self._embeds = config.kind == "embedding"
        self._environment = environment
        self._fitting = Fitting(config)
        self.url: str | None = None
        """The address of the last question, or None."""
        self._worker: Worker | None = Worker.joined(__name__, {**environment, **_LITELLM_SETTINGS})

    async def ask(self, request: Request) -> Reply:
        """The answer to one request, or TargetError; one attempt, whose call is within the target's timeout."""
        if self._worker is None:
            raise RuntimeError(f"the target {self._config.name} was asked after it was closed")
        failures = self._failures()
        configured = self._config.params.items()
        extra = [
            pair[0] for pair in request.params.items() if pair[0] not in SAMPLING_PARAMS and pair not in configured
        ]
        if extra and not self._embeds:
            message = (
                f"The parameter {', '.join(extra)} may not come from a prompt or dataset when litellm asks the model. "
                f"Set it under params in [targets.{self._config.name}], or leave it out."
            )
            raise TargetError("agentRequestFailed", message, unbilled=True)
        while True:
            call = (embedding_body if self._embeds else completion_body)(self._config, self._config.model, request)
            changes = self._fitting.fit(call)
            done = await self._do(call, self._worker, failures)
            started, seconds = done.get("started"), done.get("seconds")
            if "failure" not in done:
                break
            report = done["failure"]
            if (
                not self._embeds
                and report["kind"] == "status"
                and (blocked := failures.blocked(report["status"], report["text"]))
            ):
                return replace(blocked, started=started, seconds=seconds, changes=changes)
            if not self._is_learnt(report, call):
                error = _target_error(report, failures, self._config.timeout)
                error.started, error.seconds = started, seconds
                raise error
        self.url = done["url"]
        try:
            reply = (parse_embeddings if self._embeds else parse_completion)(done["answer"])
        except StatedError as stated:
            raise failures.stated(stated) from None
        except ValueError:
            raise failures.unreadable(json.dumps(done["answer"])) from None
        # litellm calculates the cost from the tokens, so without tokens there is no cost.
        listed = done["cost"] if reply.usage and self._config.price is None else None
        cost = listed if reply.cost is None else reply.cost
        return replace(reply, cost=cost, started=started, seconds=seconds, changes=changes)

    async def _do(self, call: Mapping[str, Any], worker: Worker, failures: Failures) -> dict[str, Any]:
        """The result of one call."""
        job = {"call": call, "embeds": self._embeds, "timeout": self._config.timeout}
        job |= {"key": self._key(), "url": self._address(), "headers": dict(self._config.headers)}
        await worker.ready()
        try:
            async with asyncio.timeout(self._config.timeout + 2 * _AROUND_CALL):
                done = await worker.do(job)
        except TimeoutError:
            raise failures.timed_out(self._config.timeout) from None
        if done is None:
            raise failures.unreachable("the process that runs litellm ended; asking again starts another")
        return done

    def _is_learnt(self, report: Mapping[str, Any], call: Mapping[str, Any]) -> bool:
        """Whether the provider, or litellm's knowledge of it, refused a part that can be left out."""
        refused = report["kind"] in ("unasked", "status")
        return refused and self._fitting.learn(report["text"], call, report.get("status", 400))

    async def close(self) -> None:
        """Leave the child process; the last target to leave ends it."""
        if self._worker is not None:
            self._worker.leave()
            self._worker = None

    def _key(self) -> str | None:
        """The key's reference; OpenAI's usual key never goes to a configured address, and some have no key at all."""
        provider = provider_of(self._config.model)
        known = PROVIDERS.get(provider)
        # Bedrock and Vertex log in through their modules, and a key would take the place of that.
        has_key = known is None or bool(known.module) or any(map(self._environment.get, known.keys))
        to_elsewhere = self._config.base_url is not None and (provider == "openai" or not has_key)
        return self._config.api_key or ("none" if to_elsewhere else None)

    def _address(self) -> str | None:
        """The address of the model, as a reference to its variable; litellm knows only some of these variables."""
        if self._config.base_url is not None:
            return self._config.base_url
        variable = address_variable(provider_of(self._config.model), self._environment)
        return f"env:{variable}" if variable else None

    def _failures(self) -> Failures:
        """The errors of this target; a reference to a missing variable is refused here, before anything is sent."""
        config, environment = self._config, self._environment
        key = resolve_reference(config.api_key, environment, "api_key", config.name)
        url = resolve_reference(self._address(), environment, "base_url", config.name)
        where = urlsplit(url).netloc.rpartition("@")[2] if url else config.model.partition("/")[0]
        named = variables_in(config, environment).values()
        secrets = (*filter(None, [key]), *named, *url_secrets(url or ""))
        return Failures(
            where, environment, secrets, replace(MODEL, answer=EMBEDDINGS_WANTED) if self._embeds else MODEL
        )


def _target_error(report: Mapping[str, Any], failures: Failures, timeout: float) -> TargetError:
    """The error for a failure that the child reports."""
    match report["kind"]:
        case "status":
            return failures.refused(report["status"], report["retry_after"], report["text"], report.get("location"))
        case "timeout":
            return failures.timed_out(timeout)
        case "connection":
            nobody_there, sent = report.get("nobody_there", False), report.get("sent", False)
            return failures.unreachable(report["text"], report["retryable"], nobody_there, sent=sent)
        case "login":
            message = f"{failures.where} was not asked: {report['text']}."
            return TargetError("agentAuthenticationError", message, unbilled=True)
        case "long":
            return failures.too_long()
        case "stated":
            return failures.stated(StatedError(report["error"]))
        case "unreadable":
            return failures.unreadable(report["text"])
        case "cut":
            return failures.broken_off("")
    return TargetError(
        "agentRequestFailed",
        f"litellm did not ask {failures.where}: {failures.readable(report['text'])}",
        unbilled=True,
        fault="unknown",
    )


async def _serve(link: socket.socket) -> None:
    """The child process: answer requests concurrently until the parent has ended."""
    reader, writer = await asyncio.open_unix_connection(sock=link, limit=2**30)
    litellm = _import_litellm()
    writer.write(json_line(READY))
    tasks: dict[int, asyncio.Task[None]] = {}
    while line := await reader.readline():
        job = json.loads(line)
        if "cancel" in job:
            if job["cancel"] in tasks:
                tasks[job["cancel"]].cancel()
            continue
        number = job["number"]
        task = tasks[number] = asyncio.create_task(_do_job(litellm, job, writer))
        task.add_done_callback(partial(_forget, tasks, number))
    # litellm leaves threads and clients behind that would hold up a tidy end.
    os._exit(0)


def _forget(tasks: dict[int, asyncio.Task[None]], number: int, _: asyncio.Task[None]) -> None:
    del tasks[number]


def _import_litellm() -> Any:
    """The litellm module set to be quiet, or the reason why it cannot be imported."""
    try:
        import litellm
    except Exception as error:
        return error
    litellm.suppress_debug_info = True
    litellm.num_retries = 0
    _watch_calls()
    return litellm


@dataclass
class _CallClock:
    """The clock of one job: it runs while a call is out, and keeps when the last one began and how long it took."""

    limit: float
    deadline: asyncio.Timeout
    started: float | None = None
    seconds: float | None = None
    url: str | None = None
    """The address, without the query, which has the key of some providers."""
    response: Any = None
    """The response of the last call."""


_clock: ContextVar[_CallClock | None] = ContextVar("clock", default=None)


def _watch_calls() -> None:
    """Make every HTTP call of litellm, through httpx, start the clock of its job and not follow redirects.

    The new address would get the key and the question.
    """
    import httpx

    send = httpx.AsyncClient.send

    async def watched(self: httpx.AsyncClient, request: httpx.Request, **options: Any) -> httpx.Response:
        options = {**options, "follow_redirects": False}
        clock = _clock.get()
        if clock is None:
            return await send(self, request, **options)
        began, clock.started = time.perf_counter(), time.time()
        clock.deadline.reschedule(asyncio.get_running_loop().time() + clock.limit)
        clock.url = str(request.url.copy_with(query=None))
        try:
            response = await send(self, request, **options)
        finally:
            clock.seconds = time.perf_counter() - began
        clock.response = response
        return response

    httpx.AsyncClient.send = watched  # type: ignore[method-assign]


async def _do_job(litellm: Any, job: dict[str, Any], writer: asyncio.StreamWriter) -> None:
    """Do one job; its failure is reported, not raised."""
    try:
        done = await _complete(litellm, job)
    except Exception as error:
        called = _clock.get()
        done = {"failure": _describe_failure(error, called.response if called else None)}
    clock = _clock.get()
    known = {"number": job["number"], **({"started": clock.started, "seconds": clock.seconds} if clock else {})}
    line = json_line({**known, **done})
    writer.write(line if len(line) <= MAX_BODY else json_line({**known, "failure": {"kind": "long"}}))


async def _complete(litellm: Any, job: dict[str, Any]) -> dict[str, Any]:
    """The outcome of one request to litellm."""
    if isinstance(litellm, Exception):
        return {"failure": {"kind": "unasked", "text": f"it cannot be imported: {litellm}"}}
    limit = job["timeout"]
    settings = {
        "api_key": resolve_reference(job["key"], os.environ, "api_key", ""),
        "api_base": _litellm_address(job["call"]["model"], resolve_reference(job["url"], os.environ, "base_url", "")),
        # Ours ends the whole attempt, litellm's only each wait, so that ours is to come first.
        "timeout": 2 * limit + 5,
        "num_retries": 0,
        "max_retries": 0,
    }
    if job["headers"]:
        headers = job["headers"].items()
        settings["extra_headers"] = {name: replace_references(text, os.environ.__getitem__) for name, text in headers}
    if not job["embeds"]:
        # Tools are the model's to call, not litellm's; its look for servers in them needs a package it does not bring.
        settings["_skip_mcp_handler"] = True
    ask = litellm.aembedding if job["embeds"] else litellm.acompletion
    async with asyncio.timeout(limit + _AROUND_CALL) as deadline:
        clock = _CallClock(limit, deadline)
        _clock.set(clock)  # each job is a task, with a context of its own
        answer = await ask(**{**job["call"], **settings})
    # From its own table; for some models that are not in it, litellm returns 0.
    cost = answer._hidden_params.get("response_cost") or None
    return {"answer": answer.model_dump(), "cost": cost, "url": clock.url}


def _litellm_address(model: str, address: str | None) -> str | None:
    """An address as litellm wants it: of some providers it adds the version of the protocol, of others it does not."""
    if address is None:
        return None
    address, provider = address.rstrip("/"), provider_of(model)
    if provider == "anthropic":
        return address.removesuffix("/v1")
    if provider == "gemini" and not _VERSION.search(address):
        return f"{address}/v1beta"
    return f"{address}/v1" if provider == "mistral" and not urlsplit(address).path else address


def _describe_failure(error: Exception, response: Any) -> dict[str, Any]:
    """The cause below litellm's exception, whose own class and status are a guess where no answer came."""
    import httpx

    links = list(_exception_chain(error))
    if any(type(link).__name__ == "ImageFetchError" for link in links):
        text = "it would have to fetch an address in the message from this machine; give the file as a data: URL"
        return {"kind": "unasked", "text": text}
    if missing := next(filter(None, (_NO_LOGIN.get(type(link).__name__) for link in links)), ""):
        return {"kind": "login", "text": missing}
    for link in links:
        if isinstance(link, httpx.HTTPStatusError):
            return _status_failure(link.response)
    if any(isinstance(link, TimeoutError | httpx.TimeoutException) for link in links):
        return {"kind": "timeout"}
    if any(type(link).__name__ == "ClientPayloadError" for link in links):
        return {"kind": "cut"}
    for link in reversed(links):
        if isinstance(link, OSError | httpx.TransportError):
            return _connection_failure(link)
    if response is not None and (told := _told_instead(response)):
        return told
    kind, status = type(error).__name__, getattr(error, "status_code", None)
    sent = not any(isinstance(link, UnicodeEncodeError) for link in links)
    if sent and kind in ("InternalServerError", "APIError"):
        return {"kind": "unreadable", "text": str(error)}
    if status in (401, 403, 404, 429, 502, 503, 504):
        return {"kind": "status", "status": status, "retry_after": None, "text": str(error)}
    return {"kind": "unasked", "text": _own_words(str(error))}


def _told_instead(response: Any) -> dict[str, Any]:
    """The error in a response with a good status; empty for another status, or an unreadable response."""
    import httpx

    try:
        text = response.text[:MAX_ERROR_BODY] if response.is_success else ""
        stated = error_in(json.loads(text)) if text else None
    except httpx.ResponseNotRead:
        return {}
    except ValueError:
        stated = None
    return {"kind": "stated", "error": stated} if stated else {"kind": "unreadable", "text": text} if text else {}


def _own_words(text: str) -> str:
    """litellm's message without its name, a traceback, and advice about its own settings."""
    return _OWN_ADVICE.split(_OWN_NAME.sub("", text), maxsplit=1)[0].strip().rstrip(".")


def _status_failure(response: Any) -> dict[str, Any]:
    import httpx

    text = ""
    with suppress(httpx.ResponseNotRead):
        text = response.text[:MAX_ERROR_BODY]
    header, location = (response.headers.get(name) for name in ("Retry-After", "Location"))
    status = response.status_code
    return {"kind": "status", "status": status, "retry_after": header, "text": text, "location": location}


def _exception_chain(error: BaseException | None) -> Iterator[BaseException]:
    """An exception and those it came from."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or error.__context__


def _connection_failure(link: Exception) -> dict[str, Any]:
    import httpx

    if isinstance(link, socket.gaierror):
        reason = {"text": "its host name is not known", "retryable": link.errno == socket.EAI_AGAIN}
    elif isinstance(link, ConnectionRefusedError):
        reason = {"text": "it refuses connections", "retryable": True, "nobody_there": True}
    else:
        sent = not isinstance(link, httpx.ConnectError)
        reason = {"text": "the connection broke", "retryable": True, "sent": sent}
    return {"kind": "connection", **reason}


def _check(config: TargetConfig, context: TargetContext) -> str | None:
    """ConfigurationError for an unknown provider and a missing key; else the address, None behind a proxy."""
    demand_reference(config)
    _demand_whole(config)
    variables_in(config, context.environment)
    environment, (provider, _, _) = context.environment, config.model.partition("/")
    key = resolve_reference(config.api_key, environment, "api_key", config.name)
    address = resolve_reference(config.base_url, environment, "base_url", config.name)
    if address is None and not is_known_provider(config.model):
        raise ConfigurationError(
            f"The target {config.name} is of an unknown provider, {provider}{similar_provider(config.model)}. Write "
            "its model as provider/name, or give its address: base_url in its section of .evals/config.toml."
        )
    known = PROVIDERS.get(provider)
    variable = address_variable(provider, environment)
    if known is not None:
        _demand_module(config, known)
        if known.needs_address and address is None and variable is None:
            raise ConfigurationError(
                f"The target {config.name} needs the address of your resource. Set base_url in its section of "
                f".evals/config.toml, or {known.variables}_API_BASE in the environment or .env.local."
            )
        elsewhere = (address or variable) and not known.needs_address
        if key is None and known.keys and not elsewhere and not any(map(environment.get, known.keys)):
            raise missing_key(config, known.keys[:1])
    address = address or environment.get(variable or "")
    if address:
        return address if _proxy(address, environment) is None else None
    return None


def _demand_whole(config: TargetConfig) -> None:
    """Refuse streaming: litellm's process could only pass on the whole answer."""
    if config.stream:
        raise ConfigurationError(
            f"The target {config.name}: stream = true is for endpoints of OpenAI's protocol (openai/… or a base_url) "
            "and for http targets; leave it out."
        )


def _demand_module(config: TargetConfig, provider: Provider) -> None:
    """Raise ConfigurationError if a package that litellm needs for a provider is missing; nothing is imported."""
    parent = provider.module.partition(".")[0]
    if parent and (find_spec(parent) is None or find_spec(provider.module) is None):
        package = provider.module.replace(".", "-")
        raise ConfigurationError(
            f"The target {config.name} is asked with the package {package}, which is not installed. Install it with "
            f"tui-evals: pip install 'tui-evals[{provider.extra}]'"
        )


def _proxy(address: str, environment: Mapping[str, str]) -> str | None:
    return proxy_of(URL(address), environment) or environment.get("ALL_PROXY") or environment.get("all_proxy")


KIND = TargetKind(
    form="litellm",
    open=lambda config, context: ThroughLitellm(config, context.environment),
    asks_model=True,
    check=_check,
)


if __name__ == "__main__":
    forbid_core_dumps()
    asyncio.run(_serve(socket.socket(fileno=0)))
