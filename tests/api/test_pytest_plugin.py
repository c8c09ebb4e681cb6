"""The pytest plugin as its users meet it: pytest in a folder with datasets, in this process and once in its own."""

from __future__ import annotations

import contextlib
import io
import json
import os
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tui_evals.store.reader import Reader

pytestmark = pytest.mark.story

ROOT = Path(__file__).parents[2]
DATA = {
    "schemaVersion": "1.11.0",
    "default_evaluators": {"ExactMatch": {}},
    "items": [
        {
            "testId": "sum",
            "category": "easy sums",
            "prompt": "What is 2 + 2? only the number",
            "expected_response": "4",
        },
        {"testId": "rain", "tags": ["talk"], "prompt": "Tell me about rain.", "expected_response": "\u001b[2JNo."},
        {"prompt": "What is 3 + 4? only the number", "expected_response": "7"},
    ],
}


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "evals").mkdir()
    (tmp_path / "evals" / "evals.json").write_text(json.dumps(DATA))
    (tmp_path / "evals" / "package.json").write_text('{"name": "no dataset"}')
    (tmp_path / "test_own.py").write_text("def test_own():\n    assert True\n")
    (tmp_path / ".evals").mkdir()
    settings = '[targets.calm]\nmodel = "demo"\nparams = { error_rate = 0, latency_ms = 0, jitter_ms = 0 }\n'
    (tmp_path / ".evals" / "config.toml").write_text(settings)
    return tmp_path


PLUGIN = "tui_evals.api.pytest_plugin"
INSTALLED = any(point.value == PLUGIN for point in entry_points(group="pytest11"))
USUAL = ("-p", "no:cacheprovider", "-W", "ignore", *(() if INSTALLED else ("-p", PLUGIN)))
# What holds one thing of the whole process, which belongs to the pytest that runs this test.
SHARED = [
    word
    for name in ("xdist", "faulthandler", "unraisableexception", "threadexception")
    for word in ("-p", f"no:{name}")
]


def run(folder, *words):
    told = io.StringIO()
    with contextlib.chdir(folder), contextlib.redirect_stdout(told), contextlib.redirect_stderr(told):
        code = pytest.main([*USUAL, *SHARED, "--import-mode=importlib", *words])
    return code, told.getvalue()


def run_as_process(folder, *words):
    command = [sys.executable, "-m", "pytest", *USUAL, *words]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, env=environment, check=False)
    return done.returncode, done.stdout + done.stderr


CALM = ("--tui-evals", "--tui-evals-target", "calm")


def test_without_its_option_nothing_happens(folder):
    code, out = run(folder, ".")
    assert code == 0 and "1 passed" in out and not (folder / ".evals" / "evals.db").exists()


@pytest.mark.first
def test_every_item_is_a_test_and_a_failure_shows_the_difference(folder):
    code, out = run(folder, *CALM, ".")
    assert code == 1 and "3 passed" in out and "1 failed" in out
    assert "ExactMatch: fail" in out and "- " in out and "+ " in out
    assert "\x1b[2J" not in out and "Traceback" not in out
    with Reader(folder / ".evals" / "evals.db") as reader:
        stored = reader.find_run("last")
        assert stored.total == 3 and stored.tags == ("pytest",) and stored.status == "finished"


@pytest.mark.parametrize(
    ("words", "asked"), [(("-k", "sum"), 1), (("-m", "easy_sums"), 1), (("-m", "talk or easy_sums"), 2)]
)
def test_only_what_is_selected_is_asked(folder, words, asked):
    run(folder, *CALM, "evals", "--strict-markers", *words)
    with Reader(folder / ".evals" / "evals.db") as reader:
        assert reader.find_run("last").total == asked


def test_what_nothing_can_fail_is_skipped(folder):
    (folder / "evals" / "evals.json").write_text(json.dumps({**DATA, "default_evaluators": {}}))
    code, out = run(folder, *CALM, "-rs", ".")
    assert code == 0 and "3 skipped" in out and "unjudged: nothing that judged this item" in out


def test_a_broken_dataset_is_a_sentence(folder):
    (folder / "evals" / "evals.json").write_text('{"items": [{"prompt": 3}]}')
    code, out = run(folder, *CALM, "evals")
    assert code != 0 and "items[0].prompt" in out and "Traceback" not in out


def test_a_target_that_is_not_there_fails_every_test_with_one_sentence(folder):
    code, out = run(folder, "--tui-evals", "--tui-evals-target", "nobody", "evals")
    assert code == 1 and out.count("there is no target nobody") >= 3 and "Traceback" not in out


@pytest.mark.parametrize(
    ("least", "code", "verdict", "counts"),
    [("60", 0, "✓ met", "3 passed, 1 xfailed"), ("70", 1, "✗ not met", "1 failed, 2 passed, 1 xfailed")],
)
def test_gates_decide_instead_of_the_items_and_are_printed_as_a_table(folder, least, code, verdict, counts):
    done, out = run(folder, *CALM, "--tui-evals-fail-under", least, "evals")
    assert done == code and counts in out
    assert f"--fail-under {least}  {verdict}" in out and "66.7 % of 3 items" in out
    assert ("not met: --fail-under 70: 66.7 % of 3 answers pass" in out) is bool(code) and "Traceback" not in out


def test_no_filter_leaves_the_gates_out(folder):
    code, out = run(folder, *CALM, "--tui-evals-fail-under", "70", "-k", "rain", "evals")
    assert code == 1 and "1 xfailed" in out and "0.0 % of 1 item" in out


def test_a_gate_without_a_baseline_is_a_sentence(folder):
    code, out = run(folder, *CALM, "--tui-evals-fail-on-broken", "--", "evals")
    assert code == 1 and "no baseline is set for evals/evals.json" in out and "Traceback" not in out


@pytest.mark.parametrize(("name", "given"), [("fail-under", "120"), ("fail-on-broken", "evals"), ("fail-on", "pass")])
def test_a_gate_that_is_none_is_refused(folder, name, given):
    code, out = run(folder, *CALM, f"--tui-evals-{name}", given)
    assert code == 4 and f"{given!r} is not" in out


def test_a_comparison_alone_decides_nothing(folder):
    run(folder, *CALM, "evals")
    code, out = run(folder, *CALM, "--tui-evals-baseline", "last", "evals")
    assert code == 1 and "xfailed" not in out


MATRIX = {
    "schemaVersion": "1.11.0",
    "default_evaluators": {"ExactMatch": {}},
    "items": [
        {"testId": "sum", "prompt": "2 plus", "matrix": {"n": [2, 3]}, "expected_response": "4"},
        {"prompt": "2 plus", "variables": {"n": 5}, "expected_response": "7"},
    ],
}


@pytest.fixture
def matrix(folder):
    """A dataset with a matrix, and an agent in the root of the project."""
    (folder / "evals" / "evals.json").write_text(json.dumps(MATRIX))
    (folder / "agent.py").write_text("def add(prompt, variables):\n    return str(2 + variables['n'])\n")
    (folder / ".evals" / "config.toml").write_text('[targets.adder]\nmodel = "python:agent.py:add"\n')
    return folder


ADDER = ("--tui-evals", "--tui-evals-target", "adder", "--tui-evals-trust")


def verdicts(out):
    words = (line.split() for line in out.splitlines() if "::" in line and "evals.json" in line)
    return {
        next(word for word in line if "::" in word).split("::")[1]: verdict
        for line in words
        for verdict in ("PASSED", "FAILED", "SKIPPED")
        if verdict in line
    }


def test_each_item_of_a_matrix_is_a_test_with_its_own_verdict(matrix):
    code, out = run(matrix, *ADDER, "-v", "evals")
    assert code == 1
    assert verdicts(out) == {"sum@n=2": "PASSED", "sum@n=3": "FAILED", "#3": "PASSED"}
    code, out = run(matrix, *ADDER, "-v", "evals/evals.json::sum@n=3")
    assert verdicts(out) == {"sum@n=3": "FAILED"}
    with Reader(matrix / ".evals" / "evals.db") as reader:
        assert reader.find_run("last").total == 1


def test_the_project_is_the_root_of_the_tests(folder):
    (folder / ".evals" / "config.toml").unlink()
    (folder / ".evals").rmdir()
    run(folder, "--tui-evals", "--tui-evals-target", "demo", "evals", "--rootdir", str(folder))
    assert (folder / ".evals" / "evals.db").exists() and not (folder / "evals" / ".evals").exists()


def price(folder):
    """Make each answer cost two cents."""
    (folder / "agent.py").write_text("def answer(prompt):\n    return '4'\n")
    settings = '[targets.calm]\nmodel = "python:agent.py:answer"\nprice = { per_call = 0.02 }\n'
    (folder / ".evals" / "config.toml").write_text(settings)


@pytest.mark.nightly
def test_what_the_limit_kept_from_being_asked_is_skipped_and_fails_the_session(folder):
    price(folder)
    words = (*CALM, "--tui-evals-trust", "--tui-evals-max-cost", "0.05", "-rs", "-c", os.devnull)
    items = [{"prompt": f"{number}?", "expected_response": "4"} for number in range(40)]
    (folder / "evals" / "evals.json").write_text(json.dumps({**DATA, "items": items}))
    code, out = run(folder, *words, "--rootdir", str(folder), "evals")
    assert code == 1 and "failed" not in out.splitlines()[-1]
    assert "not asked: " in out and "0.05" in out and "answers are missing" in out
    code, out = run(folder, *words, "--rootdir", str(folder), "--tui-evals-max-missing", "100", "evals")
    assert code == 0 and "answers are missing" not in out


def test_the_end_of_the_session_names_run_result_and_cost(folder):
    _, out = run(folder, *CALM, "evals")
    with Reader(folder / ".evals" / "evals.db") as reader:
        key = reader.find_run("last").key
    assert f"tui_evals: evals/evals.json: run {key}: 2 of 3 pass (66.7 %" in out


def test_each_item_takes_as_long_in_junit_as_its_own_answers(folder):
    slow = "params = { error_rate = 0, latency_ms = 500, jitter_ms = 0 }"
    (folder / ".evals" / "config.toml").write_text(f'[targets.calm]\nmodel = "demo"\n{slow}\n')
    run(folder, *CALM, "evals", "--junitxml", "junit.xml")
    times = [float(case.get("time")) for case in ElementTree.parse(folder / "junit.xml").iter("testcase")]
    with Reader(folder / ".evals" / "evals.db") as reader:
        rows = list(reader.all_rows(reader.find_run("last").id))
    assert [round(row.latency_ms / 1000, 2) for row in rows] == pytest.approx(times, abs=0.3)


@pytest.mark.nightly
def test_the_processes_of_xdist_share_one_run_its_limit_and_its_gates(matrix):
    pytest.importorskip("xdist")
    code, out = run_as_process(matrix, *ADDER, "-n", "2", "-v", "evals")
    assert code == 1 and "2 passed" in out and "1 failed" in out
    with Reader(matrix / ".evals" / "evals.db") as reader:
        (only,) = reader.runs()
        assert only.total == 3
    assert f"run {only.key}: 2 of 3 pass" in out
    code, out = run_as_process(matrix, *ADDER, "-n", "2", "--tui-evals-fail-under", "60", "evals")
    assert code == 0 and "--fail-under 60  ✓ met" in out and "1 xfailed" in out
