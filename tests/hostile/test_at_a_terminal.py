"""18: the question of `run` in a stranger's project, on a terminal of its own."""

import json
import sys

import pytest

from tests.hostile.clone import hostile_clone
from tests.tui.terminal import Terminal
from tui_evals.interpreter import python_command

RUN = ("run", "data.json", "-t", "function", "--items", "1", "--evaluators", "Includes", "--quiet")


@pytest.fixture
def project(tmp_path, stranger, attacker):
    clone = hostile_clone(tmp_path / "clone", tmp_path / "outside", attacker)
    clone.write("data.json", json.dumps({"schemaVersion": "1.0.0", "items": [{"prompt": "x"}]}))
    return clone


def at_a_terminal(project, *keys):
    """What is shown and the exit code, each key pressed at a question."""
    with Terminal(python_command("-m", "tui_evals", *RUN), project.root, size=(120, 30)) as terminal:
        for key in keys:
            terminal.wait(r"Allow this\?")
            terminal.press(f"{key}\r")
        code = terminal.end()
        return code, terminal.raw.decode("utf-8", "replace")


@pytest.mark.nightly
@pytest.mark.skipif(sys.platform == "win32", reason="there are no such terminals")
def test_no_does_nothing_and_yes_is_asked_for_once(project):
    code, said = at_a_terminal(project, "n")
    assert code == 2
    assert "asks for your yes before it" in said
    assert "calls the function helper:answer (.evals/config.toml:" in said
    assert "nothing was done" in said
    assert project.marks == []
    code, said = at_a_terminal(project, "y")
    assert code in (0, 1), said
    assert "function-imported" in project.marks
    code, said = at_a_terminal(project)
    assert code in (0, 1), said
    assert "Allow this?" not in said
