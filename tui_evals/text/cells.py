"""Cells of a table that a spreadsheet may open."""

from __future__ import annotations

_TRIGGERS = tuple("=+-@\t\r＝＋－＠")


def guard(cell: str) -> str:
    """The cell, made harmless where a spreadsheet would take it for a formula; numbers stay."""
    if not cell.startswith(_TRIGGERS):
        return cell
    try:
        float(cell)
    except ValueError:
        return "'" + cell
    return cell
