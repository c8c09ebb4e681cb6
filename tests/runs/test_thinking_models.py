"""Models that think, in tool loops and as judges, against servers that refuse what their providers refuse."""

import json
import os
from pathlib import Path

import pytest

from tests.server_thinking import ANSWER, SIGNATURE, thinking
from tui_evals.store.records import transcript_of
from tui_evals.targets.base import Request, TargetConfig
from tui_evals.targets.opening import open_target
from tui_evals.transcript import reasoning_text

pytestmark = pytest.mark.story

FREE = "price = { input_per_million = 0, output_per_million = 0 }\n"
BUDGET = '{ type = "enabled", budget_tokens = 9000 }'
TARGETS = """
[targets.responses]
model = "openai/gpt-5"
api = "responses"
base_url = "{origin}/v1"
[targets.deepseek]
model = "openai/deepseek-v4"
base_url = "{origin}/v1"
[targets.silent]
model = "openai/deepseek-silent"
base_url = "{origin}/v1"
[targets.vllm]
model = "openai/vllm-qwen"
base_url = "{origin}/v1"
[targets.claude]
model = "anthropic/claude-sonnet-4-5"
base_url = "{origin}"
api_key = "env:KEY"
params = {{ thinking = {budget} }}
[targets.gemini]
model = "gemini/gemini-3-pro-preview"
base_url = "{origin}"
api_key = "env:KEY"
"""
ITEM = {
    "testId": "T",
    "prompt": "Is order 7 paid?",
    "expected_response": ANSWER,
    "allowed_tools": ["find"],
    "tool_results": [{"tool": "find", "result": "paid"}],
}
FIND = {"type": "function", "function": {"name": "find", "parameters": {"type": "object"}}}


@pytest.fixture(scope="module")
def thinker():
    with thinking() as made:
        yield made


@pytest.fixture
def project(project, thinker):
    thinker.asked.clear()
    text = TARGETS.format(origin=thinker.origin, budget=BUDGET)
    file = project.folder / ".evals" / "config.toml"
    file.write_text("".join(line + ("\n" + FREE if line.startswith("model") else "\n") for line in text.splitlines()))
    return project


def answers(project, *targets, evaluators=None, **root):
    document = {"schemaVersion": "1.11.0", "default_evaluators": evaluators or {"Equals": {}}, "items": [ITEM]}
    (project.folder / "data.json").write_text(json.dumps({**document, "tools": [FIND], **root}))
    named = [word for target in targets for word in ("-t", target)]
    print(project.do("run", "data.json", "--quiet", *named, code=None, KEY="k"))
    with project.reader() as reader:
        run = reader.find_run("last")
        return {run.targets[row.target]: reader.detail(row.id) for row in reader.all_rows(run.id)}


@pytest.mark.nightly
def test_reasoning_goes_back_as_it_came_in_the_second_step_of_every_provider(project, thinker):
    found = answers(project, "responses", "deepseek", "silent", "vllm", "claude", "gemini")
    assert len(found) == 6
    for name, detail in found.items():
        assert (detail.row.status, detail.answer.text) == ("pass", ANSWER), (name, detail.answer.steps)
        thought = reasoning_text(transcript_of(detail.answer))
        assert ("look it up" in thought) is (name != "silent"), name
        assert [call["result"] for step in detail.answer.steps for call in step["calls"]] == ["paid"]
    assert all(body["include"] == ["reasoning.encrypted_content"] for body in thinker.bodies("/responses"))
    kept = json.dumps([call for detail in found.values() for call in detail.answer.steps[0].get("parts", ())])
    assert SIGNATURE in kept


JSON_WISHED = Request(
    messages=({"role": "user", "content": "Is order 7 paid? Reply as JSON."},),
    response_format="json",
    params={"temperature": 0, "max_tokens": 9050},
)
_NO_TEMPERATURE = "temperature is not sent, for the model takes none"
SENT = {
    "openai/gpt-5": (
        {"max_completion_tokens": 9050, "response_format": {"type": "json_object"}},
        (_NO_TEMPERATURE, "max_tokens is sent as max_completion_tokens"),
    ),
    "openai/responses/gpt-5": (
        {"max_output_tokens": 9050, "text": {"format": {"type": "json_object"}}, "store": False},
        (_NO_TEMPERATURE, "max_tokens is sent as max_output_tokens"),
    ),
    "openai/vllm-qwen": ({"max_tokens": 9050, "temperature": 0, "response_format": {"type": "json_object"}}, ()),
    "anthropic/claude-sonnet-4-5": (
        {"max_tokens": 9050, "thinking": {"type": "enabled", "budget_tokens": 9000}},
        (_NO_TEMPERATURE, "response_format json is not kept by anthropic/claude-sonnet-4-5: asked by instruction"),
    ),
    "gemini/gemini-3-pro-preview": ({"generationConfig": {}}, ()),
}
"""What goes over the line for a question with a temperature, a length and a wish for JSON, and what is said of it."""


@pytest.mark.nightly
async def test_what_is_sent_to_each_provider_and_what_is_changed(thinker):
    for model, (sent, changes) in SENT.items():
        thinker.asked.clear()
        ours = model.startswith("openai/")
        thinks = {"thinking": {"type": "enabled", "budget_tokens": 9000}} if "claude" in model else {}
        config = TargetConfig(
            name="m",
            model=model,
            base_url=f"{thinker.origin}/v1" if ours else thinker.origin,
            api_key=None if ours else "env:KEY",
            params=thinks,
        )
        target = open_target(config, {**os.environ, "KEY": "k"}, Path.cwd(), lambda file: ())
        try:
            reply = await target.ask(JSON_WISHED)
        finally:
            await target.close()
        ((_, body),) = thinker.asked
        assert {name: body.get(name) for name in sent if name != "generationConfig"} == {
            name: value for name, value in sent.items() if name != "generationConfig"
        }, (model, body)
        assert reply.changes == changes, (model, reply.changes)
        absent = {"stream", "n", *(("temperature",) if _NO_TEMPERATURE in changes else ())}
        assert not absent & body.keys()
        if "generationConfig" in sent:
            asked = body["generationConfig"]
            assert (asked["temperature"], asked["max_output_tokens"], asked["response_mime_type"]) == (
                0,
                9050,
                "application/json",
            )


@pytest.mark.nightly
def test_a_thinking_claude_judges_without_a_temperature_and_with_room_for_its_budget(project, thinker):
    project.do("target", "check", "claude", code=None, KEY="k")
    thinker.asked.clear()
    (project.folder / "agent.py").write_text("def answer(prompt): return 'Order 7 is paid.'")
    document = {"schemaVersion": "1.11.0", "default_evaluators": {"Coherence": {}}, "items": [{"prompt": "Why?"}]}
    (project.folder / "data.json").write_text(json.dumps(document))
    project.do("run", "data.json", "--quiet", "-t", "python:agent.py:answer", "--judge", "claude", code=None, KEY="k")
    asked = thinker.bodies("/messages")
    assert asked and all("temperature" not in body and body["max_tokens"] > 9000 for body in asked)
