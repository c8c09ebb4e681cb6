"""Shared by all targets: their configuration, the Request, and the Reply or TargetError."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import asdict, field, fields
from pathlib import Path
from typing import Any, Literal, Protocol, runtime_checkable

from tui_evals.light_records import dataclass
from tui_evals.text.model_output import Choice
from tui_evals.transcript import Think, Transcript, Which

ErrorCode = Literal[
    "agentRequestFailed",
    "agentAuthenticationError",
    "agentRateLimited",
    "agentTimeout",
    "agentResponseUnparseable",
    "toolCallNotAllowed",
]
Fault = Literal["question", "unknown", "target"]
"""The cause of a failure: only this question, the target for any question, or unknown.

A short probe decides unknown ones (`runs/availability.py`).
"""


@dataclass(frozen=True, slots=True)
class AttachedFile:
    """A file sent with a question."""

    name: str
    media_type: str
    content: bytes


@dataclass(frozen=True, slots=True)
class RecorderAddress:
    """The address at which an agent calls its models so that they are recorded: variables, and question headers."""

    environment: Mapping[str, str | None]
    """None removes a variable."""
    headers: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One turn for a target: the chat so far with the question last, and the form of the answer."""

    messages: tuple[Mapping[str, Any], ...]
    tools: tuple[Mapping[str, Any], ...] = ()
    response_format: Literal["text", "json"] | Mapping[str, Any] | None = None
    params: Mapping[str, Any] = field(default_factory=dict)
    item: str = ""
    """The name of the item: its testId, else #position from 1."""
    position: int = 0
    """The item's position in the dataset, from 0."""
    turn: int = 0
    repeat: int = 0
    variables: Mapping[str, Any] = field(default_factory=dict)
    session: Any = None
    """The session from the target's last reply in this conversation; None before the first one."""
    attachments: tuple[AttachedFile, ...] = ()
    """The files since the last reply; in the form of the chat protocol they are in the messages."""
    recorder: RecorderAddress | None = None


MAX_TOKENS = 100_000_000
"""A larger count is taken for an error; no model reads or writes so much at once."""
MAX_COST = 100_000.0
"""US dollars; a higher reported cost of a call counts as an error."""


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens a call took, as the provider counted them."""

    input_tokens: int
    output_tokens: int
    cached_tokens: int = 0
    """Input tokens that the provider read from its cache, at a lower price."""
    reasoning_tokens: int = 0
    """Output tokens that the model spent on reasoning."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """The answer of a target; `cost` is what the target reports, or None."""

    text: str
    tool_calls: tuple[Mapping[str, Any], ...] = ()
    """Each {"id", "name", "arguments"}, the arguments as the text that was sent."""
    usage: Usage | None = None
    cost: float | None = None
    model: str | None = None
    finish_reason: str | None = None
    diagnostics: Mapping[str, Any] | None = None
    seconds: float | None = field(default=None, compare=False)
    """How long the network took, where the target has measured that; else asking it took no longer than the network."""
    started: float | None = field(default=None, compare=False)
    """When the question went out, in seconds since 1970, if the target knows that better than its caller."""
    first_token_seconds: float | None = field(default=None, compare=False)
    """How long it took until the first piece of the answer came, where the answer is streamed."""
    session: Any = None
    """The state that the target needs with the next question of the same conversation; JSON data."""
    changes: tuple[str, ...] = ()
    """How the request was changed before it was sent, in words."""
    choices: tuple[Choice, ...] = ()
    """Alternatives to the digits of the reply, if the model returned their likelihoods."""
    scripted: bool = False
    """Whether the answer was written beforehand instead of by a model."""
    is_noted: bool = False
    """Whether its calls are recorded separately, with their costs."""
    transcript: Transcript | None = None
    """The whole transcript, if it has more than the text and the calls."""


class TargetError(Exception):
    """No answer: what happened and what to do, and whether asking again may help."""

    def __init__(
        self,
        code: ErrorCode,
        message: str,
        *,
        retryable: bool = False,
        retry_after: float | None = None,
        status: int | None = None,
        traceback: str | None = None,
        nobody_there: bool = False,
        unbilled: bool = False,
        fault: Fault | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.retryable = retryable
        self.retry_after = retry_after
        self.status = status
        self.nobody_there = nobody_there
        """Whether no server listens at the address."""
        self.unbilled = unbilled or nobody_there
        """Whether it certainly cost nothing, because the question was not sent or was refused."""
        self.traceback = traceback
        """The traceback of an exception in the user's code."""
        may_be_target = retryable or nobody_there or code == "agentAuthenticationError"
        self.fault: Fault = fault or ("unknown" if may_be_target else "question")
        self.attempts = 0
        """How often the question was asked until it was given up."""
        self.started: float | None = None
        self.seconds: float | None = None
        """When the question went out, and how long that took, if the target knows better than its caller."""


class Target(Protocol):
    """Answers requests, many at once."""

    async def ask(self, request: Request) -> Reply:
        """The answer to one request, or TargetError. Attempts, limits and timeouts are the caller's."""
        ...

    async def close(self) -> None:
        """Give back connections and processes."""
        ...


@runtime_checkable
class StoredAnswers(Protocol):
    """A target whose answers exist already, without cost or waiting."""

    def stored_answer(self, request: Request) -> Reply:
        """The answer to one request, or TargetError."""
        ...


def attempt_clock(target: Target, timeout: float) -> AbstractAsyncContextManager[object]:
    """Ends an attempt at a target after its timeout, unless the target has `keeps_time` and so does that itself.

    Such a target knows when its call goes out, before which it may have to start a process that takes seconds.
    """
    return _UNTIMED if getattr(target, "keeps_time", False) else asyncio.timeout(timeout)


_UNTIMED = nullcontext()


@dataclass(frozen=True, slots=True)
class Price:
    """US dollars per million tokens, and for each call besides."""

    input_per_million: float
    output_per_million: float
    cached_per_million: float | None = None
    """The price of input that the provider had cached; None if it costs like other input."""
    per_call: float | None = None

    def cost(self, usage: Usage) -> float:
        """The cost of a call with these tokens."""
        cached = min(usage.cached_tokens, usage.input_tokens)
        of_cached = self.input_per_million if self.cached_per_million is None else self.cached_per_million
        read = (usage.input_tokens - cached) * self.input_per_million + cached * of_cached
        return (self.per_call or 0.0) + (read + usage.output_tokens * self.output_per_million) / 1e6

    @property
    def most_per_input(self) -> float:
        """The highest price of a million input tokens."""
        return max(self.input_per_million, self.cached_per_million or 0.0)

    @property
    def is_per_call(self) -> bool:
        """Whether each call has one fixed price, independent of its tokens."""
        return self.per_call is not None and not (self.input_per_million or self.output_per_million)


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolSettings:
    """The tools that the engine calls for an agent, and which of them may be called."""

    functions: str | None = None
    """A Python file of the project, whose public functions are tools."""
    mcp: tuple[str, ...] = ()
    """MCP servers: `stdio:` and a command, or a URL."""
    headers: Mapping[str, str] = field(default_factory=dict)
    """Headers for the URLs; secrets are env:NAME."""
    scripted: str | None = None
    """A JSON file of the project with `tools` and `tool_results`, as a dataset has them."""
    approved: tuple[str, ...] | None = None
    """The tools that may be called, besides those that the dataset allows; None if not configured."""
    max_steps: int | None = None

    @property
    def data(self) -> dict[str, Any]:
        """The settings that are given, as plain data."""
        approved = None if self.approved is None else list(self.approved)
        plain = {**asdict(self), "mcp": list(self.mcp), "approved": approved}
        return {name: value for name, value in plain.items() if value or (name == "approved" and approved is not None)}


class ConfigurationError(Exception):
    """A target cannot be created from its configuration; the message names the setting and the fix."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpService:
    """How to call a service over HTTP, and where its reply holds the answer.

    Texts are templates that can use the question, its variables and the session of the conversation.
    """

    url: str
    """Its URL, or env:NAME; templates can follow the host."""
    method: str = ""
    """Empty means POST with a body, else GET."""
    body: Any = None
    """A template of the text, or a table whose texts are templates, which is sent as JSON."""
    form: Mapping[str, str] | None = None
    multipart: Mapping[str, str] | None = None
    answer: str | None = None
    """The JSON path of the answer; the whole reply is the answer without it. So are the paths that follow."""
    tool_calls: str | Mapping[str, str] | None = None
    """The path of its calls; or a table with `path`, and the names that the service has for ours."""
    steps: str | Mapping[str, str] | None = None
    chunks: str | Mapping[str, str] | None = None
    """The retrieved texts; a table as for its calls."""
    reasoning: str | None = None
    citations: str | Mapping[str, str] | None = None
    diagnostics: str | Mapping[str, str] | None = None
    """The path of an object with further facts, or a path for each name."""
    usage: str | Mapping[str, str] | None = None
    """The path of an object with the counts, or a path for each count."""
    error: str | None = None
    session: str | None = None
    job: str | None = None
    """For a service that starts a job: the path of its id in the first reply, for templates in `poll`."""
    poll: str | None = None
    """The address that is asked until the job is done."""
    done: str | None = None
    """The path of the value that says so: true, or a word such as `completed`."""
    every: float | None = None
    """Seconds between two questions whether the job is done."""
    stream: Literal["sse", "jsonl"] | None = None

    @property
    def data(self) -> dict[str, Any]:
        """The settings that are given, as plain data."""
        given = ((each.name, getattr(self, each.name)) for each in fields(self))
        return {name: dict(value) if isinstance(value, Mapping) else value for name, value in given if value}


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetConfig:
    """A named target as configured; secrets stay references such as env:NAME and are looked up when asking."""

    name: str
    model: str
    """openai/…, another litellm string, replay:PATH, python:module:function, command:ARGV, a2a:URL, demo, http:URL."""
    base_url: str | None = None
    api_key: str | None = None
    params: Mapping[str, Any] = field(default_factory=dict)
    concurrency: int = 10
    requests_per_minute: float | None = None
    tokens_per_minute: float | None = None
    timeout: float = 60.0
    retries: int = 3
    """Further attempts at a question that a passing failure met; three times as many where that is a rate limit."""
    max_wait: float = 300.0
    max_outage: float = 300.0
    """Seconds to wait at most before the next attempt; a provider that asks for more ends the run."""
    price: Price | None = None
    via: Literal["auto", "litellm"] = "auto"
    tools: ToolSettings | None = None
    api: Literal["chat", "responses"] = "chat"
    """Which protocol of OpenAI's our own client speaks."""
    headers: Mapping[str, str] = field(default_factory=dict)
    """Sent with every HTTP request; env:NAME in a value is replaced by the variable."""
    stream: bool = False
    """Whether to stream the answer, so that the time to its first piece is known."""
    http: HttpService | None = None
    """How it is asked where it is a service of its own kind."""
    door: str | None = None
    """The target that answers an agent's questions to its models, so that a run records them."""
    door_host: str = "127.0.0.1"
    """The host name under which the agent reaches this machine; a name other than the default admits containers."""
    answer: Which = "last"
    """Which of several messages is the answer: the last one with a text, or all together."""
    think: Think = "auto"
    """Whether to remove the reasoning at the beginning of a text."""
    kind: Literal["chat", "embedding"] = "chat"
    """Whether it answers questions, or gives vectors to evaluators that compare meanings."""
    where: str = field(default="", compare=False)
    """The file, and line, of the project that configures it; empty if it was typed or written by hand."""

    @property
    def address(self) -> str | None:
        """The address that is configured, or env:NAME for it; `*` is in it what each question fills in."""
        if self.http is not None:
            return _EXPRESSION.sub("*", self.http.url)
        return self.base_url or (self.model.removeprefix(AGENTS) if self.is_agent else None)

    @property
    def is_agent(self) -> bool:
        """Whether it is an agent that is asked by the Agent2Agent protocol."""
        return self.model.startswith(AGENTS)

    @property
    def header_variables(self) -> tuple[str, ...]:
        """The variables whose values go along as headers."""
        return tuple(dict.fromkeys(name for value in self.headers.values() for name in references_in(value)))


AGENTS = "a2a:"
"""How the models begin that are agents of the Agent2Agent protocol."""
_EXPRESSION = re.compile(r"\{\{.*?\}\}", re.DOTALL)
_REFERENCE = re.compile(r"(?<![\w])env:([A-Za-z_][A-Za-z0-9_]*)")


def references_in(text: str) -> list[str]:
    """The variables that a text names as env:NAME."""
    return _REFERENCE.findall(text)


def replace_references(text: str, by: Callable[[str], str]) -> str:
    """The text with each env:NAME replaced by what `by` returns for NAME."""
    return _REFERENCE.sub(lambda match: by(match[1]), text)


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetContext:
    """The context in which a target is opened, besides its configuration."""

    environment: Mapping[str, str]
    root: Path
    """The folder of the project."""
    load_items: Callable[[Path], Sequence[Mapping[str, Any]]]
    """Reads the items of a dataset file, for recorded answers."""
    apart: bool = False
    """Whether another process will ask the target, so that none of the user's code may be imported into this one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetKind:
    """One kind of target, which its module declares as `KIND`.

    An installed package adds one with the entry-point group `tui_evals.targets`, under the word that its models start
    with.
    """

    form: str
    """The form of its models: `word:WHAT`, or only `word`."""
    open: Callable[[TargetConfig, TargetContext], Target]
    """Makes the target; ConfigurationError says which setting is wrong."""
    asks_model: bool = False
    """Whether a model answers over the network: its answers cost by the price table and are kept in the cache."""
    check: Callable[[TargetConfig, TargetContext], str | None] | None = None
    """Checks without a request whether the target can answer: raises ConfigurationError, or returns an address where a
    server has to listen, or None. Without it, opening the target is the check.
    """

    @property
    def name(self) -> str:
        """The word its models begin with."""
        return self.form.partition(":")[0]
