"""Prices come out of litellm's table, and only for the provider that was named."""

import subprocess
import sys

import pytest

from tui_evals.targets.base import Price
from tui_evals.targets.model_table import price_of

LISTED = {
    "openai/gpt-4o-mini": Price(0.15, 0.6, 0.075),
    "gpt-4o-mini": Price(0.15, 0.6, 0.075),
    "anthropic/claude-sonnet-4-5": Price(3.0, 15.0, 0.3),
    "azure/gpt-4o": Price(2.5, 10.0, 1.25),
    "gemini/gemini-2.5-flash": Price(0.3, 2.5, 0.03),
    "deepseek/deepseek-chat": Price(0.28, 0.42, 0.028),
    "bedrock/anthropic.claude-3-5-sonnet-20240620-v1:0": Price(3.0, 15.0, 0.3),
}
UNLISTED = [
    "openai/no-such-model",
    "hosted_vllm/gpt-4o-mini",
    "anthropic/gpt-4o-mini",
    "sample_spec",
    "openai/dall-e-3",
    "demo",
    "",
    "/",
]


@pytest.mark.parametrize(("model", "price"), LISTED.items())
def test_a_listed_model_has_its_price(model, price):
    assert price_of(model) == price


@pytest.mark.parametrize("model", UNLISTED)
def test_a_model_that_is_not_listed_has_no_price_rather_than_none_to_pay(model):
    assert price_of(model) is None


def test_the_table_is_read_without_importing_litellm():
    code = (
        "import sys; from tui_evals.targets.model_table import price_of; assert price_of('gpt-4o'); print(*sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"litellm", "aiohttp", "pydantic"} & set(done.stdout.split())


def test_without_litellm_nothing_has_a_price():
    code = (
        "import importlib.util as util; util.find_spec = lambda name: None;"
        "from tui_evals.targets.model_table import price_of; print(price_of('gpt-4o'))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "None"
