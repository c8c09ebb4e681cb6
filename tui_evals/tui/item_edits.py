"""Edits of items and turns that several panes make: new, copied, deleted, moved, and the way to the next one."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable

from tui_evals.datasets import steps
from tui_evals.datasets.layout import Path as Place
from tui_evals.datasets.paths import CannotEdit, get_at

from .messages import ItemShown
from .pane import Pane
from .workspace import Workspace

NOT_OPEN = "open a dataset first (1, then enter)"


NO_ITEM = "go to an item first; you are at the dataset itself"


def new_item(workspace: Workspace) -> str:
    """A new item after the one one is in, at the end from the dataset itself."""
    _open(workspace)
    count = len(workspace.items)
    place = count if workspace.item is None else workspace.item + 1
    marks = {mark + (mark >= place) for mark in workspace.marks}
    workspace.apply(steps.insert_item(workspace.data, place, steps.new_item()), "new item")
    _go(workspace, ("items", place), marks)
    return f"new item, {place + 1} of {count + 1}"


def new_turn(workspace: Workspace) -> str:
    """A new turn after the one one is in, at the end from the item; a single prompt becomes a conversation."""
    number = _item(workspace)
    data = workspace.data
    if turns_of(workspace, number) is None:
        data = steps.to_conversation(data, number)
    count = len(get_at(data, ("items", number, "turns")))
    turn = turn_of(workspace.where)
    place = count if turn is None else turn + 1
    workspace.apply(steps.insert_turn(data, number, place, steps.new_item()), "new turn")
    _go(workspace, ("items", number, "turns", place))
    return f"new turn, {place + 1} of {count + 1}"


def duplicate(workspace: Workspace, items: Iterable[int] = ()) -> str:
    """A copy of these items, else of the turn or item one is in; one goes to the first copy."""
    chosen = sorted(items)
    number, turn = _item(workspace, chosen), turn_of(workspace.where)
    if turn is not None and not chosen:
        workspace.apply(steps.duplicate_turn(workspace.data, number, turn), "copy of a turn")
        _go(workspace, ("items", number, "turns", turn + 1))
        return f"copied turn {turn + 1}"
    chosen = chosen or [number]
    message = _items_name(workspace, chosen)
    marks = {mark + bisect_left(chosen, mark) for mark in workspace.marks}
    workspace.apply(steps.duplicate_items(workspace.data, chosen, workspace.test_ids), f"copy of {message}")
    _go(workspace, ("items", chosen[0] + 1), marks)
    return f"copied {message}"


def conversation(workspace: Workspace) -> str:
    """A single prompt becomes a conversation of one turn, and back."""
    number = _item(workspace)
    if turns_of(workspace, number) is None:
        workspace.apply(steps.to_conversation(workspace.data, number), "make a conversation")
        _go(workspace, ("items", number, "turns", 0))
        return f"{workspace.name_of(number)} is a conversation now; t adds a turn"
    workspace.apply(steps.to_single(workspace.data, number), "make a single prompt")
    _go(workspace, ("items", number))
    return f"{workspace.name_of(number)} is a single prompt now"


def remove(workspace: Workspace, items: Iterable[int] = ()) -> str:
    """Delete these items, else the turn or item one is in; one stays near."""
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
    _go(workspace, where, marks)
    return f"deleted {message}; u brings {'them' if len(chosen) > 1 else 'it'} back"


def move(workspace: Workspace, way: int, items: Iterable[int] = ()) -> str:
    """Move these items, else the turn or item one is in; one goes along."""
    chosen = sorted(items)
    number, turn = _item(workspace, chosen), turn_of(workspace.where)
    message = "down" if way > 0 else "up"
    if turn is not None and not chosen:
        count = len(turns_of(workspace, number) or ())
        there = min(max(turn + way, 0), count - 1)
        workspace.apply(steps.move_turn(workspace.data, number, turn, way), f"move a turn {message}")
        _go(workspace, ("items", number, "turns", there))
        return f"turn {there + 1} of {count}"
    chosen = chosen or [number]
    count = len(workspace.items)
    by = min(max(way, -chosen[0]), count - 1 - chosen[-1])
    called, where = _items_name(workspace, chosen), workspace.where
    moved = _moved(chosen, by, count)
    workspace.apply(steps.move_items(workspace.data, chosen, by), f"move {called} {message}")
    if where:
        where = ("items", moved.get(number, number), *where[2:])
    _go(workspace, where, {moved.get(mark, mark) for mark in workspace.marks})
    return f"moved {called} {message}" if by else f"{called} cannot go further {message}"


def neighbour_unit(workspace: Workspace, way: int) -> Place | None:
    """The item or turn after or before where one is, in the order of the file; before the first comes the dataset."""
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


def _last_of(workspace: Workspace, number: int) -> Place:
    count = len(turns_of(workspace, number) or ())
    return ("items", number, "turns", count - 1) if count else ("items", number)


def turn_of(where: Place) -> int | None:
    """The position of the turn at a place; None when the place is no turn."""
    return where[3] if len(where) > 3 and isinstance(where[3], int) else None


def turns_of(workspace: Workspace, number: int) -> list[object] | None:
    """The turns of an item; None when it is a single prompt."""
    turns = get_at(workspace.data, ("items", number, "turns"))
    return turns if isinstance(turns, list) else None


def _moved(chosen: list[int], by: int, count: int) -> dict[int, int]:
    """Place each position went: the chosen by a distance, the others around them in their order."""
    there = {one + by for one in chosen}
    free = iter([place for place in range(count) if place not in there])
    gone = frozenset(chosen)
    return {place: place + by if place in gone else next(free) for place in range(count)}


def _open(workspace: Workspace) -> None:
    if workspace.editing is None:
        raise CannotEdit(NOT_OPEN)


def _item(workspace: Workspace, chosen: list[int] | None = None) -> int:
    """The item one is in; the first of those chosen will do where one is in none."""
    _open(workspace)
    number = workspace.item
    if number is None and chosen:
        return chosen[0]
    if number is None:
        raise CannotEdit(NO_ITEM)
    return number


def _go(workspace: Workspace, where: Place, marks: Iterable[int] | None = None) -> None:
    workspace.go(where, None if marks is None else frozenset(marks))


def _items_name(workspace: Workspace, chosen: list[int]) -> str:
    return f"{len(chosen)} items" if len(chosen) > 1 else f"item {workspace.name_of(chosen[0])}"


def go_to(pane: Pane, where: Place) -> None:
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
