"""The kinds of targets, and from a configuration to the target: what kind it is, how it is made, what names it."""

from __future__ import annotations

import hashlib
import importlib
import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tui_evals.plugins import UnusablePlugin, installed, installed_named
from tui_evals.targets.providers import address_variable, provider_of, speaks_openai

from .base import ConfigurationError, Reply, Request, Target, TargetConfig, TargetContext, TargetKind
from .permissions import demand_approval

GROUP = "tui_evals.targets"
_BUILT_IN = {
    "replay": "answers",
    "python": "function",
    "command": "command",
    "a2a": "a2a",
    "demo": "demo",
}
"""The module for each word that a model can start with; it is imported on first use."""
_WORD = re.compile(r"[A-Za-z][\w.-]*")


def target_kind(config: TargetConfig) -> TargetKind:
    """The kind of a target; ConfigurationError for an installed package that cannot be used."""
    if config.http is not None:
        return _declared("service")
    if config.kind == "embedding":
        return _declared("embedding")
    kind = _kind_by_word(config.model)
    if kind is not None:
        return kind
    return _declared("openai" if speaks_openai(config) else "through_litellm")


def kind_of(config: TargetConfig) -> str:
    """The name of a target's kind."""
    return target_kind(config).name


def is_spelled(model: str) -> bool:
    """Whether a model begins with the word of a kind, and says after it what that kind needs."""
    try:
        kind = _kind_by_word(model)
    except ConfigurationError:
        return True  # opening it reports the error of the package
    return kind is not None and (":" not in kind.form or bool(model.partition(":")[2].strip()))


def model_forms() -> str:
    """All forms of a model, for a sentence."""
    *forms, last = [_declared(module).form for module in _BUILT_IN.values()]
    added = [kind.form for kind in installed(GROUP, TargetKind, "target", _BUILT_IN).by_name.values()]
    return f"a model is written as {', '.join(['provider/name', *forms, *added])} or {last}"


def _kind_by_word(model: str) -> TargetKind | None:
    """The kind whose word a model begins with; installed packages come last, because looking them up takes time."""
    word, colon, _ = model.partition(":")
    if word in _BUILT_IN:
        kind: TargetKind | None = _declared(_BUILT_IN[word])
    else:
        kind = _installed(word) if _WORD.fullmatch(word) else None
    return kind if kind is not None and (":" in kind.form) == bool(colon) else None


def _declared(module: str) -> TargetKind:
    kind: TargetKind = importlib.import_module(f".{module}", __package__).KIND
    return kind


@cache
def _installed(word: str) -> TargetKind | None:
    try:
        return installed_named(GROUP, word, TargetKind, "target")
    except UnusablePlugin as problem:
        raise ConfigurationError(str(problem)) from None


class Later:
    """A target that is opened with its first question."""

    def __init__(self, opening: Callable[[], Target]) -> None:
        self._opening = opening
        self._target: Target | None = None

    async def ask(self, request: Request) -> Reply:
        """The answer of the target."""
        return await self._opened().ask(request)

    @property
    def keeps_time(self) -> bool:
        """Whether the target ends its attempts itself."""
        return getattr(self._opened(), "keeps_time", False)

    def _opened(self) -> Target:
        self._target = self._target or self._opening()
        return self._target

    async def close(self) -> None:
        """Close the target, if it was opened."""
        if self._target is not None:
            await self._target.close()


def open_target(
    config: TargetConfig,
    environment: Mapping[str, str],
    root: Path,
    load_items: Callable[[Path], Sequence[Mapping[str, Any]]],
) -> Target:
    """Open the target of a configuration; `load_items` reads the items of a dataset file, for recorded answers.

    NotApproved lists permissions that the project needs and you have not given.
    """
    demand_approval([config], environment, root)
    return target_kind(config).open(config, TargetContext(environment=environment, root=root, load_items=load_items))


def identity(config: TargetConfig, environment: Mapping[str, str] | None = None) -> dict[str, Any]:
    """The settings that affect a target's answers, as plain data without secrets; not its name, limits and price."""
    known = {} if config.kind == "chat" else {"kind": config.kind}
    return {
        **known,
        "model": config.model,
        "base_url": _address(config, environment or {}),
        "params": dict(config.params),
        "via": config.via,
        **({"tools": config.tools.data} if config.tools else {}),
        **({"headers": dict(config.headers)} if config.headers else {}),
        **({"stream": True} if config.stream else {}),
        **({"api": config.api} if config.api != "chat" else {}),
        **({"answer": config.answer} if config.answer != "last" else {}),
        **({"think": config.think} if config.think != "auto" else {}),
        **({"http": config.http.data} if config.http is not None else {}),
        **({"door": config.door} if config.door else {}),
    }


def identity_changes(before: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """The differences of two identities, in words."""
    names = [name for name in {**before, **now} if before.get(name) != now.get(name)]
    return ", ".join(f"{name} {_shown(now.get(name))} instead of {_shown(before.get(name))}" for name in names)


def _shown(value: Any) -> str:
    return "none" if value in (None, {}, "") else str(value)


def _address(config: TargetConfig, environment: Mapping[str, str]) -> str | None:
    """The address of the target if it is not the provider's own; a query is only shown as a hash."""
    written, provider = config.address, provider_of(config.model)
    if written is None and provider and ":" not in provider:
        written = environment.get(address_variable(provider, environment) or "")
    elif written is not None and written.startswith("env:"):
        written = environment.get(written.removeprefix("env:"))
    if not written:
        return None
    parts = urlsplit(written)
    query = f"?{hashlib.sha256(parts.query.encode()).hexdigest()[:8]}" if parts.query else ""
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path.rstrip('/')}{query}"
