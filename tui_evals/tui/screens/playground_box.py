"""The box in which a question is written."""

from __future__ import annotations

from typing import ClassVar

from textual import events
from textual.binding import Binding, BindingType
from textual.widgets import TextArea

from tui_evals.text.safe import safe


class Box(TextArea):
    """Where one writes; pasted text is made safe, and the page keys move the conversation above."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("pageup", "screen.page(-1)", "page up", show=False),
        Binding("pagedown", "screen.page(1)", "page down", show=False),
    ]

    def __init__(self) -> None:
        super().__init__(id="box", soft_wrap=True, tab_behavior="focus", show_line_numbers=False)
        self.cursor_blink = False

    def on_paste(self, event: events.Paste) -> None:
        """A pasted text may hold bytes that a terminal would obey."""
        event.prevent_default()
        event.stop()
        if not self.read_only:
            self.insert(safe(event.text))
