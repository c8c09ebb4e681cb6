"""The table of commands, and what becomes of errors."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Mapping, Sequence

import click

from tui_evals import __version__

from .output import Stop, say, warn

SECTIONS: Mapping[str, Mapping[str, tuple[str, str]]] = {
    "Write": {
        "init": ("authoring", "Make a starter dataset and the project folder."),
        "validate": ("authoring", "Say everything that is wrong with datasets and prompt files."),
        "resolve": ("authoring", "Show which evaluators judge each item, and who said so."),
        "upgrade": ("authoring", "Bring an older dataset to the current format."),
        "convert": ("authoring", "Write a dataset as another format."),
    },
    "Judge": {
        "evaluators": ("judging", "List the evaluators, or show one with options and an example."),
        "score": ("judging", "Judge one answer, or rows of answers, by hand."),
        "trust": ("judging", "Let evaluators written in this project run."),
    },
    "Look up": {
        "help": ("helping", "Show a page of the manual."),
        "doctor": ("helping", "Check this installation, the project and the terminal."),
    },
}
_COMMANDS = {name: entry for commands in SECTIONS.values() for name, entry in commands.items()}


class _Commands(click.Group):
    """A group that imports a command's module when the command is asked for, so that help stays quick."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in _COMMANDS:
            return None
        module = importlib.import_module(f"tui_evals.cli.commands.{_COMMANDS[name][0]}")
        command: click.Command = getattr(module, f"{name}_command")
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in _COMMANDS:
            from tui_evals.text.nearest import did_you_mean

            hint = did_you_mean(args[0], _COMMANDS)
            raise click.UsageError(f"there is no command '{args[0]}'{hint}; `tui-evals --help` lists all", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for section, commands in SECTIONS.items():
            with formatter.section(section):
                formatter.write_dl([(name, about) for name, (_, about) in commands.items()])


@click.group(
    cls=_Commands,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, "-V", "--version", message="tui-evals %(version)s")
@click.pass_context
def cli(ctx: click.Context) -> None:
    """Evaluate language-model prompts and agents: write a dataset, run it, see what failed and why."""
    if ctx.invoked_subcommand is None:
        say(ctx.get_help())


def run(arguments: Sequence[str]) -> int:
    """Run a command line and return its exit code; what a user can cause ends in a sentence."""
    try:
        result = cli.main(list(arguments), prog_name="tui-evals", standalone_mode=False)
        sys.stdout.flush()
        return result if isinstance(result, int) else 0
    except click.ClickException as problem:
        warn(f"Error: {problem.format_message()}")
        return problem.exit_code
    except (click.Abort, KeyboardInterrupt):
        warn("interrupted")
        return 130
    except Stop as stop:
        warn(str(stop))
        return stop.code
    except BrokenPipeError:
        # Whoever read us has gone; pointing stdout elsewhere keeps Python from complaining at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
