"""The words of Prompt Foundry's SDK, and its assertions as evaluators with their options, and back."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from tui_evals.datasets.paths import Path, Problem
from tui_evals.datasets.validate import problem_of
from tui_evals.imports.base import Losses
from tui_evals.light_records import dataclass
from tui_evals.text import strictjson
from tui_evals.text.names import did_you_mean
from tui_evals.text.strictjson import PathError, find_by_path

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
    """A value of the wire with its known fields in one style; names given by users are unchanged."""
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
    """An object of the wire; unknown fields are kept."""

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
    """The parameters of a prompt that set the form of an answer."""

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
    """Whether a value fits a model; adds its errors to `problems`."""
    try:
        model.model_validate(value)
    except ValidationError as errors:
        problems += [problem_of(error, model, path) for error in errors.errors(include_url=False)]
        return False
    return True


def note_of(original: Mapping[str, Any], rebuilt: Mapping[str, Any]) -> Data:
    """The note with which the original can be rebuilt; mostly ids."""
    note = {key: value for key, value in original.items() if key not in rebuilt or not _alike(rebuilt[key], value)}
    absent = [key for key in rebuilt if key not in original]
    return {**note, ABSENT: absent} if absent else note


def original_of(rebuilt: Mapping[str, Any], note: Mapping[str, Any]) -> Data:
    """The original, rebuilt with its note."""
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


Form = Literal["json", "text"] | None
"""The form of the prompt's answers; None without a prompt."""
DEFAULTS: Mapping[str, object] = {"jsonPath": "$", "ignoreCase": False, "negate": False, "weight": 1}


class _Assertion(Wire):
    type: Any = None
    id: str | None = None
    evaluationId: str | None = None
    weight: Share | None = None


class _Inverted(_Assertion):
    negate: bool | None = None
    ignoreCase: bool | None = None


class _OfText(_Inverted):
    jsonPath: str | None = None


class _OneText(_OfText):
    targetValue: str


class _Texts(_OfText):
    targetValues: list[str]


class _Tool(_Assertion):
    toolName: Name


class _ToolArgument(_Inverted):
    toolName: Name
    argKeyName: Name


class _Limit(_Assertion):
    targetThreshold: Annotated[float, Field(ge=0)]


class AnyAssertion(_ToolArgument, _OneText, _Texts, _Limit):
    """Every field an assertion of any type can have."""

    matcher: Any = None
    target: Any = None


@dataclass(frozen=True, slots=True)
class _Kind:
    """One type of assertion: its evaluator, its form, and its own fields with the matching options."""

    evaluator: str
    model: type[Wire]
    own: Mapping[str, str]

    @property
    def modifiers(self) -> list[str]:
        """The modifiers its type knows."""
        return [name for name in DEFAULTS if name in self.model.model_fields]


_KINDS: Mapping[str, _Kind] = {
    "EXACT_MATCH": _Kind("Equals", _OneText, {"targetValue": "value"}),
    "CONTAINS_ALL": _Kind("ContainsAll", _Texts, {"targetValues": "values"}),
    "CONTAINS_ANY": _Kind("ContainsAny", _Texts, {"targetValues": "values"}),
    "STARTS_WITH": _Kind("StartsWith", _OneText, {"targetValue": "value"}),
    "TOOL_CALLED": _Kind("ToolCalled", _Tool, {"toolName": "tool_name"}),
    "TOOL_CALLED_WITH": _Kind("ToolCalledWith", _ToolArgument, {"toolName": "tool_name", "argKeyName": "arg_key_name"}),
    "LATENCY": _Kind("Latency", _Limit, {"targetThreshold": "threshold"}),
    "COST": _Kind("Cost", _Limit, {"targetThreshold": "threshold"}),
}
_TYPES = {kind.evaluator: name for name, kind in _KINDS.items()}
_NAMES = {**_TYPES, **{name: name for name in _KINDS}, "exact_match": "EXACT_MATCH"}
_EARLY = {
    "EQUALS": "EXACT_MATCH",
    "CONTAINS": "CONTAINS_ALL",
    "JSON": "EXACT_MATCH",
    "JSON_EXACT_MATCH": "EXACT_MATCH",
    "JSON_CONTAINS": "CONTAINS_ALL",
}
_OPTIONS = {
    **dict.fromkeys(("targetValue", "target_value"), "value"),
    **dict.fromkeys(("targetValues", "target_values"), "values"),
    **dict.fromkeys(("targetThreshold", "target_threshold"), "threshold"),
    "jsonPath": "json_path",
    "ignoreCase": "ignore_case",
    "toolName": "tool_name",
    "argKeyName": "arg_key_name",
    "caseSensitive": "case_sensitive",
}
_MODIFIERS = {"jsonPath": "json_path", "ignoreCase": "ignore_case", "negate": "negate", "weight": "weight"}


def check_assertion(assertion: Mapping[str, Any], path: Path, problems: list[Problem]) -> None:
    """Add the errors of an assertion."""
    now = _modern(assertion)
    kind = now.get("type")
    if kind is None:
        problems.append(Problem("type is missing", path))
    elif not isinstance(kind, str) or kind not in _KINDS:
        hint = did_you_mean(str(kind), _KINDS)
        problems.append(Problem(f"'{kind}' is no type of assertion{hint}; known are {', '.join(_KINDS)}", _at(path)))
    elif "arguments" in now:
        check(_Tool, now, path, problems)
    else:
        check(_KINDS[kind].model, now, path, problems)


def _at(path: Path) -> Path:
    return (*path, "type")


def _modern(assertion: Mapping[str, Any]) -> Data:
    """An assertion of the early API in the current form; `reads JSON` if its type said so."""
    modern, matcher = dict(assertion), assertion.get("matcher")
    if isinstance(matcher, dict):
        del modern["matcher"]
        modern |= {
            "type": matcher.get("type"),
            "jsonPath": matcher.get("jsonPath"),
            "targetValue": modern.get("target"),
        }
    kind = modern.get("type")
    if isinstance(kind, str) and kind in _EARLY:
        modern["type"] = _EARLY[kind]
        if kind.startswith("JSON"):
            modern |= {"jsonPath": modern.get("jsonPath") or "$", "reads JSON": True}
        if _EARLY[kind] == "CONTAINS_ALL" and isinstance(modern.get("targetValue"), str):
            modern["targetValues"] = [modern["targetValue"]]
    if kind == "TOOL_CALLED_WITH" and not modern.get("argKeyName") and isinstance(modern.get("targetValue"), str):
        try:
            wanted = strictjson.loads(modern["targetValue"])
        except strictjson.JsonError:
            return modern
        if isinstance(wanted, dict):
            modern["arguments"] = wanted
    return modern


def evaluator_of(assertion: Mapping[str, Any], form: Form) -> tuple[str, Data]:
    """The evaluator and the options for a checked assertion."""
    now = _modern(assertion)
    kind = _KINDS[now["type"]]
    options: Data = {option: now[field] for field, option in kind.own.items() if now.get(field) is not None}
    if "arguments" in now:
        options["arguments"] = now["arguments"]
    path = now.get("jsonPath", "$") if "jsonPath" in kind.modifiers else None
    if path is not None and (form == "json" or "reads JSON" in now or (form is None and path != "$")):
        options["json_path"] = path
    for field in ("ignoreCase", "negate"):
        if field in kind.modifiers and now.get(field):
            options[_MODIFIERS[field]] = True
    if now.get("weight") not in (None, 1):
        options["weight"] = now["weight"]
    return kind.evaluator, options


def report(assertion: Mapping[str, Any], form: Form, losses: Losses, where: str) -> None:
    """Record the parts of an assertion that its evaluator does not have, or has in another way."""
    now = _modern(assertion)
    kind, path = now["type"], now.get("jsonPath")
    evaluator, options = evaluator_of(assertion, form)
    told = Losses()
    written = assertion["matcher"]["type"] if "matcher" in assertion else assertion["type"]
    if written in _EARLY or "arguments" in options:
        losses.changed(f"the assertion {written} of the early API", where, f"{evaluator} judges it")
    else:
        foreign = set(AnyAssertion.model_fields) - set(_KINDS[kind].model.model_fields)
        if beside := sorted(name for name in foreign if assertion.get(name)):
            told.left_out(", ".join(beside), where, f"{kind} does not have it")
    if isinstance(path, str) and path != "$" and "json_path" not in options:
        told.left_out(f"jsonPath {path}", where, "the prompt's answers are text, for which a path is ignored")
    if "json_path" in options:
        try:
            find_by_path(options["json_path"], None)
        except PathError as problem:
            told.changed(f"jsonPath {path}", where, f"its check will be an error: {problem}")
    losses.judges(where, told)


class NoEqual(Exception):
    """An evaluator says what no assertion can say; the sentence says why."""


def assertion_of(name: str, given: Mapping[str, Any], form: Form, references: Sequence[str]) -> Data:
    """The assertion that judges as an evaluator does, with every field; NoEqual where there is none."""
    kind_name = _NAMES.get(name)
    if kind_name is None:
        raise NoEqual("Prompt Foundry has no equal")
    kind = _KINDS[kind_name]
    options = {_OPTIONS.get(option, option): value for option, value in given.items() if value is not None}
    if "case_sensitive" in options:
        options["ignore_case"] = not options.pop("case_sensitive") or options.get("ignore_case", False)
    _demand_equal(kind_name, options)
    assertion: Data = {"type": kind_name}
    for field, option in kind.own.items():
        assertion[field] = options[option] if option in options else _reference(option, references)
    for field in kind.modifiers:
        absent = None if field == "jsonPath" and form == "json" else DEFAULTS[field]
        assertion[field] = options.get(_MODIFIERS[field], absent)
    return assertion


def _demand_equal(kind_name: str, options: Mapping[str, Any]) -> None:
    kind = _KINDS[kind_name]
    for field, option in _MODIFIERS.items():
        if field not in kind.modifiers and options.get(option):
            raise NoEqual(f"{kind_name} does not know {field}")
    if options.get("compat"):
        raise NoEqual("the compat reading of case_sensitive exists in Arthur Bench only")
    if "arguments" in options:
        raise NoEqual("TOOL_CALLED_WITH compares the name of one argument, not what the arguments are")


def _reference(option: str, references: Sequence[str]) -> str | list[str]:
    """The text that an evaluator without a target compares with."""
    if option == "values" and references:
        return list(references)
    if option == "value" and len(references) == 1:
        return references[0]
    if option == "value" and references:
        raise NoEqual("it passes on any of several references, and an assertion has one target")
    raise NoEqual(f"it has no {option} to compare with")


def defaults_of(assertion: Mapping[str, Any]) -> dict[str, object]:
    """The default values of a checked assertion; those of the early API have none."""
    kind = _KINDS.get(assertion.get("type", ""))
    return {name: DEFAULTS[name] for name in kind.modifiers} if kind else {}
