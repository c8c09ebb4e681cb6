"""Assertions of Prompt Foundry as evaluators with their options, and back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import Field

from tui_evals.datasets.paths import Path, Problem
from tui_evals.imports.losses import Losses
from tui_evals.light_records import dataclass
from tui_evals.text import strictjson
from tui_evals.text.names import did_you_mean
from tui_evals.text.strictjson import PathError, find_by_path

from .wire import Data, Name, Share, Wire, check

Form = Literal["json", "text"] | None
"""What the prompt's answers are; None where no prompt says it."""
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
    """One type of assertion: its evaluator, its form, and its own fields with the options they are."""

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
    """Find what is wrong with an assertion."""
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
    """An assertion of the early API as it is written now; `reads JSON` where its type said so."""
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
    """The evaluator and the options that judge what a checked assertion says."""
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
    """Note what an assertion says that its evaluator does not, or says in another way."""
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
    """What an evaluator without a target compares with."""
    if option == "values" and references:
        return list(references)
    if option == "value" and len(references) == 1:
        return references[0]
    if option == "value" and references:
        raise NoEqual("it passes on any of several references, and an assertion has one target")
    raise NoEqual(f"it has no {option} to compare with")


def defaults_of(assertion: Mapping[str, Any]) -> dict[str, object]:
    """What a checked assertion says where it says nothing; those of the early API have no defaults."""
    kind = _KINDS.get(assertion.get("type", ""))
    return {name: DEFAULTS[name] for name in kind.modifiers} if kind else {}
