"""Evaluating from Python: with functions and models, judged by names and functions, kept in the store."""

from __future__ import annotations

import asyncio
import csv
import json
import os
import re
import runpy
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from pydantic import BaseModel

import tui_evals
from tui_evals import Dataset, Evaluator, EveryCallFailed, Item, Reply, RunStopped, Score, aevaluate, evaluate, resume
from tui_evals.api.arguments import evaluator_of
from tui_evals.datasets.paths import DatasetError
from tui_evals.runs.errors import CannotPlan
from tui_evals.store.reader import Reader
from tui_evals.targets.base import ConfigurationError

pytestmark = [pytest.mark.story, pytest.mark.usefixtures("here")]

PAGE = Path(tui_evals.__file__).parent / "help" / "python.md"
BLOCKS = re.findall(r"(?:^    .*\n|^\n(?=    ))+", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
EXAMPLES = [block for block in BLOCKS if "from tui_evals" in block]
ITEMS = [{"prompt": "one", "expected_response": "ONE"}, {"prompt": "two", "expected_response": "zwei"}]


def shout(prompt):
    return prompt.upper()


def test_a_function_is_asked_and_the_run_is_in_the_store(project):
    run = evaluate(ITEMS, shout, evaluators={"ExactMatch": {"case_sensitive": True}}, name="first", tags=["x"])
    assert (run.status, run.score, run.scores, run.passed) == ("finished", 50.0, {"shout": 50.0}, False)
    assert [(answer.item, answer.text, answer.passed) for answer in run.answers] == [
        ("#1", "ONE", True),
        ("#2", "TWO", False),
    ]
    assert run.failures[0].scores["ExactMatch"].result == "fail"
    with Reader(project / ".evals" / "evals.db") as reader:
        stored = reader.find_run("first")
        assert (stored.key, stored.tags, stored.total) == (run.key, ("x",), 2)


async def test_async_functions_and_several_targets_in_a_running_loop():
    async def echo(messages):
        await asyncio.sleep(0)
        return messages[-1]["content"]

    run = await aevaluate(ITEMS, [shout, echo], evaluators="ExactMatch", repeats=2)
    assert len(run.answers) == 8 and set(run.scores) == {"shout", "echo"}
    again = evaluate(ITEMS, echo, evaluators="ExactMatch", only=[1])
    assert [answer.item for answer in again.answers] == ["#2"]


def test_a_sweep_asks_each_target_with_each_value_and_resume_knows_the_code_by_its_name(project):
    broken = {0.7}

    def settings(request):
        if request["params"]["temperature"] in broken:
            raise OSError("away")
        return json.dumps(request["params"])

    def ask():
        return evaluate(ITEMS[:1], settings, evaluators=["ContainsJson"], sweep={"temperature": [0, 0.7], "top_p": [1]})

    run = ask()
    names = ("settings@temperature=0@top_p=1", "settings@temperature=0.7@top_p=1")
    assert [(answer.target, answer.status) for answer in run.answers] == [(names[0], "pass"), (names[1], "error")]
    broken.clear()
    run = resume(run, settings, errors=True)
    assert [json.loads(answer.text)["temperature"] for answer in run.answers] == [0, 0.7]
    assert set(run.scores) == set(names)


def test_an_object_that_stands_for_several_targets_is_closed_once():
    class Agent:
        name, closed = "agent", 0

        async def ask(self, request):
            return Reply(text=str(request.params["seed"]))

        async def close(self):
            Agent.closed += 1

    run = evaluate(ITEMS[:1], Agent(), evaluators=["Includes"], sweep={"seed": [1, 2, 3]})
    assert [answer.text for answer in run.answers] == ["1", "2", "3"] and Agent.closed == 1


def test_functions_judge_what_their_parameters_name():
    def right(answer, reference):
        return answer == reference

    async def long(output):
        return len(output) / 4

    run = evaluate(ITEMS, shout, evaluators=[right, long])
    found = {key: (record.score, record.result) for key, record in run.answers[0].scores.items()}
    assert found == {"right": (1.0, "pass"), "long": (0.75, "pass")}
    with pytest.raises(TypeError, match="asks for mood, which is no evidence"):
        evaluator_of("odd", lambda mood: True)


def test_a_judge_that_breaks_is_an_error_record_and_no_fail():
    def broken(output):
        raise KeyError("gone")

    (answer, _) = evaluate(ITEMS, shout, evaluators=[broken]).answers
    assert answer.status == "partial" and "gone" in answer.scores["broken"].reason


def test_a_function_that_raises_is_an_answer_without_text():
    def fails(prompt):
        raise ValueError("no idea")

    with pytest.raises(EveryCallFailed) as caught:
        evaluate(ITEMS[:1], fails, evaluators="ExactMatch")
    run = caught.value.run
    assert run.answers[0].status == "error" and "no idea" in (run.answers[0].error or "")


@pytest.mark.parametrize(
    ("problem", "says", "given"),
    [
        (DatasetError, "did you mean 'prompt'", {"dataset": [{"promt": "x"}]}),
        (DatasetError, "did you mean 'ExactMatch'", {"evaluators": "ExactMach"}),
        (DatasetError, "nope.json", {"dataset": "nope.json"}),
        (ConfigurationError, "no target is named", {"target": None}),
        (ConfigurationError, "there is no target nope", {"target": "nope"}),
        (ConfigurationError, "two targets are called shout", {"target": [shout, shout]}),
        (CannotPlan, "judged by a model and no judge is named", {"evaluators": "Relevance"}),
    ],
)
def test_what_is_wrong_is_said_before_anything_is_asked(project, problem, says, given):
    asked = []
    words = {"dataset": ITEMS, "target": lambda prompt: asked.append(prompt), "evaluators": "ExactMatch"} | given
    with pytest.raises(problem, match=says):
        evaluate(words["dataset"], words["target"], evaluators=words["evaluators"])
    assert asked == []


def test_a_function_may_judge_as_a_model_does():
    def judge(messages):
        return '{"score": 5, "reason": "fine"}'

    run = evaluate(ITEMS, shout, evaluators="Relevance", judge=judge)
    assert all(answer.scores["Relevance"].result == "pass" for answer in run.answers)


def test_a_run_that_cannot_go_on_says_so_and_holds_what_there_is(project):
    (project / ".evals").mkdir()
    settings = '[targets.gone]\nmodel = "openai/x"\nbase_url = "http://127.0.0.1:9/v1"\napi_key = "env:NOKEY"\n'
    (project / ".evals" / "config.toml").write_text(settings)
    with pytest.raises((RunStopped, ConfigurationError)) as caught:
        evaluate(ITEMS, "gone", evaluators="ExactMatch")
    assert "gone" in str(caught.value) or "NOKEY" in str(caught.value)


@pytest.mark.cases(9)
@pytest.mark.parametrize("number", range(len(EXAMPLES)))
def test_an_example_of_the_manual_runs(project, number, capsys):
    runpy.run_path(_example(project, number), run_name="__main__")
    assert capsys.readouterr().out.strip()


@pytest.mark.nightly
def test_an_example_of_the_manual_runs_as_a_program(project):
    done = subprocess.run([sys.executable, _example(project, 0)], capture_output=True, text=True, cwd=project)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()


def _example(project: Path, number: int) -> str:
    source = "\n".join(line.removeprefix("    ") for line in EXAMPLES[number].split("\n"))
    (project / "example.py").write_text(source)
    return str(project / "example.py")


def test_a_dataset_and_items_as_objects_are_asked_as_documents_are():
    item = Item(prompt="one", expected_response="ONE", testId="first")
    dataset = Dataset(default_evaluators={"ExactMatch": {}}, items=[item])
    typed, listed = evaluate(dataset, shout), evaluate([item, {"prompt": "two"}], shout, evaluators="Includes")
    assert [(answer.item, answer.status) for answer in typed.answers] == [("first", "pass")]
    assert [answer.item for answer in listed.answers] == ["first", "#2"]


class Parrot:
    """A target as an object, which knows how often it was asked and that it was closed."""

    def __init__(self, name="Polly"):
        self.name = name
        self.asked, self.closed = [], 0

    async def ask(self, request):
        self.asked.append(request.messages[-1]["content"])
        return Reply(text=self.asked[-1].upper(), cost=0.25)

    async def close(self):
        self.closed += 1


def test_a_target_object_answers_and_is_closed():
    first, second = Parrot(), Parrot("Coco")
    run = evaluate(ITEMS, [first, second], evaluators="ExactMatch")
    assert sorted(first.asked) == ["one", "two"] and first.closed == second.closed == 1
    assert run.scores == {"Polly": 50.0, "Coco": 50.0} and run.totals.cost == 1.0


def test_a_target_object_may_judge():
    class Judge(Parrot):
        async def ask(self, request):
            return Reply(text='{"score": 5, "reason": "fine"}')

    assert evaluate(ITEMS, shout, evaluators="Relevance", judge=Judge("judge")).passed


@pytest.mark.parametrize(
    ("target", "says"),
    [
        (Parrot, "Parrot is a class of targets; give an object of it"),
        (type("Mute", (), {"ask": Parrot.ask})(), "the target Mute has no `async def close"),
    ],
)
def test_what_is_no_target_is_refused(target, says):
    with pytest.raises(ConfigurationError, match=says):
        evaluate(ITEMS, target, evaluators="ExactMatch")


def test_rows_hold_a_column_for_each_evaluator():
    (row, _) = evaluate(ITEMS, shout, evaluators="ExactMatch").rows()
    assert row["item"] == "#1" and row["ExactMatch.result"] == "pass" and row["text"] == "ONE"


def test_the_options_of_an_evaluator_may_be_any_pydantic_model(tmp_path):
    class Short(Evaluator):
        """Passes when the answer is short."""

        name = "Short"
        family = "text"

        class Options(BaseModel):
            most: int = 3

        def score(self, evidence):
            return Score(1.0, "pass") if len(evidence.response or "") <= self.options.most else Score(0.0, "fail")

    items = [{"prompt": "hello", "evaluators": {"Short": {"most": 5, "weight": 0.5}}}, {"prompt": "good evening"}]
    run = evaluate(items, lambda prompt: prompt, evaluators=[Short], project=tmp_path)
    assert [answer.status for answer in run.answers] == ["pass", "fail"]
    with pytest.raises(TypeError, match="Options of Odd is not a pydantic model"):
        type("Odd", (Evaluator,), {"name": "Odd", "Options": dict})


def test_ctrl_c_names_the_run_that_it_ended(tmp_path):
    patience = [False]

    async def agent(prompt):
        if not patience.pop():
            os.kill(os.getpid(), signal.SIGINT)
            await asyncio.sleep(60)
        return prompt

    with pytest.raises(KeyboardInterrupt, match=r"The run \w+ was interrupted. Continue it with resume\(") as stopped:
        evaluate([{"prompt": "hello"}], agent, without_judges=True, project=tmp_path)
    key = str(stopped.value).split()[2]
    patience.append(True)
    run = resume(key, agent, project=tmp_path)
    assert run.key == key and run.answers[0].text == "hello"


def test_rows_tell_what_was_asked_expected_and_why(project):
    item = {"testId": "a", "prompt": "one", "expected_response": "ONE", "category": "words", "tags": ["t"]}
    run = evaluate([item, {"prompt": "two", "expected_response": "2"}], shout, evaluators="ExactMatch")
    first, second = run.rows()
    assert {name: first[name] for name in ("run", "test_id", "question", "expected", "category", "tags", "text")} == {
        "run": run.key,
        "test_id": "a",
        "question": "one",
        "expected": "ONE",
        "category": "words",
        "tags": ("t",),
        "text": "ONE",
    }
    assert list(first) == list(second) and second["category"] is None and "2" in second["ExactMatch.reason"]
    assert run.answers[1].reasons == {"ExactMatch": second["ExactMatch.reason"]}
    with run.report(project / "rows.csv").open(newline="") as file:
        assert [row["category"] for row in csv.DictReader(file)] == ["words", ""]


def test_a_long_run_is_shown_shortly():
    run = evaluate([{"prompt": f"<b>{number}</b> {'x' * 500}"} for number in range(50)], shout, without_judges=True)
    assert run.key in repr(run) and len(repr(run)) < 200 and len(repr(run.answers[0])) < 200


def test_json_values_are_expectations_in_files_and_items_too(project):
    answers = {"a": {"b": 1, "a": [2]}, "b": 42, "c": [1, "ü"]}
    items = [
        {"testId": "a", "prompt": "a", "expected_response": {"a": [2], "b": 1}},
        {"testId": "b", "turns": [{"prompt": "b", "ideal": [7, 42]}]},
        {"testId": "c", "prompt": "c", "expected_response": [1, "ü"], "matrix": {"x": [1, 2]}},
    ]
    file = project / "values.json"
    file.write_text(json.dumps({"items": items}))
    known = file.read_bytes()
    for dataset in (file, list(map(Item.model_validate, items))):
        run = evaluate(dataset, lambda prompt: answers[prompt], evaluators="JsonMatch")
        assert run.passed and len(run.answers) == 4
        told = [answer.expected for answer in run.answers]
        assert told == ['{"a": [2], "b": 1}', "7", '[1, "ü"]', '[1, "ü"]']
    assert file.read_bytes() == known
    assert Item(prompt="b", expected_response=42).reference == "42"
    for wrong in ({"expected_response": float("nan")}, {"ideal": [None]}):
        with pytest.raises(DatasetError, match="JSON data"):
            evaluate([{"prompt": "b", **wrong}], shout, evaluators="JsonMatch")


def test_json_values_are_answers_and_expectations():
    answers = {"a": {"b": 1, "a": [2]}, "b": 42, "c": [1, "ü"], "d": True}
    expected = {"a": {"a": [2], "b": 1}, "b": 42, "c": [1, "ü"], "d": True}
    items = [{"testId": name, "prompt": name, "expected_response": expected[name]} for name in answers]
    run = evaluate(items, lambda prompt: answers[prompt], evaluators="ExactMatch,JsonMatch")
    assert run.passed and [answer.text for answer in run.answers] == ['{"a": [2], "b": 1}', "42", '[1, "ü"]', "true"]
    other = evaluate(items[1:2], lambda prompt: 43, evaluators="JsonMatch")
    assert not other.passed
    with pytest.raises(EveryCallFailed, match="did you mean 'text'"):
        evaluate(items[:1], lambda prompt: {"txt": "hello"}, evaluators="JsonMatch")
    with pytest.raises(DatasetError, match="neither text nor JSON data"):
        evaluate([{"prompt": "x", "expected_response": object()}], shout, evaluators="JsonMatch")


def test_a_function_that_judges_sees_the_whole_item_and_values():
    seen = []

    def look(item, category, tags, extensions, output_json, expected_json):
        seen.append((item["testId"], category, tags, extensions, output_json, expected_json))
        return output_json["n"] == expected_json["n"]

    item = {
        "testId": "a",
        "prompt": "x",
        "expected_response": {"n": 1},
        "category": "sums",
        "tags": ["t"],
        "extensions": {"difficulty": 3},
    }
    assert evaluate([item], lambda prompt: {"n": 1}, evaluators=[look]).passed
    assert seen == [("a", "sums", ["t"], {"difficulty": 3}, {"n": 1}, {"n": 1})]


def test_a_function_may_give_several_named_scores_that_count_each():
    def quality(output):
        return {"short": len(output) < 5, "tone": (0.25, "rude"), "known": Score(None, "skipped")}

    run = evaluate(ITEMS[:1], shout, evaluators=[quality])
    scores = {key: (score.score, score.result) for key, score in run.answers[0].scores.items()}
    assert scores == {
        "quality": (0.625, None),
        "quality.short": (1.0, "pass"),
        "quality.tone": (0.25, "fail"),
        "quality.known": (None, "skipped"),
    }
    assert run.answers[0].status == "fail" and run.answers[0].score == 50.0
    assert run.answers[0].reasons["quality.tone"] == "rude" and "quality.tone.score" in run.rows()[0]
    again = run.rescore([quality])
    assert {key: (score.score, score.result) for key, score in again.answers[0].scores.items()} == scores


def test_datasets_made_in_code_are_told_apart_by_name_or_by_what_they_ask(project):
    same = [evaluate(ITEMS, shout, evaluators="ExactMatch"), evaluate([*ITEMS], shout, evaluators="Includes")]
    edited = evaluate([{**ITEMS[0], "expected_response": "x"}, ITEMS[1]], shout, evaluators="ExactMatch")
    other = evaluate([{"prompt": "another"}], shout, without_judges=True)
    named = evaluate(ITEMS, shout, evaluators="ExactMatch", name="first", dataset_name="shop/refunds")
    typed = evaluate(Dataset(metadata={"name": "typed"}, items=[Item(prompt="x")]), shout, without_judges=True)
    with Reader(project / ".evals" / "evals.db") as reader:
        source = {run.key: reader.find_run(run.key).source for run in (*same, edited, other, named, typed)}
    assert source[same[0].key] == source[same[1].key] == source[edited.key] != source[other.key]
    assert (source[named.key], source[typed.key], named.name) == ("shop-refunds", "typed", "first")
    assert source[other.key].startswith("list-")
