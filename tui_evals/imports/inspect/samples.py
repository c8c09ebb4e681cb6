"""The content of an Inspect log: the header of an evaluation, and its samples as answers and scores."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from string import ascii_uppercase
from typing import Annotated, Any, Literal, get_args

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, TypeAdapter, ValidationError

from tui_evals.evaluators.registry import family
from tui_evals.imports.base import Losses
from tui_evals.reports.inspect_log import RECORD
from tui_evals.runs.status import Status
from tui_evals.store.records import AnswerRecord, ScoreRecord

MOST_EPOCHS = 1_000_000
_RECORD = TypeAdapter(ScoreRecord)


def _id(value: object) -> object:
    if isinstance(value, str) or (isinstance(value, int) and not isinstance(value, bool)):
        return value
    raise ValueError("must be text or a whole number")


def _header_content(value: object) -> object:
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


class _LogPart(BaseModel):
    model_config = ConfigDict(extra="ignore", strict=True, frozen=True, protected_namespaces=())


class Call(_LogPart):
    """A call of a tool that a model asked for."""

    id: str = ""
    function: str
    arguments: Any = None


class Message(_LogPart):
    """One message of a chat."""

    role: Literal["system", "user", "assistant", "tool"]
    content: Annotated[Any, BeforeValidator(_header_content)] = ""
    source: str | None = None
    tool_calls: list[Call] | None = None
    tool_call_id: str | None = None
    function: str | None = None


class Choice(_LogPart):
    """One completion."""

    message: Message
    stop_reason: str | None = None


class Usage(_LogPart):
    """Tokens; those read from or written to a cache are separate."""

    input_tokens: Annotated[int, Field(ge=0)] = 0
    output_tokens: Annotated[int, Field(ge=0)] = 0
    input_tokens_cache_read: Annotated[int, Field(ge=0)] | None = None
    input_tokens_cache_write: Annotated[int, Field(ge=0)] | None = None
    reasoning_tokens: Annotated[int, Field(ge=0)] | None = None
    total_cost: Annotated[float, Field(ge=0)] | None = None


class Output(_LogPart):
    """The final output of the model."""

    model: str = ""
    choices: list[Choice] = []
    completion: str | None = None
    usage: Usage | None = None
    time: Annotated[float, Field(ge=0)] | None = None
    error: str | None = None


class Score(_LogPart):
    """The score of one scorer for a sample."""

    value: Annotated[Any, BeforeValidator(_value)]
    answer: str | None = None
    explanation: str | None = None
    metadata: dict[str, Any] | None = None
    reason: str | None = None


class Failure(_LogPart):
    """Why a sample or an evaluation broke off."""

    message: str


class Limit(_LogPart):
    """Which limit ended a sample."""

    type: str


class Sample(_LogPart):
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


class Source(_LogPart):
    """The dataset of an evaluation."""

    name: str | None = None
    sample_ids: list[Any] | None = None


class Scorer(_LogPart):
    """A scorer with its options."""

    name: str
    options: dict[str, Any] | None = None


class Config(_LogPart):
    """How the samples were asked."""

    epochs: int | None = None
    epochs_reducer: list[str] | None = None


class Spec(_LogPart):
    """The evaluated task."""

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


class Stats(_LogPart):
    """When it ran."""

    started_at: str = ""
    completed_at: str = ""


class Step(_LogPart):
    """A solver of the plan."""

    solver: str


class Steps(_LogPart):
    """The plan."""

    steps: list[Step] = []


class Header(_LogPart):
    """A log without its samples; an unfinished one has no status."""

    version: int
    status: str = "started"
    spec: Annotated[Spec, Field(alias="eval")]
    plan: Steps = Steps()
    stats: Stats = Stats()
    error: Failure | None = None
    invalidated: bool = False


Scored = tuple[str, str]
"""A scorer, and the part of its value where that has several."""

_EQUALS = family("inspect_scorers")
_LETTERS: Mapping[str, tuple[float, str | None]] = {
    "C": (1.0, "pass"),
    "I": (0.0, "fail"),
    "N": (0.0, "fail"),
    "P": (0.5, None),
}
"""Correct, incorrect, no answer, partly correct: as Inspect's accuracy counts them."""


def keys_for(samples: Sequence[Sample]) -> dict[Scored, str]:
    """The key of each scorer and part in the order they are met, no two the same."""
    keys: dict[Scored, str] = {}
    for sample in samples:
        for name, score in (sample.scores or {}).items():
            for part, _ in _parts(score.value):
                if (name, part) not in keys:
                    keys[name, part] = _free(_plain(f"{name}_{part}" if part else name), set(keys.values()))
    return keys


def _plain(name: str) -> str:
    plain = re.sub(r"[^a-zA-Z0-9_]", "_", name)
    return plain if plain[:1].isalpha() and plain.isascii() else f"s_{plain}"


def _free(wanted: str, taken: set[str]) -> str:
    key, number = wanted, 2
    while key in taken:
        key, number = f"{wanted}_{number}", number + 1
    return key


def _parts(value: Any) -> Iterator[tuple[str, Any]]:
    """The parts of a value: those of an object by name, of a list by number, else the value itself."""
    match value:
        case dict():
            yield from ((str(name), part) for name, part in value.items())
        case list():
            yield from ((str(number), part) for number, part in enumerate(value, 1))
        case _:
            yield "", value


def records_of(sample: Sample, keys: Mapping[Scored, str], losses: Losses) -> tuple[ScoreRecord, ...]:
    """The records of a sample, one for each scorer and each part of its value; our own logs keep theirs."""
    told = [
        _own_record(score.metadata, name) or _record(keys[name, part], name, value, score, losses)
        for name, score in (sample.scores or {}).items()
        for part, value in _parts(score.value)
    ]
    unscored = _own(sample.metadata).get("scores")
    return (*told, *(one for raw in (unscored if isinstance(unscored, list) else ()) if (one := _validated(raw))))


def _own(metadata: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """Our data in the metadata of a log that was exported from tui-evals."""
    own = (metadata or {}).get(RECORD)
    return own if isinstance(own, Mapping) else {}


def _own_record(metadata: Mapping[str, Any] | None, name: str) -> ScoreRecord | None:
    """The record that a score of our own log was made of, unless it is one of an earlier turn."""
    record = _validated(_own(metadata))
    return record if record is not None and record.key == name else None


def _validated(raw: object) -> ScoreRecord | None:
    try:
        return _RECORD.validate_python(raw)
    except ValidationError:
        return None


def status_of(sample: Sample) -> Status | None:
    """The status that a log of ours keeps of a sample; None where it follows from the scores."""
    return next((one for one in get_args(Status) if one == _own(sample.metadata).get("status")), None)


def _record(key: str, scorer: str, value: Any, score: Score, losses: Losses) -> ScoreRecord:
    number, result, label = _read(value)
    reason = score.explanation or ""
    if result == "skipped":
        reason = reason or "the scorer gave no number"
        losses.changed(f"scores of {scorer} without a number", why="they count as not measured")
    elif label == "P":
        losses.changed(f"scores P of {scorer}", why="a half counts in the mean and has no verdict")
    elif number is None:
        losses.changed(f"words as scores of {scorer}", why="a word is kept as a label and has no number")
    details = {"answer": score.answer, "reason": score.reason, **(score.metadata or {})}
    return ScoreRecord(
        key=key,
        evaluator=scorer,
        score=number,
        result=result,
        label=label,
        reason=reason,
        details={name: finite(one) for name, one in details.items() if one is not None},
    )


def _read(value: Any) -> tuple[float | None, str | None, str | None]:
    """The number, verdict and label of a value; numbers have no verdict, and other values no number."""
    if isinstance(value, bool):
        return float(value), "pass" if value else "fail", None
    if isinstance(value, str):
        number, result = _LETTERS.get(value, (None, None))
        return number, result, value
    if value is None or not math.isfinite(value) or abs(value) > 1e300:
        return None, "skipped", None
    return float(value), None, None


def finite(value: Any) -> Any:
    """Plain data in which NaN and the infinities are words, since JSON has no such numbers."""
    match value:
        case float() if not math.isfinite(value):
            return str(value)
        case dict():
            return {name: finite(one) for name, one in value.items()}
        case list():
            return [finite(one) for one in value]
        case _:
            return value


_OWN_WORDS = ("template", "include_history", "model_role", "reducer", "model")
"""How a grader is asked there; here the run's judge is asked in words of ours."""


def evaluators_for(keys: Mapping[Scored, str], scorers: Sequence[Scorer], losses: Losses) -> dict[str, dict[str, Any]]:
    """The evaluators of new runs of the dataset: those scorers that have an equal here."""
    options = {scorer.name: scorer.options or {} for scorer in scorers}
    evaluators: dict[str, dict[str, Any]] = {}
    for (name, part), key in keys.items():
        own = name.removeprefix("inspect_ai/")
        if own not in _EQUALS or part:
            why = "no evaluator here judges in the same way; its recorded scores are kept"
            losses.left_out(f"the scorer {name} for new runs of the dataset", why=why)
            continue
        given = {option: value for option, value in options.get(name, {}).items() if value is not None}
        if own.startswith("model_graded"):
            losses.changed(f"the scorer {name}", why="the run's judge is asked, in words of ours")
            given = {option: value for option, value in given.items() if option not in _OWN_WORDS}
        try:
            _EQUALS[own].Options.model_validate(given)
        except ValidationError as problem:
            wrong = problem.errors(include_url=False)[0]
            why = f"its option {'.'.join(map(str, wrong['loc'])) or 'pattern'} cannot be used here: {wrong['msg']}"
            losses.left_out(f"the scorer {name} for new runs of the dataset", why=why)
            continue
        evaluators[key] = given if key == own else {"type": own, **given}
    return evaluators


Data = dict[str, Any]


def item_of(sample: Sample, losses: Losses) -> Data:
    """The item that a sample asks."""
    chat = [_message(message, losses) for message in sample.input]
    item: Data = {"testId": str(sample.id)}
    if len(chat) and chat[-1]["role"] == "user" and isinstance(chat[-1]["content"], str) and chat[-1]["content"]:
        item["prompt"] = chat.pop()["content"]
    if sample.choices:
        _offer(item, sample, sample.choices, losses)
    if chat or "prompt" not in item:
        item["messages"] = chat
    targets = [target for target in sample.target if target]
    if targets:
        item["expected_response"] = targets[0]
    if len(targets) > 1:
        item["ideal"] = targets
    metadata = {name: value for name, value in (sample.metadata or {}).items() if name != RECORD}
    kept = {"metadata": finite(metadata), "choices": sample.choices}
    item["extensions"] = {"inspect": {"id": sample.id, **{name: value for name, value in kept.items() if value}}}
    for name in ("sandbox", "files", "setup"):
        if getattr(sample, name):
            losses.left_out(f"{name} of samples", why="an item asks a target and prepares no machine")
    return item


_ONE = (
    "Answer the following multiple choice question. The entire content of your response should be of the following "
    "format: 'ANSWER: $LETTER' (without quotes) where LETTER is one of"
)
_SEVERAL = (
    "Answer the following multiple choice question where multiple answers may be correct. The entire content of your "
    "response should be of the following format: 'ANSWER: $LETTERS' (without quotes) where LETTERS is one or more of"
)
"""The words of Inspect's solver multiple_choice, so that results are comparable."""


def _offer(item: Data, sample: Sample, choices: Sequence[str], losses: Losses) -> None:
    """Put the question as Inspect's solver does: what to reply, the question, the choices with their letters."""
    if "prompt" not in item or len(choices) > len(ascii_uppercase):
        losses.changed("choices of samples", why="they are kept under extensions.inspect and not asked")
        return
    letters = ascii_uppercase[: len(choices)]
    offered = "\n".join(f"{letter}) {choice}" for letter, choice in zip(letters, choices, strict=True))
    told = _SEVERAL if len(sample.target) > 1 else _ONE
    item["prompt"] = f"{told} {','.join(letters)}.\n\n{item['prompt']}\n\n{offered}"
    item["variables"] = {"choices": list(choices)}
    losses.changed("choices of samples", why="the prompt asks them in the words of the solver multiple_choice")


def _message(message: Message, losses: Losses) -> Data:
    """A message as OpenAI-style chats write it."""
    chat_message: Data = {"role": message.role, "content": _content(message.content, losses)}
    if message.tool_calls:
        chat_message["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.function, "arguments": _arguments(call.arguments)},
            }
            for call in message.tool_calls
        ]
    if message.role == "tool":
        chat_message |= {name: value for name, value in _tool(message).items() if value is not None}
    return chat_message


def _tool(message: Message) -> Mapping[str, str | None]:
    return {"tool_call_id": message.tool_call_id, "name": message.function}


def _arguments(arguments: Any) -> str:
    return arguments if isinstance(arguments, str) else json.dumps(finite(arguments), ensure_ascii=False)


def _content(content: Any, losses: Losses) -> Any:
    """Content as text if it is only text, else as blocks; reasoning is left out."""
    if isinstance(content, str):
        return content
    blocks: list[Data] = []
    for block in content:
        match block:
            case {"type": "text", "text": str(text)}:
                blocks.append({"type": "text", "text": text})
            case {"type": "image", "image": str(image)}:
                blocks.append({"type": "image_url", "image_url": {"url": image}})
            case _:
                losses.left_out(f"content of the type {block.get('type')!r} in messages", why="chats here have no such")
    if all(block["type"] == "text" for block in blocks):
        return "\n".join(block["text"] for block in blocks)
    return blocks


def answer_of(sample: Sample, model: str, losses: Losses) -> AnswerRecord:
    """The model's answer in a sample with its transcript; an error if the sample broke off."""
    answers = [message for message in sample.messages if message.role == "assistant" and message.source != "input"]
    usage = sample.usage.get(model) or sample.output.usage
    for other in sample.usage.keys() - {model}:
        losses.left_out(f"the usage of {other}", why="only that of the model under test is counted")
    known: Data = {
        "request": {"messages": [_message(message, losses) for message in _before_the_last(sample)]},
        "diagnostics": {"limit": sample.limit.type} if sample.limit else None,
        **_counted(usage),
        "latency_ms": _latency(sample, len(answers)),
        "model": sample.output.model or model,
        "finish_reason": sample.output.choices[0].stop_reason if sample.output.choices else None,
    }
    text = _text(sample, losses)
    failure = sample.error.message if sample.error else sample.output.error if not text else None
    if failure is not None:
        return AnswerRecord(text=None, code="agentRequestFailed", message=failure or "it broke off", **known)
    calls = tuple(
        {"id": call.id, "name": call.function, "arguments": _arguments(call.arguments)}
        for message in answers
        for call in message.tool_calls or ()
    )
    return AnswerRecord(text=text, tool_calls=calls, **known)


def _before_the_last(sample: Sample) -> Sequence[Message]:
    """The chat without the answer itself, which ends it."""
    chat = sample.messages or sample.input
    return chat[:-1] if chat[-1:] and chat[-1].role == "assistant" else chat


def _text(sample: Sample, losses: Losses) -> str:
    if sample.output.completion is not None or not sample.output.choices:
        return sample.output.completion or ""
    content = _content(sample.output.choices[0].message.content, losses)
    return content if isinstance(content, str) else ""


def _counted(usage: Usage | None) -> Data:
    if usage is None:
        return {}
    cached = usage.input_tokens_cache_read or 0
    return {
        "input_tokens": usage.input_tokens + cached + (usage.input_tokens_cache_write or 0),
        "output_tokens": usage.output_tokens,
        "cached_tokens": cached,
        "reasoning_tokens": usage.reasoning_tokens or 0,
        "cost": usage.total_cost,
    }


def _latency(sample: Sample, generations: int) -> float | None:
    """How long one generation took, or the whole sample where there were several."""
    seconds = sample.working_time if generations > 1 or sample.output.time is None else sample.output.time
    return None if seconds is None else seconds * 1000
