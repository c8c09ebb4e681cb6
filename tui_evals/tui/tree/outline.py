"""Which rows the dataset tree has, by their keys: a unit's key is its path, so that a cursor says where one is."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Generic, TypeVar

from tui_evals.runs.item_filter import ItemFilter, SearchedItem, searched_item
from tui_evals.store.records import AnswerStatus
from tui_evals.tui.latest_statuses import item_key

Key = tuple[str | int, ...]

DATASET: Key = ()


def row_keys(
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


def items_by_category(items: Sequence[Any], shown: Iterable[int]) -> dict[str, list[int]]:
    """The items of each category in the order in which categories first appear, those of none last."""
    groups: dict[str, list[int]] = {}
    for number in shown:
        groups.setdefault(category_of(items[number]), []).append(number)
    rest = groups.pop("", None)
    return groups if rest is None else {**groups, "": rest}


def follow_items(numbers: frozenset[int], before: Sequence[Any], after: Sequence[Any]) -> frozenset[int]:
    """Where items went that are still there; one that was changed stays at its position."""
    if not numbers or before is after:
        return numbers
    there = {id(item): number for number, item in enumerate(after)}
    moved = (there.get(id(before[number]), number) for number in numbers if number < len(before))
    return frozenset(number for number in moved if number < len(after))


def parent_row(key: Key, items: Sequence[Any], is_grouped: bool) -> Key:
    """The row to go to from a row: from a turn its item, from an item its category, else the dataset."""
    if len(key) > 2:
        return key[:2]
    if is_grouped and len(key) == 2 and key[0] == "items" and isinstance(key[1], int) and key[1] < len(items):
        return ("category", category_of(items[key[1]]))
    return DATASET


Made = TypeVar("Made")


class PerItem(Generic[Made]):
    """What is worked out of an item once, kept beside the item so that no other can take its identity."""

    def __init__(self, make: Callable[[object], Made]) -> None:
        self._make = make
        self._known: dict[int, tuple[object, Made]] = {}

    def of_all(self, items: Sequence[object]) -> list[Made]:
        """What it is for each of them; what is known of items that are gone is forgotten in time."""
        if len(self._known) > 2 * len(items) + 1000:
            self._known = {}
        return [self(item) for item in items]

    def __call__(self, item: object) -> Made:
        """What it is for an item."""
        known = self._known.get(id(item))
        if known is None:
            known = self._known[id(item)] = (item, self._make(item))
        return known[1]


def turn_count(item: object) -> int:
    """How many turns an item has; 0 for a single prompt."""
    turns = item.get("turns") if isinstance(item, dict) else None
    return len(turns) if isinstance(turns, list) else 0


def category_of(item: object) -> str:
    """The category of an item, empty where it has none."""
    category = item.get("category") if isinstance(item, dict) else None
    return category if isinstance(category, str) else ""


def name_of(item: object, number: int) -> str:
    """How an item is called: its testId, else its position from 1."""
    name = item.get("testId") if isinstance(item, dict) else None
    return name if isinstance(name, str) and name else f"#{number + 1}"


@dataclass(slots=True)
class TreeShape:
    """What the pane itself knows; `shown`, `groups` and `keys` follow from it when it is laid over the items."""

    by_category: bool = False
    folded: frozenset[int] = frozenset()
    shut: frozenset[str] = frozenset()
    words: str = ""
    statuses: Mapping[Hashable, AnswerStatus] = field(default_factory=dict)
    """How the items did last, by their keys."""
    searched: PerItem[SearchedItem] = field(default_factory=lambda: PerItem(searched_item))
    item_keys: PerItem[Hashable] = field(default_factory=lambda: PerItem(item_key))
    items: Sequence[Any] = ()
    shown: Sequence[int] = ()
    """The items that the filter lets through."""
    wanted: ItemFilter = field(default_factory=lambda: ItemFilter(""))
    looked_through: Sequence[Any] | None = None
    """The items of which these were found."""
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
        self.folded = follow_items(self.folded, self.items, items)
        self.items = items

    def filter(self, words: str) -> None:
        """Show only the items that fit; FilterError says why that cannot be."""
        self.wanted, self.words = ItemFilter(words), words
        self._look_through()

    def _look_through(self) -> None:
        keys = self.item_keys.of_all(self.items) if self.wanted.asks_status else ()
        searched = self.searched.of_all(self.items)
        self.shown = self.wanted.numbers(searched, lambda number: self.statuses.get(keys[number]))
        self.looked_through = self.items

    def hides(self, item: int | None) -> bool:
        """Whether the filter lets an item not through."""
        if not self.filtered or item is None:
            return False
        place = bisect_left(self.shown, item)
        return place >= len(self.shown) or self.shown[place] != item

    def lay(self, items: Sequence[Any], keep: int | None) -> None:
        """Find the rows for items as they are now; the item to keep is shown whatever the filter says."""
        self.items = items
        if self.looked_through is not items or self.wanted.asks_status:
            self._look_through()
        shown = list(self.shown)
        if keep is not None and keep < len(items) and self.hides(keep):
            insort(shown, keep)
        groups = items_by_category(items, shown) if self.by_category else {}
        self.groups = groups if any(groups) else None
        self.keys = row_keys(items, shown, self.folded, self.groups, self.shut)

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
