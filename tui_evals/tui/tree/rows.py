"""The dataset tree as rows, and the page of a project in which no dataset is open."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, overload

from tui_evals.datasets.problems import Problem
from tui_evals.present.columns import Names
from tui_evals.store.records import AnswerStatus
from tui_evals.tui.latest_statuses import item_key
from tui_evals.tui.rows import Piece, Row, Style, fit, row, status_piece, wrapped

from .outline import DATASET, Key, RowKeys, name_of, turn_count

_KEY = 8
_WELCOME = "Welcome. There is no dataset in this folder yet."
_PURPOSE = "Write a dataset, say how answers are judged, run it, and see what failed and why."
_ELSEWHERE = "O imports the tests you have in promptfoo, Prompt Foundry or another tool."
_LATER = "Nothing to ask a model with yet? `tui-evals demo` shows all of it on a sample project, offline."


def first_page(others: Sequence[OtherDataset], width: int) -> list[Row]:
    """What can be opened, or else what this is for; then the keys."""
    if others:
        head = [row(("No dataset is open.", "strong")), row(), *dataset_rows(others, width)]
    else:
        head = [row((line, "strong")) for line in wrapped(_WELCOME, width)]
        head += [row(), *(row(line) for line in wrapped(_PURPOSE, width))]
    rows = [*head, row()]
    for key, message in _keys(bool(others)):
        first, *rest = wrapped(message, max(width - _KEY - 2, 10))
        rows.append(row(" ", fit(key, _KEY, "key"), " ", first))
        rows += [row(" " * (_KEY + 2), line) for line in rest]
    first, *rest = wrapped(_ELSEWHERE, width)
    rows += [row(), row((first[:1], "key"), (first[1:], "dim")), *(row((line, "dim")) for line in rest)]
    return rows if others else [*rows, row(), *(row((line, "dim")) for line in wrapped(_LATER, width))]


def _keys(any_there: bool) -> tuple[tuple[str, str], ...]:
    """The five keys, the one to press now before the others."""
    begin = ("ctrl+n", "begins a dataset")
    enter = ("enter", "opens the dataset under the cursor" if any_there else "writes in the field under the cursor")
    return (
        *((enter, begin) if any_there else (begin, enter)),
        ("1 … 6", "go to dataset, item, evaluators, results, answer, runs"),
        ("r", "runs what is selected, once it has said what that costs"),
        ("?", "lists the keys of where you are; esc goes back, q leaves"),
    )


Counts = Mapping[Key, int]
_STATUS = 10
_BEGINNING = 28  # columns in which one can tell what an item asks
_BESIDE_NAME = 18  # of them those that a long name leaves, with what stands before it
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
    """What the rows are made from; `marks`, `statuses` and `problems` may change under rows that are shown."""

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
    """How many items the filter lets through; None without one."""
    others: Sequence[OtherDataset] = ()


class TreeRows(Sequence[Row]):
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

    @overload
    def __getitem__(self, number: int) -> Row: ...

    @overload
    def __getitem__(self, number: slice) -> list[Row]: ...

    def __getitem__(self, number: int | slice) -> Row | list[Row]:
        if isinstance(number, slice):
            return [self[place] for place in range(*number.indices(len(self)))]
        number = number + len(self) if number < 0 else number
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
        """A row of what stands before the prompt, as much of the prompt as there is room for, problems and status."""
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
    """The beginning of what an item or turn asks, on one line, and its style; without it where its turns follow."""
    if not isinstance(unit, dict):
        return "no object; mend it in the file", "error"
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
