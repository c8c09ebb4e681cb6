"""Datasets, evaluators and targets named by options."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from tui_evals.datasets.document import Document, inline_document, load
from tui_evals.datasets.problems import DatasetError
from tui_evals.datasets.validate import document_of_data
from tui_evals.runs.approving import find_typed
from tui_evals.targets.base import ConfigurationError, TargetConfig
from tui_evals.targets.config import Settings, find_target
from tui_evals.text import strictjson

from . import inputs, project
from .datasets_named import dataset_of_word
from .output import Stop


def evaluators_named(text: str) -> dict[str, Any]:
    """Evaluators as the command line names them."""
    if not text.lstrip().startswith("{"):
        return {name.strip(): {} for name in text.split(",") if name.strip()}
    try:
        options_by_name = strictjson.loads(text)
    except strictjson.JsonError as problem:
        raise Stop(f"--evaluators: {problem}") from None
    if not isinstance(options_by_name, dict) or not all(
        isinstance(options, dict) for options in options_by_name.values()
    ):
        raise Stop("--evaluators: each name needs an object of options, such as {}")
    return options_by_name


def document_of(options: Mapping[str, Any]) -> tuple[Document, str]:
    """The dataset a run asks and a word for where it came from."""
    file = options["dataset"] or options["prompts_file"]
    sources = [bool(file), bool(options["inline"]), options["interactive"], bool(options["snapshot"])]
    if sum(sources) > 1:
        raise Stop("name one source: a dataset, --prompts, --interactive or --snapshot")
    if options["expected"] and not options["inline"]:
        raise Stop("--expected belongs to --prompts")
    stands_for: Path | None = options["stands_for"]
    if stands_for is not None and not options["snapshot"]:
        raise Stop("--as belongs to --snapshot: it names the file that the snapshot stands for")
    try:
        if options["inline"]:
            return document_of_data(inline_document(options["inline"], options["expected"]), Path("prompts")), "prompts"
        if options["interactive"]:
            return document_of_data(inline_document(*_typed_prompts()), Path("prompts")), "interactive"
        if options["snapshot"]:
            with project.reader() as reader:
                data = reader.snapshot(options["snapshot"])
            if stands_for is not None:
                return document_of_data(data, stands_for), str(stands_for)
            return document_of_data(data), f"snapshot {options['snapshot'][:12]}"
        path = dataset_of_word(file) if file else inputs.found_or_started()
        return load(path), str(path)
    except DatasetError as problem:
        raise Stop(str(problem)) from None
    except LookupError as problem:
        raise Stop(str(problem)) from None


def _typed_prompts() -> tuple[list[str], list[str]]:
    """Prompts typed one at a time, until an empty line."""
    if not sys.stdin.isatty():
        raise Stop("--interactive needs a terminal; give --prompts instead")
    prompts: list[str] = []
    expected: list[str] = []
    while prompt := click.prompt("Prompt (empty to run)", default="", show_default=False):
        prompts.append(prompt)
        expected.append(click.prompt("Expected response", default="", show_default=False))
    if not prompts:
        raise Stop("no prompt was given", 2)
    return prompts, expected if any(expected) else []


def targets_named(words: Sequence[str], settings: Settings, where: str = "") -> tuple[TargetConfig, ...]:
    """The targets that are named, in a file where one is given, or the ways to name one."""
    if not words:
        raise Stop(
            "no target is named. Name what answers with --target: a model such as openai/gpt-4o-mini, a section of "
            ".evals/config.toml, replay:FILE for answers you have, or demo to try tui-evals without a model",
            3,
        )
    targets = [target_or_stop(word, settings, where) for word in words]
    return tuple(target for target in targets if target is not None)


def target_or_stop(word: str | None, settings: Settings, where: str = "") -> TargetConfig | None:
    """The target of a name or spelling, or the end of the command; `where` is the file that says it, if one does."""
    if word is None:
        return None
    try:
        return find_target(word, settings, where) if where else find_typed(word, settings)
    except ConfigurationError as problem:
        raise Stop(str(problem), 3) from None
