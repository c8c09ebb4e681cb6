"""Runs faced answer by answer, and what became of each line."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.compare.helpers import ONE, answer, compared, document, ran, scored
from tests.store.helpers import judged, new_run, said
from tui_evals.compare.runs import KINDS, MAX_RUNS, compare_runs, read_comparison
from tui_evals.store.database import open_store
from tui_evals.store.reader import Reader
from tui_evals.store.records import PlannedAnswer
from tui_evals.store.writer import Writer

FINAL = ("pass", "fail", "partial", "error", "answered", "pending")


def ids(line):
    return tuple(one and one.id for one in line.answers)


@pytest.mark.parametrize(
    ("before", "after", "kind"),
    [
        ("pass", "fail", "broken"),
        ("fail", "pass", "fixed"),
        ("pass", "pass", "same"),
        ("fail", "fail", "same"),
        ("answered", "answered", "same"),
        ("pass", "error", "not comparable"),
        ("partial", "pass", "not comparable"),
        ("pending", "pending", "not comparable"),
        ("pass", "answered", "not comparable"),
    ],
)
def test_a_line_is_of_the_kind_its_verdicts_say(before, after, kind):
    found = compared([answer(1, status=before)], [answer(2, status=after)])
    assert [line.kind for line in found.lines] == [kind]
    assert found.against[0].counts == {one: int(one == kind) for one in KINDS}


@pytest.mark.parametrize("other", [{"preview": "no"}, {"score": 0.5}])
def test_another_answer_or_score_with_the_same_verdict_is_a_change(other):
    assert compared([answer(1)], [answer(2, **other)]).lines[0].kind == "changed"


def test_an_answer_that_only_one_run_has_is_said_so():
    left, right = [answer(1, 0, name="a"), answer(2, 1, name="b")], [answer(3, 0, name="b"), answer(4, 1, name="c")]
    found = compare_runs([ran(left, document("a", "b")), ran(right, document("b", "c"))])
    assert [(line.item, ids(line), line.kind) for line in found.lines] == [
        ("a", (1, None), "gone"),
        ("b", (2, 3), "same"),
        ("c", (None, 4), "new"),
    ]
    assert [line.edited for line in found.lines] == [False, True, False]
    assert [line.how for line in found.lines] == [None, "testId", None]


def test_turns_and_repeats_face_each_other_and_are_named_where_there_are_several():
    left, right = (
        [answer(start + 10 * r + t, turn=t, repeat=r) for r in range(2) for t in range(2)] for start in (0, 100)
    )
    found = compared(left, right)
    assert [(line.repeat, line.turn, *ids(line)) for line in found.lines] == [
        (r, t, 10 * r + t, 100 + 10 * r + t) for r in range(2) for t in range(2)
    ]
    single = compared([answer(1)], [answer(2)]).lines[0]
    assert (single.turn, single.repeat, single.column) == (None, None, "")


def test_targets_face_each_other_by_name_wherever_they_stand():
    left, right = [answer(1, target=0), answer(2, target=1)], [answer(3, target=0), answer(4, target=1)]
    found = compare_runs([ran(left, targets=("old", "both")), ran(right, targets=("both", "new"))])
    assert [(line.column, *ids(line)) for line in found.lines] == [("old", 1, None), ("both", 2, 3), ("new", None, 4)]


def test_single_targets_face_each_other_whatever_their_names():
    found = compare_runs([ran([answer(1)], targets=("small",)), ran([answer(2)], targets=("large",))])
    assert [ids(line) for line in found.lines] == [(1, 2)]


def test_up_to_four_runs_stand_in_a_line_each_later_one_against_the_first():
    runs = [[answer(n, status=status)] for n, status in enumerate(("pass", "pass", "fail", "error"))]
    (line,) = compared(*runs).lines
    assert ids(line) == (0, 1, 2, 3)
    assert line.kinds == ("same", "broken", "not comparable")
    assert line.kind == "broken"


def test_what_neither_the_first_nor_a_later_run_has_is_of_no_kind_there():
    items = document("a", "b")
    found = compared([answer(1, 0)], [answer(2, 0)], [answer(3, 0), answer(4, 1)], asked=items)
    assert [line.kinds for line in found.lines] == [("same", "same"), (None, "new")]
    assert [one.counts["new"] for one in found.against] == [0, 1]
    assert [sum(one.counts.values()) for one in found.against] == [1, 2]


@pytest.mark.parametrize("count", [0, 1, MAX_RUNS + 1])
def test_one_run_is_not_enough_and_five_are_too_many(count):
    with pytest.raises(ValueError, match=f"{count} runs cannot be compared; give 2 to 4"):
        compared(*([answer(n)] for n in range(count)))


def test_the_rates_and_scores_of_runs_are_over_what_all_of_them_judged():
    left = [answer(1, 0, "pass"), answer(2, 1, "fail"), answer(3, 2, "error"), answer(4, 3, "pass")]
    right = [answer(11, 0, "fail"), answer(12, 1, "fail"), answer(13, 2, "pass")]
    scores = [scored(1, 0.75), scored(2, 0.25), scored(4, 1.0), scored(3, 0.5)], [scored(11, 0.5), scored(13, 0.1)]
    found = compare_runs([ran(rows, document(*"abcd"), own) for rows, own in zip((left, right), scores, strict=True)])
    (rates,) = found.rates
    assert [(figure.value, figure.items) for figure in rates.figures] == [(0.5, 2), (0.0, 2)]
    assert [figure.value for figure in rates.figures] == [found.against[0].passes.before, found.against[0].passes.after]
    assert [{key: list(own) for key, own in side.scores.items()} for side in found.sides] == [
        {"Match": [0.75]},
        {"Match": [0.5]},
    ]


def test_runs_that_judged_nothing_in_common_have_no_rate():
    found = compare_runs([ran([answer(1, 0)], document(*"ab")), ran([answer(2, 1)], document(*"ab"))])
    assert found.rates == () and [side.scores for side in found.sides] == [{}, {}]


def test_the_rates_of_three_runs_are_over_what_all_three_judged():
    runs = [[answer(10 * run + n, n) for n in range(3) if (run, n) != (2, 0)] for run in range(3)]
    (rates,) = compared(*runs, asked=document(*"abc")).rates
    assert [figure.items for figure in rates.figures] == [2, 2, 2]


def test_repeats_are_answers_of_their_item():
    left = [
        answer(n, item, "pass" if n % 2 else "fail", repeat=n % 4)
        for item in range(3)
        for n in range(4 * item, 4 * item + 4)
    ]
    right = [answer(100 + n, item, repeat=n % 4) for item in range(3) for n in range(4 * item, 4 * item + 4)]
    (rates,) = compared(left, right, asked=document(*"abc")).rates
    assert [(figure.value, figure.items, figure.answers) for figure in rates.figures] == [(0.5, 3, 12), (1.0, 3, 12)]


def test_columns_have_a_rate_each():
    runs = [
        [answer(10 * run + 2 * n + t, n, "pass" if t else "fail", target=t) for n in range(2) for t in range(2)]
        for run in (1, 2)
    ]
    found = compared(*runs, asked=document(*"ab"), targets=("small", "large"))
    assert [(one.names, [figure.value for figure in one.figures]) for one in found.rates] == [
        (("small", "small"), [0.0, 0.0]),
        (("large", "large"), [1.0, 1.0]),
    ]
    assert found.against[0].passes.columns == 2


def test_each_category_has_a_rate_in_every_run_over_what_both_judged():
    left = [answer(1, 0, category="easy"), answer(2, 1, "fail", category="hard"), answer(3, 2, category="hard")]
    right = [answer(4, 0, category="easy"), answer(5, 1, category="hard"), answer(6, 2, "error", category="hard")]
    found = compared(left, right, asked=document(*"abc"))
    assert {one.category: [(figure.value, figure.items) for figure in one.figures] for one in found.categories} == {
        "easy": [(1.0, 1), (1.0, 1)],
        "hard": [(0.0, 1), (1.0, 1)],
    }
    assert [line.category for line in found.lines] == ["easy", "hard", "hard"]


def test_without_categories_there_are_no_rates_of_them():
    assert compared([answer(1)], [answer(2)]).categories == ()


def test_of_answers_that_look_the_same_those_whose_texts_differ_are_changed():
    asked = []

    def differing(pairs):
        asked.extend(pairs)
        return {(1, 4)}

    left = [answer(1, 0), answer(2, 1), answer(3, 2), answer(7, 3)]
    right = [answer(4, 0), answer(5, 1), answer(6, 2, "fail"), answer(8, 3, preview="no")]
    found = compared(left, right, asked=document(*"abcd"), differing=differing)
    assert [line.kind for line in found.lines] == ["changed", "same", "broken", "changed"]
    assert asked == [(1, 4), (2, 5)]
    assert (found.against[0].counts["same"], found.against[0].counts["changed"]) == (1, 2)


# -- whatever the runs are


def rows_of(start):
    one = st.tuples(st.integers(0, 3), st.integers(0, 1), st.integers(0, 1), st.integers(0, 1), st.sampled_from(FINAL))
    made = st.lists(one, max_size=12, unique_by=lambda cell: cell[:4])
    return made.map(
        lambda cells: [
            answer(start + n, item, status, repeat=repeat, target=target, turn=turn)
            for n, (item, repeat, target, turn, status) in enumerate(cells)
        ]
    )


def judgements(rows):
    """Some of the answers with a score and a verdict about a threshold."""
    score = st.one_of(st.none(), st.floats(0, 1, width=16))
    return st.tuples(*(st.tuples(score, st.sampled_from(("A", "B"))) for _ in rows)).map(
        lambda given: [
            scored(row.id, value, key, 0.5, "pass" if value >= 0.5 else "fail")
            for row, (value, key) in zip(rows, given, strict=True)
            if value is not None
        ]
    )


def sides(start, asked):
    both = {"targets": ("x", "y")}
    return rows_of(start).flatmap(lambda rows: judgements(rows).map(lambda judged: ran(rows, asked, judged, **both)))


LEFT, RIGHT = sides(0, document("a", None, "c", "d")), sides(100, document("d", "c", None, "b"))
SWAPPED = {"broken": "fixed", "fixed": "broken", "gone": "new", "new": "gone"}


@given(LEFT, RIGHT)
def test_every_answer_is_in_one_line_and_swapping_two_runs_mirrors_everything(left, right):
    found, back = compare_runs([left, right]), compare_runs([right, left])
    for number, side in enumerate((left, right)):
        answers = [line.answers[number] for line in found.lines if line.answers[number]]
        assert sorted(one.id for one in answers) == [row.id for row in side.rows]
    (one,), (other,) = found.against, back.against
    assert {kind: one.counts[kind] for kind in KINDS} == {kind: other.counts[SWAPPED.get(kind, kind)] for kind in KINDS}
    assert sorted(map(ids, found.lines), key=str) == sorted((ids(line)[::-1] for line in back.lines), key=str)
    assert (one.items, one.broken, one.fixed) == (other.items, other.fixed, other.broken)
    tests, mirror = (one.passes, *one.tests), (other.passes, *other.tests)
    for test, swapped in zip(tests, mirror, strict=True):
        assert (test.what, test.column, test.items) == (swapped.what, swapped.column, swapped.items)
        assert (test.before, test.after) == pytest.approx((swapped.after, swapped.before))
        assert (test.p, test.adjusted) == pytest.approx((swapped.p, swapped.adjusted))
        assert (test.needed, test.direction) == (swapped.needed, swapped.direction)
    for own, turned in zip((*found.rates, *found.categories), (*back.rates, *back.categories), strict=True):
        assert (own.category, own.figures) == (turned.category, turned.figures[::-1])


@given(LEFT, RIGHT)
def test_a_third_run_changes_nothing_between_the_first_two(left, right):
    pair = compare_runs([left, right]).against[0]
    three = compare_runs([left, right, left]).against
    assert (three[0].counts, three[0].passes, three[0].tests) == (pair.counts, pair.passes, pair.tests)
    assert three[1].broken == three[1].fixed == 0 and not three[1].passes.difference


# -- from a store


@pytest.fixture
async def store(tmp_path):
    """Three runs of one item; the answers begin alike, and those of the first two differ far behind."""
    path = open_store(tmp_path / ".evals" / "evals.db")
    with Writer(path) as writer:
        snapshot = writer.snapshot(ONE, "evals.json")
        for end, key in (("one", "first"), ("two", "second"), ("one", "first")):
            row = writer.plan(new_run(snapshot=snapshot), [PlannedAnswer(0, 0, 0, 0, 0, 0, "a", "easy")])
            with Reader(path) as reader:
                (planned,) = reader.all_rows(row.id)
            await writer.answered(planned.id, said("a long beginning " * 40 + end), "answered")
            await writer.scored(planned.id, 1, [judged("Match"), judged(key, 0.5)], "pass", 1.0)
    with Reader(path) as reader:
        yield reader


async def test_runs_are_read_from_the_store_with_texts_that_differ_far_behind(store):
    found = read_comparison(store, [1, 2, 3])
    assert [line.kinds for line in found.lines] == [("changed", "same")]
    assert [one.counts["changed"] for one in found.against] == [1, 0]
    assert [side.run.id for side in found.sides] == [1, 2, 3]
    assert found.category_names == ("easy",)


async def test_evaluators_that_only_one_run_has_are_not_tested(store):
    found = read_comparison(store, [1, 2])
    assert [(test.what, test.before, test.after) for test in found.against[0].tests] == [("Match", 1.0, 1.0)]
    assert [side.evaluators for side in found.sides] == [{"Match", "first"}, {"Match", "second"}]
    assert [set(side.scores) for side in found.sides] == [{"Match"}, {"Match"}]


async def test_a_run_that_is_gone_cannot_be_compared(store):
    with pytest.raises(LookupError, match="no longer in the store"):
        read_comparison(store, [1, 9])
