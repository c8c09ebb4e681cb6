"""Ask for a line, for a yes, or let a text be read."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.widget import Widget
from textual.widgets import Input

from tui_evals.text.safe import safe_line
from tui_evals.tui.lines import Maker, row, wrapped
from tui_evals.tui.widgets.lines import Lines

from .dialog import Dialog

Check = Callable[[str], str | None]
"""What is wrong with an entry, as a sentence; None when it can be taken."""


class Ask(Dialog[str]):
    """One line of text; the answer is None when one has thought better of it."""

    def __init__(self, title: str, value: str = "", *, hint: str = "", check: Check | None = None) -> None:
        super().__init__(title, hint or "enter takes it · esc leaves it")
        self._value = safe_line(value)
        self._check = check

    def body(self) -> list[Widget]:
        """The line."""
        return [Input(self._value, id="line", select_on_focus=False)]

    def on_input_changed(self, event: Input.Changed) -> None:
        """Say at once what is wrong."""
        problem = self._check(event.value) if self._check else None
        self.say(problem or self._help, wrong=problem is not None)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Take it, if it can be taken."""
        problem = self._check(event.value) if self._check else None
        if problem:
            self.say(problem)
        else:
            self.dismiss(event.value)


class Confirm(Dialog[bool]):
    """A question about something that costs or cannot be taken back; anything but `y` is no."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "yes", "yes", show=False),
        Binding("n,enter,q", "leave", "no", show=False, priority=True),
    ]

    def __init__(self, title: str, text: str, yes: str = "yes") -> None:
        super().__init__(title, f"y {yes} · n or esc leaves it")
        self._text = text

    def body(self) -> list[Widget]:
        """The sentence."""
        lines = Lines(choosing=False, classes="message")
        lines.show(lambda width: [row(line) for line in wrapped(self._text, width)])
        return [lines]

    def action_yes(self) -> None:
        """Do it."""
        self.dismiss(True)


class Reading(Dialog[None]):
    """Rows to read: help, a problem in full."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("q,question_mark", "leave", "back", show=False)]

    def __init__(self, title: str, maker: Maker) -> None:
        super().__init__(title, "j k scroll · esc back")
        self._maker = maker

    def body(self) -> list[Widget]:
        """The rows."""
        lines = Lines(choosing=False, classes="tall")
        lines.show(self._maker)
        return [lines]
