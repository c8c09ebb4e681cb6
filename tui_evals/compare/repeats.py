"""What the repeats of an item say together: whether it passes, how steadily, and whose noise that is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import comb, fsum, sqrt

from .moments import moments


@dataclass(frozen=True, slots=True)
class Noise:
    """Standard deviations of scores: between answers to one item, and between judgings of one answer.

    None where nothing was repeated. When no answer was judged twice, the judge's noise is within the model's.
    """

    model: float | None
    judge: float | None


@dataclass(frozen=True, slots=True)
class Drawn:
    """What k repeats drawn from each item do, on average over the items that have as many."""

    k: int
    items: int
    any_passes: float
    """pass@k: at least one of the k passes."""
    all_pass: float
    """pass^k: all of the k pass."""


@dataclass(frozen=True, slots=True)
class Repeated:
    """Repeats of items taken together; an item none of whose repeats was judged is left out."""

    items: int
    repeated: int
    """Items with two judged repeats or more: only they can be flaky."""
    flaky: int
    """Items of which some repeats passed and some failed."""
    flakiness: float | None
    """The chance that two repeats of an item disagree, on average over the repeated items."""
    majority: float | None
    """The share of items of which more than half of the repeats passed."""
    drawn: tuple[Drawn, ...]
    """For each k, from 1 to the most repeats that an item has."""


def pass_at_k(n: int, c: int, k: int) -> float | None:
    """The chance that of k repeats, drawn from n of which c passed, at least one passed; None when k exceeds n."""
    _check(n, c, k)
    return None if k > n else (comb(n, k) - comb(n - c, k)) / comb(n, k)


def pass_hat_k(n: int, c: int, k: int) -> float | None:
    """The chance that k repeats, drawn from n of which c passed, all passed; None when k exceeds n."""
    _check(n, c, k)
    return None if k > n else comb(c, k) / comb(n, k)


def majority(n: int, c: int) -> bool:
    """Whether more than half of n repeats passed."""
    _check(n, c)
    return 2 * c > n


def at_least(n: int, c: int, k: int) -> bool:
    """Whether at least k of n repeats passed."""
    _check(n, c, k)
    return c >= k


def flakiness(n: int, c: int) -> float | None:
    """The chance that two different repeats, of n of which c passed, disagree; None below two repeats."""
    _check(n, c)
    return None if n < 2 else 2 * c * (n - c) / (n * (n - 1))


def reduced(items: Iterable[Sequence[bool]]) -> Repeated:
    """Of each item whether its judged repeats passed; what they say together."""
    kinds = Counter((len(repeats), sum(repeats)) for repeats in items if repeats)
    total = kinds.total()
    repeated = sum(count for (n, _), count in kinds.items() if n > 1)
    disagree = fsum(count * (flakiness(n, c) or 0.0) for (n, c), count in kinds.items())
    return Repeated(
        items=total,
        repeated=repeated,
        flaky=sum(count for (n, c), count in kinds.items() if 0 < c < n),
        flakiness=disagree / repeated if repeated else None,
        majority=sum(count for (n, c), count in kinds.items() if majority(n, c)) / total if total else None,
        drawn=tuple(_drawn(kinds, k) for k in range(1, max((n for n, _ in kinds), default=0) + 1)),
    )


def noise(items: Iterable[Sequence[Sequence[float]]]) -> Noise:
    """For each item its answers, each as the scores that repeated judgings of it gave; how much each of the two varies.

    Answer means differ by the model's variance and the judge's over the harmonic mean of their judgings; what exceeds
    the latter is the model's.
    """
    within: list[float] = []
    between: list[float] = []
    reciprocals: list[float] = []  # by their weight in `between`
    more_judgings = more_answers = 0
    for item in items:
        found = [(len(scores), *moments(scores)) for scores in item if scores]
        within += (squares for _, _, squares in found)
        more_judgings += sum(judgings - 1 for judgings, _, _ in found)
        if len(found) > 1:
            between.append(moments([mean for _, mean, _ in found])[1])
            reciprocals.append((1 - 1 / len(found)) * fsum(1 / judgings for judgings, _, _ in found))
            more_answers += len(found) - 1
    judge = fsum(within) / more_judgings if more_judgings else None
    model = (fsum(between) - (judge or 0.0) * fsum(reciprocals)) / more_answers if more_answers else None
    return Noise(None if model is None else sqrt(max(0.0, model)), None if judge is None else sqrt(judge))


def _drawn(kinds: Counter[tuple[int, int]], k: int) -> Drawn:
    enough = [(n, c, count) for (n, c), count in kinds.items() if n >= k]
    items = sum(count for _, _, count in enough)
    some = fsum(count * (pass_at_k(n, c, k) or 0.0) for n, c, count in enough)
    every = fsum(count * (pass_hat_k(n, c, k) or 0.0) for n, c, count in enough)
    return Drawn(k, items, some / items, every / items)


def _check(n: int, c: int, k: int = 1) -> None:
    if not 0 <= c <= n or k < 1:
        raise ValueError(f"{k} of {n} repeats, {c} of them passed, is no draw; give 0 <= passed <= repeats, k >= 1")
