"""Every run that ends with failures prints its causes grouped with counts, one remedy each and the exact
command that lists those rows (`19× RuntimeError: backend down`); `show` has one reason per row; the hint that follows
a run never leads to an empty list. Filters: error, unjudged, fail, empty mean what they say everywhere.
"""

import json
import re
import shlex
from typing import get_args

import pytest

from tests.cli.helpers import Shell
from tui_evals.store.filters import FILTER_WORDS, SHOWN_WORDS, parse_filter
from tui_evals.store.records import AnswerStatus
from tui_evals.tui.actions import PROSE
from tui_evals.tui.widgets import inputs

pytestmark = pytest.mark.story

BACKEND = """
calls = 0

def down(prompt):
    raise RuntimeError(f"backend down, ticket {abs(hash(prompt)) % 1000}")

def odd(prompt):
    number = int(prompt.split()[-1])
    if number < 3:
        raise RuntimeError(f"backend down, ticket {number}")
    if number == 3:
        raise ValueError("it's \\"odd\\"")
    if number == 4:
        return {"text": "cut o", "finish_reason": "length"}
    return {"text": "", "finish_reason": "stop"} if number == 5 else "question"
"""


@pytest.fixture
def shell(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "backend.py").write_text(BACKEND)
    items = [{"prompt": f"question {number}", "expected_response": "question"} for number in range(8)]
    (tmp_path / "many.json").write_text(json.dumps({"default_evaluators": {"ExactMatch": {}}, "items": items}))
    return Shell(capsys)


def listed(shell, command):
    """The rows that a command of ours, as it was printed, lists: what `show --json` says of them."""
    assert command.startswith("tui-evals show ")
    return json.loads(shell(*shlex.split(command)[1:], "--json").out)["answers"]


def ended(shell, target):
    out = shell("run", "many.json", "-t", f"python:backend:{target}", "--json").out
    return json.loads(out.splitlines()[-1])


def test_a_run_that_fails_names_its_cause_once_with_the_command_that_lists_the_rows(shell):
    out = shell("run", "many.json", "-t", "python:backend:down").out
    key = out.split("run ")[-1].split()[0]
    assert out.count("backend down") == 1
    assert "8× backend:down failed with RuntimeError: backend down, ticket" in out
    assert f" – `tui-evals show {key} --only error`" in out
    assert f"`tui-evals rerun {key} --only error` asks again" in out
    assert f"`tui-evals show {key} --only error` shows what has no answer" in out, "nothing failed, so not `failed`"


def test_each_command_lists_the_rows_of_its_cause_and_no_others(shell):
    causes = ended(shell, "odd")["causes"]
    assert [cause["count"] for cause in causes] == [3, 1, 1]
    rows = [{row["name"] for row in listed(shell, cause["command"])} for cause in causes]
    assert rows == [{"#1", "#2", "#3"}, {"#4"}, {"#5"}]
    assert all(cause["remedy"] for cause in causes)
    assert causes[2]["message"] == "cut off at the limit of tokens" and causes[2]["filter"] == "length"


def test_show_has_one_reason_for_each_row_that_did_not_pass(shell):
    ended(shell, "odd")
    rows = json.loads(shell("show", "last", "--json").out)["answers"]
    assert [bool(row["reason"]) for row in rows] == [row["status"] != "pass" for row in rows]
    assert rows[3]["reason"] == 'backend:odd failed with ValueError: it\'s "odd"'
    out = shell("show", "last").out
    assert out.count("ExactMatch") == 2 and "(empty)" in out and "[length] cut o" in out
    assert re.search(r"! error +#4", out) and "1× backend:odd failed with ValueError" in out


@pytest.mark.parametrize("target, command", [("odd", "--only fail"), ("down", "--only error")])
def test_the_hint_after_a_run_never_leads_to_an_empty_list(shell, target, command):
    hint = shell("run", "many.json", "-t", f"python:backend:{target}").out
    assert command in hint
    assert listed(shell, next(part for part in hint.split("`") if part.startswith("tui-evals show")))


def test_after_a_run_in_which_all_is_well_the_hint_shows_the_answers(shell):
    shell("run", "many.json", "-t", "python:backend:odd", "--items", "8")
    assert listed(shell, "tui-evals show last")


@pytest.mark.cases(4)
@pytest.mark.parametrize(
    "word, names",
    [("error", "1234"), ("errored", "1234"), ("fail", "56"), ("failed", "56"), ("empty", "6"), ("pass", "78")],
)
def test_a_word_means_the_same_on_the_command_line_in_exports_and_in_a_rerun(shell, word, names):
    ended(shell, "odd")
    wanted = [f"#{name}" for name in names]
    assert [row["name"] for row in listed(shell, f"tui-evals show last --only {word}")] == wanted
    lines = shell("report", "last", "--to", "jsonl", "-o", "-", "--only", word).out.splitlines()
    assert [json.loads(line)["item"] for line in lines] == wanted
    plan = json.loads(shell("rerun", "last", "--only", word, "--plan", "--json").out)
    assert plan["items"] == len(wanted)


def test_every_status_is_a_word_by_itself_and_every_word_is_explained_where_filters_are_typed():
    for status in get_args(AnswerStatus):
        assert parse_filter(status).terms[0].key == status
    for word in SHOWN_WORDS:
        assert word in inputs.HELP and word in " ".join(PROSE["results"])
    assert {"error", "fail", "empty", "length", "content_filter", "refusal"} <= set(SHOWN_WORDS) <= set(FILTER_WORDS)


def test_a_word_of_answers_is_refused_where_there_are_only_items(shell):
    refused = shell("run", "many.json", "-t", "python:backend:odd", "--only", "empty")
    assert refused.code == 2 and "--from RUN" in refused.err
