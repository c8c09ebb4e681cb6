"""What each assertion of promptfoo says, in the words of our evaluators."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tui_evals.datasets.losses import Losses
from tui_evals.text import strictjson
from tui_evals.text.patterns import PatternError, compile_pattern
from tui_evals.text.yamls import YamlError, load_yaml

from .files import Spot, kind_of
from .templates import script_text

DRAFT_7 = "http://json-schema.org/draft-07/schema#"
FACT_SCORES = {"A": 1.0, "B": 1.0, "C": 1.0, "D": 0.0, "E": 1.0}
_AT_COMMAS = re.compile(r'\s*(?:"(?P<quoted>[^"]*)"\s*|(?P<plain>[^,]*))(?:,|\Z)')
_READS_OTHERWISE = re.compile(r"\\[dDwWbBsS]|\$")
_OLDER_WORDS = frozenset(("additionalItems", "dependencies"))


class NoEqual(Exception):
    """There is no evaluator that means the same; the message says why."""


@dataclass(frozen=True, slots=True)
class Given:
    """What an assertion says, its value rendered."""

    spot: Spot
    kind: str
    negate: bool
    value: Any
    judge: str | None
    losses: Losses

    def changed(self, why: str) -> None:
        """Note that the evaluator does not mean quite the same."""
        self.losses.changed(self.kind, self.spot.where, why)

    def scalar(self) -> str:
        """The value as one text."""
        if self.value is None or self.value == "" or isinstance(self.value, list | dict):
            raise self.spot.wrong(f"value of {self.kind} must be text or a number, not {kind_of(self.value)}")
        return script_text(self.value)

    def several(self) -> list[str]:
        """The value as a list of texts; one text is split at its commas."""
        value = self.value
        if isinstance(value, str) and value:
            found = [part["quoted"] or (part["plain"] or "").strip() for part in _AT_COMMAS.finditer(value)]
            value = [text for text in found if text]
        if not isinstance(value, list) or any(isinstance(part, list | dict) for part in value):
            raise self.spot.wrong(f"value of {self.kind} must be a list of texts, not {kind_of(self.value)}")
        return [script_text(part) for part in value]

    def threshold(self) -> float | None:
        """The threshold, where there is one."""
        found = self.spot.get("threshold")
        return None if found is None else found.number()

    def judged(self, options: dict[str, Any]) -> dict[str, Any]:
        """The options with the judge, where one is named."""
        return {**options, "judge": self.judge} if self.judge else options


_Read = tuple[str, dict[str, Any]]


def _folding(given: Given, options: dict[str, Any]) -> dict[str, Any]:
    if not given.kind.startswith("icontains"):
        return options
    if not strictjson.dumps(options).isascii():
        given.changed("case is ignored as Unicode folds it, so ß equals ss")
    return {**options, "ignore_case": True}


def _equals(given: Given) -> _Read:
    if isinstance(given.value, list | dict):
        return "Equals", {"value": strictjson.dumps(given.value), "json_path": "$"}
    return "Equals", {"value": "" if given.value == "" else given.scalar()}


def _contains(given: Given) -> _Read:
    return "ContainsAll", _folding(given, {"values": [given.scalar()]})


def _contains_all(given: Given) -> _Read:
    return "ContainsAll", _folding(given, {"values": given.several()})


def _contains_any(given: Given) -> _Read:
    return "ContainsAny", _folding(given, {"values": given.several()})


def _starts_with(given: Given) -> _Read:
    return "StartsWith", {"value": given.scalar()}


def _regex(given: Given) -> _Read:
    pattern = given.scalar()
    try:
        compile_pattern(pattern)
    except PatternError as problem:
        raise NoEqual(str(problem)) from None
    if _READS_OTHERWISE.search(pattern):
        given.changed(r"\d, \w, \s and \b know every script here, and $ also matches before a last line break")
    return "Regex", {"pattern": pattern}


def _is_json(given: Given) -> _Read:
    schema = given.value
    if schema is None or schema == "":
        return "JsonValid", {}
    if isinstance(schema, str):
        try:
            schema = load_yaml(schema)
        except YamlError as problem:
            raise given.spot.wrong(f"value of {given.kind} is no JSON Schema: {problem}") from None
    if not isinstance(schema, dict):
        raise given.spot.wrong(f"value of {given.kind} must be a JSON Schema, not {kind_of(schema)}")
    words = set(_words(schema))
    if "$schema" not in schema and (_OLDER_WORDS & words or _has_tuple(schema)):
        schema = {"$schema": DRAFT_7, **schema}
    if "format" in words:
        given.changed("format is not checked here")
    if given.negate:
        given.changed("an answer that is no JSON fails here")
    return "JsonSchema", {"schema": schema}


def _words(value: Any) -> Iterator[str]:
    for key, part in value.items() if isinstance(value, dict) else ():
        yield key
        yield from _words(part)
    for part in value if isinstance(value, list) else ():
        yield from _words(part)


def _has_tuple(value: Any) -> bool:
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return (isinstance(value, dict) and isinstance(value.get("items"), list)) or any(map(_has_tuple, parts))


def _limit(given: Given) -> _Read:
    threshold = given.threshold()
    if threshold is not None:
        given.changed("exactly the threshold fails here")
    return given.kind.capitalize(), {} if threshold is None else {"threshold": threshold}


def _rubric(given: Given) -> _Read:
    if not isinstance(given.value, str) or not given.value.strip():
        raise NoEqual("its rubric is not plain text")
    threshold = given.threshold()
    options: dict[str, Any] = {"criteria": given.value}
    if threshold is not None:
        options["threshold"] = round(1 + 4 * min(threshold, 1), 6)
    given.changed("the judge rates from 1 to 5 here, and 3 passes unless there is a threshold")
    return "Rubric", given.judged(options)


def _factuality(given: Given) -> _Read:
    given.changed("the judge is asked in other words")
    options = {"spec": "fact", "spec_args": {"ideal": given.scalar()}, "choice_scores": dict(FACT_SCORES)}
    return "ModelGraded", given.judged({**options, "passing": [key for key, score in FACT_SCORES.items() if score]})


def _closed_qa(given: Given) -> _Read:
    given.changed("the judge is asked in other words")
    return "ModelGraded", given.judged({"spec": "closedqa", "spec_args": {"criteria": given.scalar()}})


def _tool_used(given: Given) -> _Read:
    if not isinstance(given.value, str) or not given.value:
        raise NoEqual("only the name of one tool has an equal")
    given.changed("tools are read from the answer here, not from a trace")
    return "ToolCalled", {"tool_name": given.value}


def _tool_arguments(given: Given) -> _Read:
    value = given.value if isinstance(given.value, dict) else {}
    name, arguments = value.get("name", value.get("tool")), value.get("args", value.get("arguments"))
    if not isinstance(name, str) or not isinstance(arguments, dict) or value.get("mode", "partial") != "partial":
        raise NoEqual("only the name of a tool with some of its arguments has an equal")
    given.changed("tools are read from the answer here, not from a trace")
    return "ToolCalledWith", {"tool_name": name, "arguments": arguments}


READERS: Mapping[str, Callable[[Given], _Read]] = {
    "equals": _equals,
    "contains": _contains,
    "icontains": _contains,
    "contains-all": _contains_all,
    "icontains-all": _contains_all,
    "contains-any": _contains_any,
    "icontains-any": _contains_any,
    "starts-with": _starts_with,
    "regex": _regex,
    "is-json": _is_json,
    "latency": _limit,
    "cost": _limit,
    "llm-rubric": _rubric,
    "factuality": _factuality,
    "model-graded-factuality": _factuality,
    "model-graded-closedqa": _closed_qa,
    "trajectory:tool-used": _tool_used,
    "trajectory:tool-args-match": _tool_arguments,
}
"""How each kind of assertion that has an equal is read."""
