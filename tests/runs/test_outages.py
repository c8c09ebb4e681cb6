"""An outage leaves no trace in the answers, or ends the run with its questions pending."""

import json
import socket
from contextlib import ExitStack

import pytest

from tests.runs.conftest import Project, server, until  # noqa: F401
from tests.server import running


def free_port():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return str(taken.getsockname()[1])


@pytest.fixture
def project(tmp_path, server):  # noqa: F811
    return Project(tmp_path, server)


def statuses(project):
    with project.reader() as reader:
        run = reader.find_run("last")
        return run, [row.status for row in reader.all_rows(run.id)]


@pytest.mark.story
def test_a_target_that_goes_and_comes_back_leaves_no_trace_in_the_answers(tmp_path):
    port, first = free_port(), ExitStack()
    with first:
        one = first.enter_context(running("--port", port))
        one.behave(latency=0.05)
        project = Project(tmp_path, one)
        project.configure(concurrency=5)
        project.dataset(100)
        process = project.start("run", "data.json", "--target", "main", "--json")
        until(lambda: one.counts()["answered"] >= 20)
    wait = next(
        event for event in map(json.loads, process.stdout) if event["event"] == "wait" and "away" in event["message"]
    )
    assert wait["message"].startswith("away, next try in ")
    with running("--port", port):
        out, err = process.communicate(timeout=60)
    assert process.returncode == 0, out + err
    assert statuses(project)[1] == ["pass"] * 100


@pytest.mark.nightly
def test_one_that_stays_away_ends_the_run_with_those_questions_pending(tmp_path):
    port = free_port()
    with running("--port", port) as one:
        one.behave(latency=0.05)
        project = Project(tmp_path, one)
        project.configure(concurrency=20, max_outage=1)
        project.dataset(100)
        process = project.start("run", "data.json", "--target", "main", "--quiet")
        until(lambda: one.counts()["answered"] >= 20)
    _, err = process.communicate(timeout=60)
    assert "max_outage is 1 s. " in err and " answers stay pending" in err and process.returncode == 4, err
    run, all_statuses = statuses(project)
    assert run.status == "interrupted" and set(all_statuses) == {"pass", "pending"}


@pytest.mark.parametrize("concurrency", [1, 4])
def test_a_question_that_breaks_the_target_is_an_error_and_the_others_are_not(project, concurrency):
    project.configure(concurrency=concurrency, retries=1)
    project.dataset(6, lambda number: f"question {number}{' [[500]]' * (number in (1, 2, 5))}")
    project.do("run", "data.json", "--target", "main", "--quiet", code=None)
    assert statuses(project)[1] == ["pass", "error", "error", "pass", "pass", "error"]


def test_one_that_never_answers_in_time_is_not_asked_to_the_end(project):
    project.server.behave(latency=30)
    project.configure(concurrency=4, timeout=0.3)
    project.dataset(200)
    said = project.do("run", "data.json", "--target", "main", "--quiet", code=4)
    assert "has answered no question of this run, nor a short one" in said
    assert project.server.counts()["asked"] <= 40  # of 400
    assert set(statuses(project)[1]) == {"pending"}


@pytest.mark.nightly
def test_what_many_questions_meet_is_asked_after_before_each_is_tried_to_the_end(project):
    project.configure(concurrency=50)
    project.dataset(200)
    project.server.behave(shares={}, latency=0.05, first=["500"] * 3)
    project.do("run", "data.json", "--target", "main", "--quiet")
    assert statuses(project)[1] == ["pass"] * 200
