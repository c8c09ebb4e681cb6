"""Reasoning models answer 400 to a temperature and to max_tokens, which were always sent and could not be unset."""

import json

import pytest

from tests.runs.conftest import FREE
from tui_evals.targets.base import Request, TargetConfig
from tui_evals.targets.model_table import Fitting, judging_params, short_question, traits_of
from tui_evals.targets.openai import OpenAI
from tui_evals.tui.rows import row_text
from tui_evals.tui.runs.rows import ListedRun, about_lines

JUDGED = {"default_evaluators": {"Relevance": {}}}
VERDICT = '{"score": 5, "reason": "good"}'


def judged_by(project, model="gpt-5-mini", more="", **behaviour):
    """The project with a reasoning model as a judge, and a dataset."""
    project.server.behave(model, say=VERDICT, markers=False, **behaviour)
    judge = f'[targets.judge]\nmodel = "openai/{model}"\nbase_url = "{project.server.url}"\n'
    project.configure(f'{FREE}[judge]\ntarget = "judge"\n{judge}{more}')
    project.dataset(3, **JUDGED)


def test_a_reasoning_model_answers_judges_and_is_checked_within_a_budget(project):
    judged_by(project)
    checked = project.do("targets", "check", "judge")
    assert f"asked    OpenAI chat completions at {project.server.url}/chat/completions" in checked
    assert "tools    ✗ answered without calling the tool" in checked and "judging  ✓ takes the" in checked
    assert "✓ judge" in checked and "  temperature is not sent, for the model takes none" in checked
    as_data = json.loads(project.do("targets", "check", "judge", "--json"))
    assert [probe["works"] for probe in as_data["probes"]] == [False, False, True]
    assert as_data["protocol"] == "OpenAI chat completions" and len(as_data["changes"]) == 2
    said = project.do("run", "data.json", "--target", "main", "--max-cost", 5)
    assert "judge: max_tokens is sent as max_completion_tokens" in said
    assert "judge: temperature is not sent, for the model takes none" in said
    assert project.server.counts()["met"].keys() == {"answer"}  # it was known beforehand, and there was room to think
    sent = project.server.last()["body"]
    assert sent["max_completion_tokens"] > 2000 and not {"temperature", "max_tokens"} & sent.keys()
    assert "temperature is not sent" in project.do("show", "last")
    for name in ("out.html", "out.md"):
        project.do("report", "last", "-o", name)
        assert "max_tokens is sent as max_completion_tokens" in (project.folder / name).read_text()
    with project.reader() as reader:
        listed = ListedRun(reader.find_run("last"), None)
    assert any("temperature is not sent" in row_text(row) for row in about_lines(listed, "", 100))
    assert "temperature is not sent" in json.dumps(json.loads(project.do("show", "last", "--json"))["run"]["config"])


def test_what_a_model_refuses_is_learnt_once_said_and_no_failure(project):
    judged_by(project, "house-model", "concurrency = 1\nparams = { max_tokens = 3000 }\n", rules="reasoning")
    said = project.do("run", "data.json", "--target", "main")
    assert "judge: max_tokens is sent as max_completion_tokens, for the model refused it" in said
    assert "judge: temperature is not sent, for the model refused it" in said
    assert project.server.counts()["met"]["parameter"] == 2
    assert project.do("show", "last").count("temperature is not sent") == 1
    with project.reader() as reader:
        calls = list(reader.calls(reader.find_run("last").id))
    assert not [call for call in calls if call.code] and {call.attempt for call in calls} == {1}


def test_a_parameter_can_be_unset_for_good(project):
    price = "price = { input_per_million = 1.0, output_per_million = 1.0 }\n"
    unset = 'params = { temperature = "unset", max_tokens = "unset" }\n'
    judged_by(project, "house-model", unset + price, rules="strict")
    project.do("run", "data.json", "--target", "main", "--max-cost", 5)
    assert project.server.counts()["met"].keys() == {"answer"}
    assert not {"temperature", "max_tokens", "max_completion_tokens"} & project.server.last()["body"].keys()


@pytest.mark.parametrize(
    ("model", "length", "sampling", "thinks", "role"),
    [
        ("openai/gpt-4o-mini", "max_tokens", True, False, "system"),
        ("openai/o3-mini", "max_completion_tokens", False, True, "system"),
        ("openai/gpt-5-2025-08-07", "max_completion_tokens", False, True, "system"),
        ("openai/gpt-5-mini-2031-01-01", "max_completion_tokens", False, True, "system"),
        ("openai/gpt-5-chat-latest", "max_tokens", True, False, "system"),
        ("openai/gpt-5.1", "max_completion_tokens", True, False, "system"),
        ("gpt-5", "max_completion_tokens", False, True, "system"),
        ("azure/o3-mini", "max_completion_tokens", False, True, "developer"),
        ("anthropic/claude-opus-4-7", "max_tokens", False, False, "system"),
        ("gemini/gemini-2.5-flash", "max_tokens", True, True, "system"),
        ("gemini/gemma-3-27b-it", "max_tokens", True, False, "user"),
        ("openai/any-model", "max_tokens", True, False, "system"),
        ("hosted_vllm/o1-open", "max_tokens", True, False, "system"),
    ],
)
def test_the_table_of_what_models_take(model, length, sampling, thinks, role):
    traits = traits_of(TargetConfig(name="t", model=model))
    assert (traits.length, traits.sampling, traits.thinks, traits.system) == (length, sampling, thinks, role)


def test_lengths_leave_room_to_think_and_what_is_configured_comes_first():
    def judge(**params):
        return TargetConfig(name="t", model="openai/gpt-5", params=params)

    assert judging_params(judge(), 1024)["max_tokens"] > 8000
    assert "max_tokens" not in judging_params(judge(max_completion_tokens=700), 1024)
    assert short_question(judge(max_completion_tokens=700)).params.keys() == {"max_tokens"}
    assert judging_params(TargetConfig(name="t", model="openai/gpt-4o"), 1024) == {"temperature": 0, "max_tokens": 1024}
    thinking = TargetConfig(name="t", model="openai/gpt-5.1", params={"reasoning_effort": "high"})
    assert judging_params(thinking, 1024)["max_tokens"] > 8000


QUESTION = {"messages": ({"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hello"})}


def fitted(model, **body):
    body = {**QUESTION, **body}
    return Fitting(TargetConfig(name="t", model=model)).fit(body), body


def test_a_form_that_is_not_kept_is_asked_for_by_an_instruction():
    changes, body = fitted("anthropic/claude-x", response_format={"type": "json_object"})
    assert changes == ("response_format json is not kept by anthropic/claude-x: asked by instruction",)
    assert body["messages"][0]["content"].endswith("Reply with one JSON object and nothing else.")
    assert "response_format" not in body and QUESTION["messages"][0]["content"] == "Be brief."
    schema = {"type": "json_schema", "json_schema": {"name": "answer", "schema": {"type": "object"}}}
    assert fitted("anthropic/claude-x", response_format=schema)[0] == ()
    _, body = fitted("openai/gpt-4-turbo", response_format=schema)
    assert '{"type": "object"}' in body["messages"][0]["content"]


MESSAGES = [
    ("Unsupported parameter: 'max_tokens' is not supported with this model.", {"max_completion_tokens": 5}),
    (
        '{"error": {"message": "No", "param": "temperature", "code": "unsupported_value"}}',
        {"max_tokens": 5},
    ),
    ('{"detail": [{"type": "extra_forbidden", "loc": ["body", "seed"], "msg": "Extra inputs"}]}', {"seed": None}),
    ("openai does not support parameters: ['top_p'], for model=x. To drop these, set", {"top_p": None}),
    ("O-series models don't support temperature=0. Only temperature=1 is supported.", {"temperature": None}),
]


@pytest.mark.parametrize(("said", "after"), MESSAGES)
def test_refusals_in_the_words_of_many_are_learnt(said, after):
    fitting = Fitting(TargetConfig(name="t", model="x"))
    sent = {**QUESTION, "max_tokens": 5, "temperature": 0, "seed": 1, "top_p": 0.5}
    assert fitting.learn(said, sent)
    assert fitting.fit(sent)
    assert all(sent.get(name) == value for name, value in after.items())
    assert not fitting.learn(said, sent)  # what is not sent any more cannot be what is refused


@pytest.mark.parametrize(
    "said",
    [
        "max_tokens is too large: 9. This model supports at most 5 completion tokens",
        "This model does not support tools",
        "temperature must be between 0 and 1",
        "",
        "[[[[",
    ],
)
def test_other_refusals_stay_what_they_are(said):
    assert not Fitting(TargetConfig(name="t", model="x")).learn(said, {**QUESTION, "max_tokens": 5, "temperature": 0})


async def test_lengths_that_are_refused_by_both_names_end_and_an_older_server_gets_its_own(server):
    server.reset()
    server.behave(rules="old")
    schema = {"type": "object"}
    config = TargetConfig(name="t", model="openai/x", base_url=server.url, params={"max_completion_tokens": 9})
    target = OpenAI(config, {})
    reply = await target.ask(Request(messages=QUESTION["messages"], response_format=schema))
    await target.close()
    assert len(reply.changes) == 2 and json.dumps(schema) in str(server.last()["body"]["messages"][0]["content"])
    assert server.last()["body"]["max_tokens"] == 9
    fitting, sent = Fitting(config), {**QUESTION, "max_tokens": 9}
    assert fitting.learn("max_tokens is not supported", sent)
    fitting.fit(sent)
    assert not fitting.learn("max_completion_tokens is not supported", sent)
