"""Texts of datasets and models as the page shows them: marked where they differ, folded where they are long."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tui_evals.compare.diff import Diff, Row, Span, diff_json, side_by_side

MOST = 100_000
"""Characters of one text that the page holds."""

_HEAD, _SLACK = 1_500, 600
_LINES = 30
_COMPARED = 20_000  # characters of both texts together; comparing more of them takes long for thousands of items
_SHARED = 0.2  # share of the shorter text that must stand in both before marks tell anything


@dataclass(frozen=True, slots=True)
class Text:
    """A text in spans, its beginning apart from the rest where it is long."""

    head: tuple[Span, ...]
    rest: tuple[Span, ...] = ()
    more: int = 0
    """Characters in the rest."""
    left_out: int = 0
    """Characters that are not on the page."""
    code: bool = False
    """Every space of it counts."""


@dataclass(frozen=True, slots=True)
class Marks:
    """Two texts with the words marked that the other one lacks."""

    left: tuple[Span, ...]
    right: tuple[Span, ...]


def text(value: str, spans: Sequence[Span] = ()) -> Text:
    """A text to show, with the marks it has, if any."""
    pieces = tuple(spans) or (Span(value, False),)
    whole = sum(len(span.text) for span in pieces)
    code = value.lstrip()[:1] in ("{", "[") or "```" in value
    if whole > MOST:
        pieces, _ = _split(pieces, MOST)
    shown = min(whole, MOST)
    at = _fold("".join(span.text for span in pieces))
    if at is None:
        return Text(pieces, left_out=whole - shown, code=code)
    head, rest = _split(pieces, at)
    return Text(head, rest, shown - at, whole - shown, code)


def optional(value: object) -> Text | None:
    """The text if it is one and says something."""
    return text(value) if isinstance(value, str) and value.strip() else None


def same(left: str, right: str) -> bool:
    """Whether nobody could tell the two apart."""
    return left.strip() == right.strip()


def marks(left: str, right: str) -> Marks | None:
    """What differs, where that is worth showing: not between strangers, and not in texts that are too long."""
    if not left.strip() or not right.strip() or len(left) + len(right) > _COMPARED or same(left, right):
        return None
    both = all(one.lstrip()[:1] in ("{", "[") for one in (left, right))
    diff = (diff_json if both else side_by_side)(left, right)
    found = Marks(_joined(diff, "left"), _joined(diff, "right"))
    shared = sum(len(span.text.strip()) for span in found.left if not span.changed)
    return found if shared >= _SHARED * min(len(left.strip()), len(right.strip())) else None


def _joined(diff: Diff, side: str) -> tuple[Span, ...]:
    """One side of a diff as a text again: neighbours of a kind together, and no space marked around words."""
    found: list[Span] = []
    for span in _spans(diff.rows, side):
        for part in _bare(span):
            if found and found[-1].changed == part.changed:
                found[-1] = Span(found[-1].text + part.text, part.changed)
            elif part.text:
                found.append(part)
    return tuple(found)


def _bare(span: Span) -> tuple[Span, ...]:
    """A marked piece without the mark on the space around it."""
    words = span.text.strip()
    if not span.changed or not words:
        return (span,)
    start = span.text.index(words)
    end = start + len(words)
    return Span(span.text[:start], False), Span(words, True), Span(span.text[end:], False)


def _spans(rows: Iterable[Row], side: str) -> Iterable[Span]:
    for row in rows:
        part = row.left if side == "left" else row.right
        yield from part.spans if part else ()


def _fold(value: str) -> int | None:
    """Where the beginning of a long text ends; None where all of it is short enough to stand there."""
    end, lines = len(value), 0
    for number in range(min(end, _HEAD)):
        if value[number] == "\n":
            lines += 1
            if lines == _LINES:
                end = number + 1
                break
    at = min(end, _HEAD)
    if len(value) - at <= _SLACK and value.count("\n", at) < _LINES:
        return None
    if end > _HEAD:
        found = max(value.rfind("\n", _HEAD // 2, at), value.rfind(" ", _HEAD // 2, at)) + 1
        at = found or at
    return at


def _split(pieces: Sequence[Span], at: int) -> tuple[tuple[Span, ...], tuple[Span, ...]]:
    head: list[Span] = []
    rest: list[Span] = []
    for span in pieces:
        if at >= len(span.text):
            head.append(span)
        elif at <= 0:
            rest.append(span)
        else:
            head.append(Span(span.text[:at], span.changed))
            rest.append(Span(span.text[at:], span.changed))
        at -= len(span.text)
    return tuple(head), tuple(rest)
