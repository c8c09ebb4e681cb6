"""Spells characters that nobody sees or that a terminal obeys, such as `⟦U+200B⟧`, and reads them back unchanged."""

from __future__ import annotations

import re

from .safe import hidden_runs

_OPEN, _CLOSE = "⟦", "⟧"
_SPELLED = re.compile(rf"{_OPEN}U\+([0-9A-F]{{4,6}}){_CLOSE}")
_LAST = 0x10FFFF


def spelled(text: str) -> str:
    """The text with each hidden character as `⟦U+200B⟧`; a bracket that begins a spelling is spelled too."""
    text = _SPELLED.sub(lambda match: _name(_OPEN) + match[0][1:], text)
    return hidden_runs(text, lambda run: "".join(map(_name, run)))


def unspelled(text: str) -> str:
    """The text with each spelled character as itself."""
    return _SPELLED.sub(lambda match: chr(code) if (code := int(match[1], 16)) <= _LAST else match[0], text)


def _name(character: str) -> str:
    return f"{_OPEN}U+{ord(character):04X}{_CLOSE}"
