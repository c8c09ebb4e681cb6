"""From pane to pane, and how wide they are."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tui_evals.tui import layout
from tui_evals.tui.messages import Place

if TYPE_CHECKING:
    from tui_evals.tui.app import Workbench


def to(place: Place) -> Callable[[Workbench], None]:
    """Bring a pane in front."""
    return lambda app: app.bring(place)


def on(way: int) -> Callable[[Workbench], None]:
    """Bring the next pane in front."""
    return lambda app: app.bring(layout.neighbour(app.front, app.size.width, app.zoomed, way))


def zoom(app: Workbench) -> None:
    """Only the pane in front, or all again."""
    app.zoomed = not app.zoomed
    app.arrange()
    if app.zoomed and app.size.width < 100:
        app.tell("below 100 columns one pane is shown at a time in any case")


def widen(way: int) -> Callable[[Workbench], None]:
    """The pane in front a step wider or narrower."""

    def step(app: Workbench) -> None:
        app.remembered.put("weights", layout.changed_weight(app.remembered.weights, app.front, way))
        app.arrange()

    return step


def back(app: Workbench) -> None:
    """Out of a mode of the pane, else out of the zoom, else to the pane before."""
    if app.pane(app.front).escape():
        return
    if app.zoomed:
        zoom(app)
    elif app.before:
        place = app.before.pop()
        app.bring(place, returning=True)
