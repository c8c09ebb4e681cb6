"""The help of one place as a list: type to find a key, enter presses it."""

from __future__ import annotations

from collections.abc import Callable

from tui_evals.tui.action_help import ALONE, MOVING, PROSE
from tui_evals.tui.actions import PLACES, Action, Where, actions_at, key_names

from .dialogs import Entry, Menu


def help_menu(where: Where, why_not: Callable[[Action], str | None], *words: Entry) -> Menu:
    """What a place is for, its keys, then those that work everywhere, or words that it uses."""
    entries = []
    for place in (where,) if where in ALONE else (where, "everywhere"):
        for action in actions_at(place):
            keys = "  ".join(key_names(action))
            entries.append(Entry(action, keys, action.description, why_not=why_not(action) or "", group=PLACES[place]))
    intro = f"{PROSE.get(where, '')} {MOVING}".strip()
    return Menu(f"help · {PLACES[where]}", [*entries, *words], does="does it", intro=intro, whole=True)
