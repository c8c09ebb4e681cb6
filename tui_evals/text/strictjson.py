"""JSON: a parser that refuses what json.loads accepts by mistake, quick writers, and paths with bounded cost."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from json.encoder import encode_basestring as quoted
from math import isfinite
from typing import Any, NoReturn

_MESSAGES = {
    "Expecting value": "a value is expected here; is there a comma too many before it?",
    "Expecting property name enclosed in double quotes": "a key in double quotes is expected here",
    "Illegal trailing comma before end of object": "there is a comma too many before the closing brace",
    "Illegal trailing comma before end of array": "there is a comma too many before the closing bracket",
    "Expecting ',' delimiter": "a comma or a closing bracket is expected here",
    "Expecting ':' delimiter": "a colon is expected here",
    "Extra data": "unexpected text after the end of the value",
    "Unterminated string starting at": "the text that starts here is never closed",
    "Invalid control character at": "a string contains a line break or control character; escape it",
}
_STRINGS_OR = r'"(?:[^"\\]|\\.)*"|(%s)'


class JsonError(ValueError):
    """The text is not JSON; the message names the error, `line` and `column` the position if known."""

    def __init__(self, message: str, line: int | None = None, column: int | None = None) -> None:
        super().__init__(message)
        self.line = line
        self.column = column


class DuplicateKey(JsonError):
    """An object names one key twice."""


def _refuse_constant(name: str) -> NoReturn:
    raise JsonError(f"{name} is not a JSON number; use null or leave the field out")


def _refuse_duplicates(pairs: list[tuple[str, object]]) -> dict[str, object]:
    unique = dict(pairs)
    if len(unique) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise DuplicateKey(f"the key {key!r} appears twice in one object; keep one of them")
            seen.add(key)
    return unique


_STRICT = json.JSONDecoder(parse_constant=_refuse_constant, object_pairs_hook=_refuse_duplicates)


def loads(text: str, *, duplicates: bool = False) -> object:
    """The value of a JSON text; `duplicates=True` allows repeated keys (the last one wins)."""
    text = text.removeprefix("\ufeff")
    decoder = json.JSONDecoder(parse_constant=_refuse_constant) if duplicates else _STRICT
    try:
        return decoder.decode(text)
    except DuplicateKey:
        raise
    except JsonError as error:
        raise JsonError(str(error), _line_of(text, "-?Infinity|NaN")) from None
    except json.JSONDecodeError as error:
        message = _MESSAGES.get(error.msg, error.msg)
        raise JsonError(f"not valid JSON: {message}", error.lineno, error.colno) from None
    except RecursionError:
        raise JsonError("the brackets are nested too deeply to read (about 1,000 levels is the limit)") from None
    except ValueError:
        raise JsonError(
            "a number has too many digits to read (4,300 is the limit)", _line_of(text, "[0-9]{4301,}")
        ) from None


def _line_of(text: str, pattern: str) -> int | None:
    """The line of the first place outside a string that a pattern of ours matches."""
    offsets = (match.start() for match in re.finditer(_STRINGS_OR % pattern, text, re.DOTALL) if match.group(1))
    offset = next(offsets, None)
    return None if offset is None else text.count("\n", 0, offset) + 1


def dumps(value: object) -> str:
    """Compact JSON of plain data, with keys in their order and unescaped Unicode."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def value_text(value: object) -> str:
    """A JSON value as text in answers and expectations; ValueError if it is not JSON."""
    return json.dumps(value, ensure_ascii=False, sort_keys=True, allow_nan=False)


def expectation_text(value: object) -> object:
    """An expectation as text; a JSON value becomes the text of an answer with this value."""
    if value is None or isinstance(value, str):
        return value
    try:
        return value_text(value)
    except (TypeError, ValueError, RecursionError) as problem:
        raise ValueError(f"neither text nor JSON data: {problem}") from None


# The values were read from JSON or built for it, so they have no cycles.
_encoded = json.JSONEncoder(ensure_ascii=False, check_circular=False).encode
_WORDS: dict[object, str] = {None: "null", True: "true", False: "false"}


def one_line(value: object) -> str:
    """The value in one line."""
    kind = type(value)
    if kind is int or (kind is float and isfinite(value)):  # type: ignore[arg-type]
        return repr(value)
    return _WORDS[value] if value is None or kind is bool else _encoded(value)


def indented(value: object, line: str = "\n") -> str:
    """The value with an indent of two; `line` is the line break before its closing bracket, with its own indent."""
    deeper = line + "  "
    if isinstance(value, dict):
        members = [f"{quoted(name)}: {_member(member, deeper)}" for name, member in value.items()]
        return f"{{{deeper}{f',{deeper}'.join(members)}{line}}}" if members else "{}"
    if isinstance(value, list | tuple):
        members = [_member(member, deeper) for member in value]
        return f"[{deeper}{f',{deeper}'.join(members)}{line}]" if members else "[]"
    return one_line(value)


def _member(value: object, line: str) -> str:
    if isinstance(value, str):
        return quoted(value)
    return indented(value, line) if isinstance(value, dict | list | tuple) else one_line(value)


def pieces(value: object, line: str | None = "\n") -> Iterator[str]:
    """The text of `indented`, or of `one_line` where `line` is None, piece by piece.

    A list may be an iterator, whose entries are made one at a time.
    """
    if isinstance(value, Iterator):
        yield from _enclosed("[]", (("", member) for member in value), line)
        return
    try:
        yield one_line(value) if line is None else indented(value, line)
    except TypeError:  # an iterator is in it
        if not isinstance(value, dict):
            raise
        yield from _enclosed("{}", ((f"{quoted(name)}: ", member) for name, member in value.items()), line)


def _enclosed(brackets: str, members: Iterable[tuple[str, object]], line: str | None) -> Iterator[str]:
    deeper, between = (None, ", ") if line is None else (f"{line}  ", f",{line}  ")
    before = opening = brackets[0] + (deeper or "")
    for name, member in members:
        yield before + name
        yield from pieces(member, deeper)
        before = between
    yield brackets if before is opening else (line or "") + brackets[1]


MAX_PATH = 1_000  # characters
MAX_MATCHES = 10_000
MAX_VISITS = 200_000

_ALLOWED_TOKENS = frozenset((".", "DOUBLEDOT", "[", "]", "(", ")", ",", ":", "*", "NUMBER", "ID"))
_STEP_KINDS = frozenset(("Fields", "Wildcard", "Index", "Slice"))
_POSITION = re.compile(r"(?:col |at \d+:)(\d+)")
_FILTER = re.compile(r"character: [?=<>!]")


class PathError(ValueError):
    """The path cannot be read, or finds too much."""

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
    """The steps of a path in order; None means `..`, which selects a value and everything inside it."""
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
