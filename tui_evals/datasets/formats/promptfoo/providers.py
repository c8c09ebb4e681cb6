"""Providers of promptfoo as targets: how each spells a model, and which parameters both know."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from tui_evals.datasets.losses import Losses

from .files import Spot, kind_of

_SPELLINGS = {
    "openai": "openai",
    "openai:chat": "openai",
    "anthropic": "anthropic",
    "anthropic:messages": "anthropic",
    "azure:chat": "azure",
    "azureopenai:chat": "azure",
    "google": "gemini",
    "vertex": "vertex_ai",
    "bedrock": "bedrock",
    "mistral": "mistral",
    "cohere": "cohere",
    "groq": "groq",
    "ollama:chat": "ollama_chat",
    "ollama": "ollama",
    "ollama:completion": "ollama",
    "openrouter": "openrouter",
    "togetherai": "together_ai",
    "deepseek": "deepseek",
    "xai": "xai",
    "perplexity": "perplexity",
    "cerebras": "cerebras",
    "fireworks": "fireworks_ai",
    "replicate": "replicate",
    "github": "github",
    "databricks": "databricks",
}
_WRITTEN = {
    **{ours: theirs for theirs, ours in reversed(_SPELLINGS.items())},
    "openai": "openai",
    "anthropic": "anthropic:messages",
    "azure": "azure:chat",
    "ollama": "ollama:completion",
}
_NO_CHAT = frozenset(
    ("completion", "embedding", "embeddings", "assistant", "image", "moderation", "realtime", "agents")
)
_PARAMETERS = frozenset(
    (
        *("temperature", "max_tokens", "max_completion_tokens", "top_p", "top_k", "seed", "stop"),
        *("reasoning_effort", "frequency_penalty", "presence_penalty"),
    )
)


@dataclass(frozen=True, slots=True)
class Provider:
    """A target as a configuration names it; `api_key` is a reference such as env:NAME, never the key."""

    model: str
    name: str = ""
    params: Mapping[str, Any] = field(default_factory=dict)
    base_url: str | None = None
    api_key: str | None = None


def model_of(written: str) -> str | None:
    """How targets here spell a provider's model; None for one that is no model behind a known interface."""
    kind, _, rest = written.partition(":")
    if kind == "litellm" and rest:
        return rest.removeprefix("chat:")
    second, _, model = rest.partition(":")
    if model and f"{kind}:{second}" in _SPELLINGS:
        return f"{_SPELLINGS[f'{kind}:{second}']}/{model}"
    if kind not in _SPELLINGS or not rest or second in _NO_CHAT | {"responses", "chat"}:
        return None
    return f"{_SPELLINGS[kind]}/{rest}"


def written_model(model: str) -> str | None:
    """How promptfoo spells a target's model; None for a target that is no model."""
    kind, _, rest = model.partition("/")
    if not rest or ":" in kind or model.startswith(("replay:", "python:", "command:")):
        return None
    return f"{_WRITTEN[kind]}:{rest}" if kind in _WRITTEN else f"litellm:{model}"


def read_providers(spot: Spot | None, losses: Losses) -> tuple[Provider, ...]:
    """The targets of a configuration; what is no model is left out and named."""
    if spot is None:
        return ()
    spots = spot.entries() if isinstance(spot.value, list) else [spot]
    found = [_provider(one, losses) for one in spots]
    return tuple(provider for provider in found if provider is not None)


def _provider(spot: Spot, losses: Losses) -> Provider | None:
    if isinstance(spot.value, str):
        written, about = spot.text(), spot
    else:
        written, about = _named(spot)
    model = model_of(written)
    if model is None and written.startswith("openai:responses:"):
        model = f"openai/{written.removeprefix('openai:responses:')}"
        losses.changed(written, spot.where, "it is asked through the chat interface")
    if model is None:
        why = "no target is like it"
        if _is_code(written):
            why = "code runs here as python:module:function or command:ARGV"
        losses.left_out(f"the provider {written}", spot.where, why)
        return None
    losses.carried(f"the provider {written}", spot.where, f"as {model}")
    if isinstance(about.value, str):
        return Provider(model)
    return _detailed(model, about, losses)


def _named(spot: Spot) -> tuple[str, Spot]:
    """The id of a provider and what is said about it, in either of the two ways of writing it."""
    if not isinstance(spot.value, dict):
        raise spot.wrong(f"must be the id of a provider or a mapping with one, not {kind_of(spot.value)}")
    identity = spot.get("id")
    if identity is not None:
        return identity.text(), spot
    members = spot.members()
    if len(members) != 1:
        raise spot.wrong("id is missing; it names the provider, as in openai:gpt-4o")
    key, about = members[0]
    about.mapping()
    return key, about


def _is_code(written: str) -> bool:
    return written.startswith(("file:", "exec:", "python:", "golang:", "ruby:", "package:"))


def _detailed(model: str, spot: Spot, losses: Losses) -> Provider:
    label, config = spot.get("label"), spot.get("config")
    for key, part in spot.members():
        if key not in ("id", "label", "config"):
            losses.left_out(f"{key} of the provider", part.where, "there is no equal")
    name = "" if label is None else label.text()
    if config is None:
        return Provider(model, name)
    known = dict(_configured(config, losses))
    return Provider(model, name, known.get("params", {}), known.get("base_url"), known.get("api_key"))


def _configured(config: Spot, losses: Losses) -> Iterator[tuple[str, Any]]:
    params: dict[str, Any] = {}
    for key, part in config.members():
        if key in _PARAMETERS:
            if isinstance(part.value, dict) or part.value is None:
                raise part.wrong(f"must be a number or text, not {kind_of(part.value)}")
            params[key] = part.value
        elif key in ("apiBaseUrl", "base_url"):
            yield "base_url", part.text()
        elif key == "apiKeyEnvar":
            yield "api_key", f"env:{part.text()}"
        elif key == "apiKey":
            losses.left_out("apiKey of the provider", part.where, "keys are not kept; name a variable with api_key")
        else:
            losses.left_out(f"{key} of the provider", part.where, "there is no equal")
    yield "params", params
