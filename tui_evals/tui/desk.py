"""The application as panes, screens and commands see it: a protocol, so that none of them imports it."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from contextlib import AbstractContextManager
from typing import Any, Protocol, TypeVar

from textual.geometry import Size
from textual.message import Message
from textual.screen import Screen

from tui_evals.light_records import dataclass

from .layout import Columns
from .messages import Place, Severity
from .pane import Pane
from .terminal import Signs
from .watch import Watch
from .workspace import Session, StoreWriter, Workspace

Answer = TypeVar("Answer")


class Desk(Protocol):
    """The shared state, the panes, and ways to say, ask and show something."""

    workspace: Workspace
    watching: Watch
    writer: StoreWriter
    session: Session
    front: Place
    """The pane that has the keys."""
    visited: list[Place]
    """The panes that were in front before, the last one at the end."""
    shown: Columns
    """The panes on screen."""
    zoomed: bool
    """Whether only the pane in front is shown."""
    signs: Signs
    """Which signs the terminal can draw."""
    followed_run: str | None
    """The key of a run that was seen running, whose end will be announced."""

    @property
    def size(self) -> Size:
        """How large the terminal is."""

    @property
    def is_headless(self) -> bool:
        """Whether there is no terminal, as in tests."""

    @property
    def theme(self) -> str:
        """The theme on screen."""

    @property
    def available_themes(self) -> Mapping[str, object]:
        """The themes there are, by name."""

    def dress(self) -> None:
        """Look as the settings say."""

    @property
    def writing(self) -> bool:
        """Whether something is being written or asked that a change from elsewhere would pull away."""

    # -- panes

    def pane(self, place: Place) -> Pane:
        """The pane at a place."""

    def bring(self, place: Place, *, returning: bool = False) -> None:
        """Put a pane in front and the keys into it."""

    def arrange(self) -> None:
        """Show the panes that fit the terminal."""

    def redraw(self) -> None:
        """Send all that is on screen to the terminal again."""

    # -- commands

    def why_not(self, name: str) -> str | None:
        """Why a command that works everywhere cannot be done now."""

    def action_act(self, name: str) -> None:
        """Do a command that works everywhere, or say why not."""

    # -- saying, asking, showing

    def tell(self, text: str, kind: Severity = "info") -> None:
        """A sentence in the status line."""

    def post_message(self, message: Message) -> bool:
        """Send a message of `tui.messages`."""

    async def push_screen_wait(self, screen: Screen[Answer]) -> Answer:
        """Show a dialog and wait for its answer."""

    def push_screen(self, screen: Screen[Any] | str) -> object:
        """Show a screen."""

    def install_screen(self, screen: Screen[Any], name: str) -> None:
        """Keep a screen under a name while it is not shown."""

    def is_screen_installed(self, screen: str) -> bool:
        """Whether a screen is kept under a name."""

    def bell(self) -> None:
        """Ring the terminal."""

    # -- work

    def run_worker(
        self,
        work: Coroutine[Any, Any, None],
        name: str | None,
        group: str,
        *,
        exit_on_error: bool,
        exclusive: bool = False,
    ) -> object:
        """Do something in the background."""

    async def keep_drafts(self, *, now: bool = False) -> None:
        """Write unsaved edits and the current view into the store."""

    def suspend(self) -> AbstractContextManager[None]:
        """Lend the terminal to another program; SuspendNotSupported where there is none."""

    def would_be_lost(self) -> list[str]:
        """One sentence for each thing that would be lost on leaving now."""

    def exit(self, result: str | None = None) -> None:
        """Close the workbench; the result is printed on the terminal."""


def never_refused(desk: Desk) -> str | None:
    """The reason of a command that can be done at any time."""
    return None


@dataclass(frozen=True, slots=True)
class Command:
    """Implements an action of "everywhere" in the action table, and says why it is not possible now."""

    run: Callable[[Desk], Coroutine[Any, Any, None] | None]
    why_not: Callable[[Desk], str | None] = never_refused
    why_not_shown: Callable[[Desk], str | None] = never_refused
    """Why the footer hides an action that is possible: it would have no effect."""


Commands = Mapping[str, Command]
"""The commands of a feature, by the name of their action."""
