"""How the workbench looks where nothing else is chosen; found before it opens, without loading it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Signs = Literal["all", "narrow", "ascii"]
"""Which signs a terminal draws as we count them: all, all but the ambiguous ones of East Asia, those of ASCII."""


@dataclass(frozen=True, slots=True)
class Looks:
    """What suits the terminal."""

    theme: str = "calm-dark"
    signs: Signs = "all"
    typed: bytes = b""
    """What was typed while the terminal was asked."""
