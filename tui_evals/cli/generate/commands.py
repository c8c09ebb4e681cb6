"""generate."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from tui_evals.cli.options import environment, trusting

_file = click.Path(path_type=Path)
_STEPS = (
    "intent, inputspec, rules, inverse, groundedness, tests, baseline, expansion, review, groundtruth, dataset, exports"
)


def _count(least: int, most: int | None = None) -> click.IntRange:
    return click.IntRange(min=least, max=most)


_MODELS = (
    click.option("-t", "--target", "--rules-model", "rules", help="The target that writes rules and tests."),
    click.option("--baseline-model", "baseline", metavar="TARGET", help="Writes baseline tests, instead of --target."),
    click.option("--groundtruth-model", "groundtruth_by", metavar="TARGET", help="Answers for the ground truth."),
    click.option(
        "-j",
        "--judge",
        "--eval-model",
        "judges",
        multiple=True,
        metavar="TARGET",
        help="Judges reviews here and answers later; may be repeated, or several by semicolons.",
    ),
    click.option(
        "--groundtruth-judge",
        "--eval-model-groundtruth",
        "groundtruth_judges",
        multiple=True,
        metavar="TARGET",
        help="Judges the ground truth; may be repeated.",
    ),
    click.option(
        "-m",
        "--models-under-test",
        "under_test",
        multiple=True,
        metavar="TARGET",
        help="Runs the tests on this target at the end, and shows the overview; may be repeated.",
    ),
)
_AMOUNTS = (
    click.option("--effort", type=click.Choice(["min", "low", "medium", "high"]), help="A preset. Default: low."),
    click.option("--max-rules", type=_count(1), help="Test at most this many rules, and as many inverse rules."),
    click.option("--tests-per-rule", type=_count(1, 10), help="Tests for each rule in each round."),
    click.option("--split-rules/--no-split-rules", default=None, help="Ask about rules and inverse rules separately."),
    click.option("--max-rules-per-test-generation", type=_count(0), help="Rules in one question; 0 is all."),
    click.option("--test-generations", type=_count(1, 10), help="Rounds of asking for tests."),
    click.option("--test-expansions", type=_count(0, 5), help="How often inputs are made longer."),
    click.option("--runs-per-test", type=_count(1, 100), help="How often a run asks each test."),
    click.option("--max-tests-to-run", type=_count(1), help="How many tests --models-under-test get."),
    click.option("--test-samples-count", type=_count(0), help="Samples of the prompt that are shown."),
    click.option("--test-samples-shuffle/--no-test-samples-shuffle", default=None, help="Draw the samples."),
    click.option("--seed", type=int, help="The seed of that draw."),
)
_WISHES = (
    click.option("--groundtruth/--no-groundtruth", default=None, help="Have a trusted model answer every test."),
    click.option("--compliance/--no-compliance", default=None, help="Judge answers by the rules."),
    click.option("--baseline-tests/--no-baseline-tests", default=None, help="Add tests made without rules."),
    click.option("--validity/--no-validity", default=None, help="Have tests checked against the specification."),
    click.option("--groundedness/--no-groundedness", default=None, help="Have rules checked against the prompt."),
    click.option("--coverage/--no-coverage", default=None, help="Check whether the rules alone say enough."),
    click.option("--custom-metric", type=_file, metavar="FILE", help="A metric prompty to judge answers by as well."),
    click.option("--intent-instructions", metavar="TEXT", help="Added to the question for the intent."),
    click.option("--input-spec-instructions", metavar="TEXT", help="Added to that for the input specification."),
    click.option("--output-rules-instructions", metavar="TEXT", help="Added to that for rules."),
    click.option("--inverse-output-rules-instructions", metavar="TEXT", help="Added to that for inverse rules."),
    click.option("--test-expansion-instructions", metavar="TEXT", help="Added to that for longer inputs."),
)
_COURSE = (
    click.option("--until", metavar="STEP", help="Stop after this step."),
    click.option("--from", "from_step", metavar="STEP", help="Repeat this step and all later ones; several by commas."),
    click.option("--rule", "again", type=int, multiple=True, metavar="N", help="Generate the tests of rule N again."),
    click.option(
        "--inverse", "invert", type=int, multiple=True, metavar="N", help="Generate the inverse of output rule N again."
    ),
    click.option("--confirm", multiple=True, metavar="STEP", help="Ask before continuing after STEP; * is all."),
    click.option("--yes", is_flag=True, help="Answer yes to everything."),
    click.option(
        "--plan", "plan_only", is_flag=True, help="Show the number of calls and the estimated cost, and stop."
    ),
    click.option("-c", "--concurrency", type=_count(1), help="Parallel calls per target."),
    click.option(
        "--max-cost", type=click.FloatRange(min=0, min_open=True), help="Stop before more US dollars are spent."
    ),
    click.option("--no-cache", is_flag=True, help="Ask again, even if another generation has the answer."),
    click.option("--stored", metavar="KEY", hidden=True, help="Execute the generation that the workbench has planned."),
    click.option(
        "--show-prompt", metavar="NAME", help="Print the prompt of a step, to edit it and put it into the project."
    ),
    environment,
    trusting,
    click.option("--quiet", is_flag=True, help="Print only errors."),
    click.option("--json", "as_json", is_flag=True, help="Print one JSON event per line."),
)


def _with_options(command: Any) -> Any:
    for option in reversed((*_MODELS, *_AMOUNTS, *_WISHES, *_COURSE)):
        command = option(command)
    return command


@click.command("generate", epilog=f"The steps: {_STEPS}.")
@click.argument("prompt", required=False, type=_file)
@click.option("--prompt", "inline", metavar="TEXT", help="The prompt itself, instead of a file.")
@click.option("-o", "--out", type=_file, help="Where the folder of the generation goes. Default: next to the prompt.")
@_with_options
def generate_command(**options: Any) -> int:
    """Make a test collection for a prompt: its rules, tests for each of them, ground truth, a dataset to run.

    PROMPT is a .prompty, .md, .txt or .prompt.yml file. Every step writes a file into a folder named after the prompt;
    a file that is there is kept, so edit any of them and run the command again. Models and options are remembered.
    """
    from .generate import generate

    return generate(**options)
