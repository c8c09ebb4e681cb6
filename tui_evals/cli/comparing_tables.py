"""The numbers of a comparison as lines: the runs, every test of a later one, rates by category, kinds counted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import floor, log10
from typing import Any

from tui_evals.compare.measures import Against, Test
from tui_evals.compare.runs import KINDS, Comparison
from tui_evals.compare.statistics import percent
from tui_evals.compare.verdicts import NAMES, between

from .tables import table, wrapped

Styled = tuple[str, Mapping[str, Any]]

_SIDES: Mapping[int, str] = {1: ": better", -1: ": worse", 0: ""}
_COLOURS: Mapping[int, str | None] = {1: "green", -1: "red", 0: None}


def run_table(found: Comparison, room: int | None) -> list[str]:
    """The runs by their letters, with the rate over all that each one asked."""
    rows = [["", "run", "name", "targets", "passes", "of", "95 % interval"]]
    for name, side in zip(NAMES, found.sides, strict=False):
        run, rate = side.run, side.rate
        targets = ", ".join(run.targets)
        ends = between(rate.interval)
        rows.append([name, run.key, run.name, targets, percent(rate.share), f"{rate.passed}/{rate.judged}", ends])
    return table(rows, right=(4, 5), elastic=(2, 3), room=room)


def evaluator_tables(against: Against, name: str, room: int | None) -> Iterator[Styled]:
    """Every test of a later run: what passes, each evaluator, each column where there are several."""
    every = [against.passes] if against.passes.items else []
    groups = {
        "evaluator": [*every, *(test for test in against.tests if test.what)],
        "target": [test for test in against.tests if not test.what],
    }
    for head, tests in groups.items():
        if tests:
            yield from _tests(head, tests, name, room)
    if (many := len(against.tests)) > 1:
        note = f"p is corrected for {many} tests at once, except that of passes; the intervals are not."
        yield from ((line, {"dim": True}) for line in wrapped(note, room))
    less = [test.what for test in against.tests if test.direction < 0]
    if less:
        yield from ((line, {"dim": True}) for line in wrapped(f"Less is better: {', '.join(less)}.", room))


def _tests(head: str, tests: Sequence[Test], name: str, room: int | None) -> Iterator[Styled]:
    counts = {test.items for test in tests}
    count = ["items"] if len(counts) > 1 else []
    rows = [[head, *count, "A", name, f"{name} - A", "95 % interval", "p", ""]]
    for test in tests:
        number = [f"{test.items:,}"] if count else []
        rows.append([test.what or test.column or "passes", *number, *_numbers(test), verdict(test)])
    numeric = range(1, len(rows[0]) - 1)
    for line, one in zip(table(rows, right=numeric, room=room), [None, *tests], strict=True):
        yield line, {"dim": True} if one is None else {"fg": _COLOURS[one.side] if one.shown else None}


def _numbers(test: Test) -> list[str]:
    """Before, after, difference with its interval, and p; a rate in percent, so that its difference is in points."""
    rated, ends = not test.what, test.interval
    decimals = 1 if rated else _decimals(test)
    factor, unit = (100, " pts") if rated else (1, "")

    def number(value: float) -> str:
        return f"{round(value * factor, decimals) + 0.0:.{decimals}f}"  # + 0.0 takes the sign from a zero

    before, after = (percent(value) if rated else number(value) for value in (test.before, test.after))
    shown = "" if ends is None else f"{number(ends.low)} to {number(ends.high)}"
    sign = "+" if test.difference > 0 else ""
    return [before, after, f"{sign}{number(test.difference)}{unit}", shown, chance(test.adjusted)]


def _decimals(test: Test) -> int:
    """Three, fewer of large scores, and as many as it takes to see small ones and small differences."""
    high, gap = max(abs(test.before), abs(test.after)), abs(test.difference)
    usual = 3 if high < 10 else 2 if high < 100 else 1
    small = 2 - floor(log10(high)) if 0 < high < 0.1 else 0
    # Sums of floats leave a trace where nothing changed.
    close = -floor(log10(gap)) if gap > 1e-9 * high else 0
    return min(max(usual, small, close), 12)


def verdict(test: Test) -> str:
    """Whether a difference is shown, and to which side."""
    if test.shown:
        return f"shown{_SIDES[test.side]}"
    return "not shown" if test.difference else "equal"


def chance(p: float) -> str:
    """A p value, never rounded to nothing."""
    return "<0.001" if p < 0.001 else f"{p:.3f}" if p < 0.1 else f"{p:.2f}"


def category_table(found: Comparison, room: int | None) -> list[str]:
    """The rates of every run in each category."""
    names = NAMES[: len(found.sides)]
    rows = [["category", *(part for name in names for part in (name, "of"))]]
    for category, rates in found.categories.items():
        cells = [part for rate in rates for part in (percent(rate.share), f"{rate.passed}/{rate.judged}")]
        rows.append([category or "(none)", *cells])
    return table(rows, right=range(1, len(rows[0])), room=room)


def count_line(against: Against) -> str:
    """How many answers are of which kind."""
    return "Answers: " + " · ".join(f"{against.counts[kind]:,} {kind}" for kind in KINDS if against.counts[kind])
