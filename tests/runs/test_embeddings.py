"""Embedding targets: asked over their own endpoint, cached, budgeted and retried; never the answering one."""

import json
import os

import pytest

from tests.runs.conftest import FREE
from tui_evals.evaluators.similarity import EmbeddingSimilarity
from tui_evals.targets.base import TargetConfig
from tui_evals.targets.opening import open_target
from tui_evals.text.model_output import cosine, pack_vector, unpack_vector

PRICED = "price = { input_per_million = 1000000.0, output_per_million = 0 }\n"


def vectors(project, price=PRICED, named='[judge]\nembedding = "vectors"\n', **more):
    lines = "".join(f"{name} = {json.dumps(value)}\n" for name, value in more.items())
    section = f'[targets.vectors]\nkind = "embedding"\nmodel = "openai/embed"\nbase_url = "{project.server.url}"\n'
    project.configure(f"{FREE}{section}{price}{lines}{named}")


def asked(project, model="embed"):
    return {one["text"]: one["asked"] for one in project.server.counts()["questions"] if one["model"] == model}


def dataset(project, options=None, answers=("the shop closes at six", "no idea"), **root):
    project.dataset(
        len(answers),
        lambda number: f"[[say {answers[number]}]]",
        default_evaluators={"EmbeddingSimilarity": options or {}},
    )
    file = project.folder / "data.json"
    data = json.loads(file.read_text())
    for item in data["items"]:
        item["expected_response"] = "the shop closes at six today"
    file.write_text(json.dumps({**data, **root}))


def test_the_course_of_a_run_with_vectors(project):
    """Batched, cached for every later answer, priced, shown; and nothing is asked twice."""
    project.server.behave(model="test-model", markers=True)
    vectors(project)
    dataset(project)
    project.do("run", "data.json", "-t", "main", "--quiet", "--max-cost", 1000, code=None)
    assert [row[2] for row in project.table()] == ["pass", "fail"]
    assert "cosine 0.9" in project.table()[0][6][3]
    texts = asked(project)
    assert texts["the shop closes at six"] == 1 and texts["no idea"] == 1
    with project.reader() as reader:
        run = reader.find_run("last")
        calls = [call for call in reader.calls(run.id) if call.target == "vectors"]
        assert run.config["embedder"]["name"] == "vectors"
        assert sum(call.cost or 0 for call in calls) == pytest.approx(
            sum(len(text.split()) * n for text, n in texts.items())
        )
        assert {call.kind for call in calls} == {"judge"}
    project.do("run", "data.json", "-t", "main", "--quiet", code=None)
    assert asked(project) == texts, "every vector is kept"
    checked = project.do("targets", "check", "vectors")
    assert "gives vectors of 64 numbers" in checked
    project.do("rescore", "last", "--quiet", code=None)
    assert asked(project) == {**texts, **{text: 1 for text in asked(project) if "ready" in text}}


@pytest.mark.nightly
def test_one_item_and_one_option(project):
    """An option names another target; faults are tried again, and what does not pass is an error that says why."""
    vectors(project, retries=2, max_wait=1.0)
    project.server.behave(model="embed", first=["503"], retry_after=0)
    dataset(project, answers=("the shop closes at six",))
    project.do("run", "data.json", "-t", "main", "--quiet", "--no-cache")
    project.server.reset()
    project.server.behave(model="embed", always="not_chat")
    said = project.do("run", "data.json", "-t", "main", "--quiet", "--no-cache", code=4)
    assert "vectors cannot be asked" in said and "a list of embeddings" in said and project.table()[0][6] is None
    project.server.behave(model="embed", always="401")
    said = project.do("run", "data.json", "-t", "main", "--quiet", "--no-cache", code=None)
    assert "vectors cannot be asked" in said and "401" in said
    dataset(project, {"embedder": "main"})
    refused = project.do("run", "data.json", "-t", "main", "--quiet", code=None)
    assert "the target main (openai/test-model) is none that gives them" in refused


@pytest.mark.parametrize(
    ("named", "arguments", "said"),
    [
        ("", ("-t", "main"), "EmbeddingSimilarity compares embeddings and no target is named"),
        ('[judge]\nembedding = "vectors"\n', ("-t", "vectors"), "gives embeddings only"),
        ('[judge]\nembedding = "vectrs"\n', ("-t", "main"), "did you mean 'vectors'"),
        ('[judge]\nembedding = "main"\n', ("-t", "main"), "is none that gives them"),
    ],
)
def test_a_run_does_not_begin_with_the_wrong_target(project, named, arguments, said):
    vectors(project, named=named)
    dataset(project)
    assert said in project.do("run", "data.json", *arguments, "--quiet", code=None)
    assert not project.server.counts()["asked"]


def test_a_target_that_nobody_serves_stops_the_run_before_it_begins(project):
    vectors(project)
    file = project.folder / ".evals" / "config.toml"
    text = file.read_text()
    file.write_text(
        text.replace(
            f'model = "openai/embed"\nbase_url = "{project.server.url}',
            'model = "openai/embed"\nbase_url = "http://127.0.0.1:9/v1',
        )
    )
    dataset(project)
    said = project.do("run", "data.json", "-t", "main", "--quiet", code=None)
    assert "vectors" in said and "127.0.0.1:9" in said
    assert not project.server.counts()["asked"]
    project.do("run", "data.json", "-t", "main", "--quiet", "--without-judges")


def test_the_budget_ends_a_run_before_vectors_cost_more(project):
    vectors(project)
    dataset(project)
    said = project.do("run", "data.json", "-t", "main", "--quiet", "--max-cost", 2, code=4)
    assert "the budget is spent" in said and not asked(project)


def test_the_evaluator_is_listed_and_explains_itself(project):
    assert "vectors EmbeddingSimilarity" in " ".join(
        project.do("evaluators").split()
    ) or "EmbeddingSimilarity" in project.do("evaluators")
    assert 'kind = "embedding"' in project.do("evaluators", "EmbeddingSimilarity")


@pytest.mark.nightly
async def test_litellm_gives_vectors_too(project):
    config = TargetConfig(
        name="vectors", model="openai/embed", base_url=project.server.url, via="litellm", kind="embedding", params={}
    )
    target = open_target(config, dict(os.environ), project.folder, lambda file: [])
    from tui_evals.evaluators.base import Question
    from tui_evals.runs.judges import request_for

    try:
        reply = await target.ask(request_for(Question(texts=("a b", "a b c")), config))
    finally:
        await target.close()
    one, other = map(unpack_vector, reply.text.split("\n"))
    assert cosine(one, other) == pytest.approx((2 / 3) ** 0.5) and reply.usage.input_tokens == 5


def test_vectors_are_text_and_text_that_is_none_is_refused():
    assert unpack_vector(pack_vector([1.0, -0.5])) == [1.0, -0.5] == unpack_vector("[1, -0.5]")
    assert cosine([0.0], [1.0]) == 0.0 and cosine([1.0, 0.0], [2.0, 0.0]) == 1.0
    for wrong in ("not base64", "[true]", "[1"):
        with pytest.raises(ValueError):
            unpack_vector(wrong)
    for wrong in ([], [float("nan")]):
        with pytest.raises(ValueError):
            pack_vector(wrong)


def test_nothing_is_asked_about_blank_texts():
    from tests.evaluators.helpers import Judge, score

    judge = Judge("[1]\n[1]")
    assert score(EmbeddingSimilarity, {}, judge, response=" ", expected="x").result == "fail"
    assert score(EmbeddingSimilarity, {}, judge, response="x", expected=" ").result == "error"
    assert not judge.questions
    assert score(EmbeddingSimilarity, {}, judge, response="x", expected="y").score == 1.0
    assert "1 vectors came back" in score(EmbeddingSimilarity, {}, Judge("[1]"), response="x", expected="y").reason


def test_what_gives_vectors_is_not_offered_where_answers_are_wanted(project):
    from tui_evals.targets.config import load_settings
    from tui_evals.tui.runs.starting import fields_of

    vectors(project)
    offered = {field.name: field.choices for field in fields_of(load_settings(project.folder))}
    assert offered["targets"] == ("main", "demo") and "vectors" not in offered["judge"]
