"""`tui-evals suite`: suites and runs of tables, shown, compared and refused."""

from __future__ import annotations

import json

import pytest

from tui_evals.runs import suite_runs
from tui_evals.runs import suites as keeping
from tui_evals.runs.project import load_project

pytestmark = pytest.mark.story

CASES = 'input,reference_output\n"a, b",007\nq2,yes\nq3,no\n'


@pytest.fixture
def tables(project):
    (project / "x.csv").write_text(CASES)
    (project / "y.csv").write_text("candidate_output\n007\nno\nno\n")
    (project / "z.csv").write_text('answer,passage\n7,one\nyes,two\n"",three\n')
    return project


@pytest.fixture
def suite(tables, shell):
    assert (
        shell("suite", "create", "demo", "--data", "x.csv", "--scoring", "exact_match", "--description", "d").code == 0
    )
    return "demo"


def first_and_second(shell, suite):
    words = ("--model-name", "gpt", "--model-version", "4", "--foundation-model", "base", "--prompt-template", "be {x}")
    assert shell("suite", "run", suite, "first", "--candidates", "y.csv", *words).code == 0
    done = shell("suite", "run", suite, "second", "--candidates", "z.csv", "--candidate-column", "answer")
    assert done.code == 0
    return done


def test_a_suite_is_made_of_a_table_and_kept_in_the_project(suite, shell, project):
    kept = json.loads((project / ".evals" / "suites" / "demo.json").read_text())
    assert kept["description"] == "d" and [item["prompt"] for item in kept["items"]] == ["a, b", "q2", "q3"]
    assert shell("validate", ".evals/suites/demo.json").code == 0
    (row,) = json.loads(shell("suite", "list", "--json").out)
    assert (row["suite"], row["scoring"], row["cases"], row["runs"]) == ("demo", "exact_match", 3, [])


def test_a_run_is_scored_noted_and_shown_with_the_worst_case_first(suite, shell):
    assert "average score: 0.500 over 2 of 3 cases" in first_and_second(shell, suite).out
    shown = shell("suite", "show", "demo", "first").out
    for line in ("model name: gpt", "model version: 4", "foundation model: base", "prompt template: be {x}"):
        assert line in shown
    places = [line.split()[0] for line in shown.splitlines() if line.startswith("#")]
    assert places == ["#2", "#1", "#3"] and "match: 2 · non match: 1" in shown
    second = shell("suite", "show", "demo", "second").out
    assert "has no response" in second and "n/a" in second


def test_json_says_all_of_a_suite_and_of_a_run(suite, shell):
    first_and_second(shell, suite)
    whole = json.loads(shell("suite", "show", "demo", "--json").out)
    assert [(one["run"], one["average"], one["scored"]) for one in whole["runs"]] == [
        ("first", pytest.approx(2 / 3), 3),
        ("second", 0.5, 2),
    ]
    assert whole["runs"][0]["metadata"]["foundation_model"] == "base"
    assert whole["test_cases"][0] == {"input": "a, b", "reference_output": "007"}
    run = json.loads(shell("suite", "show", "demo", "second", "--json").out)
    assert [one["score"] for one in run["test_cases"]] == [0.0, 1.0, None]
    made = shell("suite", "run", "demo", "third", "--candidates", "y.csv", "--json")
    assert json.loads(made.out)["run"] == "third" and made.code == 0


@pytest.mark.nightly
def test_runs_are_compared_by_their_averages_and_by_the_test_of_the_house(suite, shell):
    first_and_second(shell, suite)
    said = shell("suite", "compare", "demo").out
    lines = {line.split()[0]: line for line in said.splitlines() if line.strip()}
    assert lines["first"].endswith("best") and lines["second"].endswith("worst")
    assert "A is first, B is second." in said and "exact_match" in said and "equal" in said
    data = json.loads(shell("suite", "compare", "demo", "second", "first", "--json").out)
    assert data["against"] == "second" and [one["mark"] for one in data["runs"]] == ["worst", "best"]
    (tested,) = data["tests"]
    assert tested["run"] == "first" and tested["tests"][0]["what"] == "exact_match"
    assert shell("compare", "first", "second").code == 0


@pytest.mark.nightly
def test_less_hedging_is_better(tables, shell):
    (tables / "h.csv").write_text("candidate_output\n" + '"As an AI, I cannot have opinions."\n' * 3)
    method = '{"hedging_language": {"method": "lexical"}}'
    assert shell("suite", "create", "h", "--data", "x.csv", "--scoring", method).code == 0
    shell("suite", "run", "h", "much", "--candidates", "h.csv")
    shell("suite", "run", "h", "little", "--candidates", "y.csv")
    marks = {one["run"]: one["mark"] for one in json.loads(shell("suite", "compare", "h", "--json").out)["runs"]}
    assert marks == {"much": "worst", "little": "best"}


def test_a_judged_suite_takes_contexts_and_a_judge(tables, shell):
    shell("suite", "create", "qa", "--data", "x.csv", "--scoring", "qa_correctness")
    words = ("suite", "run", "qa", "r", "--candidates", "z.csv", "--candidate-column", "answer")
    assert "needs the context" in shell(*words).err
    lacking = shell(*words, "--context-column", "passage")
    assert lacking.code == 3 and "--judge TARGET" in lacking.err
    done = shell(*words, "--context-column", "passage", "--judge", "demo", "--json")
    assert [one["context"] for one in json.loads(done.out)["test_cases"]] == ["one", "two", "three"]


@pytest.mark.nightly
def test_the_candidates_of_a_run_are_kept_so_that_it_can_be_judged_and_asked_again(suite, shell, project):
    first_and_second(shell, suite)
    kept = json.loads((project / ".evals" / "suites" / "demo" / "first.json").read_text())
    assert [item["response"] for item in kept["items"]] == ["007", "no", "no"]
    assert shell("rescore", "second").code == 0
    assert shell("rerun", "first", "--only", "failed").code == 0


def test_a_run_that_was_stored_and_never_begun_is_resumed(suite, shell, project):
    here = load_project(project)
    kept = keeping.suite_named(project, suite)
    asked = suite_runs.suite_run(kept, "r", ["007", "yes", "x"], None, {}, needs_context=False)
    with here.writer() as writer:
        run = suite_runs.prepare_run(asked, here).store(writer).run
    assert shell("resume", run.key).code == 0
    scores = [one["score"] for one in json.loads(shell("suite", "show", suite, "r", "--json").out)["test_cases"]]
    assert scores == [1.0, 1.0, 0.0]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("create", "demo", "--data", "x.csv", "--scoring", "exact_match"), "a suite 'demo' already"),
        (("create", "x\x1by", "--data", "x.csv", "--scoring", "exact_match"), "must hold no control characters"),
        (("create", "n", "--data", "x.csv", "--scoring", "exact_macth"), "did you mean 'exact_match'"),
        (("create", "n", "--data", "x.csv", "--scoring", "exact_match,readability"), "must name one evaluator"),
        (("create", "n", "--data", "y.csv", "--scoring", "exact_match"), "no column 'input'"),
        (("create", "n", "--data", "nope.csv", "--scoring", "exact_match"), "there is no such file"),
        (("run", "dema", "r", "--candidates", "y.csv"), "did you mean 'demo'"),
        (("run", "demo", "r", "--candidates", "x.csv"), "no column 'candidate_output'"),
        (("run", "demo", "a\x7fb", "--candidates", "y.csv"), "must hold no control characters"),
        (("show", "nope"), "there is no suite 'nope'"),
        (("show", "demo", "r"), "has no run 'r'"),
        (("compare", "demo"), "not two different runs"),
    ],
)
def test_what_cannot_be_done_is_said_and_nothing_is_kept(suite, shell, project, words, says):
    done = shell("suite", *words)
    assert done.code == 2 and says in done.err
    assert [file.name for file in (project / ".evals" / "suites").iterdir()] == ["demo.json"]


def test_the_name_of_a_run_is_taken_once(suite, shell):
    first_and_second(shell, suite)
    done = shell("suite", "run", "demo", "first", "--candidates", "y.csv")
    assert done.code == 2 and "has a run 'first' already" in done.err


def test_hostile_text_reaches_the_terminal_harmless(tables, shell):
    (tables / "x.csv").write_text("input,reference_output\n\x1b[2Jinput,[/INST]\n")
    (tables / "y.csv").write_text("candidate_output\n\x1b]52;c;AA\x07\n")
    shell("suite", "create", "demo", "--data", "x.csv", "--scoring", "exact_match", "--description", "\x1b[31m")
    shell("suite", "run", "demo", "r", "--candidates", "y.csv", "--model-name", "\x1b[31mred")
    for words in (("show", "demo"), ("show", "demo", "r"), ("list",), ("show", "demo", "r", "--json")):
        assert "\x1b" not in shell("suite", *words).out


def test_a_file_that_is_no_suite_is_noted_and_hides_no_other(suite, shell, project):
    (project / ".evals" / "suites" / "odd.json").write_text("{")
    done = shell("suite", "list")
    assert "odd.json" in done.err and "demo" in done.out and done.code == 0


def test_a_suite_of_a_python_scorer_says_where_it_can_be_run(suite, shell, project):
    file = project / ".evals" / "suites" / "demo.json"
    data = json.loads(file.read_text())
    data["extensions"]["arthur_bench"]["scoring_method"] |= {"name": "mine", "type": "custom"}
    file.write_text(json.dumps(data))
    done = shell("suite", "run", "demo", "r", "--candidates", "y.csv")
    assert done.code == 2 and "TestSuite('demo', scorer).run" in done.err


def test_without_suites_the_list_says_how_to_make_one(project, shell):
    assert "suite create" in shell("suite", "list").out
