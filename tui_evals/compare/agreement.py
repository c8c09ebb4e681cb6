"""How well a judge agrees with people."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from math import sqrt
from statistics import NormalDist

from .statistics import Interval

_UP_TO = (0.2, 0.4, 0.6, 0.8)
_WORDS = ("slight", "fair", "moderate", "substantial", "almost perfect")


@dataclass(frozen=True, slots=True)
class Agreement:
    """How often a person and the judge let the same answers pass."""

    both_pass: int
    both_fail: int
    only_person: int
    """The person passes what the judge fails."""
    only_judge: int
    """The judge passes what the person fails."""

    @property
    def n(self) -> int:
        """The answers that both judged."""
        return self.both_pass + self.both_fail + self.only_person + self.only_judge

    @property
    def observed(self) -> float | None:
        """The share of answers on which they agree."""
        return (self.both_pass + self.both_fail) / self.n if self.n else None

    @property
    def expected(self) -> float | None:
        """The share on which they would agree by chance, each passing as many as they did."""
        if not self.n:
            return None
        person, judge = self._passed()
        return (person * judge + (self.n - person) * (self.n - judge)) / self.n**2

    @property
    def kappa(self) -> float | None:
        """Cohen's kappa: how much of the agreement beyond chance there is; None when chance alone gives it all."""
        observed, expected = self.observed, self.expected
        if observed is None or expected is None or expected == 1:
            return None
        return (observed - expected) / (1 - expected)

    @property
    def interval(self) -> Interval | None:
        """The 95 % interval of kappa by its standard error for large samples; it may reach past 1."""
        kappa, expected = self.kappa, self.expected
        if kappa is None or expected is None:
            return None
        person, judge = (passed / self.n for passed in self._passed())
        left = 1 - kappa
        agree = (
            self.both_pass * (1 - (person + judge) * left) ** 2
            + self.both_fail * (1 - (2 - person - judge) * left) ** 2
        ) / self.n
        differ = self.only_person * (judge + 1 - person) ** 2 + self.only_judge * (person + 1 - judge) ** 2
        variance = agree + left**2 * differ / self.n - (kappa - expected * left) ** 2
        half = NormalDist().inv_cdf(0.975) * sqrt(max(0.0, variance) / self.n) / (1 - expected)
        return Interval(kappa - half, kappa + half)

    def _passed(self) -> tuple[int, int]:
        return self.both_pass + self.only_person, self.both_pass + self.only_judge


def agreement(pairs: Iterable[tuple[bool, bool]]) -> Agreement:
    """Count pairs of verdicts on one answer each: whether the person passes it, and whether the judge does."""
    found = Counter(pairs)
    return Agreement(found[True, True], found[False, False], found[True, False], found[False, True])


def words(kappa: float) -> str:
    """A kappa in plain words, by the two decimals that are shown of it.

    Below 0 poor, to 0.20 slight, to 0.40 fair, to 0.60 moderate, to 0.80 substantial, above it almost perfect.
    """
    shown = round(kappa, 2)
    return "poor" if shown < 0 else _WORDS[bisect_left(_UP_TO, shown)]
