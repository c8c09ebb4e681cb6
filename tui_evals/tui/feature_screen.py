"""What the screens over the panes have in common: actions from the table, a status line, and the keys of the place."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual import events
from textual.screen import ModalScreen
from textual.widgets import Input, TextArea

from tui_evals.tui.widgets.bar import Keys, Status
from tui_evals.tui.widgets.dialogs import Entry

from .actions import Action, Where, footer_actions
from .messages import Severity, StatusMessage
from .pane import perform
from .widgets.help_menu import help_menu


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

    def glossary(self) -> Sequence[Entry]:
        """Words that the screen uses, for its help."""
        return ()

    async def do_help(self) -> None:
        """The keys of this screen; one that is chosen is pressed."""
        menu = help_menu(self.where, lambda action: self.why_not(action.name), *self.glossary())
        chosen = await self.app.push_screen_wait(menu)
        if isinstance(chosen, Action):
            self.action_act(chosen.name)

    def tell(self, text: str, kind: Severity = "info") -> None:
        """A sentence for the status line."""
        for status in self.query(Status):  # there is none any more once the screen has been left
            status.tell(text, kind)

    def on_status_message(self, message: StatusMessage) -> None:
        """Say it here, since the status line of the workbench is not in sight."""
        message.stop()
        self.tell(message.text, message.kind)

    def offer_keys(self) -> None:
        """Show the keys of the screen that do something now."""
        offered, typing = footer_actions(self.where), isinstance(self.focused, Input | TextArea)
        for keys in self.query(Keys):
            keys.offer(offered, lambda action: self.why_not(action.name), typing=typing)

    def on_descendant_focus(self, event: events.DescendantFocus) -> None:
        """While one types, other keys do something than in a list."""
        self.offer_keys()
