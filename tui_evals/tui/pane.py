"""What all panes have in common: a title, actions from the table, and one way to show the state as it is now."""

from __future__ import annotations

import inspect
from typing import Any, ClassVar, Protocol, Self

from textual.app import App
from textual.containers import Vertical
from textual.content import Content
from textual.geometry import Region
from textual.message import Message

from tui_evals.store.records import RunRow
from tui_evals.text.safe import safe_line
from tui_evals.tui.widgets.focus import give_keys
from tui_evals.tui.widgets.lines import Lines

from .actions import Where
from .messages import Place, Severity, StateChanged, StatusMessage
from .store_writer import StoreWriter
from .watch import StoreChange, Watch
from .workspace import Selection, Workspace


class Pane(Vertical):
    """A pane of the workbench; `sync` shows the state as it is now, and keeps nothing of it but cursor and folds."""

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
        """Show the state for the first time."""
        self.entitle()
        self.sync()

    def sync(self) -> None:
        """Show the state as it is now."""
        raise NotImplementedError

    def pulse(self, pulse: StoreChange) -> None:
        """The store has changed: show what did, and no more."""

    def wanted_columns(self) -> int | None:
        """How wide it would be for what it shows; None where any width does."""
        return None

    def selection(self) -> Selection | None:
        """What `run` runs from here."""
        return None

    def run_row(self) -> RunRow | None:
        """The run that pause, stop and the like act on from here."""
        return self.watching.run

    def why_not(self, action: str) -> str | None:
        """Why an action cannot be done now, as a sentence; None when it can."""
        return None

    def escape(self) -> bool:
        """Leave a mode of the pane; False when there was none to leave."""
        return False

    def keep_unread(self) -> str | None:
        """The workbench ends: put what is written here and cannot be taken where it survives; the sentence about it."""
        return None

    def would_be_lost(self) -> str | None:
        """What is here that leaving the workbench would lose."""
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
        """Draw the pane again; for another title only the frame above, for all that is in it would go over the wire."""
        if self._entitling:
            regions = (Region(-1, -1, self.outer_size.width, 1),)
        return super().refresh(*regions, repaint=repaint, layout=layout, recompose=recompose)

    def say(self, text: str, kind: Severity = "info") -> None:
        """A sentence for the status line."""
        self.post_message(StatusMessage(text, kind))

    def changed(self) -> None:
        """Tell everybody that the shared state was changed."""
        self.post_message(StateChanged())

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


class Actor(Protocol):
    """A pane or a screen whose actions are methods `do_NAME`."""

    @property
    def app(self) -> App[Any]:
        """The application that runs what has to wait."""

    def why_not(self, action: str) -> str | None:
        """Why an action cannot be done now."""

    def post_message(self, message: Message) -> bool:
        """Send a message."""


def perform(actor: Actor, name: str) -> None:
    """Do an action, or say why not: at once, or as a task of the app where it has to wait for somebody."""
    reason = actor.why_not(name)
    if reason:
        actor.post_message(StatusMessage(reason, "warn"))
        return
    outcome = getattr(actor, f"do_{name}")()
    if inspect.iscoroutine(outcome):
        actor.app.run_worker(outcome, group="acts", name=name, exit_on_error=False)
