"""Gates that compare a run with its baseline. Imported only when a run is compared, because it imports `compare`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from tui_evals.compare.baseline import (
    SharedItem,
    broken_items,
    can_show,
    drop_sentence,
    least_items,
    one_sided_repeats,
    passing_and_judged,
    shared_items,
    too_few_sentence,
)
from tui_evals.compare.measures import LEVEL, MeasuredDifference, RunDifference
from tui_evals.compare.runs import ComparedLine, Comparison, read_comparison
from tui_evals.compare.verdicts import difference_sentence, measured_sentence
from tui_evals.figures import Figure, Interval
from tui_evals.light_records import dataclass
from tui_evals.runs.gate_checks import JUDGED, MOST_NAMED, by_rules, count_answers, gate_verdict, missing_check
from tui_evals.runs.gate_options import Gates
from tui_evals.store.reader import Reader
from tui_evals.store.records import CheckedGate, RunRow


@dataclass(frozen=True, slots=True)
class AgainstBaseline:
    """The gates that compare a run with a baseline, and the comparison in words and numbers."""

    checks: tuple[CheckedGate, ...]
    verdict: str
    difference: RunDifference


@dataclass(frozen=True, slots=True)
class _Pair:
    """A run and its baseline."""

    gates: Gates
    before: str
    """The key of the baseline."""
    after: str
    comparison: Comparison
    shared: Sequence[SharedItem]
    finished: bool
    verdict: str = ""

    @property
    def difference(self) -> RunDifference:
        """The run against the baseline in numbers."""
        return self.comparison.against[0]


def baseline_checks(reader: Reader, run: RunRow, gates: Gates, baseline: RunRow, *, finished: bool) -> AgainstBaseline:
    """Compare a run with a baseline and check the gates; raises LookupError if one of the two was deleted."""
    comparison = read_comparison(reader, [baseline.id, run.id])
    shared = shared_items(comparison.lines)
    verdict = _verdict(comparison, shared, baseline.key, run.key, gates.fail_on_regression or LEVEL) if finished else ""
    pair = _Pair(gates, baseline.key, run.key, comparison, shared, finished, verdict)
    checks: list[CheckedGate] = []
    if gates.fail_on_broken is not None:
        checks.append(_broken_check(pair, gates.fail_on_broken))
    if gates.fail_on_regression is not None:
        checks += _regression_checks(pair, gates.fail_on_regression)
    if checks and finished:
        checks += _lost_check(pair)
    return AgainstBaseline(tuple(checks), verdict, pair.difference)


def _verdict(comparison: Comparison, shared: Sequence[SharedItem], before: str, after: str, level: float) -> str:
    """The difference in words, how many answers could not be compared, and which drop so few items can show."""
    (difference,) = comparison.against
    sentences = [difference_sentence(difference, before, after, level)]
    if apart := sum(line.kinds[0] in _APART for line in _expected(comparison)):
        sentences.append(f"{count_answers(apart)} of {before} could not be compared.")
    if difference.passes.items and not difference.passes.worse(level):
        sentences.append(drop_sentence(*passing_and_judged(shared), level))
    return " ".join(sentences)


def _broken_check(pair: _Pair, most: int) -> CheckedGate:
    """The gate on items that passed in the baseline and fail now."""
    gate, found = pair.gates.text("fail_on_broken"), broken_items(pair.shared)
    count = len(found.broken)
    figure = Figure(count, found.passed, found.answers, None, "", "items", f"that passed in {pair.before} fail now")
    if pair.finished and not pair.difference.items:
        return CheckedGate(gate, "not met", f"Cannot be checked: {pair.verdict}", figure)
    sentence = f"{count:,} of {count_answers(found.passed, 'item')} that passed in {pair.before} "
    sentence += f"{'fails' if count == 1 else 'fail'} now" + (f": {_named(found.broken)}" if count else "")
    sentence += "" if pair.finished else " so far"
    if found.flipping:
        sentence += f". Not counted: {count_answers(found.flipping, 'item')} whose repeats in {pair.before} disagree"
    # If fewer items passed than the gate allows to break, it fails only if all of them break.
    lost = count >= (min(most, found.passed or most) if pair.finished else most)
    return CheckedGate(gate, gate_verdict(lost, pair.finished), sentence + ".", figure)


def _named(broken: Sequence[SharedItem]) -> str:
    names = [f"{one.item} ({one.column})" if one.column else one.item for one in broken]
    more = f" and {len(names) - MOST_NAMED:,} more" if len(names) > MOST_NAMED else ""
    return ", ".join(names[:MOST_NAMED]) + more


def _regression_checks(pair: _Pair, level: float) -> Iterator[CheckedGate]:
    """The gate on regressions: a row for each number that got worse, else one for the comparison as a whole."""
    gate, difference = pair.gates.text("fail_on_regression"), pair.difference
    figure = _figure(difference.passes, pair.shared) if difference.passes.items else None
    if not pair.finished:
        yield CheckedGate(gate, "not decided", "A regression is tested once the run is finished.", figure)
        return
    worse = difference.worse(level)
    for test in worse:
        sentence = f"worse: {_test_sentence(test, pair, level)}"
        yield CheckedGate(gate, "not met", sentence, _figure(test, pair.shared), test.column)
    if worse:
        return
    if not difference.items:
        yield CheckedGate(gate, "not met", f"Cannot be checked: {pair.verdict}", figure)
        return
    passes = difference.passes
    # A run that passes at least as much as its baseline is no worse, even if too few items pass to test it.
    no_worse = passes.items >= least_items(level) and passes.difference >= 0
    if no_worse or can_show(pair.comparison, pair.shared, level):
        yield CheckedGate(gate, "met", pair.verdict, figure)
        return
    few = f"The gate cannot fire. {too_few_sentence(*passing_and_judged(pair.shared), level)}"
    before = CheckedGate(gate, "met", "no number is worse beyond chance.", figure)
    yield by_rules(pair.gates, True, CheckedGate(gate, "not met", few, figure), before)


def _figure(test: MeasuredDifference, shared: Sequence[SharedItem]) -> Figure:
    """How much more or less the run has."""
    answers = sum(one.answers for one in shared if test.column in ("", one.column))
    interval = Interval(test.interval.low, test.interval.high) if test.interval else None
    unit = test.measure.unit if test.what else "points"
    return Figure(test.difference, test.items, answers, interval, "", unit, "shared")


def _test_sentence(test: MeasuredDifference, pair: _Pair, level: float) -> str:
    if test.what or test.column:
        return measured_sentence(test, pair.before, pair.after, level)
    return difference_sentence(pair.difference, pair.before, pair.after, level)


def _lost_check(pair: _Pair) -> Iterable[CheckedGate]:
    """The gate on judged answers of the baseline without a counterpart; only if it is not met."""
    judged = [line for line in _expected(pair.comparison) if line.answers[0] and line.answers[0].status in JUDGED]
    what = f"judged in {pair.before} and not comparable now"
    checks = missing_check(pair.gates, True, sum(map(_is_lost, judged)), len(judged), "answer", what)
    return [check for check in checks if not check.met]


_APART = ("gone", "not comparable")


def _expected(comparison: Comparison) -> list[ComparedLine]:
    """All lines but those of repeats that only one of the runs asked for."""
    lines = comparison.lines
    one_sided = one_sided_repeats(lines)
    if not one_sided:
        return [*lines]
    return [line for line in lines if (line.item, line.column, line.repeat) not in one_sided]


def _is_lost(line: ComparedLine) -> bool:
    """Whether a judged answer of the baseline has no counterpart."""
    later = line.answers[1]
    return later is None or later.status not in JUDGED or line.kinds[0] in _APART
