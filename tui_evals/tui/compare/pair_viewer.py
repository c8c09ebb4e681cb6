"""Keeps a viewer on one line of a comparison; it is read and laid out away from the screen's thread."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace

from tui_evals.compare.runs import ComparedLine
from tui_evals.store.database import StoreError
from tui_evals.tui.rows import Rows, paragraph
from tui_evals.tui.widgets.lines import Lines

from .pair import BESIDE, PairView, beside_words, later_of, line_rows
from .state import ComparedItemFinder, LineTexts


@dataclass(frozen=True, slots=True)
class _PairRequest:
    """What is to be on screen."""

    number: int
    line: ComparedLine
    view: PairView
    width: int


class PairViewer:
    """Shows lines in a viewer; how they are shown stays from one to the next."""

    def __init__(self, lines: Lines) -> None:
        self.view = PairView()
        self._lines = lines
        self._finder: ComparedItemFinder | None = None
        self._line: tuple[int, ComparedLine] | None = None
        self._texts: LineTexts | None = None
        self._rows: Rows = ()
        self._shown: _PairRequest | None = None
        self._busy = False

    def begin(self, finder: ComparedItemFinder) -> None:
        """The runs have been read."""
        self._finder = finder

    def look(self, number: int, line: ComparedLine) -> None:
        """Show another line; the one before stays until it is there."""
        self._line = number, line
        self._prepare_soon()

    def nothing(self) -> None:
        """Show no line."""
        self._line = self._shown = None
        self._rows = ()
        self._lines.show(self._rows_so_far)

    def to_another(self) -> str:
        """Another of the later runs beside the first; says what one sees then."""
        later = self._later() % len(self._line[1].kinds) + 1 if self._line else None
        return self._show_as(replace(self.view, later=later))

    def to_expected(self) -> str:
        """What was expected beside the first run, then beside the later one, then the runs again."""
        beside = BESIDE[(BESIDE.index(self.view.beside) + 1) % len(BESIDE)]
        return self._show_as(replace(self.view, beside=beside))

    def to_columns(self) -> str:
        """One column, or several."""
        return self._show_as(replace(self.view, unified=not self.view.unified))

    def _show_as(self, view: PairView) -> str:
        self.view = view
        self._prepare_soon()
        several = self._line is not None and len(self._line[1].kinds) > 1
        return beside_words(view, self._later(), several)

    def _later(self) -> int:
        return later_of(self._line[1], self.view) if self._line else 1

    def _rows_so_far(self, width: int) -> Rows:
        """The rows as far as they are ready; those for another width are prepared."""
        if self._request(width) != self._shown:
            self._prepare_soon()
        return self._rows

    def _request(self, width: int = 0) -> _PairRequest | None:
        width = width or self._lines.scrollable_content_region.width
        return None if self._line is None or width <= 0 else _PairRequest(*self._line, self.view, width)

    def _prepare_soon(self) -> None:
        if not self._busy and self._finder is not None and self._lines.is_attached:
            self._busy = True
            self._lines.run_worker(
                self._prepare(self._finder), group="line", name="reading the answers", exit_on_error=False
            )

    async def _prepare(self, finder: ComparedItemFinder) -> None:
        """Read and lay out until what is on screen is what is wanted."""
        try:
            while (request := self._request()) is not None and request != self._shown:
                rows = await asyncio.to_thread(self._laid_out, finder, request)
                if request == self._request():
                    self._put(request, rows)
        finally:
            self._busy = False

    def _laid_out(self, finder: ComparedItemFinder, request: _PairRequest) -> Rows:
        if self._texts is None or self._texts.line is not request.line:
            try:
                self._texts = finder.find(request.line)
            except (LookupError, StoreError) as problem:
                return paragraph(str(problem), request.width, "error")
        return line_rows(self._texts, request.view, request.width)

    def _put(self, request: _PairRequest, rows: Rows) -> None:
        another = self._shown is None or self._shown.number != request.number
        self._rows, self._shown = rows, request
        self._lines.show(self._rows_so_far)
        if another:
            self._lines.scroll_home(animate=False)
