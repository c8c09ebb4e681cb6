"""Names that are given twice, and the known name that a mistyped one most likely means."""

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


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """` (did you mean 'x'?)` for the nearest known name, or nothing when none is near."""
    from rapidfuzz import process
    from rapidfuzz.distance import DamerauLevenshtein

    by_lowercase: dict[str, str] = {}
    for candidate in known:
        other = by_lowercase.setdefault(candidate.lower(), candidate)
        if DamerauLevenshtein.distance(name, candidate) < DamerauLevenshtein.distance(name, other):
            by_lowercase[candidate.lower()] = candidate
    cutoff = max(1, len(name) // 3)
    nearest = process.extractOne(
        name.lower(), by_lowercase.keys(), scorer=DamerauLevenshtein.distance, score_cutoff=cutoff
    )
    return f" (did you mean '{by_lowercase[nearest[0]]}'?)" if nearest else ""
