"""The models that check `.evals/config.toml`, and their errors in sentences."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal
from urllib.parse import parse_qsl, urlsplit

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator

from tui_evals.text.names import did_you_mean

from .base import references_in

_REFERENCE = re.compile(r"env:[A-Za-z_][A-Za-z0-9_]{0,200}")
_SECRET = re.compile(r"api[_-]?key|authorization|password|secret|credential", re.IGNORECASE)
_HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,200}")
_SECRET_HEADER = re.compile(r"key|token|auth(?!ors?\b)|cookie|password|secret|credential", re.IGNORECASE)
_EXPRESSION = re.compile(r"\{\{.*?\}\}", re.DOTALL)
_SECRET_QUERY = re.compile(r"key|token|sig|auth|password|secret|credential", re.IGNORECASE)


def _check_reference(value: str) -> str:
    if not _REFERENCE.fullmatch(value):
        raise ValueError("must name an environment variable, as in env:OPENAI_API_KEY; a key itself has no place here")
    return value


NO_WEBSOCKETS = (
    "is a websocket, which tui-evals does not speak. Ask the service over HTTP, or let a program of yours speak to it: "
    "command:… or python:…"
)


def _check_url(value: str) -> str:
    if _REFERENCE.fullmatch(value):
        return value
    parts = urlsplit(value)
    if parts.scheme in ("ws", "wss"):
        raise ValueError(NO_WEBSOCKETS)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("must be an address such as http://127.0.0.1:8000/v1, or name a variable as in env:MY_URL")
    if "@" in parts.netloc or any(
        _SECRET_QUERY.search(name) for name, _ in parse_qsl(parts.query, keep_blank_values=True)
    ):
        raise ValueError(
            "must hold no key, user or password; write the address into a variable and name it: env:MY_URL"
        )
    return value


def url_fault(value: str) -> str | None:
    """Why a text can be no address in the configuration; None where it can."""
    try:
        _check_url(value)
    except ValueError as problem:
        return str(problem)
    return None


def check_params(value: dict[str, Any]) -> dict[str, Any]:
    """The params of a target, unless they hold what must not be sent or stored there."""
    if "extra_headers" in value:
        raise ValueError("must hold no extra_headers, which would go into the body; set headers = { … } in the section")
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError):
        raise ValueError("must hold text, finite numbers, true, false, lists and tables only, and no dates") from None
    if _names_secret(value):
        raise ValueError("must hold no key or password, for params are stored with every run; use api_key = env:NAME")
    return value


_ELSEWHERE: Mapping[str, str] = {
    "stream": "stream, which is a setting of the section: stream = true",
    "stream_options": "stream_options, which are sent where the section has stream = true",
    "messages": "messages, which come from the dataset and its prompts",
    "n": "n, because only one answer would be kept; use --repeats",
    "model": "model, which is a setting of the section; to compare models, sweep it: -P model=a,b",
}
"""Parameters that a model is not sent as such, and the setting that does it."""


def misplaced_parameter(params: Mapping[str, Any]) -> str | None:
    """Why these params cannot be sent to a model; None if they can."""
    found = next((name for name in _ELSEWHERE if name in params and (name, params[name]) != ("n", 1)), None)
    return None if found is None else f"must hold no {_ELSEWHERE[found]}"


def _names_secret(value: object, *, templates: bool = False) -> bool:
    """Whether a key in a value is named like a secret; with `templates`, template values do not count."""
    if isinstance(value, list):
        return any(_names_secret(part, templates=templates) for part in value)
    if not isinstance(value, dict):
        return False
    named = [part for name, part in value.items() if _SECRET.search(name)]
    written = [part for part in named if not (templates and isinstance(part, str) and "{{" in part)]
    return bool(written) or any(_names_secret(part, templates=templates) for part in value.values())


class _ConfigPart(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        strict=True,
        frozen=True,
        allow_inf_nan=False,
        hide_input_in_errors=True,
        defer_build=True,
    )


class _Run(_ConfigPart):
    targets: list[Annotated[str, Field(min_length=1)]] = []
    concurrency: int | None = Field(None, ge=1)
    repeats: int = Field(1, ge=1)
    max_cost: float | None = Field(None, ge=0)
    confirm_cost: float = Field(1.0, ge=0)
    confirm_calls: int = Field(500, ge=0)
    gates: Literal["0.2"] | None = None


class _Judge(_ConfigPart):
    target: str | None = Field(None, min_length=1)
    embedding: str | None = Field(None, min_length=1)


class _Store(_ConfigPart):
    durable: bool = False


class _Price(_ConfigPart):
    input_per_million: float = Field(0.0, ge=0)
    output_per_million: float = Field(0.0, ge=0)
    cached_per_million: float | None = Field(None, ge=0)
    per_call: float | None = Field(None, ge=0)


def is_secret_header(name: str) -> bool:
    """Whether a header of this name holds something secret, which a variable has to hold."""
    return _SECRET_HEADER.search(name) is not None


def _check_headers(value: dict[str, str]) -> dict[str, str]:
    for name, text in value.items():
        if not _HEADER.fullmatch(name):
            raise ValueError(f"{name[:40]!r} is no name of a header")
        if name.lower() in ("host", "content-length", "transfer-encoding", "connection"):
            raise ValueError(f"{name} is worked out for each call; leave it out")
        if "\n" in text or "\r" in text:
            raise ValueError(f"the value of {name} must be one line")
        if is_secret_header(name) and not references_in(text) and "{{" not in text:
            raise ValueError(
                f'{name} must name a variable for the secret, as in {name} = "Bearer env:MY_KEY"; a key itself has '
                "no place here"
            )
    return value


def _check_service_url(value: str) -> str:
    if "{%" in value or "{#" in value:
        raise ValueError("takes {{ }} only")
    scheme, _, rest = value.partition("://")
    if "{{" in scheme + rest.partition("/")[0].partition("?")[0]:
        raise ValueError("must name its host; {{ }} can only be used after it")
    _check_url(_EXPRESSION.sub("x", value))
    return value


def _check_body(value: Any) -> Any:
    if not isinstance(value, str | dict | list):
        raise ValueError("must be text or a table")
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError):
        raise ValueError("must hold text, finite numbers, true, false, lists and tables only, and no dates") from None
    if _names_secret(value, templates=True):
        raise ValueError(
            "must hold no key or password, because it is stored with every run; send it in headers: env:NAME"
        )
    return value


class _Http(_ConfigPart):
    url: Annotated[str, AfterValidator(_check_service_url)]
    method: Literal["GET", "POST", "PUT", "PATCH", "DELETE", ""] = ""
    headers: Annotated[dict[str, str], AfterValidator(_check_headers)] = {}
    body: Annotated[Any, AfterValidator(_check_body)] = None
    form: dict[str, str] | None = None
    multipart: dict[str, str] | None = None
    answer: str | None = None
    tool_calls: str | dict[str, str] | None = None
    steps: str | dict[str, str] | None = None
    chunks: str | dict[str, str] | None = None
    reasoning: str | None = None
    citations: str | dict[str, str] | None = None
    diagnostics: str | dict[str, str] | None = None
    usage: str | dict[str, str] | None = None
    error: str | None = None
    session: str | None = None
    job: str | None = None
    poll: Annotated[str, AfterValidator(_check_service_url)] | None = None
    done: str | None = None
    every: float | None = Field(None, gt=0)
    stream: Literal["sse", "jsonl"] | None = None

    @model_validator(mode="after")
    def _sends_one_thing(self) -> _Http:
        sent = [name for name in ("body", "form", "multipart") if getattr(self, name) is not None]
        if len(sent) > 1:
            raise ValueError(f"must have one of {' and '.join(sent)}")
        if self.poll is None and (self.job or self.done or self.every):
            raise ValueError("must have poll, the address that is asked whether the job is done")
        if self.poll is not None and (self.done is None or self.stream is not None):
            raise ValueError("with poll needs done, the path of what says so, and no stream")
        for name in ("tool_calls", "steps", "chunks", "citations"):
            if isinstance(mapped := getattr(self, name), dict) and "path" not in mapped:
                raise ValueError(f'must name the path in {name}: {{ path = "$.…" }}')
        return self


def _check_server(value: str) -> str:
    if re.fullmatch(r"stdio:\s*\S.*", value):
        return value
    if not value.startswith(("http://", "https://")):
        raise ValueError("must be stdio: and a command, as in stdio: python server.py, or the URL of an MCP server")
    return _check_url(value)


def _check_header(value: str) -> str:
    if _REFERENCE.fullmatch(value):
        return value
    raise ValueError("must name an environment variable, as in env:MCP_AUTHORIZATION, which holds the whole value")


_Server = Annotated[str, AfterValidator(_check_server)]


class ToolsModel(_ConfigPart):
    """The tools of a target."""

    functions: str | None = Field(None, min_length=1)
    mcp: _Server | list[_Server] | None = None
    headers: dict[str, Annotated[str, AfterValidator(_check_header)]] = {}
    scripted: str | None = Field(None, min_length=1)
    approved: list[Annotated[str, Field(pattern=r"\S")]] | None = None
    max_steps: int | None = Field(None, ge=1, le=1000)


_OWN_PARAMS = ("python", "command", "replay", "demo", "http", "a2a")
"""Kinds of targets whose params are sent to no model of ours."""


class TargetModel(_ConfigPart):
    """A section of a target."""

    model: str | None = Field(None, min_length=1)
    base_url: Annotated[str, AfterValidator(_check_url)] | None = None
    api_key: Annotated[str, AfterValidator(_check_reference)] | None = None
    params: Annotated[dict[str, Any], AfterValidator(check_params)] = {}
    concurrency: int | None = Field(None, ge=1)
    requests_per_minute: float | None = Field(None, gt=0)
    tokens_per_minute: float | None = Field(None, gt=0)
    timeout: float = Field(60.0, gt=0)
    retries: int = Field(3, ge=0, le=100)
    max_wait: float = Field(300.0, ge=0)
    max_outage: float = Field(300.0, ge=0)
    price: _Price | None = None
    via: Literal["auto", "litellm"] = "auto"
    tools: ToolsModel | None = None
    api: Literal["chat", "responses"] = "chat"
    headers: Annotated[dict[str, str], AfterValidator(_check_headers)] = {}
    stream: bool = False
    door: str | None = Field(None, min_length=1)
    door_host: str = Field("127.0.0.1", pattern=r"[A-Za-z0-9.-]{1,253}")
    answer: Literal["last", "all"] = "last"
    think: Literal["auto", "on", "off"] = "auto"
    http: _Http | None = None
    kind: Literal["chat", "embedding"] = "chat"

    @model_validator(mode="after")
    def _sends_parameters(self) -> TargetModel:
        own = self.http is not None or (self.model or "").partition(":")[0] in _OWN_PARAMS
        if not own and (why := misplaced_parameter(self.params)):
            raise ValueError(f"params {why}")
        return self


class ConfigModel(_ConfigPart):
    """The whole file."""

    run: _Run = _Run()
    judge: _Judge = _Judge()
    store: _Store = _Store()
    targets: dict[str, TargetModel] = {}
    ui: dict[str, Any] = {}


_PARTS: Mapping[str, type[_ConfigPart]] = {
    "": ConfigModel,
    "run": _Run,
    "judge": _Judge,
    "store": _Store,
    "targets.*": TargetModel,
    "targets.*.price": _Price,
    "targets.*.tools": ToolsModel,
    "targets.*.http": _Http,
}


def faults_in(data: Mapping[str, Any]) -> dict[tuple[object, ...], str]:
    """The errors in the data of a file: a sentence for each setting, by its path."""
    found = dict(_missing_models(data))
    try:
        ConfigModel.model_validate(data)
    except ValidationError as problem:
        faults = problem.errors(include_url=False, include_input=False)
        found |= {tuple(fault["loc"]): _fault_sentence(fault) for fault in faults}
    return found


def _missing_models(data: Mapping[str, Any]) -> Iterator[tuple[tuple[object, ...], str]]:
    """Errors of targets without a model or a service, or with an incomplete price."""
    targets = data.get("targets")
    for name, target in targets.items() if isinstance(targets, dict) else ():
        if not isinstance(target, dict):
            continue
        if "model" not in target and "http" not in target:
            yield ("targets", name, "model"), f"targets.{name}.model is missing"
        price = target.get("price")
        if isinstance(price, dict) and not ("per_call" in price and len(price) == 1):
            for side in ("input_per_million", "output_per_million"):
                if side not in price:
                    yield ("targets", name, "price", side), f"targets.{name}.price.{side} is missing"


def _fault_sentence(fault: Any) -> str:
    """A validation error as a sentence that names the setting and repeats no value."""
    place = [str(part) for part in fault["loc"]]
    setting = ".".join(place)
    if fault["type"] == "extra_forbidden":
        parent = ["targets", "*", *place[2:-1]] if place[0] == "targets" else place[:-1]
        known = list(_PARTS[".".join(parent)].model_fields)
        return f"there is no setting {setting}{did_you_mean(place[-1], known)}; known here are {', '.join(known)}"
    if fault["type"] == "missing":
        return f"{setting} is missing"
    reason = fault["msg"].removeprefix("Value error, ").replace("Input should", "should")
    return f"{setting} {reason}"
