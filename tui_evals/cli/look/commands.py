"""Options of the commands that look at runs and at the store."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from tui_evals.cli.options import as_json, environment, file_path, paged, result_as_json, trusting
from tui_evals.store.grid import GRID_ORDERS

_BY = ["category", "target", "prompt", "evaluator", "repeats"]


@click.group("runs", invoke_without_command=True)
@click.option("--limit", default=20, type=click.IntRange(min=1), show_default=True)
@as_json
@paged
@click.pass_context
def runs_command(ctx: click.Context, limit: int, as_json: bool) -> None:
    """List the runs of this project, newest first."""
    if ctx.invoked_subcommand is None:
        from tui_evals.cli.look.runs import list_runs

        list_runs(limit, as_json)


@runs_command.command("prune")
@click.option("--keep", type=click.IntRange(min=0), help="Keep this many of the newest runs.")
@click.option("--older-than", "days", type=click.IntRange(min=0), metavar="DAYS", help="Only runs older than that.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@result_as_json
def prune_command(keep: int | None, days: int | None, yes: bool) -> None:
    """Delete old runs."""
    from tui_evals.cli.look.stored import prune

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
    "--map", "as_map", is_flag=True, help="What failed: clusters of failures, with their change and an example."
)
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
    help="List at most this many answers, or rows of a grid; --json has all.",
)
@as_json
@paged
def show_command(run: str, **options: Any) -> None:
    """Show RUN: its totals and answers, or one item with everything that is known of it."""
    from tui_evals.cli.look.show import show

    show(run, **options)


@click.command("verify")
@click.argument("run", default="last")
@click.option("--history", is_flag=True, help="List the records of its chain too.")
@click.option("--key", "own", is_flag=True, help="Print your public key, for others to trust, and nothing else.")
@click.option("--keys", is_flag=True, help="List the keys you trust.")
@click.option("--trust-key", nargs=2, metavar="NAME KEY", help="Trust the public key KEY from now on, under a name.")
@click.option("--forget-key", metavar="NAME", help="Trust that key no more.")
@as_json
def verify_command(
    run: str,
    history: bool,
    own: bool,
    keys: bool,
    trust_key: tuple[str, str] | None,
    forget_key: str | None,
    as_json: bool,
) -> int | None:
    """Check whether a signed RUN was changed, who signed it, and where its answers come from.

    No target or judge is called. It exits with 0 if RUN is unchanged and signed by you or by a key you trust, otherwise
    with 1. `tui-evals help provenance` says what a signature proves, and what it does not.
    """
    from tui_evals.cli.look.runs import forget, list_keys, say_own_key, trust, verify_run

    if sum((own, keys, trust_key is not None, forget_key is not None)) > 1:
        raise click.UsageError("Give one of --key, --keys, --trust-key and --forget-key.")
    if own:
        return say_own_key(as_json)
    if keys:
        return list_keys(as_json)
    if trust_key is not None:
        return trust(*trust_key)
    if forget_key is not None:
        return forget(forget_key)
    return verify_run(run, history, as_json)


@click.command("search")
@click.argument("text")
@click.option("--limit", default=50, type=click.IntRange(min=1), show_default=True)
@as_json
def search_command(text: str, limit: int, as_json: bool) -> None:
    """Find TEXT in the answers of all runs."""
    from tui_evals.cli.look.show import search

    search(text, limit, as_json)


@click.command("sql")
@click.argument("statement")
@click.option("--csv", "as_csv", is_flag=True, help="Print all rows as CSV.")
@click.option("--raw-csv", is_flag=True, help="Do not escape cells that a spreadsheet would run as formulas.")
@click.option(
    "--limit", default=1_000, type=click.IntRange(min=1), show_default=True, help="Rows of the table; CSV has all."
)
@as_json
def sql_command(statement: str, as_csv: bool, raw_csv: bool, limit: int, as_json: bool) -> None:
    """Read the store with a SELECT over its views; nothing can be changed.

    The views are v_runs, v_answers, v_scores, v_costs and v_steps (`tui-evals help store`). The statement - is read
    from the input.
    """
    from tui_evals.cli.look.stored import sql

    sql(statement, as_csv or raw_csv, raw_csv, as_json, limit)


@click.command("export")
@click.argument("run", default="last")
@click.option(
    "--to",
    "kind",
    type=click.Choice(["json", "csv", "jsonl", "oaieval-log", "inspect"]),
    help="The ending of -o says it, when absent; json without -o.",
)
@click.option("-o", "--output", type=file_path, help="Where to; .evals/results/RUN.KIND when absent, - for the screen.")
@click.option("--raw-csv", is_flag=True, help="Do not escape cells that a spreadsheet would run as formulas.")
@click.option("--only", metavar="FILTER", help="In csv or jsonl: only answers that match a filter, such as `error`.")
@click.option("--bare", is_flag=True, help="Write no FILE.tui-evals, which has what the format cannot hold.")
def export_command(
    run: str, kind: str | None, output: Path | None, raw_csv: bool, only: str | None, bare: bool
) -> None:
    """Write the results of RUN: json is an eval document, csv a table, jsonl everything line by line."""
    from tui_evals.cli.look.stored import export

    export(run, kind, output, raw_csv, only, bare=bare)


@click.command("label")
@click.argument("run")
@click.argument("item", required=False)
@click.argument("verdict", required=False, type=click.Choice(["pass", "fail"]))
@click.option("--blind", is_flag=True, help="Label one answer after the other without seeing what any judge said.")
@click.option(
    "--sample", type=click.IntRange(min=1), help="With --blind: this many answers, drawn at random. Default: 50."
)
@click.option("--seed", default=0, show_default=True, help="With --blind: another seed draws other answers.")
@click.option("--turn", default=1, type=click.IntRange(min=1), show_default=True)
@click.option("--target", help="Which column, where the run has several.")
@click.option("--evaluator", help="Say it of one evaluator's verdict instead of the answer.")
@click.option("--note", default="", help="Why.")
@click.option("--author", help="Who says so; the login name when absent.")
@result_as_json
def label_command(run: str, **options: Any) -> int:
    """Give a verdict of your own on an answer; ITEM is its testId or #position. --blind: on many in turn."""
    from tui_evals.cli.look.labels import label

    return label(run, **options)


@click.command("delete")
@click.argument("run")
@click.option("--yes", is_flag=True, help="Do not ask.")
@result_as_json
def delete_command(run: str, yes: bool) -> None:
    """Delete RUN with its answers and scores."""
    from tui_evals.cli.look.stored import delete

    delete(run, yes)


@click.group("cache")
def cache_command() -> None:
    """The answers that need not be asked again."""


@cache_command.command("info")
@as_json
def info_command(as_json: bool) -> None:
    """Show the contents of the cache."""
    from tui_evals.cli.look.stored import cache_info

    cache_info(as_json)


@cache_command.command("clear")
@click.option("--yes", is_flag=True, help="Do not ask.")
@result_as_json
def clear_command(yes: bool) -> None:
    """Delete every cached answer."""
    from tui_evals.cli.look.stored import cache_clear

    cache_clear(yes)


@cache_command.command("why")
@click.argument("run")
@click.argument("item")
@click.option("--turn", default=1, type=click.IntRange(min=1), show_default=True)
@as_json
def why_command(run: str, item: str, turn: int, as_json: bool) -> None:
    """Show the parts of an answer's cache key, and whether it is cached."""
    from tui_evals.cli.look.stored import cache_why

    cache_why(run, item, turn, as_json)


@click.group("targets", invoke_without_command=True)
@environment
@as_json
@click.pass_context
def targets_command(ctx: click.Context, env_name: str | None, as_json: bool) -> None:
    """List the targets and the judge of this project."""
    if ctx.invoked_subcommand is None:
        from tui_evals.cli.look.targets import list_targets

        ctx.exit(list_targets(env_name, as_json))


@targets_command.command("check")
@click.argument("name")
@environment
@trusting
@as_json
def check_target_command(name: str, env_name: str | None, trusting: bool, as_json: bool) -> int:
    """Put a few short questions to a target: whether it answers, and takes tools, a schema and what judges are sent."""
    from tui_evals.cli.look.targets import check_target

    return check_target(name, env_name, trusting, as_json)


@click.group("judge")
def judge_command() -> None:
    """Judges, and whether to trust them."""


@judge_command.command("check")
@click.argument("name", required=False)
@environment
@trusting
@click.option("--evaluator", "evaluators", multiple=True, metavar="NAME", help="Only this one; may be repeated.")
@as_json
def judge_check_command(
    name: str | None, env_name: str | None, trusting: bool, evaluators: tuple[str, ...], as_json: bool
) -> int:
    """Test a judge with answers of known verdicts, including some that try to influence it, for each evaluator."""
    from tui_evals.cli.look.targets import check_judge_named

    return check_judge_named(name, env_name, trusting, evaluators, as_json)


_store = click.argument("store", type=file_path, required=False)


@click.group("db")
def db_command() -> None:
    """The store that keeps the runs: check, repair, vacuum, backup.

    STORE is a file; without one it is the store of the project, or the one that --db or TUI_EVALS_DB name.
    """


@db_command.command("check")
@_store
@as_json
@click.option("--recount", is_flag=True, help="First count the answers of every run again.")
def check_store_command(store: Path | None, as_json: bool, recount: bool) -> int:
    """Look at every page of STORE, compare every index and the counts of every run; exit 1 if something is wrong."""
    from tui_evals.cli.look.stored import check_store

    return check_store(store, as_json, recount)


@db_command.command("repair")
@_store
@click.option("--yes", is_flag=True, help="Do not ask.")
@result_as_json
def repair_command(store: Path | None, yes: bool) -> None:
    """Save what can be read of a damaged STORE into a new one, which takes its place.

    The damaged file is never written to: it is kept next to the new one as STORE.damaged-DATE. Nothing else may have
    the store open, and no run may be executed meanwhile.
    """
    from tui_evals.cli.look.stored import repair_store

    repair_store(store, yes)


@db_command.command("vacuum")
@_store
@result_as_json
def vacuum_command(store: Path | None) -> None:
    """Release the unused space of STORE, while no run is executing."""
    from tui_evals.cli.look.stored import vacuum_store

    vacuum_store(store)


@db_command.command("backup")
@click.argument("dest", type=file_path)
@click.option("--force", is_flag=True, help="Replace DEST where it is there.")
@result_as_json
def backup_command(dest: Path, force: bool) -> None:
    """Copy the store to DEST, a file or a folder, whole and sound; runs may be executed meanwhile."""
    from tui_evals.cli.look.stored import back_up_store

    back_up_store(dest, force)
