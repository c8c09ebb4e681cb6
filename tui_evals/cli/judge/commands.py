"""evaluators, score, trust."""

from __future__ import annotations

from pathlib import Path

import click

_as_json = click.option("--json", "as_json", is_flag=True, help="Print as JSON.")
_trusting = click.option("--trust", "trusting", is_flag=True, help="Run the project's own evaluators unasked.")


@click.command("evaluators")
@click.argument("name", required=False)
@_as_json
def evaluators_command(name: str | None, as_json: bool) -> None:
    """List the evaluators; with NAME, show one with its options, the evidence it needs and an example."""
    from .evaluators import show_evaluators

    show_evaluators(name, as_json)


@click.command("score")
@click.argument("name", required=False)
@click.option("--options", help="Options as a JSON object.")
@click.option("--response", help="The answer to judge.")
@click.option("--expected", multiple=True, help="An acceptable reference; may be repeated.")
@click.option("--context", help="Grounding text.")
@click.option("--prompt", help="What was asked.")
@click.option("--judge-reply", help="Stands in for the judge's reply.")
@click.option("--jsonl", is_flag=True, help="Read rows of JSON on standard input and write a record for each.")
@_trusting
@_as_json
def score_command(
    name: str | None,
    options: str | None,
    response: str | None,
    expected: tuple[str, ...],
    context: str | None,
    prompt: str | None,
    judge_reply: str | None,
    jsonl: bool,
    trusting: bool,
    as_json: bool,
) -> int:
    """Judge one answer with the evaluator NAME, or rows of answers with --jsonl.

    A row holds "evaluator" and what it needs of "options", "response", "expected", "ideal", "context", "prompt",
    "tool_calls", "diagnostics", "history", "request", "latency_ms", "cost", "tokens", "variables", "completions",
    "rules", "groundtruth"; "judge_reply" stands in for the judge. Records come in the order of the rows; a row that
    cannot be judged is an error record, never the end.
    """
    from .evaluators import score_one, score_rows

    if jsonl:
        return score_rows(trusting)
    row = {
        "evaluator": name,
        "response": response,
        "ideal": list(expected) or None,
        "context": context,
        "prompt": prompt,
        "judge_reply": judge_reply,
    }
    return score_one(row, options, trusting, as_json)


@click.command("trust")
@click.argument("files", nargs=-1, type=click.Path(path_type=Path), metavar="[show | revoke | FILES]")
@click.option("--yes", is_flag=True, help="Agree without being asked, once you have read the page.")
@click.option(
    "--below",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="Trust every project in this folder and below it: all of them are your own.",
)
def trust_command(files: tuple[Path, ...], yes: bool, below: Path | None) -> None:
    """Read what this project would do, and say yes to it: what it runs, and which key it sends where.

    A yes holds until what was agreed to changes. `show` lists what was agreed to, `revoke` takes all of it back.
    With FILES, only the code of these evaluators is trusted, as it is now.
    """
    from .evaluators import trust_below, trust_files, trust_project

    if below is not None:
        trust_below(below)
    elif files:
        trust_files(files)
    else:
        trust_project(yes)
