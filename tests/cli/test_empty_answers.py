"""An empty answer is a bad answer: it gets the lowest score and counts in the rate."""

import json

import pytest

from tests.cli.helpers import asked

JUDGE = """
def reply(prompt):
    with open("asked", "a") as file:
        file.write("x")
    return '{"reason": "so", "score": 5}'
"""


@pytest.fixture
def run(dataset, answers, shell, folder):
    (folder / ".evals").mkdir()
    (folder / ".evals" / "config.toml").write_text('[targets.judge]\nmodel = "python:judging_empty:reply"\n')
    (folder / "judging_empty.py").write_text(JUDGE)
    dataset(asked(2), {"Relevance": {}, "Coherence": {"negate": True}})
    return lambda *options: shell(
        "run", "data.json", "-t", answers(["right", "  "]), "-j", "judge", "--trust", "--no-cache", *options
    )


def test_an_empty_answer_gets_the_lowest_score_and_no_judge_is_asked(run, shell, folder):
    assert run("--quiet").code == 0
    assert (folder / "asked").read_text() == "xx"  # two evaluators, one answer
    (detail,) = json.loads(shell("show", "last", "--item", "#2", "--json").out)
    assert detail["row"]["status"] == "fail"
    for record in detail["scores"]["1"]:
        assert (record["score"], record["result"], record["reason"]) == (1.0, "fail", "the answer is empty")


def test_it_counts_in_the_rate_and_is_named_in_the_list(run, shell):
    run("--quiet")
    shown = shell("show", "last").out
    assert "0 of 2 pass" in shown and "could not be judged" not in shown and "(empty)" in shown
    assert "The answer is empty." in shell("show", "last", "--item", "#2").out


def test_a_gate_fails_by_it(run):
    assert run("--quiet", "-e", "Relevance", "--fail-under", "51").code == 1
    assert run("--quiet", "-e", "Relevance", "--fail-under", "50").code == 0
