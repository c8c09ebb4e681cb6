"""Open a target for a run: price it, fit its concurrency, apply the parameters that an eval suggests."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from math import isfinite
from pathlib import Path
from typing import Any, Literal

from tui_evals.datasets.document import Document, load
from tui_evals.files import Calls
from tui_evals.runs.approving import find_typed
from tui_evals.runs.asking import PricedTarget
from tui_evals.runs.availability import Room, room_of
from tui_evals.runs.limits import Budget, Reservations
from tui_evals.runs.tools import Toolbox
from tui_evals.store.reader import Reader
from tui_evals.store.records import RunRow
from tui_evals.targets.base import ConfigurationError, Price, Target, TargetConfig
from tui_evals.targets.config import Settings, find_target
from tui_evals.targets.model_table import price_of
from tui_evals.targets.opening import Later, identity, open_target, target_kind
from tui_evals.targets.sweep import base_name


def price_for(config: TargetConfig) -> Price | None:
    """What a target costs: as configured, zero if it is free, else by the table; None is unpriced."""
    if config.price is not None:
        return config.price
    return price_of(config.model) if target_kind(config).asks_model else Price(0.0, 0.0)


def demand_price(config: TargetConfig, most: float | None) -> Price | None:
    """What a target costs; ConfigurationError when that is not known and `most` must not be exceeded."""
    price = price_for(config)
    if price is None and most is not None:
        raise ConfigurationError(
            f"the price of {config.name} ({config.model}) is not known, so --max-cost cannot be kept; give it in "
            ".evals/config.toml: [targets.NAME] price = { input_per_million = …, output_per_million = … }, or price = "
            "{ per_call = … }"
        )
    return price


_FILES_OF_A_COMMAND = 4
"""Three pipes to the program that answers, and a watch over its end."""


def calls_at_once(
    targets: Iterable[TargetConfig], judges: Iterable[TargetConfig], concurrency: int | None
) -> dict[str, Calls]:
    """The calls of each target and judge that a run would have in flight, by name; parameters share their target's."""

    def calls(config: TargetConfig) -> Calls:
        files = _FILES_OF_A_COMMAND if config.model.startswith("command:") else 1
        return Calls(concurrency or config.concurrency, files)

    asked = {base_name(config.name): calls(config) for config in targets}
    return asked | {judge_label(config.name): calls(config) for config in judges}


def judge_label(name: str) -> str:
    """How the calls of a judge are called, which may be a target too."""
    return f"judge {base_name(name)}"


def opened(
    config: TargetConfig,
    kind: Literal["target", "judge", "generator"],
    budget: Reservations,
    environment: Mapping[str, str],
    root: Path,
    concurrency: int | None = None,
    target: Target | None = None,
    room: Room | None = None,
    tools: Toolbox | None = None,
    files: Path | None = None,
) -> PricedTarget:
    """A target ready to be asked; ConfigurationError when its price is needed for the budget and not known."""
    if concurrency is not None:
        config = replace(config, concurrency=concurrency)
    price = demand_price(config, budget.most)
    target = target or open_target(config, environment, root, items_of)
    cacheable = target_kind(config).asks_model
    known = identity(config, environment)
    room = room or room_of(config)
    return PricedTarget(
        config, target, known, price, budget, room, kind=kind, tools=tools, cacheable=cacheable, files=files
    )


def unopened(config: TargetConfig, environment: Mapping[str, str], root: Path, max_cost: float | None) -> PricedTarget:
    """A target as far as the keys of its answers need it; it is opened only if it is asked."""
    target = Later(lambda: open_target(config, environment, root, items_of))
    budget, cacheable = Budget(max_cost), target_kind(config).asks_model
    return PricedTarget(
        config, target, identity(config, environment), None, budget, room_of(config), cacheable=cacheable
    )


def named_identity(config: TargetConfig, environment: Mapping[str, str]) -> dict[str, Any]:
    """What decides the answers of a target, and its name, as the config of a run keeps them."""
    return identity(config, environment) | {"name": config.name}


def items_of(file: Path) -> Sequence[Mapping[str, Any]]:
    """The items of a dataset file, for targets that replay captured answers."""
    document: Document = load(file)
    items: list[Mapping[str, Any]] = document.data["items"]
    return items


SOURCE = "registry:"
"""How the source of a run begins whose items come from a registry."""
_LENGTHS = {"max_tokens", "max_completion_tokens"}
# A registry comes from elsewhere, so nothing of it may say where a question goes or what key goes with it.
_SAMPLING = {"temperature", "top_p", "presence_penalty", "frequency_penalty", "seed", "stop", *_LENGTHS}


def settings_of_run(run: RunRow, reader: Reader, settings: Settings) -> Settings:
    """The settings in which a stored run was started, as far as its eval suggests parameters."""
    if not run.source.startswith(SOURCE):
        return settings
    judge = run.config.get("judge")
    named = [target["name"] for target in run.config.get("targets", ())]
    return suggested(settings, reader.snapshot(run.snapshot), named, judge["name"] if judge else None)


def suggested(
    settings: Settings,
    document: Mapping[str, Any],
    targets: Sequence[str],
    judge: str | None,
    where: str = "the stored run",
) -> Settings:
    """The settings with the parameters a document suggests under those that are configured.

    `where` says where the targets are named; it is empty if they were typed.
    A target that also judges gets those alone that both roles share.
    """
    origin = (document.get("extensions") or {}).get("openai_evals") or {}
    answering, judging = (sampling(origin.get(part)) for part in ("params", "judge_params"))
    configured = dict(settings.targets)
    for word in dict.fromkeys((*targets, *((judge,) if judge else ()))):
        wanted = judging if word not in targets else answering
        if word in targets and word == judge:
            wanted = {name: value for name, value in answering.items() if judging.get(name, value) == value}
        try:
            config = find_target(word, settings, where) if where else find_typed(word, settings)
            asks_model = target_kind(config).asks_model
        except ConfigurationError:  # said where the targets are named
            continue
        if asks_model:
            configured[word] = replace(config, params={**_not_configured(wanted, config.params), **config.params})
    return replace(settings, targets=configured)


def sampling(params: object) -> dict[str, Any]:
    """The parameters that say how a model samples and for how long; all else is passed over."""
    given = params if isinstance(params, Mapping) else {}
    return {name: value for name, value in given.items() if name in _SAMPLING and _is_plain(value)}


def _is_plain(value: object) -> bool:
    if isinstance(value, list):
        return all(isinstance(part, str) for part in value)
    return isinstance(value, int | str) or (isinstance(value, float) and isfinite(value))


def _not_configured(wanted: Mapping[str, Any], configured: Mapping[str, Any]) -> dict[str, Any]:
    """What is wanted and not configured; a length under one name is a length under the other."""
    known = set(configured) | (_LENGTHS if _LENGTHS & set(configured) else set())
    return {name: value for name, value in wanted.items() if name not in known}
