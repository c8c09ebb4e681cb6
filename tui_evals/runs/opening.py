"""A target made ready to be asked by a run: opened, priced, with the room there is for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from tui_evals.datasets.document import Document, load
from tui_evals.targets.base import ConfigurationError, Price, Target, TargetConfig
from tui_evals.targets.opening import identity, open_target, target_kind
from tui_evals.targets.prices import price_of

from .asking import PricedTarget
from .budget import Reservations
from .limits import Room, room_of
from .toolbox import Toolbox


def price_for(config: TargetConfig) -> Price | None:
    """What a target costs: as configured, nothing where nobody charges, else by the table; None is unpriced."""
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


def opened(
    config: TargetConfig,
    kind: Literal["target", "judge"],
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


def items_of(file: Path) -> Sequence[Mapping[str, Any]]:
    """The items of a dataset file, for targets that replay captured answers."""
    document: Document = load(file)
    items: list[Mapping[str, Any]] = document.data["items"]
    return items
