"""What cannot be judged is refused with its remedy before anything is asked."""

import json
import shutil
import sys
from pathlib import Path

import pytest

from tests.cli.helpers import asked
from tests.tui.story import at_the_workbench
from tui_evals import bench
from tui_evals.runs.suites import UserValueError
from tui_evals.tui.runs.starting import UNJUDGED
from tui_evals.tui.widgets.lines import Lines

SAMPLES = Path(__file__).parents[2] / "sample_datasets"
REMEDY = "pip install 'tui-evals[specificity]'"
MISSING = f"Specificity cannot judge any of 7 answers: Specificity needs the wordfreq library: {REMEDY}"


@pytest.fixture
def no_wordfreq(monkeypatch):
    monkeypatch.setitem(sys.modules, "wordfreq", None)


@pytest.fixture
def run(folder, shell, no_wordfreq):
    shutil.copytree(SAMPLES, "sample_datasets")
    return lambda *options: shell(
        "run", "sample_datasets/hedging-readability.json", "-t", "demo", "-j", "demo", *options
    )


def test_a_run_that_could_not_be_judged_is_refused_with_the_remedy_before_it_exists(run, shell):
    done = run()
    assert done.code == 2 and MISSING in done.err and "--allow-unjudged" in done.err
    assert json.loads(shell("runs", "--json").out) == []


def test_the_plan_says_it(run):
    done = run("--plan")
    assert done.code == 2 and MISSING in done.err and "7 calls" in done.out
    done = run("--plan", "--json", "--allow-unjudged")
    assert done.code == 0 and json.loads(done.out)["unjudgeable"][0]["answers"] == 7


def test_one_goes_on_where_one_wants_to(run):
    done = run("--allow-unjudged")
    assert done.code == 0 and "7 could not be judged" in done.out


def test_where_nothing_is_missing_nothing_is_said(folder, shell):
    shutil.copytree(SAMPLES, "sample_datasets")
    done = shell("run", "sample_datasets/hedging-readability.json", "-t", "demo", "--plan")
    assert (done.code, done.err) == (0, "")


def test_code_that_is_not_trusted_is_known_beforehand(dataset, folder, shell):
    own = folder / "custom-evaluators" / "mine"
    own.mkdir(parents=True)
    code = "class Mine:\n    def __init__(self, **_): ...\n    def __call__(self, **_): return {'score': 1}\n"
    (own / "mine.py").write_text(code)
    dataset(asked(1), {"mine": {}})
    done = shell("run", "data.json", "-t", "demo")
    assert done.code == 2 and "`tui-evals trust" in done.err
    assert shell("run", "data.json", "-t", "demo", "--trust").code == 0
    assert shell("rerun", "last", "--only", "id:*").code == 2
    assert shell("rescore", "last").code == 2
    assert shell("rescore", "last", "--allow-unjudged", "--quiet").code == 1  # nothing was judged


@pytest.mark.parametrize("scoring", ["bertscore", "specificity", "python_unit_testing"])
def test_a_suite_that_could_not_be_scored_is_not_made(folder, shell, monkeypatch, no_wordfreq, scoring):
    monkeypatch.setitem(sys.modules, "bert_score", None)
    monkeypatch.delenv("TUI_EVALS_ALLOW_CODE", raising=False)
    with pytest.raises(UserValueError, match="is not possible here: "):
        bench.TestSuite("s", scoring, input_text_list=["a"], reference_output_list=["b"])
    (folder / "cases.csv").write_text("input,reference_output\na,b\n")
    done = shell("suite", "create", "s", "--data", "cases.csv", "--scoring", scoring)
    assert done.code == 2 and "is not possible here" in done.err
    assert not list((folder / ".evals").glob("suites/*.json"))


async def test_the_form_of_the_workbench_names_it_and_offers_to_go_on(folder, no_wordfreq):
    (folder / ".evals").mkdir()
    (folder / ".evals" / "config.toml").write_text('[run]\ntargets = ["demo"]\n')
    evaluators = {"Specificity": {}, "Includes": {}}
    document = {"schemaVersion": "1.11.0", "default_evaluators": evaluators, "items": asked(1)}
    (folder / "data.json").write_text(json.dumps(document))
    async with at_the_workbench(folder, dataset="data.json", size=(120, 40)) as person:
        await person.press("r")
        await person.sees("Specificity cannot judge any of 1 answer")
        await person.until(lambda: REMEDY in " ".join(person.screen().replace("│", " ").split()))
        assert person.app.screen.query_one(Lines).key == UNJUDGED
        await person.press("enter")
        await person.sees("1 call, free")
