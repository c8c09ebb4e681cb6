"""Nunjucks templates of promptfoo as the Jinja of our box, as far as both say the same."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from tui_evals.text import strictjson
from tui_evals.text.templates import render

_TAG = re.compile(r"\{[{%#]")
_ESCAPED = re.compile(r"\{\{ '(\{|#|file://|package:)' \}\}")
_TO_ESCAPE = re.compile(r"\{(?=[{%#])|#(?=\})|^(?:file://|package:)")
_NAMED = re.compile(r"\{\{\s*(\w+)\s*\}\}")
_ROUNDS = 5  # texts that name one another would be filled for ever
_LONE = re.compile(r"\s*\{\{-?\s*([A-Za-z_]\w*)\s*-?\}\}\s*")


def needs_values(value: Any) -> bool:
    """Whether a text, or one in a list, is a template that is more than a way of writing a text down."""
    texts = value if isinstance(value, list) else [value]
    return any(isinstance(text, str) and bool(_TAG.search(_ESCAPED.sub("\0", text))) for text in texts)


def literal(text: str) -> str:
    """A text written so that promptfoo, which renders it, ends up with the text itself."""
    return _TO_ESCAPE.sub(lambda found: f"{{{{ '{found[0]}' }}}}", text)


def filled(value: Any, values: Mapping[str, Any]) -> Any:
    """A text, or the texts of a list, with their templates rendered; TemplateError says which cannot be."""
    if isinstance(value, list):
        return [filled(part, values) if isinstance(part, str) else part for part in value]
    return _filled(value, values) if isinstance(value, str) else value


def substituted(values: Mapping[str, Any]) -> dict[str, Any]:
    """Variables with the names of others in their texts replaced, which is all that is filled before a chat prompt."""
    found = dict(values)
    for _ in range(_ROUNDS):
        for name, value in found.items():
            if isinstance(value, str):
                found[name] = _NAMED.sub(lambda part: script_text(found.get(part[1], part[0])), value)
    return found


def lone_name(text: str) -> str | None:
    """The variable a template consists of, when it is nothing but one."""
    found = _LONE.fullmatch(text)
    return found[1] if found and text == text.strip() else None


def script_text(value: Any) -> str:
    """A value as promptfoo's language writes it into text."""
    if isinstance(value, str):
        return value
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    return strictjson.dumps(value)


def _filled(text: str, values: Mapping[str, Any]) -> str:
    if not _TAG.search(text):
        return text
    if not needs_values(text):
        return _ESCAPED.sub(r"\1", text)
    return render(text, {name: "" if value is None else value for name, value in values.items()})
