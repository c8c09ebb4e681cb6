"""Items across runs, and what became of each."""

import time
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tui_evals.compare.match import Entry, ItemKey, Outcome, match, turns, verdict


def entry(test_id="a", content="c", position=0, statuses="pass", answer="x", score=1.0):
    """An item with one answer, or with one per word of `statuses` as repeats of turn 0."""
    outcomes = tuple(Outcome(0, n, status, score, answer) for n, status in enumerate(statuses.split()))
    return Entry(ItemKey(test_id, content, position), outcomes)


def named(*keys):
    return [entry(test_id, content, position) for position, (test_id, content) in enumerate(keys)]


def places(groups):
    return [tuple(one and one.key.position for one in group.entries) for group in groups]


@pytest.mark.parametrize(
    ("runs", "expected", "how"),
    [
        ([named(("a", "1"), ("b", "2")), named(("b", "9"), ("a", "8"))], [(0, 1), (1, 0)], ["testId"] * 2),
        ([named((None, "1"), (None, "2")), named((None, "2"), (None, "1"))], [(0, 1), (1, 0)], ["content"] * 2),
        ([named((None, "1"), (None, "2")), named((None, "1"), (None, "3"))], [(0, 0), (1, 1)], ["content", "position"]),
        # an id that stands twice in a run names nothing
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
    groups = match(runs)
    assert places(groups) == expected
    assert [group.how for group in groups] == how
    assert [bool(group.note) for group in groups] == [one == "position" for one in how]


@pytest.mark.parametrize(
    ("before", "after", "kind"),
    [
        ("fail", "pass", "fixed"),
        ("pass", "fail", "broken"),
        ("pass", "pass", "same"),
        ("fail", "fail", "same"),
        ("error", "pass", "not comparable"),
        ("fail", "partial", "not comparable"),
        ("pass", "pending", "not comparable"),
        ("answered", "answered", "same"),
        ("answered", "pass", "not comparable"),
        ("pass pass fail", "fail pass pass", "same"),
        ("pass pass fail", "pass pass pass", "changed"),
        ("pass pass fail", "pass fail fail", "broken"),
        ("pass fail", "pass pass fail", "fixed"),
        ("error pass", "pass", "changed"),
        ("error error", "pass", "not comparable"),
        ("", "pass", "not comparable"),
    ],
)
def test_kinds(before, after, kind):
    assert match([[entry(statuses=before)], [entry(statuses=after)]])[0].kinds == (kind,)


@pytest.mark.parametrize("difference", [{"answer": "y"}, {"score": 0.5}, {"score": None}])
def test_another_answer_or_score_is_a_change(difference):
    assert match([[entry()], [entry(**difference)]])[0].kinds == ("changed",)


def test_kinds_are_against_the_first_run():
    runs = [[entry(statuses="fail")], [entry(statuses="pass")], [entry(statuses="fail")], []]
    assert match(runs)[0].kinds == ("fixed", "same", "gone")
    later = match([[], [entry()], [entry(statuses="fail")], []])[0]
    assert later.kinds == ("new", "new", None)


def conversation(*repeats):
    return Entry(
        ItemKey("a", "c", 0),
        tuple(
            Outcome(turn, repeat, status, None, "x")
            for repeat, statuses in enumerate(repeats)
            for turn, status in enumerate(statuses.split())
        ),
    )


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
    assert verdict(conversation(*repeats).outcomes) == expected


def test_turns_are_told_apart():
    before, after = conversation("pass fail pass", "pass fail pass"), conversation("pass pass", "pass pass")
    (group,) = match([[before], [after]])
    assert group.kinds == ("fixed",)
    assert [(turn.turn, turn.kinds) for turn in turns(group)] == [(0, ("same",)), (1, ("fixed",)), (2, ("gone",))]
    (alone,) = match([[before], []])
    assert {turn.kinds for turn in turns(alone)} == {("gone",)}


entries = st.builds(
    entry,
    test_id=st.sampled_from([None, "", "a", "b", "c"]),
    content=st.sampled_from("123"),
    statuses=st.sampled_from(["pass", "fail", "error", "answered", "pass fail", ""]),
)
runs = st.lists(entries, max_size=6).map(
    lambda run: [Entry(ItemKey(e.key.test_id, e.key.content_hash, n), e.outcomes) for n, e in enumerate(run)]
)


@given(st.lists(runs, min_size=2, max_size=4))
def test_every_item_of_every_run_is_in_one_group(many):
    groups = match(many)
    for number, run in enumerate(many):
        assert sorted(g.entries[number].key.position for g in groups if g.entries[number]) == list(range(len(run)))
    assert all(any(group.entries) and len(group.kinds) == len(many) - 1 for group in groups)
    assert all((group.how is None) == (sum(one is not None for one in group.entries) == 1) for group in groups)


@given(runs, runs)
def test_two_runs_match_the_same_in_both_directions(one, other):
    mirror = {"fixed": "broken", "broken": "fixed", "new": "gone", "gone": "new"}
    there = Counter((places([g])[0], mirror.get(g.kinds[0], g.kinds[0]), g.how) for g in match([one, other]))
    back = Counter((places([g])[0][::-1], g.kinds[0], g.how) for g in match([other, one]))
    assert there == back


@given(runs)
def test_a_run_is_the_same_as_itself(run):
    kinds = {group.kinds for group in match([run, run])}
    assert kinds <= {("same",), ("not comparable",)}


@pytest.mark.parametrize("test_id", [None, "twin", "unique"])
def test_ten_thousand_items_are_matched_in_linear_time(test_id):
    def run(shift):
        ids = [f"id{n}" if test_id == "unique" else test_id for n in range(10_000)]
        return [entry(ids[n - shift], "twin" if test_id == "twin" else f"{n - shift}", n) for n in range(10_000)]

    left, right = run(0), run(1)
    started = time.process_time()
    groups = match([left, right])
    assert time.process_time() - started < 5  # a fifth of a second on an idle machine; a square of the items is minutes
    assert len(groups) == (10_001 if test_id is None else 10_000)
