"""What is written, and when it counts as written."""

import asyncio
import json
import logging
import resource
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from tests.store.helpers import cells, judged, new_run, said
from tests.store.passes import new_pass
from tui_evals.garbage import give_memory_back
from tui_evals.store import writer_thread
from tui_evals.store.database import StoreError
from tui_evals.store.details import group_scores, read_scores, scores_of
from tui_evals.store.reader import Reader
from tui_evals.store.records import AnswerRecord, CallRecord, Settled
from tui_evals.store.results import CacheKey
from tui_evals.store.writer import Writer, snapshot_hash


def test_a_plan_is_seen_when_it_is_whole(path, writer, reader):
    def answers():
        for n, cell in enumerate(cells(12_000)):
            if n == 11_000:
                assert reader.runs() == []
            yield cell

    run = writer.plan(new_run(tags=("a",), config={"x": 1}), answers())
    assert (run.total, run.status, run.tags, run.config, run.scoring_pass) == (12_000, "planned", ("a",), {"x": 1}, 1)
    assert reader.runs() == [run]
    assert [row.pos for row in reader.all_rows(run.id)] == list(range(12_000))
    assert reader.seq() == 12_000


def test_a_plan_that_breaks_off_leaves_nothing(path, writer, reader):
    def answers():
        yield from cells(6_000)
        raise RuntimeError("no more")

    with pytest.raises(RuntimeError):
        writer.plan(new_run(), answers())
    assert reader.query("SELECT count(*) FROM answers") == reader.query("SELECT count(*) FROM runs") == [(0,)]


async def test_an_answer_is_on_disk_when_the_call_returns(path, writer, reader):
    run = writer.plan(new_run(), cells(2))
    first, second = (row.id for row in reader.window(run.id, 0, 2))
    writer.running([first], 5.0)
    record = said(
        "one\n two",
        tool_calls=({"id": "1", "name": "f", "arguments": "{}"},),
        input_tokens=3,
        output_tokens=4,
        cost=0.5,
        latency_ms=7.0,
        attempts=2,
        model="m",
        finish_reason="stop",
        diagnostics={"a": [1]},
    )
    assert await writer.answered(first, record, "answered")
    detail = reader.detail(first)
    assert detail.answer == record
    row = detail.row
    assert (row.status, row.started, row.preview, row.cost, row.attempts) == ("answered", 5.0, "one two", 0.5, 2)
    failure = said(None, code="agentTimeout", message="no answer in 60 s")
    assert await writer.answered(second, failure, "error")
    detail = reader.detail(second)
    assert (detail.answer, detail.row.code, detail.row.preview) == (failure, "agentTimeout", "no answer in 60 s")


async def test_the_first_answer_wins(path, writer, reader, caplog):
    run = writer.plan(new_run(), cells(1))
    (row,) = reader.window(run.id, 0, 1)
    caplog.set_level(logging.INFO)
    with Writer(path) as other:
        outcomes = await asyncio.gather(
            *(door.answered(row.id, said(f"text {n}"), "answered") for n, door in enumerate([writer, other] * 3))
        )
    assert outcomes.count(True) == 1
    assert reader.detail(row.id).answer.text == f"text {outcomes.index(True)}"
    assert reader.query("SELECT count(*) FROM bodies") == [(1,)]
    assert caplog.text.count("the later one is dropped") == 5
    writer.running([row.id], 9.0)
    writer.flush()
    assert reader.rows([row.id])[0].status == "answered"


async def test_what_is_at_hand_is_stored_with_its_verdict_in_one_change(writer, reader):
    run = writer.plan(new_run(), cells(4))
    ids, before = reader.ids(run.id), reader.seq()
    failed = AnswerRecord(text=None, request={}, code="agentRequestFailed", message="no")
    await writer.settled(
        1,
        [
            Settled(ids[0], said("yes"), [judged(), judged("Other", 0.0)], "fail", 50.0),
            Settled(ids[1], failed, None, "error", None),
            Settled(ids[2], said("yes"), None, "unjudged", None),
        ],
    )
    rows = reader.window(run.id, 0, 4)
    assert [(row.status, row.score) for row in rows] == [
        ("fail", 50.0),
        ("error", None),
        ("answered", None),
        ("pending", None),
    ]
    assert [record.key for record in reader.detail(ids[0]).scores[1]] == ["Match", "Other"]
    assert reader.seq() == before + 3


async def test_an_answer_that_was_there_already_takes_no_verdict_of_a_later_one(writer, reader):
    run = writer.plan(new_run(), cells(2))
    answer, other = reader.ids(run.id)
    await writer.answered(answer, said("the first"), "answered")
    later = Settled(answer, said("a later one"), [judged()], "pass", 100.0)
    assert not await writer.settled_one(1, later, None)
    assert await writer.settled_one(1, replace(later, answer=other), CacheKey("k", "1", "demo"))
    await writer.settled(1, [later])
    detail = reader.detail(answer)
    assert (detail.answer.text, detail.row.status, detail.row.score) == ("the first", "answered", None)
    assert detail.scores == {} and reader.cache_get("k").answer.text == "a later one"
    assert reader.detail(other).row.status == "pass"


async def test_a_batch_commits_as_one_and_wakes_the_loop_once(path, writer, reader, monkeypatch):
    run = writer.plan(new_run(), cells(200))
    ids = [row.id for row in reader.window(run.id, 0, 200)]
    loop, woken, seen = asyncio.get_running_loop(), [], []
    monkeypatch.setattr(
        writer._thread,
        "_transaction",
        lambda batch, real=writer._thread._transaction: seen.append(len(batch)) or real(batch),
    )
    monkeypatch.setattr(
        loop, "call_soon_threadsafe", lambda *a, real=loop.call_soon_threadsafe: woken.append(a) or real(*a)
    )
    await asyncio.gather(*(writer.answered(answer, said(), "answered") for answer in ids))
    assert sum(seen) == 200
    assert len(woken) == len(seen) < 20


async def test_scores_share_the_commit_of_the_next_answer(path, writer, reader, monkeypatch):
    monkeypatch.setattr(writer_thread, "_UNHURRIED", 600.0)
    run = writer.plan(new_run(), cells(2))
    first, second = (row.id for row in reader.window(run.id, 0, 2))
    assert await writer.answered(first, said(), "answered")
    together = []
    real = writer._thread._transaction
    monkeypatch.setattr(writer._thread, "_transaction", lambda batch: together.append(len(batch)) or real(batch))
    scored = asyncio.create_task(writer.scored(first, 1, [judged()], "pass", 100.0))
    await asyncio.sleep(0)
    assert await writer.answered(second, said(), "answered")
    await scored
    assert together == [2]
    assert [row.status for row in reader.window(run.id, 0, 2)] == ["pass", "answered"]


async def test_a_full_queue_makes_the_producer_wait(path, writer, reader, monkeypatch):
    monkeypatch.setattr("tui_evals.store.writer_thread._QUEUE", 10)
    run = writer.plan(new_run(), cells(300))
    most = []
    real = writer._thread._transaction
    monkeypatch.setattr(writer._thread, "_transaction", lambda batch: most.append(len(batch)) or real(batch))
    ids = [row.id for row in reader.window(run.id, 0, 300)]
    assert all(await asyncio.gather(*(writer.answered(answer, said(), "answered") for answer in ids)))
    assert max(most) <= 10


async def test_one_bad_row_does_not_take_its_neighbours_along(path, writer, reader):
    run = writer.plan(new_run(), cells(2))
    good, bad = (row.id for row in reader.window(run.id, 0, 2))
    outcomes = await asyncio.gather(
        writer.answered(good, said(), "answered"),
        writer.answered(bad, said(cost="a" * 5, attempts=None), "answered"),
        return_exceptions=True,
    )
    assert outcomes[0] is True
    assert isinstance(outcomes[1], Exception)
    assert [row.status for row in reader.rows([good, bad])] == ["answered", "pending"]


async def test_a_pass_counts_for_all_answers_at_once_and_not_before(writer, reader):
    run = writer.plan(new_run(), cells(2))
    ids = [row.id for row in reader.window(run.id, 0, 2)]
    for answer in ids:
        await writer.answered(answer, said(), "answered")
        await writer.scored(answer, 1, [judged()], "pass", 100.0)
    number = writer.begin_pass(run.id, {"judge": "gpt"})
    await writer.scored(ids[0], number, [judged(score=0.0)], "fail", 0.0)
    run = reader.find_run("last")
    assert (run.scoring_pass, run.staged_pass, run.staged) == (1, 2, 1)
    assert reader.staged_pass(run) == ({"judge": "gpt"}, {ids[0]})
    assert reader.totals(run.id).passed == 2 and list(reader.detail(ids[0]).scores) == [1]
    assert [each.number for each in reader.passes(run.id)] == [1]
    await writer.scored(ids[1], number, [judged(score=0.0)], "fail", 0.0)
    before = reader.seq()
    writer.count_pass(run.id)
    run = reader.find_run("last")
    assert (run.scoring_pass, run.staged_pass, run.staged) == (2, 0, 0)
    assert reader.totals(run.id).failed == 2 and {row.id for row in reader.changed(before)} == set(ids)
    assert list(reader.detail(ids[0]).scores) == [1, 2]


async def test_a_pass_that_is_dropped_or_begun_anew_leaves_nothing(writer, reader):
    run = writer.plan(new_run(), cells(1))
    (answer,) = (row.id for row in reader.window(run.id, 0, 1))
    await writer.answered(answer, said(), "answered")
    await writer.scored(answer, 1, [judged()], "pass", 100.0)
    for end in (writer.drop_pass, lambda run: writer.begin_pass(run, {}), writer.count_pass):
        await writer.scored(answer, writer.begin_pass(run.id, {}), [judged(score=0.0)], "fail", 0.0)
        end(run.id)
        assert reader.totals(run.id).passed == (end != writer.count_pass)
    assert list(reader.detail(answer).scores) == [1, 2]
    writer.drop_pass(run.id)
    assert reader.find_run("last").scoring_pass == 2


async def test_scores_are_appended_pass_by_pass(path, writer, reader):
    run = writer.plan(new_run(), cells(2))
    first, second = (row.id for row in reader.window(run.id, 0, 2))
    for answer in (first, second):
        await writer.answered(answer, said(), "answered")
    record = judged("Match", 0.0, threshold=0.5, label="no", reason="differs", details={"at": 3}, weight=0.5)
    await writer.scored(first, 1, [record, judged("Relevance", None)], "fail", 0.0)
    await writer.scored(first, 1, [judged("Match", 1.0)], "fail", 0.0)
    assert reader.detail(first).scores == {1: (record, judged("Relevance", None))}
    assert [row.status for row in reader.window(run.id, 0, 2)] == ["fail", "answered"]
    assert [row.id for row in reader.pending(run.id)] == [second]
    number = new_pass(writer, run.id, {"judge": "gpt"})
    assert number == reader.find_run("last").scoring_pass == 2
    await writer.scored(first, 2, [judged("Match", 1.0)], "pass", 100.0)
    await writer.group_scored(run.id, 2, 0, 0, judged("Best", 0.7))
    assert reader.detail(first).scores == {1: (record, judged("Relevance", None)), 2: (judged("Match", 1.0),)}
    assert list(read_scores(reader, run.id)) == [(first, judged("Match", 1.0))]
    assert len(list(read_scores(reader, run.id, 1))) == 2
    assert scores_of(reader, [second, first], 2) == {first: (judged("Match", 1.0),)}
    assert [(group.item, group.record) for group in group_scores(reader, run.id)] == [(0, judged("Best", 0.7))]
    assert [(each.number, each.config) for each in reader.passes(run.id)] == [(1, {}), (2, {"judge": "gpt"})]
    assert reader.window(run.id, 0, 1)[0].score == 100.0


async def test_an_answer_and_its_place_in_the_cache_are_committed_together(path, writer, reader):
    run = writer.plan(new_run(), cells(2))
    first, _second = (row.id for row in reader.window(run.id, 0, 2))
    record = said("kept", cost=0.1, latency_ms=5.0)
    await writer.answered(first, record, "answered", cache=CacheKey("k1", "recipe 1", "demo"))
    await writer.answered(first, said("late"), "answered", cache=CacheKey("k1", "recipe 1", "demo"))
    await writer.cache_put(CacheKey("k2", "recipe 2", "judge"), said("graded"))
    kept = reader.cache_get("k1")
    assert (kept.answer, kept.recipe, kept.target) == (replace(record, request={}), "recipe 1", "demo")
    assert reader.cache_get("k2").answer.text == "graded"
    assert reader.cache_get("k3") is None
    assert reader.cache_info().entries == 2
    writer.delete_run(run)
    assert reader.cache_get("k1").answer == replace(record, request={})
    assert writer.cache_clear() == 2
    assert reader.cache_get("k1") is None
    assert reader.query("SELECT count(*) FROM bodies") == [(0,)]


async def test_deleting_a_run_takes_all_of_it_and_nothing_else(path, writer, reader, monkeypatch):
    monkeypatch.setattr("tui_evals.store.housekeeping._PAGE", 2)
    runs = [writer.plan(new_run(), cells(5)) for _ in range(2)]
    for run in runs:
        for row in reader.window(run.id, 0, 5):
            await writer.answered(row.id, said(), "answered")
            await writer.scored(row.id, 1, [judged()], "pass", 100.0)
            writer.call(
                CallRecord(answer=row.id, kind="target", target="demo", attempt=1, started=1.0, latency_ms=2.0), run.id
            )
        writer.label(row.id, "pass", "ann")
    generation = reader.generation()
    writer.delete_run(runs[0])
    assert reader.generation() > generation
    assert [run.id for run in reader.runs()] == [runs[1].id]
    counts = {
        table: reader.query(f"SELECT count(*) FROM {table}")[0][0]
        for table in ("answers", "bodies", "scores", "calls", "labels", "passes")
    }
    assert counts == {"answers": 5, "bodies": 5, "scores": 5, "calls": 5, "labels": 1, "passes": 1}
    with pytest.raises(LookupError, match="no longer in the store"):
        writer.control(runs[0].id, "stop")
    assert writer.plan(new_run(), cells(1)).id not in {run.id for run in runs}


def test_states_names_and_words_of_control(path, writer, reader):
    run = writer.plan(new_run(), cells(1))
    version = reader.data_version()
    writer.control(run.id, "pause")
    assert reader.data_version() != version
    assert reader.control(run.id) == "pause"
    writer.edit(run.id, name="better", tags=["x", "y"], note="why")
    writer.edit(run.id)
    writer.run_status(run.id, "finished", finished=9.0, control="")
    writer.heartbeat(run.id)
    writer.flush()
    found = reader.find_run("better")
    assert (found.tags, found.note, found.status, found.finished, found.control) == (
        ("x", "y"),
        "why",
        "finished",
        9.0,
        "",
    )
    assert found.heartbeat > 0
    with pytest.raises(ValueError, match="no total"):
        writer.run_status(run.id, "finished", total=3)


def test_snapshots_are_kept_once_by_what_they_say(path, writer, reader):
    document = {"items": [{"prompt": "é \ud800", "b": 1}], "a": None}
    digest = writer.snapshot(document, "evals.json")
    again = writer.snapshot({"a": None, "items": [{"b": 1, "prompt": "é \ud800"}]}, "other.json")
    assert digest == again == snapshot_hash(document)
    assert list(reader.snapshot(digest)) == ["items", "a"]
    assert reader.snapshot(digest) == document
    with pytest.raises(StoreError, match=r"is missing in .* changed or damaged"):
        reader.snapshot("f" * 64)


@pytest.mark.parametrize("verdict", ["pass", None])
def test_a_verdict_given_or_taken_back_is_a_change_of_its_answer(path, writer, reader, verdict):
    run = writer.plan(new_run(), cells(3))
    row = reader.window(run.id, 1, 1)[0]
    before = reader.seq()
    writer.label(row.id, verdict, "ann")
    assert [(found.id, found.status) for found in reader.changed(before, run)] == [(row.id, row.status)]


def test_labels_drafts_and_session(path, writer, reader):
    run = writer.plan(new_run(), cells(2))
    first, second = (row.id for row in reader.window(run.id, 0, 2))
    writer.label(first, "pass", "ann")
    writer.label(first, "fail", "ann", note="on second thought")
    writer.label(first, "pass", "bob", evaluator="Match", blind=True)
    writer.label(second, "pass", "ann")
    writer.label(second, None, "ann")
    assert [label.blind for label in reader.labels(run.id)] == [False, True]
    found = [
        (label.answer, label.evaluator, label.verdict, label.author, label.note) for label in reader.labels(run.id)
    ]
    assert found == [(first, None, "fail", "ann", "on second thought"), (first, "Match", "pass", "bob", "")]
    assert reader.detail(first).labels == tuple(reader.labels(run.id))
    with pytest.raises(LookupError):
        writer.label(99, "pass", "ann")
    writer.draft_put("a.json", "d1", "{")
    writer.draft_put("a.json", "d2", "{}")
    writer.draft_put("b.json", "d3", "[]")
    writer.draft_drop("b.json")
    assert [(draft.file, draft.digest, draft.data) for draft in reader.drafts()] == [("a.json", "d2", "{}")]
    writer.session_put("panes", {"open": ["a"]})
    assert reader.session("panes") == {"open": ["a"]}
    assert reader.session("nothing") is None


@pytest.mark.story
def test_what_a_long_draft_took_is_given_back_with_it(writer):
    def held():
        give_memory_back()
        return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()

    writer.draft_put("a.json", "d1", "x")
    before = held()
    writer.draft_put("a.json", "d2", "x" * 30_000_000)
    kept = held() - before
    writer.draft_drop("a.json")
    assert held() - before < 15_000_000 < kept


async def test_any_text_a_model_can_write_comes_back_as_it_was(path, writer, reader):
    texts = ["", "\ud800 half", "nul \0 nul", "\x1b[31m", "quote \" \\ '", "𝄞" * 300, "x" * 1_000_000]
    run = writer.plan(new_run(), cells(len(texts)))
    for row, text in zip(reader.window(run.id, 0, len(texts)), texts, strict=True):
        record = said(text, request={"messages": [text[:50]]}, diagnostics={"t": text[:50]})
        assert await writer.answered(row.id, record, "answered")
        assert reader.detail(row.id).answer == record
        await writer.scored(row.id, 1, [judged(reason=text[:50], label=text[:50])], "pass", 1.0)


CANARY = 'canary-7f3a/9b"é'


async def test_no_secret_reaches_the_disk(tmp_path, path):
    shaped = "sk-proj-abcdefgh12345678"
    with Writer(path, secrets=[CANARY, "short"]) as writer, Reader(path) as reader:
        digest = writer.snapshot({"items": [{"prompt": f"key {CANARY}"}]}, "evals.json")
        run = writer.plan(
            new_run(
                name=f"n {CANARY}",
                source=CANARY,
                targets=(CANARY,),
                snapshot=digest,
                config={"url": f"http://h/v1?api_key={shaped}", "key": CANARY, "header": f"Bearer {shaped}"},
            ),
            cells(2),
        )
        first, second = (row.id for row in reader.window(run.id, 0, 2))
        await writer.answered(
            first,
            said(f"{'x' * 70}{CANARY} short", request={"m": CANARY}, diagnostics={"d": [CANARY]}),
            "answered",
            cache=CacheKey("k", CANARY, "demo"),
        )
        message = f"401: {CANARY} or {json.dumps(CANARY)} with Authorization: Bearer {shaped} refused"
        await writer.answered(second, said(None, code="agentAuthenticationError", message=message), "error")
        await writer.scored(first, 1, [judged(reason=CANARY, details={"raw": CANARY}, label=CANARY)], "pass", 1.0)
        writer.call(
            CallRecord(answer=first, kind="judge", target="j", attempt=1, started=0.0, latency_ms=1.0, message=message),
            run.id,
        )
        new_pass(writer, run.id, {"key": CANARY, "url": f"https://user:{shaped}@host"})
        writer.label(first, "pass", "ann", note=CANARY)
        writer.edit(run.id, note=CANARY)
        writer.flush()
        assert reader.detail(first).answer.text == f"{'x' * 70}[redacted] short"
        assert reader.detail(second).answer.message.startswith("401: [redacted] or")
        assert reader.find_run("last").config["key"] == "[redacted]"
        for file in path.parent.rglob("*"):
            content = file.read_bytes() if file.is_file() else b""
            assert b"canary" not in content
            assert shaped.encode() not in content


async def test_a_waiter_that_goes_away_does_not_stop_the_commit(path, writer, reader):
    run = writer.plan(new_run(), cells(1))
    (row,) = reader.window(run.id, 0, 1)
    task = asyncio.create_task(writer.answered(row.id, said("kept"), "answered"))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    writer.flush()
    assert reader.detail(row.id).answer.text == "kept"


def test_threads_write_through_one_door(path, writer, reader):
    threads = [threading.Thread(target=writer.session_put, args=(f"k{n}", n)) for n in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [reader.session(f"k{n}") for n in range(20)] == list(range(20))


def test_a_closed_writer_says_so(path):
    writer = Writer(path)
    writer.close()
    writer.close()
    with pytest.raises(StoreError, match="closed already"):
        writer.session_put("a", 1)


async def test_a_setting_that_is_taken_for_a_secret_breaks_no_json(path):
    with Writer(path, secrets=["200000", "ollama"]) as writer, Reader(path) as reader:
        digest = writer.snapshot({"items": [{"prompt": "ollama says 200000", "weight": 200000}]}, "evals.json")
        run = writer.plan(new_run(snapshot=digest), cells(1))
        (row,) = reader.window(run.id, 0, 1)
        request = {"params": {"max_tokens": 200000}, "messages": ["ollama"]}
        await writer.answered(row.id, said("so", request=request, input_tokens=200000), "answered")
        await writer.scored(row.id, 1, [judged(details={"count": 200000, "said": "200000"})], "pass", 1.0)
        found = reader.detail(row.id)
        assert found.answer.request == {"params": {"max_tokens": 200000}, "messages": ["[redacted]"]}
        assert found.answer.input_tokens == 200000
        assert found.scores[1][0].details == {"count": 200000, "said": "[redacted]"}
        assert reader.snapshot(digest)["items"] == [{"prompt": "[redacted] says [redacted]", "weight": 200000}]


async def test_a_crowd_at_the_door_is_let_in_bit_by_bit_and_nobody_is_forgotten(path, monkeypatch):
    monkeypatch.setattr(writer_thread, "_QUEUE", 3)
    with Writer(path) as writer, Reader(path) as reader:
        run = writer.plan(new_run(), cells(60))
        rows = reader.window(run.id, 0, 60)
        tasks = [asyncio.create_task(writer.answered(row.id, said("so"), "answered")) for row in rows]
        gone = tasks[1::3]
        while not any(task.done() for task in tasks):
            await asyncio.sleep(0)
        for task in gone:
            task.cancel()
        done = await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), 60)
        assert all(outcome is True for number, outcome in enumerate(done) if number % 3 != 1)
        assert reader.totals(run.id).pending <= len(gone)


async def test_the_note_of_a_call_shares_the_next_commit_and_does_not_wait_long_for_it(writer, reader, monkeypatch):
    run = writer.plan(new_run(), cells(1))
    (row,) = reader.window(run.id, 0, 1)
    call = CallRecord(answer=row.id, kind="target", target="demo", attempt=1, started=0.0, latency_ms=1.0)
    writer.be_patient(lambda trouble: None)
    batches = []
    real = writer._thread._transaction
    monkeypatch.setattr(writer._thread, "_transaction", lambda batch: batches.append(len(batch)) or real(batch))
    writer.call(call, run.id)
    assert await writer.answered(row.id, said(), "answered")
    assert batches == [2]
    writer.call(call, run.id)  # of a call that failed there is no answer
    async with asyncio.timeout(60):
        while len(list(reader.calls(run.id))) < 2:
            await asyncio.sleep(0.01)
