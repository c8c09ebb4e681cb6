"""import, registry."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

_path = click.Path(path_type=Path)


@click.command("import")
@click.argument("path", type=_path, required=False)
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
@click.option(
    "--verify",
    is_flag=False,
    flag_value="",
    metavar="[RESULTS]",
    help="Judge the recorded answers of RESULTS, or of PATH, again: is each verdict the same?",
)
@click.option("--judges", is_flag=True, help="With --verify: ask the models that judge too.")
@click.option("--trust", is_flag=True, help="With --verify: run the project's own evaluators unasked.")
@click.option("--json", "as_json", is_flag=True, help="Print as JSON.")
def import_command(
    path: Path | None,
    kind: str | None,
    targets: bool | None,
    verify: str | None,
    judges: bool,
    trust: bool,
    as_json: bool,
    **options: Any,
) -> int:
    """Bring in what another tool holds: its tests as a dataset, its answers and verdicts as a finished run.

    \b
    KIND is one of
      promptpex   a folder that PromptPex wrote, or a file of it, such as
                  tests.json, test_results.json or promptpex_context.json
      inspect     a log of Inspect, .eval or .json
      inspect-dataset
                  its dataset files, .jsonl, .json or .csv with input and
                  target
      bench       a folder bench_runs of Arthur Bench, or a suite in it
      foundry     evaluations of Prompt Foundry, as the JSON of its SDK
      promptfoo   a promptfooconfig.yaml, or its folder
      promptfoo-results
                  its output.json or promptfoo.db
      results     results JSON that `tui-evals export` wrote
      results-jsonl, results-csv, report, junit
                  its .jsonl, .csv, .html and .xml
      oaieval-log a log of OpenAI Evals, theirs or ours
      messages    messages in OpenAI's format, .json or .jsonl
      dataset     a dataset, which needs no import

    It is said what was carried, changed and left out. Nothing is asked of any model, no file is overwritten, and a
    run that was brought in before is not brought in twice. A log or results file becomes a run alone, unless --into
    or --out says where its dataset goes.

    --verify proves that the evaluators judge as before: it judges recorded answers once more, keeps nothing of that,
    and exits 1 where a verdict differs. `import promptfooconfig.yaml --verify output.json` judges with what was made
    of the configuration; `import output.json --verify` with what was made of the results themselves.
    """
    from tui_evals.imports.base import ImportOptions

    from .importing import import_path
    from .verifying import Verify

    if path is None and not verify:
        raise click.UsageError("Missing argument 'PATH'.")
    if verify is None and (judges or trust):
        raise click.UsageError("--judges and --trust say how --verify judges; give that too.")
    alone = path is None or not verify
    results = None if verify is None else Verify(None if alone else Path(verify), judges=judges, trust=trust)
    source = Path(verify or "") if path is None else path
    return import_path(source, kind, ImportOptions(**options), targets, as_json, results)


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
