"""Prints the trend of a dataset: bars over its runs, a table of them, or JSON."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any

from tui_evals.cli import project
from tui_evals.cli.datasets_named import dataset_of_word, is_dataset
from tui_evals.cli.output import Stop, columns, say, say_json
from tui_evals.compare.match import Verdict
from tui_evals.compare.statistics import interval_percent, percent
from tui_evals.compare.trend import (
    Trend,
    UnknownTrend,
    bar_range,
    category_trend,
    draw_bars,
    evaluator_trend,
    every_run,
    finished_runs,
    item_trend,
    known_span,
    pass_rate_trend,
    thin_values,
)
from tui_evals.datasets.discover import project_root
from tui_evals.present.columns import cell_width, fit, table, wrap
from tui_evals.present.figures import local_time
from tui_evals.present.runs import Cost, run_cost
from tui_evals.present.status import ANSWER_LOOKS
from tui_evals.store.baselines import dataset_key
from tui_evals.store.reader import Reader
from tui_evals.store.records import AnswerRow, RunRow

_SIGNS: Mapping[Verdict, str] = {
    "pass": ANSWER_LOOKS["pass"].glyph,
    "fail": ANSWER_LOOKS["fail"].glyph,
    "errored": ANSWER_LOOKS["error"].glyph,
    "unjudged": ANSWER_LOOKS["answered"].glyph,
}
_BESIDE = 52
"""Cells that a row of the trend takes beside its bars."""
_FEWEST, _NAME = 10, 24


def trend(
    dataset: str | None, *, item: str | None, category: str | None, evaluator: str | None, limit: int, as_json: bool
) -> None:
    """The latest finished runs of a dataset as bars and as a table, oldest first."""
    if sum(option is not None for option in (item, category, evaluator)) > 1:
        raise Stop("give one of --item, --category and --evaluator; each is a trend of its own")
    with project.reader() as reader:
        source, runs = _finished_runs(reader, dataset, limit)
        if not runs:
            raise Stop(f"there is no finished run of {source} yet; `tui-evals run {source}` makes one", 1)
        try:
            if item is not None:
                chosen_trend = item_trend(reader, runs, item)
            elif category is not None:
                chosen_trend = category_trend(reader, runs, category)
            elif evaluator is not None:
                chosen_trend = evaluator_trend(reader, runs, evaluator)
            else:
                chosen_trend = pass_rate_trend(reader, runs)
        except UnknownTrend as error:
            raise Stop(str(error)) from None
        if as_json:
            say_json(_trend_json(reader, source, runs, chosen_trend))
            return
        _say_trend(reader, source, runs, chosen_trend)


def _finished_runs(reader: Reader, word: str | None, limit: int) -> tuple[str, list[RunRow]]:
    """The dataset of a word, and its latest finished runs, the oldest first."""
    root = project_root(Path.cwd())
    # What a run was made of is named from the project's folder, a word from the one where it is typed.
    key = cache(lambda source: dataset_key(source, root, root))
    word = None if word is None else str(dataset_of_word(Path(word)))
    dataset_name = None if word is None else dataset_key(word, root)
    if dataset_name is None or not (
        os.path.isfile(word or "") or any(key(run.source) == dataset_name for run in every_run(reader))
    ):
        dataset_name = key(_run_or_stop(reader, word).source)
    return dataset_name, finished_runs(reader, dataset_name, key, limit)


def _run_or_stop(reader: Reader, word: str | None) -> RunRow:
    try:
        return project.run_named(reader, word or "last")
    except Stop:
        if word is None or not is_dataset(word):
            raise
        raise Stop(
            f"no run has asked a dataset {word}, and there is no such file; `tui-evals runs` lists the runs"
        ) from None


# -- on the screen


def _say_trend(reader: Reader, source: str, runs: Sequence[RunRow], trend: Trend) -> None:
    room = columns()
    many = f"the latest {len(runs)} finished runs" if len(runs) > 1 else "the one finished run"
    for line in wrap(f"{trend.title} in {many} of {source}", room):
        say(line, bold=True)
    if len(runs) == 1:
        say("A trend takes two runs or more.", dim=True)
    elif trend.verdicts is None:
        _say_bars(trend, room)
    else:
        _say_verdicts(trend, room)
    for line in _sentences(reader, runs, trend):
        for part in wrap(line, room):
            say(part)
    versions = len({run.snapshot for run in runs})
    if versions > 1:
        for part in wrap(
            f"These runs asked {versions} versions of the dataset: its items, or how they are judged, were changed.",
            room,
        ):
            say(part, dim=True)
    say()
    _say_runs(reader, runs, trend, room)


def _say_bars(trend: Trend, room: int | None) -> None:
    every = trend.values.values()
    low, high = (0.0, 1.0) if trend.evaluator is None else bar_range(chain.from_iterable(every))
    most = max(map(len, every))
    step, rows = 1, [["", "", "first", "last", "change"]]
    for name, values in trend.values.items():
        step, drawn = thin_values(values, most if room is None else max(room - _BESIDE, _FEWEST))
        span = known_span(values)
        first, last = (values[span[0]], values[span[1]]) if span else (None, None)
        change = trend.format_change(first, last) if span and span[0] < span[1] else ""
        rows.append([name, draw_bars(drawn, low, high), trend.format_value(first), trend.format_value(last), change])
    for number, line in enumerate(table(rows, right=(2, 3, 4), room=room)):
        say(line, dim=number == 0)
    note = f"Bars from {trend.format_value(low)} to {trend.format_value(high)}" + (
        f", each the mean of {step} runs" if step > 1 else ""
    )
    say(f"{note}; oldest first.", dim=True)


def _say_verdicts(trend: Trend, room: int | None) -> None:
    names = max(map(cell_width, trend.values), default=0)
    width = names if room is None else min(names, _NAME)
    for name, verdicts in (trend.verdicts or {}).items():
        marks = "".join(" " if verdict is None else _SIGNS[verdict] for verdict in verdicts)
        part = len(marks) if room is None else max(room - width - 2, _FEWEST)
        for start in range(0, len(marks), part):
            say(f"{fit(name if start == 0 else '', width)}  {marks[start : start + part]}".rstrip())
    for line in wrap("✓ pass, ✗ fail, ! no verdict, … not judged, a space where not asked; oldest first.", room):
        say(line, dim=True)


def _sentences(reader: Reader, runs: Sequence[RunRow], trend: Trend) -> Iterator[str]:
    """Whether the last run of each column differs from the first, beyond chance."""
    for comparison in trend.first_and_last(reader, runs):
        yield (f"{comparison.column}: " if len(trend.values) > 1 else "") + comparison.sentence


def _say_runs(reader: Reader, runs: Sequence[RunRow], trend: Trend, room: int | None) -> None:
    heads, run_cells = _run_columns(trend)
    rows, open_ended = [["run", "when", "targets", *heads, "cost"]], False
    for run, cells in zip(runs, run_cells, strict=True):
        cost = _cost(reader, run)
        open_ended |= cost.unpriced > 0
        rows.append([run.key, local_time(run.created), ", ".join(run.targets), *cells, cost.short])
    for number, line in enumerate(table(rows, right=() if trend.item is not None else (3, 4), elastic=(2,), room=room)):
        say(line, dim=number == 0)
    if open_ended:
        for line in wrap("+ or unpriced: nobody knows the price of some calls; --json counts them.", room):
            say(line, dim=True)


def _run_columns(trend: Trend) -> tuple[Sequence[str], list[tuple[str, ...]]]:
    """Headings, and cells of every run, besides name and cost."""
    if trend.item is not None:
        return ("answers",), [(_statuses(rows),) for rows in trend.answers]
    if trend.evaluator is not None:
        return ("mean", "scored"), [
            (trend.format_value(mean.mean if mean else None), f"{mean.scored if mean else 0:,}") for mean in trend.means
        ]
    return ("passes", "of", "95 % interval"), [
        (percent(rate.share), f"{rate.passed}/{rate.judged}" if rate.judged else "", interval_percent(rate.interval))
        for rate in trend.rates
    ]


def _statuses(rows: Sequence[AnswerRow]) -> str:
    """Each status with its sign, and how often where there are several answers."""
    counts = dict.fromkeys(row.status for row in rows)
    several = len(rows) > 1
    return " · ".join(
        f"{ANSWER_LOOKS[status].text}" + (f" ×{sum(row.status == status for row in rows)}" if several else "")
        for status in counts
    )


def _cost(reader: Reader, run: RunRow) -> Cost:
    return run_cost(reader.totals(run.id), reader.spent(run.id)[1])


# -- as data


def _trend_json(reader: Reader, source: str, runs: Sequence[RunRow], trend: Trend) -> dict[str, Any]:
    tests = {
        comparison.column: {
            "first": comparison.first.key,
            "last": comparison.last.key,
            "items": comparison.test.items,
            "before": comparison.test.before,
            "after": comparison.test.after,
            "p": comparison.test.p,
            "shown": comparison.test.shown,
        }
        for comparison in trend.first_and_last(reader, runs)
    }
    return {
        "dataset": source,
        "of": trend.title,
        "runs": [
            {
                "run": run.key,
                "name": run.name,
                "created": run.created,
                "targets": list(run.targets),
                "snapshot": run.snapshot,
                "cost": (cost := _cost(reader, run)).amount,
                "unpriced": cost.unpriced,
                **data,
            }
            for run, data in zip(runs, _run_data(trend), strict=True)
        ],
        "series": [
            {"name": name, "values": list(values), "last_against_first": tests.get(name)}
            for name, values in trend.values.items()
        ],
    }


def _run_data(trend: Trend) -> list[dict[str, Any]]:
    """The JSON data of every run in this trend."""
    if trend.item is not None:
        return [{"answers": [row.status for row in rows]} for rows in trend.answers]
    if trend.evaluator is not None:
        return [{"mean": mean and mean.mean, "scored": mean.scored if mean else 0} for mean in trend.means]
    return [
        {
            "passed": rate.passed,
            "judged": rate.judged,
            "pass_rate": rate.share,
            "interval": rate.interval and [rate.interval.low, rate.interval.high],
        }
        for rate in trend.rates
    ]
