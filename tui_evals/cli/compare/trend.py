"""Prints the trend of a dataset: bars over its runs, a table of them, or JSON."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import chain, islice
from pathlib import Path
from typing import Any

from tui_evals.cli import project
from tui_evals.cli.opening import is_dataset
from tui_evals.cli.output import Stop, columns, say, say_json
from tui_evals.compare.match import Verdict
from tui_evals.compare.statistics import percent
from tui_evals.compare.trend import (
    Trend,
    UnknownTrend,
    bar_range,
    category_trend,
    draw_bars,
    evaluator_trend,
    every_run,
    item_trend,
    known_span,
    pass_rate_trend,
    thin_values,
)
from tui_evals.compare.verdicts import interval_percent
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
    if sum(given is not None for given in (item, category, evaluator)) > 1:
        raise Stop("give one of --item, --category and --evaluator; each is a trend of its own")
    with project.reader() as reader:
        source, runs = _finished(reader, dataset, limit)
        if not runs:
            raise Stop(f"there is no finished run of {source} yet; `tui-evals run {source}` makes one", 1)
        try:
            if item is not None:
                shown = item_trend(reader, runs, item)
            elif category is not None:
                shown = category_trend(reader, runs, category)
            elif evaluator is not None:
                shown = evaluator_trend(reader, runs, evaluator)
            else:
                shown = pass_rate_trend(reader, runs)
        except UnknownTrend as error:
            raise Stop(str(error)) from None
        if as_json:
            say_json(_data(reader, source, runs, shown))
            return
        _say(reader, source, runs, shown)


def _finished(reader: Reader, word: str | None, limit: int) -> tuple[str, list[RunRow]]:
    """The dataset that is meant, and its latest finished runs, the oldest first."""
    root = project_root(Path.cwd())
    # What a run was made of is named from the project's folder, a word from the one where it is typed.
    key = cache(lambda source: dataset_key(source, root, root))
    wanted = None if word is None else dataset_key(word, root)
    if wanted is None or not (
        os.path.isfile(word or "") or any(key(run.source) == wanted for run in every_run(reader))
    ):
        wanted = key(_run_of(reader, word).source)
    finished = (run for run in every_run(reader) if run.status == "finished" and key(run.source) == wanted)
    return wanted, list(islice(finished, limit))[::-1]


def _run_of(reader: Reader, word: str | None) -> RunRow:
    try:
        return project.run_named(reader, word or "last")
    except Stop:
        if word is None or not is_dataset(word):
            raise
        raise Stop(
            f"no run has asked a dataset {word}, and there is no such file; `tui-evals runs` lists the runs"
        ) from None


# -- on the screen


def _say(reader: Reader, source: str, runs: Sequence[RunRow], shown: Trend) -> None:
    room = columns()
    many = f"the latest {len(runs)} finished runs" if len(runs) > 1 else "the one finished run"
    for line in wrap(f"{shown.title} in {many} of {source}", room):
        say(line, bold=True)
    if len(runs) == 1:
        say("A trend takes two runs or more.", dim=True)
    elif shown.verdicts is None:
        _say_bars(shown, room)
    else:
        _say_verdicts(shown, room)
    for line in _sentences(reader, runs, shown):
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
    _say_runs(reader, runs, shown, room)


def _say_bars(shown: Trend, room: int | None) -> None:
    every = shown.values.values()
    low, high = (0.0, 1.0) if shown.evaluator is None else bar_range(chain.from_iterable(every))
    most = max(map(len, every))
    step, rows = 1, [["", "", "first", "last", "change"]]
    for name, values in shown.values.items():
        step, drawn = thin_values(values, most if room is None else max(room - _BESIDE, _FEWEST))
        span = known_span(values)
        first, last = (values[span[0]], values[span[1]]) if span else (None, None)
        change = shown.format_change(first, last) if span and span[0] < span[1] else ""
        rows.append([name, draw_bars(drawn, low, high), shown.format_value(first), shown.format_value(last), change])
    for number, line in enumerate(table(rows, right=(2, 3, 4), room=room)):
        say(line, dim=number == 0)
    note = f"Bars from {shown.format_value(low)} to {shown.format_value(high)}" + (
        f", each the mean of {step} runs" if step > 1 else ""
    )
    say(f"{note}; oldest first.", dim=True)


def _say_verdicts(shown: Trend, room: int | None) -> None:
    names = max(map(cell_width, shown.values), default=0)
    width = names if room is None else min(names, _NAME)
    for name, verdicts in (shown.verdicts or {}).items():
        marks = "".join(" " if verdict is None else _SIGNS[verdict] for verdict in verdicts)
        part = len(marks) if room is None else max(room - width - 2, _FEWEST)
        for start in range(0, len(marks), part):
            say(f"{fit(name if start == 0 else '', width)}  {marks[start : start + part]}".rstrip())
    for line in wrap("✓ pass, ✗ fail, ! no verdict, … not judged, a space where not asked; oldest first.", room):
        say(line, dim=True)


def _sentences(reader: Reader, runs: Sequence[RunRow], shown: Trend) -> Iterator[str]:
    """Whether the last run of each column differs from the first, beyond chance."""
    for one in shown.first_and_last(reader, runs):
        yield (f"{one.column}: " if len(shown.values) > 1 else "") + one.sentence


def _say_runs(reader: Reader, runs: Sequence[RunRow], shown: Trend, room: int | None) -> None:
    heads, run_cells = _run_columns(shown)
    rows, open_ended = [["run", "when", "targets", *heads, "cost"]], False
    for run, cells in zip(runs, run_cells, strict=True):
        cost = _cost(reader, run)
        open_ended |= cost.unpriced > 0
        rows.append([run.key, local_time(run.created), ", ".join(run.targets), *cells, cost.short])
    for number, line in enumerate(table(rows, right=() if shown.item is not None else (3, 4), elastic=(2,), room=room)):
        say(line, dim=number == 0)
    if open_ended:
        for line in wrap("+ and calls that nobody knows the price of; --json counts them.", room):
            say(line, dim=True)


def _run_columns(shown: Trend) -> tuple[Sequence[str], list[tuple[str, ...]]]:
    """What the table has of every run beside its name and cost."""
    if shown.item is not None:
        return ("answers",), [(_statuses(rows),) for rows in shown.answers]
    if shown.evaluator is not None:
        return ("mean", "scored"), [
            (shown.format_value(mean.mean if mean else None), f"{mean.scored if mean else 0:,}") for mean in shown.means
        ]
    return ("passes", "of", "95 % interval"), [
        (percent(rate.share), f"{rate.passed}/{rate.judged}", interval_percent(rate.interval)) for rate in shown.rates
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


def _data(reader: Reader, source: str, runs: Sequence[RunRow], shown: Trend) -> dict[str, Any]:
    tests = {
        one.column: {
            "first": one.first.key,
            "last": one.last.key,
            "items": one.test.items,
            "before": one.test.before,
            "after": one.test.after,
            "p": one.test.p,
            "shown": one.test.shown,
        }
        for one in shown.first_and_last(reader, runs)
    }
    return {
        "dataset": source,
        "of": shown.title,
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
            for run, data in zip(runs, _run_data(shown), strict=True)
        ],
        "series": [
            {"name": name, "values": list(values), "last_against_first": tests.get(name)}
            for name, values in shown.values.items()
        ],
    }


def _run_data(shown: Trend) -> list[dict[str, Any]]:
    """What the data has of every run for this trend."""
    if shown.item is not None:
        return [{"answers": [row.status for row in rows]} for rows in shown.answers]
    if shown.evaluator is not None:
        return [{"mean": mean and mean.mean, "scored": mean.scored if mean else 0} for mean in shown.means]
    return [
        {
            "passed": rate.passed,
            "judged": rate.judged,
            "pass_rate": rate.share,
            "interval": rate.interval and [rate.interval.low, rate.interval.high],
        }
        for rate in shown.rates
    ]
