"""Evaluators of one's own: begun by a command, judged by plain functions, and found wrong before a run."""

import json
import subprocess
import sys

import pytest

from tests.cli.helpers import Shell

DATASET = {"items": [{"prompt": "Say yes", "expected_response": "yes"}], "default_evaluators": {"shouting": {}}}


@pytest.fixture
def project(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / ".evals").mkdir()
    (tmp_path / "d.json").write_text(json.dumps(DATASET))
    return tmp_path


@pytest.mark.soak
def test_new_writes_a_function_and_a_test_that_pass_as_they_are(project, capsys):
    shell = Shell(capsys)
    done = shell("evaluators", "new", "shouting")
    assert done.code == 0 and "custom-evaluators/shouting/test_shouting.py" in done.out
    folder = project / "custom-evaluators" / "shouting"
    tested = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", folder], capture_output=True
    )
    assert tested.returncode == 0, tested.stdout
    assert shell("validate", "d.json").code == 0
    done = shell("score", "shouting", "--response", "It is PARIS", "--expected", "Paris", "--trust")
    assert "pass" in done.out and "'Paris' is in the answer" in done.out
    again = shell("evaluators", "new", "shouting")
    assert again.code != 0 and "already there" in again.err
    for name, said in (("equals", "built-in Equals"), ("json", "Python's own"), ("a-b", "letters, digits")):
        refused = shell("evaluators", "new", name)
        assert refused.code != 0 and said in refused.err


@pytest.mark.parametrize(
    ("source", "said"),
    [
        (None, "custom-evaluators/shouting/shouting.py is missing"),
        ("def score(response:\n", "shouting.py:1: this is not valid Python"),
        ("\n\ndef judge(response): ...\n", "shouting.py:1: there is neither a function score nor a class"),
        ("\ndef score(respons): ...\n", "shouting.py:2: score asks for 'respons', which is not known (did you mean"),
    ],
)
def test_a_wrong_file_is_found_by_validate_and_before_a_run(project, capsys, source, said):
    folder = project / "custom-evaluators" / "shouting"
    folder.mkdir(parents=True)
    if source is not None:
        (folder / "shouting.py").write_text(source)
    shell = Shell(capsys)
    done = shell("validate", "d.json")
    assert done.code == 2 and said in done.out and "default_evaluators.shouting" in done.out, done
    done = shell("run", "d.json", "-t", "demo", "--trust")
    assert done.code != 0 and (said if source else "missing required file 'shouting.py'") in done.err, done
