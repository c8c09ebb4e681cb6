"""What of a plan the cache has already, and what that does to the estimate."""

import json

import pytest

from tests.runs.conftest import Project
from tui_evals.datasets.document import load
from tui_evals.present.figures import estimate_sentence, estimated_cost, why_think_twice
from tui_evals.runs.cache_lookup import KnownTurns, known_turns
from tui_evals.runs.estimating import Estimate
from tui_evals.runs.project import load_project
from tui_evals.runs.start import PreparedRun, RunRequest, prepare

PRICE = "price = { input_per_million = 1.0, output_per_million = 2.0 }"
OTHER = '[targets.other]\nmodel = "openai/nobody-knows"\nbase_url = "{}"\n'


@pytest.fixture
def project(tmp_path, server, monkeypatch) -> Project:
    monkeypatch.chdir(tmp_path)
    made = Project(tmp_path, server)
    made.configure(f"{PRICE}\n{OTHER.format(server.url)}")
    return made


def prepared(project: Project, *targets: str, **more) -> PreparedRun:
    request = RunRequest(
        document=load(project.folder / "data.json"), source="data.json", name="d", targets=targets, **more
    )
    return prepare(request, load_project(project.folder))


def test_the_estimate_counts_what_the_cache_has(project):
    """A conversation is known from its beginning to its first new question; the rest is priced, and who has no price
    is named."""
    talk = {"turns": [{"prompt": "question 7"}, {"prompt": "and then"}]}
    items = [{"prompt": f"question {number}", "expected_response": "q"} for number in range(3)]
    data = {"schemaVersion": "1.11.0", "default_evaluators": {"Includes": {}}, "items": [*items, talk]}
    file = project.folder / "data.json"
    file.write_text(json.dumps(data))
    project.do("run", "data.json", "-t", "main", "--quiet", code=None)
    assert estimate_sentence(prepared(project, "main").estimate()) == "5 calls (5 of 5 known), free"

    talk["turns"].append({"prompt": "at last"})
    items.append({"prompt": "new", "expected_response": "q"})
    file.write_text(json.dumps({**data, "items": [*items, talk]}))
    both = prepared(project, "main", "other").estimate()
    assert (both.answers, both.cached, both.unpriced, both.cost) == (14, 5, ("other",), None)
    assert 0 < both.known_cost == prepared(project, "main").estimate().cost
    sentence = "14 calls (5 of 14 known), about <$0.0001 without other, whose price is not known"
    assert sentence in project.do("run", "data.json", "-t", "main", "-t", "other", "--plan")
    found = json.loads(project.do("run", "data.json", "-t", "main", "-t", "other", "--plan", "--json"))
    assert (found["cached"], found["cost"], found["unpriced"]) == (5, None, ["other"])
    assert prepared(project, "main", use_cache=False).estimate().cached == 0
    # A budget sets a limit to answers, which makes other questions of them.
    assert prepared(project, "main", max_cost=1.0).estimate().cached == 0

    one = prepared(project, "main")
    with project.reader() as reader:
        for most, known in ((2, KnownTurns({0: 1, 1: 1}, False)), (6, KnownTurns({0: 1, 1: 1, 2: 1, 4: 1}, False))):
            assert known_turns(one.plan, one.project, reader, None, most) == known
        assert known_turns(one.plan, one.project, reader, None).complete


def test_more_than_is_looked_up_is_said_as_at_least():
    assert (
        estimate_sentence(Estimate(126, 42, 0.41, cached=84))
        == "126 calls (84 of 126 known) and 42 of the judge, about $0.410"
    )
    many = Estimate(100_000, 0, 12.0, cached=9_000, all_looked_up=False)
    assert estimate_sentence(many) == "100,000 calls (at least 9,000 of 100,000 known), about $12.00"


def test_what_is_dear_or_long_or_has_no_price_is_thought_of_twice():
    usual = (1.0, 500)
    assert why_think_twice(Estimate(500, 0, 1.0), *usual) == ""
    assert why_think_twice(Estimate(500, 0, 1.01), *usual) == "this costs more than $1.00"
    assert why_think_twice(Estimate(400, 101, 0.0), *usual) == "this takes more than 500 calls"
    assert why_think_twice(Estimate(600, 0, 0.0, cached=100), *usual) == ""
    assert why_think_twice(Estimate(1, 0, 0.0, unpriced=("m",)), *usual) == "what it costs is not known"
    assert why_think_twice(Estimate(6, 0, 3.0), 4.0, 5) == "this takes more than 5 calls"


def test_an_estimate_says_about_and_that_nothing_is_known_or_paid():
    assert [estimated_cost(cost) for cost in (None, 0.0, 0.01)] == [
        "cost unknown: a price is missing",
        "free",
        "about $0.0100",
    ]
