"""How the runs of a dataset went one after the other: the values of each column, lined up, as bars."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean
from typing import Literal, TypeVar

from tui_evals.store.records import AnswerRow, RunRow, Totals

from .match import Outcome, Verdict, verdict
from .sides import Rate, column_name

T = TypeVar("T")
Values = Sequence[float | None]
Column = tuple[int, int]
"""Prompt and target by their numbers."""

BARS = "▁▂▃▄▅▆▇█"


def column_names(run: RunRow) -> dict[Column, str]:
    """What each column of a run is called: its target, and the prompt under test where it has a name."""
    return {(p, t): column_name(run, p, t) for p in range(len(run.prompts)) for t in range(len(run.targets))}


def rate(totals: Iterable[Totals]) -> Rate:
    """How many answers pass, of all that could be judged."""
    every = list(totals)
    passed = sum(one.passed for one in every)
    return Rate(passed, passed + sum(one.failed for one in every))


def verdicts(rows: Iterable[AnswerRow]) -> dict[Column, Verdict]:
    """What each column made of one item: its turns at their worst, its repeats by their majority."""
    found: defaultdict[Column, list[Outcome]] = defaultdict(list)
    for row in rows:
        found[row.prompt, row.target].append(Outcome(row.turn, row.repeat, row.status, row.score, ""))
    return {column: verdict(outcomes) for column, outcomes in found.items()}


def lined_up(runs: Sequence[Mapping[str, T | None]]) -> dict[str, tuple[T | None, ...]]:
    """For every name that any run knows its value in each run; None where a run does not have it."""
    return {name: tuple(run.get(name) for run in runs) for name in dict.fromkeys(name for run in runs for name in run)}


def ends(values: Sequence[object]) -> tuple[int, int] | None:
    """The first and the last run that have a value; None where none has."""
    there = [number for number, value in enumerate(values) if value is not None]
    return (there[0], there[-1]) if there else None


def thinned(values: Values, most: int) -> tuple[int, list[float | None]]:
    """No more values than `most`: how many neighbours became one, and the means of those."""
    step = -(-len(values) // max(most, 1)) or 1
    groups = (
        [value for value in values[start : start + step] if value is not None] for start in range(0, len(values), step)
    )
    return step, [fmean(group) if group else None for group in groups]


def scale(values: Iterable[float | None]) -> tuple[float, float]:
    """Between what bars are drawn: from 0, or the lowest value below it, to 1, or the highest value above it."""
    known = [value for value in values if value is not None]
    return min([0.0, *known]), max([1.0, *known])


def draw_bars(values: Values, low: float = 0.0, high: float = 1.0) -> str:
    """A bar for each value, the lowest at `low` and the highest at `high`; a space where there is none."""
    return "".join(" " if value is None else _bar_character((value - low) / (high - low)) for value in values)


def _bar_character(share: float) -> str:
    return BARS[max(0, min(int(share * len(BARS)), len(BARS) - 1))]


How = Literal["baseline", "parent", "before"]


def opponent(
    run: RunRow, baseline: RunRow | None, parent: RunRow | None, others: Iterable[RunRow]
) -> tuple[RunRow, How] | None:
    """The other run, and what it is; `others` are the runs of the same dataset, the latest first."""
    if baseline is not None and baseline.id != run.id:
        return baseline, "baseline"
    if parent is not None:
        return parent, "parent"
    before = next((one for one in others if one.id < run.id and one.status == "finished"), None)
    return None if before is None else (before, "before")
