"""Whole items edited as one file in the editor a person has chosen; nothing of what was written is lost."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from tui_evals.datasets.item_file import (
    CannotRead,
    Fault,
    item_faults,
    read_items,
    with_faults,
    without_faults,
    write_items,
)
from tui_evals.datasets.paths import CannotEdit, same_data, set_at

from .external_editor import NotEdited, edit_in_editor
from .kept import keep_text
from .pane import Pane
from .widgets.dialogs import Entry, Menu
from .workspace import Workspace

_SUFFIX = ".yaml"


async def edit_whole_items(pane: Pane, numbers: Sequence[int]) -> None:
    """Hand items to the editor as one file, until what it makes of them can be taken or is given up."""
    workspace = pane.workspace
    names = [f"item {number + 1} of {len(workspace.items)} · {workspace.name_of(number)}" for number in numbers]
    called = names[0].rpartition(" · ")[2] if len(names) == 1 else f"{len(names)} items"
    items = [workspace.items[number] for number in numbers]
    try:
        text = await asyncio.to_thread(write_items, list(zip(names, items, strict=True)))
        read = await _edited(pane, text, called, items)
        if read is not None:
            pane.say(_take(workspace, dict(zip(numbers, items, strict=True)), read, called))
            pane.changed()
    except (CannotEdit, NotEdited) as problem:
        pane.say(str(problem), "warn")


def _take(workspace: Workspace, before: Mapping[int, Any], after: Sequence[dict[str, Any]], called: str) -> str:
    """Put the items in place of those that were handed out, as one step; what is equal stays as it is."""
    if any(number >= len(workspace.items) or workspace.items[number] is not old for number, old in before.items()):
        kept = _keep(workspace, write_items([(called, item) for item in after]))
        raise NotEdited(f"{called} changed here meanwhile, so nothing was taken; {kept}")
    items = list(workspace.items)
    for (number, old), new in zip(before.items(), after, strict=True):
        items[number] = old if same_data(old, new) else new
    if all(items[number] is old for number, old in before.items()):
        return f"{called} as before: the file says nothing else"
    workspace.apply(set_at(workspace.data, ("items",), items), f"edit {called}")
    return f"{called} taken from the editor; u takes that back"


async def _edited(pane: Pane, text: str, called: str, before: Sequence[Any]) -> list[dict[str, Any]] | None:
    """The items as they are written in the end; None once it was said that they stay as they were."""
    shown, line = text, 1
    while True:
        try:
            after = await edit_in_editor(pane.app, shown, _SUFFIX, line)
        except NotEdited as problem:
            if shown == text:
                raise
            raise NotEdited(f"{problem}; {_keep(pane.workspace, shown)}") from None
        if after is None and shown == text:
            pane.say(f"{called} as before")
            return None
        written = without_faults(shown if after is None else after)
        items, faults = await asyncio.to_thread(_read, pane.workspace, written, before)
        if items is not None and not faults:
            return items
        shown, line = with_faults(written, faults)
        choice = await pane.app.push_screen_wait(_again(called, faults, line, readable=items is not None))
        if choice == "take" and items is not None:
            return items
        if choice != "again":
            pane.say(f"{called} left as before; {_keep(pane.workspace, shown)}", "warn")
            return None


def _keep(workspace: Workspace, text: str) -> str:
    """Put a text that was not taken into a file; the sentence that says where."""
    try:
        return f"what you wrote is kept in {keep_text(workspace.root, 'items', _SUFFIX, text)}"
    except OSError as problem:
        return f"what you wrote could not be put into a file: {problem.strerror}"


def _read(
    workspace: Workspace, text: str, before: Sequence[Any]
) -> tuple[list[dict[str, Any]] | None, Sequence[Fault]]:
    """The items of a file as far as it can be read, and what is wrong with it that was not before."""
    assert workspace.editing is not None
    try:
        read = read_items(text, len(before))
    except CannotRead as problem:
        return None, (problem.fault,)
    document = replace(workspace.editing.document, data=workspace.data)
    evaluators = workspace.registry
    faults = item_faults(read, before, document, evaluators.catalogue, evaluators.own)
    return [item.data for item in read], faults


def _again(called: str, faults: Sequence[Fault], line: int, *, readable: bool) -> Menu:
    """What is wrong with the file, and what may become of it."""
    more = f" (+{len(faults) - 1} more)" if len(faults) > 1 else ""
    said = f"line {line}: {faults[0].message}{more}"
    entries = [Entry("again", f"edit again at line {line}", "what you wrote is there", said)]
    if readable:
        entries.append(Entry("take", "take it as it is", "what is wrong stays marked beside its field", said))
    entries.append(Entry("leave", f"leave {called} as before", "what you wrote is kept in a file", said))
    return Menu(f"{called} not taken yet", entries)
