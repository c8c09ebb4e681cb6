"""A comparison in sentences: which run is better and by how much, or that chance makes as much, and what would tell."""

from __future__ import annotations

from .measures import LEVEL, MeasuredDifference, RunDifference
from .statistics import percent

NAMES = "ABCD"
"""What runs are called beside each other, in the order they were given."""
COULD_BE_CHANCE = "could be chance"
"""Said of a difference that equal runs make often enough."""
JUDGED_OTHERWISE = "judged by another expectation"
"""Why answers that both have a verdict cannot be compared."""
_LEAST_CHANCE = 0.001
_MOST_DECIMALS = 6


def difference_sentence(
    difference: RunDifference, before: str = "A", after: str = "B", level: float = LEVEL, *, brief: bool = False
) -> str:
    """Whether the later run passes more items than the first, and whether that could be chance.

    A brief one leaves out how many items it would take to tell.
    """
    left_out = otherwise_sentence(difference.judged_otherwise)
    return " ".join(filter(None, (_difference_sentence(difference, before, after, level, brief), left_out)))


def otherwise_sentence(count: int) -> str:
    """How many answers a comparison leaves out because of what they were held against; empty for none."""
    if not count:
        return ""
    answers = "1 answer was" if count == 1 else f"{count:,} answers were"
    return f"{answers} {JUDGED_OTHERWISE} and {'is' if count == 1 else 'are'} not compared."


def _difference_sentence(difference: RunDifference, before: str, after: str, level: float, brief: bool) -> str:
    test = difference.passes
    if not test.items and difference.scored:
        measured = [measured_sentence(one, before, after, level) for one in difference.tests if one.what and one.items]
        return " ".join(["Nothing that judged these answers can fail, so there is no pass rate.", *measured])
    if not test.items:
        alike = " by the same expectation" if difference.judged_otherwise else ""
        return f"{before} and {after} have no item in common that both judged{alike}."
    if not test.difference:
        same = " the same" if not difference.broken + difference.fixed else " as many"
        return f"{after} passes{same} of {_count_items(test)} as {before}: no difference."
    more = "more" if test.difference > 0 else "fewer"
    net = abs(difference.fixed - difference.broken)
    exact = net and net == round(abs(test.difference) * test.items, 6)
    amount = f"{net:,}" if exact else f"{100 * abs(test.difference):.1f} percentage points"
    if test.adjusted < level:
        passing = f"{amount} {more} of {_count_items(test)} {'passes' if exact and net == 1 else 'pass'}"
        return f"{_outcome(test, before, after)}: {passing} {chance_phrase(test, level)}."
    power = "" if brief else power_phrase(test, level)
    return f"{after} passes {amount} {more} of {_count_items(test)} than {before}: {chance_phrase(test, level)}{power}."


def measured_sentence(test: MeasuredDifference, before: str = "A", after: str = "B", level: float = LEVEL) -> str:
    """One evaluator, or one column, in a sentence."""
    name = test.name or test.column
    if not test.difference:
        return f"{name}: no difference over {_count_items(test)}."
    values = (test.before, test.after)
    was, now = test.measure.texts(*values) if test.what else map(percent, values)
    numbers = f"{was} in {before}, {now} in {after} over {_count_items(test)}"
    outcome = f"{_outcome(test, before, after)} " if test.adjusted < level else ""
    return f"{name}: {numbers}: {outcome}{chance_phrase(test, level)}."


def chance_phrase(test: MeasuredDifference, level: float = LEVEL) -> str:
    """How often equal runs differ as much, in brackets; before it the word for what they differ in often enough."""
    p = f"({p_phrase(test.adjusted, level)})"
    return p if test.adjusted < level else f"{COULD_BE_CHANCE} {p}"


def p_phrase(p: float, level: float = LEVEL) -> str:
    """A p value with its name."""
    equals = "" if p < _LEAST_CHANCE else "= "
    return f"p {equals}{chance(p, level)}".replace("<", "< ")


def chance(p: float, level: float = LEVEL) -> str:
    """A p value, rounded neither to nothing nor to the level it lies above or below."""
    if p < _LEAST_CHANCE:
        return f"<{_LEAST_CHANCE}"
    decimals = 3 if p < 0.1 else 2
    while p != level and round(p, decimals) == level and decimals < _MOST_DECIMALS:
        decimals += 1
    return f"{p:.{decimals}f}"


def power_phrase(test: MeasuredDifference, level: float = LEVEL) -> str:
    """How many items would tell such a difference from chance, where there were too few."""
    if test.adjusted < level or test.needed is None or test.needed <= test.items:
        return ""
    return f"; about {_round_up(test.needed):,} items would tell"


def _outcome(test: MeasuredDifference, before: str, after: str) -> str:
    """Who is better, where chance does not explain the difference."""
    if not test.side:
        return f"{before} and {after} differ"
    # The first of several runs is A, which every later one is compared with.
    than = "" if before == NAMES[0] else f" than {before}"
    return f"{after} is {'better' if test.side > 0 else 'worse'}{than}"


def _count_items(test: MeasuredDifference) -> str:
    return f"{test.items:,} item" if test.items == 1 else f"{test.items:,} items"


def _round_up(count: int) -> int:
    """Two figures are all that such an estimate is worth."""
    step: int = 10 ** max(len(str(count)) - 2, 0)
    return -(-count // step) * step
