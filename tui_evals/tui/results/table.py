"""The answers of the run on screen as a live table: counts, baseline, sorting, filtering, following."""

from __future__ import annotations

import asyncio
import time
from array import array
from collections.abc import Callable, Coroutine, Hashable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TypeVar

from textual.app import ComposeResult

from tui_evals.compare.failure_map import keep_failure_map
from tui_evals.present.figures import measure_phrases
from tui_evals.present.runs import Column, Pace
from tui_evals.present.status import FINAL, OVER, final_count, rateless
from tui_evals.store import run_figures
from tui_evals.store.answer_facts import FACTS
from tui_evals.store.database import StoreError
from tui_evals.store.filters import FilterError
from tui_evals.store.reader import Reader
from tui_evals.store.records import RunRow, Totals
from tui_evals.store.rows import EvaluatorMean
from tui_evals.tui.messages import AnswerShown
from tui_evals.tui.pane import Pane
from tui_evals.tui.results.failure_view import ClusterKey, FailureView, HighlightKey, read_map
from tui_evals.tui.results.rows import (
    AnswerTable,
    ColumnNumbers,
    Layout,
    RunExtent,
    column_row,
    counted_extent,
    heading,
    layout,
    rates_row,
    sample_extent,
    verdict_cells,
)
from tui_evals.tui.results.totals import RunNumbers, totals_rows, workers_line
from tui_evals.tui.rows import NO_RUN, Row, Rows, Step, paragraph, row, step_rows, wrapped
from tui_evals.tui.runs.run_status import wrote_tests
from tui_evals.tui.watch import AnswerOrder, RunCount, StoreChange, Watch, column_means
from tui_evals.tui.widgets.inputs import FilterLine, give_keys
from tui_evals.tui.widgets.lines import Lines
from tui_evals.tui.workspace import StoreWriter, Workspace

if TYPE_CHECKING:
    from tui_evals.compare.baseline import AgainstBaseline, BaselineComparison
    from tui_evals.tui.results.rule_trial import RuleTrial

Result = TypeVar("Result")


class Recount:
    """Reads something slow about the run on screen again after a change, with a rest that grows with its duration."""

    least: ClassVar[float]
    """Seconds between two readings."""
    share: ClassVar[int]
    """How many times as long as a reading took the next one waits."""

    def __init__(self, watch: Watch, now: Callable[[], float]) -> None:
        self._watch = watch
        self._now = now
        self._wanted, self._busy, self._after = watch.run is not None, False, 0.0

    def note(self, change: StoreChange) -> None:
        """Take note of a change; a run with another status is read at once."""
        self._wanted = True
        if change.run or change.reload:
            self._after = 0.0

    def soon(self) -> None:
        """Read as soon as possible."""
        self._wanted, self._after = True, 0.0

    def due(self) -> bool:
        """Whether to read now."""
        return self._wanted and not self._busy and self._watch.run is not None and self._now() >= self._after

    async def _read(self, reading: Callable[[], Result]) -> Result:
        """The result of a reading, made in a thread."""
        self._wanted, self._busy = False, True
        begun = time.perf_counter()
        try:
            return await asyncio.to_thread(reading)
        finally:
            self._busy = False
            self._after = self._now() + max(self.least, self.share * (time.perf_counter() - begun))


class BaselineMeter(Recount):
    """Compares the run on screen with the baseline of its dataset."""

    least, share = 1.5, 50

    def __init__(self, watch: Watch, root: Path, now: Callable[[], float]) -> None:
        super().__init__(watch, now)
        self._root = root
        self._comparison: BaselineComparison | None = None
        self.against: AgainstBaseline | None = None
        """The latest comparison."""
        self.means: Mapping[str, EvaluatorMean] = {}
        """The evaluators of the baseline."""
        self._means_of: tuple[int, int] = (0, 0)

    async def measure(self) -> None:
        """Compare once."""
        run = self._watch.run
        if run is not None:
            self.against = await self._read(lambda: self._measured(run))

    def _measured(self, run: RunRow) -> AgainstBaseline | None:
        from tui_evals.compare.baseline import BaselineComparison

        self._comparison = self._comparison or BaselineComparison(self._root)
        try:
            with Reader(self._watch.database) as reader:
                against = self._comparison.measure(reader, run)
                if against is not None and not against.itself:
                    self._read_means(reader, against.baseline)
                return against
        except StoreError:
            return self.against  # the rows say what is wrong with the store; what was found before still holds

    def _read_means(self, reader: Reader, baseline: RunRow) -> None:
        if (mark := (baseline.id, baseline.scoring_pass)) != self._means_of:
            self.means = {mean.key: mean for mean in column_means(run_figures.evaluator_means(reader, baseline.id))}
            self._means_of = mark


PLAN = "pos"


class SortColumn(NamedTuple):
    """Something answers can be sorted by: the column, its word, and whether the largest come first."""

    by: str
    word: str
    descending: bool = False


def _sorts() -> Iterator[SortColumn]:
    yield SortColumn(PLAN, "plan order")
    yield SortColumn("name", "name")
    yield from (SortColumn(fact.name, fact.sort, fact.largest_first) for fact in FACTS if fact.sort)


def sort_columns(keys: Iterable[str]) -> list[SortColumn]:
    """By what the answers of a run with these evaluators can be sorted."""
    return [*_sorts(), *(SortColumn(f"evaluator:{key}", key) for key in keys)]


def order_after_choice(order: AnswerOrder, sort: SortColumn) -> AnswerOrder:
    """The order after a column was chosen: the other way round if it is the one already."""
    if sort.by == (order.sort or PLAN):
        return AnswerOrder(order.text, order.sort, not order.descending)
    return AnswerOrder(order.text, None if sort.by == PLAN else sort.by, sort.descending)


def order_words(order: AnswerOrder, as_of: float | None) -> str:
    """The filter and the sorting for a title; `as_of` when answers have changed since they were put in order."""
    parts = [order.text] if order.text else []
    if order.sort or order.descending:
        word = (
            order.sort.partition(":")[2] or order.sort.removesuffix("_ms").replace("_", " ") if order.sort else "plan"
        )
        parts.append(f"by {word} {'▼' if order.descending else '▲'}")
    if as_of is not None:
        parts.append(f"as of {time.strftime('%H:%M', time.localtime(as_of))}")
    return " · ".join(parts)


def _no_run_rows(any_open: bool, width: int) -> Rows:
    steps = (*NO_RUN[:1], Step("everywhere", "pane_6", "6", "list the runs")) if any_open else ()
    return [*paragraph("The answers of a run appear here.", width, "dim"), *step_rows(steps, width)]


def no_answers_rows(run: RunRow | None, order: AnswerOrder, width: int, any_open: bool = True) -> Rows:
    """What is shown where there are no answers."""
    if run is None:
        return _no_run_rows(any_open, width)
    if order.text:
        sentences, keys = (
            [f"No answer matches the filter {order.text}", ""],
            [("esc", "clears the filter")],
        )
    else:
        wrote = wrote_tests(run)
        sentences, keys = [f"{wrote}." if wrote else "This run asks nothing.", ""], [("6", "lists the other runs")]
        keys = [("7", "shows the rules and their tests")] if wrote else keys
    rows: list[Row] = [row((line, "dim")) for text in sentences for line in wrapped(text, width)]
    return [*rows, *(row((f"{key:>4} ", "key"), text) for key, text in keys)]


class RunCounter(Recount):
    """Counts one run: its pace and its slower numbers; its totals are read with each change."""

    least, share = 0.4, 400

    def __init__(self, watch: Watch, now: Callable[[], float]) -> None:
        super().__init__(watch, now)
        self._run = watch.run.id if watch.run else None
        self._pace = Pace()
        self.latest: int | None = None
        """The answer that became final last."""

    @property
    def totals(self) -> Totals | None:
        """The run in numbers."""
        return self._watch.totals

    @property
    def columns(self) -> Mapping[Column, Totals]:
        """Each prompt and target in numbers, where there are several."""
        columns = self._watch.columns
        return columns if len(columns) > 1 else {}

    def rate(self) -> float | None:
        """How many answers became final per second lately; asked twice a second."""
        run, totals = self._watch.run, self.totals
        if run is None or totals is None:
            return None
        self._pace.note(self._now(), final_count(totals), run.status == "running")
        return self._pace.rate()

    def note(self, change: StoreChange) -> None:
        super().note(change)
        self.latest = next((row.id for row in reversed(change.rows) if row.status in FINAL), self.latest)

    async def count(self) -> bool:
        """Count; returns whether the numbers are those of the run on screen now."""
        count_of_run = await self._read(self._watch.count)
        return count_of_run is not None and count_of_run.run == self._run and self._watch.counted(count_of_run)


_TICK = 0.5
_HEAD = 3
"""Lines above the answers: two of totals and one of words; more for targets, where a run stopped, or has workers."""
_ROOMY = 30
"""Lines from which the rate of each evaluator is above its column."""
_STEP_EVERY, _PAGE_EVERY = 0.9, 2.9
_AGAIN_EVERY, _AGAIN_SHARE = 1.0, 10
"""While answers come a filter is asked again so often, and no more than a tenth of the time."""


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
        self._baseline = BaselineMeter(self.watching, self.workspace.root, self._now)
        self._sample = sample_extent(self.watching)
        self._several = RunExtent()
        self._evaluators: tuple[str, ...] = ()
        self._at = 0
        """The column under the cursor, of those behind the texts."""
        self._columns: Layout | None = None
        self._arranged, self._outdated = 0.0, False
        self._arranging, self._again_after = 0, 0.0
        self._searching = False
        """Whether more may be found of what the filter lets through."""
        run, totals = self.watching.run, self.watching.totals
        failing = 0 if totals is None else totals.failed + totals.partial + totals.errored
        self._trial: RuleTrial | None = None
        """The rule that is tried on the stored scores."""
        self._failures = FailureView(run, failing, run is not None and run.status in OVER)
        self._following: int | None = None
        self._stepped = self._turned = 0.0
        self._looked: int | None = None
        """The answer that was looked at when the cursor was put there; another one was chosen elsewhere."""
        self._names: dict[int, str] = {}

    def compose(self) -> ComposeResult:
        """Totals and the words above the columns, the answers, and a line to type a filter in."""
        self._head = Lines(searching=False, quiet=True, id="totals")
        self._head.can_focus = False
        self._head.styles.height = self._tall = _HEAD
        self._head.show(self._heading)
        self._lines = Lines(searching=False, id="answers")
        self._lines.beyond, self._head.beyond = self._to_head, self._below_head
        self._filter = FilterLine()
        yield from (self._head, self._lines, self._filter)

    def on_mount(self) -> None:
        self._clock = self.set_interval(_TICK, self._tick)

    def on_resize(self) -> None:
        """Another width has another number of lines above the answers."""
        self._tell()

    def focus_lines(self) -> None:
        if self._filter.display:
            self._filter.focus_line()
        else:
            give_keys(self._lines)
            if self._lines.key is not None and self.watching.find(self.watching.answer) is None:
                self._look_at(self._lines.key)  # the one that was read meanwhile fits the filter no more

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
            if begins and self._failures.open:
                self._read_map()
            if begins and watch.run is not None and (text := watch.filters.get(watch.run.key)):
                self._later(self._arrange(replace(watch.order, text=text)), "filtering")
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
                counted_extent(figures),
                evaluators=self._ordered(figures) or self._sample.evaluators,
                questions=bool(figures.questions),
            )
        run = watch.run.id if watch.run else None
        view = (self._mapped, self._failures.map, self._failures.at) if self._mapped else ()
        any_open = self.workspace.editing is not None
        return (run, any_open, watch.order, self._several, self._at, watch.marks, watch.verdicts, view, id(watch.tried))

    # -- the failure map

    @property
    def _mapped(self) -> bool:
        """Whether the failure map is shown instead of the answers."""
        return self._failures.open and self.watching.run is not None and self.watching.order.plain

    def _read_map(self) -> None:
        """Read what failed, away from the screen."""
        if self.watching.run is not None:
            self._later(self._map_read(self._failures, self.watching.run), "reading what failed")

    async def _map_read(self, view: FailureView, run: RunRow) -> None:
        try:
            found = await asyncio.to_thread(read_map, self.watching.database, self.workspace.root, run)
        except (LookupError, StoreError) as problem:
            view.open = False
            self.say(str(problem), "warn")
        else:
            view.take(found)
        if view is self._failures:
            self._redraw(view.at if self._mapped else self.watching.answer or self._first())
        made = view.map
        if made is not None and made.unkept is not None and not self.writer.read_only:
            with suppress(StoreError):  # it is read again the next time, which only takes longer
                await self.writer.write(partial(keep_failure_map, failures=made))

    def _show_cluster(self, key: Hashable) -> None:
        """The example of another cluster belongs below the map and into pane 5."""
        if key != self._failures.at:
            self._failures.at = key
            self._lines.show(self._rows, at=key)
            self._shown = self._row_sources()
        self._choose_cluster()
        self._look_at(next(iter(self._failures.answers()), None))

    def _choose_cluster(self) -> None:
        """While the keys are here, actions on several answers take the cluster under the cursor."""
        key, answers = self._failures.at, self._failures.answers()
        chosen = self._mapped and self._lines.has_focus and isinstance(key, ClusterKey) and len(answers) > 0
        self.watching.cluster = (key.filter, answers) if chosen and isinstance(key, ClusterKey) else None

    def on_descendant_focus(self) -> None:
        self._choose_cluster()

    def on_descendant_blur(self) -> None:
        self._choose_cluster()

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
        if self._mapped:
            if self._failures.at is not None and isinstance(self._lines.key, ClusterKey | HighlightKey):
                self._failures.at = self._lines.key  # keys typed fast move the cursor before its message is handled
            self._lines.show(self._rows, at=self._failures.at)
            self._shown = self._row_sources()
            self._show_cluster(self._failures.at)
            self._head.display = True
            self._tell()
            return
        self.watching.cluster = None
        self._lines.show(self._rows, at=at)
        self._shown = self._row_sources()
        if at is not None or not (len(self.watching) or self._is_read_elsewhere()):
            self._look_at(at)
        self._head.display = self.watching.run is not None
        self._tell()

    def _rows(self, width: int) -> Rows:
        run = self.watching.run
        if run is None or not len(self.watching):
            return no_answers_rows(run, self.watching.order, width, self.workspace.editing is not None)
        if self._mapped:
            return self._failures.rows(width)
        return AnswerTable(self.watching, self._layout(run, width), self._now)

    def _layout(self, run: RunRow, width: int) -> Layout:
        """The columns of a width, with the cursor of columns on one that there is."""
        self._columns = layout(width, run, self._several, self._at, self.watching.order.sort)
        self._at = self._columns.at
        return self._columns

    def _heading(self, width: int) -> Rows:
        run, order = self.watching.run, self.watching.order
        if run is not None:
            known, figures = self._numbers.totals, self.watching.figures
            measures = measure_phrases(figures.means) if known and figures and rateless(known) else ()
            causes = figures.causes if figures else ()
            against, rate = self._baseline.against, self._numbers.rate()
            numbers_now = RunNumbers(known, self._numbers.columns, rate, against, causes, measures)
            numbers = totals_rows(run, numbers_now, self._now(), width, max(4, self.size.height // 6))
            columns = self._layout(run, width)
            crew = [workers_line(self.watching.crew.totals, width, "M")] if self.watching.crew.rows else []
            above = [] if self._mapped else [*self._column_rows(), heading(columns, order.sort, order.descending)]
            self._above[:] = [*numbers, *crew, *above]
        return self._above

    def _column_rows(self) -> list[Row]:
        """The line about the column under the cursor, with what the answer under the other cursor has in it."""
        columns, watch = self._columns, self.watching
        if columns is not None and self._trial is not None:
            return self._trial.rows(columns.width)
        if columns is None or not columns.chosen:
            return []
        key = columns.chosen.partition(":")[2]
        means = {mean.key: mean for mean in column_means(watch.means)}
        baseline = self._baseline.against.baseline.name if self._baseline.against else ""
        spread = watch.figures.spreads.get(key) if watch.figures else None
        numbers = ColumnNumbers(means.get(key), spread, self._baseline.means.get(key), baseline)
        try:
            answer = watch.row(self._lines.cursor)
            record = None if answer is None else watch.scores(answer).get(key)
        except StoreError:
            answer = record = None  # the rows say what is wrong with the store
        blocks = getattr(self.app, "signs", "all") != "ascii"
        rates = [] if columns.signs or self.size.height < _ROOMY else [rates_row(columns, means)]
        return [column_row(columns.chosen, numbers, answer, record, columns.width, blocks=blocks), *rates]

    def _tell_column(self) -> None:
        """Draw the line about the column again, where another answer has something else in it."""
        made = [] if self._trial is not None else self._column_rows()
        place = len(self._above) - 1 - len(made)
        if made and place > 0 and self._above[place] != made[0]:
            self._above[place] = made[0]
            self._head.refresh_rows([place])

    def _tell(self) -> None:
        """Draw those of the lines above that say something else by now, and the title."""
        before = list(self._above)
        now = self._heading(self._head.scrollable_content_region.width)
        if len(now) != self._tall:
            self._head.styles.height = self._tall = len(now)
            self._head.show(self._heading)
        self._head.refresh_rows(number for number, line in enumerate(now) if before[number : number + 1] != [line])
        run, order, marks = self.watching.run, self.watching.order, self.watching.marks
        more = "…" if self._searching else ""
        count = f"{len(self.watching):,}{more} of {run.total:,}" if run and order.text else ""
        as_of = self._arranged if self._outdated and not order.text else None
        parts = [run.name if run else "", count, f"{len(marks):,} marked" if marks else ""]
        parts += [
            "what failed" if self._mapped else order_words(order, as_of),
            "follow" if self._following is not None else "",
        ]
        title = " · ".join(part for part in parts if part)
        if title != self._titled:
            self._titled = title
            self.entitle(title)

    # -- what changes by itself

    def pulse(self, pulse: StoreChange) -> None:
        """Draw again what changed; a filter follows it, and sorted answers keep their places until the run is over."""
        watch = self.watching
        self._numbers.note(pulse)
        self._baseline.note(pulse)
        self._outdated |= not watch.order.plain and bool(pulse.rows or pulse.reload)
        if pulse.rows:
            places = (watch.place(row) for row in pulse.rows)
            self._lines.refresh_rows(-1 if place is None else place for place in places)
        if (pulse.run or pulse.reload) and self._failures.open:
            self._read_map()
        if pulse.run or pulse.reload:
            self._shown = self._shown[:1]
            if watch.run is not None and watch.run.status in OVER:
                self._following = None
                if self._outdated:
                    self._later(self._arrange(watch.order, again=True), "putting the answers in order")
            self.sync()
        self._clock.reset()  # one picture shows both what changed and what the time does
        self._tick()

    def _filter_again_if_due(self) -> None:
        """Let answers that changed enter and leave what a filter shows."""
        due = self._outdated and not self._arranging and self._now() >= self._again_after
        if due and self.watching.order.text:
            self._later(self._arrange(self.watching.order, again=True), "filtering again")

    def _tick(self) -> None:
        if self.watching.run is None or not self.display:
            return
        self._beat += 1
        self._count_if_due()
        self._filter_again_if_due()
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
        if self._baseline.due():
            self._later(self._measure(self._baseline), "comparing with the baseline")

    async def _measure(self, baseline: BaselineMeter) -> None:
        await baseline.measure()
        if baseline is self._baseline:
            self._tell()

    async def _count(self, numbers: RunCounter) -> None:
        if await numbers.count() and numbers is self._numbers:
            self.sync()
            self._tell()

    def _later(self, work: Coroutine[Any, Any, None], what: str) -> None:
        self.app.run_worker(work, group="results", name=what, exit_on_error=False)

    async def _arrange(
        self, order: AnswerOrder, *, at: int | None = None, to_top: bool = False, again: bool = False
    ) -> None:
        """Fetch an order away from the screen, and show it unless something else is wanted by then.

        The cursor stays with its answer, or goes to the answer `at`; when answers are put in order `again` and its own
        is not among them any more, it stays where it is, and else goes to the top.
        """
        self._order_requests += 1
        request, run, watch = self._order_requests, self._shown[:1], self.watching
        self._outdated = False
        self._arranging += 1
        begun = time.perf_counter()
        try:
            ids = await asyncio.to_thread(watch.sorted, order)
        except FilterError as problem:
            self.say(str(problem), "warn")
            return
        finally:
            self._arranging -= 1
        if request != self._order_requests or run != (watch.run.id if watch.run else None,):
            return
        self._searching = False
        self._arranged = self._now()
        self._again_after = self._arranged + max(_AGAIN_EVERY, _AGAIN_SHARE * (time.perf_counter() - begun))
        if again and ids == watch.ids:
            self._tell()
        else:
            self._show_arranged(order, ids, at, to_top=to_top, again=again)

    async def _arrange_at_once(self, order: AnswerOrder, at: int | None = None) -> None:
        """Rearrange while typing: of many answers, first those found without reading all texts."""
        self._order_requests += 1
        request, run = self._order_requests, self._shown[:1]
        self._arranging += 1
        try:
            found = await asyncio.to_thread(self.watching.first_found, order)
        finally:
            self._arranging -= 1
        if request != self._order_requests or run != self._shown[:1]:
            return
        if found is not None:
            self._searching = True
            self._show_arranged(order, found, at)
        await self._arrange(order, at=at)

    def _show_arranged(
        self,
        order: AnswerOrder,
        ids: array[int] | None,
        at: int | None,
        *,
        to_top: bool = False,
        again: bool = False,
    ) -> None:
        watch = self.watching
        watch.arrange(order, ids)
        wanted = at or watch.answer
        gone = wanted is None or watch.number_of(wanted) is None
        if gone and again:
            self._redraw()
        else:
            self._redraw(self._first() if gone or to_top else wanted)

    # -- the current place

    def _to_head(self, way: int) -> None:
        """Above the first answer are the lines of the targets; of the map, the other end."""
        if self._mapped:
            keys = [line.key for line in self._lines.rows if line.key is not None]
            if len(keys) > 1:
                self._lines.to_key(keys[-1 if way < 0 else 0])
            return
        openable = [number for number, line in enumerate(self._above) if line.key is not None]
        if way < 0 and openable:
            self._head.cursor = openable[-1]  # the lines change in their places, and the cursor may be on any of them
            self._head.can_focus = True
            give_keys(self._head)

    def _below_head(self, way: int) -> None:
        """Below the last of them are the answers again."""
        if way > 0:
            self._to_answers()

    def _to_answers(self) -> None:
        """The keys belong to the answers, and not to the lines above them any more."""
        self._head.can_focus = False
        give_keys(self._lines)

    def on_lines_moved(self, event: Lines.Moved) -> None:
        """The answer under the cursor is the one that is looked at; to move by hand ends following."""
        event.stop()
        if event.lines is not self._lines:
            return
        key = self._lines.key
        if self._mapped:
            self._show_cluster(key)
            return
        self._tell_column()
        if self._following is not None and key != self._following:
            self._following = None
            self._tell()
        if not (self._is_read_elsewhere() and self.watching.find(self.watching.answer) is None):
            self._look_at(key)

    def _is_read_elsewhere(self) -> bool:
        """Whether the answer is open in another pane, where it stays when its row goes."""
        return self.watching.answer is not None and not (self._lines.has_focus or self._filter.display)

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
