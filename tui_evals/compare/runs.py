"""Runs answer by answer: what broke, what was fixed, what else changed, and whether that can be chance."""

from __future__ import annotations

import gc
from array import array
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import get_args

from tui_evals.store.reader import Reader
from tui_evals.store.records import AnswerStatus, RunRow

from .match import Group, How, Kind, Outcome, Verdict, match, verdict
from .measures import Both, RunDifference, run_difference, value_of
from .sides import Answer, CellKey, ComparedRun, Rate, RunAnswers, facing

KINDS: tuple[Kind, ...] = ("broken", "fixed", "changed", "same", "gone", "new", "not comparable")
MAX_RUNS = 4
"""How many runs stand beside each other."""

_FIRST_SEEN: tuple[Kind, ...] = ("broken", "fixed", "not comparable", "gone", "new", "changed", "same")
_VERDICTS: Mapping[AnswerStatus, Verdict] = {
    status: verdict([Outcome(0, 0, status, None, "")]) for status in get_args(AnswerStatus)
}
Pairs = Iterable[tuple[int, int]]


@dataclass(frozen=True, slots=True)
class ComparedLine:
    """The same turn of the same item in every run; turn and repeat are None where there is only one."""

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

    @property
    def kind(self) -> Kind:
        """What calls for attention first among its kinds."""
        return next(kind for kind in _FIRST_SEEN if kind in self.kinds)


@dataclass(frozen=True, slots=True)
class RunSide:
    """One of the runs in numbers, over all it asked."""

    run: RunRow
    rate: Rate
    scores: Mapping[str, Sequence[float]]
    """All scores of each evaluator."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """Runs line by line, and each later one against the first."""

    lines: tuple[ComparedLine, ...]
    sides: tuple[RunSide, ...]
    against: tuple[RunDifference, ...]
    categories: Mapping[str, tuple[Rate, ...]]
    """The rates of every run in each category; empty without categories."""


def compare_runs(
    runs: Sequence[ComparedRun], differing: Callable[[Pairs], set[tuple[int, int]]] = lambda pairs: set()
) -> Comparison:
    """Line the answers of runs up; `differing` picks, of pairs that look the same, those whose texts differ."""
    if not 2 <= len(runs) <= MAX_RUNS:
        raise ValueError(f"{len(runs)} runs cannot be compared; give 2 to {MAX_RUNS}")
    prompts, targets = (facing([getattr(ran.run, of) for ran in runs]) for of in ("prompts", "targets"))
    sides = [RunAnswers(ran, *columns) for ran, *columns in zip(runs, prompts, targets, strict=True)]
    plain = all(len(side.columns) == 1 for side in sides)
    known = all(one.document is other.document for one, other in pairwise(runs))
    lines: list[ComparedLine] = []
    items: tuple[list[Both], ...] = tuple([] for _ in runs[1:])
    for group in match([side.entries(known) for side in sides]):
        cells = [
            side.cells[entry.key.position] if entry else {} for side, entry in zip(sides, group.entries, strict=True)
        ]
        lines += _lines(group, cells, sides, plain)
        for number, later in enumerate(cells[1:]):
            if cells[0] and later:
                items[number].append((cells[0], later))
    settled = _settled(lines, differing)
    found = [
        replace(run_difference(both, sides[0], later), counts=_counted(line.kinds[number] for line in settled))
        for number, (both, later) in enumerate(zip(items, sides[1:], strict=True))
    ]
    names = sorted({name for side in sides for name in side.categories.values()})
    categories = {name: tuple(side.rate(name) for side in sides) for name in names} if any(names) else {}
    return Comparison(tuple(settled), tuple(map(_side, sides)), tuple(found), categories)


def read_comparison(reader: Reader, runs: Sequence[int]) -> Comparison:
    """Compare runs of a store by their ids; LookupError if one is gone."""
    rows = [reader.run(number) for number in runs]
    with _uncollected():
        return _compared(reader, rows)


@contextmanager
def _uncollected() -> Iterator[None]:
    """Make many objects that stay; to look for garbage among them costs half of the time, and holds a screen up."""
    running = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if running:
            gc.enable()


def _compared(reader: Reader, rows: Sequence[RunRow]) -> Comparison:
    documents = {digest: reader.snapshot(digest) for digest in dict.fromkeys(row.snapshot for row in rows)}
    return compare_runs(
        [ComparedRun(row, reader.all_rows(row.id), documents[row.snapshot], reader.judged(row.id)) for row in rows],
        reader.differing,
    )


def _lines(
    group: Group, cells: Sequence[Mapping[CellKey, Answer]], sides: Sequence[RunAnswers], plain: bool
) -> Iterable[ComparedLine]:
    entry, side = next((entry, side) for entry, side in zip(group.entries, sides, strict=True) if entry)
    name, category = side.names[entry.key.position], side.categories[entry.key.position]
    edited = len({one.key.content_hash for one in group.entries if one}) > 1
    every = dict.fromkeys(cell for own in cells for cell in own)
    repeated, several = any(cell[0] for cell in every), any(cell[3] for cell in every)
    for cell in every:
        repeat, prompt, target, turn = cell
        answers = tuple(own.get(cell) for own in cells)
        column = (
            "" if plain else next(side.columns[prompt, target] for side in sides if (prompt, target) in side.columns)
        )
        yield ComparedLine(
            name,
            turn if several else None,
            repeat if repeated else None,
            column,
            category,
            answers,
            tuple(_kind(answers[0], later) for later in answers[1:]),
            group.how if sum(answer is not None for answer in answers) > 1 else None,
            edited,
        )


def _kind(before: Answer | None, after: Answer | None) -> Kind | None:
    if before is None or after is None:
        return "gone" if before is not None else "new" if after is not None else None
    was, now = _VERDICTS[before.status], _VERDICTS[after.status]
    if "errored" in (was, now) or (was == "unjudged") != (now == "unjudged"):
        return "not comparable"
    if was != now:
        return "fixed" if now == "pass" else "broken"
    return "same" if (before.score, before.look) == (after.score, after.look) else "changed"


def _settled(lines: Sequence[ComparedLine], differing: Callable[[Pairs], set[tuple[int, int]]]) -> list[ComparedLine]:
    """The lines once the texts that look the same have been read."""
    found = differing(pair for line in lines for pair in _alike(line) if pair)
    if not found:
        return list(lines)
    return [_changed(line, found) for line in lines]


def _alike(line: ComparedLine) -> list[tuple[int, int] | None]:
    first = line.answers[0]
    return [
        (first.id, later.id) if first and later and kind == "same" else None
        for later, kind in zip(line.answers[1:], line.kinds, strict=True)
    ]


def _changed(line: ComparedLine, found: set[tuple[int, int]]) -> ComparedLine:
    kinds = tuple("changed" if pair in found else kind for pair, kind in zip(_alike(line), line.kinds, strict=True))
    return line if kinds == line.kinds else replace(line, kinds=kinds)


def _counted(kinds: Iterable[Kind | None]) -> dict[Kind, int]:
    counts = Counter(kinds)
    return {kind: counts[kind] for kind in KINDS}


def _side(answers: RunAnswers) -> RunSide:
    scores: defaultdict[str, array[float]] = defaultdict(lambda: array("d"))
    for records in answers.judged.values():
        for one in records:
            scores[one.key].append(value_of(one))
    return RunSide(answers.run, answers.rate(), dict(sorted(scores.items())))
