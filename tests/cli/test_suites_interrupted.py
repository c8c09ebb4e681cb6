"""A run of a suite that is interrupted: its exit code says so, and `resume` ends it."""

from __future__ import annotations

import json

import pytest

JUDGE = """
import os, signal
from pathlib import Path
from tui_evals.targets.base import TargetError

def reply(prompt):
    asked = len(Path("asked").read_text()) if Path("asked").exists() else 0
    if Path("trouble").exists() and asked == 2:
        meet(Path("trouble").read_text())
    Path("asked").write_text("x" * (asked + 1))
    return '{"reason": "It fits.", "score": 1}'

def meet(trouble):
    if trouble == "interrupt":
        os.kill(os.getpid(), signal.SIGINT)
    else:
        raise TargetError("agentRequestFailed", "no credit is left", fault="target")
"""


@pytest.fixture
def suite(project, shell):
    (project / "judging.py").write_text(JUDGE)
    (project / "x.csv").write_text("input,reference_output\n" + "".join(f"q{n},{n}\n" for n in range(6)))
    (project / "y.csv").write_text("candidate_output\n" + "".join(f"{n}\n" for n in range(6)))
    (project / ".evals").mkdir()
    (project / ".evals" / "config.toml").write_text(
        '[targets.judge]\nmodel = "python:judging:reply"\nconcurrency = 1\n'
    )
    assert shell("suite", "create", "s", "--data", "x.csv", "--scoring", "Similarity").code == 0
    return "s"


@pytest.mark.story
@pytest.mark.parametrize(("trouble", "code"), [("interrupt", 130), ("refuse", 4)])
def test_an_interrupted_run_of_a_suite_has_the_code_of_any_other_and_is_resumed(suite, project, shell, trouble, code):
    (project / "trouble").write_text(trouble)
    done = shell("suite", "run", suite, "r", "--candidates", "y.csv", "--judge", "judge", "--trust")
    assert done.code == code, done.out + done.err
    assert "tui-evals resume " in done.out + done.err
    (project / "trouble").unlink()
    assert shell("resume", "last", "--trust", "--quiet").code == 0
    cases = json.loads(shell("suite", "show", suite, "r", "--json").out)["test_cases"]
    assert [case["score"] is None for case in cases] == [False] * 6
