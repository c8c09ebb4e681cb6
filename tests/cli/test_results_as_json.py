"""Commands that list or do something print one JSON value with --json, and nothing else on the standard output."""

import json

import click
import pytest

from tests.cli.helpers import Shell, asked
from tui_evals.cli.main import cli

WRITES_A_FILE = "writes a file or prints it, in a format that its options name"
WITHOUT = {
    "demo": "opens the workbench",
    "help": "prints pages for people",
    "completion": "prints a script for a shell",
    "upgrade": WRITES_A_FILE,
    "convert": WRITES_A_FILE,
    "item from-conversation": WRITES_A_FILE,
    "evaluators new": WRITES_A_FILE,
    "export": WRITES_A_FILE,
    "report": WRITES_A_FILE,
    "baseline export": WRITES_A_FILE,
    "ci init": WRITES_A_FILE,
    "ci report": "writes to the summary and the pull request",
}
"""The commands that have no --json, and why."""


def leaves(command, path=()):
    """Every command that does something, with the words that call it."""
    if not isinstance(command, click.Group):
        yield " ".join(path), command
        return
    if path and command.invoke_without_command:
        yield " ".join(path), command
    context = click.Context(command)
    for name in command.list_commands(context):
        yield from leaves(command.get_command(context, name), (*path, name))


def test_every_command_takes_json_or_is_named_with_a_reason():
    lacking = {name for name, command in leaves(cli) if not any("--json" in param.opts for param in command.params)}
    assert lacking == set(WITHOUT)


@pytest.fixture
def shell(project, capsys):
    (project / "data.json").write_text(
        json.dumps({"default_evaluators": {"ExactMatch": {}}, "items": asked(2, "something else")})
    )
    shell = Shell(capsys)
    assert shell("run", "data.json", "--target", "demo", "--quiet").code == 0
    return shell


def result(done, code=0):
    """The one JSON value of the standard output."""
    assert done.code == code, done.err
    return json.loads(done.out)


def key_of(shell):
    return json.loads(shell("runs", "--json").out)[0]["key"]


def test_diff_has_every_answer_with_what_was_expected(shell):
    found = result(shell("diff", "last", "--limit", "1", "--json"))
    assert found["run"] == key_of(shell) and found["count"] == 2
    (answer,) = found["answers"]
    assert answer["expected"] == "something else" and answer["failed_by"] == ["ExactMatch"]
    assert answer["answer"] and answer["same"] is False and answer["changes"] == [] and answer["status"] == "fail"
    assert result(shell("diff", "last", "--only", "status:pass", "--json"))["answers"] == []


def test_cache_why_has_the_whole_key_and_what_it_is_made_of(shell):
    (key,) = result(shell("cache", "why", "last", "#1", "--json"))["keys"]
    assert key["target"] == "demo" and len(key["key"]) == 64 and "messages" in json.dumps(key["made_of"])


def test_label_says_what_was_kept(shell):
    kept = result(shell("label", "last", "#1", "fail", "--note", "no", "--author", "Ada", "--json"))
    assert kept == {
        "run": key_of(shell),
        "item": "#1",
        "turn": 1,
        "verdict": "fail",
        "evaluator": None,
        "author": "Ada",
        "note": "no",
        "answers": 1,
    }


def test_delete_and_prune_name_what_is_deleted_and_what_is_kept(shell):
    first = key_of(shell)
    assert shell("baseline", "set", first).code == 0
    shell("run", "data.json", "--target", "demo", "--quiet")
    second = key_of(shell)
    assert result(shell("runs", "prune", "--keep", "0", "--yes", "--json")) == {
        "deleted": [second],
        "baselines": {first: "data.json"},
    }
    assert result(shell("runs", "prune", "--keep", "0", "--json")) == {"deleted": [], "baselines": {first: "data.json"}}
    assert result(shell("baseline", "clear", "--json")) == {"dataset": "data.json", "run": None}
    assert result(shell("delete", first, "--yes", "--json")) == {"deleted": [first]}


def test_a_refusal_prints_nothing_on_the_standard_output(shell):
    refused = shell("delete", "last", "--json")
    assert refused.code == 2 and refused.out == "" and "--yes" in refused.err


def test_trust_has_what_is_agreed_to(shell, project):
    code = project / "custom-evaluators" / "polite" / "polite.py"
    code.parent.mkdir(parents=True)
    code.write_text("def polite(response):\n    return 'please' in response\n")
    before = result(shell("trust", "show", "--json"))
    assert before["project"] == str(project) and before["code"] == []
    assert result(shell("trust", code, "--json")) == {"trusted": [str(code)]}
    (trusted,) = result(shell("trust", "show", "--json"))["code"]
    assert trusted["unchanged"] is True
    code.write_text(code.read_text() + "# changed\n")
    refused = shell("trust", "--json")
    assert refused.code == 2 and refused.out == "" and "runs the evaluator polite" in refused.err
    assert result(shell("trust", "--yes", "--json"))["project"] == str(project)
    assert result(shell("trust", "revoke", "--json"))["forgotten"] >= 1


def test_the_cache_and_the_store_say_what_was_done_as_json(shell, project):
    assert result(shell("cache", "clear", "--yes", "--json")) == {"forgotten": 0}
    copied = result(shell("db", "backup", "copy.db", "--json"))
    assert copied["bytes"] == (project / "copy.db").stat().st_size
    assert result(shell("db", "repair", "--json"))["repaired"] is False
    assert result(shell("db", "vacuum", "--json"))["bytes"] > 0


def test_init_without_a_target_says_which_dataset_it_made(project, capsys):
    made = result(Shell(capsys)("init", "--json"))
    assert made == {"dataset": "evals/evals.json", "target": None, "answer": None, "run_exit_code": None}


def test_init_ends_with_what_it_made_and_the_code_of_its_run(project, capsys):
    shell = Shell(capsys)
    (project / "agent.py").write_text("def answer(prompt):\n    return 'Hi'\n")
    begun = shell("init", "agent.py:answer", "--ask", "Hello?", "--example", "Hello? => Hi", "--json")
    assert result(begun)["answer"] == "Hi" and result(begun)["run_exit_code"] == 0
    assert "1 of 1" in begun.err or "100" in begun.err
    assert "function" in shell("targets").out, "the next command prints again"
