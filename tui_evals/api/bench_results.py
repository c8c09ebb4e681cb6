"""`TestRun`: what came of the candidates of a suite, as plain lists."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from tui_evals.runs.suites.problems import UserValueError
from tui_evals.runs.suites.running import Row, average

from .bench_execution import Made, save_made

_Found = TypeVar("_Found")


class TestRun:
    """A named run over a suite: the candidates with their scores, in the order of the suite."""

    __test__ = False

    def __init__(self, made: Made, root: Path) -> None:
        self._made: Made | None = None if made.key else made
        self._root = root
        self.name = made.asked.name
        self.suite = made.asked.suite.name
        self.id = made.key
        """The id of the run in the store, which `tui-evals show` takes; None while it is not saved."""
        self.rows: tuple[Row, ...] = made.rows
        self.metadata: Mapping[str, str] = made.metadata

    @property
    def scores(self) -> list[float | None]:
        """The score of each case; None where it could not be judged, and `problems` says why."""
        return [row.score for row in self.rows]

    @property
    def categories(self) -> list[str | None]:
        """The category of each case; None where the scorer gives none."""
        return [row.category for row in self.rows]

    @property
    def outputs(self) -> list[str | None]:
        """The candidate of each case; None where it was blank."""
        return [row.output for row in self.rows]

    @property
    def problems(self) -> list[str | None]:
        """Why a case has no answer or could not be judged."""
        return [row.problem for row in self.rows]

    @property
    def average(self) -> float | None:
        """The mean of the scores there are; None where there are none."""
        return average(self.scores)

    def save(self) -> str:
        """Keep a run that was made with `save=False`; returns its id."""
        if self._made is None:
            raise UserValueError(f"the run {self.name!r} is saved already, as {self.id}")
        made, root = self._made, self._root
        self.id = apart(lambda: save_made(made, root))
        self._made = None
        return self.id

    def __repr__(self) -> str:
        mean = "n/a" if self.average is None else f"{self.average:.3f}"
        return f"TestRun({self.name!r}, id={self.id!r}, cases={len(self.rows)}, average={mean})"


def apart(work: Callable[[], _Found]) -> _Found:
    """What some work returns; in a thread of its own where a loop runs here already, as in a notebook."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return work()
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(work).result()
