"""JSON while it is written: the colours of a line, and what a new line or a closing bracket begins with."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal, get_args

Token = Literal["key", "text", "number", "word"]
TOKENS: tuple[Token, ...] = get_args(Token)

_INDENT = "  "
_STRING = r'"(?:[^"\\\n]|\\.)*'
_TOKEN = re.compile(
    rf'(?P<key>{_STRING}"(?=\s*:))|(?P<text>{_STRING}"?)|(?P<number>-?\b\d[\d.eE+-]*)|(?P<word>\b(?:true|false|null)\b)'
)
_TEXT = re.compile(rf'{_STRING}(?P<end>"?)')


def tokens(line: str) -> Iterator[tuple[int, int, Token]]:
    """Where the keys, texts, numbers and words of a line begin and end; no text goes over several lines."""
    for match in _TOKEN.finditer(line):
        kind = next(kind for kind in TOKENS if match[kind] is not None)
        yield match.start(), match.end(), kind


def new_line(before: str, after: str) -> tuple[str, str]:
    """What enter puts before and after the cursor: in a text its escape, else a line that is indented as it must be."""
    if _in_text(before):
        return r"\n", ""
    line = before.rpartition("\n")[2]
    indent = line[: len(line) - len(line.lstrip(" "))]
    if not line.rstrip().endswith(("{", "[")):
        return f"\n{indent}", ""
    closes = after.lstrip(" ").startswith(("}", "]"))
    return f"\n{indent}{_INDENT}", f"\n{indent}" if closes else ""


def closes_block(before: str) -> bool:
    """Whether a closing bracket typed here ends a block, and so belongs one step further left."""
    line = before.rpartition("\n")[2]
    return line.endswith(_INDENT) and not line.strip()


def _in_text(before: str) -> bool:
    """Whether the end of a text lies within a JSON text, whose closing quotation mark is still to come."""
    line = before.rpartition("\n")[2]
    return any(match.end() == len(line) and not match["end"] for match in _TEXT.finditer(line))
