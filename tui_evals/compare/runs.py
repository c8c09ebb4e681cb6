"""Compares runs, or two regions of one, by answer: what broke, what was fixed, and whether it could be chance."""

from __future__ import annotations

from array import array
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import field, replace
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple, get_args

from tui_evals.compare.measures import Column, ItemAnswers, PairedItems, RunDifference, shared_figure
from tui_evals.compare.sides import (
    Answer,
    AskedItems,
    CellKey,
    ComparedRun,
    Group,
    How,
    ItemKey,
    Kind,
    RunAnswers,
    TurnOutcome,
    Usage,
    Verdict,
    answers_expect_otherwise,
    asked_part,
    column_name,
    defaults_differ,
    item_verdict,
    match_items,
    other_rubrics,
    read_call_verdicts,
    same_expectations,
    share_scales,
    shared_numbers,
    without_calls,
)
from tui_evals.figures import Figure
from tui_evals.garbage import garbage_collection_paused
from tui_evals.light_records import dataclass
from tui_evals.store import ledger, run_figures
from tui_evals.store.ledger import Spent
from tui_evals.store.reader import Reader
from tui_evals.store.records import AnswerStatus, RunRow
from tui_evals.store.rows import JudgedBy
from tui_evals.text.measures import counted

KINDS: tuple[Kind, ...] = ("broken", "fixed", "changed", "same", "gone", "new", "not comparable")
MAX_RUNS = 4
"""How many runs are compared at once."""

BY_ATTENTION: tuple[Kind, ...] = ("broken", "fixed", "not comparable", "gone", "new", "changed", "same")
"""The kinds in the order in which lines are listed: changes first."""
SHARED_KINDS: frozenset[Kind | None] = frozenset(("broken", "fixed", "changed", "same"))
"""The kinds of lines that are comparable in both runs."""
_VERDICTS: Mapping[AnswerStatus, Verdict] = {
    status: item_verdict([TurnOutcome(0, 0, status)]) for status in get_args(AnswerStatus)
}


def _change(was: Verdict, now: Verdict) -> Kind:
    """The change of an answer, by its verdicts alone."""
    if "errored" in (was, now) or (was == "unjudged") != (now == "unjudged"):
        return "not comparable"
    return "same" if was == now else "fixed" if now == "pass" else "broken"


_CHANGES: Mapping[tuple[AnswerStatus, AnswerStatus], Kind] = {
    (was, now): _change(_VERDICTS[was], _VERDICTS[now]) for was in _VERDICTS for now in _VERDICTS
}
_ONLY: Mapping[Kind | None, tuple[Kind | None]] = {kind: (kind,) for kind in (*KINDS, None)}
Pairs = Iterable[tuple[int, int]]


class ComparedLine(NamedTuple):
    """One turn of one item, in every run; turn and repeat are None if there is only one.

    A plain tuple, because a hundred thousand are created at once.
    """

    item: str
    turn: int | None
    repeat: int | None
    column: str
    """The target, and the prompt under test if there are several; empty where each run has one column."""
    category: str
    answers: tuple[Answer | None, ...]
    kinds: tuple[Kind | None, ...]
    """Its kind in each later run, compared with the first; None if neither run has it."""
    how: How | None
    edited: bool
    """The item itself was changed between the runs."""
    otherwise: tuple[bool, ...] = ()
    """For each later run, whether it is not comparable because it was judged by another expectation. Empty if none is.
    """
    without_calls: tuple[bool, ...] = ()
    """For each later run, whether its kind leaves out a verdict on the time or cost of a cached answer. Empty if none
    does.
    """

    @property
    def kind(self) -> Kind:
        """The most important of its kinds."""
        return next(kind for kind in BY_ATTENTION if kind in self.kinds)


@dataclass(frozen=True, slots=True)
class RunSide:
    """One of the runs in numbers, over the shared items."""

    run: RunRow
    scores: Mapping[str, Sequence[float]]
    """The scores of each evaluator on the answers that all runs share and it scored in all of them."""
    evaluators: frozenset[str] = frozenset()
    """The evaluators that scored any of its answers."""
    measures: Mapping[str, str] = field(default_factory=dict)
    """The measure of an evaluator's scores, if it declares one."""
    judged_since: float = 0.0
    """When its answers were last judged."""
    labels: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """How often each evaluator gave each label that neither passes nor fails, in the whole run."""
    usage: Mapping[str, Usage] = field(default_factory=dict)
    """The cost and time of its shared answers by target, and of all under the empty name; empty if unknown."""
    part: AskedItems | None = None
    """How much of its dataset it asked, unless that is all of it."""


@dataclass(frozen=True, slots=True)
class SharedRates:
    """The pass rates of all runs in one column, or in one category of it, over the items that all of them judged."""

    names: tuple[str, ...]
    """The name of the column in each run."""
    category: str
    figures: tuple[Figure | None, ...]


@dataclass(frozen=True, slots=True)
class Comparison:
    """Runs line by line, and each later one against the first."""

    lines: tuple[ComparedLine, ...]
    sides: tuple[RunSide, ...]
    against: tuple[RunDifference, ...]
    rates: tuple[SharedRates, ...] = ()
    """One for each column that all runs have."""
    categories: tuple[SharedRates, ...] = ()
    """One for each category of a column; empty without categories."""
    rubrics: tuple[Mapping[str, tuple[frozenset[str], frozenset[str]]], ...] = ()
    """For each later run: the evaluators with another rubric than in the first, with both rubrics."""

    @property
    def category_names(self) -> tuple[str, ...]:
        """The categories there are."""
        return tuple(dict.fromkeys(one.category for one in self.categories))

    @property
    def evaluators(self) -> tuple[str, ...]:
        """The evaluators that gave scores in any run."""
        return tuple(sorted(frozenset().union(*(side.evaluators for side in self.sides))))


def compare_runs(
    runs: Sequence[ComparedRun], differing: Callable[[Pairs], set[tuple[int, int]]] = lambda pairs: set()
) -> Comparison:
    """Line the answers of runs up; `differing` picks, of pairs that look the same, those whose texts differ."""
    if not 2 <= len(runs) <= MAX_RUNS:
        raise ValueError(f"{len(runs)} runs cannot be compared; give 2 to {MAX_RUNS}")
    prompts, targets = (shared_numbers([getattr(ran.run, of) for ran in runs]) for of in ("prompts", "targets"))
    sides = [RunAnswers(ran, *columns) for ran, *columns in zip(runs, prompts, targets, strict=True)]
    share_scales(sides)
    comparer = _Comparer(sides)
    same_document = all(one.document is other.document for one, other in pairwise(runs))
    for number, group in enumerate(match_items(_item_keys(sides, same_document))):
        comparer.add(number, group)
    lines = _reread_same(comparer.lines, differing)
    shared = [line for line in lines if SHARED_KINDS.issuperset(line.kinds)]
    return Comparison(
        tuple(lines),
        tuple(_side(side, place, shared, sides) for place, side in enumerate(sides)),
        tuple(_counted(one, number, lines) for number, one in enumerate(comparer.paired)),
        *_shared_rates(sides, comparer.paired),
        tuple(comparer.rubrics),
    )


class _Comparer:
    """Lines the answers of runs up, item by item."""

    def __init__(self, sides: Sequence[RunAnswers]) -> None:
        first, *later = sides
        self.lines: list[ComparedLine] = []
        self.paired = [PairedItems(first, one) for one in later]
        self.rubrics = [other_rubrics(first.rubrics, one.rubrics) for one in later]
        self._sides = sides
        self._one_column = all(len(side.columns) == 1 for side in sides)
        self._alike = all(same_expectations(one, other) for one, other in pairwise(sides))
        self._all_otherwise = [not self._alike and defaults_differ(first, one) for one in later]
        self._rejudged = any(side.rejudged for side in sides)
        cached = any(side.calls.cached for side in sides) and any(side.calls.keys for side in sides)
        plain = self._alike and not (self._rejudged or any(self.rubrics) or cached)
        self._only = _only_cell(sides) if plain else None
        self._only_column = _column(sides, self._only, self._one_column) if self._only else ""

    def add(self, number: int, group: Group) -> None:
        """Take in an item of some of the runs."""
        sides, only = self._sides, self._only
        if only and (key := group.keys[0]) and key is group.keys[1]:
            both = sides[0].answers[only].pop(key.position), sides[1].answers[only].pop(key.position)
            line = _line_alone(key, group.how, self._only_column, both, sides[0])
            self.lines.append(line)
            self.paired[0].add_alone(only, *both, number, line.category)
            return
        cells = [side.cells(key.position) if key else {} for side, key in zip(sides, group.keys, strict=True)]
        otherwise = self._otherwise(group, cells)
        apart = _judged_apart(group, cells, sides, otherwise) if self._rejudged else {}
        compared = [
            without_calls((cells[0], own), (sides[0].calls, side.calls))
            for own, side in zip(cells[1:], sides[1:], strict=True)
        ]
        lines = list(_lines(group, cells, [pair for pair, _ in compared], sides, self._one_column, otherwise, apart))
        self.lines += lines
        for place, ((before, after), cached) in enumerate(compared):
            if apart:
                left_out = {cell for cell in (*before, *after) if apart.get(cell, otherwise)[place]}
                before, after = _without_cells(before, left_out), _without_cells(after, left_out)
            elif otherwise[place]:
                continue
            if before and after:
                self.paired[place].add((before, after), number, lines[0].category, cached)

    def _otherwise(self, group: Group, cells: Sequence[Mapping[CellKey, Answer]]) -> Sequence[bool]:
        """For each later run, whether its answers to an item are judged by another expectation than the first run's."""
        sides, otherwise = self._sides, self._all_otherwise
        if not self._alike:
            otherwise = [
                bool(cells[0] and cells[number]) and (otherwise[number - 1] or _expects_otherwise(group, sides, number))
                for number in range(1, len(sides))
            ]
        if any(self.rubrics):
            otherwise = [
                other or (sides[0].has_verdict(cells[0], keys) and later.has_verdict(own, keys))
                for other, keys, later, own in zip(otherwise, self.rubrics, sides[1:], cells[1:], strict=True)
            ]
        return otherwise


def _without_cells(cells: Mapping[CellKey, Answer], left_out: Collection[CellKey]) -> Mapping[CellKey, Answer]:
    return {cell: answer for cell, answer in cells.items() if cell not in left_out}


def _counted(paired: PairedItems, number: int, lines: Sequence[ComparedLine]) -> RunDifference:
    """The difference of a later run, with the number of lines of each kind."""
    return replace(
        paired.difference(),
        counts=_count_kinds(line.kinds[number] for line in lines),
        judged_otherwise=sum(line.otherwise[number] for line in lines if line.otherwise),
        scored=sum(_only_scored(line, number + 1) for line in lines),
        without_calls=sum(line.without_calls[number] for line in lines if line.without_calls),
    )


def _shared_rates(
    sides: Sequence[RunAnswers], paired: Sequence[PairedItems]
) -> tuple[tuple[SharedRates, ...], tuple[SharedRates, ...]]:
    """The rates of all runs over the items that all of them judged: by column, and by category of each."""
    rates: list[SharedRates] = []
    categories: list[SharedRates] = []
    for column in sorted(column for column in paired[0].shared if all(column in one.shared for one in paired)):
        names = tuple(side.columns.get(column, "") for side in sides)
        of_all = [paired[0].shared[column]]
        if len(paired) > 1:
            common = frozenset.intersection(*(frozenset(item.group for item in one.shared[column]) for one in paired))
            of_all = [[item for item in one.shared[column] if item.group in common] for one in paired]
        first, *_ = of_all
        shares = [[item.before for item in first], *([item.after for item in own] for own in of_all)]
        repeats = [[item.repeats[0] for item in first], *([item.repeats[1] for item in own] for own in of_all)]
        rates.append(
            SharedRates(names, "", tuple(shared_figure(*one) for one in zip(shares, map(sum, repeats), strict=True)))
        )
        places: defaultdict[str, list[int]] = defaultdict(list)
        for place, item in enumerate(first):
            places[item.category].append(place)
        for category, chosen in sorted(places.items()) if any(places) else ():
            figures = (
                shared_figure([own[place] for place in chosen], sum(counts[place] for place in chosen))
                for own, counts in zip(shares, repeats, strict=True)
            )
            categories.append(SharedRates(names, category, tuple(figures)))
    return tuple(rates), tuple(sorted(categories, key=lambda one: one.category))


def read_comparison(reader: Reader, runs: Sequence[int]) -> Comparison:
    """Compare runs of a store by their ids; raises LookupError if one was deleted."""
    rows = [reader.run(number) for number in runs]
    with garbage_collection_paused():
        documents = {digest: reader.snapshot(digest) for digest in dict.fromkeys(row.snapshot for row in rows)}
        judged_by = [reader.judged_by(row, documents[row.snapshot]) for row in rows]
        calls = read_call_verdicts(reader, rows, [one.document for one in judged_by])
        return compare_runs(
            [
                ComparedRun(
                    row,
                    run_figures.compared_fields(reader, row.id),
                    documents[row.snapshot],
                    run_figures.judged_fields(reader, row.id),
                    judging,
                    labels=run_figures.label_counts(reader, row.id),
                    rubrics=run_figures.rubrics(reader, row.id),
                    rejudged=reader.rejudged(row),
                    spent=partial(ledger.spent, reader.query, row.id),
                    calls=of_calls,
                    part=asked_part(reader, row),
                )
                for row, judging, of_calls in zip(rows, judged_by, calls, strict=True)
            ],
            partial(run_figures.differing, reader),
        )


def _item_keys(sides: Sequence[RunAnswers], same_document: bool) -> list[list[ItemKey]]:
    """The keys that identify the items of each run; runs of the same items of one document share them."""
    items = sides[0].names.keys()
    first = sides[0].item_keys(items, same_document)
    return [
        first if same_document and side.names.keys() == items else side.item_keys(side.names, same_document)
        for side in sides
    ]


def _expects_otherwise(group: Group, sides: Sequence[RunAnswers], number: int) -> bool:
    first, later = group.keys[0], group.keys[number]
    if first is None or later is None:
        return False
    return sides[0].expects_otherwise(first.position, sides[number], later.position)


def _judged_apart(
    group: Group, cells: Sequence[Mapping[CellKey, Answer]], sides: Sequence[RunAnswers], otherwise: Sequence[bool]
) -> dict[CellKey, tuple[bool, ...]]:
    """For cells with an answer that was judged again alone: whether each later answer has another expectation."""
    first, apart = group.keys[0], {}
    for cell, before in cells[0].items() if first else ():
        differs = list(otherwise)
        for number, (side, key) in enumerate(zip(sides[1:], group.keys[1:], strict=True)):
            after = cells[number + 1].get(cell)
            if first and key and after and (before.id in sides[0].rejudged or after.id in side.rejudged):
                own = (sides[0], first.position, before)
                differs[number] = answers_expect_otherwise(*own, side, key.position, after, cell[3])
        if differs != list(otherwise):
            apart[cell] = tuple(differs)
    return apart


def _lines(
    group: Group,
    cells: Sequence[Mapping[CellKey, Answer]],
    pairs: Sequence[ItemAnswers],
    sides: Sequence[RunAnswers],
    one_column: bool,
    otherwise: Sequence[bool],
    apart: Mapping[CellKey, Sequence[bool]],
) -> Iterable[ComparedLine]:
    key, side = next((key, side) for key, side in zip(group.keys, sides, strict=True) if key)
    name, category = side.names[key.position], side.categories[key.position]
    edited = len({key.content_hash for key in group.keys if key}) > 1
    all_cells = dict.fromkeys(cell for side_cells in cells for cell in side_cells)
    has_repeats, has_turns = any(cell[0] for cell in all_cells), any(cell[3] for cell in all_cells)
    for cell in all_cells:
        repeat, _, _, turn = cell
        answers = tuple(side_cells.get(cell) for side_cells in cells)
        judged_otherwise: tuple[bool, ...] = ()
        compared = [(before.get(cell), after.get(cell)) for before, after in pairs]
        left_out = tuple(both != (answers[0], later) for both, later in zip(compared, answers[1:], strict=True))
        kinds = tuple(
            _kind_without_calls(*both) if without else _kind(*both)
            for both, without in zip(compared, left_out, strict=True)
        )
        expected = apart.get(cell, otherwise)
        if True in expected:
            judged_otherwise = tuple(
                other and _both_judged(answers[0], later) for other, later in zip(expected, answers[1:], strict=True)
            )
            kinds = tuple(
                "not comparable" if other else kind for other, kind in zip(judged_otherwise, kinds, strict=True)
            )
        column = _column(sides, cell, one_column)
        yield ComparedLine(
            name,
            turn if has_turns else None,
            repeat if has_repeats else None,
            column,
            category,
            answers,
            kinds,
            group.how if sum(answer is not None for answer in answers) > 1 else None,
            edited,
            judged_otherwise,
            left_out if any(left_out) else (),
        )


def _column(sides: Sequence[RunAnswers], cell: CellKey, one_column: bool) -> str:
    """The name of a cell's target and prompt in a line."""
    return "" if one_column else next(side.columns[cell[1:3]] for side in sides if cell[1:3] in side.columns)


def _only_cell(sides: Sequence[RunAnswers]) -> CellKey | None:
    """The only cell of two runs, as most ask every item once; None if there are several."""
    cells = list({cell for side in sides for cell in side.answers})
    return cells[0] if len(sides) == 2 and len(cells) == 1 and not (cells[0][0] or cells[0][3]) else None


def _line_alone(
    key: ItemKey, how: How | None, column: str, both: tuple[Answer, Answer], first: RunAnswers
) -> ComparedLine:
    name, category = first.names[key.position], first.categories[key.position]
    return ComparedLine(name, None, None, column, category, both, _ONLY[_kind(*both)], how, False)


def _both_judged(before: Answer | None, after: Answer | None) -> bool:
    return all(one is not None and _VERDICTS[one.status] in ("pass", "fail") for one in (before, after))


def _only_scored(line: ComparedLine, later: int) -> bool:
    """Whether both answers have only values that neither pass nor fail."""
    first, other = line.answers[0], line.answers[later]
    return first is not None and other is not None and first.status == other.status == "scored"


def _kind(before: Answer | None, after: Answer | None) -> Kind | None:
    if before is None or after is None:
        return "gone" if before is not None else "new" if after is not None else None
    kind = _CHANGES[before.status, after.status]
    if kind == "same" and (before.score != after.score or before.text_hash != after.text_hash):
        return "changed"
    return kind


def _kind_without_calls(before: Answer | None, after: Answer | None) -> Kind | None:
    """The kind of a line where only evaluators of calls may have judged an answer, which leaves nothing to compare."""
    left = [one.status for one in (before, after) if one is not None]
    return "not comparable" if len(left) == 2 and "unjudged" in left else _kind(before, after)


def _reread_same(
    lines: Sequence[ComparedLine], differing: Callable[[Pairs], set[tuple[int, int]]]
) -> list[ComparedLine]:
    """The lines once the texts that look the same have been read."""
    places: dict[tuple[int, int], tuple[int, int]] = {}
    for number, line in enumerate(lines):
        first, *others = line.answers
        for at, later in enumerate(others):
            if line.kinds[at] == "same" and first and later:
                places[first.id, later.id] = number, at
    reread = list(lines)
    for pair in differing(places):
        number, at = places[pair]
        line = reread[number]
        reread[number] = line._replace(kinds=(*line.kinds[:at], "changed", *line.kinds[at + 1 :]))
    return reread


def _count_kinds(kinds: Iterable[Kind | None]) -> dict[Kind, int]:
    counts = Counter(kinds)
    return {kind: counts[kind] for kind in KINDS}


def _side(own: RunAnswers, place: int, shared: Sequence[ComparedLine], sides: Sequence[RunAnswers]) -> RunSide:
    whole = all(len(shared) == side.count for side in sides)
    ids = None if whole else [answer.id for line in shared if (answer := line.answers[place])]
    every = frozenset.intersection(*(frozenset(side.scores) for side in sides))
    return RunSide(
        own.run,
        {key: scores for key in sorted(every) if (scores := _shared_scores(key, place, shared, sides, whole))},
        frozenset(key for key, scores in own.scores.items() if scores),
        own.measures,
        own.judged_by.since,
        own.labels,
        own.usage(ids),
        own.part,
    )


def _shared_scores(
    key: str, place: int, shared: Sequence[ComparedLine], sides: Sequence[RunAnswers], whole: bool
) -> Sequence[float]:
    """The scores of an evaluator on the answers of a run that all share, where it scored them in every run."""
    scores = [side.scores[key] for side in sides]
    if whole and all(len(own) == len(shared) for own in scores):
        return array("d", scores[place].values())
    chosen = [
        line
        for line in shared
        if all(answer and answer.id in own for answer, own in zip(line.answers, scores, strict=True))
    ]
    return array("d", (scores[place][answer.id] for line in chosen if (answer := line.answers[place])))


Region = tuple[Column, ...]
"""Some columns of a run, each by its prompt and target."""


def regions_faced(one: Region, other: Region) -> str | tuple[Region, Region]:
    """The columns of both regions in the order in which they face each other, or why they do not.

    Of regions of different size those face each other that have a target or a prompt in common.
    """
    if shared := sorted({*one} & {*other}):
        return f"{counted(len(shared), 'column')} would be compared with itself"
    for part in (1, 0):  # the same targets under other prompts, or the same prompts with other targets
        own, facing = ({column[part]: column for column in region} for region in (one, other))
        both = [number for number in own if number in facing]
        whole = len(both) == len(one) == len(other)
        if whole or (both and len(one) != len(other) and len(own) == len(one) and len(facing) == len(other)):
            return tuple(own[number] for number in both), tuple(facing[number] for number in both)
    if len(one) != len(other):
        return f"A has {counted(len(one), 'column')} and B {len(other)}, and no target or prompt is in both"
    return one, other


def facing_columns(regions: tuple[Region, Region]) -> tuple[Region, Region]:
    """The columns of two regions that are compared with each other; ValueError if none are."""
    faced = regions_faced(*regions)
    if isinstance(faced, str):
        raise ValueError(faced)
    return faced


def read_columns(reader: Reader, number: int, regions: tuple[Region, Region]) -> Comparison:
    """Compare two regions of a run by column; raises LookupError for a deleted run, ValueError if they do not match.

    A region with unmatched columns is named with the number of compared ones.
    """
    run, faced = reader.run(number), facing_columns(regions)
    names = [_facing_name(run, *pair) for pair in zip(*faced, strict=True)]
    with garbage_collection_paused():
        document = reader.snapshot(run.snapshot)
        judged_by, labels = reader.judged_by(run, document), _labels(reader, run)
        calls, *_ = read_call_verdicts(reader, [run], [judged_by.document])
        sides = []
        for given, region in zip(regions, faced, strict=True):
            side = _region_side(reader, run, region, names, document, judged_by, labels)
            some = "" if len(given) == len(region) else f" ({len(region)} of {counted(len(given), 'column')})"
            called = replace(side.run, name=f"{region_name(run, given)}{some}")
            sides.append(replace(side, run=called, calls=calls))
        return compare_runs(sides, partial(run_figures.differing, reader))


def region_name(run: RunRow, region: Region) -> str:
    """The common name of some columns: the prompt or target that they share, else all their names."""
    prompts, targets = ({column[part] for column in region} for part in (0, 1))
    if len(region) > 1 and len(prompts) == 1 and len(run.prompts) > 1:
        return run.prompts[prompts.pop()] or "no prompt"
    if len(region) > 1 and len(targets) == 1:
        return run.targets[targets.pop()]
    return ", ".join(column_name(run, *column) for column in region)


def _facing_name(run: RunRow, one: Column, other: Column) -> str:
    """The common part of two compared columns, else both names."""
    if one[1] == other[1]:
        return run.targets[one[1]]
    if one[0] == other[0] and len(run.prompts) > 1:
        return run.prompts[one[0]] or "no prompt"
    return f"{column_name(run, *one)} → {column_name(run, *other)}"


def _region_side(
    reader: Reader,
    run: RunRow,
    region: Region,
    names: Sequence[str],
    document: Mapping[str, Any],
    judged_by: JudgedBy,
    labels: Mapping[Column, Mapping[str, Mapping[str, int]]],
) -> ComparedRun:
    """Some columns as a run that has no other; they are numbered as they face those of the other region."""
    numbers = {column: number for number, column in enumerate(region)}
    compared = (row for row in run_figures.compared(reader, run.id) if (row.prompt, row.target) in numbers)
    rows = [row._replace(prompt=0, target=numbers[row.prompt, row.target]) for row in compared]
    ids: list[set[int]] = [set() for _ in region]
    for row in rows:
        ids[row.target].add(row.id)
    every = set[int]().union(*ids)
    (prompt, target), *more = region
    called = (("",), tuple(names)) if more else ((run.prompts[prompt],), (run.targets[target],))
    as_run = replace(run, name=region_name(run, region), prompts=called[0], targets=called[1], total=len(rows))
    judged = (score for score in run_figures.judged(reader, run.id) if score.answer in every)
    counts: dict[str, Counter[str]] = {}
    for column in region:
        for key, own in labels.get(column, {}).items():
            counts.setdefault(key, Counter()).update(own)

    def spent(chosen: Collection[int] | None) -> Mapping[int, Spent]:
        wanted = None if chosen is None else set(chosen)
        parts = [own if wanted is None else own & wanted for own in ids]
        return {
            number: took
            for number, own in enumerate(parts)
            if own
            for took in ledger.spent(reader.query, run.id, own).values()
        }

    return ComparedRun(as_run, rows, document, judged, judged_by, counts, spent=spent, part=asked_part(reader, run))


def _labels(reader: Reader, run: RunRow) -> dict[Column, dict[str, dict[str, int]]]:
    """How often each evaluator gave each label that neither passes nor fails, in each column."""
    labels: dict[Column, dict[str, dict[str, int]]] = {}
    if not run_figures.label_counts(reader, run.id):
        return labels
    for mean in run_figures.evaluator_means(reader, run.id, columns=True):
        if mean.labels and mean.prompt is not None and mean.target is not None:
            labels.setdefault((mean.prompt, mean.target), {})[mean.key] = dict(mean.labels)
    return labels
