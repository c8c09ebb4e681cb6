"""An evaluator of one's own is written in place, tried on recorded answers, and what a threshold lets pass is live."""

import json

import pytest

from tests.runs.conftest import Project
from tests.tui.story import at_the_workbench
from tui_evals.datasets.resolve import EffectiveEvaluator
from tui_evals.evaluators.registry import Registry, built_in
from tui_evals.tui.judges.trial import RecordedScores
from tui_evals.tui.judges.writing import WriteEvaluator

ANSWERING = """
def answer(prompt):
    number = int(prompt.split()[-1])
    return " ".join(["question", str(number), "and", "more", "words"][: 1 + number % 5])
"""


@pytest.fixture
def project(tmp_path, server):
    made = Project(tmp_path, server)
    (tmp_path / "answering.py").write_text(ANSWERING)
    (tmp_path / ".evals").mkdir(exist_ok=True)
    (tmp_path / ".evals" / "config.toml").write_text('[targets.main]\nmodel = "python:answering:answer"\n')
    items = [{"testId": f"A-{n}", "prompt": f"question {n}", "expected_response": f"question {n}"} for n in range(10)]
    data = {"schemaVersion": "1.11.0", "default_evaluators": {"PartialMatch": {"threshold": 0.6}}, "items": items}
    (tmp_path / "data.json").write_text(json.dumps(data))
    made.do("run", "data.json", "--target", "main", "--trust", "--quiet", "--name", "nightly", code=None)
    return made


def evaluators_of(person, number=0):
    return person.app.workspace.items[number].get("evaluators")


@pytest.mark.nightly
async def test_an_expression_is_tried_on_all_recorded_answers_as_it_is_typed(project):
    async with at_the_workbench(project.folder, dataset="data.json") as person:
        await person.press("1", "g", "j", "3", "a")
        await person.type("new: expr")
        await person.press("enter")
        await person.type("response | split | length < 3")
        await person.sees(seconds=40, text="4 of 10 judged answers pass")
        assert "✗ fail" in person.screen() and "A-2 in nightly" in person.screen()
        await person.press("escape")
        await person.sees(seconds=40, text="Expression judges A-0 now")
        assert evaluators_of(person) == {"Expression": {"expression": "response | split | length < 3"}}


@pytest.mark.story
async def test_a_python_function_is_written_agreed_to_and_tried_in_place(project):
    async with at_the_workbench(project.folder, dataset="data.json") as person:
        await person.press("1", "g", "j", "3", "a")
        await person.type("new: python")
        await person.press("enter")
        await person.type("short")
        await person.press("enter")
        assert isinstance(person.app.screen, WriteEvaluator)
        person.app.screen._box.load_text("def score(response):\n    return len(response.split()) <= 3, 'counted'\n")
        await person.press("ctrl+t")
        await person.sees(seconds=40, text="runs the evaluator short")
        await person.press("y")
        await person.sees(seconds=40, text="6 of 10 judged answers pass")
        await person.press("escape")
        await person.sees(seconds=40, text="short judges A-0 now")
        assert evaluators_of(person) == {"short": {}}
    assert "counted" in (project.folder / "custom-evaluators" / "short" / "short.py").read_text()


@pytest.mark.nightly
async def test_a_function_with_a_mistake_is_not_taken_and_an_empty_text_adds_nothing(project):
    async with at_the_workbench(project.folder, dataset="data.json") as person:
        await person.press("1", "g", "j", "3", "a")
        await person.type("new: python")
        await person.press("enter")
        await person.type("re")
        await person.press("enter")
        await person.sees(seconds=40, text="re is a module of Python's own")
        await person.press("escape", "escape", "a")
        await person.type("new: python")
        await person.press("enter")
        await person.type("short")
        await person.press("enter")
        person.app.screen._box.load_text("def score(:\n")
        await person.press("ctrl+t")
        await person.sees(seconds=40, text="line 1: invalid syntax")
        person.app.screen._box.load_text("")
        await person.press("escape")
        await person.sees(seconds=40, text="nothing was written, so nothing was added")
        assert evaluators_of(person) is None
    assert not (project.folder / "custom-evaluators").exists()


@pytest.mark.nightly
async def test_how_many_recorded_answers_pass_is_shown_for_a_threshold_and_while_it_is_typed(project):
    async with at_the_workbench(project.folder, dataset="data.json", size=(160, 45)) as person:
        await person.press("1", "g", "j", "3")
        await person.sees(seconds=40, text="at 0.6, 8 of 10 recorded answers pass; at 0.5,")
        await person.sees(seconds=40, text="10; at 0.7, 4")
        await person.press("enter", "enter")
        await person.type("0.9")
        await person.sees(seconds=40, text="at 0.9, 2 of 10 recorded answers pass")


def test_a_threshold_counts_by_the_direction_and_negation_of_its_evaluator():
    kinds = Registry(built_in())
    scores = RecordedScores(
        "r", {"PartialMatch": [(0.5, 3), (0.8, 2)], "StepsWasted": [(0.0, 4), (3.0, 1)], "Rubric": [(5, 1)]}
    )

    def passing(name, **options):
        entry = EffectiveEvaluator(name, options, "item")
        return scores.passing(entry, kinds.find(name))

    assert passing("PartialMatch", threshold=0.6) == "at 0.6, 2 of 5 recorded answers pass; at 0.5, 5"
    assert passing("PartialMatch", threshold=0.6, negate=True).startswith("at 0.6, 3 of 5")
    assert passing("StepsWasted", threshold=1).startswith("at 1, 4 of 5")
    assert passing("PartialMatch", threshold="x") == "" and passing("Latency", threshold=5) == ""
