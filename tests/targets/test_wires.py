"""Every provider by its own wire, against servers that refuse what the real ones refuse."""

import pytest
import pytest_asyncio

from tests.wires import (
    ANSWER,
    BEGINS,
    FAILING,
    FIND,
    PAGE,
    PROVIDERS,
    QUESTIONS,
    TEXT,
    THOUGHT,
    ask,
    environment,
    litellm_kept,
    observed,
    speaking,
)
from tui_evals.runs.prompting import messages_of_step
from tui_evals.targets.base import Request, TargetError
from tui_evals.targets.providers import PROVIDERS as KNOWN
from tui_evals.targets.providers import provider_of
from tui_evals.transcript import other_parts, reasoning_text

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.story]
STREAMED = [who for who, spoken in PROVIDERS.items() if KNOWN[provider_of(spoken.model)].ours]
WAYS = [*((who, {}) for who in PROVIDERS), *((who, {"stream": True}) for who in STREAMED)]


@pytest.fixture(scope="module")
def wires():
    with speaking() as made:
        yield made


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def variables(wires, tmp_path_factory):
    variables = environment(tmp_path_factory.mktemp("keys"), wires.origin)
    async with litellm_kept(wires, variables):
        yield variables


@pytest.mark.nightly
async def test_the_page_says_what_is_sent_to_each_provider(wires, variables):
    page = PAGE.read_text(encoding="utf-8")
    assert page[page.index(BEGINS) :] == await observed(wires, variables), "python -m tests.wires writes it anew"
    assert not wires.refusals


@pytest.mark.parametrize("who", PROVIDERS)
async def test_tools_schemas_and_pictures_are_answered(who, wires, variables):
    expected = {"Tools": "", "Schema": '{"paid": true}', "Pictures": "a red square"}
    for name, text in expected.items():
        _, request, settings = QUESTIONS[name]
        reply = await ask(who, wires, variables, request, **settings)
        assert reply.text == text
        assert [call["name"] for call in reply.tool_calls] == (["find"] if name == "Tools" else [])


@pytest.mark.parametrize(("who", "settings"), WAYS)
async def test_a_tool_loop_with_thinking_takes_two_steps(who, settings, wires, variables):
    settings = {**settings, "params": {"reasoning_effort": "low"}}
    first = await ask(who, wires, variables, Request(messages=TEXT, tools=(FIND,)), **settings)
    shows_thoughts = who not in ("OpenAI", "Azure")
    assert (first.transcript is not None and reasoning_text(first.transcript) == THOUGHT) is shows_thoughts
    calls = [{**call, "result": "paid"} for call in first.tool_calls]
    parts = other_parts(first.transcript) if first.transcript else ()
    said = messages_of_step({"text": first.text, "calls": calls, "parts": parts})
    last = await ask(who, wires, variables, Request(messages=(*TEXT, *said), tools=(FIND,)), **settings)
    assert (last.text, last.tool_calls, wires.refusals) == (ANSWER, (), [])


@pytest.mark.cases(5)
@pytest.mark.parametrize(("who", "settings"), WAYS)
async def test_an_error_in_a_body_or_a_stream_is_the_one_it_states(who, settings, wires, variables):
    with pytest.raises(TargetError, match=r"answered 503: The model is overloaded\. It may pass") as raised:
        await ask(who, wires, variables, Request(messages=({"role": "user", "content": FAILING},)), **settings)
    assert raised.value.retryable and raised.value.status == 503
