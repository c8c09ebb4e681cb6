"""Two runs answer by answer: what broke, what was fixed, what else changed, and whether that can be chance."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, get_args

from tui_evals.store.reader import Reader
from tui_evals.store.records import AnswerRow, AnswerStatus, RunRow

from .match import Group, How, Kind, Outcome, Verdict, match, verdict
from .sides import Answer, Answers, Cell, facing
from .statistics import Interval, mcnemar, wilson

KINDS: tuple[Kind, ...] = ("broken", "fixed", "changed", "same", "gone", "new", "not comparable")
REAL = 0.05
"""Below this chance a difference is called real."""

_VERDICTS: Mapping[AnswerStatus, Verdict] = {
    status: verdict([Outcome(0, 0, status, None, "")]) for status in get_args(AnswerStatus)
}


@dataclass(frozen=True, slots=True)
class Pair:
    """The same turn of the same item in two runs; turn and repeat are None where there is only one."""

    item: str
    turn: int | None
    repeat: int | None
    column: str
    """The target, and the prompt under test if there are several; empty where each run has one column."""
    left: Answer | None
    right: Answer | None
    kind: Kind
    how: How | None
    edited: bool
    """The item itself was changed between the runs."""


@dataclass(frozen=True, slots=True)
class Side:
    """One of the two runs in numbers."""

    passed: int
    judged: int
    mean: float | None

    @property
    def interval(self) -> Interval | None:
        """Where the true pass rate lies."""
        return wilson(self.passed, self.judged)


@dataclass(frozen=True, slots=True)
class Means:
    """The mean score of one evaluator in both runs."""

    key: str
    left: float | None
    right: float | None


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two runs pair by pair. The test counts whole items in a column, because turns and repeats are not independent."""

    pairs: tuple[Pair, ...]
    counts: Mapping[Kind, int]
    left: Side
    right: Side
    broken: int
    """Items that passed and do not any more, by the majority of their repeats."""
    fixed: int
    p: float
    means: tuple[Means, ...] = ()

    @property
    def real(self) -> bool:
        """Whether chance alone hardly makes such a difference."""
        return self.p < REAL


def compare_runs(
    left_rows: Iterable[AnswerRow],
    right_rows: Iterable[AnswerRow],
    left_document: Mapping[str, Any],
    right_document: Mapping[str, Any],
    left: RunRow,
    right: RunRow,
) -> Comparison:
    """Pair the answers of two runs; equal looks count as equal answers until `settled` has read the texts."""
    prompts, targets = facing(left.prompts, right.prompts), facing(left.targets, right.targets)
    one = Answers(left_rows, left_document, left, prompts[0], targets[0])
    other = Answers(right_rows, right_document, right, prompts[1], targets[1])
    pairs: list[Pair] = []
    outcome: Counter[Kind] = Counter()
    plain = all(len(run.prompts) * len(run.targets) == 1 for run in (left, right))
    known = left_document is right_document
    for group in match([one.entries(known), other.entries(known)]):
        cells = _cells(group, one, 0), _cells(group, other, 1)
        pairs += _pairs(group, cells, (one, other), plain)
        outcome.update(_verdicts(*cells))
    broken, fixed = outcome["broken"], outcome["fixed"]
    return Comparison(tuple(pairs), _counted(pairs), _side(one), _side(other), broken, fixed, mcnemar(broken, fixed))


def settled(comparison: Comparison, same: Callable[[int, int], bool]) -> Comparison:
    """The comparison after looking into the answers that look the same: `same` is asked with the ids of two."""
    pairs = [
        replace(pair, kind="changed")
        if pair.kind == "same" and pair.left and pair.right and not same(pair.left.id, pair.right.id)
        else pair
        for pair in comparison.pairs
    ]
    return replace(comparison, pairs=tuple(pairs), counts=_counted(pairs))


def read_comparison(reader: Reader, left: int, right: int) -> Comparison:
    """Compare two runs of a store; LookupError if one is gone."""
    runs = reader.run(left), reader.run(right)
    one = reader.snapshot(runs[0].snapshot)
    other = one if runs[0].snapshot == runs[1].snapshot else reader.snapshot(runs[1].snapshot)
    found = compare_runs(reader.all_rows(left), reader.all_rows(right), one, other, *runs)
    before, after = ({mean.key: mean.mean for mean in reader.evaluator_means(run.id)} for run in runs)
    keys = dict.fromkeys([*before, *after])
    return replace(found, means=tuple(Means(key, before.get(key), after.get(key)) for key in keys))


def same_answer(reader: Reader, left: int, right: int) -> bool:
    """Whether two answers say the same and call the same tools."""
    one, other = reader.detail(left).answer, reader.detail(right).answer
    if one is None or other is None:
        return one is other
    return (one.text, one.tool_calls) == (other.text, other.tool_calls)


def _side(answers: Answers) -> Side:
    passed = answers.statuses["pass"]
    return Side(passed, passed + answers.statuses["fail"], answers.mean)


def _cells(group: Group, run: Answers, number: int) -> Mapping[Cell, Answer]:
    entry = group.entries[number]
    return run.cells[entry.key.position] if entry else {}


def _pairs(
    group: Group,
    cells: tuple[Mapping[Cell, Answer], Mapping[Cell, Answer]],
    sides: tuple[Answers, Answers],
    plain: bool,
) -> Iterable[Pair]:
    left, right = cells
    named = next((entry, run) for entry, run in zip(group.entries, sides, strict=True) if entry)
    name = named[1].names[named[0].key.position]
    one, other = group.entries
    edited = one is not None and other is not None and one.key.content_hash != other.key.content_hash
    every = dict.fromkeys([*left, *right])
    repeated, several = any(cell[0] for cell in every), any(cell[3] for cell in every)
    for cell in every:
        repeat, prompt, target, turn = cell
        answers = left.get(cell), right.get(cell)
        column = "" if plain else sides[0 if answers[0] else 1].columns[prompt, target]
        yield Pair(
            name,
            turn if several else None,
            repeat if repeated else None,
            column,
            *answers,
            _kind(*answers),
            group.how if all(answers) else None,
            edited,
        )


def _kind(left: Answer | None, right: Answer | None) -> Kind:
    if left is None or right is None:
        return "new" if left is None else "gone"
    if (kind := _between(_VERDICTS[left.status], _VERDICTS[right.status])) is not None:
        return kind
    return "same" if (left.score, left.look) == (right.score, right.look) else "changed"


def _between(was: Verdict, now: Verdict) -> Kind | None:
    """What became of a verdict; None where it stayed."""
    if "errored" in (was, now) or (was == "unjudged") != (now == "unjudged"):
        return "not comparable"
    return None if was == now else "fixed" if now == "pass" else "broken"


def _verdicts(left: Mapping[Cell, Answer], right: Mapping[Cell, Answer]) -> Iterable[Kind]:
    """What became of an item in each column that both runs have."""
    if len(left) == len(right) == 1 and left.keys() == right.keys():
        before, after = next(iter(left.values())), next(iter(right.values()))
        if kind := _between(_VERDICTS[before.status], _VERDICTS[after.status]):
            yield kind
        return
    columns: defaultdict[tuple[int, int], tuple[list[Outcome], list[Outcome]]] = defaultdict(lambda: ([], []))
    for side, cells in enumerate((left, right)):
        for (repeat, prompt, target, turn), answer in cells.items():
            columns[prompt, target][side].append(Outcome(turn, repeat, answer.status, None, ""))
    for was, now in columns.values():
        if was and now and (kind := _between(verdict(was), verdict(now))):
            yield kind


def _counted(pairs: Iterable[Pair]) -> dict[Kind, int]:
    counts = Counter(pair.kind for pair in pairs)
    return {kind: counts[kind] for kind in KINDS}
