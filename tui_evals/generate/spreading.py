"""Some of the tests of a generation, taken from every rule and every inverse rule as evenly as their number allows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

_NO_RULE = 1_000_000


def spread_items(items: Sequence[Mapping[str, Any]], count: int) -> list[int]:
    """The positions of so many items, in the order of the dataset: a test of each rule before a second of any.

    A rule and the one that inverts it come one after the other, so that a number too small for all of them still
    holds as many of the one kind as of the other; then come the next scenarios.
    """
    facts = [(item.get("extensions") or {}).get("promptpex") or {} for item in items]
    scenarios = list(dict.fromkeys(str(own.get("scenario") or "") for own in facts))
    seen: Counter[tuple[object, ...]] = Counter()
    ranked = []
    for place, own in enumerate(facts):
        scenario = scenarios.index(str(own.get("scenario") or ""))
        number = own.get("of") or own.get("ruleid") or _NO_RULE
        inverse = own.get("inverse") is True
        rank = seen[scenario, number, inverse]
        seen[scenario, number, inverse] += 1
        ranked.append((rank, scenario, number, inverse, place))
    return sorted(place for *_, place in sorted(ranked)[:count])
