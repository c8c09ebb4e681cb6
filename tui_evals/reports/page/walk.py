"""What one walk over the answers and scores of a run brings together for the page, and pass rates as it shows them."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from statistics import median

from tui_evals.compare.statistics import percent, wilson
from tui_evals.present.figures import duration
from tui_evals.present.runs import Column
from tui_evals.reports.plots import Meter, meter
from tui_evals.runs.scoring import column_scores
from tui_evals.store.reader import Reader
from tui_evals.store.records import RunRow, ScoreRecord


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
    """What one walk over the answers and one over the scores of a run bring together."""

    items: int = 0
    cached: int = 0
    categories: Counter[str] = field(default_factory=Counter)
    latencies: defaultdict[Column, list[float]] = field(default_factory=lambda: defaultdict(list))
    scores: defaultdict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    labels: defaultdict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    thresholds: defaultdict[str, set[float]] = field(default_factory=lambda: defaultdict(set))
    points: Mapping[Column, float | None] = field(default_factory=dict)

    def latency(self, columns: Iterable[Column] | None = None) -> str:
        """The median time to an answer; cached answers are left out."""
        chosen = self.latencies if columns is None else columns
        latencies = [value for column in chosen for value in self.latencies[column]]
        return duration(median(latencies) / 1000) if latencies else "n/a"


def walk_answers(reader: Reader, run: RunRow) -> RunWalk:
    """What the rows of a run's answers add up to."""
    walk = RunWalk()
    numbers = set()
    for row in reader.all_rows(run.id):
        numbers.add(row.item)
        walk.categories[row.category] += 1
        walk.cached += row.from_cache
        if row.latency_ms is not None and not row.from_cache:
            walk.latencies[row.prompt, row.target].append(row.latency_ms)
    walk.items = len(numbers)
    return walk


def walk_answers_and_scores(reader: Reader, run: RunRow) -> RunWalk:
    """The same with the scores of the run; their reasons and details are not kept."""
    walk = walk_answers(reader, run)
    slim: defaultdict[int, list[ScoreRecord]] = defaultdict(list)
    for answer, record in reader.scores(run.id):
        slim[answer].append(replace(record, reason="", details={}))
        if record.label is not None:
            walk.labels[record.key][record.label] += 1
        if record.score is not None:
            walk.scores[record.key].append(record.score)
        if record.threshold is not None:
            walk.thresholds[record.key].add(record.threshold)
    walk.points = column_scores(reader.all_rows(run.id), slim, reader.snapshot(run.snapshot)["items"])
    return walk
