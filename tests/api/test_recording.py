"""Tests of the user's own that answer the cases of a dataset: one run keeps and judges what they record."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.api.test_pytest_plugin import USUAL
from tests.runs.conftest import Project
from tui_evals.store import run_figures
from tui_evals.store.reader import Reader

ROOT = Path(__file__).parents[2]
DATA = {
    "schemaVersion": "1.11.0",
    "default_evaluators": {"Includes": {}},
    "items": [
        {"testId": "one", "prompt": "Say one", "expected_response": "one", "variables": {"n": 1}},
        {"testId": "two", "prompt": "Say two", "expected_response": "zwei"},
        {"turns": [{"prompt": "Say three", "expected_response": "three"}, {"prompt": "Say four", "ideal": ["four"]}]},
    ],
}
TEST = """
import tui_evals as evals

@evals.cases("evals/shop.json")
def test_shop(case, tui_evals):
    assert case.name != "one" or case.variables == {"n": 1}
    tui_evals.check(case.prompt)
    if "turns" in case.item:
        answer = tui_evals.check({"text": case.item["turns"][1]["prompt"]}, turn=2)
        assert answer.passed and answer.turn == 1 and answer.scores["Includes"].result == "pass"
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "evals").mkdir()
    (tmp_path / "tests").mkdir()
    (tmp_path / "evals" / "shop.json").write_text(json.dumps(DATA))
    (tmp_path / "tests" / "test_shop.py").write_text(TEST)
    return tmp_path


def run(folder, *words):
    command = [sys.executable, "-m", "pytest", *USUAL, *words]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, env=environment, check=False)
    return done.returncode, done.stdout + done.stderr


def stored(folder):
    with Reader(folder / ".evals" / "evals.db") as reader:
        (run,) = reader.runs()
        return run, reader.totals(run.id), list(reader.all_rows(run.id))


@pytest.mark.story
@pytest.mark.cases(1)
@pytest.mark.parametrize("processes", [(), ("-n", "2")], ids=["one process", "xdist"])
def test_what_tests_answer_is_judged_and_kept_in_one_run(folder, processes):
    if processes:
        pytest.importorskip("xdist")
    code, out = run(folder, *processes, "tests")
    assert code == 1 and "1 failed, 2 passed" in out and "test_shop[two]" in out
    assert "Includes: fail: the answer includes none of 'zwei'" in out and "Traceback" not in out
    found, totals, rows = stored(folder)
    assert (found.status, found.tags, found.targets, found.source) == (
        "finished",
        ("pytest",),
        ("pytest",),
        "evals/shop.json",
    )
    assert (totals.total, totals.passed, totals.failed) == (4, 3, 1)
    assert all(row.latency_ms is not None and row.latency_ms < 30_000 for row in rows)
    assert f"evals/shop.json (answers of tests): run {found.key}: 3 of 4 pass" in out
    assert not (folder / "tests" / ".evals").exists()


@pytest.mark.nightly
def test_category_and_tags_of_an_item_are_marks_of_its_test_and_others_are_given_by_name(folder):
    items = [DATA["items"][0] | {"category": "small talk"}, DATA["items"][1] | {"tags": ["slow"]}, DATA["items"][2]]
    (folder / "evals" / "shop.json").write_text(json.dumps(DATA | {"items": items}))
    file = folder / "tests" / "test_shop.py"
    file.write_text(
        "import pytest" + TEST.replace('shop.json"', 'shop.json", marks={"two": pytest.mark.xfail(strict=True)}')
    )
    code, out = run(folder, "--strict-markers", "-m", "slow or small_talk", "tests")
    assert code == 0 and "1 passed, 1 deselected, 1 xfailed" in out
    _, totals, _ = stored(folder)
    assert (totals.passed, totals.failed) == (1, 1)
    file.write_text(file.read_text().replace('{"two"', '{"tow"'))
    code, out = run(folder, "tests")
    assert code == 2 and "marks of @cases names 'tow', and shop.json has no such item" in out


@pytest.mark.nightly
def test_an_answer_that_a_test_does_not_give_is_missing_and_said(folder):
    (folder / "tests" / "test_shop.py").write_text(
        TEST.replace(
            "    tui_evals.check(case.prompt)", "    assert case.name != 'one'\n    tui_evals.record(case.prompt)"
        )
    )
    code, out = run(folder, "tests")
    found, totals, _ = stored(folder)
    assert code == 1 and "1 failed, 2 passed" in out
    assert (found.status, totals.pending) == ("interrupted", 1)
    assert "1 of 4 answers are missing" in out and "the tests ended without an answer to every item" in out


@pytest.mark.nightly
def test_gates_decide_over_recorded_answers(folder):
    (folder / "tests" / "test_shop.py").write_text(
        TEST.replace("tui_evals.check(case.prompt)", "tui_evals.record(case.prompt)")
    )
    code, out = run(folder, "--tui-evals-fail-under", "70", "tests")
    assert code == 0 and "3 passed" in out and "✓ met" in out
    code, out = run(folder, "--tui-evals-fail-under", "80", "tests")
    assert code == 1 and "3 passed" in out and "✗ not met" in out
    code, out = run(folder, "--tui-evals-fail-on-regression", "--", "tests")
    assert code == 1 and "no baseline is set" in out


@pytest.mark.nightly
def test_what_cannot_be_recorded_is_a_sentence(folder):
    (folder / "evals" / "shop.json").write_text(json.dumps({**DATA, "default_evaluators": {"Relevance": {}}}))
    code, out = run(folder, "tests")
    assert code == 1 and "judged by a model and no judge is named" in out and "Traceback" not in out
    (folder / "evals" / "shop.json").unlink()
    code, out = run(folder, "tests")
    assert code != 0 and "there is no such file" in out


def priced_project(folder, server):
    """Two datasets that are asked and one that tests answer, at ten cents a call of the model and of the judge."""
    server.reset()
    server.behave("judge-model", say='{"reason": "fine", "score": 4}', markers=False)
    made = Project(folder, server)
    price = "price = { per_call = 0.1 }\nparams = { max_tokens = 10 }\n"
    judge = f'[targets.judge]\nmodel = "openai/judge-model"\nbase_url = "{server.url}"\n{price}'
    made.configure(f'{price}{judge}[judge]\ntarget = "judge"')
    for name, evaluators in (("a", {"Includes": {}}), ("b", {"Includes": {}}), ("shop", {"Relevance": {}})):
        items = [{"prompt": f"{name} {number}", "expected_response": name} for number in range(6)]
        (folder / "evals" / f"{name}.json").write_text(json.dumps({"default_evaluators": evaluators, "items": items}))
    own = TEST.replace("tui_evals.check(case.prompt)", "tui_evals.record(case.prompt)")
    (folder / "tests" / "test_shop.py").write_text(own)
    return made


def session(folder, limit, *words):
    words = ("--tui-evals", "--tui-evals-trust", "--tui-evals-target", "main", "--tui-evals-max-cost", limit, *words)
    return run(folder, *words, "-rs", "evals/a.json", "evals/b.json", "tests")


@pytest.mark.nightly
@pytest.mark.parametrize("processes", [(), pytest.param(("-n", "3"), marks=pytest.mark.nightly)], ids=["one", "xdist"])
def test_a_session_spends_its_limit_once_in_all_runs_and_processes_and_replays_cost_nothing(
    folder, one_server, processes
):
    if processes:
        pytest.importorskip("xdist")
    project = priced_project(folder, one_server)
    code, out = session(folder, "0.8", *processes)
    assert code == 1 and "failed" not in out.splitlines()[-1] and "by other runs that share the limit" in out
    assert one_server.counts()["asked"] == 8 and "Traceback" not in out
    code, out = session(folder, "5", *processes)
    assert code == 0 and "18 passed" in out
    assert one_server.counts()["asked"] == 18  # what was answered or judged before is not asked again
    code, out = session(folder, "0.1", *processes)
    assert code == 0 and "18 passed" in out and one_server.counts()["asked"] == 18
    with project.reader() as reader:
        costs = [run_figures.spent(reader, found.id) for found in reader.runs()]
    assert len(costs) == 9 and sum(costs) == pytest.approx(1.8) and sum(costs[:3]) == 0


@pytest.mark.nightly
def test_an_answer_that_no_money_is_left_to_judge_is_a_skip_and_fails_the_session(folder, one_server):
    project = priced_project(folder, one_server)
    words = ("--tui-evals-max-cost", "0.35", "--tui-evals-trust", "-rs", "tests")
    code, out = run(folder, *words)
    assert code == 1 and "3 passed, 3 skipped" in out and "not judged: the budget is spent" in out
    assert "3 of 6 answers are missing: the budget is spent" in out
    code, out = run(folder, *words, "--tui-evals-max-missing", "50", "--tui-evals-no-cache")
    assert code == 0 and "3 passed, 3 skipped" in out and one_server.counts()["asked"] == 6
    with project.reader() as reader:
        assert [found.code for found in reader.runs()] == ["budget", "budget"]
