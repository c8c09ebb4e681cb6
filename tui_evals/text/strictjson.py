"""JSON from outside: one parser that refuses what json.loads lets through, and says where."""

from __future__ import annotations

import json
import re
from typing import NoReturn

_MESSAGES = {
    "Expecting value": "a value is expected here; is there a comma too many before it?",
    "Expecting property name enclosed in double quotes": "a key in double quotes is expected here",
    "Illegal trailing comma before end of object": "there is a comma too many before the closing brace",
    "Illegal trailing comma before end of array": "there is a comma too many before the closing bracket",
    "Expecting ',' delimiter": "a comma or a closing bracket is expected here",
    "Expecting ':' delimiter": "a colon is expected here",
    "Extra data": "something stands after the end of the value",
    "Unterminated string starting at": "the text that starts here is never closed",
    "Invalid control character at": "a line break or control character stands inside a text",
}
_STRINGS_OR = r'"(?:[^"\\]|\\.)*"|(%s)'


class JsonError(ValueError):
    """The text is not JSON; the message says what is wrong and `line`, `column` say where, when known."""

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
                raise DuplicateKey(f"the key {key!r} stands twice in one object; keep one of them")
            seen.add(key)
    return unique


_STRICT = json.JSONDecoder(parse_constant=_refuse_constant, object_pairs_hook=_refuse_duplicates)


def loads(text: str, *, duplicates: bool = False) -> object:
    """The value of a JSON text; `duplicates=True` lets a repeated key pass (the last one wins)."""
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
    """Compact JSON of plain data, keys in their order, text as it is."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
