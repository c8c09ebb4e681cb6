"""The providers whose models our own client asks: whose variables and address they have."""

from __future__ import annotations

from typing import NamedTuple

from .base import TargetConfig


class Provider(NamedTuple):
    """The prefix of a provider's variables, and its usual address."""

    variables: str
    url: str | None = None


PROVIDERS = {
    "openai": Provider("OPENAI", "https://api.openai.com/v1"),
    "hosted_vllm": Provider("HOSTED_VLLM"),
    "lm_studio": Provider("LM_STUDIO", "http://127.0.0.1:1234/v1"),
    "ollama_chat": Provider("OLLAMA", "http://127.0.0.1:11434/v1"),
}


def speaks_openai(config: TargetConfig) -> bool:
    """Whether this client serves the target, rather than litellm."""
    provider, slash, _ = config.model.partition("/")
    return config.via == "auto" and (config.base_url is not None or bool(slash and provider in PROVIDERS))


RESPONSES_PREFIX = "responses/"
"""How a model begins, after its provider, that is asked by OpenAI's Responses protocol."""


def asks_responses(config: TargetConfig) -> bool:
    """Whether the model is asked by OpenAI's Responses protocol instead of the chat completions."""
    provider, _, model = config.model.partition("/")
    return config.api == "responses" or (provider in PROVIDERS and model.startswith(RESPONSES_PREFIX))
