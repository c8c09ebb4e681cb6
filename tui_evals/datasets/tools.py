"""What is most likely wrong with tools and JSON Schemas: keys that are misspelt, types there are none of."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from tui_evals.text.nearest import did_you_mean

from .layout import Path
from .problems import Problem

_FUNCTION = ("name", "description", "parameters", "strict")
_FLAT = ("type", "function", "input_schema")
_SCHEMA_IN = (
    *("items", "additionalProperties", "unevaluatedItems", "unevaluatedProperties", "contains"),
    *("propertyNames", "not", "if", "then", "else"),
)
_SCHEMAS_BY_NAME = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
_SCHEMAS_IN_LIST = ("allOf", "anyOf", "oneOf", "prefixItems")
_KEYWORDS = (
    *(*_SCHEMA_IN, *_SCHEMAS_BY_NAME, *_SCHEMAS_IN_LIST),
    *("$schema", "$id", "$ref", "$anchor", "$comment", "$dynamicRef", "$dynamicAnchor", "$vocabulary"),
    *("type", "enum", "const", "required", "dependentRequired", "title", "description", "default", "examples"),
    *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "format", "pattern"),
    *("minLength", "maxLength", "minItems", "maxItems", "uniqueItems", "minContains", "maxContains"),
    *("minProperties", "maxProperties", "deprecated", "readOnly", "writeOnly", "nullable", "strict"),
    *("contentEncoding", "contentMediaType", "contentSchema"),
)
_TYPES = ("string", "number", "integer", "boolean", "object", "array", "null")


def tool_problems(tool: Mapping[str, Any]) -> Iterator[Problem]:
    """What is most likely wrong with the definition of a tool, as warnings: providers have keys of their own."""
    function = tool.get("function")
    if isinstance(function, dict):
        yield from _misspelt(tool, ("type", "function"), ())
        yield from _function_problems(function, ("function",), needs_name=True)
    else:
        needs_name = tool.get("type") == "function"
        yield from _function_problems(tool, (), needs_name=needs_name)


def _function_problems(body: Mapping[str, Any], path: Path, *, needs_name: bool) -> Iterator[Problem]:
    """A function as the chat protocol nests it, or with its keys beside its type as other protocols do."""
    misspelt = list(_misspelt(body, _FUNCTION if path else (*_FUNCTION, *_FLAT), path))
    yield from misspelt
    if needs_name and "name" not in body and not misspelt:
        yield _warning("name is missing" if path else "function is missing, an object with a name and parameters", path)
    for key in ("parameters", "input_schema"):
        if key in body:
            yield from schema_problems(body[key], (*path, key))


def schema_problems(schema: object, path: Path = ()) -> Iterator[Problem]:
    """What is most likely wrong with a JSON Schema, as warnings: what is misspelt, else what its rules refuse."""
    found = list(_in_schema(schema, path))
    yield from found
    yield from _against_rules(schema, path, {problem.path for problem in found})


def _in_schema(schema: object, path: Path) -> Iterator[Problem]:
    """What is misspelt in a schema and in those within it."""
    if not isinstance(schema, dict):
        return
    yield from _misspelt(schema, _KEYWORDS, path)
    types = schema.get("type")
    for place, name in enumerate(types) if isinstance(types, list) else [(None, types)]:
        if isinstance(name, str) and name not in _TYPES:
            at = (*path, "type") if place is None else (*path, "type", place)
            hint = did_you_mean(name, _TYPES) or f"; there are {', '.join(_TYPES)}"
            yield _warning(f"there is no type '{name}'{hint}", at)
    properties, required = schema.get("properties"), schema.get("required")
    if isinstance(properties, dict) and isinstance(required, list):
        for place, name in enumerate(required):
            hint = did_you_mean(name, properties) if isinstance(name, str) and name not in properties else ""
            if hint:
                yield _warning(f"'{name}' is none of the properties{hint}", (*path, "required", place))
    for key in _SCHEMA_IN:
        yield from _in_schema(schema.get(key), (*path, key))
    for key in (*_SCHEMAS_BY_NAME, *_SCHEMAS_IN_LIST):
        inner = schema.get(key)
        for name, one in (
            inner.items() if isinstance(inner, dict) else enumerate(inner if isinstance(inner, list) else ())
        ):
            yield from _in_schema(one, (*path, key, name))


def _against_rules(schema: object, path: Path, told: set[Path]) -> Iterator[Problem]:
    """What the JSON Schema of JSON Schemas refuses, where nothing else was said of it."""
    from jsonschema import Draft202012Validator

    for error in Draft202012Validator(Draft202012Validator.META_SCHEMA).iter_errors(schema):
        at = (*path, *error.absolute_path)
        if not any(one[: len(at)] == at for one in told):
            yield _warning(f"is no JSON Schema: {error.message[:120]}", at)


def _misspelt(node: Mapping[str, Any], known: Iterable[str], path: Path) -> Iterator[Problem]:
    """Keys that are nearly one that could stand here; others may be the provider's own."""
    free = [name for name in known if name not in node]
    for key in node:
        if key not in known and (hint := did_you_mean(key, free)):
            yield _warning(f"unknown key '{key}'{hint}", (*path, key))


def _warning(message: str, path: Path) -> Problem:
    return Problem(message, path, severity="warning")
