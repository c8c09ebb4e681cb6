"""Other thresholds, weights, scales and pass rules on stored scores: verdict for verdict what judging again gives."""

import json
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.runs.conftest import Project
from tui_evals.datasets.document import load
from tui_evals.runs.project import load_project
from tui_evals.runs.rescoring import RescoreRequest, Rule
from tui_evals.runs.what_if import StoredScores, what_if

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


@pytest.mark.story
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
    assert "answers would change" in said
    assert "% pass" in said
    with project.reader() as reader:
        assert reader.find_run("last").scoring_pass == 1
    assert "needs the rules to try" in project.do("rescore", "last", "--what-if", code=2)


LABELS = ("good", "fair", "bad")
SCALE = {"good": 1, "fair": 0.5, "bad": 0, "unclear": None}
REPLIES = (*LABELS, "unclear")


@pytest.fixture
def labelled(project: Project) -> Project:
    """A run whose answers a judge calls good, fair, bad or unclear."""
    judges = ""
    for word in REPLIES:
        project.server.behave(f"says-{word}", say=f'{{"reason": "so", "score": "{word}"}}', markers=False)
        judges += f'[targets.{word}]\nmodel = "openai/says-{word}"\nbase_url = "{project.server.url}"\n'
    with (project.folder / ".evals" / "config.toml").open("a") as config:
        config.write(judges)
    data = json.loads((project.folder / "data.json").read_text())
    for number, item in enumerate(data["items"]):
        judge = REPLIES[number % len(REPLIES)]
        item["evaluators"] = {
            "Tone": {"type": "Rubric", "criteria": "Is it kind?", "scale": SCALE, "judge": judge},
            "Calm": {"type": "Rubric", "criteria": "Is it calm?", "scale": SCALE, "threshold": 0.5, "judge": judge},
        }
        item["evaluators_mode"] = "replace"
    (project.folder / "data.json").write_text(json.dumps(data))
    project.do("run", "data.json", "--target", "main", "--quiet", code=None)
    return project


worths = st.sampled_from([0, 0.25, 0.5, 0.75, 1])


@pytest.mark.nightly
@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sampled_from(["Tone", "Calm"]), worths, worths, worths)
def test_other_values_of_labels_give_what_judging_again_gives(labelled, key, one, two, three):
    values = sorted((one, two, three), reverse=True)
    if values[0] == values[-1] or not values[-1] <= 0.5 <= values[0]:  # a scale on which the threshold is not
        values = [1, values[1], 0]
    rules = tuple(Rule("scale", value, key, label) for label, value in zip(LABELS, values, strict=True))
    asked = labelled.server.counts()["asked"]
    with labelled.reader() as reader:
        request = RescoreRequest(rules=rules)
        found = what_if(reader.find_run("last"), request, reader, load_project(labelled.folder))
    assert found.open == 0
    before = statuses(labelled)
    labelled.do("rescore", "last", "--quiet", *(word for rule in rules for word in rule.words), code=None)
    now = statuses(labelled)
    assert found.statuses == now
    assert {one.answer for one in found.changed} == {answer for answer in now if now[answer] != before[answer]}
    assert labelled.server.counts()["asked"] == asked


def test_labels_in_another_order_are_another_question_and_left_open(labelled):
    with labelled.reader() as reader:
        request = RescoreRequest(rules=(Rule("scale", -1, "Tone", "good"),))
        found = what_if(reader.find_run("last"), request, reader, load_project(labelled.folder))
    assert found.open == ITEMS and not found.changed


def test_a_label_is_moved_through_the_values_that_keep_the_question(labelled):
    with labelled.reader() as reader:
        scores = StoredScores(reader.find_run("last"), reader, load_project(labelled.folder))
    rules = {(rule.key, rule.label): rule for rule in scores.rules() if rule.name == "scale"}
    assert scores.steps(rules["Tone", "fair"]) == [0.0, 0.5, 1.0]
    assert scores.steps(rules["Calm", "good"]) == [0.5, 1.0]
    assert ("Tone", "unclear") not in rules


def test_the_command_refuses_a_label_the_scale_has_not_and_a_scale_of_one_value(labelled):
    said = labelled.do("rescore", "last", "--scale", "Tone:fair=1", "--what-if")
    assert "answers would change" in said
    unknown = labelled.do("rescore", "last", "--scale", "Tone:nice=1", "--what-if", code=2)
    assert "no label 'nice' on the scale of Tone. Its labels: good, fair, bad" in unknown
    assert "Write --scale Tone:fair=0.5" in labelled.do("rescore", "last", "--scale", "Tone=1", "--what-if", code=2)
    equal = ["--scale", "Tone:fair=0", "--scale", "Tone:good=0"]
    assert "a scale is [lowest, highest]" in labelled.do("rescore", "last", *equal, "--what-if", code=2)


@pytest.mark.nightly
def test_a_value_no_evaluator_takes_is_refused_in_words_and_never_offered(labelled):
    weight = labelled.do("rescore", "last", "--weight", "Tone=2", "--what-if", code=2)
    assert "weight: Input should be less than or equal to 1" in weight
    threshold = labelled.do("rescore", "last", "--threshold", "Tone=9", code=2)
    assert "Tone: options: the threshold 9 is not on the scale" in threshold
    with labelled.reader() as reader:
        scores = StoredScores(reader.find_run("last"), reader, load_project(labelled.folder))
        for rule in scores.rules():
            for value in scores.steps(rule):
                scores.tried([replace(rule, value=value)], reader)


CHOICES = ("A", "B", "C")
GRADE = {
    "type": "ModelGraded",
    "prompt": "Good? {completion} {about}",
    "choice_strings": [*CHOICES],
    "choice_scores": {"A": 1, "B": 0.5, "C": 0},
    "eval_type": "classify",
    "args": {"about": {"tone": "its tone", "facts": "its facts"}},
}


@pytest.fixture
def graded(project: Project) -> Project:
    """A run whose answers a judge gives one of three choices, in two metrics each."""
    judges = ""
    for choice in CHOICES:
        project.server.behave(f"grades-{choice}", say=choice, markers=False)
        judges += f'[targets.{choice}]\nmodel = "openai/grades-{choice}"\nbase_url = "{project.server.url}"\n'
    with (project.folder / ".evals" / "config.toml").open("a") as config:
        config.write(judges)
    regraded(project)
    project.do("run", "data.json", "--target", "main", "--quiet", code=None)
    return project


def regraded(project: Project, **options: object) -> None:
    data = json.loads((project.folder / "data.json").read_text())
    for number, item in enumerate(data["items"]):
        item["evaluators"] = {"Grade": {**GRADE, "judge": CHOICES[number % 3], **options}}
        item["evaluators_mode"] = "replace"
    (project.folder / "data.json").write_text(json.dumps(data))


scores = st.lists(st.sampled_from([0, 0.25, 0.5, 1, 4]), min_size=3, max_size=3).map(
    lambda values: dict(zip(CHOICES, values, strict=True))
)
passing = st.lists(st.sampled_from(CHOICES), min_size=1, unique=True)
thresholds_of_choices = st.sampled_from([0.1, 0.5, 1])
verdicts = st.one_of(st.just({}), st.builds(dict, threshold=thresholds_of_choices), st.builds(dict, passing=passing))


@pytest.mark.nightly
@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(scores, verdicts)
def test_choices_with_other_scores_and_verdicts_give_what_grading_again_gives(graded, worth, decided):
    regraded(graded, choice_scores=worth, **decided)
    asked = graded.server.counts()["asked"]
    found = tried(graded)
    assert found.open == 0
    before = statuses(graded)
    graded.do("rescore", "last", "--dataset", "data.json", "--quiet", code=None)
    assert graded.server.counts()["asked"] == asked
    now = statuses(graded)
    assert found.statuses == now
    assert {one.answer for one in found.changed} == {answer for answer in now if now[answer] != before[answer]}


def test_the_threshold_of_several_metrics_is_tried_and_another_prompt_left_open(graded):
    with graded.reader() as reader:
        run, project = reader.find_run("last"), load_project(graded.folder)
        trial = StoredScores(run, reader, project)
        (threshold,) = [rule for rule in trial.rules() if rule.name == "threshold"]
        found = trial.tried([replace(threshold, value=0.5)], reader)
    assert (threshold.value, found.open, len(found.changed)) == (1, 0, 3)
    regraded(graded, prompt="Better? {completion} {about}")
    assert tried(graded).open == ITEMS
