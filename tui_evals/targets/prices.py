"""What models cost, read from the table inside the installed litellm package without importing litellm."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from threading import Lock
from typing import Any

from tui_evals.text.nearest import did_you_mean

from .base import Price

_TABLE = "model_prices_and_context_window_backup.json"
_EXAMPLE = "sample_spec"
"""The first entry of the table, which explains what those of models hold."""
_TABLE_LOCK = Lock()
_PROVIDER_FILES = ("provider_endpoints_support_backup.json", "llms/openai_like/providers.json")
_UNLISTED_PROVIDERS = {
    *("a2a_agent", "aiohttp_openai", "aws_textract", "azure_speech", "charity_engine", "dotprompt", "gdc", "humanloop"),
    *("langflow", "langfuse", "litellm_agent", "modelscope", "mongodb", "nadir", "nvidia_riva", "sagemaker_nova"),
    *("valkey", "vertex_ai_beta"),
}
"""Providers that litellm knows and names in none of its tables."""
_FAMILIES = {
    "gpt": "openai/gpt-4o-mini",
    "claude": "anthropic/claude-haiku-4-5",
    "gemini": "gemini/gemini-2.5-flash",
    "mistral": "mistral/mistral-small-latest",
    "deepseek": "deepseek/deepseek-chat",
}
"""A model for each name by which people call all models of a maker."""


def price_of(model: str) -> Price | None:
    """The listed price of provider/model, None where none is listed."""
    return next((price for entry in _entries(model) if (price := _price(entry))), None)


def model_facts(model: str) -> Mapping[str, Any] | None:
    """What the table says of provider/model besides: what it takes, and how long its answers may be."""
    return next(iter(_entries(model)), None)


def _entries(model: str) -> list[Mapping[str, Any]]:
    """The entries of a model, which may stand under its name alone."""
    model = model.replace("/responses/", "/", 1)
    provider, slash, rest = model.partition("/")
    found = [entry for name in (model, rest) if name and (entry := _entry(name)) is not None]
    return [entry for entry in found if not slash or _is_of_provider(entry, provider)]


def is_known_provider(model: str) -> bool:
    """Whether provider/model names a provider that litellm knows; True where its tables are not there to be read."""
    table = _locked_table()
    return not table or model in table or model.partition("/")[0] in _providers()


def similar_provider(model: str) -> str:
    """` (did you mean 'provider/model'?)` for a provider that is spelled nearly like that of a model."""
    provider, _, rest = model.partition("/")
    return did_you_mean(model, (f"{known}/{rest}" for known in _providers() if abs(len(known) - len(provider)) < 4))


def similar_model(word: str) -> str:
    """` (did you mean 'provider/model'?)` for a model that is called nearly like a word without a provider."""
    full_names = {**_FAMILIES, **_full_names()}
    if word in full_names:
        return f" (did you mean '{full_names[word]}'?)"
    near = did_you_mean(word, full_names)
    return next((near.replace(name, full_names[name]) for name in full_names if f"'{name}'" in near), "")


def _full_names() -> Mapping[str, str]:
    """provider/model by the bare name of each model that talks, its maker before those who resell it."""
    names: dict[str, str] = {}
    for key, entry in _locked_table().items():
        if entry.get("mode") not in ("chat", "responses"):
            continue
        owner, (provider, slash, rest) = str(entry.get("litellm_provider")), key.partition("/")
        if not slash and owner in ("openai", "anthropic"):
            names[key] = f"{owner}/{key}"
        elif slash and "/" not in rest and provider in ("gemini", "mistral", "deepseek", "xai", "groq"):
            names.setdefault(rest, key)
    return names


def _providers() -> set[str]:
    providers = {str(entry.get("litellm_provider")) for entry in _locked_table().values()}
    for name in _PROVIDER_FILES:
        listed = _read(name)
        providers |= set(listed.get("providers", listed))
    return _UNLISTED_PROVIDERS | providers


@cache
def _entry(model: str) -> Mapping[str, Any] | None:
    """What the table says of a model; the rest of its 3 MB stays text where each model begins a line of its own."""
    text = b"" if model == _EXAMPLE else _bytes(_TABLE)
    if not text.startswith(f'{{\n    "{_EXAMPLE}": {{\n'.encode()):
        return _locked_table().get(model)
    place = text.find(b"\n    " + json.dumps(model).encode() + b": {")
    if place < 0:
        return None
    start = text.index(b"{", place)
    entry: dict[str, Any] = json.loads(text[start : text.index(b"\n    }", start) + len(b"\n    }")])
    return entry


def _locked_table() -> Mapping[str, Mapping[str, Any]]:
    with _TABLE_LOCK:
        return _table()


@cache
def _table() -> Mapping[str, Mapping[str, Any]]:
    table = dict(_read(_TABLE))
    table.pop(_EXAMPLE, None)
    return table


def _read(name: str) -> Mapping[str, Any]:
    """A JSON file inside the installed litellm package, empty where there is none."""
    content: dict[str, Any] = json.loads(_bytes(name) or b"{}")
    return content


def _bytes(name: str) -> bytes:
    """The bytes of a file inside the installed litellm package, none where there is no such file."""
    # find_spec of a top-level name does not import it; importlib.resources would, which takes seconds.
    spec = importlib.util.find_spec("litellm")
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        file = Path(folder, name)
        if file.is_file():
            return file.read_bytes()
    return b""


def _is_of_provider(entry: Mapping[str, Any] | None, provider: str) -> bool:
    """Whether the entry is this provider's; some providers are listed under several names such as vertex_ai-…."""
    owner = str((entry or {}).get("litellm_provider"))
    return owner == provider or owner.startswith((f"{provider}_", f"{provider}-"))


def _price(entry: Mapping[str, Any] | None) -> Price | None:
    known = entry or {}
    input_cost, output_cost = (_per_million(known.get(f"{side}_cost_per_token")) for side in ("input", "output"))
    if known.get("mode") == "embedding":  # nothing is written, which some entries leave unsaid
        output_cost = output_cost or 0.0
    if input_cost is None or output_cost is None:
        return None
    cached = known.get("cache_read_input_token_cost", known.get("input_cost_per_token_cache_hit"))
    return Price(input_cost, output_cost, _per_million(cached))


def _per_million(cost: object) -> float | None:
    return round(cost * 1e6, 9) if isinstance(cost, int | float) else None
