"""Lists say what they are of: failures with question and expectation, runs and targets with headings and rates."""

import json
from pathlib import Path

import pytest


@pytest.fixture
def two_targets(shell, project):
    Path("agent.py").write_text("def echo(prompt): return prompt\n\n\ndef shout(prompt): return prompt.upper()\n")
    Path(".evals").mkdir()
    Path(".evals/config.toml").write_text(
        '[targets.echo]\nmodel = "python:agent:echo"\n[targets.shout]\nmodel = "python:agent:shout"\n'
        '[targets.cloud]\nmodel = "openai/gpt-4o"\napi_key = "env:MY_SPECIAL_KEY"\n'
    )
    items = [{"prompt": "hi there", "expected_response": "hi"}, {"prompt": "bye", "expected_response": "adieu"}]
    Path("evals.json").write_text(json.dumps({"items": items, "default_evaluators": {"Includes": {}}}))
    Path("plain.prompty").write_text("---\nname: plain\n---\nuser:\n{{prompt}}\n")
    assert shell("run", "-t", "echo,shout", "-p", "plain.prompty", "--quiet").code == 0


def test_a_list_of_failures_says_what_was_asked_and_expected(shell, two_targets):
    out = shell("show", "last", "--only", "fail target:echo").out
    assert (
        "asked     bye" in out and "expected  adieu" in out and "answer    bye" in out and "why       Includes" in out
    )
    assert "expected  " not in shell("show", "last").out


def test_runs_and_targets_have_headings_and_runs_a_rate_for_each_column(shell, two_targets):
    head, line = shell("runs").out.splitlines()[:2]
    assert head.split("  ")[0] == "run" and "pass rate" in head
    assert "0.0 % to 50.0 %" in line
    head, *lines = shell("targets").out.splitlines()
    assert head.split()[:3] == ["target", "model", "key"] and len({line.index("python:") for line in lines[:2]}) == 1


@pytest.mark.nightly
@pytest.mark.story
def test_a_bar_or_a_slash_stands_for_the_dot_in_names_of_columns(shell, two_targets):
    for typed in ("echo · plain,shout · plain", "echo|plain,shout | plain", "echo / plain,shout / plain"):
        done = shell("compare", "last", "--columns", typed)
        assert done.code == 0 and "shout" in done.out, done.err


def test_resolve_finds_the_dataset_and_doctor_names_the_keys_of_the_configuration(shell, two_targets):
    assert "Includes" in shell("resolve").out
    assert "MY_SPECIAL_KEY" in shell("doctor").out and "which .evals/config.toml names" in shell("doctor").out
