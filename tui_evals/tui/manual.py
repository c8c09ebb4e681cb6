"""A page of the manual as rows: headings stand out, paragraphs fill the width, examples stay as they are written."""

from __future__ import annotations

import re

from .rows import Row, row, wrapped

_OF_ITS_OWN = re.compile(r"\s|[-*|#]|\d+\.|$")
"""How a line begins that does not go on where the one before ended."""
_CELL = 16  # columns for the first cell of a table
_SECOND_COLUMN = re.compile(r"\s*(?:\S.*?\s{2,})?")


def page_rows(text: str, width: int) -> list[Row]:
    """A page of the manual: paragraphs fill the width, headings stand out, examples stay as they are written."""
    rows: list[Row] = []
    lines: list[str] = []

    def end_paragraph() -> None:
        if lines:
            indent = "  " if lines[0].startswith(("* ", "- ")) else ""
            first, *rest = wrapped(" ".join(lines).replace("**", ""), width - len(indent))
            rows.extend((row(first), *(row(indent, line) for line in rest)))
            lines.clear()

    for line in text.splitlines():
        goes_on = bool(lines) and lines[0].startswith(("* ", "- ")) and line.startswith("  ")
        if (_OF_ITS_OWN.match(line) and not goes_on) or line.startswith("    "):
            end_paragraph()
        if line.startswith("#"):
            rows += [row((part, "title")) for part in wrapped(line.lstrip("# "), width)]
        elif line.startswith("|"):
            rows += _table_rows(line, width)
        elif not line or (line[0].isspace() and not lines):
            rows += _example_rows(line, width)
        else:
            lines.append(line.strip())
    end_paragraph()
    return rows


def _example_rows(line: str, width: int) -> list[Row]:
    """A line that is no sentence; what there is no room for goes on below where its second column begins."""
    begins = _SECOND_COLUMN.match(line)
    indent = begins.end() if begins is not None and begins.end() <= width // 2 else 0
    first, *more = wrapped(line[indent:], width - indent)
    return [row((line[:indent] + first, "dim")), *(row((" " * indent + part, "dim")) for part in more)]


def _table_rows(line: str, width: int) -> list[Row]:
    """A line of a table: its first cell stands out; the line below a heading is left out."""
    cells = [cell.strip().strip("`").replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", line.strip().strip("|"))]
    if not any(cells) or set("".join(cells)) <= {"-", ":"}:
        return []
    head, *rest = cells
    head = head.replace("`", "")
    told = wrapped("  ".join(rest).replace("`", ""), max(width - _CELL - 1, 10))
    if len(head) > _CELL:
        return [*(row((part, "key")) for part in wrapped(head, width)), *(row(" " * (_CELL + 1), one) for one in told)]
    return [row((f"{head:<{_CELL}} ", "key"), told[0]), *(row(" " * (_CELL + 1), part) for part in told[1:])]
