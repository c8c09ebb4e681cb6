"""What the verdicts of a battle come to: who is preferred, whether that can be chance, and where the judge leans."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

from tui_evals.store.bouts import Bout, Winner

from .measures import LEVEL, Test
from .ratings import Item, Pair
from .statistics import Interval, bootstrap, holm, needed, paired_test, percent
from .verdicts import chance, power

_SHARE: Mapping[Winner, float] = {"left": 0.0, "tie": 0.5, "right": 1.0}


@dataclass(frozen=True, slots=True)
class Match:
    """Two answers to the same turn of an item, and what the judge said of them; None while it was not asked."""

    item: int
    bout: Bout | None = None
    equal: bool = False
    """Both say the same: a tie that nobody need be asked about."""

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
    """Pairs of which the judge gave no verdict."""
    waiting: int
    """Pairs that were not put to the judge yet."""
    test: Test
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
        """Where its true win rate lies."""
        found = self.test.interval
        return found and Interval((1 + found.low) / 2, (1 + found.high) / 2)


@dataclass(frozen=True, slots=True)
class Lean:
    """How much of the verdicts goes to the answer shown first, where a half is fair."""

    items: int
    share: float
    interval: Interval
    p: float

    @property
    def real(self) -> bool:
        """Whether chance hardly makes such a leaning."""
        return self.p < LEVEL


def tally(matches: Sequence[Match]) -> Tally:
    """What two runs made of each other."""
    results = Counter(match.winner for match in matches)
    shares = list(_by_item(matches).values())
    return Tally(
        wins=(results["left"], results["right"]),
        ties=results["tie"],
        split=sum(match.bout.split for match in matches if match.bout and not match.equal),
        equal=sum(match.equal for match in matches),
        undecided=sum(match.bout is not None for match in matches if match.winner is None),
        waiting=sum(match.bout is None for match in matches if not match.equal),
        test=_test(shares),
    )


def corrected(tallies: Sequence[Tally]) -> list[Tally]:
    """The tallies with Holm's correction for how many runs are measured against each other."""
    adjusted = holm([one.test.p for one in tallies])
    return [replace(one, test=replace(one.test, adjusted=p)) for one, p in zip(tallies, adjusted, strict=True)]


def lean(matches: Iterable[Match]) -> Lean | None:
    """How the judge leans to a place, over the pairs it saw in both orders; None without one."""
    found: defaultdict[int, list[float]] = defaultdict(list)
    for match in matches:
        if match.bout is not None and (shown_first := match.bout.shown_first) is not None:
            found[match.item].append(shown_first)
    shares = [fmean(own) for own in found.values()]
    if not shares:
        return None
    return Lean(len(shares), fmean(shares), _interval(shares), paired_test([2 * share - 1 for share in shares]))


def meetings(duels: Mapping[Pair, Sequence[Match]]) -> list[Item]:
    """What every item came to between the runs that met over it, for their ratings."""
    found: defaultdict[int, dict[Pair, float]] = defaultdict(dict)
    for pair, matches in duels.items():
        for item, share in _by_item(matches).items():
            found[item][pair] = share
    return [found[item] for item in sorted(found)]


def sentence(found: Tally, left: str = "A", right: str = "B") -> str:
    """Which run is preferred, and whether that can be chance."""
    test = found.test
    if not found.decided:
        return f"{left} and {right} have no pair of answers with a verdict."
    pairs = f"{found.equal:,} pair{'' if found.equal == 1 else 's'} of answers"
    if found.judged == 0:
        if not found.waiting + found.undecided:
            return f"{left} and {right} say the same in all of {pairs}: there is nothing to choose between."
        return f"There is no verdict on {left} and {right} yet; {pairs} say the same, which makes them ties."
    items = f"{test.items:,} item{'' if test.items == 1 else 's'}"
    so_far = "So far " if found.waiting else ""
    if not test.difference:
        return f"{so_far}{left} and {right} are preferred equally often over {items}: no difference."
    better, worse, share = (right, left, test.after) if test.difference > 0 else (left, right, test.before)
    rate = f"with a win rate of {percent(share)} over {items}"
    return f"{so_far}{better} is preferred to {worse}, {rate}; {chance(test)}.{power(test)}"


def lean_sentence(found: Lean) -> str:
    """Whether it matters to the judge which answer stands first."""
    low, high = percent(found.interval.low), percent(found.interval.high)
    share = f"{percent(found.share)} of the verdicts (95 % interval {low} to {high})"
    if not found.real:
        return f"The answer shown first was preferred in {share}: no leaning to a place is shown."
    place = "first" if found.share > 0.5 else "second"
    return (
        f"The judge leans to the answer shown {place}: the first was preferred in {share}, where 50 % is fair. Asking "
        "in both orders keeps this from favouring a run; verdicts that change with the order are ties and decide "
        "nothing."
    )


def _by_item(matches: Iterable[Match]) -> dict[int, float]:
    """The share of each item that goes to the right run; its turns and repeats are no new proof."""
    found: defaultdict[int, list[float]] = defaultdict(list)
    for match in matches:
        if (winner := match.winner) is not None:
            found[match.item].append(_SHARE[winner])
    return {item: fmean(shares) for item, shares in found.items()}


def _test(shares: Sequence[float]) -> Test:
    differences = [2 * share - 1 for share in shares]
    after = fmean(shares) if shares else 0.5
    p = paired_test(differences)
    found = _interval(shares)
    return Test(
        what="",
        items=len(shares),
        before=1 - after,
        after=after,
        interval=Interval(2 * found.low - 1, 2 * found.high - 1),
        p=p,
        adjusted=p,
        needed=needed(differences) if shares else None,
        direction=1,
    )


def _interval(shares: Sequence[float]) -> Interval:
    """Where the true mean lies: one item more for each side, for without them a few alike would leave no doubt."""
    found = bootstrap([*shares, 0.0, 1.0])
    assert found is not None  # two values always have one
    return found
