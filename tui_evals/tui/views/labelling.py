"""Labelling blind as rows: how far one is, what is read of an answer, and what all of it comes to."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from tui_evals.compare.agreeing import Told
from tui_evals.compare.blind import Part, Session
from tui_evals.text.safe import safe_line
from tui_evals.tui.lines import Row, Rows, Style, row

from .parts import Joined, heading, paragraph

_STYLES: Mapping[str, Style] = {"user": "accent", "expected": "pass", "or expected": "pass", "answer": "strong"}
_INDENT = 2
_BAR = 20
_LEAST = 60  # columns from which there is room for a bar


def head_rows(session: Session | None, width: int) -> list[Row]:
    """Which answer this is, of how many, and what was written on it."""
    if session is None or not session.total:
        return [row(("Labelling blind", "title"))]
    if session.answer is None:
        return [row((f"{session.done} of {session.total} labelled", "title"))]
    filled = _BAR * session.done // session.total
    bar = f"  {'█' * filled}{'░' * (_BAR - filled)}" if width >= _LEAST else ""
    note = session.note()
    return [
        row(
            (f"{session.number} of {session.total}", "title"),
            (f"{bar}  {session.done} labelled", "dim"),
            (f" · note: {safe_line(note, 200)}" if note else "", "accent"),
        )
    ]


def sheet_rows(parts: Sequence[Part], width: int) -> Rows:
    """What is read of an answer, from the question on."""
    rows: list[Rows] = []
    for part in parts:
        rows.append([row((safe_line(part.title, width), _STYLES.get(part.title, "dim")))])
        rows.append(paragraph(part.text, width, "", _INDENT))
    return Joined(rows)


def end_rows(session: Session, lines: Iterable[Told], width: int) -> Rows:
    """What was done, then how far the evaluators agree."""
    left = session.total - session.done
    skipped = f" What you skipped ({left}) comes again the next time." if left else ""
    rows: list[Rows] = [paragraph(f"{session.done} of {session.total} labelled, and kept.{skipped}", width, "strong")]
    for line in lines:
        if line.kind == "title":
            rows.append(heading(safe_line(line.text, width)))
        else:
            rows.append(paragraph(line.text, width, line.kind, line.indent))
    return Joined(rows)
