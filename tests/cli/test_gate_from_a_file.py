"""What a newcomer meets before the first gate: a committed baseline, a target that is checked, evaluators that go."""

import json
import sys
from pathlib import Path

import pytest

ITEMS = [
    {"prompt": f"Say {word}.", "expected_response": word} for word in ("red", "blue", "green", "gold", "gray", "pink")
]


def _agent(answer: str) -> None:
    sys.modules.pop("agent", None)  # as in a process of its own
    Path("agent.py").write_text(f"def answer(prompt):\n    return {answer}\n")


@pytest.fixture
def dataset(project):
    Path("evals.json").write_text(
        json.dumps({"items": ITEMS, "default_evaluators": {"PartialMatch": {}, "Equals": {}}})
    )


@pytest.mark.nightly
@pytest.mark.story
def test_a_gate_measures_against_an_exported_run_on_a_fresh_checkout(shell, project, dataset, monkeypatch):
    _agent("prompt.split()[1].rstrip('.')")
    run = ("run", "evals.json", "-t", "python:agent:answer", "--trust", "--quiet")
    assert shell(*run).code == 0
    assert shell("export", "last", "-o", "base.json").code == 0
    gates = ("--baseline", "base.json", "--fail-on-broken", "-o", "junit.xml")
    for answer, code in (("prompt.split()[1].rstrip('.')", 0), ("'nothing'", 1)):
        _agent(answer)
        monkeypatch.setenv("TUI_EVALS_DB", f"fresh-{code}.db")
        done = shell(*run, "--no-cache", *gates)
        assert done.code == code, done.err
        assert Path("junit.xml").read_text().startswith("<?xml")
    missing = shell(*run, "--baseline", "nowhere.json", "--fail-on-broken")
    assert missing.code == 2 and "there is no run 'nowhere.json'" in missing.err


def test_replaced_evaluators_are_named(shell, project, dataset):
    done = shell("run", "evals.json", "-t", "demo", "-e", "PartialMatch", "--plan")
    assert "--evaluators replaces the evaluators of evals.json. Not judged by: Equals." in done.err
    assert "replaces" not in shell("run", "evals.json", "-t", "demo", "--plan").err


def test_a_target_whose_whole_reply_is_the_answer_is_not_ready(shell, project, one_server):
    one_server.reset()
    Path(".evals").mkdir(exist_ok=True)
    body = 'body = { model = "m", messages = "{{ messages }}" }'
    http = f'url = "{one_server.url}/chat/completions", method = "POST", {body}'
    for answer, code, sign in (("", 1, "✗"), (', answer = "$.choices[0].message.content"', 0, "✓")):
        Path(".evals/config.toml").write_text(f"[targets.own]\nhttp = {{ {http}{answer} }}\n")
        done = shell("targets", "check", "own", "--trust")
        assert (done.code, f"{sign} own" in done.out) == (code, True), done
        assert json.loads(shell("targets", "check", "own", "--trust", "--json").out)["ready"] is (code == 0)
