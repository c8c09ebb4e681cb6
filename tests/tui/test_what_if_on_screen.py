"""Another threshold is tried on stored scores while you look, and kept as a scoring pass that asks nobody."""

import json

import pytest

from tests.runs.conftest import Project
from tests.tui.stored_runs import text_of
from tests.tui.story import at_the_workbench
from tui_evals.runs.what_if import StoredScores
from tui_evals.store.reader import Reader
from tui_evals.tui.widgets.dialogs import Menu
from tui_evals.tui.widgets.lines import Lines

ITEMS = 10
RATED = '{"reason": "fine", "score": 4}'
ANSWERING = """
def answer(prompt):
    number = int(prompt.split()[-1])
    return " ".join(["question", str(number), "and", "more", "words"][: 1 + number % 5])
"""


@pytest.fixture
def project(tmp_path, server, monkeypatch):
    made = Project(tmp_path, server)
    server.behave("judge-model", say=RATED, markers=False)
    (tmp_path / "answering.py").write_text(ANSWERING)
    (tmp_path / ".evals").mkdir(exist_ok=True)
    (tmp_path / ".evals" / "config.toml").write_text(
        '[targets.main]\nmodel = "python:answering:answer"\n[targets.judge]\nmodel = "openai/judge-model"\n'
        f'base_url = "{server.url}"\n[judge]\ntarget = "judge"\n'
    )
    made.dataset(ITEMS, default_evaluators={"PartialMatch": {"threshold": 0.5}, "Relevance": {}})
    made.do("run", "data.json", "--target", "main", "--quiet", "--trust", code=None)
    monkeypatch.chdir(tmp_path)
    return made


def head(person):
    return " ".join(" ".join(text_of(person.app.query_one("#totals", Lines).rows)).split())


@pytest.mark.story
async def test_a_threshold_is_moved_verdicts_flip_and_enter_keeps_it_without_a_call(project):
    with project.reader() as reader:
        run = reader.find_run("last")
        before = {row.id: row.status for row in reader.all_rows(run.id)}
    asked = project.server.counts()["asked"]
    async with at_the_workbench(project.folder, size=(120, 40), dataset="data.json", run=run.key) as person:
        await person.press("4", "w")
        await person.until(lambda: isinstance(person.app.screen, Menu))
        await person.sees("threshold of PartialMatch")
        await person.type("threshold partial\n")
        await person.until(lambda: f"0 of {ITEMS} judged answers would change" in head(person))
        await person.press(*["right"] * 3)
        await person.until(lambda: person.app.watching.tried)
        await person.sees("✓→✗")
        tried = dict(person.app.watching.tried)
        assert project.server.counts()["asked"] == asked
        await person.press("enter")
        await person.sees("by a threshold of")
        await person.press("y")
        await person.until(lambda: reader_pass(project) == 2)
        await person.until(lambda: not person.app.watching.tried)
    with project.reader() as reader:
        now = {row.id: row.status for row in reader.all_rows(run.id)}
    assert {answer: status for answer, status in now.items() if status != before[answer]} == tried
    assert project.server.counts()["asked"] == asked


@pytest.mark.nightly
async def test_leaving_shows_the_stored_verdicts_again_and_says_so(project):
    with project.reader() as reader:
        run = reader.find_run("last")
    async with at_the_workbench(project.folder, size=(120, 40), dataset="data.json", run=run.key) as person:
        await person.press("4", "w")
        await person.until(lambda: isinstance(person.app.screen, Menu))
        await person.type("threshold partial\n")
        await person.until(lambda: f"0 of {ITEMS} judged answers would change" in head(person))
        await person.press(*["right"] * 3)
        await person.until(lambda: person.app.watching.tried)
        await person.press("escape")
        await person.until(lambda: not person.app.watching.tried)
        assert person.said() == "these are the stored verdicts again"
        assert "✓→✗" not in person.screen()


def reader_pass(project):
    with project.reader() as reader:
        return reader.find_run("last").scoring_pass


@pytest.mark.nightly
async def test_escape_leaves_the_trial_and_every_verdict_is_as_it_was(project):
    with project.reader() as reader:
        run = reader.find_run("last")
    async with at_the_workbench(project.folder, size=(80, 24), dataset="data.json", run=run.key) as person:
        await person.press("4", "w")
        await person.until(lambda: isinstance(person.app.screen, Menu))
        await person.type("threshold partial\n")
        await person.until(lambda: "judged answers would change" in head(person))
        await person.press(*["right"] * 3)
        await person.until(lambda: person.app.watching.tried)
        await person.press("escape")
        assert not person.app.watching.tried
        assert "✓→✗" not in person.screen()


def test_a_rule_is_moved_through_the_scores_there_are_and_through_its_own_value(project):
    from tui_evals.runs.project import load_project

    with project.reader() as reader:
        scores = StoredScores(reader.find_run("last"), reader, load_project(project.folder))
    rules = {(rule.name, rule.key): rule for rule in scores.rules()}
    assert set(rules) == {
        *((name, key) for key in ("PartialMatch", "Relevance") for name in ("threshold", "weight")),
        ("pass rule", ""),
    }
    assert 4.0 in scores.steps(rules["threshold", "Relevance"])
    assert rules["threshold", "PartialMatch"].value == 0.5
    assert 0.5 in scores.steps(rules["threshold", "PartialMatch"])


def test_the_command_takes_a_rule_and_refuses_an_unknown_evaluator(project):
    said = project.do("rescore", "last", "--threshold", "PartialMatch=1", "--what-if")
    assert "answers would change" in said
    assert "no evaluator 'Tone' judges" in project.do("rescore", "last", "--threshold", "Tone=1", "--what-if", code=2)
    assert "Write --threshold Relevance=3" in project.do("rescore", "last", "--threshold", "Relevance", code=2)
    asked = project.server.counts()["asked"]
    project.do("rescore", "last", "--threshold", "PartialMatch=1", "--weight", "Relevance=0.5", "--quiet", code=None)
    assert project.server.counts()["asked"] == asked
    with Reader(project.folder / ".evals" / "evals.db") as reader:
        run = reader.find_run("last")
        document = reader.snapshot(reader.passes(run.id)[-1].config["dataset"])
    assert document["default_evaluators"] == json.loads(
        '{"PartialMatch": {"threshold": 1.0}, "Relevance": {"weight": 0.5}}'
    )


@pytest.mark.nightly
async def test_a_label_of_a_scale_is_moved_and_kept_without_a_call(project):
    project.server.behave("says-fair", say='{"reason": "so", "score": "fair"}', markers=False)
    with (project.folder / ".evals" / "config.toml").open("a") as config:
        config.write(f'[targets.fair]\nmodel = "openai/says-fair"\nbase_url = "{project.server.url}"\n')
    scale = {"good": 1, "fair": 0.5, "bad": 0}
    tone = {"type": "Rubric", "criteria": "Is it kind?", "scale": scale, "judge": "fair"}
    project.dataset(ITEMS, default_evaluators={"Tone": tone})
    project.do("run", "data.json", "--target", "main", "--quiet", code=None)
    asked = project.server.counts()["asked"]
    with project.reader() as reader:
        run = reader.find_run("last")
    async with at_the_workbench(project.folder, size=(120, 40), dataset="data.json", run=run.key) as person:
        await person.press("4", "w")
        await person.until(lambda: isinstance(person.app.screen, Menu))
        await person.sees("scale of Tone: fair")
        await person.type("tone: fair\n")
        await person.until(lambda: f"0 of {ITEMS} judged answers would change" in head(person))
        await person.press("right")
        await person.until(lambda: len(person.app.watching.tried) == ITEMS)
        await person.sees("fair on the scale of Tone is worth 1, now 0.5")
        await person.press("enter")
        await person.sees("by fair on the scale of Tone worth 1")
        await person.press("y")
        await person.until(lambda: reader_pass(project) == 2)
    with project.reader() as reader:
        assert {row.status for row in reader.all_rows(run.id)} == {"pass"}
    assert project.server.counts()["asked"] == asked
