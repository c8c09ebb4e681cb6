"""Two runs paired answer by answer, and what became of each pair."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.store.helpers import judged, new_run, said
from tui_evals.compare.runs import KINDS, compare_runs, read_comparison, same_answer, settled
from tui_evals.store.database import open_store
from tui_evals.store.reader import Reader
from tui_evals.store.records import AnswerRow, PlannedAnswer, RunRow
from tui_evals.store.writer import Writer

FINAL = ("pass", "fail", "partial", "error", "answered", "pending")


def run(**given):
    fields = dict.fromkeys(RunRow.__dataclass_fields__)
    return RunRow(**{**fields, "targets": ("demo",), "prompts": ("",), "scoring_pass": 1, **given})


def answer(id, item=0, status="pass", score=None, preview="yes", turn=0, prompt=0, target=0, repeat=0, name=None):
    fields = {**dict.fromkeys(AnswerRow.__dataclass_fields__), "id": id, "item": item, "status": status}
    fields |= {"score": score, "preview": preview, "turn": turn, "prompt": prompt, "target": target, "repeat": repeat}
    return AnswerRow(**{**fields, "name": name or f"#{item + 1}"})


def document(*test_ids):
    return {"items": [{"testId": one, "prompt": f"ask {number}"} for number, one in enumerate(test_ids)]}


ONE = document("a")


def compared(left, right, *, documents=(ONE, ONE), runs=(None, None)):
    return compare_runs(left, right, *documents, runs[0] or run(), runs[1] or run())


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
def test_a_pair_is_of_the_kind_its_verdicts_say(before, after, kind):
    found = compared([answer(1, status=before)], [answer(2, status=after)])
    assert [pair.kind for pair in found.pairs] == [kind]
    assert found.counts == {one: int(one == kind) for one in KINDS}


@pytest.mark.parametrize("other", [{"preview": "no"}, {"score": 0.5}])
def test_another_answer_or_score_with_the_same_verdict_is_a_change(other):
    assert compared([answer(1)], [answer(2, **other)]).pairs[0].kind == "changed"


def test_an_answer_that_only_one_run_has_is_said_so():
    documents = document("a", "b"), document("b", "c")
    left, right = [answer(1, 0, name="a"), answer(2, 1, name="b")], [answer(3, 0, name="b"), answer(4, 1, name="c")]
    found = compared(left, right, documents=documents)
    ids = [(pair.item, pair.left and pair.left.id, pair.right and pair.right.id, pair.kind) for pair in found.pairs]
    assert ids == [("a", 1, None, "gone"), ("b", 2, 3, "same"), ("c", None, 4, "new")]
    assert [pair.edited for pair in found.pairs] == [False, True, False]
    assert [pair.how for pair in found.pairs] == [None, "testId", None]


def test_turns_and_repeats_face_each_other_and_are_named_where_there_are_several():
    left = [answer(10 * r + t, turn=t, repeat=r) for r in range(2) for t in range(2)]
    right = [answer(100 + 10 * r + t, turn=t, repeat=r) for r in range(2) for t in range(2)]
    found = compared(left, right)
    assert [(p.repeat, p.turn, p.left.id, p.right.id) for p in found.pairs] == [
        (r, t, 10 * r + t, 100 + 10 * r + t) for r in range(2) for t in range(2)
    ]
    single = compared([answer(1)], [answer(2)]).pairs[0]
    assert (single.turn, single.repeat, single.column) == (None, None, "")


def test_targets_face_each_other_by_name_wherever_they_stand():
    runs = run(targets=("old", "both")), run(targets=("both", "new"))
    left, right = [answer(1, target=0), answer(2, target=1)], [answer(3, target=0), answer(4, target=1)]
    found = compared(left, right, runs=runs)
    shown = [(pair.column, pair.left and pair.left.id, pair.right and pair.right.id) for pair in found.pairs]
    assert shown == [("old", 1, None), ("both", 2, 3), ("new", None, 4)]


def test_single_targets_face_each_other_whatever_their_names():
    found = compared([answer(1)], [answer(2)], runs=(run(targets=("small",)), run(targets=("large",))))
    assert [(pair.left.id, pair.right.id) for pair in found.pairs] == [(1, 2)]


def test_the_test_counts_items_because_their_turns_depend_on_each_other():
    items = document(*"abcdef")
    left = [answer(10 * n + t, n, "pass", turn=t) for n in range(6) for t in range(3)]
    right = [answer(100 + 10 * n + t, n, "fail", turn=t) for n in range(6) for t in range(3)]
    found = compared(left, right, documents=(items, items))
    assert (found.counts["broken"], found.broken, found.fixed) == (18, 6, 0)
    assert found.p == 0.03125 and found.real


def test_repeats_vote_before_an_item_counts_as_broken():
    left = [answer(n, repeat=n) for n in range(3)]
    right = [answer(10 + n, repeat=n, status="fail" if n == 0 else "pass") for n in range(3)]
    found = compared(left, right)
    assert (found.counts["broken"], found.broken, found.p) == (1, 0, 1.0)


def test_each_side_is_counted_whole():
    rows = [answer(1, 0, "pass", 1.0), answer(2, 1, "fail", 0.0), answer(3, 2, "error")]
    found = compared(rows, [], documents=(document(*"abc"), ONE))
    assert (found.left.passed, found.left.judged, found.left.mean) == (1, 2, 0.5)
    assert (found.right.judged, found.right.mean, found.right.interval) == (0, None, None)


def test_texts_that_begin_alike_are_told_apart_once_they_are_read():
    items = document("a", "b", "c")
    left = [answer(1, 0), answer(2, 1), answer(3, 2)]
    right = [answer(4, 0), answer(5, 1), answer(6, 2, "fail")]
    found = compared(left, right, documents=(items, items))
    asked = []
    after = settled(found, lambda *ids: asked.append(ids) or ids == (1, 4))
    assert [pair.kind for pair in after.pairs] == ["same", "changed", "broken"]
    assert asked == [(1, 4), (2, 5)]
    assert (after.counts["same"], after.counts["changed"]) == (1, 1)


def runs_of(start):
    one = st.tuples(st.integers(0, 3), st.integers(0, 1), st.integers(0, 1), st.sampled_from(FINAL))
    made = st.lists(one, max_size=12, unique_by=lambda cell: cell[:3])
    return made.map(
        lambda cells: [
            answer(start + n, item, status, repeat=repeat, target=target)
            for n, (item, repeat, target, status) in enumerate(cells)
        ]
    )


@given(runs_of(0), runs_of(100))
def test_every_answer_is_in_one_pair_and_swapping_the_runs_swaps_the_kinds(left, right):
    documents = document("a", None, "c", "d"), document("d", "c", None, "b")
    both = run(targets=("x", "y"))
    found = compared(left, right, documents=documents, runs=(both, both))
    assert sorted(pair.left.id for pair in found.pairs if pair.left) == [row.id for row in left]
    assert sorted(pair.right.id for pair in found.pairs if pair.right) == [row.id for row in right]
    back = compared(right, left, documents=documents[::-1], runs=(both, both))
    swapped = {"broken": "fixed", "fixed": "broken", "gone": "new", "new": "gone"}
    assert {kind: found.counts[kind] for kind in KINDS} == {
        kind: back.counts[swapped.get(kind, kind)] for kind in KINDS
    }
    assert (found.broken, found.fixed, found.p) == (back.fixed, back.broken, back.p)


@pytest.fixture
async def store(tmp_path):
    """Two runs of one item; the answers begin alike and differ far behind."""
    path = open_store(tmp_path / ".evals" / "evals.db")
    with Writer(path) as writer:
        snapshot = writer.snapshot(ONE, "evals.json")
        for end, score in (("one", 1.0), ("two", 1.0)):
            row = writer.plan(new_run(snapshot=snapshot), [PlannedAnswer(0, 0, 0, 0, 0, 0, "a")])
            with Reader(path) as reader:
                (planned,) = reader.all_rows(row.id)
            await writer.answered(planned.id, said("a long beginning " * 40 + end), "answered")
            await writer.scored(planned.id, 1, [judged("Match", score), judged(end, 0.5)], "pass", score)
    with Reader(path) as reader:
        yield reader


async def test_runs_are_read_from_the_store_with_the_mean_of_each_evaluator(store):
    found = read_comparison(store, 1, 2)
    assert [pair.kind for pair in found.pairs] == ["same"]
    assert [pair.kind for pair in settled(found, lambda *ids: same_answer(store, *ids)).pairs] == ["changed"]
    assert {(mean.key, mean.left, mean.right) for mean in found.means} == {
        ("Match", 1.0, 1.0),
        ("one", 0.5, None),
        ("two", None, 0.5),
    }


async def test_a_run_that_is_gone_cannot_be_compared(store):
    with pytest.raises(LookupError, match="not in the store any more"):
        read_comparison(store, 1, 9)
