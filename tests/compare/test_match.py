"""Items across runs, and what became of each."""

import time
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tui_evals.compare.sides import ItemKey, TurnOutcome, item_verdict, match_items


def named(*keys):
    return [ItemKey(test_id, content, position) for position, (test_id, content) in enumerate(keys)]


def places(groups):
    return [tuple(key and key.position for key in group.keys) for group in groups]


@pytest.mark.parametrize(
    ("runs", "expected", "how"),
    [
        ([named(("a", "1"), ("b", "2")), named(("b", "9"), ("a", "8"))], [(0, 1), (1, 0)], ["testId"] * 2),
        ([named((None, "1"), (None, "2")), named((None, "2"), (None, "1"))], [(0, 1), (1, 0)], ["content"] * 2),
        ([named((None, "1"), (None, "2")), named((None, "1"), (None, "3"))], [(0, 0), (1, 1)], ["content", "position"]),
        # an id that appears twice in a run names nothing
        ([named(("a", "1"), ("a", "2")), named(("a", "2"), ("b", "1"))], [(0, 1), (1, 0)], ["content"] * 2),
        # a renamed item is known by its content
        ([named(("a", "1")), named(("b", "1"))], [(0, 0)], ["content"]),
        # two unique ids are two items, even at one place
        ([named(("a", "1")), named(("b", "2"))], [(0, None), (None, 0)], [None, None]),
        # twins are matched in their order
        ([named((None, "1"), (None, "1")), named((None, "1"), (None, "1"))], [(0, 0), (1, 1)], ["content"] * 2),
        # the id wins over equal content elsewhere
        (
            [named(("a", "1"), (None, "2")), named((None, "1"), ("a", "2"))],
            [(0, 1), (1, None), (None, 0)],
            ["testId", None, None],
        ),
        # three runs: the third is known by what the second had
        (
            [named((None, "1")), named((None, "2")), named((None, "0"), (None, "2"))],
            [(0, 0, 1), (None, None, 0)],
            ["position", None],
        ),
        ([named(("a", "1")), [], named(("a", "1"))], [(0, None, 0)], ["testId"]),
        ([[], []], [], []),
    ],
)
def test_items_are_recognised_by_id_then_content_then_position(runs, expected, how):
    groups = list(match_items(runs))
    assert places(groups) == expected
    assert [group.how for group in groups] == how


def conversation(*repeats):
    return [
        TurnOutcome(turn, repeat, status)
        for repeat, statuses in enumerate(repeats)
        for turn, status in enumerate(statuses.split())
    ]


@pytest.mark.parametrize(
    ("repeats", "expected"),
    [
        (["pass pass"], "pass"),
        (["pass fail"], "fail"),
        (["fail error"], "errored"),
        (["pass answered"], "pass"),
        (["answered answered"], "unjudged"),
        (["pass pass", "pass fail"], "fail"),
        (["pass pass", "pass fail", "pass pass"], "pass"),
        (["pass error", "pass pass"], "pass"),
        (["pass running"], "errored"),
        ([], "errored"),
    ],
)
def test_a_conversation_is_as_good_as_the_worst_of_its_turns_and_repeats_vote(repeats, expected):
    assert item_verdict(conversation(*repeats)) == expected


keys = st.tuples(st.sampled_from([None, "", "a", "b", "c"]), st.sampled_from("123"))
runs = st.lists(keys, max_size=6).map(lambda run: named(*run))


@given(st.lists(runs, min_size=2, max_size=4))
def test_every_item_of_every_run_is_in_one_group(many):
    groups = list(match_items(many))
    for number, run in enumerate(many):
        assert sorted(g.keys[number].position for g in groups if g.keys[number]) == list(range(len(run)))
    assert all(any(group.keys) and len(group.keys) == len(many) for group in groups)
    assert all((group.how is None) == (sum(key is not None for key in group.keys) == 1) for group in groups)


@given(runs, runs)
def test_two_runs_match_the_same_in_both_directions(one, other):
    there = Counter((places([group])[0], group.how) for group in match_items([one, other]))
    back = Counter((places([group])[0][::-1], group.how) for group in match_items([other, one]))
    assert there == back


@given(runs)
def test_a_run_is_matched_with_itself(run):
    assert sorted(places(match_items([run, run]))) == [(n, n) for n in range(len(run))]


@pytest.mark.parametrize("test_id", [None, "twin", "unique"])
def test_ten_thousand_items_are_matched_in_linear_time(test_id):
    def run(shift):
        ids = [f"id{n}" if test_id == "unique" else test_id for n in range(10_000)]
        return named(*((ids[n - shift], "twin" if test_id == "twin" else f"{n - shift}") for n in range(10_000)))

    left, right = run(0), run(1)
    started = time.process_time()
    groups = list(match_items([left, right]))
    assert time.process_time() - started < 5  # a fifth of a second on an idle machine; a square of the items is minutes
    assert len(groups) == (10_001 if test_id is None else 10_000)
