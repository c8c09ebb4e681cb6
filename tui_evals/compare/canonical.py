"""JSON in one spelling, a value a line, and the places where two JSON values differ."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

MAX_DEPTH = 24  # levels that get lines of their own; what is deeper stands on one line

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,79}")
_compact = json.JSONEncoder(ensure_ascii=False, allow_nan=False, sort_keys=True).encode


@dataclass(frozen=True, slots=True)
class Change:
    """One place where two JSON values differ, as a JSON path."""

    path: str
    kind: Literal["changed", "removed", "added"]


def lines(value: object) -> list[str]:
    """The value with sorted keys and without commas, which would make a line differ for what follows it."""
    into: list[str] = []
    _print(value, "", 0, into)
    return into


def changes(left: Any, right: Any, path: str = "$", depth: int = 0) -> Iterator[Change]:
    """The deepest places that differ; elements of arrays are told apart by their position."""
    if _compact(left) == _compact(right):
        return
    if depth == MAX_DEPTH or type(left) is not type(right) or not isinstance(left, dict | list):
        yield Change(path, "changed")
        return
    one, other = (value if isinstance(value, dict) else dict(enumerate(value)) for value in (left, right))
    for key in sorted(one.keys() | other.keys()):
        below = path + _step(key)
        if key in one and key in other:
            yield from changes(one[key], other[key], below, depth + 1)
        else:
            yield Change(below, "removed" if key in one else "added")


def _step(key: str | int) -> str:
    if isinstance(key, int):
        return f"[{key}]"
    return f".{key}" if _NAME.fullmatch(key) else f"[{key[:80]!r}]"


def _print(value: Any, lead: str, depth: int, into: list[str]) -> None:
    indent = "  " * depth
    if depth == MAX_DEPTH or not isinstance(value, dict | list) or not value:
        into.append(f"{indent}{lead}{_compact(value)}\n")
        return
    opening, closing = "{}" if isinstance(value, dict) else "[]"
    into.append(f"{indent}{lead}{opening}\n")
    if isinstance(value, dict):
        for key in sorted(value):
            _print(value[key], f"{_compact(key)}: ", depth + 1, into)
    else:
        for element in value:
            _print(element, "", depth + 1, into)
    into.append(f"{indent}{closing}\n")
