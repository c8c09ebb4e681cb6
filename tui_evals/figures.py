"""A figure: a rate or a mean with the answers it counts, the items they belong to, and its 95 % interval."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import inf, pi, sqrt, tan
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
    """Where the true rate or mean lies, at the level that was asked for; shares for a rate."""

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
    """A rate or a mean that says what it counts."""

    value: float
    items: int
    answers: int
    interval: Interval | None
    method: Method
    unit: str = "%"
    """Of a rate, whose value is a share; else what the mean is measured in, or empty."""
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
    """The 95 % interval of a rate whose answers belong together by item.

    Where an answer passed the rate is not 0, and where one failed it is not 1: an end keeps as far from them as one
    answer among as many can tell.
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
    """The 95 % interval of the mean of differences, one for each item, none of which can exceed the largest."""
    sample = sample_of((1, difference) for difference in differences)
    return mean_interval(sample, None if largest is None else (-largest, largest))


def bounded_interval(sample: Sample, low: float, high: float) -> Interval:
    """The 95 % interval of a mean between two bounds.

    Three more items are added, half of them at each bound. They stand for what the items that were asked cannot show:
    ten items that all pass do not prove that the eleventh does.
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
