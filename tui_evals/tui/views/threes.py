"""What was expected and two answers as rows in three columns, which stay in step because they are one list."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Self

from tui_evals.compare.diff import Diff, Kind, Side
from tui_evals.compare.diff import Row as Facing
from tui_evals.tui.lines import Ground, Piece, Row, Style, fit, row

from .diffs import SIGNS, filled, side_parts
from .parts import Blocks, Cut, Lazy


@dataclass(frozen=True, slots=True)
class _Third:
    """A line of what was expected, and what faces it in two answers."""

    expected: Side | None
    sides: tuple[Side | None, Side | None]
    kinds: tuple[Kind, Kind]


class Threes(Blocks[_Third]):
    """What was expected and two answers, each wrapped to a third of the width and marked against the first column."""

    def __init__(self, facing: Sequence[_Third], third: int) -> None:
        self._third = third
        super().__init__(facing, lambda one: _Three(one, third))

    @classmethod
    def of(cls, one: Diff, other: Diff, width: int) -> Self | None:
        """From the diffs of one text with two others; None where they cut that text into other pieces."""
        facing = _merged(one, other) if one.unit == other.unit else None
        return None if facing is None else cls(facing, max((width - 5) // 3, 1))

    def titles(self, *names: str) -> Row:
        """What stands above the three columns."""
        pieces = [
            piece for name in names for piece in (Piece("│", "dim"), Piece(" "), fit(name, self._third, "accent"))
        ]
        return row(*pieces[1:])


class _Three(Lazy):
    """What faces what in three columns, as high as the highest of them."""

    def __init__(self, facing: _Third, third: int) -> None:
        self._third = third
        columns: list[tuple[Side | None, Style, str]] = [(facing.expected, "", " ")]
        columns += [(side, "changed", SIGNS[kind]) for side, kind in zip(facing.sides, facing.kinds, strict=True)]
        self._cuts = [
            (None if side is None else Cut(side_parts(side, style, True), third), sign) for side, style, sign in columns
        ]
        self._ground: Ground = "" if facing.kinds == ("same", "same") else "changed"

    def __len__(self) -> int:
        return max(len(cut) for cut, _ in self._cuts if cut is not None)

    def made(self, number: int) -> Row:
        """A line of all three, each with its sign."""
        pieces: list[Piece] = []
        for cut, sign in self._cuts:
            line = cut[number] if cut is not None and number < len(cut) else ()
            signed = sign if line or (cut is None and not number) else " "
            pieces += [Piece("│", "dim"), Piece(signed, "strong"), *filled(line, self._third)]
        return Row(tuple(pieces[1:]), None, self._ground)


def _merged(one: Diff, other: Diff) -> list[_Third] | None:
    """Two diffs of the same text by its lines; None where they cut it into other lines."""
    (heads, rest), (others, others_rest) = _by_left(one), _by_left(other)
    if [head.left and head.left.text for _, head in heads] != [head.left and head.left.text for _, head in others]:
        return None
    found: list[_Third] = []
    for (before, head), (before_other, another) in zip(heads, others, strict=True):
        found += _extra(before, before_other)
        found.append(_Third(head.left, (head.right, another.right), (head.kind, another.kind)))
    return found + _extra(rest, others_rest)


def _by_left(diff: Diff) -> tuple[list[tuple[list[Facing], Facing]], list[Facing]]:
    """The rows that have a left side, each with those before it that have none; then those after the last."""
    found: list[tuple[list[Facing], Facing]] = []
    before: list[Facing] = []
    for facing in diff.rows:
        if facing.left is None:
            before.append(facing)
        else:
            found.append((before, facing))
            before = []
    return found, before


def _extra(one: Sequence[Facing], other: Sequence[Facing]) -> list[_Third]:
    """What only the answers have, side by side."""
    return [
        _Third(
            None,
            (left.right if left else None, right.right if right else None),
            (left.kind if left else "same", right.kind if right else "same"),
        )
        for left, right in zip_longest(one, other)
    ]
