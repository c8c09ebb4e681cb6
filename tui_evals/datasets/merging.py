"""Three-way merge of two versions of a dataset by item and field, without I/O."""

from __future__ import annotations

import json
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from enum import Enum
from itertools import islice
from operator import is_
from typing import Any, Final, Literal

from tui_evals.datasets.paths import DOCUMENT_FIELDS, UNIT_FIELDS, Data, Path, remove_at, same_data, set_at, with_field
from tui_evals.light_records import dataclass


class _Absence(Enum):
    ABSENT = "absent"


ABSENT: Final = _Absence.ABSENT
"""Stands for a value that a side does not have."""

_MAPS = frozenset(("variables", "matrix", "evaluators", "default_evaluators", "extensions", "metadata"))
"""Fields whose entries are merged one by one; every other field is one value."""
_MOST_COMPARED = 250_000


@dataclass(frozen=True, slots=True)
class Conflict:
    """A value that both sides changed, each in its own way; a side that took it away has ABSENT."""

    path: Path
    base: Any
    mine: Any
    theirs: Any


@dataclass(frozen=True, slots=True)
class Merge:
    """Both sides put together; where they conflict, `settled` needs to know which side is to hold."""

    draft: Data
    """Everything both sides agree on, with `mine` where they do not, and with items that one of them still has."""
    conflicts: tuple[Conflict, ...]

    def settled(self, theirs: Collection[int] = ()) -> Data:
        """The merged data: the conflicts of these numbers as they have them, the others as mine."""
        data = self.draft
        gone: list[Path] = []
        for number, conflict in enumerate(self.conflicts):
            value = conflict.theirs if number in theirs else conflict.mine
            if value is ABSENT:
                gone.append(conflict.path)
            else:
                data = set_at(data, conflict.path, value)
        for path in reversed(gone):  # from the end, because later elements of a list move up
            data = remove_at(data, path)
        return data


def merge(base: Data, mine: Data, theirs: Data) -> Merge:
    """The changes of both sides to `base`, merged."""
    conflicts: list[Conflict] = []
    draft = _merged(base, mine, theirs, (), conflicts)
    return Merge(draft, tuple(conflicts))


def _merged(base: Any, mine: Any, theirs: Any, path: Path, conflicts: list[Conflict]) -> Any:
    """A value that both sides may have changed."""
    if same_data(mine, theirs) or same_data(theirs, base):
        return mine
    if same_data(mine, base):
        return theirs
    if isinstance(mine, dict) and isinstance(theirs, dict) and _is_merged_by_key(path):
        return _merged_fields(base if isinstance(base, dict) else {}, mine, theirs, path, conflicts)
    if path[-1:] in (("items",), ("turns",)) and isinstance(mine, list) and isinstance(theirs, list):
        return _merged_units(base if isinstance(base, list) else [], mine, theirs, path, conflicts)
    conflicts.append(Conflict(path, base, mine, theirs))
    return theirs if mine is ABSENT else mine


def _is_merged_by_key(path: Path) -> bool:
    return not path or isinstance(path[-1], int) or path[-1] in _MAPS


def _merged_fields(base: Data, mine: Data, theirs: Data, path: Path, conflicts: list[Conflict]) -> Data:
    result: Data = {}
    order = UNIT_FIELDS if path else DOCUMENT_FIELDS
    for name in (*mine, *(name for name in theirs if name not in mine)):
        sides = base.get(name, ABSENT), mine.get(name, ABSENT), theirs.get(name, ABSENT)
        value = _merged(*sides, (*path, name), conflicts)
        if value is not ABSENT:
            result = {**result, name: value} if name in mine else with_field(result, name, value, order)
    return result


@dataclass(frozen=True, slots=True)
class _Unit:
    """An item or turn that at least one side has, by its positions."""

    base: int | None
    mine: int | None
    theirs: int | None


def _merged_units(
    base: list[Any], mine: list[Any], theirs: list[Any], path: Path, conflicts: list[Conflict]
) -> list[Any]:
    """The items or turns of both sides, in the order of the side that moved some."""
    in_mine, in_theirs = paired(base, mine), paired(base, theirs)
    units = [
        _Unit(number, in_mine.get(number), in_theirs.get(number))
        for number in range(len(base))
        if not _is_deleted(base[number], mine, in_mine.get(number), theirs, in_theirs.get(number))
    ]
    units += _added(mine, theirs, frozenset(in_mine.values()), frozenset(in_theirs.values()))
    result: list[Any] = []
    for unit in _in_order(units, "mine" if _has_moved(in_mine) else "theirs"):
        sides = (_at(base, unit.base), _at(mine, unit.mine), _at(theirs, unit.theirs))
        result.append(_merged(*sides, (*path, len(result)), conflicts))
    return result


def _at(entries: Sequence[Any], number: int | None) -> Any:
    return ABSENT if number is None else entries[number]


def _is_deleted(item: Any, mine: list[Any], in_mine: int | None, theirs: list[Any], in_theirs: int | None) -> bool:
    """Whether one side deleted the item and the other deleted it too or did not change it."""
    if in_mine is None:
        return in_theirs is None or same_data(item, theirs[in_theirs])
    return in_theirs is None and same_data(item, mine[in_mine])


def _added(mine: list[Any], theirs: list[Any], known_mine: frozenset[int], known_theirs: frozenset[int]) -> list[_Unit]:
    """The new items of a side; equal ones of both sides, or with the same testId, are one."""
    new_mine = [number for number in range(len(mine)) if number not in known_mine]
    new_theirs = [number for number in range(len(theirs)) if number not in known_theirs]
    pairs = _paired_by_key([mine[number] for number in new_mine], [theirs[number] for number in new_theirs])
    both = {new_mine[one]: new_theirs[other] for one, other in pairs.items()}
    units = [_Unit(None, number, both.get(number)) for number in new_mine]
    return units + [_Unit(None, None, number) for number in new_theirs if number not in both.values()]


def _has_moved(places: Mapping[int, int]) -> bool:
    after = [places[number] for number in sorted(places)]
    return after != sorted(after)


def _in_order(units: Iterable[_Unit], first: Literal["mine", "theirs"]) -> list[_Unit]:
    """The units in the order of one side; those that only the other side has come after their predecessors there."""
    second: Literal["mine", "theirs"] = "theirs" if first == "mine" else "mine"
    units = list(units)
    followers: defaultdict[_Unit | None, list[_Unit]] = defaultdict(list)
    before: _Unit | None = None
    for unit in _on_side(units, second):
        if getattr(unit, first) is None:
            followers[before].append(unit)
        else:
            before = unit
    result = followers[None]
    for unit in _on_side(units, first):
        result += [unit, *followers[unit]]
    return result


def _on_side(units: Iterable[_Unit], side: Literal["mine", "theirs"]) -> list[_Unit]:
    """The units that a side has, in its order."""
    places = [(getattr(unit, side), unit) for unit in units if getattr(unit, side) is not None]
    return [unit for _, unit in sorted(places, key=lambda place: place[0])]


# -- which item is which


def paired(old: Sequence[Any], new: Sequence[Any]) -> dict[int, int]:
    """Which of the new items is which of the old: by its testId, by all it holds, or by where it is."""
    pairs = _paired_by_key(old, new)
    return {**pairs, **_paired_by_place(old, new, pairs)}


def _paired_by_key(old: Sequence[Any], new: Sequence[Any]) -> dict[int, int]:
    pairs: dict[int, int] = {}
    for keys in (_unique_test_ids, _contents):
        taken = frozenset(pairs.values())
        places: defaultdict[Hashable, deque[int]] = defaultdict(deque)
        for number, key in keys(new, taken).items():
            places[key].append(number)
        for number, key in keys(old, pairs).items():
            if places[key]:
                pairs[number] = places[key].popleft()
    return pairs


def _unique_test_ids(items: Sequence[Any], without: Collection[int]) -> dict[int, Hashable]:
    names = [item.get("testId") if isinstance(item, dict) else None for item in items]
    times = Counter(name for name in names if isinstance(name, str))
    return {number: name for number, name in enumerate(names) if isinstance(name, str) and name and times[name] == 1}


def _contents(items: Sequence[Any], without: Collection[int]) -> dict[int, Hashable]:
    return {
        number: json.dumps(item, sort_keys=True, default=str)
        for number, item in enumerate(items)
        if number not in without
    }


def _paired_by_place(old: Sequence[Any], new: Sequence[Any], pairs: Mapping[int, int]) -> dict[int, int]:
    """Pairs of items that are between the same two others: the most similar ones."""
    back = {number: place for place, number in pairs.items()}
    gaps = _by_gap(len(old), pairs, lambda number: number), _by_gap(len(new), back, back.__getitem__)
    found: dict[int, int] = {}
    for before, left in gaps[0].items():
        right = gaps[1].get(before, [])
        if len(left) * len(right) <= _MOST_COMPARED:
            ranked = sorted(
                (-_likeness(old[one], new[other]), abs(at - there), one, other)
                for at, one in enumerate(left)
                for there, other in enumerate(right)
            )
        else:
            ranked = [(0, 0, one, other) for one, other in zip(left, right, strict=False)]
        for likeness, distance, one, other in ranked:
            alike = likeness < 0 or (len(left) == len(right) and not distance)
            if alike and one not in found and other not in found.values():
                found[one] = other
    return found


def _by_gap(count: int, known: Collection[int], name: Callable[[int], int]) -> dict[int, list[int]]:
    """The positions that are not known yet, by the known one before them."""
    gaps: defaultdict[int, list[int]] = defaultdict(list)
    before = -1
    for number in range(count):
        if number in known:
            before = name(number)
        else:
            gaps[before].append(number)
    return gaps


def _likeness(one: Any, other: Any) -> int:
    """How many fields two items have in common."""
    if not isinstance(one, dict) or not isinstance(other, dict):
        return 0
    return sum(name in other and same_data(value, other[name]) for name, value in one.items())


@dataclass(frozen=True, slots=True)
class Splice:
    """The difference of two lists: from `start` on, one has `removed` where the other has `added`."""

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
    """The change from one state to the other."""
    old, new = before.get("items"), after.get("items")
    if not (isinstance(old, list) and isinstance(new, list)):
        return Patch(before, after, None)
    return Patch({**before, "items": ()}, {**after, "items": ()}, splice(old, new))
