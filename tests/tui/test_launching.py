"""What the workbench says to the command line."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tui_evals.tui.screens.runform import faults_of
from tui_evals.tui.state.launching import WITHOUT, NotStarted, Order, costs, positions, told


@given(st.sets(st.integers(0, 300), min_size=1))
def test_positions_say_exactly_the_items(items):
    found = set()
    for part in positions(items).split(","):
        first, _, last = part.partition("-")
        found |= set(range(int(first) - 1, int(last or first)))
    assert found == items


def test_an_order_says_all_its_values():
    values = {
        "targets": ["a", "b"],
        "other targets": "openai/x, replay:y.csv",
        "judge": "j",
        "repeats": 3,
        "budget": 2.5,
    }
    words = Order("abc", Path("/p/d.json"), (0, 1, 2, 7), values | {"concurrency": 4, "name": "n", "ask again": True})
    assert " ".join(words.arguments()) == (
        "run --snapshot abc --as /p/d.json --items 1-3,8 --target a --target b --target openai/x --target replay:y.csv "
        "--judge j --repeats 3 --concurrency 4 --max-cost 2.5 --name n --no-cache"
    )
    assert "--without-judges" in Order("abc", Path("d"), None, {"judge": WITHOUT}).arguments()


def test_what_a_run_costs_is_a_sentence():
    assert costs({"answers": 1, "judge_calls": 0, "cost": 0.0}) == "1 call, free"
    assert costs({"answers": 20, "judge_calls": 40, "cost": 1.234}) == "20 calls and 40 of the judge, about 1.23 USD"
    assert costs({"answers": 2, "judge_calls": 0, "cost": None}) == "2 calls, a price is not known"


async def test_a_refusal_is_the_sentence_of_the_command_line(tmp_path):
    with pytest.raises(NotStarted, match="no-such"):
        await told(tmp_path, tmp_path / "evals.db", ["run", "no-such.json", "--plan"])


def test_the_form_refuses_what_the_command_line_would():
    assert set(faults_of({})) == {"targets"}
    assert set(faults_of({"targets": ["demo"], "repeats": 0, "budget": 0, "concurrency": -1})) == {
        "repeats",
        "budget",
        "concurrency",
    }
    assert faults_of({"other targets": "openai/x"}) == {}
