"""Which evaluators judge at a place of the data as it is, whoever wrote them and however wrong it may be."""

from __future__ import annotations

from dataclasses import dataclass

from tui_evals.datasets.evaluator_steps import DEFAULTS
from tui_evals.datasets.layout import Path
from tui_evals.datasets.resolve import SYSTEM_DEFAULTS, Effective, Options, Origin, effective
from tui_evals.datasets.steps import Data, at


@dataclass(frozen=True, slots=True)
class Standing:
    """The evaluators that judge at the level one works on."""

    place: Path
    """Where edits go: the dataset's default_evaluators, or a unit."""
    entries: tuple[Effective, ...]
    own: frozenset[str] = frozenset()
    """The keys that are written at this very place."""
    base: Origin = "dataset"
    """Who gives what is inherited."""
    replaces: bool = False
    left_out: tuple[str, ...] = ()
    broken: frozenset[str] = frozenset()
    """Keys whose options are no object."""
    turns: tuple[str, ...] | None = None
    """The prompts of a conversation, which has no evaluators itself."""
    remark: str = ""

    @property
    def of_dataset(self) -> bool:
        """Whether one works on the evaluators of all units."""
        return self.place == DEFAULTS

    def home(self, entry: Effective) -> Path:
        """Where an evaluator is written in the document; nowhere for a default of the house."""
        if entry.origin == "system":
            return ()
        return (*map_of(DEFAULTS if entry.origin == "dataset" else self.place), entry.key)


def map_of(place: Path) -> Path:
    """Where the evaluators of a place are written."""
    return place if place == DEFAULTS else (*place, "evaluators")


def standing(data: Data, where: Path, of_dataset: bool) -> Standing:
    """Who judges at a place, as far as the data can be read."""
    defaults, broken, remark = _evaluators(data, DEFAULTS)
    base: Origin = "system" if defaults is None else "dataset"
    if of_dataset or not where:
        entries = effective(defaults, None, None, "item")
        return Standing(DEFAULTS, entries, frozenset(defaults or ()), base, broken=broken, remark=remark)
    unit = at(data, where)
    if not isinstance(unit, dict):
        return Standing(where, (), remark="this is no object; mend it in the file")
    if isinstance(turns := unit.get("turns"), list):
        prompts = (turn.get("prompt") if isinstance(turn, dict) else None for turn in turns)
        return Standing(where, (), turns=tuple(text if isinstance(text, str) else "" for text in prompts))
    own, more, mine = _evaluators(data, map_of(where))
    mode = unit.get("evaluators_mode")
    entries = effective(defaults, own, mode if isinstance(mode, str) else None, "turn" if len(where) > 2 else "item")
    shown = {entry.key for entry in entries}
    return Standing(
        where,
        entries,
        frozenset(own or ()),
        base,
        own is not None and mode == "replace",
        tuple(key for key in (SYSTEM_DEFAULTS if defaults is None else defaults) if key not in shown),
        more | frozenset(key for key in broken if own is None or key not in own),
        remark=mine or remark,
    )


def _evaluators(data: Data, path: Path) -> tuple[dict[str, Options] | None, frozenset[str], str]:
    """The evaluators written at a path, those whose options are no object, and what is wrong with all of them."""
    found = at(data, path)
    if found is None:
        return None, frozenset(), ""
    if not isinstance(found, dict):
        return None, frozenset(), f"{path[-1]} is no object and counts for nothing; mend it in the file"
    broken = frozenset(key for key, options in found.items() if not isinstance(options, dict))
    return {key: {} if key in broken else options for key, options in found.items()}, broken, ""
