"""What every list and viewer shows: rows of pieces of text, each with the name of a style. No screen is needed."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Literal, NamedTuple, get_args

from rich.cells import cell_len, set_cell_size

from tui_evals.store.records import AnswerStatus
from tui_evals.text.safe import safe, safe_line

Style = Literal[
    "",
    "dim",
    "strong",
    "accent",
    "title",
    "key",
    "pass",
    "fail",
    "partial",
    "error",
    "running",
    "warn",
    "added",
    "removed",
    "changed",
    "mark",
]
STYLES: tuple[Style, ...] = get_args(Style)
Ground = Literal["", "title", "added", "removed", "changed"]
GROUNDS: tuple[Ground, ...] = get_args(Ground)


class Piece(NamedTuple):
    """Some text in one style; whatever it holds, it is made safe where it is drawn."""

    text: str
    style: Style = ""


class Row(NamedTuple):
    """One line. Rows with a key can be chosen; `ground` colours the whole line."""

    pieces: tuple[Piece, ...] = ()
    key: Hashable = None
    ground: Ground = ""


Rows = Sequence[Row]
Maker = Callable[[int], Rows]
"""Makes the rows for a width; the sequence may be lazy, and may have a method `find(key) -> int | None`."""

GLYPHS: dict[AnswerStatus, tuple[str, Style]] = {
    "pending": ("·", "dim"),
    "running": ("▸", "running"),
    "answered": ("…", "running"),
    "pass": ("✓", "pass"),
    "fail": ("✗", "fail"),
    "partial": ("◐", "partial"),
    "error": ("!", "error"),
}


def status_piece(status: AnswerStatus, width: int = 0) -> Piece:
    """A status as glyph and word, padded to a width."""
    glyph, style = GLYPHS[status]
    return Piece(f"{glyph} {status}".ljust(width), style)


def row(*pieces: Piece | str | tuple[str, Style], key: Hashable = None, ground: Ground = "") -> Row:
    """A row of pieces; a bare text has no style."""
    made = (Piece(piece) if isinstance(piece, str) else Piece(*piece) for piece in pieces)
    return Row(tuple(made), key, ground)


def fit(text: str, width: int, style: Style = "", *, right: bool = False) -> Piece:
    """Text in a column exactly `width` cells wide: cut with an ellipsis, or filled with spaces."""
    if width <= 0:
        return Piece("", style)
    line = safe_line(text, width * 2 + 2)
    length = cell_len(line)
    if length > width:
        return Piece(set_cell_size(line, width - 1) + "…", style)
    space = " " * (width - length)
    return Piece(space + line if right else line + space, style)


def wrapped(text: str, width: int) -> list[str]:
    """The lines of a text of any length, made safe, none wider than `width` cells, broken between words if possible."""
    found: list[str] = []
    for line in safe(text).split("\n"):
        found += [line[start:stop] for start, stop in breaks(line, max(width, 1))]
    return found


def breaks(line: str, width: int) -> Sequence[tuple[int, int]]:
    """Where a line is broken: the first and last place of each part; a space between two parts belongs to neither."""
    if len(line) <= width and (line.isascii() or cell_len(line) <= width):
        return ((0, len(line)),)
    found: list[tuple[int, int]] = []
    start = 0
    while start < len(line):
        stop = start + _cells(line, start, width)
        if stop < len(line):
            space = line.rfind(" ", start + 1, stop + 1)
            if space > start:
                found.append((start, space))
                start = space + 1
                continue
        found.append((start, stop))
        start = stop
    return found


def _cells(line: str, start: int, width: int) -> int:
    """How many characters from `start` fit into `width` cells; at least one."""
    part = line[start : start + width]
    if part.isascii() or (cell_len(part[0]) < 2 and cell_len(part) <= width):
        return len(part)
    used = 0
    for number, character in enumerate(part):
        used += cell_len(character)
        if used > width:
            return max(number, 1)
    return len(part)
