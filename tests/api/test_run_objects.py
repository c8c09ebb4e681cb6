"""A run as an object: opened, listed, compared, judged again, labelled, written, and watched while it is executed."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
import sys
import textwrap
import threading

import pytest

from tui_evals import CannotPlan, EveryCallFailed, Run, aevaluate, evaluate, list_runs, resume
from tui_evals.api import watching
from tui_evals.store.reader import Reader

pytestmark = [pytest.mark.story, pytest.mark.usefixtures("here")]

ITEMS = [{"testId": f"t{number}", "prompt": f"Say {number}", "expected_response": str(number)} for number in range(8)]


def agent(prompt):
    return prompt


def silent(prompt):
    return "?"


def test_a_run_is_opened_by_last_key_and_name_and_runs_are_listed():
    first = evaluate(ITEMS, agent, evaluators="Includes", name="first")
    second = evaluate(ITEMS[:2], agent, evaluators="Includes", name="second")
    assert Run.open().key == Run.open("second").key == second.key
    assert Run.open(first.key).answers == first.answers and Run.open(first.key).scores == first.scores
    assert [run.key for run in list_runs()] == [second.key, first.key]
    assert [run.key for run in list_runs("first")] == [first.key] and len(list_runs(limit=1)) == 1
    with pytest.raises(CannotPlan, match="nothing"):
        Run.open("nothing")


@pytest.mark.nightly
def test_runs_compare_with_a_verdict_a_frame_and_a_page(project):
    before = evaluate(ITEMS, agent, evaluators="Includes")
    after = evaluate(ITEMS, silent, evaluators="Includes")
    compared = before.compare(after)
    assert compared.verdict.startswith("B is worse: 8 fewer of 8 items pass") and compared.verdicts == (
        compared.verdict,
    )
    assert {row["kind"] for row in compared.rows()} == {"broken"}
    assert compared.to_frame()["A.answer"].iloc[0] == "Say 0"
    assert len(repr(compared)) < 200 and before.key in repr(compared)
    assert "fewer of 8 items pass" in compared._repr_html_()
    assert before.compare(after.key).keys == (before.key, after.key)
    assert "A.status" in compared.report(project / "compared.csv").read_text()


def test_rescore_asks_no_target_and_takes_a_function():
    asked = []

    def counting(prompt):
        asked.append(prompt)
        return prompt

    def exact(output, expected):
        return output == expected

    run = evaluate(ITEMS, counting, evaluators="Includes")
    again = run.rescore(exact)
    assert len(asked) == len(ITEMS) and run.passed and not again.passed
    assert again.key == run.key and set(again.answers[0].scores) == {"exact"}
    assert again.rescore("Includes").passed and len(asked) == len(ITEMS)


def test_a_label_and_a_report_of_a_run(project):
    run = evaluate(ITEMS, agent, evaluators="Includes")
    run.label(run.answers[0], "fail", note="too long", author="Ada")
    with Reader(run.store) as reader:
        (label,) = reader.labels(reader.find_run(run.key).id)
    assert (label.answer, label.verdict, label.author, label.note) == (run.answers[0].id, "fail", "Ada", "too long")
    run.label(run.answers[0], None, author="Ada")
    with Reader(run.store) as reader:
        assert reader.labels(reader.find_run(run.key).id) == []
    file = run.report(project / "out" / "run.html")
    assert file.stat().st_mode & 0o077 == 0 and run.key in file.read_text()
    with pytest.raises(CannotPlan, match="unknown ending"):
        run.report("run.what")


def test_a_notebook_shows_the_report_in_a_frame_without_scripts():
    run = evaluate([{"prompt": f"<b>{number}</b> {'x' * 500}"} for number in range(50)], agent, without_judges=True)
    shown = run._repr_html_()
    assert 'sandbox=""' in shown and "Evaluation report" in shown and "40 more items in the file" in shown
    assert "<b>0</b>" not in shown and "&lt;script src" not in shown
    assert len(shown) < 120_000


def test_every_answer_is_told_once_it_is_judged_to_plain_and_async_functions():
    plain, later = [], []

    async def hear(answer):
        await asyncio.sleep(0)
        later.append(answer)

    evaluate(ITEMS, agent, evaluators="Includes", on_answer=plain.append)
    asyncio.run(aevaluate(ITEMS, agent, evaluators="Includes", on_answer=hear))
    for heard in (plain, later):
        assert sorted(answer.item for answer in heard) == [item["testId"] for item in ITEMS]
        assert all(answer.passed and answer.scores["Includes"].result == "pass" for answer in heard)


def test_what_on_answer_raises_ends_the_run_which_can_be_resumed():
    released = threading.Event()

    def slow(prompt):
        if prompt != "Say 0":
            released.wait(20)
        return prompt

    def hear(answer):
        raise LookupError("no room")

    with pytest.raises(LookupError, match="no room"):
        evaluate(ITEMS, slow, evaluators="Includes", on_answer=hear, concurrency=2)
    released.set()
    stopped = Run.open("last")
    assert stopped.status != "finished"
    assert resume(stopped, slow).passed


@pytest.mark.parametrize("has_tqdm", [True, False])
def test_a_progress_bar_is_shown_where_it_is_asked_for(has_tqdm, capsys, monkeypatch):
    if not has_tqdm:
        monkeypatch.setattr(watching, "find_spec", lambda name: None)
    run = evaluate(ITEMS, agent, evaluators="Includes")
    assert capsys.readouterr().err == ""  # standard error is no terminal here
    run = evaluate(ITEMS, agent, evaluators="Includes", progress=True)
    shown = capsys.readouterr().err
    assert f"run {run.key}" in shown
    assert ("8/8" if has_tqdm else "8 of 8 answers · ✓ 8 ✗ 0") in shown


async def test_errors_of_a_client_of_another_loop_advise_aevaluate():
    mine = asyncio.get_running_loop().create_future()

    async def client(prompt):
        await asyncio.wait_for(asyncio.shield(mine), 1)

    with pytest.raises(EveryCallFailed, match=r"use `await aevaluate\(\.\.\.\)`"):
        evaluate(ITEMS[:2], client, evaluators="Includes")

    async def sometimes(prompt):
        return await client(prompt) if prompt == "Say 0" else prompt

    with pytest.warns(UserWarning, match="await aevaluate"):
        evaluate(ITEMS[:2], sometimes, evaluators="Includes")


@pytest.mark.nightly
def test_ctrl_c_in_a_running_loop_ends_the_run_and_names_it(project):
    script = """
        import asyncio, os, signal
        from tui_evals import evaluate

        async def agent(prompt):
            os.kill(os.getpid(), signal.SIGINT)
            await asyncio.sleep(60)

        async def cell():
            evaluate([{"prompt": "hello"}], agent, without_judges=True)

        loop = asyncio.new_event_loop()  # as a notebook does, without the signal handler of asyncio.run
        loop.run_until_complete(cell())
    """
    command = [sys.executable, "-c", textwrap.dedent(script)]
    done = subprocess.run(command, cwd=project, capture_output=True, text=True, timeout=50, check=False)
    assert done.returncode in (130, -signal.SIGINT)
    (key,) = re.findall(r"KeyboardInterrupt: The run (\w+) was interrupted\. Continue it with resume", done.stderr)
    assert Run.open(key).status != "finished" and os.path.exists(project / ".evals")
