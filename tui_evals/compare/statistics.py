"""Tests of paired differences, and how many items a difference takes; `tui_evals/figures.py` has the intervals."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from math import ceil, comb, erfc, frexp, fsum, isfinite, ldexp, log2, sqrt
from operator import add
from random import Random
from statistics import NormalDist

from tui_evals.light_records import dataclass


def check_finite(values: Sequence[float]) -> None:
    """Refuse infinite values and NaN, with which the tests would give meaningless results."""
    if not all(map(isfinite, values)):
        raise ValueError("one of the values is infinite or not a number; leave out what has no score")


def moments(values: Sequence[float]) -> tuple[float, float]:
    """The mean of one value or more, and the sum of the squared distances from it: exactly 0 when all are equal."""
    check_finite(values)
    unit = (
        ldexp(1.0, frexp(max(map(abs, values)))[1] - 1) or 1.0
    )  # sums of values close to the largest float stay finite
    first = values[0] / unit
    moved = [value / unit - first for value in values]
    middle = fsum(moved) / len(moved)
    return (first + middle) * unit, fsum((value - middle) ** 2 for value in moved) * unit * unit


BINS = 20


@dataclass(frozen=True, slots=True)
class Histograms:
    """How many values of each run fall into each bin; a bin holds its lower edge, the last one its upper edge too."""

    edges: tuple[float, ...]
    """One more than there are bins."""
    counts: tuple[tuple[int, ...], ...]


def histograms(runs: Sequence[Sequence[float]], bins: int = BINS) -> Histograms:
    """Equal bins from 0, or the lowest value below it, to 1, or the highest value above it."""
    values = [value for run_values in runs for value in run_values]
    low, high = min([0.0, *values]), max([1.0, *values])
    edges = (*(low + (high - low) * number / bins for number in range(bins)), high)
    counts = []
    for run_values in runs:
        bin_counts = [0] * bins
        for value in run_values:
            bin_counts[min(bisect_right(edges, value) - 1, bins - 1)] += 1
        counts.append(tuple(bin_counts))
    return Histograms(edges, tuple(counts))


_MANY = 1_000  # values beyond which the normal limit stands for draws at random
_EXACT = 12  # differences up to which every choice of signs is tried
_FLIPS = 4_999
_ROUNDING = 1e-12  # share of the values below which a difference is the rounding of floats


def mcnemar(broken: int, fixed: int) -> float:
    """The exact two-sided p value of McNemar's test: how likely chance alone tips so many pairs so far to one side."""
    if min(broken, fixed) < 0:
        raise ValueError(f"{broken} broken and {fixed} fixed are not counts of pairs; give 0 or more of each")
    pairs, fewer = broken + fixed, min(broken, fixed)
    term = comb(pairs, fewer) / 2**pairs
    tail = 0.0
    for successes in range(fewer, -1, -1):
        tail += term
        term *= successes / (pairs - successes + 1)
        if term < tail * 1e-17:
            break
    return min(1.0, 2 * tail)


def paired_test(differences: Sequence[float], seed: int = 0) -> float:
    """The two-sided p value of differences, one per item: how likely random signs give a sum as far from 0.

    Differences of one size give McNemar's test. Up to 12 all signs are tried, up to 1,000 are drawn, and of more the
    normal limit is taken. Neither the order of the items nor the side that was subtracted changes it.
    """
    scaled = _scale_differences(differences)
    sizes = list(map(abs, scaled))
    if not sizes:
        return 1.0
    if min(sizes) >= 1 - _ROUNDING:
        lower = sum(difference < 0 for difference in scaled)
        return mcnemar(lower, len(scaled) - lower)
    observed = abs(fsum(scaled))
    if len(sizes) > _MANY:
        return erfc(observed / sqrt(2 * fsum(size * size for size in sizes)))
    sizes.sort()
    least = observed - _ROUNDING * fsum(sizes)  # sums that are equal but for rounding count as equal
    if len(sizes) <= _EXACT:
        sums = _signed_sums(sizes)
        return sum(abs(total) >= least for total in sums) / len(sums)
    further = sum(abs(total) >= least for total in _random_signed_sums(sizes, Random(seed)))
    return (1 + further) / (1 + _FLIPS)


def holm(ps: Sequence[float]) -> list[float]:
    """The p values, in their order, adjusted so that a false alarm among them all is as rare as with one alone."""
    if not all(0 <= p <= 1 for p in ps):
        raise ValueError(f"{list(ps)} are not p values; give numbers from 0 to 1")
    adjusted, highest = list(ps), 0.0
    for rank, position in enumerate(sorted(range(len(ps)), key=ps.__getitem__)):
        highest = max(highest, min(1.0, (len(ps) - rank) * ps[position]))
        adjusted[position] = highest
    return adjusted


def items_needed(differences: Sequence[float], level: float = 0.05, power: float = 0.8) -> int | None:
    """How many items like these show a mean difference like theirs at that level, with that chance, by normal theory.

    Never fewer than the test needs to reach the level when all differences point one way. None without a difference.
    """
    _check_levels(differences, level, power)
    scaled, n = _scale_differences(differences), len(differences)
    if abs(fsum(scaled)) <= _ROUNDING * fsum(map(abs, scaled)):
        return None
    mean, square = fsum(scaled) / n, fsum(value * value for value in scaled) / n
    normal = NormalDist()
    chance, miss = normal.inv_cdf(1 - level / 2), normal.inv_cdf(power)
    root = (chance * sqrt(square) + miss * sqrt(max(0.0, square - mean * mean))) / mean
    return max(ceil(root * root), ceil(ceil(1 - log2(level)) * n / len(scaled)))


def percent(share: float | None, decimals: int = 1) -> str:
    """A share in percent: never 0 or 100 % unless it is exactly that, and `n/a` when there is none."""
    if share is None:
        return "n/a"
    step = 10.0**-decimals
    if 0 < share < 1:
        if share * 100 < step / 2:
            return f"<{step:.{decimals}f} %"
        if (1 - share) * 100 < step / 2:
            return f">{100 - step:.{decimals}f} %"
    return f"{share * 100:.{decimals}f} %"


def _check_levels(values: Sequence[float], *levels: float) -> None:
    for level in levels:
        if not 0 < level < 1:
            raise ValueError(f"{level} is not a level; give a number between 0 and 1")
    check_finite(values)


def _scale_differences(differences: Sequence[float]) -> list[float]:
    """The differences that are not 0, as shares of the largest."""
    _check_levels(differences)
    largest = max(map(abs, differences), default=0.0)
    return [value / largest for value in differences if abs(value) > _ROUNDING * largest]


def _signed_sums(sizes: Sequence[float]) -> list[float]:
    """The sums for every choice of signs."""
    sums = [0.0]
    for size in sizes:
        sums = [total + size for total in sums] + [total - size for total in sums]
    return sums


def _random_signed_sums(sizes: Sequence[float], random: Random) -> list[float]:
    """Sums with signs drawn at random: a byte chooses the signs of eight sizes, whose sums are in a table."""
    totals = [0.0] * _FLIPS
    for start in range(0, len(sizes), 8):
        table = _signed_sums(sizes[start : start + 8])
        table *= 256 // len(table)
        totals = list(map(add, totals, map(table.__getitem__, random.randbytes(_FLIPS))))
    return totals
