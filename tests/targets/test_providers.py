"""What providers say in their own wire formats, through litellm and through our own client: tokens, ends, refusals."""

import os

import pytest
import pytest_asyncio

from tests.providers import (
    AZURE_BLOCKED,
    GEMINI_BAD_KEY,
    GEMINI_BLOCKED,
    anthropic,
    bedrock,
    gemini,
    gemini_quota,
    openai_chat,
    speaking,
)
from tui_evals.targets.base import Price, Reply, Request, TargetConfig, TargetError, Usage
from tui_evals.targets.openai import OpenAI
from tui_evals.targets.through_litellm import ThroughLitellm

pytestmark = [pytest.mark.story, pytest.mark.asyncio(loop_scope="module")]

ENVIRONMENT = {
    **{name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ},
    "KEY": "sk-of-the-test",
    "AWS_ACCESS_KEY_ID": "AKIAOFTHETEST",
    "AWS_SECRET_ACCESS_KEY": "secret-of-the-test",
    "AWS_REGION_NAME": "us-east-1",
    "AZURE_API_VERSION": "2024-10-21",
}
GEMINI, CLAUDE, AZURE = "gemini/gemini-2.5-flash", "anthropic/claude-sonnet-4-5", "azure/gpt-4o"
BEDROCK, OURS = "bedrock/anthropic.claude-3-5-sonnet-20240620-v1:0", "openai/gpt-4o"
QUESTION = Request(messages=({"role": "user", "content": "hello"},))


@pytest.fixture(scope="module")
def provider():
    with speaking() as provider:
        yield provider


@pytest_asyncio.fixture(scope="module", loop_scope="module", autouse=True)
async def litellm_imported_once(provider):
    """One more user of the child process, so that it outlives each test."""
    kept = target_of(CLAUDE, provider)
    yield
    await kept.close()


def target_of(model, provider, **settings):
    key = {} if model == BEDROCK else {"api_key": "env:KEY"}
    config = TargetConfig(name="test", model=model, base_url=provider.url, via="litellm", **{**key, **settings})
    return OpenAI(config, ENVIRONMENT) if model == OURS else ThroughLitellm(config, ENVIRONMENT)


async def outcome(provider, model, document, status=200, price=None, timeout=20.0, latency=0.0, kind="chat", **headers):
    provider.says(document, status, latency, **headers)
    target = target_of(model, provider, price=price, timeout=timeout, kind=kind)
    try:
        return await target.ask(QUESTION)
    except TargetError as error:
        return error
    finally:
        await target.close()


def openai_usage(cached=0, thought=0, **more):
    details = {"prompt_tokens_details": {"cached_tokens": cached}}
    details["completion_tokens_details"] = {"reasoning_tokens": thought}
    return {"prompt_tokens": 100, "completion_tokens": 50, "total_tokens": 150, **details, **more}


COUNTED = {
    "ours": (OURS, openai_chat(usage=openai_usage(40, 30)), Usage(100, 50, 40, 30), None),
    "azure": (AZURE, openai_chat(usage=openai_usage(40, 30)), Usage(100, 50, 40, 30), 0.0007),
    "gemini": (
        GEMINI,
        gemini(cachedContentTokenCount=40, thoughtsTokenCount=30, totalTokenCount=150),
        Usage(100, 50, 40, 30),
        (60 * 0.3 + 40 * 0.03 + 50 * 2.5) / 1e6,
    ),
    "anthropic": (  # what it read from the cache and what it wrote into it stand beside its input
        CLAUDE,
        anthropic(cache_read_input_tokens=40, cache_creation_input_tokens=10),
        Usage(150, 20, 40, 0),
        (100 * 3.0 + 40 * 0.3 + 10 * 3.75 + 20 * 15.0) / 1e6,
    ),
    "bedrock": (BEDROCK, bedrock(cacheReadInputTokens=40), Usage(100, 20, 40, 0), None),
    "deepseek": (
        OURS,
        openai_chat(usage={"prompt_tokens": 100, "completion_tokens": 20, "prompt_cache_hit_tokens": 40}),
        Usage(100, 20, 40, 0),
        None,
    ),
    "xai": (OURS, openai_chat(usage=openai_usage(0, 30, total_tokens=180)), Usage(100, 80, 0, 30), None),
    "openrouter": (
        "openrouter/openai/gpt-4o",
        openai_chat(usage=openai_usage(40, 30, cost=0.0123)),
        Usage(100, 50, 40, 30),
        0.0123,
    ),
}


@pytest.mark.nightly
@pytest.mark.cases(3)
@pytest.mark.parametrize("who", COUNTED)
async def test_cached_and_thinking_tokens_are_kept_and_priced(who, provider):
    model, document, usage, cost = COUNTED[who]
    reply = await outcome(provider, model, document)
    assert isinstance(reply, Reply) and reply.usage == usage
    if cost is not None:
        assert reply.cost == pytest.approx(cost)


async def test_a_configured_price_stands_over_the_table_and_not_over_what_the_provider_states(provider):
    price = Price(1.0, 1.0, 0.5)
    assert (await outcome(provider, AZURE, openai_chat(), price=price)).cost is None
    stated = openai_chat(usage=openai_usage(cost=0.0123))
    assert (await outcome(provider, "openrouter/openai/gpt-4o", stated, price=price)).cost == 0.0123


async def test_a_price_takes_what_was_cached_for_less():
    usage = Usage(1000, 100, 400)
    assert Price(2.5, 10.0, 1.25).cost(usage) == pytest.approx((600 * 2.5 + 400 * 1.25 + 100 * 10) / 1e6)
    assert Price(2.5, 10.0).cost(usage) == pytest.approx((1000 * 2.5 + 100 * 10) / 1e6)
    assert Price(2.5, 10.0, 3.0).most_per_input == 3.0


BLOCKED = {
    "azure, the question": (AZURE, AZURE_BLOCKED, 400),
    "azure, the answer": (AZURE, openai_chat("content_filter", content=None), 200),
    "ours, by Azure's words": (OURS, AZURE_BLOCKED, 400),
    "ours, the answer": (OURS, openai_chat("content_filter", content=None), 200),
    "gemini, the question": (GEMINI, GEMINI_BLOCKED, 200),
    "gemini, the answer": (GEMINI, gemini("SAFETY", ""), 200),
    "gemini, a list": (GEMINI, gemini("PROHIBITED_CONTENT", ""), 200),
    "anthropic": (CLAUDE, anthropic("refusal", ""), 200),
    "anthropic, an error": (CLAUDE, {"error": {"message": "Output blocked by content filtering policy"}}, 400),
    "openrouter": (
        OURS,
        {"error": {"code": 403, "message": "The model requires moderation and your input was flagged for: sexual"}},
        403,
    ),
    "deepseek": (OURS, {"error": {"message": "Content Exists Risk", "code": "invalid_request_error"}}, 400),
}


@pytest.mark.parametrize("who", BLOCKED)
async def test_a_filter_is_the_same_whoever_has_it(who, provider):
    model, document, status = BLOCKED[who]
    reply = await outcome(provider, model, document, status)
    assert isinstance(reply, Reply), str(reply)
    assert (reply.text, reply.finish_reason) == ("", "content_filter")
    assert (reply.usage is None) == (status != 200)
    assert status == 200 or f"answered {status}: " in reply.diagnostics["blocked"]


async def test_a_filter_that_speaks_in_a_reply_is_the_same_and_leaves_no_embedding(provider):
    document = {"error": {"code": "content_filter", "message": "Blocked"}}
    for status in (200, 400):
        reply = await outcome(provider, OURS, document, status)
        assert isinstance(reply, Reply), str(reply)
        assert (reply.text, reply.finish_reason) == ("", "content_filter")
        assert "answered 400: Blocked" in reply.diagnostics["blocked"]
        assert isinstance(await outcome(provider, OURS, document, status, kind="embedding"), TargetError)


async def test_a_guardrail_keeps_what_it_says_instead(provider):
    reply = await outcome(provider, BEDROCK, bedrock("guardrail_intervened"))
    assert (reply.text, reply.finish_reason) == ("Hi", "content_filter")


CUT = {
    "ours": (OURS, openai_chat("length")),
    "gemini": (GEMINI, gemini("MAX_TOKENS")),
    "anthropic": (CLAUDE, anthropic("max_tokens")),
    "mistral": ("mistral/mistral-small-latest", openai_chat("model_length")),
}


@pytest.mark.parametrize("who", CUT)
async def test_an_answer_that_is_cut_is_cut_at_every_provider(who, provider):
    assert (await outcome(provider, *CUT[who])).finish_reason in ("length", "model_length")


AUTH, RATE = "agentAuthenticationError", "agentRateLimited"
CREDIT = {"error": {"type": "invalid_request_error", "message": "Your credit balance is too low to use the API."}}
EXPIRED = {"message": "The security token included in the request is expired"}
NO_ACCESS = {"message": "You don't have access to the model with the specified model ID."}
PER_DAY = gemini_quota("GenerateRequestsPerDayPerProjectPerModel-FreeTier", "34.07s")
PER_MINUTE = gemini_quota("GenerateRequestsPerMinutePerProjectPerModel-FreeTier", "34.07s")
SECONDS = {"error": {"code": "429", "message": "Rate limit reached on tokens per day. Please try again in 7m12.5s."}}
SPENT = {"error": {"message": "You exceeded your current quota.", "code": "insufficient_quota"}}
REFUSED = {
    # model, document, status, code, ask again, wait, whose fault, words
    "gemini's key": (GEMINI, GEMINI_BAD_KEY, 400, AUTH, False, None, "unknown", "Check the key"),
    "xai's key": (
        OURS,
        {"error": "Incorrect API key provided: xa***."},
        400,
        AUTH,
        False,
        None,
        "unknown",
        "Check the key",
    ),
    "bedrock's key": (BEDROCK, EXPIRED, 403, AUTH, False, None, "unknown", "AWS_ACCESS_KEY_ID"),
    "bedrock's rights": (BEDROCK, NO_ACCESS, 403, AUTH, False, None, "unknown", "may not use this model"),
    "gemini, a minute": (GEMINI, PER_MINUTE, 429, RATE, True, 34.07, "unknown", "You exceeded your current quota"),
    "gemini, a day": (GEMINI, PER_DAY, 429, RATE, False, None, "target", "in a day is spent"),
    "gemini as openai": (OURS, [PER_MINUTE], 429, RATE, True, 34.07, "unknown", "You exceeded your current quota"),
    "bedrock, a day": (BEDROCK, {"message": "Too many tokens per day"}, 429, RATE, False, None, "target", "in a day"),
    "groq": (OURS, SECONDS, 429, RATE, True, 432.5, "unknown", "per day"),
    "openai's credit": (OURS, SPENT, 429, RATE, False, None, "target", "out of credit"),
    "anthropic's credit": (CLAUDE, CREDIT, 400, RATE, False, None, "target", "out of credit"),
    "openrouter's credit": (OURS, {"error": {"message": "No."}}, 402, RATE, False, None, "target", "out of credit"),
}


@pytest.mark.parametrize("who", REFUSED)
async def test_a_refusal_is_told_by_what_the_provider_means(who, provider):
    model, document, status, code, again, wait, fault, words = REFUSED[who]
    error = await outcome(provider, model, document, status)
    assert isinstance(error, TargetError)
    assert (error.code, error.retryable, error.retry_after, error.fault) == (code, again, wait, fault)
    assert words in str(error) and "Check the question" not in str(error)


async def test_the_header_counts_before_the_sentence(provider):
    error = await outcome(provider, OURS, SECONDS, 429, Retry_After="3")
    assert error.retry_after == 3.0


async def test_a_failed_call_took_as_long_as_it_was_out(provider):
    """Not the seconds in which the process that asks gets ready."""
    late = await outcome(provider, CLAUDE, anthropic(), timeout=0.3, latency=1.0)
    refused = await outcome(provider, CLAUDE, PER_MINUTE, 429, latency=0.05)
    reply = await outcome(provider, CLAUDE, anthropic(), latency=0.05)
    assert 0.25 < late.seconds < 0.9 and 0.05 <= refused.seconds < 0.3 and 0.05 <= reply.seconds < 0.3
    assert late.started + late.seconds <= refused.started and refused.started + refused.seconds <= reply.started
