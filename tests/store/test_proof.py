"""A store whose file is overwritten, cut off or replaced while it is open: noticed before the next commit."""

import asyncio
import contextlib
import os
import shutil
import sqlite3
import subprocess
import sys
import time

import pytest

from tests.store.helpers import cells, new_run, said
from tui_evals.store import connection as database_files
from tui_evals.store import identity, schema
from tui_evals.store.database import StoreError, open_store
from tui_evals.store.identity import read_base
from tui_evals.store.reader import Reader
from tui_evals.store.upkeep import back_up
from tui_evals.store.writer import Writer


@pytest.fixture(autouse=True)
def copies_that_are_finished_at_once(monkeypatch):
    monkeypatch.setattr(identity, "SETTLING", 0.0)


def content_of(path):
    """Read in another process: closing a descriptor here would drop the locks of this one."""
    return subprocess.run(["cat", path], capture_output=True, check=True).stdout


def dump(path):
    with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True)) as connection:
        return list(connection.iterdump())


def overwrite(path, copy):
    subprocess.run(["cp", copy, path], check=True)


def cut(path, share):
    code = "import os, sys; os.truncate(sys.argv[1], int(os.stat(sys.argv[1]).st_size * float(sys.argv[2])))"
    subprocess.run([sys.executable, "-c", code, path, str(share)], check=True)


def checkpoint_at_once(monkeypatch):
    monkeypatch.setattr(database_files, "_WAL_LIMIT", 0)
    monkeypatch.setattr(database_files, "_CHECKPOINT_PAUSE", 0)


def told_by(writer, wanted=1):
    """What a patient writer tells, without anything being written meanwhile."""
    told = []
    writer.be_patient(told.append)
    deadline = time.monotonic() + 10
    while len(told) < wanted:
        assert time.monotonic() < deadline
        time.sleep(0.005)
    return told


@pytest.fixture
def copy(path, tmp_path):
    """A backup of the store with one run, from before something else was written."""
    with Writer(path) as writer:
        writer.plan(new_run(), cells(3))
    backup, _ = back_up(path, tmp_path / "copy.db")
    with Writer(path) as writer:
        writer.session_put("later", True)
    return backup


@pytest.mark.parametrize("is_checkpointed", [True, False])
def test_an_earlier_copy_over_the_file_is_noticed_and_stays_as_it_was_copied(path, copy, monkeypatch, is_checkpointed):
    if is_checkpointed:
        checkpoint_at_once(monkeypatch)
    with contextlib.closing(Writer(path)) as writer:
        writer.plan(new_run(), cells(40))
        writer.session_put("this", "is written")
        overwrite(path, copy)
        with pytest.raises(StoreError, match="was overwritten while tui-evals was using it"):
            writer.session_put("that", "is not")
        with pytest.raises(StoreError, match="was overwritten"):
            writer.session_put("nor", "is this")
        assert writer.is_elsewhere
    assert dump(path) == dump(copy)
    assert len(list(path.parent.glob("evals.db-wal.of-*"))) == 1
    with Reader(open_store(path)) as reader:
        assert [run.total for run in reader.runs()] == [3] and reader.session("this") is None


def test_a_copy_with_more_in_it_from_elsewhere_is_noticed(path, copy, tmp_path):
    """Two machines that share a folder by a sync client: the other one has written more."""
    elsewhere = tmp_path / "elsewhere.db"
    shutil.copy(copy, elsewhere)
    with Writer(elsewhere) as writer:
        writer.plan(new_run(name="of the other machine"), cells(500))
    with contextlib.closing(Writer(path)) as writer:
        writer.plan(new_run(), cells(40))
        overwrite(path, elsewhere)
        with pytest.raises(StoreError, match="was overwritten"):
            writer.session_put("that", "is not")
    with Reader(open_store(path)) as reader:
        assert [run.name for run in reader.runs()] == ["of the other machine", "nightly"]


@pytest.mark.parametrize("share", [0, 0.3, 0.9])
def test_a_file_that_was_cut_off_is_noticed_while_nothing_is_written(path, copy, share):
    with contextlib.closing(Writer(path)) as writer:
        writer.plan(new_run(), cells(40))
        cut(path, share)
        (trouble,) = told_by(writer)
        assert trouble.code == "overwritten" and "was cut off or overwritten" in str(trouble)
    assert path.exists()


async def test_what_is_in_the_log_alone_is_spilled_with_the_rest(path, copy, reader):
    with contextlib.closing(Writer(path)) as writer:
        run = reader.find_run("last")
        first, second, _ = (row.id for row in reader.window(run.id, 0, 3))
        told = []
        writer.be_patient(told.append)
        assert await writer.answered(first, said("is in the log"), "answered")
        overwrite(path, copy)
        while not told:
            await asyncio.sleep(0.001)
        kept = writer.spill(run)
        assert await writer.answered(second, said("never was"), "answered")
        assert kept.answers == 2
    kept.release()
    with Writer(open_store(path)) as another, Reader(path) as later:
        assert await another.take_spilled(run) == 2
        assert [later.detail(answer).answer.text for answer in (first, second)] == ["is in the log", "never was"]


def test_the_same_content_over_the_file_is_no_reason_for_alarm(path, copy, tmp_path):
    backup, _ = back_up(path, tmp_path / "now.db")
    with contextlib.closing(Writer(path)) as writer:
        writer.session_put("one", 1)
        overwrite(path, backup)
        writer.session_put("two", 2)
    with Reader(open_store(path)) as reader:
        assert (reader.session("one"), reader.session("two")) == (1, 2)


def test_the_commits_and_checkpoints_of_others_are_no_reason_for_alarm(path, copy, monkeypatch):
    with contextlib.closing(Writer(path)) as writer:
        writer.session_put("one", 1)
        with sqlite3.connect(path) as program:  # any other program, which moves the log itself
            program.execute("INSERT INTO session VALUES ('other', '1')")
        program.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        program.close()
        writer.session_put("two", 2)
        with pytest.MonkeyPatch.context() as patch:
            checkpoint_at_once(patch)
            for number in range(3):
                with Writer(path) as another:
                    another.session_put("other", number)
                    another.plan(new_run(), cells(3))
        writer.session_put("three", 3)
        os.utime(path)
        writer.session_put("four", 4)
        told = []
        writer.be_patient(told.append)
        writer.flush()
        assert told == []
    with Reader(path) as reader:
        assert [reader.session(key) for key in ("one", "two", "three", "four", "other")] == [1, 2, 3, 4, 2]


def test_a_log_that_was_deleted_counts_as_a_store_that_was(path, copy):
    with contextlib.closing(Writer(path)) as writer:
        os.unlink(f"{path}-wal")
        with pytest.raises(StoreError, match="was deleted"):
            writer.session_put("that", "would be in no file")


def test_a_process_that_was_killed_while_it_moved_the_log_is_finished_for(path, copy):
    """The page of `meta` is half written in the file, and whole in the log."""
    with contextlib.closing(Writer(path)) as writer:
        writer.session_put("one", 1)
        known = writer._thread._proof
        with known._lock.held("moving the log, in another process"):
            known._lock.write_note(known._base, is_moving=True)
            ((page,),) = writer._thread._connection.execute("SELECT rootpage FROM sqlite_master WHERE name = 'meta'")
            code = "import os, sys; f = os.open(sys.argv[1], os.O_RDWR); os.pwrite(f, bytes(4096), int(sys.argv[2]))"
            subprocess.run([sys.executable, "-c", code, path, str((page - 1) * 4096)], check=True)
            assert read_base(path) is None
        writer.session_put("two", 2)
        assert read_base(path) is not None
    with Reader(open_store(path)) as reader:
        assert (reader.session("one"), reader.session("two")) == (1, 2)


KILLED = """
import os, sys
from pathlib import Path
from tests.store.helpers import cells, new_run
from tui_evals.store.writer import Writer
writer = Writer(Path(sys.argv[1]))
writer.plan(new_run(), cells(40))
os._exit(9)
"""


def test_a_log_left_by_a_killed_process_is_not_played_into_a_backup(path, copy, tmp_path):
    later = tmp_path / "later.db"
    with Writer(path) as writer:
        writer.plan(new_run(), cells(2))
    subprocess.run([sys.executable, "-c", KILLED, path], check=False)
    back_up(path, later)
    log = content_of(f"{path}-wal")
    assert log
    overwrite(path, copy)
    with pytest.raises(StoreError, match=r"was replaced, but the log .* was moved to .*evals.db-wal.of-") as refusal:
        open_store(path)
    (aside,) = path.parent.glob("evals.db-wal.of-*")
    assert str(aside) in str(refusal.value) and content_of(aside) == log
    with Reader(open_store(path)) as reader:
        assert [run.total for run in reader.runs()] == [3]


def test_a_log_left_by_a_killed_process_is_taken_in_as_ever(path, copy):
    subprocess.run([sys.executable, "-c", KILLED, path], check=False)
    with Reader(open_store(path)) as reader:
        assert [run.total for run in reader.runs()] == [40, 3] or [run.total for run in reader.runs()] == [3]


def test_a_store_that_a_newer_version_brought_up_to_date_takes_nothing_from_an_older_one(path, copy):
    with contextlib.closing(Writer(path)) as writer:
        with sqlite3.connect(path) as newer:
            newer.execute("UPDATE meta SET v = v + 1 WHERE k = 'schema'")
        newer.close()
        with pytest.raises(StoreError, match=rf"by a newer tui-evals \(its schema is {schema.VERSION + 1}"):
            writer.session_put("that", "has another shape")
