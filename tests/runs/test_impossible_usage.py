"""Usage below zero costs nothing, is noted, and defeats no budget."""

import pytest

from tui_evals.store import run_figures

PRICE = "[targets.main.price]\ninput_per_million = 1000.0\noutput_per_million = 1000.0\n"


@pytest.mark.parametrize("stated", [-12_500_000, 9_000_000_000])
def test_counts_that_cannot_be_any_cost_nothing_and_are_noted_on_the_answer(project, stated):
    project.server.behave(tokens=stated)
    project.configure(PRICE)
    project.dataset(2)
    project.do("run", "data.json", "--target", "main", "--quiet")
    with project.reader() as reader:
        run = reader.find_run("last")
        assert (run_figures.spent(reader, run.id), reader.totals(run.id).unpriced) == (0.0, 2)
        assert {row.output_tokens for row in reader.all_rows(run.id)} == {None}
    shown = project.do("show", "last", "--item", "#1")
    assert f"tokens not counted: 2 tokens in and {stated} out were stated" in shown and "unpriced" in shown


def test_counts_below_zero_do_not_defeat_a_budget(project):
    project.server.behave(tokens=-12_500_000)
    project.configure(f"{PRICE}[targets.main.params]\nmax_tokens = 50\n", concurrency=1)
    project.dataset(40)
    said = project.do("run", "data.json", "--target", "main", "--max-cost", "0.5", "--quiet", code=4)
    assert "the budget is spent" in said
    assert project.server.counts()["asked"] < 10
