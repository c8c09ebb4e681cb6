"""OpenAI's Responses protocol: what is sent, what is read, what fails, over a server on this machine."""

import pytest

from tests.cli.helpers import Shell
from tests.server import running
from tui_evals.runs.judges import price_for
from tui_evals.targets.base import ConfigurationError, Request, TargetConfig, TargetError, Usage
from tui_evals.targets.config import load_settings
from tui_evals.targets.openai import OpenAI
from tui_evals.targets.opening import identity
from tui_evals.transcript import reasoning_text

ENVIRONMENT = {"MY_KEY": "sk-canary-1234567890"}
TOOL = {"type": "function", "function": {"name": "look_up", "parameters": {"type": "object"}}}


@pytest.fixture(scope="module")
def started():
    with running() as server:
        yield server


@pytest.fixture
def server(started):
    started.reset()
    return started


def config(server, model="openai/responses/m", **more):
    return TargetConfig(name="r", model=model, base_url=server.url, api_key="env:MY_KEY", **more)


async def ask(server, text="Why?", *, request=None, model="openai/responses/m", **more):
    target = OpenAI(config(server, model, **more), ENVIRONMENT)
    try:
        return await target.ask(request or Request(messages=({"role": "user", "content": text},)))
    finally:
        await target.close()


@pytest.mark.nightly
async def test_a_chat_is_sent_as_instructions_and_items(server):
    request = Request(
        messages=(
            {"role": "system", "content": "Be brief."},
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "And this?"},
                    {"type": "image_url", "image_url": {"url": "data:,"}},
                ],
            },
            {
                "role": "assistant",
                "content": "",
                "tool_calls": [{"id": "c1", "function": {"name": "f", "arguments": "{}"}}],
            },
            {"role": "tool", "tool_call_id": "c1", "content": "42"},
            {"role": "assistant", "content": [{"type": "text", "text": "It is 42."}]},
            {"role": "user", "content": "Why?"},
        ),
        tools=(TOOL,),
        response_format={"type": "object"},
        params={
            "max_tokens": 20,
            "reasoning_effort": "low",
            "reasoning": {"summary": "auto"},
            "verbosity": "low",
            "temperature": 0,
            "tool_choice": {"type": "function", "function": {"name": "look_up"}},
        },
    )
    reply = await ask(server, request=request)
    last = server.last()
    assert last["headers"]["Authorization"] == "Bearer sk-canary-1234567890"
    assert last["body"] == {
        "model": "m",
        "store": False,
        "instructions": "Be brief.",
        "input": [
            {
                "role": "user",
                "content": [
                    {"type": "input_text", "text": "And this?"},
                    {"type": "input_image", "image_url": "data:,"},
                ],
            },
            {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "c1", "output": "42"},
            {"role": "assistant", "content": [{"type": "output_text", "text": "It is 42."}]},
            {"role": "user", "content": "Why?"},
        ],
        "tools": [{"type": "function", "name": "look_up", "parameters": {"type": "object"}, "strict": False}],
        "tool_choice": {"type": "function", "name": "look_up"},
        "max_output_tokens": 20,
        "reasoning": {"summary": "auto", "effort": "low"},
        "temperature": 0,
        "text": {"verbosity": "low", "format": {"type": "json_schema", "name": "answer", "schema": {"type": "object"}}},
    }
    assert reply.usage.input_tokens > 0 and reply.usage == Usage(reply.usage.input_tokens, 3, 1, 2)
    assert (reply.finish_reason, reply.model, reply.diagnostics) == ("stop", "m", None)
    assert reasoning_text(reply.transcript) == "I thought."


async def test_how_an_answer_ends_is_kept(server):
    assert (await ask(server, "[[length]]")).finish_reason == "length"
    assert (await ask(server, "[[content_filter]]")).finish_reason == "content_filter"
    refused = await ask(server, "[[refusal]]")
    assert refused.text == refused.diagnostics["refusal"] == "I cannot help with that."
    called = await ask(server, "[[tools]]")
    assert (called.finish_reason, called.tool_calls[1]["id"], called.tool_calls[1]["name"]) == (
        "tool_calls",
        "call_2",
        "look_up",
    )
    assert (await ask(server, "[[no_usage]]")).usage is None


async def test_an_answer_that_is_streamed_is_the_same(server):
    whole, streamed = await ask(server), await ask(server, stream=True)
    assert (streamed.text, streamed.usage) == (whole.text, whole.usage)
    assert whole.first_token_seconds is None and streamed.first_token_seconds > 0


@pytest.mark.parametrize(
    ("text", "code", "retryable", "said"),
    [
        ("[[429]]", "agentRateLimited", True, "Rate limit reached. Lower concurrency"),
        ("[[401]]", "agentAuthenticationError", False, "Check the key that api_key"),
        ("[[503]]", "agentRequestFailed", True, "answered 503"),
        ("[[redirect]]", "agentRequestFailed", False, "elsewhere/v1, if it is yours"),
        ("[[echo]]", "agentRequestFailed", False, "Bad header Authorization: Bearer [hidden]"),
        ("[[not_chat]]", "agentResponseUnparseable", True, "answered what is not a response of the Responses API"),
        ("[[wrong_json]]", "agentResponseUnparseable", True, "answered what is not a response"),
        ("[[cut]]", "agentResponseUnparseable", True, "broke off"),
        (
            "[[say fail server_error]]",
            "agentRequestFailed",
            True,
            "could not answer (server_error): The model failed",
        ),
        ("[[say fail rate_limit_exceeded]]", "agentRateLimited", True, "Lower concurrency"),
        ("[[stated529]]", "agentRequestFailed", True, "answered 529: Overloaded. It may pass"),
        ("[[say fail invalid_prompt]]", "agentRequestFailed", False, "Check the question and its parameters."),
    ],
)
async def test_what_fails_is_a_sentence(server, text, code, retryable, said):
    for stream in (False, True):
        with pytest.raises(TargetError) as raised:
            await ask(server, text, stream=stream)
        assert (raised.value.code, raised.value.retryable) == (code, retryable)
        assert said in str(raised.value)
        assert "sk-canary" not in str(raised.value)


async def test_what_a_model_takes_is_known_here_too(server):
    request = Request(messages=({"role": "user", "content": "Why?"},), params={"temperature": 0, "max_tokens": 20})
    reply = await ask(server, request=request, model="openai/responses/gpt-5-mini")
    assert "temperature" not in server.last()["body"] and server.last()["body"]["max_output_tokens"] == 20
    assert any("temperature" in change for change in reply.changes)


def test_a_check_names_the_protocol(server, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".evals").mkdir()
    section = f'[targets.r]\nmodel = "openai/gpt-4o"\nbase_url = "{server.url}"\napi = "responses"\n'
    (tmp_path / ".evals" / "config.toml").write_text(section)
    done = Shell(capsys)("targets", "check", "r")
    assert done.code == 0 and f"asked    OpenAI Responses at {server.url}/responses" in done.out


async def test_the_protocol_is_a_setting_too_and_makes_another_target(server, tmp_path):
    (tmp_path / ".evals").mkdir()
    file = tmp_path / ".evals" / "config.toml"
    file.write_text('[targets.r]\nmodel = "openai/gpt-4o-mini"\napi = "responses"\n')
    read = load_settings(tmp_path).targets["r"]
    chat = TargetConfig(name="r", model="openai/gpt-4o-mini")
    assert identity(read) != identity(chat)
    assert "api" not in identity(chat), "answers of the chat protocol that are cached stay known"
    assert price_for(read) == price_for(chat) == price_for(TargetConfig(name="r", model="openai/responses/gpt-4o-mini"))
    await ask(server, model="m", api="responses")
    assert server.last()["body"]["model"] == "m"
    file.write_text('[targets.r]\nmodel = "anthropic/claude-haiku-4-5"\napi = "responses"\n')
    with pytest.raises(ConfigurationError, match=r"config\.toml:3: targets\.r\.api: does nothing for anthropic"):
        load_settings(tmp_path, whole=True)
