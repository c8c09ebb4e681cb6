"""The list of runs with their totals, counted away from the screen and as seldom as can be, and which to compare."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from tui_evals.present.status import LIVE
from tui_evals.store.baselines import baselines, dataset_key
from tui_evals.store.reader import Reader
from tui_evals.store.records import RunRow, Totals

if TYPE_CHECKING:
    from tui_evals.compare.trend import OpponentKind

PAGE = 200
"""Runs that are fetched at first, and that come to it when one reaches the end."""

_PATIENCE = 0.3  # seconds of counting before what is known so far is shown
_SHARE = 400
"""A run that goes on is counted again when so many times as long has passed as it took."""


@dataclass(frozen=True, slots=True)
class ListedRun:
    """A run, and its totals once they have been counted."""

    run: RunRow
    totals: Totals | None
    dataset: str = ""
    """The name by which its dataset has a baseline."""
    baseline: bool = False
    """Somebody chose it to measure the other runs of its dataset against."""

    @property
    def judged(self) -> int:
        """How many answers passed or failed."""
        return self.totals.passed + self.totals.failed if self.totals else 0

    @property
    def rate(self) -> float | None:
        """The share of them that passed."""
        return self.totals.passed / self.judged if self.totals and self.judged else None

    @property
    def live(self) -> bool:
        """Whether somebody is executing it."""
        return self.run.status in LIVE

    @property
    def suite(self) -> str:
        """What it is listed under: its suite, else the name of its file."""
        return self.run.suite or self.run.source.replace("\\", "/").rstrip("/").rpartition("/")[2] or "no dataset"


@dataclass(frozen=True, slots=True)
class RunList:
    """Some of the runs, the latest first."""

    listed: tuple[ListedRun, ...] = ()
    more: bool = False
    """There are earlier ones."""
    counted: bool = True
    """All totals are known; else load it again, which goes on where this ended."""
    baselines: tuple[tuple[str, int], ...] = ()
    """The run that the others of a dataset are measured against, for those that have one."""

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
    """The totals of a run, what they were counted at, and until when they do while the run goes on."""

    mark: Hashable
    totals: Totals
    status: tuple[object, ...]
    until: float


class RunHistory:
    """Loads runs for a list; the totals of a run that is over are counted once for each of its scoring passes."""

    def __init__(self, database: Path, root: Path, clock: Callable[[], float] = time.monotonic) -> None:
        self._database = database
        self._root = root
        self._clock = clock
        self._known: dict[int, _Counted] = {}

    def load(self, limit: int = PAGE, text: str = "") -> RunList:
        """The latest runs with these words, for a thread of its own: one call at a time; StoreError if it cannot."""
        with Reader(self._database) as reader:
            seq = reader.seq()
            rows = reader.runs(limit + 1, text=text)
            chosen = {one.source: one.run for one in baselines(reader)}
            until = self._clock() + _PATIENCE
            # Those that nothing is known of go first, or counting live runs anew would keep them waiting for ever.
            order = sorted(rows[:limit], key=lambda row: row.id in self._known)
            totals = {row.id: self._totals(reader, row, seq, until) for row in order}
        keys = {source: dataset_key(source, self._root, self._root) for source in {row.source for row in rows}}
        listed = tuple(
            ListedRun(row, totals[row.id], keys[row.source], chosen.get(keys[row.source]) == row.id)
            for row in rows[:limit]
        )
        return RunList(listed, len(rows) > limit, all(one.totals is not None for one in listed), tuple(chosen.items()))

    def _totals(self, reader: Reader, row: RunRow, seq: int, until: float) -> Totals | None:
        status = (row.status, row.scoring_pass, row.rejudgings)
        # The heartbeat tells the scoring pass that has just begun from the one that is over.
        mark = (*status, row.heartbeat, seq if row.status in LIVE else 0)
        known = self._known.get(row.id)
        if known is not None and known.mark == mark:
            return known.totals
        now = self._clock()
        if known is not None and known.status == status and now < known.until:
            return known.totals
        if now > until:
            return known.totals if known else None
        totals = reader.totals(row.id)
        self._known[row.id] = _Counted(mark, totals, status, self._until(now) if row.status in LIVE else now)
        return totals

    def _until(self, begun: float) -> float:
        """How long a count of a run that goes on will do."""
        over = self._clock()
        return over + _SHARE * (over - begun)


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
    """The marked runs, the one here beside a single marked one, or else beside what a run alone is compared with."""
    if len(marked) > 1:
        return ChosenRuns(_in_order(marked), f"the {len(marked)} marked runs beside each other")
    if here is None:
        return None
    for run in marked:
        if run.id != here.id:
            return ChosenRuns(_in_order((here, run)), f"{here.key} beside the marked run, {run.key}")
    # Imported when it is wanted, because it would hold up every first picture.
    from tui_evals.compare.trend import default_opponent

    other = default_opponent(here, baseline, parent, others)
    return ChosenRuns((other[0], here), f"{here.key} beside {_WHAT[other[1]]}, {other[0].key}") if other else None


def _in_order(runs: Sequence[RunRow]) -> tuple[RunRow, ...]:
    return tuple(sorted(runs, key=lambda run: run.id))
