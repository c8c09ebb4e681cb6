"""Plain values as YAML that is read and edited with ease: texts of several lines stand as they are, indented."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from .safe import safe

_NOT_PRINTABLE = re.compile("[^\t\n\x20-\x7e\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_NO_TEXT = r"(?!(?i:null|true|false)$)"
_KEY = re.compile(rf"{_NO_TEXT}[A-Za-z_$][\w$.-]*")
_PLAIN = re.compile(rf"{_NO_TEXT}[^\s\d+.~\-?:,\[\]{{}}#&*!|>'\"%@`](?:[^\n\t:#]|:(?=\S)|(?<=\S)#)*(?<=\S)")


def write_yaml(value: object) -> str:
    """The lines of a mapping or list, which `load_yaml` reads as the very same value."""
    return "".join(f"{line}\n" for line in _lines(value, 0))


def _lines(value: object, indent: int) -> Iterator[str]:
    """The lines of a mapping or list that holds something, or of a scalar."""
    pad = " " * indent
    if isinstance(value, dict) and value:
        for key, one in value.items():
            head = f"{pad}{key if _KEY.fullmatch(key) else _quoted(key)}:"
            if isinstance(one, (dict, list)) and one:
                yield head
                yield from _lines(one, indent + 2)
            else:
                first, *rest = _scalar(one, indent)
                yield f"{head} {first}"
                yield from rest
    elif isinstance(value, list) and value:
        for one in value:
            if isinstance(one, (dict, list)) and one:
                first, *rest = _lines(one, indent + 2)
                yield f"{pad}- {first[indent + 2 :]}"
            else:
                first, *rest = _scalar(one, indent)
                yield f"{pad}- {first}"
            yield from rest
    else:
        yield from _scalar(value, indent)


def _scalar(value: object, indent: int) -> list[str]:
    """A text, number, constant, or what holds nothing: what stands on the line it begins on, and the lines below."""
    if not isinstance(value, str):
        return [json.dumps(value)]
    if "\n" in value and value.strip() and _is_visible(value):
        return _block(value, " " * (indent + 2))
    return [value if _PLAIN.fullmatch(value) and _is_visible(value) else _quoted(value)]


def _block(text: str, pad: str) -> list[str]:
    """A text of several lines, with what says how it begins and ends where that is not plain to see."""
    begins = str(2) if text[0] in " \n" else ""
    ends = "" if text.endswith("\n") else "-"
    if text.endswith("\n\n"):
        ends = "+"
    return [f"|{begins}{ends}", *(pad + line if line else "" for line in text.removesuffix("\n").split("\n"))]


def _quoted(text: str) -> str:
    """A text in double quotes, in which everything that cannot be seen is spelled."""
    return json.dumps(text, ensure_ascii=not _is_visible(text)).replace("\x7f", r"\x7f")


def _is_visible(text: str) -> bool:
    return not _NOT_PRINTABLE.search(text) and safe(text) == text
