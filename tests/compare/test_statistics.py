"""Wilson's interval, McNemar's test, and shares in words."""

from fractions import Fraction
from math import comb, isclose, sqrt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tui_evals.compare.statistics import Interval, mcnemar, percent, wilson


@pytest.mark.parametrize(
    ("successes", "n", "level", "low", "high"),
    [
        (8, 10, 0.95, 0.4901624715, 0.9433178485),
        (50, 100, 0.95, 0.4038315304, 0.5961684696),
        (1, 2, 0.95, 0.0945312057, 0.9054687943),
        (0, 10, 0.95, 0.0, 0.2775327999),
        (10, 10, 0.95, 0.7224672001, 1.0),
        (0, 1, 0.95, 0.0, 0.7934506856),
    ],
)
def test_known_values(successes, n, level, low, high):
    found = wilson(successes, n, level)
    assert isclose(found.low, low, abs_tol=1e-9)
    assert isclose(found.high, high, abs_tol=1e-9)


@pytest.mark.parametrize(
    ("level", "z"), [(0.8, 1.2815515655), (0.9, 1.6448536270), (0.95, 1.9599639845), (0.99, 2.5758293035)]
)
@given(st.integers(1, 10_000), st.data())
def test_the_ends_are_the_rates_from_which_the_observed_one_is_z_errors_away(level, z, n, data):
    successes = data.draw(st.integers(0, n))
    found = wilson(successes, n, level)
    for end in (found.low, found.high):
        assert isclose(abs(successes / n - end), z * sqrt(end * (1 - end) / n), rel_tol=1e-6, abs_tol=1e-9)
    assert 0 <= found.low <= successes / n <= found.high <= 1
    mirrored = wilson(n - successes, n, level)
    assert isclose(mirrored.low, 1 - found.high, abs_tol=1e-12)


def test_nothing_counted_has_no_interval():
    assert wilson(0, 0) is None
    assert isinstance(wilson(0, 1), Interval)


@pytest.mark.parametrize(
    ("successes", "n", "level"), [(-1, 2, 0.95), (3, 2, 0.95), (0, -1, 0.95), (1, 2, 0.0), (1, 2, 1.0)]
)
def test_what_is_no_rate_is_refused(successes, n, level):
    with pytest.raises(ValueError, match="is not a rate"):
        wilson(successes, n, level)


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
