"""Judging by hand from the command line."""

import io
import json
import subprocess
import sys

import pytest


class Stdin(io.TextIOWrapper):
    def __init__(self, raw: bytes) -> None:
        super().__init__(io.BytesIO(raw))


def test_the_list_shows_every_family_and_one_page_shows_it_all(shell):
    listed = shell("evaluators").out
    assert all(name in listed for name in ("M365", "Equals", "BertScore", "Compliance"))
    page = shell("evaluators", "PartialMatch").out
    for part in ("Needs", "threshold", "case_sensitive", "Example", "negate"):
        assert part in page
    described = json.loads(shell("evaluators", "--json").out)
    assert {one["name"] for one in described} >= {"Equals", "ModelGraded"}
    done = shell("evaluators", "equals")
    assert done.code == 2 and "did you mean 'Equals'" in done.err


def test_one_answer_is_judged(shell):
    done = shell("score", "Equals", "--response", "a", "--expected", "b", "--expected", "a")
    assert done.code == 0 and "✓ pass" in done.out
    record = json.loads(shell("score", "PartialMatch", "--response", "a b", "--expected", "a c", "--json").out)
    assert (record["score"], record["result"], record["threshold"]) == (0.5, "pass", 0.5)
    done = shell("score", "Relevance", "--prompt", "q", "--response", "a", "--judge-reply", '{"score": 2}')
    assert "✗ fail" in done.out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "name an evaluator"),
        (["Equalz", "--response", "a"], "did you mean 'Equals'"),
        (["Equals", "--response", "a", "--options", "{"], "--options: not valid JSON"),
        (["Equals", "--response", "a", "--options", '{"valeu": "x"}'], "options.valeu"),
        (["Equals", "--response", "a"], "nothing to compare with"),
    ],
)
def test_what_cannot_be_judged_is_a_sentence_and_exit_2(shell, arguments, said):
    done = shell("score", *arguments)
    assert done.code == 2 and said in done.out + done.err


def test_rows_come_back_in_order_and_a_bad_one_does_not_end_the_stream(shell, monkeypatch):
    rows = [
        b'{"evaluator": "Equals", "response": "a", "expected": "a"}',
        b"oops",
        b'{"evaluator": "Equals", "response": "\xff"}',
        b"",
        b'{"evaluator": "Equals", "response": "a", "expected": "b"}',
    ]
    monkeypatch.setattr(sys, "stdin", Stdin(b"\n".join(rows)))
    done = shell("score", "--jsonl")
    records = [json.loads(line) for line in done.out.splitlines()]
    assert done.code == 0
    assert [record["result"] for record in records] == ["pass", "error", "error", "fail"]


@pytest.mark.story
def test_ten_thousand_rows_are_judged_in_one_process():
    row = json.dumps({"evaluator": "Equals", "response": "a", "expected": "a"}) + "\n"
    command = [sys.executable, "-m", "tui_evals", "score", "--jsonl"]
    done = subprocess.run(command, input=row * 10_000, capture_output=True, text=True, check=True)
    assert done.stdout.count('"result": "pass"') == 10_000


def test_code_of_the_project_runs_once_it_is_trusted(shell, project):
    folder = project / "custom-evaluators" / "polite"
    folder.mkdir(parents=True)
    code = folder / "polite.py"
    code.write_text(
        "class Polite:\n"
        "    def __init__(self, threshold=1, options=None): pass\n"
        "    def __call__(self, prompt, response, expected_response, context):\n"
        "        return {'score': 1 if 'please' in response else 0, 'reason': 'looked'}\n"
    )
    arguments = ("score", "polite", "--response", "please")
    assert "tui-evals trust" in shell(*arguments).out
    assert "✓ pass" in shell(*arguments, "--trust").out
    assert shell("trust", code).code == 0
    assert "✓ pass" in shell(*arguments).out
    assert str(folder) in shell("trust", "show").out
    code.write_text(code.read_text() + "# changed\n")
    assert "tui-evals trust" in shell(*arguments).out
    assert "changed since" in shell("trust", "show").out
    page = shell("trust")
    assert page.code == 2
    assert "runs the evaluator polite (custom-evaluators/polite)" in page.err
    assert shell("trust", "--yes").code == 0
    assert "✓ pass" in shell(*arguments).out
    assert "1 forgotten" in shell("trust", "revoke").out
    assert "tui-evals trust" in shell(*arguments).out


def test_validate_knows_the_projects_evaluators_and_the_prompts_metrics(shell, project):
    (project / "polite.metric.prompty").write_text("system:\nIs {{output}} polite? OK or ERR")
    (project / "p.prompty").write_text("user:\n{{word}}")
    item = {"variables": {"word": "x"}, "evaluators": {"polite": {"threshold": 50}}}
    document = {"schemaVersion": "1.11.0", "prompt_file": "p.prompty", "items": [item]}
    (project / "d.json").write_text(json.dumps(document))
    assert shell("validate", "d.json").code == 0
    for name, said in (
        ("absent.prompty", "no such file"),
        ("../../etc/passwd", "cannot be used"),
        ("/dev/zero", "no such"),
    ):
        (project / "d.json").write_text(json.dumps({**document, "prompt_file": name}))
        done = shell("validate", "d.json")
        assert done.code == 2 and said in done.out and "prompt_file" in done.out


def test_what_a_judge_is_asked_is_a_page(shell):
    page = shell("evaluators", "Faithfulness", "--prompt").out
    for part in (
        "Faithfulness · faithfulness 1",
        "system:",
        "user:",
        "result_2>\nrefunded 2490 cents",
        "chunk_1>",
        '"supported"',
    ):
        assert part in page
    (asked,) = json.loads(shell("evaluators", "Relevance", "--prompt", "--json").out)
    assert asked["rubric"] == "relevance 2" and [one["role"] for one in asked["messages"]] == ["system", "user"]
    done = shell("evaluators", "Equals", "--prompt")
    assert done.code == 2 and "Equals asks no judge" in done.err


def test_a_judge_is_checked_for_each_evaluator_in_a_table(shell):
    done = shell("judge", "check", "demo", "--evaluator", "Relevance", "--evaluator", "GoalReached")
    lines = done.out.splitlines()
    assert lines[0].split() == ["evaluator", "known", "verdicts", "too", "kind", "too", "harsh", "unread"]
    assert [line.split()[1] for line in lines if line[:1] in "✓✗" and line[:1]] == ["Relevance", "GoalReached"]
    told = json.loads(shell("judge", "check", "demo", "--evaluator", "GoalReached", "--json").out)
    (one,) = told["evaluators"]
    assert (one["evaluator"], one["total"]) == ("GoalReached", 2) and len(told["canaries"]) == 2
    done = shell("judge", "check", "demo", "--evaluator", "GoalReachd")
    assert done.code == 2 and "did you mean 'GoalReached'" in done.err
