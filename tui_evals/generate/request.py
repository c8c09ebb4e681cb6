"""A generation: its request, the models of each role, its run in the store, and the steps to take."""

from __future__ import annotations

import contextlib
import os
import socket
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, field
from functools import partial
from pathlib import Path
from typing import Any

from tui_evals.datasets.paths import CURRENT_VERSION
from tui_evals.datasets.prompts import SUFFIXES, is_prompt, prompt_name
from tui_evals.evaluators.compliance import SUFFIX, discover_metrics
from tui_evals.files import fit_calls, make_folder, write_atomically
from tui_evals.generate import pipeline
from tui_evals.generate.asking import Prompts
from tui_evals.generate.folder import RECORD, GenerationFolder, UnreadableFile, short_hash
from tui_evals.generate.pipeline import STEPS, Step, dependent_steps, step_named
from tui_evals.generate.work import (
    Generation,
    Models,
    Options,
    Subject,
    effective_options,
    read_subject,
    saved_options,
    split_names,
)
from tui_evals.light_records import dataclass
from tui_evals.project_files import read_text, resolved
from tui_evals.runs.activities import Storing
from tui_evals.runs.approving import find_typed, missing_of_targets
from tui_evals.runs.asking import PricedTarget
from tui_evals.runs.engine import STOPPED
from tui_evals.runs.errors import CannotPlan
from tui_evals.runs.judges import calls_at_once, items_of, judge_label, opened
from tui_evals.runs.limits import Budget
from tui_evals.runs.project import Project
from tui_evals.runs.status import GENERATION
from tui_evals.store.connection import alive, hold, run_lock
from tui_evals.store.database import StoreError
from tui_evals.store.reader import Reader
from tui_evals.store.records import NewRun, RunRow, StopCode
from tui_evals.store.writer import Writer
from tui_evals.targets.base import ConfigurationError, TargetConfig
from tui_evals.targets.config import Settings, find_target
from tui_evals.targets.opening import Later, open_target
from tui_evals.targets.permissions import Permission, destinations

SILENT = ("labels",)
"""Steps that are housekeeping and not shown."""
_NO_TARGET = (
    "no target is named. Name what answers with --target: a model such as openai/gpt-4o-mini, a section of "
    ".evals/config.toml, replay:FILE for answers you have, or demo to try tui-evals without a model"
)
_PATHS = ("prompt", "out", "custom_metric")


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerationRequest:
    """A request for a generation; missing settings are those of the last command for the folder."""

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
    """The title of its task, in the words of the interface."""

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


# -- the prepared generation


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
        """The identity of the generation among the activities of a store."""
        return about_folder(self.folder.path)

    def permissions(self) -> list[Permission]:
        """The missing permissions of the models."""
        return missing_of_targets(self.project, self.roles.every)

    def destinations(self) -> Mapping[str, Mapping[str, str | None]]:
        """The destinations of questions and keys."""
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
    """The identity of a folder's generation among the activities of a store."""
    return str(folder.resolve())


def find_generation(request: GenerationRequest, project: Project) -> FoundGeneration:
    """Find prompt, folder, options and models; raises CannotPlan or ConfigurationError."""
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
    """Raise CannotPlan if a rule to be done again does not exist."""
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
    """The prompt that a folder was created for, if it is recorded, under its original name even if that is a link."""
    recorded = folder.record.get("prompt")
    file = folder.path.resolve() / recorded if isinstance(recorded, str) and recorded and "\0" not in recorded else None
    return file and file.parent.resolve() / file.name


def _write_once(file: Path, text: str, content_name: str) -> None:
    """Write a file; one with other content is not overwritten."""
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
    """The estimate of a generation."""

    steps: Sequence[pipeline.StepEstimate]
    destinations: Mapping[str, Mapping[str, str | None]]
    """The destinations of questions and keys."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Roles:
    """The configured models by role; a missing one is the model that writes the rules."""

    rules: TargetConfig
    baseline: TargetConfig | None = None
    groundtruth: TargetConfig | None = None
    judges: Sequence[TargetConfig] = ()
    groundtruth_judges: Sequence[TargetConfig] = ()
    under_test: Sequence[TargetConfig] = ()

    def fit_calls(self, concurrency: int | None) -> tuple[Mapping[str, int], str]:
        """How many calls of each model may be in flight, and a sentence where that is fewer than was asked for."""
        return fit_calls(calls_at_once([], self.every, concurrency))

    def open_models(
        self,
        budget: Budget,
        environment: Mapping[str, str],
        root: Path,
        most: Mapping[str, int],
        *,
        planning: bool = False,
    ) -> Models:
        """The models ready to be asked, each opened once; none while only `planning`."""
        opened_models: dict[str, PricedTarget] = {}

        def model(config: TargetConfig) -> PricedTarget:
            if config.name not in opened_models:
                later = Later(lambda: open_target(config, environment, root, items_of)) if planning else None
                opened_models[config.name] = opened(
                    config, "generator", budget, environment, root, most[judge_label(config.name)], later
                )
            return opened_models[config.name]

        return Models(
            rules=model(self.rules),
            baseline=model(self.baseline or self.rules),
            groundtruth=model(self.groundtruth or self.rules),
            judges=tuple(map(model, self.judges)),
            groundtruth_judges=tuple(map(model, self.groundtruth_judges)),
        )

    @property
    def every(self) -> tuple[TargetConfig, ...]:
        """All of the models."""
        one = (self.rules, self.baseline, self.groundtruth, *self.judges, *self.groundtruth_judges, *self.under_test)
        return tuple(config for config in one if config is not None)

    @property
    def names(self) -> dict[str, Any]:
        """The names of the models, as a file keeps them."""
        names = {
            "rules": self.rules.name,
            "baseline": self.baseline and self.baseline.name,
            "groundtruth": self.groundtruth and self.groundtruth.name,
            "judges": [judge.name for judge in self.judges],
            "groundtruth_judges": [judge.name for judge in self.groundtruth_judges],
            "under_test": [target.name for target in self.under_test],
        }
        return {role: named for role, named in names.items() if named}


@dataclass(slots=True)
class GenerationSession:
    """A generation under way; its run ends as finished or interrupted by `finished`."""

    run: RunRow
    storing: Storing
    finished: bool = field(default=False)
    message: str = ""
    """Why it is not finished, once that is known."""
    code: StopCode = "asked"
    lost: str = ""
    """Why the store takes no more rows and where the rest is, if that ended the generation."""


@contextlib.contextmanager
def claim_folder(folder: GenerationFolder, store: Path) -> Iterator[None]:
    """Lock other processes out of a folder inside the block, and remove incomplete files of a killed one."""
    lock = run_lock(store, f"generate-{short_hash(str(folder.path.resolve()))}")
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(hold(lock))
        except StoreError as problem:
            if not alive(lock):
                raise
            raise StoreError(
                f"another process generates into {folder.path}; wait for it, or name another folder with --out"
            ) from problem
        for litter in folder.path.glob(".*.tmp"):
            litter.unlink(missing_ok=True)
        yield


@contextlib.asynccontextmanager
async def open_session(
    subject: Subject, folder: GenerationFolder, roles: Roles, writer: Writer, reader: Reader, store: Path, *, anew: bool
) -> AsyncIterator[GenerationSession]:
    """The run of a generation inside the block: the unfinished one of its folder, unless `anew`, else a new one.

    Rows that the one before could not store are stored first.
    """
    before = unfinished_run(folder, reader)
    if before is not None:
        await writer.take_spilled(before)
    if before is None or anew:
        run = _new_run(subject, folder, roles, writer)
        folder.note(run=run.key)
    else:
        run = before
    async with session_of_run(run, roles, writer, store) as current:
        yield current


@contextlib.asynccontextmanager
async def session_of_run(run: RunRow, roles: Roles, writer: Writer, store: Path) -> AsyncIterator[GenerationSession]:
    """A run that records the cost of questions, running inside the block; its end depends on the session."""
    with hold(run_lock(store, run.key)) as lock:
        begun = run.started or time.time()
        writer.run_status(run.id, "running", pid=os.getpid(), host=socket.gethostname(), started=begun)
        longest = max(config.max_outage for config in roles.every)
        current = GenerationSession(run, Storing(writer, store, run, lock, longest))
        try:
            yield current
        finally:
            await current.storing.end(finished=current.finished, note=partial(_note_end, current, writer))
            if current.storing.is_lost:
                current.lost = await current.storing.conclude()


async def _note_end(current: GenerationSession, writer: Writer) -> None:
    """Store how a generation ended."""
    if current.storing.is_lost:
        current.finished, current.message, current.code = False, current.storing.reason, "store"
    if current.storing.is_spilled:
        return
    if current.finished:
        await writer.commit_step(writer.status_step(current.run.id, "finished", finished=time.time()))
    else:
        message = current.message or STOPPED.message
        await writer.commit_step(writer.status_step(current.run.id, "interrupted", message=message, code=current.code))


def unfinished_run(folder: GenerationFolder, reader: Reader) -> RunRow | None:
    """The run of the last generation into a folder, unless that came to its end."""
    key = folder.record.get("run")
    try:
        run = reader.find_run(key) if isinstance(key, str) and key else None
    except LookupError:
        return None
    return run if run is not None and GENERATION in run.config and run.status != "finished" else None


def _new_run(subject: Subject, folder: GenerationFolder, roles: Roles, writer: Writer) -> RunRow:
    """A run without answers, whose snapshot shows the prompt."""
    document = {
        "schemaVersion": CURRENT_VERSION,
        "metadata": {"name": subject.name},
        "items": [{"prompt": subject.body}],
    }
    source = str(subject.file)
    new = NewRun(
        name=f"generate {subject.name}",
        snapshot=writer.snapshot(document, source),
        source=source,
        targets=(roles.rules.name,),
        tags=("generate",),
        config={GENERATION: {"prompt": source, "folder": str(folder.path)}},
    )
    return writer.plan(new, ())


def our_spelling(word: str | None, settings: Settings) -> str | None:
    """A model as we spell it, where it is spelled as PromptPex does: provider:model."""
    head, colon, rest = (word or "").partition(":")
    ours = word in settings.targets or "/" in head or head in ("replay", "python", "command", "a2a")
    return f"{head}/{rest}" if colon and not ours else word


_NOT_SEARCHED = frozenset(("node_modules", "venv", "__pycache__"))


def remembered_targets(root: Path, settings: Settings) -> list[TargetConfig]:
    """The targets that the generations of a project would ask when they continue."""
    configs = []
    for place, folders, files in os.walk(root):
        folders[:] = [name for name in folders if not name.startswith(".") and name not in _NOT_SEARCHED]
        if RECORD not in files:
            continue
        where = str((Path(place) / RECORD).relative_to(root))
        for word in _remembered_words(Path(place)):
            with suppress(ConfigurationError):  # said where the generation continues
                configs.append(find_target(str(our_spelling(word, settings)), settings, where))
    return configs


def _remembered_words(folder: Path) -> list[str]:
    try:
        targets = GenerationFolder(folder).record.get("targets")
    except UnreadableFile:  # said where the generation continues
        return []
    roles = targets.values() if isinstance(targets, dict) else ()
    words = [word for role in roles for word in (role if isinstance(role, list) else [role])]
    return [word for word in words if isinstance(word, str) and word]
