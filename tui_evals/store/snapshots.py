"""A stored dataset whose items are parsed when they are looked at, for all at once take several times their text."""

from __future__ import annotations

import json
import re
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, overload

from .rows import with_expectation

Item = Mapping[str, Any]
_parse = json.JSONDecoder().raw_decode
_BETWEEN = re.compile(r"[\s,:]*")


@dataclass(frozen=True, slots=True)
class StoredDataset:
    """What a run asked, with what is expected of its answers in the scoring pass that counts."""

    head: Mapping[str, Any]
    """The document as it was asked; its items are an empty list."""
    items: Sequence[Item]


class Items(Sequence[Item]):
    """The items of a stored document; those of `judging`, if given, say what is expected."""

    def __init__(self, text: str, starts: Sequence[int], judging: Sequence[Item] | None = None) -> None:
        self._text = text
        self._starts = starts
        self._judging = judging

    def __len__(self) -> int:
        return len(self._starts) - 1

    @overload
    def __getitem__(self, place: int) -> Item: ...

    @overload
    def __getitem__(self, place: slice) -> Sequence[Item]: ...

    def __getitem__(self, place: int | slice) -> Item | Sequence[Item]:
        if isinstance(place, slice):
            return [self[number] for number in range(*place.indices(len(self)))]
        place = range(len(self))[place]
        start, end = self._starts[place], self._starts[place + 1]
        item: Item = _parse(_utf8(self._text[start:end]))[0]
        return item if self._judging is None else with_expectation(item, self._judging[place])


def stored_dataset(document: bytes, judging: bytes | None = None) -> StoredDataset:
    """A document as it was asked, judged by the expectations of another that has the same items."""
    head, text, starts = _outline(document)
    judged = None if judging is None else stored_dataset(judging)
    return StoredDataset(head, Items(text, starts, judged.items if judged else None))


def _outline(document: bytes) -> tuple[dict[str, Any], str, Sequence[int]]:
    """The document but for its items, its text, and where each item begins and the last one ends in it."""
    # A character for each byte, for one emoji would make every character of a text four bytes large.
    text = document.decode("latin-1")
    head: dict[str, Any] = {}
    starts = array("Q")
    at = _after(text, text.index("{") + 1)
    while text[at] != "}":
        name, end = _parse(text, at)
        at = _after(text, end)
        if name == "items" and text[at] == "[":
            head["items"] = []
            at = _after(text, at + 1)
            while text[at] != "]":
                starts.append(at)
                at = _after(text, _parse(text, at)[1])
            starts.append(at)
            at = _after(text, at + 1)
        else:
            end = _parse(text, at)[1]
            head[_utf8(name)] = _parse(_utf8(text[at:end]))[0]
            at = _after(text, end)
    return head, text, starts or array("Q", [at])


def _after(text: str, at: int) -> int:
    """Where the next value or bracket stands."""
    found = _BETWEEN.match(text, at)
    return found.end() if found else at


def _utf8(text: str) -> str:
    return text if text.isascii() else text.encode("latin-1").decode()
