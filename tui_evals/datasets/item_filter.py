"""The filter of a list of items: those in which every word stands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

Texts = dict[int, tuple[object, str]]
"""What a filter looks at, by the identity of the item, which is kept beside it so that no other can take its number."""


def items_with_words(items: Sequence[Any], text: str, known: Texts) -> list[int]:
    """The items in which every word of a text stands; what is looked at is put into `known`, for the next letter."""
    words = text.casefold().split()
    if not words:
        return list(range(len(items)))
    if len(known) > 2 * len(items) + 1000:
        known.clear()
    numbers = []
    for number, item in enumerate(items):
        entry = known.get(id(item))
        if entry is None:
            entry = known[id(item)] = (item, searched_text(item))
        text_of_item = entry[1]
        hay = f"#{number + 1}{text_of_item}" if text_of_item.startswith("\n") else text_of_item
        if all(word in hay for word in words):
            numbers.append(number)
    return numbers


def searched_text(item: object) -> str:
    """What a filter looks at, in lower case; without a testId it begins with a new line."""
    if not isinstance(item, dict):
        return "\n"
    tags, turns = item.get("tags"), item.get("turns")
    parts = [*(item.get(name) for name in ("testId", "name", "category", "prompt"))]
    parts += tags if isinstance(tags, list) else []
    parts += [turn.get("prompt") for turn in turns if isinstance(turn, dict)] if isinstance(turns, list) else []
    return "\n".join(part if isinstance(part, str) else "" for part in parts).casefold()
