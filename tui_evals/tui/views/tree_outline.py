"""Which rows the dataset tree has, by their keys: a unit's key is its path, so that a cursor says where one is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

Key = tuple[str | int, ...]
Texts = dict[int, tuple[object, str]]
"""What a filter looks at, by the identity of the item, which is kept beside it so that no other can take its number."""

DATASET: Key = ()


def outline(
    items: Sequence[Any],
    shown: Sequence[int],
    folded: frozenset[int] = frozenset(),
    groups: Mapping[str, Sequence[int]] | None = None,
    shut: frozenset[str] = frozenset(),
) -> list[Key]:
    """The keys of items and turns from top to bottom; with `groups`, a header before each of them."""
    if groups is None:
        return _units(items, shown, folded)
    keys: list[Key] = []
    for name, members in groups.items():
        keys.append(("category", name))
        if name not in shut:
            keys += _units(items, members, folded)
    return keys


def _units(items: Sequence[Any], numbers: Iterable[int], folded: frozenset[int]) -> list[Key]:
    keys: list[Key] = []
    for number in numbers:
        keys.append(("items", number))
        count = turn_count(items[number])
        if count and number not in folded:
            keys += [("items", number, "turns", turn) for turn in range(count)]
    return keys


def grouped(items: Sequence[Any], shown: Iterable[int]) -> dict[str, list[int]]:
    """The items of each category in the order in which categories first appear, those of none last."""
    found: dict[str, list[int]] = {}
    for number in shown:
        found.setdefault(category_of(items[number]), []).append(number)
    rest = found.pop("", None)
    return found if rest is None else {**found, "": rest}


def remapped(numbers: frozenset[int], before: Sequence[Any], after: Sequence[Any]) -> frozenset[int]:
    """Where items went that are still there; one that was changed stays at its position."""
    if not numbers or before is after:
        return numbers
    there = {id(item): number for number, item in enumerate(after)}
    moved = (there.get(id(before[number]), number) for number in numbers if number < len(before))
    return frozenset(number for number in moved if number < len(after))


def above(key: Key, items: Sequence[Any], is_grouped: bool) -> Key:
    """The row to go to from a row: from a turn its item, from an item its category, else the dataset."""
    if len(key) > 2:
        return key[:2]
    if is_grouped and len(key) == 2 and key[0] == "items" and isinstance(key[1], int) and key[1] < len(items):
        return ("category", category_of(items[key[1]]))
    return DATASET


def matching(items: Sequence[Any], text: str, known: Texts) -> list[int]:
    """The items in which every word of a text stands; what is looked at is put into `known`, for the next letter."""
    words = text.casefold().split()
    if not words:
        return list(range(len(items)))
    if len(known) > 2 * len(items) + 1000:
        known.clear()
    found = []
    for number, item in enumerate(items):
        entry = known.get(id(item))
        if entry is None:
            entry = known[id(item)] = (item, searched(item))
        told = entry[1]
        hay = f"#{number + 1}{told}" if told.startswith("\n") else told
        if all(word in hay for word in words):
            found.append(number)
    return found


def searched(item: object) -> str:
    """What a filter looks at, in lower case; without a testId it begins with a new line."""
    if not isinstance(item, dict):
        return "\n"
    tags, turns = item.get("tags"), item.get("turns")
    parts = [*(item.get(name) for name in ("testId", "name", "category", "prompt"))]
    parts += tags if isinstance(tags, list) else []
    parts += [turn.get("prompt") for turn in turns if isinstance(turn, dict)] if isinstance(turns, list) else []
    return "\n".join(part if isinstance(part, str) else "" for part in parts).casefold()


def turn_count(item: object) -> int:
    """How many turns an item has; 0 for a single prompt."""
    turns = item.get("turns") if isinstance(item, dict) else None
    return len(turns) if isinstance(turns, list) else 0


def category_of(item: object) -> str:
    """The category of an item, empty where it has none."""
    found = item.get("category") if isinstance(item, dict) else None
    return found if isinstance(found, str) else ""


def name_of(item: object, number: int) -> str:
    """How an item is called: its testId, else its position from 1."""
    found = item.get("testId") if isinstance(item, dict) else None
    return found if isinstance(found, str) and found else f"#{number + 1}"
