"""One suite for the two ways to a model: our own client and litellm, over HTTP to a server of our own."""

import asyncio
import json
import math
import os
import signal
import socket
import subprocess
import sys
from contextlib import asynccontextmanager
from importlib.util import find_spec
from pathlib import Path

import pytest
import pytest_asyncio

from tests.server import running
from tui_evals.evaluators.base import Question
from tui_evals.runs.judges import request_for
from tui_evals.targets.base import (
    ConfigurationError,
    Reply,
    Request,
    TargetConfig,
    TargetContext,
    TargetError,
    Usage,
)
from tui_evals.targets.model_table import LIKELIHOODS, price_of
from tui_evals.targets.openai import OpenAI
from tui_evals.targets.opening import identity, target_kind
from tui_evals.targets.permissions import destination
from tui_evals.targets.providers import protocol_of, speaks_openai
from tui_evals.targets.through_litellm import ThroughLitellm

pytestmark = pytest.mark.asyncio(loop_scope="module")

CANARY = "sk-canary-7f3a9d52c1"
ENVIRONMENT = {
    **{name: os.environ[name] for name in ("PATH", "PYTHONPATH", "LANG") if name in os.environ},
    "THE_VARIABLE": CANARY,
    "AWS_EC2_METADATA_DISABLED": "true",
    **{f"AWS_{name}_FILE": "/nowhere" for name in ("SHARED_CREDENTIALS", "CONFIG")},
    "OPENAI_API_KEY": "sk-of-the-provider-itself",
}
WAYS = {"ours": OpenAI, "litellm": ThroughLitellm}
both_ways = pytest.mark.parametrize("way", WAYS)


@pytest.fixture(scope="module")
def server():
    with running() as server:
        ENVIRONMENT.update(OPENAI_BASE_URL=server.url, THE_ADDRESS=server.url)
        yield server


@pytest_asyncio.fixture(scope="module", loop_scope="module", autouse=True)
async def litellm_imported_once(server):
    """One more user of the child process, so that it outlives each test."""
    kept = ThroughLitellm(TargetConfig(name="kept", model="openai/kept"), ENVIRONMENT)
    yield
    await kept.close()


@pytest.fixture(autouse=True)
def fresh(server):
    server.reset()


@asynccontextmanager
async def opened(way, server, environment=ENVIRONMENT, **settings):
    url = {"base_url": server if isinstance(server, str) else server.url}
    settings = {"name": "test", "model": "openai/test-model", "api_key": "env:THE_VARIABLE", **url, **settings}
    target = WAYS[way](TargetConfig(**settings), environment)
    try:
        yield target
    finally:
        await target.close()


def said(text, **options):
    return Request(messages=({"role": "user", "content": text},), **options)


async def outcome(way, server, text, **settings):
    """The reply, or what matters of the failure."""
    async with opened(way, server, **settings) as target:
        try:
            return await target.ask(said(text))
        except TargetError as error:
            return error


async def until(met):
    async with asyncio.timeout(180):
        while not met():
            await asyncio.sleep(0.01)


TOOL = {"name": "look_up", "arguments": '{"question": "%s"}'}
REPLIES = {
    "answer": Reply(text="Answer {key}: hello ", usage=Usage(2, 3), model="test-model", finish_reason="stop"),
    "length": Reply(text="Answer {key}: hello ", usage=Usage(2, 3), model="test-model", finish_reason="length"),
    "no_usage": Reply(text="Answer {key}: hello ", model="test-model", finish_reason="stop"),
    "empty_answer": Reply(text="", usage=Usage(2, 1), model="test-model", finish_reason="stop"),
    "refusal": Reply(
        text="I cannot help with that.",
        usage=Usage(2, 1),
        model="test-model",
        finish_reason="stop",
        diagnostics={"refusal": "I cannot help with that."},
    ),
    "tools": Reply(
        text="",
        tool_calls=tuple(
            {"id": f"call_{place}", "name": "look_up", "arguments": '{"question": "{key}"}'} for place in (1, 2)
        ),
        usage=Usage(2, 1),
        model="test-model",
        finish_reason="tool_calls",
    ),
}


def keyed(reply, key):
    calls = tuple({**call, "arguments": call["arguments"].replace("{key}", key)} for call in reply.tool_calls)
    fields = {name: getattr(reply, name) for name in ("usage", "model", "finish_reason", "diagnostics")}
    return Reply(text=reply.text.replace("{key}", key), tool_calls=calls, **fields)


@pytest.mark.nightly
@both_ways
async def test_a_redirect_is_the_fault_of_base_url_and_no_key_goes_along_it(way, server):
    error = await outcome(way, server, "hello [[redirect]]")
    assert (error.code, error.status, error.retryable) == (REQUEST, 307, False)
    address = f"{server.origin}/elsewhere/v1"
    assert f"it redirects to {address}/chat/completions" in str(error) and f"Set base_url to {address}" in str(error)
    assert "question" not in str(error).partition("Set")[2]


@pytest.mark.nightly
async def test_another_protocol_does_not_follow_a_redirect_either(server):
    settings = {"model": "anthropic/claude-sonnet-4-5", "base_url": server.origin}
    error = await outcome("litellm", server, "hello [[redirect]]", **settings)
    assert error.status == 307 and "base_url" in str(error)


@both_ways
@pytest.mark.parametrize("kind", REPLIES)
async def test_replies(way, kind, server):
    reply = await outcome(way, server, f"hello [[{kind}]]")
    assert reply == keyed(REPLIES[kind], server.counts()["questions"][0]["key"])


REQUEST, AUTH, RATE = "agentRequestFailed", "agentAuthenticationError", "agentRateLimited"
LATE, ODD = "agentTimeout", "agentResponseUnparseable"
FAILURES = [
    # kind, code, status, ask again, wait, words
    ("400", REQUEST, 400, False, None, "Check the question"),
    ("401", AUTH, 401, False, None, "Incorrect API key provided. Check the key"),
    ("403", AUTH, 403, False, None, "may not use this model"),
    ("404", REQUEST, 404, False, None, "The model `test-model` does not exist. Check the model's name"),
    ("408", LATE, 408, True, None, "ask again"),
    ("409", REQUEST, 409, True, None, "ask again"),
    ("413", REQUEST, 413, False, None, "too long"),
    ("422", REQUEST, 422, False, None, "Check the question"),
    ("429", RATE, 429, True, 1.0, "Lower concurrency"),
    ("429quota", RATE, 429, False, None, "out of credit"),
    ("500", REQUEST, 500, True, None, "The server is unwell. It may pass"),
    ("502", REQUEST, 502, True, None, "ask again"),
    ("html502", REQUEST, 502, True, None, "an HTML page"),
    ("503", REQUEST, 503, True, 1.0, "ask again"),
    ("504", LATE, 504, True, None, "ask again"),
    ("529", REQUEST, 529, True, None, "ask again"),
    ("echo", REQUEST, 400, False, None, "Bad header Authorization: Bearer [hidden]"),
    ("reset", REQUEST, None, True, None, "the connection broke"),
    ("cut", ODD, None, True, None, "broke off"),
    ("wrong_json", ODD, None, True, None, "not a chat completion"),
    ("not_chat", ODD, None, True, None, "not a chat completion"),
    ("empty", ODD, None, True, None, "not a chat completion"),
    ("html", ODD, None, True, None, "not a chat completion"),
    ("huge", ODD, None, False, None, "more than 32 MB"),
]


@pytest.mark.cases(20)
@both_ways
@pytest.mark.parametrize("row", FAILURES, ids=lambda row: row[0])
async def test_failures(way, row, server):
    kind, code, status, again, wait, words = row
    error = await outcome(way, server, f"hello [[{kind}]]")
    assert isinstance(error, TargetError)
    assert (error.code, error.status, error.retryable, error.retry_after) == (code, status, again, wait)
    assert words in str(error) and server.url.split("/")[2] in str(error)
    assert CANARY not in str(error) and len(str(error)) < 500


@both_ways
async def test_a_date_to_wait_for(way, server):
    server.behave(always="429date", retry_after=100)
    error = await outcome(way, server, "hello")
    assert error.code == RATE and 90 < error.retry_after <= 100


@both_ways
@pytest.mark.parametrize("kind", ["hang", "drip"])
async def test_an_answer_that_does_not_come_or_does_not_end(way, kind, server):
    error = await outcome(way, server, f"hello [[{kind}]]", timeout=0.3)
    assert (error.code, error.status, error.retryable) == (LATE, None, True)
    assert "within 0.3 s" in str(error)


@both_ways
async def test_nobody_listens(way):
    with socket.socket() as unheard:
        unheard.bind(("127.0.0.1", 0))
        host = f"127.0.0.1:{unheard.getsockname()[1]}"
        error = await outcome(way, f"http://{host}/v1", "hello")
    assert (error.code, error.status, error.retryable) == (REQUEST, None, True)
    assert f"No answer from {host}: it refuses connections" in str(error)


@both_ways
async def test_a_host_nobody_knows(way):
    error = await outcome(way, "http://nowhere.invalid/v1", "hello")
    assert (error.code, error.status) == (REQUEST, None)
    assert "nowhere.invalid: its host name is not known" in str(error)


async def test_a_stream_nobody_asked_for_is_joined_by_our_client_and_refused_by_litellm(server):
    text = "hello [[stream]] you"
    streamed = await outcome("ours", server, text)
    assert streamed.text.endswith(": hello  you") and streamed.finish_reason == "stop"
    assert streamed.usage and streamed.model == "test-model"
    assert (await outcome("litellm", server, text)).code == ODD


async def test_a_stream_that_was_asked_for_is_timed(server):
    async with opened("ours", server, stream=True) as target:
        streamed = await target.ask(said("hello [[stream]] you"))
        assert server.last()["body"]["stream"] is True
        assert server.last()["body"]["stream_options"] == {"include_usage": True}
        assert streamed.text.endswith(": hello  you") and streamed.usage
        assert streamed.first_token_seconds is not None and streamed.first_token_seconds > 0
        whole = await target.ask(said("hello"))  # from a server that knows no streams
        assert whole.text.endswith(": hello") and whole.first_token_seconds is None
    with pytest.raises(ConfigurationError, match="stream = true is for endpoints of OpenAI's protocol"):
        ThroughLitellm(TargetConfig(name="x", model="anthropic/x", stream=True), ENVIRONMENT)


@both_ways
async def test_headers_of_the_configuration_go_along_and_show_no_key(way, server):
    headers = {"X-Team": "evals", "X-Key": "Bearer env:THE_VARIABLE"}
    async with opened(way, server, api_key=None, headers=headers) as target:
        await target.ask(said("hello"))
        sent = {name.lower(): value for name, value in server.last()["headers"].items()}
        assert (sent["x-team"], sent["x-key"]) == ("evals", f"Bearer {CANARY}")
        with pytest.raises(TargetError, match="set headers in" if way == "ours" else "extra_headers may not"):
            await target.ask(said("hello", params={"extra_headers": {"a": "b"}}))
    async with opened(way, server, headers={"X-Key": "env:NOT_SET_ANYWHERE"}) as target:
        with pytest.raises(ConfigurationError, match="its header X-Key from the environment variable NOT_SET_ANYWHERE"):
            await target.ask(said("hello"))


SCHEMA = {"type": "object", "properties": {"answer": {"type": "string"}}, "required": ["answer"]}
LOOK_UP = {"type": "function", "function": {"name": "look_up", "parameters": {"type": "object", "properties": {}}}}
FORMATS = {
    "text": None,
    "json": {"type": "json_object"},
    "schema": {"type": "json_schema", "json_schema": {"name": "answer", "schema": SCHEMA}},
}


@both_ways
@pytest.mark.parametrize("shape", FORMATS)
async def test_what_is_sent(way, shape, server):
    history = ({"role": "system", "content": "In JSON."}, {"role": "user", "content": "h\u00e9\U0001f600\u202e"})
    request = Request(
        messages=history,
        tools=(LOOK_UP,),
        response_format=SCHEMA if shape == "schema" else shape,
        params={"temperature": 0.5, "seed": 7},
    )
    async with opened(way, server, params={"temperature": 0, "max_tokens": 9, "stream": True}) as target:
        reply = await target.ask(request)
    sent = server.last()
    expected = {"model": "test-model", "messages": list(history), "tools": [LOOK_UP], "temperature": 0.5}
    expected |= {"max_tokens": 9, "seed": 7} | ({"response_format": FORMATS[shape]} if FORMATS[shape] else {})
    assert sent["body"] == expected
    assert sent["headers"]["Authorization"] == f"Bearer {CANARY}"
    assert shape == "text" or list(json.loads(reply.text)) == ["answer"]


async def test_half_a_character_passes_our_client_and_not_litellm(server):
    assert (await outcome("ours", server, "hello \ud800")).text.endswith(": hello \ud800")
    error = await outcome("litellm", server, "hello \ud800")
    assert (error.code, error.retryable) == (REQUEST, False) and "litellm did not ask" in str(error)


@both_ways
async def test_a_key_that_is_not_set_is_named(way, server):
    async with opened(way, server, api_key="env:NOT_SET_ANYWHERE") as target:
        with pytest.raises(ConfigurationError, match="NOT_SET_ANYWHERE, which is not set"):
            await target.ask(said("hello"))
    assert server.counts()["asked"] == 0


@both_ways
async def test_a_key_in_the_configuration_is_refused_and_not_repeated(way, server):
    with pytest.raises(ConfigurationError, match="must be a reference") as caught:
        WAYS[way](TargetConfig(name="test", model="openai/x", api_key=CANARY), ENVIRONMENT)
    assert CANARY not in str(caught.value)


@both_ways
async def test_the_usual_key_does_not_go_to_a_configured_address(way, server):
    await outcome(way, server, "hello", api_key=None)
    assert server.last()["headers"].get("Authorization") in (None, "Bearer none")


@both_ways
async def test_the_usual_variables(way, server):
    assert (await outcome(way, server, "hello", base_url=None, api_key=None)).text
    assert server.last()["headers"]["Authorization"] == "Bearer sk-of-the-provider-itself"


@both_ways
async def test_an_address_by_reference(way, server):
    assert (await outcome(way, server, "hello", base_url="env:THE_ADDRESS")).text


@both_ways
async def test_many_at_once_are_each_asked_once(way, server):
    server.behave(latency=0.01, jitter=0.02)
    async with opened(way, server, concurrency=20) as target:
        replies = await asyncio.gather(*(target.ask(said(f"question {place}")) for place in range(100)))
    assert all(reply.text.endswith(f": question {place}") for place, reply in enumerate(replies))
    counts = server.counts()
    assert counts["asked"] == counts["answered"] == len(counts["questions"]) == 100
    assert way == "litellm" or counts["peak"] <= 20


@both_ways
async def test_a_cancelled_question_lets_go_of_its_connection(way, server):
    async with opened(way, server) as target:
        asking = asyncio.create_task(target.ask(said("hello [[hang]]")))
        await until(lambda: server.counts()["in_flight"] == 1)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        await until(lambda: server.counts()["in_flight"] == 0)
        assert (await target.ask(said("hello"))).text


@both_ways
async def test_a_long_question_and_a_long_answer(way, server):
    server.behave(size=1_000_000)
    async with opened(way, server) as target:
        reply = await target.ask(said("long " * 200_000))
    assert len(reply.text) == 1_000_000


@pytest.mark.nightly
async def test_a_worker_that_dies_fails_its_questions_and_is_replaced(server):
    async with opened("litellm", server) as target:
        asking = asyncio.create_task(target.ask(said("hello [[hang*1]]")))
        await until(lambda: server.counts()["in_flight"] == 1)
        os.kill(target._worker._child._process.pid, signal.SIGKILL)
        with pytest.raises(TargetError, match="ended") as caught:
            await asking
        assert caught.value.retryable
        assert (await target.ask(said("hello [[hang*1]]"))).text


ORPHAN = """
import os, sys
from tui_evals.targets.base import TargetConfig
from tui_evals.targets.through_litellm import ThroughLitellm
target = ThroughLitellm(TargetConfig(name="x", model="x/y"), {**os.environ, "OF_ITS_OWN": "1"})
os.write(1, str(target._worker._child._process.pid).encode())
os._exit(0)
"""


@pytest.mark.nightly
async def test_a_worker_ends_with_its_parent():
    done = subprocess.run([sys.executable, "-c", ORPHAN], capture_output=True, check=True)

    def gone():
        try:
            with open(f"/proc/{int(done.stdout)}/stat") as stat:
                return stat.read().rpartition(")")[2].split()[0] == "Z"
        except (FileNotFoundError, ProcessLookupError):
            return True

    await until(gone)


async def test_litellm_knows_prices_and_does_not_invent_them(server):
    priced = await outcome("litellm", server, "hello", model="openai/gpt-4o-mini")
    assert priced.cost == pytest.approx(price_of("openai/gpt-4o-mini").cost(priced.usage))
    assert (await outcome("litellm", server, "hello")).cost is None


async def test_litellm_reports_how_long_the_network_took(server):
    server.behave(latency=0.05)
    assert 0.05 <= (await outcome("litellm", server, "hello")).seconds < 0.5


async def test_another_protocol_through_litellm(server):
    settings = {"model": "anthropic/claude-sonnet-4-5", "base_url": server.url.removesuffix("/v1")}
    reply = await outcome("litellm", server, "hello", **settings)
    assert reply.text.endswith(": hello") and reply.finish_reason == "stop"
    assert reply.cost == pytest.approx(price_of("anthropic/claude-sonnet-4-5").cost(reply.usage))
    for kind, code, wait in (("429", RATE, 1.0), ("401", AUTH, None), ("503", REQUEST, 1.0)):
        error = await outcome("litellm", server, f"hello [[{kind}]]", **settings)
        assert (error.code, error.status, error.retry_after) == (code, int(kind), wait)


@pytest.mark.parametrize("kind", ["image_url", "file"])
async def test_an_address_in_a_message_is_not_looked_up_from_here(kind, server):
    """A stranger's dataset could have this machine fetch whatever is within its reach."""
    link = "http://nobody.invalid/private.png"
    part = {"image_url": {"url": link}} if kind == "image_url" else {"file": {"file_id": link, "format": "image/png"}}
    content = [{"type": "text", "text": "hello"}, {"type": kind, **part}]
    settings = {"model": "gemini/gemini-2.0-flash", "base_url": server.url.removesuffix("/v1")}
    async with opened("litellm", server, **settings) as target:
        with pytest.raises(TargetError, match="would have to fetch an address in the message") as caught:
            await target.ask(Request(messages=({"role": "user", "content": content},)))
    assert not caught.value.retryable


@pytest.mark.parametrize(
    ("model", "words"), [("nosuch/thing", "LLM Provider NOT provided"), ("anthropic/claude-x", "API [Kk]ey")]
)
async def test_what_litellm_will_not_ask(model, words, server):
    async with opened("litellm", server, model=model, base_url=None, api_key=None) as target:
        with pytest.raises(TargetError, match=words) as caught:
            await target.ask(said("hello"))
    assert not caught.value.retryable


WIRES = [
    ("anthropic/claude-x", "", "/v1/messages"),
    ("anthropic/claude-x", "/v1", "/v1/messages"),
    ("gemini/gemini-x", "", "/v1beta/models/gemini-x:generateContent"),
    ("gemini/gemini-x", "/v1beta", "/v1beta/models/gemini-x:generateContent"),
    ("azure/my-deployment", "", "/openai/deployments/my-deployment/chat/completions"),
    ("mistral/mistral-x", "", "/v1/chat/completions"),
    ("mistral/mistral-x", "/v1", "/v1/chat/completions"),
]


@pytest.mark.parametrize(("model", "below", "path"), WIRES)
async def test_an_address_changes_nobodys_protocol(model, below, path, server):
    config = TargetConfig(name="x", model=model, base_url=server.origin + below, api_key="env:THE_VARIABLE")
    assert not speaks_openai(config) and protocol_of(config) != "OpenAI chat completions"
    async with opened("litellm", config.base_url, model=model) as target:
        reply = await target.ask(said("hello"))
        assert (reply.text.split()[0], server.last()["path"], target.url) == ("Answer", path, server.origin + path)
    assert CANARY in json.dumps(server.last()["headers"])


@pytest.mark.parametrize("variable", ["ANTHROPIC_API_KEY", "AZURE_OPENAI_API_KEY", "MISTRAL_API_KEY"])
async def test_a_providers_usual_key_is_said_to_go_where_its_protocol_is_spoken(variable):
    config = TargetConfig(name="x", model=f"{variable.partition('_')[0].lower()}/x", base_url="https://gateway/v1")
    assert destination(config, {variable: CANARY}).key == variable


@pytest.mark.nightly
@pytest.mark.parametrize(("model", "variable"), [("mistral/m", "MISTRAL_API_BASE"), ("gemini/g", "GEMINI_BASE_URL")])
async def test_the_address_in_a_providers_variable_is_where_it_is_asked(model, variable, server):
    config = TargetConfig(name="x", model=model)
    environment = {**ENVIRONMENT, variable: server.origin, f"{model.partition('/')[0].upper()}_API_KEY": CANARY}
    assert identity(config, environment)["base_url"] == server.origin
    assert destination(config, environment).host == server.origin.removeprefix("http://")
    async with opened("litellm", server, environment, model=model, base_url=None, api_key=None) as target:
        await target.ask(said("hello"))
    assert server.counts()["answered"] == 1


async def test_what_litellm_or_its_provider_refuses_is_learnt(server):
    server.behave(rules="reasoning")
    params = {"temperature": 0, "max_tokens": 5000, "top_p": 0.5}
    async with opened("litellm", server.origin, model="azure/my-deployment", params=params) as target:
        reply = await target.ask(said("hello"))
    assert len(reply.changes) == 3 and server.last()["body"]["max_completion_tokens"] == 5000
    server.reset()
    async with opened("litellm", server.origin, model="azure/o3-mini", params=params) as target:
        question = ({"role": "system", "content": "Be brief."}, {"role": "user", "content": "hello"})
        await target.ask(Request(messages=question))
    assert server.counts()["asked"] == 1 and server.last()["body"]["messages"][0]["role"] == "developer"


@both_ways
async def test_how_likely_the_digits_of_an_answer_were_comes_along_where_it_is_asked_for(way, server):
    server.behave(say="Score: 4", likely={"4": 0.75, "5": 0.25})
    (choice,) = (await outcome(way, server, "hello", params=dict(LIKELIHOODS))).choices
    assert (choice.start, choice.text) == (7, "4") and math.exp(choice.likely["5"]) == pytest.approx(0.25)
    assert (await outcome(way, server, "hello")).choices == ()


async def test_a_provider_that_litellm_knows_to_tell_no_log_probabilities_is_asked_without(server):
    model = "anthropic/claude-sonnet-4-5"
    request = request_for(
        Question(messages=said("hello").messages, likelihoods=True), TargetConfig(name="x", model=model)
    )
    async with opened("litellm", server.origin, model=model) as target:
        reply = await target.ask(request)
    assert reply.choices == () and "logprobs is not sent, for the model refused it" in reply.changes


async def test_litellms_advice_about_settings_of_its_own_is_no_advice_here(server):
    async with opened(
        "litellm", server.origin, model="azure/gpt-5-mini", params={"reasoning_effort": "xhigh"}
    ) as target:
        with pytest.raises(TargetError, match="reasoning_effort=xhigh is not supported") as caught:
            await target.ask(said("hello"))
    assert "drop" not in str(caught.value) and "litellm." not in str(caught.value)


async def test_openrouter_says_what_a_question_cost(server):
    environment = {"OPENROUTER_BASE_URL": server.url, "OR_API_KEY": CANARY}
    config = TargetConfig(name="x", model="openrouter/maker/model")
    assert destination(config, environment).key == "OR_API_KEY"
    async with opened("ours", server, environment, model=config.model, base_url=None, api_key=None) as target:
        assert (await target.ask(said("hello"))).model == "maker/model"
    assert server.last()["body"]["usage"] == {"include": True} and CANARY in server.last()["headers"]["Authorization"]


async def test_json_that_a_provider_would_drop_is_asked_for_by_an_instruction(server):
    async with opened("litellm", server.origin, model="anthropic/claude-x") as target:
        reply = await target.ask(said("hello", response_format="json"))
    assert "not kept by anthropic/claude-x: asked by instruction" in reply.changes[0]
    assert "one JSON object" in json.dumps(server.last()["body"]["system"])


@pytest.mark.parametrize(
    ("settings", "environment", "words"),
    [
        ({"model": "azure/d", "base_url": None}, {"AZURE_API_KEY": "k"}, "Set base_url .* or AZURE_API_BASE"),
        ({"model": "azure/d", "base_url": "http://h", "api_key": None}, {}, "Set AZURE_API_KEY"),
        ({"model": "mistral/m", "base_url": None, "api_key": None}, {}, "Set MISTRAL_API_KEY"),
        ({"model": "antropic/claude-x", "base_url": None}, {}, "did you mean 'anthropic/claude-x'"),
    ],
)
async def test_what_is_missing_is_found_before_anybody_is_asked(settings, environment, words):
    config = TargetConfig(name="x", **settings)
    with pytest.raises(ConfigurationError, match=words):
        target_kind(config).check(config, TargetContext(environment=environment, root=Path(), load_items=list))


async def test_a_login_that_is_missing_is_said_in_our_words(server):
    if find_spec("boto3") is None:
        pytest.skip("boto3, with which Bedrock is asked, is not installed here")
    async with opened("litellm", server, model="bedrock/amazon.nova-lite-v1:0", base_url=None, api_key=None) as target:
        with pytest.raises(TargetError, match=r"bedrock was not asked: no AWS credentials .* AWS_PROFILE\.$") as caught:
            await target.ask(said("hello"))
    assert caught.value.code == "agentAuthenticationError"


@pytest.mark.parametrize(("model", "package"), [("bedrock/x", "boto3"), ("vertex_ai/x", "google-auth")])
async def test_a_package_that_is_missing_is_named_before_anybody_is_asked(model, package):
    if find_spec("boto3" if package == "boto3" else "google"):
        pytest.skip(f"{package} is installed here")
    config = TargetConfig(name="x", model=model)
    with pytest.raises(ConfigurationError, match=f"asked with the package {package}, .*tui-evals\\["):
        target_kind(config).check(config, TargetContext(environment={}, root=Path(), load_items=list))


async def test_a_prompt_may_not_redirect_litellm(server):
    async with opened("litellm", server, params={"top_a": 1, "extra_headers": {}}) as target:
        for name, value in (("api_base", "http://127.0.0.1:9"), ("extra_headers", {"X": "y"}), ("mock_response", "x")):
            with pytest.raises(TargetError, match=f"parameter {name} may not come from a prompt"):
                await target.ask(said("hello", params={name: value, "top_a": 1, "seed": 1}))
        assert server.counts()["asked"] == 0
        await target.ask(said("hello", params={"top_a": 1, "seed": 1}))
    assert (server.last()["body"]["top_a"], server.last()["body"]["seed"]) == (1, 1)


MODELS = [
    ("openai/gpt-x", "gpt-x"),
    ("hosted_vllm/Qwen/Qwen3-8B", "Qwen/Qwen3-8B"),
    ("Qwen/Qwen3-8B", "Qwen/Qwen3-8B"),
    ("lm_studio/small", "small"),
    ("ollama_chat/llama3", "llama3"),
    ("plain", "plain"),
]


@pytest.mark.parametrize(("model", "sent"), MODELS)
async def test_the_model_as_the_endpoint_knows_it(model, sent, server):
    url = server.url.removesuffix("/v1") if model.startswith("ollama") else server.url + "/"
    assert speaks_openai(TargetConfig(name="x", model=model, base_url=url))
    assert (await outcome("ours", server, "hello", model=model, base_url=url)).model == sent


@pytest.mark.parametrize(
    ("model", "settings", "ours"),
    [
        ("openai/x", {}, True),
        ("ollama_chat/x", {}, True),
        ("anthropic/x", {}, False),
        ("openai", {}, False),
        ("openai/x", {"via": "litellm"}, False),
        ("x/y", {"base_url": "http://h/v1", "via": "litellm"}, False),
    ],
)
async def test_who_is_served_by_our_own_client(model, settings, ours):
    assert speaks_openai(TargetConfig(name="x", model=model, **settings)) is ours


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"model": "hosted_vllm/x", "base_url": None}, "HOSTED_VLLM_API_BASE"),
        ({"base_url": "ftp://host/v1"}, "https://host/v1"),
        ({"base_url": "env:NOWHERE_SET"}, "NOWHERE_SET, which is not set"),
    ],
)
async def test_a_configuration_our_client_cannot_use(settings, words, server):
    with pytest.raises(ConfigurationError, match=words):
        async with opened("ours", server, **settings):
            pass


async def test_the_providers_own_address_needs_a_key(server):
    async with opened("ours", server, {}, base_url=None, api_key=None) as target:
        with pytest.raises(ConfigurationError, match="Set OPENAI_API_KEY"):
            await target.ask(said("hello"))


async def test_secrets_of_an_address_stay_out_of_sentences(server):
    url = server.url.replace("http://", "http://user:pass-word-1@") + f"?token={CANARY}x"
    error = await outcome("ours", server, f"hello [[echo]] {CANARY}x", base_url=url, api_key=None)
    assert "Authorization: Basic" in str(error) and CANARY not in str(error) and "pass-word-1" not in str(error)


async def test_litellm_stays_out_of_this_process():
    assert "litellm" not in sys.modules
