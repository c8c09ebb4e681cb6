"""Figures: the intervals of rates, means and differences, which know that answers to one item belong together."""

import math
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.compare import theirs
from tui_evals.compare.statistics import mcnemar
from tui_evals.figures import (
    Interval,
    Sample,
    bounded_interval,
    difference_interval,
    mean_interval,
    pass_rate,
    rate_interval,
    sample_of,
    single_answers,
    student_quantile,
)

items = st.lists(st.integers(1, 6).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n))), min_size=1, max_size=30)


def ends(found):
    return found.low, found.high


def rate_ends(*counts):
    return ends(rate_interval(sample_of(counts))[0])


# -- rates


@pytest.mark.parametrize(("passed", "judged"), [(0, 1), (0, 10), (5, 10), (10, 10), (1, 30), (500, 1000)])
def test_the_interval_of_single_answers_is_that_of_three_more_items(passed, judged):
    count = judged + 3
    mean = (passed + 1.5) / count
    half = 1.959964 * math.sqrt(mean * (1 - mean) / (count - 1))
    found, method = rate_interval(single_answers(passed, judged))
    least = 1 - 0.975 ** (1 / judged)  # the exact end where all answers but one are alike
    low, high = (least if passed else 0, 1 - least if passed < judged else 1)
    assert ends(found) == pytest.approx((max(low, mean - half), min(high, mean + half)), abs=1e-6)
    assert method == "three more items"


def test_ten_items_that_always_answer_alike_tell_as_much_asked_once_as_a_hundred_times():
    once = rate_ends(*[(1, n % 2) for n in range(10)])
    assert rate_ends(*[(100, 100 * (n % 2)) for n in range(10)]) == pytest.approx(once)
    assert once == pytest.approx((0.217, 0.783), abs=1e-3)


def test_repeats_that_differ_by_chance_tell_more_than_one_answer():
    random = Random(4)
    noisy = rate_ends(*[(20, sum(random.random() < 0.5 for _ in range(20))) for _ in range(20)])
    alike = rate_ends(*[(20, 20 * (n % 2)) for n in range(20)])
    assert noisy[1] - noisy[0] < 0.7 * (alike[1] - alike[0])


@pytest.mark.parametrize("counts", [[(1, 1)] * 9 + [(1, 0)], [(100, 99)], [(5, 5)] * 3 + [(5, 4)]])
def test_a_rate_of_answers_of_which_one_failed_is_not_100_percent(counts):
    assert sample_of(counts).mean <= rate_ends(*counts)[1] < 1


def test_a_conversation_of_many_turns_does_not_stand_for_the_other_items():
    whole = rate_ends((20, 20), *[(1, n % 2) for n in range(9)])
    assert whole[1] - whole[0] > 0.5


@given(items)
def test_the_interval_holds_the_rate_lies_between_0_and_1_and_mirrors(counts):
    sample = sample_of(counts)
    low, high = rate_ends(*counts)
    assert 0 <= low <= sample.mean <= high <= 1
    mirrored = rate_ends(*[(size, size - passed) for size, passed in counts])
    assert mirrored == pytest.approx((1 - high, 1 - low), abs=1e-9)


@given(items, items)
def test_samples_of_different_items_add_up(some, others):
    assert sample_of(some) + sample_of(others) == sample_of([*some, *others])


def test_nothing_judged_has_no_rate_and_columns_are_not_pooled():
    assert pass_rate(Sample()) is None and pass_rate(None) is None


# -- means


@pytest.mark.parametrize("bounds", [(0.0, 1.0), (1.0, 5.0), (-1.0, 1.0)])
@given(counts=items)
def test_a_mean_between_bounds_has_the_interval_of_a_rate_on_their_scale(bounds, counts):
    low, high = bounds
    scores = [(size, low * size + (high - low) * passed) for size, passed in counts]
    found, _ = mean_interval(sample_of(scores), bounds)
    as_rate = ends(bounded_interval(sample_of(counts), 0.0, 1.0))
    assert ends(found) == pytest.approx([low + (high - low) * end for end in as_rate], abs=1e-6)


@pytest.mark.parametrize("n", [2, 3, 4, 5, 12, 60])
def test_the_interval_of_a_mean_without_bounds_is_students(n):
    values = [Random(n).gauss(40, 7) * place for place in range(1, n + 1)]
    found, method = mean_interval(sample_of((1, value) for value in values), None)
    theirs_ = theirs.stats.t.interval(0.95, n - 1, theirs.numpy.mean(values), theirs.stats.sem(values))
    assert ends(found) == pytest.approx(theirs_, abs=2e-3 * (theirs_[1] - theirs_[0])) and method == "Student"
    assert student_quantile(n - 1) == pytest.approx(theirs.stats.t.ppf(0.975, n - 1), rel=2e-3)


@pytest.mark.parametrize("values", [[], [3.0], [0.1, 0.1, 0.1], [1e200, 3e200, -2e200]])
def test_numbers_that_show_no_spread_or_too_much_have_no_interval_without_bounds(values):
    assert mean_interval(sample_of((1, value) for value in values), None) == (None, "")


# -- differences


@given(st.integers(0, 40), st.integers(0, 40), st.integers(0, 500))
def test_the_interval_of_a_difference_leaves_out_0_where_mcnemars_test_finds_one(broken, fixed, same):
    differences = [-1.0] * broken + [1.0] * fixed + [0.0] * same
    if not differences:
        return
    found, _ = difference_interval(differences, 1.0)
    p = mcnemar(broken, fixed)
    if p < 0.03 or p > 0.07:  # between them the two may tell apart what hardly differs
        assert (found.low > 0 or found.high < 0) == (p < 0.05)


@given(st.lists(st.floats(-1, 1), min_size=1, max_size=40))
def test_the_interval_holds_the_difference_and_turns_round_with_the_sides(differences):
    found, _ = difference_interval(differences, 1.0)
    assert found.low - 1e-9 <= sum(differences) / len(differences) <= found.high + 1e-9
    turned, _ = difference_interval([-one for one in differences], 1.0)
    assert ends(turned) == pytest.approx((-found.high, -found.low), abs=1e-9)


def test_a_few_equal_differences_do_not_look_certain():
    assert difference_interval([0.0] * 6, 1.0)[0] == Interval(
        pytest.approx(-0.4, abs=0.01), pytest.approx(0.4, abs=0.01)
    )
    assert difference_interval([2.0] * 6, None) == (None, "")
