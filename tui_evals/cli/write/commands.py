"""init, validate, resolve, upgrade, convert."""

from __future__ import annotations

from pathlib import Path

import click

_file = click.Path(path_type=Path)
_FORMATS = ("m365", "csv", "jsonl", "promptfoo", "foundry")
_PROVIDERS = (
    *("openai", "anthropic", "azure", "gemini", "vertex", "bedrock", "mistral", "groq", "openrouter"),
    *("ollama", "vllm", "lmstudio", "proxy"),
)
"""As in `targets.guides`, which a command line that says `--help` need not import."""
_SOURCES = ("http", "openai", "python", "command", "a2a")
"""As in `targets.beginnings`, likewise."""
_as_json = click.option("--json", "as_json", is_flag=True, help="Print as JSON.")


@click.command("init")
@click.option("--template", type=click.Choice(["basic", "knowledge-base", "tool-usage"]), default="basic")
@click.option("--provider", type=click.Choice(_PROVIDERS), help="Configure a target of this provider as well.")
@click.option(
    "--from", "source", type=click.Choice(_SOURCES), help="Begin with a target of this kind, and ask it once."
)
@click.option("--at", metavar="WHERE", help="With --from: its URL, function (agent.py:answer) or program.")
@click.option("--model", help="With --from openai: the model.")
@click.option("--key", metavar="VARIABLE", help="With --from openai: the variable of its key; '' for none.")
@click.option("--field", help="With --from http: the field of the JSON body that holds the question.")
@click.option("--answer", metavar="PATH", help="With --from http: where the answer stands, as in $.reply.text.")
@click.option("--ask", metavar="TEXT", help="With --from: what it is asked first.")
def init_command(template: str, provider: str | None, source: str | None, **given: str | None) -> None:
    """Write a starter dataset to ./evals/evals.json and make the project folder .evals/ with a configuration.

    --from asks for what its options do not say, calls the target once, and names the command that runs the dataset.
    Nothing that is already there is overwritten; --provider and --from add to a project that has its dataset already.
    """
    from .authoring import initialise, initialise_from

    if source is None:
        initialise(template, provider, given)
    else:
        initialise_from(source, provider, given)


@click.command("validate")
@click.argument("files", nargs=-1, type=_file)
@click.option("--strict-schema", is_flag=True, help="Refuse what the published runevals schema refuses.")
@_as_json
def validate_command(files: tuple[Path, ...], strict_schema: bool, as_json: bool) -> int:
    """Check datasets and prompt files, every problem at once.

    FILES may be datasets (.json, .csv, .jsonl, also .gz), prompt files (.prompty) or folders of them; without any,
    the usual places are searched. Two verdicts are given apart: whether tui-evals can run a dataset, and whether it
    is portable to runevals as it is. Exit code 2 when something is wrong.
    """
    from .authoring import validate_files

    return validate_files(files, strict_schema, as_json)


@click.command("resolve")
@click.argument("file", type=_file)
@click.option("--item", "number", type=click.IntRange(min=1), help="Only this item, counted from 1.")
@_as_json
def resolve_command(file: Path, number: int | None, as_json: bool) -> None:
    """Show which evaluators judge each item and turn of FILE, with which options, and where each comes from."""
    from .authoring import show_resolved

    show_resolved(file, number, as_json)


@click.command("upgrade")
@click.argument("file", type=_file)
def upgrade_command(file: Path) -> None:
    """Bring the dataset FILE to the current version of the format.

    A bare array or another unversioned shape is rewritten, with a byte-identical backup beside it; an older version
    only gets its version changed.
    """
    from .authoring import upgrade_file

    upgrade_file(file)


@click.command("convert")
@click.argument("file", type=_file)
@click.option("--to", "kind", type=click.Choice(_FORMATS), required=True, help="What to write.")
@click.option("-o", "--output", type=_file, help="Where to, a new file; - or nothing for the screen.")
@click.option("--raw-csv", is_flag=True, help="Leave cells that a spreadsheet would run as formulas as they are.")
def convert_command(file: Path, kind: str, output: Path | None, raw_csv: bool) -> None:
    """Write the dataset FILE as another format, and say what that format cannot hold.

    m365 is the eval document as runevals takes it; csv is the table of Arthur Bench; jsonl the samples of OpenAI Evals;
    promptfoo is the configuration of promptfoo as YAML; foundry the evaluations of Prompt Foundry as JSON.
    """
    from .converting import convert_file

    convert_file(file, kind, output, raw_csv)
