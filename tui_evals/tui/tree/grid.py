"""The items as a table: cells edited in place, filled, replaced, and pasted from and copied to a spreadsheet."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.widgets import Input, Static

from tui_evals.datasets.merging import splice
from tui_evals.datasets.paths import CannotEdit, Data
from tui_evals.present.columns import cell_width
from tui_evals.present.status import ANSWER_LOOKS
from tui_evals.store.records import AnswerStatus
from tui_evals.text.safe import safe_line, spelled, unspelled
from tui_evals.tui import editing, opening
from tui_evals.tui.actions import Where, bindings
from tui_evals.tui.completion import Completer, known_tags
from tui_evals.tui.desk import Desk
from tui_evals.tui.drafts import HISTORY_REFUSALS, go_back
from tui_evals.tui.latest_statuses import item_key
from tui_evals.tui.messages import CopyText, StateChanged
from tui_evals.tui.pane import FeatureScreen
from tui_evals.tui.rows import LazyRows, Piece, Row, Style, fit, paragraph, row
from tui_evals.tui.tree.cells import (
    STATUS,
    TEST_ID,
    Column,
    Edits,
    cell_text,
    columns_of,
    paste,
    table_text,
    why_not_cell,
    with_cells,
)
from tui_evals.tui.widgets.bar import Keys, Status
from tui_evals.tui.widgets.dialogs import Ask, AskLong, ConfirmPage, Entry, Menu
from tui_evals.tui.widgets.finding import complete_list
from tui_evals.tui.widgets.inputs import HOLDS_KEYS, CompletionSuggester, LineInput, give_keys
from tui_evals.tui.widgets.lines import Lines

_SAMPLE, _WIDEST, _NARROWEST = 200, 40, 6
_PREVIEW = 20


class GridRows(LazyRows):
    """A row for each item shown, made when it comes into view; the key is the position of the item."""

    def __init__(
        self,
        items: Sequence[object],
        shown: Sequence[int],
        columns: Sequence[tuple[Column, int]],
        current: Column,
        marks: frozenset[int],
        statuses: Mapping[Hashable, AnswerStatus],
    ) -> None:
        self._items, self._shown, self._columns, self._current = items, shown, columns, current
        self._marks, self._statuses = marks, statuses

    def __len__(self) -> int:
        return len(self._shown)

    def find(self, key: Hashable) -> int | None:
        """The row of an item."""
        return self._shown.index(key) if isinstance(key, int) and key in self._shown else None

    def row_at(self, number: int) -> Row:
        """The cells of an item."""
        place = self._shown[number]
        pieces = [Piece("▪ " if place in self._marks else "  ", "mark")]
        for column, width in self._columns:
            style: Style = "accent" if column == self._current else ""
            pieces += [fit(grid_text(self._items[place], column, self._statuses), width, style), Piece(" ")]
        return Row(tuple(pieces), place)


def grid_text(item: object, column: Column, statuses: Mapping[Hashable, AnswerStatus]) -> str:
    """The text of a cell: a value on one line, or the latest status of the item."""
    if column == STATUS:
        status = statuses.get(item_key(item))
        return ANSWER_LOOKS[status].text if status is not None else ""
    return spelled(cell_text(item, column)).replace("\n", " ⏎ ")


class CellInput(LineInput):
    """The line in which a cell is written."""

    spells = True
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("tab", "screen.take_cell('right')", "next cell", show=False),
        Binding("shift+tab", "screen.take_cell('left')", "cell before", show=False),
        Binding("down", "screen.take_cell('down')", "next row", show=False),
    ]


class GridScreen(FeatureScreen):
    """A table of the items of the open dataset; every action is one undoable step."""

    where: ClassVar[Where] = "grid"
    BINDINGS: ClassVar[list[BindingType]] = [*bindings("grid")]
    DEFAULT_CSS = """
    GridScreen { layout: vertical; background: $background; }
    GridScreen #head { scrollbar-size-horizontal: 0; }
    GridScreen .hint { height: 1; color: $text-muted; padding: 0 1; }
    """

    def __init__(self, desk: Desk, statuses: Mapping[Hashable, AnswerStatus]) -> None:
        super().__init__()
        self._desk, self._space, self._statuses = desk, desk.workspace, statuses
        self._columns = columns_of(self._space.items)
        self._seen = self._space.items
        """The items whose columns are known."""
        self._hidden: set[Column] = set()
        self._column = 1
        self._sorted: tuple[Column, bool] | None = None
        self._shown: Sequence[int] = ()
        self._editing: int | None = None
        """The position of the item whose cell is being written."""

    def compose(self) -> ComposeResult:
        self._head = Lines(choosing=False, id="head")
        self._head.can_focus = False
        self._head.styles.height = 2
        self._lines = Lines(id="grid")
        self._hint = Static(classes="hint", markup=False)
        self._input = CellInput(id="cell", classes=HOLDS_KEYS, select_on_focus=False)
        self._input.display = False
        yield self._head
        yield self._lines
        yield self._hint
        yield self._input
        yield Status()
        yield Keys()

    def on_mount(self) -> None:
        give_keys(self._lines)
        self._show(self._space.item or 0)
        self.offer_keys()

    # -- showing

    @property
    def _visible(self) -> list[Column]:
        return [column for column in self._columns if column not in self._hidden]

    @property
    def _current(self) -> Column:
        visible = self._visible
        return visible[min(self._column, len(visible) - 1)]

    @property
    def _place(self) -> int | None:
        """The position of the item under the cursor."""
        key = self._lines.key
        return key if isinstance(key, int) else None

    def _order(self) -> Sequence[int]:
        items = self._space.items
        if self._sorted is None:
            return range(len(items))
        column, descending = self._sorted
        texts = [grid_text(item, column, self._statuses).casefold() for item in items]
        return sorted(range(len(items)), key=texts.__getitem__, reverse=descending)

    def _show(self, at: Hashable = None) -> None:
        """Show the current items; a variable that only new ones have gets a column."""
        before, self._seen = self._seen, self._space.items
        if before is not self._seen:
            more = columns_of(splice(before, self._seen).added)
            self._columns = (*self._columns, *(column for column in more if column not in self._columns))
        self._shown = self._order()
        self._draw(at)

    def _draw(self, at: Hashable = None) -> None:
        items, marks = self._space.items, self._space.marks
        widths = self._widths()

        def fitting(width: int) -> list[tuple[Column, int]]:
            """The columns that fit, from the first on if the current one is among them, else those that end with it."""
            visible = self._visible
            room, chosen = width - 2, list[tuple[Column, int]]()
            place = visible.index(self._current)
            order = [place, *range(place - 1, -1, -1), *range(place + 1, len(visible))]
            for number in order:
                size = min(widths[visible[number]], room)
                if room < _NARROWEST:
                    break
                chosen.append((visible[number], size))
                room -= size + 1
            return sorted(chosen, key=lambda one: visible.index(one[0]))

        self._lines.show(
            lambda width: GridRows(items, self._shown, fitting(width), self._current, marks, self._statuses), at=at
        )
        self._head.show(lambda width: self._head_rows(fitting(width), width))
        self._say_cell()

    def _widths(self) -> dict[Column, int]:
        items = self._space.items[:_SAMPLE]
        return {
            column: max(
                _NARROWEST,
                len(column.name) + 2,
                *(
                    min(cell_width(safe_line(grid_text(item, column, self._statuses), _WIDEST)), _WIDEST)
                    for item in items
                ),
            )
            for column in self._visible
        }

    def _head_rows(self, columns: Sequence[tuple[Column, int]], width: int) -> list[Row]:
        name = self._space.editing.document.file.name if self._space.editing is not None else ""
        marked = f" · {len(self._space.marks):,} marked" if self._space.marks else ""
        left = len(self._visible) - len(columns)
        more = f" · {left} more column{'s' * (left != 1)}: ← →" if left else ""
        sign = {None: "", False: " ▲", True: " ▼"}
        names = [
            fit(
                f"{column.name}{sign[self._sorted[1] if self._sorted and self._sorted[0] == column else None]}",
                size,
                "key" if column == self._current else "strong",
            )
            for column, size in columns
        ]
        title = row((f"{name} · {_items(len(self._space.items))}{marked}{more}", "title"))
        return [title, Row((Piece("  "), *(piece for one in names for piece in (one, Piece(" ")))))]

    def _say_cell(self) -> None:
        """Show the whole cell below the table."""
        place = self._place
        text = "" if place is None or place >= len(self._space.items) else self._cell(place)
        self._hint.update(Content(f"{self._current.name}: {safe_line(text, 300)}"))

    def _cell(self, place: int) -> str:
        return grid_text(self._space.items[place], self._current, self._statuses)

    def on_lines_moved(self, event: Lines.Moved) -> None:
        event.stop()
        self._say_cell()

    def on_lines_chosen(self, event: Lines.Chosen) -> None:
        event.stop()
        self.action_act("edit")

    # -- steps

    def _edit(self, step: Callable[[Data], Data], what: str) -> bool:
        """Edit cells in one step, or show why not; the panes behind are updated when the table is closed."""
        try:
            data = step(self._space.data)
        except CannotEdit as problem:
            self.tell(str(problem), "warn")
            return False
        self._space.apply(data, what)
        self._show(self._place)
        return True

    def _after(self, count: int) -> None:
        """Update the panes behind the table at once if items were removed, else when it is closed."""
        if len(self._space.items) < count:
            self._desk.post_message(StateChanged())
        self._show(self._space.item)

    def _set(self, edits: Edits, what: str) -> bool:
        return self._edit(lambda data: with_cells(data, edits), what)

    def _chosen(self) -> list[int]:
        """The marked items, else the one under the cursor."""
        return sorted(self._space.marks) or ([] if self._place is None else [self._place])

    def why_not(self, action: str) -> str | None:
        if action in ("edit", "fill", "empty", "duplicate", "remove", "mark") and self._place is None:
            return "there is no item here; n adds one"
        if action in ("edit", "fill", "empty", "replace") and self._place is not None:
            return why_not_cell(self._space.items[self._place], self._current) if action == "edit" else None
        if action in ("down", "up") and self._sorted is not None:
            return "the items are sorted here; S three times shows their own order"
        return None

    # -- cells

    async def do_edit(self) -> None:
        place = self._place
        if place is None:
            return
        text, column = cell_text(self._space.items[place], self._current), self._current
        tags = column.kind == "tags"
        complete = complete_list(known_tags(self._space.items)) if tags else Completer(self._space, column.name)
        if "\n" in text or "\t" in text:
            title = f"{column.name} of {self._space.name_of(place)}"
            box = AskLong(title, text, check=lambda text: None, lines=True, complete=complete)
            after = await self.app.push_screen_wait(box)
            if after is not None:
                self._set({place: {column: after}}, f"edit {column.name}")
            return
        self._editing = place
        self._input.suggester = CompletionSuggester(complete)
        self._input.value = spelled(text)
        self._input.cursor_position = len(self._input.value)
        self._input.display = True
        self._hint.update(
            Content(f"{column.name} of {self._space.name_of(place)} · enter next row · tab next cell · esc done")
        )
        give_keys(self._input)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        if event.input is self._input:
            event.stop()
            self._take("down")

    def action_take_cell(self, then: str) -> None:
        """Take the cell that is written, and continue."""
        self._take(then)

    def _take(self, then: str) -> None:
        """Take the cell that is written, and continue to the next one."""
        place, self._editing = self._editing, None
        self._input.display = False
        give_keys(self._lines)
        if place is None:
            return
        column = self._current
        text = unspelled(self._input.value)
        if text != cell_text(self._space.items[place], column):
            self._set({place: {column: text}}, f"edit {column.name}")
        if then == "down":
            self._lines.action_step(1)
        elif then in ("right", "left"):
            (self.do_right if then == "right" else self.do_left)()
            self.action_act("edit")
        self._say_cell()

    def do_empty(self) -> None:
        chosen, column = self._chosen(), self._current
        if self._set({place: {column: ""} for place in chosen}, f"empty {column.name} of {_items(len(chosen))}"):
            self.tell(f"{column.name} of {_items(len(chosen))} is empty; u brings it back")

    def do_fill(self) -> None:
        """Put this cell's text into the marked items, else into the next row, where the cursor goes."""
        place, column = self._place, self._current
        if place is None:
            return
        text = cell_text(self._space.items[place], column)
        others = sorted(self._space.marks - {place})
        row_number = self._lines.cursor + 1
        if not others:
            if row_number >= len(self._shown):
                self.tell("this is the last row; mark the items to fill with space", "warn")
                return
            others = [self._shown[row_number]]
        if self._set({one: {column: text} for one in others}, f"fill {column.name} of {_items(len(others))}"):
            self.tell(f"{column.name} of {_items(len(others))} is the same now; u takes that back")
            if not self._space.marks:
                self._lines.action_step(1)

    async def do_replace(self) -> None:
        """Find and replace in this column of the marked items, else of all, after a preview."""
        column = self._current
        old = await self.app.push_screen_wait(Ask(f"find in {column.name}", hint="exact text"))
        if not old:
            return
        new = await self.app.push_screen_wait(Ask(f"replace {safe_line(old, 30)} with", hint="may be empty"))
        if new is None:
            return
        old, new = unspelled(old), unspelled(new)
        edits: dict[int, dict[Column, str]] = {}
        for place in sorted(self._space.marks) or range(len(self._space.items)):
            text = cell_text(self._space.items[place], column)
            if old in text and why_not_cell(self._space.items[place], column) is None:
                edits[place] = {column: text.replace(old, new)}
        if not edits:
            self.tell(f"{safe_line(old, 40)} is not in {column.name}", "warn")
            return
        sure = ConfirmPage(
            f"replace in {_items(len(edits))}?", lambda width: self._preview(edits, column, width), "replace"
        )
        if await self.app.push_screen_wait(sure) and self._set(edits, f"replace in {column.name}"):
            self.tell(f"replaced in {_items(len(edits))}; u takes that back")

    def _preview(self, edits: Edits, column: Column, width: int) -> list[Row]:
        rows: list[Row] = []
        for place in list(edits)[:_PREVIEW]:
            before, after = cell_text(self._space.items[place], column), edits[place][column]
            rows.append(row((self._space.name_of(place), "strong")))
            rows.append(row(fit(f"- {spelled(before)}", width, "removed")))
            rows.append(row(fit(f"+ {spelled(after)}", width, "added")))
        if len(edits) > _PREVIEW:
            rows += paragraph(f"and {len(edits) - _PREVIEW:,} more", width, "dim")
        return rows

    # -- tables

    def on_paste(self, event: events.Paste) -> None:
        """A table from a spreadsheet: by its headings, else from the current cell on."""
        event.stop()
        visible, at = self._visible, self._lines.cursor
        pasted = paste(self._space.items, self._shown, at, visible, visible.index(self._current), event.text)
        if (pasted.edits or pasted.added) and self._edit(
            lambda data: with_cells(data, pasted.edits, pasted.added), f"paste: {pasted.words}"
        ):
            self.tell(f"{pasted.words}; u takes that back")

    def do_copy(self) -> None:
        """The marked items, else all of them, with headings and the columns shown."""
        marked = sorted(self._space.marks)
        places = marked or list(self._shown)
        text = table_text((self._space.items[place] for place in places), self._visible)
        self.app.post_message(CopyText(text, f"{_items(len(places))} as a table"))
        self.tell(f"copied {_items(len(places))} as tab-separated values")

    # -- columns

    def do_left(self) -> None:
        self._column = max(min(self._column, len(self._visible) - 1) - 1, 0)
        self._draw()

    def do_right(self) -> None:
        self._column = min(self._column + 1, len(self._visible) - 1)
        self._draw()

    def _move_column(self, way: int) -> None:
        columns, here = list(self._columns), self._current
        place = columns.index(here)
        there = min(max(place + way, 0), len(columns) - 1)
        columns.insert(there, columns.pop(place))
        self._columns = tuple(columns)
        self._column = self._visible.index(here)
        self._draw()

    def do_column_left(self) -> None:
        self._move_column(-1)

    def do_column_right(self) -> None:
        self._move_column(1)

    async def do_columns(self) -> None:
        """Choose which columns are shown."""
        entries = [Entry(one, one.name, one.kind, marked=one not in self._hidden) for one in self._columns]
        chosen = await self.app.push_screen_wait(Menu("columns", entries, several=True))
        if chosen:
            self._hidden = set(self._columns) - set(chosen)
            self._draw()

    def do_sort(self) -> None:
        """Sort by this column, then the other way round, then in the order of the file."""
        column = self._current
        way = self._sorted[1] if self._sorted is not None and self._sorted[0] == column else None
        self._sorted = {None: (column, False), False: (column, True), True: None}[way]
        self._show()

    # -- items

    def do_mark(self) -> None:
        if self._place is not None:
            self._space.marks ^= {self._place}
            self._lines.action_step(1)
            self._draw()

    def do_mark_all(self) -> None:
        self._space.marks = frozenset() if self._space.marks else frozenset(self._shown)
        self._draw()

    def _by(self, step: Callable[[], str]) -> None:
        """An edit of whole items, by the steps of the tree; the cursor goes where they lead."""
        count = len(self._space.items)
        self._space.where = ("items", self._place) if self._place is not None else ()
        try:
            said = step()
        except CannotEdit as problem:
            self.tell(str(problem), "warn")
            return
        self.tell(said)
        self._after(count)

    def do_new(self) -> None:
        self._by(lambda: editing.new_item(self._space))
        self._column = next(number for number, column in enumerate(self._visible) if column != TEST_ID)
        self._draw()
        self.action_act("edit")

    def do_duplicate(self) -> None:
        self._by(lambda: editing.duplicate(self._space, self._chosen()))

    def do_remove(self) -> None:
        self._by(lambda: editing.remove(self._space, self._chosen()))

    def do_down(self) -> None:
        self._by(lambda: editing.move(self._space, 1, self._chosen()))

    def do_up(self) -> None:
        self._by(lambda: editing.move(self._space, -1, self._chosen()))

    # -- the dataset

    def _step(self, way: int, said: str) -> None:
        count, what = len(self._space.items), self._space.step(way)
        self.tell(f"{said}: {what}" if what else f"nothing to {'undo' if way < 0 else 'redo'}")
        self._after(count)

    def do_undo(self) -> None:
        self._step(-1, "undone")

    def do_redo(self) -> None:
        self._step(1, "done again")

    async def do_history(self) -> None:
        count = len(self._space.items)
        try:
            said = await go_back(self._desk)
        except HISTORY_REFUSALS as problem:
            self.tell(str(problem), "error")
            return
        if said:
            self.tell(said)
            self._after(count)

    async def do_save(self) -> None:
        document = self._space.editing
        await opening.save(self._desk)
        if document is not None and not document.dirty:
            self.tell(f"{document.document.file.name} saved")

    async def do_search(self) -> None:
        await self._lines.action_search()

    def do_leave(self) -> None:
        """End writing a cell, then the marks, then the table; the tree is at the item of the cursor."""
        if self._editing is not None:
            self._take("done")
            return
        if self._place is not None:
            self._space.where = ("items", self._place)
        self._desk.post_message(StateChanged())
        self.dismiss(None)


def _items(count: int) -> str:
    return f"{count:,} item{'s' * (count != 1)}"
