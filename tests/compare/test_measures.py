"""A later run against the first in numbers: what counts once, what is tested, and which way is better."""

import pytest

from tests.compare.helpers import answer, compared, document, ran, scored
from tui_evals.compare.measures import LEVEL, shared_figure
from tui_evals.compare.runs import compare_runs
from tui_evals.figures import holm, mcnemar, paired_test

SIX = document(*"abcdef")


def against(left, right, asked=SIX, judged=((), ()), **given):
    sides = (ran(rows, asked, scores, **given) for rows, scores in zip((left, right), judged, strict=True))
    return compare_runs(list(sides)).against[0]


def of(found, what, column=""):
    return next(test for test in found.tests if (test.what, test.column) == (what, column))


def every(statuses, start=0, **given):
    """One answer to each item."""
    return [answer(start + n, n, status, **given) for n, status in enumerate(statuses)]


# -- what counts once


@pytest.mark.parametrize("shares", [[], [1.0], [1.0, 0.0, 0.5], [0.25] * 8])
def test_a_shared_rate_counts_each_item_once_and_names_all_its_answers(shares):
    figure = shared_figure(shares, 40)
    if not shares:
        assert figure is None
    else:
        assert (figure.items, figure.answers, figure.population) == (len(shares), 40, "shared")
        assert figure.value == pytest.approx(sum(shares) / len(shares))


def test_turns_of_an_item_are_no_proof_of_their_own():
    left = [answer(10 * n + t, n, "pass", turn=t) for n in range(6) for t in range(3)]
    right = [answer(100 + 10 * n + t, n, "fail", turn=t) for n in range(6) for t in range(3)]
    found = against(left, right)
    assert (found.counts["broken"], found.items, found.broken, found.fixed) == (18, 6, 6, 0)
    assert found.passes.p == mcnemar(6, 0) == 0.03125
    assert found.passes.shown and found.passes.worse()


def test_a_target_that_always_says_the_same_differs_from_itself_in_nothing_however_often_it_is_asked():
    asked = document(*"abcdefghij")
    once, thrice = every(["pass"] * 10), [answer(100 + 3 * n + r, n, repeat=r) for n in range(10) for r in range(3)]
    scores = [scored(n, 0.7) for n in range(10)], [scored(100 + n, 0.7) for n in range(30)]
    (test,) = against(once, thrice, asked, scores).tests
    assert (test.difference, test.p) == (0, 1.0)


def test_one_turn_that_fails_makes_the_item_fail():
    left = [answer(t, turn=t) for t in range(3)]
    right = [answer(10 + t, status="fail" if t == 1 else "pass", turn=t) for t in range(3)]
    found = against(left, right, document("a"))
    assert (found.items, found.broken, found.passes.before, found.passes.after) == (1, 1, 1.0, 0.0)


def test_repeats_vote_before_an_item_counts_as_broken_and_count_as_shares_in_the_test():
    left = [answer(n, repeat=n) for n in range(3)]
    right = [answer(10 + n, repeat=n, status="fail" if n == 0 else "pass") for n in range(3)]
    found = against(left, right, document("a"))
    assert (found.counts["broken"], found.broken, found.passes.p) == (1, 0, 1.0)
    assert (found.passes.before, found.passes.after) == (1.0, pytest.approx(2 / 3))


def test_columns_of_an_item_are_one_item_for_all_together_and_one_each_for_themselves():
    left = [answer(10 * n + t, n, "pass", target=t) for n in range(6) for t in range(2)]
    right = [answer(100 + 10 * n + t, n, "fail" if t else "pass", target=t) for n in range(6) for t in range(2)]
    found = against(left, right, targets=("x", "y"))
    assert (found.items, found.broken) == (12, 6)
    assert (found.passes.items, found.passes.after, found.passes.p) == (6, 0.5, 0.03125)
    assert [(test.what, test.column, test.items, test.after) for test in found.tests] == [
        ("", "x", 6, 1.0),
        ("", "y", 6, 0.0),
    ]
    assert [test.p for test in found.tests] == [1.0, 0.03125]
    assert [test.adjusted for test in found.tests] == holm([1.0, 0.03125]) == [1.0, 0.0625]


def test_columns_are_tested_in_the_order_of_the_targets_whichever_answer_came_first():
    left = [answer(0, target=1), answer(1, 1, target=0)]
    right = [answer(100, target=1), answer(101, 1, target=0)]
    found = against(left, right, targets=("x", "y"))
    assert [test.column for test in found.tests] == ["x", "y"]


@pytest.mark.parametrize("status", ["error", "answered", "pending", "partial"])
def test_items_that_one_side_did_not_judge_are_in_no_test(status):
    found = against(every(["pass", "fail"]), every([status, "pass"], 100))
    assert (found.items, found.passes.items, found.passes.before, found.passes.after) == (1, 1, 0.0, 1.0)


def test_without_a_common_item_there_is_nothing_to_test():
    found = against([answer(1, 0)], [answer(2, 1)])
    test = found.passes
    assert (found.items, test.items, test.before, test.after, test.p, test.needed) == (0, 0, 0.0, 0.0, 1.0, None)
    assert test.interval is None and found.tests == () and found.worse() == ()


# -- evaluators


def test_the_means_of_an_evaluator_are_over_the_items_that_both_runs_judged():
    left = [scored(0, 0.2), scored(1, 0.4), scored(2, 0.0)]
    right = [scored(100, 0.6), scored(101, 0.8), scored(103, 1.0)]
    found = against(every(["pass"] * 4), every(["pass"] * 4, 100), judged=(left, right))
    test = of(found, "Match")
    assert (test.items, test.before, test.after) == (2, pytest.approx(0.3), pytest.approx(0.7))


def test_only_turns_that_both_runs_judged_count_and_an_item_counts_once():
    left_rows = [answer(0, turn=0), answer(1, turn=1), answer(2, 1)]
    right_rows = [answer(100, turn=0), answer(101, turn=1), answer(102, 1)]
    left = [scored(0, 0.0), scored(1, 1.0), scored(2, 0.0)]
    right = [scored(100, 0.5), scored(102, 1.0)]
    test = of(against(left_rows, right_rows, judged=(left, right)), "Match")
    assert (test.items, test.before, test.after) == (2, 0.0, 0.75)


def test_repeats_are_averaged_before_they_are_compared():
    left_rows = [answer(n, repeat=n) for n in range(2)]
    right_rows = [answer(100 + n, repeat=n) for n in range(3)]
    left = [scored(0, 0.0), scored(1, 1.0)]
    right = [scored(100, 1.0), scored(101, 1.0), scored(102, 0.7)]
    test = of(against(left_rows, right_rows, judged=(left, right)), "Match")
    assert (test.items, test.before, test.after) == (1, 0.5, pytest.approx(0.9))


def test_a_bare_verdict_counts_one_or_nothing():
    left, right = [scored(0, None, result="pass")], [scored(100, None, result="fail")]
    test = of(against([answer(0)], [answer(100)], judged=(left, right)), "Match")
    assert (test.before, test.after) == (1.0, 0.0)


def test_every_evaluator_is_tested_and_holm_pays_for_how_many_they_are():
    rows, others = every(["pass"] * 6), every(["pass"] * 6, 100)
    left = [scored(n, 0.5, key) for n in range(6) for key in ("Down", "Same", "Up")]
    right = [scored(100 + n, value, key) for n in range(6) for key, value in (("Down", 0), ("Same", 0.5), ("Up", 1))]
    found = against(rows, others, judged=(left, right))
    assert [test.what for test in found.tests] == ["Down", "Same", "Up"]
    assert [test.p for test in found.tests] == [0.03125, 1.0, 0.03125]
    assert [test.adjusted for test in found.tests] == holm([0.03125, 1.0, 0.03125]) == [0.09375, 1.0, 0.09375]
    assert not any(test.shown for test in found.tests)
    assert found.passes.adjusted == found.passes.p


def test_a_test_says_what_the_differences_say():
    rows, others = every(["pass"] * 6), every(["pass"] * 6, 100)
    gaps = [0.1, 0.2, 0.3, 0.1, 0.2, -0.1]
    left = [scored(n, 0.5) for n in range(6)]
    right = [scored(100 + n, 0.5 + gap) for n, gap in enumerate(gaps)]
    test = of(against(rows, others, judged=(left, right)), "Match")
    assert test.p == pytest.approx(paired_test(gaps))
    assert test.difference == pytest.approx(sum(gaps) / 6)
    assert test.interval.low < test.difference < test.interval.high
    assert test.needed > 6


# -- which way is better


def judged(passing, scores, start, threshold=0.5):
    return [
        scored(start + n, score, threshold=threshold, result="pass" if passes else "fail")
        for n, (passes, score) in enumerate(zip(passing, scores, strict=True))
    ]


def direction_of(left, right):
    found = against(every(["pass"] * 2), every(["pass"] * 2, 100), judged=(left, right))
    return of(found, "Match").direction


def test_more_is_better_where_what_passes_lies_above_the_threshold():
    assert direction_of(judged([True, False], [0.9, 0.1], 0), judged([True, True], [0.5, 0.6], 100)) == 1


def test_less_is_better_where_what_passes_lies_below_it_as_with_latency():
    assert direction_of(judged([True, False], [120, 900], 0, 500), judged([True, True], [80, 90], 100, 500)) == -1


def test_verdicts_without_a_threshold_are_of_scores_where_more_is_better():
    assert direction_of(judged([True, False], [1, 0], 0, None), judged([True, True], [1, 1], 100, None)) == 1


def test_nobody_can_tell_where_there_are_only_scores():
    bare = [scored(n, 0.5) for n in (0, 1)], [scored(n, 0.7) for n in (100, 101)]
    assert direction_of(*bare) == 0


def test_a_higher_latency_is_worse_and_a_measure_without_direction_never_is():
    rows, others = every(["pass"] * 10), every(["pass"] * 10, 100)
    ten = document(*"abcdefghij")
    slow = [scored(n, 100, "Latency", 500, "pass") for n in range(10)]
    slower = [scored(100 + n, 600, "Latency", 500, "fail") for n in range(10)]
    counted = [scored(n, 10, "Words") for n in range(10)], [scored(100 + n, 90, "Words") for n in range(10)]
    found = against(rows, others, ten, (slow + counted[0], slower + counted[1]))
    assert [(test.what, test.shown, test.worse()) for test in found.tests] == [
        ("Latency", True, True),
        ("Words", True, False),
    ]
    assert [test.what for test in found.worse()] == ["Latency"]
    back = against(others, rows, ten, (slower, slow))
    assert back.worse() == ()


def test_the_level_decides_what_is_worse():
    found = against(every(["pass"] * 5), every(["fail"] * 5, 100))
    assert (found.passes.adjusted, LEVEL) == (0.0625, 0.05)
    assert found.worse() == () and found.worse(0.1) == (found.passes,)


def test_every_later_run_is_measured_against_the_first():
    runs = [every([status] * 6, 100 * n) for n, status in enumerate(("fail", "pass", "fail", "pass"))]
    found = compared(*runs, asked=SIX)
    assert [(one.fixed, one.passes.difference) for one in found.against] == [(6, 1.0), (0, 0.0), (6, 1.0)]


def test_the_interval_of_a_few_differences_that_are_all_one_is_wide():
    found = against(every(["fail"] * 6), every(["pass"] * 6, 100))
    assert found.passes.difference == found.passes.interval.high == 1.0
    assert 0 < found.passes.interval.low < 0.2
    same = against(every(["pass"] * 6), every(["pass"] * 6, 100)).passes
    assert (same.difference, same.interval.low, same.interval.high) == (
        0,
        pytest.approx(-0.4, abs=0.01),
        -same.interval.low,
    )
