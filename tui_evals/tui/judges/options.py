"""Adding, editing and showing evaluators: options as a form, the state of an evaluator, its trial."""

from __future__ import annotations

import json
from collections.abc import Container, Mapping
from dataclasses import replace
from typing import Any

from textual.app import App

from tui_evals.datasets.paths import Path as DataPath
from tui_evals.datasets.paths import path_text
from tui_evals.datasets.resolve import EffectiveEvaluator
from tui_evals.evaluators.base import Evaluator
from tui_evals.evaluators.registry import Registry, UnknownEvaluator
from tui_evals.runs.project import Project
from tui_evals.runs.readiness import options_of
from tui_evals.store.database import StoreError
from tui_evals.tui.judges.rows import ORIGINS, EvaluatorBlock, JudgesHere, JudgesPage, evaluators_path
from tui_evals.tui.judges.trial import (
    CannotTry,
    CurrentPlace,
    RecordedScores,
    Trial,
    TrialResult,
    same_options,
    subject_of,
)
from tui_evals.tui.model_form import (
    ModelShape,
    as_json,
    default_words,
    file_options,
    form_fields,
    form_values,
    model_faults,
    option_about,
)
from tui_evals.tui.watch import Watch
from tui_evals.tui.widgets.dialogs import Entry
from tui_evals.tui.widgets.finding import Complete
from tui_evals.tui.widgets.form import Form
from tui_evals.tui.widgets.form_fields import Field, ListShape, Start, Values, data_field
from tui_evals.tui.workspace import Workspace


def faults(kind: type[Evaluator], options: Mapping[str, Any]) -> dict[str, str]:
    """The problems of an evaluator's options, by field name."""
    return model_faults(kind.Options, {key: value for key, value in options.items() if key != "type"})


def evaluator_summary(kind: type[Evaluator]) -> str:
    """The first sentences of an evaluator's docstring, as one line."""
    return " ".join((kind.__doc__ or "").strip().partition("\n\n")[0].split())


def evaluator_help(kind: type[Evaluator]) -> str:
    """The full help of an evaluator: its purpose, requirements, options and an example."""
    text = "\n\n".join(" ".join(part.split()) for part in (kind.__doc__ or "").strip().split("\n\n"))
    whom = "a target of kind embedding" if kind.embeds else "a judge"
    asks = f"; it asks {whom}" if kind.judged else f"; it may ask {whom}" if kind.may_ask else ""
    lines = [text, "", f"Needs {', '.join(need.replace('_', ' ') for need in kind.needs) or 'nothing'}{asks}."]
    if kind.aliases:
        lines.append(f"Also called {', '.join(kind.aliases)}.")
    lines += ["", "Options"]
    for option in options_of(kind):
        default = default_words(option.field)
        lines.append(f"  {option.name}{f' ({default})' if default else ''}: {option_about(option)}")
    if kind.example:
        lines += ["", "Example", "  " + json.dumps(as_json(kind.example), ensure_ascii=False)]
    return "\n".join(lines)


async def ask_options(
    app: App[Any],
    entry: EffectiveEvaluator,
    registry: Registry,
    done: str,
    recorded: RecordedScores | None = None,
    sample: str = "",
    complete: Complete | None = None,
) -> dict[str, Any] | None:
    """The options entered in the form, which shows how many recorded answers pass; None if it is cancelled."""
    kind, before = registry.find(entry.evaluator), entry.options
    options = options_of(kind)
    values = form_values(options, before)

    def check(entered: Values) -> Mapping[str, str]:
        return faults(kind, file_options(options, before, entered))

    def note(name: str, entered: Values) -> str:
        if name != "threshold" or recorded is None:
            return ""
        taken = replace(entry, options=file_options(options, before, entered))
        return recorded.passing(taken, kind)

    title = entry.key if entry.key == kind.name else f"{entry.key} · {kind.name}"
    form = Form(
        title,
        form_fields(options, values, sample, nested_evaluators(registry)),
        values,
        check=check,
        done=done,
        says=evaluator_summary(kind),
        keeps=True,
        note=note,
        complete=complete,
    )
    entered = await app.push_screen_wait(form)
    return None if entered is None else file_options(options, before, entered)


def nested_evaluators(registry: Registry) -> ListShape:
    """Evaluators within an option of another: chosen by name, each with a form of its options."""

    def evaluator_of(key: str, options: object) -> str:
        name = options.get("type", key) if isinstance(options, dict) else ""
        return name if isinstance(name, str) else ""

    def entry(key: str, options: object) -> Field:
        try:
            kind = registry.find(evaluator_of(key, options))
        except UnknownEvaluator:
            return data_field(key, options)
        return Field(key, "object", evaluator_summary(kind), shape=ModelShape(kind.Options, shape))

    def renamed(old: str, new: str, options: Any) -> Any:
        named = isinstance(options, dict) and "type" not in options and old != new
        return {"type": old, **options} if named else options

    kinds = [kind for kind in registry.kinds if kind.name not in registry.own]
    choices = [(kind.name, _choice(kind, ())) for kind in kinds]
    starts = [Start(name, {}, one.about, evaluator_help(registry.find(name)), name) for name, one in choices]
    shape = ListShape(entry, starts, named=True, renamed=renamed)
    return shape


def name_of(workspace: Workspace, where: DataPath) -> str:
    """How a place is called: the item's name, with the turn; nothing at the dataset itself."""
    if workspace.item is None or not where:
        return ""
    name = workspace.name_of(workspace.item)
    turn = where[3] if len(where) > 3 else None
    return f"{name}, turn {turn + 1}" if isinstance(turn, int) else name


def kind_of(entry: EffectiveEvaluator, registry: Registry) -> type[Evaluator] | None:
    """The evaluator of an entry; None if it is unknown."""
    try:
        return registry.find(entry.evaluator)
    except UnknownEvaluator:
        return None


def judges_page(
    workspace: Workspace,
    here: JudgesHere,
    tried: Mapping[str, TrialResult | str],
    recorded: RecordedScores | None = None,
) -> JudgesPage:
    """Everything the pane shows of a place."""
    name = name_of(workspace, workspace.where)
    blocks = tuple(_block(workspace, here, entry, tried.get(entry.key), recorded) for entry in here.entries)
    return JudgesPage(
        here, name, blocks, workspace.settings.judge, workspace.settings.embedder, _of_the_whole(workspace, here)
    )


def _block(
    workspace: Workspace,
    here: JudgesHere,
    entry: EffectiveEvaluator,
    tried: TrialResult | str | None,
    recorded: RecordedScores | None,
) -> EvaluatorBlock:
    registry = workspace.registry
    kind = kind_of(entry, registry)
    if isinstance(tried, TrialResult) and not same_options(tried.entry, entry):
        tried = None
    problems = _reported_problems(workspace, here.home(entry)) or _own_problems(entry, kind, here, registry)
    passing = recorded.passing(entry, kind) if recorded is not None and not problems else ""
    return EvaluatorBlock(entry, kind, problems, tried, passing)


def _report_is_current(workspace: Workspace) -> bool:
    """Whether the last validation is about the current dataset."""
    editing = workspace.editing
    return editing is not None and workspace.reported == editing.state


def _reported_problems(workspace: Workspace, home: DataPath) -> tuple[str, ...]:
    if not home or not _report_is_current(workspace):
        return ()
    problems = [(problem.path[len(home) :], problem.message) for problem in workspace.problems_at(home)]
    return tuple(f"{path_text(path)}: {message}" if path else message for path, message in problems)


def _own_problems(
    entry: EffectiveEvaluator, kind: type[Evaluator] | None, here: JudgesHere, registry: Registry
) -> tuple[str, ...]:
    """The problems of an evaluator that can be found without the rest of the dataset."""
    if entry.key in here.broken:
        return ("the options are no object; enter writes others",)
    if not isinstance(entry.options.get("type", ""), str):
        return ("type: must be the name of an evaluator",)
    if kind is None:
        return (f"unknown evaluator '{entry.evaluator}'; a lists all",)
    return tuple(f"{name}: {text}" if name else text for name, text in faults(kind, entry.options).items())


def _of_the_whole(workspace: Workspace, here: JudgesHere) -> tuple[str, ...]:
    """The problems of the evaluators of a place as a whole."""
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
    """Why an action cannot be done with the evaluator under the cursor, or the current place."""
    if action == "mode" and here.of_dataset:
        return "the dataset's evaluators apply to all items; only an item or turn extends or replaces them"
    if action in ("add", "mode"):
        return None
    if entry is None:
        return "no evaluator is chosen; a adds one"
    if action == "remove":
        if here.of_dataset or entry.key in here.own:
            return None
        origin = ORIGINS[entry.origin]
        return f"{entry.key} is inherited ({origin}); m replaces inherited evaluators, l goes to the dataset's"
    if kind_of(entry, registry) is None:
        return f"no evaluator is named {entry.evaluator}; a lists all"
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


def current_place(workspace: Workspace, watch: Watch) -> CurrentPlace:
    """The current place in the open dataset, with the answer on screen."""
    assert workspace.editing is not None
    return CurrentPlace(
        data=workspace.data,
        file=workspace.editing.document.file,
        where=workspace.where,
        name=name_of(workspace, workspace.where) or "this dataset",
        answer=watch.answer,
        database=watch.database,
        root=workspace.root,
    )


def sample_answer(here: CurrentPlace) -> str:
    """The text of the answer on screen, or of the response in the dataset; empty where there is none."""
    try:
        return str(subject_of(here).row.get("response") or "")
    except (CannotTry, StoreError, LookupError):
        return ""


def trial_of(workspace: Workspace, watch: Watch, entry: EffectiveEvaluator) -> Trial:
    """The trial of an evaluator on what is on screen."""
    return Trial(
        entry=entry,
        here=current_place(workspace, watch),
        registry=workspace.registry,
        project=Project(
            workspace.root,
            workspace.settings,
            workspace.variables,
            trusting=workspace.trusting,
            database=workspace.database,
        ),
    )
