"""A configuration of promptfoo imported as a dataset, with its prompts in it or as files beside it."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tui_evals.evaluators.custom import FOLDER
from tui_evals.imports.base import CannotRead, Importer, ImportRequest, ImportResult, shown
from tui_evals.imports.keeping import keep_dataset, run_command, text_of
from tui_evals.imports.losses import Losses

from .prompts import Prompt, Provider, prompty_text
from .reading import NAMES, Configuration, read_config, recognises

_NOT_IN_NAMES = re.compile(r"[^\w.-]+")
_NOT_IN_TARGETS = re.compile(r"[^A-Za-z0-9_-]+")


@dataclass(frozen=True, slots=True)
class _PromptFile:
    """A prompt and the file it is written to."""

    name: str
    path: Path
    text: str


def may_be_config(path: Path) -> bool:
    """Whether a path may be a configuration: by its name, or as YAML that is no prompt file."""
    is_prompt = path.name.lower().endswith((".prompt.yml", ".prompt.yaml"))
    return recognises(path) or (path.suffix.lower() in (".yaml", ".yml") and not is_prompt)


def _import(request: ImportRequest) -> ImportResult:
    source = _config_file(request.path)
    config, losses = read_config(text_of(source), str(source), source.parent)
    default = source.resolve().parent.name if source.name in NAMES else source.stem
    file = replace(request, path=source).dataset_file(default or "promptfoo")
    written = _prompt_files(config.prompts, file, losses) if len(config.prompts) > 1 else []
    document = {**config.data, **_prompt_under_test(config.prompts, written, losses)}
    names = list(_target_names(config.targets))
    sections = _sections(config, names)
    folder = request.project.root / FOLDER
    code = {folder / name / f"{name}.py": text for name, text in config.code.items()}
    texts = {one.path: one.text for one in written}
    models = [name if target.http else target.model for name, target in zip(names, config.targets, strict=True)]
    following = _commands(file, config, written, models)
    kept = keep_dataset(request, file, document, losses, prompts=texts, evaluators=code, following=following)
    with_names = [name if name in sections else model for name, model in zip(names, models, strict=True)]
    return replace(
        kept,
        targets=sections,
        next_with_targets=_commands(file, config, written, with_names),
    )


def _commands(file: Path, config: Configuration, prompts: Sequence[_PromptFile], named: Sequence[str]) -> str:
    """What runs the dataset: a command for all targets that are asked with the same prompts."""
    groups: dict[tuple[str, ...], list[str]] = {}
    for target, name in zip(config.targets, named, strict=True):
        own = [one for one in prompts if not target.prompts or _is_meant(one.name, target.prompts)]
        groups.setdefault(tuple(shown(one.path) for one in own or prompts), []).append(name)
    commands = []
    for paths, targets in (groups or {tuple(shown(one.path) for one in prompts): []}).items():
        given = "".join(f" -p {shlex.quote(path)}" for path in paths)
        asked = " ".join(f"--target {shlex.quote(target)}" for target in targets) or "--target NAME"
        commands.append(run_command(file, prompts=given if config.prompts else " -p PROMPT", targets=asked))
    return " && ".join(commands)


def _is_meant(name: str, wanted: Sequence[str]) -> bool:
    """Whether a provider's list of prompts holds one, by its name or the start of it before an asterisk."""
    return any(name == one or (one.endswith("*") and name.startswith(one[:-1])) for one in wanted)


def _target_names(targets: Sequence[Provider]) -> Iterator[str]:
    """A name for each target that a section can have: its label, or else the end of its model."""
    taken: set[str] = set()
    for target in targets:
        stem = _NOT_IN_TARGETS.sub("-", target.name or target.model.rpartition("/")[2]).strip("-").lower()[:40]
        name, number = stem or "target", 1
        while name in taken:
            number += 1
            name = f"{stem}-{number}"
        taken.add(name)
        yield name


def _sections(config: Configuration, names: Sequence[str]) -> dict[str, dict[str, Any]]:
    """The targets that say more than their model, as sections of the project's configuration."""
    sections: dict[str, dict[str, Any]] = {}
    for name, target in zip(names, config.targets, strict=True):
        own: dict[str, Any] = {}
        if target.tools and "tools" not in config.data:
            own["tools"] = list(target.tools)
        if target.response_format and "response_format" not in config.data:
            own["response_format"] = _sent_form(target.response_format)
        section = target.section()
        if own:
            section["params"] = {**section.get("params", {}), **own}
        if section or target.name:
            sections[name] = section if target.http else {"model": target.model, **section}
    return sections


def _sent_form(form: str | Mapping[str, Any]) -> dict[str, Any]:
    """The form of the answer as the parameter that is sent."""
    if isinstance(form, str):
        return {"type": "json_object" if form == "json" else "text"}
    return {"type": "json_schema", "json_schema": {"name": "answer", "schema": dict(form)}}


def _config_file(path: Path) -> Path:
    if not path.is_dir():
        return path
    file = next((path / name for name in NAMES if (path / name).is_file()), None)
    if file is None:
        raise CannotRead(f"{path} holds none of {', '.join(NAMES)}; name the configuration itself")
    return file


def _prompt_under_test(prompts: Sequence[Prompt], written: Sequence[_PromptFile], losses: Losses) -> dict[str, Any]:
    """The prompt that a run tests which names none, of several."""
    if written:
        return {"prompt_file": written[0].path.name}
    if len(prompts) < 2:
        return {}
    losses.changed(f"the prompt {prompts[0].name}", prompts[0].where, "it stands in the dataset as messages")
    return {"messages": [dict(message) for message in prompts[0].messages]}


def _prompt_files(prompts: Sequence[Prompt], file: Path, losses: Losses) -> list[_PromptFile]:
    """The prompts as prompt files beside the dataset; one that no such file can hold is left out."""
    texts = [prompty_text(prompt) for prompt in prompts]
    for number, (prompt, text) in enumerate(zip(prompts, texts, strict=True)):
        if text is None and (number or any(texts)):
            losses.left_out(f"the prompt {prompt.name}", prompt.where, "a prompt file cannot hold its messages")
    named = zip(prompts, _stems(prompts), texts, strict=True)
    return [
        _PromptFile(prompt.name, file.with_name(f"{file.stem}-{stem}.prompty"), text)
        for prompt, stem, text in named
        if text is not None
    ]


def _stems(prompts: Sequence[Prompt]) -> Iterator[str]:
    """A name of a file for each prompt, no two the same."""
    taken: set[str] = set()
    for number, prompt in enumerate(prompts, 1):
        name = Path(prompt.name).stem if prompt.name.startswith(prompt.where) and prompt.where else prompt.name
        stem = _NOT_IN_NAMES.sub("-", name).strip("-.").lower()[:40] or str(number)
        while stem in taken:
            stem = f"{stem}-{number}"
        taken.add(stem)
        yield stem


IMPORTER = Importer(
    kind="promptfoo",
    about="a promptfooconfig.yaml of promptfoo, or its folder",
    recognises=may_be_config,
    read=_import,
    names=NAMES,
    order=60,
)
