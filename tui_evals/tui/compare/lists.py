"""Keeps a viewer on one line of a comparison: read and laid out away from the screen's thread, the last wish wins."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace

from textual.app import ComposeResult
from textual.containers import Vertical

from tui_evals.compare.match import Kind
from tui_evals.compare.runs import KINDS, ComparedLine, Comparison
from tui_evals.store.database import StoreError
from tui_evals.tui.rows import Rows, paragraph, row, wrapped
from tui_evals.tui.widgets.lines import Lines

from .pair import BESIDE, PairView, beside_words, later_of, line_rows
from .rows import LineRows, columns_of, empty_lines
from .state import Finder, LineTexts, chosen


@dataclass(frozen=True, slots=True)
class _PairRequest:
    """What is to be on screen."""

    number: int
    line: ComparedLine
    manner: PairView
    width: int


class PairViewer:
    """Shows lines in a viewer; how they are shown stays from one to the next."""

    def __init__(self, lines: Lines) -> None:
        self.manner = PairView()
        self._lines = lines
        self._finder: Finder | None = None
        self._looked_at: tuple[int, ComparedLine] | None = None
        self._faced: LineTexts | None = None
        self._rows: Rows = ()
        self._shown: _PairRequest | None = None
        self._busy = False

    def begin(self, finder: Finder) -> None:
        """The runs have been read."""
        self._finder = finder

    def look(self, number: int, line: ComparedLine) -> None:
        """Show another line; the one before stays until it is there."""
        self._looked_at = number, line
        self._prepare_soon()

    def nothing(self) -> None:
        """Show no line."""
        self._looked_at = self._shown = None
        self._rows = ()
        self._lines.show(self._made)

    def to_another(self) -> str:
        """Another of the later runs beside the first; says what one sees then."""
        later = self._later() % len(self._looked_at[1].kinds) + 1 if self._looked_at else None
        return self._show_as(replace(self.manner, later=later))

    def to_expected(self) -> str:
        """What was expected beside the first run, then beside the later one, then the runs again."""
        beside = BESIDE[(BESIDE.index(self.manner.beside) + 1) % len(BESIDE)]
        return self._show_as(replace(self.manner, beside=beside))

    def to_columns(self) -> str:
        """One column, or several."""
        return self._show_as(replace(self.manner, unified=not self.manner.unified))

    def _show_as(self, manner: PairView) -> str:
        self.manner = manner
        self._prepare_soon()
        several = self._looked_at is not None and len(self._looked_at[1].kinds) > 1
        return beside_words(manner, self._later(), several)

    def _later(self) -> int:
        return later_of(self._looked_at[1], self.manner) if self._looked_at else 1

    def _made(self, width: int) -> Rows:
        """The rows as far as they are ready; those for another width are prepared."""
        if self._wish(width) != self._shown:
            self._prepare_soon()
        return self._rows

    def _wish(self, width: int = 0) -> _PairRequest | None:
        width = width or self._lines.scrollable_content_region.width
        return None if self._looked_at is None or width <= 0 else _PairRequest(*self._looked_at, self.manner, width)

    def _prepare_soon(self) -> None:
        if not self._busy and self._finder is not None and self._lines.is_attached:
            self._busy = True
            self._lines.run_worker(
                self._prepare(self._finder), group="line", name="reading the answers", exit_on_error=False
            )

    async def _prepare(self, finder: Finder) -> None:
        """Read and lay out until what is on screen is what is wanted."""
        try:
            while (wish := self._wish()) is not None and wish != self._shown:
                rows = await asyncio.to_thread(self._laid_out, finder, wish)
                if wish == self._wish():
                    self._put(wish, rows)
        finally:
            self._busy = False

    def _laid_out(self, finder: Finder, wish: _PairRequest) -> Rows:
        if self._faced is None or self._faced.line is not wish.line:
            try:
                self._faced = finder.find(wish.line)
            except (LookupError, StoreError) as problem:
                return paragraph(str(problem), wish.width, "error")
        return line_rows(self._faced, wish.manner, wish.width)

    def _put(self, wish: _PairRequest, rows: Rows) -> None:
        another = self._shown is None or self._shown.number != wish.number
        self._rows, self._shown = rows, wish
        self._lines.show(self._made)
        if another:
            self._lines.scroll_home(animate=False)


_EVERY: frozenset[Kind] = frozenset(KINDS)


class CompareList(Vertical):
    """Which lines are listed, and where one is among them."""

    DEFAULT_CSS = "CompareList { height: 1fr; }"

    def __init__(self) -> None:
        super().__init__(id="list")
        self._found: Comparison | None = None
        self.kinds: tuple[Kind, ...] = KINDS
        self.words = ""
        self._fitting = _EVERY
        self._answers: frozenset[int] | None = None

    def compose(self) -> ComposeResult:
        """The letters of the runs, and the lines."""
        self._columns = Lines(choosing=False, id="columns")
        self._columns.can_focus = self._columns.display = False
        self._columns.styles.height = 1
        self.lines = Lines(id="lines")
        yield self._columns
        yield self.lines

    def say(self, text: str, wrong: bool = False) -> None:
        """A sentence in place of the lines."""
        self.lines.show(lambda width: [row((line, "error" if wrong else "dim")) for line in wrapped(text, width)])

    def take(self, found: Comparison) -> None:
        """List the lines of a comparison, the cursor on what broke first."""
        self._found = found
        runs = len(found.sides)
        self._columns.display = runs > 2
        self._columns.show(lambda width: [columns_of(found, width).title(runs)])
        self._list(at=next((number for number, line in enumerate(found.lines) if "broken" in line.kinds), None))

    def only(self, *kinds: Kind) -> None:
        """Only lines of these kinds; all without one."""
        self.kinds = kinds or KINDS
        self._list()

    def only_with(
        self, words: str = "", kinds: frozenset[Kind] = _EVERY, answers: frozenset[int] | None = None
    ) -> None:
        """Only lines of these kinds and with one of these answers, for which the words stand."""
        self.words, self._fitting, self._answers = words, kinds, answers
        self._list()

    def _list(self, at: int | None = None) -> None:
        found, words = self._found, self.words
        kinds = tuple(kind for kind in self.kinds if kind in self._fitting)
        if found is None:
            return
        numbers = chosen(found.lines, kinds, self._answers)

        def rows(width: int) -> Rows:
            return LineRows(found, numbers, kinds, width) if numbers else empty_lines(kinds, words, width)

        self.lines.show(rows, at=at)

    @property
    def line(self) -> tuple[int, ComparedLine] | None:
        """The line under the cursor, with its number."""
        key = self.lines.key
        return (key, self._found.lines[key]) if self._found and isinstance(key, int) else None

    def to_kind(self, kind: Kind, way: int) -> None:
        """The next line of a kind, round the end; a filter that hides them all is given up."""
        if self._found is None:
            return
        numbers = chosen(self._found.lines, {kind} & self._fitting, self._answers)
        if kind not in self.kinds or not numbers:
            if not numbers:
                self.words, self._fitting, self._answers = "", _EVERY, None
            numbers = numbers or chosen(self._found.lines, (kind,), None)
            self.only()
        here = self.lines.key if isinstance(self.lines.key, int) else -1
        further: Callable[[int], bool] = (lambda number: number > here) if way > 0 else (lambda number: number < here)
        later = [number for number in numbers if further(number)]
        if numbers:
            self.lines.to_key((later or numbers)[0 if way > 0 else -1])
