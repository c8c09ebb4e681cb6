"""How people name items, by number from 1, by testId or name, `last`, several at once as in 1,4-9; and how runs do."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Container, Iterator, Sequence
from typing import Any

from tui_evals.datasets.paths import CannotEdit
from tui_evals.text.names import did_you_mean
from tui_evals.text.safe import safe_line

_NUMBER = re.compile(r"#?([0-9]{1,9})")
_LONGEST = 60
_SHOWN = 4
_RANGE = re.compile(r"\s*#?([0-9]{1,9})\s*(?:-\s*#?([0-9]{1,9})\s*)?")


def find_item(items: Sequence[Any], text: str) -> int:
    """The position, from 0, of the one item that the user names."""
    found = find_items(items, text)
    if len(found) != 1:
        raise CannotEdit(f"{text!r} names {len(found)} items; name one")
    return found[0]


def find_items(items: Sequence[Any], text: str) -> list[int]:
    """The positions, from 0, of the items that the user names, in the order of the file."""
    if not items:
        raise CannotEdit("the dataset has no items")
    if not _NUMBER.fullmatch(text.strip()) and (named := _named(items, text)) is not None:
        return [named]
    return sorted({position for part in text.split(",") for position in _of_part(items, part)})


def _of_part(items: Sequence[Any], part: str) -> Iterator[int]:
    word = part.strip()
    match = _RANGE.fullmatch(part)
    if match is not None:
        yield from range_of(match[1], match[2], part, len(items))
    elif word == "last":
        yield len(items) - 1
    elif (named := _named(items, word)) is not None:
        yield named
    else:
        names = {name for item in items for name in _names(item)}
        raise CannotEdit(
            f"there is no item {word!r}{did_you_mean(word, names)}; name it by its number from 1 to {len(items)}, by "
            "its testId or name, or as last"
        )


def range_of(first: str, last: str | None, part: str, count: int) -> range:
    """The positions, from 0, of a number or a range of numbers, for `count` items."""
    start, stop = int(first), int(last or first)
    if start > stop:
        raise CannotEdit(f"{part.strip()} runs backwards; write {stop}-{start}")
    if start < 1 or stop > count:
        missing = start if start < 1 else stop
        raise CannotEdit(f"there is no item {missing}; the dataset has items 1 to {count}")
    return range(start - 1, stop)


def _named(items: Sequence[Any], word: str) -> int | None:
    """The item with this testId, else with this name; CannotEdit where several have it."""
    for field in ("testId", "name"):
        found = [number for number, item in enumerate(items) if isinstance(item, dict) and item.get(field) == word]
        if len(found) > 1:
            numbers = ", ".join(str(number + 1) for number in found[:10])
            raise CannotEdit(f"several items have the {field} {word!r}: {numbers}; name one by its number")
        if found:
            return found[0]
    return None


def _names(item: Any) -> Iterator[str]:
    for field in ("testId", "name"):
        if isinstance(item, dict) and isinstance(name := item.get(field), str) and name:
            yield name


def item_name(item: Any) -> str:
    """The testId of an item, else its name; empty where it has neither."""
    return next(_names(item), "")


def names_in_run(test_ids: Sequence[str | None]) -> list[str]:
    """How a run names each item: by its testId; where several have it `ID#3` and so on, and without one `#3`."""
    times = Counter(test_ids)
    repeated = {test_id for test_id, count in times.items() if count > 1}
    return [name_in_run(test_id, number, times, repeated) for number, test_id in enumerate(test_ids)]


def name_in_run(test_id: str | None, number: int, known: Container[str | None], repeated: Container[str | None]) -> str:
    """How a run names one item, by the testIds that are known and those that several items have."""
    place = f"#{number + 1}"
    if not test_id:
        return place
    if test_id not in repeated:
        return test_id
    return place if test_id + place in known else test_id + place


def repeated_sentence(test_ids: Sequence[str | None], among: Sequence[int]) -> str:
    """How a run handles testIds that several items have, for the first of them; empty if none of these is asked."""
    times = Counter(filter(None, test_ids))
    repeated = list(dict.fromkeys(name for number in among if times[name := test_ids[number] or ""] > 1))
    if not repeated:
        return ""
    first, *others = repeated
    names = names_in_run(test_ids)
    alike = [names[number] for number, test_id in enumerate(test_ids) if test_id == first]
    shown = f"{', '.join(alike[:-1])} and {alike[-1]}" if len(alike) <= _SHOWN else f"{alike[0]}, {alike[1]} and so on"
    count = f"{len(others)} other testIds are" if len(others) > 1 else "another testId is"
    also = f", and {count} repeated too" if others else ""
    return (
        f"The testId {safe_line(first, _LONGEST)!r} is that of {len(alike)} items{also}. The run names them "
        f"{safe_line(shown)}, and comparisons match them by what they ask. To match them by testId, give each its own."
    )


def item_in_words(items: Sequence[Any], number: int) -> str:
    """An item in words: its number, and its testId or name."""
    name = safe_line(item_name(items[number]), _LONGEST)
    return f"item {number + 1} ({name})" if name else f"item {number + 1}"


def items_in_words(items: Sequence[Any], numbers: Sequence[int]) -> str:
    """Items in words: one by number and name, several by their numbers."""
    if len(numbers) == 1:
        return item_in_words(items, numbers[0])
    return f"items {ranges_in_words(numbers)}"


def ranges_in_words(numbers: Sequence[int]) -> str:
    """Positions as a list of numbers from 1, as in 1,4-9."""
    parts: list[list[int]] = []
    for number in numbers:
        if parts and parts[-1][-1] == number - 1:
            parts[-1][1:] = [number]
        else:
            parts.append([number])
    return ",".join("-".join(str(number + 1) for number in part) for part in parts)
