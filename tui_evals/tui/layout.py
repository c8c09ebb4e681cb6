"""Which panes are on screen: one where it is narrow, two from 100 columns, three from 150, always with the focus."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from .messages import Place

PLACES: tuple[Place, ...] = ("tree", "editor", "judges", "results", "detail", "runs")
"""In the order of their digits."""

WRITING: tuple[Place, ...] = ("tree", "editor", "judges")
LOOKING: tuple[Place, ...] = ("runs", "results", "detail")

ALL: tuple[Place, ...] = (*WRITING, *LOOKING)

_TWO: dict[Place, tuple[Place, Place]] = {
    "tree": ("tree", "editor"),
    "editor": ("tree", "editor"),
    "judges": ("editor", "judges"),
    "runs": ("runs", "results"),
    "results": ("results", "detail"),
    "detail": ("results", "detail"),
}

WEIGHTS: dict[Place, int] = {"tree": 30, "editor": 40, "judges": 34, "runs": 26, "results": 44, "detail": 40}
_LEAST, _MOST, _STEP = 12, 90, 6


def visible_places(focus: Place, width: int, zoomed: bool = False) -> tuple[Place, ...]:
    """The panes shown, from left to right."""
    if zoomed or width < 100:
        return (focus,)
    if width < 150:
        return _TWO[focus]
    return WRITING if focus in WRITING else LOOKING


def fitted_weights(
    weights: dict[Place, int], shown: Collection[Place], width: int, wanted: Mapping[Place, int]
) -> dict[Place, float]:
    """The weights of panes that are shown together, where some want as many columns as their content needs.

    Such a pane has between a quarter of the columns and half of them, and steps that a person made on top.
    """
    fitted: dict[Place, float] = dict(weights)
    others = sum(weights[place] for place in shown if place not in wanted)
    for place in wanted.keys() & set(shown):
        columns = min(max(wanted[place], width // 4), width // 2)
        if others:
            step = weights[place] - WEIGHTS[place]
            fitted[place] = max(others * columns / (width - columns) + step, _LEAST)
    return fitted


def changed_weight(weights: dict[Place, int], place: Place, way: int) -> dict[Place, int]:
    """The weights with a pane a step wider or narrower."""
    return weights | {place: max(_LEAST, min(_MOST, weights[place] + way * _STEP))}


def next_place(focus: Place, width: int, zoomed: bool, way: int) -> Place:
    """The next pane for tab: round the three of its bench, or round all where only one is on screen."""
    order = (WRITING if focus in WRITING else LOOKING) if len(visible_places(focus, width, zoomed)) > 1 else ALL
    return order[(order.index(focus) + way) % len(order)]
