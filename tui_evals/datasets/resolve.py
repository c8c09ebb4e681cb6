"""Which evaluators judge a unit, with which options, and where that was set."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from tui_evals.light_records import dataclass

if TYPE_CHECKING:
    from .model import Dataset, Item, Turn

Origin = Literal["system", "dataset", "item", "turn"]
Options = Mapping[str, Any]

SYSTEM_DEFAULTS: Mapping[str, Options] = {"Relevance": {}, "Coherence": {}}


@dataclass(frozen=True, slots=True)
class EffectiveEvaluator:
    """One evaluator that will judge: `key` is its name or label, `overridden` the default options it replaced."""

    key: str
    options: Options
    origin: Origin
    overridden: Options | None = None

    @property
    def evaluator(self) -> str:
        """The evaluator's name, which a label gives as its `type`."""
        name = self.options.get("type")
        return name if isinstance(name, str) else self.key

    @property
    def settings(self) -> dict[str, Any]:
        """The options without the `type` of a label."""
        return {name: value for name, value in self.options.items() if name != "type"}


def effective_evaluators(
    defaults: Mapping[str, Options] | None, own: Mapping[str, Options] | None, mode: str | None, origin: Origin
) -> tuple[EffectiveEvaluator, ...]:
    """The evaluators of one unit: the defaults in their order, then its own; a name in both takes its own options."""
    if own is not None and mode == "replace":
        return tuple(EffectiveEvaluator(key, options, origin) for key, options in own.items())
    own = own or {}
    source: Origin = "system" if defaults is None else "dataset"
    base = SYSTEM_DEFAULTS if defaults is None else defaults
    return tuple(
        EffectiveEvaluator(key, own[key], origin, options) if key in own else EffectiveEvaluator(key, options, source)
        for key, options in base.items()
    ) + tuple(EffectiveEvaluator(key, options, origin) for key, options in own.items() if key not in base)


def resolve_evaluators(dataset: Dataset, unit: Item | Turn) -> tuple[EffectiveEvaluator, ...]:
    """The evaluators of a unit of a dataset."""
    # Imported when needed, because a dataset is shown before it is resolved.
    from .model import Turn

    origin: Origin = "turn" if isinstance(unit, Turn) else "item"
    return effective_evaluators(dataset.default_evaluators, unit.evaluators, unit.evaluators_mode, origin)


def allowed_tools(dataset: Dataset, unit: Item | Turn, more: Sequence[str] = ()) -> tuple[str, ...]:
    """The tools the target may use in a unit: the dataset's, `more` of the target's, and its own; or only its own."""
    own = tuple(tool.strip() for tool in unit.allowed_tools or ())
    if unit.allowed_tools is not None and unit.allowed_tools_mode == "replace":
        return own
    return tuple(dict.fromkeys((*(tool.strip() for tool in (*(dataset.default_allowed_tools or ()), *more)), *own)))
