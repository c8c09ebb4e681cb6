"""A question about money opens at once: no key pressed while its price is worked out means anything else."""

import threading

import pytest

from tests.tui.story import at_the_workbench
from tui_evals.store.records import LIVE_STATUSES
from tui_evals.tui.runs import starting
from tui_evals.tui.widgets.dialogs import ConfirmPriced

SOON = 20.0


@pytest.mark.nightly
async def test_y_while_a_rescore_is_priced_neither_copies_nor_starts_it(project, monkeypatch):
    project.dataset(3)
    project.do("run", "data.json", "--quiet")
    known = threading.Event()
    estimate = starting._estimate_judging

    def slow(*given):
        assert known.wait(60)
        return estimate(*given)

    monkeypatch.setattr(starting, "_estimate_judging", slow)
    async with at_the_workbench(project.folder, size=(160, 45), dataset="data.json", run="last") as person:
        await person.press("4", "s")
        await person.until(lambda: isinstance(person.app.screen, ConfirmPriced), SOON)
        dialog = person.app.screen
        assert "Working out what it costs" in person.screen()
        await person.press("y")
        assert person.app.screen is dialog
        assert "Wait until the price is shown" in person.screen()
        known.set()
        await person.sees("judge 3 answers of", SOON)
        assert "Wait until" not in person.screen()
        await person.press("n")
        await person.until(lambda: person.app.screen is not dialog, SOON)
        assert person.app.watching.run.status not in LIVE_STATUSES


@pytest.mark.nightly
async def test_what_cannot_be_priced_says_why_in_place_of_the_question(project, monkeypatch):
    project.dataset(3)
    project.do("run", "data.json", "--quiet")

    def refused(*_):
        raise starting.CannotPlan("the dataset of this run is gone")

    monkeypatch.setattr(starting, "_estimate_judging", refused)
    async with at_the_workbench(project.folder, size=(160, 45), dataset="data.json", run="last") as person:
        await person.press("4", "s")
        await person.sees("the dataset of this run is gone", SOON)
        assert not isinstance(person.app.screen, ConfirmPriced)
