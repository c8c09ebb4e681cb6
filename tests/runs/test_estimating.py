"""What a run will take is said by what like calls took before: its price, its time, and what the last one cost."""

import json

import pytest

from tests.runs.conftest import Project
from tests.tui.story import at_the_workbench

PRICE = "\nprice = { input_per_million = 1000, output_per_million = 2000 }\n"
RATED = '{"reason": "fine", "score": 4}'
ITEMS = 6


@pytest.fixture
def project(project: Project) -> Project:
    """Items of which one is long, a target and a judge with prices, and nothing asked yet."""
    project.server.behave("judge-model", say=RATED, markers=False)
    judge = f'[targets.judge]\nmodel = "openai/judge-model"\nbase_url = "{project.server.url}"{PRICE}'
    project.configure(f'{PRICE}{judge}[judge]\ntarget = "judge"\n[run]\ntargets = ["main"]')
    project.dataset(
        ITEMS,
        lambda n: f"question {n}" + " word" * (2000 if n == 0 else 1),
        default_evaluators={"Relevance": {"rubric": "strict"}},
    )
    return project


def plan(project: Project, *words: object) -> dict:
    return json.loads(project.do(*(words or ("run", "data.json", "--no-cache")), "--plan", "--json"))


def spent(project: Project) -> float:
    with project.reader() as reader:
        return sum(call.cost or 0.0 for call in reader.calls(reader.find_run("last").id))


def ran(project: Project, *words: object) -> float:
    project.do("run", "data.json", "--quiet", *words, code=None)
    return spent(project)


def test_the_next_run_costs_what_the_last_did_and_says_so(project):
    by_length = plan(project)
    assert by_length["last_time"] is None and by_length["seconds"] is None
    cost = ran(project, "--no-cache")
    found = plan(project)
    assert found["cost"] == pytest.approx(cost, rel=0.02) and found["cost"] != pytest.approx(by_length["cost"], rel=0.1)
    with project.reader() as reader:
        assert found["last_time"]["run"] == reader.find_run("last").key
    assert found["last_time"]["cost"] == pytest.approx(cost) and 0 < found["seconds"] < 10
    said = project.do("run", "data.json", "--no-cache", "--plan")
    assert f"about ${cost:.2f}" in said and f"(last time: ${cost:.2f})" in said


def test_a_part_of_the_items_costs_what_these_did(project):
    cost = ran(project, "--no-cache")
    first, others = (plan(project, "run", "data.json", "--no-cache", "--items", items) for items in ("1", f"2-{ITEMS}"))
    assert first["cost"] + others["cost"] == pytest.approx(cost, rel=0.02)
    assert first["cost"] > 5 * others["cost"] / (ITEMS - 1)
    assert first["last_time"] is others["last_time"] is None  # no run asked just these
    twice = plan(project, "run", "data.json", "--no-cache", "--repeats", 2)
    assert twice["cost"] == pytest.approx(2 * cost, rel=0.02) and twice["last_time"] is None


def test_another_target_or_configuration_is_priced_by_length(project):
    before = plan(project)["cost"]
    ran(project, "--no-cache")
    configuration = project.folder / ".evals" / "config.toml"
    text = configuration.read_text()
    configuration.write_text(text.replace("base_url", "params = { temperature = 1 }\nbase_url"))
    assert plan(project)["cost"] == pytest.approx(before) and plan(project)["seconds"] is None
    # Another price is applied to the tokens that were counted.
    configuration.write_text(text.replace("= 1000", "= 2000").replace("= 2000 }", "= 4000 }"))
    assert plan(project)["cost"] == pytest.approx(2 * spent(project), rel=0.02)


def test_what_the_cache_knows_of_answers_and_verdicts_costs_nothing(project):
    ran(project)
    found = plan(project, "run", "data.json")
    known = (found["cached"], found["judge_calls"], found["known_verdicts"], found["cost"])
    assert known == (ITEMS, 0, ITEMS, 0.0)
    said = project.do("run", "data.json", "--plan")
    assert f"{ITEMS} calls ({ITEMS} of {ITEMS} known) and 0 of the judge ({ITEMS} verdicts known), free" in said
    before = project.server.counts()["asked"]
    ran(project)
    assert project.server.counts()["asked"] == before
    # Another evaluator has a question that nobody answered yet.
    new = plan(project, "run", "data.json", "-e", '{"Relevance": {"rubric": "strict"}, "Coherence": {}}')
    assert (new["judge_calls"], new["known_verdicts"]) == (ITEMS, ITEMS)


def test_the_estimate_of_a_rescoring_knows_the_cache_and_what_the_judge_cost(project):
    ran(project)
    with project.reader() as reader:
        verdicts = sum(call.cost for call in reader.calls(reader.find_run("last").id) if call.kind == "judge")
    again = plan(project, "rescore", "last", "--no-cache")
    assert again["judge_calls"] == ITEMS and again["cost"] == pytest.approx(verdicts, rel=0.02) and again["seconds"] > 0
    # The same question under another name: no score is kept, and the cache has every reply.
    renamed = json.dumps({"Again": {"type": "Relevance", "rubric": "strict"}})
    found = plan(project, "rescore", "last", "-e", renamed)
    assert (found["judge_calls"], found["kept"], found["known_verdicts"], found["cost"]) == (0, 0, ITEMS, 0.0)
    before = project.server.counts()["asked"]
    project.do("rescore", "last", "-e", renamed, "--quiet")
    assert project.server.counts()["asked"] == before


def test_an_empty_answer_is_judged_without_a_call(project):
    project.server.behave("test-model", say=" ", markers=False)
    ran(project, "--no-cache")
    assert plan(project, "rescore", "last", "--no-cache")["judge_calls"] == 0


@pytest.mark.nightly
async def test_the_form_of_the_workbench_and_its_rescoring_say_the_same(project):
    cost = ran(project, "--no-cache")
    async with at_the_workbench(project.folder, dataset="data.json", run="last", size=(160, 50)) as person:
        await person.press("1", "g", "r")
        await person.until(lambda: f"(last time: ${cost:.2f})" in " ".join(person.screen().split()))
        assert f"about ${cost:.2f}" in " ".join(person.screen().split())
        await person.press("escape", "4", "s")
        await person.until(
            lambda: f"0 calls of the judge ({ITEMS} scores are kept), free" in " ".join(person.screen().split())
        )
        await person.press("escape")
