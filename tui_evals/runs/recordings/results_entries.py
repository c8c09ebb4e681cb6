"""The items of a results document: written once for each column there, once in the dataset they come from."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from tui_evals.datasets.layout import Path as Place
from tui_evals.datasets.problems import DatasetError

COLUMN, TOGETHER = "tui_evals_run", "tui_evals_together"
OUTPUTS = ("response", "scores", "diagnostics", "status", "error", "summary")

Data = dict[str, Any]
Refuse = Callable[[str, Place], DatasetError]
"""The error of a place in the document."""


@dataclass(frozen=True, slots=True, order=True)
class Column:
    """Who answered an item, to which prompt under test, the how many-th time from 0."""

    prompt: str
    target: str
    repeat: int


@dataclass(frozen=True, slots=True)
class Entry:
    """An item as it is written: its position in the document, its item in the dataset, its column."""

    position: int
    item: int
    column: Column


@dataclass(slots=True)
class _Known:
    number: int
    columns: set[Column] = field(default_factory=set)


def entries_of(items: list[Data], alone: str, refuse: Refuse) -> tuple[list[Data], list[Entry]]:
    """The items of the dataset, and what was written of each; `alone` answered where no target is named.

    Entries that say the same are one item until a column comes again, as it does where a dataset holds an item twice.
    """
    bare: list[Data] = []
    entries: list[Entry] = []
    known: dict[str, list[_Known]] = {}
    for position, item in enumerate(items):
        column = _column(item, position, alone, refuse)
        asked = without_outputs(item)
        same = known.setdefault(json.dumps(asked, sort_keys=True), [])
        found = next((one for one in same if column not in one.columns), None)
        if found is None:
            found = _Known(len(bare))
            same.append(found)
            bare.append(asked)
        found.columns.add(column)
        entries.append(Entry(position, found.number, column))
    return bare, entries


def _column(item: Data, position: int, alone: str, refuse: Refuse) -> Column:
    place: Place = ("items", position, "extensions", COLUMN)
    about = (item.get("extensions") or {}).get(COLUMN, {})
    if not isinstance(about, dict):
        raise refuse("must be an object", place)
    prompt, target, repeat = about.get("prompt", ""), about.get("target", alone), about.get("repeat", 1)
    for name, value in (("prompt", prompt), ("target", target)):
        if not isinstance(value, str):
            raise refuse("must be text", (*place, name))
    if not isinstance(repeat, int) or isinstance(repeat, bool) or not 1 <= repeat <= 1_000_000:
        raise refuse("must be a whole number from 1 to 1,000,000", (*place, "repeat"))
    return Column(prompt, target, repeat - 1)


def without_outputs(item: Mapping[str, Any]) -> Data:
    """An item as it was asked."""
    bare = _bare(item)
    if "turns" in item:
        bare["turns"] = [_bare(turn) for turn in item["turns"]]
    return bare


def _bare(unit: Mapping[str, Any]) -> Data:
    bare = {name: value for name, value in unit.items() if name not in OUTPUTS}
    if isinstance(extensions := bare.get("extensions"), dict) and extensions.keys() & {COLUMN, TOGETHER}:
        bare["extensions"] = {name: value for name, value in extensions.items() if name not in (COLUMN, TOGETHER)}
        if not bare["extensions"]:
            del bare["extensions"]
    return bare


def units_of(item: Mapping[str, Any], position: int) -> Iterator[tuple[Place, Mapping[str, Any]]]:
    """The turns of an item as written, or the item itself, each with its place."""
    if "turns" not in item:
        yield ("items", position), item
        return
    for number, turn in enumerate(item["turns"]):
        yield ("items", position, "turns", number), turn
