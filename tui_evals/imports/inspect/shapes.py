"""What an Inspect log holds, as far as it is read: the header of an evaluation, and its samples."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

MOST_EPOCHS = 1_000_000


def _id(value: object) -> object:
    if isinstance(value, str) or (isinstance(value, int) and not isinstance(value, bool)):
        return value
    raise ValueError("must be text or a whole number")


def _content(value: object) -> object:
    if isinstance(value, str) or (isinstance(value, list) and all(isinstance(part, dict) for part in value)):
        return value
    raise ValueError("must be text or a list of content blocks")


def _asked(value: object) -> object:
    return [{"role": "user", "content": value}] if isinstance(value, str) else value


def _listed(value: object) -> object:
    return [value] if isinstance(value, str) else value


def _value(value: object) -> object:
    plain = (str, int, float, bool)
    if isinstance(value, plain):
        return value
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    if parts is not None and all(part is None or isinstance(part, plain) for part in parts):
        return value
    raise ValueError("must be text, a number, true or false, or a list or object of such")


class _Part(BaseModel):
    model_config = ConfigDict(extra="ignore", strict=True, frozen=True, protected_namespaces=())


class Call(_Part):
    """A call of a tool that a model asked for."""

    id: str = ""
    function: str
    arguments: Any = None


class Message(_Part):
    """One message of a chat."""

    role: Literal["system", "user", "assistant", "tool"]
    content: Annotated[Any, BeforeValidator(_content)] = ""
    source: str | None = None
    tool_calls: list[Call] | None = None
    tool_call_id: str | None = None
    function: str | None = None


class Choice(_Part):
    """One completion."""

    message: Message
    stop_reason: str | None = None


class Usage(_Part):
    """Tokens; those read from or written to a cache stand apart."""

    input_tokens: Annotated[int, Field(ge=0)] = 0
    output_tokens: Annotated[int, Field(ge=0)] = 0
    input_tokens_cache_read: Annotated[int, Field(ge=0)] | None = None
    input_tokens_cache_write: Annotated[int, Field(ge=0)] | None = None
    reasoning_tokens: Annotated[int, Field(ge=0)] | None = None
    total_cost: Annotated[float, Field(ge=0)] | None = None


class Output(_Part):
    """What the model said in the end."""

    model: str = ""
    choices: list[Choice] = []
    completion: str | None = None
    usage: Usage | None = None
    time: Annotated[float, Field(ge=0)] | None = None
    error: str | None = None


class Score(_Part):
    """What one scorer made of a sample."""

    value: Annotated[Any, BeforeValidator(_value)]
    answer: str | None = None
    explanation: str | None = None
    metadata: dict[str, Any] | None = None
    reason: str | None = None


class Failure(_Part):
    """Why a sample or an evaluation broke off."""

    message: str


class Limit(_Part):
    """Which limit ended a sample."""

    type: str


class Sample(_Part):
    """One sample in one epoch."""

    id: Annotated[Any, BeforeValidator(_id)]
    epoch: Annotated[int, Field(ge=1, le=MOST_EPOCHS)]
    input: Annotated[list[Message], BeforeValidator(_asked)]
    choices: list[str] | None = None
    target: Annotated[list[str], BeforeValidator(_listed)] = []
    sandbox: Any = None
    files: Any = None
    setup: Any = None
    messages: list[Message] = []
    output: Output = Output()
    scores: dict[str, Score] | None = None
    metadata: dict[str, Any] | None = None
    usage: Annotated[dict[str, Usage], Field(alias="model_usage")] = {}
    error: Failure | None = None
    limit: Limit | None = None
    started_at: str | None = None
    working_time: Annotated[float, Field(ge=0)] | None = None


class Source(_Part):
    """The dataset of an evaluation."""

    name: str | None = None
    sample_ids: list[Any] | None = None


class Scorer(_Part):
    """A scorer with its options."""

    name: str
    options: dict[str, Any] | None = None


class Config(_Part):
    """How the samples were asked."""

    epochs: int | None = None
    epochs_reducer: list[str] | None = None


class Spec(_Part):
    """What was evaluated."""

    task: str
    model: str
    task_id: str = ""
    task_version: Any = None
    task_args: dict[str, Any] = {}
    eval_id: str = ""
    run_id: str = ""
    created: str = ""
    solver: str | None = None
    tags: list[str] | None = None
    metadata: dict[str, Any] | None = None
    dataset: Source = Source()
    config: Config = Config()
    packages: dict[str, Any] = {}
    revision: dict[str, Any] | None = None
    scorers: list[Scorer] | None = None


class Stats(_Part):
    """When it ran."""

    started_at: str = ""
    completed_at: str = ""


class Step(_Part):
    """A solver of the plan."""

    solver: str


class Steps(_Part):
    """The plan."""

    steps: list[Step] = []


class Header(_Part):
    """A log without its samples; one that was never finished has no status."""

    version: int
    status: str = "started"
    spec: Annotated[Spec, Field(alias="eval")]
    plan: Steps = Steps()
    stats: Stats = Stats()
    error: Failure | None = None
    invalidated: bool = False
