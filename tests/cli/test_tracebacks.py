"""An exception of a user's function, custom evaluator or pytest target keeps its traceback (file, line,
last frames, redacted) in the store; `show --item`, pane 5 and `evaluate()` show it. `evaluate()` raises when every call
failed with the same error. `judge check` says the 401, not fourteen times 'got error'.
"""

import asyncio
import json
import traceback

import pytest

from tests.cli.helpers import Shell
from tests.server import running
from tests.tui.story import at_the_workbench
from tui_evals import EveryCallFailed, RunStopped, evaluate
from tui_evals.store.reader import Reader
from tui_evals.text.names import last_frames

BACKEND = """
def lookup(prompt):
    table = {"yes": 1, "password": "sk-abcdefgh12345678"}
    return table[prompt], "sk-abcdefgh12345678"

def answer(prompt):
    return str(lookup(prompt))
"""
STRICT = """
def inner(response):
    raise LookupError(f"no grade for {response}")

class Strict:
    def __init__(self, threshold=None, options=None):
        pass

    def __call__(self, prompt, response, expected_response, context):
        return inner(response)
"""


@pytest.fixture
def shell(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "lookups.py").write_text(BACKEND)
    items = [{"prompt": "yes", "expected_response": "1"}, {"prompt": "no", "expected_response": "0"}]
    (tmp_path / "data.json").write_text(json.dumps({"default_evaluators": {"ExactMatch": {}}, "items": items}))
    (tmp_path / ".evals").mkdir()
    return Shell(capsys)


@pytest.mark.nightly
def test_a_function_that_raises_says_where_in_show_and_in_the_workbench(shell, tmp_path):
    shell("run", "data.json", "-t", "python:lookups:answer", "--quiet")
    out = shell("show", "last", "--item", "#2").out
    assert "KeyError: 'no'" in out and 'File "lookups.py", line 4, in lookup' in out
    assert out.index("in answer") < out.index("in lookup"), "the last frames, the innermost below"
    assert "sk-abcdefgh" not in out and "[redacted]" in out and "asyncio" not in out

    async def look_in_the_workbench():
        async with at_the_workbench(tmp_path, dataset="data.json", run="last") as person:
            await person.press("4", "j", "5")
            await person.until(lambda: "in lookup" in "\n".join(person.rows("detail")))

    asyncio.run(look_in_the_workbench())


def test_a_custom_evaluator_that_raises_says_where(shell, tmp_path):
    folder = tmp_path / "custom-evaluators" / "Strict"
    folder.mkdir(parents=True)
    (folder / "Strict.py").write_text(STRICT)
    (tmp_path / "data.json").write_text(
        json.dumps({"default_evaluators": {"Strict": {}}, "items": [{"prompt": "yes"}]})
    )
    out = shell("run", "data.json", "-t", "python:lookups:answer", "--trust").out
    assert "Strict could not judge: LookupError: no grade for (1" in out
    assert "--item '#1'` shows more. After fixing it: `tui-evals rescore" in out
    out = shell("show", "last", "--item", "#1").out
    assert 'File "custom-evaluators/Strict/Strict.py", line 3, in inner' in out and "child/main" not in out


def failing(prompt):
    raise RuntimeError("backend down")


def grading(response):
    return 1 / len(response[:0])


def test_evaluate_raises_when_every_call_failed_with_the_same_error_and_says_where(shell, tmp_path):
    with pytest.raises(EveryCallFailed, match="failing failed with RuntimeError: backend down") as caught:
        evaluate([{"prompt": "a"}, {"prompt": "b"}], failing, evaluators=[grading], project=tmp_path)
    assert "in failing" in "".join(traceback.format_exception(caught.value))
    assert isinstance(caught.value, RunStopped) and caught.value.run.totals.errored == 2
    assert caught.value.run.causes == ("2× failing failed with RuntimeError: backend down",)


def test_evaluate_does_not_raise_while_something_was_answered(shell, tmp_path):
    run = evaluate(tmp_path / "data.json", "python:lookups:answer", evaluators=[grading], project=tmp_path)
    (missing,) = run.only("error")
    assert "in lookup" in missing.traceback and missing.error.endswith("KeyError: 'no'")
    assert "in grading" in run.answers[0].scores["grading"].details["traceback"]


class Careless:
    """A target of the user's own that does not know of TargetError."""

    name = "careless"

    async def ask(self, request):
        raise ValueError("no such thing") if request.item == "#1" else OSError("gone")

    async def close(self):
        """Nothing is held."""


def test_what_a_target_of_the_users_own_raises_is_a_record_and_not_the_end_of_the_run(shell, tmp_path):
    run = evaluate([{"prompt": "a"}, {"prompt": "b"}], Careless(), evaluators=[grading], project=tmp_path)
    assert [answer.status for answer in run.answers] == ["error", "error"]
    assert "ValueError: no such thing" in run.answers[0].traceback


@pytest.mark.nightly
def test_a_judge_that_refuses_the_key_is_told_once(shell, tmp_path):
    with running() as server:
        (tmp_path / ".evals" / "config.toml").write_text(
            f'[targets.judge]\nmodel = "openai/any+401"\nbase_url = "{server.url}"\n[judge]\ntarget = "judge"\n'
        )
        done = shell("judge", "check")
    assert done.code == 3 and done.err.count("answered 401") == 1 and "got error" not in done.out + done.err
    assert "Check the key" in done.err


def test_the_frames_of_this_program_are_left_out_and_the_chain_stays():
    def first():
        raise KeyError("one")

    try:
        try:
            first()
        except KeyError as problem:
            raise ValueError("two") from problem
    except ValueError as problem:
        text = last_frames(problem)
    assert "direct cause" in text and text.index("KeyError") < text.index("ValueError: two")


def test_nothing_secret_is_in_the_store(shell, tmp_path):
    shell("run", "data.json", "-t", "python:lookups:answer", "--quiet", "--items", "2")
    with Reader(tmp_path / ".evals" / "evals.db") as reader:
        run = reader.find_run("last")
        stored = reader.detail(reader.ids(run.id)[0]).answer.traceback
    assert "in lookup" in stored and "sk-abcdefgh" not in stored
