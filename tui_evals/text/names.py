"""Names that are given more than once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable


def numbered(names: Iterable[str]) -> tuple[str, ...]:
    """The names, of those that come again each but the first with its number."""
    seen: Counter[str] = Counter()
    told = []
    for name in names:
        seen[name] += 1
        told.append(name if seen[name] == 1 else f"{name} ({seen[name]})")
    return tuple(told)
