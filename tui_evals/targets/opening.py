"""From a target's configuration to the target: what kind it is, how it is made, what names it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

from .base import ConfigurationError, Reply, Request, Target, TargetConfig

Kind = Literal["demo", "replay", "python", "command", "openai", "litellm"]


def kind_of(config: TargetConfig) -> Kind:
    """What serves a target; only the last two ask a model over the network."""
    if config.model == "demo":
        return "demo"
    for kind in ("replay", "python", "command"):
        if config.model.startswith(f"{kind}:"):
            return kind
    from .openai import speaks_openai

    return "openai" if speaks_openai(config) else "litellm"


class Later:
    """A target that is opened when it is asked for the first time."""

    def __init__(self, opening: Callable[[], Target]) -> None:
        self._opening = opening
        self._target: Target | None = None

    async def ask(self, request: Request) -> Reply:
        """The answer of the target."""
        self._target = self._target or self._opening()
        return await self._target.ask(request)

    async def close(self) -> None:
        """Give back what the target holds, if it was opened."""
        if self._target is not None:
            await self._target.close()


def open_target(
    config: TargetConfig,
    environment: Mapping[str, str],
    root: Path,
    load_items: Callable[[Path], Sequence[Mapping[str, Any]]],
) -> Target:
    """The target of a configuration; `load_items` reads the items of a dataset file, for answers captured earlier."""
    match kind_of(config):
        case "demo":
            from tui_evals.targets.demo.answering import Demo

            return Demo(config)
        case "replay":
            from .replay import Replay, captured

            named = config.model.removeprefix("replay:")
            return Replay(captured(load_items(_below(root, named)), named), named)
        case "python":
            from .function import named_function

            return named_function(config, root)
        case "command":
            from .command import command_target

            return command_target(config, environment, root)
        case "openai":
            from .openai import OpenAI

            return OpenAI(config, environment)
        case "litellm":
            from .through_litellm import ThroughLitellm

            return ThroughLitellm(config, environment)


def _below(root: Path, named: str) -> Path:
    """The file, which must lie in the project, symbolic links followed."""
    try:
        file = (root / named).resolve()
    except (OSError, ValueError, RuntimeError):
        raise ConfigurationError(f"replay:{named!r} is no path of a file") from None
    if not file.is_relative_to(root.resolve()):
        raise ConfigurationError(f"replay:{named} lies outside the project; copy the file below {root}")
    return file


def identity(config: TargetConfig, environment: Mapping[str, str] | None = None) -> dict[str, Any]:
    """What decides a target's answers, as plain data without a secret: its name, limits and price do not."""
    return {
        "model": config.model,
        "base_url": _address(config, environment or {}),
        "params": dict(config.params),
        "via": config.via,
    }


def _address(config: TargetConfig, environment: Mapping[str, str]) -> str | None:
    """Where the target is asked, when that is not the provider's own address; a query is told apart, not shown."""
    written, (provider, slash, _) = config.base_url, config.model.partition("/")
    if written is None and slash and ":" not in provider:
        variables = provider.removesuffix("_chat").upper()
        written = environment.get(f"{variables}_BASE_URL") or environment.get(f"{variables}_API_BASE")
    elif written is not None and written.startswith("env:"):
        written = environment.get(written.removeprefix("env:"))
    if not written:
        return None
    parts = urlsplit(written)
    query = f"?{hashlib.sha256(parts.query.encode()).hexdigest()[:8]}" if parts.query else ""
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path.rstrip('/')}{query}"
