"""How the runs of a dataset did one after the other: pass rates, scores of an evaluator, or verdicts on an item."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from itertools import islice
from statistics import fmean
from typing import Any, Literal, TypeVar

from tui_evals.compare.runs import compare_runs
from tui_evals.compare.sides import (
    AskedItems,
    ComparedRun,
    TurnOutcome,
    Verdict,
    asked_part,
    column_name,
    item_verdict,
    read_call_verdicts,
)
from tui_evals.compare.verdicts import difference_sentence, measured_sentence
from tui_evals.figures import Figure, Interval, percent
from tui_evals.light_records import dataclass
from tui_evals.store import run_figures
from tui_evals.store.filters import Filter, Term
from tui_evals.store.reader import Reader
from tui_evals.store.records import AnswerRow, RunRow
from tui_evals.store.rows import EvaluatorMean
from tui_evals.text.measures import Measure, common_measure, on_common_scale, parse_measure
from tui_evals.text.names import did_you_mean

from .measures import MeasuredDifference, RunDifference

T = TypeVar("T")
Values = Sequence[float | None]
Column = tuple[int, int]
"""Prompt and target by their numbers."""

BARS = "▁▂▃▄▅▆▇█"
HOLLOW = "○"
"""A run that asked only a part of its dataset."""

_VERDICT_VALUES: Mapping[Verdict, float | None] = {"pass": 1.0, "fail": 0.0, "errored": None, "unjudged": None}

_PAGE = 200


class UnknownTrend(LookupError):
    """The runs have no such category, evaluator or item."""

    def __init__(self, what: str, name: str, known: Iterable[str], runs: Sequence[RunRow]) -> None:
        names = [one for one in known if one]
        some = ", ".join(names[:12]) + (" …" if len(names) > 12 else "") if names else "none"
        hint = did_you_mean(name, names)
        super().__init__(f"these runs have no {what} {name!r}{hint}; {runs[-1].source} has {some}")


@dataclass(frozen=True, slots=True)
class FirstAndLast:
    """The last run that has a column against the first one."""

    column: str
    first: RunRow
    last: RunRow
    difference: RunDifference
    test: MeasuredDifference
    """The test of the shown figure: passing, or one evaluator."""

    @property
    def sentence(self) -> str:
        """Whether they differ, beyond chance."""
        if self.test.what:
            return measured_sentence(self.test, self.first.key, self.last.key)
        return difference_sentence(self.difference, self.first.key, self.last.key)


@dataclass(frozen=True, slots=True, kw_only=True)
class Trend:
    """One figure of several runs, the oldest first."""

    values: Mapping[str, Values]
    """The value of each column in every run of the whole dataset; None for a partial run."""
    figures: Mapping[str, Sequence[Figure | None]] = field(default_factory=dict)
    """The pass rate or mean score of each column in every run, including partial ones; empty for an item."""
    parts: Sequence[AskedItems | None] = ()
    """How much of its dataset each run asked; None where that is all of it."""
    measure: str = ""
    """The measure of an evaluator's mean scores."""
    category: str | None = None
    """The category whose pass rate this is."""
    evaluator: str | None = None
    """The evaluator whose mean score this is."""
    item: str | None = None
    """The item whose verdicts these are."""
    verdicts: Mapping[str, Sequence[Verdict | None]] | None = None
    """The verdict on the item in each column of every run."""
    answers: Sequence[Sequence[AnswerRow]] = ()
    """The answers to the item in every run."""

    @property
    def title(self) -> str:
        """The title of the values."""
        if self.item is not None:
            return f"The item {self.item}"
        if self.evaluator is not None:
            scale = f" of {self._measure.range_text}" if self._measure.bounds else ""
            return f"The mean score{scale} of {self.evaluator}"
        return "What passes" if self.category is None else f"What passes of the category {self.category}"

    def format_value(self, value: float | None) -> str:
        """A value as text."""
        return percent(value) if self.evaluator is None else "n/a" if value is None else self._measure.texts(value)[0]

    def format_change(self, first: float | None, last: float | None) -> str:
        """How much more the last one is, rates in points."""
        if first is None or last is None:
            return ""
        if self.evaluator is None:
            return signed_number(100 * (last - first), ".1f") + " pts"
        change = round(last - first, 9)  # Sums of floats keep a rest even if nothing changed.
        number, *_ = self._measure.texts(abs(change), first, last)
        return f"{'+' if change > 0 else '-' if change else ''}{number}"

    def hollow(self, column: str) -> list[bool]:
        """Which runs are partial and have a value of a column, which is drawn hollow next to the line."""
        figures = self.figures.get(column)
        if figures is None:
            return []
        return [figure is not None and part is not None for figure, part in zip(figures, self.parts, strict=True)]

    @property
    def _measure(self) -> Measure:
        """The measure of the mean scores."""
        return parse_measure(self.measure)

    def first_and_last(self, reader: Reader, runs: Sequence[RunRow]) -> Iterator[FirstAndLast]:
        """The last whole run against the first one, for each column that two runs have; none for an item."""
        for column, values in {} if self.item is not None else self.values.items():
            span = known_span(values)
            if span is None or span[0] == span[1]:
                continue
            first, last = runs[span[0]], runs[span[1]]
            sides = [self._compared_run(reader, run, column) for run in (first, last)]
            judged_by = [side.judged_by.document if side.judged_by else side.document for side in sides]
            calls = read_call_verdicts(reader, (first, last), judged_by)
            with_calls = [replace(side, calls=own) for side, own in zip(sides, calls, strict=True)]
            difference = compare_runs(with_calls).against[0]
            tests = [difference.passes] if self.evaluator is None else [test for test in difference.tests if test.what]
            yield from (FirstAndLast(column, first, last, difference, test) for test in tests)

    def _compared_run(self, reader: Reader, run: RunRow, column: str) -> ComparedRun:
        """The part of a run that the trend measures: one of its columns, one category of it, and one evaluator."""
        names = column_names(run)
        rows = (
            row
            for row in run_figures.compared(reader, run.id)
            if column in (names[row.prompt, row.target], TOGETHER) and self.category in (None, row.category)
        )
        judged = run_figures.judged(reader, run.id) if self.evaluator else ()
        scores = [score for score in judged if score.key == self.evaluator]
        document = reader.snapshot(run.snapshot)
        judged_by, rejudged = reader.judged_by(run, document), reader.rejudged(run)
        return ComparedRun(run, rows, document, scores, judged_by, rejudged=rejudged)


TOGETHER = "all answers to an item"
"""The column of an evaluator that judges answers to an item together."""


def pass_rate_trend(reader: Reader, runs: Sequence[RunRow]) -> Trend:
    """The pass rate of each column."""
    by_column = []
    for run in runs:
        names = column_names(run)
        by_column.append({names[at]: one.pass_rate for at, one in reader.totals_by(run.id, "column").items()})
    return Trend(**_lines(reader, runs, by_column))


def category_trend(reader: Reader, runs: Sequence[RunRow], category: str) -> Trend:
    """The pass rate of a category in each column."""
    totals = [reader.totals_by(run.id, "cell") for run in runs]
    known = sorted({name for cells in totals for *_, name in cells})
    if category not in known:
        raise UnknownTrend("category", category, known, runs)
    by_column = []
    for run, cells in zip(runs, totals, strict=True):
        names = column_names(run)
        own = {(prompt, target): one for (prompt, target, name), one in cells.items() if name == category}
        by_column.append({names[column]: one.pass_rate for column, one in own.items()})
    return Trend(category=category, **_lines(reader, runs, by_column))


def evaluator_trend(reader: Reader, runs: Sequence[RunRow], key: str) -> Trend:
    """The mean score of an evaluator in each column."""
    every = [run_figures.evaluator_means(reader, run.id, columns=True) for run in runs]
    if not any(mean.key == key for own in every for mean in own):  # what judges answers together has no column
        every = [run_figures.evaluator_means(reader, run.id) for run in runs]
    known = sorted({mean.key for own in every for mean in own})
    if key not in known:
        raise UnknownTrend("evaluator", key, known, runs)
    mine = [[mean for mean in own if mean.key == key] for own in every]
    measure = common_measure(mean.measure for own in mine for mean in own)
    by_column = []
    for run, own in zip(runs, mine, strict=True):
        names = column_names(run)
        by_column.append(
            {
                TOGETHER if mean.prompt is None or mean.target is None else names[mean.prompt, mean.target]: _brought(
                    mean, measure
                )
                for mean in own
            }
        )
    return Trend(evaluator=key, measure=measure, **_lines(reader, runs, by_column))


def _lines(reader: Reader, runs: Sequence[RunRow], by_column: Sequence[Mapping[str, Figure | None]]) -> dict[str, Any]:
    """The figures of every run by column, and those of whole runs as lines."""
    parts, figures = [asked_part(reader, run) for run in runs], align_runs(by_column)
    values = {
        column: tuple(None if figure is None or part else figure.value for figure, part in zip(own, parts, strict=True))
        for column, own in figures.items()
    }
    return {"values": values, "figures": figures, "parts": parts}


def _brought(mean: EvaluatorMean, measure: str) -> Figure | None:
    """A mean with its interval, on the scale that all runs share where theirs differ."""
    figure = mean.mean_figure
    if figure is None and mean.mean is not None:  # of several scales, whose spread by item is unknown
        figure = Figure(mean.mean, 0, mean.scored, None, "", "", "scored")
    if figure is None or not parse_measure(measure).normalised:
        return figure

    def place(value: float) -> float | None:
        return on_common_scale(value, mean.measure, measure)

    value, ends = place(figure.value), figure.interval and (place(figure.interval.low), place(figure.interval.high))
    if value is None:
        return None
    low, high = ends or (None, None)
    return replace(figure, value=value, interval=None if low is None or high is None else Interval(low, high))


def item_trend(reader: Reader, runs: Sequence[RunRow], name: str) -> Trend:
    """The verdict of every run on an item, by column."""
    # The names of all answers need not be read: the store finds those that are like this one.
    where = Filter(name, (Term("id", name),))
    answers = [[row for row in reader.rows(reader.ids(run.id, where)) if row.name == name] for run in runs]
    if not any(answers):
        raise UnknownTrend("item", name, dict.fromkeys(row.name for row in reader.all_rows(runs[-1].id)), runs)
    by_column: list[dict[str, Verdict | None]] = []
    for run, rows in zip(runs, answers, strict=True):
        names = column_names(run)
        by_column.append({names[column]: one for column, one in verdicts_by_column(rows).items()})
    verdicts: Mapping[str, Sequence[Verdict | None]] = align_runs(by_column)
    return Trend(
        values={column: [_VERDICT_VALUES[one] if one else None for one in row] for column, row in verdicts.items()},
        parts=[asked_part(reader, run) for run in runs],
        item=name,
        verdicts=verdicts,
        answers=answers,
    )


def signed_number(value: float, form: str) -> str:
    """A change with its sign; none before a zero."""
    shown = f"{round(value, 9):+{form}}"  # Sums of floats keep a rest even if nothing changed.
    return shown if float(shown) else shown[1:]


def column_names(run: RunRow) -> dict[Column, str]:
    """The name of each column of a run: its target, and the prompt under test if it has a name."""
    return {(p, t): column_name(run, p, t) for p in range(len(run.prompts)) for t in range(len(run.targets))}


def verdicts_by_column(rows: Iterable[AnswerRow]) -> dict[Column, Verdict]:
    """The verdict of each column on one item: its turns at their worst, its repeats by their majority."""
    by_column: defaultdict[Column, list[TurnOutcome]] = defaultdict(list)
    for row in rows:
        by_column[row.prompt, row.target].append(TurnOutcome(row.turn, row.repeat, row.status))
    return {column: item_verdict(outcomes) for column, outcomes in by_column.items()}


def align_runs(runs: Sequence[Mapping[str, T | None]]) -> dict[str, tuple[T | None, ...]]:
    """The value of each name in each run; None if a run does not have it."""
    return {name: tuple(run.get(name) for run in runs) for name in dict.fromkeys(name for run in runs for name in run)}


def known_span(values: Sequence[object]) -> tuple[int, int] | None:
    """The first and the last run that have a value; None where none has."""
    numbers = [number for number, value in enumerate(values) if value is not None]
    return (numbers[0], numbers[-1]) if numbers else None


def thin_values(values: Values, most: int) -> tuple[int, list[float | None]]:
    """No more values than `most`: how many neighbours became one, and the means of those."""
    step = -(-len(values) // max(most, 1)) or 1
    groups = (
        [value for value in values[start : start + step] if value is not None] for start in range(0, len(values), step)
    )
    return step, [fmean(group) if group else None for group in groups]


def bar_range(values: Iterable[float | None]) -> tuple[float, float]:
    """The values of the lowest and the highest bar: 0 and 1, or the values beyond them."""
    known = [value for value in values if value is not None]
    return min([0.0, *known]), max([1.0, *known])


def draw_bars(values: Values, low: float = 0.0, high: float = 1.0, hollow: Sequence[bool] = ()) -> str:
    """A bar for each value, the lowest at `low` and the highest at `high`; a space or a hollow point without one."""
    points = hollow or [False] * len(values)
    return "".join(
        (HOLLOW if point else " ") if value is None else _bar_character((value - low) / (high - low))
        for value, point in zip(values, points, strict=True)
    )


def _bar_character(share: float) -> str:
    return BARS[max(0, min(int(share * len(BARS)), len(BARS) - 1))]


OpponentKind = Literal["baseline", "parent", "before"]


def every_run(reader: Reader) -> Iterator[RunRow]:
    """All runs, the latest first."""
    offset = 0
    while page := reader.runs(limit=_PAGE, offset=offset):
        yield from page
        offset += len(page)


def finished_runs(reader: Reader, dataset: str, key: Callable[[str], str], most: int) -> list[RunRow]:
    """The latest finished runs of a dataset, the oldest first; `key` is the name of a dataset by a run's source."""
    finished = (run for run in every_run(reader) if run.status == "finished" and key(run.source) == dataset)
    return list(islice(finished, most))[::-1]


def default_opponent(
    run: RunRow, baseline: RunRow | None, parent: RunRow | None, others: Iterable[RunRow]
) -> tuple[RunRow, OpponentKind] | None:
    """The run to compare with when none is named, and why; `others` are runs of the dataset, the latest first."""
    if baseline is not None and baseline.id != run.id:
        return baseline, "baseline"
    if parent is not None:
        return parent, "parent"
    before = next((one for one in others if one.id < run.id and one.status == "finished"), None)
    return None if before is None else (before, "before")
