"""Runs answer by answer: what broke, what was fixed, what else changed, and whether that can be chance."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import NamedTuple, get_args

from tui_evals.garbage import garbage_collection_paused
from tui_evals.store.reader import Reader
from tui_evals.store.records import AnswerStatus, RunRow

from .match import Group, How, ItemKey, Kind, Outcome, Verdict, item_verdict, match_items
from .measures import PairedItems, RunDifference
from .sides import (
    Answer,
    CellKey,
    ComparedRun,
    Rate,
    RunAnswers,
    Usage,
    answers_expect_otherwise,
    defaults_differ,
    other_rubrics,
    same_expectations,
    share_scales,
    shared_numbers,
)

KINDS: tuple[Kind, ...] = ("broken", "fixed", "changed", "same", "gone", "new", "not comparable")
MAX_RUNS = 4
"""How many runs stand beside each other."""

_BY_ATTENTION: tuple[Kind, ...] = ("broken", "fixed", "not comparable", "gone", "new", "changed", "same")
_VERDICTS: Mapping[AnswerStatus, Verdict] = {
    status: item_verdict([Outcome(0, 0, status)]) for status in get_args(AnswerStatus)
}


def _change(was: Verdict, now: Verdict) -> Kind:
    """What became of an answer, by its verdicts alone."""
    if "errored" in (was, now) or (was == "unjudged") != (now == "unjudged"):
        return "not comparable"
    return "same" if was == now else "fixed" if now == "pass" else "broken"


_CHANGES: Mapping[tuple[AnswerStatus, AnswerStatus], Kind] = {
    (was, now): _change(_VERDICTS[was], _VERDICTS[now]) for was in _VERDICTS for now in _VERDICTS
}
_ONLY: Mapping[Kind | None, tuple[Kind | None]] = {kind: (kind,) for kind in (*KINDS, None)}
Pairs = Iterable[tuple[int, int]]


class ComparedLine(NamedTuple):
    """The same turn of the same item in every run; turn and repeat are None where there is only one.

    A hundred thousand are made at once, so it is a plain tuple.
    """

    item: str
    turn: int | None
    repeat: int | None
    column: str
    """The target, and the prompt under test if there are several; empty where each run has one column."""
    category: str
    answers: tuple[Answer | None, ...]
    kinds: tuple[Kind | None, ...]
    """What each later run made of it, against the first; None where neither has it."""
    how: How | None
    edited: bool
    """The item itself was changed between the runs."""
    otherwise: tuple[bool, ...] = ()
    """Of each later run, whether it is not comparable because it was judged by another expectation than the first.

    Empty where no run is."""

    @property
    def kind(self) -> Kind:
        """What calls for attention first among its kinds."""
        return next(kind for kind in _BY_ATTENTION if kind in self.kinds)


@dataclass(frozen=True, slots=True)
class RunSide:
    """One of the runs in numbers, over all it asked."""

    run: RunRow
    rate: Rate
    scores: Mapping[str, Sequence[float]]
    """All scores of each evaluator."""
    measures: Mapping[str, str] = field(default_factory=dict)
    """What the scores of an evaluator are in, where it says so."""
    judged_since: float = 0.0
    """Since when its answers are judged as they are."""
    labels: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """How often each evaluator gave each label that neither passes nor fails."""
    usage: Mapping[str, Usage] = field(default_factory=dict)
    """What it took of each target by its name, and under the empty name of all; empty where nobody knows."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """Runs line by line, and each later one against the first."""

    lines: tuple[ComparedLine, ...]
    sides: tuple[RunSide, ...]
    against: tuple[RunDifference, ...]
    categories: Mapping[str, tuple[Rate, ...]]
    """The rates of every run in each category; empty without categories."""
    rubrics: tuple[Mapping[str, tuple[frozenset[str], frozenset[str]]], ...] = ()
    """Of each later run: the evaluators that judged by another rubric than in the first, with both rubrics."""


def compare_runs(
    runs: Sequence[ComparedRun], differing: Callable[[Pairs], set[tuple[int, int]]] = lambda pairs: set()
) -> Comparison:
    """Line the answers of runs up; `differing` picks, of pairs that look the same, those whose texts differ."""
    if not 2 <= len(runs) <= MAX_RUNS:
        raise ValueError(f"{len(runs)} runs cannot be compared; give 2 to {MAX_RUNS}")
    prompts, targets = (shared_numbers([getattr(ran.run, of) for ran in runs]) for of in ("prompts", "targets"))
    sides = [RunAnswers(ran, *columns) for ran, *columns in zip(runs, prompts, targets, strict=True)]
    share_scales(sides)
    one_column = all(len(side.columns) == 1 for side in sides)
    same_document = all(one.document is other.document for one, other in pairwise(runs))
    expected_alike = all(same_expectations(one, other) for one, other in pairwise(sides))
    all_otherwise = [not expected_alike and defaults_differ(sides[0], later) for later in sides[1:]]
    rejudged = any(side.rejudged for side in sides)
    rubrics = [other_rubrics(sides[0].rubrics, later.rubrics) for later in sides[1:]]
    lines: list[ComparedLine] = []
    paired = [PairedItems(sides[0], later) for later in sides[1:]]
    only = None if rejudged or any(rubrics) or not expected_alike else _only_cell(sides)
    only_column = _column(sides, only, one_column) if only else ""
    for group in match_items(_item_keys(sides, same_document)):
        if only and (key := group.keys[0]) and key is group.keys[1]:
            both = sides[0].answers[only].pop(key.position), sides[1].answers[only].pop(key.position)
            lines.append(_line_alone(key, group.how, only_column, both, sides[0]))
            paired[0].add_alone(only, *both)
            continue
        cells = [side.cells(key.position) if key else {} for side, key in zip(sides, group.keys, strict=True)]
        otherwise = all_otherwise
        if not expected_alike:
            otherwise = [
                bool(cells[0] and cells[number])
                and (all_otherwise[number - 1] or _expects_otherwise(group, sides, number))
                for number in range(1, len(sides))
            ]
        if any(rubrics):
            otherwise = [
                other or (sides[0].has_verdict(cells[0], keys) and later.has_verdict(own, keys))
                for other, keys, later, own in zip(otherwise, rubrics, sides[1:], cells[1:], strict=True)
            ]
        apart = _judged_apart(group, cells, sides, otherwise) if rejudged else {}
        lines += _lines(group, cells, sides, one_column, otherwise, apart)
        for number, later in enumerate(cells[1:]):
            before = cells[0]
            if apart:
                before, later = (
                    {cell: one for cell, one in own.items() if not apart.get(cell, otherwise)[number]}
                    for own in (before, later)
                )
            elif otherwise[number]:
                continue
            if before and later:
                paired[number].add((before, later))
    final_lines = _reread_same(lines, differing)
    differences = [
        replace(
            one.difference(),
            counts=_count_kinds(line.kinds[number] for line in final_lines),
            judged_otherwise=sum(line.otherwise[number] for line in final_lines if line.otherwise),
            scored=sum(_only_scored(line, number + 1) for line in final_lines),
        )
        for number, one in enumerate(paired)
    ]
    names = sorted({name for side in sides for name in side.categories.values()})
    categories = {name: tuple(side.rate(name) for side in sides) for name in names} if any(names) else {}
    return Comparison(tuple(final_lines), tuple(map(_side, sides)), tuple(differences), categories, tuple(rubrics))


def read_comparison(reader: Reader, runs: Sequence[int]) -> Comparison:
    """Compare runs of a store by their ids; LookupError if one is gone."""
    rows = [reader.run(number) for number in runs]
    with garbage_collection_paused():
        documents = {digest: reader.snapshot(digest) for digest in dict.fromkeys(row.snapshot for row in rows)}
        return compare_runs(
            [
                ComparedRun(
                    row,
                    reader.compared_fields(row.id),
                    documents[row.snapshot],
                    reader.judged_fields(row.id),
                    reader.judged_by(row, documents[row.snapshot]),
                    labels=reader.label_counts(row.id),
                    rubrics=reader.rubrics(row.id),
                    rejudged=reader.rejudged(row),
                    totals={None: reader.totals(row.id), **reader.totals_by(row.id, "target")},
                    latencies=reader.latencies(row.id),
                    unpriced=reader.spent(row.id)[1],
                )
                for row in rows
            ],
            reader.differing,
        )


def _item_keys(sides: Sequence[RunAnswers], same_document: bool) -> list[list[ItemKey]]:
    """What the items of each run are recognised by; runs that asked the same of one document share it."""
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
    """Of the cells in which an answer was judged again by itself: whether each later answer expects otherwise."""
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
        kinds = tuple(_kind(answers[0], later) for later in answers[1:])
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
        )


def _column(sides: Sequence[RunAnswers], cell: CellKey, one_column: bool) -> str:
    """What a line calls the target and prompt of a cell."""
    return "" if one_column else next(side.columns[cell[1:3]] for side in sides if cell[1:3] in side.columns)


def _only_cell(sides: Sequence[RunAnswers]) -> CellKey | None:
    """What all answers of two runs are to, as most ask every item once; None where there is more than one such."""
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
    """Whether both runs gave an answer values that neither pass nor fail."""
    first, other = line.answers[0], line.answers[later]
    return first is not None and other is not None and first.status == other.status == "scored"


def _kind(before: Answer | None, after: Answer | None) -> Kind | None:
    if before is None or after is None:
        return "gone" if before is not None else "new" if after is not None else None
    kind = _CHANGES[before.status, after.status]
    if kind == "same" and (before.score != after.score or before.text_hash != after.text_hash):
        return "changed"
    return kind


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


def _side(answers: RunAnswers) -> RunSide:
    scores = {key: array("d", scores.values()) for key, scores in sorted(answers.scores.items()) if scores}
    return RunSide(
        answers.run,
        answers.rate(),
        scores,
        answers.measures,
        answers.judged_by.since,
        answers.labels,
        answers.usage(),
    )
