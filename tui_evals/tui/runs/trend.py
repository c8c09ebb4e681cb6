"""The page of a dataset's trend: each finished run with its pass rate as a bar, its interval, its date and cost."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tui_evals.compare.sides import AskedItems
from tui_evals.compare.trend import HOLLOW, Trend, finished_runs, pass_rate_trend
from tui_evals.figures import Figure, percent
from tui_evals.light_records import dataclass
from tui_evals.present.columns import told_apart
from tui_evals.present.figures import interval_text, local_time
from tui_evals.present.runs import Cost, run_cost
from tui_evals.store.baselines import baseline_of, dataset_key
from tui_evals.store.database import StoreError
from tui_evals.store.reader import Reader
from tui_evals.store.records import RunRow
from tui_evals.text.safe import safe_line
from tui_evals.tui.desk import Desk
from tui_evals.tui.rows import Row, fit, row, wrapped
from tui_evals.tui.runs.rows import BASELINE
from tui_evals.tui.widgets.dialogs import Reading
from tui_evals.tui.workspace import Workspace

_MOST = 50
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
    """None in the further columns of a run."""
    baseline: bool
    column: str = ""
    """Its name where the runs have several."""
    part: AskedItems | None = None
    """How much of the dataset it asked, unless that is all of it."""


@dataclass(frozen=True, slots=True)
class TrendPage:
    """The latest finished runs of a dataset, the oldest first."""

    runs: tuple[TrendRun, ...]
    sentences: tuple[str, ...]
    """Whether the last run differs from the first, beyond chance."""

    def rows(self, width: int) -> list[Row]:
        """A line for each run, and what the bars are."""
        if not self.runs:
            return [row((line, "dim")) for line in wrapped("No run of this dataset is finished yet.", width)]
        rows = [row(line) for sentence in self.sentences for line in wrapped(sentence, width)]
        note = "█ to the low end of the 95 % interval, ▓ to the rate, ░ to the high end, · to 100 %; oldest run first."
        if any(one.part for one in self.runs):
            note += f" {HOLLOW} is a partial run, with the items it asked: it is in no sentence above."
        rows += [row(), *(trend_line(one, width) for one in self.runs), row()]
        return rows + [row((line, "dim")) for line in wrapped(note, width)]


def trend_line(one: TrendRun, width: int) -> Row:
    """One run: when, its rate as a bar and a number, and as much of interval, cost and name as there is room for."""
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
    """A rate and its interval as a bar of which the whole width is all; of a partial run a hollow point at its rate."""
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
    """The page of a dataset, for a thread of its own."""
    key = cache(lambda source: dataset_key(source, root, root))
    with Reader(database) as reader:
        runs = finished_runs(reader, dataset, key, _MOST)
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
    """A line for each column of a run, the first with what the run cost."""
    cost, several = run_cost(reader.totals(run.id)), len(trend.figures) > 1
    short = dict(zip(trend.figures, told_apart(tuple(trend.figures), _NAME), strict=True))
    rates = [(short[name], own[place]) for name, own in trend.figures.items() if own[place] is not None] or [("", None)]
    for number, (name, rate) in enumerate(rates):
        own = cost if number == 0 else None
        yield TrendRun(run, rate, own, baseline, name if several else "", trend.parts[place])
