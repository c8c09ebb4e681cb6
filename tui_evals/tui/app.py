"""The workbench: six panes over one state, a timer that asks the store what changed, and the way of messages."""

from __future__ import annotations

import asyncio
import gc
import signal
import traceback
from collections.abc import Collection
from functools import partial
from pathlib import Path
from typing import ClassVar

from textual import events
from textual.app import App, ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal
from textual.worker import Worker, WorkerState

from tui_evals.datasets.problems import DatasetError
from tui_evals.store.database import StoreError
from tui_evals.targets.base import ConfigurationError
from tui_evals.text.safe import safe
from tui_evals.tui.answer.pane import DetailPane
from tui_evals.tui.item.pane import EditorPane
from tui_evals.tui.judges.pane import JudgesPane
from tui_evals.tui.results.pane import ResultsPane
from tui_evals.tui.runs.ending import entitle, notice
from tui_evals.tui.runs.pane import RunsPane
from tui_evals.tui.tree.pane import TreePane
from tui_evals.tui.widgets.bar import Keys, Status

from . import layout
from .actions import bindings, footer
from .app_commands import COMMANDS, why_not
from .clipboard import copy
from .files import keep_draft, leave, offer_drafts
from .key_queue import KeyQueue
from .messages import CopyText, OpenRun, Place, Severity, ShowPane, StatusMessage
from .pane import Pane
from .session import Session
from .status_line import standing
from .store_writer import StoreWriter
from .terminal import last_resort
from .watch import Watch
from .workspace import Workspace, checked

_LOOK = 0.1
_DRAFTS = 3.0
_CHECK = 0.15
_PANES: tuple[type[Pane], ...] = (TreePane, EditorPane, JudgesPane, RunsPane, ResultsPane, DetailPane)


class Workbench(App[str]):
    """Composes the panes and routes what they tell; what is known lies in the workspace and the watch."""

    CSS_PATH = "styles/app.tcss"
    TITLE = "tui-evals"
    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = [*bindings("everywhere")]

    def __init__(self, root: Path, database: Path, *, dataset: Path | None = None, run: str | None = None) -> None:
        super().__init__()
        self.animation_level = "none"
        self.workspace = Workspace(root, database)
        self.watching = Watch(database)
        self.pen = StoreWriter(database, lambda: self.workspace.variables)
        self.remembered = Session(root, self.pen, self.watching.reader)
        self.front: Place = "tree"
        self.before: list[Place] = []
        self.zoomed = False
        self._wanted = (dataset, run)
        self.typist = KeyQueue(self, super().on_event, self.offer_keys)
        self.drafted: dict[Path, tuple[int, str]] = {}
        self.going_on: str | None = None

    def compose(self) -> ComposeResult:
        """The panes, and two lines below them."""
        with Horizontal(id="panes"):
            yield from (pane(self.workspace, self.watching, self.pen) for pane in _PANES)
        yield Status()
        yield Keys()

    async def on_mount(self) -> None:
        """Read the project, put back what was on screen last, and begin to look."""
        self.set_interval(_LOOK, self._look)
        self.set_interval(_DRAFTS, lambda: self._work(partial(keep_draft, self), "drafts"))
        self.remembered.load()
        try:
            remarks = self.workspace.read_settings()
        except ConfigurationError as problem:
            remarks = [str(problem)]
        self.set_theme(self.workspace.settings.ui.get("theme"))
        self.workspace.look()
        self._open_what_is_wanted()
        entitle(self, self.workspace.root.name)
        loop = asyncio.get_running_loop()
        for signal_ in (signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(signal_, self._hung_up)
        self._work(offer_drafts(self), "drafts offered")
        self.call_after_refresh(self._equip, remarks)
        self.call_after_refresh(_settle_memory)

    def _equip(self, remarks: list[str]) -> None:
        """Behind the first picture: find the evaluators, check the dataset with them, and take what is typed."""
        for remark in [*remarks, *self.workspace.equip()][:1]:
            self.tell(remark, "warn")
        self.sync("judges")
        self.check_soon()
        self._typing = asyncio.create_task(self.typist.work())

    def _open_what_is_wanted(self) -> None:
        dataset, word = self._wanted
        front = self.remembered.restore(self.workspace, self.watching, dataset, word, self.tell)
        notice(self)
        self.sync()
        self.bring(front)

    def set_theme(self, name: object) -> None:
        """Change the theme, if there is one of that name."""
        if isinstance(name, str) and name in self.available_themes:
            self.theme = name

    async def on_event(self, event: events.Event) -> None:
        """What is typed goes through the typist; what comes back from a widget, and all else, is handled here."""
        if isinstance(event, events.Key | events.Paste) and not event.is_forwarded:
            self.typist.take(event)
        else:
            await super().on_event(event)

    # -- panes

    def pane(self, place: Place) -> Pane:
        """One of the six."""
        return self.query_one(f"#{place}", Pane)

    def bring(self, place: Place, *, returning: bool = False) -> None:
        """Put a pane in front and the keys into it."""
        if place != self.front and not returning:
            self.before = [*self.before[-20:], self.front]
        self.front = place
        self.arrange()
        self.pane(place).focus_lines()
        self.offer_keys()

    def arrange(self) -> None:
        """Show the panes that fit the width."""
        shown = layout.visible(self.front, self.size.width, self.zoomed)
        for place in layout.PLACES:
            pane = self.pane(place)
            pane.display = place in shown
            pane.styles.width = f"{self.remembered.weights[place]}fr"

    def on_resize(self, event: events.Resize) -> None:
        """Another width shows other panes."""
        self.arrange()

    def on_descendant_focus(self, event: events.DescendantFocus) -> None:
        """A click puts another pane in front as well."""
        for node in event.widget.ancestors_with_self:
            if isinstance(node, Pane) and node.place != self.front:
                self.before = [*self.before[-20:], self.front]
                self.front = node.place
                self.offer_keys()

    def offer_keys(self) -> None:
        """The keys of the pane in front."""
        if not self._panes((self.front,)):
            return
        pane = self.pane(self.front)
        self.query_one(Keys).offer(
            footer(self.front),
            lambda action: self.why_not(action.name) if action.where == "everywhere" else pane.why_not(action.name),
        )
        self.query_one(Status).rest(standing(self.watching, self.front))

    def _panes(self, places: Collection[Place] = ()) -> list[Pane]:
        """Those that are there: while the screen is left, messages still come and panes have gone."""
        return [pane for pane in self.query(Pane) if not places or pane.place in places]

    def sync(self, *places: Place) -> None:
        """Have panes show the state as it is now."""
        for pane in self._panes(places):
            pane.sync()

    # -- messages

    def tell(self, text: str, kind: Severity = "info") -> None:
        """A sentence in the status line; one that matters also as a toast."""
        for status in self.query(Status):  # there is none any more while the screen is being left
            status.tell(text, kind)
        if kind == "error" and self.is_running:
            self.notify(safe(text), severity="error", markup=False, timeout=8)

    def on_status_message(self, message: StatusMessage) -> None:
        """Something is to be said."""
        self.tell(message.text, message.kind)

    def on_state_changed(self) -> None:
        """The shared state was changed."""
        self.sync()
        self.offer_keys()
        self.check_soon()

    def on_item_shown(self) -> None:
        """One is at another item."""
        self.sync("tree", "editor", "judges")
        self.offer_keys()

    def on_answer_shown(self) -> None:
        """Another answer is looked at."""
        self.sync("results", "detail")
        self.offer_keys()

    def on_show_pane(self, message: ShowPane) -> None:
        """A pane is wanted in front."""
        self.bring(message.place)

    def on_open_run(self, message: OpenRun) -> None:
        """A run is wanted on screen."""
        shown = self.watching.run
        try:
            if shown is None or shown.id != message.run:
                self.watching.open_run(message.run)
        except LookupError as problem:
            self.tell(str(problem), "warn")
            return
        self.watching.answer = message.answer or self.watching.answer
        notice(self)
        self.sync("results", "detail", "runs", "tree")
        self.bring("results")

    def on_copy_text(self, message: CopyText) -> None:
        """A text is wanted in the clipboard."""
        self._work(self._copy(message), "copying")

    async def _copy(self, message: CopyText) -> None:
        # In a thread, because a stalled line holds up whoever writes to it.
        self.tell(await asyncio.to_thread(copy, message.text, message.what, self.workspace.root))

    # -- looking at the store

    def _look(self) -> None:
        if not self.is_running:  # a last tick while the screen is being left finds no panes
            return
        try:
            pulse = self.watching.poll()
        except StoreError as problem:
            self.tell(str(problem), "error")
            return
        if pulse:
            for pane in self._panes():
                pane.pulse(pulse)
            for status in self.query(Status):
                status.rest(standing(self.watching, self.front))
            if pulse.run:
                self.offer_keys()
                notice(self)

    def _hung_up(self) -> None:
        """The terminal is gone or somebody ends us: what is not saved is kept as a draft."""
        last_resort()
        self.run_worker(leave(self), group="acts", name="leaving", exit_on_error=False)

    # -- work in the background

    def check_soon(self) -> None:
        """Validate the open dataset once typing pauses, away from the screen."""
        self._work(self._check, "checking the dataset")

    async def _check(self) -> None:
        await asyncio.sleep(_CHECK)
        editing = self.workspace.editing
        if editing is None or not self.workspace.registry.by_name:
            return
        mark = (id(editing), editing.version)
        if self.workspace.reported == mark:
            return
        report = await asyncio.to_thread(checked, editing, self.workspace.registry)
        if self.is_running and self.workspace.editing is editing and editing.version == mark[1]:
            self.workspace.report, self.workspace.reported = report, mark
            self.sync("tree", "editor", "judges")

    def _work(self, work: object, name: str) -> None:
        self.run_worker(work, group=name, name=name, exclusive=True, exit_on_error=False)  # type: ignore[arg-type]

    def on_worker_state_changed(self, event: Worker.StateChanged) -> None:
        """What went wrong in the background is said, and written down where nobody foresaw it."""
        if event.state is not WorkerState.ERROR:
            return
        problem = event.worker.error
        if isinstance(problem, StoreError | DatasetError | ConfigurationError):
            self.tell(str(problem), "error")
            return
        log = self.workspace.database.parent / "logs" / "workbench.log"
        log.parent.mkdir(mode=0o700, exist_ok=True)
        with open(log, "a", encoding="utf-8") as stream:
            stream.writelines(traceback.format_exception(problem) if problem else ["unknown\n"])
        self.tell(f"{event.worker.name} failed: {problem}. Nothing stored is lost; {log} holds the details", "error")

    def why_not(self, name: str) -> str | None:
        """Why an action that holds everywhere cannot be done now."""
        return why_not(self, name)

    def action_act(self, name: str) -> None:
        """Do an action that holds everywhere, or say why not."""
        reason = self.why_not(name)
        if reason:
            self.tell(reason, "warn")
            return
        outcome = COMMANDS[name](self)
        if outcome is not None:
            self.run_worker(outcome, group="acts", name=name, exit_on_error=False)


def _settle_memory() -> None:
    """What is there after the first picture stays: full collections of it would hold up keys for 50 ms and more."""
    gc.enable()
    gc.collect()
    gc.freeze()
