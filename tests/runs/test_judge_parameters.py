"""A judge is asked with the parameters that a metric declares, and for another sample each time it asks the same."""

import json

import pytest

from tests.evaluators.library_stand_in import stand_in
from tests.runs.conftest import FREE
from tui_evals.evaluators.libraries.worker import end_workers
from tui_evals.store.details import read_scores

JUDGE = '[targets.judge]\nmodel = "openai/%s"\nbase_url = "%s"\n%s%s[judge]\ntarget = "judge"\n'
METRIC = """---
name: Kind
model:
  api: chat
  parameters:
    temperature: 0.7
    top_p: 0.9
    max_tokens: 200
    response_format: {type: json_object}
    extra_headers: {x: y}
---
system:
How kind is this, from 0 to 100? Reply with JSON, such as {"score": 50}.

user:
{{output}}
"""
SAMPLING = """
def score(response, model_config):
    replies = [model_config.ask("How kind is " + response, temperature=0.7) for _ in range(3)]
    return sum(map(float, replies)) / 3, " ".join(replies)
"""


@pytest.fixture
def judged(project, server):
    def configured(says, params="", model="judge-model"):
        project.configure(FREE + JUDGE % (model, server.url, FREE, params))
        server.behave(model=model, says=says, markers=False)
        return project

    return configured


def asked_of_judge(server, model="judge-model"):
    return sum(each["asked"] for each in server.counts()["questions"] if each["model"] == model)


def records(project):
    with project.reader() as reader:
        return [record for _, record in read_scores(reader, reader.find_run("last").id)]


def test_a_metric_is_asked_with_its_parameters_and_its_record_says_so(judged, server):
    project = judged(['{"score": 80}'])
    (project.folder / "kind.metric.prompty").write_text(METRIC)
    (project.folder / "prompt.prompty").write_text("---\n---\nsystem:\nBe kind.\n")
    project.dataset(1, prompt_file="prompt.prompty", default_evaluators={"kind": {"threshold": 50}})
    project.do("run", "data.json", "--target", "main", "--quiet")
    sent = server.last()["body"]
    assert (sent["temperature"], sent["top_p"], sent["max_tokens"]) == (0.7, 0.9, 200)
    assert sent["response_format"] == {"type": "json_object"} and "extra_headers" not in sent
    (record,) = records(project)
    assert record.score == 80 and record.details["judge_params"] == "max_tokens 200, temperature 0.7, top_p 0.9"
    before = record.details["rubric"]
    assert before.endswith("(max_tokens 200, temperature 0.7, top_p 0.9, response_format json)")

    project.do("run", "data.json", "--target", "main", "--quiet")
    assert asked_of_judge(server) == 1
    (project.folder / "kind.metric.prompty").write_text(METRIC.replace("0.7", "0.2"))
    project.do("run", "data.json", "--target", "main", "--quiet")
    assert asked_of_judge(server) == 2 and server.last()["body"]["temperature"] == 0.2
    assert records(project)[0].details["rubric"] != before

    (project.folder / "kind.metric.prompty").write_text(METRIC.replace("0.7", "warm"))
    said = project.do("run", "data.json", "--target", "main", "--quiet", code=2)
    assert 'the parameter temperature is "warm", which is no number' in said


def test_parameters_a_model_refuses_are_learnt_and_unset_ones_are_never_sent(judged, server):
    project = judged(['{"score": 80}'], 'params = { top_p = "unset" }\n', model="gpt-5-judge")
    server.behave(model="gpt-5-judge", says=['{"score": 80}'], rules="reasoning", markers=False)
    (project.folder / "kind.metric.prompty").write_text(METRIC)
    (project.folder / "prompt.prompty").write_text("---\n---\nsystem:\nBe kind.\n")
    project.dataset(1, prompt_file="prompt.prompty", default_evaluators={"kind": {"threshold": 50}})
    project.do("run", "data.json", "--target", "main", "--quiet")
    sent = server.last()["body"]
    assert not {"temperature", "top_p", "max_tokens"} & sent.keys() and sent["max_completion_tokens"] > 2000
    assert [record.result for record in records(project)] == ["pass"]


@pytest.mark.nightly
def test_one_that_asks_the_same_three_times_gets_three_samples_and_the_same_ones_again(judged, server):
    project = judged(["2", "5", "2"])
    folder = project.folder / "custom-evaluators" / "spread"
    folder.mkdir(parents=True)
    (folder / "spread.py").write_text(SAMPLING)
    (folder / "spread.prompty").write_text(METRIC)
    project.dataset(1, default_evaluators={"spread": {"threshold": 1}})
    options = ("run", "data.json", "--target", "main", "--quiet", "--trust")
    project.do(*options)
    assert records(project)[0].reason == "2 5 2", records(project)
    project.do(*options)
    project.do("rescore", "last", "--trust")
    assert records(project)[0].reason == "2 5 2"
    assert asked_of_judge(server) == 3, "each sample is in the cache under its number"
    project.do(*options, "--no-cache")
    assert asked_of_judge(server) == 6


def test_a_library_gets_samples_of_their_own_by_n_and_by_asking_again(judged, server, tmp_path):
    project = judged(["1", "2", "3", "4"])
    python = stand_in(tmp_path / "env")
    metric = {"type": "azure-ai-evaluation:SamplesEvaluator", "python": str(python), "threshold": 1}
    project.dataset(1, default_evaluators={"Samples": metric})
    try:
        project.do("run", "data.json", "--target", "main", "--quiet", "--trust")
        assert records(project)[0].reason == "1 2 3" and server.last()["body"]["temperature"] == 0.8
        project.do("run", "data.json", "--target", "main", "--quiet", "--trust")
    finally:
        end_workers()
    assert records(project)[0].reason == "1 2 3" and asked_of_judge(server) == 3


def test_the_command_line_says_what_a_judge_is_sent(judged):
    project = judged(["4"])
    folder = project.folder / "custom-evaluators" / "spread"
    folder.mkdir(parents=True)
    (folder / "spread.py").write_text(
        "def score(response, model_config):\n    return model_config.ask_prompty(output=response)\n"
    )
    (folder / "spread.prompty").write_text(METRIC)
    shown = project.do("evaluators", "spread")
    assert "temperature 0.7, max_tokens 200, top_p 0.9, response_format json" in shown
    assert "not extra_headers, which no judge is sent" in shown and "at least its threshold, of 1–5" in shown
    assert "temperature 0, max_tokens 1024; params of its target" in project.do("evaluators", "Relevance")
    (prompt,) = json.loads(project.do("evaluators", "spread", "--prompt", "--trust", "--json"))
    assert prompt["parameters"] == {"temperature": 0.7, "max_tokens": 200, "top_p": 0.9}
    (folder / "spread.prompty").write_text(METRIC.replace("200", "none"))
    project.dataset(1, default_evaluators={"spread": {}})
    said = project.do("validate", "data.json", code=2)
    assert "spread.prompty cannot be used: the parameter max_tokens is" in said
