"""Evaluators of answers that are JSON."""

from __future__ import annotations

import json
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import AliasChoices, Field, field_validator

from tui_evals.text import strictjson

from .base import (
    Evaluator,
    Evidence,
    Misconfigured,
    NoValueToJudge,
    Options,
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

    A lone number or text is JSON; code fences, trailing text, NaN and Infinity are not. A key that stands twice in one
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
    Options = ValueOptions
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
        violations = self._validator.violations(json_values(evidence, self.options.json_path))
        if not violations:
            return verdict_score(True, "the answer conforms to the schema", violations=[])
        return verdict_score(False, f"at {violations[0]['path']}: {violations[0]['message']}", violations=violations)
