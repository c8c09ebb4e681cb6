"""Wording for comparisons: the change of an answer, and the size of a difference."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import floor, log10

from tui_evals.compare.measures import MeasuredDifference, RunDifference
from tui_evals.compare.runs import KINDS, ComparedLine, Comparison, RunSide, SharedRates
from tui_evals.compare.sides import Kind, Usage
from tui_evals.compare.verdicts import COULD_BE_CHANCE, JUDGED_OTHERWISE, NAMES, WITHOUT_CALLS, chance, p_phrase
from tui_evals.figures import Figure, percent
from tui_evals.light_records import dataclass
from tui_evals.present.figures import label_counts
from tui_evals.store.records import RunRow
from tui_evals.text.measures import compact, counted, duration

from .runs import Cost, stop_reason
from .status import Look, Tone, run_look

KIND_LOOKS: Mapping[Kind, Look] = {
    "broken": Look("✗", "broken", "bad"),
    "fixed": Look("✓", "fixed", "ok"),
    "changed": Look("~", "changed", "warn"),
    "same": Look("=", "same", "dim"),
    "gone": Look("‹", "gone", ""),
    "new": Look("›", "new", ""),
    "not comparable": Look("?", "not comparable", "dim"),
}


def kind_counts(against: RunDifference) -> list[str]:
    """The number of answers of each kind that occurs."""
    counts = [f"{count:,} {kind}" for kind in KINDS if (count := against.counts.get(kind, 0))]
    if (otherwise := against.judged_otherwise) and counts[-1].endswith("not comparable"):
        every = otherwise == against.counts["not comparable"]
        counts[-1] += f" ({JUDGED_OTHERWISE})" if every else f" ({otherwise:,} {JUDGED_OTHERWISE})"
    return counts


def kind_text(line: ComparedLine) -> str:
    """The change of a line as glyph and words, with the reason if it is not comparable."""
    look = KIND_LOOKS[line.kind]
    if line.kind == "not comparable" and any(line.otherwise):
        return f"{look.text}: {JUDGED_OTHERWISE}"
    return f"{look.text}: {WITHOUT_CALLS}" if any(line.without_calls) else look.text


@dataclass(frozen=True, slots=True)
class RateRow:
    """The pass rate of one run in one column, or in a category of it, over what all runs share."""

    letter: str
    side: RunSide
    column: str
    """Empty where no column is shared."""
    category: str
    figure: Figure | None

    @property
    def rate(self) -> str:
        """The rate in percent."""
        return percent(self.figure.value if self.figure else None)

    @property
    def items(self) -> str:
        """The items it is over, and how many answers they have where that is more than one each."""
        return "" if self.figure is None else items_text(self.figure)


def rate_rows(comparison: Comparison) -> list[RateRow]:
    """The pass rates of the runs: of each run one row for each column that all have."""
    if not comparison.rates:
        return [RateRow(name, side, "", "", None) for name, side in zip(NAMES, comparison.sides, strict=False)]
    return sorted(_rate_rows(comparison, comparison.rates), key=lambda row: row.letter)


def category_rates(comparison: Comparison) -> Iterator[list[RateRow]]:
    """The pass rates of all runs in each category, and in each column where there are several."""
    for shared in comparison.categories:
        yield _rate_rows(comparison, [shared])


def _rate_rows(comparison: Comparison, rates: Iterable[SharedRates]) -> list[RateRow]:
    return [
        RateRow(letter, side, column, shared.category, figure)
        for shared in rates
        for letter, side, column, figure in zip(NAMES, comparison.sides, shared.names, shared.figures, strict=False)
    ]


def category_name(comparison: Comparison, row: RateRow) -> str:
    """A category, with its column where there are several."""
    name = row.category or "(none)"
    return f"{name} · {row.column}" if len(comparison.rates) > 1 else name


def items_text(figure: Figure) -> str:
    """How many items a figure is over, and how many answers they have where that is more than one each."""
    if not figure.items:
        return counted(figure.answers, "answer")
    items = counted(figure.items, "item")
    each, rest = divmod(figure.answers, figure.items)
    if figure.answers == figure.items:
        return items
    return f"{items}, {f'{each:,} answers each' if not rest else counted(figure.answers, 'answer')}"


def population_sentence(comparison: Comparison) -> str:
    """Which answers the figures of a comparison are over."""
    runs = "both runs" if len(comparison.sides) == 2 else f"all {len(comparison.sides)} runs"
    if not comparison.rates:
        return f"There is no item that {runs} judged, so there is no pass rate to compare."
    return f"Pass rates are over the items that {runs} judged."


def side_name(side: RunSide) -> str:
    """The name of a run in a comparison, with a mark if it asked only a part of its dataset."""
    return f"{side.run.name} ○ {side.part.text}" if side.part else side.run.name


def why_alone(run: RunRow, others: Iterable[RunRow]) -> str:
    """Why a run is compared with none unless one is named, and which that could be; `others` as `default_opponent`."""
    before = next((one for one in others if one.id < run.id), None)
    such = "" if before is None else f", only {before.key}, which is {run_look(before).word}"
    return f"no finished run of its dataset comes before it{such}"


def label_lines(sides: Sequence[RunSide]) -> Iterator[str]:
    """How often evaluators that cannot fail an answer gave each label in each run."""
    for key in dict.fromkeys(key for side in sides for key in side.labels):
        spread = (
            f"{label_counts(side.labels.get(key, {})) or 'none'} in {name}"
            for name, side in zip(NAMES, sides, strict=False)
        )
        yield f"{key}, of all answers of each run: {'; '.join(spread)}"


def usage_lines(sides: Sequence[RunSide]) -> Iterator[str]:
    """The cost and time of the shared answers, side by side: of all targets, and of each if a run has several."""
    several = any(len(side.usage) > 2 for side in sides)
    names = dict.fromkeys(name for side in sides for name in side.usage if several or not name)
    for name in names:
        used = [side.usage.get(name) for side in sides]
        costs = (Cost(one.cost, unpriced=one.unpriced, perhaps=one.perhaps).short if one else "–" for one in used)
        tokens = (compact(one.input_tokens + one.output_tokens) if one else "–" for one in used)
        facts = [("cost", costs), ("tokens", tokens), ("median latency", map(_latency, used))]
        if any(one and one.cached for one in used):
            facts.append(("from the cache", (f"{one.cached:,}" if one else "–" for one in used)))
        text = " · ".join(f"{fact} {' → '.join(values)}" for fact, values in facts)
        answers = max((one.answers for one in used if one), default=0)
        yield f"{f'{name}, ' if name else ''}{counted(answers, 'shared answer')}: {text}"


def _latency(used: Usage | None) -> str:
    if used is None or used.latency is None:
        return "cached" if used and used.cached else "–"
    return duration(used.latency)


def stop_notes(runs: Iterable[RunRow]) -> Iterator[str]:
    """Why the runs stopped that did not come to their end."""
    for name, run in zip(NAMES, runs, strict=False):
        if reason := stop_reason(run):
            yield f"{name} stopped: {reason}"


def direction(test: MeasuredDifference) -> str:
    """Whether a difference is for the better or the worse; empty if it could be chance or is unknown."""
    if not test.shown:
        return ""
    return "better" if test.side > 0 else "worse" if test.side < 0 else ""


def difference_verdict(test: MeasuredDifference) -> str:
    """A difference in one to three words."""
    if test.shown:
        return direction(test) or "differs"
    return COULD_BE_CHANCE if test.difference else "equal" if test.items else "nothing to compare"


def baseline_phrases(test: MeasuredDifference, baseline: str) -> tuple[str, ...]:
    """The difference to a baseline, and whether it could be chance: the longest wording first."""
    if not test.items:
        return (f"nothing to compare with {baseline}", "nothing to compare")
    points = f"{100 * test.difference:+.1f}".removesuffix(".0")
    if not test.difference:
        return (f"no difference to {baseline}", "no difference")
    p, verdict = p_phrase(test.adjusted), difference_verdict(test)
    word = verdict if test.shown else "chance?"
    return (
        f"{points} pts on {baseline}, {verdict} ({p})",
        f"{points} on {baseline}, {word} ({p})",
        f"{points}, {word} ({p})",
        f"{points} {word}",
    )


@dataclass(frozen=True, slots=True)
class DifferenceText:
    """A measured difference as the cells of a table."""

    name: str
    """The evaluator or the column; `passes` for the items that pass."""
    items: str
    before: str
    after: str
    difference: str
    interval: str
    """Empty if unknown."""
    chance: str
    verdict: str
    tone: Tone


def difference_text(test: MeasuredDifference) -> DifferenceText:
    """A difference in words; a rate is in percent, so that its difference is in points.

    Several columns together have a difference, but no rate.
    """
    rated, ends = not test.what, test.interval
    factor, sign, unit = (100, "", " pts") if rated else test.measure.scale((test.before, test.after))
    decimals = 1 if rated else _decimals(test, factor)

    def number(value: float) -> str:
        return f"{round(value * factor, decimals) + 0.0:.{decimals}f}"  # + 0.0 takes the sign from a zero

    values = (test.before, test.after)
    before, after = (percent(value) if rated else f"{sign}{number(value)}{unit}" for value in values)
    if rated and test.columns > 1:
        before = after = "–"
    tones: Mapping[str, Tone] = {"better": "ok", "worse": "bad"}
    return DifferenceText(
        name=test.name or test.column or ("passes" if test.columns == 1 else f"passes in all {test.columns} columns"),
        items=f"{test.items:,}",
        before=before,
        after=after,
        difference=f"{'+' if test.difference > 0 else ''}{number(test.difference)}{unit}",
        interval="" if ends is None else f"{number(ends.low)} to {number(ends.high)}",
        chance=chance(test.adjusted),
        verdict=difference_verdict(test),
        tone=tones.get(direction(test), ""),
    )


def _decimals(test: MeasuredDifference, factor: float) -> int:
    """Three, fewer of large scores, and as many as it takes to see small ones and small differences."""
    high, gap = factor * max(abs(test.before), abs(test.after)), factor * abs(test.difference)
    usual = 3 if high < 10 else 2 if high < 100 else 1
    small = 2 - floor(log10(high)) if 0 < high < 0.1 else 0
    # Sums of floats keep a rest even if nothing changed.
    close = -floor(log10(gap)) if gap > 1e-9 * high else 0
    return min(max(usual, small, close), 12)
