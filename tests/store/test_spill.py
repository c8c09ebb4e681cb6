"""What could not be stored: it waits in a file, is stored once, and is told to whoever looks."""

import asyncio
import json
import sqlite3
import time

import pytest

from tests.store.helpers import cells, judged, new_run, said
from tui_evals.present.runs import wait_sentence
from tui_evals.store import identity, spill
from tui_evals.store.connection import hold, run_lock
from tui_evals.store.database import StoreError
from tui_evals.store.details import group_scores
from tui_evals.store.records import CallRecord, Settled, StoreWait
from tui_evals.store.results import CacheKey
from tui_evals.store.writer import Writer
from tui_evals.tui.watch import Watch


def full(batch):
    problem = sqlite3.OperationalError("database or disk is full")
    problem.sqlite_errorname = "SQLITE_FULL"
    raise problem


async def heard(told):
    while not told:
        await asyncio.sleep(0.001)
    return told.pop(0)


async def answer(writer, run, row):
    call = CallRecord(answer=row.id, kind="target", target="t", attempt=1, started=0.0, latency_ms=1.0)
    writer.call(call, run.id)
    writer.call(call, run.id)  # two that are alike are two
    key = CacheKey(f"key {row.id}", "recipe", "t")
    first = await writer.answered(row.id, said("half \ud800"), "answered", cache=key)
    await writer.scored(row.id, 1, [judged()], "pass", 100.0)
    await writer.group_scored(run.id, 1, row.item, 0, judged("Together"))
    return first


async def test_a_patient_writer_waits_and_tells_when_it_goes_on(path, writer, reader, monkeypatch):
    run, told = writer.plan(new_run(), cells(2)), []
    writer.be_patient(told.append)
    rows = reader.window(run.id, 0, 2)
    with monkeypatch.context() as patch:
        patch.setattr(writer._thread, "_transaction", full)
        tasks = [asyncio.create_task(answer(writer, run, row)) for row in rows]
        assert (await heard(told)).code == "full"
        with pytest.raises(StoreError, match="is full"):
            writer.session_put("this", "is not kept waiting")
        assert not any(task.done() for task in tasks)
    assert await asyncio.gather(*tasks) == [True, True]
    assert await heard(told) is None and told == []
    assert [row.status for row in reader.all_rows(run.id)] == ["pass", "pass"]
    assert len(list(reader.calls(run.id))) == 4


async def test_what_is_spilled_is_stored_once_even_after_a_kill_before_its_file_is_gone(
    path, writer, reader, monkeypatch
):
    run, told = writer.plan(new_run(), cells(3)), []
    writer.be_patient(told.append)
    rows = reader.window(run.id, 0, 3)
    with monkeypatch.context() as patch:
        patch.setattr(writer._thread, "_transaction", full)
        tasks = [asyncio.create_task(answer(writer, run, row)) for row in rows[:2]]
        await heard(told)
        kept = writer.spill(run)
        assert await asyncio.gather(*tasks, answer(writer, run, rows[2])) == [True] * 3
    (file,) = kept.files
    assert await writer.take_spilled(run) == 0 and file.exists()  # more may come, as of a battle that has not ended
    kept.release()
    assert kept.answers == 3 and file.parent == path.parent and file.stat().st_mode & 0o777 == 0o600
    content = file.read_bytes()
    with hold(run_lock(path, run.key)):
        writer.run_status(run.id, "running")
    assert reader.run(run.id).code == "store" and str(file) in reader.run(run.id).message
    with Writer(path) as another:
        assert await another.take_spilled(run) == 3
        another.flush()
        assert not file.exists() and reader.session(f"stored {file.name}") is None
        another.write("INSERT INTO session VALUES (?, 'true')", f"stored {file.name}")
        file.write_bytes(content + b'["called", [1, 2')
        assert await another.take_spilled(run) == 0 and not file.exists()
    assert [row.status for row in reader.all_rows(run.id)] == ["pass"] * 3
    assert len(list(reader.calls(run.id))) == 6 and len(group_scores(reader, run.id)) == 3
    assert reader.detail(rows[0].id).answer.text == "half \ud800"
    assert reader.cache_info().entries == 3


async def test_a_verdict_that_came_with_its_answer_is_spilled_with_it(path, writer, reader, monkeypatch):
    run, told = writer.plan(new_run(), cells(1)), []
    writer.be_patient(told.append)
    (row,) = reader.window(run.id, 0, 1)
    with monkeypatch.context() as patch:
        patch.setattr(writer._thread, "_transaction", full)
        task = asyncio.create_task(writer.settled(1, [Settled(row.id, said(), [judged()], "pass", 100.0)]))
        await heard(told)
        kept = writer.spill(run)
        await task
    kept.release()
    with Writer(path) as another:
        assert await another.take_spilled(run) == 1
    assert [(row.status, row.score) for row in reader.all_rows(run.id)] == [("pass", 100.0)]
    assert [record.key for record in reader.detail(row.id).scores[1]] == ["Match"]


async def test_a_file_of_another_run_of_that_name_is_left_where_it_is(path, writer):
    run = writer.plan(new_run(), cells(1))
    file = path.parent / f"unstored-{run.key}-x.jsonl"
    file.write_text(json.dumps({"run": run.key, "created": 1.0}) + "\n")
    with pytest.raises(StoreError, match="is of another run"):
        await writer.take_spilled(run)
    assert file.exists()
    writer.delete_run(run)
    assert not file.exists()


def test_a_place_without_room_is_passed_over_and_nothing_of_it_stays(path, writer, tmp_path, monkeypatch):
    run = writer.plan(new_run(), cells(1))
    places = [tmp_path / name for name in ("missing", "there")]
    (tmp_path / "missing").write_text("no folder")
    monkeypatch.setattr(spill, "spill_places", lambda store: places)
    kept = spill.Spill(path, run)
    kept.add([(spill.results.called, (1, 2))])
    assert [file.parent for file in kept.files] == [tmp_path / "there"]
    monkeypatch.setattr(spill, "spill_places", lambda store: places[:1])
    monkeypatch.setattr(spill, "_appended", lambda file, lines: False)
    with pytest.raises(OSError):
        kept.add([(spill.results.called, (1, 2))])


def test_whoever_watches_sees_that_a_run_cannot_store_though_nothing_is_committed(path, writer):
    run = writer.plan(new_run(), cells(1))
    wait = StoreWait(code="locked", path=str(path), cause="process 7 (backup)", until=time.time() + 100)
    with hold(run_lock(path, run.key)) as lock:
        writer.run_status(run.id, "running")
        watch = Watch(path)
        watch.open_run(run.id)
        watch.poll()
        assert not watch.poll()
        lock.note(wait)
        assert watch.poll().run and watch.run.waiting == wait
        assert wait_sentence(watch.run, wait.until - 100) == (
            f"asking waits, because process 7 (backup) keeps {path} locked: let it finish, or stop it; in 2 min the "
            "run ends, to be resumed"
        )
        lock.note(None)
        assert watch.poll().run and watch.run.waiting is None
        watch.close()


async def test_rows_that_an_earlier_version_kept_are_stored_with_the_counts_it_did_not_know(path, writer, reader):
    run = writer.plan(new_run(), cells(1))
    (row,) = reader.window(run.id, 0, 1)
    call = [run.id, row.id, "target", "t", 1, 0.0, 1.0, 5, 6, 0.1, None, None, False, None]
    values = ["answered", 5, 6, 0.1, 1.0, 1, False, False, None, "said", ""]
    kept = {"answer": row.id, "values": values, "body": ["{}", "said", "{}"], "cache": None, "now": 1.0}
    lines = [{"store": str(path), "run": run.key, "created": run.created}, ["answered", kept], ["called", call]]
    file = path.parent / f"unstored-{run.key}-x.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert await writer.take_spilled(run) == 1
    (stored,) = reader.calls(run.id)
    assert (stored.output_tokens, stored.cached_tokens, reader.window(run.id, 0, 1)[0].reasoning_tokens) == (6, 0, 0)


async def test_what_was_kept_of_a_run_that_a_repair_left_empty_goes_into_the_cache(path, writer, reader):
    """Nothing can be stored in it, and whoever asks the same in another run is not to pay again."""
    lost, other = writer.plan(new_run(), cells(1)), writer.plan(new_run(), cells(1))
    (row,) = reader.window(lost.id, 0, 1)
    values = ["answered", 5, 6, 0.1, 1.0, 1, False, False, None, "said", ""]
    cache = {"key": "k", "recipe": "1", "target": "t"}
    kept = {"answer": row.id, "values": values, "body": ["{}", "said", "{}"], "cache": cache, "now": 1.0}
    head = {"store": str(path), "number": identity.noticed_number(path), "run": lost.key, "created": lost.created}
    lines = [head, ["answered", kept]]
    file = path.parent / f"unstored-{lost.key}-x.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    await writer.take_spilled(other)
    assert file.exists() and reader.cache_get("k") is None
    writer.write("DELETE FROM answers WHERE run = ?", lost.id)
    await writer.take_spilled(other)
    assert not file.exists() and reader.cache_get("k").answer.text == "said"
