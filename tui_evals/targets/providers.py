"""The providers: which protocol each speaks, its variables, and what to write in the configuration."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import field
from typing import Any

from tui_evals.light_records import dataclass
from tui_evals.targets.base import TargetConfig

CHAT_COMPLETIONS = "OpenAI chat completions"
RESPONSES = "OpenAI Responses"


@dataclass(frozen=True, slots=True, kw_only=True)
class Provider:
    """How a provider is reached."""

    variables: str
    """How its variables begin."""
    url: str | None = None
    """Its usual address, if our own client calls it."""
    ours: bool = False
    """Whether our own client asks it, rather than litellm."""
    asks_besides: Mapping[str, Any] = field(default_factory=dict)
    """Fields that our client adds to every request."""
    protocol: str = CHAT_COMPLETIONS
    keys: tuple[str, ...] = ()
    """The variables of which one must be set; litellm reports that only after seconds."""
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
        asks_besides={"usage": {"include": True}},  # returns the cost of a question
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
"""Other providers with a protocol of their own, which also applies at a configured address."""


def provider_of(model: str) -> str:
    """The provider that a model names; empty for one that names none."""
    provider, slash, _ = model.partition("/")
    return provider if slash else ""


def _usual_protocol(config: TargetConfig) -> str:
    """The protocol of a target's provider."""
    provider = provider_of(config.model)
    known = PROVIDERS.get(provider)
    if known is not None:
        return known.protocol
    return f"that of {provider}" if provider in _OWN_PROTOCOLS else CHAT_COMPLETIONS


def speaks_openai(config: TargetConfig) -> bool:
    """Whether this client serves the target, rather than litellm; an address does not change the protocol."""
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
    """The variable with the address of a provider, if one is set."""
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
    """The protocol of a target."""
    return RESPONSES if speaks_openai(config) and asks_responses(config) else _usual_protocol(config)


@dataclass(frozen=True, slots=True)
class Guide:
    """How one provider is configured."""

    title: str
    provider: str
    """Its key in `PROVIDERS`, which has its variables and its packages."""
    model: str
    base_url: str = ""
    """Its address, if it differs for everyone; else a comment."""
    variables: tuple[tuple[str, str], ...] = ()
    """Further variables, each with its meaning."""
    note: str = ""

    @property
    def key(self) -> str:
        """The variable of its key; empty for one that has none."""
        return next(iter(PROVIDERS[self.provider].keys), "")

    @property
    def extra(self) -> str:
        """The extra of this package that it takes; empty where it takes none."""
        return PROVIDERS[self.provider].extra

    def section(self, name: str) -> str:
        """The section of `.evals/config.toml` with this name."""
        lines = [f"[targets.{name}]", f'model = "{self.model}"']
        lines += [f'base_url = "{self.base_url}"'] if self.base_url else []
        lines += [f'api_key = "env:{self.key}"'] if self.key else []
        return "\n".join(lines)


GUIDES: Mapping[str, Guide] = {
    "openai": Guide("OpenAI", "openai", "openai/gpt-4o-mini"),
    "anthropic": Guide("Anthropic", "anthropic", "anthropic/claude-haiku-4-5"),
    "azure": Guide(
        "Azure OpenAI",
        "azure",
        "azure/MY-DEPLOYMENT",
        base_url="https://MY-RESOURCE.openai.azure.com",
        variables=(("AZURE_API_VERSION", "the version of the API, where it has to be a certain one"),),
        note="The model is the name of your deployment. What it takes is learnt from its refusals; one that thinks "
        'gets room for that with params = { reasoning_effort = "medium" }. For --max-cost it needs a price: '
        "price = { input_per_million = …, output_per_million = … }",
    ),
    "gemini": Guide("Google Gemini (AI Studio)", "gemini", "gemini/gemini-2.5-flash"),
    "vertex": Guide(
        "Google Vertex AI",
        "vertex_ai",
        "vertex_ai/gemini-2.5-flash",
        variables=(
            ("VERTEXAI_PROJECT", "your project"),
            ("VERTEXAI_LOCATION", "its region, such as europe-west4"),
            ("GOOGLE_APPLICATION_CREDENTIALS", "a key file; or log in with `gcloud auth application-default login`"),
        ),
    ),
    "bedrock": Guide(
        "Amazon Bedrock",
        "bedrock",
        "bedrock/anthropic.claude-3-5-haiku-20241022-v1:0",
        variables=(
            ("AWS_REGION_NAME", "your region, such as eu-central-1"),
            ("AWS_ACCESS_KEY_ID", "and AWS_SECRET_ACCESS_KEY; or AWS_PROFILE, or AWS_BEARER_TOKEN_BEDROCK"),
        ),
    ),
    "mistral": Guide("Mistral", "mistral", "mistral/mistral-small-latest"),
    "groq": Guide("Groq", "groq", "groq/llama-3.3-70b-versatile"),
    "openrouter": Guide("OpenRouter", "openrouter", "openrouter/openai/gpt-4o-mini"),
    "ollama": Guide(
        "Ollama",
        "ollama_chat",
        "ollama_chat/llama3.2",
        note="It is asked at http://127.0.0.1:11434; base_url or OLLAMA_API_BASE name another place.",
    ),
    "vllm": Guide("vLLM", "hosted_vllm", "hosted_vllm/Qwen/Qwen3-8B", base_url="http://127.0.0.1:8000/v1"),
    "lmstudio": Guide(
        "LM Studio",
        "lm_studio",
        "lm_studio/MY-MODEL",
        note="It is asked at http://127.0.0.1:1234/v1; base_url or LM_STUDIO_API_BASE name another place.",
    ),
    "proxy": Guide(
        "A LiteLLM proxy, or any gateway that speaks OpenAI's protocol",
        "openai",
        "openai/MODEL-OF-THE-PROXY",
        base_url="http://127.0.0.1:4000/v1",
        note="Leave api_key out where the gateway wants none. openai/ says the protocol, whatever the gateway asks.",
    ),
}
_SPELLINGS = {
    "vertex_ai": "vertex",
    "hosted_vllm": "vllm",
    "lm_studio": "lmstudio",
    "ollama_chat": "ollama",
    "litellm": "proxy",
    "aws": "bedrock",
    "google": "gemini",
}


def find_guide(word: str) -> tuple[str, Guide] | None:
    """The guide to a provider, by its name here or the one its models begin with."""
    name = word.casefold()
    name = _SPELLINGS.get(name, name)
    return (name, GUIDES[name]) if name in GUIDES else None


def guide_lines(name: str, guide: Guide) -> list[str]:
    """Everything to type for a provider."""
    protocol = PROVIDERS[guide.provider].protocol
    lines = [guide.title, "", "in .evals/config.toml:", ""]
    lines += [f"    {line}" for line in guide.section(name).splitlines()]
    variables = [*([(guide.key, "your key")] if guide.key else []), *guide.variables]
    if variables:
        lines += ["", "in the environment or .env.local:", ""]
        lines += [f"    {variable:<32}{says}" for variable, says in variables]
    if guide.extra:
        lines += ["", "in the Python of tui-evals:", "", f"    pip install 'tui-evals[{guide.extra}]'"]
    lines += ["", f"Spoken is {protocol}, at a base_url of your own too.", *([guide.note] if guide.note else [])]
    return [*lines, f"Then: tui-evals targets check {name}"]
