"""Likely mistakes in tools and JSON Schemas: misspelled keys and unknown types."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain
from typing import Any

from tui_evals.datasets.paths import Path, Problem
from tui_evals.text.names import did_you_mean

_FUNCTION = ("name", "description", "parameters", "strict")
_FLAT = ("type", "function", "input_schema")
_SCHEMA_IN = (
    *("items", "additionalProperties", "unevaluatedItems", "unevaluatedProperties", "contains"),
    *("propertyNames", "not", "if", "then", "else", "contentSchema"),
)
_SCHEMAS_BY_NAME = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
_SCHEMAS_IN_LIST = ("allOf", "anyOf", "oneOf", "prefixItems")
_WANTED: Mapping[str, str] = {
    **dict.fromkeys(_SCHEMAS_BY_NAME, "an object with a schema for each name"),
    **dict.fromkeys(_SCHEMAS_IN_LIST, "a list of schemas"),
    **dict.fromkeys(("$schema", "$id", "$ref", "$anchor", "$comment", "$dynamicRef", "$dynamicAnchor"), "text"),
    **dict.fromkeys(("title", "description", "format", "pattern", "contentEncoding", "contentMediaType"), "text"),
    **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"), "a number"),
    **dict.fromkeys(("minLength", "maxLength", "minItems", "maxItems", "minContains"), "a whole number of 0 or more"),
    **dict.fromkeys(("maxContains", "minProperties", "maxProperties"), "a whole number of 0 or more"),
    **dict.fromkeys(("uniqueItems", "deprecated", "readOnly", "writeOnly", "nullable"), "true or false"),
    **dict.fromkeys(("enum", "examples"), "a list"),
    "required": "a list of names",
    "dependentRequired": "an object with a list of names for each name",
}
_FITS: Mapping[str, Callable[[Any], bool]] = {
    "an object with a schema for each name": lambda value: isinstance(value, dict),
    "a list of schemas": lambda value: isinstance(value, list),
    "text": lambda value: isinstance(value, str),
    "a number": lambda value: isinstance(value, (int, float)) and not isinstance(value, bool),
    "a whole number of 0 or more": lambda value: type(value) in (int, float) and value >= 0 and value % 1 == 0,
    "true or false": lambda value: isinstance(value, bool),
    "a list": lambda value: isinstance(value, list),
    "a list of names": lambda value: isinstance(value, list) and all(isinstance(one, str) for one in value),
    "an object with a list of names for each name": lambda value: isinstance(value, dict),
}
_KEYWORDS = (*_SCHEMA_IN, *_WANTED, "type", "const", "default", "$vocabulary", "strict")
_TYPES = ("string", "number", "integer", "boolean", "object", "array", "null")


def tool_problems(tool: Mapping[str, Any]) -> Iterator[Problem]:
    """Likely mistakes in the definition of a tool, as warnings: providers have keys of their own."""
    function = tool.get("function")
    if isinstance(function, dict):
        yield from _misspelt(tool, ("type", "function"), ())
        yield from _function_problems(function, ("function",), needs_name=True)
    else:
        needs_name = tool.get("type") == "function"
        yield from _function_problems(tool, (), needs_name=needs_name)


def result_problems(data: Mapping[str, Any]) -> Iterator[Problem]:
    """Warnings for scripted results of a dataset whose tool it does not define, so the model cannot call it."""
    if data.get("mcp") or data.get("tool_functions") or not isinstance(data.get("tools"), list):
        return
    names = {tool_name(tool) for tool in data["tools"]}
    items = data["items"] if isinstance(data.get("items"), list) else []
    scripted = (
        (("items", number), item)
        for number, item in enumerate(items)
        if isinstance(item, dict) and "tool_results" in item
    )
    units: Iterable[tuple[Path, Any]] = chain([((), data)], scripted)
    for path, unit in units:
        results = unit.get("tool_results") if isinstance(unit, dict) else None
        own = {tool_name(tool) for tool in unit["tools"]} if path and isinstance(unit.get("tools"), list) else names
        for number, result in enumerate(results if isinstance(results, list) else ()):
            tool = result.get("tool") if isinstance(result, dict) else None
            if isinstance(tool, str) and tool not in own:
                message = f"there is no tool '{tool}' in tools{did_you_mean(tool, filter(None, own))}"
                yield _warning(message, (*path, "tool_results", number, "tool"))


def tool_name(tool: object) -> str:
    """The name of a tool in its definition."""
    function = tool.get("function", tool) if isinstance(tool, dict) else None
    name = function.get("name") if isinstance(function, dict) else None
    return name if isinstance(name, str) else ""


def _function_problems(body: Mapping[str, Any], path: Path, *, needs_name: bool) -> Iterator[Problem]:
    """A function as the chat protocol nests it, or with its keys next to its type as other protocols do."""
    misspelt = list(_misspelt(body, _FUNCTION if path else (*_FUNCTION, *_FLAT), path))
    yield from misspelt
    if needs_name and "name" not in body and not misspelt:
        yield _warning("name is missing" if path else "function is missing, an object with a name and parameters", path)
    for key in ("parameters", "input_schema"):
        if key in body:
            yield from schema_problems(body[key], (*path, key))


def schema_problems(schema: object, path: Path = ()) -> Iterator[Problem]:
    """Likely mistakes in a JSON Schema and those inside it, as warnings.

    The meta-schema would find most of them too, forty times slower.
    """
    if isinstance(schema, bool):
        return
    if not isinstance(schema, dict):
        yield _warning("must be a JSON Schema: an object, or true or false", path)
        return
    yield from _misspelt(schema, _KEYWORDS, path)
    for key, value in schema.items():
        wanted = _WANTED.get(key)
        if wanted is not None and not _FITS[wanted](value):
            yield _warning(f"must be {wanted}", (*path, key))
    yield from _type_problems(schema.get("type"), (*path, "type"))
    yield from _required_problems(schema.get("properties"), schema.get("required"), (*path, "required"))
    for place, inner in _inner_schemas(schema):
        yield from schema_problems(inner, (*path, *place))


def _type_problems(types: object, path: Path) -> Iterator[Problem]:
    for place, name in enumerate(types) if isinstance(types, list) else [(None, types)]:
        if name not in (None, *_TYPES):
            hint = did_you_mean(str(name), _TYPES) or f"; there are {', '.join(_TYPES)}"
            yield _warning(f"there is no type '{name}'{hint}", path if place is None else (*path, place))


def _required_problems(properties: object, required: object, path: Path) -> Iterator[Problem]:
    if isinstance(properties, dict) and isinstance(required, list):
        for place, name in enumerate(required):
            hint = did_you_mean(name, properties) if isinstance(name, str) and name not in properties else ""
            if hint:
                yield _warning(f"'{name}' is none of the properties{hint}", (*path, place))


def _inner_schemas(schema: Mapping[str, Any]) -> Iterator[tuple[Path, object]]:
    """The schemas inside a schema; `items` may be a list of schemas, as in older drafts."""
    for key, value in schema.items():
        if isinstance(value, dict) and key in _SCHEMAS_BY_NAME:
            yield from (((key, name), one) for name, one in value.items())
        elif isinstance(value, list) and key in (*_SCHEMAS_IN_LIST, "items"):
            yield from (((key, number), one) for number, one in enumerate(value))
        elif key in _SCHEMA_IN:
            yield (key,), value


def _misspelt(node: Mapping[str, Any], known: Iterable[str], path: Path) -> Iterator[Problem]:
    """Keys that are similar to a known one; other unknown keys may be the provider's own."""
    free = [name for name in known if name not in node]
    for key in node:
        if key not in known and (hint := did_you_mean(key, free)):
            yield _warning(f"unknown key '{key}'{hint}", (*path, key))


def _warning(message: str, path: Path) -> Problem:
    return Problem(message, path, severity="warning")
