"""How strong runs are beside each other: the ratings that make their wins most likely, on the scale of Elo."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import exp, log, log1p
from random import Random
from statistics import fmean, quantiles

from .statistics import Interval

MEAN = 1000.0
_SCALE = 400 / log(10)
_RESAMPLES = 500
_MOST = 1_000  # items that are drawn one by one; more are drawn in as many groups
_CLOSE = 1e-10
_STEPS = 100

Pair = tuple[int, int]
Item = Mapping[Pair, float]
"""For each two runs that met over an item, by their numbers, the share that went to the second of them."""
Wins = list[list[float]]
"""How much each run (row) won against each other (column)."""


@dataclass(frozen=True, slots=True)
class Rating:
    """How strong a run is; it says something beside the ratings of the same battle only."""

    elo: float
    interval: Interval
    """Where the rating lies with 95 % confidence."""


def ratings(items: Sequence[Item], runs: int, seed: int = 0) -> tuple[Rating, ...]:
    """The rating of every run, 1000 on average; the intervals come from items drawn again, not single bouts.

    A tie is half a win. Every run has a tie with an average opponent besides, so that one which always wins, or never,
    has a rating at all.
    """
    best = strengths(_sum(items, runs))
    columns = list(zip(*(_elo(one) for one in _resampled(items, runs, best, Random(seed))), strict=True))
    return tuple(Rating(elo, _middle(column)) for elo, column in zip(_elo(best), columns, strict=True))


def strengths(wins: Wins, start: Sequence[float] = ()) -> list[float]:
    """The most likely strengths of Bradley and Terry's model, in natural logarithms, with that tie for each run."""
    runs = len(wins)
    played = [[wins[one][other] + wins[other][one] for other in range(runs)] for one in range(runs)]
    found = list(start) or [0.0] * runs
    value = _likelihood(wins, found)
    for _ in range(_STEPS):
        step = _step(wins, played, found)
        scale = 1.0
        while (after := _likelihood(wins, moved := _moved(found, step, scale))) < value and scale > _CLOSE:
            scale /= 2
        if after <= value:
            break
        found, value = moved, after
        if max(map(abs, step)) < _CLOSE:
            break
    return found


def _likelihood(wins: Wins, found: Sequence[float]) -> float:
    """The logarithm of how likely the wins are; the tie of each run included."""
    own = sum(_log_chance(strength) + _log_chance(-strength) for strength in found) / 2
    return own + sum(
        won * _log_chance(found[one] - found[other])
        for one, row in enumerate(wins)
        for other, won in enumerate(row)
        if won
    )


def _step(wins: Wins, played: Wins, found: Sequence[float]) -> list[float]:
    """Newton's step: the slope divided by the curvature."""
    slope, curvature = [], []
    for one, strength in enumerate(found):
        tie = _chance(strength)
        rise, bend = 0.5 - tie, [0.0] * len(found)
        bend[one] = tie * (1 - tie)
        for other, games in enumerate(played[one]):
            if games:
                chance = _chance(strength - found[other])
                rise += wins[one][other] - games * chance
                bend[other] -= games * chance * (1 - chance)
                bend[one] += games * chance * (1 - chance)
        slope.append(rise)
        curvature.append(bend)
    return _solved(curvature, slope)


def _solved(matrix: Wins, right: Sequence[float]) -> list[float]:
    """The solution of linear equations whose matrix is symmetric with a heavy diagonal, so that no row need move."""
    rows = [[*row, value] for row, value in zip(matrix, right, strict=True)]
    for at, pivot in enumerate(rows):
        for row in rows[at + 1 :]:
            share = row[at] / pivot[at]
            for column in range(at, len(pivot)):
                row[column] -= share * pivot[column]
    found = [0.0] * len(rows)
    for at in range(len(rows) - 1, -1, -1):
        known = sum(rows[at][column] * found[column] for column in range(at + 1, len(rows)))
        found[at] = (rows[at][-1] - known) / rows[at][at]
    return found


def _resampled(items: Sequence[Item], runs: int, start: Sequence[float], random: Random) -> Iterable[list[float]]:
    """The strengths for items drawn again and again.

    For each two runs one more item won and one more lost can be drawn; else a run that always wins would be certain to.
    """
    drawable = [_sum([item], runs) for item in items]
    if len(drawable) > _MOST:
        random.shuffle(drawable)
        drawable = [_added(drawable[at::_MOST], runs) for at in range(_MOST)]
    met = sorted({pair for item in items for pair in item})
    drawable += [_sum([{pair: share}], runs) for pair in met for share in (0.0, 1.0)]
    cells = [(one, other) for pair in met for one, other in (pair, pair[::-1])]
    columns = {(one, other): [wins[one][other] for wins in drawable] for one, other in cells}
    for _ in range(_RESAMPLES):
        drawn = random.choices(range(len(drawable)), k=len(drawable))
        wins = _none(runs)
        for (one, other), column in columns.items():
            wins[one][other] = sum(map(column.__getitem__, drawn))
        yield strengths(wins, start)


def _sum(items: Iterable[Item], runs: int) -> Wins:
    wins = _none(runs)
    for item in items:
        for (one, other), share in item.items():
            wins[other][one] += share
            wins[one][other] += 1 - share
    return wins


def _added(parts: Sequence[Wins], runs: int) -> Wins:
    return [[sum(part[one][other] for part in parts) for other in range(runs)] for one in range(runs)]


def _none(runs: int) -> Wins:
    return [[0.0] * runs for _ in range(runs)]


def _elo(found: Sequence[float]) -> list[float]:
    middle = fmean(found)
    return [MEAN + _SCALE * (strength - middle) for strength in found]


def _middle(values: Sequence[float]) -> Interval:
    """Where 95 of 100 values lie."""
    cuts = quantiles(values, n=40, method="inclusive")
    return Interval(cuts[0], cuts[-1])


def _moved(found: Sequence[float], step: Sequence[float], scale: float) -> list[float]:
    return [strength + scale * change for strength, change in zip(found, step, strict=True)]


def _chance(lead: float) -> float:
    """How likely a run with this lead wins."""
    return 1 / (1 + exp(-lead)) if lead >= 0 else exp(lead) / (1 + exp(lead))


def _log_chance(lead: float) -> float:
    return -log1p(exp(-lead)) if lead >= 0 else lead - log1p(exp(lead))
