"""`tui-evals watch` on a run with workers: who is there, how busy they are, and what became of them."""

import asyncio
import json

import pytest
from rich.cells import cell_len

from tests.store.helpers import cells, new_run, worker
from tui_evals.cli.run.watching import Progress, busiest, crew_lines, summary
from tui_evals.present.runs import RunWorkers, together
from tui_evals.store.connection import hold, run_lock
from tui_evals.store.database import open_store
from tui_evals.store.reader import Reader
from tui_evals.store.writer import Writer

HOSTILE = "\x1b]52;c;aGk=\x07[/b] 日本語 \u202e" * 9


def crew_of(*rows):
    crew = RunWorkers()
    crew.rows, crew.totals = rows, together(rows)
    return crew


@pytest.fixture
def store(project, monkeypatch):
    monkeypatch.delenv("TUI_EVALS_DB", raising=False)
    path = open_store(project / ".evals" / "evals.db")
    with Writer(path) as writer:
        yield path, writer


@pytest.fixture
def run(store):
    """A run that goes on, in this process."""
    path, writer = store
    run = writer.plan(new_run(), cells(3))
    with hold(run_lock(path, run.key)):
        writer.run_status(run.id, "running", pid=1)
        yield run


def followed(path, run, acts, **given):
    """Follow a run while the acts are done one after the other, each once the one before has been shown."""

    async def both():
        with Reader(path) as reader:
            started = reader.run(run.id)

        async def work():
            for act in acts:
                act()
                await asyncio.sleep(0)

        await Progress(started, **given).follow(path, asyncio.create_task(work()))

    asyncio.run(both())


# -- in words


def test_all_workers_in_one_line():
    rows = [worker("a", cells=8, rate=100.25, errors=0), worker("b", cells=6, rate=20.05, errors=0)]
    gone = worker("c", state="gone", cells=5, rate=9.0, errors=0)
    line = "2 workers alive · 14 cells · 120.3 calls/s · 0 errors"
    assert summary(together(rows)) == line
    assert summary(together([*rows, gone])) == f"{line} · 1 gone"
    one = [worker("a", cells=1, rate=0.0), worker("b", state="silent", cells=0, errors=0, rate=7.0)]
    assert summary(together(one)) == "1 worker alive · 1 cell · 0.0 calls/s · 1 error · 1 silent"


def test_workers_that_are_all_gone_are_told_by_what_they_did():
    rows = [worker(name, state="gone", calls=1_200, errors=2) for name in "ab"]
    assert summary(together(rows)) == "2 workers · 2,400 calls · 4 errors"
    assert crew_lines(crew_of(*rows), True, 79) == [summary(together(rows))]


def test_a_run_of_one_process_says_nothing_of_workers():
    assert crew_lines(RunWorkers(), True, 79) == crew_lines(RunWorkers(), False, None) == []


def test_a_person_sees_a_line_for_each_worker_by_name():
    crew = crew_of(worker("a", state="silent", cells=9), worker("b", cells=1, errors=0), worker("c", state="gone"))
    silent, alive, gone = crew_lines(crew, True, 79)
    assert silent.split() == ["a", "◌", "silent", "9", "cells", "12.5", "calls/s", "100", "calls", "1", "error"]
    assert alive.startswith("b  ● alive") and "1 cell " in alive and "0 errors" in alive
    assert "○ gone" in gone
    assert crew_lines(crew, False, None) == [summary(crew.totals)]


def test_of_many_workers_the_busiest_have_lines_and_the_rest_are_counted():
    crew = crew_of(*(worker(f"{n:02}", cells=n) for n in range(20)), worker("zz", state="gone", cells=99))
    *lines, last = crew_lines(crew, True, 120)
    assert [line.split()[0] for line in lines] == ["14", "15", "16", "17", "18", "19"]
    assert last == f"… and 15 more; all: {summary(crew.totals)}"
    assert [row.name for row in busiest([worker("a", state="gone"), worker("b", cells=0)])] == ["b", "a"]


@pytest.mark.parametrize("room", [20, 79, 200])
def test_no_line_is_wider_than_the_room_whatever_a_worker_is_called(room):
    for line in crew_lines(crew_of(worker(HOSTILE), worker("a")), True, room):
        assert cell_len(line) <= room and "\x1b" not in line and "\x07" not in line


# -- followed


def test_elsewhere_than_on_a_terminal_one_line_says_how_the_workers_are(store, run, shell):
    _, writer = store
    writer.workers(run.id, [worker("a"), worker("b", state="gone")])
    writer.run_status(run.id, "finished", finished=5.0)
    out = shell("watch", run.key).out
    assert out.splitlines()[-2:] == ["2 workers · 200 calls · 2 errors", f"run {run.key} is finished"]


def test_a_run_without_workers_is_followed_as_ever(store, run, shell):
    store[1].run_status(run.id, "finished", finished=5.0)
    assert "worker" not in shell("watch", run.key).out
    assert '"workers"' not in shell("watch", run.key, "--json").out


def test_events_tell_of_workers_when_they_changed_and_only_then(store, run, capsys, monkeypatch):
    path, writer = store
    monkeypatch.setattr("tui_evals.cli.run.watching._EVERY", 0)
    asked = []
    workers = Reader.workers
    monkeypatch.setattr(Reader, "workers", lambda reader, number: asked.append(number) or workers(reader, number))

    def told(*rows):
        writer.workers(run.id, rows)
        writer.flush()

    rests = [lambda: writer.heartbeat(run.id)] * 30
    acts = [lambda: told(worker("a\x1b[2J")), *rests, lambda: told(worker("a\x1b[2J", cells=9)), *rests]
    followed(path, run, acts, as_json=True)
    out = capsys.readouterr().out
    events = [event for event in map(json.loads, out.splitlines()) if event["event"] == "workers"]
    assert [[one["cells"] for one in event["workers"]] for event in events] in ([[7], [9]], [[9]])
    assert events[0]["workers"][0]["name"] == "a\x1b[2J" and "\x1b" not in out
    assert len(asked) <= 3


def test_on_a_terminal_the_lines_of_workers_are_written_over(store, run, capsys, monkeypatch):
    path, writer = store
    monkeypatch.setattr("tui_evals.cli.run.watching.redraws", lambda: True)
    monkeypatch.setattr("click.utils.should_strip_ansi", lambda *_: False)
    monkeypatch.setattr("tui_evals.cli.run.watching._EVERY", 0)
    writer.workers(run.id, [worker("a"), worker("b")])
    writer.flush()
    followed(path, run, [lambda: None] * 30)
    first, again, *_ = capsys.readouterr().out.split("\x1b[3F\x1b[J")
    assert first.splitlines()[1:] == again.splitlines()
    assert [line.split()[0] for line in again.splitlines()] == ["demo:", "a", "b"]
