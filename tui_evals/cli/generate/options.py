"""The options of `tui-evals generate`: prompt, folder, the model of each role, and steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tui_evals.atomic_files import write_atomically
from tui_evals.cli.output import Stop
from tui_evals.cli.sources import target_or_stop, targets_named
from tui_evals.datasets.prompts import SUFFIXES, is_prompt, prompt_name
from tui_evals.evaluators.compliance import SUFFIX
from tui_evals.generate import pipeline
from tui_evals.generate.folder import RECORD, GenerationFolder, make_folder
from tui_evals.generate.options import saved_options, split_names
from tui_evals.generate.session import Roles, our_spelling
from tui_evals.generate.steps import STEPS, Step, step_named
from tui_evals.generate.subject import Subject
from tui_evals.generate.work import Generation
from tui_evals.runs.project import Project
from tui_evals.targets.base import TargetConfig

from .lines import SILENT


@dataclass(frozen=True, slots=True)
class GenerateOptions:
    """Which steps are taken, and how."""

    steps: tuple[Step, ...]
    begin: tuple[Step, ...]
    """The steps that are taken anew, with all that follow."""
    confirm: frozenset[str]
    values: Mapping[str, Any]


def prompt_and_folder(options: Mapping[str, Any]) -> tuple[Path, GenerationFolder]:
    """The prompt's file and the folder of its generation, however they were named."""
    file, inline, out = options["prompt"], options["inline"], options["out"]
    if (file is None) == (inline is None):
        raise Stop("name the prompt: a file, or its text with --prompt TEXT")
    if inline is not None:
        file = (out or Path()) / "input.prompty"
        _write_once(file, inline + "\n", "the text of --prompt")
    elif file.is_dir():
        folder = GenerationFolder(file)
        prompt = _prompt_of(folder)
        if prompt is None:
            raise Stop(f"{file} is a folder without a {RECORD} that names a prompt; name the prompt's file instead")
        if not prompt.exists():
            raise Stop(
                f"the prompt of {file} is not at {prompt} any more; name its file instead, and with --out the folder "
                f"above {file}, and the generation goes on"
            )
        return prompt, folder
    elif file.name == "promptpex_context.json":
        raise Stop(f"{file} is what PromptPex saved; `tui-evals import {file}` reads it")
    elif not is_prompt(file):
        raise Stop(f"{file}: a prompt is a file that ends in {', '.join(SUFFIXES)}")
    folder = GenerationFolder((out or file.parent) / prompt_name(file))
    recorded = _prompt_of(folder)
    if recorded is not None and recorded.exists() and recorded.resolve() != file.resolve():
        raise Stop(
            f"{folder.path} holds what was made for {recorded}, which is another prompt of the same name; name another "
            "folder with --out, or rename one of the prompts"
        )
    return file, folder


def _prompt_of(folder: GenerationFolder) -> Path | None:
    """The prompt a folder was made for, as far as it says, under the name it had then though it may be a link."""
    recorded = folder.record.get("prompt")
    file = folder.path.resolve() / recorded if isinstance(recorded, str) and recorded and "\0" not in recorded else None
    return file and file.parent.resolve() / file.name


def saved_of(folder: GenerationFolder) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """The options and the models an earlier command named; Stop says what cannot be."""
    file = folder.path / RECORD
    targets = folder.record.get("targets") or {}
    try:
        options = saved_options(folder.record.get("options"))
    except ValueError as problem:
        raise Stop(f"{file}, {problem}; mend it there, or delete the file") from None
    lists = ("judges", "groundtruth_judges", "under_test")
    wrong = [role for role in lists if not _is_name_list(_field_of(targets, role, []))]
    wrong += [
        role for role in ("rules", "baseline", "groundtruth") if not _is_name_list([_field_of(targets, role, "")])
    ]
    if not isinstance(targets, dict) or wrong:
        raise Stop(f"{file}: targets must name a target for each role, or a list of them; mend it, or delete the file")
    return options, targets


def _field_of(record: object, key: str, otherwise: object) -> object:
    return record.get(key, otherwise) if isinstance(record, dict) else None


def _is_name_list(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(name, str) for name in value)


def _write_once(file: Path, text: str, content_name: str) -> None:
    """Write a file; one that is there with other content is not overwritten."""
    if file.exists() and file.read_text(encoding="utf-8") != text:
        raise Stop(f"{file} is there and holds something else than {content_name}; delete it, or choose another folder")
    make_folder(file.parent)
    write_atomically(file, text.encode("utf-8"))


def custom_metric(file: Path | None, subject: Subject) -> None:
    """Put a metric beside the prompt, where metrics are found."""
    if file is None:
        return
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as problem:
        raise Stop(f"the metric {file} cannot be read: {problem}") from None
    _write_once(subject.file.parent / f"custom{SUFFIX}", text, f"the metric {file}")


def cast_of(options: Mapping[str, Any], before: Mapping[str, Any], here: Project) -> Roles:
    """The target of each role: as named, else as before, else by the configuration."""
    settings = here.settings

    def role_target(word: str | None, role: str) -> TargetConfig | None:
        where = "" if word else RECORD
        return target_or_stop(our_spelling(word or before.get(role), settings), settings, where)

    def role_targets(spellings: Sequence[str], role: str) -> tuple[TargetConfig, ...]:
        typed = [name for spelling in spellings for name in split_names(spelling)]
        names = [str(our_spelling(name, settings)) for name in typed or before.get(role, ())]
        return targets_named(names, settings, "" if typed else RECORD) if names else ()

    rules = role_target(options["rules"], "rules") or targets_named(settings.run.targets, settings)[0]
    judges = role_targets(options["judges"], "judges")
    if not judges and (judge := target_or_stop(settings.judge, settings)):
        judges = (judge,)
    return Roles(
        rules=rules,
        baseline=role_target(options["baseline"], "baseline"),
        groundtruth=role_target(options["groundtruth_by"], "groundtruth"),
        judges=judges,
        groundtruth_judges=role_targets(options["groundtruth_judges"], "groundtruth_judges") or judges,
        under_test=role_targets(options["under_test"], "under_test"),
    )


def _step_or_stop(word: str, option: str) -> Step:
    named_step = step_named(word)
    if named_step is None:
        steps = ", ".join(step.name for step in STEPS if step.name not in SILENT)
        raise Stop(f"{option}: there is no step {word}; the steps are {steps}")
    return named_step


def generate_options(options: Mapping[str, Any], work: Generation) -> GenerateOptions:
    """The steps that are taken, and how, or the end of the command."""
    until = _step_or_stop(options["until"], "--until") if options["until"] else None
    confirm = [word for part in options["confirm"] for word in part.split(",") if word]
    confirm_steps = (
        {step.name for step in STEPS} if "*" in confirm else {_step_or_stop(word, "--confirm").name for word in confirm}
    )
    begin = [_step_or_stop(word, "--from") for word in (options["from_step"] or "").split(",") if word]
    steps = pipeline.choose_steps(work, until.name if until else None)
    for step in begin:
        if step not in steps:
            raise Stop(f"--from {step.name}: this generation does not take that step; see the options that ask for it")
    _check_rules(work)
    return GenerateOptions(tuple(steps), tuple(begin), frozenset(confirm_steps), options)


def _check_rules(work: Generation) -> None:
    """End the command when a rule is to be done again that is not there."""
    if not work.again and not work.invert:
        return
    rules = work.rules
    if not any(rule.inverse for rule in rules):
        raise Stop(f"{work.folder.path} holds no rules and inverse rules yet; leave --rule and --inverse out first")
    if outside := sorted(work.again - {rule.number for rule in rules}):
        raise Stop(f"--rule: there is no rule {outside[0]}; they are numbered 1 to {len(rules)}, inverse rules last")
    if outside := sorted(work.invert - {rule.of for rule in rules}):
        raise Stop(f"--inverse: there is no output rule {outside[0]}; there are {max(rule.of for rule in rules)}")
