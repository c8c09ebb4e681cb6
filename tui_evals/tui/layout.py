"""The layout of the panes: in columns, or one at a time on a narrow terminal, including the active one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, get_args

from .messages import Place

PLACES: tuple[Place, ...] = ("tree", "editor", "judges", "results", "detail", "runs")
"""In the order of their number keys."""

WRITING: tuple[Place, ...] = ("tree", "editor", "judges")
LOOKING: tuple[Place, ...] = ("runs", "results", "detail")

Columns = tuple[tuple[Place, ...], ...]
"""Panes from left to right, and within a column from top to bottom."""
Box = tuple[int, int, int, int]
"""Left, top, width and height in cells."""

Arrangement = Literal["all", "write", "watch", "compare"]
ARRANGEMENTS: tuple[Arrangement, ...] = get_args(Arrangement)

WEIGHTS: dict[Place, int] = {"tree": 30, "editor": 40, "judges": 34, "runs": 26, "results": 44, "detail": 40}
_LEAST, _MOST, _STEP = 12, 90, 6

_TWO_COLUMNS, _THREE_COLUMNS, _FOUR_COLUMNS = 100, 150, 200
_RESULTS_FIRST = 160
"""Columns from which results take most of them."""
_STACKED = 36
"""Lines from which two panes share a column."""
_LEAST_LINES = 8
_MOST_BESIDE = 48
"""Cells that are enough for names where results are next to them."""

_PAIRS: dict[Place, Columns] = {
    "tree": (("tree",), ("editor",)),
    "editor": (("tree",), ("editor",)),
    "judges": (("editor",), ("judges",)),
    "runs": (("runs",), ("results",)),
    "results": (("results",), ("detail",)),
    "detail": (("results",), ("detail",)),
}
_WRITE: Columns = (("tree",), ("editor",), ("judges",))
_WATCH: Columns = (("runs",), ("results",), ("detail",))
_COMPARE: Columns = (("results",), ("detail",))
_WRITE_STACKED: Columns = (("tree",), ("editor", "judges"))
_WATCH_STACKED: Columns = (("results", "runs"), ("detail",))
_SIX: Columns = (("tree", "runs"), ("editor", "results"), ("judges", "detail"))
_SIX_WIDE: Columns = (("tree", "runs"), ("editor", "judges"), ("results",), ("detail",))


def columns(
    front: Place, width: int, height: int, arrangement: Arrangement = "all", *, zoomed: bool = False
) -> Columns:
    """The panes to show at this size; a pane that is missing in an arrangement is shown as in the first one."""
    if zoomed or width < _TWO_COLUMNS:
        return ((front,),)
    shown = _arranged(arrangement, front, width, height >= _STACKED)
    return shown if front in places_in(shown) else _arranged("all", front, width, height >= _STACKED)


def _arranged(arrangement: Arrangement, front: Place, width: int, stacked: bool) -> Columns:
    writes = front in WRITING if arrangement == "all" else arrangement == "write"
    if arrangement == "compare":
        return _COMPARE
    if width < _THREE_COLUMNS:
        return _PAIRS[front] if not stacked else _WRITE_STACKED if writes else _WATCH_STACKED
    if arrangement != "all" or not stacked:
        return _WRITE if writes else _WATCH
    return _SIX if width < _FOUR_COLUMNS else _SIX_WIDE


def next_arrangement(front: Place, width: int, height: int, now: Arrangement) -> tuple[Arrangement, Place]:
    """The next one that shows something else, and the pane in front there; the same one where there is none."""
    shown = columns(front, width, height, now)
    start = ARRANGEMENTS.index(now)
    for step in range(1, len(ARRANGEMENTS) + 1):
        arrangement = ARRANGEMENTS[(start + step) % len(ARRANGEMENTS)]
        place = front if arrangement in ("all", _bench(front)) else "editor" if arrangement == "write" else "results"
        if arrangement == "compare" and front == "detail":
            place = front
        if columns(place, width, height, arrangement) != shown:
            return arrangement, place
    return now, front


def _bench(place: Place) -> Arrangement:
    return "write" if place in WRITING else "watch"


def places_in(shown: Columns) -> tuple[Place, ...]:
    """The panes of columns in the order of their digits."""
    return tuple(place for place in PLACES if any(place in column for column in shown))


def boxes(
    shown: Columns,
    width: int,
    height: int,
    recent: Sequence[Place],
    weights: Mapping[Place, int],
    wanted: Mapping[Place, int],
) -> dict[str, Box]:
    """The box of each pane; in a column, the pane most recently in front has two thirds.

    Some panes need as many columns as their content.
    """
    placed: dict[str, Box] = {}
    left = 0
    for column, right in zip(shown, _right_edges(shown, width, recent, weights, wanted), strict=True):
        top = 0
        for place, lines in zip(column, _shares(column, height, recent), strict=True):
            placed[place] = (left, top, right - left, lines)
            top += lines
        left = right
    return placed


def _right_edges(
    shown: Columns, width: int, recent: Sequence[Place], weights: Mapping[Place, int], wanted: Mapping[Place, int]
) -> Sequence[int]:
    """The end of each column.

    From a width of 160, results that are active or watched get at least three fifths.

    A column with a wanted width gets at least a quarter, and at most half if it is next to text only, otherwise three
    tenths; the user's resize steps are added.
    """
    steps = [sum(weights[place] - WEIGHTS[place] for place in column) for column in shown]
    parts: list[float] = [
        max(max(WEIGHTS[place] for place in column) + step, _LEAST) for column, step in zip(shown, steps, strict=True)
    ]
    wishes = [max((wanted[place] for place in column if place in wanted), default=None) for column in shown]
    most = (
        width // 2
        if all(place in WRITING for column in shown for place in column)
        else min(3 * width // 10, _MOST_BESIDE)
    )
    others = sum(part for part, wish in zip(parts, wishes, strict=True) if wish is None)
    for number, wish in enumerate(wishes):
        if wish is not None and others:
            share = min(max(wish, width // 4), most)
            parts[number] = max(others * share / (width - share) + steps[number], _LEAST)
    if width >= _RESULTS_FIRST and ((recent and recent[-1] == "results") or shown in (_WATCH, _WATCH_STACKED)):
        _widen(parts, next((number for number, column in enumerate(shown) if "results" in column), None))
    whole, so_far, edges = sum(parts), 0.0, []
    for part in parts:
        so_far += part
        edges.append(round(width * so_far / whole))
    return edges


def _widen(parts: list[float], number: int | None) -> None:
    """Give a column three fifths of all, unless it has more."""
    if number is not None and len(parts) > 1:
        parts[number] = max(parts[number], 1.5 * (sum(parts) - parts[number]))


def _shares(column: tuple[Place, ...], height: int, recent: Sequence[Place]) -> Sequence[int]:
    """The lines of each pane of a column."""
    if len(column) == 1:
        return (height,)
    last = next((place for place in reversed(recent) if place in column), None)
    if last is None:  # no pane of the column was in front yet: take the one that belongs to the work in front
        last = next((place for place in column if recent and _bench(place) == _bench(recent[-1])), column[0])
    small = max(min(_LEAST_LINES, height // 2), height // 3)
    return tuple(height - small * (len(column) - 1) if place == last else small for place in column)


def changed_weight(weights: Mapping[Place, int], place: Place, way: int) -> dict[Place, int]:
    """The weights with a pane a step wider or narrower."""
    return {**weights, place: max(_LEAST, min(_MOST, weights[place] + way * _STEP))}


def next_place(front: Place, shown: Columns, arrangement: Arrangement, way: int) -> Place:
    """The next pane for tab: round those on screen; where few fit, round those that belong to the same work, or all."""
    order = places_in(shown)
    if len(order) == 1:
        order = PLACES
    elif len(order) == 2 and arrangement != "compare":
        order = WRITING if front in WRITING else LOOKING
    return order[(order.index(front) + way) % len(order)]
