"""The section of a page that has each turn of an item as a row and each prompt and target of the run as a column."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from tui_evals.present.grid import GridColumn, cell_look, cell_score, line_name, named_columns
from tui_evals.present.status import Look, Tone
from tui_evals.store.grid import GridCell, GridLine, GridRow
from tui_evals.store.reader import Reader
from tui_evals.store.records import RunRow

MOST = 500
"""Rows of a page: of a larger run those on which the columns disagree most."""
OPEN = 40
"""Rows up to which nobody has to open the section."""
_CLASSES: Mapping[Tone, str] = {
    "ok": "pass",
    "bad": "fail",
    "warn": "partial",
    "error": "error",
    "busy": "pending",
    "dim": "none",
    "": "none",
}


@dataclass(frozen=True, slots=True)
class MatrixCell:
    """What a column made of a turn."""

    look: Look
    score: str

    @property
    def colour(self) -> str:
        """The class that colours it."""
        return _CLASSES[self.look.tone]


@dataclass(frozen=True, slots=True)
class MatrixRow:
    """A turn of an item; the number is that of its card, None where it has none."""

    card: int | None
    name: str
    cells: tuple[MatrixCell | None, ...]


@dataclass(frozen=True, slots=True)
class Matrix:
    """The section: its columns, how many rows there are, and those that are shown, one after the other."""

    names: tuple[str, ...]
    total: int
    shown: int
    rows: Iterator[MatrixRow]

    @property
    def open(self) -> bool:
        """Whether it is short enough to be seen at once."""
        return self.shown <= OPEN


def matrix(reader: Reader, run: RunRow, carded: Collection[int] | None = None) -> Matrix | None:
    """The grid of a run with several columns; `carded` are the items that have a card, None where all do."""
    columns = named_columns(run)
    if len(columns) < 2:
        return None
    rows = reader.grid_rows(run.id)
    shown = rows if len(rows) <= MOST else reader.grid_rows(run.id, order="disagreement")[:MOST]
    names = tuple(column.short for column in columns)
    return Matrix(names, len(rows), len(shown), _rows(reader, run, columns, shown, carded))


def _rows(
    reader: Reader,
    run: RunRow,
    columns: Sequence[GridColumn],
    rows: Sequence[GridRow],
    carded: Collection[int] | None,
) -> Iterator[MatrixRow]:
    for line in reader.grid_lines(run.id, rows):
        cells = tuple(_cell(line.cells.get(column.place)) for column in columns)
        yield MatrixRow(_card(line, carded), line_name(line), cells)


def _card(line: GridLine, carded: Collection[int] | None) -> int | None:
    return line.item + 1 if carded is None or line.item in carded else None


def _cell(cell: GridCell | None) -> MatrixCell | None:
    return None if cell is None else MatrixCell(cell_look(cell), cell_score(cell))
