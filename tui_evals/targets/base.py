"""What every target shares: its configuration, the Request it gets, and the Reply or TargetError it gives."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

ErrorCode = Literal[
    "agentRequestFailed",
    "agentAuthenticationError",
    "agentRateLimited",
    "agentTimeout",
    "agentResponseUnparseable",
    "toolCallNotAllowed",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One turn for a target: the chat so far with the question last, and the kind of answer wanted."""

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
    """What the target's last reply in this conversation gave as its session; None before one did."""


MAX_TOKENS = 100_000_000
"""A larger count is taken for an error; no model reads or writes so much at once."""
MAX_COST = 100_000.0
"""US dollars; a call that is said to cost more is taken for an error."""


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens a call took, as the provider counted them."""

    input_tokens: int
    output_tokens: int
    cached_tokens: int = 0
    """Those of the input that the provider had cached, and bills for less."""
    reasoning_tokens: int = 0
    """Those of the output that the model thought with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """The answer of a target; `cost` is what the target says the call cost, None where it does not say."""

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
    """When the question went out, in seconds since 1970, where the target knows that better than whoever asks it."""
    first_token_seconds: float | None = field(default=None, compare=False)
    """How long it took until the first piece of the answer came, where the answer is streamed."""
    session: Any = None
    """What the target wants to be given with the next question of the same conversation; JSON data."""
    changes: tuple[str, ...] = ()
    """What of the question was not sent as it stood, in words."""
    scripted: bool = False
    """Whether the answer was written beforehand instead of by a model."""


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
        hopeless: bool = False,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.retryable = retryable
        self.retry_after = retry_after
        self.status = status
        self.nobody_there = nobody_there
        """Whether nobody listens at the address, so that no question at all can be put."""
        self.unbilled = unbilled or nobody_there
        """Whether it certainly cost nothing, because the question was not sent or was refused."""
        self.traceback = traceback
        """Where it was raised, for an exception of the user's own code."""
        self.hopeless = hopeless
        """Whether every other question would be refused for the same reason: a key is not valid, a quota is spent."""
        self.attempts = 0
        """How often the question was asked until it was given up."""
        self.started: float | None = None
        self.seconds: float | None = None
        """When the question went out, and how long that took, where the target knows better than whoever asks it."""


class Target(Protocol):
    """Answers requests, many at once."""

    async def ask(self, request: Request) -> Reply:
        """The answer to one request, or TargetError. Attempts, limits and timeouts are the caller's."""
        ...

    async def close(self) -> None:
        """Give back connections and processes."""
        ...


def attempt_clock(target: Target, timeout: float) -> asyncio.Timeout:
    """Ends an attempt at a target after its timeout, unless the target has `keeps_time` and so does that itself.

    Such a target knows when its call goes out, before which it may have to start a process that takes seconds.
    """
    return asyncio.timeout(None if getattr(target, "keeps_time", False) else timeout)


@dataclass(frozen=True, slots=True)
class Price:
    """US dollars per million tokens."""

    input_per_million: float
    output_per_million: float
    cached_per_million: float | None = None
    """Of input that the provider had cached; None where that costs like any other."""

    def cost(self, usage: Usage) -> float:
        """What a call that took these tokens costs."""
        cached = min(usage.cached_tokens, usage.input_tokens)
        of_cached = self.input_per_million if self.cached_per_million is None else self.cached_per_million
        read = (usage.input_tokens - cached) * self.input_per_million + cached * of_cached
        return (read + usage.output_tokens * self.output_per_million) / 1e6

    @property
    def most_per_input(self) -> float:
        """What a million tokens of input cost at most."""
        return max(self.input_per_million, self.cached_per_million or 0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolSettings:
    """Where the tools of an agent come from that the engine calls for it, and which of them may be called."""

    functions: str | None = None
    """A Python file of the project, whose public functions are tools."""
    mcp: tuple[str, ...] = ()
    """MCP servers: `stdio:` and a command, or a URL."""
    headers: Mapping[str, str] = field(default_factory=dict)
    """What is sent to the URLs besides; secrets are env:NAME."""
    scripted: str | None = None
    """A JSON file of the project with `tools` and `tool_results`, as a dataset has them."""
    approved: tuple[str, ...] | None = None
    """The tools that may be called, beside those that the dataset allows; None where nobody said."""
    max_steps: int | None = None

    @property
    def data(self) -> dict[str, Any]:
        """What is given of it, as plain data."""
        approved = None if self.approved is None else list(self.approved)
        plain = {**asdict(self), "mcp": list(self.mcp), "approved": approved}
        return {name: value for name, value in plain.items() if value or (name == "approved" and approved is not None)}


class ConfigurationError(Exception):
    """A target cannot be made from its configuration; the message says which setting and how to mend it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetConfig:
    """A named target as configured; secrets stay references such as env:NAME and are looked up when asking."""

    name: str
    model: str
    """openai/…, another litellm string, replay:PATH, python:module:function, command:ARGV or demo."""
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
    where: str = field(default="", compare=False)
    """The file, and line, of the project that configures it; empty where somebody typed or wrote it by hand."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetContext:
    """What a target may need besides its configuration."""

    environment: Mapping[str, str]
    root: Path
    """The folder of the project."""
    load_items: Callable[[Path], Sequence[Mapping[str, Any]]]
    """Reads the items of a dataset file, for answers captured earlier."""
    apart: bool = False
    """Whether another process will ask the target, so that none of the user's code may be imported into this one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetKind:
    """One kind of target, which the module that serves it declares as `KIND`.

    An installed package adds one through the entry-point group `tui_evals.targets`, under the word that its
    models begin with.
    """

    form: str
    """How its models are written: `word:WHAT`, or `word` where there is nothing to say after it."""
    open: Callable[[TargetConfig, TargetContext], Target]
    """Makes the target; ConfigurationError says which setting is wrong."""
    asks_model: bool = False
    """Whether a model answers over the network: its answers cost by the price table and are kept in the cache."""
    check: Callable[[TargetConfig, TargetContext], str | None] | None = None
    """Says, without asking anything, what keeps the target from answering: ConfigurationError, or else the address at
    which somebody has to listen, None where there is none. Without it, to open the target is the check."""

    @property
    def name(self) -> str:
        """The word its models begin with."""
        return self.form.partition(":")[0]
