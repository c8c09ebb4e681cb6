"""How scores spread: the same bins for every run, so that the shapes can be compared."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

BINS = 20


@dataclass(frozen=True, slots=True)
class Histograms:
    """How many values of each run fall into each bin; a bin holds its lower edge, the last one its upper edge too."""

    edges: tuple[float, ...]
    """One more than there are bins."""
    counts: tuple[tuple[int, ...], ...]


def histograms(runs: Sequence[Sequence[float]], bins: int = BINS) -> Histograms:
    """Equal bins from 0, or the lowest value below it, to 1, or the highest value above it."""
    values = [value for own in runs for value in own]
    low, high = min([0.0, *values]), max([1.0, *values])
    edges = (*(low + (high - low) * number / bins for number in range(bins)), high)
    counts = []
    for own in runs:
        found = [0] * bins
        for value in own:
            found[min(bisect_right(edges, value) - 1, bins - 1)] += 1
        counts.append(tuple(found))
    return Histograms(edges, tuple(counts))
