"""runs, show, search, export, label, delete, cache, targets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from tui_evals.cli.options import environment, trusting
from tui_evals.store.grid import GRID_ORDERS

_file = click.Path(path_type=Path)
_BY = ["category", "target", "prompt", "evaluator", "repeats"]
_as_json = click.option("--json", "as_json", is_flag=True, help="Print as JSON.")


@click.group("runs", invoke_without_command=True)
@click.option("--limit", default=20, type=click.IntRange(min=1), show_default=True)
@_as_json
@click.pass_context
def runs_command(ctx: click.Context, limit: int, as_json: bool) -> None:
    """List the runs of this project, newest first."""
    if ctx.invoked_subcommand is None:
        from .runs import list_runs

        list_runs(limit, as_json)


@runs_command.command("prune")
@click.option("--keep", type=click.IntRange(min=0), help="Keep so many of the newest runs.")
@click.option("--older-than", "days", type=click.IntRange(min=0), metavar="DAYS", help="Only runs older than that.")
@click.option("--yes", is_flag=True, help="Do not ask.")
def prune_command(keep: int | None, days: int | None, yes: bool) -> None:
    """Delete old runs."""
    from .managing import prune

    prune(keep, days, yes)


@click.command("show")
@click.argument("run", default="last")
@click.option("--item", help="One item: its testId, or #position.")
@click.option("--only", metavar="FILTER", help="Only answers that a filter finds (`tui-evals help filters`).")
@click.option(
    "--by", type=click.Choice(_BY), help="Totals by this; repeats: how steady it is, and whose noise that is."
)
@click.option("--grid", is_flag=True, help="The items as rows, each prompt and target as a column.")
@click.option(
    "--sort",
    "order",
    type=click.Choice(GRID_ORDERS),
    default="plan",
    show_default=True,
    help="With --grid: which rows come first.",
)
@click.option(
    "--limit",
    default=1_000,
    type=click.IntRange(min=0),
    show_default=True,
    help="List at most so many answers, or rows of a grid; --json has all.",
)
@_as_json
def show_command(run: str, **options: Any) -> None:
    """Show RUN: its totals and answers, or one item with everything that is known of it."""
    from .show import show

    show(run, **options)


@click.command("search")
@click.argument("text")
@click.option("--limit", default=50, type=click.IntRange(min=1), show_default=True)
@_as_json
def search_command(text: str, limit: int, as_json: bool) -> None:
    """Find TEXT in the answers of all runs."""
    from .show import search

    search(text, limit, as_json)


@click.command("export")
@click.argument("run", default="last")
@click.option(
    "--to",
    "kind",
    type=click.Choice(["json", "csv", "jsonl", "oaieval-log", "inspect"]),
    default="json",
    show_default=True,
)
@click.option("-o", "--output", type=_file, help="Where to; .evals/results/RUN.KIND when absent, - for the screen.")
@click.option("--raw-csv", is_flag=True, help="Leave cells that a spreadsheet would run as formulas as they are.")
@click.option("--only", metavar="FILTER", help="In csv or jsonl, only answers that a filter finds, such as `error`.")
def export_command(run: str, kind: str, output: Path | None, raw_csv: bool, only: str | None) -> None:
    """Write the results of RUN: json is an eval document, csv a table, jsonl everything line by line."""
    from .managing import export

    export(run, kind, output, raw_csv, only)


@click.command("label")
@click.argument("run")
@click.argument("item", required=False)
@click.argument("verdict", required=False, type=click.Choice(["pass", "fail"]))
@click.option("--blind", is_flag=True, help="Label one answer after the other without seeing what any judge said.")
@click.option(
    "--sample", type=click.IntRange(min=1), help="With --blind: so many answers, drawn at random; 50 when absent."
)
@click.option("--seed", default=0, show_default=True, help="With --blind: another seed draws other answers.")
@click.option("--turn", default=1, type=click.IntRange(min=1), show_default=True)
@click.option("--target", help="Which column, where the run has several.")
@click.option("--evaluator", help="Say it of one evaluator's verdict instead of the answer.")
@click.option("--note", default="", help="Why.")
@click.option("--author", help="Who says so; the login name when absent.")
def label_command(run: str, **options: Any) -> int:
    """Give a verdict of your own on an answer; ITEM is its testId or #position. --blind: on many in turn."""
    from .labels import label

    return label(run, **options)


@click.command("delete")
@click.argument("run")
@click.option("--yes", is_flag=True, help="Do not ask.")
def delete_command(run: str, yes: bool) -> None:
    """Delete RUN with its answers and scores."""
    from .managing import delete

    delete(run, yes)


@click.group("cache")
def cache_command() -> None:
    """The answers that need not be asked again."""


@cache_command.command("info")
@_as_json
def info_command(as_json: bool) -> None:
    """Say what the cache holds."""
    from .managing import cache_info

    cache_info(as_json)


@cache_command.command("clear")
@click.option("--yes", is_flag=True, help="Do not ask.")
def clear_command(yes: bool) -> None:
    """Forget every cached answer."""
    from .managing import cache_clear

    cache_clear(yes)


@cache_command.command("why")
@click.argument("run")
@click.argument("item")
@click.option("--turn", default=1, type=click.IntRange(min=1), show_default=True)
def why_command(run: str, item: str, turn: int) -> None:
    """Show what the cache key of an answer is made of, and whether it is kept."""
    from .managing import cache_why

    cache_why(run, item, turn)


@click.group("targets", invoke_without_command=True)
@environment
@_as_json
@click.pass_context
def targets_command(ctx: click.Context, env_name: str | None, as_json: bool) -> None:
    """List the targets and the judge of this project."""
    if ctx.invoked_subcommand is None:
        from .targets import list_targets

        list_targets(env_name, as_json)


@targets_command.command("check")
@click.argument("name")
@environment
@trusting
@_as_json
def check_command(name: str, env_name: str | None, trusting: bool, as_json: bool) -> int:
    """Put a few short questions to a target: whether it answers, and takes tools, a schema and what judges are sent."""
    from .targets import check_target

    return check_target(name, env_name, trusting, as_json)


@click.group("judge")
def judge_command() -> None:
    """Judges, and whether to trust them."""


@judge_command.command("check")
@click.argument("name", required=False)
@environment
@trusting
@click.option("--evaluator", "evaluators", multiple=True, metavar="NAME", help="Only this one; may be repeated.")
@_as_json
def judge_check_command(
    name: str | None, env_name: str | None, trusting: bool, evaluators: tuple[str, ...], as_json: bool
) -> int:
    """Put answers with known verdicts to a judge, among them some that try to talk it round, for each evaluator."""
    from .targets import check_judge_named

    return check_judge_named(name, env_name, trusting, evaluators, as_json)
