"""Options of the commands that write, edit, import and generate datasets."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from tui_evals.cli.opening import dataset_of_word
from tui_evals.cli.options import as_json, environment, file_path, result_as_json, trusting

_FORMATS = ("m365", "csv", "jsonl", "promptfoo", "foundry")
_PROVIDERS = (
    *("openai", "anthropic", "azure", "gemini", "vertex", "bedrock", "mistral", "groq", "openrouter"),
    *("ollama", "vllm", "lmstudio", "proxy"),
)
"""A copy of `targets.guides`, which `--help` need not import."""
_SOURCES = ("http", "openai", "model", "python", "command", "a2a")
"""A copy of `targets.config_file`, for the same reason."""


@click.command("init")
@click.argument("what", required=False)
@click.option("--template", type=click.Choice(["basic", "knowledge-base", "tool-usage"]), default="basic")
@click.option("--provider", type=click.Choice(_PROVIDERS), help="Configure a target of this provider as well.")
@click.option("--from", "source", type=click.Choice(_SOURCES), help="The kind of WHAT, where it is not recognized.")
@click.option("--at", metavar="WHERE", help="With --from: its URL, function or program. Of an OpenAPI file: its host.")
@click.option("--model", help="With --from openai or model: the model.")
@click.option("--key", metavar="VARIABLE", help="Of a model: the variable of its key; '' for none.")
@click.option("--field", help="Of a service: the field of the JSON body that holds the question.")
@click.option("--answer", metavar="PATH", help="Of a service: where the answer is, as in $.reply.text.")
@click.option("--header", metavar="NAME: VALUE", help="Of a service, as in 'Authorization: Bearer env:SHOP_KEY'.")
@click.option("--session", metavar="FIELD", help="Of a service: the field of the body that takes its session back.")
@click.option("--ask", metavar="TEXT", help="What it is asked first.")
@click.option(
    "--example", "examples", multiple=True, metavar="'QUESTION => ANSWER'", help="What it should answer; repeat it."
)
@click.option("--prompt", type=file_path, metavar="FILE", help="A .prompty under test; its rules suggest evaluators.")
@click.option("-e", "--evaluators", metavar="NAME[,NAME]", help="Evaluators, instead of the proposed ones.")
@click.option("--run/--no-run", "runs", default=True, help="Run the questions at the end, or not. Default: run.")
@result_as_json
def init_command(what: str | None, template: str, provider: str | None, source: str | None, **given: Any) -> int | None:
    """Create a project: find out how to call WHAT, call it once, write first questions, run them.

    WHAT is a URL, a curl command in quotes, an OpenAPI file, a Python file or a model. Its protocol, headers, answer
    and session are found by calling it; options give what is not found. At a terminal you are asked instead, also for
    WHAT. Run it again to change an answer: everything else stays.

    Without WHAT, and not at a terminal, a starter dataset is written to ./evals/evals.json, with a configuration to
    fill in. This does not overwrite existing files.
    """
    from tui_evals.cli.write.authoring import initialise, initialise_from

    return (
        initialise(template, provider, given)
        if what is None and source is None
        else initialise_from(what, source, provider, given)
    )


@click.command("validate")
@click.argument("files", nargs=-1, type=file_path)
@click.option("--strict-schema", is_flag=True, help="Refuse what the published runevals schema refuses.")
@click.option(
    "--schema", "schema_of", type=click.Choice(["dataset", "experiment"]), help="Print the JSON Schema for editors."
)
@as_json
def validate_command(files: tuple[Path, ...], strict_schema: bool, schema_of: str | None, as_json: bool) -> int:
    """Check datasets, experiments and prompt files, every problem at once.

    FILES may be datasets (.json, .yaml, .csv, .jsonl, .parquet), experiments, prompt files (.prompty) or folders of
    them; without any, the experiments and the dataset of the project are checked. Two verdicts are given apart:
    whether tui-evals can run a dataset, and whether it is portable to runevals as it is. Exit code 2 when something is
    wrong.
    """
    from tui_evals.cli.write.authoring import print_schema, validate_files

    if schema_of is not None:
        print_schema(schema_of)
        return 0
    return validate_files(files, strict_schema, as_json)


@click.command("resolve")
@click.argument("file", type=file_path, required=False)
@click.option("--item", "number", type=click.IntRange(min=1), help="Only this item, counted from 1.")
@as_json
def resolve_command(file: Path | None, number: int | None, as_json: bool) -> None:
    """Show which evaluators judge each item and turn of FILE, with which options, and where each comes from.

    Without FILE it is the dataset of the project.
    """
    from tui_evals.cli.write.authoring import show_resolved

    show_resolved(file, number, as_json)


@click.command("upgrade")
@click.argument("file", type=file_path)
def upgrade_command(file: Path) -> None:
    """Bring the dataset FILE to the current version of the format.

    A bare array or another unversioned shape is rewritten, with a byte-identical backup next to it; an older version
    only gets its version changed.
    """
    from tui_evals.cli.write.authoring import upgrade_file

    upgrade_file(file)


@click.command("convert")
@click.argument("file", type=file_path)
@click.option("--to", "kind", type=click.Choice(_FORMATS), required=True, help="What to write.")
@click.option("-o", "--output", type=file_path, help="The new file to write; - or nothing for the screen.")
@click.option("--raw-csv", is_flag=True, help="Do not escape cells that a spreadsheet would run as formulas.")
@click.option("--bare", is_flag=True, help="Do not write the second file that has the whole dataset.")
def convert_command(file: Path, kind: str, output: Path | None, raw_csv: bool, bare: bool) -> None:
    """Write the dataset FILE as another format, and say what that format cannot hold.

    m365 is the eval document as runevals takes it; csv is the table of Arthur Bench; jsonl the samples of OpenAI Evals;
    promptfoo is the configuration of promptfoo as YAML; foundry the evaluations of Prompt Foundry as JSON.

    Parts that a format cannot hold are in OUTPUT.tui-evals next to it. Reading or importing OUTPUT here restores
    the whole dataset; if a table was edited since, new rows are read as they are. m365 keeps these parts in the file
    itself, under extensions.tui_evals: `tui-evals import OUTPUT --into NEW.json` restores the whole dataset.
    """
    from tui_evals.cli.write.authoring import convert_file

    convert_file(file, kind, output, raw_csv, bare)


_dataset = click.argument("dataset", type=file_path, callback=lambda context, parameter, value: dataset_of_word(value))
_force = click.option("--force", is_flag=True, help="Write a file that is read-only too.")
_unset = click.option("--unset", multiple=True, metavar="FIELD", help="Remove a field. Can be repeated.")
_turn = click.option("--turn", type=click.IntRange(min=1), help="This turn of the item instead of the item.")


def _writing(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options of every command that writes a dataset."""
    return _force(as_json(command))


@click.group("item")
def item_command() -> None:
    """List, add, change and remove the items of a dataset.

    ITEM is a number counted from 1, a testId or name, or `last`; ITEMS may be several, as in 1,4-9. FIELD=VALUE sets a
    field: `weight=0.5`, `variables.city=Rome`, `turns.2.prompt=And then?`, `tags=smoke,slow`; FIELD:=JSON gives JSON. A
    VALUE of - is read from standard input, @FILE from a file, and @@ means @ itself.

    Everything is checked first, and an edit that adds an error is not written. `tui-evals dataset undo` undoes the last
    edit.
    """


@item_command.command("list", short_help="List items, or those that match a filter.")
@_dataset
@click.argument("words", nargs=-1, metavar="[FILTER]...")
@as_json
def list_command(dataset: Path, words: tuple[str, ...], as_json: bool) -> None:
    """List the items of DATASET; FILTER works as in the tree: `category:x !tag:slow word`."""
    from tui_evals.cli.write.items import list_items

    list_items(dataset, words, as_json)


@item_command.command("show", short_help="Show an item, or one field of it.")
@_dataset
@click.argument("item")
@click.argument("field", required=False)
@as_json
def show_command(dataset: Path, item: str, field: str | None, as_json: bool) -> None:
    """Show ITEM of DATASET with all its fields, or the value of one FIELD alone."""
    from tui_evals.cli.write.items import show_item

    show_item(dataset, item, field, as_json)


@item_command.command("add", short_help="Add an item, or a turn.")
@_dataset
@click.argument("fields", nargs=-1, metavar="[FIELD=VALUE]...")
@click.option("--after", metavar="ITEM", help="Insert after this item, 0 for the beginning. Default: at the end.")
@click.option("--from", "source", metavar="FILE", help="A JSON file, or -: an item, or a list of them.")
@click.option("--turn-of", metavar="ITEM", help="Add a turn to this item instead; --after then counts its turns.")
@click.option("--new", is_flag=True, help="Create the dataset if the file does not exist.")
@_writing
def add_command(
    dataset: Path,
    fields: tuple[str, ...],
    after: str | None,
    source: str | None,
    turn_of: str | None,
    new: bool,
    force: bool,
    as_json: bool,
) -> None:
    """Add an item to DATASET, and print its number and name."""
    from tui_evals.cli.write.items import Where, add

    add(Where(dataset, force, as_json), fields, after=after, source=source, turn_of=turn_of, new=new)


@item_command.command("set", short_help="Set fields of items.")
@_dataset
@click.argument("items")
@click.argument("fields", nargs=-1, metavar="[FIELD=VALUE]...")
@_unset
@_writing
def set_command(
    dataset: Path, items: str, fields: tuple[str, ...], unset: tuple[str, ...], force: bool, as_json: bool
) -> None:
    """Set fields of ITEMS; an empty VALUE takes a field away, as --unset does."""
    from tui_evals.cli.write.items import Where, set_fields

    set_fields(Where(dataset, force, as_json), items, fields, unset)


@item_command.command("copy", short_help="Copy items.")
@_dataset
@click.argument("items")
@_turn
@_writing
def copy_command(dataset: Path, items: str, turn: int | None, force: bool, as_json: bool) -> None:
    """Put a copy behind each of ITEMS, with a testId of its own and without results of runs."""
    from tui_evals.cli.write.items import Where, copy

    copy(Where(dataset, force, as_json), items, turn)


@item_command.command("rm")
@_dataset
@click.argument("items")
@_turn
@_writing
def rm_command(dataset: Path, items: str, turn: int | None, force: bool, as_json: bool) -> None:
    """Remove ITEMS. Nothing is asked: `tui-evals dataset undo` brings them back."""
    from tui_evals.cli.write.items import Where, remove

    remove(Where(dataset, force, as_json), items, turn)


@item_command.command("move", short_help="Move items, or a turn.")
@_dataset
@click.argument("items")
@click.argument("to")
@_turn
@_writing
def move_command(dataset: Path, items: str, to: str, turn: int | None, force: bool, as_json: bool) -> None:
    """Move ITEMS so that the first of them is number TO; `last` is the end. With --turn, a turn among the turns."""
    from tui_evals.cli.write.items import Where, move

    move(Where(dataset, force, as_json), items, to, turn)


# A tag to remove begins with a minus, like an option: unknown options are read as tags.
@item_command.command(
    "tag",
    short_help="Add or remove tags of items.",
    context_settings={"ignore_unknown_options": True, "help_option_names": ["--help"]},
)
@_dataset
@click.argument("items")
@click.argument("tags", nargs=-1, required=True)
@_writing
def tag_command(dataset: Path, items: str, tags: tuple[str, ...], force: bool, as_json: bool) -> None:
    """Add tags to ITEMS; a leading minus removes a tag: `smoke,-old`."""
    from tui_evals.cli.write.items import Where, tag

    tag(Where(dataset, force, as_json), items, tags)


@item_command.command("conversation", short_help="Make single prompts conversations.")
@_dataset
@click.argument("items")
@click.option("--back", is_flag=True, help="Make a conversation of one turn a single prompt.")
@_writing
def conversation_command(dataset: Path, items: str, back: bool, force: bool, as_json: bool) -> None:
    """Make ITEMS, single prompts, conversations of one turn; `item add --turn-of` adds others."""
    from tui_evals.cli.write.items import Where, conversation

    conversation(Where(dataset, force, as_json), items, back)


@item_command.command("from-conversation", short_help="Make items of recorded chats.")
@click.argument("file", type=file_path)
@click.option(
    "--into",
    type=file_path,
    required=True,
    metavar="DATASET",
    help="The dataset to add to; created if it does not exist.",
)
@click.option("--with-checks", is_flag=True, help="Judge with the checks that the last answers suggest.")
def from_conversation_command(file: Path, into: Path, with_checks: bool) -> None:
    """Add every conversation of FILE, messages in OpenAI's format (.json, .jsonl), as an item to a dataset.

    FILE may hold messages, requests, responses, a log of them, or lines for fine-tuning. Answers become expected
    responses. The checks that the last answer suggests wait under extensions.suggested, where they judge nothing.
    """
    from tui_evals.cli.write.importing import add_conversations

    add_conversations(file, into, with_checks)


@click.group("dataset")
def dataset_command() -> None:
    """Set fields of a dataset itself, and take back what commands did to it."""


@dataset_command.command("set", short_help="Set fields of the dataset itself.")
@_dataset
@click.argument("fields", nargs=-1, metavar="[FIELD=VALUE]...")
@_unset
@_writing
def set_dataset_command(
    dataset: Path, fields: tuple[str, ...], unset: tuple[str, ...], force: bool, as_json: bool
) -> None:
    """Set fields of DATASET itself: `metadata.name=Library`, `variables.city=Rome`, `prompt_file=ask.prompty`."""
    from tui_evals.cli.write.items import Where, set_dataset

    set_dataset(Where(dataset, force, as_json), fields, unset)


_over = click.option("--force", is_flag=True, help="Also where the file was changed since, or is read-only.")


@dataset_command.command("undo", short_help="Undo the last command.")
@_dataset
@_over
@as_json
def undo_command(dataset: Path, force: bool, as_json: bool) -> None:
    """Give DATASET the content it had before the last command that changed it; again for the one before."""
    from tui_evals.cli.write.items import undo

    undo(dataset, True, force, as_json)


@dataset_command.command("redo", short_help="Redo the last undone edit.")
@_dataset
@_over
@as_json
def redo_command(dataset: Path, force: bool, as_json: bool) -> None:
    """Redo the last undone edit."""
    from tui_evals.cli.write.items import undo

    undo(dataset, False, force, as_json)


@dataset_command.command("history", short_help="List the edits made by commands.")
@_dataset
@as_json
def history_command(dataset: Path, as_json: bool) -> None:
    """List the edits of DATASET made by commands, the newest last; the last 50 can be undone."""
    from tui_evals.cli.write.items import show_history

    show_history(dataset, as_json)


@click.command("import")
@click.argument("path", type=file_path, required=False)
@click.option("--from", "kind", metavar="KIND", help="What PATH is. Default: detected. A wrong one lists all.")
@click.option(
    "--into", type=file_path, metavar="FILE", help="The file of the dataset; messages are added to one there."
)
@click.option("--out", type=file_path, metavar="DIR", help="The folder to write the dataset to. Default: that of PATH.")
@click.option("--name", metavar="NAME", help="The name of dataset and run. Default: that of the prompt or file.")
@click.option("--prompt", metavar="NAME", help="Which prompt, of a file of Prompt Foundry with several.")
@click.option("--written-by", metavar="VERSION", help="The version of promptfoo that PATH was written for.")
@click.option("--limit", type=click.IntRange(min=1), help="Of traces: this many conversations, chosen at random.")
@click.option("--redact", is_flag=True, help="Of traces: replace keys, emails, card and phone numbers.")
@click.option("--preview", is_flag=True, help="Of traces: show what would be imported and what may be private.")
@click.option(
    "--targets/--no-targets",
    default=None,
    help="Write the settings of its targets to .evals/config.toml. Default: ask, at a terminal.",
)
@click.option(
    "--verify",
    is_flag=False,
    flag_value="",
    metavar="[RESULTS]",
    help="Judge the recorded answers of RESULTS, or of PATH, again: is each verdict the same?",
)
@click.option("--judges", is_flag=True, help="With --verify: ask the models that judge too.")
@click.option("--trust", is_flag=True, help="With --verify: run the project's own evaluators without asking.")
@as_json
def import_command(
    path: Path | None,
    kind: str | None,
    preview: bool,
    targets: bool | None,
    verify: str | None,
    judges: bool,
    trust: bool,
    as_json: bool,
    **options: Any,
) -> int:
    """Import from another tool: its tests as a dataset, its answers and verdicts as a finished run.

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
      otlp, phoenix, langfuse
                  traces of agents: OTLP as JSON or protobuf, spans of
                  Phoenix, observations of Langfuse
      messages    messages in OpenAI's format, .json or .jsonl
      dataset     a dataset, which needs no import

    The import reports what it carried over, changed and left out. It calls no model, overwrites no file, and imports
    no run twice. A log or results file becomes only a run, unless --into or --out names a place for its dataset.

    --verify shows whether the evaluators judge as before: it judges the recorded answers again, stores nothing, and
    exits 1 if a verdict differs. `import promptfooconfig.yaml --verify output.json` uses the imported configuration;
    `import output.json --verify` uses the results themselves.
    """
    from tui_evals.cli.write.importing import Verify, import_path, show_preview
    from tui_evals.imports.base import ImportOptions

    if path is None and not verify:
        raise click.UsageError("Missing argument 'PATH'.")
    if verify is None and (judges or trust):
        raise click.UsageError("--judges and --trust say how --verify judges; give that too.")
    alone = path is None or not verify
    results = None if verify is None else Verify(None if alone else Path(verify), judges=judges, trust=trust)
    source = Path(verify or "") if path is None else path
    if preview:
        show_preview(source, kind)
        return 0
    return import_path(source, kind, ImportOptions(**options), targets, as_json, results)


@click.command("registry")
@click.argument("path", metavar="PATH[,PATH]")
@click.argument("words", nargs=-1, metavar="[FILTER]...")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def registry_command(path: str, words: tuple[str, ...], as_json: bool) -> None:
    """List the evals of a registry of OpenAI Evals: those that run here, why the others do not, and the sets.

    PATH is the folder with evals/, modelgraded/, eval_sets/ and data/, or its parent. FILTER words must all be in the
    name, class or description; !WORD must not.
    """
    from tui_evals.cli.run.registry import list_registry

    list_registry(path, words, as_json)


_GENERATION_STEPS = (
    "intent, inputspec, rules, inverse, groundedness, tests, baseline, expansion, review, groundtruth, dataset, exports"
)


_GENERATION_MODELS = (
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
_GENERATION_AMOUNTS = (
    click.option("--effort", type=click.Choice(["min", "low", "medium", "high"]), help="A preset. Default: low."),
    click.option(
        "--max-rules", type=click.IntRange(1), help="Test at most this many rules, and as many inverse rules."
    ),
    click.option("--tests-per-rule", type=click.IntRange(1, 10), help="Tests for each rule in each round."),
    click.option("--split-rules/--no-split-rules", default=None, help="Ask about rules and inverse rules separately."),
    click.option("--max-rules-per-test-generation", type=click.IntRange(0), help="Rules in one question; 0 is all."),
    click.option("--test-generations", type=click.IntRange(1, 10), help="Rounds of asking for tests."),
    click.option("--test-expansions", type=click.IntRange(0, 5), help="How often inputs are made longer."),
    click.option("--runs-per-test", type=click.IntRange(1, 100), help="How often a run asks each test."),
    click.option("--max-tests-to-run", type=click.IntRange(1), help="How many tests --models-under-test get."),
    click.option("--test-samples-count", type=click.IntRange(0), help="Samples of the prompt that are shown."),
    click.option("--test-samples-shuffle/--no-test-samples-shuffle", default=None, help="Draw the samples."),
    click.option("--seed", type=int, help="The seed of that draw."),
)
_GENERATION_WISHES = (
    click.option("--groundtruth/--no-groundtruth", default=None, help="Have a trusted model answer every test."),
    click.option("--compliance/--no-compliance", default=None, help="Judge answers by the rules."),
    click.option("--baseline-tests/--no-baseline-tests", default=None, help="Add tests made without rules."),
    click.option("--validity/--no-validity", default=None, help="Have tests checked against the specification."),
    click.option("--groundedness/--no-groundedness", default=None, help="Have rules checked against the prompt."),
    click.option("--coverage/--no-coverage", default=None, help="Check whether the rules alone say enough."),
    click.option(
        "--custom-metric", type=file_path, metavar="FILE", help="A metric prompty to judge answers by as well."
    ),
    click.option("--intent-instructions", metavar="TEXT", help="Added to the question for the intent."),
    click.option("--input-spec-instructions", metavar="TEXT", help="Added to that for the input specification."),
    click.option("--output-rules-instructions", metavar="TEXT", help="Added to that for rules."),
    click.option("--inverse-output-rules-instructions", metavar="TEXT", help="Added to that for inverse rules."),
    click.option("--test-expansion-instructions", metavar="TEXT", help="Added to that for longer inputs."),
)
_GENERATION_COURSE = (
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
    click.option("-c", "--concurrency", type=click.IntRange(1), help="Parallel calls per target."),
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


def _with_generation_options(command: Any) -> Any:
    for option in reversed((*_GENERATION_MODELS, *_GENERATION_AMOUNTS, *_GENERATION_WISHES, *_GENERATION_COURSE)):
        command = option(command)
    return command


@click.command("generate", epilog=f"The steps: {_GENERATION_STEPS}.")
@click.argument("prompt", required=False, type=file_path)
@click.option("--prompt", "inline", metavar="TEXT", help="The prompt itself, instead of a file.")
@click.option(
    "-o", "--out", type=file_path, help="Where the folder of the generation goes. Default: next to the prompt."
)
@_with_generation_options
def generate_command(**options: Any) -> int:
    """Make a test collection for a prompt: its rules, tests for each of them, ground truth, a dataset to run.

    PROMPT is a .prompty, .md, .txt or .prompt.yml file. Every step writes a file into a folder named after the prompt;
    a file that is there is kept, so edit any of them and run the command again. Models and options are remembered.
    """
    from .generating import generate

    return generate(**options)
