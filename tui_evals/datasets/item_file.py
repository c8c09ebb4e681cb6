"""Items as one YAML file to edit by hand, one item after each `---`, and its errors by line."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

from tui_evals.datasets.paths import (
    CannotEdit,
    Places,
    Problem,
    get_at,
    line_in,
    path_text,
    places_in,
    pretty_json,
    same_data,
)
from tui_evals.light_records import dataclass
from tui_evals.text.safe import safe_line
from tui_evals.text.yamls import YamlError, load_mapping, write_yaml

from .document import Document
from .portable import Catalogue
from .validate import validate

_HELP = (
    "# Save and quit the editor to apply your changes. A text of several lines is indented below |.",
    "# What is left out is not given; fields there are none of are named with their line. Each item begins with ---.",
)
_BEGIN = re.compile(r"---(?=\s|$)")
_FAULT = "# ✗ "
_MOST = 5
_LIMIT = 20_000_000


@dataclass(frozen=True, slots=True)
class Fault:
    """An error in a file of items, with its line."""

    line: int
    message: str

    def __str__(self) -> str:
        return f"line {self.line}: {self.message}"


class CannotRead(ValueError):
    """The file holds no items that could be taken; `fault` says where and why."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(str(fault))
        self.fault = fault


@dataclass(frozen=True, slots=True)
class ItemText:
    """An item and its lines in the file, with empty lines in place of those above it."""

    data: dict[str, Any]
    text: str


def write_items(items: Sequence[tuple[str, Any]]) -> str:
    """Items with their names as a file; CannotEdit names an item that such a file cannot hold."""
    return "\n".join((*_HELP, "")) + "".join(_written(name, item) for name, item in items)


def _written(name: str, item: Any) -> str:
    if not isinstance(item, dict):
        raise CannotEdit(f"{name} is not an object. Fix it in the dataset file")
    try:
        text = write_yaml(item) if item else ""
        exact = same_data(load_mapping(text, limit=_LIMIT)[0], item)
        why = "it would not be read back as it is"
    except YamlError as problem:
        exact, why = False, problem.problem
    except RecursionError:
        exact, why = False, "it is nested too deeply"
    if not exact:
        raise CannotEdit(f"{name} cannot be written as a file to edit: {why}; e edits one of its fields")
    return f"--- # {safe_line(name, 80)}\n{text}"


def read_items(text: str, count: int) -> list[ItemText]:
    """The items of an edited file, which must be as many as before; CannotRead has the first error."""
    lines = [f"{line}\n" for line in text.removesuffix("\n").split("\n")]
    starts = [number for number, line in enumerate(lines) if _BEGIN.match(line)]
    above = lines[: starts[0]] if starts else lines
    if any(line.strip() and not line.startswith("#") for line in above):
        starts = [0, *starts]
    items = [_read(lines, start, end) for start, end in pairwise((*starts, len(lines)))]
    if len(items) != count:
        line = starts[min(count, len(starts) - 1)] + 1 if starts else 1
        held = f"{len(items)} item{'s' if len(items) != 1 else ''}"
        raise CannotRead(
            Fault(line, f"the file holds {held} and was begun with {count}; the tree adds and deletes them")
        )
    return items


def _read(lines: list[str], start: int, end: int) -> ItemText:
    first = _BEGIN.sub("   ", lines[start])
    text = "".join(("\n" * start, first, *lines[start + 1 : end]))
    try:
        data, _ = load_mapping(text, limit=_LIMIT)
    except YamlError as problem:
        raise CannotRead(Fault(problem.line or start + 1, problem.problem)) from None
    if not data:
        raise CannotRead(Fault(start + 1, "this item holds nothing; the tree deletes items"))
    return ItemText(data, text)


def item_faults(
    items: Sequence[ItemText], before: Sequence[Any], document: Document, catalogue: Catalogue, own: Iterable[str]
) -> list[Fault]:
    """New problems that prevent these items from being run in the dataset, in the order of their file."""

    def problems(data: Sequence[Any]) -> dict[str, Problem]:
        dataset = {**document.data, "items": list(data)}
        report = validate(replace(document, text=pretty_json(dataset), data=dataset, digest=""), catalogue, own)
        return {str(one): one for one in report.problems if one.severity == "error" and one.path[:1] == ("items",)}

    known = problems(before)
    new = [problem for name, problem in problems([item.data for item in items]).items() if name not in known]
    places = {number: places_in(items[number].text) for problem in new if isinstance(number := problem.path[1], int)}
    return sorted((_fault(problem, items, places) for problem in new), key=lambda fault: fault.line)


def _fault(problem: Problem, items: Sequence[ItemText], places: Mapping[int, Places]) -> Fault:
    number, inside = problem.path[1], problem.path[2:]
    assert isinstance(number, int)
    item = items[number]
    around = get_at(item.data, inside)
    # A problem with a superfluous field has the path of its parent, and names the field.
    named = [key for key in around if f"'{key}'" in problem.message] if isinstance(around, dict) else []
    line = line_in(places[number], (*inside, *named[:1]))
    return Fault(line, f"{path_text(inside)}: {problem.message}" if inside else problem.message)


def with_faults(text: str, faults: Sequence[Fault]) -> tuple[str, int]:
    """The file with `faults` at its top, in place of earlier ones, and the line to continue at."""
    body = without_faults(text)
    above = faults[:_MOST]
    moved = [replace(fault, line=fault.line + len(above)) for fault in above]
    return "".join(f"{_FAULT}{safe_line(str(fault), 200)}\n" for fault in moved) + body, moved[0].line


def without_faults(text: str) -> str:
    """The file without the errors at its top."""
    lines = text.split("\n")
    while lines[0].startswith(_FAULT):
        del lines[0]
    return "\n".join(lines)
