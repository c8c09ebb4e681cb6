"""What the evaluator pane asks of the shared state: blocks to show, evaluators to choose from, options to write."""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import Any

from tui_evals.datasets.layout import Path as Place
from tui_evals.datasets.paths import Data, get_at, set_at
from tui_evals.datasets.problems import path_text
from tui_evals.datasets.resolve import SYSTEM_DEFAULTS, EffectiveEvaluator
from tui_evals.datasets.steps import DEFAULTS, override_evaluator
from tui_evals.datasets.validate import runevals_refusal
from tui_evals.evaluators.base import Evaluator
from tui_evals.evaluators.registry import Registry, UnknownEvaluator
from tui_evals.tui.watch import Watch
from tui_evals.tui.widgets.dialogs import Entry
from tui_evals.tui.workspace import Workspace

from .options import explained, faults, summary
from .rows import ORIGINS, Block, Shown, Standing, map_of
from .trial import CurrentPlace, Trial, TrialResult, same_options


def name_of(workspace: Workspace, where: Place) -> str:
    """How a place is called: the item's name, with the turn; nothing at the dataset itself."""
    if workspace.item is None or not where:
        return ""
    name = workspace.name_of(workspace.item)
    turn = where[3] if len(where) > 3 else None
    return f"{name}, turn {turn + 1}" if isinstance(turn, int) else name


def kind_of(entry: EffectiveEvaluator, registry: Registry) -> type[Evaluator] | None:
    """The evaluator of an entry; None where nobody knows it."""
    try:
        return registry.find(entry.evaluator)
    except UnknownEvaluator:
        return None


def as_shown(workspace: Workspace, here: Standing, tried: Mapping[str, TrialResult | str]) -> Shown:
    """Everything the pane shows of a place."""
    name = name_of(workspace, workspace.where)
    blocks = tuple(_block(workspace, here, entry, tried.get(entry.key)) for entry in here.entries)
    return Shown(here, name, blocks, workspace.settings.judge, _of_the_whole(workspace, here))


def _block(workspace: Workspace, here: Standing, entry: EffectiveEvaluator, tried: TrialResult | str | None) -> Block:
    registry = workspace.registry
    kind = kind_of(entry, registry)
    if isinstance(tried, TrialResult) and not same_options(tried.entry, entry):
        tried = None
    problems = _reported(workspace, here.home(entry)) or _found(entry, kind, here, registry)
    return Block(entry, kind, problems, runevals_refusal(entry.key, entry.options, registry.own), tried)


def _fresh(workspace: Workspace) -> bool:
    """Whether the last validation is about the dataset as it is now."""
    editing = workspace.editing
    return editing is not None and workspace.reported == (id(editing), editing.version)


def _reported(workspace: Workspace, home: Place) -> tuple[str, ...]:
    if not home or not _fresh(workspace):
        return ()
    found = [(problem.path[len(home) :], problem.message) for problem in workspace.problems_at(home)]
    return tuple(f"{path_text(path)}: {message}" if path else message for path, message in found)


def _found(
    entry: EffectiveEvaluator, kind: type[Evaluator] | None, here: Standing, registry: Registry
) -> tuple[str, ...]:
    """What is wrong with an evaluator, found without the rest of the dataset."""
    if entry.key in here.broken:
        return ("the options are no object; enter writes others",)
    if not isinstance(entry.options.get("type", ""), str):
        return ("type: must be the name of an evaluator",)
    if kind is None:
        return (f"unknown evaluator '{entry.evaluator}'; a lists those there are",)
    return tuple(f"{name}: {said}" if name else said for name, said in faults(kind, registry, entry.options).items())


def _of_the_whole(workspace: Workspace, here: Standing) -> tuple[str, ...]:
    """What is wrong with the evaluators of a place and with none of them alone."""
    if not _fresh(workspace) or here.remark:
        return ()
    places = [map_of(here.place)] + ([] if here.of_dataset else [(*here.place, "evaluators_mode")])
    return tuple(
        f"{place[-1]}: {problem.message}"
        for place in places
        for problem in workspace.problems_at(place)
        if problem.path == place
    )


def why_not(here: Standing, entry: EffectiveEvaluator | None, registry: Registry, action: str) -> str | None:
    """Why an action cannot be done with the evaluator under the cursor, or where one is."""
    if action == "mode" and here.of_dataset:
        return "the dataset's evaluators hold for all; only an item or turn extends or replaces them"
    if action in ("add", "mode"):
        return None
    if entry is None:
        return "no evaluator is chosen; a adds one"
    if action == "remove":
        if here.of_dataset or entry.key in here.own:
            return None
        origin = ORIGINS[entry.origin]
        return f"{entry.key} is inherited ({origin}); m replaces what is inherited, l goes to the dataset's"
    if kind_of(entry, registry) is None:
        return f"there is no evaluator {entry.evaluator}; a lists those there are"
    return None


def choices(registry: Registry, here: Standing) -> list[Entry]:
    """Every evaluator there is, to choose one; the project's own come first."""
    used = {entry.evaluator for entry in here.entries}
    kinds = sorted(registry.kinds, key=lambda kind: kind.name not in registry.own)
    return [_choice(kind, used, registry) for kind in kinds]


def _choice(kind: type[Evaluator], used: Container[str], registry: Registry) -> Entry:
    here = "✓ here · " if kind.name in used else ""
    asks = " · asks a judge" if kind.judged else ""
    also = f" ({', '.join(kind.aliases)})" if kind.aliases else ""
    about = f"{here}{kind.family}{asks} · {summary(kind)}{also}"
    return Entry(kind.name, kind.name, about, explained(kind, registry))


def free_key(name: str, taken: Container[str]) -> str:
    """The key of another use of an evaluator: its name, else the name with a number."""
    number, key = 1, name
    while key in taken:
        number += 1
        key = f"{name}{number}"
    return key


def with_options(data: Data, place: Place, key: str, options: Mapping[str, Any]) -> Data:
    """The data with an evaluator's options written at a place, wherever they came from until now."""
    if place == DEFAULTS and get_at(data, DEFAULTS) is None:
        data = set_at(data, DEFAULTS, {name: dict(given) for name, given in SYSTEM_DEFAULTS.items()})
    return set_at(override_evaluator(data, place, key, options), (*map_of(place), key), dict(options))


def trial_of(workspace: Workspace, watch: Watch, entry: EffectiveEvaluator) -> Trial:
    """An evaluator to be tried on what is on screen."""
    assert workspace.editing is not None
    here = CurrentPlace(
        data=workspace.data,
        file=workspace.editing.document.file,
        where=workspace.where,
        name=name_of(workspace, workspace.where) or "this dataset",
        answer=watch.answer,
        database=watch.database,
        root=workspace.root,
    )
    return Trial(
        entry=entry,
        here=here,
        registry=workspace.registry,
        settings=workspace.settings,
        variables=workspace.variables,
    )
