"""The items of a dataset as a table of texts: its columns, single cells, and tables from and to a spreadsheet."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

from tui_evals.datasets.paths import CannotEdit, Data, set_at
from tui_evals.datasets.steps import items_of, new_item
from tui_evals.light_records import dataclass
from tui_evals.text import strictjson
from tui_evals.text.measures import counted
from tui_evals.text.safe import escape_formula, restore_formula

Kind = Literal["field", "tags", "variable", "shown"]


@dataclass(frozen=True, slots=True)
class Column:
    """A column: a field of the item, its tags, one of its variables, or a read-only value."""

    name: str
    kind: Kind = "field"


TEST_ID, PROMPT, EXPECTED = Column("testId"), Column("prompt"), Column("expected_response")
CATEGORY, TAGS = Column("category"), Column("tags", "tags")
EVALUATORS, STATUS = Column("evaluators", "shown"), Column("status", "shown")
_FIELDS: Mapping[str, Column] = {
    column.name.casefold(): column
    for column in (TEST_ID, PROMPT, EXPECTED, Column("response"), Column("context"), CATEGORY, TAGS)
}
_SPELLINGS = {"expected": EXPECTED, "expectedresponse": EXPECTED, "id": TEST_ID, "input": PROMPT, "test_id": TEST_ID}


def columns_of(items: Iterable[object]) -> tuple[Column, ...]:
    """The columns of a table: what items have, each variable by its name."""
    names: dict[str, None] = {}
    for item in items:
        variables = item.get("variables") if isinstance(item, dict) else None
        if isinstance(variables, dict):
            names.update(dict.fromkeys(variables))
    variables_ = (Column(name, "variable") for name in names)
    return (TEST_ID, PROMPT, EXPECTED, *variables_, CATEGORY, TAGS, EVALUATORS, STATUS)


def column_named(name: str) -> Column:
    """The column that a heading of a pasted table means; any other name is a variable."""
    word = name.strip().casefold()
    return _FIELDS.get(word) or _SPELLINGS.get(word) or Column(name.strip(), "variable")


def cell_text(item: object, column: Column) -> str:
    """The text of a cell."""
    if not isinstance(item, dict):
        return ""
    if column.kind == "variable":
        variables = item.get("variables")
        return _text(variables.get(column.name)) if isinstance(variables, dict) else ""
    value = item.get(column.name)
    if column.kind == "tags" and isinstance(value, list):
        return ", ".join(map(_text, value))
    if column == EVALUATORS and isinstance(value, dict):
        return ", ".join(value)
    turns = item.get("turns")
    if column == PROMPT and value is None and isinstance(turns, list):
        first = turns[0] if turns and isinstance(turns[0], dict) else {}
        return f"{_text(first.get('prompt'))} (+{counted(len(turns) - 1, 'turn')})"
    return _text(value)


def _text(value: Any) -> str:
    return "" if value is None else value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def why_not_cell(item: object, column: Column) -> str | None:
    """Why a cell cannot be written; None where it can."""
    if not isinstance(item, dict):
        return "this item is no object. Fix it in the file"
    if column.kind == "shown":
        return "evaluators are edited in pane 3" if column == EVALUATORS else "the status comes from runs"
    if column in (PROMPT, EXPECTED) and "turns" in item:
        return "this item is a conversation. Edit its turns in pane 2"
    value = item.get(column.name)
    if column.kind == "tags" and not (value is None or _is_texts(value)):
        return "these tags are no list of texts. Fix them in pane 2"
    if column.kind == "field" and value is not None and not isinstance(value, str):
        return f"{column.name} is no text here. Edit it in pane 2"
    return None


def _is_texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(part, str) for part in value)


def with_cell(item: Data, column: Column, text: str) -> Data:
    """An item with another text in a cell; an empty cell takes the value away, but a prompt stays, empty."""
    if problem := why_not_cell(item, column):
        raise CannotEdit(problem)
    if text == cell_text(item, column):
        return item
    if column.kind == "variable":
        old = item.get("variables")
        variables = dict(old) if isinstance(old, dict) else {}
        if text:
            variables[column.name] = _as_before(variables.get(column.name), text)
        else:
            variables.pop(column.name, None)
        return _with(item, "variables", variables or None)
    if column.kind == "tags":
        return _with(item, "tags", list(dict.fromkeys(filter(None, map(str.strip, text.split(","))))) or None)
    return _with(item, column.name, text or ("" if column == PROMPT else None))


def _as_before(old: Any, text: str) -> Any:
    """A number or truth value stays one where the text is one."""
    if old is None or isinstance(old, str):
        return text
    try:
        return strictjson.loads(text)
    except strictjson.JsonError:
        return text


def _with(item: Data, name: str, value: Any) -> Data:
    if value is None:
        return {field: kept for field, kept in item.items() if field != name}
    return {**item, name: value}


Edits = Mapping[int, Mapping[Column, str]]
"""New texts by the position of the item, from 0, and column."""


def with_cells(data: Data, edits: Edits, added: Sequence[Mapping[Column, str]] = ()) -> Data:
    """A dataset with other texts in cells, and with further items at its end; CannotEdit says why one cannot be."""
    items = list(items_of(data))
    for number, cells in edits.items():
        for column, text in cells.items():
            try:
                items[number] = with_cell(items[number], column, text)
            except CannotEdit as problem:
                raise CannotEdit(f"item {number + 1}: {problem}") from None
    for cells in added:
        item = new_item()
        for column, text in cells.items():
            item = with_cell(item, column, text)
        items.append(item)
    return set_at(data, ("items",), items)


def table_text(items: Iterable[object], columns: Sequence[Column]) -> str:
    """Items as tab-separated values with headings; values that a spreadsheet would run as formulas are escaped."""
    out = io.StringIO()
    writer = csv.writer(out, delimiter="\t", lineterminator="\n")
    writer.writerow([escape_formula(column.name) for column in columns])
    writer.writerows([escape_formula(cell_text(item, column)) for column in columns] for item in items)
    return out.getvalue()


def read_table(text: str) -> list[list[str]]:
    """The rows of a pasted table, split at tabs, or at commas if all rows have equally many; formulas are restored."""
    lines = text.replace("\r\n", "\n").replace("\r", "\n").strip("\n")
    if not lines:
        return []
    rows = list(csv.reader(io.StringIO(lines), delimiter="\t"))
    if "\t" not in lines:
        by_commas = [row for row in csv.reader(io.StringIO(lines)) if row]
        widths = {len(row) for row in by_commas}
        rows = (
            by_commas
            if len(widths) == 1 and widths != {1} and len(by_commas) > 1
            else [[lines]]
            if len(rows) == 1
            else rows
        )
    return [[restore_formula(cell) for cell in row] for row in rows if row]


def headings_of(rows: Sequence[Sequence[str]]) -> list[Column] | None:
    """The columns that the first row names; None if it is not a heading."""
    if len(rows) < 2:
        return None
    columns = [column_named(name) for name in rows[0]]
    named = all(name.strip() for name in rows[0]) and len(set(columns)) == len(columns)
    return columns if named and any(column in (PROMPT, TEST_ID) for column in columns) else None


@dataclass(frozen=True, slots=True)
class Pasted:
    """The effect of a pasted table: changed cells of existing items, and new items."""

    edits: dict[int, dict[Column, str]]
    added: list[dict[Column, str]]

    @property
    def words(self) -> str:
        """How many items change and how many are new."""
        parts = []
        if self.edits:
            parts.append(f"{len(self.edits):,} item{'s' * (len(self.edits) != 1)} changed")
        if self.added:
            parts.append(f"{len(self.added):,} item{'s' * (len(self.added) != 1)} added")
        return ", ".join(parts) or "nothing pasted"


def paste(
    items: Sequence[object], shown: Sequence[int], at: int, columns: Sequence[Column], first: int, text: str
) -> Pasted:
    """Where a pasted table goes.

    With headings each row goes to the item with its testId, else it is a new item. Without, the cells go to the right
    and down from the column `first` and the place `at` among the `shown` items; the remaining rows become new items.
    """
    rows = read_table(text)
    named = headings_of(rows)
    edits: dict[int, dict[Column, str]] = {}
    added: list[dict[Column, str]] = []
    if named is not None:
        writable = [column if column.kind != "shown" else None for column in map(_own, named)]
        by_id = {item.get("testId"): number for number, item in enumerate(items) if isinstance(item, dict)}
        for row in rows[1:]:
            cells = {column: cell for column, cell in zip(writable, row, strict=False) if column is not None}
            number = by_id.get(cells.get(TEST_ID) or ())
            if number is not None:
                edits[number] = {column: cell for column, cell in cells.items() if column != TEST_ID}
            else:
                added.append({column: cell for column, cell in cells.items() if cell})
        return Pasted(edits, added)
    for down, row in enumerate(rows):
        cells = dict(zip(columns[first:], row, strict=False))
        if at + down < len(shown):
            edits[shown[at + down]] = cells
        else:
            added.append({column: cell for column, cell in cells.items() if cell})
    return Pasted(edits, added)


def _own(column: Column) -> Column:
    """The column of a heading, so that our own read-only columns do not become variables."""
    return next((one for one in (EVALUATORS, STATUS) if one.name == column.name), column)
