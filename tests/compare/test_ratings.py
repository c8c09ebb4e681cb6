"""Ratings of runs, held against another way to reckon them."""

import math
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.compare import theirs
from tui_evals.compare.battles import MEAN, ratings, strengths
from tui_evals.figures import Interval


def by_scipy(wins):
    """The same likelihood, put up again and given to a general optimiser."""
    numpy = theirs.numpy
    won = numpy.array(wins, dtype=float)

    def unlikely(found):
        lead = found[:, None] - found[None, :]
        ties = numpy.logaddexp(0, -found) + numpy.logaddexp(0, found)
        return (won * numpy.logaddexp(0, -lead)).sum() + 0.5 * ties.sum()

    options = {"ftol": 1e-16, "gtol": 1e-9}
    return theirs.minimize(unlikely, numpy.zeros(len(won)), method="L-BFGS-B", options=options).x


def drawn(seed):
    random_ = random.Random(seed)
    runs = random_.randint(2, 5)
    counts = [0, 0, 1, 2.5, 10, 40]
    return [[0 if one == other else random_.choice(counts) for other in range(runs)] for one in range(runs)]


@pytest.mark.parametrize("wins", [drawn(seed) for seed in range(30)] + [[[0, 500], [0, 0]], [[0, 0], [0, 0]]])
def test_strengths_agree_with_a_general_optimiser(wins):
    assert strengths(wins) == pytest.approx(list(by_scipy(wins)), abs=1e-3)


@pytest.mark.parametrize("wins", [drawn(seed) for seed in range(10)])
def test_at_the_strengths_that_are_found_nothing_pulls_any_further(wins):
    found = strengths(wins)
    for one, own in enumerate(found):
        pull = 0.5 - 1 / (1 + math.exp(-own))
        for other, its in enumerate(found):
            chance = 1 / (1 + math.exp(its - own))
            pull += wins[one][other] - (wins[one][other] + wins[other][one]) * chance
        assert pull == pytest.approx(0, abs=1e-7)


def test_two_runs_are_as_far_apart_as_their_win_rate_says_where_there_is_enough_of_it():
    items = [{(0, 1): 1.0}] * 640 + [{(0, 1): 0.0}] * 360
    low, high = ratings(items, 2)
    assert high.elo - low.elo == pytest.approx(400 * math.log10(640 / 360), abs=0.5)
    assert high.interval.low > low.interval.high
    assert low.interval.low < low.elo < low.interval.high


@pytest.mark.parametrize("count", [1, 10, 100, 5_000])
def test_a_run_that_always_wins_has_a_rating_and_some_doubt(count):
    low, high = ratings([{(0, 1): 1.0}] * count, 2)
    assert MEAN < high.elo < 3000 and low.elo == pytest.approx(2 * MEAN - high.elo)
    assert high.interval.low < high.elo <= high.interval.high
    assert math.isfinite(high.interval.low)


def test_runs_that_met_others_only_are_rated_through_them():
    items = [{(0, 1): 1.0, (1, 2): 1.0}] * 8 + [{(0, 1): 0.0, (1, 2): 0.0}] * 2
    found = ratings(items, 3)
    assert found[0].elo < found[1].elo < found[2].elo


def test_a_run_that_met_nobody_is_average():
    found = ratings([{(0, 1): 1.0}] * 5, 3)
    assert found[2].elo == pytest.approx(MEAN)
    assert found[2].interval == Interval(-math.inf, math.inf)


def test_a_run_that_always_wins_has_no_upper_end_as_no_number_of_items_shows_one():
    low, high = ratings([{(0, 1): 1.0}] * 30, 2)
    assert high.interval.high == math.inf and low.interval.low == -math.inf
    assert high.interval.low > MEAN > low.interval.high


def test_turns_that_say_the_same_again_do_not_narrow_the_interval_but_more_items_do():
    few, many = ratings([{(0, 1): 1.0}, {(0, 1): 0.0}] * 5, 2), ratings([{(0, 1): 1.0}, {(0, 1): 0.0}] * 500, 2)
    widths = [found[0].interval.high - found[0].interval.low for found in (few, many)]
    assert widths[1] < widths[0] / 5


def test_many_items_have_the_interval_of_the_usual_standard_error():
    random_ = random.Random(1)
    items = [{(0, 1): random_.choice([0.0, 1.0, 1.0])} for _ in range(4_000)]
    found = ratings(items, 2)[1]
    rate = sum(item[0, 1] for item in items) / len(items)
    error = 400 / math.log(10) / math.sqrt(len(items) * rate * (1 - rate)) / 2
    assert found.interval.high - found.interval.low == pytest.approx(2 * 1.96 * error, rel=0.01)


shares = st.sampled_from([0.0, 0.25, 0.5, 1.0])
pairs = st.sampled_from([(0, 1), (0, 2), (1, 2)])


@settings(max_examples=15)
@given(st.lists(st.dictionaries(pairs, shares), min_size=1, max_size=8))
def test_ratings_average_1000_and_turning_every_result_round_mirrors_them(items):
    found = ratings(items, 3)
    assert sum(one.elo for one in found) / 3 == pytest.approx(MEAN)
    back = ratings([{pair: 1 - share for pair, share in item.items()} for item in items], 3)
    assert [2 * MEAN - one.elo for one in back] == pytest.approx([one.elo for one in found], abs=1e-4)
