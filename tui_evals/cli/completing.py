"""Completion in shells: the script of each, and the names that a project has."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem, get_completion_class

from tui_evals.cli.output import Stop, say, write_file
from tui_evals.datasets.discover import dataset_files, from_here, project_root
from tui_evals.files import make_folder
from tui_evals.store.database import StoreError
from tui_evals.store.reader import Reader
from tui_evals.targets.base import ConfigurationError
from tui_evals.targets.config import load_settings

VARIABLE = "_TUI_EVALS_COMPLETE"
_MOST_RUNS = 50
_PLACES = {
    "bash": Path(".local", "share", "bash-completion", "completions", "tui-evals"),
    "zsh": Path(".zfunc", "_tui-evals"),
    "fish": Path(".config", "fish", "completions", "tui-evals.fish"),
}


def completion(cli: click.Command, shell: str, install: bool) -> None:
    """Print the script of a shell, or write it to where the shell looks for it."""
    kind = get_completion_class(shell)
    if kind is None:
        raise Stop(f"there is no completion for {shell}")
    made = kind(cli, {}, "tui-evals", VARIABLE)
    script = made.source_template % made.source_vars()  # its source() would start the shell to ask its version
    if not install:
        say(script)
        return
    file = Path.home() / _PLACES[shell]
    make_folder(file.parent)
    write_file(file, [script])
    say(f"wrote {file}", fg="green")
    if shell == "zsh":
        say("if ~/.zshrc does not have them yet, add: fpath+=~/.zfunc; autoload -Uz compinit && compinit")
    say("it works in the next shell that you open")


def complete(command: click.Command) -> None:
    """Complete parameters that name something in the project."""
    for param in command.params:
        if param.name in _NAMES:
            param._custom_shell_complete = _completing(_NAMES[param.name])
    if isinstance(command, click.Group):
        for one in command.commands.values():
            complete(one)


def _completing(names: Callable[[], Iterable[tuple[str, str]]]) -> Callable[..., list[CompletionItem]]:
    def items(ctx: click.Context, param: click.Parameter, begun: str) -> list[CompletionItem]:
        with suppress(StoreError, ConfigurationError, OSError, ValueError):  # a shell cannot show errors
            return [CompletionItem(name, help=about) for name, about in names() if name.startswith(begun)]
        return []

    return items


def _runs() -> Iterable[tuple[str, str]]:
    store = project_root(Path.cwd()) / ".evals" / "evals.db"
    if not store.exists():
        return [("last", "")]
    with Reader(store) as reader:
        return [("last", "the last run"), *((run.key, f"{run.name} {run.status}") for run in reader.runs(_MOST_RUNS))]


def _targets() -> Iterable[tuple[str, str]]:
    return [("demo", "scripted"), *((name, one.model) for name, one in load_settings(Path.cwd()).targets.items())]


def _datasets() -> Iterable[tuple[str, str]]:
    from tui_evals.runs.experiments import experiment_files, experiment_name

    root = project_root(Path.cwd())
    yield from ((experiment_name(file), str(file)) for file in experiment_files(root))
    yield from ((str(from_here(file)), "dataset") for file in dataset_files(root))


def _evaluators() -> Iterable[tuple[str, str]]:
    from tui_evals.evaluators.registry import built_in

    return [(name, "") for name in sorted(built_in())]


_NAMES: dict[str | None, Any] = {
    **dict.fromkeys(("run", "runs", "parent", "from_run"), _runs),
    **dict.fromkeys(("targets", "judge", "target"), _targets),
    **dict.fromkeys(("dataset", "file"), _datasets),
    **dict.fromkeys(("evaluators", "evaluator", "named"), _evaluators),
}
