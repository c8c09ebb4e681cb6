"""Statistics of rates and of paired differences: intervals, tests, and how many items a difference takes."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, comb, erfc, floor, frexp, fsum, isfinite, ldexp, log2, pi, sqrt, tan
from operator import add
from random import Random
from statistics import NormalDist


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
_FLIPS, _RESAMPLES = 4_999, 2_000
_ROUNDING = 1e-12  # share of the values below which a difference is the rounding of floats


@dataclass(frozen=True, slots=True)
class Interval:
    """Where the true rate or mean lies, at the level that was asked for; shares for a rate."""

    low: float
    high: float


def wilson(successes: int, n: int, level: float = 0.95) -> Interval | None:
    """Wilson's score interval of a rate; None when there is nothing to count."""
    if not 0 <= successes <= n or not 0 < level < 1:
        raise ValueError(f"{successes} of {n} at level {level} is not a rate; give 0 <= successes <= n, 0 < level < 1")
    if n == 0:
        return None
    z = NormalDist().inv_cdf((1 + level) / 2)
    share, shrink = successes / n, 1 + z * z / n
    middle = (share + z * z / (2 * n)) / shrink
    half = z / shrink * sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    # At the ends the formula gives 0 and 1 exactly; rounding would give a share just outside of them.
    return Interval(0.0 if successes == 0 else middle - half, 1.0 if successes == n else middle + half)


def mean_interval(n: int, mean: float, squares: float, level: float = 0.95) -> Interval | None:
    """Student's interval of a mean of n numbers, from it and the mean of their squares; None where they are too few."""
    spread = sqrt(max(squares - mean * mean, 0.0) * n / (n - 1)) if n > 1 else 0.0
    if not spread:
        return None
    half = _student(n - 1, level) * spread / sqrt(n)
    return Interval(mean - half, mean + half)


def _student(freedom: int, level: float) -> float:
    """The quantile of Student's distribution for a two-sided level, by the exact forms or Hill's expansion."""
    tail = (1 - level) / 2
    if freedom == 1:
        return 1 / tan(pi * tail)
    if freedom == 2:
        return (1 - 2 * tail) * sqrt(2 / (4 * tail * (1 - tail)))
    z = NormalDist().inv_cdf(1 - tail)
    terms: tuple[float, ...] = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
    )
    return float(z + sum(term / freedom**power for power, term in enumerate(terms, 1)))


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


def bootstrap(differences: Sequence[float], level: float = 0.95, seed: int = 0) -> Interval | None:
    """The percentile bootstrap interval of the mean; beyond 1,000 values the normal limit, to which it tends.

    None below two values, because one tells nothing of the spread; a point when all are equal.
    """
    _check_levels(differences, level)
    n = len(differences)
    if n < 2:
        return None
    mean, squares = moments(differences)
    if n > _MANY or not squares:
        return _interval_around(mean, NormalDist().inv_cdf((1 + level) / 2) * sqrt(squares) / n)
    draw = Random(seed).choices
    means = sorted(sum(draw(differences, k=n)) / n for _ in range(_RESAMPLES))
    return Interval(_quantile(means, (1 - level) / 2), _quantile(means, (1 + level) / 2))


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


def interval_percent(ends: Interval | None) -> str:
    """The interval of a rate in percent; empty where there is none."""
    return "" if ends is None else f"{100 * ends.low:.1f} to {100 * ends.high:.1f}"


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


def _interval_around(middle: float, half: float) -> Interval:
    return Interval(middle - half, middle + half)


def _quantile(ordered: list[float], share: float) -> float:
    """The quantile of sorted values, between two of them in proportion."""
    position = share * (len(ordered) - 1)
    below = floor(position)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (position - below) * (ordered[above] - ordered[below])
