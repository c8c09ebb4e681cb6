"""A full disk, a lock held long or a deleted store loses no answer that came."""

import json
import os
import signal
import sqlite3
import stat
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest
from platformdirs import user_state_path

from tests.runs.conftest import kill, until
from tests.store.trouble import disk, fill, free, locked
from tui_evals.cli.look import runs as listing
from tui_evals.store.connection import executed_runs, hold, run_lock
from tui_evals.store.reader import Reader

__all__ = ["disk"]

MANY = 40


class Course:
    """A run of the real program into a store at a place, and what the server and the store say of it."""

    def __init__(self, project, database, **target):
        self.project, self.database = project, database
        project.configure(**{"concurrency": 4, "timeout": 60, **target})
        project.dataset(MANY, "question {} sesame-opened".format)
        project.server.behave(latency=0.1)

    def start(self, **environment):
        words = ("--db", self.database, "run", "data.json", "--target", "main", "--json")
        process = self.project.start(*words, **environment)
        until(lambda: self.answered >= 8)
        return process

    def resume(self, code=0):
        return self.project.do("--db", self.database, "resume", "last", "--quiet", code=code)

    @property
    def answered(self):
        return self.project.server.counts()["answered"]

    def statuses(self):
        with Reader(self.database) as reader:
            return [row.status for row in reader.all_rows(reader.find_run("last").id)]

    def assert_whole(self):
        """Every answer is stored and judged, and nothing was asked twice."""
        assert self.statuses() == ["pass"] * MANY
        assert [question["asked"] for question in self.project.server.counts()["questions"]] == [1] * MANY
        with Reader(self.database) as reader:
            assert len(list(reader.calls(reader.find_run("last").id))) == MANY


def event(process, word):
    return next(found for line in process.stdout if (found := json.loads(line))["event"] == word)


@pytest.mark.nightly
def test_a_full_disk_stops_the_asking_until_there_is_room(project, disk):
    course = Course(project, disk / "evals.db")
    process = course.start()
    fill(disk)
    said = event(process, "wait")
    assert said["message"].startswith(f"asking waits, because the disk is full: make room for {course.database}; in ")
    assert said["code"] == "full" and said["path"] == str(course.database)
    asked = project.server.counts()["asked"]
    with Reader(course.database) as reader:
        run = reader.find_run("last")
        assert run.status == "running" and run.waiting.code == "full"  # for whoever watches from elsewhere
        heard = reader.totals(run.id)
    until(lambda: project.server.counts()["in_flight"] == 0)
    assert project.server.counts()["asked"] == asked <= heard.total - heard.pending + 4 < MANY
    free(disk)
    assert event(process, "goes_on")["message"] == f"{course.database} can be written again, and asking continues"
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, out + err
    course.assert_whole()


@pytest.mark.nightly
def test_what_cannot_be_stored_in_the_end_is_in_a_file_that_resume_stores(project, disk):
    course = Course(project, disk / "evals.db", max_outage=0.5)
    process = course.start(PROJECT_API_KEY="sesame-opened")
    fill(disk)
    out, err = process.communicate(timeout=60)
    end = json.loads(out.splitlines()[-1])
    assert (end["event"], end["status"], end["exit_code"], process.returncode) == ("end", "interrupted", 4, 4)
    (file,) = user_state_path("tui_evals").glob(f"unstored-{end['run']}-*.jsonl")
    assert f"is in {file}, which is stored first." in end["message"] and str(file) in err
    assert stat.S_IMODE(file.stat().st_mode) == 0o600 and "sesame" not in file.read_text()
    kept = sum(line.startswith('["answered"') for line in file.read_text().splitlines())
    assert 0 < kept <= 4
    fill(disk)  # the end of the process gave back what its WAL took
    shown = project.do("--db", course.database, "show", "last", code=None)
    assert str(file) in shown or "is full" in shown
    assert "is full" in course.resume(code=1) and file.exists()
    paid = project.server.counts()["asked"]
    assert paid == project.server.counts()["answered"]
    free(disk)
    course.resume()
    assert not file.exists()
    course.assert_whole()


@pytest.mark.story
def test_a_run_that_is_killed_while_it_waits_loses_what_was_in_flight_and_no_more(project, disk):
    course = Course(project, disk / "evals.db")
    process = course.start()
    fill(disk)
    event(process, "wait")
    until(lambda: project.server.counts()["in_flight"] == 0)
    kill(process)
    free(disk)
    course.resume()
    assert course.statuses() == ["pass"] * MANY
    assert MANY < project.server.counts()["asked"] <= MANY + 4


@pytest.mark.nightly
def test_a_lock_that_is_held_for_long_ends_nothing(project):
    course = Course(project, project.database)
    process = course.start()
    with locked(course.database) as holder:
        said = event(process, "wait")
        assert said["code"] == "locked" and f"process {holder.pid} (python" in said["message"]
        asked = project.server.counts()["asked"]
        until(lambda: project.server.counts()["in_flight"] == 0)
        assert project.server.counts()["asked"] == asked < MANY
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0 and '"goes_on"' in out, out + err
    course.assert_whole()


@pytest.mark.nightly
def test_a_lock_that_is_held_for_a_minute_ends_nothing(project):
    course = Course(project, project.database)
    process = course.start()
    with locked(course.database) as holder, suppress(subprocess.TimeoutExpired):
        holder.wait(60)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, out + err
    course.assert_whole()


@pytest.mark.nightly
def test_ctrl_c_while_nothing_can_be_stored_ends_the_run_and_loses_nothing(project):
    course = Course(project, project.database)
    process = course.start()
    with locked(course.database):
        event(process, "wait")
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert process.returncode == 130 and '"status": "interrupted"' in out, out + err
    (file,) = project.database.parent.glob("unstored-*.jsonl")
    assert str(file) in project.do("show", "last")
    assert course.resume() == ""
    assert not file.exists()
    course.assert_whole()


@pytest.mark.nightly
@pytest.mark.parametrize("ends", [("", "-wal", "-shm"), pytest.param(("",), marks=pytest.mark.nightly)])
def test_a_store_that_is_deleted_under_a_run_stops_it_and_is_written_again(project, ends):
    course = Course(project, project.database)
    process = course.start()
    for end in ends:
        Path(f"{course.database}{end}").unlink()
    asked = project.server.counts()["asked"]
    out, err = process.communicate(timeout=60)
    end = json.loads(out.splitlines()[-1])
    assert (end["status"], end["exit_code"], process.returncode) == ("interrupted", 4, 4), out + err
    assert end["message"].endswith("All it held was written again to that place.")
    assert project.server.counts()["asked"] <= asked + 8 < MANY
    assert stat.S_IMODE(os.stat(course.database).st_mode) == 0o600
    assert [file.name for file in course.database.parent.iterdir() if ".of-" in file.name] == []
    assert course.resume() == ""
    course.assert_whole()
    with sqlite3.connect(course.database) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


@pytest.mark.nightly
def test_where_another_file_was_put_in_its_place_the_store_is_beside_it(project, tmp_path):
    course = Course(project, project.database)
    other = tmp_path / "other.db"
    other.write_bytes(b"")
    process = course.start()
    other.replace(course.database)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 4, out + err
    (copy,) = (file for file in course.database.parent.iterdir() if ".of-" in file.name)
    assert str(copy) in json.loads(out.splitlines()[-1])["message"]
    course.database = copy
    assert course.resume() == ""
    course.assert_whole()


def test_a_list_of_no_runs_says_that_there_were_some(project):
    project.dataset(1)
    project.do("run", "data.json", "--target", "main", "--quiet")
    with project.reader() as reader:
        key = reader.find_run("last").key
    for file in project.database.parent.glob("evals.db*"):
        file.unlink()
    with hold(run_lock(project.database, key)):
        assert f"was deleted while the run {key} writes into it" in project.do("runs", code=1)
        assert not project.database.exists()
    for _ in range(2):  # the first look makes a new store
        said = project.do("runs", code=1)
        assert key in said and "no runs yet" not in said


def test_a_first_run_that_begins_while_runs_are_listed_is_not_taken_for_lost(project, monkeypatch):
    project.dataset(1)
    project.do("runs")

    def meanwhile(store):
        project.do("run", "data.json", "--target", "main", "--quiet")
        return executed_runs(store)

    monkeypatch.setattr(listing, "executed_runs", meanwhile)
    assert len(json.loads(project.do("runs", "--json"))) == 1
