"""What pane 3 makes of the shared state: what to show, evaluators to choose from, options to write, a trial."""

from __future__ import annotations

from collections.abc import Container, Mapping

from tui_evals.datasets.layout import Path as Place
from tui_evals.datasets.problems import path_text
from tui_evals.datasets.resolve import EffectiveEvaluator
from tui_evals.datasets.validate import runevals_refusal
from tui_evals.evaluators.base import Evaluator
from tui_evals.evaluators.registry import Registry, UnknownEvaluator
from tui_evals.runs.project import Project
from tui_evals.tui.watch import Watch
from tui_evals.tui.widgets.dialogs import Entry
from tui_evals.tui.workspace import Workspace

from .options import evaluator_help, evaluator_summary, faults
from .rows import ORIGINS, EvaluatorBlock, JudgesHere, JudgesPage, evaluators_path
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


def judges_page(workspace: Workspace, here: JudgesHere, tried: Mapping[str, TrialResult | str]) -> JudgesPage:
    """Everything the pane shows of a place."""
    name = name_of(workspace, workspace.where)
    blocks = tuple(_block(workspace, here, entry, tried.get(entry.key)) for entry in here.entries)
    return JudgesPage(
        here, name, blocks, workspace.settings.judge, workspace.settings.embedder, _of_the_whole(workspace, here)
    )


def _block(
    workspace: Workspace, here: JudgesHere, entry: EffectiveEvaluator, tried: TrialResult | str | None
) -> EvaluatorBlock:
    registry = workspace.registry
    kind = kind_of(entry, registry)
    if isinstance(tried, TrialResult) and not same_options(tried.entry, entry):
        tried = None
    problems = _reported_problems(workspace, here.home(entry)) or _own_problems(entry, kind, here, registry)
    return EvaluatorBlock(entry, kind, problems, runevals_refusal(entry.key, entry.options, registry.own), tried)


def _report_is_current(workspace: Workspace) -> bool:
    """Whether the last validation is about the dataset as it is now."""
    editing = workspace.editing
    return editing is not None and workspace.reported == editing.state


def _reported_problems(workspace: Workspace, home: Place) -> tuple[str, ...]:
    if not home or not _report_is_current(workspace):
        return ()
    problems = [(problem.path[len(home) :], problem.message) for problem in workspace.problems_at(home)]
    return tuple(f"{path_text(path)}: {message}" if path else message for path, message in problems)


def _own_problems(
    entry: EffectiveEvaluator, kind: type[Evaluator] | None, here: JudgesHere, registry: Registry
) -> tuple[str, ...]:
    """What is wrong with an evaluator, found without the rest of the dataset."""
    if entry.key in here.broken:
        return ("the options are no object; enter writes others",)
    if not isinstance(entry.options.get("type", ""), str):
        return ("type: must be the name of an evaluator",)
    if kind is None:
        return (f"unknown evaluator '{entry.evaluator}'; a lists those there are",)
    return tuple(f"{name}: {text}" if name else text for name, text in faults(kind, entry.options).items())


def _of_the_whole(workspace: Workspace, here: JudgesHere) -> tuple[str, ...]:
    """What is wrong with the evaluators of a place and with none of them alone."""
    if not _report_is_current(workspace) or here.remark:
        return ()
    places = [evaluators_path(here.place)] + ([] if here.of_dataset else [(*here.place, "evaluators_mode")])
    return tuple(
        f"{place[-1]}: {problem.message}"
        for place in places
        for problem in workspace.problems_at(place)
        if problem.path == place
    )


def why_not(here: JudgesHere, entry: EffectiveEvaluator | None, registry: Registry, action: str) -> str | None:
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


def evaluator_choices(registry: Registry, here: JudgesHere) -> list[Entry]:
    """Every evaluator there is, to choose one; the project's own come first."""
    used = {entry.evaluator for entry in here.entries}
    kinds = sorted(registry.kinds, key=lambda kind: kind.name not in registry.own)
    return [_choice(kind, used) for kind in kinds]


def _choice(kind: type[Evaluator], used: Container[str]) -> Entry:
    here = "✓ here · " if kind.name in used else ""
    asks = " · compares embeddings" if kind.embeds else " · asks a judge" if kind.judged else ""
    also = f" ({', '.join(kind.aliases)})" if kind.aliases else ""
    about = f"{here}{kind.family}{asks} · {evaluator_summary(kind)}{also}"
    return Entry(kind.name, kind.name, about, evaluator_help(kind))


def free_key(name: str, taken: Container[str]) -> str:
    """The key of another use of an evaluator: its name, else the name with a number."""
    number, key = 1, name
    while key in taken:
        number += 1
        key = f"{name}{number}"
    return key


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
        project=Project(
            workspace.root,
            workspace.settings,
            workspace.variables,
            trusting=workspace.trusting,
            database=workspace.database,
        ),
    )
