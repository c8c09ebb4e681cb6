"""The time left after a resume counts what came since, from the first result on."""

from dataclasses import replace

import pytest

from tests.tui.test_totals import NOW, Held, a_run, some
from tui_evals.store.records import Totals
from tui_evals.tui.results.table import RunCounter
from tui_evals.tui.results.totals import RunNumbers, totals_rows


class Screen:
    """The first line above the answers, over a run whose status, count and clock a test sets."""

    def __init__(self) -> None:
        self.now, self.watch = NOW, Held()
        self.watch.run = a_run()
        self.counter = RunCounter(self.watch, lambda: self.now)

    async def line(self, seconds: float, passed: int, status: str = "running") -> str:
        self.now += seconds
        self.watch.run = replace(self.watch.run, status=status)
        self.watch.totals = some(passed=passed, pending=1000 - passed)
        totals: Totals | None = self.counter.totals
        return str(totals_rows(self.watch.run, RunNumbers(totals, rate=self.counter.rate()), self.now, 200)[0])


@pytest.mark.parametrize("between", ["interrupted", "paused"])
async def test_the_time_left_counts_what_came_since_the_run_went_on(between):
    screen = Screen()
    for passed in (0, 100, 200):
        line = await screen.line(1, passed)
    assert "8.0 s left" in line
    for _ in range(3):
        assert "left" not in await screen.line(1000, 200, between)
    assert "left" not in await screen.line(1, 200)
    assert "left" not in await screen.line(1, 204)
    assert "5.0/s" in (line := await screen.line(1, 210)) and "2m 38s left" in line
