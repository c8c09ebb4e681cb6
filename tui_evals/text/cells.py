"""Cells of a table that a spreadsheet may open."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable

# Full-width and small forms count as the plain signs; what a spreadsheet may drop before a sign does not hide it.
_FORMULA = re.compile(r'[\t\r\n]|[\s"\x00-\x1f\x7f-\x9f\u200b-\u200f\u2060\ufeff]*[=+\-@＝＋－＠﹦﹢﹣﹫]')
_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")


def escape_formula(cell: str) -> str:
    """The cell, with a quote before it where a spreadsheet could take it for a formula; numbers stay."""
    return "'" + cell if _FORMULA.match(cell) and not _NUMBER.fullmatch(cell) else cell


class _Line:
    """What a writer of CSV writes to: its one line, as the answer of `writerow`."""

    def write(self, line: str) -> str:
        # The writer quotes a lone carriage return only where its own lines end in one.
        return line[:-2] + "\n"


_WRITER = csv.writer(_Line(), lineterminator="\r\n")


def csv_line(cells: Iterable[str]) -> str:
    """One line of CSV that reads back as these cells, whatever line breaks they hold."""
    # Of a list the writer makes the line at one go, so that threads can share it.
    line: str = _WRITER.writerow(list(cells))
    return line
