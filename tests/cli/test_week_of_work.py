"""A week of ordinary work in a project that somebody else began, and how often it asks.

Questions are counted as a person meets them: at a terminal, on the page before a run.
"""

import json
import os
import subprocess
import sys
from types import SimpleNamespace

import pytest

from tests.cli.helpers import Shell

AGENT = "import sys\nfrom lib.words import word\nsys.stdin.read()\nprint(word())\n"
WORDS = "from . import table\nimport json\ndef word(): return table.WORD\n"
SCORE = "def score(response, expected): return response.strip() == expected\n"


class Terminal:
    """Somebody at a terminal who answers yes, and counts."""

    def __init__(self, shell, root):
        self.asked = 0
        self._shell, self._root = shell, root

    def yes(self, *words, **more):
        self.asked += 1
        return True

    def asked_by(self, *words):
        """The number of questions of a command that has to work."""
        before = self.asked
        done = self._shell(*words)
        assert done.code in (0, 1), f"{done.out}{done.err}"
        assert "1 without an answer" not in done.out, done.out
        assert "has no yes" not in done.out, done.out
        return self.asked - before

    def run(self):
        return self.asked_by("run", "data.json", "-t", "agent")

    def write(self, name, text):
        file = self._root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)


@pytest.fixture
def week(tmp_path, monkeypatch, capsys):
    for name in ("HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME"):
        monkeypatch.setenv(name, str(tmp_path / "home"))
    monkeypatch.delenv("TUI_EVALS_TRUST", raising=False)
    monkeypatch.setenv("PATH", os.pathsep.join((os.path.dirname(sys.executable), os.environ["PATH"])))
    root = tmp_path / "project"
    root.mkdir()
    monkeypatch.chdir(root)
    terminal = SimpleNamespace(isatty=lambda: True)
    monkeypatch.setattr("tui_evals.cli.inputs.sys", SimpleNamespace(stdin=terminal, stderr=terminal))
    week = Terminal(Shell(capsys), root)
    monkeypatch.setattr("tui_evals.cli.inputs.confirmed", week.yes)
    subprocess.run(["git", "init", "-q"], check=True)
    dataset(week, "Includes", "Mine")
    week.write(".evals/config.toml", '[targets.agent]\nmodel = "command:python agent.py"\n')
    week.write("agent.py", AGENT)
    week.write("lib/__init__.py", "")
    week.write("lib/words.py", WORDS)
    week.write("lib/table.py", "WORD = 'one'\n")
    week.write("custom-evaluators/Mine/Mine.py", SCORE)
    return week


def dataset(week, *evaluators):
    items = [{"prompt": "which?", "expected_response": "one"}]
    data = {"schemaVersion": "1.0.0", "default_evaluators": {name: {} for name in evaluators}, "items": items}
    week.write("data.json", json.dumps(data))


@pytest.mark.story
def test_a_week_in_a_project_of_others(week, monkeypatch):
    # Monday: cloned, and everything that it runs is one question.
    assert week.run() == 1
    assert [week.run() for _ in range(3)] == [0, 0, 0]

    # Tuesday: work on what is data, and on code that nothing runs. A cache of bytecode appears, as it always does.
    dataset(week, "Includes", "Mine", "ExactMatch")
    week.write("notes.md", "# notes\n")
    week.write("prices.csv", "1,2\n")
    week.write("scripts/release.py", "print('released')\n")
    subprocess.run(["python", "-m", "compileall", "-q", "lib"], check=True)
    assert [week.run(), week.asked_by("runs"), week.asked_by("validate", "data.json")] == [0, 0, 0]

    # Wednesday: an edit of the code that runs is asked about once, however many files it touches.
    week.write("lib/words.py", WORDS.replace("table.WORD", "table.WORD.lower()"))
    week.write("lib/table.py", "WORD = 'One'\n")
    assert [week.run(), week.run()] == [1, 0]

    # Thursday: a pull changes code and configuration, and brings an evaluator.
    week.write("agent.py", f"# theirs\n{AGENT}")
    week.write("custom-evaluators/Other/Other.py", SCORE)
    dataset(week, "Includes", "Mine", "Other")
    assert [week.run(), week.run()] == [1, 0]

    # Friday: back to the code of Monday, which has its yes; and a pipeline, which is told on its command line.
    week.write("agent.py", AGENT)
    assert week.run() == 0
    week.write("agent.py", f"# new\n{AGENT}")
    assert week.asked_by("run", "data.json", "-t", "agent", "--trust") == 0
    monkeypatch.setenv("TUI_EVALS_TRUST", "all")
    assert week.run() == 0
    assert week.asked == 3


@pytest.mark.nightly
def test_a_week_in_a_project_of_ones_own(week):
    assert week.asked_by("trust", "--below", ".") == 0
    for day in range(5):
        week.write("lib/words.py", f"# day {day}\n{WORDS}")
        week.write(f"custom-evaluators/Day{day}/Day{day}.py", SCORE)
        dataset(week, "Includes", f"Day{day}")
        week.run()
    assert week.asked == 5  # for the evaluators, each of which is new; never for the code of the agent
