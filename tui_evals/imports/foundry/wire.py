"""The words of Prompt Foundry's SDK: its fields in camelCase and snake_case, and what a file leaves out or adds."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from tui_evals.datasets.paths import Path, Problem
from tui_evals.datasets.validate import problem_of

Style = Literal["camel", "snake"]
Data = dict[str, Any]

_FIELDS = {
    "evaluation": "promptId appendedMessages",
    "assertion": "evaluationId targetValue targetValues jsonPath ignoreCase toolName argKeyName targetThreshold",
    "matcher": "jsonPath",
    "message": "toolCallId toolCalls",
    "block": "imageBase64 mediaType toolCall toolCallId",
    "call": "toolCallId",
    "parameters": "responseFormat topP topK maxTokens frequencyPenalty presencePenalty parallelToolCalls toolChoice"
    " modelName modelProvider",
}
_INSIDE: Mapping[str, Mapping[str, str]] = {
    "document": {"evaluations": "evaluation", "assertions": "assertion", "prompt": "prompt", "prompts": "prompt"},
    "evaluation": {"appendedMessages": "message", "assertions": "assertion"},
    "assertion": {"matcher": "matcher"},
    "prompt": {"messages": "message", "tools": "tool", "parameters": "parameters"},
    "message": {"content": "block", "toolCalls": "call"},
    "block": {"toolCall": "call"},
}
ABSENT = "absent fields"


def snake(name: str) -> str:
    """The name as the Python SDK spells it."""
    return re.sub(r"(?<!^)([A-Z])", lambda match: f"_{match[1].lower()}", name)


_CAMEL: Mapping[str, Mapping[str, str]] = {
    kind: {snake(name): name for name in names.split()} for kind, names in _FIELDS.items()
}
_SNAKE: Mapping[str, Mapping[str, str]] = {
    kind: {name: snake(name) for name in names.split()} for kind, names in _FIELDS.items()
}


def spelled(value: Any, kind: str, style: Style, problems: list[Problem], path: Path = ()) -> Any:
    """A value of the wire with its known fields in one style; whatever users named stays as it is."""
    if isinstance(value, list):
        parts = enumerate(value)  # a list within a list is of no kind, however deep it is
        return [
            spelled(part, kind, style, problems, (*path, number)) if isinstance(part, dict) else part
            for number, part in parts
        ]
    if not isinstance(value, dict):
        return value
    names = (_CAMEL if style == "camel" else _SNAKE).get(kind, {})
    inside = _INSIDE.get(kind, {})
    spelt: Data = {}
    for key, part in value.items():
        name = names.get(key, key)
        if name in spelt:
            problems.append(Problem(f"{key} appears twice, once as {name} and once as {snake(name)}; keep one", path))
        below = inside.get(_CAMEL.get(kind, {}).get(key, key))
        spelt[name] = spelled(part, below, style, problems, (*path, key)) if below else part
    return spelt


def as_written(value: Any, path: Path) -> Path:
    """The path with each field in the style the file has it in."""
    parts: list[str | int] = []
    for key in path:
        if isinstance(value, dict) and isinstance(key, str) and key not in value and snake(key) in value:
            key = snake(key)
        parts.append(key)
        inside = isinstance(value, dict) or (isinstance(value, list) and isinstance(key, int) and key < len(value))
        value = (value.get(key) if isinstance(value, dict) else value[key]) if inside else None
    return tuple(parts)


class Wire(BaseModel):
    """An object of the wire; what it holds beyond its fields is kept."""

    model_config = ConfigDict(extra="allow", strict=True, frozen=True, allow_inf_nan=False)


Share = Annotated[float, Field(ge=0, le=1)]
Name = Annotated[str, Field(min_length=1)]


class Evaluation(Wire):
    """A test case, apart from its messages and assertions."""

    id: str | None = None
    promptId: str | None = None
    appendedMessages: list[dict[str, Any]] = []
    variables: dict[str, str | None] = {}
    weight: Share | None = None
    threshold: Share | None = None
    assertions: list[dict[str, Any]] = []


class Parameters(Wire):
    """What of a prompt's parameters says what an answer is."""

    responseFormat: Literal["JSON", "TEXT"] | None = None


class Tool(Wire):
    """A function the model may call."""

    name: Name
    description: str | None = None
    parameters: dict[str, Any] | None = None


class Prompt(Wire):
    """A prompt under test, apart from its messages."""

    id: str | None = None
    name: str | None = None
    messages: list[dict[str, Any]] = []
    tools: list[Tool] = []
    parameters: Parameters | None = None


def check(model: type[Wire], value: Any, path: Path, problems: list[Problem]) -> bool:
    """Whether a value has the form of a model; what is wrong with it goes to the problems."""
    try:
        model.model_validate(value)
    except ValidationError as errors:
        problems += [problem_of(error, model, path) for error in errors.errors(include_url=False)]
        return False
    return True


def note_of(original: Mapping[str, Any], rebuilt: Mapping[str, Any]) -> Data:
    """What has to be remembered so that the rebuilt object becomes the original again; mostly ids."""
    note = {key: value for key, value in original.items() if key not in rebuilt or not _alike(rebuilt[key], value)}
    absent = [key for key in rebuilt if key not in original]
    return {**note, ABSENT: absent} if absent else note


def original_of(rebuilt: Mapping[str, Any], note: Mapping[str, Any]) -> Data:
    """The original, by what was remembered of it."""
    gone = {ABSENT, *absent_in(note)}
    return {key: value for key, value in {**rebuilt, **note}.items() if key not in gone}


def absent_in(note: Mapping[str, Any]) -> list[str]:
    """The fields that the original did not have."""
    absent = note.get(ABSENT)
    return [name for name in absent if isinstance(name, str)] if isinstance(absent, list) else []


def edited(rebuilt: Mapping[str, Any], note: Mapping[str, Any], known: type[Wire]) -> Data:
    """The rebuilt object of something that was edited: of the note only ids and fields without a meaning here hold."""
    ids = {"id", "promptId", "evaluationId", "name"}
    return {**rebuilt, **{key: note[key] for key in note if key in ids or key not in {ABSENT, *known.model_fields}}}


def _alike(one: object, other: object) -> bool:
    return one == other and isinstance(one, bool) == isinstance(other, bool)
