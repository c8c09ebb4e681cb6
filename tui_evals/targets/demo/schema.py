"""The smallest value that a JSON Schema describes, for the demo target; no promise is made for unusual schemas."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

_DEEPEST = 12
_LABEL = re.compile(r"[A-Za-z0-9]{1,30}(?:[._-][A-Za-z0-9]{1,30}){1,6}")
_NUMBER = re.compile(r"\d{1,9}")
_FORMATS = {"date": "2031-04-14", "date-time": "2031-04-14T09:00:00Z", "email": "demo@example.org"}


def schema_in(wanted: object) -> Mapping[str, Any] | None:
    """The schema of a response format, also where it is wrapped as providers have it."""
    if not isinstance(wanted, Mapping):
        return None
    inner = wanted.get("json_schema", wanted)
    return inner.get("schema", inner) if isinstance(inner, Mapping) else None


def instance(schema: object, text: str) -> Any:
    """A value of the schema; names and numbers in it are taken from the text where there are any."""
    return _value(schema, schema, text, "value", 0)


def _value(schema: object, root: object, text: str, name: str, depth: int) -> Any:
    if not isinstance(schema, Mapping) or depth > _DEEPEST:
        return None
    if isinstance(schema.get("$ref"), str):
        return _value(_referred(schema["$ref"], root), root, text, name, depth + 1)
    for keyword in ("const", "default"):
        if keyword in schema:
            return schema[keyword]
    if isinstance(schema.get("enum"), list) and schema["enum"]:
        return next((value for value in schema["enum"] if str(value).lower() in text.lower()), schema["enum"][0])
    for keyword in ("anyOf", "oneOf", "allOf"):
        if isinstance(schema.get(keyword), list) and schema[keyword]:
            return _value(schema[keyword][0], root, text, name, depth + 1)
    kind = schema.get("type", "object" if "properties" in schema else "string")
    if isinstance(kind, list):
        kind = "null" if "null" in kind and "pattern" in schema else next(iter(kind), "null")
    if kind == "object":
        properties = schema.get("properties")
        properties = properties if isinstance(properties, Mapping) else {}
        required = schema.get("required")
        names = required if isinstance(required, list) else list(properties)
        return {str(each): _value(properties.get(str(each), {}), root, text, str(each), depth + 1) for each in names}
    if kind == "array":
        return [_value(schema.get("items"), root, text, name, depth + 1)] * max(1, _count(schema, "minItems"))
    return _scalar(schema, kind, text, name)


def _scalar(schema: Mapping[str, Any], kind: object, text: str, name: str) -> Any:
    if kind in ("integer", "number"):
        found = _NUMBER.search(text)
        value: float = int(found[0]) if found else 1
        lowest, highest = schema.get("minimum"), schema.get("maximum")
        value = lowest if isinstance(lowest, int | float) and value < lowest else value
        return highest if isinstance(highest, int | float) and value > highest else value
    if kind == "boolean":
        return True
    if kind == "null":
        return None
    label = _LABEL.search(text)
    said = _FORMATS.get(str(schema.get("format"))) or (label[0] if label else name)
    highest = schema.get("maxLength")
    return said.ljust(_count(schema, "minLength"), ".")[: highest if isinstance(highest, int) else None]


def _count(schema: Mapping[str, Any], keyword: str) -> int:
    value = schema.get(keyword)
    return min(value, 100) if isinstance(value, int) else 0


def _referred(reference: str, root: object) -> object:
    """The part of the schema that a local reference such as #/$defs/name points at."""
    found = root
    for step in reference.removeprefix("#").split("/")[1:]:
        found = found.get(step.replace("~1", "/").replace("~0", "~")) if isinstance(found, Mapping) else None
    return found
