"""What a stored dataset document says of its items, however sloppily it was written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


def references(unit: Mapping[str, Any]) -> Sequence[str]:
    """The expected response of an item or turn, then its ideals."""
    ideal = unit.get("ideal")
    given = (unit.get("expected_response"), *(ideal if isinstance(ideal, list) else (ideal,)))
    return [text for text in given if isinstance(text, str)]


def expected_of(unit: Mapping[str, Any]) -> str | None:
    """The first of them; None where there is none."""
    return next(iter(references(unit)), None)
