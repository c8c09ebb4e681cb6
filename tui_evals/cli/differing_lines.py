"""A diff as lines: two columns, or one; what changed stands in marks, so that no colour is needed to see it."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from itertools import groupby, zip_longest

from tui_evals.compare.diff import Diff, Gap, Kind, Row, Side, unified
from tui_evals.text.safe import safe

from .tables import fit, wrapped

Coloured = tuple[str, str | None]

WIDE = 100
"""Columns of a terminal from which two texts stand beside each other."""

_CONTEXT = 3
_SIGNS: dict[Kind, str] = {"same": " ", "changed": "~", "removed": "-", "added": "+"}
_COLOURS: dict[Kind, str | None] = {"same": None, "changed": "yellow", "removed": "red", "added": "green"}
_UNITS = {"line": "lines", "sentence": "sentences", "json": "lines of JSON"}


def beside(diff: Diff, room: int) -> Iterator[Coloured]:
    """Expected left, answered right."""
    half = (room - 5) // 2
    yield f"  {fit('expected', half)} │ answer", None
    ends = _ends(diff)
    for row in _near(diff):
        if isinstance(row, Gap):
            yield _skipped(row, diff), None
            continue
        left, right = (wrapped(_marked(side, row, ends), half) if side else [] for side in (row.left, row.right))
        sign, colour = _SIGNS[row.kind], _COLOURS[row.kind]
        for one, other in zip_longest(left, right, fillvalue=""):
            yield f"{sign} {fit(one, half)} │ {other}".rstrip(), colour


def below(diff: Diff, room: int | None) -> Iterator[Coloured]:
    """What was expected above what was answered, in one column."""
    ends = _ends(diff)
    for row in diff.rows if diff.same else unified(diff, _CONTEXT):
        if isinstance(row, Gap):
            yield _skipped(row, diff), None
            continue
        side = row.right or row.left
        for line in wrapped(_marked(side, row, ends), None if room is None else room - 2) if side else ():
            yield f"{_SIGNS[row.kind]} {line}".rstrip(), _COLOURS[row.kind]


def _skipped(gap: Gap, diff: Diff) -> str:
    return f"⋯ {gap.count:,} {_UNITS[diff.unit]} alike"


def _near(diff: Diff) -> Iterator[Row | Gap]:
    """The rows without those that are far from every change; all of them where nothing changed."""
    blocks = [(same, list(block)) for same, block in groupby(diff.rows, key=lambda row: row.kind == "same")]
    for number, (same, block) in enumerate(blocks):
        head = _CONTEXT if number else 0
        tail = len(block) - (_CONTEXT if number < len(blocks) - 1 else 0)
        if not same or len(blocks) == 1 or tail - head <= 1:
            yield from block
        else:
            yield from block[:head]
            yield Gap(tail - head)
            yield from block[tail:]


def _marked(side: Side, row: Row, ends: Collection[int]) -> str:
    """A side as text, with marks around what changed where that is not all of it; a line end only it has is shown."""
    whole = all(span.changed for span in side.spans)
    opening, closing = ("{+", "+}") if side is row.right else ("[-", "-]")
    text = "".join(
        _bracketed(span.text, opening, closing) if span.changed and not whole else safe(span.text)
        for span in side.spans
    )
    return text.removesuffix("\n") + ("⏎" if id(side) in ends else "")


def _bracketed(text: str, opening: str, closing: str) -> str:
    """A changed span in its marks; they leave out the space behind words, and the end of the line."""
    shown = safe(text)
    line = shown.removesuffix("\n")
    core = line.rstrip() or line
    return f"{opening}{core}{closing}{shown[len(core) :]}" if core else shown


def _ends(diff: Diff) -> set[int]:
    """Which sides end in a line break that what faces them lacks."""
    found = set()
    for row in diff.rows:
        if row.left and row.right and (left := row.left.text.endswith("\n")) != row.right.text.endswith("\n"):
            found.add(id(row.left if left else row.right))
    return found
