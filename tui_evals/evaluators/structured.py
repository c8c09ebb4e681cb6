"""Evaluators of answers that are JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NoReturn

from pydantic import AliasChoices, Field, field_validator

from tui_evals.text import strictjson

from .base import (
    CannotJudge,
    Evaluator,
    Evidence,
    Misconfigured,
    NoValueToJudge,
    Options,
    ReferenceOptions,
    Score,
    ValueOptions,
    response_values,
    verdict_score,
)
from .values import quoted, quoted_list, same_json

if TYPE_CHECKING:
    from .json_schema import SchemaValidator


def _json_problem(problem: strictjson.JsonError) -> str:
    column = f", column {problem.column}" if problem.column else ""
    return f"{problem} (line {problem.line}{column})" if problem.line else str(problem)


def json_values(evidence: Evidence, json_path: str | None) -> tuple[object, ...]:
    """The answer as a JSON value, or the values at the path."""
    if json_path not in (None, "$"):
        return response_values(evidence, json_path)
    try:
        return (strictjson.loads(evidence.response or "", duplicates=True),)
    except strictjson.JsonError as problem:
        raise NoValueToJudge(f"the answer cannot be read as JSON: {_json_problem(problem)}") from None


class JsonValidOptions(Options):
    """Options of JsonValid."""

    compat: bool = Field(
        False,
        description="Read as OpenAI Evals does, with Python's own parser: NaN and Infinity are JSON, a BOM is not.",
    )


class JsonValid(Evaluator):
    """Passes when the answer is valid JSON.

    A lone number or text is JSON; code fences, trailing text, NaN and Infinity are not. A key that appears twice in one
    object passes and is named in the details. `compat` lets NaN and Infinity pass.
    """

    name = "JsonValid"
    aliases = ("JsonValidator",)
    family = "JSON"
    Options = JsonValidOptions
    example: ClassVar = {"response": '{"name": "Ada"}'}

    def score(self, evidence: Evidence) -> Score:
        """Parse it."""
        return (_python_parse_score if self.options.compat else _strict_parse_score)(evidence.response or "")


def _strict_parse_score(text: str) -> Score:
    try:
        try:
            strictjson.loads(text)
        except strictjson.DuplicateKey as twice:
            strictjson.loads(text, duplicates=True)
            return verdict_score(True, f"the answer is valid JSON, although {twice}", duplicate_key=str(twice))
    except strictjson.JsonError as problem:
        return verdict_score(False, _json_problem(problem), line=problem.line, column=problem.column)
    return verdict_score(True, "the answer is valid JSON")


def _python_parse_score(text: str) -> Score:
    try:
        json.loads(text)
    except (ValueError, RecursionError) as problem:
        return verdict_score(False, f"Python's parser refuses the answer: {problem}")
    return verdict_score(True, "Python's parser reads the answer")


def _scalars_match(left: object, right: object) -> bool:
    return left is not None and left == right


class JsonMatch(Evaluator):
    """Passes when the answer, read as JSON, equals any reference read as JSON.

    Objects are compared whatever the order of their keys, arrays by position, scalars as OpenAI Evals compares them:
    1 equals 1.0 and true, 0 equals false, and null equals nothing, not even null. Code fences are not JSON. A reference
    that is not JSON is an error.
    """

    name = "JsonMatch"
    family = "JSON"
    needs = ("response", "expected")
    Options = ReferenceOptions
    example: ClassVar = {"response": '{"a": 1, "b": [2]}', "expected": '{"b": [2], "a": 1}'}

    def score(self, evidence: Evidence) -> Score:
        """Compare the values."""
        references = {reference: _reference_value(reference) for reference in evidence.references}
        values = json_values(evidence, self.options.json_path)
        for text, reference in references.items():
            if any(same_json(value, reference, _scalars_match) for value in values):
                return verdict_score(True, f"the answer is the JSON value {quoted(text)}", picked=text)
        return verdict_score(False, f"the answer is not the JSON value {quoted_list(evidence.references)}", picked=None)


def _reference_value(text: str) -> object:
    try:
        return strictjson.loads(text, duplicates=True)
    except strictjson.JsonError as problem:
        reason = f"the reference {quoted(text)} cannot be read as JSON: {_json_problem(problem)}"
        raise Misconfigured(reason) from None


class JsonSchemaOptions(ValueOptions):
    """Options of JsonSchema."""

    json_schema: dict[str, Any] = Field(
        validation_alias=AliasChoices("schema", "json_schema", "jsonSchema"),
        description="The JSON Schema of the answer: draft 2020-12, or the draft its $schema names.",
    )
    no_json: Literal["fail", "violation"] = Field(
        "fail",
        description="What an answer that is not JSON comes to: a fail, also with negate, or a violation of the schema, "
        "which negate passes as promptfoo does.",
    )

    @field_validator("json_schema")
    @classmethod
    def _usable(cls, schema: dict[str, Any]) -> dict[str, Any]:
        from .json_schema import check_schema  # its library takes a twentieth of a run's start

        check_schema(schema)
        return schema


class JsonSchema(Evaluator):
    """Passes when the answer is JSON that conforms to the schema.

    References must stay inside the schema: nothing is fetched or read from disk. `format` is not checked. The details
    list the first ten violations with their JSON path. With json_path every matching value must conform.
    """

    name = "JsonSchema"
    family = "JSON"
    Options = JsonSchemaOptions
    example: ClassVar = {"options": {"schema": {"type": "object", "required": ["name"]}}, "response": '{"name": "Ada"}'}

    @cached_property
    def _validator(self) -> SchemaValidator:
        from .json_schema import SchemaValidator

        return SchemaValidator(self.options.json_schema)

    def score(self, evidence: Evidence) -> Score:
        """List the violations."""
        try:
            values = json_values(evidence, self.options.json_path)
        except NoValueToJudge as problem:
            if self.options.no_json == "fail":
                raise
            return verdict_score(False, str(problem), violations=[])
        violations = self._validator.violations(values)
        if not violations:
            return verdict_score(True, "the answer conforms to the schema", violations=[])
        return verdict_score(False, f"at {violations[0]['path']}: {violations[0]['message']}", violations=violations)


MAX_SEARCHED = 2_000_000
"""Characters that are read in vain, in all, in search of JSON within a text."""
_OPENING = re.compile(r"[{\[]")
_UNREADABLE = 1_000
"""What an attempt counts as that says nothing of how far it came."""


def embedded_json(text: str) -> Iterator[object]:
    """The JSON objects and lists that stand in a text, from left to right; CannotJudge where that takes too long."""
    decoder, spent, start = json.JSONDecoder(parse_constant=_no_constant), 0, _OPENING.search(text)
    while start is not None:
        place = start.start()
        try:
            value, end = decoder.raw_decode(text, place)
        except json.JSONDecodeError as problem:
            spent += problem.pos - place + place // 1_000 + 1  # the parser counts the lines before the fault
            end = place + 1
        except _Constant:
            spent += len(text) - place
            end = place + 1
        except (ValueError, RecursionError):
            spent += _UNREADABLE
            end = place + 1
        else:
            yield value
        if spent > MAX_SEARCHED:
            raise CannotJudge("responseTooLarge", "the answer holds too many brackets to search for JSON in it")
        start = _OPENING.search(text, end)


class _Constant(ValueError):
    """NaN or Infinity, which are not JSON."""


def _no_constant(name: str) -> NoReturn:
    raise _Constant(name)


class ContainsJsonOptions(Options):
    """Options of ContainsJson."""

    json_schema: dict[str, Any] | None = Field(
        None,
        validation_alias=AliasChoices("schema", "json_schema", "jsonSchema"),
        description="The JSON Schema that one of the values must conform to; without it any object or list will do.",
    )

    @field_validator("json_schema")
    @classmethod
    def _usable(cls, schema: dict[str, Any] | None) -> dict[str, Any] | None:
        return schema if schema is None else JsonSchemaOptions._usable(schema)


class ContainsJson(Evaluator):
    """Passes when a JSON object or list stands somewhere in the answer, in prose or a code fence.

    With `schema` one of them must conform to it, and the details list what the last one violates. A list such as `[1]`
    is JSON too: give a schema where the answer may hold such. JSON within a JSON value is not looked at on its own.
    """

    name = "ContainsJson"
    family = "JSON"
    Options = ContainsJsonOptions
    example: ClassVar = {
        "options": {"schema": {"type": "object", "required": ["name"]}},
        "response": 'Here it is:\n```json\n{"name": "Ada"}\n```',
    }

    @cached_property
    def _validator(self) -> SchemaValidator | None:
        from .json_schema import SchemaValidator

        return None if self.options.json_schema is None else SchemaValidator(self.options.json_schema)

    def score(self, evidence: Evidence) -> Score:
        """Look for one that will do."""
        found, violations = 0, []
        for value in embedded_json(evidence.response or ""):
            found += 1
            violations = [] if self._validator is None else self._validator.violations([value])
            if not violations:
                kind = "an object" if isinstance(value, dict) else "a list"
                conforming = "" if self._validator is None else " that conforms to the schema"
                return verdict_score(True, f"the answer holds {kind}{conforming}", violations=[])
        if not found:
            return verdict_score(False, "no JSON object or list in the answer", violations=[])
        reason = f"none of the {found:,} JSON values in the answer conforms to the schema"
        if found == 1:
            reason = f"the JSON in the answer does not conform: at {violations[0]['path']}: {violations[0]['message']}"
        return verdict_score(False, reason, violations=violations)
