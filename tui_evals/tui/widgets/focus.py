"""Who has the keys: given by code, and kept by what is written in."""

from __future__ import annotations

from textual.dom import DOMNode
from textual.screen import Screen
from textual.widget import Widget

HOLDS_KEYS = "holds-keys"
"""The class of a box or line that keeps the keys for as long as it is shown."""


def give_keys(widget: Widget) -> None:
    """Put the keys into a widget at once; `Widget.focus` would do it after the keys that are waiting already."""
    widget.screen.set_focus(widget)


def holder_of_keys(node: DOMNode) -> Widget | None:
    """The box or line below a node in which somebody writes."""
    return next(
        (one for one in node.query(f".{HOLDS_KEYS}") if all(up.display for up in one.ancestors_with_self)), None
    )


def return_keys(screen: Screen[object]) -> None:
    """Put the keys back into the box in which somebody writes, wherever a click or tab has taken them.

    The one rule that keeps a letter meant for a text from being taken for an action."""
    if screen.focused is None or not screen.focused.has_class(HOLDS_KEYS):
        holder = holder_of_keys(screen)
        if holder is not None:
            give_keys(holder)
