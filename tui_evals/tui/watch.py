"""The run on screen: what changed in the store, and its answers in windows and in the chosen order."""

from __future__ import annotations

import asyncio
import os
from array import array
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import field, replace
from pathlib import Path

from tui_evals.garbage import garbage_collection_paused
from tui_evals.light_records import dataclass
from tui_evals.present.columns import AS_THEY_ARE, Names, names_of
from tui_evals.present.runs import RunWorkers
from tui_evals.present.status import LIVE, OVER
from tui_evals.runs.status import Status
from tui_evals.store import run_figures
from tui_evals.store.details import scores_of
from tui_evals.store.filters import Filter, by_beginnings, parse_filter
from tui_evals.store.reader import Reader
from tui_evals.store.records import AnswerRow, FailureCause, RunRow, ScoreRecord, Totals
from tui_evals.store.rows import EvaluatorMean, ScoreSpread
from tui_evals.tui.chosen_answers import ChosenAnswers, chosen_answers, items_shown

_SEARCHED = 2_000
"""Answers that are looked through at once for one that failed."""
_MANY = 5_000
"""Answers from which on reading all their texts takes a while."""


@dataclass(frozen=True, slots=True)
class AnswerOrder:
    """Which answers are shown and how they are sorted; the plain order is that of the plan."""

    text: str = ""
    sort: str | None = None
    descending: bool = False

    @property
    def plain(self) -> bool:
        """Whether every answer is shown in the order of the plan."""
        return not self.text.strip() and self.sort is None and not self.descending

    def filter(self) -> Filter | None:
        """The filter; FilterError says which term is wrong."""
        return parse_filter(self.text) if self.text.strip() else None


@dataclass(frozen=True, slots=True)
class RunCount:
    """A run in numbers."""

    run: int
    totals: Totals
    means: Sequence[EvaluatorMean]
    verdicts: Mapping[int, str]
    """What people said of answers, by their ids; the latest of each."""
    turns: bool
    repeats: bool
    """Whether some item has several of them."""
    endings: Mapping[str, int] = field(default_factory=dict)
    """How many answers ended otherwise than usual, by how they did."""
    causes: tuple[FailureCause, ...] = ()
    """Why answers are missing, cut or not judged."""
    names: Names = AS_THEY_ARE
    """How items are called."""
    filled: frozenset[str] = frozenset()
    """The facts with a column that some answer has."""
    spreads: Mapping[str, ScoreSpread] = field(default_factory=dict)
    """How the numbers of each evaluator spread."""
    questions: Mapping[tuple[int, int], str] = field(default_factory=dict)
    """The beginning of what each turn of each item asks."""


def next_failure(database: Path, run: RunRow, shown: array[int] | None, start: int, way: int) -> int | None:
    """The next answer from a row on, round the end, that did not pass; `shown` None is the order of the plan."""
    with Reader(database) as reader:
        if shown is None:
            found = reader.failing_from(run.id, start, way)
            return found if found is not None else reader.failing_from(run.id, -1 if way > 0 else run.total, way)
        there, back = (shown[start + 1 :], shown[: start + 1]) if way > 0 else (shown[:start], shown[start:])
        for part in (there, back):
            ids = part[::way]
            for place in range(0, len(ids), _SEARCHED):
                found = reader.first_failing(ids[place : place + _SEARCHED])
                if found is not None:
                    return found
    return None


def count_run(database: Path, run: RunRow, known: RunCount | None) -> RunCount | None:
    """A run in numbers; None when it is gone."""
    with garbage_collection_paused(), Reader(database) as reader:
        try:
            totals = reader.totals(run.id)
            means = run_figures.evaluator_means(reader, run.id)
            endings = run_figures.endings(reader, run.id)
            filled = run_figures.filled(reader, run.id)
            spreads = run_figures.score_spread(reader, run, means)
            causes = run_figures.causes(reader, run.id) if totals.errored or totals.partial or endings else ()
        except LookupError:
            return None
        verdicts = {label.answer: label.verdict for label in reader.labels(run.id) if label.evaluator is None}
        if known is not None and known.run == run.id:
            turns, repeats, names, questions = known.turns, known.repeats, known.names, known.questions
        else:
            questions = run_figures.questions(reader, run.snapshot)
            names = names_of(reader.names(run.id))
            turns, repeats = run_figures.later_turns(reader, run.id), run_figures.repeated(reader, run.id)
    return RunCount(
        run=run.id,
        totals=totals,
        means=means,
        verdicts=verdicts,
        turns=turns,
        repeats=repeats,
        endings=endings,
        causes=causes,
        names=names,
        filled=filled,
        spreads=spreads,
        questions=questions,
    )


@dataclass
class StoreChange:
    """What a look at the store found."""

    rows: list[AnswerRow] = field(default_factory=list)
    """Answers of the run on screen that changed, in the order in which they did."""
    run: bool = False
    """The run on screen has another status, name, tags or scoring pass."""
    runs: bool = False
    """Something about runs changed, or answers of any run did."""
    elsewhere: bool = False
    """A run was planned, ended or is resumed, or answers of runs that are not on screen changed."""
    seq: int = 0
    """Changes up to this sequence number are told by now."""
    reload: bool = False
    """Something was deleted, or too much changed to tell one by one: fetch again what is shown."""

    def __bool__(self) -> bool:
        return bool(self.rows or self.run or self.runs or self.reload)


def run_differs(run: RunRow, before: RunRow) -> bool:
    """Whether a run looks different from before; its heartbeat alone does not count."""
    return _shown(run) != _shown(before)


def _shown(run: RunRow) -> tuple[object, ...]:
    named = (run.name, run.tags, run.note)
    return (
        run.status,
        run.control,
        run.verdict,
        *named,
        run.scoring_pass,
        run.staged_pass,
        run.staged,
        run.rejudgings,
        run.started,
        run.finished,
        run.waiting,
    )


PAGE = 128
_PAGES = 40
_UNCHANGED: Mapping[int, Status] = {}
_UNJUDGED = frozenset(("pending", "running", "answered"))
_NONE: Mapping[str, ScoreRecord] = {}

Fetch = Callable[[int, int], Iterable[tuple[int, AnswerRow]]]
"""The answers of a window, from a row on and so many, each with its row; deleted ones are left out."""
Judged = Callable[[list[int]], Mapping[int, Iterable[ScoreRecord]]]


class AnswerWindows:
    """Pages of rows, the latest forty that were asked for."""

    def __init__(self) -> None:
        self._pages: dict[int, list[AnswerRow | None]] = {}
        self._places: dict[int, int] = {}
        self._scores: dict[int, tuple[int, Mapping[str, ScoreRecord]]] = {}

    def clear(self) -> None:
        """Forget the rows, because they are others or in another order."""
        self._pages.clear()
        self._places.clear()

    def forget(self) -> None:
        """Forget everything."""
        self.clear()
        self._scores.clear()

    def row(self, number: int, fetch: Fetch) -> AnswerRow | None:
        """The answer in a row, fetched with its neighbours if it must be."""
        page = self._pages.get(number // PAGE)
        if page is None:
            page = self._fetched(number // PAGE, fetch)
        return page[number % PAGE]

    def _fetched(self, number: int, fetch: Fetch) -> list[AnswerRow | None]:
        page: list[AnswerRow | None] = [None] * PAGE
        for place, row in fetch(number * PAGE, PAGE):
            page[place % PAGE] = row
            self._places[row.id] = place
        if len(self._pages) >= _PAGES:
            for old in self._pages.pop(next(iter(self._pages))):
                if old is not None:
                    self._places.pop(old.id, None)
        self._pages[number] = page
        return page

    def put(self, row: AnswerRow) -> None:
        """An answer as it is now, if it is among those fetched."""
        place = self._places.get(row.id)
        if place is not None:
            self._pages[place // PAGE][place % PAGE] = row

    def place(self, answer: int) -> int | None:
        """The row of an answer that was fetched."""
        return self._places.get(answer)

    def scores(self, row: AnswerRow, judged: Judged) -> Mapping[str, ScoreRecord]:
        """The scores of an answer by evaluator, fetched with those of its neighbours that are not known."""
        if row.status in _UNJUDGED:
            return _NONE
        known = self._scores.get(row.id)
        if known is None or known[0] != row.seq:
            self._judge(row, judged)
            known = self._scores[row.id]
        return known[1]

    def _judge(self, row: AnswerRow, judged: Judged) -> None:
        place = self._places.get(row.id)
        page = self._pages[place // PAGE] if place is not None else []
        seqs = {one.id: one.seq for one in page if one is not None and self._is_new(one)}
        seqs[row.id] = row.seq
        records = judged(list(seqs))
        if len(self._scores) > PAGE * _PAGES:
            self._scores.clear()
        for answer, seq in seqs.items():
            self._scores[answer] = (seq, {record.key: record for record in records.get(answer, ())})

    def _is_new(self, row: AnswerRow) -> bool:
        known = self._scores.get(row.id)
        return row.status not in _UNJUDGED and (known is None or known[0] != row.seq)


_MOST = 2_000
"""Changes told one by one; after more of them everything is fetched again."""

_MOST_FILTERS = 50
"""Runs whose filters are remembered."""


class Watch:
    """A run while it is running: windows of answers fetched when they come into view, in the order asked for."""

    def __init__(self, database: Path) -> None:
        self.database = database
        self.run: RunRow | None = None
        self.order = AnswerOrder()
        self.ids: array[int] | None = None
        """The answers in their order; None in the plain order, where the position is the row."""
        self.answer: int | None = None
        """The answer that is looked at, by its id."""
        self.totals: Totals | None = None
        """The run in numbers, as of the last look."""
        self.columns: Mapping[tuple[int, int], Totals] = {}
        """Each prompt and target of the run in numbers, as of the last look."""
        self.figures: RunCount | None = None
        """What takes longer to count: evaluators, endings, causes, verdicts of people."""
        self.marks: frozenset[int] = frozenset()
        """Marked items of the run, by position."""
        self.tried: Mapping[int, Status] = _UNCHANGED
        """The statuses that answers would have under a rule that is tried, where they are others."""
        self.cluster: tuple[str, array[int]] | None = None
        """The filter and the answers of the cluster of failures under the cursor."""
        self.crew = RunWorkers()
        self.filters: dict[str, str] = {}
        """The filters of the runs that were looked at with one, by their keys, the latest last."""
        self._windows = AnswerWindows()
        self._untold = True
        """Whether changes of the run on screen may have been made before it was."""
        self._connect()

    def _connect(self) -> None:
        self._file = _identity(self.database)
        self.reader = Reader(self.database)
        self._version = -1
        self._seq = self.reader.seq()
        self._runs = self.reader.runs_version()
        self._generation = self.reader.generation()

    @property
    def means(self) -> Sequence[EvaluatorMean]:
        """How each evaluator scored the run, once it has been counted."""
        return self.figures.means if self.figures else ()

    @property
    def verdicts(self) -> Mapping[int, str]:
        """What people said of answers, as far as it has been counted."""
        return self.figures.verdicts if self.figures else {}

    # -- looking

    def open_run(self, number: int) -> RunRow:
        """Put a run on screen, all of it in the order of the plan; LookupError if it is gone."""
        run = self.reader.run(number)
        self.close_run()
        self.run, self._seq, self._untold = run, self.reader.seq(), True
        self.crew.look(self.reader, run)
        self._read_totals(run)
        return run

    def close_run(self) -> None:
        """Nothing is on screen."""
        self.run, self.ids, self.answer, self.figures, self.cluster = None, None, None, None, None
        self.totals, self.columns, self.tried = None, {}, _UNCHANGED
        self.order, self.marks, self.crew = AnswerOrder(), frozenset(), RunWorkers()
        self.forget()

    def forget(self) -> None:
        """Fetch again what is shown."""
        self._windows.forget()

    def poll(self) -> StoreChange:
        """What changed since the last look; costs next to nothing when nothing did."""
        change = StoreChange()
        if _identity(self.database) not in (self._file, None):
            self._reopen(change)
        version = self.reader.data_version()
        if version == self._version and not self._differs_unstored():
            return change
        change.run = self._version < 0
        change.runs = version != self._version
        generation = self.reader.generation()
        if generation != self._generation:
            change.reload = True
            self.forget()
        since = self._seq
        if self.run is not None:
            self._look(self.run, change)
        else:
            self._seq = self.reader.seq()
        runs, self._untold, untold = self.reader.runs_version(), False, self._untold
        change.elsewhere = untold or runs != self._runs or self.reader.changed_elsewhere(since, self.run)
        change.seq, self._runs = self._seq, runs
        self._version, self._generation = version, generation
        return change

    def _look(self, before: RunRow, change: StoreChange) -> None:
        """What happened to the run on screen and its answers."""
        try:
            run = self.run = self.reader.run(before.id)
            self.crew.look(self.reader, run)
        except LookupError:
            self.close_run()
            change.run = change.reload = True
            return
        self._read_totals(run)
        change.run |= run_differs(run, before)
        if run.scoring_pass != before.scoring_pass:
            self.forget()
        last = self.reader.seq()
        if last - self._seq > _MOST:
            change.reload = True
            self.forget()
        else:
            change.rows = self.reader.changed(self._seq, run)
            for row in change.rows:
                self._windows.put(row)
        self._seq = max([last, *(row.seq for row in change.rows[-1:])])

    def _read_totals(self, run: RunRow) -> None:
        if run.status in LIVE:  # looked at five times a second
            self.totals, self.columns = self.reader.live_totals(run)
        else:
            self.totals, self.columns = self.reader.totals(run.id), self.reader.totals_by(run.id, "column")

    def _reopen(self, change: StoreChange) -> None:
        """Another file is in the place of the store: look into that one, for the run of the same id."""
        shown, old = self.run.key if self.run else None, self.reader
        self._connect()
        old.close()
        self.close_run()
        change.run = change.reload = True
        try:
            run = self.reader.find_run(shown) if shown else None
        except LookupError:
            run = None
        if run is not None and run.key == shown:
            self.run = run
            self._read_totals(run)

    def _differs_unstored(self) -> bool:
        """A run whose process was killed, or can store nothing, looks different without a commit."""
        run = self.run
        if run is None or run.status not in LIVE:
            return False
        try:
            return run_differs(self.reader.run(run.id), run)
        except LookupError:
            return True

    # -- the answers in their order

    def __len__(self) -> int:
        if self.run is None:
            return 0
        return self.run.total if self.ids is None else len(self.ids)

    def row(self, number: int) -> AnswerRow | None:
        """The answer in a row; None where it has been deleted. A finished run has no running answers."""
        answer = self._windows.row(number, self._fetch) if 0 <= number < len(self) else None
        over = self.run is not None and self.run.status in OVER
        if answer is not None and answer.status == "running" and over:
            return replace(answer, status="pending", started=None)
        return answer

    def _fetch(self, start: int, count: int) -> Iterable[tuple[int, AnswerRow]]:
        if self.run is None:
            return []
        if self.ids is None:
            return [(row.pos, row) for row in self.reader.window(self.run.id, start, count)]
        ids = self.ids[start : start + count]
        by_id = {row.id: row for row in self.reader.rows(ids)}
        return [(number, by_id[answer]) for number, answer in enumerate(ids, start) if answer in by_id]

    def place(self, row: AnswerRow) -> int | None:
        """The row of an answer if it may be on screen; reads nothing from the store."""
        return row.pos if self.ids is None else self._windows.place(row.id)

    def number_of(self, answer: int) -> int | None:
        """The row in which an answer is shown."""
        if self.run is None:
            return None
        if self.ids is not None:
            try:
                return self.ids.index(answer)
            except ValueError:
                return None
        rows = self.reader.rows([answer])
        return rows[0].pos if rows and rows[0].run == self.run.id else None

    def find(self, key: Hashable) -> int | None:
        """The row of an answer for the cursor of a list."""
        return self.number_of(key) if isinstance(key, int) else None

    def scores(self, row: AnswerRow) -> Mapping[str, ScoreRecord]:
        """What the evaluators made of an answer in the pass that counts, by their key."""
        assert self.run is not None
        number = self.run.scoring_pass
        return self._windows.scores(row, lambda ids: scores_of(self.reader, ids, number))

    def question(self, row: AnswerRow) -> str:
        """The beginning of what an answer was asked, once that has been read."""
        return self.figures.questions.get((row.item, row.turn), "") if self.figures else ""

    # -- slow questions, asked of a reader of their own away from the screen

    def sorted(self, order: AnswerOrder) -> array[int] | None:
        """The ids in an order, for `arrange`; FilterError says what is wrong with the filter."""
        run = self.run
        if run is None or order.plain:
            return None
        with garbage_collection_paused(), Reader(self.database) as reader:
            return reader.ids(run.id, order.filter(), order.sort, order.descending)

    def first_found(self, order: AnswerOrder) -> array[int] | None:
        """The ids that match by names and the beginnings of answers; None if the filter needs nothing else."""
        run, where = self.run, order.filter()
        found = by_beginnings(where) if run is not None and where is not None and run.total > _MANY else None
        if run is None or found is None:
            return None
        with garbage_collection_paused(), Reader(self.database) as reader:
            return reader.ids(run.id, found, order.sort, order.descending)

    def arrange(self, order: AnswerOrder, ids: array[int] | None) -> None:
        """Show the answers in an order that was asked for."""
        self.order, self.ids = order, ids
        self._windows.clear()

    def keep_filter(self) -> None:
        """Remember the filter of the run on screen for when it is opened again."""
        if self.run is None:
            return
        self.filters.pop(self.run.key, None)
        if self.order.text:
            self.filters[self.run.key] = self.order.text
        while len(self.filters) > _MOST_FILTERS:
            del self.filters[next(iter(self.filters))]

    def chosen(self) -> ChosenAnswers | None:
        """The answers that are marked, else those a filter shows; None where there are neither marks nor a filter."""
        run = self.run
        text, ids = self.cluster or (self.order.text, self.ids)
        return None if run is None else chosen_answers(self.database, run, self.marks, text, ids)

    def items_shown(self) -> dict[int, str]:
        """The names of the items whose answers are shown, by position."""
        run = self.run
        return {} if run is None else items_shown(self.database, run, self.ids)

    async def failure(self, start: int, way: int) -> int | None:
        """The next answer from a row on, round the end, that did not pass; None when there is none.

        It is looked for among the rows as they are now, for a filter may change them meanwhile.
        """
        run, shown = self.run, self.ids
        if run is None:
            return None
        return await asyncio.to_thread(next_failure, self.database, run, shown, start, way)

    def count(self) -> RunCount | None:
        """The run in numbers, for `counted`; None when it is gone."""
        run = self.run
        return None if run is None else count_run(self.database, run, self.figures)

    def counted(self, count: RunCount | None) -> bool:
        """Take a count, unless another run is on screen by now; says whether it was taken."""
        taken = count is not None and self.run is not None and count.run == self.run.id
        if taken and self.run is not None:
            self.figures = count
            self._read_totals(self.run)
        return taken

    def close(self) -> None:
        """Give back the connection."""
        self.reader.close()


def _identity(file: Path) -> tuple[int, int] | None:
    """Which file is at a path."""
    try:
        status = os.stat(file)
    except FileNotFoundError:
        return None
    return status.st_dev, status.st_ino


def column_means(means: Sequence[EvaluatorMean]) -> list[EvaluatorMean]:
    """The evaluators of a run in the order of their columns; those of groups of answers have none.

    First those that failed most answers, then those that judged most.
    """
    columns = (mean for mean in means if mean.scope == "answer")
    return sorted(columns, key=lambda mean: (-mean.failed - mean.errored, -_judged(mean), mean.key))


def _judged(mean: EvaluatorMean) -> int:
    return max(mean.passed + mean.failed, mean.scored) + sum(mean.labels.values())
