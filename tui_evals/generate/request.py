"""The request of a generation: prompt and folder, options, the model of each role, and the steps to take."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, field
from pathlib import Path
from typing import Any

from tui_evals.datasets.prompts import SUFFIXES, is_prompt, prompt_name
from tui_evals.evaluators.compliance import SUFFIX, discover_metrics
from tui_evals.files import make_folder, write_atomically
from tui_evals.generate.folder import RECORD, GenerationFolder
from tui_evals.generate.pipeline import STEPS, Step, dependent_steps, step_named
from tui_evals.generate.work import (
    Generation,
    Options,
    Subject,
    effective_options,
    read_subject,
    saved_options,
    split_names,
)
from tui_evals.light_records import dataclass
from tui_evals.project_files import read_text, resolved
from tui_evals.runs.approving import find_typed, missing_of_targets
from tui_evals.runs.errors import CannotPlan
from tui_evals.runs.limits import Budget
from tui_evals.runs.project import Project
from tui_evals.targets.base import ConfigurationError, TargetConfig
from tui_evals.targets.config import Settings, find_target
from tui_evals.targets.permissions import Permission, destinations

from . import pipeline
from .asking import Prompts
from .session import Roles, our_spelling

SILENT = ("labels",)
"""Steps that are housekeeping and not shown."""
_NO_TARGET = (
    "no target is named. Name what answers with --target: a model such as openai/gpt-4o-mini, a section of "
    ".evals/config.toml, replay:FILE for answers you have, or demo to try tui-evals without a model"
)
_PATHS = ("prompt", "out", "custom_metric")


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerationRequest:
    """A generation as a face asks for it; what is not named is as in the last command for the folder."""

    prompt: Path | None = None
    """The file of the prompt, or the folder of an earlier generation."""
    inline: str | None = None
    """The prompt itself, instead of a file."""
    out: Path | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    """The options that are named, by the fields of Options."""
    seed: int | None = None
    rules: str | None = None
    """The target that writes rules and tests."""
    baseline: str | None = None
    groundtruth_by: str | None = None
    judges: tuple[str, ...] = ()
    groundtruth_judges: tuple[str, ...] = ()
    under_test: tuple[str, ...] = ()
    custom_metric: Path | None = None
    until: str | None = None
    from_step: str | None = None
    confirm: tuple[str, ...] = ()
    again: tuple[int, ...] = ()
    """The numbers of the rules whose tests are made again."""
    invert: tuple[int, ...] = ()
    """The places of the output rules whose inverse is made again."""
    concurrency: int | None = None
    max_cost: float | None = None
    use_cache: bool = True
    title: str = ""
    """What it makes, in the words of the face that asks."""

    def stored(self) -> dict[str, Any]:
        """The request as the store keeps it."""
        values = asdict(self)
        return {
            name: str(value) if isinstance(value, Path) else value
            for name, value in values.items()
            if value not in (None, (), {}, "")
        }


def stored_generation_request(stored: Mapping[str, Any]) -> GenerationRequest:
    """The request that `GenerationRequest.stored` wrote."""
    values: dict[str, Any] = {}
    for name in GenerationRequest.__dataclass_fields__.keys() & stored.keys():
        value = stored[name]
        values[name] = Path(value) if name in _PATHS else tuple(value) if isinstance(value, list) else value
    return GenerationRequest(**values)


# -- what is found for it


@dataclass(frozen=True, slots=True)
class ChosenSteps:
    """The steps of a generation."""

    steps: tuple[Step, ...]
    begin: tuple[Step, ...]
    """The steps that are taken again, with all that follow."""
    confirm: frozenset[str]


@dataclass(frozen=True, slots=True)
class FoundGeneration:
    """A request with what it names, before any model is opened."""

    request: GenerationRequest
    project: Project
    subject: Subject
    options: Options
    folder: GenerationFolder
    prompts: Prompts
    roles: Roles

    @property
    def about(self) -> str:
        """What identifies it among the activities of a store."""
        return about_folder(self.folder.path)

    def permissions(self) -> list[Permission]:
        """What asking the models would do that is not agreed to yet."""
        return missing_of_targets(self.project, self.roles.every)

    def destinations(self) -> Mapping[str, Mapping[str, str | None]]:
        """Where questions and keys go."""
        return destinations(self.roles.every, self.project.environment)

    def open(self, budget: Budget, *, planning: bool = False) -> tuple[Generation, str]:
        """The generation with its models, and a note where fewer calls fit than were asked for."""
        request, project = self.request, self.project
        fitted, note = self.roles.fit_calls(request.concurrency)
        models = self.roles.open_models(budget, project.environment, project.root, fitted, planning=planning)
        metrics = discover_metrics(self.subject.file.parent, groundtruth=True)
        work = Generation(
            subject=self.subject,
            options=self.options,
            folder=self.folder,
            prompts=self.prompts,
            models=models,
            groundtruth_metric=next(iter(metrics.values()), None),
            under_test=tuple(target.model for target in self.roles.under_test),
            again=frozenset(request.again),
            invert=frozenset(request.invert),
        )
        return work, note


def about_folder(folder: Path) -> str:
    """What identifies the generation of a folder among the activities of a store."""
    return str(folder.resolve())


def find_generation(request: GenerationRequest, project: Project) -> FoundGeneration:
    """Find prompt, folder, options and models; CannotPlan or ConfigurationError where something is wrong."""
    file, folder = _prompt_and_folder(request)
    saved, targets = _saved(folder)
    options = effective_options(request.options, saved)
    subject = read_subject(file, options, request.seed)
    prompts = Prompts(project.root)
    prompts.check()
    roles = _roles(request, targets, project.settings)
    _put_metric(request.custom_metric, subject)
    return FoundGeneration(request, project, subject, options, folder, prompts, roles)


def choose_steps(request: GenerationRequest, work: Generation) -> ChosenSteps:
    """The steps that are taken, and how; CannotPlan for a step or a rule that is not there."""
    until = _step(request.until, "--until") if request.until else None
    confirm = [word for part in request.confirm for word in part.split(",") if word]
    named = {step.name for step in STEPS} if "*" in confirm else {_step(word, "--confirm").name for word in confirm}
    begin = [_step(word, "--from") for word in (request.from_step or "").split(",") if word]
    steps = pipeline.choose_steps(work, until.name if until else None)
    for step in begin:
        if step not in steps:
            raise CannotPlan(
                f"--from {step.name}: this generation does not take that step; see the options that ask for it"
            )
    _check_rules(work)
    return ChosenSteps(tuple(steps), tuple(begin), frozenset(named))


def _step(word: str, option: str) -> Step:
    named_step = step_named(word)
    if named_step is None:
        steps = ", ".join(step.name for step in STEPS if step.name not in SILENT)
        raise CannotPlan(f"{option}: there is no step {word}; the steps are {steps}")
    return named_step


def _check_rules(work: Generation) -> None:
    """CannotPlan when a rule is to be done again that is not there."""
    if not work.again and not work.invert:
        return
    rules = work.rules
    if not any(rule.inverse for rule in rules):
        raise CannotPlan(
            f"{work.folder.path} holds no rules and inverse rules yet; leave --rule and --inverse out first"
        )
    if outside := sorted(work.again - {rule.number for rule in rules}):
        raise CannotPlan(
            f"--rule: there is no rule {outside[0]}; they are numbered 1 to {len(rules)}, inverse rules last"
        )
    if outside := sorted(work.invert - {rule.of for rule in rules}):
        most = max(rule.of for rule in rules)
        raise CannotPlan(f"--inverse: there is no output rule {outside[0]}; there are {most}")


# -- prompt and folder


def _prompt_and_folder(request: GenerationRequest) -> tuple[Path, GenerationFolder]:
    """The prompt's file and the folder of its generation, however they were named."""
    file, inline, out = request.prompt, request.inline, request.out
    if (file is None) == (inline is None):
        raise CannotPlan("name the prompt: a file, or its text with --prompt TEXT")
    if file is None:
        file = (out or Path()) / "input.prompty"
        _write_once(file, f"{inline}\n", "the text of --prompt")
    elif file.is_dir():
        folder = GenerationFolder(file)
        prompt = _prompt_of(folder)
        if prompt is None:
            raise CannotPlan(
                f"{file} is a folder without a {RECORD} that names a prompt; name the prompt's file instead"
            )
        if not os.path.exists(prompt):  # which finds no name too long
            raise CannotPlan(
                f"the prompt of {file} is not at {prompt} any more; name its file instead, and with --out the folder "
                f"above {file}, and the generation continues"
            )
        return prompt, folder
    elif file.name == "promptpex_context.json":
        raise CannotPlan(f"{file} is what PromptPex saved; `tui-evals import {file}` reads it")
    elif not is_prompt(file):
        raise CannotPlan(f"{file}: a prompt is a file that ends in {', '.join(SUFFIXES)}")
    folder = GenerationFolder((out or file.parent) / prompt_name(file))
    recorded = _prompt_of(folder)
    if recorded is not None and os.path.exists(recorded) and resolved(recorded) != resolved(file):
        raise CannotPlan(
            f"{folder.path} holds what was made for {recorded}, which is another prompt of the same name; name another "
            "folder with --out, or rename one of the prompts"
        )
    return file, folder


def _prompt_of(folder: GenerationFolder) -> Path | None:
    """The prompt a folder was made for, as far as it says, under the name it had then though it may be a link."""
    recorded = folder.record.get("prompt")
    file = folder.path.resolve() / recorded if isinstance(recorded, str) and recorded and "\0" not in recorded else None
    return file and file.parent.resolve() / file.name


def _write_once(file: Path, text: str, content_name: str) -> None:
    """Write a file; one that is there with other content is not overwritten."""
    if file.exists() and read_text(file) != text:
        raise CannotPlan(
            f"{file} is there and holds something else than {content_name}; delete it, or choose another folder"
        )
    make_folder(file.parent)
    write_atomically(file, text.encode("utf-8"))


def _put_metric(file: Path | None, subject: Subject) -> None:
    """Put a metric next to the prompt, where metrics are found."""
    if file is None:
        return
    try:
        text = read_text(file, follow_out=True)
    except (OSError, UnicodeDecodeError) as problem:
        raise CannotPlan(f"the metric {file} cannot be read: {problem}") from None
    _write_once(subject.file.parent / f"custom{SUFFIX}", text, f"the metric {file}")


# -- options and models


def _saved(folder: GenerationFolder) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """The options and the models an earlier command named; CannotPlan says what cannot be."""
    file = folder.path / RECORD
    targets = folder.record.get("targets") or {}
    try:
        options = saved_options(folder.record.get("options"))
    except ValueError as problem:
        raise CannotPlan(f"{file}, {problem}. Fix it there, or delete the file") from None
    lists = ("judges", "groundtruth_judges", "under_test")
    wrong = [role for role in lists if not _is_name_list(_field_of(targets, role, []))]
    wrong += [
        role for role in ("rules", "baseline", "groundtruth") if not _is_name_list([_field_of(targets, role, "")])
    ]
    if not isinstance(targets, dict) or wrong:
        raise CannotPlan(
            f"{file}: targets must name a target for each role, or a list of them. Fix it, or delete the file"
        )
    return options, targets


def _field_of(record: object, key: str, otherwise: object) -> object:
    return record.get(key, otherwise) if isinstance(record, dict) else None


def _is_name_list(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(name, str) for name in value)


def _roles(request: GenerationRequest, before: Mapping[str, Any], settings: Settings) -> Roles:
    """The target of each role: as named, else as before, else by the configuration."""

    def found(word: str, where: str) -> TargetConfig:
        return find_target(word, settings, where) if where else find_typed(word, settings)

    def role_target(word: str | None, role: str) -> TargetConfig | None:
        spelled = our_spelling(word or before.get(role), settings)
        return found(spelled, "" if word else RECORD) if spelled is not None else None

    def role_targets(spellings: Sequence[str], role: str) -> tuple[TargetConfig, ...]:
        typed = [name for spelling in spellings for name in split_names(spelling)]
        names = [str(our_spelling(name, settings)) for name in typed or before.get(role, ())]
        return tuple(found(name, "" if typed else RECORD) for name in names)

    rules = role_target(request.rules, "rules")
    if rules is None and not settings.usual_targets:
        raise ConfigurationError(_NO_TARGET)
    judges = role_targets(request.judges, "judges")
    if not judges and settings.judge is not None:
        judges = (found(settings.judge, ""),)
    return Roles(
        rules=rules or found(settings.usual_targets[0], ""),
        baseline=role_target(request.baseline, "baseline"),
        groundtruth=role_target(request.groundtruth_by, "groundtruth"),
        judges=judges,
        groundtruth_judges=role_targets(request.groundtruth_judges, "groundtruth_judges") or judges,
        under_test=role_targets(request.under_test, "under_test"),
    )


# -- the plan


@dataclass(frozen=True, slots=True)
class GenerationPlan:
    """What a generation will take."""

    steps: Sequence[pipeline.StepEstimate]
    destinations: Mapping[str, Mapping[str, str | None]]
    """Where questions and keys go."""

    @property
    def calls(self) -> int:
        """How many calls of models."""
        return sum(share.calls for share in self.steps)

    @property
    def cost(self) -> float | None:
        """About how many US dollars; None where a price is unknown."""
        costs = [share.cost for share in self.steps if share.cost is not None]
        return sum(costs) if len(costs) == len(self.steps) else None


def plan_generation(found: FoundGeneration) -> GenerationPlan:
    """Price the steps. Asks nothing, stores nothing, opens no model."""
    work, _ = found.open(Budget(found.request.max_cost), planning=True)
    chosen = choose_steps(found.request, work)
    again = {step.name for step in dependent_steps(*(step.name for step in chosen.begin))}
    steps = pipeline.estimate_steps(work, chosen.steps, again)
    if found.request.under_test and not found.request.until:
        steps += pipeline.estimate_runs(work, found.roles.under_test, again)
    return GenerationPlan(steps, found.destinations())
