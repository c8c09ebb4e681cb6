"""Reducers over the repeats of an item, and the model's noise apart from the judge's."""

from itertools import combinations, pairwise
from math import inf, isclose, sqrt
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tui_evals.compare.repeats import (
    Noise,
    PassAtK,
    RepeatSummary,
    at_least,
    flakiness,
    majority,
    measure_noise,
    pass_at_k,
    pass_hat_k,
    summarize_repeats,
)


@pytest.mark.parametrize(
    ("n", "c", "k", "some", "every"),
    [
        (1, 0, 1, 0.0, 0.0),
        (1, 1, 1, 1.0, 1.0),
        (3, 2, 1, 2 / 3, 2 / 3),
        (3, 2, 2, 1.0, 1 / 3),
        (3, 2, 3, 1.0, 0.0),
        (10, 3, 2, 24 / 45, 3 / 45),
        (5, 0, 5, 0.0, 0.0),
        (5, 5, 5, 1.0, 1.0),
        (3, 2, 4, None, None),
        (0, 0, 1, None, None),
    ],
)
def test_the_chances_of_k_drawn_repeats(n, c, k, some, every):
    assert pass_at_k(n, c, k) == (None if some is None else pytest.approx(some))
    assert pass_hat_k(n, c, k) == (None if every is None else pytest.approx(every))


repeats_of_an_item = st.lists(st.booleans(), min_size=1, max_size=8)


@given(repeats_of_an_item, st.integers(1, 8))
def test_they_are_what_counting_every_draw_gives(repeats, k):
    n, c, draws = len(repeats), sum(repeats), list(combinations(repeats, k))
    if not draws:
        assert pass_at_k(n, c, k) is pass_hat_k(n, c, k) is None
        return
    assert isclose(pass_at_k(n, c, k), sum(map(any, draws)) / len(draws))
    assert isclose(pass_hat_k(n, c, k), sum(map(all, draws)) / len(draws))


@given(repeats_of_an_item)
def test_an_item_is_as_flaky_as_pairs_of_its_repeats_disagree(repeats):
    pairs = list(combinations(repeats, 2))
    found = flakiness(len(repeats), sum(repeats))
    assert found == (pytest.approx(sum(a != b for a, b in pairs) / len(pairs)) if pairs else None)


@pytest.mark.parametrize(
    ("n", "c", "most"), [(0, 0, False), (1, 0, False), (1, 1, True), (2, 1, False), (3, 2, True), (4, 2, False)]
)
def test_a_majority_is_more_than_half(n, c, most):
    assert majority(n, c) is most


def test_at_least_k_counts_the_passes():
    assert at_least(3, 2, 2) is True
    assert at_least(3, 2, 3) is False
    assert at_least(3, 2, 4) is False


@pytest.mark.parametrize("reducer", [pass_at_k, pass_hat_k, at_least])
@pytest.mark.parametrize(("n", "c", "k"), [(2, 3, 1), (2, -1, 1), (2, 1, 0), (-1, 0, 1)])
def test_what_cannot_be_drawn_is_refused(reducer, n, c, k):
    with pytest.raises(ValueError, match="is no draw"):
        reducer(n, c, k)


@pytest.mark.parametrize("reducer", [majority, flakiness])
@pytest.mark.parametrize(("n", "c"), [(2, 3), (2, -1), (-1, 0)])
def test_what_is_no_count_of_repeats_is_refused(reducer, n, c):
    with pytest.raises(ValueError, match="is no draw"):
        reducer(n, c)


def test_items_with_more_and_fewer_repeats_are_taken_together():
    found = summarize_repeats([[True, True, False], (True, True, True), [False], [], [True, False]])
    assert found == RepeatSummary(
        items=4,
        repeated=3,
        flaky=2,
        flakiness=pytest.approx((2 / 3 + 0 + 1) / 3),
        majority=2 / 4,
        drawn=(
            PassAtK(1, 4, pytest.approx((2 / 3 + 1 + 0 + 1 / 2) / 4), pytest.approx((2 / 3 + 1 + 0 + 1 / 2) / 4)),
            PassAtK(2, 3, 1.0, pytest.approx((1 / 3 + 1 + 0) / 3)),
            PassAtK(3, 2, 1.0, 0.5),
        ),
    )


def test_what_was_not_repeated_is_not_flaky_and_not_steady():
    assert summarize_repeats([]) == summarize_repeats([[], []]) == RepeatSummary(0, 0, 0, None, None, ())
    assert summarize_repeats([[True], [False]]) == RepeatSummary(2, 0, 0, None, 0.5, (PassAtK(1, 2, 0.5, 0.5),))


@given(st.lists(st.lists(st.booleans(), min_size=4, max_size=4), min_size=1, max_size=10))
def test_with_more_draws_one_pass_is_likelier_and_all_pass_less_likely(items):
    drawn = summarize_repeats(items).drawn
    assert [row.k for row in drawn] == [1, 2, 3, 4]
    assert isclose(drawn[0].any_passes, drawn[0].all_pass)
    assert isclose(drawn[0].any_passes, sum(map(sum, items)) / (4 * len(items)))
    for one, next_one in pairwise(drawn):
        assert one.any_passes <= next_one.any_passes + 1e-12
        assert one.all_pass >= next_one.all_pass - 1e-12
    assert isclose(drawn[3].any_passes, sum(map(any, items)) / len(items))
    assert isclose(drawn[3].all_pass, sum(map(all, items)) / len(items))


@pytest.mark.parametrize(
    ("items", "model", "judge"),
    [
        ([], None, None),
        ([[]], None, None),
        ([[[], []]], None, None),
        ([[[0.4]], [[0.9]]], None, None),
        ([[[0.1, 0.1, 0.1]]], None, 0.0),
        ([[[1.0, 3.0]], [[5.0]]], None, sqrt(2)),
        ([[[1.0, 3.0]], [[5.0, 5.0, 5.0]]], None, sqrt(2 / 3)),
        ([[[1.0], [3.0]]], sqrt(2), None),
        ([[[1.0], [3.0], []], [[7.0]]], sqrt(2), None),
        ([[[1.0], [3.0]], [[2.0], [2.0], [2.0]]], sqrt(2 / 3), None),
        ([[[0.1, 0.1], [0.1, 0.1]]], 0.0, 0.0),
        # Answer means 2 and 6 vary by 8; the judge's variance of 2, over two judgings each, is 1 of it.
        ([[[1.0, 3.0], [5.0, 7.0]]], sqrt(7), sqrt(2)),
        # Means 2 and 6 again; one judging and two have the harmonic mean 4/3, so 1.5 of 8 is the judge's.
        ([[[1.0, 3.0], [6.0]]], sqrt(6.5), sqrt(2)),
        # Means vary less than the judge alone would make them.
        ([[[0.0, 4.0], [2.0, 2.0]]], 0.0, 2.0),
    ],
)
def test_noise_by_hand(items, model, judge):
    assert measure_noise(items) == Noise(*(None if sd is None else pytest.approx(sd) for sd in (model, judge)))


@pytest.mark.parametrize(("model", "judge"), [(0.2, 0.1), (0.05, 0.3), (0.3, 0.0), (0.0, 0.2)])
def test_noise_that_was_put_in_is_found_again_whatever_was_repeated_how_often(model, judge):
    random = Random(1)
    items = []
    for _ in range(1_500):
        level = random.random()
        answers = [random.gauss(level, model) for _ in range(random.choice((1, 2, 3, 5)))]
        items.append([[random.gauss(answer, judge) for _ in range(random.choice((1, 2, 4)))] for answer in answers])
    found = measure_noise(items)
    assert isclose(found.judge, judge, rel_tol=0.05)
    assert isclose(found.model**2, model**2, rel_tol=0.1, abs_tol=0.1 * judge**2)


def test_a_judge_that_never_repeats_adds_its_noise_to_the_models():
    random = Random(2)
    items = [[[random.gauss(0, 0.3) + random.gauss(0, 0.4)] for _ in range(4)] for _ in range(1_000)]
    found = measure_noise(items)
    assert found.judge is None
    assert isclose(found.model, 0.5, rel_tol=0.05)


def test_a_score_that_is_no_number_has_no_noise():
    with pytest.raises(ValueError, match="infinite or not a number"):
        measure_noise([[[0.5, inf], [0.5]]])
