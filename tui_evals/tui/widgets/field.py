"""The box in which a text is edited in place: several lines, pasted text made safe, escape takes it."""

from __future__ import annotations

from typing import ClassVar

from textual import events
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.message import Message
from textual.widgets import TextArea

from tui_evals.text.safe import safe, safe_line

from .focus import HOLDS_KEYS, give_keys


class FieldBox(TextArea):
    """A text being edited; every change is told, escape ends it with what it holds."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "end", "done", show=False, priority=True),
    ]

    class Typed(Message):
        """The text is another one now."""

        def __init__(self, text: str) -> None:
            super().__init__()
            self.text = text

    class Ended(Message):
        """One is done with it."""

        def __init__(self, text: str) -> None:
            super().__init__()
            self.text = text

    def __init__(self, id: str | None = None) -> None:
        super().__init__(id=id, soft_wrap=True, tab_behavior="focus", show_line_numbers=False, compact=True)
        self.add_class(HOLDS_KEYS)
        self.cursor_blink = False
        self._start = ""

    def begin(self, title: str, text: str) -> None:
        """Edit a text, which must be one that `editable` lets through."""
        self._start = text
        self.load_text(text)
        self.move_cursor(self.document.end)
        self.border_title = Content(safe_line(title, 100))
        self.tell("esc done · ctrl+s save")
        self.display = True
        give_keys(self)

    def to_index(self, number: int) -> None:
        """Put the cursor before a character of the text."""
        before = self.text[:number].split("\n")
        self.move_cursor((len(before) - 1, len(before[-1])))

    def tell(self, text: str, *, wrong: bool = False) -> None:
        """What is to be said beside the field while one types."""
        self.border_subtitle = Content(safe_line(text, 200))
        self.set_class(wrong, "wrong")

    def on_text_area_changed(self, event: TextArea.Changed) -> None:
        """Tell who listens, but not of the text one began with."""
        event.stop()
        if self.display and self.text != self._start:
            self._start = self.text
            self.post_message(self.Typed(self.text))

    def on_paste(self, event: events.Paste) -> None:
        """A pasted text may hold bytes that a terminal would obey."""
        event.prevent_default()
        event.stop()
        self.insert(safe(event.text))

    def action_end(self) -> None:
        """Done, once the keys that were typed before are in the text."""
        self.call_later(self._end)

    def _end(self) -> None:
        self.display = False
        self.post_message(self.Ended(self.text))


def editable(text: str) -> bool:
    """Whether a text can be edited on a terminal: it holds nothing that must not reach one."""
    return safe(text) == text
