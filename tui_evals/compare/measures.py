"""A later run against the first in numbers; counted by items, because turns and repeats are no independent proof."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import field, replace
from math import isclose
from statistics import fmean
from typing import NamedTuple

from tui_evals.compare.sides import Answer, CellKey, Kind, RunAnswers, TurnOutcome, repeat_verdicts
from tui_evals.figures import (
    Figure,
    Interval,
    difference_interval,
    holm,
    items_needed,
    paired_test,
    pass_rate,
    sample_of,
)
from tui_evals.light_records import dataclass
from tui_evals.store.records import AnswerStatus
from tui_evals.store.run_figures import Judged
from tui_evals.text.measures import Measure, common_measure, parse_measure

_ROUNDING = 1e-12
PLAIN = Measure()
LEVEL = 0.05
"""A difference that equal runs make as often as this, or more often, could be chance."""

Column = tuple[int, int]
Pair = tuple[float, float]
"""A number of an item in the first run and in a later one."""
ItemAnswers = tuple[Mapping[CellKey, Answer], Mapping[CellKey, Answer]]
"""The answers to one item in the first run and in a later one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredDifference:
    """One figure of a later run against the first, over the items that both judged."""

    what: str
    """The evaluator; empty for whether an item passes."""
    column: str = ""
    """The target and prompt; empty for all together."""
    items: int
    before: float
    after: float
    interval: Interval | None
    """The 95 % confidence interval of the difference; None if there are too few numbers."""
    p: float
    """How often chance alone makes a difference this large."""
    adjusted: float
    """`p` after Holm's correction for the number of tests."""
    needed: int | None
    """How many items would show a difference of this size; None when there is none."""
    direction: int
    """1 when more is better, -1 when less is, 0 when that is unknown."""
    measure: Measure = PLAIN
    """The measure of an evaluator's numbers."""
    columns: int = 1
    """How many columns an item is averaged over; rates of several columns are never shown as one."""

    @property
    def name(self) -> str:
        """The name of the evaluator, with the scale of its scores if it is declared, or of the column."""
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
    untested: Mapping[str, int] = field(default_factory=dict)
    """Evaluators of calls, with how many items are in none of their tests because an answer is cached."""
    without_calls: int = 0
    """How many lines have another verdict without evaluators that measure calls of cached answers."""

    def worse(self, level: float = LEVEL) -> tuple[MeasuredDifference, ...]:
        """The significantly worse figures."""
        return tuple(test for test in (self.passes, *self.tests) if test.worse(level))


class SharedItem(NamedTuple):
    """An item in a column that both runs judged: the share of its repeats that pass in each, and how many there are.

    A hundred thousand are made at once, so it is a plain tuple.
    """

    group: int
    """The item, by its number among all that were matched."""
    category: str
    before: float
    after: float
    repeats: tuple[int, int]


class PairedItems:
    """The results of the items that the first run and a later one share; their answers are not kept."""

    def __init__(self, first: RunAnswers, later: RunAnswers) -> None:
        self._first, self._later = first, later
        self.shared: defaultdict[Column, list[SharedItem]] = defaultdict(list)
        """The items that both judged, in each column."""
        self._shares: list[Pair] = []
        self._means: dict[str, tuple[list[Pair], Mapping[int, float], Mapping[int, float]]] = {
            key: ([], first.scores[key], later.scores[key]) for key in sorted(first.scores.keys() & later.scores.keys())
        }
        """The mean scores of the items by each evaluator, with the scores that they are of."""
        self._of_calls = first.calls.keys | later.calls.keys
        self._untested: Counter[str] = Counter()

    def add(self, both: ItemAnswers, group: int, category: str, cached: bool = False) -> None:
        """Take in an item: how often it passes in each column, and its mean score by each evaluator.

        Of one with a cached answer what calls measured is left out.
        """
        if _is_alone(both) and not cached:
            ((cell, before),), (after,) = both[0].items(), both[1].values()
            return self.add_alone(cell, before, after, group, category)
        shares = _shares(both)
        for column, (was, now, repeats) in shares.items():
            self.shared[column].append(SharedItem(group, category, was, now, repeats))
        if shares:
            self._shares.append(_mean_pair([share[:2] for share in shares.values()]))
        for key, (means, before_scores, after_scores) in self._means.items():
            if pair := _mean_scores(both, before_scores, after_scores):
                if cached and key in self._of_calls:
                    self._untested[key] += 1
                else:
                    means.append(pair)

    def add_alone(self, cell: CellKey, before: Answer, after: Answer, group: int, category: str) -> None:
        """Take in an item that has one answer in each run, both to the same, as most have."""
        if (share := _share_alone(before, after)) is not None:
            self.shared[cell[1:3]].append(SharedItem(group, category, *share))
            self._shares.append(share[:2])
        for means, before_scores, after_scores in self._means.values():
            was, now = before_scores.get(before.id), after_scores.get(after.id)
            if was is not None and now is not None:
                means.append((was, now))

    def difference(self) -> RunDifference:
        """Every test of the later run."""
        first, later, columns = self._first, self._later, len(self.shared) or 1
        family = [
            replace(_difference(means, key, "", *_direction(first, later, key)), columns=columns)
            for key, (means, *_) in self._means.items()
            if means
        ]
        by_column = {column: [item[2:4] for item in items] for column, items in sorted(self.shared.items())}
        if columns > 1:
            names = {**later.columns, **first.columns}
            family += [_difference(shares, "", names[column], 1) for column, shares in by_column.items()]
        corrected = holm([test.p for test in family])
        tests = tuple(replace(test, adjusted=p) for test, p in zip(family, corrected, strict=True))
        shares = [share for own in by_column.values() for share in own]
        broken, fixed = sum(was > 0.5 >= now for was, now in shares), sum(was <= 0.5 < now for was, now in shares)
        passes = replace(_difference(self._shares, "", "", 1), columns=columns)
        return RunDifference(len(shares), broken, fixed, passes, tests, untested=dict(self._untested))


def shared_figure(shares: Sequence[float], answers: int) -> Figure | None:
    """The pass rate over items that runs share, where each item counts once; None without any."""
    figure = pass_rate(sample_of((1, share) for share in shares), "shared")
    return figure and replace(figure, answers=answers)


def _is_alone(both: ItemAnswers) -> bool:
    """Whether an item has one answer in each of the two runs, as most have, both to the same."""
    return len(both[0]) == len(both[1]) == 1 and both[0].keys() == both[1].keys()


_Share = tuple[float, float, tuple[int, int]]
"""The share of repeats that pass, before and after, and how many repeats were judged."""
_ONCE = (1, 1)


def _shares(both: ItemAnswers) -> dict[Column, _Share]:
    """The share of passed repeats in each column, if both runs were judged."""
    if _is_alone(both):
        ((cell, before),), (after,) = both[0].items(), both[1].values()
        share = _share_alone(before, after)
        return {} if share is None else {cell[1:3]: share}
    shares = {}
    sides = [_outcomes(cells) for cells in both]
    for column, outcomes in sides[0].items():
        if column in sides[1]:
            was, now = _passing(outcomes), _passing(sides[1][column])
            if was and now:
                shares[column] = fmean(was), fmean(now), (len(was), len(now))
    return shares


_PASSING: Mapping[AnswerStatus, float] = {"pass": 1.0, "fail": 0.0}


def _share_alone(before: Answer, after: Answer) -> _Share | None:
    was, now = _PASSING.get(before.status), _PASSING.get(after.status)
    return None if was is None or now is None else (was, now, _ONCE)


def _outcomes(cells: Mapping[CellKey, Answer]) -> Mapping[Column, list[TurnOutcome]]:
    by_column: defaultdict[Column, list[TurnOutcome]] = defaultdict(list)
    for (repeat, prompt, target, turn), answer in cells.items():
        by_column[prompt, target].append(TurnOutcome(turn, repeat, answer.status))
    return by_column


def _passing(outcomes: Iterable[TurnOutcome]) -> list[bool]:
    """Whether each completely judged repeat passes; its worst turn decides."""
    return [verdict == "pass" for verdict in repeat_verdicts(outcomes) if verdict in ("pass", "fail")]


def _mean_scores(both: ItemAnswers, before: Mapping[int, float], after: Mapping[int, float]) -> Pair | None:
    """The mean scores of an item by one evaluator, of the places that both runs judged; None where there is none."""
    places, others = _scores(both[0], before), _scores(both[1], after)
    shared = [(_mean(scores), _mean(others[at])) for at, scores in places.items() if at in others]
    return _mean_pair(shared) if shared else None


def _scores(cells: Mapping[CellKey, Answer], scores: Mapping[int, float]) -> dict[tuple[int, int, int], list[float]]:
    """The scores of an item by one evaluator, by prompt, target and turn; repeats together."""
    places: dict[tuple[int, int, int], list[float]] = {}
    for cell, answer in cells.items():
        if answer.id in scores:
            places.setdefault(cell[1:], []).append(scores[answer.id])
    return places


def judged_value(judged: Judged) -> float:
    """The score; a bare verdict counts 1 or 0."""
    return judged.score if judged.score is not None else float(judged.result == "pass")


def _direction(first: RunAnswers, later: RunAnswers, key: str) -> tuple[int, Measure]:
    """Whether higher is better, and the measure. If the evaluator does not declare it, the verdicts decide it: passing
    scores are above or below the threshold.
    """
    measure = parse_measure(common_measure(side.measures.get(key, "") for side in (first, later)))
    if measure.better:
        return measure.better, measure
    verdicts, above, below = map(sum, zip(first.verdicts(key), later.verdicts(key), strict=True))
    return (0 if not verdicts else -1 if below > above else 1), measure


def passes_by_column(items: Iterable[ItemAnswers]) -> dict[tuple[int, int], MeasuredDifference]:
    """The pass difference for each prompt and target: from statuses only, without intervals, for frequent calls."""
    shares: defaultdict[tuple[int, int], list[Pair]] = defaultdict(list)
    for both in items:
        for column, share in _shares(both).items():
            shares[column].append(share[:2])
    tests = {column: _difference(pairs, "", "", 1, estimated=False) for column, pairs in sorted(shares.items())}
    corrected = holm([test.p for test in tests.values()])
    return {column: replace(test, adjusted=p) for (column, test), p in zip(tests.items(), corrected, strict=True)}


def _mean(values: Sequence[float]) -> float:
    """The mean; most items have one answer, where `fmean` would take ten times as long as all the rest."""
    return values[0] if len(values) == 1 else fmean(values)


def _mean_pair(pairs: Collection[Pair]) -> Pair:
    if len(pairs) == 1:
        return next(iter(pairs))
    return fmean([before for before, _ in pairs]), fmean([after for _, after in pairs])


def _difference(
    pairs: Sequence[Pair],
    what: str,
    column: str,
    direction: int,
    measure: Measure = PLAIN,
    *,
    estimated: bool = True,
) -> MeasuredDifference:
    """The test of pairs; `estimated` adds the interval and how many items would tell, which take most of the time."""
    # The means of one and of three equal scores may differ by a rounding, and all to the same side.
    pairs = [
        pair if pair[0] == pair[1] or not isclose(*pair, rel_tol=_ROUNDING) else (pair[0], pair[0]) for pair in pairs
    ]
    differences = [after - before for before, after in pairs]
    before, after = _mean_pair(pairs) if pairs else (0.0, 0.0)
    p = paired_test(differences)
    largest = 1.0 if not what else measure.largest_difference(value for pair in pairs for value in pair)
    return MeasuredDifference(
        what=what,
        column=column,
        items=len(pairs),
        before=before,
        after=after,
        interval=difference_interval(differences, largest)[0] if estimated else None,
        p=p,
        adjusted=p,
        needed=items_needed(differences) if estimated else None,
        direction=direction,
        measure=measure,
    )
