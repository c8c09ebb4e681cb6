"""Conversations in OpenAI's format imported as items: of a new dataset, or at the end of one that is there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from tui_evals.datasets.document import load
from tui_evals.datasets.paths import CURRENT_VERSION, CannotEdit, DatasetError
from tui_evals.datasets.save import save
from tui_evals.datasets.validate import parse_dataset, with_lines

from .base import CannotKeep, CannotRead, Importer, ImportRequest, ImportResult
from .chats import ChatWithTools, item_from, read_conversations, with_suggestions
from .keeping import json_in, keep_dataset, run_command, text_of
from .losses import Losses

Data = dict[str, Any]

_OURS = frozenset(("items", "prompt", "turns", "testId", "evaluators", "expected_response", "input", "evaluations"))
_CARRIED = frozenset(("messages", "tools", "functions", "response_format"))
_THEIRS = frozenset(("messages", "choices", "request", "body", "response"))


def recognises(path: Path) -> bool:
    """Whether a file holds messages, or what is sent and received with them."""
    if path.suffix.lower() not in (".json", ".jsonl", ".ndjson"):
        return False
    return all(_is_conversation(part) for part in _parts(json_in(path)))


def _parts(value: object) -> list[object]:
    return value if isinstance(value, list) and value else [value]


def _is_conversation(part: object) -> bool:
    if isinstance(part, list):
        return bool(part) and all(isinstance(message, dict) and "role" in message for message in part)
    return isinstance(part, dict) and not _OURS & part.keys() and ("role" in part or bool(_THEIRS & part.keys()))


def _is_bare(part: object) -> bool:
    """Whether a part of a file is nothing but messages, and what is carried with them."""
    return isinstance(part, list) or (isinstance(part, dict) and ("role" in part or part.keys() <= _CARRIED))


def add_conversations(request: ImportRequest, with_checks: bool) -> ImportResult:
    """Conversations as items; the checks that last answers suggest judge, or wait where they judge nothing."""
    losses = Losses()
    items = _items(request.path, with_checks, losses)
    result = _keep(request, items, losses)
    if with_checks or not any("extensions" in unit for item in items for unit in (item, *item.get("turns", ()))):
        return result
    note = "the checks that the last answers suggest wait under extensions.suggested; --with-checks uses them"
    return replace(result, notes=(*result.notes, note))


def _import(request: ImportRequest) -> ImportResult:
    losses = Losses()
    return _keep(request, _items(request.path, False, losses), losses)


def _keep(request: ImportRequest, items: list[Data], losses: Losses) -> ImportResult:
    """Keep items as a dataset of their own, or at the end of the one that the options name."""
    into = request.options.into
    if into is not None and into.exists():
        return _append(request, into, items, losses)
    file = request.dataset_file(request.path.name.partition(".")[0] or "conversations")
    return keep_dataset(request, file, {"schemaVersion": CURRENT_VERSION, "items": items}, losses)


def _items(path: Path, with_checks: bool, losses: Losses) -> list[Data]:
    """The items of every conversation of a file; CannotRead says what is wrong with it."""
    try:
        conversations = read_conversations(text_of(path), str(path))
        items = [_item(conversation, with_checks) for conversation in conversations]
    except CannotEdit as problem:
        raise CannotRead(f"{path}: {problem}") from None
    count = len(items)
    losses.carried(f"{count} conversation{'' if count == 1 else 's'}", str(path))
    if not all(_is_bare(part) for part in _parts(json_in(path))):
        why = "a target has parameters, and a run has ids, times and usage"
        losses.left_out("fields other than messages, tools and response_format", str(path), why)
    return items


def _item(conversation: ChatWithTools, with_checks: bool) -> Data:
    item, suggested = item_from(conversation.messages, conversation.tools, conversation.response_format)
    return _judged(item, suggested) if with_checks else with_suggestions(item, suggested)


def _judged(item: Data, suggested: Mapping[str, Data]) -> Data:
    """The item with the suggested checks judging its last answer."""
    if not suggested:
        return item
    if "turns" in item:
        *before, last = item["turns"]
        return {**item, "turns": [*before, _judged(last, suggested)]}
    return {**item, "evaluators": dict(suggested)}


def _append(request: ImportRequest, file: Path, items: list[Data], losses: Losses) -> ImportResult:
    """Put items at the end of a dataset, in the style of its file."""
    path = request.path
    if file.resolve() == path.resolve() or recognises(file):
        raise CannotKeep(f"{file} holds messages, so it is no dataset that items can be added to; name another file")
    document = load(file)
    data = {**document.data, "items": [*document.data.get("items", ()), *items]}
    dataset, problems = parse_dataset(data)
    if dataset is None:
        raise DatasetError(str(file), with_lines(problems, document))
    saved = save(document, data)
    return ImportResult(
        source=path,
        dataset=file,
        dataset_is="added to",
        items=len(items),
        losses=tuple(losses.entries),
        notes=() if saved.backup is None else (f"the original is kept as {saved.backup}",),
        next=run_command(file),
    )


IMPORTER = Importer(
    kind="messages",
    about="OpenAI messages (.json, .jsonl)",
    recognises=recognises,
    read=_import,
    order=80,
)
