"""Figures: the intervals of rates, means and differences, which know that answers to one item belong together."""

import math
from fractions import Fraction
from math import comb, isclose, nan, sqrt
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.compare import theirs
from tui_evals.figures import (
    Interval,
    Sample,
    bounded_interval,
    difference_interval,
    holm,
    items_needed,
    mcnemar,
    mean_interval,
    paired_test,
    pass_rate,
    percent,
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


EXACTLY = 1e-6
finite = st.floats(-5, 5)
difference = st.one_of(st.sampled_from([-1.0, -0.5, -1 / 3, 0.0, 1 / 3, 0.5, 1.0]), finite)


def drawn(n, seed, *, shift=0.0):
    random = Random(seed)
    return [random.gauss(shift, 1) for _ in range(n)]


@pytest.mark.parametrize(
    ("broken", "fixed", "p"),
    [
        (0, 0, 1.0),
        (1, 0, 1.0),
        (3, 3, 1.0),
        (5, 0, 0.0625),
        (6, 0, 0.03125),
        (1, 9, 0.021484375),
        (2, 10, 0.03857421875),
    ],
)
def test_the_p_value_of_mcnemars_test_is_exact(broken, fixed, p):
    assert isclose(mcnemar(broken, fixed), p, rel_tol=1e-6)


@given(st.integers(0, 300), st.integers(0, 300))
def test_it_is_the_doubled_tail_of_a_fair_coin_and_favours_no_side(broken, fixed):
    n = broken + fixed
    tail = Fraction(sum(comb(n, k) for k in range(min(broken, fixed) + 1)), 2**n)
    assert isclose(mcnemar(broken, fixed), float(min(Fraction(1), 2 * tail)), rel_tol=1e-12)
    assert mcnemar(broken, fixed) == mcnemar(fixed, broken)


@pytest.mark.story
def test_it_holds_for_runs_of_any_size():
    assert mcnemar(50_000, 50_000) == 1.0
    assert isclose(mcnemar(49_500, 50_500), 0.001577, rel_tol=1e-2)
    assert mcnemar(0, 100_000) == 0.0


def test_what_is_no_count_is_refused():
    with pytest.raises(ValueError, match="not counts"):
        mcnemar(-1, 3)


@pytest.mark.parametrize(
    ("share", "decimals", "text"),
    [
        (None, 1, "n/a"),
        (0.0, 1, "0.0 %"),
        (1.0, 1, "100.0 %"),
        (0.856, 1, "85.6 %"),
        (0.856, 0, "86 %"),
        (1 / 3_000, 1, "<0.1 %"),
        (2_999 / 3_000, 1, ">99.9 %"),
        (0.996, 0, ">99 %"),
        (0.001, 0, "<1 %"),
        (0.99949, 1, "99.9 %"),
        (0.9995, 1, ">99.9 %"),
    ],
)
def test_shares_in_words(share, decimals, text):
    assert percent(share, decimals) == text


@pytest.mark.parametrize(
    ("broken", "fixed"), [(0, 1), (0, 6), (3, 3), (1, 9), (12, 25), (120, 90), (500, 500), (700, 811)]
)
def test_mcnemars_test_is_that_of_statsmodels_and_a_binomial_one(broken, fixed):
    found = mcnemar(broken, fixed)
    assert isclose(found, theirs.mcnemar([[5, broken], [fixed, 7]], exact=True).pvalue, rel_tol=EXACTLY)
    assert isclose(found, theirs.stats.binomtest(broken, broken + fixed).pvalue, rel_tol=EXACTLY)


FEW = [
    [0.5, -0.25],
    [0.1, 0.2, -0.3],
    [0.1, 0.2, 0.3, 0.6, -0.3, -0.6],
    [1 / 3, 2 / 3, 1.0, -1 / 3, 1 / 3],
    [0.7, 0.1, 0.1, 0.1, 0.1, -0.1, 0.2],
    [1e-3, 5.0, -2.0, 3.0, 3.5, 1.0],
    [0.0, 0.0, 0.4, -0.1, 0.9, 0.0],
    [*drawn(12, 5, shift=0.8)],
    [*drawn(11, 6)],
]


@pytest.mark.parametrize("differences", FEW)
def test_few_differences_get_the_exact_p_of_all_their_signs_as_from_scipy(differences):
    nonzero = theirs.numpy.array([value for value in differences if value])
    expected = theirs.stats.permutation_test(
        (nonzero,),
        lambda x, axis: theirs.numpy.round(x.sum(axis=axis), 12),
        permutation_type="samples",
        vectorized=True,
    )
    assert isclose(paired_test(differences), expected.pvalue, abs_tol=EXACTLY)


@pytest.mark.parametrize("n", [13, 40, 300])
def test_more_differences_get_a_p_as_near_to_scipys_as_draws_can_be(n):
    differences = drawn(n, n, shift=1.2 / sqrt(n))
    expected = theirs.stats.permutation_test(
        (theirs.numpy.array(differences),),
        lambda x, axis: x.sum(axis=axis),
        permutation_type="samples",
        vectorized=True,
        n_resamples=19_999,
        batch=2_000,
        rng=theirs.numpy.random.default_rng(1),
    ).pvalue
    error = sqrt(expected * (1 - expected) * (1 / 4_999 + 1 / 19_999))
    assert abs(paired_test(differences) - expected) < 5 * error


@pytest.mark.parametrize("seed", range(3))
def test_very_many_differences_get_the_normal_limit(seed):
    differences = drawn(1_500, seed, shift=0.05)
    for n, near in ((1_500, EXACTLY), (1_001, EXACTLY), (1_000, 0.03)):  # the last is drawn
        z = sum(differences[:n]) / sqrt(sum(value * value for value in differences[:n]))
        assert isclose(paired_test(differences[:n]), 2 * theirs.stats.norm.sf(abs(z)), abs_tol=near)


@given(st.integers(0, 30), st.integers(0, 30), st.integers(0, 5), st.floats(1e-300, 1e300), st.randoms())
def test_differences_of_one_size_are_mcnemars_test(lower, higher, equal, size, random):
    differences = [-size] * lower + [size] * higher + [0.0] * equal
    random.shuffle(differences)
    assert paired_test(differences) == mcnemar(lower, higher)


def test_sizes_that_differ_by_rounding_only_are_one_size():
    assert paired_test([0.3 - 0.1, 0.4 - 0.2, 0.2, 1.0 - 0.8, 0.9 - 0.7, 0.8 - 0.6]) == mcnemar(0, 6)
    assert paired_test([0.1 + 0.2 - 0.3, 0.5, 0.5, -0.5]) == mcnemar(1, 2)
    assert paired_test([2_000.0] * 1_100 + [-2_000.0] * 1_000) == mcnemar(1_000, 1_100)


def test_nothing_that_differs_is_no_evidence():
    assert paired_test([]) == paired_test([0.0]) == paired_test([0.0] * 2_000) == paired_test([3.0]) == 1.0


@given(st.lists(difference, max_size=40), st.randoms())
def test_the_p_of_differences_favours_no_side_and_no_order_and_passes_over_zeros(differences, random):
    p = paired_test(differences)
    assert 0 < p <= 1
    other = [-value for value in differences] + [0.0]
    random.shuffle(other)
    assert paired_test(other) == p


def test_a_p_of_draws_is_never_below_the_rarest_that_so_many_can_show():
    assert paired_test([*drawn(20, 1, shift=9), 0.0]) == 1 / 5_000
    assert isclose(paired_test(drawn(1_000, 1)) * 5_000 % 1, 0, abs_tol=1e-9)


def test_a_seed_gives_the_same_draws_and_another_seed_others():
    differences = drawn(40, 1, shift=0.3)
    assert paired_test(differences, seed=1) == paired_test(differences, seed=1)
    assert len({paired_test(differences, seed) for seed in range(5)}) > 1


def verdicts(random, n):
    return [float((random.random() < 0.7) - (random.random() < 0.7)) for _ in range(n)]


def scores(random, n):
    return [random.betavariate(5, 2) - random.betavariate(5, 2) for _ in range(n)]


def skewed(random, n):
    return [random.expovariate(1) ** 3 - random.expovariate(1) ** 3 for _ in range(n)]


def repeats(random, n):
    """Means of three repeats of items that are hard or easy, which makes the repeats of one item alike."""
    hard = [random.betavariate(0.5, 0.5) for _ in range(n)]
    return [sum((random.random() < p) - (random.random() < p) for _ in range(3)) / 3 for p in hard]


def too_many(rate, level, trials):
    return rate > level + 3 * sqrt(level * (1 - level) / trials)


@pytest.mark.story
@pytest.mark.parametrize(("n", "trials"), [(6, 400), (12, 150), (40, 120)])
@pytest.mark.parametrize("kind", [verdicts, scores, skewed, repeats])
def test_runs_without_a_difference_raise_false_alarms_no_more_often_than_the_level(kind, n, trials):
    random = Random(7)
    alarms = sum(paired_test(kind(random, n), seed) < 0.05 for seed in range(trials))
    assert not too_many(alarms / trials, 0.05, trials)


def test_five_evaluators_together_raise_no_more_false_alarms_than_one():
    random, trials = Random(3), 200
    ps = [[paired_test(kind(random, 9)) for kind in (verdicts, scores, skewed, repeats, scores)] for _ in range(trials)]
    single = sum(min(row) < 0.05 for row in ps) / trials
    family = sum(min(holm(row)) < 0.05 for row in ps) / trials
    assert too_many(single, 0.05, trials)
    assert not too_many(family, 0.05, trials)


def test_a_real_difference_is_found():
    random = Random(2)
    found = sum(paired_test([value + 0.3 for value in scores(random, 40)]) < 0.05 for _ in range(50))
    assert found == 50


@pytest.mark.parametrize(
    ("ps", "adjusted"),
    [
        ([], []),
        ([0.03], [0.03]),
        ([0.01, 0.04, 0.03], [0.03, 0.06, 0.06]),
        ([0.5, 0.5, 0.9], [1.0, 1.0, 1.0]),
        ([0.0, 1.0], [0.0, 1.0]),
    ],
)
def test_holms_correction_by_hand(ps, adjusted):
    assert holm(ps) == pytest.approx(adjusted)


@pytest.mark.parametrize(
    "ps",
    [
        [0.02],
        [0.0, 0.0],
        [0.02, 0.02, 0.5, 0.01, 1.0],
        [0.049, 0.0125, 0.0124, 0.9],
        [k / 40 for k in range(20, 0, -1)],
    ],
)
def test_holms_correction_is_that_of_statsmodels(ps):
    assert holm(ps) == pytest.approx(theirs.multipletests(ps, method="holm")[1].tolist(), abs=EXACTLY)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=30))
def test_holms_correction_keeps_the_order_of_ps_and_lowers_none(ps):
    adjusted = holm(ps)
    assert all(p <= found <= min(1, p * len(ps)) for p, found in zip(ps, adjusted, strict=True))
    assert [found for _, found in sorted(zip(ps, adjusted, strict=True))] == sorted(adjusted)


@pytest.mark.parametrize("ps", [[-0.1], [1.1], [0.5, nan]])
def test_what_is_no_p_is_refused(ps):
    with pytest.raises(ValueError, match="are not p values"):
        holm(ps)


def power(n, differences, level=0.05):
    """By normal theory, how often n such items show the difference: written from the other end than `needed`."""
    mean, square = theirs.numpy.mean(differences), theirs.numpy.mean(theirs.numpy.square(differences))
    critical = theirs.stats.norm.ppf(1 - level / 2) * sqrt(square / n)
    return theirs.stats.norm.sf(critical, loc=abs(mean), scale=sqrt((square - mean**2) / n))


@pytest.mark.parametrize(
    "differences",
    [
        [1.0] * 9 + [-1.0] * 3 + [0.0] * 188,
        [1.0] * 30 + [-1.0] * 10 + [0.0] * 60,
        [1.0] * 51 + [-1.0] * 49,
        [-value for value in drawn(100, 4, shift=0.3)],
        drawn(100, 4, shift=0.3),
        [1e-9, 2e-9, -1e-9],
    ],
)
def test_as_many_items_are_needed_as_give_the_power(differences):
    for level, chance in ((0.05, 0.8), (0.01, 0.9)):
        n = items_needed(differences, level, chance)
        assert power(n, differences, level) >= chance - 1e-9 > power(n - 1, differences, level) - 1e-6


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("differences", "trials"),
    [([1.0] * 35 + [-1.0] * 15 + [0.0] * 50, 400), (drawn(100, 9, shift=0.4), 300)],
    ids=["verdicts", "scores"],
)
def test_with_as_many_items_the_test_shows_the_difference_four_times_in_five(differences, trials):
    random, n = Random(1), items_needed(differences)
    shown = sum(paired_test(random.choices(differences, k=n)) <= 0.05 for _ in range(trials)) / trials
    assert 0.72 < shown < 0.88


def test_without_a_difference_no_number_of_items_shows_one():
    for differences in ([], [0.0], [0.0, 0.0], [1.0, -1.0], [0.1, 0.2, -0.3]):
        assert items_needed(differences) is None


def test_fewer_items_than_the_test_can_decide_on_are_never_enough():
    assert items_needed([1.0]) == items_needed([0.5, 0.5]) == 6
    assert paired_test([1.0] * 6) < 0.05 < paired_test([1.0] * 5)
    assert items_needed([1.0], level=0.01) == 8
    assert items_needed([1.0] * 5 + [0.0]) == 8


@pytest.mark.parametrize("test", [paired_test, items_needed])
def test_what_cannot_be_reckoned_with_is_refused(test):
    for value in (nan, float("inf"), -float("inf")):
        with pytest.raises(ValueError, match="infinite or not a number"):
            test([0.5, value, 0.25])
    for huge in ([1e200, 3e200, 2e200], [1.7e308, -1.7e308, 1e308]):
        test(huge)
    if test is not paired_test:
        with pytest.raises(ValueError, match=r"1\.0 is not a level"):
            test([0.5, 0.25], 1.0)
