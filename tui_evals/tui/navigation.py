"""Commands that go from pane to pane, change their widths, and list what can be done."""

from __future__ import annotations

from collections.abc import Callable

from tui_evals.tui.widgets.dialogs import Entry, Menu, Reading

from . import layout
from .action_help import help_rows
from .actions import PLACES, Action, actions_at, key_names
from .desk import Command, Commands, Desk
from .messages import Place


def to_pane(place: Place) -> Callable[[Desk], None]:
    """Bring a pane in front."""
    return lambda desk: desk.bring(place)


def to_neighbour(way: int) -> Callable[[Desk], None]:
    """Bring the next pane in front, or the one before."""
    return lambda desk: desk.bring(layout.next_place(desk.front, desk.size.width, desk.zoomed, way))


def zoom(desk: Desk) -> None:
    """Show only the pane in front, or all again."""
    desk.zoomed = not desk.zoomed
    desk.arrange()
    if desk.zoomed and desk.size.width < 100:
        desk.tell("below 100 columns one pane is shown at a time in any case")


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


async def palette(desk: Desk) -> None:
    """Every action of the pane in front and those that work everywhere, by name; what cannot be done says why."""
    pane = desk.pane(desk.front)
    entries = []
    for action in (*actions_at(desk.front), *actions_at("everywhere")):
        everywhere = action.where == "everywhere"
        reason = desk.why_not(action.name) if everywhere else pane.why_not(action.name)
        keys = " ".join(key_names(action))
        title = f"{_where(action)}: {action.word}"
        entries.append(Entry(action, title, f"{keys:<6} {action.description}", why_not=reason or ""))
    chosen = await desk.push_screen_wait(Menu("commands", entries))
    if isinstance(chosen, Action):
        (desk if chosen.where == "everywhere" else pane).action_act(chosen.name)


def _where(action: Action) -> str:
    title = PLACES[action.where]
    return "workbench" if action.where == "everywhere" else title.partition(" ")[2].lower()


def show_help(desk: Desk) -> None:
    """What the pane in front is for, and every key that works in it."""
    where = desk.front
    desk.push_screen(Reading(f"help · {PLACES[where]}", lambda width: help_rows(where, width)))


COMMANDS: Commands = {
    "pane_1": Command(to_pane("tree")),
    "pane_2": Command(to_pane("editor")),
    "pane_3": Command(to_pane("judges")),
    "pane_4": Command(to_pane("results")),
    "pane_5": Command(to_pane("detail")),
    "pane_6": Command(to_pane("runs")),
    "next_pane": Command(to_neighbour(1)),
    "previous_pane": Command(to_neighbour(-1)),
    "zoom": Command(zoom),
    "narrower": Command(widen(-1)),
    "wider": Command(widen(1)),
    "back": Command(back),
    "palette": Command(palette),
    "help": Command(show_help),
}
