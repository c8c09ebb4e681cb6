"""A figure is a rate or a mean with the answers it counts, their items and its 95 % interval; tests of differences."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from math import ceil, comb, erfc, frexp, fsum, inf, isfinite, ldexp, log2, pi, sqrt, tan
from operator import add
from typing import Literal

from tui_evals.light_records import dataclass

Method = Literal["three more items", "Student", ""]

MORE_ITEMS = 3
"""Items that an interval adds to those that were asked; `python -m tests.bench.coverage` compares other numbers."""
_TAIL = 0.975
NORMAL_95 = 1.9599639845400536
"""Standard errors on either side of a 95 % interval."""
_ROUNDING = 1e-13


@dataclass(frozen=True, slots=True)
class Interval:
    """A confidence interval of a rate or mean; shares for a rate."""

    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Sample:
    """Values of answers, summed by item: all that a mean and its interval need.

    Samples of different items add up. Those of different columns share their items and must never be added.
    """

    items: int = 0
    answers: int = 0
    total: float = 0.0
    squares: float = 0.0
    """The sum of the squared sums of the items."""
    cross: float = 0.0
    """The sum, over items, of their sum times how many answers they have."""
    sizes: float = 0.0
    """The sum of the squared numbers of answers."""

    def __add__(self, other: Sample) -> Sample:
        return Sample(
            self.items + other.items,
            self.answers + other.answers,
            self.total + other.total,
            self.squares + other.squares,
            self.cross + other.cross,
            self.sizes + other.sizes,
        )

    @property
    def mean(self) -> float | None:
        """The mean of all answers; None without any."""
        return self.total / self.answers if self.answers else None

    @property
    def variance(self) -> float:
        """The variance of the mean when items, not answers, are independent; 0 with fewer than two items."""
        if self.items < 2:
            return 0.0
        mean = self.total / self.answers
        spread = self.squares - 2 * mean * self.cross + mean * mean * self.sizes
        # Sums of equal floats differ by their rounding.
        return spread / (self.answers**2 - self.sizes) if spread > _ROUNDING * self.squares else 0.0


def sample_of(items: Iterable[tuple[int, float]]) -> Sample:
    """The sample of items, each given as the number of its answers and the sum of their values."""
    count, answers, total, squares, cross, sizes = 0, 0, 0.0, 0.0, 0.0, 0.0
    for size, own in items:
        count, answers, total = count + 1, answers + size, total + own
        squares, cross, sizes = squares + own * own, cross + own * size, sizes + size * size
    return Sample(count, answers, total, squares, cross, sizes)


def single_answers(passed: int, judged: int) -> Sample:
    """The sample of pass or fail where every item has one judged answer."""
    return Sample(judged, judged, passed, passed, passed, judged)


@dataclass(frozen=True, slots=True)
class Figure:
    """A rate or a mean with its population."""

    value: float
    items: int
    answers: int
    interval: Interval | None
    method: Method
    unit: str = "%"
    """"%" for a rate, whose value is a share; else the unit of the mean, or empty."""
    population: str = "judged"
    """Which answers it counts."""
    missing: int = 0
    """How many answers should be in it and are not, because they are missing or unjudged."""


def pass_rate(sample: Sample | None, population: str = "judged", missing: int = 0) -> Figure | None:
    """The share of judged answers that pass; None where none was judged or where columns would be pooled."""
    if sample is None or not sample.answers:
        return None
    value = sample.total / sample.answers
    interval, method = rate_interval(sample)
    return Figure(value, sample.items, sample.answers, interval, method, "%", population, missing)


def rate_interval(sample: Sample) -> tuple[Interval, Method]:
    """The 95 % interval of a rate whose answers are grouped by item.

    If an answer passed, the rate is not 0, and if one failed, it is not 1: the ends keep as far from these as that many
    answers can tell.
    """
    ends, rest = bounded_interval(sample, 0.0, 1.0), 1 - _TAIL ** (1 / sample.answers)
    low = max(ends.low, rest) if sample.total > 0 else 0.0
    high = min(ends.high, 1 - rest) if sample.total < sample.answers else 1.0
    return Interval(low, high), "three more items"


def mean_interval(sample: Sample, bounds: tuple[float, float] | None) -> tuple[Interval | None, Method]:
    """The 95 % interval of a mean of scores, which may have a lowest and a highest value."""
    if not sample.answers:
        return None, ""
    if bounds is not None:
        return bounded_interval(sample, *bounds), "three more items"
    if not 0 < (variance := sample.variance) < inf:
        return None, ""
    mean, half = sample.total / sample.answers, student_quantile(sample.items - 1) * sqrt(variance)
    return Interval(mean - half, mean + half), "Student"


def difference_interval(differences: Sequence[float], largest: float | None) -> tuple[Interval | None, Method]:
    """The 95 % interval of the mean of differences, one for each item, none of which can exceed `largest`."""
    sample = sample_of((1, difference) for difference in differences)
    return mean_interval(sample, None if largest is None else (-largest, largest))


def bounded_interval(sample: Sample, low: float, high: float) -> Interval:
    """The 95 % interval of a mean between two bounds.

    Three more items are added, half of them at each bound. They represent what a sample cannot show: ten items that all
    pass do not prove that the eleventh does.
    """
    half, size = MORE_ITEMS / 2, sample.sizes / sample.answers
    answers, sizes = sample.answers + MORE_ITEMS * size, sample.sizes + MORE_ITEMS * size * size
    mean = (sample.total + half * size * (low + high)) / answers
    spread = sample.squares - 2 * mean * sample.cross + mean * mean * sample.sizes
    spread += half * size * size * ((low - mean) ** 2 + (high - mean) ** 2)
    reach = NORMAL_95 * sqrt(max(spread, 0.0) / (answers * answers - sizes))
    return Interval(max(low, mean - reach), min(high, mean + reach))


def student_quantile(freedom: int, level: float = 0.95) -> float:
    """The quantile of Student's distribution for a two-sided level, by the exact forms or Hill's expansion."""
    tail = (1 - level) / 2
    if freedom < 1:
        return inf
    if freedom == 1:
        return 1 / tan(pi * tail)
    if freedom == 2:
        return (1 - 2 * tail) * sqrt(2 / (4 * tail * (1 - tail)))
    from statistics import NormalDist  # a hundredth of the start of a command, and few figures need it

    z = NormalDist().inv_cdf(1 - tail)
    terms: tuple[float, ...] = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
    )
    return float(z + sum(term / freedom**power for power, term in enumerate(terms, 1)))


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
    """One more than the number of bins."""
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


_MANY = 1_000  # values above which the normal approximation replaces random draws
_EXACT = 12  # differences up to which every choice of signs is tried
_FLIPS = 4_999
_EQUAL_WITHIN = 1e-12  # share of the values below which a difference is the rounding of floats


def mcnemar(broken: int, fixed: int) -> float:
    """The exact two-sided p value of McNemar's test: the probability that chance alone gives such unequal counts."""
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

    Differences of one size give McNemar's test. Up to 12, all signs are tried; up to 1,000, signs are drawn; above
    that, the normal approximation is used. The order of the items and of the sides does not matter.
    """
    scaled = _scale_differences(differences)
    sizes = list(map(abs, scaled))
    if not sizes:
        return 1.0
    if min(sizes) >= 1 - _EQUAL_WITHIN:
        lower = sum(difference < 0 for difference in scaled)
        return mcnemar(lower, len(scaled) - lower)
    observed = abs(fsum(scaled))
    if len(sizes) > _MANY:
        return erfc(observed / sqrt(2 * fsum(size * size for size in sizes)))
    sizes.sort()
    least = observed - _EQUAL_WITHIN * fsum(sizes)  # sums that are equal but for rounding count as equal
    if len(sizes) <= _EXACT:
        sums = _signed_sums(sizes)
        return sum(abs(total) >= least for total in sums) / len(sums)
    further = sum(abs(total) >= least for total in _random_signed_sums(sizes, seed))
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
    if abs(fsum(scaled)) <= _EQUAL_WITHIN * fsum(map(abs, scaled)):
        return None
    mean, square = fsum(scaled) / n, fsum(value * value for value in scaled) / n
    from statistics import NormalDist

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
    return [value / largest for value in differences if abs(value) > _EQUAL_WITHIN * largest]


def _signed_sums(sizes: Sequence[float]) -> list[float]:
    """The sums for every choice of signs."""
    sums = [0.0]
    for size in sizes:
        sums = [total + size for total in sums] + [total - size for total in sums]
    return sums


def _random_signed_sums(sizes: Sequence[float], seed: int) -> list[float]:
    """Sums with signs drawn at random: a byte chooses the signs of eight sizes, whose sums are in a table."""
    from random import Random  # few commands need it

    random, totals = Random(seed), [0.0] * _FLIPS
    for start in range(0, len(sizes), 8):
        table = _signed_sums(sizes[start : start + 8])
        table *= 256 // len(table)
        totals = list(map(add, totals, map(table.__getitem__, random.randbytes(_FLIPS))))
    return totals
