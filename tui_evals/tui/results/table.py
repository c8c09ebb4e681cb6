"""The results of the run on screen as a live table, and the count of the run above it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Hashable
from dataclasses import replace
from typing import Any

from textual.app import ComposeResult

from tui_evals.present.measures import measure_phrases
from tui_evals.present.pace import Pace
from tui_evals.present.status import FINAL, OVER, final_count, rateless
from tui_evals.store.filters import FilterError
from tui_evals.store.records import Totals
from tui_evals.tui.messages import AnswerShown
from tui_evals.tui.pane import Pane
from tui_evals.tui.rows import Row, Rows
from tui_evals.tui.run_queries import AnswerOrder, RunCount
from tui_evals.tui.store_writer import StoreWriter
from tui_evals.tui.watch import StoreChange, Watch, column_means
from tui_evals.tui.widgets.filter_line import FilterLine
from tui_evals.tui.widgets.focus import give_keys
from tui_evals.tui.widgets.lines import Lines
from tui_evals.tui.workspace import Workspace

from .rows import AnswerTable, RunExtent, counted_extent, heading, layout, sample_extent, verdict_cells
from .sorting import no_answers_rows, order_words
from .totals import LiveTotals, totals_rows
from .workers import workers_line

_SHARE = 100
_LEAST = 0.4


class RunCounter:
    """The numbers of one run, kept up between two counts by what is seen to change."""

    def __init__(self, watch: Watch, now: Callable[[], float]) -> None:
        self._watch = watch
        self._now = now
        self._run = watch.run.id if watch.run else None
        self._tally, self._pace = LiveTotals(), Pace()
        self._wanted, self._busy, self._after = True, False, 0.0
        self.latest: int | None = None
        """The answer that became final last."""

    @property
    def totals(self) -> Totals | None:
        """The run as far as one knows."""
        return self._tally.totals

    def rate(self) -> float | None:
        """How many answers became final per second lately; asked twice a second."""
        run, totals = self._watch.run, self.totals
        if run is None or totals is None:
            return None
        self._pace.note(self._now(), final_count(totals), run.status == "running")
        return self._pace.rate()

    def note(self, pulse: StoreChange) -> None:
        """Something changed."""
        self._wanted = True
        if pulse.run or pulse.reload:
            self._after = 0.0
        self._tally.note(pulse.rows)
        self.latest = next((row.id for row in reversed(pulse.rows) if row.status in FINAL), self.latest)

    def soon(self) -> None:
        """Count as soon as it can be."""
        self._wanted, self._after = True, 0.0

    def due(self) -> bool:
        """Whether a count is to begin now."""
        return self._run is not None and self._wanted and not self._busy and self._now() >= self._after

    async def count(self) -> bool:
        """Count; says whether the numbers are those of the run on screen now."""
        self._wanted, self._busy = False, True
        begun = time.perf_counter()
        try:
            count_of_run = await asyncio.to_thread(self._watch.count)
        finally:
            self._busy = False
            self._after = self._now() + max(_LEAST, _SHARE * (time.perf_counter() - begun))
        if count_of_run is None or count_of_run.run != self._run or not self._watch.counted(count_of_run):
            return False
        self._tally.counted(count_of_run.totals, count_of_run.seq, count_of_run.first_pass)
        return True


_TICK = 0.5
_HEAD = 3
"""Lines above the answers: two of totals and one of words; one more where a run stopped, waits or has workers."""
_STEP_EVERY, _PAGE_EVERY = 0.9, 1.9


class ResultsTable(Pane):
    """The answers of the run on screen in their order, drawn again where they change."""

    def __init__(
        self, workspace: Workspace, watch: Watch, writer: StoreWriter, now: Callable[[], float] = time.time
    ) -> None:
        super().__init__(workspace, watch, writer)
        self._now = now
        self._shown: tuple[object, ...] = ()
        self._above = [Row()] * _HEAD
        self._titled = ""
        self._order_requests = 0
        self._beat = 0
        self._begin()

    def _begin(self) -> None:
        """Another run is on screen, or none."""
        self._numbers = RunCounter(self.watching, self._now)
        self._sample = sample_extent(self.watching)
        self._several = RunExtent()
        self._evaluators: tuple[str, ...] = ()
        self._shift, self._more = 0, False
        self._arranged, self._outdated = 0.0, False
        self._following: int | None = None
        self._stepped = self._turned = 0.0
        self._looked: int | None = None
        """The answer that was looked at when the cursor was put there; another one was chosen elsewhere."""
        self._names: dict[int, str] = {}

    def compose(self) -> ComposeResult:
        """Totals and the words above the columns, the answers, and a line to type a filter in."""
        self._head = Lines(choosing=False, id="totals")
        self._head.can_focus = False
        self._head.styles.height = self._tall = _HEAD
        self._head.show(self._heading)
        self._lines = Lines(searching=False, id="answers")
        self._filter = FilterLine()
        yield from (self._head, self._lines, self._filter)

    def on_mount(self) -> None:
        """From now on some things go by the clock."""
        self.set_interval(_TICK, self._tick)

    def focus_lines(self) -> None:
        """The keys belong to the answers, or to the filter while one types it."""
        if self._filter.display:
            self._filter.focus_line()
        else:
            give_keys(self._lines)

    # -- showing

    def sync(self) -> None:
        """Show the state as it is now; costs next to nothing where it is shown already."""
        watch = self.watching
        run = watch.run.id if watch.run else None
        begins = self._shown[:1] != (run,)
        if begins:
            self._begin()
            self._filter.display = False
        if self._row_sources() != self._shown:
            self._redraw(watch.answer or self._first() if begins else None)
        elif watch.answer != self._looked:
            self._looked = watch.answer
            self._lines.to_key(watch.answer)
        self._count_if_due()

    def _row_sources(self) -> tuple[object, ...]:
        """What the rows depend on, the run first."""
        watch, figures = self.watching, self.watching.figures
        self._several = self._sample
        if figures is not None:
            self._several = replace(
                counted_extent(figures), evaluators=self._ordered(figures) or self._sample.evaluators
            )
        run = watch.run.id if watch.run else None
        return (run, watch.order, self._several, self._shift, watch.marks, watch.verdicts)

    def _ordered(self, figures: RunCount) -> tuple[tuple[str, int], ...]:
        """The evaluators in the order of their columns, which stay where they are while answers come in."""
        run, before = self.watching.run, self._evaluators
        cells = {mean.key: verdict_cells(mean) for mean in column_means(figures.means)}
        if run is None or run.status in OVER or cells.keys() != set(before):
            self._evaluators = tuple(cells)
        return tuple((key, cells[key]) for key in self._evaluators)

    def _first(self) -> Hashable:
        run = self.watching.run
        if run is None or not len(self.watching):
            return None
        return AnswerTable(self.watching, layout(80, run, self._several), self._now)[0].key

    def _redraw(self, at: Hashable = None) -> None:
        """Make the rows anew; the cursor stays with its answer, or goes to another one."""
        self._lines.show(self._rows, at=at)
        self._shown = self._row_sources()
        if at is not None or not len(self.watching):
            self._look_at(at)
        self._head.display = self.watching.run is not None
        self._tell()

    def _rows(self, width: int) -> Rows:
        run = self.watching.run
        if run is None or not len(self.watching):
            return no_answers_rows(run, self.watching.order, width)
        columns = layout(width, run, self._several, self._shift)
        self._shift, self._more = columns.first, columns.more
        return AnswerTable(self.watching, columns, self._now)

    def _heading(self, width: int) -> Rows:
        run, order = self.watching.run, self.watching.order
        if run is not None:
            known, figures = self._numbers.totals, self.watching.figures
            measures = measure_phrases(figures.means) if known and figures and rateless(known) else ()
            causes = figures.causes if figures else ()
            numbers = totals_rows(run, known, self._numbers.rate(), self._now(), width, measures, causes)
            columns = layout(width, run, self._several, self._shift)
            crew = [workers_line(self.watching.crew.totals, width, "M")] if self.watching.crew.rows else []
            self._above[:] = [*numbers, *crew, heading(columns, order.sort, order.descending)]
        return self._above

    def _tell(self) -> None:
        """Draw those of the lines above that say something else by now, and the title."""
        before = list(self._above)
        now = self._heading(self._head.scrollable_content_region.width)
        if len(now) != self._tall:
            self._head.styles.height = self._tall = len(now)
            self._head.show(self._heading)
        self._head.refresh_rows(number for number, line in enumerate(now) if before[number : number + 1] != [line])
        run, order, marks = self.watching.run, self.watching.order, self.watching.marks
        parts = [run.name if run else "", order_words(order, self._arranged if self._outdated else None)]
        parts += ["follow" if self._following is not None else "", f"{len(marks)} marked" if marks else ""]
        title = " · ".join(part for part in parts if part)
        if title != self._titled:
            self._titled = title
            self.entitle(title)

    # -- what changes by itself

    def pulse(self, pulse: StoreChange) -> None:
        """Draw again what changed; sorted and filtered answers keep their places until the run is over."""
        watch = self.watching
        self._numbers.note(pulse)
        if pulse.rows:
            self._outdated |= not watch.order.plain
            places = (watch.place(row) for row in pulse.rows)
            self._lines.refresh_rows(-1 if place is None else place for place in places)
        if pulse.run or pulse.reload:
            self._shown = self._shown[:1]
            if watch.run is not None and watch.run.status in OVER:
                self._following = None
                if self._outdated:
                    self._later(self._arrange(watch.order), "putting the answers in order")
            self.sync()

    def _tick(self) -> None:
        if self.watching.run is None or not self.display:
            return
        self._beat += 1
        self._count_if_due()
        if self._following is not None and self._numbers.latest is not None:
            self._go_on(self._numbers.latest)
        rows = self._lines.rows
        if self._beat % 2 == 0 and isinstance(rows, AnswerTable):
            top = int(self._lines.scroll_offset.y)
            self._lines.refresh_rows(rows.in_flight(range(top, top + self._lines.size.height)))
        self._tell()

    def _count_if_due(self) -> None:
        if self._numbers.due():
            self._later(self._count(self._numbers), "counting the run")

    async def _count(self, numbers: RunCounter) -> None:
        if await numbers.count() and numbers is self._numbers:
            self.sync()
            self._tell()

    def _later(self, work: Coroutine[Any, Any, None], what: str) -> None:
        self.app.run_worker(work, group="results", name=what, exit_on_error=False)

    async def _arrange(self, order: AnswerOrder, *, to_top: bool = False) -> None:
        """Fetch an order away from the screen, and show it unless something else is wanted by then."""
        self._order_requests += 1
        request, run, watch = self._order_requests, self._shown[:1], self.watching
        try:
            ids = await asyncio.to_thread(watch.sorted, order)
        except FilterError as problem:
            self.say(str(problem), "warn")
            return
        if request != self._order_requests or run != (watch.run.id if watch.run else None,):
            return
        watch.arrange(order, ids)
        self._arranged, self._outdated = self._now(), False
        gone = to_top or watch.answer is None or watch.number_of(watch.answer) is None
        self._redraw(self._first() if gone else watch.answer)

    # -- where one is

    def on_lines_moved(self, event: Lines.Moved) -> None:
        """The answer under the cursor is the one that is looked at; to move by hand ends following."""
        event.stop()
        key = self._lines.key
        if self._following is not None and key != self._following:
            self._following = None
            self._tell()
        self._look_at(key)

    def _look_at(self, key: Hashable) -> None:
        answer = self._looked = key if isinstance(key, int) else None
        if answer != self.watching.answer:
            self.watching.answer = answer
            self.post_message(AnswerShown())

    def _go_on(self, answer: int) -> None:
        """Stay with the latest answer, now and then, for all of pane 5 is drawn with it, and more seldom a new page."""
        rows = self._lines.rows
        number = rows.find(answer) if isinstance(rows, AnswerTable) and answer != self._following else None
        if number is None or self._now() - self._stepped < _STEP_EVERY:
            return
        self._stepped = self._now()
        top, height = int(self._lines.scroll_offset.y), self._lines.size.height
        if not top <= number < top + height:
            if self._now() - self._turned < _PAGE_EVERY:
                return
            self._turned = self._now()
            self._lines.scroll_to(y=max(number - height // 4, 0), animate=False, force=True)
        self._following = answer
        self._lines.cursor = number
