"""The content of all lists and viewers: rows of styled text, and long documents whose rows are made lazily."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Generic, Literal, NamedTuple, TypeVar

from tui_evals.light_records import LazySequence
from tui_evals.present import columns
from tui_evals.present.status import ANSWER_LOOKS, Look, Tone
from tui_evals.store.records import AnswerStatus

Style = Literal[
    "",
    "dim",
    "strong",
    "accent",
    "title",
    "key",
    "pass",
    "fail",
    "error",
    "running",
    "warn",
    "added",
    "removed",
    "changed",
    "mark",
]
Ground = Literal["", "title", "added", "removed", "changed"]


class Piece(NamedTuple):
    """Text in one style; it is sanitized when it is drawn."""

    text: str
    style: Style = ""


class Row(NamedTuple):
    """One line. Rows with a key can be selected; `ground` is the background of the whole line."""

    pieces: tuple[Piece, ...] = ()
    key: Hashable = None
    ground: Ground = ""


Rows = Sequence[Row]
RowMaker = Callable[[int], Rows]
"""Makes the rows for a width; the sequence may be lazy, and may have a method `find(key) -> int | None`."""

_TONES: Mapping[Tone, Style] = {
    "": "",
    "ok": "pass",
    "bad": "fail",
    "warn": "warn",
    "error": "error",
    "busy": "running",
    "dim": "dim",
}


def tone_style(tone: Tone) -> Style:
    """The style in which the workbench draws a tone."""
    return _TONES[tone]


def look_piece(look: Look, width: int = 0) -> Piece:
    """A status or kind as glyph and word, padded to a width."""
    return Piece(look.text.ljust(width), tone_style(look.tone))


def status_piece(status: AnswerStatus, width: int = 0) -> Piece:
    """The status of an answer as glyph and word, padded to a width."""
    return look_piece(ANSWER_LOOKS[status], width)


def row(*pieces: Piece | str | tuple[str, Style], key: Hashable = None, ground: Ground = "") -> Row:
    """A row of pieces; a bare text has no style."""
    made = (Piece(piece) if isinstance(piece, str) else Piece(*piece) for piece in pieces)
    return Row(tuple(made), key, ground)


def fit(text: str, width: int, style: Style = "", *, right: bool = False) -> Piece:
    """Text in a column exactly `width` cells wide: cut with an ellipsis, or filled with spaces."""
    return Piece(columns.fit(text, width, right=right), style)


def wrapped(text: str, width: int) -> list[str]:
    """The lines of a text of any length, made safe, none wider than `width` cells, broken between words if possible."""
    return columns.wrap(text, width)


Source = TypeVar("Source")
_LONG, _NEAR = 500, 200


LazyRows = LazySequence[Row]
"""Rows that are made one by one when they are asked for."""


class Step(NamedTuple):
    """The key of a row that does an action when it is chosen."""

    where: str
    name: str
    keys: str
    says: str


NO_RUN = (
    Step("everywhere", "run", "1 g r", "run the whole dataset; the cost is shown first"),
    Step("judges", "add", "3 a", "add an evaluator"),
    Step("tree", "new", "1 n", "add an item"),
)
"""The steps for a dataset without a run; `r` alone runs the selection in pane 1."""
_STEP_KEYS = 7


def step_rows(steps: Iterable[Step], width: int) -> list[Row]:
    """A row for each step, with the keys that do the same."""
    rows: list[Row] = []
    for step in steps:
        first, *rest = wrapped(step.says, max(width - _STEP_KEYS - 2, 10))
        rows.append(row(" ", fit(step.keys, _STEP_KEYS, "key"), " ", first, key=step))
        rows += [row(" " * (_STEP_KEYS + 2), line) for line in rest]
    return rows


class TextRows(LazyRows):
    """The lines of a text, indented and in one style."""

    def __init__(self, lines: Sequence[str], style: Style = "", indent: int = 0) -> None:
        self._lines = lines
        self._style = style
        self._space = (Piece(" " * indent),) if indent else ()

    def __len__(self) -> int:
        return len(self._lines)

    def row_at(self, number: int) -> Row:
        return Row((*self._space, Piece(self._lines[number], self._style)))


class JoinedRows(LazyRows):
    """Parts one below the other."""

    def __init__(self, parts: Sequence[Rows]) -> None:
        self._parts = parts
        self._ends = list(accumulate(map(len, parts)))

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    def __iter__(self) -> Iterator[Row]:
        for part in self._parts:
            yield from part

    def row_at(self, number: int) -> Row:
        part = bisect_right(self._ends, number)
        return self._parts[part][number - (self._ends[part - 1] if part else 0)]


class BlockRows(LazyRows, Generic[Source]):
    """Things of some lines each, made into rows when they come into view."""

    # Keeping the rows of a long diff would make a garbage collection long enough to block the screen.

    def __init__(self, sources: Sequence[Source], make: Callable[[Source], Rows]) -> None:
        self._sources = sources
        self._make = make
        self._long: dict[int, Rows] = {}
        self._near: dict[int, Rows] = {}
        self._ends = array("q", accumulate(self._height(number) for number in range(len(sources))))

    def _height(self, number: int) -> int:
        rows = self._make(self._sources[number])
        if len(rows) > _LONG:
            self._long[number] = rows
        return len(rows)

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    def __iter__(self) -> Iterator[Row]:
        for number in range(len(self._sources)):
            yield from self._block(number)

    def row_at(self, number: int) -> Row:
        block = bisect_right(self._ends, number)
        return self._block(block)[number - (self._ends[block - 1] if block else 0)]

    def starts(self, wanted: Callable[[Source], bool]) -> Iterator[int]:
        """The first rows of the wanted sources; of several next to each other only the first."""
        before = False
        for number, source in enumerate(self._sources):
            now = wanted(source)
            if now and not before:
                yield self._ends[number - 1] if number else 0
            before = now

    def _block(self, number: int) -> Rows:
        rows = self._long.get(number) or self._near.get(number)
        if rows is None:
            rows = self._make(self._sources[number])
            if len(self._near) >= _NEAR:
                self._near = {}
            self._near[number] = rows
        return rows


def paragraph(text: str, width: int, style: Style = "", indent: int = 0) -> TextRows:
    """A text of any length wrapped to a width."""
    return TextRows(wrapped(text, width - indent), style, indent)


def heading(text: str) -> list[Row]:
    """The title of a section, after an empty line."""
    return [row(), row((text, "title"), ground="title")]


class StyledLines:
    """Safe texts in styles, which follow each other without a break, cut into lines no wider than a width."""

    __slots__ = ("_parts", "_slices", "_starts")

    def __init__(self, parts: Sequence[tuple[str, Style]], width: int) -> None:
        self._parts = parts
        self._starts = [0, *accumulate(len(text) for text, _ in parts[:-1])] if len(parts) > 1 else (0,)
        whole = "".join(text for text, _ in parts) if len(parts) > 1 else parts[0][0] if parts else ""
        self._slices = _slices(whole, max(width, 1))

    def __len__(self) -> int:
        return len(self._slices)

    def __getitem__(self, number: int) -> tuple[Piece, ...]:
        start, stop = self._slices[number]
        place = bisect_right(self._starts, start) - 1
        pieces: list[Piece] = []
        while place < len(self._parts) and self._starts[place] < stop:
            text, style = self._parts[place]
            offset = self._starts[place]
            pieces.append(Piece(text[max(start - offset, 0) : stop - offset], style))
            place += 1
        return tuple(pieces)


def _slices(text: str, width: int) -> Sequence[columns.Break]:
    if "\n" not in text:
        return columns.breaks(text, width)
    parts: list[columns.Break] = []
    start = 0
    for line in text.split("\n"):
        parts += [(start + a, start + b) for a, b in columns.breaks(line, width)]
        start += len(line) + 1
    return parts


def row_text(shown: Row) -> str:
    """A row as text."""
    return "".join(piece.text for piece in shown.pieces)


def rows_with_text(rows: Rows, text: str) -> list[int]:
    """The numbers of the rows that contain a text, ignoring case."""
    needle = text.casefold()
    return [number for number, shown in enumerate(rows) if needle in row_text(shown).casefold()] if needle else []
