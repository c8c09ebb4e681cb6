"""JSON paths without filters, whose cost is bounded whatever they run over."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

MAX_PATH = 1_000  # characters
MAX_MATCHES = 10_000
MAX_VISITS = 200_000

_ALLOWED_TOKENS = frozenset((".", "DOUBLEDOT", "[", "]", "(", ")", ",", ":", "*", "NUMBER", "ID"))
_STEP_KINDS = frozenset(("Fields", "Wildcard", "Index", "Slice"))
_POSITION = re.compile(r"(?:col |at \d+:)(\d+)")
_FILTER = re.compile(r"character: [?=<>!]")


class PathError(ValueError):
    """The path cannot be read, or finds more than anybody can use."""

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(f"the path {path[:80]!r} {problem}")


def find_by_path(path: str, data: object) -> tuple[object, ...]:
    """The values a path selects from plain JSON data, in the order of the document."""
    matches: list[Any] = [data]
    visits = 0
    for step in _steps(path):
        selected_values: list[Any] = []
        for value in matches:
            for selected in _descend(value) if step is None else step.find(value):
                visits += 1
                if visits > MAX_VISITS:
                    raise PathError(path, f"visits more than {MAX_VISITS:,} values; name more of its steps")
                selected_values.append(selected if step is None else selected.value)
        matches = selected_values
    if len(matches) > MAX_MATCHES:
        raise PathError(path, f"matches more than {MAX_MATCHES:,} values; name more of its steps")
    return tuple(matches)


def _descend(value: Any) -> Iterator[Any]:
    """A value and everything inside it, parents first."""
    waiting = [value]
    while waiting:
        value = waiting.pop()
        yield value
        if isinstance(value, dict):
            waiting += reversed(value.values())
        elif isinstance(value, list):
            waiting += reversed(value)


@lru_cache(maxsize=256)
def _steps(path: str) -> tuple[Any, ...]:
    """The steps of a path in order; None stands for `..`, which selects a value and all inside it."""
    steps: list[Any] = []
    waiting: list[Any] = [_parse(path)]
    while waiting:
        node = waiting.pop()
        kind = type(node).__name__
        if kind == "Child":
            waiting += (node.right, node.left)
        elif kind == "Descendants":
            waiting += (node.right, None, node.left)
        elif node is None or kind in _STEP_KINDS:
            steps.append(node)
    return tuple(steps)


def _parse(path: str) -> Any:
    from jsonpath_ng.exceptions import JSONPathError
    from jsonpath_ng.lexer import JsonPathLexer
    from jsonpath_ng.parser import parse

    if len(path) > MAX_PATH:
        raise PathError(path, f"is longer than {MAX_PATH:,} characters")
    try:
        for count, token in enumerate(JsonPathLexer().tokenize(path)):
            # Refused before parsing, because the parser warns of some of these and others look outside the data.
            if token.type not in _ALLOWED_TOKENS and not (token.type == "$" and count == 0):
                problem = f"uses {token.value!r} at position {token.lexpos + 1}"
                raise PathError(path, f"{problem}, which is not supported; a key is quoted as in ['{token.value}']")
        return parse(path)
    except JSONPathError as error:
        raise PathError(path, _parse_problem(str(error))) from None
    except RecursionError:
        raise PathError(path, "is nested too deeply") from None


def _parse_problem(complaint: str) -> str:
    if _FILTER.search(complaint):
        return "cannot be read: filter expressions are not supported"
    if "EOF" in complaint:
        return "cannot be read: a quote is not closed"
    position = _POSITION.search(complaint)
    where = f"at position {int(position[1]) + 1}" if position else "because it ends too early"
    return f"cannot be read {where}; unusual keys are quoted as in $['my key']"
