"""Tables and paragraphs that fit a terminal, by the cells that their signs take; elsewhere nothing is cut."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from rich.cells import cell_len

from tui_evals.text.safe import safe, safe_line

Rows = Sequence[Sequence[str]]

_GAP = "  "
_LEAST = 8
"""Cells that a column keeps, however narrow the terminal is."""


def size(text: str) -> int:
    """How many cells a text takes on a line."""
    return len(text) if text.isascii() else cell_len(text)


def fit(text: str, width: int, *, right: bool = False) -> str:
    """A text on one line, exactly so many cells wide: cut with an ellipsis, or filled with spaces."""
    line = safe_line(text, 2 * width + 2)
    if size(line) > width:
        line = line[: fitting(line, width - 1)] + "…" if width > 0 else ""
    space = " " * (width - size(line))
    return space + line if right else line + space


def fitting(line: str, width: int) -> int:
    """How many characters from the beginning of a line fit into so many cells."""
    used = 0
    for number, character in enumerate(line[: width + 1]):
        used += size(character)
        if used > width:
            return number
    return min(len(line), width + 1)


def table(rows: Rows, *, right: Collection[int] = (), elastic: Collection[int] = (0,), room: int | None) -> list[str]:
    """The rows as lines of equal columns; where the room is too small the elastic columns are cut, widest first."""
    cells = [[safe_line(text) for text in row] for row in rows]
    widths = [max(map(size, column)) for column in zip(*cells, strict=True)]
    if room is not None:
        _shrink(widths, elastic, room - len(_GAP) * (len(widths) - 1))
    lines = (
        _GAP.join(
            fit(text, width, right=number in right)
            for number, (text, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in cells
    )
    return [(line if room is None else fit(line, room)).rstrip() for line in lines]


def wrapped(text: str, room: int | None) -> list[str]:
    """The lines of a text, none wider than the room, broken between words where that is possible."""
    lines = safe(text).replace("\t", "    ").split("\n")
    return lines if room is None else [part for line in lines for part in _broken(line, max(room, 2))]


def _broken(line: str, room: int) -> list[str]:
    found: list[str] = []
    start = 0
    while True:
        stop = start + fitting(line[start : start + room + 1], room)
        if stop >= len(line):
            return [*found, line[start:]]
        space = line.rfind(" ", start + 1, stop + 1)
        found.append(line[start : space if space > start else stop])
        start = space + 1 if space > start else stop


def _shrink(widths: list[int], elastic: Collection[int], room: int) -> None:
    while sum(widths) > room:
        widest = max(elastic, key=lambda number: widths[number])
        if widths[widest] <= _LEAST:
            return
        widths[widest] -= 1
