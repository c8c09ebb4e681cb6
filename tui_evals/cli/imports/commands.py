"""import, registry."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

_path = click.Path(path_type=Path)


@click.command("import")
@click.argument("path", type=_path)
@click.option("--from", "kind", metavar="KIND", help="What PATH is; guessed when absent. A wrong one lists all.")
@click.option("--into", type=_path, metavar="FILE", help="The file of the dataset; messages are added to one there.")
@click.option(
    "--out", type=_path, metavar="DIR", help="The folder the dataset is written to; that of PATH when absent."
)
@click.option("--name", metavar="NAME", help="What dataset and run are called; as the prompt or the file when absent.")
@click.option("--prompt", metavar="NAME", help="Which prompt, of a file of Prompt Foundry with several.")
@click.option(
    "--targets/--no-targets",
    default=None,
    help="Write the settings of its targets to .evals/config.toml; asked at a terminal when absent.",
)
@click.option("--json", "as_json", is_flag=True, help="Print as JSON.")
def import_command(path: Path, kind: str | None, targets: bool | None, as_json: bool, **options: Any) -> None:
    """Bring in what another tool holds: its tests as a dataset, its answers and verdicts as a finished run.

    \b
    KIND is one of
      promptpex   a folder that PromptPex wrote, or a file of it, such as
                  tests.json, test_results.json or promptpex_context.json
      inspect     a log of Inspect, .eval or .json
      bench       a folder bench_runs of Arthur Bench, or a suite in it
      foundry     evaluations of Prompt Foundry, as the JSON of its SDK
      promptfoo   a promptfooconfig.yaml, or its folder
      promptfoo-results
                  its output.json or promptfoo.db
      results     results JSON that `tui-evals export` wrote
      messages    messages in OpenAI's format, .json or .jsonl
      dataset     a dataset, which needs no import

    It is said what was carried, changed and left out. Nothing is asked of any model, no file is overwritten, and a
    run that was brought in before is not brought in twice. A log or results file becomes a run alone, unless --into
    or --out says where its dataset goes.
    """
    from tui_evals.imports.base import ImportOptions

    from .importing import import_path

    import_path(path, kind, ImportOptions(**options), targets, as_json)


@click.command("registry")
@click.argument("path", metavar="PATH[,PATH]")
@click.argument("words", nargs=-1, metavar="[FILTER]...")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def registry_command(path: str, words: tuple[str, ...], as_json: bool) -> None:
    """List what a registry of OpenAI Evals holds: the evals that run here, why the others do not, and the sets.

    PATH is the folder that holds evals/, modelgraded/, eval_sets/ and data/, or its parent. FILTER words must all be
    in the name, class or description; !WORD must not.
    """
    from .registry import list_registry

    list_registry(path, words, as_json)
