"""What is seen of a run: windows, changes, orders, failures; under deletions, other runs and another database."""

import asyncio
import contextlib
import os
import random
from array import array

import pytest

from tests.store.helpers import cells, judged, new_run, said
from tests.store.passes import new_pass
from tui_evals.store import details
from tui_evals.store.connection import hold, run_lock
from tui_evals.store.database import StoreError, connect, open_store
from tui_evals.store.filters import FilterError
from tui_evals.store.reader import Reader
from tui_evals.store.records import PlannedAnswer
from tui_evals.store.schema import back_up
from tui_evals.store.writer import Writer
from tui_evals.tui import watch as questions
from tui_evals.tui import watch as watch_module
from tui_evals.tui.watch import PAGE, AnswerOrder, Watch

pytestmark = pytest.mark.story


@pytest.fixture
def watch(path):
    watch = Watch(path)
    yield watch
    watch.close()


def answer(writer, ids, status="pass", score=100.0, text="yes", number=1, **given):
    """Answer and judge, as a run does."""

    async def give():
        for one in ids:
            await writer.answered(one, said(text, **given), "error" if status == "error" else "answered")
            if status != "error":
                records = [judged(score=score / 100)]
                await writer.scored(one, number, records, status, score)

    asyncio.run(give())


def ids_of(path, run):
    with Reader(path) as reader:
        return list(reader.ids(run.id))


def put_in_place(file, path):
    for end in ("-wal", "-shm"):
        path.with_name(path.name + end).unlink(missing_ok=True)
    os.replace(file, path)


def shown(watch):
    return [row.id if (row := watch.row(number)) else None for number in range(len(watch))]


async def test_a_run_opens_in_the_order_of_the_plan_whatever_its_length(watch, writer):
    run = writer.plan(new_run(), cells(PAGE * 3 + 5))
    watch.open_run(run.id)
    assert len(watch) == PAGE * 3 + 5
    assert [watch.row(number).pos for number in (0, PAGE - 1, PAGE, PAGE * 3 + 4)] == [0, PAGE - 1, PAGE, PAGE * 3 + 4]
    assert watch.row(-1) is None
    assert watch.row(len(watch)) is None


def test_the_first_look_says_that_there_is_something_and_the_next_that_nothing_changed(watch, writer):
    watch.open_run(writer.plan(new_run(), cells(2)).id)
    assert watch.poll().run
    assert not watch.poll()


def test_a_look_finds_exactly_the_answers_that_changed_and_the_rows_show_them(watch, writer, path):
    run = writer.plan(new_run(), cells(5))
    ids = ids_of(path, run)
    watch.open_run(run.id)
    watch.poll()
    before = [watch.row(number).status for number in range(5)]
    answer(writer, ids[1:3])
    found = watch.poll()
    assert before == ["pending"] * 5
    assert [row.id for row in found.rows] == ids[1:3]
    assert [watch.row(number).status for number in range(5)] == ["pending", "pass", "pass", "pending", "pending"]
    assert not watch.poll()


def test_changes_before_the_run_was_opened_are_not_told_but_shown(watch, writer, path):
    run = writer.plan(new_run(), cells(3))
    answer(writer, ids_of(path, run)[:1])
    watch.open_run(run.id)
    assert watch.poll().rows == []
    assert watch.row(0).status == "pass"


def test_another_run_going_on_is_no_change_of_this_one_and_costs_each_look_nothing_later(
    watch, writer, path, monkeypatch
):
    here, there = writer.plan(new_run(), cells(2)), writer.plan(new_run(), cells(20))
    watch.open_run(here.id)
    watch.poll()
    asked = []
    changed = watch.reader.changed
    monkeypatch.setattr(watch.reader, "changed", lambda since, run: asked.append(since) or changed(since, run))
    for one in ids_of(path, there):
        answer(writer, [one])
        found = watch.poll()
        assert found.runs
        assert not found.rows
        assert not found.run
    assert asked == sorted(set(asked))  # each look begins where the one before ended
    answer(writer, ids_of(path, here)[:1])
    assert [row.run for row in watch.poll().rows] == [here.id]


def test_a_look_says_whether_anything_happened_elsewhere(watch, writer, path):
    here, there = writer.plan(new_run(), cells(3)), writer.plan(new_run(), cells(3))
    watch.open_run(here.id)
    told = []

    def look():
        found = watch.poll()
        told.append((found.elsewhere, found.seq == watch.reader.seq()))

    look()  # what changed before the run was opened was told nobody
    answer(writer, ids_of(path, here)[:1])
    look()
    answer(writer, ids_of(path, there)[:1])
    look()
    answer(writer, ids_of(path, here)[1:2])
    look()
    writer.plan(new_run(), [])
    look()
    watch.open_run(there.id)
    answer(writer, ids_of(path, there)[1:2])
    look()
    watch.close_run()
    answer(writer, ids_of(path, there)[2:])
    look()
    assert told == [(True, True), (False, True), (True, True), (False, True), (True, True), (True, True), (True, True)]


def test_a_rename_is_told_and_a_heartbeat_is_not(watch, writer):
    run = writer.plan(new_run(), cells(1))
    watch.open_run(run.id)
    watch.poll()
    writer.heartbeat(run.id)
    writer.flush()
    found = watch.poll()
    assert found.runs
    assert not found.run
    assert watch.run.heartbeat is not None
    writer.edit(run.id, name="other")
    assert watch.poll().run
    assert watch.run.name == "other"


def test_a_run_whose_process_dies_is_interrupted_without_any_commit(watch, writer, path):
    run = writer.plan(new_run(), cells(1))
    with hold(run_lock(path, run.key)):
        writer.run_status(run.id, "running")
        watch.open_run(run.id)
        watch.poll()
        assert watch.run.status == "running"
        assert not watch.poll()
    found = watch.poll()
    assert found.run
    assert not found.runs
    assert watch.run.status == "interrupted"


def test_more_changes_than_can_be_told_one_by_one_reload_everything(watch, writer, path, monkeypatch):
    monkeypatch.setattr(watch_module, "_MOST", 3)
    run = writer.plan(new_run(), cells(4))
    watch.open_run(run.id)
    watch.poll()
    shown(watch)
    answer(writer, ids_of(path, run))
    found = watch.poll()
    assert found.reload
    assert not found.rows
    assert {watch.row(number).status for number in range(4)} == {"pass"}
    assert not watch.poll()


def test_the_run_on_screen_may_be_deleted_by_somebody_else(watch, writer):
    run = writer.plan(new_run(), cells(3))
    watch.open_run(run.id)
    watch.poll()
    watch.marks, watch.answer = frozenset({1}), watch.row(0).id
    writer.delete_run(run)
    found = watch.poll()
    assert found.run
    assert found.reload
    assert (watch.run, watch.answer, len(watch), watch.row(0)) == (None, None, 0, None)
    assert watch.marks == frozenset()
    assert not watch.poll()


def test_deleting_another_run_leaves_this_one(watch, writer):
    run, other = writer.plan(new_run(), cells(3)), writer.plan(new_run(), cells(3))
    watch.open_run(run.id)
    watch.poll()
    writer.delete_run(other)
    found = watch.poll()
    assert found.reload
    assert not found.run
    assert [watch.row(number).pos for number in range(3)] == [0, 1, 2]


def test_a_run_that_is_gone_cannot_be_opened_and_the_one_on_screen_stays(watch, writer):
    run = writer.plan(new_run(), cells(3))
    watch.open_run(run.id)
    with pytest.raises(LookupError):
        watch.open_run(99)
    assert watch.run.id == run.id


@pytest.mark.parametrize("plain", [True, False])
def test_where_a_part_is_deleted_already_every_other_answer_keeps_its_row(watch, writer, path, plain):
    run = writer.plan(new_run(), cells(6))
    ids = ids_of(path, run)
    watch.open_run(run.id)
    if not plain:
        watch.arrange(AnswerOrder(sort="name", descending=True), array("q", ids[::-1]))
    writer.write("DELETE FROM answers WHERE id IN (?, ?)", ids[0], ids[3])
    kept = [None if one in (ids[0], ids[3]) else one for one in ids]
    assert shown(watch) == (kept if plain else kept[::-1])


@pytest.mark.story
@pytest.mark.cases(1)
@pytest.mark.parametrize("plain", [True, False])
def test_paging_while_answers_come_always_shows_what_the_store_holds(watch, writer, path, plain):
    run = writer.plan(new_run(), cells(PAGE * 3))
    ids = ids_of(path, run)
    watch.open_run(run.id)
    if not plain:
        mixed = random.Random(1).sample(ids, len(ids))
        watch.arrange(AnswerOrder(sort="name"), array("q", mixed))
    chance = random.Random(2)
    waiting = list(ids)
    for _ in range(25):
        done, waiting = waiting[:7], waiting[7:]
        answer(writer, done, chance.choice(["pass", "fail"]))
        watch.poll()
        with Reader(path) as reader:
            for number in chance.sample(range(len(watch)), 20):
                row = watch.row(number)
                assert row == reader.rows([row.id])[0]
                assert row.id == (watch.ids[number] if watch.ids else ids[number])


def test_pages_that_were_left_are_fetched_anew_and_keep_no_place(watch, writer, path, monkeypatch):
    monkeypatch.setattr("tui_evals.tui.watch._PAGES", 2)
    run = writer.plan(new_run(), cells(PAGE * 4))
    ids = ids_of(path, run)
    watch.open_run(run.id)
    watch.arrange(AnswerOrder(sort="name"), array("q", ids))
    first = watch.row(0)
    assert watch.place(first) == 0
    for number in range(0, PAGE * 4, PAGE):
        watch.row(number)
    assert watch.place(first) is None
    answer(writer, [first.id])
    watch.poll()
    assert watch.row(0).status == "pass"


def test_scores_are_those_of_the_pass_that_counts_and_follow_a_change(watch, writer, path):
    run = writer.plan(new_run(), cells(3))
    ids = ids_of(path, run)
    watch.open_run(run.id)
    assert watch.scores(watch.row(0)) == {}
    answer(writer, ids[:2])
    watch.poll()
    assert watch.scores(watch.row(0))["Match"].score == 1.0
    number = new_pass(writer, run.id, {})
    assert watch.poll().run
    assert watch.scores(watch.row(0)) == {}
    asyncio.run(writer.scored(ids[0], number, [judged(score=0.0)], "fail", 0.0))
    watch.poll()
    assert watch.scores(watch.row(0))["Match"].score == 0.0
    assert watch.scores(watch.row(1)) == {}


def test_scores_of_a_page_are_fetched_at_once(watch, writer, path, monkeypatch):
    run = writer.plan(new_run(), cells(6))
    answer(writer, ids_of(path, run)[:4])
    watch.open_run(run.id)
    asked, scores_of = [], details.scores_of
    monkeypatch.setattr(
        "tui_evals.tui.watch.scores_of", lambda of, ids, number: asked.append(ids) or scores_of(of, ids, number)
    )
    for number in range(6):
        watch.scores(watch.row(number))
    assert [len(ids) for ids in asked] == [4]


def test_an_order_is_fetched_apart_and_shown_when_it_is_arranged(watch, writer, path):
    run = writer.plan(new_run(), cells(4))
    ids = ids_of(path, run)
    for place, status in enumerate(["pass", "fail", "fail"]):
        answer(writer, [ids[place]], status, score=10.0 * place)
    watch.open_run(run.id)
    order = AnswerOrder("failed", "score", descending=True)
    found = watch.sorted(order)
    assert shown(watch) == ids
    watch.arrange(order, found)
    assert shown(watch) == [ids[2], ids[1]]
    assert [watch.find(ids[2]), watch.find(ids[0]), watch.find("x")] == [0, None, None]
    assert watch.sorted(AnswerOrder()) is None
    watch.arrange(AnswerOrder(), None)
    assert shown(watch) == ids
    with pytest.raises(FilterError):
        watch.sorted(AnswerOrder("status:odd"))


def test_an_answer_of_another_run_has_no_row(watch, writer, path):
    here, there = writer.plan(new_run(), cells(2)), writer.plan(new_run(), cells(2))
    watch.open_run(here.id)
    assert watch.find(ids_of(path, here)[1]) == 1
    assert watch.find(ids_of(path, there)[1]) is None


def failure(watch, start, way):
    """The row of the next failure."""
    found = asyncio.run(watch.failure(start, way))
    return None if found is None else watch.number_of(found)


@pytest.mark.parametrize("plain", [True, False])
def test_failures_are_gone_through_in_the_order_shown_and_round_the_end(watch, writer, path, plain):
    run = writer.plan(new_run(), cells(8))
    ids = ids_of(path, run)
    for place, status in {0: "pass", 2: "fail", 5: "error", 6: "partial"}.items():
        answer(writer, [ids[place]], status, score=50.0)
    asyncio.run(writer.answered(ids[3], said(), "answered"))
    watch.open_run(run.id)
    bad = [2, 5, 6]
    if not plain:
        watch.arrange(AnswerOrder(sort="pos", descending=True), array("q", ids[::-1]))
        bad = [1, 2, 5]
    there, back = [failure(watch, -1, 1)], [failure(watch, 8, -1)]
    for _ in range(3):
        there.append(failure(watch, there[-1], 1))
        back.append(failure(watch, back[-1], -1))
    assert there == [*bad, bad[0]]
    assert back == [*bad[::-1], bad[-1]]


def test_a_filter_that_changes_the_rows_meanwhile_skips_no_failure(watch, writer, path, monkeypatch):
    """What was just mended left the list while the next failure was looked for, and the one after that was shown."""
    run = writer.plan(new_run(), cells(4))
    ids = ids_of(path, run)
    answer(writer, ids[1:], "fail", score=0.0)
    watch.open_run(run.id)
    watch.arrange(AnswerOrder("failed"), array("q", ids))
    search = questions.next_failure

    def slowly(*asked):
        watch.arrange(AnswerOrder("failed"), array("q", ids[1:]))
        return search(*asked)

    monkeypatch.setattr(questions, "next_failure", slowly)
    assert asyncio.run(watch.failure(0, 1)) == ids[1]


def test_where_nothing_failed_there_is_no_failure(watch, writer, path):
    assert failure(watch, 0, 1) is None
    run = writer.plan(new_run(), cells(2))
    answer(writer, ids_of(path, run))
    watch.open_run(run.id)
    assert failure(watch, 0, 1) is None
    watch.arrange(AnswerOrder("failed"), array("q"))
    assert failure(watch, 0, -1) is None


def test_a_count_tells_totals_means_verdicts_and_of_what_there_are_several(watch, writer, path):
    planned = [PlannedAnswer(n, 0, n % 2, 0, 0, n // 2, "#1") for n in range(4)]
    run = writer.plan(new_run(), planned)
    ids = ids_of(path, run)
    answer(writer, ids[:1])
    writer.label(ids[0], "fail", "ada")
    writer.label(ids[1], "pass", "ada", evaluator="Match")
    assert watch.count() is None
    watch.open_run(run.id)
    found = watch.count()
    assert watch.counted(found)
    assert (watch.totals.total, watch.totals.passed) == (4, 1)
    assert [mean.key for mean in watch_module.column_means(watch.means)] == ["Match"]
    assert watch.verdicts == {ids[0]: "fail"}
    assert (found.turns, found.repeats) == (True, True)
    other = writer.plan(new_run(), cells(2))
    watch.open_run(other.id)
    assert not watch.counted(found)
    assert watch.totals.pending == 2
    assert (watch.count().turns, watch.count().repeats) == (False, False)


def test_a_run_deleted_while_it_is_counted_has_no_count(watch, writer):
    run = writer.plan(new_run(), cells(2))
    watch.open_run(run.id)
    writer.delete_run(run)
    assert watch.count() is None
    assert failure(watch, 0, 1) is None
    assert list(watch.sorted(AnswerOrder(sort="score"))) == []


def test_another_database_in_its_place_is_looked_into(watch, writer, path, tmp_path):
    run = writer.plan(new_run(), cells(2))
    watch.open_run(run.id)
    watch.poll()
    copy = open_store(tmp_path / "copy" / "evals.db")
    with Writer(copy) as other:
        other.plan(new_run(), cells(3))
    put_in_place(copy, path)
    found = watch.poll()
    assert found.run
    assert found.reload
    assert watch.run is None
    watch.open_run(1)
    assert len(watch) == 3


def test_a_copy_put_back_shows_the_same_run(watch, writer, path, tmp_path):
    run = writer.plan(new_run(), cells(2))
    watch.open_run(run.id)
    watch.poll()
    with contextlib.closing(connect(path)) as connection:
        back_up(connection, tmp_path / "copy")
    put_in_place(tmp_path / "copy", path)
    assert watch.poll().reload
    assert watch.run.key == run.key
    assert len(shown(watch)) == 2


def test_a_file_that_is_no_store_is_said_once_and_the_old_one_stays_in_view(watch, writer, path, tmp_path):
    run = writer.plan(new_run(), cells(2))
    watch.open_run(run.id)
    watch.poll()
    (tmp_path / "noise").write_bytes(b"noise" * 1000)
    put_in_place(tmp_path / "noise", path)
    with pytest.raises(StoreError):
        watch.poll()
    assert not watch.poll()
    assert watch.row(0).pos == 0
    path.unlink()
    assert not watch.poll()


def test_what_a_run_that_is_over_left_open_waits_and_is_not_in_flight(path, writer, watch):
    run = writer.plan(new_run(), cells(2))
    writer.running(ids_of(path, run)[:1], 1_000.0)
    writer.flush()
    writer.run_status(run.id, "running")
    with hold(run_lock(path, run.key)):
        watch.open_run(run.id)
        assert [watch.row(number).status for number in (0, 1)] == ["running", "pending"]
    watch.poll()
    assert watch.run.status == "interrupted"
    assert [(watch.row(number).status, watch.row(number).started) for number in (0, 1)] == [("pending", None)] * 2


@pytest.mark.parametrize("plain", [True, False])
def test_the_next_failure_is_looked_for_near_the_cursor_and_not_among_all_answers(
    watch, writer, path, monkeypatch, plain
):
    run = writer.plan(new_run(), cells(60))
    ids = ids_of(path, run)
    answer(writer, ids, "pass")
    answer(writer, [ids[20], ids[50]], "fail")
    monkeypatch.setattr(questions, "_SEARCHED", 5)
    watch.open_run(run.id)
    if not plain:
        watch.arrange(AnswerOrder(sort="name"), array("q", ids))
    looked = []
    first_failing = Reader.first_failing
    monkeypatch.setattr(Reader, "first_failing", lambda self, some: looked.extend(some) or first_failing(self, some))
    monkeypatch.setattr(Reader, "ids", lambda *_: pytest.fail("all answers are read"))
    assert failure(watch, 17, 1) == 20
    assert len(looked) == (0 if plain else 5)


def test_the_counts_of_a_live_run_are_read_once_and_are_those_that_each_reading_gives(watch, writer, path, monkeypatch):
    planned = [PlannedAnswer(place, place // 2, 0, 0, place % 2, 0, f"t-{place // 2}") for place in range(8)]
    run = writer.plan(new_run(targets=("one", "two")), planned)
    ids = ids_of(path, run)
    with hold(run_lock(path, run.key)):
        writer.run_status(run.id, "running", started=1.0)
        writer.running(ids[6:], 2.0)
        answer(writer, ids[:2])
        answer(writer, ids[2:3], "fail")
        readings = []
        groups = Reader._groups
        monkeypatch.setattr(Reader, "_groups", lambda self, number: readings.append(number) or groups(self, number))
        watch.open_run(run.id)
        assert watch.run.status == "running" and len(readings) == 1
        assert watch.totals == watch.reader.totals(run.id) and watch.totals.running == 2
        assert watch.columns == watch.reader.totals_by(run.id, "column") and len(watch.columns) == 2
