"""Verdicts in plain words."""

import pytest

from tests.compare.helpers import answer, compared, document
from tui_evals.compare import measures
from tui_evals.compare.verdicts import NAMES, chance_phrase, difference_sentence, measured_sentence, power_phrase
from tui_evals.figures import mcnemar


def made(before=0.5, after=0.75, items=200, p=0.31, what="", column="", needed=None, **given):
    fields = {"interval": None, "p": p, "adjusted": p, "direction": 1}
    return measures.MeasuredDifference(
        what=what, column=column, items=items, before=before, after=after, needed=needed, **{**fields, **given}
    )


def found(test, broken=0, fixed=0):
    return measures.RunDifference(test.items, broken, fixed, test, ())


def passing(before, after):
    """Two runs of as many items as there are statuses."""
    sides = [
        [answer(100 * n + at, at, status) for at, status in enumerate(own)] for n, own in enumerate((before, after))
    ]
    return compared(*sides, asked=document(*map(str, range(len(before))))).against[0]


def test_a_verdict_says_how_many_more_pass_how_often_that_is_chance_and_what_it_would_take():
    test = made(before=0.5, after=0.53, needed=1_143)
    assert difference_sentence(found(test, 10, 16)) == (
        "B passes 6 more of 200 items than A: could be chance (p = 0.31); about 1,200 items would tell."
    )
    assert difference_sentence(found(test, 10, 16), brief=True) == (
        "B passes 6 more of 200 items than A: could be chance (p = 0.31)."
    )


def test_the_better_run_is_called_better():
    test = made(before=0.5, after=0.53, p=0.003, needed=150)
    assert difference_sentence(found(test, 10, 16)) == "B is better: 6 more of 200 items pass (p = 0.003)."
    assert difference_sentence(found(test, 10, 16), "k1", "k2") == (
        "k2 is better than k1: 6 more of 200 items pass (p = 0.003)."
    )
    one = made(before=0.0, after=1.0, items=1, p=0.003)
    assert difference_sentence(found(one, 0, 1)) == "B is better: 1 more of 1 item passes (p = 0.003)."


def test_a_difference_that_is_not_chance_needs_no_more_items():
    test = made(before=0.5, after=0.4, p=0.004, needed=90)
    assert difference_sentence(found(test, 25, 5), "A", "C") == ("C is worse: 20 fewer of 200 items pass (p = 0.004).")


def test_runs_of_a_store_of_lists_get_their_sentence():
    says = difference_sentence(passing(["pass"] * 6, ["fail"] * 6))
    assert says == "B is worse: 6 fewer of 6 items pass (p = 0.031)."
    assert mcnemar(6, 0) == pytest.approx(0.031, abs=0.001)


def test_no_difference_is_said_in_words():
    assert (
        difference_sentence(passing(["pass", "fail"], ["pass", "fail"]))
        == "B passes the same of 2 items as A: no difference."
    )
    assert (
        difference_sentence(passing(["pass", "fail"], ["fail", "pass"]))
        == "B passes as many of 2 items as A: no difference."
    )
    assert difference_sentence(passing(["pass"], ["pass"])) == "B passes the same of 1 item as A: no difference."


def test_runs_without_a_common_item_cannot_be_told_apart():
    assert difference_sentence(passing(["pass"], ["error"])) == "A and B have no item in common that both judged."


def test_shares_of_repeats_are_said_in_points():
    test = made(before=0.5, after=0.5125, items=40)
    assert difference_sentence(found(test)).startswith("B passes 1.2 percentage points more of 40 items than A: ")
    certain = made(before=0.5, after=0.5125, items=40, p=0.01)
    assert (
        difference_sentence(found(certain)) == "B is better: 1.2 percentage points more of 40 items pass (p = 0.010)."
    )


@pytest.mark.parametrize(
    ("p", "says"),
    [
        (0.0004, "(p < 0.001)"),
        (0.0312, "(p = 0.031)"),
        (0.0496, "(p = 0.0496)"),
        (0.05, "could be chance (p = 0.050)"),
        (0.0504, "could be chance (p = 0.0504)"),
        (0.0996, "could be chance (p = 0.100)"),
        (0.31, "could be chance (p = 0.31)"),
        (1.0, "could be chance (p = 1.00)"),
    ],
)
def test_chance_is_said_with_the_decimals_that_matter(p, says):
    assert chance_phrase(made(p=p)) == says


def test_the_level_decides_what_could_be_chance():
    assert chance_phrase(made(p=0.02), 0.01) == "could be chance (p = 0.020)"
    assert chance_phrase(made(p=0.0102), 0.01) == "could be chance (p = 0.0102)"


def test_what_an_evaluator_found_is_said_in_its_own_numbers_and_a_column_in_per_cent():
    assert measured_sentence(made(what="Match", before=0.4567, after=0.9)) == (
        "Match: 0.457 in A, 0.9 in B over 200 items: could be chance (p = 0.31)."
    )
    assert measured_sentence(made(column="small", before=0.5, after=0.625), "A", "D").startswith(
        "small: 50.0 % in A, 62.5 % in D over 200 items: "
    )
    assert measured_sentence(made(what="Match", after=0.9, p=0.003)).endswith("items: B is better (p = 0.003).")
    assert measured_sentence(made(what="Hedges", after=0.9, p=0.003, direction=-1)).endswith("B is worse (p = 0.003).")
    assert measured_sentence(made(what="Length", after=0.9, p=0.003, direction=0)).endswith(
        "A and B differ (p = 0.003)."
    )
    assert measured_sentence(made(what="Match", after=0.5)) == "Match: no difference over 200 items."


@pytest.mark.parametrize(
    ("needed", "says"),
    [(None, ""), (200, ""), (201, "210"), (1_143, "1,200"), (98_765, "99,000")],
)
def test_how_many_items_it_takes_is_said_with_two_figures_where_there_were_too_few(needed, says):
    text = power_phrase(made(needed=needed))
    assert text == (f"; about {says} items would tell" if says else "")


def test_the_corrected_chance_is_what_counts():
    assert chance_phrase(made(p=0.02, adjusted=0.06)) == "could be chance (p = 0.060)"


def test_there_is_a_letter_for_each_run():
    assert NAMES == "ABCD"
