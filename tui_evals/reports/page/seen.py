"""What a walk over the answers and scores of a run brings together; of their texts nothing is kept."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from statistics import median

from tui_evals.runs.columns import column_scores
from tui_evals.store.reader import Reader
from tui_evals.store.records import RunRow, ScoreRecord

from .words import duration

Key = tuple[int, int]
"""A prompt and a target, by position."""


@dataclass(slots=True)
class Seen:
    """What one walk over the answers and one over the scores of a run bring together."""

    items: int = 0
    cached: int = 0
    categories: Counter[str] = field(default_factory=Counter)
    latencies: defaultdict[Key, list[float]] = field(default_factory=lambda: defaultdict(list))
    scores: defaultdict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    labels: defaultdict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    thresholds: defaultdict[str, set[float]] = field(default_factory=lambda: defaultdict(set))
    points: Mapping[Key, float | None] = field(default_factory=dict)

    def latency(self, columns: Iterable[Key] | None = None) -> str:
        """The median time to an answer; what came from the cache tells nothing of it."""
        chosen = self.latencies if columns is None else columns
        found = [value for column in chosen for value in self.latencies[column]]
        return duration(median(found) / 1000) if found else "n/a"


def walked(reader: Reader, run: RunRow) -> Seen:
    """What the answers of a run tell as lists show them."""
    found = Seen()
    numbers = set()
    for row in reader.all_rows(run.id):
        numbers.add(row.item)
        found.categories[row.category] += 1
        found.cached += row.from_cache
        if row.latency_ms is not None and not row.from_cache:
            found.latencies[row.prompt, row.target].append(row.latency_ms)
    found.items = len(numbers)
    return found


def seen(reader: Reader, run: RunRow) -> Seen:
    """The same with its scores; of their texts nothing is kept."""
    found = walked(reader, run)
    slim: defaultdict[int, list[ScoreRecord]] = defaultdict(list)
    for answer, record in reader.scores(run.id):
        slim[answer].append(replace(record, reason="", details={}))
        if record.label is not None:
            found.labels[record.key][record.label] += 1
        if record.score is not None:
            found.scores[record.key].append(record.score)
        if record.threshold is not None:
            found.thresholds[record.key].add(record.threshold)
    found.points = column_scores(reader.all_rows(run.id), slim, reader.snapshot(run.snapshot)["items"])
    return found
