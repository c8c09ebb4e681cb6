"""The dataset tree as rows: its shape with folds and filter, and the page of a project without a dataset."""

from __future__ import annotations

import json
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from itertools import accumulate
from pathlib import Path
from typing import Any, Generic, TypeVar

from tui_evals.datasets.merging import splice
from tui_evals.datasets.paths import Problem
from tui_evals.light_records import LazySequence, dataclass
from tui_evals.present.columns import AS_THEY_ARE, Names, names_of
from tui_evals.runs.selection import ItemFilter, SearchedItem, searched_item
from tui_evals.store.records import AnswerStatus
from tui_evals.tui.latest_statuses import item_key
from tui_evals.tui.rows import Piece, Row, Step, Style, fit, paragraph, row, status_piece, step_rows

Key = tuple[str | int, ...]

DATASET: Key = ()


class RowKeys(LazySequence[Key]):
    """The keys of the rows from top to bottom, made on demand, so that an edit does not make thousands."""

    def __init__(self, entries: Sequence[int | str], turns: Sequence[int] | None) -> None:
        self._entries = entries
        """The items by number and the headers of categories by name."""
        self.has_turns = turns is not None
        self._ends = [] if turns is None else list(accumulate(1 + turns[one] for one in _as_numbers(entries, turns)))

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else len(self._entries)

    def row_at(self, number: int) -> Key:
        if not self._ends:
            return _entry_key(self._entries[number])
        place = bisect_right(self._ends, number)
        turn = number - self._start(place) - 1
        key = _entry_key(self._entries[place])
        return key if turn < 0 else (*key, "turns", turn)

    def _start(self, place: int) -> int:
        return place if not self._ends else self._ends[place - 1] if place else 0

    def row_of(self, key: Hashable) -> int | None:
        """The number of the row with a key; None where there is none."""
        if not isinstance(key, tuple) or len(key) not in (2, 4) or key[0] not in ("items", "category"):
            return None
        try:
            place = self._entries.index(key[1])
        except ValueError:
            return None
        row = self._start(place) + (key[3] + 1 if len(key) == 4 else 0)
        return row if row < len(self) and self[row] == key else None


def _entry_key(entry: int | str) -> Key:
    return ("category" if isinstance(entry, str) else "items", entry)


def _as_numbers(entries: Sequence[int | str], turns: Sequence[int]) -> Iterator[int]:
    """The items of entries; a header counts as the item behind all others, which has no turns."""
    return (len(turns) - 1 if isinstance(entry, str) else entry for entry in entries)


def row_keys(
    turns: Sequence[int],
    shown: Sequence[int],
    folded: Collection[int] = (),
    groups: Mapping[str, Sequence[int]] | None = None,
    shut: Collection[str] = (),
) -> RowKeys:
    """The keys of items and their `turns` from top to bottom; with `groups`, a header before each of them."""
    entries: list[int | str] = []
    for name, members in (groups or {}).items():
        entries.append(name)
        entries += () if name in shut else members
    if not any(turns):
        return RowKeys(shown if groups is None else entries, None)
    below = [*turns, 0]
    for number in folded:
        below[number] = 0
    return RowKeys(shown if groups is None else entries, below)


@dataclass(slots=True)
class ItemMeasures:
    """The number of turns of each item and the form of its name, updated after each edit."""

    items: Sequence[Any] = ()
    turns: list[int] = field(default_factory=list)
    test_ids: list[str] = field(default_factory=list)
    names: Names = AS_THEY_ARE

    def follow(self, items: Sequence[Any]) -> None:
        """Measure the items that are new."""
        found = splice(self.items, items)
        stop = found.start + len(found.removed)
        self.turns[found.start : stop] = map(turn_count, found.added)
        named = [_test_id(item) for item in found.added]
        if named != self.test_ids[found.start : stop]:
            self.test_ids[found.start : stop] = named
            self.names = names_of(filter(None, self.test_ids))
        self.items = items


def _test_id(item: object) -> str:
    name = item.get("testId") if isinstance(item, dict) else None
    return name if isinstance(name, str) else ""


def items_by_category(items: Sequence[Any], shown: Iterable[int]) -> dict[str, list[int]]:
    """The items of each category in the order in which categories first appear, those of none last."""
    groups: dict[str, list[int]] = {}
    for number in shown:
        groups.setdefault(category_of(items[number]), []).append(number)
    rest = groups.pop("", None)
    return groups if rest is None else {**groups, "": rest}


def follow_items(numbers: frozenset[int], before: Sequence[Any], after: Sequence[Any]) -> frozenset[int]:
    """The new positions of items that still exist; a changed item keeps its position."""
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
    """A cache of a value per item; holding the item keeps another from getting its identity."""

    def __init__(self, make: Callable[[object], Made]) -> None:
        self._make = make
        self._known: dict[int, tuple[object, Made]] = {}

    def of_all(self, items: Sequence[object]) -> list[Made]:
        """The value for each item; values of removed items are dropped in time."""
        if len(self._known) > 2 * len(items) + 1000:
            self._known = {}
        return [self(item) for item in items]

    def __call__(self, item: object) -> Made:
        """The value for an item."""
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
    return _test_id(item) or f"#{number + 1}"


@dataclass(slots=True)
class TreeShape:
    """The pane's own state; `shown`, `groups` and `keys` are derived from it and the items."""

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
    """The items that match the filter."""
    wanted: ItemFilter = field(default_factory=lambda: ItemFilter(""))
    looked_through: Sequence[Any] | None = None
    """The items that were searched."""
    groups: Mapping[str, Sequence[int]] | None = None
    keys: RowKeys = field(default_factory=lambda: RowKeys((), None))
    measures: ItemMeasures = field(default_factory=ItemMeasures)

    @property
    def names(self) -> Names:
        """How items are called here: by their testId, or by their number."""
        names = self.measures.names
        return replace(names, wanted=max(len(str(len(self.items))) + 1, names.wanted))

    @property
    def filtered(self) -> bool:
        """Whether there is a filter."""
        return bool(self.words.strip())

    def mark(self) -> tuple[object, ...]:
        """Differs between different shapes."""
        return (self.by_category, self.folded, self.shut, self.words)

    def follow(self, items: Sequence[Any]) -> None:
        """Keep folds on their items when an edit moves them."""
        self.folded = follow_items(self.folded, self.items, items)
        self.items = items

    def filter(self, words: str) -> None:
        """Show only the items that fit; FilterError says why that cannot be."""
        self.wanted, self.words = ItemFilter(words), words
        self._look_through()

    def _look_through(self) -> None:
        if not self.filtered:
            self.shown, self.looked_through = range(len(self.items)), self.items
            return
        keys = self.item_keys.of_all(self.items) if self.wanted.asks_status else ()
        searched = self.searched.of_all(self.items)
        self.shown = self.wanted.numbers(searched, lambda number: self.statuses.get(keys[number]))
        self.looked_through = self.items

    def hides(self, item: int | None) -> bool:
        """Whether the filter hides an item."""
        if not self.filtered or item is None:
            return False
        place = bisect_left(self.shown, item)
        return place >= len(self.shown) or self.shown[place] != item

    def lay(self, items: Sequence[Any], keep: int | None) -> None:
        """Lay out the rows of the current items; the item `keep` is shown even if the filter hides it."""
        self.items = items
        self.measures.follow(items)
        if self.looked_through is not items or self.wanted.asks_status:
            self._look_through()
        shown = self.shown
        if keep is not None and keep < len(items) and self.hides(keep):
            shown = sorted([*shown, keep])
        groups = items_by_category(items, shown) if self.by_category else {}
        self.groups = groups if any(groups) else None
        self.keys = row_keys(self.measures.turns, shown, self.folded, self.groups, self.shut)

    def row_for(self, where: Key) -> Key:
        """The row of a place: its own, or the one it is folded into."""
        number = where[1] if len(where) > 1 else None
        if not isinstance(number, int) or number >= len(self.items):
            return DATASET
        category = category_of(self.items[number])
        if self.groups is not None and category in self.shut:
            return ("category", category)
        return where[:2] if number in self.folded or len(where) < 4 else where[:4]

    def after(self, key: Key) -> Key:
        """The row below an item and its turns; the row itself where there is none."""
        row = self.keys.row_of(key)
        below = range(0 if row is None else row + 1, len(self.keys))
        return next((other for number in below if len(other := self.keys[number]) < 4), key)

    def members(self, key: Key) -> list[int]:
        """The items of a category header, none for other rows."""
        name = key[1] if len(key) == 2 and key[0] == "category" else None
        return list((self.groups or {}).get(name, ())) if isinstance(name, str) else []

    def fold(self, key: Key) -> bool:
        """Hide the rows below a row, or all turns for the dataset; False if nothing changed."""
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
        """Show the rows below a row; False if nothing changed."""
        before = self.mark()
        if key == DATASET:
            self.folded, self.shut = frozenset(), frozenset()
        elif isinstance(name := key[1], str):
            self.shut -= {name}
        else:
            self.folded -= {name}
        return self.mark() != before


_WELCOME = "Welcome. There is no dataset in this folder yet."
_SAMPLE = Step("everywhere", "sample", "", "try the sample project: no key, no network, no cost")
_BEGIN = (
    Step("everywhere", "new_dataset", "ctrl+n", "write a dataset"),
    Step("everywhere", "import", "O", "import tests from promptfoo, Prompt Foundry or another tool"),
    Step("everywhere", "generate", "8", "generate tests from a prompt file"),
    Step("everywhere", "playground", "P", "talk to a model and keep the conversation as an item"),
    Step("everywhere", "help", "?", "read the keys"),
)


def first_page(others: Sequence[OtherDataset], width: int) -> list[Row]:
    """The first page: datasets to open and other ways to start, one per row."""
    if others:
        head = [row(("No dataset is open.", "strong")), row(), *dataset_rows(others, width)]
    else:
        head = [*paragraph(_WELCOME, width, "strong")]
    steps = _BEGIN if others else (_SAMPLE, *_BEGIN)
    hint = paragraph("↑ ↓ choose, enter does it.", width, "dim")
    return [*head, row(), *step_rows(steps, width), row(), *hint]


Counts = Mapping[Key, int]
_STATUS = 10
_BEGINNING = 28  # minimum width to recognize an item's prompt
_BESIDE_NAME = 18  # of these, the columns left after a long name
_PREVIEW = 400
NO_CATEGORY = "no category"


@dataclass(frozen=True, slots=True)
class OtherDataset:
    """Another dataset of the project."""

    file: Path
    name: str
    unsaved: bool


@dataclass(frozen=True, slots=True)
class Tree:
    """The inputs of the rows; `marks`, `statuses` and `problems` may change while the rows are shown."""

    title: str
    unsaved: bool
    items: Sequence[Any]
    keys: RowKeys
    names: Names
    changed: Collection[int] = frozenset()
    problems: Counts = field(default_factory=dict)
    marks: Collection[int] = frozenset()
    statuses: Mapping[Hashable, AnswerStatus] = field(default_factory=dict)
    folded: Collection[int] = frozenset()
    shut: Collection[str] = frozenset()
    groups: Mapping[str, Sequence[int]] | None = None
    filtered: int | None = None
    """The number of items that match the filter; None without one."""
    others: Sequence[OtherDataset] = ()


class TreeRows(LazySequence[Row]):
    """The rows of a tree at a width."""

    def __init__(self, tree: Tree, width: int) -> None:
        self.tree = tree
        self._width = width
        self._status = _STATUS if tree.statuses else 0
        self._named = min(tree.names.wanted, max(width - _BESIDE_NAME - self._status, width // 3))
        self._tail = _tail(tree, width)
        self._fold = 2 if tree.groups is not None or tree.folded or tree.keys.has_turns else 0

    def __len__(self) -> int:
        return 1 + len(self.tree.keys) + len(self._tail)

    def row_at(self, number: int) -> Row:
        if number == 0:
            return _dataset(self.tree, self._width)
        if number <= len(self.tree.keys):
            return self._row(self.tree.keys[number - 1])
        return self._tail[number - 1 - len(self.tree.keys)]

    def key_at(self, number: int) -> Hashable:
        """The key of a row that need not be made for it."""
        return self.tree.keys[number - 1] if 0 < number <= len(self.tree.keys) else self[number].key

    def find(self, key: Hashable) -> int | None:
        """The row with a key."""
        if key == DATASET:
            return 0
        if (number := self.tree.keys.row_of(key)) is not None:
            return 1 + number
        start = 1 + len(self.tree.keys)
        return next((start + number for number, one in enumerate(self._tail) if one.key == key), None)

    def _row(self, key: Key) -> Row:
        number = key[1]
        if isinstance(number, str):
            return self._category(key, number)
        if len(key) > 2:
            return self._turn(key, number)
        tree, item = self.tree, self.tree.items[number]
        many, name = turn_count(item), name_of(item, number)
        head = (
            _mark(number in tree.marks),
            Piece("•" if number in tree.changed else " ", "warn"),
            fit(("▸" if number in tree.folded else "▾") if many else "", self._fold, "dim"),
            Piece(tree.names.fit(name, self._named)),
            Piece(" "),
        )
        status = tree.statuses.get(item_key(item)) if self._status else None
        end = Piece(" " * self._status) if status is None else status_piece(status, self._status)
        return self._line(key, head, self._named + self._fold + 3, item, end)

    def _line(self, key: Key, head: tuple[Piece, ...], used: int, unit: object, end: Piece) -> Row:
        """A row: its head, as much of the prompt as fits, problems and status."""
        count = self.tree.problems.get(key, 0)
        wrong = Piece(f" !{count}" if count else "", "error")
        text, style = preview(unit, whole=len(key) > 2 or key[1] in self.tree.folded)
        room = self._width - used - len(wrong.text) - len(end.text) - bool(end.text)
        return Row((*head, fit(text, room, style), wrong, Piece(" " if end.text else ""), end), key)

    def _turn(self, key: Key, number: int) -> Row:
        turn = key[3]
        assert isinstance(turn, int)
        head = (Piece(" " * 4), fit(str(turn + 1), 2, "dim", right=True), Piece(" "))
        return self._line(key, head, 7, self.tree.items[number]["turns"][turn], Piece(""))

    def _category(self, key: Key, name: str) -> Row:
        members = (self.tree.groups or {}).get(name, ())
        marked = bool(members) and all(number in self.tree.marks for number in members)
        count = f" {len(members)}"
        room = self._width - 4 - len(count)
        return row(
            _mark(marked),
            (" ", ""),
            ("▸ " if name in self.tree.shut else "▾ ", "dim"),
            Piece(_cut_to(name or NO_CATEGORY, room), "title" if name else "dim"),
            (count, "dim"),
            key=key,
        )


def problem_counts(problems: Iterable[Problem]) -> Counts:
    """How many errors validation found in the dataset, in each item and in each turn, each counting further up too."""
    counts: Counter[Key] = Counter()
    for problem in problems:
        path = problem.path
        if problem.severity != "error":
            continue
        counts[DATASET] += 1
        if len(path) > 1 and path[0] == "items":
            counts[path[:2]] += 1
            if len(path) > 3 and path[2] == "turns":
                counts[path[:4]] += 1
    return counts


def preview(unit: object, whole: bool = True) -> tuple[str, Style]:
    """The start of an item's or turn's prompt on one line, with its style; omitted if its turns follow."""
    if not isinstance(unit, dict):
        return "no object; fix it in the file", "error"
    if isinstance(turns := unit.get("turns"), list):
        first = preview(turns[0])[0] if whole and turns else _name_or_description(unit)
        return " · ".join(filter(None, (f"{len(turns)} turn{'s' * (len(turns) != 1)}", first))), "dim"
    user = unit.get("user")
    if isinstance(user, dict) and isinstance(goal := user.get("goal"), str):
        return f"a user: {' '.join(goal[:_PREVIEW].split())}", "dim"
    for name in ("prompt", "name", "description"):
        if isinstance(text := unit.get(name), str) and text.strip():
            return " ".join(text[:_PREVIEW].split()), "" if name == "prompt" else "dim"
    if isinstance(values := unit.get("variables"), dict) and values:
        return ", ".join(f"{name}: {_short_value(value)}" for name, value in list(values.items())[:8]), "dim"
    return "no prompt yet", "dim"


def _name_or_description(unit: Mapping[str, Any]) -> str:
    names = (unit.get(name) for name in ("name", "description"))
    return next((" ".join(name[:_PREVIEW].split()) for name in names if isinstance(name, str) and name.strip()), "")


def _dataset(tree: Tree, width: int) -> Row:
    total = len(tree.items)
    some = f"{tree.filtered:,} of " if tree.filtered is not None else ""
    message = f" {some}{total:,} item{'s' * (total != 1)}"
    wrong = tree.problems.get(DATASET, 0)
    end = Piece(f" !{wrong}" if wrong else "", "error")
    room = width - 2 - len(message) - len(end.text)
    name = Piece(_cut_to(tree.title, room), "title")
    return Row((Piece(" "), Piece("•" if tree.unsaved else " ", "warn"), name, Piece(message, "dim"), end), DATASET)


def _tail(tree: Tree, width: int) -> list[Row]:
    rows: list[Row] = []
    if tree.filtered == 0:
        rows.append(row(("  nothing fits; esc takes the filter off", "dim")))
    elif not tree.items:
        rows.append(row(("  no items yet: ", "dim"), ("n", "key"), (" makes one", "dim")))
    return [*rows, *([row(), *dataset_rows(tree.others, width)] if tree.others else [])]


def dataset_rows(others: Iterable[OtherDataset], width: int) -> list[Row]:
    """The other datasets, to be opened."""
    return [
        row(" ", ("•" if one.unsaved else " ", "warn"), fit(one.name, width - 2, "dim"), key=("open", str(one.file)))
        for one in others
    ]


def columns_for(name_width: int) -> int:
    """How wide a tree of names so long would be: a frame, marks, the names, a beginning, a status."""
    return 3 + 6 + name_width + _BEGINNING + 1 + _STATUS


def _mark(marked: bool) -> Piece:
    return Piece("▪" if marked else " ", "mark")


def _cut_to(text: str, room: int) -> str:
    return fit(text, room).text.rstrip()


def _short_value(value: object) -> str:
    return value[:60] if isinstance(value, str) else json.dumps(value)[:60]
