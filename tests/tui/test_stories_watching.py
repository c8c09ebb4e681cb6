"""What people do with runs: start, watch, steer and compare them, and read why something did not go well."""

import os
import signal
import socket

import pytest

from tests.runs.conftest import FREE
from tests.server import running
from tests.tui.story import at_the_workbench, configure, write
from tui_evals.store.connection import run_lock
from tui_evals.tui.app import Workbench
from tui_evals.tui.widgets.lines import Lines

TARGET = f'[targets.main]\nmodel = "openai/test-model"\nbase_url = "%s"\n{FREE}[run]\ntargets = ["main"]\n'


@pytest.fixture
def bells(monkeypatch):
    rung = []
    monkeypatch.setattr(Workbench, "bell", lambda app: rung.append(app.watching.run.status))
    return rung


def detail(person):
    return " ".join(" ".join(person.rows("detail")).split())


def flat(person):
    """What is on the screen, with no regard to where its lines are broken."""
    return " ".join(person.screen().replace("│", " ").split())


def executing(database, key):
    """Who executes a run, which stands in its lock file."""
    return int(run_lock(database, key).read_text())


@pytest.mark.nightly
async def test_a_run_that_goes_on_already_rings_when_it_ends_and_says_what_came_of_it(project, bells):
    """Opened in the middle, it still is seen to end."""
    project.server.behave(latency=0.5)
    project.configure(FREE + '[run]\ntargets = ["main"]', concurrency=1)
    project.dataset(40, lambda number: f"question {number if number else 'of another kind'}")
    project.do("run", "data.json", "--detach")
    async with at_the_workbench(project.folder, dataset="data.json", run="last") as person:
        await person.until(lambda: person.app.watching.run.status == "running")
        assert not bells
        project.server.behave(latency=0)
        await person.until(lambda: "is finished" in person.said())
        assert bells == ["finished"]
        assert "data is finished: 39 of 40 passed; R asks the other 1 again" in person.said()


@pytest.mark.nightly
async def test_a_run_that_is_over_already_rings_for_nobody(project, bells):
    project.dataset(1)
    project.do("run", "data.json", "--quiet")
    async with at_the_workbench(project.folder, dataset="data.json", run="last") as person:
        await person.press("6", "enter", "5")
        project.do("label", "last", "#1", "pass")
        await person.until(lambda: "says it is good" in detail(person))
        assert not bells


@pytest.mark.story
async def test_a_server_that_dies_is_told_with_every_attempt_and_the_run_goes_on_later(project):
    """Why it stopped stands in the line, in the list of runs and at the answer; p tries again."""
    listening = socket.create_server(("127.0.0.1", 0))
    port = listening.getsockname()[1]
    configure(project.folder, TARGET % f"http://127.0.0.1:{port}/v1")
    project.dataset(2)
    async with at_the_workbench(project.folder, dataset="data.json", size=(160, 45)) as person:
        await person.press("r")
        await person.sees("2 calls")
        await person.press("enter")
        await person.until(lambda: person.app.watching.run and person.app.watching.run.status == "running")
        listening.close()
        await person.until(lambda: "data stopped: main cannot be asked: No answer from 127.0.0.1" in person.said())
        await person.press("5")
        await person.until(lambda: "p resumes it" in detail(person))
        assert "asked question 0" in detail(person)
        assert detail(person).count("refuses connections") >= 2
        await person.press("6", "z")
        await person.until(lambda: "main cannot be asked: No answer" in " ".join(person.rows("runs")))
        with running("--port", str(port)):
            await person.press("p")
            await person.until(lambda: "2 of 2 passed" in person.said())


@pytest.mark.nightly
async def test_a_run_whose_process_was_killed_is_resumed_and_one_stays_where_one_is(project, bells):
    """kill -9 shows as interrupted; p resumes it without moving the cursor, the filter or the pane."""
    project.server.behave(latency=0.5)
    project.configure(FREE + '[run]\ntargets = ["main"]', concurrency=1)
    project.dataset(40)
    key = project.do("run", "data.json", "--detach").split()[0]
    async with at_the_workbench(project.folder, dataset="data.json", run=key, size=(120, 40)) as person:
        await person.until(lambda: person.app.watching.run.status == "running")
        await person.press("j", "5")
        answer = person.app.watching.answer
        os.kill(executing(project.database, key), signal.SIGKILL)
        await person.until(lambda: person.app.watching.run.status == "interrupted")
        await person.until(lambda: "p resumes it" in person.said())
        assert bells == ["interrupted"]
        project.server.behave(latency=0)
        await person.press("p")
        await person.until(lambda: "40 of 40 passed" in person.said())
        assert person.app.front == "detail" and person.app.watching.answer == answer
    assert bells == ["interrupted", "finished"]


async def test_where_no_target_is_known_the_form_names_the_ways_out(tmp_path):
    write(tmp_path / "data.json", {"default_evaluators": {"Includes": {}}, "items": [{"prompt": "x"}]})
    async with at_the_workbench(tmp_path, dataset="data.json", size=(80, 24)) as person:
        await person.press("r")
        await person.sees("nothing is to answer yet")
        for way in ("demo", "other targets", ".evals/config.toml"):
            assert way in person.screen()


@pytest.mark.nightly
async def test_a_missing_judge_is_asked_for_where_one_can_be_named(tmp_path):
    """The three ways out are in the form, the cursor is where the first two are, and one of them starts the run."""
    items = [{"prompt": "x", "expected_response": "y"}]
    write(tmp_path / "data.json", {"default_evaluators": {"Relevance": {}}, "items": items})
    configure(tmp_path, '[run]\ntargets = ["demo"]\n')
    async with at_the_workbench(tmp_path, dataset="data.json", size=(80, 24)) as person:
        await person.press("r")
        await person.sees("Relevance is judged by a model")
        ways = "choose which, or “without judges”, or name one for good in the settings (,)"
        await person.until(lambda: ways in flat(person))
        assert "--" not in flat(person)
        assert person.app.screen.query_one(Lines).key == "judge"
        await person.press("enter")
        await person.type("without")
        await person.press("enter")
        await person.sees("1 call, free")
        await person.sees("▸ start")
        await person.press("ctrl+s")
        await person.until(lambda: person.app.watching.run and person.app.watching.run.status == "finished")


async def test_a_run_that_is_refused_says_why_in_full(tmp_path, monkeypatch):
    """A missing key is a sentence to read, however long, and not a line that is cut."""
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    write(tmp_path / "data.json", {"default_evaluators": {"Includes": {}}, "items": [{"prompt": "x"}]})
    configure(tmp_path, '[targets.real]\nmodel = "openai/gpt-4o-mini"\n[run]\ntargets = ["real"]\n')
    async with at_the_workbench(tmp_path, dataset="data.json", size=(80, 24)) as person:
        await person.press("r")
        await person.sees("1 call")
        await person.press("enter")
        await person.sees("why nothing was started")
        assert "needs a key. Set OPENAI_API_KEY" in flat(person) and "tui-evals resume" not in flat(person)
        await person.press("escape")
        assert "why nothing" not in person.screen()


@pytest.mark.nightly
async def test_the_list_of_runs_goes_to_a_run_that_was_started_so_that_keys_mean_that_one(project):
    """x in the list of runs stops the run one has just started, not the one the cursor was on before."""
    project.dataset(30)
    project.do("run", "data.json", "--quiet", "--name", "before")
    project.server.behave(latency=1.0)
    async with at_the_workbench(project.folder, dataset="data.json", run="last") as person:
        await person.press("6")
        await person.until(lambda: person.app.pane("runs").run_row() is not None)
        assert person.app.pane("runs").run_row().name == "before"
        project.configure(FREE + '[run]\ntargets = ["main"]', concurrency=1)
        await person.press("1", "r")
        await person.sees("30 calls")
        while "again" not in str(person.app.screen.query_one(Lines).key):
            await person.press("k")
        await person.press("enter")
        await person.until(lambda: "30 calls" in person.screen())
        await person.press("ctrl+s")
        await person.until(lambda: person.app.watching.run.name == "data")
        await person.press("6")
        await person.until(lambda: person.app.pane("runs").run_row().name == "data")
        await person.press("x")
        await person.until(lambda: person.app.watching.run.status == "interrupted")


@pytest.mark.nightly
async def test_a_verdict_given_elsewhere_shows_at_once(project):
    project.dataset(3)
    project.do("run", "data.json", "--quiet")
    async with at_the_workbench(project.folder, dataset="data.json", run="last", size=(120, 40)) as person:
        await person.press("5")
        await person.sees("question 0")
        project.do("label", "last", "#1", "fail", "--note", "too short")
        await person.until(lambda: "says it is bad: too short" in detail(person))


async def test_settings_that_stay_as_they_are_write_nothing(tmp_path):
    async with at_the_workbench(tmp_path) as person:
        await person.press("comma", "ctrl+s")
        await person.until(lambda: "nothing was changed" in person.said())
    assert not (tmp_path / ".evals" / "config.toml").exists()
