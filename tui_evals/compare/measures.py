"""A later run against the first in numbers; counted by items, because turns and repeats are no independent proof."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import isclose
from statistics import fmean

from tui_evals.store.figures import Judged
from tui_evals.text.measures import Measure, common_measure, parse_measure

from .match import Kind, Outcome, Verdict, item_verdict, repeat_verdicts
from .sides import Answer, CellKey, Judging, RunAnswers
from .statistics import Interval, bootstrap, holm, items_needed, paired_test

_ROUNDING = 1e-12
PLAIN = Measure()
LEVEL = 0.05
"""A difference that equal runs make as often as this, or more often, could be chance."""

Column = tuple[int, int]
ItemAnswers = tuple[Mapping[CellKey, Answer], Mapping[CellKey, Answer]]
"""The answers to one item in the first run and in a later one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredDifference:
    """One number of a later run against the first, over the items that both judged."""

    what: str
    """The evaluator; empty for whether an item passes."""
    column: str = ""
    """The target and prompt; empty for all together."""
    items: int
    before: float
    after: float
    interval: Interval | None
    """Where the true difference lies, with 95 % confidence; None where all differences are one, which tells nothing."""
    p: float
    """How often chance alone makes a difference this large."""
    adjusted: float
    """The same after Holm's correction for how many such tests were made."""
    needed: int | None
    """How many items would show a difference of this size; None when there is none."""
    direction: int
    """1 when more is better, -1 when less is, 0 when that is unknown."""
    measure: Measure = PLAIN
    """What the numbers of an evaluator are in."""

    @property
    def name(self) -> str:
        """What is measured: the evaluator, with the scale of its scores where one is declared, or the column."""
        return f"{self.what} ({self.measure.range_text})" if self.what and self.measure.bounds else self.what

    @property
    def difference(self) -> float:
        """How much more the later run has."""
        return self.after - self.before

    @property
    def shown(self) -> bool:
        """Whether chance hardly makes such a difference."""
        return self.adjusted < LEVEL

    @property
    def side(self) -> int:
        """1 when the later run is better, -1 when it is worse, 0 when it is neither or that is unknown."""
        better = self.difference * self.direction
        return (better > 0) - (better < 0)

    def worse(self, level: float = LEVEL) -> bool:
        """Whether the later run is worse, beyond what chance makes of equal runs."""
        return self.adjusted < level and self.side < 0


@dataclass(frozen=True, slots=True)
class RunDifference:
    """A later run against the first."""

    items: int
    """Items that both runs judged, counted in each column."""
    broken: int
    """Items that passed and do not any more, by the majority of their repeats."""
    fixed: int
    passes: MeasuredDifference
    """Whether the items pass, all columns together."""
    tests: tuple[MeasuredDifference, ...]
    """Each evaluator, and each column where there are several."""
    counts: Mapping[Kind, int] = field(default_factory=dict)
    """How many lines are of each kind."""
    judged_otherwise: int = 0
    """How many lines are not comparable because they were judged by another expectation."""
    scored: int = 0
    """Lines that both runs only scored: nothing that judged them can fail."""

    def worse(self, level: float = LEVEL) -> tuple[MeasuredDifference, ...]:
        """What got worse, beyond chance."""
        return tuple(test for test in (self.passes, *self.tests) if test.worse(level))


def run_difference(items: Sequence[ItemAnswers], first: RunAnswers, later: RunAnswers) -> RunDifference:
    """Every test of a later run, from the items that both runs have."""
    columns: defaultdict[Column, list[tuple[float, float]]] = defaultdict(list)
    item_shares: list[tuple[float, float]] = []
    verdicts: Counter[tuple[Verdict, Verdict]] = Counter()
    for both in items:
        shares = dict(_shares(both, verdicts))
        for column, share in shares.items():
            columns[column].append(share)
        if shares:
            item_shares.append(_mean_pair(shares.values()))
    family = [
        _difference(scores, key, "", *_direction(first, later, key))
        for key, scores in _by_evaluator(items, first, later)
    ]
    if len(columns) > 1:
        names = {**later.columns, **first.columns}
        family += [_difference(shares, "", names[column], 1) for column, shares in sorted(columns.items())]
    corrected = holm([test.p for test in family])
    tests = tuple(replace(test, adjusted=p) for test, p in zip(family, corrected, strict=True))
    counted = sum(map(len, columns.values()))
    broken, fixed = verdicts["pass", "fail"], verdicts["fail", "pass"]
    return RunDifference(counted, broken, fixed, _difference(item_shares, "", "", 1), tests)


def _shares(
    both: ItemAnswers, verdicts: Counter[tuple[Verdict, Verdict]]
) -> Iterator[tuple[Column, tuple[float, float]]]:
    """In each column the share of repeats that pass, before and after, where both were judged; counts the verdicts."""
    if len(both[0]) == len(both[1]) == 1 and both[0].keys() == both[1].keys():
        ((cell, before),), (after,) = both[0].items(), both[1].values()
        if before.status in _VERDICTS and after.status in _VERDICTS:
            verdicts[_VERDICTS[before.status], _VERDICTS[after.status]] += 1
            yield cell[1:3], (float(before.status == "pass"), float(after.status == "pass"))
        return
    sides = [_outcomes(cells) for cells in both]
    for column, outcomes in sides[0].items():
        if column in sides[1]:
            was, now = _share_passing(outcomes), _share_passing(sides[1][column])
            if was is not None and now is not None:
                verdicts[item_verdict(outcomes), item_verdict(sides[1][column])] += 1
                yield column, (was, now)


_VERDICTS: Mapping[str, Verdict] = {"pass": "pass", "fail": "fail"}


def _outcomes(cells: Mapping[CellKey, Answer]) -> Mapping[Column, list[Outcome]]:
    by_column: defaultdict[Column, list[Outcome]] = defaultdict(list)
    for (repeat, prompt, target, turn), answer in cells.items():
        by_column[prompt, target].append(Outcome(turn, repeat, answer.status))
    return by_column


def _share_passing(outcomes: Iterable[Outcome]) -> float | None:
    """The share of repeats that pass, each as good as the worst of its turns; None where none was judged whole."""
    judged = [verdict == "pass" for verdict in repeat_verdicts(outcomes) if verdict in ("pass", "fail")]
    return sum(judged) / len(judged) if judged else None


def _by_evaluator(
    items: Sequence[ItemAnswers], first: RunAnswers, later: RunAnswers
) -> Iterator[tuple[str, list[tuple[float, float]]]]:
    """For each evaluator the mean score of every item that both runs judged, before and after."""
    means: defaultdict[str, list[tuple[float, float]]] = defaultdict(list)
    for both in items:
        if len(both[0]) == len(both[1]) == 1 and both[0].keys() == both[1].keys():
            for key, pair in _lone_scores(both, first, later):
                means[key].append(pair)
            continue
        before, after = _scores(both[0], first), _scores(both[1], later)
        for key, places in before.items():
            if key in after:
                shared = [(_mean(places[at]), _mean(after[key][at])) for at in places if at in after[key]]
                if shared:
                    means[key].append(_mean_pair(shared))
    yield from sorted(means.items())


def _lone_scores(both: ItemAnswers, first: RunAnswers, later: RunAnswers) -> Iterator[tuple[str, tuple[float, float]]]:
    """The scores of an item that has one answer in each run, by evaluator."""
    (before,), (after,) = both[0].values(), both[1].values()
    others = {record.key: record for record in later.judged.get(after.id, ())}
    for record in first.judged.get(before.id, ()):
        if record.key in others:
            yield record.key, (judged_value(record), judged_value(others[record.key]))


def _scores(cells: Mapping[CellKey, Answer], side: RunAnswers) -> dict[str, dict[tuple[int, int, int], list[float]]]:
    """The scores of an item by evaluator and by prompt, target and turn; repeats together."""
    scores: dict[str, dict[tuple[int, int, int], list[float]]] = {}
    for cell, answer in cells.items():
        for record in side.judged.get(answer.id, ()):
            scores.setdefault(record.key, {}).setdefault(cell[1:], []).append(judged_value(record))
    return scores


def judged_value(judged: Judging | Judged) -> float:
    """The score; a bare verdict counts 1 or 0."""
    return judged.score if judged.score is not None else float(judged.result == "pass")


def _direction(first: RunAnswers, later: RunAnswers, key: str) -> tuple[int, Measure]:
    """Whether more is better, and what the scores are in.

    Where the evaluator does not say it, the verdicts do: what passes lies above the threshold, or below it.
    """
    measure = parse_measure(common_measure(side.measures.get(key, "") for side in (first, later)))
    if measure.better:
        return measure.better, measure
    above: Counter[bool] = Counter()
    verdicts = False
    for side in (first, later):
        for records in side.judged.values():
            for record in records:
                if record.key == key and record.result in ("pass", "fail"):
                    verdicts = True
                    if record.score is not None and record.threshold is not None:
                        above[(record.result == "pass") == (record.score >= record.threshold)] += 1
    return (0 if not verdicts else -1 if above[False] > above[True] else 1), measure


def passes_by_target(items: Iterable[ItemAnswers]) -> dict[int, MeasuredDifference]:
    """Whether the items pass, for each target: from the statuses alone, without intervals, to be asked often."""
    shares: defaultdict[int, list[tuple[float, float]]] = defaultdict(list)
    for both in items:
        by_target: defaultdict[int, list[tuple[float, float]]] = defaultdict(list)
        for (_, target), share in _shares(both, Counter()):
            by_target[target].append(share)
        for target, pairs in by_target.items():
            shares[target].append(_mean_pair(pairs))
    tests = {target: _difference(pairs, "", "", 1, estimated=False) for target, pairs in sorted(shares.items())}
    corrected = holm([test.p for test in tests.values()])
    return {target: replace(test, adjusted=p) for (target, test), p in zip(tests.items(), corrected, strict=True)}


def _mean(values: Sequence[float]) -> float:
    """The mean; most items have one answer, for which `fmean` would take ten times as long as the rest."""
    return values[0] if len(values) == 1 else fmean(values)


def _mean_pair(pairs: Collection[tuple[float, float]]) -> tuple[float, float]:
    if len(pairs) == 1:
        return next(iter(pairs))
    before, after = zip(*pairs, strict=True)
    return fmean(before), fmean(after)


def _difference(
    pairs: Sequence[tuple[float, float]],
    what: str,
    column: str,
    direction: int,
    measure: Measure = PLAIN,
    *,
    estimated: bool = True,
) -> MeasuredDifference:
    """The test of pairs; `estimated` adds the interval and how many items would tell, which take most of the time."""
    # The means of one and of three equal scores may differ by a rounding, and all to the same side.
    pairs = [(before, before if isclose(before, after, rel_tol=_ROUNDING) else after) for before, after in pairs]
    differences = [after - before for before, after in pairs]
    before, after = _mean_pair(pairs) if pairs else (0.0, 0.0)
    p = paired_test(differences)
    spread = bootstrap(differences) if estimated else None
    return MeasuredDifference(
        what=what,
        column=column,
        items=len(pairs),
        before=before,
        after=after,
        interval=spread if spread and spread.low < spread.high else None,
        p=p,
        adjusted=p,
        needed=items_needed(differences) if estimated else None,
        direction=direction,
        measure=measure,
    )
