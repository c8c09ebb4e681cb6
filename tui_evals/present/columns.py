"""Text that fits: cut or filled to a width, broken into lines, laid out in columns, by the cells its signs take."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from tui_evals.text.safe import safe, safe_line

Table = Sequence[Sequence[str]]
Break = tuple[int, int]
"""The first character of a part of a line, and the one after its last."""

TAB = "    "
_GAP = "  "
_WINDOW = 8
"""Characters that are looked at for each cell: a sign may be made of several."""
_PLAIN = re.compile(r"[ -~\u00a1-\u00ac\u00ae-\u02ff\u0370-\u0482\u2010-\u2027\u2500-\u25fc]*")
"""Characters that are a sign of one cell each, for which nobody has to look: most of western text and all borders."""
_LEAST = 8
"""Cells that a column keeps, however narrow the room is."""


def cell_width(text: str) -> int:
    """How many cells a text takes on a line."""
    if text.isascii() or _PLAIN.fullmatch(text):
        return len(text)
    # Imported when a text needs it, as below: its tables would hold up every first picture.
    from wcwidth import wcswidth, wcwidth

    width = wcswidth(text)
    return width if width >= 0 else sum(max(wcwidth(sign), 0) for sign in text)  # a control character is not drawn


def fit(text: str, width: int, *, right: bool = False) -> str:
    """A text made safe, on one line, exactly so many cells wide: cut with an ellipsis, or filled with spaces."""
    if width <= 0:
        return ""
    line = safe_line(text, width * 2 + 2)
    length = cell_width(line)
    if length > width:
        head = beginning(line, width - 1)
        return f"{head}{' ' * (width - 1 - cell_width(head))}…"
    space = " " * (width - length)
    return space + line if right else line + space


def beginning(line: str, width: int) -> str:
    """As many signs of a line as fit."""
    head = line[: _characters(line, 0, width)] if width > 0 else ""
    return head if cell_width(head) <= width else ""


def cut(text: str, room: int | None) -> str:
    """A text made safe, on one line, cut where the room ends."""
    return safe_line(text) if room is None else fit(text, room).rstrip()


def wrap(text: str, room: int | None) -> list[str]:
    """The lines of a text made safe, none wider than the room, broken between words where that is possible."""
    lines = safe(text).replace("\t", TAB).split("\n")
    if room is None:
        return lines
    return [line[start:stop] for line in lines for start, stop in breaks(line, max(room, 1))]


def breaks(line: str, width: int) -> Sequence[Break]:
    """Where a line is broken; a space between two parts belongs to neither."""
    if len(line) <= width and cell_width(line) <= width:
        return ((0, len(line)),)
    parts: list[Break] = []
    start = 0
    while start < len(line):
        stop = start + _characters(line, start, width)
        if stop < len(line):
            space = line.rfind(" ", start + 1, stop + 1)
            if space > start:
                parts.append((start, space))
                start = space + 1
                continue
        parts.append((start, stop))
        start = stop
    return parts


def _characters(line: str, start: int, width: int) -> int:
    """How many characters from `start` fit into `width` cells without cutting a sign in two; at least one."""
    part = line[start : start + width + 1]
    if _PLAIN.fullmatch(part):  # the next character too, so that it belongs to no sign before it
        return min(len(part), width)
    from wcwidth import iter_graphemes

    part = line[start : start + _WINDOW * (width + 1)]
    used = count = 0
    for sign in iter_graphemes(part):
        used += cell_width(sign)
        if used > width:
            break
        count += len(sign)
    while count > 1 and cell_width(part[:count]) > width:  # some signs are wider together than one by one
        count -= 1
    return max(count, 1)


def table(rows: Table, *, right: Collection[int] = (), elastic: Collection[int] = (0,), room: int | None) -> list[str]:
    """The rows as lines of equal columns; where the room is too small the elastic columns are cut, widest first."""
    cells = [[safe_line(text) for text in row] for row in rows]
    widths = [max(map(cell_width, column)) for column in zip(*cells, strict=True)]
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


def _shrink(widths: list[int], elastic: Collection[int], room: int) -> None:
    while elastic and sum(widths) > room:
        widest = max(elastic, key=lambda number: widths[number])
        if widths[widest] <= _LEAST:
            return
        widths[widest] -= 1
