"""Commands that go from pane to pane, change their widths, and say what can be done in one."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from . import layout
from .actions import Action
from .desk import Command, Commands, Desk
from .messages import Place
from .palette import do, why_not
from .widgets.help_menu import help_menu


def to_pane(place: Place) -> Callable[[Desk], None]:
    """Bring a pane in front."""
    return lambda desk: desk.bring(place)


def to_neighbour(way: int) -> Callable[[Desk], None]:
    """Bring the next pane in front, or the one before."""
    return lambda desk: desk.bring(layout.next_place(desk.front, desk.shown, desk.session.arrangement, way))


def why_no_zoom(desk: Desk) -> str | None:
    """There is only room for one pane."""
    alone = not desk.zoomed and len(layout.places_in(desk.shown)) == 1
    return "below 100 columns one pane is shown at a time in any case" if alone else None


def why_not_wider(desk: Desk) -> str | None:
    """There is no other pane on screen."""
    return "z shows the other panes again" if desk.zoomed else why_no_zoom(desk)


def zoom(desk: Desk) -> None:
    """Show only the pane in front, or all again."""
    desk.zoomed = not desk.zoomed
    desk.arrange()


_ARRANGED: Mapping[layout.Arrangement, str] = {
    "all": "everything there is room for",
    "write": "to write: dataset, item, evaluators",
    "watch": "to watch: runs, results, answer",
    "compare": "to compare: results and answer",
}


def rearrange(desk: Desk) -> None:
    """Show the next arrangement of panes, and say which it is."""
    arrangement, front = layout.next_arrangement(
        desk.front, desk.size.width, desk.size.height, desk.session.arrangement
    )
    desk.zoomed = False
    desk.session.put("arrangement", arrangement)
    if front != desk.front:
        desk.bring(front)
    desk.arrange()
    desk.tell(f"{_ARRANGED[arrangement]}; Z goes on")


def widen(way: int) -> Callable[[Desk], None]:
    """Make the pane in front a step wider or narrower."""

    def step(desk: Desk) -> None:
        desk.session.put("weights", layout.changed_weight(desk.session.weights, desk.front, way))
        desk.arrange()

    return step


def back(desk: Desk) -> None:
    """Leave a mode of the pane, else the zoom, else go to the pane that was in front before."""
    if desk.pane(desk.front).escape():
        return
    if desk.zoomed:
        zoom(desk)
    elif desk.visited:
        desk.bring(desk.visited.pop(), returning=True)


async def show_help(desk: Desk) -> None:
    """What the pane in front is for, and every key that works in it; one that is chosen is pressed."""
    chosen = await desk.push_screen_wait(help_menu(desk.front, lambda action: why_not(desk, action)))
    if isinstance(chosen, Action):
        do(desk, chosen)


COMMANDS: Commands = {
    "pane_1": Command(to_pane("tree")),
    "pane_2": Command(to_pane("editor")),
    "pane_3": Command(to_pane("judges")),
    "pane_4": Command(to_pane("results")),
    "pane_5": Command(to_pane("detail")),
    "pane_6": Command(to_pane("runs")),
    "next_pane": Command(to_neighbour(1)),
    "previous_pane": Command(to_neighbour(-1)),
    "zoom": Command(zoom, why_no_zoom),
    "arrangement": Command(rearrange, why_no_zoom),
    "narrower": Command(widen(-1), why_not_wider),
    "wider": Command(widen(1), why_not_wider),
    "back": Command(back),
    "redraw": Command(lambda desk: desk.redraw()),
    "help": Command(show_help),
}
