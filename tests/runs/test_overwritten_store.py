"""A store that is overwritten or cut off under a run: the asking stops, and what was paid for is kept."""

import json
import subprocess
import sys

import pytest

from tests.runs.conftest import kill, until
from tests.runs.test_store_in_trouble import MANY, Course
from tui_evals.store.reader import Reader


@pytest.fixture
def course(project):
    """A run that was interrupted twice, and a backup of the store from between."""
    course = Course(project, project.database)
    kill(course.start())
    project.do("db", "backup", project.folder / "between.db")
    process = project.start("resume", "last", "--quiet")
    until(lambda: course.answered >= 16)
    kill(process)
    project.do("runs")  # whoever closes a store as the last moves its log into it
    return course


def go_on(course, *words):
    process = course.project.start("resume", "last", "--json", *words)
    asked = course.project.server.counts()["asked"]
    until(lambda: course.project.server.counts()["asked"] >= asked + 8)
    return process


def ending(process):
    out, err = process.communicate(timeout=60)
    assert "Traceback" not in err, err
    return json.loads(out.splitlines()[-1]), err


def overwrite(course, copy):
    # Unlike with cp, at no moment is it cut off, which has a test of its own.
    with open(course.database, "r+b") as file:
        file.write(copy.read_bytes())
        file.truncate()
    return course.project.server.counts()["asked"]


@pytest.mark.nightly
def test_an_earlier_copy_over_the_store_stops_the_asking_and_resume_pays_for_nothing_again(course, project):
    process = go_on(course)
    asked = overwrite(course, project.folder / "between.db")
    end, err = ending(process)
    assert (end["status"], end["exit_code"], process.returncode) == ("interrupted", 4, 4)
    message = end["message"]
    assert message.startswith(str(course.database)) and "overwritten while tui-evals was using it" in message
    assert f"answers of run {end['run']}" in message and "The store there now has " in message
    assert "Nothing that was stored is lost" not in err
    # At a latency of 0.1 s, four at once: within a second no more than forty, and what was in flight.
    assert project.server.counts()["asked"] < MANY and project.server.counts()["asked"] <= asked + 16
    (file,) = project.database.parent.glob(f"unstored-{end['run']}-*.jsonl")
    assert f"is in {file}, which is stored first" in message and file.stat().st_mode & 0o777 == 0o600
    kept = sum(line.startswith('["answered"') for line in file.read_text().splitlines())
    assert kept >= 8
    with Reader(course.database) as reader:
        stored = reader.totals(reader.find_run("last").id)
    before = project.server.counts()["asked"]
    project.do("resume", "last", "--quiet")
    assert course.statuses() == ["pass"] * MANY and not file.exists()
    # Only what was in the file alone when it was overwritten had to be asked again.
    assert project.server.counts()["asked"] - before == MANY - (stored.total - stored.pending) - kept
    with Reader(course.database) as reader:
        calls = [call for call in reader.calls(reader.find_run("last").id) if call.code is None]
    assert len({call.answer for call in calls}) == len(calls) == MANY


@pytest.mark.nightly
def test_a_copy_that_does_not_know_the_run_ends_it_and_says_so(project, tmp_path):
    project.dataset(1)
    project.do("run", "data.json", "--target", "main", "--quiet")
    project.do("db", "backup", tmp_path / "copy.db")
    project.do("run", "data.json", "--target", "main", "--quiet")
    course = Course(project, project.database)
    process = course.start()
    overwrite(course, tmp_path / "copy.db")
    end, err = ending(process)
    assert end["status"] == "interrupted" and "Start it again with the command that started it" in err
    assert f"The store there now does not know run {end['run']}." in end["message"]
    (file,) = project.database.parent.glob(f"unstored-{end['run']}-*.jsonl")
    kept = sum(line.startswith('["answered"') for line in file.read_text().splitlines())
    assert f"The next run takes {kept} of these answers from the cache" in end["message"]
    assert len(json.loads(project.do("runs", "--json"))) == 1
    assert project.do("db", "check").startswith("✓")
    before = project.server.counts()["asked"]
    project.do("run", "data.json", "--target", "main", "--quiet")
    assert project.server.counts()["asked"] - before == MANY - kept and not file.exists()
    assert course.statuses() == ["pass"] * MANY


@pytest.mark.story
@pytest.mark.parametrize("share", [0.0, 0.6])
def test_a_store_that_is_cut_off_stops_the_asking_and_keeps_what_was_paid_for(course, project, share):
    process = go_on(course)
    code = "import os, sys; os.truncate(sys.argv[1], int(os.stat(sys.argv[1]).st_size * float(sys.argv[2])))"
    subprocess.run([sys.executable, "-c", code, course.database, str(share)], check=True)
    asked = project.server.counts()["asked"]
    end, err = ending(process)
    assert (end["status"], process.returncode) == ("interrupted", 4)
    assert "was cut off or overwritten while tui-evals was using it" in end["message"]
    assert "`tui-evals db repair` saves what can be read. Do that first." in end["message"]
    assert "Nothing that was stored is lost" not in err
    assert project.server.counts()["asked"] <= asked + 16
    (file,) = project.database.parent.glob(f"unstored-{end['run']}-*.jsonl")
    assert sum(line.startswith('["answered"') for line in file.read_text().splitlines()) >= 8


@pytest.mark.story
def test_a_run_that_commits_nothing_for_a_while_notices_it_too(course, project):
    """A slow model: the next commit would come much later than a second."""
    process = go_on(course)
    project.server.behave(latency=30)
    asked = project.server.counts()["asked"]
    until(lambda: project.server.counts()["asked"] >= asked + 4 and project.server.counts()["in_flight"] == 4)
    overwrite(course, project.folder / "between.db")
    with Reader(course.database) as reader:
        key = reader.find_run("last").key
    until(lambda: list(project.database.parent.glob(f"unstored-{key}-*.jsonl")), seconds=20)
    kill(process)
