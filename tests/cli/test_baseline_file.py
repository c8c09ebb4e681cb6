"""A baseline as a committed file: small, sorted, without texts, and measured against on any checkout."""

import json
import shutil
import sys
from pathlib import Path

import pytest

from tui_evals.datasets.discover import dataset_files

pytestmark = pytest.mark.story

WORDS = ("red", "blue", "green", "gold", "gray", "pink")
ITEMS = [{"prompt": f"Say {word}.", "expected_response": word} for word in WORDS]
ITEMS[1::2] = [{"testId": f"T-{number}", **item} for number, item in enumerate(ITEMS[1::2])]
RUN = ("run", "evals.json", "-t", "python:agent:answer", "--trust", "--quiet", "--no-cache")
GOOD = "prompt.split()[1].rstrip('.')"


def _agent(answer):
    sys.modules.pop("agent", None)  # as in a process of its own
    Path("agent.py").write_text(f"def answer(prompt):\n    return {answer}\n")


def _dataset(items=ITEMS, evaluators=None):
    Path("evals.json").write_text(json.dumps({"items": items, "default_evaluators": evaluators or {"Equals": {}}}))


@pytest.fixture
def committed(shell, project):
    """A project whose only trace of a run is the file of its baseline."""
    _dataset()
    _agent(GOOD)
    assert shell(*RUN).code == 0
    done = shell("baseline", "export", "-o", "base.json")
    assert done.code == 0 and "--baseline base.json" in done.out and "a drop of" in done.out, done
    shutil.rmtree(".evals")
    return Path("base.json")


def _gated(shell, *more):
    done = shell(*RUN, "--baseline", "base.json", "--fail-on-broken", *more)
    shutil.rmtree(".evals")
    return done


def test_it_holds_verdicts_and_figures_and_no_texts(committed):
    text = committed.read_text()
    assert not [word for word in (*WORDS, "Say") if word in text]
    data = json.loads(text)
    assert data["figures"][0]["passed"] == 6 and len(data["items"]) == 6
    named = [item.get("testId", "") for item in data["items"]]
    assert named == sorted(named) and len(text.splitlines()) < 6 + 20


@pytest.mark.nightly
def test_a_run_is_measured_against_it_on_a_fresh_checkout(shell, committed):
    assert _gated(shell).code == 0
    _agent("'nothing'")
    done = _gated(shell)
    assert done.code == 1 and "6 items" in done.err, done.err
    assert _gated(shell, "--fail-on-regression").code == 1


@pytest.mark.nightly
def test_an_edited_item_is_not_compared_and_the_others_are(shell, committed):
    _dataset([{**ITEMS[0], "expected_response": "crimson"}, *ITEMS[1:]])
    done = _gated(shell, "--max-missing", "50")
    assert done.code == 0, done.err
    _dataset([ITEMS[5], *ITEMS[:5]])  # in another order
    assert _gated(shell).code == 0


def test_a_file_that_was_edited_decides_nothing(shell, committed):
    committed.write_text(committed.read_text().replace('"pass"', '"fail"', 1))
    done = shell(*RUN, "--baseline", "base.json", "--fail-on-broken")
    assert done.code == 2 and "digest does not match" in done.err


def test_texts_are_in_it_where_they_are_wanted(shell, project):
    _dataset()
    _agent(GOOD)
    shell(*RUN)
    assert '"answer": "red"' in shell("baseline", "export", "--texts").out
    assert shell("baseline", "export").out == shell("baseline", "export", "last").out


def test_the_same_run_writes_the_same_file(shell, committed):
    first = committed.read_text()
    assert shell(*RUN).code == 0
    items = json.loads(shell("baseline", "export").out)["items"]
    assert items == json.loads(first)["items"]


def test_it_is_no_dataset_of_the_project(shell, committed):
    assert [file.name for file in dataset_files(Path.cwd())] == ["evals.json"]
    assert shell("validate", ".").code == 0


def test_without_a_baseline_the_file_is_named(shell, project):
    _dataset()
    done = shell("run", "evals.json", "-t", "demo", "--fail-on-regression")
    assert done.code == 2 and "baseline export -o FILE" in done.err
