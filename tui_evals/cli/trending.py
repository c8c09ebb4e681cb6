"""`tui-evals trend`: how the runs of a dataset went one after the other."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any

from tui_evals.compare.history import bars, ends, scale, thinned
from tui_evals.datasets.discover import project_root
from tui_evals.store.baselines import dataset_key
from tui_evals.store.reader import Reader
from tui_evals.store.records import RunRow

from . import project
from .comparing import every_run
from .opening import is_dataset
from .output import Stop, columns, say, say_json
from .tables import fit, size, table, wrapped
from .trending_values import Trend, of_category, of_evaluator, of_item, of_passes

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
        if item is not None:
            found = of_item(reader, runs, item)
        elif category is not None:
            found = of_category(reader, runs, category)
        elif evaluator is not None:
            found = of_evaluator(reader, runs, evaluator)
        else:
            found = of_passes(reader, runs)
        if as_json:
            say_json(_data(reader, source, runs, found))
            return
        _say(reader, source, runs, found)


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
    found: list[RunRow] = []
    for run in every_run(reader):
        if run.status == "finished" and key(run.source) == wanted:
            found.append(run)
            if len(found) == limit:
                break
    return wanted, found[::-1]


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


def _say(reader: Reader, source: str, runs: Sequence[RunRow], found: Trend) -> None:
    room = columns()
    many = f"the latest {len(runs)} finished runs" if len(runs) > 1 else "the one finished run"
    for line in wrapped(f"{found.what} in {many} of {source}", room):
        say(line, bold=True)
    if len(runs) == 1:
        say("A trend takes two runs or more.", dim=True)
    elif found.marks is None:
        _say_bars(found, room)
    else:
        _say_marks(found, room)
    for line in _sentences(reader, runs, found):
        for part in wrapped(line, room):
            say(part)
    versions = len({run.snapshot for run in runs})
    if versions > 1:
        for part in wrapped(
            f"These runs asked {versions} versions of the dataset: its items, or how they are judged, were changed.",
            room,
        ):
            say(part, dim=True)
    say()
    _say_runs(reader, runs, found, room)


def _say_bars(found: Trend, room: int | None) -> None:
    low, high = (0.0, 1.0) if found.rates else scale(value for values in found.values.values() for value in values)
    most = max(map(len, found.values.values()))
    step, rows = 1, [["", "", "first", "last", "change"]]
    for name, values in found.values.items():
        step, drawn = thinned(values, most if room is None else max(room - _BESIDE, _FEWEST))
        there = ends(values)
        first, last = (values[there[0]], values[there[1]]) if there else (None, None)
        change = found.change(first, last) if there and there[0] < there[1] else ""
        rows.append([name, bars(drawn, low, high), found.shown(first), found.shown(last), change])
    for number, line in enumerate(table(rows, right=(2, 3, 4), room=room)):
        say(line, dim=number == 0)
    note = f"Bars from {found.shown(low)} to {found.shown(high)}" + (
        f", each the mean of {step} runs" if step > 1 else ""
    )
    say(f"{note}; oldest first.", dim=True)


def _say_marks(found: Trend, room: int | None) -> None:
    names = max(map(size, found.marks or ()), default=0)
    width = names if room is None else min(names, _NAME)
    for name, marks in (found.marks or {}).items():
        part = len(marks) if room is None else max(room - width - 2, _FEWEST)
        for start in range(0, len(marks), part):
            say(f"{fit(name if start == 0 else '', width)}  {marks[start : start + part]}".rstrip())
    for line in wrapped("✓ pass, ✗ fail, ! no verdict, … not judged, a space where not asked; oldest first.", room):
        say(line, dim=True)


def _sentences(reader: Reader, runs: Sequence[RunRow], found: Trend) -> Iterator[str]:
    """Whether the last run of each column differs from the first, beyond chance."""
    for one in found.ends(reader, runs):
        yield (f"{one.column}: " if len(found.values) > 1 else "") + one.says


def _say_runs(reader: Reader, runs: Sequence[RunRow], found: Trend, room: int | None) -> None:
    rows, open_ended = [["run", "when", "targets", *found.heads, "cost"]], False
    for run, cells in zip(runs, found.cells, strict=True):
        cost, unpriced = _cost(reader, run)
        open_ended |= unpriced > 0
        money = f"{cost:.4f} USD" + ("+" if unpriced else "")
        when = datetime.fromtimestamp(run.created).strftime("%Y-%m-%d %H:%M")
        rows.append([run.key, when, ", ".join(run.targets), *cells, money])
    for number, line in enumerate(table(rows, right=found.right, elastic=(2,), room=room)):
        say(line, dim=number == 0)
    if open_ended:
        for line in wrapped("+ and calls that nobody knows the price of; --json counts them.", room):
            say(line, dim=True)


def _cost(reader: Reader, run: RunRow) -> tuple[float, int]:
    """What a run cost, and how many of its calls have no price, as reports say it."""
    found = reader.totals(run.id)
    return found.cost + found.judge_cost, max(found.unpriced, reader.spent(run.id)[1])


# -- as data


def _data(reader: Reader, source: str, runs: Sequence[RunRow], found: Trend) -> dict[str, Any]:
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
        for one in found.ends(reader, runs)
    }
    return {
        "dataset": source,
        "of": found.what,
        "runs": [
            {
                "run": run.key,
                "name": run.name,
                "created": run.created,
                "targets": list(run.targets),
                "snapshot": run.snapshot,
                **dict(zip(("cost", "unpriced"), _cost(reader, run), strict=True)),
                **data,
            }
            for run, data in zip(runs, found.data, strict=True)
        ],
        "series": [
            {"name": name, "values": list(values), "last_against_first": tests.get(name)}
            for name, values in found.values.items()
        ],
    }
