"""What is pasted, made fit for the box it lands in; the line of text that every dialog and filter is typed in."""

from __future__ import annotations

from typing import ClassVar

from textual import events
from textual.binding import Binding, BindingType
from textual.widgets import Input

from tui_evals.text.safe import changes_of, safe
from tui_evals.tui.messages import StatusMessage


def fit_paste(text: str, *, one_line: bool = False) -> tuple[str, str]:
    """A pasted text without what a terminal would obey, and a sentence about what that changed, if anything."""
    text = text.replace("\r\n", "\n").replace("\r", "\n")  # terminals send the ends of lines as carriage returns
    fit = safe(text)
    sequences, spelt = changes_of(text)
    changes = []
    if sequences:
        changes.append(f"without {_count(len(sequences), 'escape sequence')}")
    if spelt:
        changes.append(f"with {_count(len(spelt), 'character')} spelt out, such as {safe(spelt[0])}")
    says = f"pasted {', '.join(changes)}" if changes else ""
    return (" ".join(fit.split()) if one_line else fit), says


def _count(number: int, thing: str) -> str:
    return f"{number} {thing}{'s' * (number != 1)}"


class LineInput(Input):
    """A line to type in; a paste of several lines becomes one, and tab takes what is written, as enter does."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("tab,shift+tab", "submit", "take", show=False)]

    def on_paste(self, event: events.Paste) -> None:
        """In place of Textual's own, which lets through what a terminal obeys and drops all lines but the first."""
        event.prevent_default()
        event.stop()
        text, says = fit_paste(event.text, one_line=True)
        self.replace(text, *self.selection)
        if says:
            self.post_message(StatusMessage(says, "warn"))
