"""import."""

from __future__ import annotations

from pathlib import Path

import click

_path = click.Path(path_type=Path)


@click.command("import")
@click.argument("path", type=_path)
@click.option(
    "--out", type=_path, metavar="DIR", help="The folder the dataset is written to; that of PATH when absent."
)
@click.option("--name", metavar="NAME", help="What dataset and run are called; as the prompt when absent.")
@click.option("--json", "as_json", is_flag=True, help="Print as JSON.")
def import_command(path: Path, out: Path | None, name: str | None, as_json: bool) -> None:
    """Bring in what another tool recorded: its tests as a dataset, its answers and verdicts as a finished run.

    PATH is a folder that PromptPex wrote, or a file of it: promptpex_context.json, tests.json, test_results.json,
    overview.csv, also the older tests.csv and test_results.csv. Nothing is asked of any model, no file is
    overwritten, and what was brought in before is not brought in twice.
    """
    from tui_evals.cli.importing import import_from

    import_from(path, out, name, as_json)
