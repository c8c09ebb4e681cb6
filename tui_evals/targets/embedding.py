"""Targets of kind embedding: they give a vector for each text, over the same endpoints as models that answer.

Whatever else targets share, limits, retries, budget and cache, holds for them unchanged.
"""

from __future__ import annotations

from tui_evals.targets.providers import speaks_openai

from .base import ConfigurationError, Target, TargetConfig, TargetContext, TargetKind
from .openai import OpenAI
from .through_litellm import KIND as LITELLM
from .through_litellm import ThroughLitellm


def _open(config: TargetConfig, context: TargetContext) -> Target:
    _check_model(config)
    if speaks_openai(config):
        return OpenAI(config, context.environment)
    return ThroughLitellm(config, context.environment)


def _check(config: TargetConfig, context: TargetContext) -> str | None:
    _check_model(config)
    if speaks_openai(config):
        return OpenAI(config, context.environment).check()
    return LITELLM.check(config, context) if LITELLM.check is not None else None


def _check_model(config: TargetConfig) -> None:
    """Raise ConfigurationError if the model names no provider."""
    if config.base_url is None and "/" not in config.model:
        raise ConfigurationError(
            f"The target {config.name} is of kind embedding, and {config.model} gives none. Write its model as "
            "provider/name, such as openai/text-embedding-3-small, or give the base_url of a server that has it."
        )


KIND = TargetKind(form="embedding", open=_open, asks_model=True, check=_check)
