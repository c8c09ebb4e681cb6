"""The playground: talk to a target on a screen of its own, and make an item of the conversation."""

from __future__ import annotations

import asyncio
import time
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.content import Content
from textual.screen import ModalScreen
from textual.worker import Worker

from tui_evals.datasets.editing import Editing
from tui_evals.text.safe import safe_line
from tui_evals.tui.actions import bindings, of
from tui_evals.tui.keyboard import give_keys
from tui_evals.tui.lines import Rows
from tui_evals.tui.messages import Kind, Said
from tui_evals.tui.panes.pane import act
from tui_evals.tui.state.talk import Beginning, CannotTalk, Talk, beginning_of, first_target
from tui_evals.tui.state.workspace import Workspace
from tui_evals.tui.views.playground import Part, Transcript, key_rows, parts_of
from tui_evals.tui.widgets.bar import Keys, Status
from tui_evals.tui.widgets.lines import Lines

from .ask import Reading
from .playground_acts import choose_target, fill_in, make_item
from .playground_box import Box

_NOTHING_SAID = "nothing has been said yet: write a question and send it with ctrl+j"
_NO_DATASET = (
    "no dataset is open: go back with esc, ctrl+n begins one and o opens one; P comes back to this conversation"
)
_WAITING = frozenset(("send", "make_item", "target", "variables", "clear"))


class Playground(ModalScreen[None]):
    """A conversation, a box to write in, a line that says how it stands; no key reaches the panes below."""

    BINDINGS: ClassVar[list[BindingType]] = [*bindings("playground")]
    DEFAULT_CSS = """
    Playground { layout: vertical; background: $background; }
    Playground #talk { height: 1fr; border: round $panel-lighten-2; border-title-color: $text-muted; }
    Playground #talk:focus { border: round $accent; border-title-color: $accent; }
    Playground #box { height: auto; min-height: 5; max-height: 40%; border: round $panel-lighten-2; padding: 0; }
    Playground #box:focus { border: round $accent; }
    Playground #box .text-area--cursor-line { background: transparent; }
    """

    def __init__(self, workspace: Workspace) -> None:
        super().__init__()
        self.workspace = workspace
        self.talk = Talk(workspace.root, lambda: workspace.variables, first_target(workspace.settings))
        self._transcript = Transcript()
        self._shown: list[Part] = []
        self._editing: Editing | None = None
        self._asking: Worker[None] | None = None
        self._pending: str | None = None
        self._since = 0.0
        self._away = True
        self._making = False

    def compose(self) -> ComposeResult:
        """The conversation, the box, what is to be said, and the keys."""
        self.lines = Lines(choosing=False, id="talk")
        self.box = Box()
        yield self.lines
        yield self.box
        yield Status()
        yield Keys()

    def on_mount(self) -> None:
        """One writes from the start."""
        self.box.border_title = Content("your question")
        give_keys(self.box)
        self.set_interval(0.5, self._tick)

    def on_screen_resume(self) -> None:
        """Coming from the workbench, begin as the open dataset says now."""
        if self._away:
            self._away = False
            self.tell("")
            self.run_worker(self._begin(), group="beginning", name="reading the prompt", exit_on_error=False)

    async def on_unmount(self) -> None:
        """Give the target back."""
        await self.talk.close()

    async def _begin(self) -> None:
        workspace, editing = self.workspace, self.workspace.editing
        beginning = Beginning()
        if editing is not None:
            beginning = await asyncio.to_thread(beginning_of, editing.document, workspace.data)
        kept = self.talk.values if editing is self._editing else {}
        item = workspace.items[workspace.item] if workspace.item is not None else {}
        own = item.get("variables") if isinstance(item, dict) and not self.talk.messages else None
        self.talk.begin(beginning, {**kept, **(own if isinstance(own, dict) else {})})
        self._editing = editing
        self.draw()

    # -- showing

    def draw(self) -> None:
        """Show the conversation as it is now, once its lines are made."""
        name, model = self.talk.config.name, self.talk.config.model
        title = f"Playground · {name}" + (f" ({model})" if model != name else "")
        self.lines.border_title = Content(safe_line(title, 120))
        self._offer()
        self.run_worker(self._draw(), group="drawing", name="drawing", exclusive=True, exit_on_error=False)

    async def _draw(self) -> None:
        width = self.lines.scrollable_content_region.width
        if not width:
            self.call_after_refresh(self.draw)
            return
        parts = await asyncio.to_thread(parts_of, self.talk, self._pending)
        rows, start = await asyncio.to_thread(self._transcript.made, parts, width)

        def ready(now: int) -> Rows:
            if now != width:
                self.call_later(self.draw)
            return rows

        self.lines.show(ready)
        if parts != self._shown:
            self._shown = parts
            self.call_after_refresh(self.lines.scroll_to, y=start, animate=False)

    def tell(self, text: str, kind: Kind = "info") -> None:
        """Say something beside the name of the target."""
        self.query_one(Status).tell(text or f"talking to {self.talk.config.name}", kind)

    def on_said(self, message: Said) -> None:
        """Why something cannot be done is said here, not in the workbench below."""
        message.stop()
        self.tell(message.text, message.kind)

    def _tick(self) -> None:
        if self._asking is not None:
            seconds = int(time.monotonic() - self._since)
            self.tell(f"{self.talk.config.name}: asking… {seconds} s · esc stops waiting")

    def _offer(self) -> None:
        shown = [action for action in of("playground") if action.footer or action.name == "variables"]
        self.query_one(Keys).offer(shown, lambda action: self.why_not(action.name), "f1")

    def on_text_area_changed(self) -> None:
        """What can be sent can be seen in the keys."""
        self._offer()

    def action_page(self, way: int) -> None:
        """A screen of the conversation on."""
        self.lines.action_page(way)

    # -- what can be done

    def why_not(self, action: str) -> str | None:
        """Why an action cannot be done now."""
        if self._asking is not None and action in _WAITING:
            return "an answer is awaited; esc stops waiting for it"
        if self._making:
            return "one moment: the answer is looked through for checks"
        if action == "send" and not self.box.text.strip():
            return "there is nothing to send: write a question first"
        if action in ("make_item", "clear") and not self.talk.messages:
            return _NOTHING_SAID
        if action == "make_item" and self.workspace.editing is None:
            return _NO_DATASET
        return None

    def action_act(self, name: str) -> None:
        """Do an action of the table, or say why not."""
        act(self, name)

    def do_send(self) -> None:
        """Ask; what is written stays in the box until there is an answer."""
        self._pending, self._since = self.box.text, time.monotonic()
        self.box.read_only = True
        self._asking = self.run_worker(self._ask(self._pending), group="asking", name="asking", exit_on_error=False)
        self._tick()
        self.draw()

    async def _ask(self, text: str) -> None:
        says: tuple[str, Kind] = ("", "info")
        answered = False
        try:
            await self.talk.ask(text)
            answered = True
        except CannotTalk as problem:
            says = str(problem), "error"
        except asyncio.CancelledError:
            says = "nobody waits for the answer any more; the question is still in the box", "warn"
            raise
        finally:
            self._asking = self._pending = None
            if self.is_mounted:
                self.box.read_only = False
                if answered:
                    self.box.clear()
                self.tell(*says)
                self.draw()

    def do_clear(self) -> None:
        """Begin again with the same target and values."""
        self.talk.clear()
        self.draw()

    async def do_target(self) -> None:
        """Choose who is talked to."""
        await choose_target(self)

    async def do_variables(self) -> None:
        """Fill in the prompt under test, or say what the target is told first."""
        await fill_in(self)

    async def do_make_item(self) -> None:
        """Make an item after the one the workbench is at, with the checks that are chosen."""
        self._making = True
        try:
            await make_item(self)
        finally:
            self._making = False

    def do_help(self) -> None:
        """The keys."""
        self.app.push_screen(Reading("help · Playground", key_rows))

    def do_leave(self) -> None:
        """Stop waiting, else go back to the workbench; the conversation stays as it is."""
        if self._asking is not None:
            self._asking.cancel()
        else:
            self._away = True
            self.dismiss(None)
