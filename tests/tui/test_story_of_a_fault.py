"""A fault story in the workbench: target dies in the middle, comes back, the user sees why
it stopped, resumes with one key, and the final verdict says what it rests on.
"""

import json
import socket
from contextlib import ExitStack

import pytest

from tests.cli.helpers import Shell
from tests.runs.conftest import Project
from tests.server import running
from tests.tui.story import at_the_workbench
from tui_evals.store.reader import Reader
from tui_evals.tui.runs.run_status import told_ending


def free_port():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


def answered(person):
    figures = person.app.watching.figures
    return figures.totals.passed if figures else 0


@pytest.mark.nightly
async def test_a_target_that_dies_in_the_middle_and_comes_back(tmp_path):
    port, first = str(free_port()), ExitStack()
    with first:
        server = first.enter_context(running("--port", port))
        server.behave(latency=0.3)
        project = Project(tmp_path, server)
        project.configure('[run]\ntargets = ["main"]', concurrency=1, max_outage=1)
        project.dataset(400)
        key = project.do("run", "data.json", "--detach").split()[0]
        async with at_the_workbench(tmp_path, dataset="data.json", run=key, size=(160, 45)) as person:
            await person.press("4")
            await person.until(lambda: answered(person) >= 2)
            first.close()
            await person.until(lambda: "data stopped: main: No answer from 127.0.0.1" in person.said())
            assert "p resumes it" in person.said()
            await person.sees("stopped: main: No answer from 127.0.0.1")
            with running("--port", port):
                await person.press("p")
                await person.until(lambda: "is finished" in person.said())
                assert "data is finished: 400 of 400 passed; rests on all 400 answers" in person.said()
                await person.until(lambda: "stopped:" not in person.screen())


def test_a_verdict_over_missing_answers_says_what_it_rests_on_and_why(tmp_path, monkeypatch, capsys):
    """Where the target came back for some questions only, those without an answer are named with their cause."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "halves.py").write_text("def f(prompt):\n    return {'a': 'a'}[prompt]\n")
    items = [{"prompt": prompt, "expected_response": prompt} for prompt in "ab"]
    (tmp_path / "data.json").write_text(json.dumps({"default_evaluators": {"ExactMatch": {}}, "items": items}))
    assert Shell(capsys)("run", "data.json", "-t", "python:halves:f", "--quiet").code == 0
    database = tmp_path / ".evals" / "evals.db"
    with Reader(database) as reader:
        told = told_ending(database, reader.find_run("last"))
    assert told.says == (
        "data is finished: 1 of 2 passed; R asks the other 1 again; rests on 1 of 2 answers: 1 without an answer; "
        "1× halves:f failed with KeyError: 'b'"
    )
