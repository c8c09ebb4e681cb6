"""Agents in Python: a class in a file, made and set up once for a run, with the session it gave and a stream."""

import json

import pytest

from tests.cli.helpers import Shell
from tui_evals import evaluate
from tui_evals.targets.config import load_settings
from tui_evals.targets.permissions import permissions_of

AGENT = """
from pathlib import Path

def note(word):
    with open(Path(__file__).with_name("notes.txt"), "a") as notes:
        notes.write(f"{word} ")

class Agent:
    def __init__(self):
        note("made")

    def setup(self):
        note("up")

    def teardown(self):
        note("down")

    def __call__(self, prompt, item, variables, session=None):
        if prompt == "break":
            yield "half"
            raise LookupError("no such thing")
        known = session or {"asked": []}
        known["asked"].append(prompt)
        yield f"{item} {variables.get('who')} "
        yield ", ".join(known["asked"])
        return {"session": known}
"""


@pytest.fixture
def shell(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "agents").mkdir()
    (tmp_path / "agents" / "billing_agent.py").write_text(AGENT)
    items = [
        {
            "testId": "talk",
            "variables": {"who": "Ann"},
            "turns": [{"prompt": each, "expected_response": each} for each in ("one", "two")],
        },
        {"testId": "wrong", "prompt": "break", "expected_response": "?"},
    ]
    (tmp_path / "data.json").write_text(json.dumps({"default_evaluators": {"Includes": {}}, "items": items}))
    (tmp_path / ".evals").mkdir()
    (tmp_path / ".evals" / "config.toml").write_text(
        '[targets.agent]\nmodel = "python:agents/billing_agent.py:Agent"\n'
    )
    return Shell(capsys)


def test_a_class_in_a_file_is_made_once_and_carries_its_session(shell, tmp_path):
    shell("run", "data.json", "-t", "agent", "--quiet")
    assert (tmp_path / "agents" / "notes.txt").read_text() == "made up down "
    assert "talk Ann one, two" in shell("show", "last", "--item", "talk").out
    wrong = shell("show", "last", "--item", "wrong").out
    assert "LookupError: no such thing" in wrong
    assert 'File "agents/billing_agent.py", line 21, in __call__' in wrong


def test_a_yes_to_a_file_ends_when_it_changes(shell, tmp_path):
    config = load_settings(tmp_path).targets["agent"]
    file = tmp_path / "agents" / "billing_agent.py"
    (before,) = permissions_of(config, {}, tmp_path)
    assert before.does == "calls the function agents/billing_agent.py:Agent"
    file.write_text(AGENT + "import beside\n")
    (after,) = permissions_of(config, {}, tmp_path)
    file.with_name("beside.py").write_text("")
    (later,) = permissions_of(config, {}, tmp_path)
    assert len({before.digest, after.digest, later.digest}) == 3


def test_check_and_typos_of_a_file(shell):
    assert (
        "✓ python:agents/billing_agent.py:Agent"
        in shell("targets", "check", "python:agents/billing_agent.py:Agent").out
    )
    done = shell("targets", "check", "python:agents/biling_agent.py:Agent")
    assert done.code == 3
    assert "(did you mean 'billing_agent.py'?)" in done.err
    done = shell("run", "data.json", "-t", "python:agents/billing_agent.py:Agnet")
    assert done.code == 3
    assert "there is no Agnet in billing_agent (did you mean 'Agent'?)" in done.err


class Counting:
    """An agent of the library's caller."""

    downs = 0

    def __init__(self):
        self.asked = 0

    async def setup(self):
        self.asked = 10

    def teardown(self):
        type(self).downs += 1

    async def __call__(self, question, session=None):
        self.asked += 1
        yield f"{question} {self.asked}"


def test_a_class_is_a_target_of_the_library_too(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run = evaluate([{"prompt": "hello"}], Counting, evaluators={"said": lambda output: output == "hello 11"})
    assert run.passed == 1 and Counting.downs == 1
    assert run.answers[0].target == "Counting"
