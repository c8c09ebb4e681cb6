"""What one step changed of a dataset, so that undo keeps that and not a copy of every item."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from operator import is_
from typing import Any

from .paths import Data


@dataclass(frozen=True, slots=True)
class Splice:
    """Where two lists differ: from `start` on, one has `removed` where the other has `added`."""

    start: int
    removed: Sequence[Any]
    added: Sequence[Any]


def splice(before: Sequence[Any], after: Sequence[Any]) -> Splice:
    """The difference of two lists that share their unchanged elements."""
    shorter = min(len(before), len(after))
    start = _alike(iter(before), iter(after), shorter)
    end = _alike(reversed(before), reversed(after), shorter - start)
    return Splice(start, before[start : len(before) - end], after[start : len(after) - end])


_AT_ONCE = 1024


def _alike(one: Iterator[Any], other: Iterator[Any], most: int) -> int:
    """How many elements two sequences have in common from their beginning; without a step of Python for each."""
    for known in range(0, most, _AT_ONCE):
        first = bytes(map(is_, islice(one, _AT_ONCE), islice(other, _AT_ONCE))).find(0)
        if first >= 0:
            return min(known + first, most)
    return most


@dataclass(frozen=True, slots=True)
class Patch:
    """The way from one state of a dataset to another, and back."""

    before: Data
    """The fields of the dataset, with its items only where they are no list."""
    after: Data
    items: Splice | None

    def forward(self, data: Data) -> Data:
        """The data after the step."""
        found = self.items
        if found is None:
            return self.after
        return {**self.after, "items": _spliced(data["items"], found.start, len(found.removed), found.added)}

    def back(self, data: Data) -> Data:
        """The data before the step."""
        found = self.items
        if found is None:
            return self.before
        return {**self.before, "items": _spliced(data["items"], found.start, len(found.added), found.removed)}


def _spliced(items: list[Any], start: int, count: int, others: Sequence[Any]) -> list[Any]:
    return [*items[:start], *others, *items[start + count :]]


def patch_between(before: Data, after: Data) -> Patch:
    """What leads from one state to the other."""
    old, new = before.get("items"), after.get("items")
    if not (isinstance(old, list) and isinstance(new, list)):
        return Patch(before, after, None)
    return Patch({**before, "items": ()}, {**after, "items": ()}, splice(old, new))
