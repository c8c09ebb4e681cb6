"""Base classes of the six panes and of the screens over them: title, actions of the table, status line."""

from __future__ import annotations

import inspect
from collections.abc import Hashable, Sequence
from typing import ClassVar, Self

from textual import events
from textual.containers import Vertical
from textual.content import Content
from textual.geometry import Region
from textual.screen import ModalScreen
from textual.widgets import Input, TextArea

from tui_evals.store.records import RunRow
from tui_evals.text.safe import safe_line
from tui_evals.tui.actions import Action, Where, footer_actions
from tui_evals.tui.messages import Place, Severity, StateChanged, StatusMessage
from tui_evals.tui.watch import StoreChange, Watch
from tui_evals.tui.widgets.bar import Keys, Status
from tui_evals.tui.widgets.dialogs import Entry, help_menu
from tui_evals.tui.widgets.inputs import give_keys
from tui_evals.tui.widgets.lines import Lines
from tui_evals.tui.workspace import Selection, StoreWriter, Workspace


class Pane(Vertical):
    """A pane of the workbench; `sync` shows the current state, and the pane keeps only cursor and folds."""

    place: ClassVar[Place]
    number: ClassVar[int]
    name_: ClassVar[str]

    _entitled = ""
    _entitling = False

    def __init__(self, workspace: Workspace, watch: Watch, writer: StoreWriter) -> None:
        super().__init__(id=self.place, classes="pane")
        self.workspace = workspace
        self.watching = watch
        self.writer = writer

    def on_mount(self) -> None:
        self.entitle()
        self.sync()

    def sync(self) -> None:
        """Show the current state."""
        raise NotImplementedError

    def pulse(self, pulse: StoreChange) -> None:
        """The store has changed: show what did, and no more."""

    def wanted_columns(self) -> int | None:
        """The width needed for the content; None if any width will do."""
        return None

    def selection(self) -> Selection | None:
        """The selection that `run` applies to."""
        return None

    @property
    def writing(self) -> bool:
        """Whether something is being written in the pane that a change from elsewhere would pull away."""
        return False

    def run_row(self) -> RunRow | None:
        """The run that pause, stop and the like act on from here."""
        return self.watching.run

    def marked_runs(self) -> Sequence[RunRow]:
        """The runs that are marked here."""
        return ()

    def why_not(self, action: str) -> str | None:
        """Why an action cannot be done now, as a sentence; None when it can."""
        return None

    def escape(self) -> bool:
        """Leave a mode of the pane; False when there was none to leave."""
        return False

    def keep_unread(self) -> str | None:
        """Save text that cannot be applied to a file when the workbench ends; returns the message about it."""
        return None

    def would_be_lost(self) -> str | None:
        """A sentence about what leaving the workbench would lose in this pane, or None."""
        return None

    async def do_search(self) -> None:
        """Find a text in the rows."""
        await self.query(Lines).first().action_search()

    def entitle(self, more: str = "") -> None:
        """The title in the frame."""
        text = safe_line(f"{self.number} {self.name_}" + (f" · {more}" if more else ""), 120)
        if text != self._entitled:
            self._entitled, self._entitling = text, True
            self.border_title = Content(text)
            self._entitling = False

    def refresh(self, *regions: Region, repaint: bool = True, layout: bool = False, recompose: bool = False) -> Self:
        """Redraw the pane; a new title only redraws the top border, to send less to the terminal."""
        if self._entitling:
            regions = (Region(-1, -1, self.outer_size.width, 1),)
        return super().refresh(*regions, repaint=repaint, layout=layout, recompose=recompose)

    def say(self, text: str, kind: Severity = "info") -> None:
        """A sentence for the status line."""
        self.post_message(StatusMessage(text, kind))

    def changed(self) -> None:
        """Post that the shared state was changed."""
        self.post_message(StateChanged())

    def to_key(self, key: Hashable) -> None:
        """Put the cursor on a row, if there is one with this key."""
        self.query(Lines).first().to_key(key)

    @property
    def keys_place(self) -> Where:
        """Which part of the action table its keys are from now."""
        return self.place

    def focus_lines(self) -> None:
        """Put the keys where they belong in this pane."""
        give_keys(self.query(Lines).first())

    def action_act(self, name: str) -> None:
        """Do an action of the table, or say why not."""
        perform(self, name)


def perform(actor: Pane | FeatureScreen, name: str) -> None:
    """Run an action or report why it is not possible; a coroutine becomes a worker of the app."""
    reason = actor.why_not(name)
    if reason:
        actor.post_message(StatusMessage(reason, "warn"))
        return
    outcome = getattr(actor, f"do_{name}")()
    if inspect.iscoroutine(outcome):
        actor.app.run_worker(outcome, group="acts", name=name, exit_on_error=False)


class FeatureScreen(ModalScreen[None]):
    """A screen that covers the workbench; it gets all keys and shows its own messages."""

    where: ClassVar[Where]
    """Its section of the action table."""

    def why_not(self, action: str) -> str | None:
        """Why an action cannot be done now, as a sentence; None when it can."""
        return None

    def would_be_lost(self) -> str | None:
        """A sentence about what leaving the workbench would lose on this screen, or None."""
        return None

    def action_act(self, name: str) -> None:
        """Do an action of the table, or say why not."""
        self.tell("")
        perform(self, name)

    def glossary(self) -> Sequence[Entry]:
        """The words that the screen uses, for its help."""
        return ()

    async def do_help(self) -> None:
        menu = help_menu(self.where, lambda action: self.why_not(action.name), *self.glossary())
        chosen = await self.app.push_screen_wait(menu)
        if isinstance(chosen, Action):
            self.action_act(chosen.name)

    def tell(self, text: str, kind: Severity = "info") -> None:
        """A sentence for the status line."""
        for status in self.query(Status):  # there is none any more once the screen has been left
            status.tell(text, kind)

    def on_status_message(self, message: StatusMessage) -> None:
        """Show the message here, because this screen hides the workbench's status line."""
        message.stop()
        self.tell(message.text, message.kind)

    def offer_keys(self) -> None:
        """Show the keys of the screen that do something now."""
        offered, typing = footer_actions(self.where), isinstance(self.focused, Input | TextArea)
        for keys in self.query(Keys):
            keys.offer(offered, lambda action: self.why_not(action.name), typing=typing)

    def on_descendant_focus(self, event: events.DescendantFocus) -> None:
        """While you type, other keys do something than in a list."""
        self.offer_keys()
