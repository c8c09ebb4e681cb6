"""Numbers, times and statuses in the words of the page."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from statistics import median
from typing import Any

from tui_evals.compare.sides import column_name
from tui_evals.compare.statistics import percent, wilson
from tui_evals.reports.plots import Meter, meter
from tui_evals.runs.scoring import column_scores
from tui_evals.store.reader import Reader
from tui_evals.store.records import RunRow, ScoreRecord

GLYPHS: Mapping[str, str] = {
    "pass": "✓",
    "fail": "✗",
    "partial": "◐",
    "error": "!",
    "answered": "…",
    "running": "▸",
    "pending": "·",
}
KIND_GLYPHS: Mapping[str, str] = {
    "broken": "▼",
    "fixed": "▲",
    "changed": "≠",
    "same": "=",
    "gone": "−",
    "new": "+",
    "not comparable": "?",
}
FINAL = ("pass", "fail", "partial", "error")
_PREVIEW = 160
_INLINE = 72


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
    found = wilson(passed, judged)
    if found is None:
        return Share(passed, judged, "n/a", "", None)
    share = passed / judged
    interval = f"{100 * found.low:.1f} to {100 * found.high:.1f} %"
    return Share(passed, judged, percent(share), interval, meter(share, found.low, found.high))


def duration(seconds: float) -> str:
    """A span of time in its two largest units."""
    if seconds < 0.9995:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours < 48 else f"{hours // 24} days"


def number(value: float | None) -> str:
    """A score with at most two decimals; empty for none."""
    if value is None:
        return ""
    text = f"{value:.2f}" if abs(value) < 10 else f"{value:.1f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def signed(value: float, decimals: int = 2) -> str:
    """A difference, always with its sign."""
    text = f"{value:+.{decimals}f}"
    return text.replace("-", "−") if float(text) else f"{0:.{decimals}f}"


def when(time: float | None) -> str:
    """A moment, the same wherever the page is read."""
    return "" if time is None else f"{datetime.fromtimestamp(time, UTC):%-d %b %Y, %H:%M} UTC"


def counted(count: int, one: str, several: str = "") -> str:
    """A number of things."""
    return f"{count:,} {one}" if count == 1 else f"{count:,} {several or one + 's'}"


def pretty(value: object) -> str:
    """A value as JSON a person can read: on one line where it is short."""
    line = json.dumps(value, ensure_ascii=False)
    return line if len(line) <= _INLINE else json.dumps(value, ensure_ascii=False, indent=2)


def preview(text: str) -> str:
    """The beginning of a text in one line."""
    head = " ".join(text[: 2 * _PREVIEW].split())
    return head if len(head) <= _PREVIEW and len(text) <= 2 * _PREVIEW else head[:_PREVIEW].rstrip() + "…"


def targets_of(run: RunRow) -> tuple[str, ...]:
    """The targets of a run, each with its model where that is called otherwise."""
    kept = run.config.get("targets")
    models = [_model(one) for one in kept] if isinstance(kept, list) and len(kept) == len(run.targets) else ()
    return tuple(_named(name, model) for name, model in zip(run.targets, models or run.targets, strict=True))


def judge_of(run: RunRow) -> str:
    """Who judges, in a word or two."""
    kept = run.config.get("judge")
    if isinstance(kept, dict):
        return _named(str(kept.get("name") or ""), _model(kept))
    return "left out" if run.config.get("without_judges") else "none named"


def columns_of(run: RunRow) -> dict[tuple[int, int], str]:
    """What each prompt and target is called."""
    places = ((prompt, target) for prompt in range(len(run.prompts)) for target in range(len(run.targets)))
    return {place: column_name(run, *place) for place in places}


def _model(kept: Any) -> str:
    return str(kept.get("model") or "") if isinstance(kept, dict) else ""


def _named(name: str, model: str) -> str:
    return f"{name} ({model})" if model and model != name else name


Key = tuple[int, int]
"""A prompt and a target, by position."""


@dataclass(slots=True)
class RunWalk:
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


def walked(reader: Reader, run: RunRow) -> RunWalk:
    """What the answers of a run tell as lists show them."""
    found = RunWalk()
    numbers = set()
    for row in reader.all_rows(run.id):
        numbers.add(row.item)
        found.categories[row.category] += 1
        found.cached += row.from_cache
        if row.latency_ms is not None and not row.from_cache:
            found.latencies[row.prompt, row.target].append(row.latency_ms)
    found.items = len(numbers)
    return found


def seen(reader: Reader, run: RunRow) -> RunWalk:
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
