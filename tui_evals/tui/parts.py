"""Long documents as rows: texts wrapped once, whose rows are made when they come into view, and parts put together."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
from typing import Generic, TypeVar, overload

from .lines import Piece, Row, Rows, Style, breaks, row, wrapped

TAB = "    "
Thing = TypeVar("Thing")
_LONG, _NEAR = 500, 200


class Lazy(Sequence[Row]):
    """Rows that are made one by one when they are asked for: `made` gives the one with a number."""

    def made(self, number: int) -> Row:
        """The row with a number from 0."""
        raise NotImplementedError

    @overload
    def __getitem__(self, number: int) -> Row: ...

    @overload
    def __getitem__(self, number: slice) -> Sequence[Row]: ...

    def __getitem__(self, number: int | slice) -> Row | Sequence[Row]:
        if isinstance(number, slice):
            return [self.made(place) for place in range(*number.indices(len(self)))]
        place = number + len(self) if number < 0 else number
        if not 0 <= place < len(self):
            raise IndexError(number)
        return self.made(place)


class Texts(Lazy):
    """The lines of a text, indented and in one style."""

    def __init__(self, lines: Sequence[str], style: Style = "", indent: int = 0) -> None:
        self._lines = lines
        self._style = style
        self._space = Piece(" " * indent)

    def __len__(self) -> int:
        return len(self._lines)

    def made(self, number: int) -> Row:
        """A line."""
        return Row((self._space, Piece(self._lines[number], self._style)))


class Joined(Lazy):
    """Parts one below the other."""

    def __init__(self, parts: Sequence[Rows]) -> None:
        self._parts = parts
        self._ends = list(accumulate(map(len, parts)))

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    def __iter__(self) -> Iterator[Row]:
        for part in self._parts:
            yield from part

    def made(self, number: int) -> Row:
        """The row of the part it lies in."""
        part = bisect_right(self._ends, number)
        return self._parts[part][number - (self._ends[part - 1] if part else 0)]


class Blocks(Lazy, Generic[Thing]):
    """Things of some lines each, made into rows when they come into view."""

    # Rows of a long diff, if kept, are so many objects that a pass of the garbage collector stops the screen.

    def __init__(self, things: Sequence[Thing], make: Callable[[Thing], Rows]) -> None:
        self._things = things
        self._make = make
        self._long: dict[int, Rows] = {}
        self._near: dict[int, Rows] = {}
        self._ends = array("q", accumulate(self._height(number) for number in range(len(things))))

    def _height(self, number: int) -> int:
        rows = self._make(self._things[number])
        if len(rows) > _LONG:
            self._long[number] = rows
        return len(rows)

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    def __iter__(self) -> Iterator[Row]:
        for number in range(len(self._things)):
            yield from self._block(number)

    def made(self, number: int) -> Row:
        """The row of the thing it belongs to."""
        thing = bisect_right(self._ends, number)
        return self._block(thing)[number - (self._ends[thing - 1] if thing else 0)]

    def _block(self, number: int) -> Rows:
        found = self._long.get(number) or self._near.get(number)
        if found is None:
            found = self._make(self._things[number])
            if len(self._near) >= _NEAR:
                self._near = {}
            self._near[number] = found
        return found


def paragraph(text: str, width: int, style: Style = "", indent: int = 0) -> Texts:
    """A text of any length wrapped to a width, with what stands for its tabs."""
    return Texts(wrapped(text.replace("\t", TAB), max(width - indent, 1)), style, indent)


def heading(text: str) -> list[Row]:
    """The title of a section, after an empty line."""
    return [row(), row((text, "title"), ground="title")]


class Cut:
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


def _slices(text: str, width: int) -> Sequence[tuple[int, int]]:
    if "\n" not in text:
        return breaks(text, width)
    found: list[tuple[int, int]] = []
    start = 0
    for line in text.split("\n"):
        found += [(start + a, start + b) for a, b in breaks(line, width)]
        start += len(line) + 1
    return found


def plain(shown: Row) -> str:
    """A row as text."""
    return "".join(piece.text for piece in shown.pieces)


def matching(rows: Rows, text: str) -> list[int]:
    """The numbers of the rows in which a text stands, however it is capitalised."""
    wanted = text.casefold()
    return [number for number, shown in enumerate(rows) if wanted in plain(shown).casefold()] if wanted else []
