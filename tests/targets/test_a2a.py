"""Agents of the Agent2Agent protocol: asked by their address, against agents that the official SDK serves."""

import json
from dataclasses import replace

import pytest

from tests.a2a_agent import GARBLED, KEY, running, seen
from tests.cli.helpers import Shell
from tui_evals.runs.judges import price_for
from tui_evals.targets.a2a import Agent
from tui_evals.targets.base import ConfigurationError, Request, TargetConfig, TargetError
from tui_evals.targets.config import load_settings
from tui_evals.targets.permissions import destination, permissions_of
from tui_evals.transcript import calls_with_results, reasoning_text

pytest.importorskip("a2a", reason="the package a2a-sdk is not installed: pip install -r requirements.lock")

ENVIRONMENT = {"AGENT_KEY": KEY}


@pytest.fixture(scope="module")
def origin():
    with running() as where:
        yield where


def configured(origin, name="plain", **more):
    return TargetConfig(name="agent", model=f"a2a:{origin}/{name}", **more)


async def ask(config, *texts, session=None, messages=None):
    """The replies to some questions of one conversation."""
    agent = Agent(config, ENVIRONMENT)
    said = list(messages or ())
    replies = []
    try:
        for text in texts:
            said.append({"role": "user", "content": text})
            reply = await agent.ask(Request(messages=tuple(said), session=session))
            said.append({"role": "assistant", "content": reply.text})
            session = reply.session
            replies.append(reply)
    finally:
        await agent.close()
    return replies


@pytest.mark.parametrize("name", ["plain", "polled", "rest", "old"])
async def test_an_agent_answers_whatever_it_speaks(origin, name):
    first, asked, answered, count = await ask(configured(origin, name), "hello there", "ask me", "the red one", "turns")
    assert first.text == "You said: hello there"
    assert (first.model, first.finish_reason) == (f"The {name} agent", "stop")
    assert set(first.session) == {"contextId"}
    assert (asked.text, asked.finish_reason) == ("Which one?", "input_required")
    assert asked.session == {**first.session, "taskId": asked.diagnostics["task"]}
    assert answered.text == "You said: the red one"
    assert answered.diagnostics == {"task": asked.diagnostics["task"], "state": "completed"}
    assert (count.text, count.session) == ("turn 4", first.session)


async def test_what_streams_is_joined_and_timed_and_what_does_not_is_watched(origin):
    for name in ("plain", "polled", "old"):
        (reply,) = await ask(configured(origin, name), "long story")
        assert reply.text == "one two"
        assert reply.first_token_seconds > 0.2
    (reply,) = await ask(configured(origin), "message for you")
    assert (reply.text, reply.diagnostics) == ("for you", None)


async def test_every_kind_of_part_is_text(origin):
    (reply,) = await ask(configured(origin), "parts")
    assert reply.text == (
        'see\n{"f": 0.5, "n": 1}\n[a.bin: application/x, 5 bytes]\na,b\n[x.pdf: https://example.org/x.pdf]'
    )


async def test_calls_results_and_thoughts_of_an_agent_are_told_and_are_no_answer(origin):
    for name in ("plain", "rest"):
        (reply,) = await ask(configured(origin, name), "tools")
        assert (reply.text, reasoning_text(reply.transcript)) == ("It is paid.", "look it up")
        ((call, result),) = calls_with_results(reply.transcript)
        assert (call.name, call.arguments, result.text) == ("find", '{"order": 7}', '{"status": "paid"}')
    (plain,) = await ask(configured(origin), "hello")
    assert plain.transcript is None, "what it says of its progress is no part of it"
    (files,) = await ask(configured(origin), "parts")
    assert [type(part).__name__ for part in files.transcript.parts] == ["Unknown", "File", "File", "File", "Text"]


async def test_what_was_said_before_comes_along_where_there_is_no_context_yet(origin):
    before = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}]
    (reply,) = await ask(configured(origin), "everything", messages=before)
    assert reply.text == "system: Be brief.\nuser: Hi\neverything"
    (reply,) = await ask(configured(origin), "everything", messages=before, session=reply.session)
    assert reply.text == "everything"


@pytest.mark.parametrize(
    ("text", "code", "said"),
    [
        ("fail", "agentRequestFailed", "The task of the agent at {host} failed: no luck with [hidden]."),
        ("reject", "agentRequestFailed", "The task of the agent at {host} was rejected: not my business."),
        ("auth", "agentAuthenticationError", "The agent at {host} asks for authorization: log in first. Give it a key"),
    ],
)
async def test_a_task_that_does_not_end_well_is_a_sentence(origin, text, code, said):
    for name in ("plain", "polled"):
        with pytest.raises(TargetError) as raised:
            await ask(configured(origin, name, api_key="env:AGENT_KEY"), text)
        assert raised.value.code == code
        assert str(raised.value).startswith(said.format(host=origin.removeprefix("http://")))


@pytest.mark.parametrize(
    ("name", "header"), [("bearer", "authorization"), ("apikey", "x-agent-key"), ("plain", "x-own")]
)
async def test_a_key_is_sent_as_the_card_asks_for_it(origin, name, header):
    more = {"headers": {"X-Own": "env:AGENT_KEY"}} if name == "plain" else {"api_key": "env:AGENT_KEY"}
    (reply,) = await ask(configured(origin, name, **more), "hello")
    assert reply.text == "You said: hello"
    assert KEY in seen(origin)["calls"][-1]["headers"][header]
    if name != "plain":
        with pytest.raises(TargetError) as raised:
            await ask(configured(origin, name), "hello")
        assert (raised.value.code, raised.value.status) == ("agentAuthenticationError", 401)
        with pytest.raises(ConfigurationError, match="takes its api_key from the environment variable NOWHERE"):
            await ask(configured(origin, name, api_key="env:NOWHERE"), "hello")


@pytest.mark.parametrize(
    ("name", "error", "said"),
    [
        (
            "elsewhere",
            ConfigurationError,
            r'asked at http://agent\.invalid/elsewhere/; nothing was sent there.* base_url = "http',
        ),
        ("nowhere", TargetError, "answered 404: .*whose card is at"),
        ("moved", TargetError, r"redirects to http://agent\.invalid/card\.json"),
        ("page", TargetError, "answered what is not an answer of the Agent2Agent protocol"),
        ("nested", TargetError, "answered what is not an answer of the Agent2Agent protocol"),
        ("odd", TargetError, "answered what is not an answer of the Agent2Agent protocol"),
        ("mute", ConfigurationError, r"speaks nothing, and can be asked by JSONRPC and HTTP\+JSON alone"),
    ],
)
async def test_a_card_that_leads_nowhere_is_a_sentence(origin, name, error, said):
    with pytest.raises(error, match=said):
        await ask(configured(origin, name, api_key="env:AGENT_KEY"), "hello")


async def test_the_place_of_a_card_and_of_the_agent_may_be_given(origin):
    card = TargetConfig(name="agent", model=f"a2a:{origin}/old/.well-known/agent.json")
    assert (await ask(card, "hello"))[0].model == "The old agent"
    moved = configured(origin, "elsewhere", base_url=f"{origin}/elsewhere/")
    assert (await ask(moved, "hello"))[0].text == "You said: hello"


async def test_a_key_goes_to_the_host_of_the_agent_and_not_to_that_of_its_card(origin):
    before = len(seen(origin)["calls"])
    card = f"a2a:{origin.replace('127.0.0.1', 'localhost')}/bearer"
    config = TargetConfig(name="agent", model=card, base_url=f"{origin}/bearer/", api_key="env:AGENT_KEY")
    assert (await ask(config, "hello"))[0].text == "You said: hello"
    of_card, of_agent = seen(origin)["calls"][before:]
    assert "authorization" not in of_card["headers"] and KEY in of_agent["headers"]["authorization"]


async def test_a_task_whose_stream_broke_off_is_watched_and_not_done_twice(origin):
    (reply,) = await ask(configured(origin, "cut"), "long and cut")
    assert reply.text == "one two"
    assert seen(origin)["executions"].count("long and cut") == 1
    assert [each["path"] for each in seen(origin)["calls"]].count("/cut/") > 1


async def test_refusals_of_the_agent(origin):
    with pytest.raises(TargetError) as raised:
        await ask(configured(origin, "busy"), "hello")
    assert (raised.value.code, raised.value.retry_after) == ("agentRateLimited", 7)
    with pytest.raises(TargetError, match=r"answered with an error: Task .*not"):
        await ask(configured(origin), "hello", session={"contextId": "c", "taskId": "nobody's"})


@pytest.mark.parametrize("number", range(len(GARBLED)))
async def test_an_answer_that_is_none_is_a_sentence(origin, number):
    with pytest.raises(TargetError) as raised:
        await ask(configured(origin, f"garbled{number}"), "hello")
    assert raised.value.code in ("agentResponseUnparseable", "agentRequestFailed")
    assert origin.removeprefix("http://") in str(raised.value)


async def test_nobody_there_and_an_agent_that_hangs(origin):
    with pytest.raises(TargetError) as raised:
        await ask(TargetConfig(name="agent", model="a2a:http://127.0.0.1:9"), "hello")
    assert raised.value.nobody_there
    with pytest.raises(TargetError) as raised:
        await ask(configured(origin, timeout=0.5), "hang")
    assert (raised.value.code, raised.value.retryable) == ("agentTimeout", True)


def test_trust_and_prices(tmp_path):
    config = TargetConfig(
        name="agent", model="a2a:https://agent.example/a", api_key="env:AGENT_KEY", where="config.toml:1"
    )
    assert destination(config, {}).sentence == "sends AGENT_KEY to agent.example"
    assert [each.does for each in permissions_of(config, {}, tmp_path)] == ["sends AGENT_KEY to agent.example"]
    moved = replace(config, base_url="https://other.example/")
    assert [each.does for each in permissions_of(moved, {}, tmp_path)] == [
        "sends AGENT_KEY to other.example",
        "reads the card of an agent at agent.example",
    ]
    typed = TargetConfig(name="agent", model="a2a:https://agent.example/a")
    assert permissions_of(typed, {}, tmp_path) == []
    assert price_for(config) is None


@pytest.mark.parametrize(
    ("model", "said"),
    [
        ("a2a:agent.example", "must be an address such as"),
        ("a2a:https://me:secret@agent.example", "must hold no key, user or password"),
        ("a2a:https://agent.example?api_key=1", "must hold no key, user or password"),
    ],
)
def test_an_address_that_is_none_is_found_at_its_line(tmp_path, model, said):
    (tmp_path / ".evals").mkdir()
    (tmp_path / ".evals" / "config.toml").write_text(f'[targets.agent]\nmodel = "{model}"\n')
    with pytest.raises(ConfigurationError, match=rf"config\.toml:2: targets\.agent\.model: {said}"):
        load_settings(tmp_path, whole=True)


@pytest.mark.nightly
def test_a_conversation_from_the_command_line(origin, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("AGENT_KEY", KEY)
    (tmp_path / ".evals").mkdir()
    section = f'[targets.agent]\nmodel = "a2a:{origin}/apikey"\napi_key = "env:AGENT_KEY"\n'
    (tmp_path / ".evals" / "config.toml").write_text(section)
    turns = [{"prompt": "hello", "expected_response": "hello"}, {"prompt": "turns", "expected_response": "turn 2"}]
    data = {"default_evaluators": {"Includes": {}}, "items": [{"testId": "talk", "turns": turns}]}
    (tmp_path / "data.json").write_text(json.dumps(data))
    shell = Shell(capsys)
    checked = shell("targets", "check", "agent")
    assert checked.code == 0 and "✓ agent" in checked.out and "sends AGENT_KEY to 127.0.0.1" in checked.err
    assert shell("run", "data.json", "-t", "agent", "--quiet").code == 0
    assert "turn 2" in shell("show", "last", "--item", "talk").out
