"""Pane 5: one answer beside what was expected, with scores, conversation, request and attempts below."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

from textual import events, on
from textual.app import ComposeResult
from textual.binding import BindingType

from tui_evals.text.safe import safe_line
from tui_evals.tui.actions import bindings
from tui_evals.tui.lines import Rows
from tui_evals.tui.messages import Looked, Place
from tui_evals.tui.pager import page
from tui_evals.tui.state.pen import Pen
from tui_evals.tui.state.watch import Pulse, Watch
from tui_evals.tui.state.workspace import Selection, Workspace
from tui_evals.tui.views.case import Case, place_of, source_file
from tui_evals.tui.views.detail import LAYOUT_NAMES, LAYOUTS, empty, name_of, shown
from tui_evals.tui.views.parts import plain
from tui_evals.tui.widgets.lines import Lines
from tui_evals.tui.widgets.search import SearchLine

from .answering import NOTHING, accept, copy_menu, give_verdict, go_to_item, new_item
from .pane import Pane
from .presenting import Presenter


class DetailPane(Pane):
    """Shows the answer that is looked at; how it is shown and what is searched for is all it keeps."""

    place: ClassVar[Place] = "detail"
    number: ClassVar[int] = 5
    name_: ClassVar[str] = "Answer"
    BINDINGS: ClassVar[list[BindingType]] = [*bindings("detail")]

    def __init__(self, workspace: Workspace, watch: Watch, pen: Pen) -> None:
        super().__init__(workspace, watch, pen)
        self._lines = Lines(choosing=False)
        self._search = SearchLine(self._lines)
        self._presenter = Presenter(self._lines, watch.database, self._empty, self._ready)

    def compose(self) -> ComposeResult:
        """The rows, and a line to search with."""
        yield self._lines
        yield self._search

    # -- showing

    def sync(self) -> None:
        """Show the answer that is looked at, if it is another one."""
        answer = self.watching.answer
        if answer is None or answer != self._presenter.answer:
            self._presenter.show(answer)
            self.entitle()

    def pulse(self, pulse: Pulse) -> None:
        """Show the answer again if it, its conversation, what people say of it or the pass that counts has changed."""
        if self._presenter.answer is None or not pulse:
            return
        case, run = self._presenter.case, self.watching.run
        concerned = {turn.row.id for turn in case.turns} if case else {self._presenter.answer}
        calm = run is None or run.status in ("finished", "interrupted", "planned")
        if calm or pulse.run or pulse.reload or any(row.id in concerned for row in pulse.rows):
            self._presenter.again()

    @on(events.Show)
    def _appeared(self) -> None:
        """Nothing is prepared while the pane is hidden."""
        self._presenter.appear()

    def _empty(self, width: int) -> Rows:
        return empty(self.watching.run is not None, width)

    def _ready(self) -> None:
        """Other rows are on screen."""
        case, manner = self._presenter.case, self._presenter.manner
        if case is not None:
            raw = " · raw" if manner.raw else ""
            self.entitle(f"{safe_line(name_of(case), 60)} · {LAYOUT_NAMES[manner.layout]}{raw}")
        self._search.again()

    # -- what can be done

    def why_not(self, action: str) -> str | None:
        """Everything here needs an answer, some of it more."""
        if self.watching.answer is None:
            return NOTHING
        if action in ("next_match", "previous_match") and not self._search.value:
            return "nothing is searched for; / begins a search"
        case = self._presenter.case
        if action == "accept" and case is not None and not case.text:
            return "there is no text to expect: the answer is empty or missing"
        if action in ("accept", "item") and case is not None and self._file(case) is None:
            return f"the run asked {safe_line(case.run.source, 60)}, which is no dataset file of this project"
        return None

    def selection(self) -> Selection | None:
        """The item of the answer, where the dataset it came from is the one on screen."""
        case, editing = self._presenter.case, self.workspace.editing
        if case is None or editing is None or self._file(case) != editing.document.file.resolve():
            return None
        number = place_of(self.workspace.items, case.item, case.row.item)
        return None if number is None else Selection((number,), f"the item {self.workspace.name_of(number)}")

    def _file(self, case: Case) -> Path | None:
        return source_file(self.workspace.root, case.run, tuple(self.workspace.open))

    def do_layout(self) -> None:
        """Side by side, unified, only the answer."""
        following = LAYOUTS[(LAYOUTS.index(self._presenter.manner.layout) + 1) % len(LAYOUTS)]
        self._presenter.show_as(replace(self._presenter.manner, layout=following))

    def do_raw(self) -> None:
        """Spell out what a terminal would obey, or not."""
        self._presenter.show_as(replace(self._presenter.manner, raw=not self._presenter.manner.raw))

    def do_next(self) -> None:
        """The next answer."""
        self._go(1)

    def do_previous(self) -> None:
        """The answer before."""
        self._go(-1)

    def _go(self, way: int) -> None:
        answer = self.watching.answer
        number = None if answer is None else self.watching.number_of(answer)
        following = self.watching.row((0 if way > 0 else len(self.watching) - 1) if number is None else number + way)
        if following is None:
            self.say("this is the last answer" if way > 0 else "this is the first answer")
            return
        self.watching.answer = following.id
        self.post_message(Looked())

    async def do_accept(self) -> None:
        """Make the answer the expected response."""
        await accept(self)

    async def do_verdict(self) -> None:
        """A verdict of one's own."""
        await give_verdict(self)
        self._presenter.again()

    def do_item(self) -> None:
        """To the item."""
        go_to_item(self)

    async def do_copy(self) -> None:
        """A part of it to the clipboard."""
        await copy_menu(self)

    async def do_new_item(self) -> None:
        """An item from the conversation."""
        await new_item(self)

    async def do_pager(self) -> None:
        """All of it in $PAGER."""
        look, manner = self._presenter.look, self._presenter.manner
        if look is None:
            self.say("the answer is still being fetched", "warn")
            return
        rows = await asyncio.to_thread(shown, look, manner, self.app.size.width)
        text = await asyncio.to_thread(lambda: "\n".join(plain(one).rstrip() for one in rows) + "\n")
        problem = page(self.app, text)
        if problem:
            self.say(problem, "warn")

    # -- searching

    def do_search(self) -> None:
        """Ask what to find."""
        self._search.begin()

    def do_next_match(self) -> None:
        """The next place where it stands."""
        self._search.go(1)

    def do_previous_match(self) -> None:
        """The place before."""
        self._search.go(-1)

    def escape(self) -> bool:
        """End the search."""
        return self._search.end()
