"""The matrix as rows: which columns fit a width, what stands above them, a row for each turn, the answers below."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from tui_evals.present.columns import AS_THEY_ARE, Names, told_apart
from tui_evals.present.grid import GridColumn, cell_look, cell_score, line_name
from tui_evals.present.runs import Column
from tui_evals.store.database import StoreError
from tui_evals.store.grid import GridLine
from tui_evals.tui.rows import LazyRows, Piece, Row, Rows, Style, fit, row, tone_style, wrapped

from .state import AnswerText, CellPages

_LEAST, _MOST = 15, 26
"""Cells of a column."""
_BESIDE = 50
"""Cells that an answer needs beside another one."""
_WORDS = len("95 % interval")
_TURN = len(".10")
_LEAST_NAME = 8
_VERDICT = 10
"""Cells of a status, so that the scores stand below each other."""
_EDGE, _GAP, _MARK = "│", " │ ", "▪ "


@dataclass(frozen=True, slots=True)
class Layout:
    """The columns of a width: from which on, how many, and how wide they and the names of items are."""

    columns: tuple[GridColumn, ...]
    cursor: int
    marked: int | None
    first: int
    shown: int
    name: int
    cell: int
    names: Names = AS_THEY_ARE
    """How items are called."""

    @property
    def seen(self) -> range:
        """The columns in sight."""
        return range(self.first, self.first + self.shown)

    def edge(self, number: int) -> Piece:
        """What stands before a column: a line on both sides of the one under the cursor."""
        return Piece(_EDGE, "accent") if number in (self.cursor, self.cursor + 1) else Piece(" ")


def layout(
    width: int,
    columns: tuple[GridColumn, ...],
    cursor: int,
    marked: int | None,
    first: int,
    names: Names = AS_THEY_ARE,
) -> Layout:
    """What fits a width so that the column under the cursor is in sight, from another one on only where it has to."""
    name = max(_LEAST_NAME, min(max(names.wanted + _TURN, _WORDS), width // 4))
    room = width - name - 1
    shown = max(1, min(len(columns), room // (_LEAST + 1)))
    first = min(first, cursor, len(columns) - shown)
    first = max(first, cursor - shown + 1, 0)
    return Layout(columns, cursor, marked, first, shown, name, max(1, min(_MOST, room // shown - 1)), names)


def head_rows(shown: Layout) -> list[Row]:
    """What stands above the columns: names, rates, intervals, and what they cost in money and time."""
    columns = [shown.columns[number] for number in shown.seen]
    heads, *below = _headings(shown.columns, shown.cell - len(_MARK))
    names = [(_MARK if number == shown.marked else "") + heads[number] for number in shown.seen]
    hidden = "" if len(columns) == len(shown.columns) else _hidden(shown)
    texts: Sequence[tuple[str, Sequence[str], Style]] = (
        ("item", names, "strong"),
        *(("prompt", [prompts[number] for number in shown.seen], "") for prompts in below),
        ("passes", [column.rate_text for column in columns], ""),
        ("95 % interval", [column.interval_text for column in columns], "dim"),
        (hidden or "cost, latency", [column.spent_text for column in columns], "dim"),
    )
    return [_head_row(shown, *line) for line in texts]


def _headings(columns: Sequence[GridColumn], width: int) -> list[list[str]]:
    """The names above the columns, of a width: in one line, or the targets in one and the prompts below."""
    if not columns[0].parts:
        return [told_apart([column.short for column in columns], width)]
    lines = []
    for names in zip(*(column.parts for column in columns), strict=True):
        once = list(dict.fromkeys(names))
        heads = dict(zip(once, told_apart(once, width), strict=True))
        lines.append([heads[name] for name in names])
    return lines


def _head_row(shown: Layout, word: str, texts: Sequence[str], style: Style) -> Row:
    pieces = [fit(word, shown.name, "key" if word[:1] in "‹›" and word else "dim")]
    for number, text in zip(shown.seen, texts, strict=True):
        here = style == "strong" and number == shown.cursor
        pieces += [shown.edge(number), fit(text, shown.cell, "accent" if here else style)]
    return Row((*pieces, shown.edge(shown.seen.stop)), ground="title")


def _hidden(shown: Layout) -> str:
    """That there are more columns, and on which side."""
    left = "‹ " if shown.first else ""
    right = " ›" if shown.seen.stop < len(shown.columns) else ""
    return f"{left or '› '}{shown.cursor + 1} of {len(shown.columns)}{right if left else ''}"


class MatrixRows(LazyRows):
    """The turns of a run as rows; each is made when it is looked at, so that any number of them opens at once."""

    def __init__(self, pages: CellPages, shown: Layout) -> None:
        self._pages = pages
        self._shown = shown

    def __len__(self) -> int:
        return len(self._pages.rows)

    def row_at(self, number: int) -> Row:
        """A turn of an item with its cells; its key is the item and the turn."""
        found = self._pages.rows[number]
        try:
            return _line_row(self._pages.line(number), self._shown)
        except StoreError as problem:
            return row(("! ", "error"), (str(problem), "error"), key=(found.item, found.turn))

    def find(self, key: Hashable) -> int | None:
        """The row of a turn."""
        return next((number for number, one in enumerate(self._pages.rows) if (one.item, one.turn) == key), None)


def _line_row(line: GridLine, shown: Layout) -> Row:
    verdict = min(_VERDICT, shown.cell)
    pieces = [Piece(shown.names.fit(line_name(line) or "deleted", shown.name))]
    for number in shown.seen:
        cell = line.cells.get(shown.columns[number].place)
        pieces.append(shown.edge(number))
        if cell is None:
            pieces.append(Piece(" " * shown.cell))
            continue
        look, score = cell_look(cell), cell_score(cell)
        pieces += [
            fit(look.text, verdict, tone_style(look.tone)),
            fit(f" {score}", shown.cell - verdict, "dim"),
        ]
    return Row((*pieces, shown.edge(shown.seen.stop)), (line.item, line.turn))


def beside(width: int, count: int, cursor: int, marked: int | None) -> list[int]:
    """Of so many columns those whose answers stand beside each other: under the cursor, marked, and what follows."""
    after = [number % count for number in range(cursor, cursor + count)]
    wanted = dict.fromkeys([cursor, *([] if marked is None else [marked]), *after])
    return sorted(list(wanted)[: max(1, min(count, width // _BESIDE))])


def text_rows(
    line: GridLine, columns: Sequence[GridColumn], cursor: int, texts: Mapping[int, AnswerText], width: int
) -> Rows:
    """The answers of some columns to a turn beside each other."""
    room = (width - len(_GAP) * (len(columns) - 1)) // len(columns)
    blocks = [_block(line, column, number == cursor, texts, room) for number, column in enumerate(columns)]
    rows = []
    for pieces in zip_longest(*blocks, fillvalue=Piece("")):
        parts: list[Piece] = []
        for text, style in pieces:
            parts += [fit(text, room, style), Piece(_GAP, "dim")]
        rows.append(Row(tuple(parts[:-1])))
    return rows


def _block(line: GridLine, column: GridColumn, here: bool, texts: Mapping[int, AnswerText], room: int) -> list[Piece]:
    """One answer: whose it is, what it came to and why, what was said."""
    pieces = [Piece(column.name, "accent" if here else "strong")]
    cell = line.cells.get(column.place)
    found = None if cell is None else texts.get(cell.answer)
    if cell is None or found is None:
        return [*pieces, Piece("not asked" if cell is None else "deleted", "dim")]
    repeat = f" · repeat {found.repeat + 1} of {cell.answers}" if cell.answers > 1 else ""
    pieces.append(Piece(found.look.text + repeat, tone_style(found.look.tone)))
    pieces += [Piece(part, "dim") for part in wrapped(found.reason, room)] if found.reason else []
    return [*pieces, *(Piece(part) for part in wrapped(found.text, room))]


def place_of(columns: Sequence[GridColumn], place: Column) -> int:
    """The number of a column, 0 where it is not there."""
    return next((number for number, column in enumerate(columns) if column.place == place), 0)
