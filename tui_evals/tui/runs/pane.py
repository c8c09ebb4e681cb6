"""Pane 6, the runs: the list, edits of a run, the search in all answers."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from textual import events
from textual.app import App, ComposeResult
from textual.binding import BindingType
from textual.timer import Timer
from textual.widget import Widget
from textual.widgets import Input

from tui_evals.present.answers import preview_text
from tui_evals.present.status import ANSWER_LOOKS
from tui_evals.store.baselines import author_here, clear_baseline, set_baseline
from tui_evals.store.database import StoreError
from tui_evals.store.filters import FilterError, parse_filter
from tui_evals.store.reader import Reader
from tui_evals.store.records import AnswerRow, RunRow
from tui_evals.text.measures import counted
from tui_evals.text.safe import safe_line
from tui_evals.tui.actions import bindings
from tui_evals.tui.messages import (
    CompareRuns,
    FightBattle,
    LabelRun,
    OpenRun,
    Place,
    ShowBattles,
    ShowTrend,
    StatusMessage,
)
from tui_evals.tui.pane import Pane
from tui_evals.tui.rows import Rows
from tui_evals.tui.runs.rows import (
    PAGE,
    ChosenRuns,
    ListedRun,
    RunHistory,
    RunList,
    RunRows,
    about_lines,
    choose_runs,
    empty_lines,
    find_listed_run,
)
from tui_evals.tui.watch import StoreChange, Watch
from tui_evals.tui.widgets.dialogs import Ask, Confirm, Entry, Menu
from tui_evals.tui.widgets.inputs import LineInput, give_keys
from tui_evals.tui.widgets.lines import Lines
from tui_evals.tui.workspace import StoreWriter, Workspace

if TYPE_CHECKING:
    from tui_evals.store.writer import Writer


class RunEdit(NamedTuple):
    """A change of a run that the user asked for."""

    step: Callable[[Writer], None]
    says: str


AskEdit = Callable[[App[Any], RunRow], Awaitable[RunEdit | None]]


async def ask_name(app: App[Any], run: RunRow) -> RunEdit | None:
    """Another name."""
    entered = await app.push_screen_wait(Ask("Name of the run", run.name, check=_name_problem, keeps=True))
    name = entered.strip() if entered is not None else run.name
    return (
        None if name == run.name else RunEdit(lambda writer: writer.edit(run.id, name=name), f"the run is named {name}")
    )


async def ask_tags(app: App[Any], run: RunRow) -> RunEdit | None:
    """Other tags."""
    hint = "words with spaces or commas between them"
    text = await app.push_screen_wait(Ask(f"Tags of {run.name}", " ".join(run.tags), hint=hint, keeps=True))
    if text is None or (tags := tags_of(text)) == run.tags:
        return None
    message = f"{run.name} is tagged {' '.join(f'#{tag}' for tag in tags)}" if tags else f"{run.name} has no tags now"
    return RunEdit(lambda writer: writer.edit(run.id, tags=tags), message)


async def ask_note(app: App[Any], run: RunRow) -> RunEdit | None:
    """Another note."""
    entered = await app.push_screen_wait(Ask(f"Note on {run.name}", run.note, keeps=True))
    note = entered.strip() if entered is not None else run.note
    if note == run.note:
        return None
    message = f"the note on {run.name} is kept" if note else f"{run.name} has no note now"
    return RunEdit(lambda writer: writer.edit(run.id, note=note), message)


async def ask_deletion(app: App[Any], run: RunRow) -> RunEdit | None:
    """The edit that deletes a run, or None, after saying what is deleted with it."""
    answers = f"its {run.total:,} answers" if run.total != 1 else "its answer"
    text = f"{run.name} ({run.key}), {answers}, their scores and what people said of them are deleted for good."
    if not await app.push_screen_wait(Confirm(f"Delete {run.name}?", text, "delete")):
        return None
    return RunEdit(lambda writer: writer.delete_run(run), f"{run.name} ({run.key}) is deleted")


def why_no_baseline(listed: ListedRun) -> str | None:
    """Why nothing can be measured against a run; a baseline can always be taken back."""
    run = listed.run
    if listed.baseline:
        return None
    if run.status != "finished":
        return f"{safe_line(run.name, 60)} is {run.status}: what it has not answered would be missing from comparisons"
    judged = listed.totals is None or listed.judged
    return None if judged else f"{safe_line(run.name, 60)} has no answer that was judged, so nothing compares with it"


def ask_baseline(dataset: str, already: bool, database: Path) -> AskEdit:
    """Measure the runs of a dataset against this one, or against none where it is its baseline already."""

    async def asking(app: App[Any], run: RunRow) -> RunEdit | None:
        if already:
            message = f"{safe_line(dataset, 60)} has no baseline now"
            return RunEdit(lambda writer: clear_baseline(writer, dataset), message)
        message = f"{safe_line(run.name, 60)} is the baseline of {safe_line(dataset, 60)} now. "
        message += await asyncio.to_thread(_drops_shown, database, run)
        return RunEdit(lambda writer: set_baseline(writer, dataset, run.id, author_here()), message)

    return asking


def _drops_shown(database: Path, run: RunRow) -> str:
    """The size of the drop that the items of a baseline can detect."""
    # Imported when needed, because comparing would delay the first frame.
    from tui_evals.compare.baseline import baseline_sentences

    with Reader(database) as reader:
        return safe_line(" ".join(baseline_sentences(reader, run)))


async def carry_out(app: App[Any], writer: StoreWriter, run: RunRow, asking: AskEdit) -> StatusMessage | None:
    """Ask for a change and write it; returns a message, or None if the user cancelled."""
    edit = await asking(app, run)
    if edit is None:
        return None
    try:
        await writer.write(edit.step)
    except (StoreError, LookupError) as problem:
        return StatusMessage(str(problem), "error")
    return StatusMessage(edit.says)


def tags_of(text: str) -> tuple[str, ...]:
    """The typed tags without duplicates; a leading sign is optional."""
    words = (word.lstrip("#") for word in re.split(r"[\s,]+", text))
    return tuple(dict.fromkeys(word for word in words if word))


def _name_problem(text: str) -> str | None:
    return None if text.strip() else "A run needs a name."


_NO_RUN = "no run yet: r starts one"
FindRun = Callable[[int | None], RunRow | None]


def why_not(
    action: str, listed: ListedRun | None, runs: RunList, chosen: Callable[[], ChosenRuns | None]
) -> str | None:
    """Why an action is not possible: there is no run, or only one to compare."""
    if listed is None:
        return _NO_RUN
    if action == "baseline":
        return why_no_baseline(listed)
    if action not in ("compare", "battle") or chosen() is not None:
        return None
    # Imported when needed, to keep the start fast.
    from tui_evals.present.comparisons import why_alone

    return f"{why_alone(listed.run, runs.others(listed.run.id))}: mark other runs with space"


def runs_to_compare(
    here: RunRow | None, runs: RunList | None, marks: Sequence[int], known: FindRun
) -> ChosenRuns | None:
    """The runs to compare: the marked ones, or this one with its baseline, its parent, or the one before."""
    marked = [run for run in map(known, marks) if run is not None]
    if here is None or runs is None:
        return choose_runs(None, marked, None, None, ())
    return choose_runs(here, marked, known(runs.baseline_of(here.id)), known(here.parent), runs.others(here.id))


_MOST = 300
"""Most answers that are listed."""

Found = tuple[AnswerRow, RunRow]


def answers_with(database: Path, text: str) -> list[Found]:
    """The latest answers of all runs that match a filter, each with its run; raises FilterError or StoreError."""
    where = parse_filter(text)
    with Reader(database) as reader:
        rows = reader.search(where, _MOST)
        runs = {number: reader.run(number) for number in {row.run for row in rows}}
    return [(row, runs[row.run]) for row in rows]


async def find_answer(app: App[object], database: Path, before: str) -> tuple[str, tuple[int, int] | None]:
    """The filter, and the selected run and answer; raises StoreError if the store cannot be read."""
    hint = "words of an answer or its item, or a filter: status:fail score:<0.5 id:refund"
    text = await app.push_screen_wait(Ask("find answers of all runs", before, hint=hint, check=_problem))
    if text is None or not text.strip():
        return before, None
    found = await asyncio.to_thread(answers_with, database, text)
    chosen = await app.push_screen_wait(
        Menu(_title(found, text), _entries(found), empty="no answer of any run fits", does="opens run and answer")
    )
    return text, chosen


def _title(found: Sequence[Found], text: str) -> str:
    latest = "the latest " if len(found) == _MOST else ""
    return f"{latest}{counted(len(found), 'answer')} with “{safe_line(text, 40)}”"


def _entries(found: Sequence[Found]) -> list[Entry]:
    return [
        Entry(
            (run.id, row.id),
            f"{run.name} {run.key} · {row.name}",
            f"{ANSWER_LOOKS[row.status].text}  {preview_text(row)}",
        )
        for row, run in found
    ]


def _problem(text: str) -> str | None:
    try:
        parse_filter(text)
    except FilterError as problem:
        return str(problem)
    return None


_PACE = 2.0  # seconds


class RunListLoader:
    """Loads runs for a widget, and tells it when they are there or why they are not."""

    def __init__(
        self, widget: Widget, history: RunHistory, done: Callable[[RunList], None], failed: Callable[[str], None]
    ) -> None:
        self.text = ""
        self._limit = PAGE
        self._widget, self._history = widget, history
        self._done, self._failed = done, failed
        self._requested = self._busy = self._missed = False
        self._last = 0.0
        self._timer: Timer | None = None

    def now(self) -> None:
        """Load now, or again once the current load is done."""
        self._requested, self._missed, self._last = True, False, time.monotonic()
        if not self._busy:
            self._busy = True
            self._widget.run_worker(self._load(), group="runs", name="loading the runs", exit_on_error=False)

    def soon(self) -> None:
        """Load if the last time is long enough ago; a hidden widget loads nothing."""
        self._missed = not self._widget.display
        if self._timer is None and not self._missed:
            wait = max(self._last + _PACE - time.monotonic(), 0.001)
            self._timer = self._widget.set_timer(wait, self._due)

    def catch_up(self) -> None:
        """Load after the widget becomes visible again."""
        if self._missed:
            self.soon()

    def filter(self, text: str) -> None:
        """Only show runs with these words."""
        self.text, self._limit = text, PAGE
        self.now()

    def load_more(self, runs: RunList) -> None:
        """Earlier runs than those on a shelf too, unless they are on their way."""
        if len(runs.listed) >= self._limit:
            self._limit += PAGE
            self.now()

    def _due(self) -> None:
        self._timer = None
        self.now()

    async def _load(self) -> None:
        try:
            while self._requested:
                self._requested = False
                runs = await asyncio.to_thread(self._history.load, self._limit, self.text)
                self._last = time.monotonic()
                self._requested |= not runs.counted
                self._done(runs)
        except StoreError as problem:
            self._failed(str(problem))
        finally:
            self._busy = False


_MARKS = 4  # as many runs as can be compared
_TICK = 10.0  # seconds after which ages are old, and a process may have died without a word


class RunsPane(Pane):
    """The list of runs; loads in a thread, at most once in two seconds."""

    place: ClassVar[Place] = "runs"
    number: ClassVar[int] = 6
    name_: ClassVar[str] = "Runs"
    BINDINGS: ClassVar[list[BindingType]] = [*bindings("runs")]
    DEFAULT_CSS = """
    RunsPane #about { max-height: 9; scrollbar-size-horizontal: 0; border-top: solid $border-blurred; }
    """

    def __init__(self, workspace: Workspace, watch: Watch, writer: StoreWriter) -> None:
        super().__init__(workspace, watch, writer)
        self._loader = RunListLoader(
            self, RunHistory(watch.database, workspace.root), self._take, lambda text: self.say(text, "error")
        )
        self._runs: RunList | None = None
        self._marks: tuple[int, ...] = ()
        self._drawn: tuple[object, ...] = ()
        self._followed: int | None = None
        self._searched = ""

    def compose(self) -> ComposeResult:
        """The runs, what there is to read about one, and a line for the filter."""
        self.lines = Lines(searching=False)
        self.about = Lines(searching=False, quiet=True, id="about")
        self.about.can_focus = self.about.display = False
        self.about.styles.height = "auto"
        self.lines.beyond, self.about.beyond = self._to_about, self._above_about
        self.entry = LineInput(placeholder="words of a name, suite, tag or note", classes="filter")
        self.entry.display = False
        yield self.lines
        yield self.about
        yield self.entry

    def on_mount(self) -> None:
        """Load for the first time."""
        self.set_interval(_TICK, self._tick)
        self._loader.now()

    # -- showing

    def _take(self, runs: RunList) -> None:
        self._runs = runs
        self.sync()

    def sync(self) -> None:
        """Show the last loaded runs, with the one on screen marked."""
        run = self.watching.run
        any_open = self.workspace.editing is not None
        drawn = (self._runs, run.id if run else None, self._marks, self._loader.text, any_open)
        if self._runs is not None and drawn != self._drawn:
            self._drawn = drawn
            self._show(self._runs)

    def _show(self, runs: RunList) -> None:
        shown, marks, text = self.watching.run.id if self.watching.run else None, self._marks, self._loader.text
        any_open = self.workspace.editing is not None

        def rows(width: int) -> Rows:
            return RunRows(runs, width, shown, marks) if runs.listed else empty_lines(text, width, any_open)

        self.lines.filtered = bool(text.strip())
        self.lines.show(rows, at=self._new_on_screen(runs))
        self._tell_about()
        self.entitle(f"filter: {text}" if text.strip() else "")

    def _new_on_screen(self, runs: RunList) -> int | None:
        """The run that was put on screen since the last time, which is where the cursor goes."""
        run = self.watching.run
        if run is None or run.id == self._followed or runs.get(run.id) is None:
            return None
        self._followed = run.id
        return run.id

    def _tell_about(self) -> None:
        listed = self._listed()
        parent = self._known(listed.run.parent) if listed else None
        name = parent.name if parent else ""
        self.about.show(lambda width: about_lines(listed, name, width))
        self.about.display = listed is not None and self.size.height >= 14

    def pulse(self, pulse: StoreChange) -> None:
        """Load again when something about runs changed."""
        if pulse.runs or pulse.run or pulse.reload:
            self._loader.soon()

    def on_show(self, event: events.Show) -> None:
        """Load the changes since the pane was hidden."""
        self._loader.catch_up()

    def on_resize(self, event: events.Resize) -> None:
        """There may be room for more, or for less."""
        self._tell_about()

    def _tick(self) -> None:
        runs = self._runs
        if runs is not None and any(listed.live for listed in runs.listed):
            self._loader.soon()
        elif runs is not None and self.display:
            self._show(runs)

    # -- where one is

    def _listed(self) -> ListedRun | None:
        return self._runs.get(self.lines.key) if self._runs else None

    def run_row(self) -> RunRow | None:
        """The run under the cursor."""
        listed = self._listed()
        return listed.run if listed else None

    def _known(self, number: int | None) -> RunRow | None:
        return find_listed_run(number, self._runs, self.watching.reader)

    def on_lines_moved(self, event: Lines.Moved) -> None:
        """Show hints about the run, and load earlier runs at the end of the list."""
        event.stop()
        if self._runs is None or event.lines is not self.lines:
            return
        self._tell_about()
        last = next((one.key for one in reversed(self.lines.rows[-2:]) if one.key is not None), None)
        if self._runs.more and last is not None and self.lines.key == last:
            self._loader.load_more(self._runs)

    def on_lines_chosen(self, event: Lines.Chosen) -> None:
        """Put the run on screen; the line below the list opens how the runs of its dataset did."""
        event.stop()
        if isinstance(event.key, int):
            self.post_message(OpenRun(event.key))
        elif event.lines is self.about:
            self.do_trend()

    def _to_about(self, way: int) -> None:
        """Below the last run is the line of the trend."""
        if way > 0 and self.about.display and self.about.key is not None:
            self.about.can_focus = True
            give_keys(self.about)

    def _above_about(self, way: int) -> None:
        """Above it are the runs again."""
        if way < 0:
            self._to_runs()

    def _to_runs(self) -> None:
        """The keys belong to the runs, and not to the line below them any more."""
        self.about.can_focus = False
        give_keys(self.lines)

    # -- doing

    def why_not(self, action: str) -> str | None:
        """Why an action is not possible: there is no run, or only one to compare."""
        if action in ("filter", "search", "battles") or self._runs is None:
            return None
        return why_not(action, self._listed(), self._runs, self.chosen)

    def chosen(self) -> ChosenRuns | None:
        """The runs to compare."""
        return runs_to_compare(self.run_row(), self._runs, self._marks, self._known)

    def do_compare(self) -> None:
        """Compare runs."""
        chosen = self.chosen()
        if chosen is not None:
            self.post_message(CompareRuns([run.id for run in chosen.runs], chosen.why))

    def marked_runs(self) -> Sequence[RunRow]:
        """The marked runs that are still there."""
        return [run for run in map(self._known, self._marks) if run is not None]

    def do_mark(self) -> None:
        """Mark the run, or not; when there are too many marks the oldest goes."""
        run = self.run_row()
        if run is None:
            return
        others = tuple(mark for mark in self._marks if mark != run.id)
        self._marks = others if run.id in self._marks else (*others, run.id)[-_MARKS:]
        self.sync()
        self.lines.step(1)

    async def do_baseline(self) -> None:
        """Measure the runs of the dataset against this one, or against none."""
        listed = self._listed()
        if listed is not None:
            await self._edit(ask_baseline(listed.dataset, listed.baseline, self.watching.database))

    def do_label(self) -> None:
        """Label answers of the run blind."""
        run = self.run_row()
        if run is not None:
            self.post_message(LabelRun(run.id))

    def do_filter(self) -> None:
        """Open the filter for words of a run."""
        self.entry.display = True
        give_keys(self.entry)

    async def do_search(self) -> None:
        """Find answers of all runs, and go to the one that is chosen."""
        # Imported when needed, to keep the start fast.
        try:
            self._searched, chosen = await find_answer(self.app, self.watching.database, self._searched)
        except StoreError as problem:
            self.say(str(problem), "error")
            return
        if chosen is not None:
            self.post_message(OpenRun(*chosen))

    def do_battle(self) -> None:
        """Let a judge compare the answers of several runs."""
        chosen = self.chosen()
        if chosen is not None:
            self.post_message(FightBattle([run.key for run in chosen.runs], chosen.why))

    def do_battles(self) -> None:
        """The battles there were."""
        self.post_message(ShowBattles())

    def do_trend(self) -> None:
        """Read how the runs of the dataset did, one after the other."""
        listed = self._listed()
        if listed is not None:
            self.post_message(ShowTrend(listed.dataset))

    def on_input_changed(self, event: Input.Changed) -> None:
        """Filter while one types."""
        event.stop()
        self._loader.filter(event.value)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Back to the list, filtered."""
        event.stop()
        self.entry.display = bool(self._loader.text.strip())
        give_keys(self.lines)

    def escape(self) -> bool:
        """Leave the line below the runs, then the filter, then the marks."""
        if self.about.has_focus:
            self._to_runs()
            return True
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
        await self._edit(ask_name)

    async def do_tags(self) -> None:
        """Set the tags of the run."""
        await self._edit(ask_tags)

    async def do_note(self) -> None:
        """Write a note on the run."""
        await self._edit(ask_note)

    async def do_remove(self) -> None:
        """Delete the run."""
        await self._edit(ask_deletion)

    async def _edit(self, asking: AskEdit) -> None:
        run = self.run_row()
        message = await carry_out(self.app, self.writer, run, asking) if run is not None else None
        if message is not None:
            self.post_message(message)
            self._loader.now()
