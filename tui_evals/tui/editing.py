"""Edits items and turns, copies values to the clipboard, and edits whole items as one file in $EDITOR."""

from __future__ import annotations

import asyncio
import json
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tui_evals.datasets import steps
from tui_evals.datasets.paths import CannotEdit, get_at, same_data, set_at
from tui_evals.datasets.paths import Path as DataPath
from tui_evals.text.safe import safe_line
from tui_evals.tui.external_programs import NotEdited, edit_in_editor, keep_text
from tui_evals.tui.messages import CopyText, ItemShown
from tui_evals.tui.pane import Pane
from tui_evals.tui.widgets.dialogs import Entry, Menu
from tui_evals.tui.workspace import Workspace

if TYPE_CHECKING:
    from tui_evals.datasets.item_file import Fault

NOT_OPEN = "open a dataset first (1, then enter)"


NO_ITEM = "go to an item first; you are at the dataset itself"


def new_item(workspace: Workspace) -> str:
    """A new item after the current one, or at the end from the dataset itself."""
    _open(workspace)
    count = len(workspace.items)
    place = count if workspace.item is None else workspace.item + 1
    marks = {mark + (mark >= place) for mark in workspace.marks}
    workspace.apply(steps.insert_item(workspace.data, place, steps.new_item()), "new item")
    workspace.go(("items", place), marks)
    return f"new item, {place + 1} of {count + 1}"


def new_turn(workspace: Workspace) -> str:
    """A new turn after the current one, or at the end from the item; a single prompt becomes a conversation."""
    number = _item(workspace)
    data = workspace.data
    if turns_of(workspace, number) is None:
        data = steps.to_conversation(data, number)
    count = len(get_at(data, ("items", number, "turns")))
    turn = turn_of(workspace.where)
    place = count if turn is None else turn + 1
    workspace.apply(steps.insert_turn(data, number, place, steps.new_item()), "new turn")
    workspace.go(("items", number, "turns", place))
    return f"new turn, {place + 1} of {count + 1}"


def duplicate(workspace: Workspace, items: Iterable[int] = ()) -> str:
    """A copy of these items, else of the current turn or item; the cursor goes to the first copy."""
    chosen = sorted(items)
    number, turn = _item(workspace, chosen), turn_of(workspace.where)
    if turn is not None and not chosen:
        workspace.apply(steps.duplicate_turn(workspace.data, number, turn), "copy of a turn")
        workspace.go(("items", number, "turns", turn + 1))
        return f"copied turn {turn + 1}"
    chosen = chosen or [number]
    message = _items_name(workspace, chosen)
    marks = {mark + bisect_left(chosen, mark) for mark in workspace.marks}
    workspace.apply(steps.duplicate_items(workspace.data, chosen, workspace.test_ids), f"copy of {message}")
    workspace.go(("items", chosen[0] + 1), marks)
    return f"copied {message}"


def conversation(workspace: Workspace) -> str:
    """A single prompt becomes a conversation of one turn, and back."""
    number = _item(workspace)
    if turns_of(workspace, number) is None:
        workspace.apply(steps.to_conversation(workspace.data, number), "make a conversation")
        workspace.go(("items", number, "turns", 0))
        return f"{workspace.name_of(number)} is a conversation now; t adds a turn"
    workspace.apply(steps.to_single(workspace.data, number), "make a single prompt")
    workspace.go(("items", number))
    return f"{workspace.name_of(number)} is a single prompt now"


def remove(workspace: Workspace, items: Iterable[int] = ()) -> str:
    """Delete these items, else the current turn or item; the cursor stays near."""
    chosen = sorted(items)
    number, turn = _item(workspace, chosen), turn_of(workspace.where)
    if turn is not None and not chosen:
        workspace.apply(steps.remove_turn(workspace.data, number, turn), "delete a turn")
        return f"deleted turn {turn + 1}; u brings it back"
    chosen = chosen or [number]
    message, where = _items_name(workspace, chosen), workspace.where
    marks = {mark - bisect_left(chosen, mark) for mark in workspace.marks.difference(chosen)}
    workspace.apply(steps.remove_items(workspace.data, chosen), f"delete {message}")
    if where:
        place = number - bisect_left(chosen, number)
        rest = () if number in chosen else where[2:]
        where = ("items", min(place, len(workspace.items) - 1), *rest)
    workspace.go(where, marks)
    return f"deleted {message}; u brings {'them' if len(chosen) > 1 else 'it'} back"


def move(workspace: Workspace, way: int, items: Iterable[int] = ()) -> str:
    """Move these items, else the current turn or item; the cursor goes along."""
    chosen = sorted(items)
    number, turn = _item(workspace, chosen), turn_of(workspace.where)
    message = "down" if way > 0 else "up"
    if turn is not None and not chosen:
        count = len(turns_of(workspace, number) or ())
        there = min(max(turn + way, 0), count - 1)
        workspace.apply(steps.move_turn(workspace.data, number, turn, way), f"move a turn {message}")
        workspace.go(("items", number, "turns", there))
        return f"turn {there + 1} of {count}"
    chosen = chosen or [number]
    count = len(workspace.items)
    by = min(max(way, -chosen[0]), count - 1 - chosen[-1])
    called, where = _items_name(workspace, chosen), workspace.where
    moved = _moved(chosen, by, count)
    workspace.apply(steps.move_items(workspace.data, chosen, by), f"move {called} {message}")
    if where:
        where = ("items", moved.get(number, number), *where[2:])
    workspace.go(where, {moved.get(mark, mark) for mark in workspace.marks})
    return f"moved {called} {message}" if by else f"{called} cannot go further {message}"


def neighbour_unit(workspace: Workspace, way: int) -> DataPath | None:
    """The next or previous item or turn in the order of the file; the dataset comes before the first."""
    number, turn = workspace.item, turn_of(workspace.where)
    if number is None:
        return ("items", 0) if way > 0 and workspace.items else None
    if way < 0:
        if turn is not None:
            return ("items", number, "turns", turn - 1) if turn else ("items", number)
        return _last_of(workspace, number - 1) if number else ()
    later = 0 if turn is None else turn + 1
    if later < len(turns_of(workspace, number) or ()):
        return ("items", number, "turns", later)
    return ("items", number + 1) if number + 1 < len(workspace.items) else None


def _last_of(workspace: Workspace, number: int) -> DataPath:
    count = len(turns_of(workspace, number) or ())
    return ("items", number, "turns", count - 1) if count else ("items", number)


def turn_of(where: DataPath) -> int | None:
    """The index of the turn in a path; None if it names no turn."""
    return where[3] if len(where) > 3 and isinstance(where[3], int) else None


def turns_of(workspace: Workspace, number: int) -> list[object] | None:
    """The turns of an item; None when it is a single prompt."""
    turns = get_at(workspace.data, ("items", number, "turns"))
    return turns if isinstance(turns, list) else None


def _moved(chosen: list[int], by: int, count: int) -> dict[int, int]:
    """The new position of each old one if `chosen` move by `by` and the others keep their order."""
    there = {one + by for one in chosen}
    free = iter([place for place in range(count) if place not in there])
    gone = frozenset(chosen)
    return {place: place + by if place in gone else next(free) for place in range(count)}


def _open(workspace: Workspace) -> None:
    if workspace.editing is None:
        raise CannotEdit(NOT_OPEN)


def _item(workspace: Workspace, chosen: list[int] | None = None) -> int:
    """The current item, else the first of those chosen."""
    _open(workspace)
    number = workspace.item
    if number is None and chosen:
        return chosen[0]
    if number is None:
        raise CannotEdit(NO_ITEM)
    return number


def _items_name(workspace: Workspace, chosen: list[int]) -> str:
    return f"{len(chosen)} items" if len(chosen) > 1 else f"item {workspace.name_of(chosen[0])}"


def go_to(pane: Pane, where: DataPath) -> None:
    """Go to an item or turn, or to the dataset itself."""
    pane.workspace.where = where
    pane.post_message(ItemShown())


def step_to_neighbour(pane: Pane, way: int) -> None:
    """Go to the next item or turn, or the one before."""
    there = neighbour_unit(pane.workspace, way)
    if there is not None:
        go_to(pane, there)
    else:
        pane.say("this is the last" if way > 0 else "this is the dataset itself, nothing comes before it")


_USUAL = ("prompt", "expected_response", "testId", "response")
_UNITS = {0: "dataset", 2: "item", 4: "turn"}
_PREVIEW = 60


def copyable_values(workspace: Workspace, items: Sequence[int] = ()) -> dict[str, Any]:
    """The values that can be copied, by name: the given items, otherwise the current place and its texts."""
    if items:
        return {f"{len(items)} item{'s' * (len(items) != 1)} as JSON": [workspace.items[number] for number in items]}
    unit = get_at(workspace.data, workspace.where) if workspace.where else workspace.data
    texts = {name: unit[name] for name in _USUAL if isinstance(unit.get(name), str)} if isinstance(unit, dict) else {}
    return {**texts, f"{_UNITS[len(workspace.where)]} as JSON": unit}


async def copy_menu(pane: Pane, values: dict[str, Any]) -> None:
    """Ask which of these values to copy to the clipboard; other values than text are copied as JSON."""
    entries = [Entry(name, name, _about(value)) for name, value in values.items() if value not in (None, "")]
    chosen = await pane.app.push_screen_wait(Menu("copy", entries, does="copies", empty="nothing to copy here"))
    if chosen is None:
        return
    value = values[chosen]
    try:
        text = await asyncio.to_thread(_text_of, value)
    except RecursionError:
        pane.say(f"{chosen} is nested too deeply to be copied", "warn")
        return
    pane.post_message(CopyText(text, chosen))


def _text_of(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=2)


def _about(value: Any) -> str:
    """The beginning of a text, or how much there is of anything else."""
    if isinstance(value, str):
        return safe_line(value, _PREVIEW)
    return f"{len(value)} part{'s' * (len(value) != 1)}" if isinstance(value, dict | list) else str(value)


_SUFFIX = ".yaml"


async def edit_whole_items(pane: Pane, numbers: Sequence[int]) -> None:
    """Edit items as one file in the editor until the result is valid or discarded."""
    # Imported when needed, because the reader of YAML would delay the first frame.
    from tui_evals.datasets.item_file import write_items

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
    """Replace the items that were edited outside, as one step; unchanged items stay the same objects."""
    from tui_evals.datasets.item_file import write_items

    if any(number >= len(workspace.items) or workspace.items[number] is not old for number, old in before.items()):
        kept = _keep(workspace, write_items([(called, item) for item in after]))
        raise NotEdited(f"{called} changed here while you edited, so nothing was applied; {kept}")
    items = list(workspace.items)
    for (number, old), new in zip(before.items(), after, strict=True):
        items[number] = old if same_data(old, new) else new
    if all(items[number] is old for number, old in before.items()):
        return f"{called} unchanged"
    workspace.apply(set_at(workspace.data, ("items",), items), f"edit {called}")
    return f"{called} taken from the editor; u takes that back"


async def _edited(pane: Pane, text: str, called: str, before: Sequence[Any]) -> list[dict[str, Any]] | None:
    """The items as they were finally edited; None if the user chose to leave them unchanged."""
    from tui_evals.datasets.item_file import with_faults, without_faults

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
    """The items of a file, None if it cannot be read, and its new errors."""
    from tui_evals.datasets.item_file import CannotRead, item_faults, read_items

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
    """The menu after an invalid edit: the problems of the file, and the choices."""
    more = f" (+{len(faults) - 1} more)" if len(faults) > 1 else ""
    said = f"line {line}: {faults[0].message}{more}"
    entries = [Entry("again", f"edit again at line {line}", "what you wrote is there", said)]
    if readable:
        entries.append(Entry("take", "take it as it is", "errors stay marked next to their fields", said))
    entries.append(Entry("leave", f"leave {called} as before", "what you wrote is kept in a file", said))
    return Menu(f"{called} not taken yet", entries)
