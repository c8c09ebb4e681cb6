"""A diff as rows: two columns that stay in step because they are one list, or one column; signs next to the colors."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from tui_evals.present.columns import TAB, cell_width
from tui_evals.text.measures import counted
from tui_evals.text.safe import safe, safe_line, spell_out

from .rows import BlockRows, Ground, LazyRows, Piece, Row, Rows, Style, StyledLines, fit, row

if TYPE_CHECKING:
    from tui_evals.compare.diff import Diff, DiffGap, DiffSide, Kind
    from tui_evals.compare.diff import DiffRow as Facing

Layout = Literal["sides", "unified", "answer"]


NARROWEST = 50
"""Cells below which two columns cannot be read."""


SIGNS: dict[Kind, str] = {"same": " ", "changed": "~", "removed": "-", "added": "+"}


_GROUNDS: dict[Kind, Ground] = {"same": "", "changed": "changed", "removed": "removed", "added": "added"}


_UNIT = {"line": "line", "sentence": "sentence", "json": "line of JSON"}


_UNITS = {"line": "lines", "sentence": "sentences", "json": "lines of JSON"}


_PLACES = 4


_Parts = list[tuple[str, Style]]


def diff_texts(reference: str, answer: str, raw: bool = False) -> Diff:
    """The diff of two texts; raw texts are escaped and never parsed as JSON."""
    # Imported when needed, as below: that would delay the first frame.
    from tui_evals.compare.diff import diff_json, side_by_side

    if raw:
        return side_by_side(spell_out(reference), spell_out(answer))
    both = all(text.lstrip()[:1] in ("{", "[") for text in (reference, answer))
    return (diff_json if both else side_by_side)(reference, answer)


def diff_summary(diff: Diff) -> str:
    """A diff in one line: how many rows changed in which way, and where JSON differs."""
    if diff.same:
        return "the same JSON as expected" if diff.unit == "json" else "the answer is what was expected"
    counts = Counter(facing.kind for facing in diff.rows)
    kinds: tuple[Kind, ...] = ("changed", "removed", "added")
    one, several = _UNIT[diff.unit], _UNITS[diff.unit]
    parts = [f"{SIGNS[kind]} {n} {one if n == 1 else several} {kind}" for kind in kinds if (n := counts[kind])]
    if diff.changes:
        paths = [change.path for change in diff.changes[:_PLACES]]
        more = len(diff.changes) - len(paths)
        parts.append(f"at {', '.join(paths)}" + (f" and {counted(more, 'more place')}" if more else ""))
    if diff.coarse:
        parts.append("too long to compare in full")
    return " · ".join(parts)


class SideBySideRows(BlockRows["Facing"]):
    """Reference left, answer right, each wrapped to half the width."""

    def __init__(self, diff: Diff, width: int) -> None:
        half = max((width - 3) // 2, 1)
        super().__init__(diff.rows, lambda facing: _PairRows(facing, half))


class _PairRows(LazyRows):
    """One aligned pair of lines, as high as the higher of the two."""

    def __init__(self, facing: Facing, half: int) -> None:
        ends = _ends_alike(facing)
        self._kind: Kind = facing.kind
        self._half = half
        self._left = StyledLines(side_parts(facing.left, "removed", ends), half) if facing.left else None
        same = facing.kind == "same"
        self._right = (
            self._left if same else StyledLines(side_parts(facing.right, "added", ends), half) if facing.right else None
        )

    def __len__(self) -> int:
        return max(len(cut) for cut in (self._left, self._right) if cut is not None)

    def row_at(self, number: int) -> Row:
        left, right = self._left, self._right
        one = left[number] if left is not None and number < len(left) else None
        other = right[number] if right is not None and number < len(right) else None
        before = Piece(" " if one is None else SIGNS[self._kind], "strong")
        after = Piece(" " if other is None else SIGNS[self._kind], "strong")
        pieces = (before, *filled_up(one or (), self._half), Piece("│", "dim"), after, *(other or ()))
        return Row(pieces, None, _GROUNDS[self._kind])


def column_titles(width: int, left: str = "expected", right: str = "answer") -> Row:
    """The row with the titles of the two columns."""
    half = max((width - 3) // 2, 1)
    return row(" ", fit(left, half, "dim"), ("│ ", "dim"), fit(right, half, "dim"))


def unified_rows(diff: Diff, width: int, *, whole: bool = False) -> Rows:
    """The diff in one column; unchanged parts far from a change are left out unless `whole`."""
    return BlockRows(_entries(diff, whole), lambda entry: _unified_part(entry, diff, width))


class _ColumnRows(LazyRows):
    """The lines of one side, each with its sign."""

    def __init__(self, side: DiffSide, kind: Kind, width: int) -> None:
        self._kind: Kind = kind
        self._cut = StyledLines(side_parts(side, "added" if kind == "added" else "removed", True), width - 1)

    def __len__(self) -> int:
        return len(self._cut)

    def row_at(self, number: int) -> Row:
        return Row((Piece(SIGNS[self._kind], "strong"), *self._cut[number]), None, _GROUNDS[self._kind])


def _unified_part(entry: Facing | DiffGap, diff: Diff, width: int) -> Rows:
    from tui_evals.compare.diff import DiffGap

    if isinstance(entry, DiffGap):
        return [row((f"⋯ {entry.count} {_UNITS[diff.unit]} alike", "dim"))]
    side = entry.right or entry.left
    return _ColumnRows(side, entry.kind, width) if side else ()


def unified_text(diff: Diff) -> str:
    """The unified diff of the whole texts as plain text, each line with its sign."""
    from tui_evals.compare.diff import DiffGap

    lines: list[str] = []
    for entry in _entries(diff, whole=True):
        side = None if isinstance(entry, DiffGap) else entry.right or entry.left
        if side is not None and not isinstance(entry, DiffGap):
            lines += [SIGNS[entry.kind] + line for line in side.text.removesuffix("\n").split("\n")]
    return "\n".join(lines) + "\n"


def _entries(diff: Diff, whole: bool) -> Sequence[Facing | DiffGap]:
    """The rows of a unified diff; texts that are the same are shown whole."""
    from tui_evals.compare.diff import unified_diff

    return diff.rows if diff.same else unified_diff(diff, len(diff.rows)) if whole else unified_diff(diff)


def is_change(entry: Facing | DiffGap) -> bool:
    """Whether a row of a diff differs; a gap does not."""
    return getattr(entry, "kind", "same") != "same"


def _ends_alike(facing: Facing) -> bool:
    sides = [side.text.endswith("\n") for side in (facing.left, facing.right) if side]
    return len(sides) < 2 or sides[0] == sides[1]


def side_parts(side: DiffSide, style: Style, ends_alike: bool) -> _Parts:
    """The spans of a side made safe, marked where only some of them changed; a line end that only it has is shown."""
    whole = all(span.changed for span in side.spans)
    parts: _Parts = [
        (safe(span.text).replace("\t", TAB), style if span.changed and not whole else "") for span in side.spans
    ]
    text, last = parts[-1] if parts else ("", style)
    if text.endswith("\n"):
        parts[-1] = (text[:-1], last)
        if not ends_alike:
            parts.append(("⏎", style))
    return parts


def marked_sides(diff: Diff) -> tuple[_Parts, _Parts]:
    """Both texts of a diff with the parts that only one has marked; unmarked if they share nothing."""
    left: _Parts = []
    right: _Parts = []
    sides = [(facing.left, facing.right) for facing in diff.rows]
    alike = any(not span.changed for both in sides for side in both if side for span in side.spans)
    for one, other in sides:
        _add_spans(left, one, "removed" if alike else "")
        _add_spans(right, other, "added" if alike else "")
    return left, right


def _add_spans(parts: _Parts, side: DiffSide | None, style: Style) -> None:
    for span in side.spans if side is not None else ():
        parts.append((safe_line(span.text), style if span.changed else ""))


def filled_up(pieces: tuple[Piece, ...], width: int) -> tuple[Piece, ...]:
    """Pieces with spaces up to a width, as wide as they will be drawn."""
    used = sum(cell_width(safe_line(piece.text)) for piece in pieces)
    return (*pieces, Piece(" " * max(width - used, 0)))
