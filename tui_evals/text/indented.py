"""JSON as `json.dumps` writes it without ASCII escapes, in a fraction of its time; names of members are texts."""

from __future__ import annotations

import json
from json.encoder import encode_basestring as quoted
from math import isfinite

# What is written was read from JSON or made for it, so nothing in it holds itself.
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
