"""A comparison in sentences: how large a difference is, and how often chance alone makes one as large."""

from __future__ import annotations

from .measures import LEVEL, MeasuredDifference, RunDifference
from .statistics import Interval, percent

NAMES = "ABCD"
"""What runs are called beside each other, in the order they were given."""


def difference_sentence(difference: RunDifference, before: str = "A", after: str = "B", level: float = LEVEL) -> str:
    """Whether the later run passes more items than the first, and whether that can be chance."""
    test = difference.passes
    if not test.items and difference.scored:
        measured = [measured_sentence(one, before, after, level) for one in difference.tests if one.what and one.items]
        return " ".join(["Nothing that judged these answers can fail, so there is no pass rate.", *measured])
    if not test.items:
        return f"{before} and {after} have no item in common that both judged."
    if not test.difference:
        same = " the same" if not difference.broken + difference.fixed else " as many"
        return f"{after} passes{same} of {_count_items(test)} as {before}: no difference."
    more = "more" if test.difference > 0 else "fewer"
    net = abs(difference.fixed - difference.broken)
    if net and net == round(abs(test.difference) * test.items, 6):
        says = f"{after} passes {net:,} {more} of {_count_items(test)} than {before}"
    else:
        points = f"{100 * abs(test.difference):.1f} percentage points"
        says = f"{after} passes {points} {more} of {_count_items(test)} than {before}"
    return f"{says}; {chance_phrase(test, level)}.{power_sentence(test, level)}"


def measured_sentence(test: MeasuredDifference, before: str = "A", after: str = "B", level: float = LEVEL) -> str:
    """One evaluator, or one column, in a sentence."""
    name = test.what or test.column
    if not test.difference:
        return f"{name}: no difference over {_count_items(test)}."
    number = _number if test.what else percent
    numbers = f"{number(test.before)} in {before}, {number(test.after)} in {after} over {_count_items(test)}"
    return f"{name}: {numbers}; {chance_phrase(test, level)}."


def chance_phrase(test: MeasuredDifference, level: float = LEVEL) -> str:
    """How often chance alone gives such a gap, and what follows."""
    verdict = "shown" if test.adjusted < level else "not shown"
    if test.adjusted < 0.001:
        return f"chance alone gives a gap this large in less than 0.1 % of cases: {verdict}"
    # A share just below the level must not be rounded up to it.
    digits = 1 if test.adjusted < 2 * level else 0
    return f"chance alone gives a gap this large in {100 * test.adjusted:.{digits}f} % of cases: {verdict}"


def power_sentence(test: MeasuredDifference, level: float = LEVEL) -> str:
    """How many items would show such a difference, where there were too few."""
    if test.adjusted < level or test.needed is None or test.needed <= test.items:
        return ""
    return f" About {_round_up(test.needed):,} items like these would show a gap of this size."


def interval_percent(ends: Interval | None) -> str:
    """The interval of a rate in percent; empty where there is none."""
    return "" if ends is None else f"{100 * ends.low:.1f} to {100 * ends.high:.1f}"


def _count_items(test: MeasuredDifference) -> str:
    return f"{test.items:,} item" if test.items == 1 else f"{test.items:,} items"


def _number(value: float) -> str:
    return f"{value:.3g}"


def _round_up(count: int) -> int:
    """Two figures are all that such an estimate is worth."""
    step: int = 10 ** max(len(str(count)) - 2, 0)
    return -(-count // step) * step
