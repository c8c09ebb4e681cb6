"""Our evaluators as assertions of promptfoo: those with an equal, and why the others have none."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tui_evals.datasets.losses import Losses
from tui_evals.datasets.resolve import Effective
from tui_evals.text import strictjson

from .equals import DRAFT_7, FACT_SCORES
from .providers import written_model
from .templates import literal

_PYTHON_ONLY = re.compile(r"\(\?(?:[aimsuLx]|P|#)|\\[AZz]|[*+?}]\+")
_SPELLINGS = {
    "targetValue": "value",
    "target_value": "value",
    "targetValues": "values",
    "target_values": "values",
    "targetThreshold": "threshold",
    "target_threshold": "threshold",
    "jsonPath": "json_path",
    "ignoreCase": "ignore_case",
    "toolName": "tool_name",
    "argKeyName": "arg_key_name",
    "json_schema": "schema",
    "jsonSchema": "schema",
}
_NAMES = {
    "EXACT_MATCH": "Equals",
    "CONTAINS_ALL": "ContainsAll",
    "CONTAINS_ANY": "ContainsAny",
    "STARTS_WITH": "StartsWith",
    "JsonValidator": "JsonValid",
    "TOOL_CALLED": "ToolCalled",
    "TOOL_CALLED_WITH": "ToolCalledWith",
    "LATENCY": "Latency",
    "COST": "Cost",
    "ModelBasedClassify": "ModelGraded",
}


class NoAssert(Exception):
    """No assertion means the same; the message says why."""


@dataclass(frozen=True, slots=True)
class _Asked:
    """An evaluator's options with the references of its item."""

    options: dict[str, Any]
    references: Sequence[str]
    where: str
    losses: Losses

    def take(self, name: str, otherwise: Any = None) -> Any:
        """An option, which is then dealt with."""
        return self.options.pop(name, otherwise)

    def values(self, name: str) -> list[str]:
        """The texts to compare with: those given, or the references of the item."""
        given = self.take(name)
        if given is None and not self.references:
            raise NoAssert("there is nothing it compares with")
        return list(self.references) if given is None else given if isinstance(given, list) else [given]


def assert_of(one: Effective, references: Sequence[str], where: str, losses: Losses) -> dict[str, Any]:
    """The assertion that means the same as an evaluator; NoAssert says that there is none."""
    name = _NAMES.get(one.evaluator, one.evaluator)
    options = {_SPELLINGS.get(key, key): value for key, value in one.settings.items()}
    negate, weight = options.pop("negate", False), options.pop("weight", None)
    judge = options.pop("judge", None)
    write = _WRITERS.get(name)
    if write is None:
        raise NoAssert("no assertion means the same")
    asked = _Asked(options, references, where, losses)
    written = write(asked)
    rest = {key: value for key, value in asked.options.items() if value not in (None, False)}
    if rest:
        raise NoAssert(f"an assertion cannot say {', '.join(sorted(rest))}")
    if negate:
        written["type"] = f"not-{written['type']}"
        if name == "JsonSchema":
            losses.changed(one.key, where, "promptfoo passes an answer that is no JSON")
    if weight is not None:
        written["weight"] = weight
    if one.key != one.evaluator:
        written["metric"] = one.key
    if judge is not None and (model := written_model(judge)) is not None:
        written["provider"] = model
    elif judge is not None:
        losses.left_out(f"the judge {judge}", where, "promptfoo has no provider like it")
    return written


def _equals(asked: _Asked) -> dict[str, Any]:
    values = asked.values("value")
    if len(values) > 1:
        raise NoAssert("an assertion compares with one reference")
    if asked.options.get("json_path") == "$":
        try:
            value = strictjson.loads(values[0])
        except strictjson.JsonError:
            raise NoAssert("an assertion has no JSON path") from None
        if isinstance(value, list | dict) and strictjson.dumps(value) == values[0]:
            asked.take("json_path")
            return {"type": "equals", "value": value}
    return {"type": "equals", "value": literal(values[0])}


def _starts_with(asked: _Asked) -> dict[str, Any]:
    values = asked.values("value")
    if len(values) > 1 or not values[0]:
        raise NoAssert("an assertion compares with one text that is not empty")
    return {"type": "starts-with", "value": literal(values[0])}


def _contains(several: str) -> Callable[[_Asked], dict[str, Any]]:
    def write(asked: _Asked) -> dict[str, Any]:
        values = [literal(value) for value in asked.values("values")]
        prefix = "i" if asked.take("ignore_case") else ""
        if several == "contains-all" and len(values) == 1 and values[0]:
            return {"type": f"{prefix}contains", "value": values[0]}
        return {"type": prefix + several, "value": values}

    return write


def _regex(asked: _Asked) -> dict[str, Any]:
    pattern = asked.take("pattern", "")
    if not pattern or _PYTHON_ONLY.search(pattern):
        raise NoAssert("the pattern is empty or uses what JavaScript's patterns do not have")
    if asked.take("mode", "search") != "search":
        raise NoAssert("an assertion searches for the pattern; it cannot ask for the whole answer")
    return {"type": "regex", "value": literal(pattern)}


def _schema(asked: _Asked) -> dict[str, Any]:
    schema = asked.take("schema")
    if schema.get("$schema", DRAFT_7) != DRAFT_7:
        raise NoAssert("promptfoo reads draft 7 of JSON Schema only")
    return {"type": "is-json", "value": schema}


def _limit(kind: str) -> Callable[[_Asked], dict[str, Any]]:
    def write(asked: _Asked) -> dict[str, Any]:
        threshold = asked.take("threshold")
        if threshold is None:
            raise NoAssert("an assertion needs a threshold")
        asked.losses.changed(kind, asked.where, "exactly the threshold passes in promptfoo")
        return {"type": kind, "threshold": threshold}

    return write


def _rubric(asked: _Asked) -> dict[str, Any]:
    written = {"type": "llm-rubric", "value": literal(asked.take("criteria"))}
    threshold = asked.take("threshold")
    if threshold is not None:
        written["threshold"] = round((threshold - 1) / 4, 6)
    asked.losses.changed("Rubric", asked.where, "a judge of promptfoo says pass or fail, and a score from 0 to 1")
    return written


def _graded(asked: _Asked) -> dict[str, Any]:
    spec, given = asked.take("spec"), asked.take("spec_args")
    args = given if isinstance(given, Mapping) else {}
    asked.losses.changed("ModelGraded", asked.where, "the judge is asked in other words")
    if spec == "closedqa" and args.keys() == {"criteria"}:
        return {"type": "model-graded-closedqa", "value": literal(args["criteria"])}
    scores, passing = asked.take("choice_scores"), asked.take("passing")
    if spec == "fact" and args.keys() == {"ideal"} and scores == FACT_SCORES and passing == ["A", "B", "C", "E"]:
        return {"type": "factuality", "value": literal(args["ideal"])}
    raise NoAssert("only the specs closedqa with criteria and fact with an ideal have an equal")


def _tool_called(asked: _Asked) -> dict[str, Any]:
    asked.losses.changed("ToolCalled", asked.where, "promptfoo reads it from a trace, which newer versions keep")
    return {"type": "trajectory:tool-used", "value": literal(asked.take("tool_name"))}


_WRITERS: Mapping[str, Callable[[_Asked], dict[str, Any]]] = {
    "Equals": _equals,
    "StartsWith": _starts_with,
    "ContainsAll": _contains("contains-all"),
    "ContainsAny": _contains("contains-any"),
    "Regex": _regex,
    "JsonValid": lambda asked: {"type": "is-json"},
    "JsonSchema": _schema,
    "Latency": _limit("latency"),
    "Cost": _limit("cost"),
    "Rubric": _rubric,
    "ModelGraded": _graded,
    "ToolCalled": _tool_called,
}
