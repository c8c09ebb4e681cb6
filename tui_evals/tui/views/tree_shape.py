"""The shape of the dataset tree: what is folded, grouped and filtered, and which row stands for a place."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from .tree_outline import DATASET, Key, Texts, category_of, grouped, matching, outline, remapped, turn_count


@dataclass(slots=True)
class Shape:
    """What the pane itself knows; `shown`, `groups` and `keys` follow from it when it is laid over the items."""

    by_category: bool = False
    folded: frozenset[int] = frozenset()
    shut: frozenset[str] = frozenset()
    words: str = ""
    texts: Texts = field(default_factory=dict)
    items: Sequence[Any] = ()
    shown: Sequence[int] = ()
    """The items that the filter lets through."""
    groups: Mapping[str, Sequence[int]] | None = None
    keys: Sequence[Key] = ()

    @property
    def filtered(self) -> bool:
        """Whether there is a filter."""
        return bool(self.words.strip())

    def mark(self) -> tuple[object, ...]:
        """What tells one shape from another."""
        return (self.by_category, self.folded, self.shut, self.words)

    def follow(self, items: Sequence[Any]) -> None:
        """Let what is folded go along with items that an edit moved."""
        self.folded = remapped(self.folded, self.items, items)
        self.items = items

    def filter(self, words: str) -> None:
        """Show only the items with these words."""
        self.words = words
        self.shown = matching(self.items, words, self.texts)

    def hides(self, item: int | None) -> bool:
        """Whether the filter lets an item not through."""
        if not self.filtered or item is None:
            return False
        place = bisect_left(self.shown, item)
        return place >= len(self.shown) or self.shown[place] != item

    def lay(self, items: Sequence[Any], keep: int | None) -> None:
        """Find the rows for items as they are now; the item to keep is shown whatever the filter says."""
        self.items = items
        self.filter(self.words)
        shown = list(self.shown)
        if keep is not None and keep < len(items) and self.hides(keep):
            insort(shown, keep)
        groups = grouped(items, shown) if self.by_category else {}
        self.groups = groups if any(groups) else None
        self.keys = outline(items, shown, self.folded, self.groups, self.shut)

    def row_for(self, where: Key) -> Key:
        """The row that stands for a place: its own, or the one it is folded into."""
        number = where[1] if len(where) > 1 else None
        if not isinstance(number, int) or number >= len(self.items):
            return DATASET
        category = category_of(self.items[number])
        if self.groups is not None and category in self.shut:
            return ("category", category)
        return where[:2] if number in self.folded or len(where) < 4 else where[:4]

    def after(self, key: Key) -> Key:
        """The row below an item and its turns; the row itself where there is none."""
        start = self.keys.index(key) + 1 if key in self.keys else 0
        return next((other for other in islice(self.keys, start, None) if len(other) < 4), key)

    def members(self, key: Key) -> list[int]:
        """The items of a category header, none for other rows."""
        name = key[1] if len(key) == 2 and key[0] == "category" else None
        return list((self.groups or {}).get(name, ())) if isinstance(name, str) else []

    def fold(self, key: Key) -> bool:
        """Hide what is below a row, below the dataset all turns; False when nothing was to be hidden."""
        before = self.mark()
        if key == DATASET:
            self.folded = frozenset(number for number, item in enumerate(self.items) if turn_count(item))
            self.shut = frozenset(self.groups or ())
        elif isinstance(name := key[1], str):
            self.shut |= {name}
        elif len(key) == 2 and turn_count(self.items[name]):
            self.folded |= {name}
        return self.mark() != before

    def unfold(self, key: Key) -> bool:
        """Show what is below a row; False when nothing was hidden."""
        before = self.mark()
        if key == DATASET:
            self.folded, self.shut = frozenset(), frozenset()
        elif isinstance(name := key[1], str):
            self.shut -= {name}
        else:
            self.folded -= {name}
        return self.mark() != before
