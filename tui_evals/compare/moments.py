"""The middle and the spread of values, without what rounding adds to them."""

from __future__ import annotations

from collections.abc import Sequence
from math import frexp, fsum, isfinite, ldexp


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
