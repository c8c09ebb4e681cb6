"""Which target a configuration opens, and what names it without telling a secret."""

import importlib.util
import json

import pytest

from tui_evals.targets.base import ConfigurationError, HttpService, Price, Request, TargetConfig, TargetContext
from tui_evals.targets.opening import identity, kind_of, open_target, target_kind

KEYS = {"OPENAI_API_KEY": "sk-canary", "PATH": "/usr/bin:/bin"}


def config(model, **more):
    return TargetConfig(name="t", model=model, **more)


def opened(root, configured, items=()):
    return open_target(configured, KEYS, root, lambda file: items)


KINDS = [
    (config("demo"), "demo", "Demo"),
    (config("replay:a.csv"), "replay", "Replay"),
    (config("python:json:dumps"), "python", None),
    (config("command:cat"), "command", "Command"),
    (config("command:cat", params={"protocol": "jsonl"}), "command", "JsonLines"),
    (config("openai/x"), "openai", "OpenAI"),
    (config("lm_studio/x"), "openai", "OpenAI"),
    (config("ollama_chat/llama3:8b"), "openai", "OpenAI"),
    (config("plain", base_url="http://127.0.0.1:1/v1"), "openai", "OpenAI"),
    (config("openai/x", via="litellm"), "litellm", "ThroughLitellm"),
    (config("anthropic/x"), "litellm", "ThroughLitellm"),
    (config("openai/responses/x"), "openai", "OpenAI"),
    (config("a2a:https://agent.example"), "a2a", "Agent"),
    (config("bedrock/anthropic.claude-v2:1"), "litellm", "ThroughLitellm"),
]


@pytest.mark.parametrize(("configured", "kind", "name"), KINDS, ids=lambda value: getattr(value, "model", None))
async def test_a_configuration_opens_its_kind_of_target(tmp_path, configured, kind, name):
    assert kind_of(configured) == kind
    if name is None:
        with pytest.raises(ConfigurationError, match="a target is given what its parameters name"):
            opened(tmp_path, configured)
        return
    target = opened(tmp_path, configured)
    await target.close()
    assert type(target).__name__ == name


async def test_an_agent_needs_the_package_that_speaks_to_it(tmp_path, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    agent = opened(tmp_path, config("a2a:http://127.0.0.1:9"))
    with pytest.raises(ConfigurationError, match=r"needs the package a2a-sdk: pip install 'tui_evals\[a2a\]'"):
        await agent.ask(Request(messages=()))
    await agent.close()


async def test_captured_answers_are_read_below_the_project(tmp_path):
    asked = []

    def load_items(file):
        asked.append(file)
        return [{"response": "captured"}]

    (tmp_path / "sub").mkdir()
    target = open_target(config("replay:sub/../sub/a.json"), {}, tmp_path, load_items)
    assert asked == [tmp_path.resolve() / "sub" / "a.json"]
    assert (await target.ask(Request(messages=(), item="#1"))).text == "captured"


@pytest.mark.parametrize("named", ["../a.json", "/etc/passwd", "link/a.json", "sub/../../a.json", "a\0b"])
def test_nothing_outside_the_project_is_read(tmp_path, named):
    root = tmp_path / "project"
    root.mkdir()
    (root / "link").symlink_to(tmp_path)

    def load_items(file):
        raise AssertionError(f"{file} was read")

    with pytest.raises(ConfigurationError, match=r"outside the project|is no path"):
        open_target(config(f"replay:{named}"), {}, root, load_items)


@pytest.mark.parametrize(
    ("configured", "variables", "address"),
    [
        (config("openai/x"), {}, None),
        (config("openai/x"), {"OPENAI_BASE_URL": "http://me:canary@host/v1/"}, "http://host/v1"),
        (config("openai/x"), {"OPENAI_API_BASE": "http://host:1/v1"}, "http://host:1/v1"),
        (config("ollama_chat/x"), {"OLLAMA_CHAT_API_BASE": "http://wrong", "OLLAMA_API_BASE": "http://o"}, "http://o"),
        (config("openai/x", base_url="http://a/v1"), {"OPENAI_BASE_URL": "http://b/v1"}, "http://a/v1"),
        (config("openai/x", base_url="env:MY_URL"), {"MY_URL": "https://canary@host/v1"}, "https://host/v1"),
        (config("openai/x", base_url="env:MY_URL"), {}, None),
        (config("demo"), {"DEMO_BASE_URL": "http://host"}, None),
        (config("replay:a/b"), {"REPLAY:A_BASE_URL": "http://host"}, None),
    ],
)
def test_the_address_is_part_of_the_identity(configured, variables, address):
    assert identity(configured, variables)["base_url"] == address


def test_a_query_counts_and_is_not_shown():
    one, other = (identity(config("x", base_url=f"http://host/v1?key=canary{n}")) for n in (1, 2))
    assert one != other
    assert "canary" not in json.dumps([one, other])


def test_the_identity_holds_what_decides_answers_and_nothing_else():
    more = {"api_key": "env:CANARY_KEY", "params": {"temperature": 0}, "via": "litellm"}
    first = identity(config("openai/x", **more), KEYS)
    renamed = TargetConfig(name="u", model="openai/x", concurrency=3, timeout=1, price=Price(1, 1), **more)
    assert first == identity(renamed, KEYS)
    assert first == {"model": "openai/x", "base_url": None, "params": {"temperature": 0}, "via": "litellm"}
    assert first != identity(config("openai/x", **{**more, "params": {"temperature": 1}}), KEYS)
    assert "anary" not in json.dumps(first).lower()


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_target_has_to_be_reachable_at_its_address_unless_a_proxy_is_asked(tmp_path, scheme):
    address = f"{scheme}://agent.example:81"
    proxy, other = ("http_proxy", "HTTPS_PROXY") if scheme == "http" else ("HTTPS_PROXY", "http_proxy")
    for configured in (
        config("openai/x", base_url=address, api_key="env:KEY"),
        config("anthropic/x", base_url=address, api_key="env:KEY"),
        config("openai/x", base_url=address, api_key="env:KEY", kind="embedding"),
        config(f"a2a:{address}"),
        config("http:bot", http=HttpService(url=address)),
    ):

        def reached(configured=configured, **variables):
            context = TargetContext(environment={"KEY": "sk-1", **variables}, root=tmp_path, load_items=list)
            return (target_kind(configured).check(configured, context) or "").rstrip("/")

        assert reached() == reached(**{other: "http://proxy:1"}) == address, configured
        assert reached(**{proxy: "http://proxy:1"}) == "", configured
        assert reached(**{proxy: "http://proxy:1"}, no_proxy="agent.example") == address, configured
