"""The area texts are written in, everywhere: pastes are made safe, JSON is coloured and indented."""

from __future__ import annotations

from typing import ClassVar

from rich.text import Text
from textual import events
from textual.binding import Binding, BindingType
from textual.widgets import TextArea

from tui_evals.tui.messages import StatusMessage

from .json_text import TOKENS, closes_block, new_line, tokens
from .pasting import fit_paste


class EditArea(TextArea):
    """A text area without what a terminal would obey; with `one_line` it holds one line, whatever is pasted."""

    # In place of Textual's ctrl+z, which suspends here; a terminal sends the same for ctrl+_ and ctrl+/.
    BINDINGS: ClassVar[list[BindingType]] = [Binding("ctrl+underscore", "undo", "undo", show=False)]
    COMPONENT_CLASSES: ClassVar[set[str]] = {f"edit-area--json-{token}" for token in TOKENS}

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
        self.json = False
        """Whether what is written is JSON."""

    def on_paste(self, event: events.Paste) -> None:
        """What is pasted takes the place of what is selected; what had to be changed in it is said."""
        event.prevent_default()
        event.stop()
        if self.read_only:
            return
        text, says = fit_paste(event.text, one_line=self.one_line)
        self.replace(text, *self.selection, maintain_selection_offset=False)
        if says:
            self.post_message(StatusMessage(f"{says}; e edits a field in $EDITOR, which takes it as it is", "warn"))

    def on_key(self, event: events.Key) -> None:
        """Enter is for whoever is around where it cannot add a line; a text that begins with one was never meant."""
        if event.key == "enter" and (self.one_line or not self.text):
            event.prevent_default()
        elif event.key == "enter" and self.json:
            event.prevent_default()
            event.stop()
            self.add_line()
        elif event.character in ("}", "]") and self.json and closes_block(self._before()):
            row, column = self.cursor_location
            self.delete((row, column - 2), (row, column))

    def add_line(self) -> None:
        """Begin a new line in place of what is selected; in JSON it is indented, and spelled within a text."""
        start, end = sorted(self.selection)
        ahead, behind = "\n", ""
        if self.json:
            ahead, behind = new_line(self._before(), self.get_text_range(end, self.document.end))
        self.replace(ahead + behind, start, end, maintain_selection_offset=False)
        if behind:
            row, _ = self.cursor_location
            self.move_cursor((row - 1, len(ahead) - 1))

    def _before(self) -> str:
        """The text up to the cursor, or up to what is selected."""
        return self.get_text_range((0, 0), min(self.selection))

    def _refresh_scrollbars(self) -> None:
        """While a layout is due, which looks again, there is no telling whether the text will fit."""
        if not self._layout_required:
            super()._refresh_scrollbars()

    def get_line(self, line_index: int) -> Text:
        """A line as it is drawn."""
        line = super().get_line(line_index)
        if self.json:
            for start, end, token in tokens(line.plain):
                style = self.get_component_rich_style(f"edit-area--json-{token}", partial=True)
                line.stylize(style, start, end)
        return line
