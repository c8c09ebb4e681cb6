"""How well a judge agrees with people, against statsmodels."""

import warnings
from math import isclose

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.compare import theirs
from tui_evals.compare.labels import Agreement, count_agreement, kappa_in_words

EXACTLY = 1e-6
counts = st.integers(0, 60)


@pytest.mark.parametrize(
    "cells",
    [
        (20, 15, 5, 10),
        (45, 15, 25, 15),
        (1, 1, 0, 1),
        (0, 0, 3, 4),
        (50, 0, 2, 0),
        (50, 0, 2, 3),
        (0, 40, 0, 1),
        (7, 7, 7, 7),
        (900, 30, 40, 30),
        (3, 1, 0, 0),
        (99_000, 500, 300, 200),
        (99_990, 3, 4, 3),
    ],
)
def test_kappa_is_that_of_statsmodels_and_so_is_its_interval_for_very_many_answers(cells):
    found = Agreement(*cells)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it divides by 0 on the way to a test that is not compared
        kappa = theirs.cohens_kappa([[found.both_pass, found.only_person], [found.only_judge, found.both_fail]])
    assert isclose(found.kappa, kappa.kappa, abs_tol=EXACTLY)


@pytest.mark.parametrize("cells", [(20, 15, 5, 10), (45, 15, 25, 15), (7, 7, 7, 7), (900, 30, 40, 30)])
def test_the_interval_of_very_many_answers_is_that_of_statsmodels(cells):
    found = Agreement(*(10_000 * cell for cell in cells))
    kappa = theirs.cohens_kappa([[found.both_pass, found.only_person], [found.only_judge, found.both_fail]])
    assert isclose(found.interval.low, kappa.kappa_low, abs_tol=1e-4)
    assert isclose(found.interval.high, kappa.kappa_upp, abs_tol=1e-4)


def test_answers_to_one_item_that_are_all_alike_count_as_one():
    once = count_agreement((n, n % 3 > 0, n % 4 > 0) for n in range(20))
    often = count_agreement((n, n % 3 > 0, n % 4 > 0) for n in range(20) for _ in range(10))
    assert (often.n, often.items, once.items) == (200, 20, 20)
    for one, other in (
        (once.interval, often.interval),
        (once.observed_figure.interval, often.observed_figure.interval),
    ):
        assert (one.low, one.high) == pytest.approx((other.low, other.high))
    as_if_apart = Agreement(often.both_pass, often.both_fail, often.only_person, often.only_judge)
    assert as_if_apart.interval.high - as_if_apart.interval.low < 0.5 * (often.interval.high - often.interval.low)


def test_pairs_are_counted_person_first():
    pairs = [(True, True)] * 4 + [(False, False)] * 3 + [(True, False)] * 2 + [(False, True)]
    found = count_agreement((item, *pair) for item, pair in enumerate(pairs))
    assert (found.both_pass, found.both_fail, found.only_person, found.only_judge) == (4, 3, 2, 1)
    assert found.n == 10
    assert found.observed == 0.7
    assert isclose(found.expected, 0.6 * 0.5 + 0.4 * 0.5)
    assert isclose(found.kappa, 0.4)


@pytest.mark.parametrize(
    ("cells", "observed", "expected"), [((0, 0, 0, 0), None, None), ((5, 0, 0, 0), 1.0, 1.0), ((0, 1, 0, 0), 1.0, 1.0)]
)
def test_where_chance_alone_would_agree_there_is_no_kappa(cells, observed, expected):
    found = Agreement(*cells)
    assert (found.observed, found.expected, found.kappa, found.interval) == (observed, expected, None, None)


def test_perfect_and_reversed_judges_are_the_ends():
    assert Agreement(6, 4, 0, 0).kappa == 1
    assert 0 < Agreement(6, 4, 0, 0).interval.low < Agreement(60, 40, 0, 0).interval.low < 1
    assert Agreement(6, 4, 0, 0).interval.high == 1
    assert Agreement(0, 0, 5, 5).kappa == -1
    assert Agreement(5, 5, 5, 5).kappa == 0


@given(counts, counts, counts, counts)
def test_kappa_favours_neither_rater_nor_verdict_and_is_in_its_interval(both_pass, both_fail, only_person, only_judge):
    found = Agreement(both_pass, both_fail, only_person, only_judge)
    if found.kappa is None:
        assert found.interval is None
        assert found.n == max(both_pass, both_fail)
        return
    assert -1 - 1e-9 <= found.kappa <= found.observed <= 1
    assert found.interval.low <= found.kappa <= found.interval.high
    for other in (
        Agreement(both_pass, both_fail, only_judge, only_person),
        Agreement(both_fail, both_pass, only_judge, only_person),
    ):
        assert isclose(other.kappa, found.kappa, abs_tol=1e-12)
        assert isclose(other.interval.low, found.interval.low, abs_tol=1e-6)


@pytest.mark.parametrize(
    ("kappa", "text"),
    [
        (-1.0, "poor"),
        (-0.006, "poor"),
        (-0.004, "slight"),
        (0.0, "slight"),
        (0.2, "slight"),
        (0.204, "slight"),
        (0.21, "fair"),
        (0.4, "fair"),
        (0.41, "moderate"),
        (0.1 + 0.5, "moderate"),
        (0.61, "substantial"),
        (0.8, "substantial"),
        (0.81, "almost perfect"),
        (1.0, "almost perfect"),
    ],
)
def test_kappa_in_words_by_its_two_shown_decimals(kappa, text):
    assert kappa_in_words(kappa) == text
