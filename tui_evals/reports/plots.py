"""Plots as plain geometry, which the page draws: nothing here knows of markup."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from math import sqrt

from tui_evals.figures import BINS, histograms
from tui_evals.light_records import dataclass

METER = 120
WIDTH, HEIGHT = 220, 44
STEPS_WIDTH, STEPS_HEIGHT = 320, 110
SCATTER = 240
_LEVELS = 8
_RADIUS, _LARGEST = 2.5, 9.0


@dataclass(frozen=True, slots=True)
class Meter:
    """A share as a bar, with its interval as a line over it."""

    share: float
    low: float
    high: float
    width: int = METER


@dataclass(frozen=True, slots=True)
class Box:
    """A rectangle with its title."""

    x: float
    y: float
    width: float
    height: float
    title: str


@dataclass(frozen=True, slots=True)
class Histogram:
    """How the scores of one evaluator spread over 20 bins."""

    bars: tuple[Box, ...]
    low: str
    high: str
    threshold: float | None
    """The position of the threshold, if it is the same for all scores."""
    title: str
    width: int = WIDTH
    height: int = HEIGHT


@dataclass(frozen=True, slots=True)
class Level:
    """One of the words a categorical evaluator chose, and how often."""

    name: str
    count: int
    meter: Meter


@dataclass(frozen=True, slots=True)
class Steps:
    """The distribution of several runs' scores, as one stepped line each."""

    lines: tuple[str, ...]
    low: str
    high: str
    top: str
    title: str
    width: int = STEPS_WIDTH
    height: int = STEPS_HEIGHT


@dataclass(frozen=True, slots=True)
class Dot:
    """So many items with the same two scores."""

    x: float
    y: float
    radius: float
    side: str
    title: str


@dataclass(frozen=True, slots=True)
class Scatter:
    """The score of every item in one run against that in another; above the diagonal it got better."""

    dots: tuple[Dot, ...]
    better: int
    worse: int
    equal: int
    size: int = SCATTER


@dataclass(frozen=True, slots=True)
class BarPart:
    """A stretch of a stacked bar."""

    name: str
    count: int
    x: float
    width: float


def meter(share: float, low: float, high: float) -> Meter:
    """A share and its interval in a bar's own measure."""
    share, low, high = (round(METER * value, 1) for value in (share, low, high))
    return Meter(share, low, high)


def histogram(values: Sequence[float], thresholds: Sequence[float] = ()) -> Histogram | None:
    """The bars of a distribution; None without values."""
    if not values:
        return None
    binned = histograms([values])
    (counts,), edges = binned.counts, binned.edges
    top, step = max(counts), WIDTH / BINS
    bars = []
    for place, count in enumerate(counts):
        # Even a single value must be visible.
        height = round(max(HEIGHT * count / top, 1.5), 1) if count else 0.0
        title = f"{_edge_text(edges[place])} to {_edge_text(edges[place + 1])}: {count:,}"
        if count:
            bars.append(Box(round(place * step + 0.5, 1), round(HEIGHT - height, 1), step - 1, height, title))
    low, high = edges[0], edges[-1]
    held = set(thresholds)
    mark = round(WIDTH * (held.pop() - low) / (high - low), 1) if len(held) == 1 else None
    inside = mark if mark is not None and 0 <= mark <= WIDTH else None
    title = f"Distribution of {len(values):,} scores from {_edge_text(low)} to {_edge_text(high)}"
    return Histogram(tuple(bars), _edge_text(low), _edge_text(high), inside, title)


def levels(counts: Mapping[str, int]) -> tuple[Level, ...]:
    """A bar for each word, the frequent first; beyond a handful the rest are taken together."""
    ordered = sorted(counts.items(), key=lambda entry: (-entry[1], entry[0]))
    shown = ordered if len(ordered) <= _LEVELS else ordered[: _LEVELS - 1]
    if len(shown) < len(ordered):
        shown = [*shown, ("others", sum(count for _, count in ordered[_LEVELS - 1 :]))]
    total = sum(counts.values())
    return tuple(Level(name, count, meter(count / total, 0.0, 0.0)) for name, count in shown) if total else ()


def steps(runs: Sequence[Sequence[float]]) -> Steps | None:
    """Distributions over the same bins, in percent of each run's scores; None without scores."""
    if not any(runs):
        return None
    binned = histograms(runs)
    shares = [[count / max(sum(own), 1) for count in own] for own in binned.counts]
    top = max(share for own in shares for share in own)
    lines = []
    for own in shares:
        points = ["0," + _step_height(0.0, top)]
        for place, share in enumerate(own):
            left, right = STEPS_WIDTH * place / BINS, STEPS_WIDTH * (place + 1) / BINS
            points += [f"{left:g},{_step_height(share, top)}", f"{right:g},{_step_height(share, top)}"]
        lines.append(" ".join([*points, f"{STEPS_WIDTH},{_step_height(0.0, top)}"]))
    low, high = _edge_text(binned.edges[0]), _edge_text(binned.edges[-1])
    return Steps(tuple(lines), low, high, f"{100 * top:.0f} %", f"Share of scores in 20 bins from {low} to {high}")


def scatter(pairs: Sequence[tuple[float, float]], before: str, after: str) -> Scatter | None:
    """Item scores from 0 to 100, equal pairs as one larger dot; None without a pair."""
    if not pairs:
        return None
    spots = Counter((round(first, 1), round(second, 1)) for first, second in pairs)
    most = max(spots.values())
    dots = [
        Dot(
            round(SCATTER * first / 100, 1),
            round(SCATTER * (1 - second / 100), 1),
            round(_RADIUS + (_LARGEST - _RADIUS) * sqrt((count - 1) / max(most - 1, 1)), 1),
            _better_side(first, second),
            f"{before} {first:g}, {after} {second:g}: {count:,} item" + ("" if count == 1 else "s"),
        )
        for (first, second), count in sorted(spots.items(), key=lambda entry: -entry[1])
    ]
    sides = Counter(_better_side(first, second) for first, second in pairs)
    return Scatter(tuple(dots), sides["better"], sides["worse"], sides["equal"])


def stacked(counts: Mapping[str, int], width: float = 1000.0) -> tuple[BarPart, ...]:
    """The parts of a whole side by side, without empty ones."""
    total, at, parts = sum(counts.values()), 0.0, []
    for name, count in counts.items():
        if count:
            size = width * count / total
            parts.append(BarPart(name, count, round(at, 1), round(size, 1)))
            at += size
    return tuple(parts)


def _better_side(first: float, second: float) -> str:
    return "better" if second > first else "worse" if second < first else "equal"


def _step_height(share: float, top: float) -> str:
    return f"{STEPS_HEIGHT - (STEPS_HEIGHT - 2) * share / top:.1f}"


def _edge_text(value: float) -> str:
    return f"{value:.3g}"
