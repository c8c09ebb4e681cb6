"""A run compared with its baseline: what broke, and how small a drop so few items can show."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from dataclasses import field
from math import ceil, comb, fsum
from pathlib import Path
from typing import Any, get_args

from tui_evals.compare.measures import LEVEL, Column, ItemAnswers, MeasuredDifference, RunDifference, passes_by_column
from tui_evals.compare.runs import ComparedLine, Comparison
from tui_evals.compare.sides import (
    Answer,
    CellKey,
    ComparedRun,
    Rubrics,
    RunAnswers,
    TurnOutcome,
    Verdict,
    column_name,
    defaults_differ,
    item_verdict,
    judges_calls,
    match_items,
    other_rubrics,
    read_call_verdicts,
    repeat_verdicts,
    same_expectations,
    shared_numbers,
    without_calls,
)
from tui_evals.compare.verdicts import p_phrase
from tui_evals.light_records import dataclass
from tui_evals.store import run_figures
from tui_evals.store.baselines import baseline_of, dataset_key
from tui_evals.store.reader import Reader
from tui_evals.store.records import AnswerStatus, RunRow

_ANSWERS: Mapping[AnswerStatus, Answer] = {status: Answer(0, status, None, 0) for status in get_args(AnswerStatus)}
"""Only the status is compared, so one answer serves for all with the same status."""
_Cells = Mapping[int, Mapping[CellKey, Answer]]


@dataclass(frozen=True, slots=True)
class AgainstBaseline:
    """A run against the baseline of its dataset: for each prompt and target whether its items pass more often."""

    baseline: RunRow
    itself: bool = False
    """The run is the baseline."""
    columns: Mapping[Column, MeasuredDifference] = field(default_factory=dict)
    """By prompt and target of the run; without columns that the baseline did not ask."""


@dataclass(frozen=True, slots=True)
class _Prepared:
    """The parts that do not change while a run is running."""

    cells: _Cells
    """The results of the baseline's answers, by item."""
    pairs: Sequence[tuple[int, int]]
    """The items of the baseline, and those of the run that are the same and are held against the same."""
    prompts: Mapping[int, int]
    targets: Mapping[int, int]
    """The common numbers of the prompts and targets of the run."""
    rubrics: Rubrics
    """The rubrics of the baseline."""
    documents: tuple[Mapping[str, Any], ...]
    """The expectations of both runs, if evaluators judge calls; else empty."""


class BaselineComparison:
    """Compares runs of a project with their baselines; caches the last pair."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._known: tuple[object, _Prepared] | None = None

    def measure(self, reader: Reader, run: RunRow) -> AgainstBaseline | None:
        """Compare a run with the baseline of its dataset; None without a baseline. Run it in a worker thread."""
        chosen = baseline_of(reader, dataset_key(run.source, self._root, self._root))
        if chosen is None:
            return None
        try:
            baseline = reader.run(chosen.run)
            if baseline.id == run.id:
                return AgainstBaseline(baseline, itself=True)
            prepared = self._prepared(reader, baseline, run)
        except LookupError:
            return None  # one of the two was deleted
        if other_rubrics(prepared.rubrics, run_figures.rubrics(reader, run.id)):
            return AgainstBaseline(baseline)  # verdicts by different rubrics are not comparable
        cells = _cells(reader, run, prepared.prompts, prepared.targets, with_ids=bool(prepared.documents))
        both: Iterable[ItemAnswers] = ((prepared.cells[one], cells.get(other, {})) for one, other in prepared.pairs)
        if prepared.documents:
            first, later = read_call_verdicts(reader, (baseline, run), prepared.documents)
            both = (without_calls(pair, (first, later))[0] for pair in both)
        tests = passes_by_column(both)
        mine = {
            (prompt, target): tests[shared]
            for prompt, one in prepared.prompts.items()
            for target, other in prepared.targets.items()
            if (shared := (one, other)) in tests
        }
        return AgainstBaseline(baseline, columns=mine)

    def _prepared(self, reader: Reader, baseline: RunRow, run: RunRow) -> _Prepared:
        key = tuple((one.key, one.scoring_pass) for one in (baseline, run))
        if self._known is None or self._known[0] != key:
            self._known = (key, _prepare(reader, baseline, run))
        return self._known[1]


def _prepare(reader: Reader, baseline: RunRow, run: RunRow) -> _Prepared:
    runs = (baseline, run)
    prompts, targets = (shared_numbers([getattr(one, of) for one in runs]) for of in ("prompts", "targets"))
    documents = {digest: reader.snapshot(digest) for digest in {one.snapshot for one in runs}}
    judged_by = [reader.judged_by(one, documents[one.snapshot]) for one in runs]
    by_calls = any(judges_calls(one.document) for one in judged_by)
    sides, cells = [], []
    for one, judging, *numbers in zip(runs, judged_by, prompts, targets, strict=True):
        sides.append(RunAnswers(ComparedRun(one, (), documents[one.snapshot], judged_by=judging), *numbers))
        cells.append(_cells(reader, one, *numbers, with_ids=by_calls))
    first, later = sides
    alike = same_expectations(first, later)
    pairs: list[tuple[int, int]] = []
    if alike or not defaults_differ(first, later):
        for group in match_items(
            [side.item_keys(own, len(documents) == 1) for side, own in zip(sides, cells, strict=True)]
        ):
            own, other = group.keys
            if own and other and (alike or not first.expects_otherwise(own.position, later, other.position)):
                pairs.append((own.position, other.position))
    judging_calls = tuple(one.document for one in judged_by) if by_calls else ()
    return _Prepared(cells[0], pairs, prompts[1], targets[1], run_figures.rubrics(reader, baseline.id), judging_calls)


def _cells(
    reader: Reader, run: RunRow, prompts: Mapping[int, int], targets: Mapping[int, int], *, with_ids: bool
) -> defaultdict[int, dict[CellKey, Answer]]:
    cells: defaultdict[int, dict[CellKey, Answer]] = defaultdict(dict)
    if with_ids:
        for row in run_figures.compared(reader, run.id):
            answer = Answer(row.id, row.status, None, 0)
            cells[row.item][row.repeat, prompts[row.prompt], targets[row.target], row.turn] = answer
        return cells
    for item, repeat, prompt, target, turn, status in run_figures.statuses(reader, run.id):
        cells[item][repeat, prompts[prompt], targets[target], turn] = _ANSWERS[status]
    return cells


_OPEN: frozenset[AnswerStatus] = frozenset(("pending", "running", "answered"))
_ALONE: Mapping[AnswerStatus, Verdict] = {
    status: item_verdict([TurnOutcome(0, 0, status)]) for status in get_args(AnswerStatus)
}
"""The verdict of an item with one answer, as most have."""


@dataclass(frozen=True, slots=True)
class SharedItem:
    """An item in one column, with its verdicts in the baseline and in a later run that can be compared."""

    item: str
    column: str
    repeats: Sequence[Verdict]
    """The verdict of each of its repeats in the baseline."""
    before: Verdict
    """Its verdict in the baseline, by majority."""
    after: Verdict
    """Its verdict in the later run."""
    answers: int
    differs: bool
    """Whether an answer of it counts as broken."""
    is_open: bool
    """Whether the later run still has to answer or judge it."""

    @property
    def flips(self) -> bool:
        """Whether its own repeats in the baseline disagree."""
        return "pass" in self.repeats and "fail" in self.repeats

    @property
    def falls(self) -> bool:
        """Whether it passes in the baseline and fails in the later run."""
        return self.differs and self.before == "pass" and self.after == "fail"


def shared_items(lines: Sequence[ComparedLine], number: int = 1) -> list[SharedItem]:
    """The items that the first run and a later one, given by its position, both asked and judge alike."""
    items: defaultdict[tuple[str, str], list[ComparedLine]] = defaultdict(list)
    one_sided = one_sided_repeats(lines, number)
    for line in lines:
        if _faces(line, number) or (one_sided and (line.item, line.column, line.repeat) in one_sided):
            items[line.item, line.column].append(line)
    return [_shared_item(own, number) for own in items.values()]


def one_sided_repeats(lines: Iterable[ComparedLine], number: int = 1) -> Set[tuple[str, str, int | None]]:
    """The repeats, by item, column and number, that only one of two runs has for an item in both.

    They count in their own run, and are not missing in the one with fewer repeats.
    """
    shared: defaultdict[tuple[str, str], set[int | None]] = defaultdict(set)
    alone: set[tuple[str, str, int | None]] = set()
    for line in lines:
        if _faces(line, number):
            shared[line.item, line.column].add(line.repeat)
        elif (line.answers[0] is None) != (line.answers[number] is None):
            alone.add((line.item, line.column, line.repeat))
    return {place for place in alone if (faced := shared.get(place[:2])) and place[2] not in faced}


def _faces(line: ComparedLine, number: int) -> bool:
    """Whether both runs have the answer and judge it alike."""
    both = line.answers[0] is not None and line.answers[number] is not None
    return both and not (line.otherwise and line.otherwise[number - 1])


def _shared_item(lines: Sequence[ComparedLine], number: int) -> SharedItem:
    first = lines[0]
    outcomes = [
        [TurnOutcome(line.turn or 0, line.repeat or 0, answer.status) for line in lines if (answer := line.answers[at])]
        for at in (0, number)
    ]
    if len(lines) == 1:
        before, after = (_ALONE[own[0].status] for own in outcomes)
        repeats: Sequence[Verdict] = (before,)
    else:
        repeats, before, after = repeat_verdicts(outcomes[0]), *map(item_verdict, outcomes)
    return SharedItem(
        first.item,
        first.column,
        repeats,
        before,
        after,
        len(outcomes[1]),
        any(_breaks(line, number) for line in lines),
        any(outcome.status in _OPEN for outcome in outcomes[1]),
    )


def _breaks(line: ComparedLine, number: int) -> bool:
    """Whether an answer fails that passes in the first run, or that only the later run asked for."""
    later = line.answers[number]
    return line.kinds[number - 1] == "broken" or (
        line.answers[0] is None and later is not None and later.status == "fail"
    )


@dataclass(frozen=True, slots=True)
class BrokenItems:
    """Broken items, among those that passed in every repeat of the baseline."""

    broken: tuple[SharedItem, ...]
    passed: int
    """Items that passed in the baseline, in each of their repeats or asked once."""
    answers: int
    """Their answers in the later run."""
    flipping: int
    """Items that fail now and are left out, because their own repeats in the baseline disagree."""


def broken_items(shared: Sequence[SharedItem]) -> BrokenItems:
    """The broken ones among shared items; an item that the later run still has to answer is not broken yet."""
    steady = [one for one in shared if one.before == "pass" and not one.flips]
    return BrokenItems(
        tuple(one for one in steady if one.falls and not one.is_open),
        len(steady),
        sum(one.answers for one in steady),
        sum(one.falls for one in shared if one.flips),
    )


_CHANCE = 0.8
"""The probability of finding a drop that the test is said to show; the same as in `items_needed`."""


def least_items(level: float = LEVEL) -> int:
    """How many items have to get worse, and none better, before the sign test takes it for a regression."""
    items = 1
    while 0.5 ** (items - 1) >= level:
        items += 1
    return items


def drop_shown(passing: int, items: int, level: float = LEVEL) -> float | None:
    """The smallest drop of the pass rate that the test finds in 4 of 5 cases if no item gets better.

    Each item that passes in the baseline breaks with the same probability. None where too few of them pass.
    """
    least = least_items(level)
    if passing < least:
        return None
    # Find the probability at which `least` or more items break in 4 of 5 cases.
    low, high = 0.0, 1.0
    for _ in range(50):  # beyond the precision of floats
        middle = (low + high) / 2
        low, high = (middle, high) if _at_least(least, passing, middle) < _CHANCE else (low, middle)
    return high * passing / items


def _at_least(least: int, items: int, probability: float) -> float:
    """The probability that at least `least` of `items` break if each does with `probability`."""
    return 1 - fsum(
        comb(items, broken) * probability**broken * (1 - probability) ** (items - broken) for broken in range(least)
    )


def drop_sentence(passing: int, items: int, level: float = LEVEL) -> str:
    """The drop that a test of these items can show, or why it can show none."""
    drop = drop_shown(passing, items, level)
    if drop is None:
        return f"No regression can be shown. {too_few_sentence(passing, items, level)}"
    points = ceil(100 * drop - 1e-9)
    unit = "point" if points == 1 else "points"
    return f"With {_counted(items)}, a drop of {points} {unit} or more shows as a regression."


def too_few_sentence(passing: int, items: int, level: float = LEVEL) -> str:
    """Why so few items can show no regression, and how many it would take."""
    if not passing:
        return f"None of {_counted(items)} passes in the baseline, so none can get worse."
    few = f"Only {_counted(passing)}" if passing == items else f"Only {passing:,} of {_counted(items)}"
    broke = "it breaks" if passing == 1 else "all of them break"
    return (
        f"{few} {'passes' if passing == 1 else 'pass'} in the baseline: even if {broke}, it could be chance "
        f"({p_phrase(0.5 ** (passing - 1), level)}). It takes at least {least_items(level)}."
    )


def _counted(items: int) -> str:
    return f"{items:,} item" if items == 1 else f"{items:,} items"


def passing_and_judged(shared: Iterable[SharedItem]) -> tuple[int, int]:
    """How many items pass in the baseline in some repeat of some column, and how many are judged there."""
    by_item: defaultdict[str, set[Verdict]] = defaultdict(set)
    for one in shared:
        by_item[one.item].update(one.repeats)
    return _passing_and_judged(by_item.values())


def _passing_and_judged(items: Iterable[Collection[Verdict]]) -> tuple[int, int]:
    verdicts = list(items)
    return sum("pass" in own for own in verdicts), sum("pass" in own or "fail" in own for own in verdicts)


def baseline_sentences(reader: Reader, run: RunRow, level: float = LEVEL) -> list[str]:
    """The drop that the items of a baseline can show, a sentence for each of its columns."""
    columns: defaultdict[tuple[int, int], defaultdict[int, list[TurnOutcome]]] = defaultdict(lambda: defaultdict(list))
    for item, repeat, prompt, target, turn, status in run_figures.statuses(reader, run.id):
        columns[prompt, target][item].append(TurnOutcome(turn, repeat, status))
    sentences = []
    for column, items in sorted(columns.items()):
        name = f"{column_name(run, *column)}: " if len(columns) > 1 else ""
        counts = _passing_and_judged(map(repeat_verdicts, items.values()))
        sentences.append(name + drop_sentence(*counts, level / len(columns)))
    return sentences


def can_show(comparison: Comparison, shared: Sequence[SharedItem], level: float = LEVEL) -> bool:
    """Whether any test of the second run against the first could find a regression among its items."""
    difference = comparison.against[0]
    return any(
        _falling(test, comparison, shared) >= least_items(level / _family(test, difference))
        for test in (difference.passes, *difference.tests)
        if test.direction
    )


def _family(test: MeasuredDifference, difference: RunDifference) -> int:
    """How many tests the p value of a test is corrected for."""
    return len(difference.tests) if test.what or test.column else 1


def _falling(test: MeasuredDifference, comparison: Comparison, shared: Sequence[SharedItem]) -> int:
    """How many items can get worse: those that pass, or that an evaluator does not give its worst score already."""
    if not test.what:
        return passing_and_judged(one for one in shared if test.column in ("", one.column))[0]
    scores = comparison.sides[0].scores.get(test.what, ())
    ends = test.measure.bounds or ((0.0, 1.0) if set(scores) <= {0.0, 1.0} else None)
    if ends is None:
        return test.items
    worst = ends[0] if test.direction > 0 else ends[1]
    return min(test.items, sum(score != worst for score in scores))
