"""The list of runs, read with its totals as seldom as possible, and the trend of a dataset, as rows."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from tui_evals.compare.sides import AskedItems, asked_part
from tui_evals.compare.trend import HOLLOW, Trend, finished_runs, pass_rate_trend
from tui_evals.figures import Figure, percent
from tui_evals.light_records import LazySequence, dataclass
from tui_evals.present.columns import GAP, Column, Names, cell_width, fit_columns, names_of, told_apart
from tui_evals.present.figures import interval_text, local_time
from tui_evals.present.runs import Cost, change_lines, progress, run_cost, stop_reason
from tui_evals.present.status import LIVE, is_stopped_by_person, rateless, run_look, short_counts, waiting_count
from tui_evals.store.baselines import baseline_of, baselines, dataset_key
from tui_evals.store.database import StoreError
from tui_evals.store.reader import Reader
from tui_evals.store.records import RunRow, Totals
from tui_evals.text.measures import age
from tui_evals.text.safe import safe_line
from tui_evals.tui.desk import Desk
from tui_evals.tui.rows import NO_RUN, Piece, Row, Style, fit, paragraph, row, step_rows, tone_style, wrapped
from tui_evals.tui.widgets.dialogs import Reading
from tui_evals.tui.workspace import Workspace

if TYPE_CHECKING:
    from tui_evals.compare.trend import OpponentKind


PAGE = 200
"""Runs that are fetched at first, and that come to it when one reaches the end."""

_PATIENCE = 0.3  # seconds of counting before partial results are shown


@dataclass(frozen=True, slots=True)
class ListedRun:
    """A run, and its totals once they have been counted."""

    run: RunRow
    totals: Totals | None
    dataset: str = ""
    """The name under which its dataset has a baseline."""
    baseline: bool = False
    """Whether it is the baseline of its dataset."""
    rates: tuple[float, ...] = ()
    """The pass rate of each prompt and target that has one."""
    partial: bool = False
    """Whether it asked only some items of its dataset."""

    @property
    def judged(self) -> int:
        """How many answers passed or failed."""
        return self.totals.passed + self.totals.failed if self.totals else 0

    @property
    def rate(self) -> float | None:
        """The pass rate; None where there are several columns, which are never pooled."""
        return self.rates[0] if len(self.rates) == 1 else None

    @property
    def live(self) -> bool:
        """Whether a process is executing it."""
        return self.run.status in LIVE

    @property
    def suite(self) -> str:
        """Its group in the list: the suite, otherwise the name of the file."""
        return self.run.suite or self.run.source.replace("\\", "/").rstrip("/").rpartition("/")[2] or "no dataset"


@dataclass(frozen=True, slots=True)
class RunList:
    """Some of the runs, the latest first."""

    listed: tuple[ListedRun, ...] = ()
    more: bool = False
    """There are earlier ones."""
    counted: bool = True
    """All totals are known; else load it again, which continues where this ended."""
    baselines: tuple[tuple[str, int], ...] = ()
    """The baselines of datasets, by name."""

    def get(self, number: Hashable) -> ListedRun | None:
        """The run with a number, if it is here."""
        return next((listed for listed in self.listed if listed.run.id == number), None)

    def others(self, number: int) -> Iterator[RunRow]:
        """The runs of the same dataset, the latest first."""
        here = self.get(number)
        return (listed.run for listed in self.listed if here and listed.dataset == here.dataset)

    def baseline_of(self, number: int) -> int | None:
        """The run that this one is measured against, by its number."""
        here = self.get(number)
        return dict(self.baselines).get(here.dataset) if here else None


class _Counted(NamedTuple):
    """A run in numbers, and the state it was read in."""

    mark: Hashable
    totals: Totals
    rates: tuple[float, ...]
    partial: bool


class RunHistory:
    """Loads runs for a list; the totals of a run that is over are counted once for each of its scoring passes."""

    def __init__(self, database: Path, root: Path, clock: Callable[[], float] = time.monotonic) -> None:
        self._database = database
        self._root = root
        self._clock = clock
        self._known: dict[int, _Counted] = {}

    def load(self, limit: int = PAGE, text: str = "") -> RunList:
        """The latest runs with these words. For one thread at a time; StoreError if they cannot be read."""
        with Reader(self._database) as reader:
            seq = reader.seq()
            rows = reader.runs(limit + 1, text=text)
            chosen = {one.source: one.run for one in baselines(reader)}
            until = self._clock() + _PATIENCE
            # Runs without any numbers go first, or those that continue would keep them waiting for ever.
            order = sorted(rows[:limit], key=lambda row: row.id in self._known)
            known = {row.id: self._read(reader, row, seq, until) for row in order}
        keys = {source: dataset_key(source, self._root, self._root) for source in {row.source for row in rows}}
        listed = tuple(
            ListedRun(
                row,
                counted.totals if counted else None,
                keys[row.source],
                chosen.get(keys[row.source]) == row.id,
                counted.rates if counted else (),
                bool(counted and counted.partial),
            )
            for row in rows[:limit]
            for counted in (known[row.id],)
        )
        return RunList(listed, len(rows) > limit, all(one.totals is not None for one in listed), tuple(chosen.items()))

    def _read(self, reader: Reader, row: RunRow, seq: int, until: float) -> _Counted | None:
        # The heartbeat tells the scoring pass that has just begun from the one that is over.
        mark = (row.status, row.scoring_pass, row.rejudgings, row.heartbeat, seq if row.status in LIVE else 0)
        known = self._known.get(row.id)
        if (known is not None and known.mark == mark) or self._clock() > until:
            return known
        rates = (totals.pass_rate for totals in reader.totals_by(row.id, "column").values())
        counted = _Counted(
            mark,
            reader.totals(row.id),
            tuple(rate.value for rate in rates if rate),
            asked_part(reader, row) is not None,
        )
        self._known[row.id] = counted
        return counted


def find_listed_run(number: int | None, runs: RunList | None, reader: Reader) -> RunRow | None:
    """The run with a number, from a shelf if it is there; None if there is none, or not any more."""
    listed = runs.get(number) if runs else None
    try:
        return listed.run if listed else None if number is None else reader.run(number)
    except LookupError:
        return None


class ChosenRuns(NamedTuple):
    """Runs to compare, the earliest first, and why these."""

    runs: tuple[RunRow, ...]
    why: str


_WHAT: Mapping[OpponentKind, str] = {"baseline": "its baseline", "parent": "its parent", "before": "the run before"}


def choose_runs(
    here: RunRow | None,
    marked: Sequence[RunRow],
    baseline: RunRow | None,
    parent: RunRow | None,
    others: Iterable[RunRow],
) -> ChosenRuns | None:
    """The marked runs; with a single mark this run too, without marks this run and its partner."""
    if len(marked) > 1:
        return ChosenRuns(_in_order(marked), f"the {len(marked)} marked runs")
    if here is None:
        return None
    for run in marked:
        if run.id != here.id:
            return ChosenRuns(_in_order((here, run)), f"{here.key} and the marked run, {run.key}")
    # Imported when needed, to keep the start fast.
    from tui_evals.compare.trend import default_opponent

    other = default_opponent(here, baseline, parent, others)
    return ChosenRuns((other[0], here), f"{here.key} and {_WHAT[other[1]]}, {other[0].key}") if other else None


def _in_order(runs: Sequence[RunRow]) -> tuple[RunRow, ...]:
    return tuple(sorted(runs, key=lambda run: run.id))


BASELINE = "⚑ baseline"
"""The sign next to the baseline of a dataset."""

TREND = "trend"
"""The key of the line that opens how the runs of the dataset did."""

_TREND = 12
_REASON = 16
"""Cells from which something can be read of why a run stopped."""
_MARKS = 2
_MOST = 200
"""Cells beyond which the width is not measured."""


def runs_by_suite(listed: Sequence[ListedRun]) -> dict[str, list[ListedRun]]:
    """The runs of each suite, the suite with the latest run first."""
    by_suite: dict[str, list[ListedRun]] = {}
    for one in listed:
        by_suite.setdefault(one.suite, []).append(one)
    return by_suite


class RunRows(LazySequence[Row]):
    """The list; each row is made when it comes into view."""

    def __init__(
        self, runs: RunList, width: int, shown: int | None, marks: Sequence[int], now: float | None = None
    ) -> None:
        self._width = width
        self._shown = shown
        self._marks = marks
        self._entries: list[ListedRun | tuple[str, list[ListedRun]]] = []
        for suite, members in runs_by_suite(runs.listed).items():
            self._entries += [(suite, members), *members]
        self._columns = run_columns(runs.listed, width, time.time() if now is None else now)
        self._numbers = {one.run.id: number for number, one in enumerate(self._entries) if isinstance(one, ListedRun)}
        self._last = (row(("  scroll down for earlier runs", "dim")),) if runs.more else ()

    def __len__(self) -> int:
        return len(self._entries) + len(self._last)

    def row_at(self, number: int) -> Row:
        if number >= len(self._entries):
            return self._last[number - len(self._entries)]
        entry = self._entries[number]
        if isinstance(entry, ListedRun):
            shown, marked = entry.run.id == self._shown, entry.run.id in self._marks
            return run_line(entry, self._columns, shown, marked)
        return suite_line(*entry, self._width)

    def find(self, key: Hashable) -> int | None:
        """The row of a run."""
        return self._numbers.get(key) if isinstance(key, int) else None


def suite_line(name: str, runs: Sequence[ListedRun], width: int) -> Row:
    """The header of a suite: its name and how its last finished runs went, the oldest left, baselines flagged.

    A partial run is a hollow point: its rate is of other items.
    """
    # Imported when needed, to keep the start fast.
    from tui_evals.compare.trend import HOLLOW, draw_bars

    finished = [one for one in runs if one.run.status == "finished" and one.rate is not None]
    line = "".join(
        BASELINE[0] * one.baseline + (HOLLOW if one.partial else draw_bars([one.rate]))
        for one in reversed(finished[:_TREND])
    )
    room = max(width - len(line) - 2, 1)
    return row(fit(name, room, "title"), " ", (line, "accent"), " ", ground="title")


@dataclass(frozen=True, slots=True)
class RunColumns:
    """The columns of some runs, how their names are written, and when that is."""

    columns: Sequence[Column]
    names: Names
    now: float


def run_columns(runs: Sequence[ListedRun], width: int, now: float) -> RunColumns:
    """The columns of a list of runs, as wide as their contents."""
    told, names = [run_cells(one, now) for one in runs], names_of(one.run.name for one in runs)

    def column(by: str, importance: int, least: int | None = None, *, rest: bool = False) -> Column:
        wanted = max((cell_width(safe_line(cells[by].text, _MOST)) for cells in told), default=0)
        return Column(by, "", wanted, importance, least, right=by in ("rate", "cost"), rest=rest)

    columns = (
        column("age", 98),
        column("key", 95),
        Column("name", "", names.wanted, 99, 14),
        column("signs", 97, 3),
        column("status", 100),
        column("rate", 96),
        column("counts", 90),
        column("cost", 89),
        column("reason", 87, _REASON),
        column("more", 88, 6, rest=True),
    )
    return RunColumns(fit_columns(columns, width - _MARKS), names, now)


def run_cells(listed: ListedRun, now: float) -> dict[str, Piece]:
    """The cells of a run except its name, by column."""
    run, totals, look = listed.run, listed.totals, run_look(listed.run)
    return {
        "age": Piece(age(now - run.created), "dim"),
        "key": Piece(run.key, "dim"),
        "signs": Piece(_signs(listed) + (BASELINE if listed.baseline else ""), "accent"),
        "status": Piece(f"{look.text} {progress(run, totals)}".rstrip(), tone_style(look.tone)),
        "rate": _rate_piece(listed),
        "counts": Piece(_counts(totals), "dim"),
        "cost": Piece("…" if totals is None else run_cost(totals).short),
        "reason": Piece(stop_reason(run), "dim" if is_stopped_by_person(run) else "error"),
        "more": Piece(_tags_and_targets(run), "dim"),
    }


def run_line(listed: ListedRun, shape: RunColumns, shown: bool, marked: bool) -> Row:
    """One run in the given columns."""
    cells = run_cells(listed, shape.now)
    pieces = [Piece("▪" if marked else " ", "mark"), Piece("›" if shown else " ", "accent")]
    for number, column in enumerate(shape.columns):
        pieces += [Piece(" " * GAP)] * bool(number)
        if column.by == "name":
            name = shape.names.fit(listed.run.name, column.width)
            pieces.append(Piece(name, "strong" if listed.run.status != "finished" else ""))
            continue
        text, style = cells[column.by]
        if column.by == "signs" and listed.baseline and cell_width(text) > column.width:
            text = text.replace(BASELINE, BASELINE[0])
        pieces.append(fit(text, column.width, style, right=column.right))
    return Row(tuple(pieces), listed.run.id)


def _signs(listed: ListedRun) -> str:
    return ("↳" if listed.run.parent is not None else "") + ("✎" if listed.run.note else "")


def _rate_piece(listed: ListedRun) -> Piece:
    """The pass rate, or those of several columns from lowest to highest; a live run shows its progress instead."""
    if listed.totals is None:
        return Piece("…", "dim")
    if listed.live:
        return Piece("")
    if len(listed.rates) > 1:
        low, high = min(listed.rates), max(listed.rates)
        return Piece(percent(low, 0) if low == high else f"{percent(low, 0).removesuffix(' %')}–{percent(high, 0)}")
    style: Style = "dim" if listed.rate is None else "pass" if listed.rate == 1 else "fail" if listed.rate < 0.5 else ""
    return Piece("–" if listed.rate is None else percent(listed.rate, 0), style)


def _counts(totals: Totals | None) -> str:
    """How many judged answers pass and how many answers have no verdict, or how many are there yet."""
    if totals is None:
        return ""
    waiting = waiting_count(totals)
    if rateless(totals):
        return short_counts(totals)
    if waiting:
        return f"{totals.total - waiting}/{totals.total} done"
    judged = totals.passed + totals.failed
    missing = totals.total - judged - totals.scored
    return f"{totals.passed}/{judged} pass" + (f", {missing} not judged" if missing else "")


def _tags_and_targets(run: RunRow) -> str:
    return " ".join([*(f"#{tag}" for tag in run.tags), " · ".join(run.targets)])


def about_lines(listed: ListedRun | None, parent: str, width: int) -> list[Row]:
    """The run under the cursor in full: what does not fit into its row."""
    if listed is None:
        return []
    run, totals = listed.run, listed.totals
    facts = [run.key, " · ".join(run.targets)]
    facts += ["…"] if totals is None else [short_counts(totals), run_cost(totals).text]
    rows = [row(fit(run.name, width, "strong")), *(row((line, "dim")) for line in wrapped(" · ".join(facts), width))]
    if reason := stop_reason(run):
        by_person = is_stopped_by_person(run)
        says = f"{'' if by_person else '! '}{reason.rstrip('.')}; p resumes it"
        rows += [row((line, "dim" if by_person else "error")) for line in wrapped(says, width)]
    rows += [row((line, "dim")) for change in change_lines(run) for line in wrapped(change, width)]
    if listed.baseline:
        rows.append(row(fit(f"{BASELINE} of {listed.dataset}", width, "accent"), key=TREND))
    elif listed.dataset:
        rows.append(row(fit(f"trend of {listed.dataset}", width, "dim"), key=TREND))
    if run.tags or parent:
        tags = " ".join(f"#{tag}" for tag in run.tags)
        rows.append(row((tags, "accent"), f"{'  ' if tags and parent else ''}{f'↳ {parent}' if parent else ''}"))
    if run.note:
        rows += [row(line) for line in wrapped(f"✎ {run.note}", width)]
    return rows


def empty_lines(text: str, width: int, any_open: bool = True) -> list[Row]:
    """The placeholder of an empty list, with the key that starts a run."""
    if text.strip():
        none_fits = f"No run has all of these words: {text}"
        return [row((line, "dim")) for line in wrapped(none_fits, width)] + [row(("esc", "key"), " shows all runs")]
    return [*paragraph("No runs yet.", width, "dim"), *(step_rows(NO_RUN, width) if any_open else ())]


_MOST_RUNS = 50
_DATE, _RATE, _ENDS, _COST = 17, 8, 15, 10
_NAME = 12
_BAR = 12
"""The fewest cells in which a bar can be read."""


@dataclass(frozen=True, slots=True)
class TrendRun:
    """A run of the dataset in one of its columns: how it did, and what all of it cost."""

    run: RunRow
    rate: Figure | None
    cost: Cost | None
    """None for the second and later columns of a run."""
    baseline: bool
    column: str = ""
    """The name of the column if the runs have several."""
    part: AskedItems | None = None
    """How much of the dataset it asked, unless that is all of it."""


@dataclass(frozen=True, slots=True)
class TrendPage:
    """The latest finished runs of a dataset, the oldest first."""

    runs: tuple[TrendRun, ...]
    sentences: tuple[str, ...]
    """Whether the last run differs from the first, beyond chance."""

    def rows(self, width: int) -> list[Row]:
        """One line per run, and a legend for the bars."""
        if not self.runs:
            return [row((line, "dim")) for line in wrapped("No run of this dataset is finished yet.", width)]
        rows = [row(line) for sentence in self.sentences for line in wrapped(sentence, width)]
        note = "█ to the low end of the 95 % interval, ▓ to the rate, ░ to the high end, · to 100 %; oldest run first."
        if any(one.part for one in self.runs):
            note += f" {HOLLOW} is a partial run, with the items it asked: it is in no sentence above."
        rows += [row(), *(trend_line(one, width) for one in self.runs), row()]
        return rows + [row((line, "dim")) for line in wrapped(note, width)]


def trend_line(one: TrendRun, width: int) -> Row:
    """One run: its time, its rate as bar and number, and interval, cost and name if they fit."""
    left = width - _DATE - _RATE
    ends = _ENDS if left >= _BAR + _ENDS else 0
    cost = _COST if left >= _BAR + _ENDS + _COST else 0
    left -= ends + cost
    name = left // 2 if left >= 2 * _BAR else 0
    flag = BASELINE[0] if one.baseline else " "
    about = " · ".join(filter(None, (one.part.text if one.part else "", one.column, f"{one.run.name} {one.run.key}")))
    told = one.part.text if one.part and not name else interval_text(one.rate)
    return row(
        fit(local_time(one.run.created), _DATE, "dim"),
        fit(rate_bar(one.rate, left - name - 3, hollow=one.part is not None), left - name - 3, "accent"),
        (f" {flag} ", "accent"),
        fit(percent(one.rate.value if one.rate else None), _RATE, "strong"),
        fit(told, ends, "dim"),
        fit(one.cost.short if one.cost else "", cost),
        fit(about, name, "dim"),
    )


def rate_bar(rate: Figure | None, width: int, *, hollow: bool = False) -> str:
    """A rate and its interval as a bar whose width is 100 %; a partial run has a hollow point at its rate."""
    if rate is None or rate.interval is None:
        return ""
    low, middle, high = (round(width * part) for part in (rate.interval.low, rate.value, rate.interval.high))
    if hollow:
        at = min(middle, width - 1)
        return " " * at + HOLLOW + " " * (width - at - 1)
    return "█" * low + "▓" * (middle - low) + "░" * (high - middle) + "·" * (width - high)


async def show_trend(app: Desk, workspace: Workspace, dataset: str) -> None:
    """Open the page of a dataset."""
    try:
        trend = await asyncio.to_thread(read_trend, workspace.database, workspace.root, dataset)
    except StoreError as problem:
        app.tell(str(problem), "error")
        return
    app.push_screen(Reading(f"trend of {safe_line(dataset, 60)}", trend.rows))


def read_trend(database: Path, root: Path, dataset: str) -> TrendPage:
    """The trend page of a dataset. For one thread at a time."""
    key = cache(lambda source: dataset_key(source, root, root))
    with Reader(database) as reader:
        runs = finished_runs(reader, dataset, key, _MOST_RUNS)
        if not runs:
            return TrendPage((), ())
        chosen, trend = baseline_of(reader, dataset), pass_rate_trend(reader, runs)
        several = len(trend.values) > 1
        sentences = [
            f"{one.column}: {one.sentence}" if several else one.sentence for one in trend.first_and_last(reader, runs)
        ]
        listed = [
            one
            for place, run in enumerate(runs)
            for one in _lines_of(reader, run, place, trend, chosen is not None and chosen.run == run.id)
        ]
    alone = ("A trend takes two runs or more.",) if len(runs) == 1 else ()
    return TrendPage(tuple(listed), (*sentences, *alone))


def _lines_of(reader: Reader, run: RunRow, place: int, trend: Trend, baseline: bool) -> Iterator[TrendRun]:
    """One line per column of a run; the first has the run's cost."""
    cost, several = run_cost(reader.totals(run.id)), len(trend.figures) > 1
    short = dict(zip(trend.figures, told_apart(tuple(trend.figures), _NAME), strict=True))
    rates = [(short[name], own[place]) for name, own in trend.figures.items() if own[place] is not None] or [("", None)]
    for number, (name, rate) in enumerate(rates):
        own = cost if number == 0 else None
        yield TrendRun(run, rate, own, baseline, name if several else "", trend.parts[place])
