"""Workers in the store: told again and again, none alive once their run is over, gone with it."""

import logging
from dataclasses import replace

import pytest

from tests.store.helpers import cells, new_run, process, worker
from tui_evals.store import schema
from tui_evals.store.connection import hold, run_lock
from tui_evals.store.database import open_store
from tui_evals.store.reader import Reader
from tui_evals.store.writer import Writer


@pytest.fixture
def run(path, writer):
    """A run that this process executes."""
    run = writer.plan(new_run(), cells(3))
    with hold(run_lock(path, run.key)):
        writer.run_status(run.id, "running", pid=1)
        yield run


def test_workers_come_out_by_name_as_they_were_told_last(run, writer, reader):
    writer.workers(run.id, [worker("tcp://b:2"), worker("tcp://a:1", state="silent")])
    writer.workers(run.id, [worker("tcp://b:2", cells=9, calls=140, rate=20.0, errors=2, seen=1_001.0)])
    writer.flush()
    assert reader.workers(run.id) == [
        worker("tcp://a:1", state="silent"),
        worker("tcp://b:2", cells=9, calls=140, rate=20.0, errors=2, seen=1_001.0),
    ]


def test_what_is_told_twice_in_one_batch_ends_as_it_was_told_last(run, writer, reader):
    writer.workers(run.id, [worker("a", calls=1), worker("a", calls=2)])
    writer.workers(run.id, [worker("a", calls=3)])
    writer.flush()
    assert [one.calls for one in reader.workers(run.id)] == [3]


def test_each_run_has_its_own_workers_and_most_have_none(run, writer, reader):
    other = writer.plan(new_run(), cells(1))
    third = writer.plan(new_run(), cells(1))
    writer.workers(run.id, [worker("a")])
    writer.workers(other.id, [worker("a", calls=5)])
    writer.flush()
    assert [one.calls for one in reader.workers(run.id)] == [100]
    assert [one.calls for one in reader.workers(other.id)] == [5]
    assert reader.workers(third.id) == []


def test_a_number_grows_when_something_is_heard_and_at_nothing_else(run, writer, reader):
    before = reader.workers_version()
    writer.heartbeat(run.id)
    writer.running([1], 5.0)
    writer.workers(run.id, [])
    writer.flush()
    assert reader.workers_version() == before
    writer.workers(run.id, [worker("a")])
    writer.flush()
    assert reader.workers_version() > before


@pytest.mark.parametrize("status", ["finished", "interrupted"])
def test_no_worker_of_a_run_that_is_over_is_alive(run, writer, reader, status):
    writer.workers(run.id, [worker("a"), worker("b", state="silent")])
    writer.run_status(run.id, status, finished=9.0)
    over = [replace(worker(name), state="gone", cells=0, rate=0.0) for name in "ab"]
    assert reader.workers(run.id) == over
    writer.workers(run.id, [worker("a")])
    writer.flush()
    assert reader.workers(run.id) == over


def test_no_worker_of_a_run_whose_driver_was_killed_is_alive(path, writer, reader):
    run = writer.plan(new_run(), cells(3))
    with hold(run_lock(path, run.key)):
        writer.run_status(run.id, "running", pid=1)
        writer.workers(run.id, [worker("a")])
        writer.flush()
        assert [one.state for one in reader.workers(run.id)] == ["alive"]
    assert [(one.state, one.cells, one.calls) for one in reader.workers(run.id)] == [("gone", 0, 100)]


def test_who_goes_on_with_a_run_has_no_worker_of_before_and_has_put_no_question(run, writer, reader):
    writer.run_status(run.id, "running", pid=1)
    writer.running([reader.window(run.id, 0, 1)[0].id], 1.0)
    writer.workers(run.id, [worker("before")])
    writer.flush()
    seq = reader.seq()
    assert reader.totals(run.id).running == 1
    writer.run_status(run.id, "running", pid=2)
    writer.workers(run.id, [worker("after")])
    writer.run_status(run.id, "paused")
    writer.run_status(run.id, "running")
    states = {one.name: (one.state, one.cells) for one in reader.workers(run.id)}
    assert states == {"after": ("alive", 7)}
    assert reader.totals(run.id).running == 0
    assert [row.pos for row in reader.changed(seq)] == [0]


def test_workers_go_with_their_run_and_none_is_kept_of_one_that_is_gone(writer, reader):
    run = writer.plan(new_run(), cells(3))
    writer.workers(run.id, [worker("a")])
    writer.delete_run(reader.run(run.id))
    writer.workers(run.id, [worker("a")])
    writer.flush()
    assert reader.query("SELECT count(*) FROM workers") == [(0,)]
    with pytest.raises(LookupError, match="no longer in the store"):
        reader.workers(run.id)


def test_names_hold_no_secret_and_nothing_that_cannot_be_stored(path, run):
    with Writer(path, secrets=["geheim-4711"]) as writer, Reader(path) as reader:
        writer.workers(run.id, [worker("tls://geheim-4711@host"), worker("bad \ud800")])
        writer.flush()
        assert [one.name for one in reader.workers(run.id)] == ["bad ?", "tls://[redacted]@host"]


def test_a_row_that_cannot_be_stored_takes_no_other_letter_down(run, writer, reader, caplog):
    with caplog.at_level(logging.ERROR):
        writer.workers(run.id, [worker("a", state="asleep")])
        writer.workers(run.id, [worker("b")])
        writer.flush()
    assert [one.name for one in reader.workers(run.id)] == ["b"] and "was not stored" in caplog.text


def test_a_store_from_before_there_were_workers_learns_of_them(tmp_path, monkeypatch):
    path = tmp_path / ".evals" / "evals.db"
    with monkeypatch.context() as patch:
        patch.setattr(schema, "STEPS", schema.STEPS[:2])
        patch.setattr(schema, "VERSION", 2)
        open_store(path)
    open_store(path)
    with Writer(path) as writer, Reader(path) as reader:
        run = writer.plan(new_run(), cells(1))
        writer.workers(run.id, [worker("a")])
        writer.flush()
        assert [one.name for one in reader.workers(run.id)] == ["a"]


_TELLS = """
import sys
from pathlib import Path
from tui_evals.store.records import WorkerRow
from tui_evals.store.writer import Writer
with Writer(Path(sys.argv[1])) as writer:
    for letter in range(20):
        writer.workers(int(sys.argv[2]), [WorkerRow(f"{n:04}", "alive", 1, letter, 1.0, 0, 5.0) for n in range(1000)])
"""


@pytest.mark.nightly
def test_another_process_tells_of_a_thousand(path, run, reader):
    telling = process(_TELLS, path, run.id)
    _, errors = telling.communicate(timeout=30)
    assert telling.returncode == 0, errors
    assert {one.calls for one in reader.workers(run.id)} == {19} and len(reader.workers(run.id)) == 1_000
