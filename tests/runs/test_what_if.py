"""Other thresholds, weights and pass rules on stored scores: verdict for verdict what judging again gives."""

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.runs.conftest import Project
from tui_evals.datasets.document import load
from tui_evals.runs.project import load_project
from tui_evals.runs.rescoring import RescoreRequest
from tui_evals.runs.what_if import what_if

RATED = '{"reason": "fine", "score": 4}'
ANSWERING = """
def answer(prompt):
    number = int(prompt.split()[-1])
    return " ".join(["question", str(number), "and", "more", "words"][: 1 + number % 5])
"""
ITEMS = 10
EVALUATORS = {"PartialMatch": {"threshold": 0.5}, "Relevance": {}, "Includes": {}, "Regex": {"pattern": "more"}}
thresholds = st.sampled_from([0.1, 0.3, 0.5, 0.8, 1.0])


@pytest.fixture
def project(project: Project) -> Project:
    project.server.behave("judge-model", say=RATED, markers=False)
    (project.folder / "answering.py").write_text(ANSWERING)
    (project.folder / ".evals" / "config.toml").write_text(
        '[targets.main]\nmodel = "python:answering:answer"\n[targets.judge]\nmodel = "openai/judge-model"\n'
        f'base_url = "{project.server.url}"\n[judge]\ntarget = "judge"\n'
    )
    project.dataset(ITEMS, default_evaluators=EVALUATORS)
    project.do("run", "data.json", "--target", "main", "--quiet")
    return project


def edited(project: Project, partial: float, rating: float, weight: float, needed: float | None) -> None:
    data = json.loads((project.folder / "data.json").read_text())
    data["default_evaluators"] = {
        **EVALUATORS,
        "PartialMatch": {"threshold": partial},
        "Relevance": {"threshold": rating},
        "Includes": {"weight": weight},
    }
    for item in data["items"]:
        item.pop("threshold", None)
        if needed is not None:
            item["threshold"] = needed
    (project.folder / "data.json").write_text(json.dumps(data))


def tried(project: Project):
    with project.reader() as reader:
        request = RescoreRequest(dataset=load(project.folder / "data.json"))
        return what_if(reader.find_run("last"), request, reader, load_project(project.folder))


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(thresholds, st.sampled_from([2, 3.5, 4, 5]), st.sampled_from([1, 0.2]), st.sampled_from([None, 0.25, 0.5, 0.75]))
def test_what_is_found_is_what_judging_again_gives_and_asks_nobody(project, partial, rating, weight, needed):
    edited(project, partial, rating, weight, needed)
    asked = project.server.counts()["asked"]
    found = tried(project)
    assert found.open == 0
    assert project.server.counts()["asked"] == asked
    before = statuses(project)
    project.do("rescore", "last", "--dataset", "data.json", "--quiet")
    assert project.server.counts()["asked"] == asked  # the ratings are kept
    now = statuses(project)
    assert found.statuses == now
    assert {one.answer for one in found.changed} == {answer for answer in now if now[answer] != before[answer]}


def statuses(project: Project) -> dict[int, str]:
    with project.reader() as reader:
        return {row.id: row.status for row in reader.all_rows(reader.find_run("last").id)}


def test_what_a_score_does_not_tell_is_left_open(project):
    data = json.loads((project.folder / "data.json").read_text())
    data["default_evaluators"]["Regex"] = {"pattern": "words"}
    (project.folder / "data.json").write_text(json.dumps(data))
    found = tried(project)
    assert found.open == ITEMS
    assert found.changed == ()


def test_the_command_says_what_changes_and_stores_nothing(project):
    edited(project, 1.0, 5, 1, None)
    said = project.do("rescore", "last", "--dataset", "data.json", "--what-if")
    assert "answers change" in said
    assert "% pass" in said
    with project.reader() as reader:
        assert reader.find_run("last").scoring_pass == 1
    assert "needs the rules to try" in project.do("rescore", "last", "--what-if", code=2)
