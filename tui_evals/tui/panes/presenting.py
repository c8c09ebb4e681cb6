"""Keeps a viewer on an answer: fetched and laid out away from the screen's thread, one request at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from tui_evals.store.database import StoreError
from tui_evals.tui.lines import Maker, Rows, row
from tui_evals.tui.views.case import Case, Finder, Look
from tui_evals.tui.views.detail import Manner, shown
from tui_evals.tui.views.parts import paragraph
from tui_evals.tui.widgets.lines import Lines

_LONG = 200_000
"""Characters beyond which a diff is waited for with the answer already on screen."""
_PATIENCE = 0.12
"""Seconds the answer before stays on screen while the next one is fetched."""


@dataclass(frozen=True, slots=True)
class _Wanted:
    """What is to be on screen."""

    answer: int
    tick: int
    manner: Manner
    width: int

    def looks_like(self, other: _Wanted | None) -> bool:
        """Whether both show the same, if perhaps of different times."""
        return other is not None and replace(self, tick=0) == replace(other, tick=0)


class Presenter:
    """Shows an answer in a viewer; the latest wish wins, and nobody waits for the ones before it."""

    def __init__(self, lines: Lines, database: Path, empty: Maker, ready: Callable[[], None]) -> None:
        self.manner = Manner()
        self.look: Look | None = None
        self._lines = lines
        self._finder = Finder(database)
        self._empty = empty
        self._ready = ready
        self._answer: int | None = None
        self._tick = 0
        self._fetched = -1
        self._rows: Rows = ()
        self._shown: _Wanted | None = None
        self._busy = False

    @property
    def answer(self) -> int | None:
        """The answer that is looked at, by its id."""
        return self._answer

    @property
    def case(self) -> Case | None:
        """The answer that is looked at, once it is fetched."""
        return self.look.case if self.look is not None else None

    def show(self, answer: int | None) -> None:
        """Look at another answer; the one before stays for a moment, so that nothing flickers."""
        self._answer, self.look = answer, None
        self._tick += 1
        if answer is None or self._shown is None:
            self._forget()
        else:
            self._prepare_soon()
            self._lines.set_timer(_PATIENCE, self._give_up_waiting)

    def again(self) -> None:
        """Something in the store changed: fetch it again, and stay where one is."""
        self._tick += 1
        self._prepare_soon()

    def show_as(self, manner: Manner) -> None:
        """Show it in another manner."""
        self.manner = manner
        self._prepare_soon()

    def appear(self) -> None:
        """The viewer is on screen again: prepare what was wanted meanwhile."""
        self._prepare_soon()

    def _forget(self) -> None:
        self._rows, self._shown = (), None
        self._lines.show(self._made)

    def _give_up_waiting(self) -> None:
        if self._shown is not None and self._shown.answer != self._answer:
            self._forget()

    def _made(self, width: int) -> Rows:
        """The rows as far as they are ready; others are prepared."""
        if self._answer is None:
            return self._empty(width)
        if self._wanted(width) != self._shown:
            self._prepare_soon()
        return self._rows or [row(("…", "dim"))]

    def _wanted(self, width: int = 0) -> _Wanted | None:
        width = width or self._lines.scrollable_content_region.width
        return _Wanted(self._answer, self._tick, self.manner, width) if self._answer is not None and width > 0 else None

    def _prepare_soon(self) -> None:
        if not self._busy and self._lines.is_attached:
            self._busy = True
            self._lines.run_worker(self._prepare(), group="answer", name="showing the answer", exit_on_error=False)

    async def _prepare(self) -> None:
        """Fetch and lay out until what is on screen is what is wanted."""
        try:
            while (wanted := self._wanted()) is not None and wanted != self._shown:
                before = self.look
                if self._fetched != wanted.tick and not await self._fetch(wanted):
                    continue
                look = self.look
                if look is not None and look is before and wanted.looks_like(self._shown):
                    self._shown = wanted
                elif look is not None:
                    await self._lay_out(wanted, look)
        finally:
            self._busy = False

    async def _lay_out(self, wanted: _Wanted, look: Look) -> None:
        if wanted.manner.layout != "answer" and look.size() > _LONG:
            first = replace(wanted.manner, compare=False)
            self._put(replace(wanted, manner=first), await asyncio.to_thread(shown, look, first, wanted.width), wanted)
        self._put(wanted, await asyncio.to_thread(shown, look, wanted.manner, wanted.width), wanted)

    async def _fetch(self, wanted: _Wanted) -> bool:
        """Have the answer as it is in the store; False when it cannot be had, which is shown, or is not wanted now."""
        try:
            case = await asyncio.to_thread(self._finder.find, wanted.answer)
        except (LookupError, StoreError) as problem:
            self._put(wanted, paragraph(str(problem), wanted.width, "error"), wanted)
            return False
        if wanted.answer != self._answer:
            return False
        if self.look is None or self.look.case != case:
            self.look = Look(case)
        self._fetched = wanted.tick
        return True

    def _put(self, prepared: _Wanted, rows: Rows, wanted: _Wanted) -> None:
        """Show what was prepared, unless something else is wanted by now."""
        if not wanted.looks_like(self._wanted()):
            return
        another = self._shown is None or self._shown.answer != prepared.answer
        self._rows, self._shown = rows, prepared
        self._lines.show(self._made)
        if another:
            self._lines.scroll_to(y=0, animate=False)
        self._ready()
