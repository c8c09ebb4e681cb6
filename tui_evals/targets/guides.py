"""What to type for each provider: the section of the configuration, its variables, and what has to be installed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from .providers import PROVIDERS


@dataclass(frozen=True, slots=True)
class Guide:
    """How one provider is configured."""

    title: str
    provider: str
    """Its word in `PROVIDERS`, which knows its variables and what it needs installed."""
    model: str
    base_url: str = ""
    """Its address, where there is none that is the same for everybody; a comment where another is usual."""
    variables: tuple[tuple[str, str], ...] = ()
    """Further variables, each with what it says."""
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
        """Its section of `.evals/config.toml` under a name."""
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
        lines += ["", "beside tui-evals:", "", f"    pip install 'tui-evals[{guide.extra}]'"]
    lines += ["", f"Spoken is {protocol}, at a base_url of your own too.", *([guide.note] if guide.note else [])]
    return [*lines, f"Then: tui-evals targets check {name}"]
