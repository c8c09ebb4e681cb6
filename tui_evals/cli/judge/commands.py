"""evaluators, score, trust."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from tui_evals.cli.options import as_json, result_as_json

_trusting = click.option("--trust", "trusting", is_flag=True, help="Run the project's own evaluators without asking.")


class _Evaluators(click.Group):
    """A group in which the name of an evaluator means `show NAME`."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        return super().resolve_command(ctx, args if args[0] in self.commands else ["show", *args])


@click.group(
    "evaluators",
    cls=_Evaluators,
    invoke_without_command=True,
    subcommand_metavar="[NAME | new | packages | set | rm] ...",
)
@as_json
@click.pass_context
def evaluators_command(ctx: click.Context, as_json: bool) -> None:
    """List the evaluators; with NAME, show one with its options, the evidence it needs and an example.

    `new` creates your own, and `packages` lists the metrics of installed libraries; `set` and `rm` say which of
    them judge a dataset, an item or a turn.
    """
    if ctx.invoked_subcommand is None:
        from .evaluators import show_evaluators

        show_evaluators(None, as_json)
    ctx.obj = as_json


@evaluators_command.command("show", short_help="Show one; `show` is optional.")
@click.argument("name")
@click.option("--prompt", is_flag=True, help="What it asks a judge, and which evidence it shows, with a sample item.")
@_trusting
@as_json
@click.pass_obj
def show_command(as_json_before: bool, name: str, prompt: bool, trusting: bool, as_json: bool) -> None:
    """Show one with its options, the evidence it needs and an example; `show` may be left out."""
    from .evaluators import show_evaluators, show_prompt

    if prompt:
        show_prompt(name, trusting, as_json or as_json_before)
    else:
        show_evaluators(name, as_json or as_json_before)


@evaluators_command.command("packages", short_help="List the metrics of installed libraries.")
@click.option("--python", metavar="PATH", help="The Python they are installed for, such as .venv/bin/python.")
@as_json
@click.pass_obj
def packages_command(as_json_before: bool, python: str | None, as_json: bool) -> None:
    """List the metrics of autoevals, deepeval, ragas, azure-ai-evaluation and evaluate that a Python can import.

    Each judges in a dataset as {"type": "LIBRARY:METRIC", "python": PATH}; the list shows the names of its inputs.
    """
    from .evaluators import show_packages

    show_packages(python, as_json or as_json_before)


@evaluators_command.command("new", short_help="Create your own.")
@click.argument("name")
def new_command(name: str) -> None:
    """Write custom-evaluators/NAME/NAME.py, a function that judges, and a test of it.

    The function gets the arguments that it names (`tui-evals help evaluators` lists them) and returns True or False, a
    number, or either with a reason.
    """
    from .evaluators import begin_evaluator

    begin_evaluator(name)


_dataset = click.argument("dataset", type=click.Path(path_type=Path))
_item = click.option("--item", metavar="ITEMS", help="On these items instead of the dataset: 3, a testId, 1,4-9, last.")
_turn = click.option("--turn", type=click.IntRange(min=1), help="On this turn of them.")
_force = click.option("--force", is_flag=True, help="Write a file that is read-only too.")


@evaluators_command.command("set", short_help="Add an evaluator to a dataset or items.")
@_dataset
@click.argument("evaluator", required=False)
@click.argument("options", nargs=-1, metavar="[OPTION=VALUE]...")
@click.option("--unset", multiple=True, metavar="OPTION", help="Remove an option. Can be repeated.")
@_item
@_turn
@click.option("--mode", type=click.Choice(["extend", "replace"]), help="Whether --item adds to the dataset's or not.")
@_force
@as_json
def set_command(dataset: Path, evaluator: str | None, options: tuple[str, ...], **more: Any) -> None:
    """Let EVALUATOR judge DATASET, or its items with --item; options are added to those that are already set.

    A value is parsed by the type of its option, OPTION:=JSON gives JSON. A name of your own with type=NAME is a second
    use of an evaluator. `tui-evals dataset undo` undoes the edit.
    """
    from tui_evals.cli.judge.evaluators import set_evaluator

    set_evaluator(dataset, evaluator, options, **more)


@evaluators_command.command("rm", short_help="Remove an evaluator from a dataset or items.")
@_dataset
@click.argument("evaluator")
@_item
@_turn
@_force
@as_json
def rm_command(dataset: Path, evaluator: str, **more: Any) -> None:
    """Remove EVALUATOR from DATASET, or from items. To leave out an inherited one, use `set --mode replace`."""
    from tui_evals.cli.judge.evaluators import remove_evaluator

    remove_evaluator(dataset, evaluator, **more)


@click.command("score")
@click.argument("name", required=False)
@click.option("--options", help="Options as a JSON object.")
@click.option("--response", help="The answer to judge.")
@click.option("--expected", multiple=True, help="An acceptable reference; may be repeated.")
@click.option("--context", help="Grounding text.")
@click.option("--prompt", help="The prompt that was asked.")
@click.option("--judge-reply", help="Use this text as the judge's reply.")
@click.option("--jsonl", is_flag=True, help="Read rows of JSON on standard input and write a record for each.")
@_trusting
@as_json
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

    A row has "evaluator" and, as needed, "options", "response", "expected", "ideal", "context", "prompt", "tool_calls",
    "diagnostics", "history", "request", "latency_ms", "cost", "tokens", "variables", "completions", "rules",
    "groundtruth", "finish_reason"; "judge_reply" replaces the judge. Records are in the order of the rows. A row that
    cannot be judged gives an error record, and the others are judged.
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
@click.option("--store", is_flag=True, help="Trust the store of this project, and nothing else.")
@result_as_json
def trust_command(files: tuple[Path, ...], yes: bool, below: Path | None, store: bool) -> None:
    """Review and approve what this project would do: the code that it runs, and where it sends which key.

    An approval is valid until the approved code or setting changes. `show` lists approvals, `revoke` removes all of
    them. With FILES, only the current code of these evaluators is trusted. With --store, the cached answers and
    baselines of a store that was created elsewhere are used.
    """
    from .evaluators import trust_below, trust_files, trust_project, trust_store

    if store:
        trust_store()
    elif below is not None:
        trust_below(below)
    elif files:
        trust_files(files)
    else:
        trust_project(yes)
