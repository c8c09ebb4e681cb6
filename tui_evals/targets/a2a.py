"""An agent of the Agent2Agent protocol: `a2a:https://host`, called with the official SDK (the extra `a2a`).

Its card says how to call it. Its context id is the session of a conversation. A task that takes longer is followed by
its stream, or polled, until it ends or the agent asks back.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import importlib.util
import json
import re
import time
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import field, replace
from typing import Any
from uuid import uuid4

import aiohttp
import httpx
from yarl import URL

from tui_evals.light_records import dataclass
from tui_evals.targets.answers import last_question
from tui_evals.targets.base import (
    AGENTS,
    ConfigurationError,
    Reply,
    Request,
    TargetConfig,
    TargetContext,
    TargetError,
    TargetKind,
)
from tui_evals.targets.chat import demand_reference, resolve_reference
from tui_evals.targets.failures import MAX_BODY, MAX_ERROR_BODY, Failures, Settings
from tui_evals.targets.foreign_messages import MAX_MEDIA, read_call, text_of
from tui_evals.targets.http_calls import (
    connection_error,
    new_pool,
    plain_headers,
    proxy_of,
    read_body,
    variables_in,
    with_headers,
)
from tui_evals.targets.permissions import is_loopback
from tui_evals.text.chats import content_text
from tui_evals.transcript import Call, File, Image, Message, Part, Reasoning, Result, Text, Transcript, Unknown

AGENT = Settings(
    address="the address behind a2a:",
    rights="The key may not use this agent; check its rights.",
    name="the address behind a2a:, whose card is at .well-known/agent-card.json below it",
    answer="an answer of the Agent2Agent protocol",
    shorter="Ask it for shorter answers.",
)
_CARDS = (".well-known/agent-card.json", ".well-known/agent.json")
"""Paths of the agent card; older agents use the second one."""
_FIRST_WAIT, _LONGEST_WAIT = 0.1, 2.0
"""Seconds before a task is polled, and their upper limit."""
_RUNNING = ("submitted", "working")
_DATA = re.compile(r"data:([^;,]*)[^,]*;base64,(.*)", re.DOTALL)
_ANYWHERE = ("0.0.0.0", "::")
_UNREADABLE = (ValueError, LookupError, TypeError, AttributeError, RecursionError)
"""Exceptions of the SDK for unreadable replies, besides its own errors."""


class Agent:
    """A deployed agent."""

    def __init__(self, config: TargetConfig, environment: Mapping[str, str]) -> None:
        demand_reference(config)
        self._config = config
        self._environment = environment
        written = resolve_reference(config.model.removeprefix(AGENTS), environment, "model", config.name) or ""
        self._address = _url(config, written, "model")
        elsewhere = resolve_reference(config.base_url, environment, "base_url", config.name)
        self._elsewhere = _url(config, elsewhere, "base_url") if elsewhere else None
        self._asked_at = self._elsewhere or self._address
        self._pool: aiohttp.ClientSession | None = None
        self._client: Any = None
        self._name: str | None = None
        self._connecting = asyncio.Lock()

    def check(self) -> str | None:
        """The address that must accept connections, None behind a proxy; raises ConfigurationError."""
        if importlib.util.find_spec("a2a") is None:
            raise ConfigurationError(
                f"The target {self._config.name} asks an agent by the Agent2Agent protocol, which needs the package "
                "a2a-sdk: pip install 'tui_evals[a2a]'"
            )
        self._secrets()
        address = self._address
        return str(address.origin()) if proxy_of(address, self._environment) is None else None

    def _secrets(self) -> tuple[str | None, dict[str, str]]:
        """The key, and the values of the variables that the headers name."""
        key = resolve_reference(self._config.api_key, self._environment, "api_key", self._config.name)
        return key, variables_in(self._config, self._environment)

    def _failures(self) -> Failures:
        key, named = self._secrets()
        where = self._asked_at.host_port_subcomponent or ""
        return Failures(where, self._environment, (*filter(None, [key]), *named.values()), AGENT)

    async def ask(self, request: Request) -> Reply:
        """The agent's answer to the last question, in the context of the conversation; raises TargetError."""
        failures = self._failures()
        async with self._connecting:
            if self._client is None:
                self._client = await self._connected(failures)
        from a2a.utils.errors import A2AError, InternalError
        from google.protobuf.json_format import ParseError

        began = time.perf_counter()
        answer = _Answer(began)
        try:
            await self._watch(request, answer)
        except A2AError as problem:
            raise TargetError(
                "agentRequestFailed",
                f"{failures.where} answered with an error: {failures.readable(str(problem)).rstrip('.')}.",
                retryable=isinstance(problem, InternalError),
            ) from None
        except (ParseError, *_UNREADABLE) as problem:
            raise failures.unreadable(str(problem)) from None
        return replace(answer.reply(failures, self._name), seconds=time.perf_counter() - began)

    async def _watch(self, request: Request, answer: _Answer) -> None:
        """Put the question, and take in what becomes of it until that is known."""
        from a2a.types import GetTaskRequest, SendMessageRequest

        try:
            async with aclosing(self._client.send_message(SendMessageRequest(message=_message(request)))) as events:
                async for event in events:
                    answer.take(event)
        except TargetError as problem:
            # The agent continues with a task whose stream broke, and would do it twice if it were asked again.
            if problem.code != "agentResponseUnparseable" or not answer.is_running:
                raise
        wait = _FIRST_WAIT
        while answer.is_running:
            await asyncio.sleep(wait)
            wait = min(wait * 1.5, _LONGEST_WAIT)
            answer.take_task(await self._client.get_task(GetTaskRequest(id=answer.task)))

    async def _connected(self, failures: Failures) -> Any:
        """The SDK's client of the agent, once its card is read."""
        self.check()
        # The SDK takes a second to import, during which others of the run continue.
        await asyncio.to_thread(importlib.import_module, "tui_evals.targets.a2a")
        await asyncio.to_thread(importlib.import_module, "a2a.client")
        import httpx
        from a2a.client import AgentCardResolutionError, ClientConfig, ClientFactory

        if self._pool is None:
            self._pool = new_pool(self._config, self._asked_at, self._environment)
        key, named = self._secrets()
        own = plain_headers(self._config, named)
        usual = {"authorization": f"Bearer {key}"} if key else {}
        calls = Calls(
            self._pool,
            failures,
            Credentials(self._asked_at.origin(), with_headers(usual, own)),
            self._config.timeout,
        )
        http = httpx.AsyncClient(transport=calls, timeout=None, trust_env=False)
        try:
            card = await self._card(http)
        except (AgentCardResolutionError, *_UNREADABLE) as problem:
            raise failures.unreadable(str(problem)) from None
        for interface in card.supported_interfaces:
            interface.url = str(self._reachable(interface.url))
        if key:
            _authorize(calls, card, key, own, self._config.name)
        self._name = card.name or None
        kinds = ["JSONRPC", "HTTP+JSON"]
        try:
            return ClientFactory(ClientConfig(httpx_client=http, supported_protocol_bindings=kinds)).create(card)
        except ValueError:
            spoken = ", ".join(sorted({each.protocol_binding for each in card.supported_interfaces})) or "nothing"
            raise ConfigurationError(
                f"The agent at {self._address} speaks {spoken}, and can be asked by {' and '.join(kinds)} alone."
            ) from None

    async def _card(self, http: Any) -> Any:
        """The card of the agent: at the address itself where that is a file, else at one of the usual places."""
        from a2a.client import A2ACardResolver

        if self._address.path.endswith(".json"):
            resolver = A2ACardResolver(http, str(self._address.parent), self._address.name)
            return await resolver.get_agent_card()
        newer, older = (A2ACardResolver(http, str(self._address).rstrip("/"), path) for path in _CARDS)
        try:
            return await newer.get_agent_card()
        except TargetError as problem:
            if problem.status != 404:
                raise
            return await older.get_agent_card()

    def _reachable(self, written: str) -> URL:
        """The URL of the agent: from its card, if that names the host where it was found.

        Many cards name the agent's address on its own machine, behind a proxy.
        """
        if self._elsewhere is not None:
            return self._elsewhere
        url, base = URL(written), self._address
        if not url.host:
            raise ConfigurationError(f"The card of the agent at {base} names no address to ask it at. Set base_url.")
        is_inside = url.host in _ANYWHERE or is_loopback(url.host)
        is_same_host = url.host == base.host and url.explicit_port in (None, base.explicit_port)
        if url.origin() == base.origin() or is_inside or is_same_host:
            return base.with_path(url.path).with_query(url.query)
        raise ConfigurationError(
            f"The card of the agent at {base} has it asked at {url.with_query(None)}; nothing was sent there. If that "
            f'is right, set base_url = "{url.with_query(None)}" in the section of the target.'
        )

    async def close(self) -> None:
        """Give the connections back."""
        self._client = None
        if self._pool is not None:
            await self._pool.close()
            self._pool = None


def _url(config: TargetConfig, written: str, setting: str) -> URL:
    try:
        url = URL(written)
    except ValueError:
        url = URL()
    if url.scheme not in ("http", "https") or not url.host:
        what = (
            "must be an agent's address, as in a2a:https://agent.example"
            if setting == "model"
            else "must be its address"
        )
        raise ConfigurationError(f"The {setting} of the target {config.name} {what}.")
    if url.user or url.password or (url.query and setting == "model"):
        raise ConfigurationError(
            f"The {setting} of the target {config.name} must hold no user, password or query; give a key by api_key."
        )
    return url


def _authorize(calls: Calls, card: Any, key: str, own: Mapping[str, str], name: str) -> None:
    """Send the key as the card requires: by the first scheme with one key."""

    wanted = [scheme for each in card.security_requirements if len(each.schemes) == 1 for scheme in each.schemes]
    schemes = [card.security_schemes[each] for each in wanted or card.security_schemes if each in card.security_schemes]
    if not schemes:
        return
    for scheme in schemes:
        given = _given_key(scheme, key)
        if given is not None:
            headers, query = given
            calls.credentials = Credentials(calls.credentials.origin, with_headers(headers, own), query)
            return
    raise ConfigurationError(
        f"The agent of the target {name} takes no key that could be sent: its card asks for "
        f"{', '.join(sorted({str(scheme.WhichOneof('scheme')) for scheme in schemes}))}. Set headers instead."
    )


def _given_key(scheme: Any, key: str) -> tuple[dict[str, str], dict[str, str]] | None:
    """The headers and the query with a key in this scheme; None if it takes no key."""
    match scheme.WhichOneof("scheme"):
        case "api_key_security_scheme":
            place = scheme.api_key_security_scheme
            match place.location.lower():
                case "query":
                    return {}, {place.name: key}
                case "cookie":
                    return {"cookie": f"{place.name}={key}"}, {}
            return {place.name.lower(): key}, {}
        case "http_auth_security_scheme" if scheme.http_auth_security_scheme.scheme.lower() == "basic":
            return {"authorization": f"Basic {base64.b64encode(key.encode()).decode()}"}, {}
        case "http_auth_security_scheme" | "oauth2_security_scheme" | "open_id_connect_security_scheme":
            return {"authorization": f"Bearer {key}"}, {}
    return None


def _message(request: Request) -> Any:
    """The question as a message; without a context yet, the earlier chat is included."""
    from a2a.types import Message, Part, Role

    session = request.session if isinstance(request.session, Mapping) else {}
    last = max((place for place, each in enumerate(request.messages) if each.get("role") == "user"), default=-1)
    parts = []
    if not session:
        before = (each for place, each in enumerate(request.messages) if place != last)
        told = ((each.get("role", ""), content_text(each.get("content"))) for each in before)
        parts = [Part(text=f"{role}: {text}") for role, text in told if text]
    content = request.messages[last].get("content") if request.messages else ""
    if isinstance(content, list | tuple):
        parts += [Part(**each) for each in map(_part, content) if each]
    else:
        parts.append(Part(text=last_question(request.messages)))
    return Message(
        role=Role.ROLE_USER,
        message_id=uuid4().hex,
        parts=parts,
        context_id=str(session.get("contextId") or ""),
        task_id=str(session.get("taskId") or ""),
    )


def _part(block: Mapping[str, Any]) -> dict[str, Any]:
    """A part of a chat's message: a text, or a picture, sound or file by its bytes or its address."""
    if isinstance(block.get("text"), str):
        return {"text": block["text"]}
    if isinstance(sound := block.get("input_audio"), Mapping):
        kind = "audio/mpeg" if sound.get("format") == "mp3" else "audio/wav"
        return {"raw": base64.b64decode(str(sound.get("data"))), "media_type": kind}
    picture, file = block.get("image_url"), block.get("file") or {}
    address = picture.get("url") if isinstance(picture, Mapping) else picture
    written = address or file.get("file_data") or ""
    if data := _DATA.fullmatch(written):
        try:
            part = {"raw": base64.b64decode(data[2], validate=True), "media_type": data[1]}
        except binascii.Error:
            return {"text": content_text([block])}
        return {**part, "filename": file["filename"]} if file.get("filename") else part
    return {"url": written} if written.startswith(("http://", "https://")) else {"text": content_text([block])}


class _Answer:
    """The answer to a question so far."""

    def __init__(self, began: float) -> None:
        self.task = ""
        self._began = began
        self._first: float | None = None
        self._context = ""
        self._state = ""
        self._said: list[Any] = []
        """The parts of a message with the final state, or of a message instead of a task."""
        self._artifacts: dict[str, list[Any]] = {}
        self._history: list[Any] = []
        self._updates: list[list[Any]] = []
        """The parts of progress messages."""

    @property
    def is_running(self) -> bool:
        """Whether the agent works on it."""
        return bool(self.task) and self._state in _RUNNING

    def take(self, event: Any) -> None:
        """Apply an event of the agent."""
        match event.WhichOneof("payload"):
            case "message":
                self._context, self._state = event.message.context_id or self._context, "completed"
                self._said = list(event.message.parts)
            case "task":
                self.take_task(event.task)
            case "status_update":
                update = event.status_update
                self.task, self._context = update.task_id or self.task, update.context_id or self._context
                self._take_status(update.status)
            case "artifact_update":
                update = event.artifact_update
                self.task, self._context = update.task_id or self.task, update.context_id or self._context
                before = self._artifacts.get(update.artifact.artifact_id, []) if update.append else []
                self._artifacts[update.artifact.artifact_id] = [*before, *update.artifact.parts]
                self._state = self._state or "working"
        if self._first is None and (self._artifacts or (self._state == "completed" and self._said)):
            self._first = time.perf_counter() - self._began

    def take_task(self, task: Any) -> None:
        """Take in a whole task."""
        self.task, self._context = task.id, task.context_id or self._context
        self._artifacts = {each.artifact_id: list(each.parts) for each in task.artifacts}
        self._history = list(task.history)
        self._take_status(task.status)

    def _take_status(self, status: Any) -> None:
        from a2a.types import TaskState

        self._state = TaskState.Name(status.state).removeprefix("TASK_STATE_").lower()
        self._said = list(status.message.parts)
        if self._state == "working" and self._said and self._said not in self._updates:
            self._updates.append(self._said)

    def reply(self, failures: Failures, name: str | None) -> Reply:
        """The reply it comes to, or TargetError where the task did not end well."""
        said = _joined(self._said, "\n")
        told = failures.readable(said).rstrip(".") or "it does not say why"
        match self._state:
            case "completed" | "input_required":
                pass
            case "auth_required":
                advice = "Give it a key: api_key, or headers, in the section of the target."
                message = f"The agent at {failures.where} asks for authorization: {told}. {advice}"
                raise TargetError("agentAuthenticationError", message)
            case "":
                raise failures.unreadable("")
            case state:
                known = {"failed": "failed", "rejected": "was rejected", "canceled": "was cancelled"}
                word = known.get(state, "is in no state that is known")
                message = f"The task of the agent at {failures.where} {word}: {told}."
                raise TargetError("agentRequestFailed", message)
        asks_back = self._state == "input_required"
        from a2a.types import Role

        made = "\n\n".join(_joined(parts, "") for parts in self._artifacts.values())
        last = next((each for each in reversed(self._history) if each.role == Role.ROLE_AGENT), None)
        text = said if asks_back else made or said or (_joined(last.parts, "\n") if last is not None else "")
        session = {"contextId": self._context, **({"taskId": self.task} if asks_back and self.task else {})}
        return Reply(
            text=text,
            transcript=self._transcript(text),
            model=name,
            finish_reason=self._state if asks_back else "stop",
            diagnostics={"task": self.task, "state": self._state} if self.task else None,
            first_token_seconds=self._first,
            session=session if self._context else None,
        )

    def _transcript(self, text: str) -> Transcript | None:
        """The agent's calls, reasoning and artifacts; None if there is only a text. Progress messages are left out."""
        from a2a.types import Role

        asked = max((place for place, each in enumerate(self._history) if each.role == Role.ROLE_USER), default=-1)
        groups = [list(each.parts) for each in self._history[asked + 1 :] if each.role == Role.ROLE_AGENT]
        groups += [update for update in self._updates if update not in groups]
        last = [*self._artifacts.values()] or [self._said]
        read = [_read_parts(parts) for parts in groups if parts not in last]
        messages = [one for parts in read if not all(isinstance(part, Text) for part in parts) for one in _said(parts)]
        made = [part for parts in last for part in _read_parts(parts) if not isinstance(part, Text)]
        if not messages and not made:
            return None
        return Transcript((*messages, *_said([*made, *([Text(text)] if text else [])])))


def _said(parts: Sequence[Part]) -> Iterator[Message]:
    """The parts of one message, after the results of its tools."""
    if given := tuple(part for part in parts if isinstance(part, Result)):
        calls = tuple(part for part in parts if isinstance(part, Call | Reasoning))
        if calls:
            yield Message(role="assistant", parts=calls)
        yield Message(role="tool", parts=given)
        parts = [part for part in parts if not isinstance(part, Result | Call | Reasoning)]
    if parts:
        yield Message(role="assistant", parts=tuple(parts))


def _read_parts(parts: Iterable[Any]) -> list[Part]:
    return [one for part in parts for one in _read_part(part)]


def _read_part(part: Any) -> Iterator[Part]:
    """A part of an agent's message as parts of a transcript.

    The protocol has no calls. Agents send them as data whose metadata says function_call or function_response, and mark
    reasoning as a thought.
    """
    from google.protobuf.json_format import MessageToDict

    metadata = MessageToDict(part.metadata)
    kinds = {name.rpartition("_")[2]: value for name, value in metadata.items()}
    name = part.filename or ""
    match part.WhichOneof("content"):
        case "text" if kinds.get("thought") is True:
            yield Reasoning(part.text)
        case "text":
            yield Text(part.text)
        case "data":
            data = _whole(MessageToDict(part.data))
            match kinds.get("type"):
                case "function_call":
                    yield from read_call(data)
                case "function_response" if isinstance(data, Mapping):
                    response = data.get("response")
                    failed = isinstance(response, Mapping) and "error" in response
                    yield Result(str(data.get("id") or ""), text_of(response), failed)
                case _:
                    yield Unknown("data", {"data": data})
        case "url" if part.media_type.startswith("image/"):
            yield Image(part.url, media_type=part.media_type)
        case "url":
            yield File(name, part.url, media_type=part.media_type)
        case "raw":
            written = base64.b64encode(part.raw).decode("ascii")
            kept = written if len(written) <= MAX_MEDIA else ""
            if part.media_type.startswith("image/"):
                yield Image(data=kept, media_type=part.media_type)
            else:
                yield File(name, data=kept, media_type=part.media_type)


def _joined(parts: Iterable[Any], between: str) -> str:
    """Parts as one text; pieces of a text are joined, other parts are on separate lines."""
    text = ""
    for part in parts:
        if any(isinstance(one, Reasoning | Call | Result) for one in _read_part(part)):
            continue
        piece, is_text = next(_texts(part), ("", True))
        text += (between if is_text else "\n") * bool(text and piece) + piece
    return text


def _texts(part: Any) -> Iterator[tuple[str, bool]]:
    """The text of a part, and whether it is one: data in JSON, a file by its name where it holds no text."""
    from google.protobuf.json_format import MessageToDict

    name = part.filename or "file"
    match part.WhichOneof("content"):
        case "text":
            yield part.text, True
        case "data":
            # The SDK keeps no order of keys, and equal data must be an equal answer.
            yield json.dumps(_whole(MessageToDict(part.data)), ensure_ascii=False, sort_keys=True), False
        case "url":
            yield f"[{name}: {part.url}]", False
        case "raw":
            is_text = part.media_type.startswith("text/") or part.media_type == "application/json"
            shown = f"[{name}: {part.media_type or 'bytes'}, {len(part.raw)} bytes]"
            yield part.raw.decode("utf-8", "replace") if is_text else shown, False


def _whole(value: Any) -> Any:
    """Data with the whole numbers that it was given, which the protocol carries as fractions."""
    if isinstance(value, Mapping):
        return {name: _whole(each) for name, each in value.items()}
    if isinstance(value, list):
        return list(map(_whole, value))
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _open(config: TargetConfig, context: TargetContext) -> Agent:
    return Agent(config, context.environment)


KIND = TargetKind(
    form="a2a:ADDRESS", open=_open, asks_model=True, check=lambda config, context: _open(config, context).check()
)


_OF_ONE_HOP = frozenset(("host", "connection", "content-length", "content-encoding", "transfer-encoding"))
_OURS = _OF_ONE_HOP | {"accept-encoding", "user-agent"}


@dataclass(slots=True)
class Credentials:
    """The credentials of a call, and the only origin that gets them."""

    origin: URL
    headers: Mapping[str, str] = field(default_factory=dict)
    query: Mapping[str, str] = field(default_factory=dict)


class Calls(httpx.AsyncBaseTransport):
    """Makes the HTTP calls; a failure becomes a TargetError, and redirects are not followed."""

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
    """The body of a successful response."""

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
