"""The providers people have: whose models our own client asks, what the others speak, and where their variables are."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from .base import TargetConfig

CHAT_COMPLETIONS = "OpenAI chat completions"
RESPONSES = "OpenAI Responses"


@dataclass(frozen=True, slots=True, kw_only=True)
class Provider:
    """How a provider is reached."""

    variables: str
    """How its variables begin."""
    url: str | None = None
    """Its usual address, where our own client asks it."""
    ours: bool = False
    """Whether our own client asks it, rather than litellm."""
    asks_besides: Mapping[str, Any] = field(default_factory=dict)
    """What our own client writes into every question to it."""
    protocol: str = CHAT_COMPLETIONS
    keys: tuple[str, ...] = ()
    """The variables of which it needs one; litellm itself says so only once it is asked, after seconds."""
    needs_address: bool = False
    """Whether it has no address that is the same for everybody."""
    module: str = ""
    """The Python module without which litellm cannot ask it."""
    extra: str = ""
    """The extra of this package that brings that module."""


PROVIDERS: Mapping[str, Provider] = {
    "openai": Provider(variables="OPENAI", url="https://api.openai.com/v1", ours=True, keys=("OPENAI_API_KEY",)),
    "groq": Provider(variables="GROQ", url="https://api.groq.com/openai/v1", ours=True, keys=("GROQ_API_KEY",)),
    "openrouter": Provider(
        variables="OPENROUTER",
        url="https://openrouter.ai/api/v1",
        ours=True,
        keys=("OPENROUTER_API_KEY", "OR_API_KEY"),
        asks_besides={"usage": {"include": True}},  # it says what a question cost
    ),
    "hosted_vllm": Provider(variables="HOSTED_VLLM", ours=True),
    "lm_studio": Provider(variables="LM_STUDIO", url="http://127.0.0.1:1234/v1", ours=True),
    "ollama_chat": Provider(variables="OLLAMA", url="http://127.0.0.1:11434/v1", ours=True),
    "ollama": Provider(variables="OLLAMA", url="http://127.0.0.1:11434/v1", ours=True),
    "anthropic": Provider(
        variables="ANTHROPIC",
        protocol="Anthropic Messages",
        keys=("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_FEDERATION_RULE_ID"),
    ),
    "azure": Provider(
        variables="AZURE",
        protocol="Azure OpenAI",
        keys=("AZURE_API_KEY", "AZURE_OPENAI_API_KEY", "AZURE_AD_TOKEN", "AZURE_CLIENT_ID", "AZURE_CREDENTIAL"),
        needs_address=True,
    ),
    "azure_ai": Provider(
        variables="AZURE_AI", protocol="Azure AI", keys=("AZURE_AI_API_KEY", "AZURE_CLIENT_ID"), needs_address=True
    ),
    "gemini": Provider(
        variables="GEMINI", protocol="Gemini generateContent", keys=("GEMINI_API_KEY", "GOOGLE_API_KEY")
    ),
    "vertex_ai": Provider(variables="VERTEX_AI", protocol="Vertex AI", module="google.auth", extra="vertex"),
    "bedrock": Provider(variables="BEDROCK", protocol="Bedrock", module="boto3", extra="bedrock"),
    "sagemaker": Provider(variables="SAGEMAKER", protocol="SageMaker", module="boto3", extra="bedrock"),
    "sagemaker_chat": Provider(variables="SAGEMAKER", protocol="SageMaker", module="boto3", extra="bedrock"),
    "mistral": Provider(
        variables="MISTRAL", protocol="Mistral chat completions", keys=("MISTRAL_API_KEY", "MISTRAL_AZURE_API_KEY")
    ),
    "deepseek": Provider(variables="DEEPSEEK", keys=("DEEPSEEK_API_KEY",)),
    "xai": Provider(variables="XAI", keys=("XAI_API_KEY",)),
}
_OWN_PROTOCOLS = {
    *("anthropic_text", "azure_text", "vertex_ai_beta", "bedrock_mantle", "cohere", "cohere_chat", "replicate"),
    *("watsonx", "watsonx_text", "oci", "snowflake", "cloudflare", "predibase", "nlp_cloud", "triton", "maritalk"),
    *("codestral", "text-completion-openai", "text-completion-codestral", "gigachat", "langgraph"),
}
"""The others whose protocol is their own, for which an address is theirs as well."""


def provider_of(model: str) -> str:
    """The provider that a model names; empty for one that names none."""
    provider, slash, _ = model.partition("/")
    return provider if slash else ""


def _usual_protocol(config: TargetConfig) -> str:
    """What is spoken with the provider of a target."""
    provider = provider_of(config.model)
    known = PROVIDERS.get(provider)
    if known is not None:
        return known.protocol
    return f"that of {provider}" if provider in _OWN_PROTOCOLS else CHAT_COMPLETIONS


def speaks_openai(config: TargetConfig) -> bool:
    """Whether this client serves the target, rather than litellm; an address changes nobody's protocol."""
    if config.via != "auto":
        return False
    known = PROVIDERS.get(provider_of(config.model))
    ours = known is not None and known.ours
    return ours or (config.base_url is not None and _usual_protocol(config) == CHAT_COMPLETIONS)


def variables_of(provider: str) -> str:
    """How the variables of a provider begin."""
    known = PROVIDERS.get(provider)
    return known.variables if known else re.sub(r"[^A-Z0-9]+", "_", provider.removesuffix("_chat").upper())


def address_variable(provider: str, environment: Mapping[str, str]) -> str | None:
    """The variable that says where a provider is asked, where one does."""
    beginning = variables_of(provider)
    usual = (f"{beginning}_BASE_URL", f"{beginning}_API_BASE") if beginning else ()
    return next((name for name in usual if environment.get(name)), None)


RESPONSES_PREFIX = "responses/"
"""How a model begins, after its provider, that is asked by OpenAI's Responses protocol."""


def asks_responses(config: TargetConfig) -> bool:
    """Whether the model is asked by OpenAI's Responses protocol instead of the chat completions."""
    provider, _, model = config.model.partition("/")
    return config.api == "responses" or (provider in PROVIDERS and model.startswith(RESPONSES_PREFIX))


def protocol_of(config: TargetConfig) -> str:
    """What is spoken with a target."""
    return RESPONSES if speaks_openai(config) and asks_responses(config) else _usual_protocol(config)
