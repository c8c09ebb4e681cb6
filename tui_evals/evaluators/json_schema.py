"""JSON Schema over untrusted schemas and answers: nothing is fetched, no pattern hangs, the work is bounded."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextvars import ContextVar
from dataclasses import field
from functools import cache
from typing import Any

from jsonschema import Draft202012Validator, FormatChecker
from jsonschema.exceptions import SchemaError, ValidationError
from jsonschema.validators import extend, validator_for
from referencing import Registry
from referencing.exceptions import Unresolvable
from referencing.jsonschema import specification_with

from tui_evals.light_records import dataclass
from tui_evals.text.patterns import PatternError, PatternTimeout, compile_pattern

from .base import CannotJudge
from .values import PatternBudget

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
    """A hashable stand-in, equal exactly for equal JSON values."""
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
    """The keyword, paying for itself, for the parts it walks over and for the messages it writes."""
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
    """Every object, whatever keyword it stands under (a reference may point anywhere), and what resolves it."""
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
        # a `$schema` met on the way would swap in the library's own validator, patterns and all
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
