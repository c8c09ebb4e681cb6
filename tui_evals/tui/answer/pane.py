"""Pane 5, one answer: fetched and laid out off the screen's thread, shown in the pane or in $PAGER."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

from textual import events, on
from textual.app import ComposeResult
from textual.binding import BindingType

from tui_evals.datasets.attachments import pictures_of
from tui_evals.datasets.matrix import place_of
from tui_evals.datasets.paths import get_at
from tui_evals.light_records import dataclass
from tui_evals.present.status import FINAL, LIVE
from tui_evals.present.transcripts import transcript_lines
from tui_evals.runs.status import FILES
from tui_evals.store.database import StoreError
from tui_evals.store.rows import references
from tui_evals.text.safe import safe_line
from tui_evals.tui.actions import bindings
from tui_evals.tui.answer.rows import (
    FOLDS,
    LAYOUT_NAMES,
    LAYOUTS,
    AnswerRows,
    AnswerView,
    Stop,
    answer_rows,
    fold_of,
    no_answer_rows,
)
from tui_evals.tui.answer_actions import NO_ANSWER, copy_menu, expect_answer, give_verdict, go_to_item, new_item
from tui_evals.tui.answer_context import (
    AnswerContext,
    AnswerFinder,
    ComparedAnswer,
    answer_title,
    source_file,
    unit_of,
    unit_place,
)
from tui_evals.tui.external_programs import show_in_pager
from tui_evals.tui.messages import AnswerShown, Place
from tui_evals.tui.pane import Pane
from tui_evals.tui.pictures import NO_PICTURE, show_pictures
from tui_evals.tui.rows import Row, RowMaker, Rows, paragraph, row, row_text
from tui_evals.tui.watch import StoreChange, Watch
from tui_evals.tui.widgets.lines import Lines
from tui_evals.tui.workspace import Selection, StoreWriter, Workspace

_LONG = 200_000
"""Characters beyond which a diff is waited for with the answer already on screen."""
_STOPS: Mapping[str, Stop] = {
    "next_change": "change",
    "previous_change": "change",
    "next_section": "section",
    "next_failing": "failing",
}
_STOP_WORDS: Mapping[Stop, str] = {"change": "change", "section": "section", "failing": "not passed"}
_NO_STOP: Mapping[Stop, str] = {
    "change": "there is no change to go to: the answer is as expected, or d shows it alone",
    "section": "there are no sections here",
    "failing": "no evaluator is against this answer",
}
_PATIENCE = 0.12
"""Seconds the answer before stays on screen while the next one is fetched."""


@dataclass(frozen=True, slots=True)
class _AnswerRequest:
    """The answer and the view to show."""

    answer: int
    tick: int
    view: AnswerView
    width: int

    def looks_like(self, other: _AnswerRequest | None) -> bool:
        """Whether both show the same, if perhaps of different times."""
        return other is not None and replace(self, tick=0) == replace(other, tick=0)


class AnswerPresenter:
    """Shows an answer in a viewer; the latest request wins and cancels those before it."""

    def __init__(self, lines: Lines, database: Path, empty: RowMaker, ready: Callable[[], None]) -> None:
        self.view = AnswerView()
        self.look: ComparedAnswer | None = None
        self._lines = lines
        self._finder = AnswerFinder(database)
        self._empty = empty
        self._ready = ready
        self._answer: int | None = None
        self._tick = 0
        self._fetched = -1
        self._rows: Rows = ()
        self._shown: _AnswerRequest | None = None
        self._busy = False

    @property
    def answer(self) -> int | None:
        """The answer that is looked at, by its id."""
        return self._answer

    @property
    def case(self) -> AnswerContext | None:
        """The answer on screen, once it is loaded."""
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
        """Something in the store changed: fetch the answer again without scrolling."""
        self._tick += 1
        self._prepare_soon()

    def show_as(self, view: AnswerView) -> None:
        """Show it in another manner."""
        self.view = view
        self._prepare_soon()

    def appear(self) -> None:
        """Prepare what was requested while the viewer was hidden."""
        self._prepare_soon()

    def _forget(self) -> None:
        self._rows, self._shown = (), None
        self._lines.show(self._rows_so_far)

    def _give_up_waiting(self) -> None:
        if self._shown is not None and self._shown.answer != self._answer:
            self._forget()

    def _rows_so_far(self, width: int) -> Rows:
        """The rows that are ready; others are being prepared."""
        if self._answer is None:
            return self._empty(width)
        if self._request(width) != self._shown:
            self._prepare_soon()
        return self._rows or [row(("…", "dim"))]

    def _request(self, width: int = 0) -> _AnswerRequest | None:
        width = width or self._lines.scrollable_content_region.width
        return (
            _AnswerRequest(self._answer, self._tick, self.view, width)
            if self._answer is not None and width > 0
            else None
        )

    def _prepare_soon(self) -> None:
        if not self._busy and self._lines.is_attached:
            self._busy = True
            self._lines.run_worker(self._prepare(), group="answer", name="showing the answer", exit_on_error=False)

    async def _prepare(self) -> None:
        """Load and lay out until the screen shows what is requested."""
        try:
            while (request := self._request()) is not None and request != self._shown:
                before = self.look
                if self._fetched != request.tick and not await self._fetch(request):
                    continue
                look = self.look
                if look is not None and look is before and request.looks_like(self._shown):
                    self._shown = request
                elif look is not None:
                    await self._lay_out(request, look)
        finally:
            self._busy = False

    async def _lay_out(self, request: _AnswerRequest, look: ComparedAnswer) -> None:
        if request.view.layout != "answer" and look.size() > _LONG:
            first = replace(request.view, compare=False)
            self._put(
                replace(request, view=first), await asyncio.to_thread(answer_rows, look, first, request.width), request
            )
        self._put(request, await asyncio.to_thread(answer_rows, look, request.view, request.width), request)

    async def _fetch(self, request: _AnswerRequest) -> bool:
        """Load the answer; False if it cannot be read, which is shown, or is no longer wanted."""
        try:
            case = await asyncio.to_thread(self._finder.find, request.answer)
        except (LookupError, StoreError) as problem:
            self._put(request, paragraph(str(problem), request.width, "error"), request)
            return False
        if request.answer != self._answer:
            return False
        if self.look is None or self.look.case != case:
            self.look = ComparedAnswer(case)
        self._fetched = request.tick
        return True

    def _put(self, prepared: _AnswerRequest, rows: Rows, request: _AnswerRequest) -> None:
        """Show the prepared rows unless another answer has been requested since."""
        if not request.looks_like(self._request()):
            return
        another = self._shown is None or self._shown.answer != prepared.answer
        self._rows, self._shown = rows, prepared
        self._lines.show(self._rows_so_far)
        if another:
            self._lines.scroll_to(y=0, animate=False)
        self._ready()


class DetailPane(Pane):
    """Shows the selected answer; keeps only how it is shown and the search text."""

    place: ClassVar[Place] = "detail"
    number: ClassVar[int] = 5
    name_: ClassVar[str] = "Answer"
    BINDINGS: ClassVar[list[BindingType]] = [*bindings("detail")]

    def __init__(self, workspace: Workspace, watch: Watch, writer: StoreWriter) -> None:
        super().__init__(workspace, watch, writer)
        self._lines = Lines(choosing=False)
        self._presenter = AnswerPresenter(self._lines, watch.database, self._empty, self._ready)
        self._reached: tuple[Rows, int, int] | None = None
        """The rows, how far they were scrolled, and the row that a key went to last."""
        self._judged_alike: tuple[AnswerContext, object] | None = None
        """The answer and the dataset whose expectations were compared last."""

    def compose(self) -> ComposeResult:
        yield self._lines

    # -- showing

    def sync(self) -> None:
        answer = self.watching.answer
        if answer is None or answer != self._presenter.answer:
            self._presenter.view = replace(self._presenter.view, otherwise=False)
            self._judged_alike = None
            self._presenter.show(answer)
            self.entitle()
        self._compare_expectations()

    def pulse(self, pulse: StoreChange) -> None:
        """Show the answer again if it, its conversation, what people say of it or the pass that counts has changed."""
        if self._presenter.answer is None or not pulse:
            return
        case, run = self._presenter.case, self.watching.run
        concerned = {turn.row.id for turn in case.turns} if case else {self._presenter.answer}
        calm = run is None or run.status not in LIVE
        again = case.again if case else None
        if again is not None and again.told.row.status not in FINAL:
            calm |= pulse.runs
        if calm or pulse.run or pulse.reload or any(row.id in concerned for row in pulse.rows):
            self._presenter.again()

    @on(events.Show)
    def _appeared(self) -> None:
        """Start preparing: nothing is prepared while the pane is hidden."""
        self._presenter.appear()

    def _empty(self, width: int) -> Rows:
        return no_answer_rows(self.watching.run is not None, width)

    def _ready(self) -> None:
        """Other rows are on screen."""
        self._compare_expectations()
        case, view = self._presenter.case, self._presenter.view
        if case is not None:
            raw = " · raw" if view.raw else ""
            self.entitle(f"{safe_line(answer_title(case), 60)} · {LAYOUT_NAMES[view.layout]}{raw}")

    def _compare_expectations(self) -> None:
        """Mark the answer if its open dataset now has another expectation than the one it was judged by."""
        case = self._presenter.case
        file = self._file(case) if case is not None else None
        editing = self.workspace.open.get(file) if file is not None else None
        if case is None or editing is None:
            return
        known, self._judged_alike = self._judged_alike, (case, editing.data)
        if known is not None and known[0] is case and known[1] is editing.data:
            return
        items = editing.data.get("items")
        place = unit_place(items, case) if isinstance(items, list) else None
        judged = unit_of(case.item, case.row.turn)
        otherwise = place is not None and set(references(get_at(editing.data, place))) != set(references(judged))
        if otherwise != self._presenter.view.otherwise:
            self._presenter.show_as(replace(self._presenter.view, otherwise=otherwise))

    # -- what can be done

    def why_not(self, action: str) -> str | None:
        if self.watching.answer is None:
            return NO_ANSWER
        if action in ("next_match", "previous_match") and not self._lines.searched_text:
            return "nothing is searched for; / begins a search"
        if (stop := _STOPS.get(action)) is not None and not self._stops(stop):
            return _NO_STOP[stop]
        case = self._presenter.case
        if action == "pictures":
            return None if self._pictures() else NO_PICTURE
        if action == "accept" and case is not None and not case.text:
            return "there is no text to expect: the answer is empty or missing"
        if action in ("accept", "rejudge", "item") and case is not None and self._file(case) is None:
            return f"the run asked {safe_line(case.run.source, 60)}, which is no dataset file of this project"
        return None

    def selection(self) -> Selection | None:
        """The item of the answer, where the dataset it came from is the one on screen."""
        case, editing = self._presenter.case, self.workspace.editing
        if case is None or editing is None or self._file(case) != editing.document.file.resolve():
            return None
        number = place_of(self.workspace.items, case.item, case.row.item)
        return None if number is None else Selection((number,), f"the item {self.workspace.name_of(number)}")

    def _file(self, case: AnswerContext) -> Path | None:
        return source_file(self.workspace.root, case.run, tuple(self.workspace.open))

    def _pictures(self) -> list[Mapping[str, Any]]:
        case = self._presenter.case
        return [] if case is None else pictures_of({"messages": case.messages})

    async def do_pictures(self) -> None:
        case = self._presenter.case
        files = case.run.config.get(FILES) if case is not None else None
        await show_pictures(self, None if files is None else self.workspace.root / str(files), self._pictures())

    def do_layout(self) -> None:
        following = LAYOUTS[(LAYOUTS.index(self._presenter.view.layout) + 1) % len(LAYOUTS)]
        self._presenter.show_as(replace(self._presenter.view, layout=following))

    def do_raw(self) -> None:
        self._presenter.show_as(replace(self._presenter.view, raw=not self._presenter.view.raw))

    def do_unfold(self) -> None:
        self._fold(1)

    def do_fold(self) -> None:
        self._fold(-1)

    def _fold(self, way: int) -> None:
        """Unfold the transcript a level further, or fold it."""
        case, view = self._presenter.case, self._presenter.view
        lines = transcript_lines(case.detail.answer) if case is not None else ()
        if not lines:
            self.say("the answer is a text and has no steps")
            return
        level = FOLDS.index(fold_of(lines, view.fold)) + way
        fold = FOLDS[max(0, min(level, len(FOLDS) - 1))]
        self._presenter.show_as(replace(view, fold=fold))
        self.say({"steps": "steps only", "parts": "a line for each part", "all": "all that was said"}[fold])

    def do_next(self) -> None:
        self._go(1)

    def do_previous(self) -> None:
        self._go(-1)

    def _go(self, way: int) -> None:
        answer = self.watching.answer
        number = None if answer is None else self.watching.number_of(answer)
        following = self.watching.row((0 if way > 0 else len(self.watching) - 1) if number is None else number + way)
        if following is None:
            self.say("this is the last answer" if way > 0 else "this is the first answer")
            return
        self.watching.answer = following.id
        self.post_message(AnswerShown())

    def do_next_change(self) -> None:
        self._go_to("change", 1)

    def do_previous_change(self) -> None:
        self._go_to("change", -1)

    def do_next_section(self) -> None:
        self._go_to("section", 1)

    def do_next_failing(self) -> None:
        self._go_to("failing", 1)

    def _stops(self, stop: Stop) -> list[int]:
        rows = self._lines.rows
        return rows.stops[stop] if isinstance(rows, AnswerRows) else []

    def _go_to(self, stop: Stop, way: int) -> None:
        """Scroll to the next stop, wrapping at the end; near the end of the rows several stops share a screen."""
        stops, rows, top = self._stops(stop), self._lines.rows, int(self._lines.scroll_offset.y)
        reached = self._reached
        here = reached[2] if reached is not None and reached[0] is rows and reached[1] == top else top and top + 1
        ahead = [number for number, place in enumerate(stops) if (place - here) * way > 0]
        number = (ahead[0] if way > 0 else ahead[-1]) if ahead else (0 if way > 0 else len(stops) - 1)
        y = max(min(stops[number] - 1, int(self._lines.max_scroll_y)), 0)
        self._reached = (rows, y, stops[number])
        self._lines.scroll_to(y=y, animate=False, immediate=True)
        title = rows[stops[number]]
        name = row_text(title if stop == "section" else Row(title.pieces[1:])).strip()
        says = {"change": "", "section": f": {name}", "failing": f": {name}"}[stop]
        self.say(
            f"{_STOP_WORDS[stop]} {number + 1} of {len(stops)}{safe_line(says, 60)}{'' if ahead else ', round again'}"
        )

    async def do_accept(self) -> None:
        await expect_answer(self)

    async def do_rejudge(self) -> None:
        from tui_evals.tui.rejudging import rejudge_answer  # what judges would delay the first frame

        following = await rejudge_answer(self)
        if following is not None:
            self.watching.answer = following
            self.post_message(AnswerShown())

    async def do_verdict(self) -> None:
        await give_verdict(self)
        self._presenter.again()

    def do_item(self) -> None:
        go_to_item(self)

    async def do_copy(self) -> None:
        await copy_menu(self)

    async def do_new_item(self) -> None:
        await new_item(self)

    async def do_pager(self) -> None:
        look, view = self._presenter.look, self._presenter.view
        if look is None:
            self.say("the answer is still being fetched", "warn")
            return
        whole = replace(view, whole=True)
        rows = await asyncio.to_thread(answer_rows, look, whole, self.app.size.width)
        text = await asyncio.to_thread(lambda: "\n".join(row_text(one).rstrip() for one in rows) + "\n")
        problem = show_in_pager(self.app, text)
        if problem:
            self.say(problem, "warn")

    # -- searching

    def do_next_match(self) -> None:
        self._lines.action_to_next(1)

    def do_previous_match(self) -> None:
        self._lines.action_to_next(-1)

    def escape(self) -> bool:
        return self._lines.end_search()
