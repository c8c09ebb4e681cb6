"""Ask for a sentence that may be longer than a line; it is wrapped while it is written."""

from __future__ import annotations

from typing import ClassVar

from textual import events
from textual.binding import Binding, BindingType
from textual.widget import Widget
from textual.widgets import TextArea

from tui_evals.text.safe import safe_line
from tui_evals.tui.keyboard import give_keys

from .ask import Check
from .dialog import Dialog


class Sentence(TextArea):
    """Where one writes; what is pasted becomes one line, without bytes that a terminal would obey."""

    def on_paste(self, event: events.Paste) -> None:
        """Take it as words."""
        event.prevent_default()
        event.stop()
        self.insert(safe_line(" ".join(event.text.split())))


class AskLong(Dialog[str]):
    """A sentence; the answer is None when one has thought better of it."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("enter", "take", "take", show=False, priority=True)]
    DEFAULT_CSS = """
    AskLong Sentence { height: auto; min-height: 3; max-height: 12; border: none; padding: 0; background: $boost; }
    AskLong Sentence .text-area--cursor-line { background: transparent; }
    """

    def __init__(self, title: str, value: str, *, check: Check) -> None:
        super().__init__(title, "enter takes it · esc leaves it")
        self._value = safe_line(value)
        self._check = check

    def body(self) -> list[Widget]:
        """The box, with what stands there now."""
        self._box = Sentence(self._value, soft_wrap=True, show_line_numbers=False, tab_behavior="focus", compact=True)
        self._box.cursor_blink = False
        return [self._box]

    def on_mount(self) -> None:
        """One writes from the start, at the end."""
        self._box.move_cursor(self._box.document.end)
        give_keys(self._box)

    def on_text_area_changed(self, event: TextArea.Changed) -> None:
        """Say at once what is wrong."""
        event.stop()
        problem = self._check(self._box.text)
        self.say(problem or self._help, wrong=problem is not None)

    def action_take(self) -> None:
        """Take it, if it can be taken."""
        problem = self._check(self._box.text)
        if problem:
            self.say(problem)
        else:
            self.dismiss(self._box.text)
