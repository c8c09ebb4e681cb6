"""How far a rate, or the difference of two, can be trusted."""

from __future__ import annotations

from dataclasses import dataclass
from math import comb, sqrt
from statistics import NormalDist


@dataclass(frozen=True, slots=True)
class Interval:
    """The shares between which the true rate lies, at the level that was asked for."""

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


def percent(share: float | None, decimals: int = 1) -> str:
    """A share in words: never 0 or 100 % unless it is, and `n/a` when there is none."""
    if share is None:
        return "n/a"
    step = 10.0**-decimals
    if 0 < share < 1:
        if share * 100 < step / 2:
            return f"<{step:.{decimals}f} %"
        if (1 - share) * 100 < step / 2:
            return f">{100 - step:.{decimals}f} %"
    return f"{share * 100:.{decimals}f} %"
