"""The table of commands, and what becomes of errors."""

from __future__ import annotations

import errno
import importlib
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, NamedTuple

import click

from tui_evals.cli.opening import GlobalOptions, Opening, is_dataset, opening
from tui_evals.cli.options import as_json, help_all, paged, shows_all
from tui_evals.cli.output import Stop, close_output, output_of_command, own_output, say_end, warn
from tui_evals.version import __version__

SECTIONS: Mapping[str, Mapping[str, tuple[str, str]]] = {
    "Start": {
        "demo": ("main", "Open the workbench on a sample project with a live run, offline."),
    },
    "Write": {
        "init": ("write.commands", "Create a project: find out how your target is asked, or write a starter dataset."),
        "validate": ("write.commands", "Check datasets, experiments and prompt files, and list every error."),
        "resolve": ("write.commands", "Show which evaluators judge each item, and where each is configured."),
        "upgrade": ("write.commands", "Upgrade an older dataset to the current format."),
        "convert": ("write.commands", "Write a dataset as another format."),
        "item": ("write.commands", "List, add, set, copy, rm, move and tag items; make items of conversations."),
        "dataset": ("write.commands", "Set fields of a dataset; undo and redo what commands did to it."),
        "registry": ("write.commands", "List the evals of an OpenAI Evals registry, and which of them run here."),
        "import": ("write.commands", "Import datasets and finished runs of other tools."),
        "generate": ("write.commands", "Generate rules, tests and ground truth for a prompt."),
    },
    "Judge": {
        "evaluators": ("judge.commands", "List the evaluators or show one; create, set and remove them."),
        "score": ("judge.commands", "Judge one answer, or rows of answers, by hand."),
        "trust": ("judge.commands", "Allow this project to run its own code."),
    },
    "Run": {
        "run": ("run.commands", "Send every item to every target, and judge the answers."),
        "suite": ("run.commands", "Named suites and runs of outputs you have: create, run, list, show, compare."),
        "watch": ("run.commands", "Follow a run that any process executes."),
        "pause": ("run.commands", "Pause a run: no new requests until it is resumed."),
        "stop": ("run.commands", "Stop a run after its open requests are answered."),
        "resume": ("run.commands", "Continue a run where it stopped."),
        "rerun": ("run.commands", "Ask items of a run again, in a new run."),
        "rescore": ("run.commands", "Judge the answers of a run again."),
        "targets": ("look.commands", "List the targets; `targets check NAME` makes one call."),
        "judge": ("look.commands", "`judge check` says whether a judge can be trusted."),
    },
    "Look at runs": {
        "runs": ("look.commands", "List the runs; `runs prune` deletes old ones."),
        "show": ("look.commands", "Show a run, or one item of it."),
        "verify": ("look.commands", "Check whether a signed run was changed, and who signed it."),
        "search": ("look.commands", "Find a text in the answers of all runs."),
        "export": ("look.commands", "Write the results of a run as JSON, CSV or JSON lines."),
        "label": ("look.commands", "Give a verdict of your own on an answer, or on a blind sample."),
        "delete": ("look.commands", "Delete a run."),
        "cache": ("look.commands", "The cache of answers: info, clear, why."),
        "sql": ("look.commands", "Read the store with a query over its views."),
        "db": ("look.commands", "Maintain the store: check, repair, vacuum, backup."),
    },
    "Compare": {
        "compare": ("compare.commands", "What changed between runs, and whether it is real."),
        "diff": ("compare.commands", "Show expected responses next to the answers of a run."),
        "trend": ("compare.commands", "Show the results of a dataset's runs over time."),
        "baseline": ("compare.commands", "The run that later ones are compared with: set, show, clear."),
        "ci": ("compare.commands", "Write a workflow with gates, and report a run to a pull request."),
        "battle": ("compare.commands", "Let a judge choose between the answers of runs."),
        "battles": ("compare.commands", "List earlier battles, and show one again."),
        "agreement": ("compare.commands", "Measure how far evaluators agree with the labels of people."),
        "report": ("compare.commands", "Write a run, or runs compared, as HTML, Markdown, JUnit, CSV or JSON."),
    },
    "Look up": {
        "help": ("main", "Show a page of the manual, or search it."),
        "doctor": ("main", "Check this installation, the project and the terminal."),
        "completion": ("main", "Complete commands, runs, targets and experiments in your shell."),
    },
}
_COMPLETING = "_TUI_EVALS_COMPLETE"
"""The variable that a shell asks for completions with."""
_COMMANDS = {name: entry for commands in SECTIONS.values() for name, entry in commands.items()}

EVERYDAY: Mapping[str, str] = {
    "init": "Create a project: a dataset, a target, a first answer.",
    "run": "Run a dataset or an experiment, and judge the answers.",
    "show": "Show a run, or one item of it.",
    "compare": "What changed between runs, and whether it is real.",
    "runs": "List the runs.",
    "resume": "Continue a run where it stopped.",
    "validate": "Check the files and list every error.",
    "import": "Import datasets and results of other tools.",
    "report": "Write HTML, Markdown, JUnit, CSV or JSON.",
    "ci": "Write a workflow with gates; report to a pull request.",
    "targets": "List the targets; `targets check` makes one call.",
    "evaluators": "List the evaluators.",
    "help": "Show the manual; `help WORDS` searches it.",
    "doctor": "Check this installation and project.",
}
"""The commands that the first help describes, in so few lines that it fits a terminal."""


@contextmanager
def _without_reader() -> Iterator[None]:
    """Exit with 0 if click prints into a closed pipe; click would exit with 1."""
    try:
        yield
    except BrokenPipeError:
        close_output(own_output())
        raise click.exceptions.Exit(0) from None


class _Commands(click.Group):
    """A group that imports a command's module on first use, so that help stays fast."""

    def make_context(self, *given: Any, **extra: Any) -> click.Context:
        with _without_reader():
            return super().make_context(*given, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        with _without_reader():
            return super().invoke(ctx)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in _COMMANDS:
            return None
        module = importlib.import_module(f"tui_evals.cli.{_COMMANDS[name][0]}")
        command: click.Command = getattr(module, f"{name}_command")
        if _COMPLETING in os.environ:
            from .completing import complete

            complete(command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in _COMMANDS and is_dataset(args[0]):
            return args[0], open_command, args[1:]
        if args and args[0] not in _COMMANDS:
            from tui_evals.text.names import did_you_mean

            hint = did_you_mean(args[0], _COMMANDS)
            raise click.UsageError(f"there is no command '{args[0]}'{hint}; `tui-evals --help` lists all", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        if not shows_all(ctx):
            with formatter.section("Commands"):
                formatter.write_dl([(name, EVERYDAY[name]) for name in EVERYDAY])
            with formatter.section("More (--help-all describes them)"):
                formatter.write_text(", ".join(name for name in _COMMANDS if name not in EVERYDAY))
            return
        for section, commands in SECTIONS.items():
            with formatter.section(section):
                formatter.write_dl([(name, about) for name, (_, about) in commands.items()])


@click.group(
    cls=_Commands,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@help_all
@click.option("--db", metavar="PATH", help="The database. Default: .evals/evals.db of the project.")
@click.option("--no-mouse", is_flag=True, help="Leave the mouse to the terminal, in the workbench.")
@click.version_option(__version__, "-V", "--version", message="tui-evals %(version)s")
@click.pass_context
def cli(ctx: click.Context, db: str | None, no_mouse: bool) -> Opening | None:
    """Evaluate prompts and agents: write a dataset, run it, see what failed and why.

    Without a command, the workbench opens. Name a dataset to open it there.
    """
    if db is not None:
        os.environ["TUI_EVALS_DB"] = db
    ctx.obj = GlobalOptions(mouse=not no_mouse)
    return opening(None, ctx.obj.mouse) if ctx.invoked_subcommand is None else None


_no_mouse = click.option("--no-mouse", is_flag=True, help="Leave the mouse to the terminal.")


@click.command("open")
@_no_mouse
@click.pass_context
def open_command(ctx: click.Context, no_mouse: bool) -> object:
    """Open the workbench on this dataset."""
    return opening(Path(ctx.info_name or ""), ctx.obj.mouse and not no_mouse)


@click.command("demo")
@click.option("--plain", is_flag=True, help="Run it here, without the workbench, and say where it is.")
@_no_mouse
@click.pass_context
def demo_command(ctx: click.Context, plain: bool, no_mouse: bool) -> object:
    """Make a sample project in a temporary folder and open the workbench on a live run in it.

    The scripted `demo` target answers and judges: no key, no network, no cost.
    """
    from tui_evals.cli.write.beginning import demo

    return demo(plain, ctx.obj.mouse and not no_mouse)


@click.command("help")
@click.argument("topic", nargs=-1, metavar="[PAGE | WORDS]...")
@paged
def help_command(topic: tuple[str, ...]) -> None:
    """Show a page or section of the manual, or search it: `tui-evals help gate pull request`."""
    from .manual import show_page

    show_page(" ".join(topic) or None)


@click.command("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.option("--install", is_flag=True, help="Write it to where SHELL looks for it, instead of printing it.")
def completion_command(shell: str, install: bool) -> None:
    """Print the completion of SHELL, or install it: commands, options, runs, targets, datasets and experiments."""
    from .completing import completion

    completion(cli, shell, install)


@click.command("doctor")
@as_json
def doctor_command(as_json: bool) -> int:
    """Check this installation, the project and the terminal; keys are looked for, never shown."""
    from .doctor import doctor

    return doctor(as_json)


_WITH_EVENTS = ("run", "resume", "rerun", "rescore", "watch")
"""The commands whose --json prints one event per line, the last one with the result."""


def run(arguments: Sequence[str]) -> int | Opening:
    """Run a command line and return its exit code, or the workbench it asks for; mistakes end in a sentence."""
    with output_of_command():
        try:
            result = cli.main(list(arguments), prog_name="tui-evals", standalone_mode=False)
            _flush()
            return result if isinstance(result, int | Opening) else 0
        except OSError as problem:
            if problem.errno in (errno.EMFILE, errno.ENFILE):
                warn(
                    "This process has as many open files as the system allows. Raise the limit with `ulimit -n 4096`, "
                    "or use a smaller --concurrency. What was stored is kept."
                )
                return 1
            if problem.errno not in (errno.ENOSPC, errno.EIO):
                raise
            close_output(own_output())
            warn(f"the output could not be written: {problem.strerror}; nothing that is stored is lost")
            return 1
        except (Exception, KeyboardInterrupt) as problem:
            ending = _ending(problem)
            if _is_with_events(arguments):
                message = ending.message.removeprefix("Error: ") or f"{type(problem).__name__}: {problem}"
                say_end(ending.run, ending.status, message, ending.code)
            if not ending.message:
                raise
            warn(ending.message)
            return ending.code


class _Ending(NamedTuple):
    """How a command ended that was cut short; without a message by a mistake of ours."""

    message: str
    code: int
    status: Literal["refused", "interrupted", "failed"]
    run: str | None = None


def _ending(problem: BaseException) -> _Ending:
    if isinstance(problem, click.ClickException):
        return _Ending(f"Error: {problem.format_message()}", problem.exit_code, "refused")
    if isinstance(problem, click.Abort | KeyboardInterrupt):
        return _Ending("interrupted", 130, "interrupted")
    if isinstance(problem, Stop):
        return _Ending(str(problem), problem.code, "refused" if problem.code in (2, 3) else "failed", problem.run)
    from tui_evals.store.database import StoreError  # not before: help and version need no database

    return _Ending(str(problem) if isinstance(problem, StoreError) else "", 1, "failed")


def _is_with_events(arguments: Sequence[str]) -> bool:
    return "--json" in arguments and next((word for word in arguments if word in _COMMANDS), "") in _WITH_EVENTS


def _flush() -> None:
    """Print buffered output; a closed pipe does not change the exit code."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        close_output(own_output())
