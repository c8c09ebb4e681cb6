"""What a trend is of: the pass rate, that of a category, the mean score of an evaluator, the verdicts of an item."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from tui_evals.cli import project
from tui_evals.cli.opening import is_dataset
from tui_evals.cli.output import Stop, columns, say, say_json
from tui_evals.compare.measures import MeasuredDifference, RunDifference
from tui_evals.compare.runs import compare_runs
from tui_evals.compare.sides import ComparedRun, Rate
from tui_evals.compare.statistics import percent
from tui_evals.compare.trend import bars, column_names, ends, lined_up, rate, scale, thinned, verdicts
from tui_evals.compare.verdicts import between, measured, sentence
from tui_evals.datasets.discover import project_root
from tui_evals.present.columns import cell_width, fit, table, wrap
from tui_evals.present.figures import local_time, signed
from tui_evals.present.runs import Cost, run_cost
from tui_evals.present.status import ANSWER_LOOKS
from tui_evals.store.baselines import dataset_key
from tui_evals.store.filters import Filter, Term
from tui_evals.store.reader import Reader
from tui_evals.store.records import AnswerRow, RunRow
from tui_evals.text.nearest import did_you_mean

from .compare import every_run


@dataclass(frozen=True, slots=True)
class FirstAndLast:
    """The last run of a column against its first."""

    column: str
    first: RunRow
    last: RunRow
    against: RunDifference
    test: MeasuredDifference
    """Of what the trend is of."""

    @property
    def says(self) -> str:
        """Whether they differ, beyond chance."""
        if self.test.what:
            return measured(self.test, self.first.key, self.last.key)
        return sentence(self.against, self.first.key, self.last.key)


_VERDICTS: Mapping[str, tuple[str, float | None]] = {
    "pass": (ANSWER_LOOKS["pass"].glyph, 1.0),
    "fail": (ANSWER_LOOKS["fail"].glyph, 0.0),
    "errored": (ANSWER_LOOKS["error"].glyph, None),
    "unjudged": (ANSWER_LOOKS["answered"].glyph, None),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Trend:
    """The values of each column over the runs, and what the table says of every run."""

    what: str
    values: Mapping[str, Sequence[float | None]]
    heads: Sequence[str]
    cells: Sequence[Sequence[str]]
    data: Sequence[Mapping[str, Any]]
    right: Sequence[int] = ()
    rates: bool = True
    category: str | None = None
    evaluator: str | None = None
    marks: Mapping[str, str] | None = None
    """For an item, a sign for each run instead of bars."""

    def shown(self, value: float | None) -> str:
        """A value as text."""
        return percent(value) if self.rates else "n/a" if value is None else f"{value:.3g}"

    def change(self, first: float | None, last: float | None) -> str:
        """How much more the last one is, rates in points."""
        if first is None or last is None:
            return ""
        if self.rates:
            return signed(100 * (last - first), ".1f") + " pts"
        return signed(last - first, ".3g")

    def ends(self, reader: Reader, runs: Sequence[RunRow]) -> Iterator[FirstAndLast]:
        """The last run against the first one, for each column that two of them have; verdicts are not tested."""
        for name, values in {} if self.marks is not None else self.values.items():
            there = ends(values)
            if there is None or there[0] == there[1]:
                continue
            first, last = runs[there[0]], runs[there[1]]
            found = compare_runs([self._ran(reader, run, name) for run in (first, last)]).against[0]
            tests = [found.passes] if self.evaluator is None else [test for test in found.tests if test.what]
            yield from (FirstAndLast(name, first, last, found, test) for test in tests)

    def _ran(self, reader: Reader, run: RunRow, column: str) -> ComparedRun:
        """A run as far as the trend is of it: one of its columns, or a category, and one evaluator."""
        names = column_names(run)
        rows = (
            row
            for row in reader.all_rows(run.id)
            if (names[row.prompt, row.target] == column if self.category is None else row.category == self.category)
        )
        judged = reader.judged(run.id) if self.evaluator else ()
        return ComparedRun(
            run, rows, reader.snapshot(run.snapshot), [one for one in judged if one.key == self.evaluator]
        )


def of_passes(reader: Reader, runs: Sequence[RunRow]) -> Trend:
    """The pass rate of each column; the table has that of the whole run."""
    found, whole = [], []
    for run in runs:
        names, totals = column_names(run), reader.totals_by(run.id, "column")
        found.append({names[column]: rate([one]).share for column, one in totals.items()})
        whole.append(rate(totals.values()))
    return _of_rates("What passes", lined_up(found), whole)


def of_category(reader: Reader, runs: Sequence[RunRow], category: str) -> Trend:
    """The pass rate of a category, all columns together."""
    totals = [reader.totals_by(run.id, "category") for run in runs]
    known = sorted({name for one in totals for name in one})
    if category not in known:
        raise Stop(_unknown("category", category, known, runs))
    whole = [rate([one[category]] if category in one else []) for one in totals]
    values = {category or "(none)": [one.share for one in whole]}
    return _of_rates(f"What passes of the category {category}", values, whole, category)


def _of_rates(
    what: str, values: Mapping[str, Sequence[float | None]], whole: Sequence[Rate], category: str | None = None
) -> Trend:
    return Trend(
        what=what,
        values=values,
        heads=("passes", "of", "95 % interval"),
        right=(3, 4),
        cells=[(percent(one.share), f"{one.passed}/{one.judged}", between(one.interval)) for one in whole],
        data=[
            {
                "passed": one.passed,
                "judged": one.judged,
                "pass_rate": one.share,
                "interval": one.interval and [one.interval.low, one.interval.high],
            }
            for one in whole
        ],
        category=category,
    )


def of_evaluator(reader: Reader, runs: Sequence[RunRow], key: str) -> Trend:
    """The mean score of an evaluator in each column; the table has that of the whole run."""
    means = [{mean.key: mean for mean in reader.evaluator_means(run.id)} for run in runs]
    known = sorted({name for one in means for name in one})
    if key not in known:
        raise Stop(_unknown("evaluator", key, known, runs))
    found = []
    for run in runs:
        names = column_names(run)
        every = reader.evaluator_means(run.id, columns=True)
        found.append({names[mean.prompt or 0, mean.target or 0]: mean.mean for mean in every if mean.key == key})
    own = [one.get(key) for one in means]
    if not any(found):  # Groups of answers belong to no column.
        found = [{"all answers to an item": one.mean} if one else {} for one in own]
    return Trend(
        what=f"The mean score of {key}",
        values=lined_up(found),
        heads=("mean", "scored"),
        right=(3, 4),
        cells=[
            ("n/a" if one is None or one.mean is None else f"{one.mean:.3g}", f"{one.scored if one else 0:,}")
            for one in own
        ],
        data=[{"mean": one and one.mean, "scored": one.scored if one else 0} for one in own],
        rates=False,
        evaluator=key,
    )


def of_item(reader: Reader, runs: Sequence[RunRow], name: str) -> Trend:
    """What every run made of an item, as signs; the table has the statuses of its answers."""
    # The names of all answers need not be read: the store finds those that are like this one.
    where = Filter(name, (Term("id", name),))
    rows = [[row for row in reader.rows(reader.ids(run.id, where)) if row.name == name] for run in runs]
    if not any(rows):
        known = dict.fromkeys(row.name for row in reader.all_rows(runs[-1].id))
        raise Stop(_unknown("item", name, known, runs))
    found: list[Mapping[str, str | None]] = []
    for run, own in zip(runs, rows, strict=True):
        names = column_names(run)
        found.append({names[column]: verdict for column, verdict in verdicts(own).items()})
    verdict_of = lined_up(found)
    return Trend(
        what=f"The item {name}",
        values={
            column: [None if one is None else _VERDICTS[one][1] for one in every]
            for column, every in verdict_of.items()
        },
        heads=("answers",),
        cells=[(_statuses(own),) for own in rows],
        data=[{"answers": [row.status for row in own]} for own in rows],
        marks={
            column: "".join(" " if one is None else _VERDICTS[one][0] for one in every)
            for column, every in verdict_of.items()
        },
    )


def _statuses(rows: Sequence[AnswerRow]) -> str:
    """Each status with its sign, and how often where there are several answers."""
    counts = dict.fromkeys(row.status for row in rows)
    several = len(rows) > 1
    return " · ".join(
        f"{ANSWER_LOOKS[status].text}" + (f" ×{sum(row.status == status for row in rows)}" if several else "")
        for status in counts
    )


def _unknown(what: str, name: str, known: Iterable[str], runs: Sequence[RunRow]) -> str:
    listed = [one for one in known if one]
    hint = did_you_mean(name, listed)
    some = ", ".join(listed[:12]) + (" …" if len(listed) > 12 else "") if listed else "none"
    return f"these runs have no {what} {name!r}{hint}; {runs[-1].source} has {some}"


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
    for line in wrap(f"{found.what} in {many} of {source}", room):
        say(line, bold=True)
    if len(runs) == 1:
        say("A trend takes two runs or more.", dim=True)
    elif found.marks is None:
        _say_bars(found, room)
    else:
        _say_marks(found, room)
    for line in _sentences(reader, runs, found):
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
    names = max(map(cell_width, found.marks or ()), default=0)
    width = names if room is None else min(names, _NAME)
    for name, marks in (found.marks or {}).items():
        part = len(marks) if room is None else max(room - width - 2, _FEWEST)
        for start in range(0, len(marks), part):
            say(f"{fit(name if start == 0 else '', width)}  {marks[start : start + part]}".rstrip())
    for line in wrap("✓ pass, ✗ fail, ! no verdict, … not judged, a space where not asked; oldest first.", room):
        say(line, dim=True)


def _sentences(reader: Reader, runs: Sequence[RunRow], found: Trend) -> Iterator[str]:
    """Whether the last run of each column differs from the first, beyond chance."""
    for one in found.ends(reader, runs):
        yield (f"{one.column}: " if len(found.values) > 1 else "") + one.says


def _say_runs(reader: Reader, runs: Sequence[RunRow], found: Trend, room: int | None) -> None:
    rows, open_ended = [["run", "when", "targets", *found.heads, "cost"]], False
    for run, cells in zip(runs, found.cells, strict=True):
        cost = _cost(reader, run)
        open_ended |= cost.unpriced > 0
        rows.append([run.key, local_time(run.created), ", ".join(run.targets), *cells, cost.short])
    for number, line in enumerate(table(rows, right=found.right, elastic=(2,), room=room)):
        say(line, dim=number == 0)
    if open_ended:
        for line in wrap("+ and calls that nobody knows the price of; --json counts them.", room):
            say(line, dim=True)


def _cost(reader: Reader, run: RunRow) -> Cost:
    return run_cost(reader.totals(run.id), reader.spent(run.id)[1])


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
                "cost": (cost := _cost(reader, run)).amount,
                "unpriced": cost.unpriced,
                **data,
            }
            for run, data in zip(runs, found.data, strict=True)
        ],
        "series": [
            {"name": name, "values": list(values), "last_against_first": tests.get(name)}
            for name, values in found.values.items()
        ],
    }
