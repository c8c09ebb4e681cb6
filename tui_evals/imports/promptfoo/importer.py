"""A configuration of promptfoo imported as a dataset, with its prompts in it or as files beside it."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import tomlkit

from tui_evals.imports.base import CannotRead, Importer, ImportRequest, ImportResult, shown
from tui_evals.imports.keeping import keep_dataset, run_command, text_of
from tui_evals.imports.losses import Losses

from .prompts import Prompt, Provider, prompty_text
from .reading import NAMES, read_config, recognises

_NOT_IN_NAMES = re.compile(r"[^\w.-]+")


def may_be_config(path: Path) -> bool:
    """Whether a path may be a configuration: by its name, or as YAML that is no prompt file."""
    is_prompt = path.name.lower().endswith((".prompt.yml", ".prompt.yaml"))
    return recognises(path) or (path.suffix.lower() in (".yaml", ".yml") and not is_prompt)


def _import(request: ImportRequest) -> ImportResult:
    source = _config_file(request.path)
    config, losses = read_config(text_of(source), str(source), source.parent)
    default = source.resolve().parent.name if source.name in NAMES else source.stem
    file = replace(request, path=source).dataset_file(default or "promptfoo")
    prompts = _prompt_files(config.prompts, file, losses) if len(config.prompts) > 1 else {}
    document = {**config.data, **_prompt_under_test(config.prompts, prompts, losses)}
    _leave_out_settings(config.targets, losses)
    models = [target.model for target in config.targets if target.http is None]
    targets = " ".join(f"--target {shlex.quote(model)}" for model in models) or "--target NAME"
    named = "".join(f" -p {shlex.quote(shown(prompt))}" for prompt in prompts)
    missing = "" if config.prompts else " -p PROMPT"
    following = run_command(file, prompts=named or missing, targets=targets)
    return keep_dataset(request, file, document, losses, prompts=prompts, following=following)


def _config_file(path: Path) -> Path:
    if not path.is_dir():
        return path
    file = next((path / name for name in NAMES if (path / name).is_file()), None)
    if file is None:
        raise CannotRead(f"{path} holds none of {', '.join(NAMES)}; name the configuration itself")
    return file


def _prompt_under_test(prompts: Sequence[Prompt], files: dict[Path, str], losses: Losses) -> dict[str, Any]:
    """The prompt that a run tests which names none, of several."""
    if files:
        return {"prompt_file": next(iter(files)).name}
    if len(prompts) < 2:
        return {}
    losses.changed(f"the prompt {prompts[0].name}", prompts[0].where, "it stands in the dataset as messages")
    return {"messages": [dict(message) for message in prompts[0].messages]}


def _prompt_files(prompts: Sequence[Prompt], file: Path, losses: Losses) -> dict[Path, str]:
    """The prompts as prompt files beside the dataset; one that no such file can hold is left out."""
    texts = [prompty_text(prompt) for prompt in prompts]
    for number, (prompt, text) in enumerate(zip(prompts, texts, strict=True)):
        if text is None and (number or any(texts)):
            losses.left_out(f"the prompt {prompt.name}", prompt.where, "a prompt file cannot hold its messages")
    named = zip(_stems(prompts), texts, strict=True)
    return {file.with_name(f"{file.stem}-{stem}.prompty"): text for stem, text in named if text is not None}


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


def _leave_out_settings(targets: Sequence[Provider], losses: Losses) -> None:
    """Note what of a target belongs into the settings of the project, not on the command line."""
    for target in targets:
        if target.http is not None:
            written = tomlkit.item(dict(target.http), _parent=tomlkit.array()).as_string()
            why = f"a section [targets.NAME] of .evals/config.toml takes it, with http = {written}"
            losses.left_out(target.name or target.model, why=why)
            continue
        given = [*target.params, *(name for name in ("base_url", "api_key") if getattr(target, name) is not None)]
        if given:
            why = f"a section [targets.NAME] of .evals/config.toml with model = {target.model!r} takes them"
            losses.left_out(f"{', '.join(given)} of {target.name or target.model}", why=why)


IMPORTER = Importer(
    kind="promptfoo",
    about="a promptfooconfig.yaml of promptfoo, or its folder",
    recognises=may_be_config,
    read=_import,
    order=60,
)
