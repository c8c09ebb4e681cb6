"""Variables in every combination: `"matrix": {"tone": ["dry", "warm"], "length": [1, 2]}` expands to four items.

A matrix of the dataset applies to every item, except for variables that the item sets itself or in its own matrix. The
file is never changed: a run asks the expanded items and keeps them in its snapshot.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

from tui_evals.datasets.document import Document
from tui_evals.datasets.paths import DatasetError, Problem
from tui_evals.text.strictjson import expectation_text

MOST_OF_AN_ITEM = 1_000
_MOST = 100_000
MARK = "tui_evals_matrix"
"""The extension in which an expanded item keeps the values that were chosen for it."""
_SHORT = re.compile(r"[\w.+-]{1,30}")
_EXPANDED = re.compile(r"(.+?)(?:@[^@=]+=(?:[\w.+-]{1,30}|#[0-9]+))+")

Data = dict[str, Any]
Choices = Mapping[str, Sequence[Any]]


def has_matrix(data: Mapping[str, Any]) -> bool:
    """Whether the dataset or an item has a matrix."""
    return "matrix" in data or any("matrix" in item for item in data["items"])


def expanded(document: Document) -> tuple[Document, tuple[int, ...]]:
    """The expanded document that a run asks, with the file position of each item; DatasetError if too large.

    Expectations become text in it. A document without a matrix or such expectations is returned unchanged.
    """
    items_with_texts = list(map(with_expected_texts, document.data["items"]))
    if any(map(operator.is_not, items_with_texts, document.data["items"])):
        document = replace(document, data={**document.data, "items": items_with_texts})
    data = document.data
    if not has_matrix(data):
        return document, tuple(range(len(data["items"])))
    items: list[Data] = []
    origins: list[int] = []
    for number, item in enumerate(data["items"]):
        for one in _expanded_item(item, number, choices_of(data, item)):
            items.append(one)
            origins.append(number)
            if len(items) > _MOST:
                problem = f"the matrix makes more than {_MOST:,} items; leave some values out"
                raise DatasetError(str(document.file), [Problem(problem, ("matrix",))])
    whole = {**{name: value for name, value in data.items() if name != "matrix"}, "items": items}
    return replace(document, data=whole), tuple(origins)


def with_expected_texts(unit: Any) -> Any:
    """An item or turn whose expectations are text; itself where they are."""
    if not isinstance(unit, dict):
        return unit
    made = {}
    if not isinstance(expected := unit.get("expected_response", ""), str) and expected is not None:
        made["expected_response"] = _text(expected)
    for name, texts in (("ideal", _text), ("turns", with_expected_texts)):
        if isinstance(parts := unit.get(name), list):
            own = list(map(texts, parts))
            if any(map(operator.is_not, own, parts)):
                made[name] = own
    return {**unit, **made} if made else unit


def _text(value: Any) -> Any:
    try:
        return expectation_text(value)
    except ValueError:
        return value  # validation reports the error


def choices_of(data: Mapping[str, Any], item: Mapping[str, Any]) -> Choices:
    """The variables that an item has in several values: the dataset's, unless it gives them itself, and its own."""
    own = item.get("variables") or {}
    shared = {name: values for name, values in (data.get("matrix") or {}).items() if name not in own}
    return {**shared, **(item.get("matrix") or {})}


def _expanded_item(item: Data, number: int, choices: Choices) -> Iterator[Data]:
    if not choices:
        yield item
        return
    name = item.get("testId") or f"#{number + 1}"
    rest = {field: value for field, value in item.items() if field not in ("matrix", "testId")}
    for combination in product(*(list(enumerate(values)) for values in choices.values())):
        values = dict(zip(choices, (value for _, value in combination), strict=True))
        marks = (f"@{key}={_mark(value, place)}" for key, (place, value) in zip(choices, combination, strict=True))
        yield {
            "testId": name + "".join(marks),
            **rest,
            "variables": {**(item.get("variables") or {}), **values},
            "extensions": {**(item.get("extensions") or {}), MARK: values},
        }


def _mark(value: Any, place: int) -> str:
    """A value in the name of an item: itself where it is short, else its number from 1."""
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return text if isinstance(value, str | int | float) and _SHORT.fullmatch(text) else f"#{place + 1}"


def name_in_file(name: str) -> str:
    """The name of an item in its file, from its name in a run."""
    match = _EXPANDED.fullmatch(name)
    return match[1] if match else name


def item_in_file(item: Mapping[str, Any]) -> Mapping[str, Any]:
    """An item as in its file, except for the matrix, from the item that a run asked."""
    values = (item.get("extensions") or {}).get(MARK)
    if not isinstance(values, dict):
        return item
    found = {field: value for field, value in item.items() if field not in ("variables", "extensions", "testId")}
    if not (name := name_in_file(str(item.get("testId")))).startswith("#"):
        found["testId"] = name
    for field, gone in (("variables", values), ("extensions", {MARK})):
        if kept := {key: value for key, value in item[field].items() if key not in gone}:
            found[field] = kept
    return found


def matrix_problems(unit: Mapping[str, Any], own: bool) -> Iterator[Problem]:
    """Problems with the matrix of an item or a dataset, beyond its types."""
    matrix = unit.get("matrix")
    if not isinstance(matrix, dict):
        return
    size = 1
    for values in matrix.values():
        size *= max(len(values), 1) if isinstance(values, list) else 1
    if size > MOST_OF_AN_ITEM:
        yield Problem(f"makes {size:,} items of one, and {MOST_OF_AN_ITEM:,} are the most", ("matrix",))
    given = unit.get("variables")
    for name in matrix.keys() & given.keys() if own and isinstance(given, dict) else ():
        yield Problem(f"'{name}' is in variables too; keep one of them", ("matrix", name))


Unit = Mapping[str, Any]


def units(item: Unit) -> Sequence[Unit]:
    """The turns of an item, or the item itself."""
    turns = item.get("turns")
    return [turn if isinstance(turn, dict) else {} for turn in turns] if isinstance(turns, list) and turns else [item]


def place_of(items: Sequence[Any], item: Unit, position: int) -> int | None:
    """The current position of an asked item: by its testId, else its old position, else an equal question."""
    item = item_in_file(item)
    name, questions = item.get("testId"), _question_of(item)
    there = items[position] if position < len(items) else None
    is_there = isinstance(there, dict) and there.get("testId") == name and _question_of(there) == questions
    if is_there:  # as nearly all are, and a dataset may be too long to be looked through for each answer
        return position
    if isinstance(name, str) and name:
        named = [number for number, one in enumerate(items) if isinstance(one, dict) and one.get("testId") == name]
        if len(named) == 1:
            return named[0]
    if position < len(items) and _question_of(there) == questions:
        return position
    alike = [number for number, one in enumerate(items) if _question_of(one) == questions]
    return alike[0] if len(alike) == 1 else None


def _question_of(item: Any) -> Any:
    """The parts of an item that are sent to a target."""
    if not isinstance(item, dict):
        return None
    own = [item.get("prompt"), item.get("messages"), item.get("variables"), item.get("user")]
    return own + [[turn.get("prompt"), turn.get("messages"), _files_of(turn)] for turn in units(item)]


def _files_of(unit: Unit) -> list[Any]:
    """The paths of its files; a run keeps more of them."""
    files = unit.get("attachments")
    return [one.get("path") if isinstance(one, dict) else one for one in files] if isinstance(files, list) else []
