"""Moving the keyboard focus."""

from __future__ import annotations

from textual.widget import Widget


def give_keys(widget: Widget) -> None:
    """Put the keys into a widget at once; `Widget.focus` would do it after the keys that are waiting already."""
    widget.screen.set_focus(widget)
