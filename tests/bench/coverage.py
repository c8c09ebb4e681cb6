"""How often 95 % intervals hold the true value: `python -m tests.bench.coverage [--rounds 400] [--seed 1] [NAME…]`.

Runs are drawn whose true rate, mean or difference is known, and the functions of the product make their intervals.
A cell is one choice of everything that can be chosen: how many items, how often each is asked, how alike the answers
to one item are (0 not at all, 1 all the same), and the true rate. Where all answers to an item are the same, rates are
counted exactly. Without names all tables are printed; those that hold no limit say so.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from itertools import product
from math import exp, log, sqrt
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import special, stats

from tui_evals import figures
from tui_evals.compare.battles import MEAN, ratings
from tui_evals.compare.labels import Agreement
from tui_evals.figures import Sample, mean_interval, rate_interval

Array = NDArray[np.float64]
Ends = tuple[Array, Array]

WORST, LEAST, MOST = 0.91, 0.93, 0.985
"""What every cell has to hold, and between what the mean of all cells has to be."""

ITEMS = (5, 10, 20, 50, 100, 200, 500)
ITEMS_OF_RATES = (5, 6, 7, 8, 10, 12, 20, 50, 100, 200, 500)
REPEATS = (1, 2, 5, 10, 50)
ALIKE = (0.0, 0.3, 0.7, 1.0)
RATES = (0.02, 0.1, 0.33, 0.5, 0.65, 0.9, 0.98)
_Z = 1.959963984540054
_GRID = (np.arange(20_000) + 0.5) / 20_000
_CLOSE = 1e-9


class Cell(NamedTuple):
    """One choice of everything, and what a method came to there."""

    name: str
    items: int
    repeats: int
    alike: float
    covered: float
    width: float


class Drawn(NamedTuple):
    """Runs of one cell: for each run and item the sum of its answers, between 0 and 1 each, and how often it counts."""

    name: str
    items: int
    repeats: int
    alike: float
    sums: Array
    truth: float
    weights: Array | None = None
    """How likely each run is, where all that can be are there; None where they were drawn."""
    uneven: Array | None = None
    """How many answers each item has, where they have not all as many."""

    @property
    def sizes(self) -> Array:
        """How many answers each item has."""
        return np.full(self.items, float(self.repeats)) if self.uneven is None else self.uneven

    @property
    def shares(self) -> Array:
        """The mean of each item."""
        return self.sums / self.repeats


Method = Callable[[Drawn], Ends]


class Table(NamedTuple):
    """Methods over the cells of one kind of figure; the last is ours."""

    name: str
    about: str
    cells: Callable[[int, np.random.Generator], Iterator[Drawn]]
    methods: dict[str, Method]
    limited: bool = True
    """Whether ours has to hold the limits there."""


def measure(table: Table, rounds: int, seed: int) -> dict[str, list[Cell]]:
    """The cells of each method."""
    found: dict[str, list[Cell]] = {name: [] for name in table.methods}
    for drawn in table.cells(rounds, np.random.default_rng(seed)):
        for name, method in table.methods.items():
            low, high = method(drawn)
            held = (low <= drawn.truth + _CLOSE) & (high >= drawn.truth - _CLOSE)
            covered, width = (float(np.average(one, weights=drawn.weights)) for one in (held, high - low))
            found[name].append(Cell(drawn.name, drawn.items, drawn.repeats, drawn.alike, covered, width))
    return found


# -- runs that are drawn


def _rates(rounds: int, rng: np.random.Generator) -> Iterator[Drawn]:
    for items, repeats, alike, rate in product(ITEMS_OF_RATES, REPEATS, ALIKE, RATES):
        if repeats == 1 and alike:
            continue
        if repeats == 1 or alike == 1:
            passed = np.arange(items + 1)
            sums = repeats * (np.arange(items)[None, :] < passed[:, None]).astype(float)
            yield Drawn(f"{rate:g}", items, repeats, alike, sums, rate, stats.binom.pmf(passed, items, rate))
        else:
            sums = rng.binomial(repeats, _chances(rng, rate, alike, (rounds, items))).astype(float)
            yield Drawn(f"{rate:g}", items, repeats, alike, sums, rate)


def _uneven_rates(rounds: int, rng: np.random.Generator) -> Iterator[Drawn]:
    """Conversations of some turns beside items of one: half of the items have several answers, or a single one has.

    A single item that has most of all answers is not among them: there 88 to 91 % are held.
    """
    for items, (repeats, single), alike, rate in product(ITEMS, ((5, True), (5, False), (20, False)), ALIKE, RATES):
        sizes = np.ones(items)
        sizes[: 1 if single else items // 2] = repeats
        chances = _chances(rng, rate, alike, (rounds, items)) if alike < 1 else rng.random((rounds, items)) < rate
        sums = rng.binomial(sizes.astype(int), chances).astype(float)
        name = f"{rate:g}, {'one item' if single else 'half'} of {repeats} turns"
        yield Drawn(name, items, repeats, alike, sums, rate, uneven=sizes)


def _chances(rng: np.random.Generator, rate: float, alike: float, shape: tuple[int, int]) -> Array:
    """How likely each item passes."""
    if not alike:
        return np.full(shape, rate)
    return rng.beta(rate * (1 - alike) / alike, (1 - rate) * (1 - alike) / alike, shape)


@cache
def _shapes() -> dict[str, Array]:
    """Scores between 0 and 1 by their quantiles: continuous ones, a scale of five, and good ones that rarely fail."""
    found = {}
    for mean in RATES:
        for weight, word in ((1.0, "spread"), (5.0, "close")):
            found[f"{word} {mean:g}"] = stats.beta.ppf(_GRID, mean * weight, (1 - mean) * weight)
        chances = stats.betabinom.pmf(np.arange(5), 4, 2 * mean, 2 * (1 - mean))
        found[f"1 to 5 {mean:g}"] = np.searchsorted(np.cumsum(chances), _GRID * (1 - 1e-9)).clip(0, 4) / 4
        good = 0.9 + 0.05 / 3 * stats.norm.ppf(np.clip((_GRID - 1 + mean) / mean, 1e-3, 1 - 1e-3))
        found[f"0 or about 0.9, {mean:g}"] = np.where(mean + _GRID < 1, 0.0, good)
    return found


_UNBOUNDED = {"normal": stats.norm.ppf(_GRID), "like times": np.exp(0.5 * stats.norm.ppf(_GRID))}
_SKEWED = {"lognormal": np.exp(stats.norm.ppf(_GRID))}


def _means(
    shapes: Callable[[], dict[str, Array]], rounds: int, rng: np.random.Generator, repeats: Sequence[int] = (1, 5)
) -> Iterator[Drawn]:
    for (name, quantiles), items, often, alike in product(shapes().items(), ITEMS, repeats, ALIKE):
        if often == 1 and alike:
            continue
        own, shared = rng.standard_normal((rounds, items, often)), rng.standard_normal((rounds, items, 1))
        at = special.ndtr(sqrt(alike) * shared + sqrt(1 - alike) * own) * len(_GRID)
        values = quantiles[at.astype(int).clip(0, len(_GRID) - 1)]
        yield Drawn(name, items, often, alike, values.sum(2), float(quantiles.mean()))


def _differences(rounds: int, rng: np.random.Generator) -> Iterator[Drawn]:
    yield from _rate_differences(rounds, rng)
    yield from _score_differences(rounds, rng)


def _rate_differences(rounds: int, rng: np.random.Generator) -> Iterator[Drawn]:
    """Two rates, of items that are as hard for both runs or of which each run finds others hard."""
    for items, (repeats, alike), rate, more in product(
        ITEMS, ((1, 0.0), (1, 0.3), (1, 0.7), (1, 1.0), (5, 0.0), (5, 0.7)), (0.02, 0.1, 0.5, 0.9, 0.98), (0, 0.05, 0.4)
    ):
        later = round(rate + more if rate < 0.6 else rate - more, 9)
        if more == 0 and alike == 1:
            continue
        for same in (True, False) if alike else (True,):
            hard = rng.random((2, rounds, items))
            hard[1] = hard[0] if same else hard[1]
            first, last = (
                _passed(rng, repeats, _by_hardness(own, one, alike))
                for own, one in zip((rate, later), hard, strict=True)
            )
            name = f"{rate:g} to {later:g}, {'alike' if same else 'unlike'}"
            yield Drawn(name, items, repeats, alike, last - first, later - rate)


def _passed(rng: np.random.Generator, repeats: int, chances: Array) -> Array:
    """How many of so many repeats pass; one draw each is quicker than the library's."""
    return sum((rng.random(chances.shape) < chances for _ in range(repeats)), np.zeros(chances.shape))


def _by_hardness(rate: float, hard: Array, alike: float) -> Array:
    """How likely items pass that are so hard, from 0 to 1."""
    if not alike:
        return np.full(hard.shape, rate)
    if alike == 1:
        return (hard < rate).astype(float)
    return _passing(rate, alike)[(hard * 2_000).astype(int)]


@cache
def _passing(rate: float, alike: float) -> Array:
    spread = (1 - alike) / alike
    chances = special.betaincinv(rate * spread, (1 - rate) * spread, 1 - (np.arange(2_000) + 0.5) / 2_000)
    return np.asarray(chances * rate / chances.mean()).clip(0, 1)


def _score_differences(rounds: int, rng: np.random.Generator) -> Iterator[Drawn]:
    """Two runs with the same spread of scores, or with one a step from it, over the same items."""
    names = list(_shapes())
    for place, items, alike in product(range(len(names)), ITEMS, (0.0, 0.7)):
        other = names[place + 4] if place + 4 < len(names) and place % 8 < 4 else names[place]
        first, later = _shapes()[names[place]], _shapes()[other]
        shared, own = rng.standard_normal((rounds, items)), rng.standard_normal((2, rounds, items))
        at = (
            (special.ndtr(sqrt(alike) * shared + sqrt(1 - alike) * own) * len(_GRID))
            .astype(int)
            .clip(0, len(_GRID) - 1)
        )
        name = names[place] if other == names[place] else f"{names[place]} to {other.split()[-1]}"
        yield Drawn(name, items, 1, alike, later[at[1]] - first[at[0]], float(later.mean() - first.mean()))


# -- methods


def _wilson(share: Array, size: Array | float) -> Ends:
    shrink = 1 + _Z * _Z / size
    middle = (share + _Z * _Z / (2 * size)) / shrink
    half = _Z / shrink * np.sqrt(share * (1 - share) / size + _Z * _Z / (4 * size * size))
    return middle - half, middle + half


def _wilson_all(drawn: Drawn) -> Ends:
    return _wilson(drawn.sums.sum(1) / drawn.sizes.sum(), float(drawn.sizes.sum()))


def _effective(drawn: Drawn) -> Array:
    """How many answers to as many items would tell as much; as many as there are items where all agree."""
    share = drawn.shares.mean(1)
    variance = drawn.shares.var(1, ddof=1) / drawn.items
    size = np.divide(share * (1 - share), variance, out=np.full(len(share), float(drawn.items)), where=variance > 0)
    return np.minimum(size, drawn.items * drawn.repeats)


def _wilson_effective(drawn: Drawn) -> Ends:
    return _wilson(drawn.shares.mean(1), _effective(drawn))


def _clopper_pearson(drawn: Drawn) -> Ends:
    size, share = _effective(drawn), drawn.shares.mean(1)
    passed, failed = share * size, (1 - share) * size
    low = np.where(passed < 1e-9, 0.0, special.betaincinv(np.maximum(passed, 1e-9), failed + 1, 0.025))
    high = np.where(failed < 1e-9, 1.0, special.betaincinv(passed + 1, np.maximum(failed, 1e-9), 0.975))
    return low, high


def _student_items(drawn: Drawn) -> Ends:
    mean = drawn.shares.mean(1)
    half = stats.t.ppf(0.975, drawn.items - 1) * drawn.shares.std(1, ddof=1) / sqrt(drawn.items)
    return mean - half, mean + half


def _bootstrap(drawn: Drawn, draws: int = 400) -> Ends:
    """The percentile bootstrap over items, which comparisons used once; all runs of a cell share the draws."""
    counts = np.random.default_rng(1).multinomial(drawn.items, np.full(drawn.items, 1 / drawn.items), draws)
    low, high = np.quantile(counts @ drawn.shares.T / drawn.items, (0.025, 0.975), axis=0)
    return low, high


def samples(drawn: Drawn) -> list[Sample]:
    """What the product keeps of each run."""
    answers, sizes = int(drawn.sizes.sum()), float((drawn.sizes**2).sum())
    totals, squares, crossed = drawn.sums.sum(1), (drawn.sums**2).sum(1), drawn.sums @ drawn.sizes
    return [
        Sample(drawn.items, answers, total, square, cross, sizes)
        for total, square, cross in zip(totals.tolist(), squares.tolist(), crossed.tolist(), strict=True)
    ]


def _ends(found: Sequence[figures.Interval | None]) -> Ends:
    assert None not in found, "an interval is missing"
    return np.array([one.low for one in found if one]), np.array([one.high for one in found if one])


def _ours(drawn: Drawn) -> Ends:
    return _ends([rate_interval(one)[0] for one in samples(drawn)])


def _our_means(bounds: tuple[float, float] | None) -> Method:
    return lambda drawn: _ends([mean_interval(one, bounds)[0] for one in samples(drawn)])


def _our_differences(drawn: Drawn) -> Ends:
    """Each item counts once, with the difference of its two means."""
    return _our_means((-1.0, 1.0))(drawn._replace(sums=drawn.shares, repeats=1))


def _with_items(count: int) -> Method:
    """Ours with another number of more items."""

    def method(drawn: Drawn) -> Ends:
        usual, figures.MORE_ITEMS = figures.MORE_ITEMS, count
        try:
            return _ours(drawn)
        finally:
            figures.MORE_ITEMS = usual

    return method


# -- agreement and ratings


def _agreements(rounds: int, rng: np.random.Generator) -> Iterator[Drawn]:
    """Labels of people and verdicts of a judge: how many of each of the four cells each item has."""
    judges = ((0.99, 0.99), (0.95, 0.9), (0.9, 0.7), (0.8, 0.8), (0.6, 0.95), (0.5, 0.5))
    for items, (repeats, alike), good, (finds, clears) in product(
        (10, 20, 50, 100, 200), ((1, 0.0), (5, 0.0), (5, 1.0)), (0.1, 0.3, 0.5, 0.9), judges
    ):
        cells = np.array([good * finds, (1 - good) * clears, good * (1 - finds), (1 - good) * (1 - clears)])
        if alike:
            counts = repeats * rng.multinomial(1, cells, (rounds, items))
        else:
            counts = rng.multinomial(repeats, cells, (rounds, items))
        name = f"{good:g} good, judge finds {finds:g} and clears {clears:g}"
        yield Drawn(name, items, repeats, alike, counts.astype(float), _kappa(cells))


def _kappa(cells: Array) -> float:
    both, neither, person, judge = cells
    expected = (both + person) * (both + judge) + (neither + judge) * (neither + person)
    return float((both + neither - expected) / (1 - expected))


def _fleiss(drawn: Drawn) -> Ends:
    """The interval by the standard error for large samples, answers taken as independent."""
    cells = drawn.sums.sum(1) / (drawn.items * drawn.repeats)
    both, neither, only_person, only_judge = cells.T
    person, judge = both + only_person, both + only_judge
    expected = person * judge + (1 - person) * (1 - judge)
    with np.errstate(all="ignore"):
        kappa = (both + neither - expected) / (1 - expected)
        left = 1 - kappa
        agree = both * (1 - (person + judge) * left) ** 2 + neither * (1 - (2 - person - judge) * left) ** 2
        differ = only_person * (judge + 1 - person) ** 2 + only_judge * (person + 1 - judge) ** 2
        variance = agree + left**2 * differ - (kappa - expected * left) ** 2
        half = _Z * np.sqrt(np.maximum(variance, 0) / (drawn.items * drawn.repeats)) / (1 - expected)
    known = expected < 1
    return np.where(known, np.maximum(kappa - half, -1), -1.0), np.where(known, np.minimum(kappa + half, 1), 1.0)


def _our_kappa(drawn: Drawn) -> Ends:
    products = np.einsum("rip,riq->rpq", drawn.sums, drawn.sums).astype(int).tolist()
    intervals = [
        Agreement(*counts, drawn.items, own).interval
        for counts, own in zip(drawn.sums.sum(1).astype(int).tolist(), products, strict=True)
    ]
    return _ends([one or figures.Interval(-1.0, 1.0) for one in intervals])  # without a kappa nothing is said


def _battles(rounds: int, rng: np.random.Generator) -> Iterator[Drawn]:
    """Two runs, of which the second wins an item this often; and three of which the last is the strongest."""
    for items, rate in product((5, 10, 20, 50, 100), RATES):
        won = np.arange(items + 1)
        wins = (np.arange(items)[None, :] < won[:, None]).astype(float)
        elo = MEAN + 200 / log(10) * log(rate / (1 - rate))
        yield Drawn(f"wins {rate:g}", items, 1, 0, wins, elo, stats.binom.pmf(won, items, rate))
    for items, lead in product((5, 20, 100), (0.0, 0.5, 2.0)):
        strength = np.array([0.0, 0.0, lead])
        chances = [1 / (1 + exp(strength[one] - strength[other])) for one, other in ((0, 1), (0, 2), (1, 2))]
        wins = (rng.random((rounds // 2 + 1, 3 * items)) < np.repeat(chances, items)).astype(float)
        yield Drawn(f"leads two by {lead:g}", items, 3, 0, wins, MEAN + 400 / log(10) * lead * 2 / 3)


def _our_ratings(drawn: Drawn) -> Ends:
    pairs = ((0, 1), (0, 2), (1, 2))[: drawn.repeats]
    runs = 2 if drawn.repeats == 1 else 3
    found = []
    for wins in drawn.sums.reshape(len(drawn.sums), len(pairs), drawn.items):
        items = [dict(zip(pairs, own, strict=True)) for own in wins.T.tolist()]
        found.append(ratings(items, runs)[-1].interval)
    low, high = _ends(found)
    return np.maximum(low, MEAN - 2_000), np.minimum(high, MEAN + 2_000)


# -- the tables

TABLES = (
    Table(
        "rates",
        "Rates of items with one or more answers",
        _rates,
        {
            "Wilson, all answers": _wilson_all,
            "Wilson, effective answers": _wilson_effective,
            "Clopper-Pearson, effective": _clopper_pearson,
            "two more items": _with_items(2),
            "five more items": _with_items(5),
            "three more items (ours)": _ours,
        },
    ),
    Table(
        "uneven",
        "Rates of items of which some have more answers than others",
        _uneven_rates,
        {"Wilson, all answers": _wilson_all, "three more items (ours)": _ours},
    ),
    Table(
        "means",
        "Means of scores between bounds",
        lambda rounds, rng: _means(_shapes, rounds, rng),
        {"Student, by item": _student_items, "three more items (ours)": _our_means((0.0, 1.0))},
    ),
    Table(
        "unbounded",
        "Means of numbers without bounds",
        lambda rounds, rng: _means(lambda: _UNBOUNDED, rounds, rng),
        {"Student, by item (ours)": _our_means(None)},
    ),
    Table(
        "skewed",
        "Means of numbers of which few are very large: no limit is held",
        lambda rounds, rng: _means(lambda: _SKEWED, rounds, rng),
        {"Student, by item (ours)": _our_means(None)},
        limited=False,
    ),
    Table(
        "differences",
        "Differences of rates and of scores between bounds, paired by item",
        _differences,
        {
            "Student, by item": _student_items,
            "bootstrap of items": _bootstrap,
            "three more items (ours)": _our_differences,
        },
    ),
    Table(
        "kappa",
        "Kappa of a judge and people",
        _agreements,
        {"large samples, all answers": _fleiss, "three more items (ours)": _our_kappa},
    ),
    Table("ratings", "Elo ratings of two or three runs", _battles, {"three more items (ours)": _our_ratings}),
)


class Summary(NamedTuple):
    """A method over all cells."""

    mean: float
    worst: Cell
    width: float


def summary(cells: Sequence[Cell]) -> Summary:
    """What a method comes to over cells."""
    covered = [cell.covered for cell in cells]
    worst = min(cells, key=lambda cell: cell.covered)
    return Summary(float(np.mean(covered)), worst, float(np.mean([cell.width for cell in cells])))


def broken(cells: Sequence[Cell], slack: float = 0.0) -> list[str]:
    """Which limits a method does not hold; `slack` is what chance may take from a cell."""
    found = summary(cells)
    says = []
    if found.worst.covered < WORST - slack:
        says.append(f"a cell holds {100 * found.worst.covered:.1f} %: {_place(found.worst)}")
    if not LEAST <= found.mean <= MOST:
        says.append(f"the mean of all cells is {100 * found.mean:.1f} %")
    return says


def _place(cell: Cell) -> str:
    return f"{cell.name}; {cell.items} items × {cell.repeats}, alike {cell.alike:g}"


def table_lines(table: Table, found: dict[str, list[Cell]]) -> Iterator[str]:
    """The table of one kind of figure."""
    cells = next(iter(found.values()))
    alike = sorted({cell.alike for cell in cells})
    yield f"{table.about}: {len(cells):,} cells"
    yield f"{'':<27}{'mean':>6}{'worst':>7}{'width':>8}   " + "".join(f"{f'alike {one:g}':>15}" for one in alike)
    for name, own in found.items():
        whole = summary(own)
        parts = [summary([cell for cell in own if cell.alike == one]) for one in alike]
        by_alike = "".join(f"{100 * part.mean:>9.1f}/{100 * part.worst.covered:>5.1f}" for part in parts)
        width = f"{whole.width:.3f}" if whole.width < 10 else f"{whole.width:.0f}"
        yield f"{name:<27}{100 * whole.mean:>6.1f}{100 * whole.worst.covered:>7.1f}{width:>8}   {by_alike}"
    yield f"  worst of ours: {_place(summary(own).worst)}"


def main(words: Sequence[str] | None = None) -> int:
    """Print the tables; 1 where ours breaks a limit."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", choices=[[], *(table.name for table in TABLES)], default=[])
    parser.add_argument("--rounds", type=int, default=400, help="runs that are drawn for each cell")
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args(words)
    slack = 4 * sqrt(WORST * (1 - WORST) / chosen.rounds)
    failed = False
    for table in TABLES:
        if chosen.names and table.name not in chosen.names:
            continue
        found = measure(table, chosen.rounds, chosen.seed)
        print("\n".join(table_lines(table, found)), flush=True)
        for what in broken(list(found.values())[-1], slack) if table.limited else ():
            failed = True
            print(f"  LIMIT: {what}")
        print()
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
