"""What a comparison of so few items can show, held to the exact test and to counting by hand."""

from __future__ import annotations

from math import comb

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.compare.helpers import answer, compared, document, ran, scored
from tui_evals.compare.baseline import (
    broken_items,
    can_show,
    drop_sentence,
    drop_shown,
    least_items,
    one_sided_repeats,
    passing_and_judged,
    shared_items,
)
from tui_evals.compare.runs import compare_runs
from tui_evals.figures import mcnemar

LEVELS = st.floats(0.0005, 0.5)


@given(LEVELS)
def test_the_fewest_items_are_those_from_which_on_the_exact_test_reaches_the_level(level):
    least = least_items(level)
    assert mcnemar(least, 0) < level
    assert least == 1 or mcnemar(least - 1, 0) >= level


def test_at_a_level_of_5_percent_it_takes_six_items():
    assert least_items(0.05) == 6


def chance_of_a_regression(breaking: float, passing: int, level: float) -> float:
    """How often the exact test finds a regression when each passing item breaks with the same probability."""
    return sum(
        comb(passing, broken) * breaking**broken * (1 - breaking) ** (passing - broken)
        for broken in range(passing + 1)
        if mcnemar(broken, 0) < level
    )


@given(st.integers(6, 60), st.integers(0, 40), st.sampled_from([0.05, 0.01]))
def test_the_drop_that_can_be_shown_is_found_in_four_of_five_cases(passing, failing, level):
    items = passing + failing
    drop = drop_shown(passing, items, level)
    if passing < least_items(level):
        assert drop is None
        return
    assert chance_of_a_regression(drop * items / passing, passing, level) == pytest.approx(0.8, abs=1e-6)


@pytest.mark.parametrize(
    ("passing", "items", "says"),
    [
        (9, 9, "With 9 items, a drop of 74 points or more shows as a regression."),
        (6, 9, "With 9 items, a drop of 65 points or more shows as a regression."),
        (5, 5, "Only 5 items pass in the baseline: even if all of them break, it could be chance (p = 0.062)."),
        (3, 100, "Only 3 of 100 items pass in the baseline"),
        (0, 4, "None of 4 items passes in the baseline, so none can get worse."),
    ],
)
def test_a_sentence_says_the_drop_or_why_there_is_none(passing, items, says):
    assert says in drop_sentence(passing, items)


def side(start, statuses, repeats=1):
    return [
        answer(start + number, item=number // repeats, status=status, repeat=number % repeats)
        for number, status in enumerate(statuses)
    ]


def test_items_that_flip_within_the_baseline_are_not_broken():
    before = side(0, ["pass", "fail", "pass", "pass", "pass", "pass"], repeats=3)
    after = side(100, ["fail"] * 6, repeats=3)
    found = broken_items(shared_items(compared(before, after, asked=document("flips", "steady")).lines))
    assert [one.item for one in found.broken] == ["#2"] and (found.passed, found.flipping) == (1, 1)


@given(
    st.sets(st.tuples(st.integers(0, 2), st.integers(0, 2)), min_size=1),
    st.sets(st.tuples(st.integers(0, 2), st.integers(0, 2)), min_size=1),
)
def test_what_both_runs_asked_is_shared_and_repeats_of_one_count_towards_their_item(before, after):
    sides = [
        [answer(start + n, item=item, repeat=repeat) for n, (item, repeat) in enumerate(sorted(asked))]
        for start, asked in ((0, before), (100, after))
    ]
    lines = compared(*sides, asked=document("a", "b", "c")).lines
    both = {item for item, _ in before & after}
    alone = {(f"#{item + 1}", repeat) for item, repeat in before ^ after if item in both}
    repeated = max(repeat for _, repeat in before | after) > 0
    assert {one.item for one in shared_items(lines)} == {f"#{item + 1}" for item in both}
    assert {(item, repeat or 0) for item, _, repeat in one_sided_repeats(lines)} == (alone if repeated else set())


def test_an_item_that_is_still_to_be_answered_is_not_broken_yet():
    before, after = side(0, ["pass"] * 2), side(100, ["fail", "pending"])
    found = broken_items(shared_items(compared(before, after, asked=document("a", "b")).lines))
    assert [one.item for one in found.broken] == ["#1"]


def test_what_fails_in_the_baseline_or_has_no_answer_now_is_not_broken():
    before, after = side(0, ["fail", "pass"]), side(100, ["fail", "error"])
    found = broken_items(shared_items(compared(before, after, asked=document("a", "b")).lines))
    assert (found.broken, found.passed) == ((), 1)


def shown(before, after, judged=((), ())):
    asked = document(*map(str, range(len(before))))
    sides = zip((0, 100), (before, after), judged, strict=True)
    comparison = compare_runs([ran(side(start, own), asked, scores) for start, own, scores in sides])
    shared = shared_items(comparison.lines)
    return can_show(comparison, shared), passing_and_judged(shared)


def test_only_items_that_pass_in_the_baseline_can_show_that_the_rate_fell():
    assert shown(["pass"] * 6, ["pass"] * 6) == (True, (6, 6))
    assert shown(["pass"] * 5, ["pass"] * 5) == (False, (5, 5))
    assert shown(["pass"] * 5 + ["fail"] * 20, ["pass"] * 25) == (False, (5, 25))


def test_an_evaluator_with_enough_scores_that_can_fall_can_show_a_regression_too():
    def scores(start, value):
        return [scored(start + number, value, "Similarity", 0.9, "fail") for number in range(20)]

    few = ["pass"] * 2 + ["fail"] * 18
    assert shown(few, few, (scores(0, 0.5), scores(100, 0.5)))[0]
    assert not shown(few, few, (scores(0, 0.0), scores(100, 0.0)))[0], "nothing is worse than 0"
