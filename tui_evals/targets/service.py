"""A service of any kind over HTTP, asked and read as its section of the configuration says.

Texts of the configuration are sandboxed templates (`text/templates.py`); a JSON path says where answers are. A text
that is one expression alone is its value: `messages = "{{ messages }}"` in a table sends the list itself.
"""

from __future__ import annotations

import asyncio
import base64
import json
import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import field, replace
from typing import Any
from urllib.parse import quote, urlencode

import aiohttp
from yarl import URL

from tui_evals.light_records import dataclass
from tui_evals.targets.chat import resolve_reference, url_secrets
from tui_evals.targets.failures import (
    MAX_BODY,
    MAX_ERROR_BODY,
    Failures,
    Settings,
    StatedError,
    error_in,
    stated_status,
)
from tui_evals.targets.http_calls import StreamReader, connection_error, new_pool, proxy_of, read_body, variables_in
from tui_evals.text.chats import attachment_text
from tui_evals.text.strictjson import PathError, find_by_path
from tui_evals.text.templates import TemplateError, render_template, template_variables

from .answers import answer_path, last_question, parse_session, read_part, reply_of_parts
from .base import (
    MAX_COST,
    MAX_TOKENS,
    AttachedFile,
    ConfigurationError,
    HttpService,
    Reply,
    Request,
    TargetConfig,
    TargetContext,
    TargetError,
    TargetKind,
    Usage,
    replace_references,
)

SERVICE = Settings(
    address="http.url",
    key="the variable that its headers name",
    refused_key="the variable that its headers name",
    rights="The key may not do this; check its rights.",
    name="http.url",
    answer="the JSON that its paths need",
    shorter="Ask it for shorter answers.",
)
_HEADER = 'the login: no header is sent. Set headers = { Authorization = "Bearer env:NAME" }'
_NO_LOGIN = replace(SERVICE, key=_HEADER, refused_key=_HEADER)
_ALONE = re.compile(r"\s*\{\{((?:(?!\}\}).)*)\}\}\s*", re.DOTALL)
_EXPRESSION = re.compile(r"\{\{((?:(?!\}\}).)*)\}\}", re.DOTALL)
_MARKS = ("{{", "{%", "{#")
_FILES = "attachments"
_REFERENCES = "referred"
"""The name under which templates of headers access variables; no variable of an item can have it."""
_LISTS = ("tool_calls", "steps", "chunks", "citations")
"""The settings whose path finds a list, whose rows may have other names than ours."""
_PATHS = ("answer", *_LISTS, "reasoning", "diagnostics", "usage", "error", "session", "job", "done")
_DONE = frozenset(("done", "completed", "complete", "succeeded", "success", "finished", "ready", "ok"))
_FAILED = frozenset(("failed", "failure", "error", "errored", "cancelled", "canceled", "expired", "timed_out"))
_EVERY = 1.0
"""Seconds between two questions whether a job is done, by default."""
_COUNTS: Mapping[str, tuple[str, ...]] = {
    "input_tokens": ("input_tokens", "prompt_tokens", "inputTokens", "promptTokens", "promptTokenCount"),
    "output_tokens": (
        *("output_tokens", "completion_tokens", "outputTokens", "completionTokens", "candidatesTokenCount"),
    ),
    "cached_tokens": ("cached_tokens", "cachedTokens", "cache_read_input_tokens"),
    "reasoning_tokens": ("reasoning_tokens", "reasoningTokens"),
    "cost": ("cost", "cost_usd", "costUsd"),
}
"""The counts of a usage, each with its names in services."""
_SHOWN = 2000
"""Characters of a body that `targets check` shows."""
_MOST_PLACES = 12


@dataclass(frozen=True, slots=True)
class Sent:
    """A question as it goes over the line."""

    method: str
    url: URL
    headers: Mapping[str, str]
    body: bytes | None
    multipart: Sequence[tuple[str, str | AttachedFile]] | None = None


@dataclass(slots=True)
class Exchange:
    """A question and its reply, shown with secrets hidden."""

    sent: str = ""
    received: str = ""
    unmatched: list[str] = field(default_factory=list)
    """A sentence for each path that found nothing."""
    unmapped: list[str] = field(default_factory=list)
    """A sentence for each part of an answer that the reply has and no setting names, with the setting that would."""
    is_envelope: bool = False
    """Whether the whole reply was taken for the answer, though a part of it looks like one."""


@dataclass(slots=True)
class _Found:
    """The values found in a reply so far, by the setting whose path found them."""

    texts: list[str] = field(default_factory=list)
    is_found: bool = False
    lists: dict[str, list[Any]] = field(default_factory=dict)
    reasoning: list[str] = field(default_factory=list)
    diagnostics: dict[str, Any] = field(default_factory=dict)
    counts: dict[str, Any] = field(default_factory=dict)
    session: Any = None
    matched: set[str] = field(default_factory=set)
    places: dict[str, None] = field(default_factory=dict)
    """The paths of values in the reply."""
    first: float | None = None
    """Seconds until the first text was there."""


class Service:
    """A service behind an address."""

    def __init__(self, config: TargetConfig, environment: Mapping[str, str]) -> None:
        assert config.http is not None
        self._config = config
        self._http = config.http
        self._environment = environment
        address = resolve_reference(config.http.url, environment, "http.url", config.name) or ""
        self._url = address
        shape = _address_url(_EXPRESSION.sub("x", address), config.name)
        self._base = shape.with_user(None)
        self._login = aiohttp.encode_basic_auth(shape.user, shape.password or "") if shape.user else None
        self._secrets = tuple(url_secrets(address))
        self._where = self._base.host_port_subcomponent or ""
        self._pool: aiohttp.ClientSession | None = None
        self.exchange: Exchange | None = None
        """Records the next question and its reply, for `targets check`."""
        _check_settings(config.http, config)

    async def ask(self, request: Request) -> Reply:
        """The answer to one request, or TargetError; one attempt, within the target's timeout."""
        values = variables_in(self._config, self._environment)
        secrets = (*self._secrets, *values.values(), *filter(None, [self._login]))
        has_login = bool(self._config.headers) or self._login is not None
        failures = Failures(self._where, self._environment, secrets, SERVICE if has_login else _NO_LOGIN)
        try:
            sent = self._sent(request, values)
        except (TemplateError, ValueError) as problem:
            raise TargetError(
                "agentRequestFailed",
                f"the request of {self._config.name} cannot be made: {problem}",
                unbilled=True,
            ) from None
        if self.exchange is not None:
            self.exchange.sent = _sent_text(sent, failures)
        self._pool = self._pool or new_pool(self._config, self._base, self._environment)
        found, began = _Found(), time.perf_counter()
        body = await self._exchange(sent, found, failures, began)
        if self._http.poll is not None:
            body = await self._done_job(body, request, sent.headers, failures)
        return self._reply(body, found, failures)

    async def _exchange(self, sent: Sent, found: _Found, failures: Failures, began: float) -> bytes:
        """The body of a success, of a stream taken in as it comes."""
        assert self._pool is not None
        reader = StreamReader(self._http.stream) if self._http.stream else None

        def seen(piece: bytes) -> None:
            if self.exchange is not None:
                self.exchange.received = failures.hidden(self.exchange.received + piece.decode("utf-8", "replace"))
            for event in reader.feed(piece) if reader is not None else ():
                self._take_event(event, found, failures, began)

        try:
            async with self._pool.request(
                sent.method,
                sent.url,
                data=sent.body if sent.multipart is None else _multipart(sent.multipart),
                headers=sent.headers,
                allow_redirects=False,
            ) as response:
                limit = MAX_BODY if response.ok else MAX_ERROR_BODY
                body = await read_body(response, limit, failures, seen if reader is not None else None)
        except TimeoutError:
            raise failures.timed_out(self._config.timeout) from None
        except (aiohttp.ClientError, OSError) as error:
            raise connection_error(failures, error) from None
        if self.exchange is not None:
            self.exchange.received = _received_text(response, body or b"", failures)
        self._demand_success(response, body, failures)
        for event in reader.end() if reader is not None else ():
            self._take_event(event, found, failures, began)
        return body or b""

    async def _done_job(self, body: bytes, request: Request, headers: Mapping[str, str], failures: Failures) -> bytes:
        """The reply of a job once it is done; limited only by the target's timeout."""
        http = self._http
        assert http.poll is not None and http.done is not None
        first = self._document(body.decode("utf-8", "replace"), failures)
        job = next(iter(find_by_path(http.job, first)), None) if http.job else None
        if http.job and job is None:
            found = _Found(places=dict.fromkeys(places_in(first)))
            raise TargetError("agentResponseUnparseable", self._unmatched("job", found, failures))
        values = {**_template_values(request, self._config), "job": job}
        # The host is written in the setting, so that no reply can send the key elsewhere.
        url = URL(_quoted(http.poll, values), encoded=True)
        kept = {name: value for name, value in headers.items() if name.lower() != "content-type"}
        document = first
        while not self._is_done(document, failures):
            await asyncio.sleep(http.every or _EVERY)
            body = await self._exchange(Sent("GET", url, kept, None), _Found(), failures, time.perf_counter())
            document = self._document(body.decode("utf-8", "replace"), failures)
        return body

    def _is_done(self, document: Any, failures: Failures) -> bool:
        """Whether a reply says that the job is done; TargetError where it says that it failed."""
        assert self._http.done is not None
        said = next(iter(find_by_path(self._http.done, document)), None)
        if isinstance(said, str) and said.lower() in _FAILED:
            why = (
                next((one for one in find_by_path(self._http.error, document) if one), said)
                if self._http.error
                else said
            )
            raise _said_error(failures, why)
        return said is True or (isinstance(said, str) and said.lower() in _DONE)

    async def close(self) -> None:
        """Give the connections back."""
        if self._pool is not None:
            await self._pool.close()
            self._pool = None

    def check(self) -> str | None:
        """The address that must accept connections, None behind a proxy; ConfigurationError where a key is missing.

        Nothing is sent.
        """
        variables_in(self._config, self._environment)
        return str(self._base) if proxy_of(self._base, self._environment) is None else None

    # -- the question

    def _sent(self, request: Request, variables: Mapping[str, str]) -> Sent:
        http, values = self._http, _template_values(request, self._config)
        headers = dict(self._headers(values, variables)) | dict(request.recorder.headers if request.recorder else {})
        body, multipart, kind = None, None, ""
        if http.body is not None:
            body, kind = self._body(values), "application/json"
        elif http.form is not None:
            body = urlencode(list(_fields(http.form, values)), errors="replace").encode()
            kind = "application/x-www-form-urlencoded"
        elif http.multipart is not None:
            multipart = list(_parts(http.multipart, values, request.attachments))
        names = {name.lower() for name in headers}
        if kind and "content-type" not in names:
            headers["Content-Type"] = kind
        if http.stream == "sse" and "accept" not in names:
            headers["Accept"] = "text/event-stream"
        if self._login and "authorization" not in names:
            headers["Authorization"] = self._login
        method = http.method or ("GET" if body is None and multipart is None else "POST")
        return Sent(method, self._address(values), headers, body, multipart)

    def _address(self, values: Mapping[str, Any]) -> URL:
        """The address with quoted values, so that each stays one part of a path or one value of a query."""
        if "{{" not in self._url:
            return self._base
        return URL(_quoted(self._url, values), encoded=True).with_user(None)

    def _headers(self, values: Mapping[str, Any], variables: Mapping[str, str]) -> Iterator[tuple[str, str]]:
        known = {**values, _REFERENCES: dict(variables)}
        for name, text in self._config.headers.items():
            if any(mark in text for mark in _MARKS):
                # The variables are filled in as values: a value that looks like a reference or a template is neither.
                text = replace_references(text, lambda variable: f"{{{{ {_REFERENCES}.{variable} }}}}")
                filled = _filled(text, known)
                if filled is None:
                    continue
            else:
                filled = replace_references(text, variables.__getitem__)
            filled = _text(filled) or ""
            if not filled.isprintable():
                raise ValueError(f"the header {name} would hold a line break or another character that no header can")
            yield name, filled

    def _body(self, values: Mapping[str, Any]) -> bytes:
        body = self._http.body
        if not isinstance(body, str):
            return json.dumps(_filled(body, values)).encode()
        text = _rendered(body, values)
        is_json = body.lstrip().startswith(("{", "["))
        if is_json and not any(name.lower() == "content-type" for name in self._config.headers):
            try:
                json.loads(text)
            except ValueError as problem:
                raise ValueError(
                    f"http.body makes no JSON of it ({problem}); write {{{{ prompt | tojson }}}} without quotes around "
                    "it, or body as a table"
                ) from None
        return text.encode("utf-8", "replace")

    # -- the reply

    def _demand_success(self, response: aiohttp.ClientResponse, body: bytes | None, failures: Failures) -> None:
        if body is None:
            raise failures.too_long()
        if 200 <= response.status < 300:
            return
        text = body.decode("utf-8", "replace")
        retry_after, location = (response.headers.get(name) for name in ("Retry-After", "Location"))
        with suppress(ValueError, RecursionError, PathError):
            said = find_by_path(self._http.error, json.loads(text)) if self._http.error else ()
            text = json.dumps({"error": _text(said[0])}) if said and said[0] else text
        raise failures.refused(response.status, retry_after, text, location)

    def _take_event(self, event: tuple[str, str], found: _Found, failures: Failures, began: float) -> None:
        """Take in what one event of a stream says."""
        name, data = event
        if data.strip() == "[DONE]":
            return
        try:
            document = json.loads(data)
        except (ValueError, RecursionError):
            if self._http.answer is not None or self._http.stream == "jsonl":
                raise failures.unreadable(data) from None
            document = data
        if name == "error":
            raise _said_error(failures, error_in(document) or document)
        self._take(document, data, found, failures)
        if found.first is None and any(found.texts):
            found.first = time.perf_counter() - began

    def _take(self, document: Any, written: str, found: _Found, failures: Failures) -> None:
        """Read a document, which is the whole reply or one event of it; `written` is its text."""
        http = self._http
        try:
            if http.error and (said := [one for one in find_by_path(http.error, document) if one]):
                raise _said_error(failures, said[0])
            if http.answer is None:
                found.texts.append(written)
                found.matched.add("answer")
            elif texts := find_by_path(http.answer, document):
                found.texts += [_text(each) or "" for each in texts]
                found.matched.add("answer")
            for name in _LISTS:
                if rows := _rows(getattr(http, name), document):
                    found.lists.setdefault(name, []).extend(rows)
                    found.matched.add(name)
            if http.reasoning and (texts := find_by_path(http.reasoning, document)):
                found.reasoning += [_text(each) or "" for each in texts]
                found.matched.add("reasoning")
            if diagnostics := _diagnostics(http.diagnostics, document):
                found.diagnostics |= diagnostics
                found.matched.add("diagnostics")
            if counts := _counts(http.usage, document):
                found.counts |= counts
                found.matched.add("usage")
            if http.session and (sessions := find_by_path(http.session, document)) and sessions[0] is not None:
                found.session = parse_session(sessions[0])
                found.matched.add("session")
        except PathError as problem:
            raise TargetError("agentResponseUnparseable", f"{self._config.name}: {problem}") from None
        except ValueError as problem:
            raise TargetError("agentResponseUnparseable", f"the reply of {failures.where}: {problem}") from None
        if len(found.matched) < self._wanted:
            found.places |= dict.fromkeys(places_in(document))

    @property
    def _wanted(self) -> int:
        """How many paths are to find something."""
        return sum(bool(getattr(self._http, name)) for name in _PATHS if name not in _NOT_TOLD)

    def _reply(self, body: bytes, found: _Found, failures: Failures) -> Reply:
        if not (found.matched or found.places or found.texts):  # not streamed, or not a stream
            text = body.decode("utf-8", "replace")
            self._take(self._document(text, failures), text, found, failures)
        unmatched = {name: self._unmatched(name, found, failures) for name in _PATHS if self._is_missing(name, found)}
        if self.exchange is not None:
            self.exchange.unmatched = list(unmatched.values())
            self.exchange.is_envelope = (
                self._http.answer is None and answer_path(body.decode("utf-8", "replace")) is not None
            )
            self.exchange.unmapped = list(_unmapped(self._http, body.decode("utf-8", "replace")))
        if "answer" in unmatched and not (found.lists.get("tool_calls") or found.lists.get("steps")):
            raise TargetError("agentResponseUnparseable", unmatched["answer"])
        usage, cost, note = _usage(found.counts)
        told: dict[str, Any] = {"session": found.session, "first_token_seconds": found.first}
        told |= {name: value for name, value in (("usage", usage), ("cost", cost)) if value is not None}
        told |= {"text": "".join(found.texts)} if found.texts else {}
        for name, rows in found.lists.items():
            try:
                told[name] = read_part(name, [row for row in rows if row is not None])
            except (ValueError, TypeError) as problem:
                if not any(found.texts):
                    raise TargetError(
                        "agentResponseUnparseable", f"the reply of {failures.where}, at http.{name}: {problem}"
                    ) from None
                # The answer counts, with a note of what cannot be read.
                found.diagnostics[f"{name} not used"] = str(problem)
        if any(found.reasoning):
            told["reasoning"] = read_part("reasoning", "".join(found.reasoning))
        notes = {**found.diagnostics, **({"usage": note} if note else {})}
        return reply_of_parts({**told, "diagnostics": notes or None})

    def _document(self, text: str, failures: Failures) -> Any:
        """The reply as JSON if a path is applied to it, else as text."""
        if not any(getattr(self._http, name) for name in _PATHS):
            return text
        try:
            return json.loads(text)
        except (ValueError, RecursionError):
            raise failures.unreadable(text) from None

    def _is_missing(self, name: str, found: _Found) -> bool:
        return name not in _NOT_TOLD and bool(getattr(self._http, name)) and name not in found.matched

    def _unmatched(self, name: str, found: _Found, failures: Failures) -> str:
        path = getattr(self._http, name)
        shown = path if isinstance(path, str) else path["path"] if name in _LISTS else ", ".join(path.values())
        places = list(found.places)
        there = ", ".join(places[:_MOST_PLACES]) + (" …" if len(places) > _MOST_PLACES else "")
        has = f"the reply has {failures.readable(there)}" if there else "the reply has no values"
        return f"http.{name}: the path {shown} matched nothing in the reply of {failures.where}; {has}"


def _address_url(address: str, name: str) -> URL:
    try:
        url = URL(address)
    except ValueError:
        url = URL()
    if url.scheme not in ("http", "https") or not url.host:
        raise ConfigurationError(f"The http.url of the target {name} must look like https://host/path.")
    return url


def _check_settings(http: HttpService, config: TargetConfig) -> None:
    """ConfigurationError where a template or a path cannot be read."""
    written = {f"http.{name}": getattr(http, name) for name in ("url", "body", "form", "multipart", "poll")}
    for setting, value in {**written, "headers": config.headers}.items():
        for text in _texts(value):
            try:
                template_variables(text)
            except TemplateError as problem:
                raise ConfigurationError(f"targets.{config.name}.{setting}: {problem}") from None
    if (
        http.poll is not None
        and http.poll.partition("://")[2].partition("/")[0] != http.url.partition("://")[2].partition("/")[0]
    ):
        raise ConfigurationError(f"targets.{config.name}.http.poll: the host must be that of http.url")
    for name in _PATHS:
        path = getattr(http, name)
        if isinstance(path, Mapping):
            path = [path["path"]] if name in _LISTS else list(path.values())
        for one in [path] if isinstance(path, str) else path or ():
            try:
                find_by_path(one, None)
            except PathError as problem:
                raise ConfigurationError(f"targets.{config.name}.http.{name}: {problem}") from None
    if isinstance(http.usage, Mapping) and (unknown := http.usage.keys() - _COUNTS.keys()):
        known = ", ".join(_COUNTS)
        raise ConfigurationError(f"targets.{config.name}.http.usage counts no {min(unknown)}; known are {known}")


_USUAL: Mapping[str, tuple[str, ...]] = {
    "tool_calls": ("tool_calls", "toolCalls", "calls", "tools_used", "actions"),
    "steps": ("steps", "trace", "intermediate_steps"),
    "chunks": ("chunks", "contexts", "documents", "retrieved", "retrieved_documents", "source_documents", "sources"),
    "reasoning": ("reasoning", "reasoning_content", "thinking", "thoughts"),
    "citations": ("citations", "references"),
    "usage": ("usage", "usage_metadata", "token_usage"),
}
"""How services usually name the parts of an answer."""


def _unmapped(http: HttpService, body: str) -> Iterator[str]:
    """Fields of a reply that no setting names, each with the setting that would."""
    try:
        document = json.loads(body)
    except (ValueError, RecursionError):
        return
    if http.answer is None and (path := answer_path(body)):
        yield f'the reply has {path}: set answer = "{path}"'
    named = json.dumps(http.data)
    for setting, names in _USUAL.items():
        places = (place for place in _objects_in(document) if place.rpartition(".")[2] in names)
        if getattr(http, setting) is None and (place := next(places, None)) is not None and place not in named:
            yield f'the reply has {place}: set {setting} = "{place}"'


def _objects_in(document: Any) -> Iterator[str]:
    """The paths of nested objects that are not empty."""
    waiting: list[tuple[str, Any]] = [("$", document)]
    for _ in range(4 * _MOST_PLACES):
        if not waiting:
            return
        path, value = waiting.pop(0)
        if value and path != "$":
            yield path
        if isinstance(value, dict):
            waiting += [(f"{path}.{name}", part) for name, part in value.items() if _is_plain(name)]


_NOT_TOLD = ("error", "job", "done")
"""The paths that are no part of an answer."""


def _rows(setting: str | Mapping[str, str] | None, document: Any) -> list[Any]:
    """The rows that a path finds, with our names for fields that the setting maps."""
    if not setting:
        return []
    path = setting if isinstance(setting, str) else setting["path"]
    rows = [one for each in find_by_path(path, document) for one in (each if isinstance(each, list) else [each])]
    if isinstance(setting, str):
        return rows
    names = {ours: theirs for ours, theirs in setting.items() if ours != "path"}
    return [_renamed(row, names) if isinstance(row, Mapping) else row for row in rows]


def _renamed(row: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    known = dict(row)
    for ours, theirs in names.items():
        found = (
            find_by_path(theirs, row)
            if theirs.startswith("$")
            else tuple(row[name] for name in [theirs] if name in row)
        )
        if found:
            known[ours] = found[0]
    return known


def _diagnostics(setting: str | Mapping[str, str] | None, document: Any) -> dict[str, Any]:
    """Further facts in a document, by the names of the setting."""
    if not setting:
        return {}
    if isinstance(setting, Mapping):
        return {name: values[0] for name, path in setting.items() if (values := find_by_path(path, document))}
    values = find_by_path(setting, document)
    if not values:
        return {}
    return dict(values[0]) if isinstance(values[0], Mapping) else {"value": values[0]}


def _quoted(address: str, values: Mapping[str, Any]) -> str:
    """An address with quoted values, so that each stays one part of a path or one value of a query."""
    return _EXPRESSION.sub(lambda match: quote(_text(_value(match[1], values)) or "", "", errors="replace"), address)


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for part in value.values():
            yield from _texts(part)
    elif isinstance(value, list):
        for part in value:
            yield from _texts(part)


def _template_values(request: Request, config: TargetConfig) -> dict[str, Any]:
    """The values for templates: the question with its context, and an item's variables by their names."""
    variables = dict(request.variables)
    form = request.response_format
    return {
        **variables,
        "prompt": last_question(request.messages),
        "messages": [dict(message) for message in request.messages],
        "session": request.session,
        "variables": variables,
        "params": {**config.params, **request.params},
        "tools": [dict(tool) for tool in request.tools],
        "response_format": dict(form) if isinstance(form, Mapping) else form,
        "item": request.item,
        "turn": request.turn,
        "repeat": request.repeat,
        _FILES: [
            {"name": file.name, "type": file.media_type, "data": base64.b64encode(file.content).decode("ascii")}
            for file in request.attachments
        ],
    }


def _value(expression: str, values: Mapping[str, Any]) -> Any:
    if (name := expression.strip()) in values:  # most are a name and no more, which takes no rendering
        return values[name]
    return json.loads(_rendered(f"{{{{ ({expression}) | tojson }}}}", values))


def _rendered(template: str, values: Mapping[str, Any]) -> str:
    """A filled template; it only gets the values it needs, because all values count against a limit."""
    needed = template_variables(template)
    if all(name in values for name in needed):
        return render_template(template, {name: values[name] for name in needed})
    return render_template(template, values)


def _filled(value: Any, values: Mapping[str, Any]) -> Any:
    """A value of the configuration with filled templates; a single expression keeps its type."""
    if isinstance(value, str):
        if not any(mark in value for mark in _MARKS):
            return value
        alone = _ALONE.fullmatch(value)
        return _value(alone[1], values) if alone else _rendered(value, values)
    if isinstance(value, Mapping):
        return {name: _filled(part, values) for name, part in value.items()}
    return [_filled(part, values) for part in value] if isinstance(value, list) else value


def _fields(written: Mapping[str, str], values: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The fields of a form, without those whose value is null."""
    for name, template in written.items():
        if (text := _text(_filled(template, values))) is not None:
            yield name, text


def _text(value: Any) -> str | None:
    """A value as text; other values become JSON."""
    return value if value is None or isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _parts(
    written: Mapping[str, str], values: Mapping[str, Any], files: Sequence[AttachedFile]
) -> Iterator[tuple[str, str | AttachedFile]]:
    """The fields of a multipart form; a field that is only the files becomes one part for each file."""
    for name, template in written.items():
        alone = _ALONE.fullmatch(template)
        if alone and alone[1].strip() == _FILES:
            yield from ((name, file) for file in files)
        else:
            yield from _fields({name: template}, values)


def _multipart(parts: Iterable[tuple[str, str | AttachedFile]]) -> aiohttp.MultipartWriter:
    """The parts of a form, for one call."""
    writer = aiohttp.MultipartWriter("form-data")
    for name, value in parts:
        if isinstance(value, str):
            writer.append(value.encode("utf-8", "replace").decode()).set_content_disposition("form-data", name=name)
        else:
            part = writer.append(value.content, {"Content-Type": value.media_type})
            part.set_content_disposition("form-data", name=name, filename=value.name)
    return writer


def _said_error(failures: Failures, said: Any) -> TargetError:
    """The error that a reply states itself, classified like the status that it carries where it carries one."""
    if stated_status(said) is not None:
        return failures.stated(StatedError(said))
    message = said.get("message", said) if isinstance(said, Mapping) else said
    return TargetError(
        "agentRequestFailed", f"{failures.where} says it failed: {failures.readable(_text(message) or 'an error')}"
    )


def _counts(usage: str | Mapping[str, str] | None, document: Any) -> dict[str, Any]:
    """The usage in a document, by our names."""
    if usage is None:
        return {}
    if isinstance(usage, str):
        found = find_by_path(usage, document)
        stated = found[0] if found and isinstance(found[0], dict) else {}
        named = {ours: [stated[name] for name in theirs if name in stated] for ours, theirs in _COUNTS.items()}
    else:
        named = {ours: list(find_by_path(path, document)) for ours, path in usage.items()}
    return {ours: values[0] for ours, values in named.items() if values and values[0] is not None}


def _usage(counts: Mapping[str, Any]) -> tuple[Usage | None, float | None, str]:
    """The tokens and the cost that were stated, and a note where they cannot be counts."""
    cost = counts.get("cost")
    is_cost = isinstance(cost, int | float) and not isinstance(cost, bool) and 0 <= cost <= MAX_COST
    tokens = {name: count for name, count in counts.items() if name != "cost"}
    wrong = [name for name, count in tokens.items() if type(count) is not int or not 0 <= count <= MAX_TOKENS]
    notes = [*wrong, *(["cost"] if cost is not None and not is_cost else [])]
    note = f"not counted: {', '.join(notes)}" if notes else ""
    usage = None
    if not wrong and {"input_tokens", "output_tokens"} <= tokens.keys():
        usage = Usage(**tokens)
    return usage, float(cost) if is_cost and cost is not None else None, note


def places_in(document: Any, path: str = "$") -> Iterator[str]:
    """The paths of the values in a document, of each list its first, up to a readable number."""
    waiting: list[tuple[str, Any]] = [(path, document)]
    for _ in range(4 * _MOST_PLACES):
        if not waiting:
            return
        path, value = waiting.pop(0)
        if isinstance(value, dict) and value:
            waiting += [(f"{path}.{name}" if _is_plain(name) else f"{path}[{name!r}]", value[name]) for name in value]
        elif isinstance(value, list) and value:
            waiting.append((f"{path}[0]", value[0]))
        else:
            yield path


def _is_plain(name: str) -> bool:
    return re.fullmatch(r"[A-Za-z_]\w*", name) is not None


def _sent_text(sent: Sent, failures: Failures) -> str:
    if sent.multipart is not None:
        body = "\n".join(
            f"{name}: {value if isinstance(value, str) else _file_text(value)}" for name, value in sent.multipart
        )
    else:
        body = (sent.body or b"").decode("utf-8", "replace")
    return _shown(failures, f"{sent.method} {sent.url}", sent.headers, body)


def _file_text(file: AttachedFile) -> str:
    return attachment_text({"path": file.name, "media_type": file.media_type, "size": len(file.content)})


def _received_text(response: aiohttp.ClientResponse, body: bytes, failures: Failures) -> str:
    kind = response.headers.get("Content-Type")
    head = {"Content-Type": kind} if kind else {}
    return _shown(failures, f"{response.status} {response.reason or ''}", head, body.decode("utf-8", "replace"))


def _shown(failures: Failures, first: str, headers: Mapping[str, str], body: str) -> str:
    """A question or a reply with every secret hidden, a body cut where it is long."""
    lines = [first, *(f"{name}: {value}" for name, value in headers.items())]
    text = failures.hidden("\n".join([*lines, "", body]).rstrip())
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def _open(config: TargetConfig, context: TargetContext) -> Service:
    return Service(config, context.environment)


KIND = TargetKind(
    form="http:ADDRESS", open=_open, asks_model=True, check=lambda config, context: _open(config, context).check()
)
