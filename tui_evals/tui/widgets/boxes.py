"""A widget whose children stand in boxes that somebody else computes from the room there is."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from textual.geometry import NULL_OFFSET, Region, Size, Spacing
from textual.layout import ArrangeResult, Layout, WidgetPlacement
from textual.widget import Widget

BoxesById = Callable[[int, int], Mapping[str, tuple[int, int, int, int]]]
"""From a width and a height, where each child stands by its id: left, top, width and height."""


class Boxes(Widget):
    """Children that have no box are not shown."""

    def __init__(self, *children: Widget, boxes: BoxesById, id: str) -> None:
        super().__init__(*children, id=id)
        self._layout = _BoxLayout(boxes)

    @property
    def layout(self) -> Layout:
        """The children's places."""
        return self._layout


class _BoxLayout(Layout):
    name = "boxes"

    def __init__(self, boxes: BoxesById) -> None:
        self._boxes = boxes

    def arrange(self, parent: Widget, children: list[Widget], size: Size, greedy: bool = True) -> ArrangeResult:
        placed = self._boxes(size.width, size.height)
        return [
            WidgetPlacement(Region(*box), NULL_OFFSET, Spacing(), child)
            for child in children
            if (box := placed.get(child.id or "")) is not None
        ]
