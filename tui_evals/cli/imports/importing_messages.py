"""Conversations in OpenAI's format as items: of a new dataset, or at the end of one that is there."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tui_evals.cli.output import Stop, say, warn
from tui_evals.datasets.document import load
from tui_evals.datasets.model import CURRENT_VERSION
from tui_evals.datasets.paths import CannotEdit
from tui_evals.datasets.problems import DatasetError
from tui_evals.datasets.save import CannotSave, ChangedOnDisk, save
from tui_evals.datasets.validate import parse_dataset, with_lines
from tui_evals.imports.chats import Conversation, item_from, read_conversations, with_suggestions
from tui_evals.imports.losses import Losses

from .imported import DatasetIs, Imported, ImportOptions, shown, text_of, write_whole
from .importing_datasets import parsed

Data = dict[str, Any]

_OURS = frozenset(("items", "prompt", "turns", "testId", "evaluators", "expected_response", "input", "evaluations"))
_CARRIED = frozenset(("messages", "tools", "functions", "response_format"))
_THEIRS = frozenset(("messages", "choices", "request", "body", "response"))


def recognises(path: Path) -> bool:
    """Whether a file holds messages, or what is sent and received with them."""
    if path.suffix.lower() not in (".json", ".jsonl", ".ndjson"):
        return False
    return all(_is_conversation(part) for part in _parts(parsed(path)))


def _parts(value: object) -> list[object]:
    return value if isinstance(value, list) and value else [value]


def _is_bare(part: object) -> bool:
    """Whether a part of a file is nothing but messages, and what is carried with them."""
    return isinstance(part, list) or (isinstance(part, dict) and ("role" in part or part.keys() <= _CARRIED))


def _is_conversation(part: object) -> bool:
    if isinstance(part, list):
        return bool(part) and all(isinstance(one, dict) and "role" in one for one in part)
    return isinstance(part, dict) and not _OURS & part.keys() and ("role" in part or bool(_THEIRS & part.keys()))


def take(path: Path, wish: ImportOptions) -> Imported:
    """Conversations as a dataset of their own, or at the end of the one that --into names."""
    losses = Losses()
    items = _items(path, False, losses)
    if wish.into is not None and wish.into.exists():
        file, outcome = wish.into, _added(wish.into, items, path)
    else:
        file = wish.file(path, path.name.partition(".")[0] or "conversations")
        outcome = _fresh(items, file)
    return Imported(
        read=str(path),
        dataset=shown(file),
        dataset_is=outcome,
        items=len(items),
        losses=tuple(losses.entries),
        next=f"tui-evals run {shlex.quote(shown(file))} --target NAME",
    )


def from_conversation(path: Path, into: Path, with_checks: bool) -> None:
    """`tui-evals item from-conversation`."""
    losses = Losses()
    items = _items(path, with_checks, losses)
    if into.exists():
        _added(into, items, path)
    else:
        _fresh(items, ImportOptions(into=into).file(path, ""))
    for line in losses.sentences():
        say(line)
    count = len(items)
    say(f"added {count} item{'' if count == 1 else 's'} to {into}", fg="green")
    if not with_checks and any("extensions" in unit for item in items for unit in (item, *item.get("turns", ()))):
        warn("note: the checks that the last answers suggest wait under extensions.suggested; --with-checks uses them")


def _items(path: Path, with_checks: bool, losses: Losses) -> list[Data]:
    """The items of every conversation of a file, or the end of the command with what is wrong with it."""
    try:
        conversations = read_conversations(text_of(path), str(path))
        items = [_item(one, with_checks) for one in conversations]
    except DatasetError as problem:
        raise Stop(str(problem)) from None
    except CannotEdit as problem:
        raise Stop(f"{path}: {problem}") from None
    count = len(items)
    losses.carried(f"{count} conversation{'' if count == 1 else 's'}", str(path))
    if not all(_is_bare(part) for part in _parts(parsed(path))):
        why = "a target has parameters, and a run has ids, times and usage"
        losses.left_out("what stands beside messages, tools and response_format", str(path), why)
    return items


def _item(conversation: Conversation, with_checks: bool) -> Data:
    item, suggested = item_from(conversation.messages, conversation.tools, conversation.response_format)
    return _checked(item, suggested) if with_checks else with_suggestions(item, suggested)


def _checked(item: Data, suggested: Mapping[str, Data]) -> Data:
    """The item with the suggested checks judging its last answer."""
    if not suggested:
        return item
    if "turns" in item:
        *before, last = item["turns"]
        return {**item, "turns": [*before, _checked(last, suggested)]}
    return {**item, "evaluators": dict(suggested)}


def _fresh(items: list[Data], file: Path) -> DatasetIs:
    return write_whole({"schemaVersion": CURRENT_VERSION, "items": items}, file, {})


def _added(file: Path, items: list[Data], path: Path) -> DatasetIs:
    """Put items at the end of a dataset, in the style of its file."""
    if file.resolve() == path.resolve() or recognises(file):
        raise Stop(f"{file} holds messages, so it is no dataset that items can be added to; name another file")
    try:
        document = load(file)
        data = {**document.data, "items": [*document.data.get("items", ()), *items]}
        dataset, problems = parse_dataset(data)
        if dataset is None:
            raise DatasetError(str(file), with_lines(problems, document))
        saved = save(document, data)
    except (DatasetError, CannotSave, ChangedOnDisk) as problem:
        raise Stop(str(problem)) from None
    if saved.backup is not None:
        warn(f"note: the original is kept as {saved.backup}")
    return "added to"
