"""Evaluators of answers that are JSON, and JSON Schema over untrusted schemas: nothing fetched, the work bounded."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextvars import ContextVar
from dataclasses import field
from functools import cache, cached_property
from typing import Any, ClassVar, Literal, NoReturn

from jsonschema import Draft202012Validator, FormatChecker
from jsonschema.exceptions import SchemaError, ValidationError
from jsonschema.validators import extend, validator_for
from pydantic import AliasChoices, Field, field_validator
from referencing import Registry
from referencing.exceptions import Unresolvable
from referencing.jsonschema import specification_with

from tui_evals.evaluators.base import (
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
from tui_evals.evaluators.values import PatternBudget, quoted, quoted_list, same_json
from tui_evals.light_records import dataclass
from tui_evals.text import strictjson
from tui_evals.text.patterns import PatternError, PatternTimeout, compile_pattern

MAX_STEPS = 50_000  # about a second
MAX_LISTED = 10
_REFERENCE_KEYWORDS = {"$ref", "$dynamicRef", "$recursiveRef"}
_WALKING_KEYWORDS = {
    *("items", "prefixItems", "additionalItems", "unevaluatedItems", "contains", "propertyNames"),
    *("patternProperties", "additionalProperties", "unevaluatedProperties"),
}

Schema = Mapping[str, Any]
Keyword = Callable[[Any, Any, Any, Any], Iterable[ValidationError] | None]


class _Exhausted(Exception):
    """The answer took more steps than allowed."""


@dataclass(slots=True)
class _Budget:
    steps: int = MAX_STEPS
    pattern_budget: PatternBudget = field(default_factory=PatternBudget)


_budget: ContextVar[_Budget] = ContextVar("budget")


def _spend(steps: int) -> None:
    budget = _budget.get()
    budget.steps -= steps
    if budget.steps < 0:
        raise _Exhausted


def _container_size(value: object) -> int:
    return len(value) if isinstance(value, dict | list) else 0


def _clip_message(message: str) -> str:
    return message if len(message) <= 200 else message[:199] + "…"


def _matches(pattern: str, text: str) -> bool:
    _spend(1)
    return _budget.get().pattern_budget.search(lambda name: compile_pattern(pattern).search(name), text)


def _pattern(_: Any, value: str, instance: object, __: object) -> Iterator[ValidationError]:
    if isinstance(instance, str) and not _matches(value, instance):
        yield ValidationError(f"{_clip_message(repr(instance))} does not match {value!r}")


def _pattern_properties(validator: Any, value: Schema, instance: object, _: object) -> Iterator[ValidationError]:
    if isinstance(instance, dict):
        for pattern, schema in value.items():
            for name, part in instance.items():
                if _matches(pattern, name):
                    yield from validator.descend(part, schema, path=name, schema_path=pattern)


def _additional_properties(validator: Any, value: Any, instance: object, schema: Schema) -> Iterator[ValidationError]:
    if not isinstance(instance, dict):
        return
    known, patterns = schema.get("properties", {}), schema.get("patternProperties", {})
    extras = [name for name in instance if name not in known and not any(_matches(each, name) for each in patterns)]
    if isinstance(value, dict):
        for name in extras:
            yield from validator.descend(instance[name], value, path=name)
    elif not value and extras:
        yield ValidationError(f"unexpected properties: {', '.join(map(repr, extras))}")


def _unique_items(_: Any, value: bool, instance: object, __: object) -> Iterator[ValidationError]:
    if value and isinstance(instance, list) and len({_hashable(item) for item in instance}) < len(instance):
        yield ValidationError("some items are the same")


def _hashable(value: object) -> object:
    """A hashable value that is equal exactly for equal JSON values."""
    _spend(1)
    if isinstance(value, dict):
        return frozenset((name, _hashable(part)) for name, part in value.items())
    if isinstance(value, list):
        return tuple(map(_hashable, value))
    return (isinstance(value, bool), value)


_OWN_KEYWORDS: Mapping[str, Keyword] = {
    "pattern": _pattern,
    "patternProperties": _pattern_properties,
    "additionalProperties": _additional_properties,
    "uniqueItems": _unique_items,
}


def _metered_keyword(name: str, keyword: Keyword) -> Keyword:
    """The keyword with a meter for the parts it visits and the messages it writes."""
    price, walks = (5 if name in _REFERENCE_KEYWORDS else 1), name in _WALKING_KEYWORDS

    def check(validator: Any, value: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
        _spend(price + _container_size(value) // 10 + (_container_size(instance) // 2 if walks else 0))
        for violation in keyword(validator, value, instance, schema) or ():
            yield violation
            _spend(len(violation.message) // 100)

    return check


@cache
def _safe_validator(dialect: Any) -> Any:
    """The validator of a draft with our own patterns, every keyword counted."""
    keywords = {
        name: _metered_keyword(name, _OWN_KEYWORDS.get(name, keyword)) for name, keyword in dialect.VALIDATORS.items()
    }
    return extend(dialect, keywords)  # type: ignore[no-untyped-call]


def _schema_dialect(schema: Schema) -> Any:
    uri = schema.get("$schema", Draft202012Validator.META_SCHEMA["$schema"])
    dialect = validator_for({"$schema": uri}, Draft202012Validator) if isinstance(uri, str) else None
    if dialect is None or dialect.META_SCHEMA["$schema"].rstrip("#") != uri.rstrip("#"):
        raise ValueError(f"$schema names the draft {uri!r}, which is not known; leave it out for draft 2020-12")
    return dialect


def check_schema(schema: Schema) -> None:
    """Raise ValueError with a sentence when the schema cannot be used."""
    dialect = _schema_dialect(schema)
    create = specification_with(dialect.META_SCHEMA["$schema"]).create_resource
    try:
        dialect.check_schema(schema, format_checker=FormatChecker(formats=()))
        parts = list(_schema_parts(schema, Registry().resolver_with_root(create(schema)), create))
    except SchemaError as problem:
        raise ValueError(f"not a JSON Schema at {problem.json_path}: {_clip_message(problem.message)}") from None
    except RecursionError:
        raise ValueError("the schema is nested too deeply to check") from None
    if any(isinstance(part.get("$schema"), str) for part, _ in parts[1:]):
        raise ValueError("$schema is allowed only at the root of the schema")
    keywords = {keyword for part, _ in parts for keyword in part}
    if {"unevaluatedProperties", "patternProperties"} <= keywords:
        # the library would run those patterns itself, in an engine that can hang
        raise ValueError("unevaluatedProperties and patternProperties cannot be checked together; use one of them")
    for part, resolver in parts:
        _check_references(part, resolver)


def _schema_parts(node: object, resolver: Any, create: Callable[[Any], Any]) -> Iterator[tuple[Schema, Any]]:
    """Every object, under any keyword (a reference may point anywhere), and what resolves it."""
    if isinstance(node, dict):
        if isinstance(create(node).id(), str):
            resolver = resolver.in_subresource(create(node))
        yield node, resolver
    for part in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
        yield from _schema_parts(part, resolver, create)


def _check_references(part: Schema, resolver: Any) -> None:
    for reference in (part.get("$ref"), part.get("$dynamicRef")):
        try:
            if isinstance(reference, str):
                resolver.lookup(reference)
        except (Unresolvable, ValueError, TypeError):
            reason = f"the schema refers to {reference!r}, which is not inside it; nothing is fetched or read from disk"
            raise ValueError(reason) from None
    properties = part.get("patternProperties")
    for pattern in (part.get("pattern"), *(properties if isinstance(properties, dict) else ())):
        try:
            if isinstance(pattern, str):
                compile_pattern(pattern)
        except PatternError as problem:
            raise ValueError(str(problem)) from None


class SchemaValidator:
    """A schema that passed `check`, ready to be compared with answers."""

    def __init__(self, schema: Schema) -> None:
        # a nested `$schema` would replace our validator by the library's own, with its patterns
        plain = {name: part for name, part in schema.items() if name != "$schema"}
        self._validator = _safe_validator(_schema_dialect(schema))(plain, registry=Registry())

    def violations(self, values: Iterable[object]) -> list[dict[str, str]]:
        """The first violations, each with its JSON path and a message."""
        violations: list[dict[str, str]] = []
        token = _budget.set(_Budget())
        try:
            for violation in (each for value in values for each in self._validator.iter_errors(value)):
                violations.append({"path": violation.json_path, "message": _clip_message(violation.message)})
                if len(violations) == MAX_LISTED:
                    break
        except _Exhausted:
            if not violations:
                raise CannotJudge("responseTooLarge", "the answer is too large to check against this schema") from None
        except RecursionError:
            reason = "the answer is nested too deeply for this schema, or the schema refers to itself without end"
            raise CannotJudge("responseTooLarge", reason) from None
        except PatternTimeout as problem:
            raise CannotJudge("patternTimeout", str(problem)) from None
        finally:
            _budget.reset(token)
        return violations


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
    """Passes when the answer, parsed as JSON, equals any reference parsed as JSON.

    Objects are compared regardless of key order, arrays by position, scalars like OpenAI Evals: 1 equals 1.0 and true,
    0 equals false, and null equals nothing, not even null. Code fences are not JSON. A reference that is not JSON is an
    error.
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
        # its library takes a twentieth of a run's start

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
"""The distance of an attempt that does not say how far it got."""


def embedded_json(text: str) -> Iterator[object]:
    """The JSON objects and lists in a text, from left to right; CannotJudge where that takes too long."""
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
    """Passes when a JSON object or list is somewhere in the answer, in prose or a code fence.

    With `schema` one of them must conform to it, and the details list the violations of the last one. A list such as
    `[1]` is JSON too: give a schema if the answer may contain such lists. JSON inside a JSON value is not checked
    separately.
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
