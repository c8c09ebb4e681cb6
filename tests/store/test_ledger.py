"""The ledger says what the rows say, whoever changes them and however."""

import asyncio
import contextlib
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.store.helpers import judged, new_run, said
from tui_evals.store import ledger, schema
from tui_evals.store.database import connect, open_store
from tui_evals.store.reader import Reader
from tui_evals.store.records import CallRecord, PlannedAnswer
from tui_evals.store.repair import repairing
from tui_evals.store.writer import Writer

pytestmark = pytest.mark.story


def noted(answer, **given):
    fields = {"kind": "judge", "target": "j", "attempt": 1, "started": 1.0, "latency_ms": 2.0, "cost": 0.1}
    return CallRecord(**{"answer": answer, "code": None, "from_cache": False, **fields, **given})


def planned(items, *, repeats=1, turns=1, targets=1, prompts=1):
    """A plan in which every fifth item has another category."""
    number, answers = 0, []
    for prompt in range(prompts):
        for target in range(targets):
            for item in range(items):
                for repeat in range(repeats):
                    for turn in range(turns):
                        category = "rare" if item % 5 == 4 else ""
                        cell = number // turns
                        answers.append(PlannedAnswer(cell, item, turn, prompt, target, repeat, f"#{item}", category))
                        number += 1
    return answers


def agree(reader, run):
    assert ledger.differences(reader.query, run) == []


STATUSES = ("pass", "fail", "partial", "error", "unjudged", "scored")


@given(
    st.integers(1, 6),
    st.integers(1, 3),
    st.integers(1, 2),
    st.integers(1, 2),
    st.integers(1, 2),
    st.randoms(use_true_random=False),
)
def test_the_ledger_equals_the_rows_after_each_change(tmp_path_factory, items, repeats, turns, targets, prompts, rng):
    path = open_store(tmp_path_factory.mktemp("ledger") / "evals.db")
    with Writer(path) as writer, Reader(path) as reader:
        names = {"targets": tuple("abc"[:targets]), "prompts": tuple("pq"[:prompts])}
        run = writer.plan(
            new_run(**names), planned(items, repeats=repeats, turns=turns, targets=targets, prompts=prompts)
        )
        agree(reader, run.id)
        asyncio.run(_random_course(writer, reader, run.id, rng))


async def _random_course(writer, reader, run, rng):
    ids = list(reader.ids(run))
    writer.run_status(run, "running", started=1.0)
    for _ in range(rng.randint(1, 12)):
        await rng.choice((_ask, _wait, _judge, _note, _rejudge, _again, _reopen, _stop))(writer, run, ids, rng, reader)
        writer.flush()
        agree(reader, run)


async def _ask(writer, run, ids, rng, reader):
    chosen = rng.sample(ids, rng.randint(1, len(ids)))
    writer.running(chosen, 1.0)
    for answer in chosen[: rng.randint(0, len(chosen))]:
        failed = rng.random() < 0.3
        record = said(
            None if failed else "yes",
            code="agentTimeout" if failed else None,
            cost=rng.choice([None, 0.25, 0.5]),
            input_tokens=rng.randint(0, 9),
            from_cache=rng.random() < 0.3,
        )
        await writer.answered(answer, record, "error" if failed else "answered")


async def _wait(writer, run, ids, rng, reader):
    writer.waiting(run, None, rng.choice(ids))


async def _judge(writer, run, ids, rng, reader):
    status = rng.choice(("pass", "fail", "partial", "unjudged", "scored"))
    await writer.scored(rng.choice(ids), 1, [judged()], status, 50.0)


async def _note(writer, run, ids, rng, reader):
    answer = rng.choice([None, rng.choice(ids)])
    kind, code = rng.choice(("judge", "target")), rng.choice([None, "agentResponseUnparseable", "agentTimeout"])
    writer.call(
        noted(answer, kind=kind, code=code, cost=rng.choice([None, 0.25]), may_cost=rng.choice([None, 1.5])), run
    )


async def _rejudge(writer, run, ids, rng, reader):
    (row,) = reader.rows([rng.choice(ids)])
    if row.status in ("pass", "fail"):
        await writer.rejudge(row, reader.run(run).scoring_pass, [judged(score=0.0)], "fail", 0.0, None)


async def _again(writer, run, ids, rng, reader):
    number = writer.begin_pass(run, {})
    for answer in rng.sample(ids, rng.randint(0, len(ids))):
        await writer.scored(answer, number, [judged(score=0.0)], "fail", 0.0)
    writer.flush()
    agree(reader, run)
    (writer.count_pass if rng.random() < 0.5 else writer.drop_pass)(run)


async def _reopen(writer, run, ids, rng, reader):
    writer.reopen_errors(run)


async def _stop(writer, run, ids, rng, reader):
    writer.run_status(run, "interrupted")


@pytest.fixture
def over(writer, reader):
    """A finished run of three answers, the last of which is an error, and the ids of its answers."""
    run = writer.plan(new_run(), planned(3))
    ids = list(reader.ids(run.id))

    async def answer_all():
        for answer in ids[:2]:
            await writer.answered(answer, said(cost=0.1, input_tokens=7), "answered")
            await writer.scored(answer, 1, [judged()], "pass", 100.0)
        await writer.answered(ids[2], said(None, code="agentTimeout"), "error")

    asyncio.run(answer_all())
    writer.call(noted(None), run.id)
    writer.run_status(run.id, "finished", started=1.0, finished=2.0)
    return run, ids


def test_nothing_is_kept_of_a_run_that_was_deleted(writer, reader, over):
    writer.delete_run(over[0])
    assert reader.query("SELECT * FROM ledger") == reader.query("SELECT * FROM item_counts") == []


def test_a_difference_from_the_rows_is_found_and_named(path, reader, over):
    with contextlib.closing(connect(path, write=True)) as connection:
        connection.execute("UPDATE ledger SET passed = passed + 1 WHERE prompt = 0")
    named, *rated = ledger.differences(reader.query, over[0].id)
    assert named == "passed of prompt 0, target 0, category '' is 3, and its rows say 2" and rated


async def test_a_repair_counts_what_it_saved(path):
    with Writer(path) as writer, Reader(path) as reader:
        run = writer.plan(new_run(), planned(1))
        await writer.answered(*reader.ids(run.id), said(), "answered")
        writer.call(noted(None), run.id)
        writer.run_status(run.id, "finished")
    with contextlib.closing(connect(path, write=True)) as connection:
        connection.execute("DELETE FROM calls")  # as if their page could not be read
    with repairing(path) as repair:
        repair.put_in_place()
    with Reader(path) as reader:
        assert reader.totals(run.id).judge_cost == 0.0
        agree(reader, run.id)


def test_a_store_of_schema_16_has_its_runs_counted(path, monkeypatch):
    path.unlink()
    with monkeypatch.context() as patch:
        patch.setattr(schema, "STEPS", schema.STEPS[:16])
        patch.setattr(schema, "VERSION", 16)
        open_store(path)
        with contextlib.closing(connect(path, write=True)) as connection:
            connection.execute(
                "INSERT INTO runs(key, name, suite, source, snapshot, status, control, targets, prompts, tags, "
                "created, total, config, note, scoring_pass) "
                "VALUES ('k', 'n', '', '', '', 'finished', '', '[]', '[]', '[]', 0, 2, '{}', '', 1)"
            )
            for number, status in enumerate(("pass", "fail")):
                connection.execute(
                    "INSERT INTO answers(run, seq, pos, cell, item, turn, prompt, target, repeat, name, category, "
                    "status) VALUES (1, ?1 + 1, ?1, ?1, 0, 0, 0, 0, ?1, 'a', '', ?2)",
                    [number, status],
                )
    with Reader(open_store(path)) as reader:
        assert ledger.groups(reader.query, 1) and reader.query("SELECT count(*) FROM ledger") == [(1,)]
        totals = reader.totals(1)
        assert (totals.passed, totals.rated.items, totals.rated.answers) == (1, 1, 2)
        agree(reader, 1)


def test_columns_are_never_pooled_into_one_rate(writer, reader):
    run = writer.plan(new_run(targets=("a", "b")), planned(3, targets=2))

    async def answer_all():
        for answer in reader.ids(run.id):
            await writer.answered(answer, said(), "answered")
            await writer.scored(answer, 1, [judged()], random.choice(("pass", "fail")), 100.0)

    asyncio.run(answer_all())
    assert reader.totals(run.id).pass_rate is None
    rates = [totals.pass_rate for totals in reader.totals_by(run.id, "column").values()]
    assert [(rate.items, rate.answers) for rate in rates] == [(3, 3), (3, 3)]


@pytest.mark.nightly
def test_answers_to_one_item_are_one_proof(writer, reader):
    once, often = (writer.plan(new_run(), planned(10, repeats=count)) for count in (1, 100))

    async def answer_all():
        for run in (once, often):
            for row in reader.rows(reader.ids(run.id)):
                await writer.answered(row.id, said(), "answered")
                await writer.scored(row.id, 1, [judged()], "pass" if row.item % 2 else "fail", 100.0)

    asyncio.run(answer_all())
    rates = [reader.totals(run.id).pass_rate for run in (once, often)]
    assert [rate.answers for rate in rates] == [10, 1000] and rates[0].interval == pytest.approx(rates[1].interval)


async def test_what_a_commit_costs_does_not_grow_with_the_store(path, writer, reader):
    run = writer.plan(new_run(), planned(4))
    ids = [row.id for row in reader.window(run.id, 0, 4)]
    statements = []
    writer.flush()
    writer._thread._connection.set_trace_callback(statements.append)
    writer.running([ids[0]], 1.0)
    for answer in ids:
        writer.call(noted(answer, kind="target"), run.id)
        await writer.answered(answer, said(), "answered")
        await writer.scored(answer, 1, [judged()], "pass", 100.0)
    writer.flush()
    writer._thread._connection.set_trace_callback(None)
    with contextlib.closing(connect(path)) as connection:
        asked = [each for each in statements if each.lstrip().startswith(("SELECT", "INSERT", "UPDATE"))]
        plans = {line[-1]: each for each in asked for line in connection.execute(f"EXPLAIN QUERY PLAN {each}")}
    assert any("FROM calls" in each for each in asked)
    read_whole = [
        line for line in plans if line.startswith("SCAN") and "json_each" not in line and "SCAN j " not in line
    ]
    assert read_whole == [], [plans[line] for line in read_whole]
