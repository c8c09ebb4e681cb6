"""The inputs of commands from their project: settings, evaluators, datasets, targets, and approvals."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from tui_evals.cli import project
from tui_evals.cli.opening import dataset_of_word
from tui_evals.cli.output import Stop, confirmed, say, warn
from tui_evals.datasets.discover import (
    ENDINGS,
    STARTER,
    find_dataset,
    is_foreign,
    is_generation_file,
    make_project,
    may_hold_items,
    project_root,
    write_starter,
)
from tui_evals.datasets.document import Document, inline_document, load
from tui_evals.datasets.paths import DatasetError
from tui_evals.datasets.prompts import OWN_SUFFIXES
from tui_evals.datasets.validate import document_of_data
from tui_evals.evaluators.registry import Registry, load_registry
from tui_evals.evaluators.trust import Trust
from tui_evals.present.permissions import agreed_before, agreed_lines, request_lines, request_title
from tui_evals.project_files import read_head
from tui_evals.runs.approving import agree, agreed_permissions, find_typed, missing_store, permission_request
from tui_evals.runs.experiments import experiment_files, is_experiment
from tui_evals.runs.project import Project, load_project, store_note
from tui_evals.store.connection import MissingSnapshot
from tui_evals.targets.base import ConfigurationError, TargetConfig
from tui_evals.targets.config import Settings, find_target
from tui_evals.targets.permissions import Permission
from tui_evals.text import strictjson

SUFFIXES = (*ENDINGS, *OWN_SUFFIXES)


def evaluators(trusting: bool = False, prompt: Path | None = None) -> Registry:
    """The evaluators of the project and the metrics next to a prompt; `trusting` runs the project's code unasked."""
    return load_registry(project_root(Path.cwd()), Trust(always=trusting), prompt.parent if prompt else None)


def read(file: Path) -> Document:
    """The document of a file, or of the dataset of that name, or Stop with its problems."""
    try:
        return load(dataset_of_word(file))
    except DatasetError as problem:
        raise Stop(str(problem)) from None


def dataset_files(paths: tuple[Path, ...]) -> Iterator[Path]:
    """The files named, those inside named folders, or the one that discovery finds."""
    if not paths:
        experiments = experiment_files(project_root(Path.cwd()))
        yield from experiments
        if not experiments or find_dataset(Path()) is not None:
            yield found_or_started()
    for path in paths:
        if path.is_dir():
            files = (file for file in path.rglob("*") if file.name.lower().endswith(SUFFIXES))
            yield from sorted(file for file in files if not is_generation_file(file) and _is_checked(file))
        else:
            yield dataset_of_word(path)


def _is_checked(file: Path) -> bool:
    """Whether a file in a folder is meant as input; many YAML files are something else."""
    if file.suffix == ".json" and is_foreign(read_head(file, 200, follow_out=True)):
        return False
    is_other = file.suffix in (".yaml", ".yml") and not file.name.lower().endswith(OWN_SUFFIXES)
    return not is_other or is_experiment(file) or may_hold_items(file)


def found_or_started() -> Path:
    """The dataset that discovery finds; without one, offers a starter at a terminal."""
    dataset = find_dataset(Path())
    if dataset is not None:
        return dataset
    message = "no dataset found in the current directory or ./evals/ (prompts.json, evals.json or tests.json)"
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise Stop(f"{message}; name a file, or run `tui-evals init`")
    say(f"⚠ {message}")
    if not confirmed("Create a starter evals file with sample prompts?", default=True):
        raise Stop("nothing was written; name a file, or run `tui-evals init`")
    write_starter(STARTER)
    make_project(Path.cwd())
    say(f"wrote {STARTER}; edit it, then run this command again")
    raise SystemExit(0)


def open_project(env_name: str | None, trusting: bool, prompt: Path | None = None) -> Project:
    """The project of the current folder, or Stop with its problem."""
    try:
        here = load_project(project_root(Path.cwd()), env_name, trusting=trusting)
    except ConfigurationError as problem:
        raise Stop(str(problem), 3) from None
    for note in here.notes:
        warn(f"note: {note}")
    return here.with_prompt(prompt)


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
        raise Stop("--as belongs to --snapshot: it names the file that the snapshot replaces")
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
        path = dataset_of_word(file) if file else found_or_started()
        return load(path), str(path)
    except DatasetError as problem:
        raise Stop(str(problem)) from None
    except MissingSnapshot:
        raise Stop(f"the store holds no snapshot {options['snapshot']}") from None


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
    """The named targets, with the file that names them; without names, an error that lists the ways."""
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


_COLOURS = {"+": "green", "-": "red", "@": "cyan"}


def approve(missing: Sequence[Permission], root: Path) -> None:
    """Ask once, and store the approval; without a terminal the command ends with instructions."""
    if not missing:
        return
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        listed = "\n".join(f"  • {permission.sentence}" for permission in missing)
        raise Stop(
            f"{root} would do what you have not agreed to:\n{listed}\n"
            "Read the files that say so, then agree with `tui-evals trust`, or for this once with --trust",
            2,
        )
    show_page(missing, root)
    if not confirmed("Allow this?"):
        raise Stop("nothing was done", 2)
    agree(missing, root)


def approve_store(here: Project, *, wanted: bool) -> None:
    """Ask once whether to use the answers of a store from elsewhere, and tell the user if they are not used.

    Without a terminal, or after a no, everything is asked again. Does nothing unless its answers are `wanted`.
    """
    permission = missing_store(here) if wanted else None
    if permission is not None and sys.stdin.isatty() and sys.stderr.isatty():
        show_page([permission], here.root)
        if confirmed("Allow this?"):
            agree([permission], here.root)
    if wanted and not here.trusting and (note := store_note(here.store)):
        warn(f"note: {note}")


def show_page(missing: Sequence[Permission], root: Path) -> None:
    """Show the permissions to approve: what, from which file, and what is new since the last approval."""
    request = permission_request(missing, root)
    say(request_title(request), err=True, bold=True)
    for asked in request_lines(request):
        say(f"  • {asked.line}", err=True)
        for line in asked.code:
            say(f"      {line}", err=True, fg=_COLOURS.get(line[:1]))
    if before := agreed_before(request):
        say(before, err=True)


def show_agreed(root: Path) -> None:
    """Everything agreed to in a project."""
    for line in agreed_lines(agreed_permissions(root), root):
        say(line)
