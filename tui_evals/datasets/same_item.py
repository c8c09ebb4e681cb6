"""Where an item that was asked stands in a dataset that was edited since."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .matrix import item_in_file

Unit = Mapping[str, Any]


def units(item: Unit) -> Sequence[Unit]:
    """The turns of an item, or the item itself."""
    turns = item.get("turns")
    return [turn if isinstance(turn, dict) else {} for turn in turns] if isinstance(turns, list) and turns else [item]


def place_of(items: Sequence[Any], item: Unit, position: int) -> int | None:
    """Where an item that was asked is now: by its testId, else where it was, else where the same is asked."""
    item = item_in_file(item)
    name, questions = item.get("testId"), _question_of(item)
    there = items[position] if position < len(items) else None
    is_there = isinstance(there, dict) and there.get("testId") == name and _question_of(there) == questions
    if is_there:  # as nearly all are, and a dataset may be too long to be looked through for each answer
        return position
    if isinstance(name, str) and name:
        named = [number for number, one in enumerate(items) if isinstance(one, dict) and one.get("testId") == name]
        if len(named) == 1:
            return named[0]
    if position < len(items) and _question_of(there) == questions:
        return position
    alike = [number for number, one in enumerate(items) if _question_of(one) == questions]
    return alike[0] if len(alike) == 1 else None


def _question_of(item: Any) -> Any:
    """What of an item is put to a target."""
    if not isinstance(item, dict):
        return None
    own = [item.get("prompt"), item.get("messages"), item.get("variables"), item.get("user")]
    return own + [[turn.get("prompt"), turn.get("messages"), _files_of(turn)] for turn in units(item)]


def _files_of(unit: Unit) -> list[Any]:
    """The paths of its files; a run keeps more of them."""
    files = unit.get("attachments")
    return [one.get("path") if isinstance(one, dict) else one for one in files] if isinstance(files, list) else []
