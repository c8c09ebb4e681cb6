"""How well a judge agrees with people, against statsmodels."""

import warnings
from math import isclose

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.compare import theirs
from tui_evals.compare.labels import Agreement, count_agreement, kappa_in_words
from tui_evals.compare.statistics import Interval

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
def test_kappa_and_its_interval_are_those_of_statsmodels(cells):
    found = Agreement(*cells)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it divides by 0 on the way to a test that is not compared
        kappa = theirs.cohens_kappa([[found.both_pass, found.only_person], [found.only_judge, found.both_fail]])
    assert isclose(found.kappa, kappa.kappa, abs_tol=EXACTLY)
    assert isclose(found.interval.low, kappa.kappa_low, abs_tol=EXACTLY)
    assert isclose(found.interval.high, kappa.kappa_upp, abs_tol=EXACTLY)


def test_pairs_are_counted_person_first():
    found = count_agreement([(True, True)] * 4 + [(False, False)] * 3 + [(True, False)] * 2 + [(False, True)])
    assert found == Agreement(both_pass=4, both_fail=3, only_person=2, only_judge=1)
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
    assert Agreement(6, 4, 0, 0).interval == Interval(1, 1)
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
