"""What `tui-evals generate` is asked for: which prompt, which folder, who does what, which steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tui_evals.datasets.prompts import SUFFIXES, is_prompt, prompt_name
from tui_evals.datasets.save import write_atomically
from tui_evals.evaluators.compliance import SUFFIX
from tui_evals.generate import pipeline
from tui_evals.generate.folder import RECORD, Folder
from tui_evals.generate.options import separated
from tui_evals.generate.session import Cast
from tui_evals.generate.steps import STEPS, Step, step_named
from tui_evals.generate.subject import Subject
from tui_evals.generate.work import Work
from tui_evals.targets.base import TargetConfig
from tui_evals.targets.config import Settings

from .generating_lines import SILENT
from .output import Stop
from .sources import target_or_stop, targets_named
from .world import World


@dataclass(frozen=True, slots=True)
class Wish:
    """Which steps are taken, and how."""

    steps: tuple[Step, ...]
    from_step: Step | None
    confirm: frozenset[str]
    given: Mapping[str, Any]


def prompt_and_folder(given: Mapping[str, Any]) -> tuple[Path, Folder]:
    """The prompt's file and the folder of its generation, however they were named."""
    file, inline, out = given["prompt"], given["inline"], given["out"]
    if (file is None) == (inline is None):
        raise Stop("name the prompt: a file, or its text with --prompt TEXT")
    if inline is not None:
        file = (out or Path()) / "input.prompty"
        _write_once(file, inline + "\n", "the text of --prompt")
    elif file.is_dir():
        named = Folder(file).record.get("prompt")
        if not isinstance(named, str):
            raise Stop(f"{file} is a folder without {RECORD}; name the prompt's file instead")
        return (file / named).resolve(), Folder(file)
    elif file.name == "promptpex_context.json":
        raise Stop(f"{file} is what PromptPex saved; `tui-evals import {file}` reads it")
    elif not is_prompt(file):
        raise Stop(f"{file}: a prompt is a file that ends in {', '.join(SUFFIXES)}")
    return file, Folder((out or file.parent) / prompt_name(file))


def _write_once(file: Path, text: str, what: str) -> None:
    """Write a file; one that is there with other content is not overwritten."""
    if file.exists() and file.read_text(encoding="utf-8") != text:
        raise Stop(f"{file} is there and holds something else than {what}; delete it, or choose another folder")
    file.parent.mkdir(parents=True, exist_ok=True)
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


def cast_of(given: Mapping[str, Any], saved: object, here: World) -> Cast:
    """Who does what: as named, else as in the generation before, else by the configuration."""
    before = saved if isinstance(saved, dict) else {}
    settings = here.settings

    def one(word: str | None, role: str) -> TargetConfig | None:
        return target_or_stop(_spelled(word or before.get(role), settings), settings)

    def several(words: Sequence[str], role: str) -> tuple[TargetConfig, ...]:
        names = [name for word in words for name in separated(word)] or list(before.get(role, ()))
        return targets_named([str(_spelled(name, settings)) for name in names], settings) if names else ()

    rules = one(given["rules"], "rules") or targets_named(settings.run.targets, settings)[0]
    judges = several(given["judges"], "judges")
    if not judges and (judge := target_or_stop(settings.judge, settings)):
        judges = (judge,)
    return Cast(
        rules=rules,
        baseline=one(given["baseline"], "baseline"),
        groundtruth=one(given["groundtruth_by"], "groundtruth"),
        judges=judges,
        groundtruth_judges=several(given["groundtruth_judges"], "groundtruth_judges") or judges,
        under_test=several(given["under_test"], "under_test"),
    )


def _spelled(word: str | None, settings: Settings) -> str | None:
    """A model as we spell it, where it is spelled as PromptPex does: provider:model."""
    head, colon, rest = (word or "").partition(":")
    ours = word in settings.targets or "/" in head or head in ("replay", "python", "command")
    return f"{head}/{rest}" if colon and not ours else word


def _step(word: str, option: str) -> Step:
    found = step_named(word)
    if found is None:
        steps = ", ".join(step.name for step in STEPS if step.name not in SILENT)
        raise Stop(f"{option}: there is no step {word}; the steps are {steps}")
    return found


def wish_of(given: Mapping[str, Any], work: Work) -> Wish:
    """The steps that are taken, and how, or the end of the command."""
    until = _step(given["until"], "--until") if given["until"] else None
    confirm = [word for each in given["confirm"] for word in each.split(",") if word]
    named = {step.name for step in STEPS} if "*" in confirm else {_step(word, "--confirm").name for word in confirm}
    begin = _step(given["from_step"], "--from") if given["from_step"] else None
    steps = pipeline.chosen(work, until.name if until else None)
    if begin is not None and begin not in steps:
        raise Stop(f"--from {begin.name}: this generation does not take that step; see the options that ask for it")
    _check_rules(work)
    return Wish(tuple(steps), begin, frozenset(named), given)


def _check_rules(work: Work) -> None:
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
