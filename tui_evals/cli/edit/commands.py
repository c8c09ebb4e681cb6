"""item, dataset: what the workbench does to a dataset, by command."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

_file = click.Path(path_type=Path)
_dataset = click.argument("dataset", type=_file)
_as_json = click.option("--json", "as_json", is_flag=True, help="Print as JSON.")
_force = click.option("--force", is_flag=True, help="Write a file that is read-only too.")
_unset = click.option("--unset", multiple=True, metavar="FIELD", help="Take a field away; may be repeated.")
_turn = click.option("--turn", type=click.IntRange(min=1), help="This turn of the item instead of the item.")


def _writing(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options of every command that writes a dataset."""
    return _force(_as_json(command))


@click.group("item")
def item_command() -> None:
    """List, add, change and remove the items of a dataset.

    ITEM is a number counted from 1, a testId or name, or `last`; ITEMS may be several, as in 1,4-9. FIELD=VALUE sets a
    field: `weight=0.5`, `variables.city=Rome`, `turns.2.prompt=And then?`, `tags=smoke,slow`; FIELD:=JSON gives JSON. A
    VALUE of - is read from standard input, @FILE from a file, and @@ stands for @ itself.

    Everything is checked first and nothing is written that would make the dataset worse; `tui-evals dataset undo` takes
    back what was written.
    """


@item_command.command("list", short_help="List items, or those a filter finds.")
@_dataset
@click.argument("words", nargs=-1, metavar="[FILTER]...")
@_as_json
def list_command(dataset: Path, words: tuple[str, ...], as_json: bool) -> None:
    """List the items of DATASET, or those that FILTER lets through, as the tree does: `category:x !tag:slow word`."""
    from .listing import list_items

    list_items(dataset, words, as_json)


@item_command.command("show", short_help="Show an item, or one field of it.")
@_dataset
@click.argument("item")
@click.argument("field", required=False)
@_as_json
def show_command(dataset: Path, item: str, field: str | None, as_json: bool) -> None:
    """Show ITEM of DATASET with all its fields, or the value of one FIELD alone."""
    from .listing import show_item

    show_item(dataset, item, field, as_json)


@item_command.command("add", short_help="Add an item, or a turn.")
@_dataset
@click.argument("fields", nargs=-1, metavar="[FIELD=VALUE]...")
@click.option("--after", metavar="ITEM", help="Behind this item, 0 for the beginning; at the end when absent.")
@click.option("--from", "source", metavar="FILE", help="A JSON file, or -: an item, or a list of them.")
@click.option("--turn-of", metavar="ITEM", help="Add a turn to this item instead; --after then counts its turns.")
@click.option("--new", is_flag=True, help="Begin the dataset where there is no such file.")
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
    from .items import Where, add

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
    from .items import Where, set_fields

    set_fields(Where(dataset, force, as_json), items, fields, unset)


@item_command.command("copy", short_help="Put copies behind items.")
@_dataset
@click.argument("items")
@_turn
@_writing
def copy_command(dataset: Path, items: str, turn: int | None, force: bool, as_json: bool) -> None:
    """Put a copy behind each of ITEMS, with a testId of its own and without results of runs."""
    from .items import Where, copy

    copy(Where(dataset, force, as_json), items, turn)


@item_command.command("rm")
@_dataset
@click.argument("items")
@_turn
@_writing
def rm_command(dataset: Path, items: str, turn: int | None, force: bool, as_json: bool) -> None:
    """Remove ITEMS. Nothing is asked: `tui-evals dataset undo` brings them back."""
    from .items import Where, remove

    remove(Where(dataset, force, as_json), items, turn)


@item_command.command("move", short_help="Move items, or a turn.")
@_dataset
@click.argument("items")
@click.argument("to")
@_turn
@_writing
def move_command(dataset: Path, items: str, to: str, turn: int | None, force: bool, as_json: bool) -> None:
    """Move ITEMS so that the first of them is number TO; `last` is the end. With --turn, a turn among the turns."""
    from .items import Where, move

    move(Where(dataset, force, as_json), items, to, turn)


# A tag to be taken away begins with a minus, as options do: what is none of those below is taken for a tag.
@item_command.command(
    "tag",
    short_help="Give items tags, or take them away.",
    context_settings={"ignore_unknown_options": True, "help_option_names": ["--help"]},
)
@_dataset
@click.argument("items")
@click.argument("tags", nargs=-1, required=True)
@_writing
def tag_command(dataset: Path, items: str, tags: tuple[str, ...], force: bool, as_json: bool) -> None:
    """Give ITEMS tags; one with a minus in front is taken away: `smoke,-old`."""
    from .items import Where, tag

    tag(Where(dataset, force, as_json), items, tags)


@item_command.command("conversation", short_help="Make single prompts conversations.")
@_dataset
@click.argument("items")
@click.option("--back", is_flag=True, help="Make a conversation of one turn a single prompt.")
@_writing
def conversation_command(dataset: Path, items: str, back: bool, force: bool, as_json: bool) -> None:
    """Make ITEMS, single prompts, conversations of one turn; `item add --turn-of` adds others."""
    from .items import Where, conversation

    conversation(Where(dataset, force, as_json), items, back)


@item_command.command("from-conversation", short_help="Make items of chats said elsewhere.")
@click.argument("file", type=_file)
@click.option("--into", type=_file, required=True, metavar="DATASET", help="Added at its end; made where it is new.")
@click.option("--with-checks", is_flag=True, help="Let the checks that the last answers suggest judge.")
def from_conversation_command(file: Path, into: Path, with_checks: bool) -> None:
    """Add every conversation of FILE, messages in OpenAI's format (.json, .jsonl), as an item to a dataset.

    FILE may hold messages, requests, responses, a log of them, or lines for fine-tuning. Answers become expected
    responses. The checks that the last answer suggests wait under extensions.suggested, where they judge nothing.
    """
    from tui_evals.cli.imports.importing import add_conversations

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
    from .items import Where, set_dataset

    set_dataset(Where(dataset, force, as_json), fields, unset)


_over = click.option("--force", is_flag=True, help="Also where the file was changed since, or is read-only.")


@dataset_command.command("undo", short_help="Take back what the last command did.")
@_dataset
@_over
@_as_json
def undo_command(dataset: Path, force: bool, as_json: bool) -> None:
    """Give DATASET the content it had before the last command that changed it; again for the one before."""
    from .undoing import undo

    undo(dataset, True, force, as_json)


@dataset_command.command("redo", short_help="Do again what was taken back.")
@_dataset
@_over
@_as_json
def redo_command(dataset: Path, force: bool, as_json: bool) -> None:
    """Do again what was taken back last."""
    from .undoing import undo

    undo(dataset, False, force, as_json)


@dataset_command.command("history", short_help="List what commands did to a dataset.")
@_dataset
@_as_json
def history_command(dataset: Path, as_json: bool) -> None:
    """List what commands did to DATASET, the newest last; the last 50 can be taken back."""
    from .undoing import show_history

    show_history(dataset, as_json)
