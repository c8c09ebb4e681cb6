"""What panes tell the workbench: messages go up, values come down."""

from __future__ import annotations

from typing import Literal

from textual.message import Message

Kind = Literal["info", "warn", "error"]
Place = Literal["tree", "editor", "judges", "results", "detail", "runs"]


class Said(Message):
    """A sentence for the status line; an error also rings a toast."""

    def __init__(self, text: str, kind: Kind = "info") -> None:
        super().__init__()
        self.text = text
        self.kind: Kind = kind


class Changed(Message):
    """The state the panes share was changed: every pane shows it as it is now."""


class Went(Message):
    """One is at another item or turn; the panes about it show that one."""

    def can_replace(self, message: Message) -> bool:
        """Only where one is now matters."""
        return isinstance(message, Went)


class Looked(Message):
    """Another answer is looked at."""

    def can_replace(self, message: Message) -> bool:
        """Only the last one matters."""
        return isinstance(message, Looked)


class Copy(Message):
    """A text is wanted in the clipboard of whoever sits at the terminal."""

    def __init__(self, text: str, what: str) -> None:
        super().__init__()
        self.text = text
        self.what = what


class Show(Message):
    """Another pane is wanted in front, with the focus."""

    def __init__(self, place: Place) -> None:
        super().__init__()
        self.place: Place = place


class OpenRun(Message):
    """A run is wanted on screen, by its number."""

    def __init__(self, run: int, answer: int | None = None) -> None:
        super().__init__()
        self.run = run
        self.answer = answer
