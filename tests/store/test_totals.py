"""The totals of a run that is over are kept, and never say anything else than its rows."""

import asyncio
import contextlib
import re

import pytest

from tests.store.helpers import cells, judged, new_run, said
from tui_evals.store import figures, migrations
from tui_evals.store.database import connect, open_store
from tui_evals.store.reader import Reader
from tui_evals.store.records import CallRecord
from tui_evals.store.repair import repairing
from tui_evals.store.writer import Writer

_NOTED = CallRecord(
    answer=None, kind="judge", target="j", attempt=1, started=1.0, latency_ms=2.0, cost=0.1, code=None, from_cache=False
)


def kept(reader):
    return {run for (run,) in reader.query("SELECT DISTINCT run FROM counted")}


def agree(reader, run):
    """What is told of a run is what its rows say."""

    def ask(query, values):
        return [] if "FROM counted" in query else reader.query(query, values)

    assert figures.totals(reader.query, run) == figures.totals(ask, run)
    for by in ("target", "column"):
        assert figures.totals_by(reader.query, run, by) == figures.totals_by(ask, run, by)


@pytest.fixture
def over(writer, reader):
    """A finished run of three answers, the last of which is an error, and the ids of its answers."""
    run = writer.plan(new_run(), cells(3))
    ids = list(reader.ids(run.id))

    async def answer_all():
        for answer in ids[:2]:
            await writer.answered(answer, said(cost=0.1, input_tokens=7), "answered")
            await writer.scored(answer, 1, [judged()], "pass", 100.0)
        await writer.answered(ids[2], said(None, code="agentTimeout"), "error")

    asyncio.run(answer_all())
    writer.call(_NOTED, run.id)
    writer.run_status(run.id, "finished", started=1.0, finished=2.0)
    return run, ids


def note_call(writer, reader, run, ids):
    writer.call(_NOTED, run)
    writer.flush()


def rejudge(writer, reader, run, ids):
    assert writer.rejudge(reader.rows(ids[:1])[0], 1, [judged(score=0.0)], "fail", 0.0, None)


def score_late(writer, reader, run, ids):
    asyncio.run(writer.scored(ids[0], 1, [], "fail", 0.0))


def judge_again(writer, reader, run, ids):
    number = writer.begin_pass(run, {})
    asyncio.run(writer.scored(ids[0], number, [judged(score=0.0)], "fail", 0.0))
    assert kept(reader) == {run}  # what is under way does not count yet
    writer.count_pass(run)


def reopen_errors(writer, reader, run, ids):
    assert writer.reopen_errors(run) == 1


def ask_again(writer, reader, run, ids):
    writer.reopen_errors(run)
    writer.run_status(run, "interrupted")
    assert kept(reader) == {run}
    asyncio.run(writer.answered(ids[2], said(cost=9.0), "answered"))


@pytest.mark.parametrize("change", [note_call, rejudge, score_late, judge_again, reopen_errors, ask_again])
def test_totals_are_kept_until_something_of_the_run_changes(writer, reader, over, change):
    run, ids = over
    assert kept(reader) == {run.id}
    agree(reader, run.id)
    change(writer, reader, run.id, ids)
    assert kept(reader) == set()
    agree(reader, run.id)
    writer.run_status(run.id, "finished")
    assert kept(reader) == {run.id}
    agree(reader, run.id)


def test_a_label_leaves_what_is_kept_and_any_number_that_is_counted_does_not(writer, reader, over):
    run, ids = over
    seq = reader.rows(ids[:1])[0].seq
    writer.label(ids[0], "fail", "ann")
    assert kept(reader) == {run.id} and reader.rows(ids[:1])[0].seq > seq
    columns = [name for _, name, *_ in reader.query("PRAGMA table_info(answers)")]
    of_answers = [query for query in figures._KEPT if "FROM answers" in query]
    counted = [name for name in columns if any(re.search(rf"\b{name}\b", query) for query in of_answers)]
    assert len(counted) > 10
    for name in counted:
        writer.write(f"UPDATE answers SET {name} = {name} WHERE id = ?", ids[0])
        assert kept(reader) == set(), name
        writer.run_status(run.id, "finished")


def test_the_end_of_a_run_counts_every_other_that_is_over_and_none_under_way(writer, reader, over):
    run, ids = over
    note_call(writer, reader, run.id, ids)
    under_way, other = writer.plan(new_run(), cells(1)), writer.plan(new_run(), [])
    writer.run_status(under_way.id, "running")
    writer.run_status(other.id, "interrupted")
    assert kept(reader) == {run.id, other.id}


def test_nothing_is_kept_of_a_run_that_was_deleted(writer, reader, over):
    empty = writer.plan(new_run(), [])
    writer.run_status(empty.id, "finished")
    for run in (over[0], empty):
        writer.delete_run(run)
    assert kept(reader) == set()


def test_what_another_version_asked_is_counted_anew(path, reader, over):
    with contextlib.closing(connect(path, write=True)) as connection:
        connection.execute("UPDATE counted SET query = query || ' ', rows = '[[999]]'")
    agree(reader, over[0].id)


async def test_a_repair_counts_what_it_saved(path):
    with Writer(path) as writer, Reader(path) as reader:
        run = writer.plan(new_run(), cells(1))
        await writer.answered(*reader.ids(run.id), said(), "answered")
        writer.call(_NOTED, run.id)
        writer.run_status(run.id, "finished")
    with contextlib.closing(connect(path, write=True)) as connection:
        connection.execute("DELETE FROM calls")  # as if their page could not be read
    with repairing(path) as repair:
        repair.put_in_place()
    with Reader(path) as reader:
        assert reader.totals(run.id).judge_cost == 0.0


def test_a_store_of_schema_14_has_the_totals_of_its_runs_counted(path, monkeypatch):
    path.unlink()
    with monkeypatch.context() as patch:
        patch.setattr(migrations, "STEPS", migrations.STEPS[:14])
        patch.setattr(migrations, "VERSION", 14)
        open_store(path)
        with contextlib.closing(connect(path, write=True)) as connection:
            connection.execute(
                "INSERT INTO runs(key, name, suite, source, snapshot, status, control, targets, prompts, tags, "
                "created, total, config, note, scoring_pass) "
                "VALUES ('k', 'n', '', '', '', 'finished', '', '[]', '[]', '[]', 0, 1, '{}', '', 1)"
            )
            connection.execute(
                "INSERT INTO answers(run, seq, pos, cell, item, turn, prompt, target, repeat, name, category, status) "
                "VALUES (1, 1, 0, 0, 0, 0, 0, 0, 0, 'a', '', 'pass')"
            )
    with Reader(open_store(path)) as reader:
        assert kept(reader) == {1} and reader.totals(1).passed == 1
    with Writer(path) as writer, Reader(path) as reader:
        writer.label(1, "fail", "ann")
        assert kept(reader) == {1}
        note_call(writer, reader, 1, [1])
        assert kept(reader) == set()
