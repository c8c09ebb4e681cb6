"""When the list of runs is loaded: away from the screen, one load at a time, and for what goes on once a second."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.timer import Timer
from textual.widget import Widget
from textual.widgets import Input

from tui_evals.store.database import StoreError
from tui_evals.store.records import RunRow
from tui_evals.tui.actions import bindings
from tui_evals.tui.key_queue import give_keys
from tui_evals.tui.messages import OpenRun, Place
from tui_evals.tui.pane import Pane
from tui_evals.tui.rows import Rows
from tui_evals.tui.store_writer import StoreWriter
from tui_evals.tui.watch import StoreChange, Watch
from tui_evals.tui.widgets.lines import Lines
from tui_evals.tui.workspace import Workspace

from . import edits
from .edits import Asking, baseline_set, carried_out, deleted, noted, renamed, tagged
from .ending import why_stopped
from .history import PAGE, ChosenRuns, History, ListedRun, RunList, run_of
from .rows import RunRows, about_lines, empty_lines

_PACE = 1.0  # seconds


class Loading:
    """Loads runs for a widget, and tells it when they are there or why they are not."""

    def __init__(
        self, widget: Widget, history: History, done: Callable[[RunList], None], failed: Callable[[str], None]
    ) -> None:
        self.text = ""
        self._limit = PAGE
        self._widget, self._history = widget, history
        self._done, self._failed = done, failed
        self._wanted = self._busy = self._missed = False
        self._last = 0.0
        self._timer: Timer | None = None

    def now(self) -> None:
        """Load now, or once more when what is being loaded is there."""
        self._wanted, self._missed, self._last = True, False, time.monotonic()
        if not self._busy:
            self._busy = True
            self._widget.run_worker(self._load(), group="runs", name="loading the runs", exit_on_error=False)

    def soon(self) -> None:
        """Load when the last time is long enough ago; nothing is loaded for a widget that nobody sees."""
        self._missed = not self._widget.display
        if self._timer is None and not self._missed:
            wait = max(self._last + _PACE - time.monotonic(), 0.001)
            self._timer = self._widget.set_timer(wait, self._due)

    def seen(self) -> None:
        """The widget is in sight again: catch up with what went on."""
        if self._missed:
            self.soon()

    def filter(self, text: str) -> None:
        """Only runs with these words."""
        self.text, self._limit = text, PAGE
        self.now()

    def more(self, shelf: RunList) -> None:
        """Earlier runs than those on a shelf too, unless they are on their way."""
        if len(shelf.past) >= self._limit:
            self._limit += PAGE
            self.now()

    def _due(self) -> None:
        self._timer = None
        self.now()

    async def _load(self) -> None:
        try:
            while self._wanted:
                self._wanted = False
                shelf = await asyncio.to_thread(self._history.load, self._limit, self.text)
                self._last = time.monotonic()
                self._wanted |= not shelf.counted
                self._done(shelf)
        except StoreError as problem:
            self._failed(str(problem))
        finally:
            self._busy = False


_MARKS = 4  # as many runs as can be compared
_TICK = 10.0  # seconds after which ages are old, and a process may have died without a word


class RunsPane(Pane):
    """The list of runs; it loads away from the screen, and again at most once a second."""

    place: ClassVar[Place] = "runs"
    number: ClassVar[int] = 6
    name_: ClassVar[str] = "Runs"
    BINDINGS: ClassVar[list[BindingType]] = [*bindings("runs")]
    DEFAULT_CSS = """
    RunsPane #about { max-height: 9; scrollbar-size-horizontal: 0; border-top: solid $panel; }
    """

    def __init__(self, workspace: Workspace, watch: Watch, pen: StoreWriter) -> None:
        super().__init__(workspace, watch, pen)
        self._loads = Loading(
            self, History(watch.database, workspace.root), self._take, lambda text: self.say(text, "error")
        )
        self._shelf: RunList | None = None
        self._marks: tuple[int, ...] = ()
        self._drawn: tuple[object, ...] = ()
        self._followed: int | None = None

    def compose(self) -> ComposeResult:
        """The runs, what there is to read about one, and a line for the filter."""
        self.lines = Lines()
        self.about = Lines(choosing=False, id="about")
        self.about.can_focus = self.about.display = False
        self.about.styles.height = "auto"
        self.entry = Input(placeholder="words of a name, suite, tag or note", classes="filter")
        self.entry.display = False
        yield self.lines
        yield self.about
        yield self.entry

    def on_mount(self) -> None:
        """Load for the first time."""
        self.set_interval(_TICK, self._tick)
        self._loads.now()

    # -- showing

    def _take(self, shelf: RunList) -> None:
        self._shelf = shelf
        self.sync()

    def sync(self) -> None:
        """Show the runs as they were last loaded, with the one on screen marked."""
        run = self.watching.run
        drawn = (self._shelf, run.id if run else None, self._marks, self._loads.text)
        if self._shelf is not None and drawn != self._drawn:
            self._drawn = drawn
            self._show(self._shelf)

    def _show(self, shelf: RunList) -> None:
        shown, marks, text = self.watching.run.id if self.watching.run else None, self._marks, self._loads.text

        def rows(width: int) -> Rows:
            return RunRows(shelf, width, shown, marks) if shelf.past else empty_lines(text, width)

        self.lines.show(rows, at=self._new_on_screen(shelf))
        self._tell_about()
        self.entitle(f"filter: {text}" if text.strip() else "")

    def _new_on_screen(self, shelf: RunList) -> int | None:
        """The run that was put on screen since the last time, which is where the cursor goes."""
        run = self.watching.run
        if run is None or run.id == self._followed or shelf.get(run.id) is None:
            return None
        self._followed = run.id
        return run.id

    def _tell_about(self) -> None:
        past = self._past()
        parent = self._known(past.run.parent) if past else None
        name = parent.name if parent else ""
        why = why_stopped(self.watching.database, past.run) if past else ""
        self.about.show(lambda width: about_lines(past, name, width, why))
        self.about.display = past is not None and self.size.height >= 14

    def pulse(self, pulse: StoreChange) -> None:
        """Load again when something about runs changed."""
        if pulse.runs or pulse.run or pulse.reload:
            self._loads.soon()

    def on_show(self, event: events.Show) -> None:
        """Catch up with what went on while it was hidden."""
        self._loads.seen()

    def on_resize(self, event: events.Resize) -> None:
        """There may be room for more, or for less."""
        self._tell_about()

    def _tick(self) -> None:
        shelf = self._shelf
        if shelf is not None and any(past.live for past in shelf.past):
            self._loads.soon()
        elif shelf is not None and self.display:
            self._show(shelf)

    # -- where one is

    def _past(self) -> ListedRun | None:
        return self._shelf.get(self.lines.key) if self._shelf else None

    def run_row(self) -> RunRow | None:
        """The run under the cursor."""
        past = self._past()
        return past.run if past else None

    def _known(self, number: int | None) -> RunRow | None:
        return run_of(number, self._shelf, self.watching.reader)

    def on_lines_moved(self, event: Lines.Moved) -> None:
        """Say what there is to read about the run, and load earlier ones at the end."""
        event.stop()
        if self._shelf is None or event.lines is not self.lines:
            return
        self._tell_about()
        last = next((one.key for one in reversed(self.lines.rows[-2:]) if one.key is not None), None)
        if self._shelf.more and last is not None and self.lines.key == last:
            self._loads.more(self._shelf)

    def on_lines_chosen(self, event: Lines.Chosen) -> None:
        """Put the run on screen."""
        event.stop()
        if isinstance(event.key, int):
            self.post_message(OpenRun(event.key))

    # -- doing

    def why_not(self, action: str) -> str | None:
        """Nothing can be done with no run, nor compared with only one."""
        ready = action == "filter" or self._shelf is None
        return None if ready else edits.why_not(action, self._past(), self.chosen)

    def chosen(self) -> ChosenRuns | None:
        """The runs to compare."""
        return edits.chosen(self.run_row(), self._shelf, self._marks, self._known)

    def do_compare(self) -> None:
        """Compare runs."""
        chosen = self.chosen()
        if chosen is not None:
            edits.compare(self.app, self.watching.database, chosen)

    def do_mark(self) -> None:
        """Mark the run, or not; when there are too many marks the oldest goes."""
        run = self.run_row()
        if run is None:
            return
        others = tuple(mark for mark in self._marks if mark != run.id)
        self._marks = others if run.id in self._marks else (*others, run.id)[-_MARKS:]
        self.sync()
        self.lines.action_step(1)

    async def do_baseline(self) -> None:
        """Measure the runs of the dataset against this one, or against none."""
        past = self._past()
        if past is not None:
            await self._edit(baseline_set(past.dataset, past.baseline))

    def do_label(self) -> None:
        """Label answers of the run blind."""
        run = self.run_row()
        if run is not None:
            edits.label(self.app, self.watching.database, run)

    def do_filter(self) -> None:
        """Type words that must stand in a run."""
        self.entry.display = True
        give_keys(self.entry)

    def on_input_changed(self, event: Input.Changed) -> None:
        """Filter while one types."""
        event.stop()
        self._loads.filter(event.value)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Back to the list, filtered."""
        event.stop()
        self.entry.display = bool(self._loads.text.strip())
        give_keys(self.lines)

    def escape(self) -> bool:
        """Leave the filter, then the marks."""
        if self.entry.display:
            self.entry.value = ""
            self.entry.display = False
            give_keys(self.lines)
            return True
        marked, self._marks = bool(self._marks), ()
        self.sync()
        return marked

    async def do_rename(self) -> None:
        """Give the run another name."""
        await self._edit(renamed)

    async def do_tags(self) -> None:
        """Set the tags of the run."""
        await self._edit(tagged)

    async def do_note(self) -> None:
        """Write a note on the run."""
        await self._edit(noted)

    async def do_remove(self) -> None:
        """Delete the run."""
        await self._edit(deleted)

    async def _edit(self, asking: Asking) -> None:
        run = self.run_row()
        said = await carried_out(self.app, self.pen, run, asking) if run is not None else None
        if said is not None:
            self.post_message(said)
            self._loads.now()
