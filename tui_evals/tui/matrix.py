"""The screen of a run as a grid: items by prompt and target, the answers under the cursor next to each other."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import zip_longest
from pathlib import Path
from typing import Any, ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import BindingType

from tui_evals.garbage import garbage_collection_paused
from tui_evals.light_records import dataclass
from tui_evals.present.answers import (
    FAILING,
    answer_reason,
    error_text,
    expected_text,
    missing_text,
    plain_reason,
    preview_text,
    prompt_text,
    shortened,
)
from tui_evals.present.columns import AS_THEY_ARE, Names, names_of, told_apart
from tui_evals.present.grid import GridColumn, cell_look, cell_score, grid_columns, line_name, named_columns
from tui_evals.present.runs import Column, rejudged_sentence
from tui_evals.present.status import ANSWER_LOOKS, OVER, Look
from tui_evals.store import grid
from tui_evals.store.database import StoreError
from tui_evals.store.details import scores_of
from tui_evals.store.filters import FilterError, parse_filter
from tui_evals.store.grid import GridLine, GridOrder, GridRow
from tui_evals.store.reader import Reader
from tui_evals.store.records import RunRow
from tui_evals.text.measures import counted
from tui_evals.tui.actions import Where, bindings
from tui_evals.tui.answer_context import answer_as_text
from tui_evals.tui.completion import read_filter_values
from tui_evals.tui.messages import CompareColumns, FightBattle, OpenRun, ShowPane
from tui_evals.tui.pane import FeatureScreen
from tui_evals.tui.rows import LazyRows, Piece, Row, Rows, Style, fit, paragraph, row, tone_style, wrapped
from tui_evals.tui.watch import run_differs
from tui_evals.tui.widgets.bar import Keys, Status
from tui_evals.tui.widgets.dialogs import Entry, Menu
from tui_evals.tui.widgets.inputs import FilterLine, give_keys
from tui_evals.tui.widgets.lines import Lines

_PAGE = 64
_PAGES = 40
_LONGEST = 8_000
"""Characters of an answer that are shown below the grid; pane 5 has all of it."""


@dataclass(frozen=True, slots=True)
class GridView:
    """Which rows are shown, and in which order."""

    order: GridOrder = "plan"
    text: str = ""
    differing: bool = False
    """Only show rows whose columns disagree."""

    @property
    def words(self) -> str:
        """The order and the filter in words, for the title."""
        named = {"plan": "", "disagreement": "disagreement first", "failures": "failures first"}
        only = "only where columns differ" if self.differing else ""
        return " · ".join(part for part in (named[self.order], only, self.text) if part)


def read_rows(database: Path, run: int, view: GridView) -> list[GridRow]:
    """The rows of a run; raises FilterError for an invalid filter."""
    with garbage_collection_paused(), Reader(database) as reader:
        return grid.grid_rows(
            reader, run, parse_filter(view.text) if view.text else None, view.order, differing=view.differing
        )


def read_items(database: Path, run: int) -> Sequence[Mapping[str, Any]]:
    """The items of the dataset of a run."""
    with garbage_collection_paused(), Reader(database) as reader:
        found = reader.run(run)
        return reader.dataset(found).items if found.snapshot else ()


def read_names(database: Path, run: int) -> Names:
    """How the items of a run are called together."""
    with Reader(database) as reader:
        return names_of(reader.names(run))


def read_columns(database: Path, run: RunRow) -> tuple[GridColumn, ...]:
    """The columns of a run with their numbers."""
    with Reader(database) as reader:
        return grid_columns(reader, run)


class CellPages:
    """The contents of the rows, read when they become visible; keeps the latest forty pages."""

    def __init__(self, reader: Reader, run: int, rows: Sequence[GridRow], scoring_pass: int = 1) -> None:
        self._reader = reader
        self._run = run
        self._pass = scoring_pass
        self.rows = rows
        self._pages: dict[int, list[GridLine]] = {}
        self._texts: dict[int, dict[int, tuple[str, ...]]] = {}

    def line(self, number: int) -> GridLine:
        """A row with its cells."""
        page = self._pages.get(number // _PAGE)
        if page is None:
            start = number // _PAGE * _PAGE
            page = list(grid.grid_lines(self._reader, self._run, self.rows[start : start + _PAGE]))
            if len(self._pages) >= _PAGES:
                self._pages.pop(next(iter(self._pages)))
            self._pages[number // _PAGE] = page
        return page[number % _PAGE]

    def text(self, number: int, answer: int) -> tuple[str, ...]:
        """Why an answer in a row did not pass, and its beginning."""
        place = number // _PAGE
        if place not in self._texts:
            lines = self._pages.get(place, ())
            if len(self._texts) >= _PAGES:
                self._texts.pop(next(iter(self._texts)))
            self._texts[place] = self._read_texts([cell.answer for line in lines for cell in line.cells.values()])
        return self._texts[place].get(answer, ("",))

    def _read_texts(self, answers: Sequence[int]) -> dict[int, tuple[str, ...]]:
        scores = scores_of(self._reader, answers, self._pass)
        texts: dict[int, tuple[str, ...]] = {}
        for one in self._reader.rows(answers):
            failing = [record for record in scores.get(one.id, ()) if record.result in FAILING]
            error = plain_reason(one.preview) if one.code else ""
            reasons = [answer_reason(error, failing)] if one.code or failing else []
            texts[one.id] = (*reasons, *(() if one.code else (preview_text(one),)))
        return texts

    def forget(self) -> None:
        """Drop cached cells and texts, so that they are read again."""
        self._pages.clear()
        self._texts.clear()


@dataclass(frozen=True, slots=True)
class AnswerText:
    """The text of one of several answers shown together."""

    look: Look
    repeat: int
    reason: str
    """Why it did not pass; empty where it did."""
    text: str


def read_texts(reader: Reader, run: RunRow, answers: Iterable[int]) -> dict[int, AnswerText]:
    """The texts of the given answers, and why they did not pass."""
    rows = reader.rows(answers)
    ids = [row.id for row in rows]
    records, scores = reader.records(ids), scores_of(reader, ids, run.scoring_pass)
    texts = {}
    for one in rows:
        record = records.get(one.id)
        reason = "" if one.status == "pass" else answer_reason(error_text(record), scores.get(one.id, ()))
        text = (answer_as_text(record) if record and not record.code else "") or missing_text(one, record)
        texts[one.id] = AnswerText(ANSWER_LOOKS[one.status], one.repeat, reason, shortened(text, _LONGEST))
    return texts


_LEAST, _MOST = 15, 70
"""Cells of a column."""
_SCORE, _WITH_TEXT = 5, 16
"""Cells of a score, and those behind the status from which the answer or its reason is shown there."""
_BESIDE = 50
"""Cells that an answer needs next to another one."""
_WORDS = len("95 % interval")
_TURN = len(".10")
_LEAST_NAME = 8
_VERDICT = 10
"""Cells of a status, so that the scores are below each other."""
_EDGE, _GAP = "│", " │ "
_MARK = len("A ")
"""Cells of the letter of the region that a column is marked for."""
Marks = Mapping[int, str]
"""The numbers of marked columns with the letter of their region, A or B."""


@dataclass(frozen=True, slots=True)
class Layout:
    """The columns of a width: from which on, how many, and how wide they and the names of items are."""

    columns: tuple[GridColumn, ...]
    cursor: int
    marks: Marks
    first: int
    shown: int
    name: int
    cell: int
    names: Names = AS_THEY_ARE
    """How items are called."""

    @property
    def seen(self) -> range:
        """The columns in sight."""
        return range(self.first, self.first + self.shown)

    def edge(self, number: int) -> Piece:
        """The separator before a column; the column at the cursor has one on both sides."""
        return Piece(_EDGE, "accent") if number in (self.cursor, self.cursor + 1) else Piece(" ")


def layout(
    width: int,
    columns: tuple[GridColumn, ...],
    cursor: int,
    marks: Marks,
    first: int,
    names: Names = AS_THEY_ARE,
) -> Layout:
    """The columns that fit the width, scrolled from `first` only as far as needed to show the cursor."""
    name = max(_LEAST_NAME, min(max(names.wanted + _TURN, _WORDS), width // 4))
    room = width - name - 1
    shown = max(1, min(len(columns), room // (_LEAST + 1)))
    first = min(first, cursor, len(columns) - shown)
    first = max(first, cursor - shown + 1, 0)
    return Layout(columns, cursor, marks, first, shown, name, max(1, min(_MOST, room // shown - 1)), names)


def head_rows(shown: Layout) -> list[Row]:
    """The rows above the columns: names, rates, intervals, cost and time."""
    columns = [shown.columns[number] for number in shown.seen]
    heads, *below = _headings(shown.columns, shown.cell - _MARK)
    letters = {number: f"{letter} " for number, letter in shown.marks.items()}
    names = [letters.get(number, "") + heads[number] for number in shown.seen]
    hidden = "" if len(columns) == len(shown.columns) else _hidden(shown)
    texts: Sequence[tuple[str, Sequence[str], Style]] = (
        ("item", names, "strong"),
        *(("prompt", [prompts[number] for number in shown.seen], "") for prompts in below),
        ("passes", [column.rate_text for column in columns], ""),
        ("95 % interval", [column.interval_text for column in columns], "dim"),
        (hidden or "cost, latency", [column.spent_text for column in columns], "dim"),
    )
    return [_head_row(shown, *line) for line in texts]


def _headings(columns: Sequence[GridColumn], width: int) -> list[list[str]]:
    """The names above the columns, of a width: in one line, or the targets in one and the prompts below."""
    if not columns[0].parts:
        return [told_apart([column.short for column in columns], width)]
    lines = []
    for names in zip(*(column.parts for column in columns), strict=True):
        once = list(dict.fromkeys(names))
        heads = dict(zip(once, told_apart(once, width), strict=True))
        lines.append([heads[name] for name in names])
    return lines


def _head_row(shown: Layout, word: str, texts: Sequence[str], style: Style) -> Row:
    pieces = [fit(word, shown.name, "key" if word[:1] in "‹›" and word else "dim")]
    for number, text in zip(shown.seen, texts, strict=True):
        here = style == "strong" and number == shown.cursor
        pieces += [shown.edge(number), fit(text, shown.cell, "accent" if here else style)]
    return Row((*pieces, shown.edge(shown.seen.stop)), ground="title")


def _hidden(shown: Layout) -> str:
    """A note that more columns exist, and on which side."""
    left = "‹ " if shown.first else ""
    right = " ›" if shown.seen.stop < len(shown.columns) else ""
    return f"{left or '› '}{shown.cursor + 1} of {len(shown.columns)}{right if left else ''}"


HEIGHTS = (1, 3, 6)
"""Lines that a cell may have."""


class MatrixRows(LazyRows):
    """The turns of a run, each some lines high; a line is made when it is looked at, so any number opens at once."""

    def __init__(self, pages: CellPages, shown: Layout, height: int = 1) -> None:
        self._pages = pages
        self._shown = shown
        self._height = height

    def __len__(self) -> int:
        return len(self._pages.rows) * self._height

    def row_at(self, number: int) -> Row:
        number, below = divmod(number, self._height)
        found = self._pages.rows[number]
        try:
            line = self._pages.line(number)
            if below:
                return _text_row(line, self._shown, below, lambda answer: self._pages.text(number, answer))
            return _line_row(line, self._shown, lambda answer: self._pages.text(number, answer), self._height > 1)
        except StoreError as problem:
            key = None if below else (found.item, found.turn)
            return row() if below else row(("! ", "error"), (str(problem), "error"), key=key)

    def find(self, key: Hashable) -> int | None:
        """The row of a turn."""
        places = enumerate(self._pages.rows)
        return next((number * self._height for number, one in places if (one.item, one.turn) == key), None)


def _text_row(line: GridLine, shown: Layout, below: int, text_of: Callable[[int], Sequence[str]]) -> Row:
    """A further line of the answers of a row, each below the reason why it did not pass."""
    pieces = [Piece(" " * shown.name)]
    for number in shown.seen:
        cell = line.cells.get(shown.columns[number].place)
        texts = text_of(cell.answer) if cell is not None else ()
        lines = [part for text in texts for part in wrapped(text, max(shown.cell - 1, 1))]
        text = lines[below - 1] if below <= len(lines) else ""
        pieces += [shown.edge(number), fit(text, shown.cell, "dim")]
    return Row((*pieces, shown.edge(shown.seen.stop)))


def _line_row(line: GridLine, shown: Layout, text_of: Callable[[int], Sequence[str]], texts_below: bool = False) -> Row:
    verdict = min(_VERDICT, shown.cell)
    pieces = [Piece(shown.names.fit(line_name(line) or "deleted", shown.name))]
    for number in shown.seen:
        cell = line.cells.get(shown.columns[number].place)
        pieces.append(shown.edge(number))
        if cell is None:
            pieces.append(Piece(" " * shown.cell))
            continue
        look, score = cell_look(cell), cell_score(cell)
        room = shown.cell - verdict
        with_text = room >= _WITH_TEXT and not texts_below
        words = f" {score}".ljust(_SCORE) + f" {text_of(cell.answer)[0]}" if with_text else f" {score}"
        pieces += [fit(look.text, verdict, tone_style(look.tone)), fit(words, room, "dim")]
    return Row((*pieces, shown.edge(shown.seen.stop)), (line.item, line.turn))


def beside(width: int, count: int, cursor: int, marks: Marks) -> list[int]:
    """The columns to show next to each other: under the cursor, marked, and the following ones."""
    after = [number % count for number in range(cursor, cursor + count)]
    wanted = dict.fromkeys([cursor, *marks, *after])
    return sorted(list(wanted)[: max(1, min(count, width // _BESIDE))])


def text_rows(
    line: GridLine, columns: Sequence[GridColumn], cursor: int, texts: Mapping[int, AnswerText], width: int
) -> Rows:
    """The answers of some columns to a turn next to each other."""
    room = (width - len(_GAP) * (len(columns) - 1)) // len(columns)
    blocks = [_block(line, column, number == cursor, texts, room) for number, column in enumerate(columns)]
    rows = []
    for pieces in zip_longest(*blocks, fillvalue=Piece("")):
        parts: list[Piece] = []
        for text, style in pieces:
            parts += [fit(text, room, style), Piece(_GAP, "dim")]
        rows.append(Row(tuple(parts[:-1])))
    return rows


_ASKED_LINES = 2
_ASKED = 10
"""Width of the labels before the prompt and the expected text."""


def asked_rows(unit: Mapping[str, Any], width: int) -> Iterator[Row]:
    """The prompt and the expected text of a row, shown above its answers."""
    for word, text in (("asked", prompt_text(unit, None)), ("expected", expected_text(unit))):
        lines = wrapped(" ".join(text.split()), max(width - _ASKED, 10)) if text.strip() else []
        for number, line in enumerate(lines[:_ASKED_LINES]):
            more = "…" if number == _ASKED_LINES - 1 and len(lines) > _ASKED_LINES else ""
            yield row((("" if number else word).ljust(_ASKED), "dim"), line + more)


def _block(line: GridLine, column: GridColumn, here: bool, texts: Mapping[int, AnswerText], room: int) -> list[Piece]:
    """One answer: its column, its status with the reason, and its text."""
    pieces = [Piece(column.name, "accent" if here else "strong")]
    cell = line.cells.get(column.place)
    found = None if cell is None else texts.get(cell.answer)
    if cell is None or found is None:
        return [*pieces, Piece("not asked" if cell is None else "deleted", "dim")]
    repeat = f" · repeat {found.repeat + 1} of {cell.answers}" if cell.answers > 1 else ""
    pieces.append(Piece(found.look.text + repeat, tone_style(found.look.tone)))
    pieces += [Piece(part, "dim") for part in wrapped(found.reason, room)] if found.reason else []
    return [*pieces, *(Piece(part) for part in wrapped(found.text, room))]


def place_of(columns: Sequence[GridColumn], place: Column) -> int:
    """The number of a column, 0 where it is not there."""
    return next((number for number, column in enumerate(columns) if column.place == place), 0)


_AGAIN = 2.0
"""Seconds between two looks at a running run."""
_TYPING_PAUSE = 0.1
_HEAD = 5
_FAILED = "!status:pass !status:pending !status:running !status:answered"
"""The filter for answers that did not pass."""
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
        self._items: Sequence[Mapping[str, Any]] | None = None
        """The items of the dataset as they were asked; read after the first frame."""
        self._view = self._wanted = GridView()
        """The current view, and the wanted one: it may still be loading at the next key."""
        self._cursor, self._first = 0, 0
        self._height = HEIGHTS[0]
        self._marks: dict[int, str] = {}
        self._version = -1
        self._text_before = ""
        """The filter from before the typing began, which escape brings back."""

    def compose(self) -> ComposeResult:
        """The head, the rows, the answers of one row, and the keys."""
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
        self._say("Reading the run…")
        give_keys(self.lines)
        self.offer_keys()
        self._read(self._view)
        self.set_interval(_AGAIN, self._look_again)

    def on_unmount(self) -> None:
        if self._reader is not None:
            self._reader.close()
            self._reader = None

    # -- reading

    def _read(self, view: GridView, pause: float = 0.0) -> None:
        self._wanted = view
        reading = self._arrange(view, pause)
        self.run_worker(reading, group="matrix", name="reading the matrix", exclusive=True, exit_on_error=False)

    async def _arrange(self, view: GridView, pause: float) -> None:
        """Show these rows in this order; the header is counted after the first frame."""
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
        if self._reader is None:  # the screen was closed meanwhile
            return
        first, another = self._pages is None, replace(view, text="") != replace(self._view, text="")
        self._pages, self._view = CellPages(self._reader, self._number, rows, self._scoring_pass()), view
        self._draw(to_answer=first)
        if another and not first:
            self.lines.action_edge(-1)  # the requested row is at the top
        self.offer_keys()
        if first:
            self._count_soon()

    def _scoring_pass(self) -> int:
        return self._run.scoring_pass if self._run is not None else 1

    def _open(self) -> None:
        self._reader = Reader(self.database)
        self._run = self._reader.run(self._number)
        self._version = self._reader.data_version()
        self._columns = named_columns(self._run)
        self.top.styles.height = _HEAD + bool(self._columns and self._columns[0].parts)

    def _count_soon(self) -> None:
        self.run_worker(self._count(), group="counting", name="counting", exclusive=True, exit_on_error=False)

    async def _count(self) -> None:
        """The prompt of the item at the cursor, and the numbers above the columns."""
        assert self._run is not None
        if self._items is None:
            self._items = await asyncio.to_thread(read_items, self.database, self._number)
            self.texts.show(self._texts)
        columns = await asyncio.to_thread(read_columns, self.database, self._run)
        if columns and self._columns:
            here = self._columns[self._cursor].place
            marks = {self._columns[number].place: letter for number, letter in self._marks.items()}
            self._columns, self._cursor = columns, place_of(columns, here)
            self._marks = {place_of(columns, place): letter for place, letter in marks.items()}
            self._draw()

    def _look_again(self) -> None:
        """Update the cells of a running run; the order of its rows stays."""
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
        self.lines.show(lambda width: paragraph(text, width, "error" if wrong else "dim"))

    def _layout(self, width: int) -> Layout:
        shown = layout(width, self._columns, self._cursor, self._marks, self._first, self._names)
        self._first = shown.first
        return shown

    def _draw(self, *, to_answer: bool = False) -> None:
        at = self._begin() if to_answer else None
        self.top.show(self._head)
        self.lines.show(self._rows, at=at)
        self.texts.show(self._texts)

    def _begin(self) -> tuple[int, int] | None:
        """The row of the answer that the screen was opened from; its column is under the cursor."""
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
            return MatrixRows(self._pages, self._layout(width), self._height)
        if self._view.text:
            return [
                *paragraph(f"No answer matches the filter {self._view.text}", width, "dim"),
                row((" esc ", "key"), "takes it away"),
            ]
        return [row(("This run asks nothing.", "dim"))]

    def _line(self) -> GridLine | None:
        """The row under the cursor."""
        pages = self._pages
        number = self.lines.cursor // self._height
        return pages.line(number) if pages is not None and 0 <= number < len(pages.rows) else None

    def _texts(self, width: int) -> Rows:
        reader, run = self._reader, self._run
        if reader is None or run is None or not self._columns:
            return []
        try:
            line = self._line()
            if line is None:
                return []
            numbers = beside(width, len(self._columns), self._cursor, self._marks)
            columns = [self._columns[number] for number in numbers]
            cells = [line.cells.get(column.place) for column in columns]
            texts = read_texts(reader, run, [cell.answer for cell in cells if cell])
        except StoreError as problem:
            return [Row(), row((str(problem), "error"))]
        asked = asked_rows(self._unit(line), width)
        return [*asked, *text_rows(line, columns, numbers.index(self._cursor), texts, width)]

    def _unit(self, line: GridLine) -> Mapping[str, Any]:
        """The item or turn of a row as it was asked."""
        items = self._items or ()
        item = items[line.item] if line.item < len(items) else {}
        turns = item.get("turns")
        return turns[line.turn] if isinstance(turns, list) and line.turn < len(turns) else item

    # -- messages

    def on_lines_moved(self, event: Lines.Moved) -> None:
        event.stop()
        if event.lines is self.lines:
            self.texts.show(self._texts)
            self.texts.scroll_to(y=0, animate=False)

    def on_lines_chosen(self, event: Lines.Chosen) -> None:
        event.stop()
        self.action_act("read")

    def on_resize(self, event: events.Resize) -> None:
        if self._pages is not None:
            self._draw()

    def on_filter_line_typed(self, event: FilterLine.Typed) -> None:
        """Show only rows with a matching answer, after a pause in typing."""
        event.stop()
        if self.entry.display:
            self._read(replace(self._wanted, text=event.text), _TYPING_PAUSE)

    def on_filter_line_submitted(self, event: FilterLine.Submitted) -> None:
        event.stop()
        self._close_entry()
        self._read(replace(self._wanted, text=event.text))

    # -- doing

    def why_not(self, action: str) -> str | None:
        """Why an action is not possible: the run is not read yet, or there is nothing at the cursor."""
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
            return f"this run has only one column; {key} in the list of runs compares it with another run"
        first, later = self._regions()
        if not first:
            return "mark the column to compare with first: space marks the one under the cursor"
        if not later:
            return "this is the marked column; go to another one"
        if action == "battle" and len(first) + len(later) > 2:
            return "a battle is between two columns; space takes the marks of the others away"
        from tui_evals.compare.runs import regions_faced  # what compares runs would hold up the first matrix

        faced = regions_faced(first, later)
        return faced if isinstance(faced, str) else None

    def _regions(self) -> tuple[tuple[Column, ...], tuple[Column, ...]]:
        """The columns of A and of B; without a mark for B those that face A from where the cursor is."""
        places = [column.place for column in self._columns]
        first, later = (tuple(places[one] for one in sorted(self._marks) if self._marks[one] == ab) for ab in "AB")
        if later or not first or self._cursor in self._marks:
            return first, later
        prompt, target = here = places[self._cursor]
        for facing in (tuple((prompt, one) for _, one in first), tuple((one, target) for one, _ in first)):
            if here in facing and len({*facing}) == len(first) and {*facing} <= {*places} - {*first}:
                return first, facing
        return first, (here,)

    def do_left(self) -> None:
        self._to_column(self._cursor - 1)

    def do_right(self) -> None:
        self._to_column(self._cursor + 1)

    def _to_column(self, number: int) -> None:
        self._cursor = number
        self._draw()
        self.offer_keys()

    def do_mark(self) -> None:
        """Mark the column for A, then for B, then not."""
        letter = {None: "A", "A": "B"}.get(self._marks.pop(self._cursor, None))
        if letter is not None:
            self._marks[self._cursor] = letter
        self._draw()
        self.offer_keys()

    def do_compare(self) -> None:
        if self._why_no_comparison("compare") is None:
            self.app.post_message(CompareColumns(self._number, self._regions()))

    def do_battle(self) -> None:
        if self._run is not None and self._why_no_comparison("battle") is None:
            places = [place for region in self._regions() for place in region]
            first, second = (self._columns[place_of(self._columns, place)] for place in places)
            why = f"{first.name} and {second.name} of {self._run.key}, as they answered"
            self.app.post_message(FightBattle([self._run.key], why, (first.place, second.place)))

    async def do_sort(self) -> None:
        entries = [Entry(order, order, what) for order, what in _ORDERS.items()]
        order: GridOrder | None = await self.app.push_screen_wait(Menu("Sort by", entries))
        if order is not None:
            self._read(replace(self._wanted, order=order))

    def do_failures(self) -> None:
        """Show only rows in which a column failed, or all again."""
        self._read(replace(self._wanted, text="" if self._wanted.text == _FAILED else _FAILED))

    def do_differing(self) -> None:
        """Show only rows whose columns do not agree, or all again."""
        self._read(replace(self._wanted, differing=not self._wanted.differing))

    def do_filter(self) -> None:
        self._text_before = self._wanted.text
        runs = () if self._run is None else (self._run,)
        self.entry.begin(self._text_before, partial(read_filter_values, self.database, runs))

    def do_read(self) -> None:
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

    def do_height(self) -> None:
        """Make the cells higher, or one line again; the cursor stays on its row."""
        self._height = HEIGHTS[(HEIGHTS.index(self._height) + 1) % len(HEIGHTS)]
        self.lines.show(self._rows)
        self.lines.reveal()
        self.tell(f"{counted(self._height, 'line')} for each cell")

    def do_wide(self) -> None:
        full = not self.has_class("full")
        self.set_class(full, "full")
        give_keys(self.texts if full else self.lines)

    def do_down(self) -> None:
        self.texts.scroll_relative(y=1, animate=False)

    def do_up(self) -> None:
        self.texts.scroll_relative(y=-1, animate=False)

    def _close_entry(self) -> None:
        self.entry.display = False
        give_keys(self.lines)

    def do_leave(self) -> None:
        if self.entry.display:
            self._close_entry()
            self._read(replace(self._wanted, text=self._text_before))
        elif self.has_class("full"):
            self.do_wide()
        elif self._wanted.text or self._wanted.differing:
            self._read(replace(self._wanted, text="", differing=False))
        else:
            self.dismiss(None)
