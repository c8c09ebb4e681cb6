"""The frame of every dialog: a title, a body, a line of help; it does not dim or redraw what lies below."""

from __future__ import annotations

from typing import ClassVar, TypeVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widget import Widget
from textual.widgets import Static

from tui_evals.text.safe import safe, safe_line

Outcome = TypeVar("Outcome")


class Dialog(ModalScreen[Outcome | None]):
    """A box in the middle; escape leaves it with nothing."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "leave", "back", show=False, priority=True)]

    def __init__(self, title: str, help: str = "") -> None:
        super().__init__(classes="dialog")
        self.HORIZONTAL_BREAKPOINTS = [(0, "narrow"), (100, "medium")]
        self._heading = title
        self._help = help

    def body(self) -> list[Widget]:
        """What stands in the box."""
        raise NotImplementedError

    def compose(self) -> ComposeResult:
        """The box with its title in the frame and help below."""
        box = Vertical(*self.body(), Static(Content(safe(self._help)), classes="help"), classes="box")
        box.border_title = Content(safe_line(self._heading, 100))
        yield box

    def say(self, text: str, *, wrong: bool = True) -> None:
        """Put a sentence into the line of help, for an entry that cannot be taken."""
        line = self.query_one(".help", Static)
        line.update(Content(safe(text)))
        line.set_class(wrong, "wrong")

    def action_leave(self) -> None:
        """Leave with nothing."""
        self.dismiss(None)
