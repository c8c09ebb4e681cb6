"""How strong runs are compared with each other: the ratings that make their wins most likely, on the scale of Elo."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from math import exp, inf, log, log1p, sqrt
from statistics import fmean

from tui_evals.compare.verdicts import chance, chance_phrase, power_phrase
from tui_evals.figures import (
    MORE_ITEMS,
    NORMAL_95,
    Interval,
    holm,
    items_needed,
    mean_interval,
    paired_test,
    percent,
    sample_of,
)
from tui_evals.light_records import dataclass
from tui_evals.store.battles import Bout, Winner

from .measures import LEVEL, MeasuredDifference

MEAN = 1000.0
_ELO_PER_UNIT = 400 / log(10)
_TOLERANCE = 1e-10
_MAX_STEPS = 100

Pair = tuple[int, int]
Item = Mapping[Pair, float]
"""The share of the second run, for each pair of runs that met over an item."""
Wins = list[list[float]]
"""How much each run (row) won against each other (column)."""


@dataclass(frozen=True, slots=True)
class Rating:
    """The strength of a run, comparable only with ratings of the same battle."""

    elo: float
    interval: Interval
    """The 95 % confidence interval of the rating; infinite at an unknown end."""


def ratings(items: Sequence[Item], runs: int) -> tuple[Rating, ...]:
    """The rating of every run, 1000 on average, with its interval by item.

    A tie is half a win. Every run has a tie with an average opponent besides, so that one which always wins, or never,
    has a rating at all.
    """
    elos = _elo_ratings(strengths(_sum_wins(items, runs)))
    return tuple(map(Rating, elos, _rating_intervals(items, runs)))


def _rating_intervals(items: Sequence[Item], runs: int) -> Iterable[Interval]:
    """The 95 % intervals: of the share that each run wins from an average opponent, which has ends, as a rating.

    As in every interval three more items are added, here for each two runs that met, half of them won by either.
    """
    met = sorted({pair for item in items for pair in item})
    more: list[tuple[Item, float]] = [({pair: share}, MORE_ITEMS / 2) for pair in met for share in (0.0, 1.0)]
    wins = _sum_wins(items, runs)
    for item, weight in more:
        for (one, other), share in item.items():
            wins[other][one] += weight * share
            wins[one][other] += weight * (1 - share)
    fitted = strengths(wins)
    spread = _no_wins(runs)
    for item, weight in (*((item, 1.0) for item in items), *more):
        pulls = _pulls(item, fitted)
        for one, pull in pulls.items():
            for other, counter in pulls.items():
                spread[one][other] += weight * pull * counter
    count = len(items) + MORE_ITEMS
    curvature = _curvature(_played(wins), fitted)
    middle = fmean(fitted)
    for run in range(runs):
        if not any(run in pair for pair in met):
            yield Interval(-inf, inf)
            continue
        # How far the run leads its opponents, by how much each strength counts in it.
        lead = (fitted[run] - middle) * runs / (runs - 1)
        counts = [1.0 if other == run else -1 / (runs - 1) for other in range(runs)]
        moved = _solve(curvature, counts)
        variance = sum(moved[one] * moved[other] * spread[one][other] for one in range(runs) for other in range(runs))
        share = _win_chance(lead)
        reach = NORMAL_95 * share * (1 - share) * sqrt(variance * count / (count - 1))
        yield Interval(*(_elo_of_share(end, runs) for end in (share - reach, share + reach)))


def _elo_of_share(share: float, runs: int) -> float:
    """The rating of a run that wins this share from an average opponent; without an end where that is none or all."""
    if not 0 < share < 1:
        return inf if share >= 1 else -inf
    return MEAN + _ELO_PER_UNIT * log(share / (1 - share)) * (runs - 1) / runs


def _pulls(item: Item, strengths: Sequence[float]) -> dict[int, float]:
    """How far an item pulls each strength, up for each win that was not expected."""
    pulls: defaultdict[int, float] = defaultdict(float)
    for (one, other), share in item.items():
        surprise = share - _win_chance(strengths[other] - strengths[one])
        pulls[other] += surprise
        pulls[one] -= surprise
    return pulls


def strengths(wins: Wins) -> list[float]:
    """The most likely strengths of Bradley and Terry's model, in natural logarithms, with that tie for each run."""
    runs = len(wins)
    played, current = _played(wins), [0.0] * runs
    value = _likelihood(wins, current)
    for _ in range(_MAX_STEPS):
        step = _newton_step(wins, played, current)
        scale = 1.0
        while (after := _likelihood(wins, moved := _add_step(current, step, scale))) < value and scale > _TOLERANCE:
            scale /= 2
        if after <= value:
            break
        current, value = moved, after
        if max(map(abs, step)) < _TOLERANCE:
            break
    return current


def _likelihood(wins: Wins, strengths: Sequence[float]) -> float:
    """The logarithm of how likely the wins are, including the tie of each run."""
    ties = sum(_log_win_chance(strength) + _log_win_chance(-strength) for strength in strengths) / 2
    return ties + sum(
        won * _log_win_chance(strengths[one] - strengths[other])
        for one, row in enumerate(wins)
        for other, won in enumerate(row)
        if won
    )


def _newton_step(wins: Wins, played: Wins, strengths: Sequence[float]) -> list[float]:
    """Newton's step: the slope divided by the curvature."""
    slope = [
        0.5
        - _win_chance(strength)
        + sum(
            wins[one][other] - games * _win_chance(strength - strengths[other])
            for other, games in enumerate(played[one])
            if games
        )
        for one, strength in enumerate(strengths)
    ]
    return _solve(_curvature(played, strengths), slope)


def _curvature(played: Wins, strengths: Sequence[float]) -> Wins:
    """How much the likelihood bends at these strengths."""
    curvature = []
    for one, strength in enumerate(strengths):
        tie, bend = _win_chance(strength), [0.0] * len(strengths)
        bend[one] = tie * (1 - tie)
        for other, games in enumerate(played[one]):
            if games:
                chance = _win_chance(strength - strengths[other])
                bend[other] -= games * chance * (1 - chance)
                bend[one] += games * chance * (1 - chance)
        curvature.append(bend)
    return curvature


def _played(wins: Wins) -> Wins:
    """How often each two runs met."""
    return [[wins[one][other] + wins[other][one] for other in range(len(wins))] for one in range(len(wins))]


def _solve(matrix: Wins, right: Sequence[float]) -> list[float]:
    """The solution of linear equations whose matrix is symmetric with a heavy diagonal, so that no row need move."""
    rows = [[*row, value] for row, value in zip(matrix, right, strict=True)]
    for at, pivot in enumerate(rows):
        for row in rows[at + 1 :]:
            share = row[at] / pivot[at]
            for column in range(at, len(pivot)):
                row[column] -= share * pivot[column]
    solution = [0.0] * len(rows)
    for at in range(len(rows) - 1, -1, -1):
        known = sum(rows[at][column] * solution[column] for column in range(at + 1, len(rows)))
        solution[at] = (rows[at][-1] - known) / rows[at][at]
    return solution


def _sum_wins(items: Iterable[Item], runs: int) -> Wins:
    wins = _no_wins(runs)
    for item in items:
        for (one, other), share in item.items():
            wins[other][one] += share
            wins[one][other] += 1 - share
    return wins


def _no_wins(runs: int) -> Wins:
    return [[0.0] * runs for _ in range(runs)]


def _elo_ratings(strengths: Sequence[float]) -> list[float]:
    middle = fmean(strengths)
    return [MEAN + _ELO_PER_UNIT * (strength - middle) for strength in strengths]


def _add_step(strengths: Sequence[float], step: Sequence[float], scale: float) -> list[float]:
    return [strength + scale * change for strength, change in zip(strengths, step, strict=True)]


def _win_chance(lead: float) -> float:
    """How likely a run with this lead wins."""
    return 1 / (1 + exp(-lead)) if lead >= 0 else exp(lead) / (1 + exp(lead))


def _log_win_chance(lead: float) -> float:
    return -log1p(exp(-lead)) if lead >= 0 else lead - log1p(exp(lead))


_SHARE: Mapping[Winner, float] = {"left": 0.0, "tie": 0.5, "right": 1.0}


@dataclass(frozen=True, slots=True)
class Match:
    """Two answers to the same turn of an item, and the verdict of the judge; None while it was not asked."""

    item: int
    bout: Bout | None = None
    equal: bool = False
    """Both answers are the same: a tie without asking the judge."""

    @property
    def winner(self) -> Winner | None:
        """The better answer; None without a verdict."""
        return "tie" if self.equal else self.bout.winner if self.bout else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """Two runs, counted by pairs of answers and measured by items."""

    wins: tuple[int, int]
    """How many pairs the left and the right run won."""
    ties: int
    split: int
    """Ties because the verdict changed with the order."""
    equal: int
    """Ties because both answers are the same."""
    undecided: int
    """Pairs without a verdict of the judge."""
    waiting: int
    """Pairs that were not put to the judge yet."""
    test: MeasuredDifference
    """The share that goes to the left run and to the right one, a tie half to each."""

    @property
    def decided(self) -> int:
        """How many pairs have a result."""
        return sum(self.wins) + self.ties

    @property
    def judged(self) -> int:
        """How many of them a judge decided."""
        return self.decided - self.equal

    @property
    def share(self) -> float | None:
        """The win rate of the right run; None without a result."""
        return self.test.after if self.decided else None

    @property
    def interval(self) -> Interval | None:
        """The confidence interval of the win rate."""
        interval = self.test.interval
        return interval and Interval((1 + interval.low) / 2, (1 + interval.high) / 2)


@dataclass(frozen=True, slots=True)
class PositionLean:
    """The share of verdicts that goes to the answer shown first; a half is fair."""

    items: int
    share: float
    interval: Interval
    p: float

    @property
    def real(self) -> bool:
        """Whether chance alone hardly ever gives such a share."""
        return self.p < LEVEL


def tally_matches(matches: Sequence[Match]) -> Tally:
    """Count the matches of two runs."""
    results = Counter(match.winner for match in matches)
    shares = list(_right_shares(matches).values())
    return Tally(
        wins=(results["left"], results["right"]),
        ties=results["tie"],
        split=sum(match.bout.split for match in matches if match.bout and not match.equal),
        equal=sum(match.equal for match in matches),
        undecided=sum(match.bout is not None for match in matches if match.winner is None),
        waiting=sum(match.bout is None for match in matches if not match.equal),
        test=_share_difference(shares),
    )


def correct_tallies(tallies: Sequence[Tally]) -> list[Tally]:
    """The tallies with Holm's correction for how many runs are measured against each other."""
    adjusted = holm([one.test.p for one in tallies])
    return [replace(one, test=replace(one.test, adjusted=p)) for one, p in zip(tallies, adjusted, strict=True)]


def position_lean(matches: Iterable[Match]) -> PositionLean | None:
    """Whether the judge prefers the answer shown first, over the pairs it saw in both orders; None without one."""
    by_item: defaultdict[int, list[float]] = defaultdict(list)
    for match in matches:
        if match.bout is not None and (shown_first := match.bout.shown_first) is not None:
            by_item[match.item].append(shown_first)
    shares = [fmean(values) for values in by_item.values()]
    if not shares:
        return None
    return PositionLean(
        len(shares), fmean(shares), _share_interval(shares), paired_test([2 * share - 1 for share in shares])
    )


def shares_by_item(duels: Mapping[Pair, Sequence[Match]]) -> list[Item]:
    """For each item, the shares of the runs that met over it; the ratings are computed from these."""
    by_item: defaultdict[int, dict[Pair, float]] = defaultdict(dict)
    for pair, matches in duels.items():
        for item, share in _right_shares(matches).items():
            by_item[item][pair] = share
    return [by_item[item] for item in sorted(by_item)]


def battle_sentence(tally: Tally, left: str = "A", right: str = "B") -> str:
    """Which run is preferred, and whether that can be chance."""
    test = tally.test
    if not tally.decided:
        return f"{left} and {right} have no pair of answers with a verdict."
    pairs = f"{tally.equal:,} pair{'' if tally.equal == 1 else 's'} of answers"
    if tally.judged == 0:
        if not tally.waiting + tally.undecided:
            return f"{left} and {right} say the same in all of {pairs}: there is nothing to choose between."
        return f"There is no verdict on {left} and {right} yet; {pairs} say the same, which makes them ties."
    items = f"{test.items:,} item{'' if test.items == 1 else 's'}"
    so_far = "So far " if tally.waiting else ""
    if not test.difference:
        return f"{so_far}{left} and {right} are preferred equally often over {items}: no difference."
    better, worse, share = (right, left, test.after) if test.difference > 0 else (left, right, test.before)
    rate = f"with a win rate of {percent(share)} over {items}"
    joint = " " if test.shown else ": "
    return f"{so_far}{better} is preferred to {worse}, {rate}{joint}{chance_phrase(test)}{power_phrase(test)}."


def lean_sentence(lean: PositionLean) -> str:
    """Whether it matters to the judge which answer is first."""
    low, high = percent(lean.interval.low), percent(lean.interval.high)
    share = f"{percent(lean.share)} of the verdicts (95 % interval {low} to {high})"
    if not lean.real:
        return f"The answer shown first was preferred in {share}, which could be chance (p = {chance(lean.p)})."
    place = "first" if lean.share > 0.5 else "second"
    return (
        f"The judge leans to the answer shown {place}: the first was preferred in {share}, where 50 % is fair. Asking "
        "in both orders keeps this from favoring a run; verdicts that change with the order are ties and decide "
        "nothing."
    )


def _right_shares(matches: Iterable[Match]) -> dict[int, float]:
    """The share of each item that goes to the right run; its turns and repeats are no independent proof."""
    by_item: defaultdict[int, list[float]] = defaultdict(list)
    for match in matches:
        if (winner := match.winner) is not None:
            by_item[match.item].append(_SHARE[winner])
    return {item: fmean(shares) for item, shares in by_item.items()}


def _share_difference(shares: Sequence[float]) -> MeasuredDifference:
    differences = [2 * share - 1 for share in shares]
    after = fmean(shares) if shares else 0.5
    p = paired_test(differences)
    interval = _share_interval(shares)
    return MeasuredDifference(
        what="",
        items=len(shares),
        before=1 - after,
        after=after,
        interval=Interval(2 * interval.low - 1, 2 * interval.high - 1),
        p=p,
        adjusted=p,
        needed=items_needed(differences) if shares else None,
        direction=1,
    )


def _share_interval(shares: Sequence[float]) -> Interval:
    """The confidence interval of the mean share of items."""
    interval, _ = mean_interval(sample_of((1, share) for share in shares), (0.0, 1.0))
    return interval or Interval(0.0, 1.0)
