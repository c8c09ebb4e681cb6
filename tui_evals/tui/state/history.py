"""The runs of the store with what came of each, counted away from the screen and as seldom as can be."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tui_evals.store.reader import Reader
from tui_evals.store.records import RunRow, RunStatus, Totals

PAGE = 200
"""Runs that are fetched at first, and that come to it when one reaches the end."""

_LIVE: frozenset[RunStatus] = frozenset(("running", "paused", "stopping"))
_PATIENCE = 0.3  # seconds of counting before what is known so far is shown


@dataclass(frozen=True, slots=True)
class Past:
    """A run, and its totals once they have been counted."""

    run: RunRow
    totals: Totals | None

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
        return self.run.status in _LIVE

    @property
    def suite(self) -> str:
        """What it is listed under: its suite, else the name of its file."""
        return self.run.suite or self.run.source.replace("\\", "/").rstrip("/").rpartition("/")[2] or "no dataset"


@dataclass(frozen=True, slots=True)
class Shelf:
    """Some of the runs, the latest first."""

    past: tuple[Past, ...] = ()
    more: bool = False
    """There are earlier ones."""
    counted: bool = True
    """All totals are known; else load it again, which goes on where this ended."""

    def get(self, number: Hashable) -> Past | None:
        """The run with a number, if it is here."""
        return next((past for past in self.past if past.run.id == number), None)

    def before(self, number: int) -> RunRow | None:
        """The run of the same suite before this one."""
        here = self.get(number)
        rows = (past.run for past in self.past if here and past.suite == here.suite)
        return next((run for run in rows if run.id < number), None)


class History:
    """Loads runs for a list; the totals of a run that is over are counted once for each of its scoring passes."""

    def __init__(self, database: Path, clock: Callable[[], float] = time.monotonic) -> None:
        self._database = database
        self._clock = clock
        self._known: dict[int, tuple[Hashable, Totals]] = {}

    def load(self, limit: int = PAGE, text: str = "") -> Shelf:
        """The latest runs with these words, for a thread of its own: one call at a time; StoreError if it cannot."""
        with Reader(self._database) as reader:
            seq = reader.seq()
            rows = reader.runs(limit + 1, text=text)
            until = self._clock() + _PATIENCE
            # Those that nothing is known of go first, or counting live runs anew would keep them waiting for ever.
            order = sorted(rows[:limit], key=lambda row: row.id in self._known)
            found = {row.id: self._past(reader, row, seq, until) for row in order}
        past = tuple(found[row.id] for row in rows[:limit])
        return Shelf(past, len(rows) > limit, all(one.totals is not None for one in past))

    def _past(self, reader: Reader, row: RunRow, seq: int, until: float) -> Past:
        # The heartbeat tells the scoring pass that has just begun from the one that is over.
        state = (row.status, row.scoring_pass, row.heartbeat)
        mark = (*state, seq) if row.status in _LIVE else state
        known = self._known.get(row.id)
        if known is not None and known[0] == mark:
            return Past(row, known[1])
        if self._clock() > until:
            return Past(row, known[1] if known else None)
        totals = reader.totals(row.id)
        self._known[row.id] = (mark, totals)
        return Past(row, totals)


def run_of(number: int | None, shelf: Shelf | None, reader: Reader) -> RunRow | None:
    """The run with a number, from a shelf if it is there; None if there is none, or not any more."""
    past = shelf.get(number) if shelf else None
    try:
        return past.run if past else None if number is None else reader.run(number)
    except LookupError:
        return None


def to_compare(
    here: RunRow | None, marked: Sequence[RunRow], others: Sequence[RunRow | None]
) -> tuple[RunRow, RunRow] | None:
    """Two runs, the earlier one first: the marked ones, the one here with a marked one, or with the first of others."""
    if len(marked) != 2:
        candidates = [run for run in (*marked, *others) if run and here and run.id != here.id]
        if here is None or not candidates:
            return None
        marked = (here, candidates[0])
    first, second = sorted(marked, key=lambda run: run.id)
    return first, second
