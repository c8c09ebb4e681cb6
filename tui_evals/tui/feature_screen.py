"""What the screens over the panes have in common: actions from the table, a status line, and the keys of the place."""

from __future__ import annotations

from typing import ClassVar

from textual.screen import ModalScreen

from tui_evals.tui.widgets.bar import Keys, Status

from .actions import Where, actions_at
from .messages import Severity, StatusMessage
from .pane import perform


class FeatureScreen(ModalScreen[None]):
    """A screen that covers the workbench; no key reaches the panes below, and what is said is said here."""

    where: ClassVar[Where]
    """Its part of the action table."""

    def why_not(self, action: str) -> str | None:
        """Why an action cannot be done now, as a sentence; None when it can."""
        return None

    def would_be_lost(self) -> str | None:
        """What is here that leaving the workbench would lose."""
        return None

    def action_act(self, name: str) -> None:
        """Do an action of the table, or say why not."""
        self.tell("")
        perform(self, name)

    def tell(self, text: str, kind: Severity = "info") -> None:
        """A sentence for the status line."""
        for status in self.query(Status):  # there is none any more once the screen has been left
            status.tell(text, kind)

    def on_status_message(self, message: StatusMessage) -> None:
        """Say it here, since the status line of the workbench is not in sight."""
        message.stop()
        self.tell(message.text, message.kind)

    def offer_keys(self) -> None:
        """Show the keys of the screen; what cannot be done now is dim."""
        offered = [action for action in actions_at(self.where) if action.footer]
        for keys in self.query(Keys):
            keys.offer(offered, lambda action: self.why_not(action.name))
