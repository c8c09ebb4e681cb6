"""suite: create, run, list, show, compare."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from tui_evals.cli.options import trusting

_file = click.Path(path_type=Path)
_as_json = click.option("--json", "as_json", is_flag=True, help="Print as JSON.")


@click.group("suite")
def suite_command() -> None:
    """Named suites of cases with one way of scoring, and named runs of candidate outputs over them.

    A suite is a table of inputs and reference outputs; a run scores the answers somebody has already, one for each
    case. Both are kept in the project, and runs are answers like any others: `show`, `compare` and the workbench
    open them.
    """


@suite_command.command("create")
@click.argument("name")
@click.option("--data", type=_file, required=True, metavar="FILE.csv", help="The table of cases.")
@click.option(
    "--scoring",
    required=True,
    metavar="METHOD",
    help='An evaluator, such as exact_match, or with options {"exact_match": {"case_sensitive": false}}.',
)
@click.option("--input-column", default="input", show_default=True, help="The column of inputs.")
@click.option("--reference-column", default="reference_output", show_default=True, help="The column of references.")
@click.option("--description", metavar="TEXT", help="What the suite is for.")
@_as_json
def create_command(name: str, **options: Any) -> None:
    """Make a suite of the cases in a table; every cell is text, and a blank one is absent."""
    from .suites import create

    create(name, **options)


@suite_command.command("run")
@click.argument("name")
@click.argument("run")
@click.option("--candidates", type=_file, required=True, metavar="FILE.csv", help="The table of outputs to score.")
@click.option("--candidate-column", default="candidate_output", show_default=True, help="The column of outputs.")
@click.option("--context-column", metavar="COLUMN", help="The column of contexts, where the scoring needs them.")
@click.option("--model-name", metavar="TEXT", help="Noted with the run: which model wrote the outputs.")
@click.option("--model-version", metavar="TEXT", help="Noted with the run: which version of it.")
@click.option("--foundation-model", metavar="TEXT", help="Noted with the run: what that model was made from.")
@click.option("--prompt-template", metavar="TEXT", help="Noted with the run: which prompt it was given.")
@click.option("--judge", metavar="TARGET", help="The target that judges, where a model scores the suite.")
@trusting
@_as_json
def run_command(name: str, run: str, **options: Any) -> int:
    """Score the outputs in a table, one for each case and in the same order, as the run RUN of the suite NAME."""
    from .suites import run as run_suite

    return run_suite(name, run, **options)


@suite_command.command("list")
@_as_json
def list_command(as_json: bool) -> None:
    """List the suites."""
    from .suites import list_suites

    list_suites(as_json)


@suite_command.command("show")
@click.argument("name")
@click.argument("run", required=False)
@_as_json
def show_command(name: str, run: str | None, as_json: bool) -> None:
    """Show a suite with its runs, or one run of it: what was noted, and every case, the worst first."""
    from .suites import show

    show(name, run, as_json)


@suite_command.command("compare")
@click.argument("name")
@click.argument("runs", nargs=-1)
@_as_json
def compare_command(name: str, runs: tuple[str, ...], as_json: bool) -> None:
    """Compare runs of a suite, all where none is named: average scores, and whether chance explains the difference."""
    from .suites import compare

    compare(name, runs, as_json)
