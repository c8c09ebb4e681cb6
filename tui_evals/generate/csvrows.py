"""The rows of CSV as models write it: in a fence, with chatter before it, torn by a comma."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

_COMMENT = re.compile(r"#(?!\s*[0-9]+\W*$)")
_CELL = re.compile(r'([ \t]*)("(?:[^"]|"")*"|[^,]*?)[ \t]*,')
_SPELLING = re.compile(r"[\s_*`-]+")


def spelled(name: str) -> str:
    """The name of a column without the ways in which models spell it differently."""
    return _SPELLING.sub("", name).lower()


@dataclass(frozen=True, slots=True)
class Row:
    """The cells of one row; `sure` says that it was a row of a table as it stood, not put together by us."""

    cells: Sequence[str]
    raw: str = ""
    sure: bool = True


def put_together(row: Row, header: Sequence[str]) -> Row:
    """A row with too many cells, where exactly those too many go on after a comma and a space, as a sentence does."""
    cells: list[str] = []
    torn = quoted = False
    for space, cell in _CELL.findall(f"{row.raw},"):
        was, quoted = quoted, cell.startswith('"')
        if space and cell and not quoted and not was and len(cells) > 2:
            cells[-1] += f", {cell}"
            torn = True
        else:
            cells.append(cell[1:-1].replace('""', '"') if quoted else cell)
    return Row(cells, row.raw, sure=False) if torn and len(cells) == len(header) else row


def csv_of(text: str) -> str:
    """The CSV of a reply without its fence; an escaped quotation mark is a doubled one."""
    lines = text.split("\n")
    first = next((place for place, line in enumerate(lines) if "ruleid" in spelled(line)), 0)
    ends = [place for place, line in enumerate(lines) if place > first and line.startswith("```")]
    # A fence in a cell is text; only one that opens before the first line is around the table.
    fenced = any(line.lstrip().startswith("```") for line in lines[:first])
    plain = "\n".join(lines[first : ends[-1] if fenced and ends else None])
    return plain.replace('\\"', '""')


def well_quoted(text: str, delimiter: str) -> bool:
    """Whether every quotation mark of a CSV text has its other one where it belongs."""
    try:
        lines = io.StringIO(text, newline="")
        return bool(list(csv.reader(lines, delimiter=delimiter, skipinitialspace=True, strict=True)))
    except csv.Error:
        return False


def records(text: str, delimiter: str) -> Iterator[Row]:
    """The rows of a CSV text that are no comment."""
    lines = io.StringIO(text, newline="").readlines()
    reader = csv.reader(lines, delimiter=delimiter, skipinitialspace=True)
    read = 0
    while True:
        try:
            cells = next(reader, None)
        except csv.Error:  # a cell longer than the module takes
            continue
        if cells is None:
            return
        raw, read = "".join(lines[read : reader.line_num]).rstrip("\r\n"), reader.line_num
        if delimiter == "|" and cells:  # a table of Markdown has a bar before its first cell and one behind its last
            cells = [cell.strip() for cell in cells[not cells[0].strip() : -1 if not cells[-1].strip() else None]]
        if any(cell.strip() for cell in cells) and not _COMMENT.match(cells[0]):
            yield Row(cells, raw if delimiter == "," else "")
