"""A spent budget says what was spent, the limit and the excess, also where runs share it."""

import asyncio

import pytest

from tests.tui.story import at_the_workbench
from tui_evals import RunStopped
from tui_evals.api.evaluating import execute_prepared, prepared_run
from tui_evals.runs.project import load_project

PRICE = "[targets.main.price]\ninput_per_million = 0.0\noutput_per_million = 0.6\n"


@pytest.fixture
def overspent(project):
    """A run whose server ignores the limit of an answer: each of 250,000 tokens costs 0.15."""
    project.server.behave(tokens=250_000)
    project.configure(f"{PRICE}[targets.main.params]\nmax_tokens = 100\n", concurrency=2)
    project.dataset(6)
    project.said = project.do("run", "data.json", "--target", "main", "--max-cost", 0.05, "--quiet", code=4)
    return project


def test_a_spent_budget_says_what_was_spent_the_limit_and_by_how_much_it_was_exceeded(overspent):
    assert "the budget is spent: $0.300 spent of a limit of $0.0500, $0.250 over it" in overspent.said
    assert "left" not in overspent.said and "--max-cost N` continues it" in overspent.said
    for command in (["show", "last"], ["watch", "last"], ["runs"]):
        assert "$0.300 spent of a limit of $0.0500" in overspent.do(*command)
    assert "--max-cost N` continues it" in overspent.do("watch", "last")


def test_what_a_call_may_cost_is_reckoned_by_the_largest_answer_seen_also_after_a_resume(overspent):
    """0.42 has room for 60 tokens more by what the parameters allow, and for no answer such as this server gives."""
    said = overspent.do("resume", "last", "--max-cost", 0.42, "--quiet", code=4)
    assert "$0.300 spent of a limit of $0.420, and the next call could cost $0.150" in said
    assert overspent.server.counts()["asked"] == 2


def test_a_limit_that_was_raised_stays_raised(overspent):
    overspent.do("resume", "last", "--max-cost", 0.5, "--quiet", code=4)
    assert overspent.server.counts()["asked"] == 3
    assert "of a limit of $0.500" in overspent.do("resume", "last", "--quiet", code=4)
    overspent.do("resume", "last", "--max-cost", 2, "--quiet")
    assert overspent.server.counts()["asked"] == 6


def test_runs_that_share_a_limit_spend_it_once_at_the_same_time_and_a_resumed_one_gets_its_own(project):
    project.configure("[targets.main.params]\nmax_tokens = 10\n[targets.main.price]\nper_call = 0.1\n")
    file, here = project.dataset(6), load_project(project.folder, trusting=True)

    async def execute():
        terms = {"max_cost": 0.85, "shared_limit": "session", "use_cache": False}
        prepared = prepared_run(here, file, "main", None, None, sweep={}, **terms)
        try:
            return await execute_prepared(prepared, here)
        except RunStopped as stopped:
            return stopped.run

    async def both():
        return await asyncio.gather(execute(), execute())

    runs = asyncio.run(both())
    assert project.server.counts()["asked"] == 8 and sum(run.totals.cost for run in runs) == pytest.approx(0.8)
    stopped = next(run for run in runs if run.status != "finished")
    assert "by other runs that share the limit, of a limit of $0.850" in stopped.message
    project.do("resume", stopped.key, "--trust", "--quiet", code=4)
    assert project.server.counts()["asked"] == 8
    project.do("resume", stopped.key, "--max-cost", 0.65, "--trust", "--quiet")
    assert project.server.counts()["asked"] == 8 + stopped.totals.pending


@pytest.mark.nightly
async def test_the_workbench_asks_for_a_larger_limit_where_a_run_is_resumed_whose_money_is_spent(overspent):
    async with at_the_workbench(overspent.folder, dataset="data.json", run="last") as person:
        await person.sees("stopped: the budget is spent: $0.300 spent")
        await person.press("4", "p")
        await person.sees("Stop before more US dollars are spent")
        assert "0.6" in person.screen()
        await person.press("ctrl+s")
        await person.until(lambda: overspent.server.counts()["asked"] == 4)
        await person.sees("stopped: the budget is spent: $0.600 spent of a limit")
    assert overspent.server.counts()["asked"] == 4
