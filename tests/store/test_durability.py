"""Processes that die, processes that write at once, and a disk that is full: nothing acknowledged is lost."""

import asyncio
import contextlib
import random
import sqlite3
import subprocess
import sys

import pytest

from tests.store.helpers import ROOT, cells, judged, new_run, process, said
from tui_evals.store.database import StoreError, connect
from tui_evals.store.details import read_scores
from tui_evals.store.reader import Reader
from tui_evals.store.records import CallRecord
from tui_evals.store.writer import Writer

WRITER = """
import asyncio, os, sys
from pathlib import Path
from tui_evals.store import connection
from tui_evals.store.reader import Reader
from tui_evals.store.records import AnswerRecord, ScoreRecord
from tui_evals.store.writer import Writer

connection._WAL_LIMIT = 200_000
connection._CHECKPOINT_PAUSE = 0.01
path, run, ledger = Path(sys.argv[1]), int(sys.argv[2]), os.open(sys.argv[3], os.O_WRONLY | os.O_CREAT | os.O_APPEND)

def note(word, answer):
    # sixteen bytes, because a kill can cut a write in two where a page ends
    os.write(ledger, f"{word} {answer}".ljust(15).encode() + b"\\n")

async def cell(writer, gate, answer):
    async with gate:
        writer.running([answer], 1.0)
        if await writer.answered(answer, AnswerRecord(text=f"text {answer}", request={"m": "?" * 300}), "answered"):
            note("answered", answer)
        record = ScoreRecord(key="Match", evaluator="Match", score=1.0, result="pass")
        await writer.scored(answer, 1, [record], "pass", 100.0)
        note("scored", answer)

async def main():
    with Reader(path) as reader, Writer(path) as writer:
        gate = asyncio.Semaphore(200)
        ids = [row.id for row in reader.pending(run)]
        os.write(1, b"started\\n")
        await asyncio.gather(*(cell(writer, gate, answer) for answer in ids))

asyncio.run(main())
"""


LINE = 16
"""How long a line of the ledger is."""


def statuses(path, run):
    with Reader(path) as reader:
        return {row.id: row for row in reader.all_rows(run)}


def assert_sound(path):
    with contextlib.closing(connect(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


def kill_rounds(path, tmp_path, rounds, seed):
    """Kill a writer at random moments of its work, and look at what it said was committed."""
    dice = random.Random(seed)
    with Writer(path) as writer:
        run = writer.plan(new_run(), cells(400 * rounds)).id
    ledger = tmp_path / "ledger"
    ledger.touch()
    read: set[int] = set()
    for number in range(rounds):
        size = ledger.stat().st_size + LINE * dice.randrange(1, 500)
        with process(WRITER, path, run, ledger) as child:
            assert child.stdout.readline() == "started\n"
            while child.poll() is None and ledger.stat().st_size < size:
                pass
            child.kill()
        assert_sound(path)
        rows = statuses(path, run)
        with Reader(path) as reader:
            scores = {answer for answer, _ in read_scores(reader, run)}
            acknowledged = [line.split() for line in ledger.read_text().splitlines()]
            for word, answer in acknowledged:
                row = rows[int(answer)]
                assert row.status == "pass" if word == "scored" else row.status in ("answered", "pass")
                assert word == "answered" or row.id in scores
            there = {row.id for row in rows.values() if row.status in ("answered", "pass")}
            for one in there if number == rounds - 1 else there - read:  # the last round reads all of them again
                assert reader.detail(one).answer.text == f"text {one}"
            read |= there
    answered = [answer for word, answer in acknowledged if word == "answered"]
    assert len(answered) == len(set(answered)) > 0


@pytest.mark.story
def test_kill_nine_loses_nothing_that_was_acknowledged(path, tmp_path):
    kill_rounds(path, tmp_path, 5, seed=4)


@pytest.mark.nightly
@pytest.mark.parametrize(  # side by side, because to look at a large store takes longer each time
    "seed", [5, 6, pytest.param(7, marks=pytest.mark.nightly), pytest.param(8, marks=pytest.mark.nightly)]
)
def test_kill_nine_again_and_again(path, tmp_path, seed):
    kill_rounds(path, tmp_path, 25, seed)


@pytest.mark.nightly
def test_two_processes_write_while_a_third_reads(path, tmp_path):
    with Writer(path) as writer:
        runs = [writer.plan(new_run(name=f"run {n}"), cells(5_000)).id for n in range(2)]
    children = [process(WRITER, path, run, tmp_path / f"ledger {run}") for run in runs]
    seen = {}
    with Reader(path) as reader:
        since, polls = reader.seq(), 0
        while any(child.poll() is None for child in children) or reader.changed(since):
            for row in reader.changed(since):
                assert row.seq > since
                seen[row.id] = row
                since = row.seq
            polls += 1
        for child in children:
            assert child.communicate()[1] == "", "a writer failed"
            assert child.returncode == 0
        for run in runs:
            total = reader.totals(run)
            assert (total.total, total.passed) == (5_000, 5_000)
        assert len({row.seq for row in seen.values()}) == 10_000
        assert {row.id: row for run in runs for row in reader.all_rows(run)} == seen
        assert polls > 10
    assert_sound(path)


FULL = """
import asyncio, resource, sys
from pathlib import Path
from tui_evals.store.database import StoreError
from tui_evals.store.reader import Reader
from tui_evals.store.records import AnswerRecord, CallRecord
from tui_evals.store.writer import Writer

path, run = Path(sys.argv[1]), int(sys.argv[2])

async def main():
    with Reader(path) as reader, Writer(path) as writer:
        rows = list(reader.all_rows(run))
        wal = Path(f"{path}-wal")
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (wal.stat().st_size + 300_000, hard))
        async def ask(row):
            call = CallRecord(answer=row.id, kind="target", target="t", attempt=1, started=0.0, latency_ms=1.0)
            writer.call(call, run)
            return await writer.answered(row.id, AnswerRecord(text="x" * 20_000, request={}), "answered")
        failed = []
        for start in range(0, len(rows), 5):
            outcomes = await asyncio.gather(*map(ask, rows[start:start + 5]), return_exceptions=True)
            failed += [outcome for outcome in outcomes if outcome is not True]
        assert failed and all(type(outcome) is StoreError for outcome in failed), failed
        print(failed[0], flush=True)
        assert len(failed) == sum(row.status == "pending" for row in reader.all_rows(run))
        try:
            writer.flush()
        except StoreError:
            print("still full", flush=True)
        assert writer.kept == 2 * len(failed)
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        writer.flush()
        assert writer.kept == 0
        assert not await writer.answered(rows[0].id, AnswerRecord(text="late", request={}), "answered")

asyncio.run(main())
"""


def test_a_full_disk_is_told_and_what_was_paid_for_is_kept(path):
    with Writer(path) as writer:
        run = writer.plan(new_run(), cells(60)).id
    done = subprocess.run(
        [sys.executable, "-c", FULL, path, str(run)], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    said_first, still = done.stdout.splitlines()
    assert "What was committed is safe" in said_first
    assert still == "still full"
    rows = statuses(path, run)
    assert {row.status for row in rows.values()} == {"answered"}
    with Reader(path) as reader:
        assert all(reader.detail(answer).answer.text == "x" * 20_000 for answer in rows)
        assert len(list(reader.calls(run))) == 60
    assert_sound(path)


async def test_what_failed_is_kept_once_and_housekeeping_is_not(path, writer, reader, monkeypatch):
    run = writer.plan(new_run(), cells(2))
    first, second = (row.id for row in reader.window(run.id, 0, 2))

    def full(batch):
        problem = sqlite3.OperationalError("database or disk is full")
        problem.sqlite_errorname = "SQLITE_FULL"
        raise problem

    call = CallRecord(answer=first, kind="target", target="t", attempt=1, started=0.0, latency_ms=1.0)
    with monkeypatch.context() as patch:
        patch.setattr(writer._thread, "_transaction", full)
        writer.call(call, run.id)
        answers = (writer.answered(answer, said(), "answered") for answer in (first, second))
        outcomes = await asyncio.gather(*answers, return_exceptions=True)
        assert [str(outcome).partition(". ")[0] for outcome in outcomes] == [f"the disk that holds {path} is full"] * 2
        assert all(type(outcome) is StoreError for outcome in outcomes)
        with pytest.raises(StoreError, match="is full"):
            writer.session_put("this", "is not tried again")
    assert writer.kept == 3
    assert list(reader.calls(run.id)) == []
    writer.session_put("the next write", "takes it along")
    assert writer.kept == 0
    assert [row.status for row in reader.rows([first, second])] == ["answered", "answered"]
    assert list(reader.calls(run.id)) == [call]
    assert reader.session("this") is None
    await writer.scored(first, 1, [judged()], "pass", 100.0)
