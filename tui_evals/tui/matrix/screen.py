"""The screen of a run as a grid: items by prompt and target, and the answers under the cursor beside each other."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import BindingType

from tui_evals.present.columns import AS_THEY_ARE, Names
from tui_evals.present.grid import GridColumn, named_columns
from tui_evals.present.runs import rejudged_sentence
from tui_evals.present.status import OVER
from tui_evals.store.database import StoreError
from tui_evals.store.filters import FilterError
from tui_evals.store.grid import GridLine, GridOrder
from tui_evals.store.reader import Reader
from tui_evals.store.records import RunRow
from tui_evals.tui.actions import Where, bindings
from tui_evals.tui.feature_screen import FeatureScreen
from tui_evals.tui.messages import CompareColumns, FightBattle, OpenRun, ShowPane
from tui_evals.tui.rows import Row, Rows, row, wrapped
from tui_evals.tui.watch import run_differs
from tui_evals.tui.widgets.bar import Keys, Status
from tui_evals.tui.widgets.dialogs import Entry, Menu
from tui_evals.tui.widgets.filter_line import FilterLine
from tui_evals.tui.widgets.focus import give_keys
from tui_evals.tui.widgets.lines import Lines

from .rows import Layout, MatrixRows, beside, head_rows, layout, place_of, text_rows
from .state import CellPages, GridView, read_columns, read_names, read_rows, read_texts

_AGAIN = 2.0
"""Seconds between two looks at a run that goes on."""
_TYPING_PAUSE = 0.1
_HEAD = 5
_NEED_CELL = frozenset(("read", "wide"))
_ORDERS: Mapping[GridOrder, str] = {
    "plan": "in the order of the plan",
    "disagreement": "those first on which the columns disagree most",
    "failures": "those first that failed in most columns",
}
_CSS = """
MatrixScreen { layout: vertical; background: $background; }
MatrixScreen #rows { height: 3fr; }
MatrixScreen #texts { height: 2fr; border-top: solid $border-blurred; }
MatrixScreen.full #head, MatrixScreen.full #rows { display: none; }
MatrixScreen.full #texts { border: none; }
"""


class MatrixScreen(FeatureScreen):
    """Shows a run column by column; escape goes back."""

    where: ClassVar[Where] = "matrix"
    BINDINGS: ClassVar[list[BindingType]] = [*bindings("matrix")]
    DEFAULT_CSS = _CSS

    def __init__(self, database: Path, run: int, answer: int | None = None, names: Names | None = None) -> None:
        """The cursor begins on an answer; names of items that are known need not be read."""
        super().__init__()
        self.database = database
        self._number, self._answer = run, answer
        self._reader: Reader | None = None
        self._run: RunRow | None = None
        self._columns: tuple[GridColumn, ...] = ()
        self._names, self._named = names or AS_THEY_ARE, names is not None
        self._pages: CellPages | None = None
        self._view = self._wanted = GridView()
        """What is shown, and what is to be: it may still be read while the next key comes."""
        self._cursor, self._first = 0, 0
        self._marked: int | None = None
        self._version = -1
        self._text_before = ""
        """The filter from before one began to type, which escape brings back."""

    def compose(self) -> ComposeResult:
        """What stands above the columns, the rows, the answers of one, and the keys."""
        self.top = Lines(choosing=False, id="head")
        self.top.can_focus = False
        self.top.styles.height = _HEAD
        self.lines = Lines(searching=False, id="rows")
        self.texts = Lines(choosing=False, searching=False, id="texts")
        self.entry = FilterLine()
        yield from (self.top, self.lines, self.texts, self.entry)
        yield Status()
        yield Keys()

    def on_mount(self) -> None:
        """Begin to read."""
        self._say("Reading the run…")
        give_keys(self.lines)
        self.offer_keys()
        self._read(self._view)
        self.set_interval(_AGAIN, self._look_again)

    def on_unmount(self) -> None:
        """Give back the connection."""
        if self._reader is not None:
            self._reader.close()
            self._reader = None

    # -- reading

    def _read(self, view: GridView, pause: float = 0.0) -> None:
        self._wanted = view
        reading = self._arrange(view, pause)
        self.run_worker(reading, group="matrix", name="reading the matrix", exclusive=True, exit_on_error=False)

    async def _arrange(self, view: GridView, pause: float) -> None:
        """Show these rows in this order; what stands above them is counted behind the first picture."""
        await asyncio.sleep(pause)
        try:
            if self._reader is None:
                self._open()
            reading = asyncio.to_thread(read_rows, self.database, self._number, view)
            if self._named:
                rows = await reading
            else:
                naming = asyncio.to_thread(read_names, self.database, self._number)
                rows, self._names = await asyncio.gather(reading, naming)
                self._named = True
        except (LookupError, FilterError, StoreError) as problem:
            self._wanted = self._view
            self.tell(str(problem), "error")
            if self._pages is None:
                self._say(f"The run cannot be shown: {problem}.", wrong=True)
            return
        if self._reader is None:  # the screen was left meanwhile
            return
        first = self._pages is None
        self._pages, self._view = CellPages(self._reader, self._number, rows), view
        self._draw(to_answer=first)
        self.offer_keys()
        if first:
            self._count_soon()

    def _open(self) -> None:
        self._reader = Reader(self.database)
        self._run = self._reader.run(self._number)
        self._version = self._reader.data_version()
        self._columns = named_columns(self._run)
        self.top.styles.height = _HEAD + bool(self._columns and self._columns[0].parts)

    def _count_soon(self) -> None:
        self.run_worker(self._count(), group="counting", name="counting", exclusive=True, exit_on_error=False)

    async def _count(self) -> None:
        """The numbers above the columns."""
        assert self._run is not None
        columns = await asyncio.to_thread(read_columns, self.database, self._run)
        if columns and self._columns:
            here = self._columns[self._cursor].place
            marked = None if self._marked is None else self._columns[self._marked].place
            self._columns, self._cursor = columns, place_of(columns, here)
            self._marked = None if marked is None else place_of(columns, marked)
            self._draw()

    def _look_again(self) -> None:
        """A run that goes on has other cells by now; its rows stay as they were put in order."""
        before = self._run
        if self._reader is None or before is None or self._pages is None:
            return
        try:
            version = self._reader.data_version()
            if version == self._version:
                return
            self._version = version
            self._run = self._reader.run(self._number)
        except (LookupError, StoreError) as problem:
            self.tell(str(problem), "error")
            return
        if before.status in OVER and not run_differs(self._run, before):
            return
        self._pages.forget()
        self._draw()
        self._count_soon()

    # -- drawing

    def _say(self, text: str, wrong: bool = False) -> None:
        """A sentence in place of the rows."""
        self.lines.show(lambda width: [row((line, "error" if wrong else "dim")) for line in wrapped(text, width)])

    def _layout(self, width: int) -> Layout:
        shown = layout(width, self._columns, self._cursor, self._marked, self._first, self._names)
        self._first = shown.first
        return shown

    def _draw(self, *, to_answer: bool = False) -> None:
        at = self._begin() if to_answer else None
        self.top.show(self._head)
        self.lines.show(self._rows, at=at)
        self.texts.show(self._texts)

    def _begin(self) -> tuple[int, int] | None:
        """The row of the answer one comes from; its column is under the cursor then."""
        if self._answer is None or self._reader is None:
            return None
        for found in self._reader.rows([self._answer]):
            self._cursor = place_of(self._columns, (found.prompt, found.target))
            return found.item, found.turn
        return None

    def _head(self, width: int) -> Rows:
        run = self._run
        if run is None or not self._columns:
            return []
        count = len(self._pages.rows) if self._pages else 0
        title = f"Matrix of {run.name} ({run.key}) · {count:,} {'row' if count == 1 else 'rows'}"
        words = f" · {self._view.words}" if self._view.words else ""
        going = "" if run.status in OVER else f" · {run.status}"
        rejudged = f" · {sentence}" if (sentence := rejudged_sentence(run)) else ""
        return [
            row((title, "title"), (words, "accent"), (going, "running"), (rejudged, "warn")),
            *head_rows(self._layout(width)),
        ]

    def _rows(self, width: int) -> Rows:
        if self._pages is None:
            return []
        if self._pages.rows and self._columns:
            return MatrixRows(self._pages, self._layout(width))
        if self._view.text:
            return [
                *(row((line, "dim")) for line in wrapped(f"No answer fits the filter {self._view.text}", width)),
                row((" esc ", "key"), "takes it away"),
            ]
        return [row(("This run asks nothing.", "dim"))]

    def _line(self) -> GridLine | None:
        """The row under the cursor."""
        pages = self._pages
        if pages is None or not 0 <= self.lines.cursor < len(pages.rows):
            return None
        return pages.line(self.lines.cursor)

    def _texts(self, width: int) -> Rows:
        reader, run = self._reader, self._run
        if reader is None or run is None or not self._columns:
            return []
        try:
            line = self._line()
            if line is None:
                return []
            numbers = beside(width, len(self._columns), self._cursor, self._marked)
            columns = [self._columns[number] for number in numbers]
            cells = [line.cells.get(column.place) for column in columns]
            texts = read_texts(reader, run, [cell.answer for cell in cells if cell])
        except StoreError as problem:
            return [Row(), row((str(problem), "error"))]
        return text_rows(line, columns, numbers.index(self._cursor), texts, width)

    # -- messages

    def on_lines_moved(self, event: Lines.Moved) -> None:
        """Show the answers of the row the cursor is on."""
        event.stop()
        if event.lines is self.lines:
            self.texts.show(self._texts)
            self.texts.scroll_to(y=0, animate=False)

    def on_lines_chosen(self, event: Lines.Chosen) -> None:
        """Go to the answer."""
        event.stop()
        self.action_act("read")

    def on_resize(self, event: events.Resize) -> None:
        """Other columns fit another width."""
        if self._pages is not None:
            self._draw()

    def on_filter_line_typed(self, event: FilterLine.Typed) -> None:
        """Show only rows with an answer that it lets through, once typing pauses."""
        event.stop()
        if self.entry.display:
            self._read(replace(self._wanted, text=event.text), _TYPING_PAUSE)

    def on_filter_line_given(self, event: FilterLine.Given) -> None:
        """Keep it."""
        event.stop()
        self._close_entry()
        self._read(replace(self._wanted, text=event.text))

    # -- doing

    def why_not(self, action: str) -> str | None:
        """What cannot be done before the run is read, or where there is nothing under the cursor."""
        if action in ("leave", "help", "filter"):
            return None
        if self._pages is None:
            return "the run is still being read"
        if action in _NEED_CELL and not self._pages.rows:
            return "there is no answer here"
        if action == "left" and not self._cursor:
            return "this is the first column"
        if action == "right" and self._cursor >= len(self._columns) - 1:
            return "this is the last column"
        if action in ("compare", "battle"):
            return self._why_no_comparison(action)
        return None

    def _why_no_comparison(self, action: str) -> str | None:
        if len(self._columns) < 2:
            key = "B" if action == "battle" else "="
            return f"this run has only one column; {key} in the list of runs takes another run beside it"
        if self._marked is None:
            return "mark the column to compare with first: space marks the one under the cursor"
        return "this is the marked column; go to another one" if self._marked == self._cursor else None

    def do_left(self) -> None:
        """The column further left."""
        self._to_column(self._cursor - 1)

    def do_right(self) -> None:
        """The column further right."""
        self._to_column(self._cursor + 1)

    def _to_column(self, number: int) -> None:
        self._cursor = number
        self._draw()
        self.offer_keys()

    def do_mark(self) -> None:
        """Mark the column, or take the mark away."""
        self._marked = None if self._marked == self._cursor else self._cursor
        self._draw()
        self.offer_keys()

    def do_compare(self) -> None:
        """Show the marked column and this one as two sides of a comparison."""
        if self._marked is not None:
            pair = (self._columns[self._marked].place, self._columns[self._cursor].place)
            self.app.post_message(CompareColumns(self._number, pair))

    def do_battle(self) -> None:
        """Let a judge choose between the marked column and this one."""
        if self._marked is not None and self._run is not None:
            first, second = (self._columns[number] for number in (self._marked, self._cursor))
            why = f"{first.name} and {second.name} of {self._run.key}, as they answered"
            self.app.post_message(FightBattle([self._run.key], why, (first.place, second.place)))

    async def do_sort(self) -> None:
        """Choose an order."""
        entries = [Entry(order, order, what) for order, what in _ORDERS.items()]
        order: GridOrder | None = await self.app.push_screen_wait(Menu("Sort by", entries))
        if order is not None:
            self._read(replace(self._wanted, order=order))

    def do_filter(self) -> None:
        """Type a filter."""
        self._text_before = self._wanted.text
        self.entry.begin(self._text_before)

    def do_read(self) -> None:
        """Leave, with the answer under the cursor in pane 5."""
        try:
            line = self._line()
        except StoreError as problem:
            self.tell(str(problem), "error")
            return
        cell = None if line is None else line.cells.get(self._columns[self._cursor].place)
        if cell is None:
            self.tell("this column was not asked for this item", "warn")
            return
        self.app.post_message(OpenRun(self._number, cell.answer))
        self.app.post_message(ShowPane("detail"))
        self.dismiss(None)

    def do_wide(self) -> None:
        """The answers over the whole screen, or the grid again."""
        full = not self.has_class("full")
        self.set_class(full, "full")
        give_keys(self.texts if full else self.lines)

    def do_down(self) -> None:
        """Scroll the answers down."""
        self.texts.scroll_relative(y=1, animate=False)

    def do_up(self) -> None:
        """Scroll them back."""
        self.texts.scroll_relative(y=-1, animate=False)

    def _close_entry(self) -> None:
        self.entry.display = False
        give_keys(self.lines)

    def do_leave(self) -> None:
        """Out of the filter, then back to the grid, then to the workbench."""
        if self.entry.display:
            self._close_entry()
            self._read(replace(self._wanted, text=self._text_before))
        elif self.has_class("full"):
            self.do_wide()
        elif self._wanted.text:
            self._read(replace(self._wanted, text=""))
        else:
            self.dismiss(None)
