"""The workbench: puts the features together, routes their messages, and asks the store what changed."""

from __future__ import annotations

import asyncio
import gc
import signal
import traceback
from pathlib import Path

from textual import events
from textual.driver import Driver
from textual.drivers.linux_driver import LinuxDriver
from textual.worker import Worker, WorkerState

from tui_evals.datasets.problems import DatasetError
from tui_evals.private_files import make_private_folder, private_opener
from tui_evals.store.database import StoreError
from tui_evals.targets.base import ConfigurationError
from tui_evals.tui.answer.pane import DetailPane
from tui_evals.tui.item.pane import EditorPane
from tui_evals.tui.judges.pane import JudgesPane
from tui_evals.tui.playground import commands as playground_commands
from tui_evals.tui.results import workers
from tui_evals.tui.results.pane import ResultsPane
from tui_evals.tui.rules import commands as rules_commands
from tui_evals.tui.runs import commands as runs_commands
from tui_evals.tui.runs.ending import entitle, notice
from tui_evals.tui.runs.pane import RunsPane
from tui_evals.tui.tree.pane import TreePane

from . import (
    dataset_files,
    drafts,
    importing,
    navigation,
    palette,
    problem_steps,
    settings,
    suspending,
)
from .clipboard import copy_to_clipboard
from .desk import Commands
from .desk_app import DeskApp
from .disk_changes import DiskChanges
from .drafts import leave, offer_drafts
from .driver import TerminalDriver
from .feature_screen import FeatureScreen
from .kept import LONGEST_PASTE, keep_paste
from .key_queue import KeyQueue
from .keyboard import Keyboard
from .looks import Looks
from .messages import (
    CompareColumns,
    CompareRuns,
    CopyText,
    FightBattle,
    LabelRun,
    OpenDataset,
    OpenRun,
    ShowMatrix,
    ShowPane,
    ShowTrend,
    StatusMessage,
)
from .pane import Pane
from .terminal import exit_later
from .widgets.focus import return_keys
from .workspace import check_dataset

PANES: tuple[type[Pane], ...] = (TreePane, EditorPane, JudgesPane, RunsPane, ResultsPane, DetailPane)
COMMANDS: Commands = {
    **navigation.COMMANDS,
    **palette.COMMANDS,
    **dataset_files.COMMANDS,
    **problem_steps.COMMANDS,
    **importing.COMMANDS,
    **drafts.COMMANDS,
    **settings.COMMANDS,
    **suspending.COMMANDS,
    **runs_commands.COMMANDS,
    **workers.COMMANDS,
    **rules_commands.COMMANDS,
    **playground_commands.COMMANDS,
}
"""What can be done everywhere, by the name of its action; each feature brings its own."""

_POLL_SECONDS = 0.1
_DRAFT_SECONDS = 3.0
_DISK_SECONDS = 0.5
_TYPING_PAUSE = 0.15


class Workbench(DeskApp):
    """Routes the messages of the panes; what is known lies in the workspace and the watch."""

    def __init__(
        self,
        root: Path,
        database: Path,
        *,
        dataset: Path | None = None,
        run: str | None = None,
        looks: Looks = Looks(),  # noqa: B008  frozen
    ) -> None:
        super().__init__(root, database, PANES, COMMANDS, looks)
        self._first_dataset, self._first_run = dataset, run
        self._rests = False
        """Whether the next look is left out, because the last one found something."""
        self.key_queue = KeyQueue(self, self._forward, self._offer_keys_here)

    def get_driver_class(self) -> type[Driver]:
        """The terminal, read in our way; another driver where one is asked for."""
        usual = super().get_driver_class()
        return TerminalDriver if usual is LinuxDriver else usual

    async def on_mount(self) -> None:
        """Read the project, put back what was on screen last, and begin to look."""
        for event in Keyboard().feed(self.looks.typed):
            if isinstance(event, events.Key):
                self.key_queue.take(event)
        self.session.load()
        self.workspace.read_looks()
        self.dress()
        self.workspace.look()
        self._open_first()
        entitle(self, self.workspace.root.name)
        loop = asyncio.get_running_loop()
        for signal_ in (signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(signal_, self._hung_up)
        self.call_after_refresh(self._equip)
        self.call_after_refresh(_settle_memory)

    def _open_first(self) -> None:
        front = self.session.restore(self.workspace, self.watching, self._first_dataset, self._first_run, self.tell)
        notice(self)
        self.sync()
        self.bring(front)

    def _equip(self) -> None:
        """Behind the first picture: read the settings, find the evaluators, check the dataset, take what is typed."""
        try:
            remarks = self.workspace.read_settings()
        except ConfigurationError as problem:
            remarks = [str(problem)]
        for remark in [*filter(None, [self.writer.read_only]), *remarks, *self.workspace.equip()][:1]:
            self.tell(remark, "warn")
        # Not before: what is written goes through a door that keeps out the secrets of the environment.
        self.set_interval(_POLL_SECONDS, self._look)
        self.set_interval(_DRAFT_SECONDS, lambda: self._work(self.keep_drafts, "drafts"))
        self.set_interval(_DISK_SECONDS, DiskChanges(self).look)
        self.sync("judges")
        self._check_soon()
        self._typing = asyncio.create_task(self.key_queue.work())
        self._work(self._ask_first(), "what is asked first")

    async def _ask_first(self) -> None:
        """Offer what was not saved, and show what is wrong with a dataset that was asked for and cannot be opened.

        Not before keys are taken, for whatever waits for a picture of the panes would wait for the end of a dialog, and
        not before those are done that were typed when no question was in sight.
        """
        await self.key_queue.idle.wait()
        await offer_drafts(self)
        if self._first_dataset is not None and self.workspace.editing is None:
            self.post_message(OpenDataset(self._first_dataset))

    async def on_event(self, event: events.Event) -> None:
        """Keys go through the queue; what comes back from a widget, and all else, is handled here."""
        if isinstance(event, events.Paste) and len(event.text) > LONGEST_PASTE:
            self.tell(keep_paste(self.workspace.root, event.text), "error")
        elif isinstance(event, events.Key | events.Paste) and not event.is_forwarded:
            self.key_queue.take(event)
        else:
            await super().on_event(event)

    async def _forward(self, event: events.Key | events.Paste) -> None:
        return_keys(self.screen)
        await super().on_event(event)

    def _offer_keys_here(self) -> None:
        here = self.screen
        (here if isinstance(here, FeatureScreen) else self).offer_keys()

    # -- messages

    def on_status_message(self, message: StatusMessage) -> None:
        """Show a sentence."""
        self.tell(message.text, message.kind)

    def on_state_changed(self) -> None:
        """Show the shared state as it is now."""
        self.arrange_for_another()
        self.sync()
        self.offer_keys()
        self._check_soon()

    def on_item_shown(self) -> None:
        """Show the item one is at."""
        self.sync("tree", "editor", "judges")
        self.offer_keys()

    def on_answer_shown(self) -> None:
        """Show the answer that is looked at."""
        self.sync("results", "detail")
        self.offer_keys()

    def on_show_pane(self, message: ShowPane) -> None:
        """Bring a pane in front."""
        self.bring(message.place)

    def on_open_dataset(self, message: OpenDataset) -> None:
        """Put a dataset on screen, or show what is wrong with it."""
        opening = dataset_files.enter_file(self, message.file)
        self.run_worker(opening, group="acts", name="open", exit_on_error=False)

    def on_write_prompt(self) -> None:
        """Bring the editor in front with the box of the prompt open."""
        self.bring("editor")
        if self.front == "editor":
            self.query_one(EditorPane).write("prompt")

    def on_save_dataset(self) -> None:
        """Save, or say why not."""
        self.action_act("save")

    def on_open_run(self, message: OpenRun) -> None:
        """Put a run on screen."""
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

    def on_compare_runs(self, message: CompareRuns) -> None:
        """Show runs beside each other."""
        # Imported when it is wanted, because it would hold up every first picture.
        from tui_evals.tui.compare.screen import CompareScreen

        self.push_screen(CompareScreen(self.workspace.database, message.runs, message.why))

    def on_compare_columns(self, message: CompareColumns) -> None:
        """Show two columns of a run beside each other."""
        # Imported when it is wanted, as above.
        from tui_evals.tui.compare.screen import CompareScreen

        self.push_screen(CompareScreen(self.workspace.database, [message.run], columns=message.columns))

    def on_fight_battle(self, message: FightBattle) -> None:
        """Let a judge choose between answers."""
        # Imported when it is wanted, as above.
        from tui_evals.tui.runs.battle import begin

        self.run_worker(begin(self, self.workspace, message), group="acts", name="battle", exit_on_error=False)

    def on_show_battles(self) -> None:
        """List the battles there were."""
        # Imported when it is wanted, as above.
        from tui_evals.tui.runs.battle import choose_past

        self.run_worker(choose_past(self, self.workspace), group="acts", name="battles", exit_on_error=False)

    def on_show_trend(self, message: ShowTrend) -> None:
        """Read how the runs of a dataset did."""
        # Imported when it is wanted, as above.
        from tui_evals.tui.runs.trend import show_trend

        showing = show_trend(self, self.workspace, message.dataset)
        self.run_worker(showing, group="acts", name="trend", exit_on_error=False)

    def on_show_matrix(self, message: ShowMatrix) -> None:
        """Show a run as a grid."""
        # Imported when it is wanted, as above.
        from tui_evals.tui.matrix.screen import MatrixScreen

        figures = self.watching.figures
        names = figures.names if figures is not None and figures.run == message.run else None
        self.push_screen(MatrixScreen(self.workspace.database, message.run, message.answer, names))

    def on_label_run(self, message: LabelRun) -> None:
        """Have answers of a run labelled blind."""
        # Imported when it is wanted, as above.
        from tui_evals.tui.labels.screen import LabelScreen

        self.push_screen(LabelScreen(self.workspace.database, message.run, self.writer))

    def on_copy_text(self, message: CopyText) -> None:
        """Put a text into the clipboard."""
        self._work(self._copy(message), "copying")

    async def _copy(self, message: CopyText) -> None:
        # In a thread, because a stalled line holds up whoever writes to it.
        self.tell(await asyncio.to_thread(copy_to_clipboard, message.text, message.what, self.workspace.root))

    # -- what happens by itself

    def _look(self) -> None:
        if not self.is_running:  # a last tick while the screen is being left finds no panes
            return
        if self._rests:  # where answers come all the time, five pictures a second show as much as ten
            self._rests = False
            return
        try:
            change = self.watching.poll()
        except StoreError as problem:
            self.tell(str(problem), "error")
            return
        self._rests = bool(change)
        if change:
            for pane in self.present_panes():
                pane.pulse(change)
            self.show_resting_status()
            if change.run:
                self.offer_keys()
                notice(self)

    def _hung_up(self) -> None:
        """The terminal is gone or somebody ends us: what is not saved is kept as a draft."""
        exit_later()
        self.run_worker(leave(self), group="acts", name="leaving", exit_on_error=False)

    def _check_soon(self) -> None:
        """Validate the open dataset once typing pauses, away from the screen."""
        self._work(self._check, "checking the dataset")

    async def _check(self) -> None:
        await asyncio.sleep(_TYPING_PAUSE)
        editing = self.workspace.editing
        if editing is None or not self.workspace.registry.by_name:
            return
        state = editing.state
        if self.workspace.reported == state:
            return
        report = await asyncio.to_thread(check_dataset, editing, self.workspace.registry)
        if self.is_running and self.workspace.editing is editing and editing.state == state:
            first = self.workspace.report is None
            self.workspace.report, self.workspace.reported = report, state
            if first:
                gc.freeze()  # the items as they were checked stay, and full collections of them would hold up keys
            self.sync("tree", "editor", "judges")
            self._offer_keys_here()  # what is valid now can be run

    def _work(self, work: object, name: str) -> None:
        self.run_worker(work, group=name, name=name, exclusive=True, exit_on_error=False)  # type: ignore[arg-type]

    def on_worker_state_changed(self, event: Worker.StateChanged) -> None:
        """Show what went wrong in the background, and write it down where nobody foresaw it."""
        if event.state is not WorkerState.ERROR:
            return
        problem = event.worker.error
        if isinstance(problem, StoreError | DatasetError | ConfigurationError):
            self.tell(str(problem), "error")
            return
        log = self.workspace.database.parent / "logs" / "workbench.log"
        try:
            make_private_folder(log.parent, log.parent.parent)
            with open(log, "a", encoding="utf-8", opener=private_opener) as stream:
                stream.writelines(traceback.format_exception(problem) if problem else ["unknown\n"])
            where = f"{log} holds the details"
        except OSError as unwritten:
            where = f"the details could not be written down: {unwritten}"
        self.tell(f"{event.worker.name} failed: {problem}. Nothing stored is lost; {where}", "error")


def _settle_memory() -> None:
    """What is there after the first picture stays: full collections of it would hold up keys for 50 ms and more."""
    gc.enable()
    gc.collect()
    gc.freeze()
