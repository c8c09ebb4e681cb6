"""The transcript of an answer as a tree that unfolds: steps with time and cost, what is in them, and all their text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from tui_evals.present.transcripts import TranscriptLine
from tui_evals.text.safe import safe_line
from tui_evals.tui.rows import JoinedRows, LazyRows, Piece, Row, Rows, Style, fit, paragraph

Fold = Literal["steps", "parts", "all"]
FOLDS: tuple[Fold, ...] = ("steps", "parts", "all")
"""How far the tree is unfolded: to the steps, to a line for each part, or to all that was said."""
_WHOLE = 400
"""Lines up to which a transcript is shown whole unless folded."""
_STYLES: Mapping[str, Style] = {
    "asked": "strong",
    "step": "accent",
    "thought": "dim",
    "call": "strong",
    "failed": "warn",
    "found": "strong",
    "cited": "dim",
    "left": "dim",
}


def fold_of(lines: Sequence[TranscriptLine], wanted: Fold | None) -> Fold:
    """How far the tree is unfolded: as wanted, else whole where it is short."""
    return wanted or ("all" if len(lines) <= _WHOLE else "parts")


def tree_rows(lines: Sequence[TranscriptLine], width: int, wanted: Fold | None = None) -> Rows:
    """The rows of a transcript; of one that is folded each is made when it comes into sight."""
    match fold_of(lines, wanted):
        case "steps":
            return _FoldedRows([line for line in lines if line.depth == 0], width, is_open=False)
        case "parts":
            return _FoldedRows(lines, width, is_open=True)
        case _:
            return JoinedRows([part for line in lines for part in _whole(line, width)])


def _whole(line: TranscriptLine, width: int) -> list[Rows]:
    """A line of a transcript with all its text; the duration of a step is next to it, of others below."""
    beside = line.depth == 0
    note = f" · {line.note}" if line.note and beside else ""
    rows: list[Rows] = [paragraph(f"{line.text}{note}", width, _STYLES.get(line.kind, ""), 2 * line.depth)]
    if line.note and not beside:
        rows.append(paragraph(line.note, width, "dim", 2 * line.depth))
    return rows


class _FoldedRows(LazyRows):
    """A row for each line, cut to the width, with what it took at its end."""

    def __init__(self, lines: Sequence[TranscriptLine], width: int, *, is_open: bool) -> None:
        self._lines = lines
        self._width = width
        self._is_open = is_open

    def __len__(self) -> int:
        return len(self._lines)

    def row_at(self, number: int) -> Row:
        line = self._lines[number]
        mark = ("▾ " if self._is_open else "▸ ") if line.depth == 0 else ""
        style = _STYLES.get(line.kind, "")
        note = safe_line(line.note, max(self._width // 2, 1))
        room = max(self._width - 2 * line.depth - len(note) - 1, 1)
        # The text is of any length, and only its beginning is in sight.
        text = safe_line(f"{mark}{line.text[: 4 * self._width]}", 4 * self._width)
        return Row((Piece("  " * line.depth), fit(text, room, style), Piece(f" {note}", "dim")))
