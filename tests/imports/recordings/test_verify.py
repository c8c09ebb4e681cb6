"""Recorded verdicts are repeated by the imported evaluators, and an evaluator that judges otherwise is found.

promptfoo/output.json was written by promptfoo 0.119, offline, of the configuration beside it.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.imports.recordings.made import promptfoo_database

pytestmark = pytest.mark.story

HERE = Path(__file__).parent
PROMPTPEX = HERE.parent / "promptpex"


def altered(file: str, **changes: str) -> None:
    text = Path(file).read_text()
    for before, after in changes.items():
        assert before in text
        text = text.replace(f'"{before}"', f'"{after}"')
    Path(file).write_text(text)


@pytest.fixture
def promptfoo(project):
    shutil.copytree(HERE / "promptfoo", project, dirs_exist_ok=True)


def test_an_imported_configuration_judges_as_its_results_say(shell, promptfoo) -> None:
    done = shell("import", "promptfooconfig.yaml", "--name", "fruits", "--verify", "output.json", "--trust")
    assert done.code == 0, done.err
    *others, last = done.out.splitlines()
    assert last == "20 of 20 assertions judge as before"
    told = [line for line in others if line.startswith("not repeated") or "transform had" in line]
    assert told == ["6 verdicts on what a transform had made of the answer: it was not run again"]


def test_an_altered_evaluator_is_found_on_the_answer_it_judges_otherwise(shell, promptfoo) -> None:
    assert shell("import", "promptfooconfig.yaml", "--name", "fruits").code == 0
    altered("fruits.json", BAN="BAM")
    done = shell("import", "fruits.json", "--verify", "output.json")
    assert done.code == 1
    assert "#1, echo: ContainsAll_2 (ContainsAll): pass 1 before, fail 0 now: not in the answer: 'BAM'" in done.out
    assert "not repeated: 2 verdicts: python: Custom evaluator 'python' is code that is new" in done.out
    assert done.out.splitlines()[-1] == "17 of 18 assertions judge as before; 1 differs"
    told = json.loads(shell("import", "fruits.json", "--verify", "output.json", "--json").out)["verified"]
    assert (told["answers"], told["repeated"], told["as_before"], told["proven"]) == (5, 18, 17, False)
    (one,) = told["differences"]
    assert (one["item"], one["key"], one["before"]["result"], one["now"]["result"]) == (
        *("#1", "ContainsAll_2"),
        *("pass", "fail"),
    )


def test_tests_in_another_order_and_new_ones_are_found_by_what_they_ask(shell, promptfoo) -> None:
    assert shell("import", "promptfooconfig.yaml", "--name", "fruits").code == 0
    data = json.loads(Path("fruits.json").read_text())
    data["items"] = [{"prompt": "new"}, *reversed(data["items"][1:])]
    Path("fruits.json").write_text(json.dumps(data))
    done = shell("import", "fruits.json", "--verify", "output.json", "--trust")
    assert done.code == 0, done.out
    assert "not repeated: 1 answer to what the dataset does not ask" in done.out
    assert done.out.splitlines()[-1] == "14 of 14 assertions judge as before"


@pytest.mark.parametrize(
    ("results", "kind", "last"),
    [
        (HERE / "promptfoo" / "output.json", "promptfoo-results", "18 of 18 assertions judge as before"),
        (HERE / "arithmetic.eval", "inspect", "24 of 24 assertions judge as before"),
        (HERE / "bench_runs", "bench", "40 of 40 assertions judge as before"),
    ],
)
def test_results_of_each_door_are_verified_by_themselves(shell, project, results, kind, last) -> None:
    done = shell("import", results, "--verify")
    assert done.code == 0, done.out + done.err
    assert f"taken for {kind}" in done.out and done.out.splitlines()[-1] == last
    again = shell("import", "--verify", results)
    assert again.code == 0 and again.out.splitlines()[-1] == last


def test_a_recorded_verdict_that_the_evaluator_does_not_give_is_found(shell, project) -> None:
    """The other way round: the evaluator stays, and some recorded verdicts are other than it gave."""
    log = json.loads((HERE / "arithmetic.json").read_text())
    found = next(sample["scores"]["includes"] for sample in log["samples"] if sample.get("scores"))
    found["value"] = "I" if found["value"] == "C" else "C"
    Path("log.json").write_text(json.dumps(log))
    done = shell("import", "log.json", "--verify")
    assert done.code == 1 and done.out.splitlines()[-1] == "23 of 24 assertions judge as before; 1 differs"

    shutil.copytree(HERE / "bench_runs", "bench_runs")
    for file in project.glob("bench_runs/*/*/run.json"):
        run = json.loads(file.read_text())
        for case in run["test_cases"] if "test_cases" in run else run["test_case_outputs"]:
            result = case.get("score_result")
            if result and isinstance(result.get("score"), float) and not result.get("category"):
                result["score"] = result["score"] / 2 + 0.2
        file.write_text(json.dumps(run))
    done = shell("import", "bench_runs", "--verify")
    assert done.code == 1 and " differ" in done.out.splitlines()[-1]


def test_verdicts_of_models_are_repeated_when_they_are_to_be_asked(shell, project) -> None:
    shutil.copytree(PROMPTPEX / "older", project / "older")
    shutil.copy(PROMPTPEX / "tone.prompty", project / "older.prompty")
    (project / "kind.py").write_text("def judge(messages): return 'fine\\nOK'\n")
    (project / ".evals").mkdir(exist_ok=True)
    (project / ".evals" / "config.toml").write_text('[judge]\ntarget = "python:kind:judge"\n')
    done = shell("import", "older", "--verify", "--judges", "--trust")
    assert done.code == 1 and "Compliance: fail" in done.out, done.out + done.err
    assert "of 6 assertions judge as before" in done.out.splitlines()[-1]


def test_recorded_replies_of_judges_are_read_again_without_a_judge(shell, project) -> None:
    for name in ("tone", "older"):
        shutil.copytree(PROMPTPEX / name, project / name)
    shutil.copy(PROMPTPEX / "tone.prompty", project / "tone.prompty")
    for name, verdicts in (("tone", 26), ("older", 6)):
        done = shell("import", name, "--verify")
        assert done.code == 0, done.out
        assert done.out.splitlines()[-2:] == [
            f"{verdicts} verdicts read again in the judge's recorded reply; --judges asks the judge itself",
            f"{verdicts} of {verdicts} assertions judge as before",
        ]
    results = project / "tone" / "test_results.json"
    rows = json.loads(results.read_text())
    rows[0]["compliance"], rows[1]["complianceText"] = "err", ""
    results.write_text(json.dumps(rows))
    done = shell("import", "tone", "--verify")
    assert done.code == 1 and "Compliance: fail 0 before, pass 1 now" in done.out
    assert "not repeated: 1 verdict, as a model judges (Compliance 1); --judges asks it" in done.out


def test_what_holds_no_verdicts_is_refused_with_the_way_on(shell, promptfoo) -> None:
    done = shell("import", "promptfooconfig.yaml", "--verify")
    assert done.code == 2 and "holds no verdicts to compare with; name results: --verify RESULTS" in done.err
    done = shell("import", "output.json", "--verify", "output.json")
    assert done.code == 2 and "`--verify` without RESULTS judges it by itself" in done.err
    assert shell("import").code == 2 and shell("import", "output.json", "--judges").code == 2


def test_our_own_files_prove_it_too_and_show_an_altered_evaluator(shell, project) -> None:
    evaluators = {"ContainsAll": {"values": ["a"]}, "Length": {"at_most": 2000}}
    items = [
        {"testId": "x", "prompt": "banana?"},
        {"prompt": "pear?", "evaluators": {"Own": {"type": "Regex", "pattern": "z"}}},
    ]
    data = {"schemaVersion": "1.11.0", "default_evaluators": evaluators, "items": items}
    Path("d.json").write_text(json.dumps(data))
    assert shell("run", "d.json", "--target", "demo").code in (0, 1)
    for kind in ("json", "jsonl", "csv", "oaieval-log"):
        assert shell("export", "last", "--to", kind, "-o", f"out.{kind.removeprefix('oaieval-')}").code == 0
    assert shell("report", "last", "-o", "out.html").code == 0
    done = shell("import", "out.json", "--verify")
    assert (done.code, done.out.splitlines()[-1]) == (0, "5 of 5 assertions judge as before"), done.out
    names = ("out.json", "out.jsonl", "out.csv", "out.html", "out.log")
    for name in names:
        done = shell("import", "d.json", "--verify", name)
        assert (done.code, done.out.splitlines()[-1]) == (0, "5 of 5 assertions judge as before"), name + done.out
    evaluators["Length"]["at_most"] = 3
    Path("d.json").write_text(json.dumps(data))
    for name in names:
        done = shell("import", "d.json", "--verify", name)
        assert done.code == 1 and done.out.splitlines()[-1] == "3 of 5 assertions judge as before; 2 differ", name
        assert "x, demo: Length: pass" in done.out


OTHERWISE = {"type": "ContainsAll", "values": ["what no answer holds"]}


def edited(file: str, **evaluators: object) -> None:
    """A dataset in which other evaluators stand under the same keys."""
    data = json.loads(Path(file).read_text())
    for part in (data["default_evaluators"], *(item.get("evaluators", {}) for item in data["items"])):
        part.update({key: value for key, value in evaluators.items() if key in part})
    Path(file).write_text(json.dumps(data))


@pytest.mark.parametrize(
    ("source", "key", "last"),
    [
        ("arithmetic.eval", "includes", "14 of 24 assertions judge as before; 10 differ"),
        ("arithmetic.json", "includes", "14 of 24 assertions judge as before; 10 differ"),
        ("promptfoo-output.json", "ContainsAll", "24 of 32 assertions judge as before; 8 differ"),
        ("promptfoo.db", "ContainsAll", "24 of 32 assertions judge as before; 8 differ"),
        ("older", "Compliance", "1 of 6 assertions judges as before; 5 differ"),
        ("bench_runs/capitals/first", "exact_match", "3 of 8 assertions judge as before; 5 differ"),
    ],
)
def test_an_altered_evaluator_is_found_at_every_door(shell, project, source, key, last) -> None:
    promptfoo_database(project / "promptfoo.db", [json.loads((HERE / "promptfoo-output.json").read_text())])
    shutil.copytree(HERE / "bench_runs", "bench_runs")
    shutil.copytree(PROMPTPEX / "older", "older")
    for name in ("arithmetic.eval", "arithmetic.json", "promptfoo-output.json"):
        shutil.copy(HERE / name, name)
    file = "d.json"
    if source.startswith("bench_runs"):
        assert shell("import", source).code == 0
        file = ".evals/suites/capitals.json"
    else:
        holding = "promptfoo-output.json" if source == "promptfoo.db" else source
        assert shell("import", holding, "--into", file).code == 0
    edited(file, **{key: OTHERWISE})
    done = shell("import", file, "--verify", source)
    assert done.code == 1 and f"{key}" in done.out and "not in the answer: 'what no answer holds'" in done.out
    assert done.out.splitlines()[-1] == last


def test_what_holds_verdicts_without_answers_cannot_be_judged_again(shell, project) -> None:
    Path("d.json").write_text('{"items": [{"prompt": "1?"}], "default_evaluators": {"ContainsAll": {"values": ["a"]}}}')
    shell("run", "d.json", "--target", "demo")
    assert shell("report", "last", "-o", "out.xml", "--bare").code == 0
    done = shell("import", "d.json", "--verify", "out.xml")
    assert done.code == 2 and "holds no verdicts to compare with" in done.err and "junit" not in done.err.split(":")[-1]


def test_code_judges_recorded_data_as_data(shell, project) -> None:
    """Answers that were no text, as a provider or a transform returned them."""
    calls = [{"name": "get_weather", "arguments": '{"location": "Boston"}'}]
    asserts = [
        {"type": "javascript", "value": "output[0].name === 'get_weather' && Array.isArray(output)"},
        {"type": "equals", "value": "Boston", "transform": "JSON.parse(output[0].arguments).location"},
        {"type": "contains", "value": "get_weather"},
        {"type": "javascript", "value": "file://called.js"},
    ]
    Path("called.js").write_text("module.exports = (output) => output[0].name.startsWith('get')", encoding="utf-8")
    test = {"vars": {"city": "Boston"}, "assert": asserts}
    graded = [{"pass": True, "score": 1, "reason": "", "assertion": one} for one in asserts]
    row = {"promptIdx": 0, "testIdx": 0, "testCase": test, "vars": test["vars"], "prompt": {"raw": "Boston"}}
    row |= {"provider": {"id": "file://mine.mjs"}, "response": {"output": calls}, "success": True}
    row |= {"gradingResult": {"pass": True, "score": 1, "reason": "", "componentResults": graded}}
    prompts = [{"raw": "{{city}}", "label": "{{city}}"}]
    results = {"version": 3, "timestamp": "2026-01-01T00:00:00Z", "prompts": prompts, "results": [row]}
    Path("output.json").write_text(json.dumps({"evalId": "e", "results": results, "config": {}}), encoding="utf-8")
    config = {"prompts": ["{{city}}"], "tests": [test]}
    Path("promptfooconfig.yaml").write_text(json.dumps(config), encoding="utf-8")
    done = shell("import", "promptfooconfig.yaml", "--name", "data", "--verify", "output.json", "--trust")
    assert done.out.splitlines()[-1] == "4 of 4 assertions judge as before", done.out
    row["response"]["output"] = json.dumps(calls)
    Path("output.json").write_text(json.dumps({"evalId": "e", "results": results, "config": {}}), encoding="utf-8")
    done = shell("import", "data.json", "--verify", "output.json", "--trust")
    assert done.out.splitlines()[-1] == "1 of 4 assertions judges as before; 3 differ", done.out
