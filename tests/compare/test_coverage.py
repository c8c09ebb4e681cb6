"""95 % intervals hold the truth as often as they say: `python -m tests.bench.coverage` with few rounds."""

from math import sqrt

import pytest

from tests.bench import coverage

OURS = {table.name: table._replace(methods=dict([list(table.methods.items())[-1]])) for table in coverage.TABLES}
ROUNDS = 30
SLACK = 4.5 * sqrt(coverage.WORST * (1 - coverage.WORST) / ROUNDS)


def exact(rounds, rng):
    return (drawn for drawn in coverage._rates(1, rng) if drawn.weights is not None)


@pytest.mark.story
def test_rates_of_single_answers_and_of_answers_that_are_alike_hold_the_limits_in_every_cell():
    (found,) = coverage.measure(OURS["rates"]._replace(cells=exact), 1, 1).values()
    assert len(found) == len(coverage.ITEMS_OF_RATES) * len(coverage.REPEATS) * len(coverage.RATES)
    assert coverage.broken(found) == []


def test_the_interval_that_took_every_answer_for_independent_does_not_hold_them():
    wilson = coverage.TABLES[0]._replace(cells=exact, methods={"": coverage._wilson_all})
    (found,) = coverage.measure(wilson, 1, 1).values()
    assert coverage.summary(found).worst.covered < 0.1 and coverage.broken(found)


@pytest.mark.story
@pytest.mark.cases(2)
@pytest.mark.parametrize("name", [table.name for table in coverage.TABLES if table.limited])
def test_every_interval_holds_the_limits_as_far_as_a_few_rounds_can_tell(name):
    (found,) = coverage.measure(OURS[name], ROUNDS, 1).values()
    assert coverage.broken(found, SLACK) == []


@pytest.mark.nightly
def test_the_command_prints_its_tables_and_fails_where_a_limit_is_broken(capsys, monkeypatch):
    assert coverage.main(["kappa", "uneven", "--rounds", "30"]) == 0
    told = capsys.readouterr().out
    assert "Kappa of a judge and people: 360 cells" in told and "worst of ours" in told and "LIMIT" not in told
    wilson = coverage.TABLES[0]._replace(cells=exact, methods={"ours": coverage._wilson_all})
    monkeypatch.setattr(coverage, "TABLES", (wilson,))
    assert coverage.main(["--rounds", "1000"]) == 1 and "LIMIT: a cell holds" in capsys.readouterr().out
