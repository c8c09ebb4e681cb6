"""Keeps a viewer on one line of a comparison: read and laid out away from the screen's thread, the last wish wins."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace

from tui_evals.compare.runs import Line
from tui_evals.store.database import StoreError
from tui_evals.tui.lines import Rows
from tui_evals.tui.state.comparing import Faced, Finder
from tui_evals.tui.views.facing import BESIDE, Manner, beside_words, later_of, line_rows
from tui_evals.tui.views.parts import paragraph
from tui_evals.tui.widgets.lines import Lines


@dataclass(frozen=True, slots=True)
class _Wish:
    """What is to be on screen."""

    number: int
    line: Line
    manner: Manner
    width: int


class Facing:
    """Shows lines in a viewer; how they are shown stays from one to the next."""

    def __init__(self, lines: Lines) -> None:
        self.manner = Manner()
        self._lines = lines
        self._finder: Finder | None = None
        self._looked_at: tuple[int, Line] | None = None
        self._faced: Faced | None = None
        self._rows: Rows = ()
        self._shown: _Wish | None = None
        self._busy = False

    def begin(self, finder: Finder) -> None:
        """The runs have been read."""
        self._finder = finder

    def look(self, number: int, line: Line) -> None:
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

    def _show_as(self, manner: Manner) -> str:
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

    def _wish(self, width: int = 0) -> _Wish | None:
        width = width or self._lines.scrollable_content_region.width
        return None if self._looked_at is None or width <= 0 else _Wish(*self._looked_at, self.manner, width)

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

    def _laid_out(self, finder: Finder, wish: _Wish) -> Rows:
        if self._faced is None or self._faced.line is not wish.line:
            try:
                self._faced = finder.find(wish.line)
            except (LookupError, StoreError) as problem:
                return paragraph(str(problem), wish.width, "error")
        return line_rows(self._faced, wish.manner, wish.width)

    def _put(self, wish: _Wish, rows: Rows) -> None:
        another = self._shown is None or self._shown.number != wish.number
        self._rows, self._shown = rows, wish
        self._lines.show(self._made)
        if another:
            self._lines.scroll_home(animate=False)
