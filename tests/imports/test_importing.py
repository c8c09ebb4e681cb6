"""`tui-evals import`: what was recorded becomes a dataset and a finished run, once, whole, over no other file."""

from __future__ import annotations

import json
import shutil
from contextlib import contextmanager
from itertools import product
from pathlib import Path

import pytest

from tui_evals.datasets.document import load
from tui_evals.datasets.validate import validate
from tui_evals.evaluators.registry import load_registry
from tui_evals.imports import recording
from tui_evals.store.details import read_scores
from tui_evals.store.reader import Reader

pytestmark = pytest.mark.story

RECORDED = Path(__file__).parent / "promptpex"


@pytest.fixture
def recorded(project):
    """A project with copies of the recorded folders."""
    shutil.copytree(RECORDED, project, dirs_exist_ok=True)
    return project


@contextmanager
def store():
    with Reader(Path(".evals/evals.db")) as reader:
        yield reader


def runs():
    with store() as reader:
        return reader.runs()


def answers(run):
    """Each answer of a run with its scores, by test, target and repeat."""
    with store() as reader:
        scores: dict[int, dict[str, object]] = {}
        for number, record in read_scores(reader, run.id):
            scores.setdefault(number, {})[record.key] = record
        return {
            (row.name, run.targets[row.target], row.repeat): (row, reader.detail(row.id).answer, scores.get(row.id, {}))
            for row in reader.all_rows(run.id)
        }


def write(path, value):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(value if isinstance(value, str) else json.dumps(value))
    return path


def row(**given):
    return {"testinput": "q", "ruleid": 1, "testuid": "t1", "model": "m", "output": "a", "compliance": "ok", **given}


# -- what comes in


def test_a_folder_becomes_a_dataset_that_can_be_run_and_a_finished_run(shell, recorded):
    done = shell("import", "tone")
    assert done.code == 0, done.err
    assert "read 5 tests, 10 results of 2 models from tone" in done.out
    assert "left out: accuracy with average, which is computed from the scores" in done.out
    document = load(Path("tone/tone.json"))
    assert validate(document, load_registry(recorded).catalogue).problems == ()
    assert document.data["prompt_file"] == "../tone.prompty"
    assert [item["category"] for item in document.data["items"]] == ["rule-1", "rule-2", "rule-3", "rule-4", "baseline"]
    assert document.data["items"][0]["variables"] == {"message": "Thank you, dear friend!"}
    assert [item.get("expected_response") for item in document.data["items"]] == [
        *("warm", "neutral", "cold", "neutral"),
        None,
    ]
    (run,) = runs()
    assert (run.status, run.source, run.tags) == ("finished", "tone/tone.json", ("promptpex",))
    assert run.started is None and run.finished is not None
    assert run.targets == ("ollama:small:3b", "openai:tiny")
    assert f"next: `tui-evals show {run.key}`" in done.out


def test_answers_errors_and_verdicts_are_those_recorded(shell, recorded):
    shell("import", "tone")
    found = answers(runs()[0])
    assert {key[:2]: row.status for key, (row, _, _) in found.items() if key[1] == "openai:tiny"} == {
        ("test-00000001", "openai:tiny"): "fail",
        ("test-00000002", "openai:tiny"): "error",
        ("test-00000003", "openai:tiny"): "pass",
        ("test-00000004", "openai:tiny"): "partial",
        ("baseline-test-ab12cd", "openai:tiny"): "pass",
    }
    lost = found["test-00000002", "openai:tiny", 0]
    assert (lost[1].code, lost[1].message, lost[2]) == ("agentRequestFailed", "429 too many requests", {})
    line, said, scores = found["test-00000003", "ollama:small:3b", 0]
    assert (said.text, line.score) == ("cold!", 0.0)
    assert said.request["messages"][-1] == {"role": "user", "content": "Go away."}
    assert scores["Compliance"].reason == "One word.\nERR"
    assert (scores["accuracy_azure_judge_a"].score, scores["accuracy_azure_judge_a"].evaluator) == (20.0, "accuracy")
    assert scores["accuracy_azure_judge_a"].details == {"judge": "azure:judge-a"}


def test_an_error_has_no_verdict_and_every_judge_is_named(shell, project):
    metrics = {"accuracy with azure:a": {"score": 1}, "accuracy with azure:b": {"score": 2}}
    given = [row(error="429", output=None, compliance="err"), row(testuid="t2", testinput="r", metrics=metrics)]
    write(project / "lone" / "test_results.json", given)
    assert shell("import", "lone").code == 0
    (run,) = runs()
    assert run.config["recorded"]["by"] == "PromptPex"
    assert run.config["recorded"]["judges"] == ["azure:a", "azure:b"]
    lost, said = answers(run).values()
    assert (lost[0].status, lost[2]) == ("error", {}) and len(said[2]) == 3


def test_the_older_tables_come_in_too(shell, recorded):
    done = shell("import", "older/test_results.csv", "--json")
    said = json.loads(done.out)
    assert (said["items"], said["results"], said["models"]) == (3, 6, ["gpt-4o-mini", "gemma2:9b"])
    assert (said["dataset"], said["run_is"], said["notes"]) == ("older/older.json", "new", [])
    items = json.loads(Path("older/older.json").read_text())["items"]
    assert [item["extensions"]["promptpex"].get("validity") for item in items] == ["ok", "err", "ok"]
    assert items[2]["category"] == "baseline"


def test_a_context_alone_brings_its_prompt(shell, project):
    prompt = (RECORDED / "tone.prompty").read_text()
    context = {
        "name": "tone",
        "prompt": {"filename": "elsewhere/tone.prompty", "content": prompt},
        "rules": {"filename": "tone/rules.txt", "content": "one rule"},
        "promptPexTests": [{"ruleid": "1", "testinput": "hello", "testuid": "t1"}],
        "testOutputs": {"filename": "tone/test_results.json", "content": json.dumps([row(testinput="hello")])},
        "options": {"evalModels": ["azure:judge"]},
    }
    write(project / "saved" / "promptpex_context.json", context)
    done = shell("import", "saved/promptpex_context.json")
    assert done.code == 0, done.err
    assert "prompt: saved/tone.prompty (written)" in done.out
    assert Path("saved/tone.prompty").read_text() == prompt
    assert json.loads(Path("saved/tone.json").read_text())["prompt_file"] == "tone.prompty"
    ((_, _, scores),) = answers(runs()[0]).values()
    assert scores["Compliance"].details == {"judge": "azure:judge"}


def test_answers_alone_become_items_from_their_rows(shell, project):
    given = [row(rule="be kind", scenario="polite"), row(testuid="t2", testinput="", inverse=True, ruleid="NaN")]
    write(project / "lone" / "test_results.json", given)
    done = shell("import", "lone")
    assert done.code == 0, done.err
    assert "note: there is no prompt next to the tests, so each item asks only its test's input" in done.err
    assert "note: 2 of the tests are known from their answers only" in done.err
    first, second = json.loads(Path("lone/lone.json").read_text())["items"]
    assert (first["prompt"], first["tags"], first["category"]) == ("q", ["polite"], "rule-1")
    assert first["extensions"]["promptpex"]["rule"] == "be kind"
    assert (second["messages"], second["category"]) == ([{"role": "user", "content": ""}], "no-rule")
    assert len(answers(runs()[0])) == 2


def test_tests_alone_are_a_dataset_without_a_run(shell, recorded):
    done = shell("import", "tone/tests.json")
    assert "read 5 tests and no answers from tone/tests.json" in done.out
    assert "next: `tui-evals run tone/tone.json --target NAME`" in done.out
    assert runs() == []


def test_repeats_may_differ_from_model_to_model(shell, project):
    given = [row(output="1"), row(output="2"), row(model="n", output="3")]
    write(project / "twice" / "test_results.json", given)
    shell("import", "twice")
    said = {key[1:]: one.text for key, (_, one, _) in answers(runs()[0]).items()}
    assert said == {("m", 0): "1", ("m", 1): "2", ("n", 0): "3"}
    assert json.loads(Path("twice/twice.json").read_text())["repeats"] == 2
    assert shell("show", "last", "--by", "repeats").code == 0


def test_totals_alone_are_printed_as_such(shell, recorded):
    done = shell("import", "tone/overview.csv")
    assert done.code == 0
    assert "tone/overview.csv holds only totals, no answers" in done.out
    assert "tests positive compliant" in done.out and "ollama:small:3b" in done.out
    assert "next: `tui-evals import tone`" in done.out
    assert not Path("tone/tone.json").exists() and not Path(".evals").exists()


def test_totals_that_differ_from_the_answers_are_noted(shell, recorded):
    file = Path("tone/overview.csv")
    file.write_text(file.read_text().replace("small:3b,4,75%", "small:3b,9,75%"))
    done = shell("import", "tone")
    assert "note: overview.csv says otherwise of ollama:small:3b: tests 9 (the answers: 4)\n" in done.err


def test_seven_rules_forty_two_tests_and_four_models_come_to_the_known_counts(shell, project):
    kept = {  # positive, negative and baseline tests that a model's answers keep to
        "gpt-4o-mini": (21, 21, 42),
        "gemma2:9b": (21, 19, 41),
        "qwen2.5:3b": (20, 21, 39),
        "llama3.2:1b": (1, 3, 1),
    }
    rules = [f"rule {n}" for n in range(7)]
    tests = [
        {"ruleid": str(rule), "testid": n, "testinput": f"{rule}.{n}"} for rule, n in product(range(1, 15), (1, 2, 3))
    ]
    given = []
    for model, good in kept.items():
        for kind, most in enumerate(good):
            asked = [f"b{n}" for n in range(42)] if kind == 2 else [one["testinput"] for one in tests[kind * 21 :][:21]]
            given += [
                {"model": model, "input": text, "output": "NN", "compliance": "ok" if n < most else "err"}
                | ({"baseline": "1"} if kind == 2 else {"ruleid": text.split(".")[0], "inverse": kind == 1})
                for n, text in enumerate(asked)
            ]
    write(project / "tag" / "rules.txt", "\n".join(rules))
    write(project / "tag" / "inverse_rules.txt", "\n".join(f"not {rule}" for rule in rules))
    write(project / "tag" / "tests.json", tests)
    write(project / "tag" / "baseline_tests.txt", "\n===\n".join(f"b{n}" for n in range(42)))
    write(project / "tag" / "test_results.json", given)
    heads = "model,tests,tests compliant,baseline compliant,tests positive,tests positive compliant,tests negative"
    heads += ",tests negative compliant,baseline"
    shares = {"gpt-4o-mini": "100%,100%", "gemma2:9b": "95%,98%", "qwen2.5:3b": "98%,93%", "llama3.2:1b": "10%,2%"}
    lines = [f"{m},42,{shares[m]},21,{p},21,{n},42" for m, (p, n, _) in kept.items()]
    write(project / "tag" / "overview.csv", "\n".join([heads, *lines]))
    done = shell("import", "tag")
    assert done.code == 0
    assert "read 84 tests, 336 results of 4 models from tag" in done.out
    assert done.err == "note: there is no prompt next to the tests, so each item asks only its test's input\n"
    facts = [item["extensions"]["promptpex"] for item in json.loads(Path("tag/tag.json").read_text())["items"]]
    assert [sum(one.get("inverse") is flag for one in facts) for flag in (False, True)] == [21, 21]
    passed = dict.fromkeys(kept, 0)
    for (_, model, _), (line, _, _) in answers(runs()[0]).items():
        passed[model] += line.status == "pass"
    assert passed == {model: sum(good) for model, good in kept.items()}


# -- once, whole, and nothing overwritten


def test_the_same_folder_makes_one_run_however_often_it_is_imported(shell, recorded):
    shell("import", "tone")
    before = Path("tone/tone.json").read_bytes()
    done = shell("import", "tone")
    (run,) = runs()
    assert done.code == 0
    assert f"run: {run.key} (was imported before; no second one was made)" in done.out
    assert "(was there already, the same)" in done.out
    assert Path("tone/tone.json").read_bytes() == before
    Path("tone/tone.json").write_text('{"items": [{"prompt": "edited"}]}')
    done = shell("import", "tone")
    assert (done.code, len(runs())) == (0, 1)
    assert "stays as it is" in done.out and "edited" in Path("tone/tone.json").read_text()
    shell("import", "tone", "--out", "other")
    assert len(runs()) == 1
    assert json.loads(Path("other/tone.json").read_text())["prompt_file"] == "../tone.prompty"


def test_another_file_of_the_name_is_not_overwritten(shell, recorded):
    Path("tone/tone.json").write_text("mine")
    done = shell("import", "tone")
    assert done.code == 2
    assert done.err == (
        "tone/tone.json is there already and holds something else; it is as it was. Name another folder with --out, "
        "or another name with --name\n"
    )
    assert (Path("tone/tone.json").read_text(), runs()) == ("mine", [])
    assert shell("import", "tone", "--name", "tone-recorded").code == 0
    assert runs()[0].source == "tone/tone-recorded.json"


def test_a_prompt_that_was_written_goes_again_when_the_import_fails(shell, project):
    context = {"name": "p", "prompt": {"filename": "p.prompty", "content": "Say {{x}}"}, "tests": [{"ruleid": "what"}]}
    write(project / "p" / "promptpex_context.json", context)
    done = shell("import", "p")
    assert done.code == 2
    assert done.err.endswith("promptpex_context.json, tests, entry 1, ruleid: 'what' is no number\n")
    assert sorted(file.name for file in Path("p").iterdir()) == ["promptpex_context.json"]


@pytest.mark.parametrize(
    ("file", "text", "said"),
    [
        ("tone/test_results.json", '[\n{"a": }]', ":2 cannot be read: not valid JSON"),
        ("tone/test_results.json", "{}", " must hold a list of objects"),
        ("tone/tests.json", '[{"ruleid": "x"}]', ", entry 1, ruleid: 'x' is no number"),
        ("tone/test_evals.json", '[{"baseline": 7}]', ", entry 1, baseline: '7' is neither true nor false"),
    ],
)
def test_what_cannot_be_read_is_named_and_leaves_nothing(shell, recorded, file, text, said):
    Path(file).write_text(text)
    done = shell("import", "tone")
    assert done.code == 2 and done.err.startswith(f"{recorded / file}{said}")
    assert not Path("tone/tone.json").exists() and runs() == []


def test_text_that_is_not_utf8_is_named_with_its_line(shell, recorded):
    Path("tone/rules.txt").write_bytes(b"fine\n\xff\n")
    done = shell("import", "tone")
    assert (done.code, done.err) == (2, f"{recorded}/tone/rules.txt:2 is not UTF-8 text; save the file as UTF-8\n")


def test_an_import_that_was_cut_off_is_made_whole_by_the_next(shell, recorded, monkeypatch):
    def cut(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(recording, "_filled", cut)
        assert shell("import", "tone").code == 130
    assert [run.status for run in runs()] == ["planned"]
    done = shell("import", "tone")
    (run,) = runs()
    assert (run.status, len(answers(run))) == ("finished", 10)
    assert f"run: {run.key} (was begun by an earlier import, and is whole now)" in done.out


@pytest.mark.parametrize("there", [None, "empty"])
def test_what_is_no_recording_is_refused_with_what_would_be_one(shell, project, there):
    (project / "empty").mkdir()
    done = shell("import", there or "nowhere")
    assert done.code == 2
    assert ("test_results.json" if there else "there is no such file or folder") in done.err


def test_rules_without_tests_are_refused(shell, project):
    write(project / "bare" / "rules.txt", "one")
    done = shell("import", "bare")
    assert (done.code, runs()) == (2, [])
    assert "bare holds neither tests nor answers" in done.err


@pytest.mark.parametrize("name", ["../up", "a/b", ".hidden", ""])
def test_a_name_stays_in_its_folder(shell, recorded, name):
    done = shell("import", "tone", "--name", name)
    assert done.code == 2 and "cannot be the name of a file" in done.err
    assert sorted(file.name for file in recorded.iterdir() if file.is_dir()) == ["older", "tone"]


def test_hostile_text_reaches_no_terminal(shell, project):
    bad = "\x1b]52;c;aGk=\x07[/red]\u202e"
    given = [row(testuid=bad, model=bad, output=bad, metrics={f"{bad} with {bad}": {"score": 1, "content": bad}})]
    write(project / "bad" / "test_results.json", given)
    write(project / "bad" / "overview.csv", f"model,tests\n{bad}x,1\n")
    done = shell("import", "bad")
    assert done.code == 0, done.err
    shown = done.out + done.err + shell("show", "last").out + shell("import", "bad/overview.csv").out
    assert "\x1b" not in shown and "\u202e" not in shown and "\x07" not in shown


# -- what can be done with it then


def test_runs_from_two_folders_are_compared(shell, recorded):
    shutil.copytree("tone", "later/tone")
    file = Path("later/tone/test_results.json")
    file.write_text(file.read_text().replace('"output": "cold!"', '"output": "cold"').replace("ERR", "OK"))
    shell("import", "tone")
    shell("import", "later/tone")
    later, first = runs()
    done = shell("compare", first.key, later.key)
    assert "test-00000003" in done.out and "no item in common" not in done.out


def test_answers_are_judged_again_where_their_targets_are_configured(shell, recorded):
    sections = "".join(f'[targets."{name}"]\nmodel = "demo"\n' for name in ("ollama:small:3b", "openai:tiny"))
    write(recorded / ".evals" / "config.toml", sections)
    shell("import", "tone")
    done = shell("rescore", "last", "--evaluators", "ExactMatch", "--quiet")
    assert done.code == 0, done.err
    assert runs()[0].scoring_pass == 2


@pytest.mark.parametrize("command", [("rerun", "last", "--only", "failed")])
def test_a_model_that_is_not_configured_is_named(shell, recorded, command):
    shell("import", "tone")
    done = shell(*command)
    assert done.code == 3
    assert done.err.startswith("there is no target ollama:small:3b in .evals/config.toml")


def test_a_prompt_that_cannot_be_used_is_said_and_left_out(shell, recorded):
    Path("tone.prompty").write_text("---\ntestExpansions: 2\n---\nSay {{message}}")
    done = shell("import", "tone")
    assert done.code == 0
    assert "note: the prompt cannot be used, so each item asks its test's input alone:" in done.err
    assert "prompt_file" not in json.loads(Path("tone/tone.json").read_text())


def test_a_metric_that_is_not_known_is_kept_in_the_run_and_named(shell, recorded):
    file = Path("tone/test_results.json")
    file.write_text(file.read_text().replace('"accuracy with azure', '"my-own with azure'))
    done = shell("import", "tone")
    assert "note: new runs are not judged by the metric my-own, which is not known here; put my-own.metric.prompty" in (
        done.err
    )
    assert json.loads(Path("tone/tone.json").read_text())["default_evaluators"] == {"Compliance": {}}
    assert "my_own_azure_judge_a" in answers(runs()[0])["test-00000001", "openai:tiny", 0][2]


def test_an_import_says_what_has_to_be_put_right_before_its_dataset_can_run(project, shell):
    Path("tests.json").write_text("[]", encoding="utf-8")
    Path("c.yaml").write_text("prompts: ['Say {{word}}']\ntests: tests.py\n", encoding="utf-8")
    done = shell("import", "c.yaml")
    assert done.code == 0, done.err
    assert "this cannot run until this is fixed:\n  c.json" in done.err and "next: " in done.out
    (fault,) = json.loads(shell("import", "c.yaml", "--json").out)["cannot_run"]
    assert fault in done.err and fault in shell("validate", "c.json").out
    Path("good.yaml").write_text("prompts: ['Say {{word}}']\ntests: [{vars: {word: yes}}]\n", encoding="utf-8")
    good = shell("import", "good.yaml")
    assert "cannot run" not in good.err and shell("validate", "good.json").code == 0


PYTHON = """\
prompts: ['Say {{word}}']
tests: [{vars: {word: yes}, assert: [{type: python, value: "'%s' in output"}]}]
"""


def test_evaluators_of_code_go_to_the_project_of_the_dataset_beside_those_it_has(project, shell, monkeypatch):
    for name, word in (("one", "Say"), ("two", "yes")):
        Path(f"{name}.yaml").write_text(PYTHON % word, encoding="utf-8")
    (project / "there" / ".evals").mkdir(parents=True)
    for name in ("one", "two", "one"):
        done = shell("import", f"{name}.yaml", "--out", "there")
        assert done.code == 0, done.err
        assert f"run the dataset from {project / 'there'}" in done.err
        assert shell("import", f"{name}.yaml", "--out", "below").code == 0
    for root in (project, project / "there"):
        assert sorted(one.name for one in (root / "custom-evaluators").iterdir()) == ["python", "python_2"]
    for folder in ("below", "there"):
        monkeypatch.chdir(project / folder)
        assert shell("validate", "one.json", "two.json").code == 0
    monkeypatch.chdir(project)
    assert shell("validate", "below/one.json", "below/two.json").code == 0
