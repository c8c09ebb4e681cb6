"""Bouts in the store: kept once, found whichever run is named first, gone with their run."""

import pytest

from tests.store.helpers import cells, new_run
from tui_evals.store.battles import Bout, bouts, keep_bout
from tui_evals.store.database import open_store
from tui_evals.store.reader import Reader
from tui_evals.store.writer import Writer


@pytest.fixture
def store(tmp_path):
    """A store with two runs of two answers."""
    path = open_store(tmp_path / ".evals" / "evals.db")
    with Writer(path, secrets=["geheim-4711"]) as writer, Reader(path) as reader:
        for _ in range(2):
            writer.plan(new_run(), cells(2))
        yield writer, reader


def bout(left, right, first="left", second="right", **given):
    fields = {"judge": "j", "question": "q", "reason": "one\ntwo"}
    return Bout(**{**fields, "left": left, "right": right, "first": first, "second": second, **given})


def found(reader, left=1, right=2, judge="j", question="q"):
    return [(one.left, one.right, one.first, one.second) for one in bouts(reader, left, right, judge, question)]


async def test_a_bout_is_found_from_both_sides(store):
    writer, reader = store
    await keep_bout(writer, bout(1, 3, "left", "tie"))
    assert found(reader) == [(1, 3, "left", "tie")]
    assert found(reader, 2, 1) == [(3, 1, "tie", "right")]
    assert found(reader, judge="k") == found(reader, question="r") == found(reader, 1, 1) == []


async def test_a_bout_fought_from_the_other_side_is_the_same(store):
    writer, reader = store
    await keep_bout(writer, bout(1, 3))
    await keep_bout(writer, bout(3, 1))
    (one,) = bouts(reader, 1, 2, "j", "q")
    assert (one.left, one.right, one.reason) == (1, 3, "one\ntwo") and one.time > 0
    await keep_bout(writer, bout(4, 2, "left", None, reason="why\nbroken"))
    assert [one.reason for one in bouts(reader, 1, 2, "j", "q")] == ["one\ntwo", "broken\nwhy"]


async def test_only_a_bout_without_both_verdicts_is_replaced(store):
    writer, reader = store
    for verdicts in (("left", None), (None, None), ("left", "tie"), ("right", "right"), (None, None)):
        await keep_bout(writer, bout(1, 3, *verdicts))
    assert found(reader) == [(1, 3, "left", "tie")]


async def test_no_secret_and_nothing_that_cannot_be_stored_is_kept(store):
    writer, reader = store
    await keep_bout(writer, bout(1, 3, reason="it says geheim-4711 \ud800\n"))
    (one,) = bouts(reader, 1, 2, "j", "q")
    assert "geheim" not in one.reason and one.winner == "tie"


async def test_bouts_go_with_either_of_their_runs(store):
    writer, reader = store
    await keep_bout(writer, bout(1, 3))
    await keep_bout(writer, bout(2, 4))
    writer.delete_run(reader.run(2))
    assert reader.query("SELECT count(*) FROM bouts") == [(0,)]
