"""All other providers, through litellm in a process of its own, because its import blocks an event loop for seconds.

This module is both ends: the target, and the process that it starts, the only place where litellm is imported.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import partial
from typing import Any
from urllib.parse import urlsplit

from yarl import URL

from tui_evals.interpreter import forbid_core_dumps

from .base import ConfigurationError, Reply, Request, TargetConfig, TargetContext, TargetError, TargetKind
from .chat import SAMPLING_PARAMS, completion_body, demand_reference, parse_completion, resolve_reference, url_secrets
from .embeddings import EMBEDDINGS_WANTED, embedding_body, parse_embeddings
from .failures import MAX_BODY, MAX_ERROR_BODY, Failures
from .prices import is_known_provider, similar_provider
from .reaching import missing_key, proxy_of
from .worker import READY, Worker, json_line

_LITELLM_SETTINGS = {
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "LITELLM_LOCAL_ANTHROPIC_BETA_HEADERS": "True",
    # Otherwise litellm reads .env files of its own choice.
    "LITELLM_MODE": "PRODUCTION",
    # Otherwise an address in a stranger's dataset has this machine fetch whatever is within its reach.
    "MAX_IMAGE_URL_DOWNLOAD_SIZE_MB": "0",
}
_AROUND_CALL = 30.0
"""Seconds that litellm may take before and after its call, such as for what it imports at the first one."""


class ThroughLitellm:
    """A model named by a litellm string; its child process is on its way as soon as this is made."""

    keeps_time = True
    """The child ends the call after the timeout, by a clock that starts when the call goes out."""

    def __init__(self, config: TargetConfig, environment: Mapping[str, str], *, embeds: bool = False) -> None:
        demand_reference(config)
        self._config = config
        self._embeds = embeds
        self._environment = environment
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
        body = embedding_body if self._embeds else completion_body
        call = body(self._config, self._config.model, request)
        job = {
            "call": call,
            "embeds": self._embeds,
            "timeout": self._config.timeout,
            "key": self._key(),
            "url": self._config.base_url,
        }
        await self._worker.ready()
        try:
            async with asyncio.timeout(self._config.timeout + 2 * _AROUND_CALL):
                done = await self._worker.do(job)
        except TimeoutError:
            raise failures.timed_out(self._config.timeout) from None
        if done is None:
            raise failures.unreachable("the process that runs litellm ended; asking again starts another")
        if "failure" in done:
            raise _target_error(done["failure"], failures, self._config.timeout)
        try:
            count = len(request.messages)
            reply = parse_embeddings(done["answer"], count) if self._embeds else parse_completion(done["answer"])
        except ValueError:
            raise failures.unreadable(json.dumps(done["answer"])) from None
        # litellm works its cost out from the counts, so where those are none there is no cost either.
        cost = (done["cost"] if reply.usage else None) or reply.cost
        return replace(reply, cost=cost, seconds=done["seconds"])

    async def close(self) -> None:
        """Leave the child process; the last target to leave ends it."""
        if self._worker is not None:
            self._worker.leave()
            self._worker = None

    def _key(self) -> str | None:
        """The key's reference; a provider's usual key never goes to a configured address."""
        to_elsewhere = self._config.base_url is not None and self._config.model.startswith("openai/")
        return self._config.api_key or ("none" if to_elsewhere else None)

    def _failures(self) -> Failures:
        """The errors of this target; a reference to a missing variable is refused here, before anything is sent."""
        config, environment = self._config, self._environment
        key = resolve_reference(config.api_key, environment, "api_key", config.name)
        url = resolve_reference(config.base_url, environment, "base_url", config.name)
        where = urlsplit(url).netloc.rpartition("@")[2] if url else config.model.partition("/")[0]
        wanted = EMBEDDINGS_WANTED if self._embeds else "a chat completion"
        return Failures(where, environment, (*filter(None, [key]), *url_secrets(url or "")), wanted)


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
        case "long":
            return failures.too_long()
        case "unreadable":
            return failures.unreadable(report["text"])
        case "cut":
            return failures.broken_off("")
    return TargetError(
        "agentRequestFailed",
        f"litellm did not ask {failures.where}: {failures.readable(report['text'])}",
        unbilled=True,
    )


async def _serve(link: socket.socket) -> None:
    """The child: ask what comes in, many at once, until the parent is gone."""
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
    """The clock of one job: it runs while a call is out, and keeps how long the last one took."""

    limit: float
    deadline: asyncio.Timeout
    seconds: float | None = None


_clock: ContextVar[_CallClock | None] = ContextVar("clock", default=None)


def _watch_calls() -> None:
    """Have every HTTP call of litellm, which makes them through httpx, start the clock of its job and stay where it is.

    An address that it is redirected to would be given the key, and the question.
    """
    import httpx

    send = httpx.AsyncClient.send

    async def watched(self: httpx.AsyncClient, request: httpx.Request, **options: Any) -> httpx.Response:
        options = {**options, "follow_redirects": False}
        clock = _clock.get()
        if clock is None:
            return await send(self, request, **options)
        started = time.perf_counter()
        clock.deadline.reschedule(asyncio.get_running_loop().time() + clock.limit)
        response = await send(self, request, **options)
        clock.seconds = time.perf_counter() - started
        return response

    httpx.AsyncClient.send = watched  # type: ignore[method-assign]


async def _do_job(litellm: Any, job: dict[str, Any], writer: asyncio.StreamWriter) -> None:
    """Do one job; its failure is reported, not raised."""
    try:
        done = json_line({"number": job["number"], **await _complete(litellm, job)})
    except Exception as error:
        done = json_line({"number": job["number"], "failure": _describe_failure(error)})
    if len(done) > MAX_BODY:
        done = json_line({"number": job["number"], "failure": {"kind": "long"}})
    writer.write(done)


async def _complete(litellm: Any, job: dict[str, Any]) -> dict[str, Any]:
    """One question put to litellm."""
    if isinstance(litellm, Exception):
        return {"failure": {"kind": "unasked", "text": f"it cannot be imported: {litellm}"}}
    limit = job["timeout"]
    settings = {
        "api_key": resolve_reference(job["key"], os.environ, "api_key", ""),
        "api_base": resolve_reference(job["url"], os.environ, "base_url", ""),
        # Ours ends the whole attempt, litellm's only each wait, so that ours is to come first.
        "timeout": 2 * limit + 5,
        "num_retries": 0,
        "max_retries": 0,
    }
    if not job["embeds"]:
        # Tools are the model's to call, not litellm's; its look for servers in them needs a package it does not bring.
        settings["_skip_mcp_handler"] = True
    ask = litellm.aembedding if job["embeds"] else litellm.acompletion
    async with asyncio.timeout(limit + _AROUND_CALL) as deadline:
        clock = _CallClock(limit, deadline)
        _clock.set(clock)  # each job is a task, with a context of its own
        answer = await ask(**{**job["call"], **settings})
    # By its own table; for some models that are not in it litellm says 0.
    cost = answer._hidden_params.get("response_cost") or None
    return {"answer": answer.model_dump(), "cost": cost, "seconds": clock.seconds}


def _describe_failure(error: Exception) -> dict[str, Any]:
    """The cause below litellm's exception, whose own class and status are a guess where no answer came."""
    import httpx

    links = list(_exception_chain(error))
    if any(type(link).__name__ == "ImageFetchError" for link in links):
        text = "it would have to fetch an address in the message from this machine; give the file as a data: URL"
        return {"kind": "unasked", "text": text}
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
    kind, status = type(error).__name__, getattr(error, "status_code", None)
    sent = not any(isinstance(link, UnicodeEncodeError) for link in links)
    if sent and kind in ("InternalServerError", "APIError"):
        return {"kind": "unreadable", "text": str(error)}
    if status in (401, 403, 404, 429, 502, 503, 504):
        return {"kind": "status", "status": status, "retry_after": None, "text": str(error)}
    return {"kind": "unasked", "text": str(error)}


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


_KEYS = {
    "openai": ("OPENAI_API_KEY",),
    "anthropic": ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_FEDERATION_RULE_ID"),
    "gemini": ("GEMINI_API_KEY", "GOOGLE_API_KEY"),
    "mistral": ("MISTRAL_API_KEY", "MISTRAL_AZURE_API_KEY"),
    "groq": ("GROQ_API_KEY",),
    "deepseek": ("DEEPSEEK_API_KEY",),
    "xai": ("XAI_API_KEY",),
    "openrouter": ("OPENROUTER_API_KEY", "OR_API_KEY"),
}
"""The variables of which a provider needs one; litellm itself says so only once it is asked, after seconds."""


def _check(config: TargetConfig, context: TargetContext) -> str | None:
    """ConfigurationError for an unknown provider and a missing key; else the address, None behind a proxy."""
    demand_reference(config)
    environment, (provider, _, _) = context.environment, config.model.partition("/")
    key = resolve_reference(config.api_key, environment, "api_key", config.name)
    address = resolve_reference(config.base_url, environment, "base_url", config.name)
    if address is None and not is_known_provider(config.model):
        raise ConfigurationError(
            f"The target {config.name} is of an unknown provider, {provider}{similar_provider(config.model)}. Write "
            "its model as provider/name, or give its address: base_url in its section of .evals/config.toml."
        )
    if address is not None:
        return address if _proxy(address, environment) is None else None
    usual = (f"{provider.upper()}_{word}" for word in ("API_BASE", "BASE_URL"))
    if key is None and provider in _KEYS and not any(map(environment.get, (*usual, *_KEYS[provider]))):
        raise missing_key(config, _KEYS[provider][:1])
    return None


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
