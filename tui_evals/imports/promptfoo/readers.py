"""How each kind of assertion of promptfoo is read: the evaluator that means the same, and its options."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from tui_evals.evaluators.markup import DIALECTS
from tui_evals.imports.base import Losses
from tui_evals.imports.promptfoo.values import JAVASCRIPT
from tui_evals.light_records import dataclass
from tui_evals.text import strictjson
from tui_evals.text.patterns import PatternError, compile_pattern
from tui_evals.text.yamls import YamlError, load_yaml

from .files import Spot, kind_of
from .values import script_text

DRAFT_7 = "http://json-schema.org/draft-07/schema#"
FACT_SCORES = {"A": 1.0, "B": 1.0, "C": 1.0, "D": 0.0, "E": 1.0}
_AT_COMMAS = re.compile(r'(".*?"|[^,]+)(?=\s*,|\s*\Z)')
_QUOTES = re.compile(r'^"|"\Z')
SAME_PATTERN = re.compile(
    r"(?:[^\\$()\[\]{}]|\\[.*+?^$(){}|\[\]/-]|\((?!\?)|\(\?:|\)"
    r"|\{\d+(?:,\d*)?\}|\[\^?(?:[^\\\[\]&~|-]|[0-9A-Za-z]-[0-9A-Za-z])+\])*"
)
"""Patterns that mean the same here and in JavaScript; the engine judges by every other one."""
_OLDER_WORDS = frozenset(("additionalItems", "dependencies"))


class NoEqual(Exception):
    """There is no evaluator with the same meaning; the message says why."""


@dataclass(frozen=True, slots=True)
class Assertion:
    """An assertion with its rendered value."""

    spot: Spot
    kind: str
    negate: bool
    value: Any
    judge: str | None
    losses: Losses

    def changed(self, why: str) -> None:
        """Note that the evaluator does not mean quite the same."""
        self.losses.changed(f"not-{self.kind}" if self.negate else self.kind, self.spot.where, why)

    def check_filled(self) -> None:
        """NoEqual where the value is a template that came to nothing for this test."""
        if self.value == "" and self.spot.value.get("value"):
            raise NoEqual("its template is empty for this test, which is an error there")

    def scalar(self) -> str:
        """The value as one text."""
        self.check_filled()
        if self.value is None or self.value == "" or isinstance(self.value, list | dict):
            raise self.spot.wrong(f"value of {self.kind} must be text or a number, not {kind_of(self.value)}")
        return script_text(self.value)

    def several(self) -> list[str]:
        """The value as a list of texts; one text is split at its commas, and only contains-any respects quotes."""
        self.check_filled()
        value = self.value
        if isinstance(value, str) and value and self.kind == "contains-any":
            value = [_QUOTES.sub("", part[1].strip()) for part in _AT_COMMAS.finditer(value)]
        elif isinstance(value, str) and value:
            value = [part.strip() for part in value.split(",")]
        if not isinstance(value, list) or any(isinstance(part, list | dict) for part in value):
            raise self.spot.wrong(f"value of {self.kind} must be a list of texts, not {kind_of(self.value)}")
        return [script_text(part) for part in value]

    def threshold(self) -> float | None:
        """The threshold, where there is one."""
        given = self.spot.get("threshold")
        return None if given is None else given.number()

    def judged(self, options: dict[str, Any]) -> dict[str, Any]:
        """The options with the judge, if one is named."""
        return {**options, "judge": self.judge} if self.judge else options


Read = tuple[str, dict[str, Any]]


def _folding(given: Assertion, options: dict[str, Any]) -> dict[str, Any]:
    if not given.kind.startswith("icontains"):
        return options
    if not strictjson.dumps(options).isascii():
        given.changed("case is ignored as Unicode folds it, so ß equals ss")
    return {**options, "ignore_case": True}


def _equals(given: Assertion) -> Read:
    if isinstance(given.value, list | dict):
        if given.negate:
            given.changed("an answer that is no JSON fails there and passes here")
        return "Equals", {"value": strictjson.dumps(given.value), "json_path": "$"}
    return "Equals", {"value": "" if given.value == "" else given.scalar()}


def _contains(given: Assertion) -> Read:
    return "ContainsAll", _folding(given, {"values": [given.scalar()]})


def _contains_all(given: Assertion) -> Read:
    return "ContainsAll", _folding(given, {"values": given.several()})


def _contains_any(given: Assertion) -> Read:
    return "ContainsAny", _folding(given, {"values": given.several()})


def _starts_with(given: Assertion) -> Read:
    return "StartsWith", {"value": given.scalar()}


def _regex(given: Assertion) -> Read:
    pattern = given.scalar()
    if not SAME_PATTERN.fullmatch(pattern):
        return JAVASCRIPT, {"code": f"new RegExp({strictjson.dumps(pattern)}).test(output)"}
    try:
        compile_pattern(pattern)
    except PatternError as problem:
        raise NoEqual(str(problem)) from None
    return "Regex", {"pattern": pattern}


def _is_json(given: Assertion) -> Read:
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
        given.changed("what is no JSON, or violates the schema, passes here as in promptfoo 0.121; 0.119 fails it")
    return "JsonSchema", {"schema": schema, **({"no_json": "violation"} if given.negate else {})}


def _words(value: Any) -> Iterator[str]:
    for key, part in value.items() if isinstance(value, dict) else ():
        yield key
        yield from _words(part)
    for part in value if isinstance(value, list) else ():
        yield from _words(part)


def _has_tuple(value: Any) -> bool:
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return (isinstance(value, dict) and isinstance(value.get("items"), list)) or any(map(_has_tuple, parts))


def _limit(given: Assertion) -> Read:
    threshold = given.threshold()
    if threshold is not None:
        given.changed("exactly the threshold fails here")
    return given.kind.capitalize(), {} if threshold is None else {"threshold": threshold}


def _finish_reason(given: Assertion) -> Read:
    if not isinstance(given.value, str) or not given.value.strip():
        raise NoEqual("its value is not how an answer ends")
    given.changed("an answer without a finish reason is skipped here")
    return "FinishReason", {"allowed": [given.value.strip()]}


def _rubric(given: Assertion) -> Read:
    if not isinstance(given.value, str) or not given.value.strip():
        raise NoEqual("its rubric is not plain text")
    threshold = given.threshold()
    options: dict[str, Any] = {"criteria": given.value}
    if threshold is not None:
        options["threshold"] = round(1 + 4 * min(threshold, 1), 6)
    given.changed("the judge rates from 1 to 5 here, and 3 passes unless there is a threshold")
    return "Rubric", given.judged(options)


def _factuality(given: Assertion) -> Read:
    given.changed("the judge is asked in other words")
    options = {"spec": "fact", "spec_args": {"ideal": given.scalar()}, "choice_scores": dict(FACT_SCORES)}
    return "ModelGraded", given.judged({**options, "passing": [key for key, score in FACT_SCORES.items() if score]})


def _closed_qa(given: Assertion) -> Read:
    given.changed("the judge is asked in other words")
    return "ModelGraded", given.judged({"spec": "closedqa", "spec_args": {"criteria": given.scalar()}})


_FROM_TRANSCRIPT = "tools are read from the transcript of the answer here, not from a trace"


def _tool_used(given: Assertion) -> Read:
    value = given.value
    if isinstance(value, list) and value and all(isinstance(name, str) for name in value) and not given.negate:
        given.changed(_FROM_TRANSCRIPT)
        return "ToolTrajectory", {"calls": value, "match": "any_order"}
    name = value.get("name") if isinstance(value, dict) else value
    if not isinstance(name, str) or not name:
        raise NoEqual("only the names of tools have an equal")
    given.changed(_FROM_TRANSCRIPT)
    if isinstance(value, dict) and {"min", "max"} & value.keys():
        return "ToolCallCount", {"tool": name, **_bounds(given)}
    return "ToolCalled", {"tool_name": name}


def _tool_arguments(given: Assertion) -> Read:
    value = given.value if isinstance(given.value, dict) else {}
    name, arguments = value.get("name", value.get("tool")), value.get("args", value.get("arguments"))
    mode = value.get("mode", "partial")
    if not isinstance(name, str) or not isinstance(arguments, dict) or mode not in ("partial", "exact"):
        raise NoEqual("only the name of a tool with its arguments has an equal")
    given.changed(_FROM_TRANSCRIPT)
    return "ToolCalledWith", {"tool_name": name, "arguments": arguments, **({"match": mode} if mode == "exact" else {})}


def _bounds(given: Assertion) -> dict[str, Any]:
    """The least and the most that an assertion allows."""
    value = given.value if isinstance(given.value, dict) else {}
    found = {
        ours: value[theirs] for ours, theirs in (("least", "min"), ("most", "max")) if type(value.get(theirs)) is int
    }
    if not found:
        raise NoEqual("only a min or a max in whole numbers has an equal")
    return found


def _step_count(given: Assertion) -> Read:
    kind = given.value.get("type") if isinstance(given.value, dict) else None
    if kind not in (None, "tool"):
        raise NoEqual(f"steps of the type {kind} have no equal")
    given.changed("steps are read from the transcript of the answer here, not from a trace")
    return "ToolCallCount" if kind == "tool" else "Steps", _bounds(given)


def _tool_sequence(given: Assertion) -> Read:
    value = given.value if isinstance(given.value, dict) else {"steps": given.value}
    steps = value.get("steps", value.get("tools"))
    if not isinstance(steps, list) or not steps or any(not isinstance(step, str) for step in steps):
        raise NoEqual("only a list of the names of tools has an equal")
    given.changed(_FROM_TRANSCRIPT)
    if value.get("mode") == "exact":
        return "ToolTrajectory", {"calls": steps}
    return "ToolOrder", {"tools": steps}


def _goal_success(given: Assertion) -> Read:
    goal = given.value.get("goal") if isinstance(given.value, dict) else given.value
    if not isinstance(goal, str) or not goal:
        raise NoEqual("only a goal in words has an equal")
    given.changed("the judge sees every step with its arguments and results")
    return "GoalReached", given.judged({"goal": goal})


def _skill_used(given: Assertion) -> Read:
    if not isinstance(given.value, str) or not given.value:
        raise NoEqual("only the name of one skill has an equal")
    given.changed("a skill counts as used where the tool Skill was called with its name")
    return "ToolCalledWith", {"tool_name": "Skill", "arguments": {"skill": given.value}}


def _span_count(given: Assertion) -> Read:
    pattern = given.value.get("pattern") if isinstance(given.value, dict) else None
    if not isinstance(pattern, str) or re.search(r"[*?\[]", pattern.strip("*")):
        raise NoEqual("only spans of one name have an equal")
    name = pattern.strip("*").removeprefix("execute_tool").strip()
    given.changed("calls of tools are counted here, not spans")
    return "ToolCallCount", {**({"tool": name} if name else {}), **_bounds(given)}


def _span_duration(given: Assertion) -> Read:
    value = given.value if isinstance(given.value, dict) else {}
    most = value.get("max")
    if not isinstance(most, int | float) or isinstance(most, bool) or value.get("percentile") is not None:
        raise NoEqual("only a max without a percentile has an equal")
    given.changed("the time of each step is compared here, and an answer without steps is skipped instead of passed")
    return "StepTime", {"threshold": float(most)}


def _error_spans(given: Assertion) -> Read:
    value = {"max_count": given.value} if isinstance(given.value, int) else given.value or {}
    if not isinstance(value, dict) or value.get("max_count") or value.keys() - {"max_count"}:
        raise NoEqual("only a max_count of 0 has an equal")
    given.changed("failed calls of tools count here, and an answer without calls is skipped instead of passed")
    return "ToolsSucceeded", {}


def _contains_json(given: Assertion) -> Read:
    name, options = _is_json(replace(given, negate=False))
    if given.negate and name == "JsonSchema":
        given.changed("there it passes where JSON conforms to the schema")
    given.changed("there only objects count, also within lists and with small mistakes such as a comma too many")
    return "ContainsJson", options if name == "JsonSchema" else {}


def _edits(given: Assertion) -> Read:
    threshold = given.threshold()
    given.changed("a sign beyond the first 65,536 is one edit here, and two there")
    return "Levenshtein", {"value": given.scalar(), "most_edits": 5 if threshold is None else int(threshold)}


def _overlap(given: Assertion) -> Read:
    threshold = given.threshold()
    given.changed("words are counted as ROUGE-1 does here, by F1")
    return "RougeN", {"value": given.scalar(), "threshold": 0.75 if threshold is None else threshold}


def _similar(given: Assertion) -> Read:
    threshold = given.threshold()
    if isinstance(given.value, list):
        raise NoEqual("it names several texts, of which one has to be near; the evaluator here takes one")
    given.changed("the embeddings are those of [judge] embedding here")
    return "EmbeddingSimilarity", {"value": given.scalar(), "threshold": 0.75 if threshold is None else threshold}


def _word_count(given: Assertion) -> Read:
    value = given.value
    bounds = (value.get("min"), value.get("max")) if isinstance(value, dict) else (value, value)
    if isinstance(value, str) and value.strip().isdigit():
        bounds = (int(value), int(value))
    if bounds == (None, None) or any(type(bound) not in (int, type(None)) for bound in bounds):
        raise given.spot.wrong("value of word-count must be a whole number, or hold min or max")
    named = {name: bound for name, bound in zip(("at_least", "at_most"), bounds, strict=True) if bound is not None}
    return "Length", {"unit": "words", **named}


def _anywhere(given: Assertion) -> dict[str, Any]:
    return {"anywhere": True} if given.kind.startswith("contains-") else {}


def _xml(given: Assertion) -> Read:
    value = given.value
    if isinstance(value, dict):
        value = value.get("requiredElements")
    if isinstance(value, str):
        value = [part.strip() for part in value.split(",") if part.strip()]
    if value is not None and (not isinstance(value, list) or any(not isinstance(one, str) for one in value)):
        raise given.spot.wrong(f"value of {given.kind} must name elements, not {kind_of(given.value)}")
    return "Xml", {**_anywhere(given), **({"elements": value} if value else {})}


def _html(given: Assertion) -> Read:
    return "Html", _anywhere(given)


def _sql(given: Assertion) -> Read:
    value = given.value or {}
    if not isinstance(value, dict):
        raise given.spot.wrong(f"value of {given.kind} must be a mapping, not {kind_of(given.value)}")
    database = value.get("databaseType") or "MySQL"
    if database not in DIALECTS:
        raise NoEqual(f"the SQL of {database} is not read here")
    given.changed("another parser reads the SQL here, which takes some statements that theirs refuses")
    ours = {"tables": "allowedTables", "columns": "allowedColumns"}
    named = {name: value[theirs] for name, theirs in ours.items() if value.get(theirs) is not None}
    return "Sql", {**_anywhere(given), **({} if database == "MySQL" else {"database": database}), **named}


def _refusal(given: Assertion) -> Read:
    given.changed("the phrases that count as a refusal are others here; Refusal asks a judge instead")
    return "RefusalWords", {}


def _references(given: Assertion) -> list[str]:
    value = given.value if isinstance(given.value, list) else [given.scalar()]
    if not value or any(not isinstance(one, str) for one in value):
        raise given.spot.wrong(f"value of {given.kind} must be a text or a list of texts, not {kind_of(given.value)}")
    return value


def _shared_runs(given: Assertion) -> Read:
    threshold = given.threshold()
    values = {"values": _references(given), **({} if threshold is None else {"threshold": threshold})}
    if given.kind == "gleu":
        return "Gleu", values
    return "Bleu", {"compat": True, **values}


def _tools_f1(given: Assertion) -> Read:
    value = given.value.split(",") if isinstance(given.value, str) else given.value
    names = [str(one).strip() for one in value if str(one).strip()] if isinstance(value, list) else []
    if not names:
        raise given.spot.wrong(f"value of {given.kind} must name tools, not {kind_of(given.value)}")
    threshold = given.threshold()
    given.changed("calls are those of the answer here; calls that its text writes out as JSON do not count")
    return "ToolsF1", {"tools": list(dict.fromkeys(names)), **({} if threshold is None else {"threshold": threshold})}


def _function_call(given: Assertion) -> Read:
    given.changed("the tools are those of the item here, not those of the provider")
    return "ValidToolCalls", {}


def _geval(given: Assertion) -> Read:
    criteria = given.value if isinstance(given.value, list) else [given.value]
    if not criteria or any(not isinstance(one, str) or not one.strip() for one in criteria):
        raise NoEqual("its criteria are not plain text")
    threshold = given.threshold()
    given.changed("the judge rates all criteria together from 1 to 5, in words of ours")
    rating = round(1 + 4 * min(0.7 if threshold is None else threshold, 1), 6)
    return "Rubric", given.judged({"criteria": "\n".join(criteria), "threshold": rating})


def _relevance(given: Assertion) -> Read:
    threshold = given.threshold()
    if given.kind == "conversation-relevance":
        given.changed("the judge rates the last answer here, not each part of the conversation")
        threshold = 0.5 if threshold is None else threshold
    else:
        given.changed("the judge rates from 1 to 5; there embeddings of questions made from the answer are compared")
    return "Relevance", given.judged({"threshold": round(1 + 4 * min(threshold or 0, 1), 6)})


READERS: Mapping[str, Callable[[Assertion], Read]] = {
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
    "contains-json": _contains_json,
    "levenshtein": _edits,
    "rouge-n": _overlap,
    "word-count": _word_count,
    "similar": _similar,
    "similar:cosine": _similar,
    "is-valid-openai-tools-call": lambda given: ("ValidToolCalls", {}),
    "is-valid-function-call": _function_call,
    "is-valid-openai-function-call": _function_call,
    "is-xml": _xml,
    "contains-xml": _xml,
    "is-html": _html,
    "contains-html": _html,
    "is-sql": _sql,
    "contains-sql": _sql,
    "is-refusal": _refusal,
    "bleu": _shared_runs,
    "gleu": _shared_runs,
    "tool-call-f1": _tools_f1,
    "g-eval": _geval,
    "answer-relevance": _relevance,
    "conversation-relevance": _relevance,
    "latency": _limit,
    "cost": _limit,
    "finish-reason": _finish_reason,
    "llm-rubric": _rubric,
    "factuality": _factuality,
    "model-graded-factuality": _factuality,
    "model-graded-closedqa": _closed_qa,
    "trajectory:tool-used": _tool_used,
    "trajectory:tool-args-match": _tool_arguments,
    "trajectory:tool-sequence": _tool_sequence,
    "trajectory:step-count": _step_count,
    "trajectory:goal-success": _goal_success,
    "skill-used": _skill_used,
    "trace-span-count": _span_count,
    "trace-span-duration": _span_duration,
    "trace-error-spans": _error_spans,
}
"""How each kind of assertion that has an equal is read."""
