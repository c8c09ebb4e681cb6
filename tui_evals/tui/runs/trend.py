"""The page of a dataset's trend: each finished run with its pass rate as a bar, its interval, its date and cost."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tui_evals.compare.sides import Rate
from tui_evals.compare.statistics import interval_percent, percent
from tui_evals.compare.trend import finished_runs, pass_rate_trend
from tui_evals.present.figures import local_time
from tui_evals.present.runs import Cost, run_cost
from tui_evals.store.baselines import baseline_of, dataset_key
from tui_evals.store.database import StoreError
from tui_evals.store.reader import Reader
from tui_evals.store.records import RunRow
from tui_evals.text.safe import safe_line
from tui_evals.tui.desk import Desk
from tui_evals.tui.rows import Row, fit, row, wrapped
from tui_evals.tui.widgets.dialogs import Reading
from tui_evals.tui.workspace import Workspace

from .rows import BASELINE

_MOST = 50
_DATE, _RATE, _ENDS, _COST = 17, 8, 15, 10
_BAR = 12
"""The fewest cells in which a bar can be read."""


@dataclass(frozen=True, slots=True)
class TrendRun:
    """A run of the dataset: how it did and what it cost."""

    run: RunRow
    rate: Rate
    cost: Cost
    baseline: bool


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
    return row(
        fit(local_time(one.run.created), _DATE, "dim"),
        fit(rate_bar(one.rate, left - name - 3), left - name - 3, "accent"),
        (f" {flag} ", "accent"),
        fit(percent(one.rate.share), _RATE, "strong"),
        fit(interval_percent(one.rate.interval), ends, "dim"),
        fit(one.cost.short, cost),
        fit(f"{one.run.name} {one.run.key}", name, "dim"),
    )


def rate_bar(rate: Rate, width: int) -> str:
    """A rate and its interval as a bar of which the whole width is all; empty where nothing was judged."""
    share, ends = rate.share, rate.interval
    if share is None or ends is None:
        return ""
    low, middle, high = (round(width * part) for part in (ends.low, share, ends.high))
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
        listed = tuple(
            TrendRun(
                run,
                rate,
                run_cost(reader.totals(run.id), reader.spent(run.id)[1]),
                chosen is not None and chosen.run == run.id,
            )
            for run, rate in zip(runs, trend.rates, strict=True)
        )
    alone = ("A trend takes two runs or more.",) if len(runs) == 1 else ()
    return TrendPage(listed, (*sentences, *alone))
