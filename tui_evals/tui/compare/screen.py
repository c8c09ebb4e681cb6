"""The screen that compares runs: head, list of lines, one line in full."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Container, Vertical
from textual.message import Message

from tui_evals.compare.failure_map import Changes
from tui_evals.compare.runs import KINDS, ComparedLine, Comparison, Region
from tui_evals.compare.sides import Kind
from tui_evals.store.database import StoreError
from tui_evals.store.filters import FilterError, parse_filter
from tui_evals.tui.actions import Where, bindings
from tui_evals.tui.compare.charts import WORDS, ChartsScreen, meanings
from tui_evals.tui.compare.pair import PairViewer
from tui_evals.tui.compare.rows import (
    ComparedItemFinder,
    LineRows,
    answers_let_through,
    columns_of,
    count_kinds,
    empty_lines,
    head_lines,
    kind_piece,
    kinds_of_filter,
    lines_of_kinds,
    listed_changes,
    read_names,
    read_runs,
    waiting_lines,
)
from tui_evals.tui.completion import read_filter_values
from tui_evals.tui.messages import FightBattle
from tui_evals.tui.pane import FeatureScreen
from tui_evals.tui.rows import Rows, paragraph
from tui_evals.tui.widgets.bar import Keys, Status
from tui_evals.tui.widgets.dialogs import Entry, Menu
from tui_evals.tui.widgets.inputs import HELP, FilterLine, give_keys
from tui_evals.tui.widgets.lines import Lines

_EVERY: frozenset[Kind] = frozenset(KINDS)


class CompareList(Vertical):
    """Which lines are listed, and the current one."""

    DEFAULT_CSS = "CompareList { height: 1fr; }"

    class Listed(Message):
        """Other lines are listed than before."""

    def __init__(self) -> None:
        super().__init__(id="list")
        self._comparison: Comparison | None = None
        self._changes: Changes = {}
        self._order: Sequence[int] = ()
        """The numbers of the lines in listed order."""
        self.kinds: tuple[Kind, ...] = KINDS
        self.words = ""
        self.filter_words = ""
        """How many lines the words leave, and the key that shows all; empty without words."""
        self._fitting = _EVERY
        self._answers: frozenset[int] | None = None

    def compose(self) -> ComposeResult:
        self._columns = Lines(choosing=False, id="columns")
        self._columns.can_focus = self._columns.display = False
        self._columns.styles.height = 1
        self.lines = Lines(searching=False, id="lines")
        yield self._columns
        yield self.lines

    def say(self, text: str, wrong: bool = False) -> None:
        """A sentence in place of the lines."""
        self.lines.show(lambda width: paragraph(text, width, "error" if wrong else "dim"))

    def take(self, comparison: Comparison, changes: Changes) -> None:
        """List the lines of a comparison, what broke first."""
        self._comparison, self._changes = comparison, changes
        runs = len(comparison.sides)
        self._columns.display = runs > 2
        self._columns.show(lambda width: [columns_of(comparison, width).title()])
        self._list()
        self.lines.to_key(next(iter(self._order), None))

    def only(self, *kinds: Kind) -> None:
        """Show only lines of these kinds; all if none are given."""
        self.kinds = kinds or KINDS
        self._list()

    def only_with(
        self, words: str = "", kinds: frozenset[Kind] = _EVERY, answers: frozenset[int] | None = None
    ) -> None:
        """Show only lines of these kinds, with one of these answers, described by `words`."""
        self.words, self._fitting, self._answers = words, kinds, answers
        self._list()

    def _list(self) -> None:
        comparison, words = self._comparison, self.words
        kinds = tuple(kind for kind in self.kinds if kind in self._fitting)
        if comparison is None:
            return
        listed = listed_changes(comparison.lines, self._changes, kinds, self._answers)
        self._order = [number for one in listed for number in one.numbers]

        def rows(width: int) -> Rows:
            return LineRows(comparison, listed, kinds, width) if listed else empty_lines(self.kinds, words, width)

        self.lines.show(rows)
        left = f"{len(self._order):,} of {len(comparison.lines):,} lines"
        self.filter_words = f"{left} · {words} · * shows all" if words else ""
        self.post_message(self.Listed())

    @property
    def line(self) -> tuple[int, ComparedLine] | None:
        """The line under the cursor, with its number."""
        key = self.lines.key
        return (key, self._comparison.lines[key]) if self._comparison and isinstance(key, int) else None

    def to_kind(self, kind: Kind, way: int) -> None:
        """The next line of a kind, round the end; a filter that hides them all is given up."""
        if self._comparison is None:
            return
        numbers = lines_of_kinds(self._comparison.lines, {kind} & self._fitting, self._answers)
        if kind not in self.kinds or not numbers:
            if not numbers:
                self.words, self._fitting, self._answers = "", _EVERY, None
            numbers = numbers or lines_of_kinds(self._comparison.lines, (kind,), None)
            self.only()
        of_kind = set(numbers)
        places = [place for place, number in enumerate(self._order) if number in of_kind]
        here = next((place for place, number in enumerate(self._order) if number == self.lines.key), -1)
        further: Callable[[int], bool] = (lambda place: place > here) if way > 0 else (lambda place: place < here)
        if places:
            self.lines.to_key(self._order[([*filter(further, places)] or places)[0 if way > 0 else -1]])


_NOTHING: dict[str, tuple[Kind, str]] = {
    "broken": ("broken", "nothing is broken: no answer passed before and fails now"),
    "next_broken": ("broken", "nothing is broken: no answer passed before and fails now"),
    "previous_broken": ("broken", "nothing is broken: no answer passed before and fails now"),
    "fixed": ("fixed", "nothing is fixed: no answer failed before and passes now"),
    "changed": ("changed", "no answer changed that is judged alike"),
}


def why_not(action: str, comparison: Comparison | None, here: bool) -> str | None:
    """Why an action is not possible: the runs are not read yet, or there is no such line."""
    if action in ("leave", "help", "filter"):
        return None
    if comparison is None:
        return "the runs are still being read"
    if action in _NOTHING:
        kind, message = _NOTHING[action]
        return None if any(one.counts[kind] for one in comparison.against) else message
    if action == "versus" and len(comparison.sides) == 2:
        return "there are only two runs here"
    if action in ("wide", "beside", "unified") and not here:
        return "there is no line here"
    return None


async def kind_menu(screen: CompareScreen, comparison: Comparison) -> None:
    """Choose which lines are listed."""
    counts = count_kinds(comparison.lines)
    entries = [
        Entry(kind, kind_piece(kind).text, f"{counts[kind]:,}", why_not="" if counts[kind] else "none")
        for kind in KINDS
    ]
    kind = await screen.app.push_screen_wait(Menu("show only", entries))
    if kind is not None:
        screen.list.only(kind)


def check_filter(text: str) -> None:
    """Raise FilterError if the filter is invalid."""
    parse_filter(kinds_of_filter(text)[1])


_TYPING_PAUSE = 0.1


async def filter_lines(screen: CompareScreen, comparison: Comparison, text: str, pause: float = 0.0) -> None:
    """List only lines with answers that match a filter."""
    await asyncio.sleep(pause)
    try:
        kinds, rest = kinds_of_filter(text)
        answers = await asyncio.to_thread(answers_let_through, screen.database, comparison, rest)
    except (FilterError, StoreError) as problem:
        screen.tell(str(problem), "error")
        return
    screen.list.only_with(text, kinds, answers)


_BESIDE = 100  # columns from which the line in full is next to the list
_WHOLE = 160  # minimum width to show three answers and the expected text in one column each
_TALL = 30  # lines from which there is room for more than the verdict

_CSS = """
CompareScreen { layout: vertical; background: $background; }
CompareScreen #head { max-height: 40%; scrollbar-size-horizontal: 0; border-bottom: solid $border-blurred; }
CompareScreen #both { height: 1fr; layout: vertical; }
CompareScreen #line { border-top: solid $border-blurred; }
CompareScreen.beside #both { layout: horizontal; }
CompareScreen.beside #list { width: 2fr; }
CompareScreen.beside #line { width: 3fr; border-top: none; border-left: solid $border-blurred; }
CompareScreen.full #head, CompareScreen.full #list { display: none; }
CompareScreen.full #line { border: none; }
"""


class CompareScreen(FeatureScreen):
    """Reads the runs away from the screen and shows them; escape goes back."""

    where: ClassVar[Where] = "compare"
    BINDINGS: ClassVar[list[BindingType]] = [*bindings("compare")]
    DEFAULT_CSS = _CSS

    def __init__(
        self, database: Path, runs: Sequence[int], why: str = "", columns: tuple[Region, Region] | None = None
    ) -> None:
        """With a single run, two regions of its grid are compared."""
        super().__init__()
        self.database = database
        self._ids = tuple(runs)
        self._columns = columns
        self._why = why
        self.comparison: Comparison | None = None
        self._words_before = ""
        """The filter from before the typing began, which escape brings back."""
        self._words_wanted = ""

    def compose(self) -> ComposeResult:
        self.top = Lines(choosing=False, id="head")
        self.top.can_focus = False
        self.top.styles.height = "auto"
        self.list = CompareList()
        self.line = Lines(choosing=False, id="line")
        self.facing = PairViewer(self.line)
        self.entry = FilterLine(check_filter, f"kind:broken {HELP}")
        yield self.top
        with Container(id="both"):
            yield self.list
            yield self.line
        yield self.entry
        yield Status()
        yield Keys()

    def on_mount(self) -> None:
        self.set_class(self.app.size.width >= _BESIDE, "beside")
        give_keys(self.list.lines)
        self.offer_keys()
        self.run_worker(self._read(), group="comparing", name="comparing", exit_on_error=False)

    async def _read(self) -> None:
        try:
            runs = await asyncio.to_thread(read_names, self.database, self._ids)
            self.list.lines.show(lambda width: waiting_lines(runs, width))
            comparison, changes = await asyncio.to_thread(read_runs, self.database, self._ids, self._columns)
        except (LookupError, StoreError) as problem:
            self.list.say(f"The runs cannot be compared: {problem}.", wrong=True)
            return
        self.comparison = comparison
        self.facing.begin(ComparedItemFinder(self.database, comparison))
        self._head()
        self.list.take(comparison, changes)
        if self._words_wanted:  # typed while the runs were read
            await filter_lines(self, comparison, self._words_wanted)
        self.offer_keys()
        self.tell(self._why)

    def on_resize(self, event: events.Resize) -> None:
        """Next to each other where there is room, unless the texts of several runs can use the whole width."""
        whole = len(self._ids) > 2 and event.size.width >= _WHOLE and event.size.height >= _TALL
        self.set_class(event.size.width >= _BESIDE and not whole, "beside")
        self._head()

    def _head(self) -> None:
        comparison, tall = self.comparison, self.app.size.height >= _TALL
        if comparison is not None:
            self.top.show(lambda width: head_lines(comparison, width, tall))

    def _look(self) -> None:
        """Show the line under the cursor in full."""
        here = self.list.line
        if here is None:
            self.facing.nothing()
        else:
            self.facing.look(*here)

    # -- messages

    def on_compare_list_listed(self, event: CompareList.Listed) -> None:
        """Other lines are listed: show the one the cursor is on, and say of how many a filter leaves which."""
        event.stop()
        self._look()
        for status in self.query(Status):
            status.rest(self.list.filter_words)

    def on_lines_moved(self, event: Lines.Moved) -> None:
        event.stop()
        if event.lines is self.list.lines:
            self._look()

    def on_lines_chosen(self, event: Lines.Chosen) -> None:
        event.stop()
        self.action_act("wide")

    def on_filter_line_typed(self, event: FilterLine.Typed) -> None:
        """List only what fits the words, once typing pauses."""
        event.stop()
        if self.entry.display:
            self._filter(event.text, _TYPING_PAUSE)

    async def on_filter_line_submitted(self, event: FilterLine.Submitted) -> None:
        """Keep the filter; keys typed after enter wait for it."""
        event.stop()
        self._close_entry()
        self.workers.cancel_group(self, "filtering")
        self._words_wanted = event.text
        if self.comparison is not None:
            await filter_lines(self, self.comparison, event.text)

    def _filter(self, text: str, pause: float = 0.0) -> None:
        if self.comparison is not None:
            self._words_wanted = text
            filtering = filter_lines(self, self.comparison, text, pause)
            self.run_worker(filtering, group="filtering", name="filtering", exclusive=True, exit_on_error=False)

    @property
    def _words(self) -> str:
        """The filter of the list, or the one it will have once its answers are found."""
        own = (worker for worker in self.workers if worker.node is self and worker.group == "filtering")
        is_filtering = any(not worker.is_finished for worker in own)
        return self._words_wanted if is_filtering else self.list.words

    def _list_all_words(self) -> None:
        """Forget the filter, one that is still looked for too."""
        self.workers.cancel_group(self, "filtering")
        self.list.only_with()

    # -- doing

    def why_not(self, action: str) -> str | None:
        if action == "battle" and self._columns is not None and max(map(len, self._columns)) > 1:
            return "a battle is between two columns; mark one for A and one for B in the matrix"
        return why_not(action, self.comparison, self.list.line is not None)

    def do_broken(self) -> None:
        self.list.only("broken")

    def do_fixed(self) -> None:
        self.list.only("fixed")

    def do_changed(self) -> None:
        self.list.only("changed")

    async def do_kinds(self) -> None:
        if self.comparison is not None:
            await kind_menu(self, self.comparison)

    def do_every(self) -> None:
        self._list_all_words()
        self.list.only()

    def do_filter(self) -> None:
        self._words_before = self.list.words
        runs = [] if self.comparison is None else [side.run for side in self.comparison.sides]
        values = partial(read_filter_values, self.database, runs, {"kind": KINDS})
        self.entry.begin(self.list.words, values)

    def do_next_broken(self) -> None:
        self.list.to_kind("broken", 1)

    def do_previous_broken(self) -> None:
        self.list.to_kind("broken", -1)

    def do_versus(self) -> None:
        self.tell(self.facing.to_another())

    def do_beside(self) -> None:
        self.tell(self.facing.to_expected())

    def do_unified(self) -> None:
        self.tell(self.facing.to_columns())

    def do_battle(self) -> None:
        if self.comparison is None:
            return
        runs = list(dict.fromkeys(side.run.key for side in self.comparison.sides))
        names = " and ".join(side.run.name for side in self.comparison.sides)
        columns = None if self._columns is None else (self._columns[0][0], self._columns[1][0])
        self.app.post_message(FightBattle(runs, f"{names}, as they answered", columns))

    def do_charts(self) -> None:
        if self.comparison is not None:
            # Imported when needed: it would delay the first frame.

            self.app.push_screen(ChartsScreen(self.comparison))

    def do_down(self) -> None:
        self.line.scroll_relative(y=1, animate=False)

    def do_up(self) -> None:
        self.line.scroll_relative(y=-1, animate=False)

    def do_wide(self) -> None:
        full = not self.has_class("full")
        self.set_class(full, "full")
        give_keys(self.line if full else self.list.lines)

    def glossary(self) -> list[Entry]:
        return [Entry(("word", word), word, text, group="Words") for word, text in meanings(WORDS).items()]

    def _close_entry(self) -> None:
        self.entry.display = False
        give_keys(self.line if self.has_class("full") else self.list.lines)

    def do_leave(self) -> None:
        if self.entry.display:
            self._close_entry()
            self._filter(self._words_before)
        elif self.has_class("full"):
            self.do_wide()
        elif self._words:
            self._list_all_words()
        else:
            self.dismiss(None)
