"""The workers of a run that many execute: followed without asking twice, and all of them together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from tui_evals.light_records import dataclass

from .reader import Reader
from .records import RunRow, WorkerRow


@dataclass(frozen=True, slots=True)
class WorkerTotals:
    """The workers of a run in numbers."""

    alive: int = 0
    silent: int = 0
    gone: int = 0
    cells: int = 0
    """Conversations in flight; those of workers that are gone are with others by now."""
    rate: float = 0.0
    """Calls per second of those that are alive."""
    calls: int = 0
    errors: int = 0


def together(rows: Sequence[WorkerRow]) -> WorkerTotals:
    """All workers of a run in numbers."""
    states = Counter(row.state for row in rows)
    return WorkerTotals(
        alive=states["alive"],
        silent=states["silent"],
        gone=states["gone"],
        cells=sum(row.cells for row in rows if row.state != "gone"),
        rate=sum(row.rate for row in rows if row.state == "alive"),
        calls=sum(row.calls for row in rows),
        errors=sum(row.errors for row in rows),
    )


class RunWorkers:
    """The workers of a run as it continues; read again only once something was heard of them, or the run is over."""

    def __init__(self) -> None:
        self.rows: Sequence[WorkerRow] = ()
        """By name; another sequence whenever something about them changed."""
        self.totals = WorkerTotals()
        self._known: tuple[object, ...] = ()

    def look(self, reader: Reader, run: RunRow) -> bool:
        """Catch up with a run as it is now; says whether something about its workers changed."""
        known = (run.id, run.status, reader.workers_version())
        if known == self._known:
            return False
        rows = reader.workers(run.id)
        self._known = known
        if rows == list(self.rows):
            return False
        self.rows, self.totals = tuple(rows), together(rows)
        return True


def worker_totals(number: int, word: str) -> str:
    """How many of something there are, in words."""
    return f"{number:,} {word}{'' if number == 1 else 's'}"
