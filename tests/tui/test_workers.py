"""The workers of a run: in a line above its results, in a list of their own, live, and none where there are none."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.store.helpers import cells, new_run, worker
from tests.tui.stored_runs import HOSTILE, add_run, fresh, text_of
from tests.tui.story import at_the_workbench
from tui_evals.present.columns import cell_width
from tui_evals.present.runs import WorkerTotals, together
from tui_evals.store.connection import hold, run_lock
from tui_evals.store.reader import Reader
from tui_evals.text.safe import safe_line
from tui_evals.tui.results.totals import (
    WorkerRows,
    WorkersDialog,
    heading,
    no_workers_rows,
    worker_columns,
    workers_line,
)
from tui_evals.tui.watch import Watch

SIZES = [(80, 24), (160, 45)]


def line(rows, width=120, hint=""):
    (text,) = text_of([workers_line(together(rows), width, hint)])
    return text


def listed(rows, width=78, now=1_000.0):
    return text_of(WorkerRows(rows, width, now))


@pytest.fixture
def path(tmp_path):
    return fresh(tmp_path)


@pytest.fixture
def run(path, writer):
    """A run that goes on, in this process."""
    run = writer.plan(new_run(name="nightly"), cells(5))
    with hold(run_lock(path, run.key)):
        writer.run_status(run.id, "running", pid=1)
        yield run


@pytest.fixture
def watch(path):
    watch = Watch(path)
    yield watch
    watch.close()


# -- the line above the results


def test_the_line_says_how_many_are_there_how_busy_they_are_and_what_went_wrong():
    rows = [worker("a", cells=8, rate=60.0, errors=0), worker("b", cells=6, rate=60.2, errors=0)]
    assert line(rows) == "● 2 workers  14 cells  120/s  ! 0 errors"
    lost = [*rows, worker("c", state="gone", cells=3, rate=50.0), worker("d", state="silent", cells=1)]
    assert line(lost, hint="M") == "● 2 workers  15 cells  120/s  ! 2 errors  ◌ 1 silent  ○ 1 gone  M lists them"


def test_of_workers_that_are_gone_the_line_says_what_they_did():
    assert line([worker("a", state="gone", calls=1_200, errors=1)]) == "○ 1 worker gone  1,200 calls  ! 1 error"
    assert line([worker("a", state="silent", rate=3.25)]).startswith("◌ 1 worker silent  7 cells  0.0/s")
    assert "0 workers" in line([])


@given(st.lists(st.sampled_from(["alive", "silent", "gone"]), min_size=1), st.integers(20, 200))
def test_the_line_fits_and_names_the_states_in_words(states, width):
    text = line([worker(str(n), state=state, cells=n, calls=n * 10**6) for n, state in enumerate(states)], width)
    assert cell_width(text) <= width or "  " not in text
    assert "worker" in text


# -- the list


def test_the_list_has_a_row_for_each_worker_those_one_wonders_about_first():
    rows = [worker("a", state="gone", seen=940.0), worker("b", errors=0), worker("c", state="silent", seen=991.5)]
    silent, alive, gone = listed(rows)
    assert silent.split() == ["◌", "silent", "c", "7", "12.5", "100", "1", "8.5", "s"]
    assert alive.split() == ["●", "alive", "b", "7", "12.5", "100", "0"]
    assert gone.split()[:3] == ["○", "gone", "a"] and gone.endswith("1m 00s")
    assert [len(text) for text in (silent, alive, gone)] == [78] * 3


def test_a_narrow_list_keeps_what_matters_most():
    (text,) = listed([worker("tcp://10.20.30.40:40001")], 34)
    assert text.split()[:3] == ["●", "alive", "10.…0:40001"]
    columns = worker_columns([worker("tcp://10.20.30.40:40001")], 34, 1_000.0)
    assert text_of([heading(columns)])[0].split() == ["state", "worker", "cells", "calls/s"]


@pytest.mark.parametrize("width", [10, 24, 34, 60, 78, 120])
@pytest.mark.parametrize("name", ["tcp://10.20.30.40:40001", HOSTILE])
def test_no_row_is_wider_than_the_list_whatever_a_worker_is_called(width, name):
    rows = [worker(name, calls=10**9, cells=10**5), worker("b", state="gone", seen=0.0)]
    for text in (
        *listed(rows, width),
        *text_of([heading(worker_columns(rows, width, 1_000.0))]),
        *text_of(no_workers_rows(width)),
    ):
        assert cell_width(safe_line(text)) <= max(width, 18)


def test_only_the_rows_that_are_seen_are_made():
    rows = WorkerRows([worker(f"{n:04}") for n in range(1_000)], 78, 5.0)
    assert len(rows) == 1_000
    assert [text.split()[2] for text in text_of(rows[998:])] == ["0998", "0999"]


# -- the state


def test_workers_are_read_once_for_each_time_something_was_heard_of_them(watch, writer, run, monkeypatch):
    asked = []
    workers = Reader.workers
    monkeypatch.setattr(Reader, "workers", lambda reader, number: asked.append(number) or workers(reader, number))
    watch.open_run(run.id)
    assert not watch.crew.rows
    writer.workers(run.id, [worker("b"), worker("a")])
    writer.flush()
    watch.poll()
    rows = watch.crew.rows
    assert [one.name for one in rows] == ["a", "b"] and watch.crew.totals.alive == 2
    asked.clear()
    for _ in range(3):
        writer.heartbeat(run.id)
        writer.flush()
        watch.poll()
    assert not asked and watch.crew.rows is rows


def test_another_run_has_other_workers(watch, writer, run):
    other = writer.plan(new_run(), cells(1))
    writer.workers(run.id, [worker("a")])
    writer.workers(other.id, [worker("b")])
    writer.flush()
    for number, name in ((run.id, "a"), (other.id, "b")):
        watch.open_run(number)
        assert [one.name for one in watch.crew.rows] == [name]
    watch.close_run()
    assert not watch.crew.rows and watch.crew.totals == WorkerTotals()


def test_when_the_driver_is_killed_its_workers_are_gone_without_a_commit(watch, writer, path):
    run = writer.plan(new_run(), cells(3))
    with hold(run_lock(path, run.key)):
        writer.run_status(run.id, "running", pid=1)
        writer.workers(run.id, [worker("a")])
        writer.flush()
        watch.open_run(run.id)
        watch.poll()
        assert [one.state for one in watch.crew.rows] == ["alive"]
    watch.poll()
    assert [one.state for one in watch.crew.rows] == ["gone"]


# -- at the workbench


@pytest.mark.nightly
@pytest.mark.parametrize("size", SIZES)
async def test_who_watches_a_run_sees_its_workers_come_and_go_and_lists_them(tmp_path, writer, run, size):
    writer.workers(run.id, [worker("tcp://a:1"), worker("tcp://b:2")])
    async with at_the_workbench(tmp_path, run=run.key, size=size) as person:
        await person.press("4")
        await person.sees("● 2 workers  14 cells  25.0/s")
        await person.press("M")
        await person.sees("● alive  a:1")
        writer.workers(run.id, [worker("tcp://b:2", state="gone", cells=0), worker("tcp://c:3", cells=9)])
        await person.sees("○ gone   b:2")
        await person.sees("● 2 workers  16 cells  25.0/s  ! 3 errors  ○ 1 gone")
        assert "● alive  c:3" in person.screen()
        await person.press("escape")
        await person.until(lambda: not isinstance(person.app.screen, WorkersDialog))
        writer.run_status(run.id, "interrupted", finished=9.0)
        await person.sees("○ 3 workers gone  300 calls")


async def test_the_line_comes_when_the_first_worker_does_and_goes_with_the_run(tmp_path, writer, run, path):
    alone = await add_run(path, [("pass", "yes")], name="alone")
    writer.workers(alone.id, [])
    async with at_the_workbench(tmp_path, run=run.key, size=(80, 24)) as person:
        await person.press("4")
        await person.sees("running")
        await person.sees("item status")  # the last line above the answers, so that all of them have their place
        height = person.app.query_one("#totals").size.height
        assert "worker" not in person.screen()
        writer.workers(run.id, [worker("tcp://a:1")])
        await person.sees("● 1 worker  7 cells")
        await person.until(lambda: person.app.query_one("#totals").size.height == height + 1)
        lines = person.screen().splitlines()
        heading = next(number for number, line in enumerate(lines) if "item" in line and "status" in line)
        assert "#1" in lines[heading + 1]
        person.app.watching.open_run(alone.id)
        person.app.sync()
        await person.until(lambda: person.app.query_one("#totals").size.height == height)
        assert "worker" not in person.screen() and "t-0" in person.screen()


@pytest.mark.nightly
async def test_a_run_of_one_process_says_why_there_is_nothing_to_list(tmp_path, run):
    async with at_the_workbench(tmp_path, run=run.key, size=(80, 24)) as person:
        await person.press("M")
        assert "this run has no workers: it is executed by one process" in person.said()
        assert not isinstance(person.app.screen, WorkersDialog)
        await person.press("colon")
        await person.type("workers")
        await person.sees("this run has no workers")


async def test_without_a_run_there_are_no_workers_to_list(tmp_path):
    async with at_the_workbench(tmp_path, size=(80, 24)) as person:
        await person.press("M")
        assert "no run is on screen" in person.said()


@pytest.mark.nightly
async def test_the_palette_lists_the_workers_too(tmp_path, writer, run):
    writer.workers(run.id, [worker("tcp://a:1")])
    async with at_the_workbench(tmp_path, run=run.key, size=(80, 24)) as person:
        await person.until(lambda: person.app.watching.crew.rows)
        await person.press("colon")
        await person.type("workers")
        await person.press("enter")
        await person.sees("● alive  a:1")
        await person.press("M")
        assert not isinstance(person.app.screen, WorkersDialog)


@pytest.mark.nightly
async def test_a_thousand_workers_are_gone_through_while_they_change(tmp_path, writer, run):
    def told(letter):
        writer.workers(run.id, [worker(f"{n:04}", calls=letter) for n in range(1_000)])

    told(1)
    async with at_the_workbench(tmp_path, run=run.key, size=(80, 24)) as person:
        await person.press("4")
        await person.sees("● 1,000 workers  7,000 cells  12,500/s")
        await person.press("M", "G")
        await person.sees("● alive  0999")
        told(7_777)
        await person.sees("7,777")
        assert "0999" in person.screen() and "0000" not in person.screen()
        await person.press("g")
        await person.sees("● alive  0000")


async def test_what_workers_are_called_cannot_harm_the_screen(tmp_path, writer, run):
    writer.workers(run.id, [worker(HOSTILE)])
    async with at_the_workbench(tmp_path, run=run.key, size=(80, 24)) as person:
        await person.press("4")
        await person.sees("M lists them")
        await person.press("M")
        await person.sees("● alive  [/b] [@click")
        assert not set("\x1b\x07\x9b\u202e") & set(person.screen())


async def test_the_list_is_drawn_again_only_when_something_was_heard(tmp_path, writer, run, monkeypatch):
    writer.workers(run.id, [worker("tcp://a:1")])
    async with at_the_workbench(tmp_path, run=run.key, size=(80, 24)) as person:
        await person.sees("M lists them")
        await person.press("M")
        await person.sees("● alive  a:1")
        shown = []
        screen = person.app.screen
        monkeypatch.setattr(screen._list, "show", shown.append)
        for _ in range(3):
            writer.heartbeat(run.id)
            writer.flush()
            person.app._look()
            screen._look()
        assert not shown
        writer.workers(run.id, [worker("tcp://a:1", cells=1)])
        await person.until(lambda: shown)
