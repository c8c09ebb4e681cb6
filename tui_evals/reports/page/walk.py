"""What one walk over the answers and scores of a run brings together for the page, and pass rates as it shows them."""

from __future__ import annotations

from array import array
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from statistics import median
from typing import Any

from tui_evals.compare.statistics import percent, wilson
from tui_evals.present.figures import duration
from tui_evals.present.runs import Column
from tui_evals.reports.plots import Meter, meter
from tui_evals.runs.scoring import judged_parts
from tui_evals.runs.status import weighted_mean
from tui_evals.store.reader import Reader
from tui_evals.store.records import AnswerRow, RunRow
from tui_evals.store.rows import Mark


@dataclass(frozen=True, slots=True)
class Share:
    """A pass rate as the page shows it."""

    passed: int
    judged: int
    text: str
    interval: str
    meter: Meter | None


def share_of(passed: int, judged: int) -> Share:
    """A pass rate with its interval, and a bar of both."""
    bounds = wilson(passed, judged)
    if bounds is None:
        return Share(passed, judged, "n/a", "", None)
    share = passed / judged
    interval = f"{100 * bounds.low:.1f} to {100 * bounds.high:.1f} %"
    return Share(passed, judged, percent(share), interval, meter(share, bounds.low, bounds.high))


@dataclass(slots=True)
class RunWalk:
    """What one walk over the answers of a run and their scores brings together: numbers, and no text of an answer."""

    numbers: set[int] = field(default_factory=set)
    """The items, by their places in the dataset."""
    cached: int = 0
    categories: Counter[str] = field(default_factory=Counter)
    latencies: defaultdict[Column, array[float]] = field(default_factory=lambda: defaultdict(_floats))
    scores: defaultdict[str, array[float]] = field(default_factory=lambda: defaultdict(_floats))
    labels: defaultdict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    thresholds: defaultdict[str, set[float]] = field(default_factory=lambda: defaultdict(set))
    points: Mapping[Column, float | None] = field(default_factory=dict)

    @property
    def items(self) -> int:
        """How many items were asked."""
        return len(self.numbers)

    def take(self, row: AnswerRow) -> None:
        """Count an answer in."""
        self.numbers.add(row.item)
        self.categories[row.category] += 1
        self.cached += row.from_cache
        if row.latency_ms is not None and not row.from_cache:
            self.latencies[row.prompt, row.target].append(row.latency_ms)

    def take_marks(self, marks: Iterable[Mark]) -> None:
        """Count its scores in."""
        for mark in marks:
            if mark.label is not None:
                self.labels[mark.key][mark.label] += 1
            if mark.score is not None:
                self.scores[mark.key].append(mark.score)
            if mark.threshold is not None:
                self.thresholds[mark.key].add(mark.threshold)

    def latency(self, columns: Iterable[Column] | None = None) -> str:
        """The median time to an answer; cached answers are left out."""
        chosen = self.latencies if columns is None else columns
        latencies = [value for column in chosen for value in self.latencies[column]]
        return duration(median(latencies) / 1000) if latencies else "n/a"


def _floats() -> array[float]:
    return array("d")


def walk_answers(reader: Reader, run: RunRow) -> RunWalk:
    """What the rows of a run's answers add up to."""
    walk = RunWalk()
    for row in reader.all_rows(run.id):
        walk.take(row)
    return walk


def walk_answers_and_scores(reader: Reader, run: RunRow, items: Sequence[Mapping[str, Any]]) -> RunWalk:
    """The same with the scores of the run, which asked these items."""
    walk = RunWalk()
    columns: defaultdict[Column, _ItemMeans] = defaultdict(_ItemMeans)
    marked = reader.marked(run, reader.all_rows(run.id))
    for _, conversation in groupby(marked, key=lambda pair: pair[0].cell):
        parts: list[tuple[float, float]] = []
        for row, marks in conversation:
            walk.take(row)
            walk.take_marks(marks)
            parts += judged_parts(marks)
        columns[row.prompt, row.target].take(row.item, weighted_mean(parts))
    walk.points = {column: means.mean(items) for column, means in sorted(columns.items())}
    return walk


@dataclass(slots=True)
class _ItemMeans:
    """The scores of a column's conversations by their items, as `column_scores` takes them together."""

    sums: array[float] = field(default_factory=_floats)
    counts: array[float] = field(default_factory=_floats)

    def take(self, item: int, score: float | None) -> None:
        if score is None:
            return
        missing = item + 1 - len(self.sums)
        if missing > 0:
            self.sums.extend([0.0] * missing)
            self.counts.extend([0.0] * missing)
        self.sums[item] += score
        self.counts[item] += 1

    def mean(self, items: Sequence[Mapping[str, Any]]) -> float | None:
        return weighted_mean(self._by_item(items))

    def _by_item(self, items: Sequence[Mapping[str, Any]]) -> Iterator[tuple[float, float]]:
        for number, (total, count) in enumerate(zip(self.sums, self.counts, strict=True)):
            if count:
                yield total / count, float(items[number].get("weight", 1.0))
