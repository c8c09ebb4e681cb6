"""The area texts are written in, everywhere: a paste is made safe and takes the place of what is selected."""

from __future__ import annotations

from textual import events
from textual.widgets import TextArea

from tui_evals.text.safe import safe


class EditArea(TextArea):
    """A text area without what a terminal would obey; with `one_line` it holds one line, whatever is pasted."""

    def __init__(
        self,
        text: str = "",
        *,
        one_line: bool = False,
        compact: bool = True,
        id: str | None = None,
    ) -> None:
        super().__init__(text, id=id, soft_wrap=True, tab_behavior="focus", show_line_numbers=False, compact=compact)
        self.cursor_blink = False
        self.one_line = one_line

    def on_paste(self, event: events.Paste) -> None:
        """Terminals send the ends of pasted lines as carriage returns."""
        event.prevent_default()
        event.stop()
        if self.read_only:
            return
        text = safe(event.text.replace("\r\n", "\n").replace("\r", "\n"))
        if self.one_line:
            text = " ".join(text.split())
        self.replace(text, *self.selection, maintain_selection_offset=False)

    def on_key(self, event: events.Key) -> None:
        """Enter is for whoever is around where it cannot add a line; a text that begins with one was never meant."""
        if event.key == "enter" and (self.one_line or not self.text):
            event.prevent_default()
