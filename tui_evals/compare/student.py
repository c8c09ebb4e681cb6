"""Student's t: how far a mean of few values can be trusted."""

from __future__ import annotations

from collections.abc import Sequence
from math import atan, cos, exp, frexp, fsum, isfinite, ldexp, lgamma, log, pi, sin, sqrt, tan
from statistics import NormalDist


def check_finite(values: Sequence[float]) -> None:
    """Refuse values with which nothing can be reckoned, rather than let every test come out as it happens to."""
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


def quantile(level: float, degrees: int) -> float:
    """The t within which, on both sides of 0, the share `level` of Student's distribution lies."""
    scale = exp(log(2) + lgamma((degrees + 1) / 2) - lgamma(degrees / 2) - log(pi) / 2)
    # The share is concave in the angle and the normal quantile lies below t, so Newton's steps rise and never pass it.
    angle = atan(NormalDist().inv_cdf((1 + level) / 2) / sqrt(degrees))
    for _ in range(100):
        step = (level - _within(angle, degrees)) / (scale * cos(angle) ** (degrees - 1))
        angle += step
        if step <= 1e-13 * angle:
            break
    return sqrt(degrees) * tan(angle)


def _within(angle: float, degrees: int) -> float:
    """The share of the distribution within sqrt(degrees) * tan(angle), as a finite series for whole degrees."""
    odd = degrees % 2
    term, total, factor = cos(angle) if odd else 1.0, 0.0, cos(angle) ** 2
    for power in range(odd, degrees - 1, 2):
        total += term
        term *= factor * (power + 1) / (power + 2)
    return 2 / pi * (angle + sin(angle) * total) if odd else sin(angle) * total
