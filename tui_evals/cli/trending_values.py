"""What a trend is of: the pass rate, that of a category, the mean score of an evaluator, the verdicts of an item."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tui_evals.compare.history import column_names, ends, lined_up, rate, verdicts
from tui_evals.compare.measures import Against, Test
from tui_evals.compare.runs import compare_runs
from tui_evals.compare.sides import Ran, Rate
from tui_evals.compare.statistics import percent
from tui_evals.compare.verdicts import between, measured, sentence
from tui_evals.store.filters import Filter, Term
from tui_evals.store.reader import Reader
from tui_evals.store.records import AnswerRow, RunRow
from tui_evals.text.nearest import did_you_mean

from .output import Stop
from .reading import MARKS


@dataclass(frozen=True, slots=True)
class Ends:
    """The last run of a column against its first."""

    column: str
    first: RunRow
    last: RunRow
    against: Against
    test: Test
    """Of what the trend is of."""

    @property
    def says(self) -> str:
        """Whether they differ, beyond chance."""
        if self.test.what:
            return measured(self.test, self.first.key, self.last.key)
        return sentence(self.against, self.first.key, self.last.key)


_VERDICTS: Mapping[str, tuple[str, float | None]] = {
    "pass": ("✓", 1.0),
    "fail": ("✗", 0.0),
    "errored": ("!", None),
    "unjudged": ("…", None),
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

    def ends(self, reader: Reader, runs: Sequence[RunRow]) -> Iterator[Ends]:
        """The last run against the first one, for each column that two of them have; verdicts are not tested."""
        for name, values in {} if self.marks is not None else self.values.items():
            there = ends(values)
            if there is None or there[0] == there[1]:
                continue
            first, last = runs[there[0]], runs[there[1]]
            found = compare_runs([self._ran(reader, run, name) for run in (first, last)]).against[0]
            tests = [found.passes] if self.evaluator is None else [test for test in found.tests if test.what]
            yield from (Ends(name, first, last, found, test) for test in tests)

    def _ran(self, reader: Reader, run: RunRow, column: str) -> Ran:
        """A run as far as the trend is of it: one of its columns, or a category, and one evaluator."""
        names = column_names(run)
        rows = (
            row
            for row in reader.all_rows(run.id)
            if (names[row.prompt, row.target] == column if self.category is None else row.category == self.category)
        )
        judged = reader.judged(run.id) if self.evaluator else ()
        return Ran(run, rows, reader.snapshot(run.snapshot), [one for one in judged if one.key == self.evaluator])


def signed(value: float, form: str) -> str:
    """A change with its sign; none before a zero."""
    shown = f"{round(value, 9):+{form}}"  # Sums of floats leave a trace where nothing changed.
    return shown if float(shown) else shown[1:]


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
        f"{MARKS[status][0]} {status}" + (f" ×{sum(row.status == status for row in rows)}" if several else "")
        for status in counts
    )


def _unknown(what: str, name: str, known: Iterable[str], runs: Sequence[RunRow]) -> str:
    listed = [one for one in known if one]
    hint = did_you_mean(name, listed)
    some = ", ".join(listed[:12]) + (" …" if len(listed) > 12 else "") if listed else "none"
    return f"these runs have no {what} {name!r}{hint}; {runs[-1].source} has {some}"
