"""`run --watch`: a change of a file runs again, asks only what it touched, and shows the difference."""

import json
import sys
import threading
from pathlib import Path

import pytest

from tests.tui.terminal import Terminal
from tui_evals.cli.run.watching import _next_change, watched_files

COMMAND = [sys.executable, "-m", "tui_evals", "run", "--watch"]


def put_dataset(*prompts, expected="asked"):
    items = [{"prompt": prompt, "expected_response": expected} for prompt in prompts]
    Path("evals.json").write_text(json.dumps({"items": items, "default_evaluators": {"Includes": {}}}))


@pytest.mark.nightly
def test_an_edit_asks_only_what_it_touched_and_shows_the_difference(project, one_server):
    one_server.reset()
    Path(".evals").mkdir()
    target = f'[run]\ntargets = ["m"]\n[targets.m]\nmodel = "openai/m"\nbase_url = "{one_server.url}"\n'
    Path(".evals/config.toml").write_text(target + "price = { per_call = 0.25 }\n")
    put_dataset("hello asked", "bye asked")
    with Terminal([*COMMAND, "--max-cost", "0.75"], project, size=(110, 60)) as terminal:
        terminal.wait("2 of 2 pass")
        terminal.wait(r"\$0.500 of \$0.750 spent")
        assert one_server.counts()["asked"] == 2
        since = len(terminal.raw)
        put_dataset("hello asked", "bye asked", expected="missing")
        terminal.wait("changed: evals.json", since=since)
        terminal.wait("waiting for a change", since=since)
        assert "0 of 2 pass" in terminal.shown_since(since) and one_server.counts()["asked"] == 2
        since = len(terminal.raw)
        put_dataset("hello asked", "bye asked", "third asked")
        terminal.wait(r"stopped: \$0.750 of --max-cost \$0.750 are spent", since=since)
        assert terminal.end() == 4
    assert one_server.counts()["asked"] == 3


@pytest.mark.nightly
def test_edited_code_is_read_anew_and_ctrl_c_ends_it(project):
    Path("agent.py").write_text("def answer(prompt):\n    return 'one'\n")
    put_dataset("hello", expected="two")
    with Terminal([*COMMAND, "-t", "python:agent.py:answer"], project, size=(110, 60)) as terminal:
        terminal.wait("waiting for a change")
        since = len(terminal.raw)
        Path("agent.py").write_text("def answer(prompt):\n    return 'two and more'\n")
        terminal.wait("1 of 1 pass", since=since)
        terminal.wait("1 fixed", since=since)
        terminal.wait("waiting for a change", since=since)
        terminal.press("\x03")
        assert terminal.end() == 0


def test_what_runs_write_and_hidden_files_are_no_change(project):
    for name in ("a.json", "results/x.json", ".git/y.json", "report.json", "b/c.prompty", "picture.png"):
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_text("{}")
    seen = watched_files(project, {project / "report.json"})
    assert {str(file.relative_to(project)) for file in seen} == {"a.json", "b/c.prompty"}
    threading.Timer(0.1, Path("b/c.prompty").unlink).start()
    assert _next_change(project, seen, set())[0] == ["b/c.prompty", "report.json"]


def test_what_cannot_be_watched_is_refused(shell, project):
    put_dataset("hello")
    assert "leave out --detach" in shell("run", "--watch", "--detach").err
