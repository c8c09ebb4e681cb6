"""What the workbench says to the command line."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tui_evals.tui.runs.starting import (
    WITHOUT,
    NotStarted,
    RunOrder,
    ask_command_line,
    costs,
    faults_of,
    positions,
    refusal,
)


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
    words = RunOrder(
        "abc", Path("/p/d.json"), (0, 1, 2, 7), values | {"concurrency": 4, "name": "n", "ask again": True}
    )
    assert " ".join(words.arguments()) == (
        "run --snapshot abc --as /p/d.json --items 1-3,8 --target a --target b --target openai/x --target replay:y.csv "
        "--judge j --repeats 3 --concurrency 4 --max-cost 2.5 --name n --no-cache"
    )
    assert RunOrder("abc", Path("d"), (0,), {}, "k3y").arguments()[-2:] == ["--parent", "k3y"]
    assert "--without-judges" in RunOrder("abc", Path("d"), None, {"judge": WITHOUT}).arguments()


def test_what_a_run_costs_is_a_sentence():
    assert costs({"answers": 1, "judge_calls": 0, "cost": 0.0}) == "1 call, free"
    assert costs({"answers": 20, "judge_calls": 40, "cost": 1.234}) == "20 calls and 40 of the judge, about 1.23 USD"
    assert costs({"answers": 2, "judge_calls": 0, "cost": None}) == "2 calls, a price is not known"
    assert costs({"answers": 3, "judge_calls": 0, "cost": 0.0001}) == "3 calls, less than 0.01 USD"
    assert costs({"answers": 0, "judge_calls": 1, "cost": 0.0}) == "1 call of the judge, free"


def test_a_refusal_is_told_in_words_of_the_workbench():
    said = "the run abc123 ended as soon as it began:\nabc123 stopped: main: No. `tui-evals resume abc123` goes on"
    assert str(refusal(said)) == "main: No"
    judged = refusal("Relevance is judged by a model and no judge is named. Name one with --judge TARGET or …")
    assert judged.unjudged == "Relevance" and "--judge" not in str(judged) and "settings (,)" in str(judged)
    assert str(refusal("\n".join(f"line {number}" for number in range(9)))).startswith("line 3\n")


async def test_a_missing_judge_is_told_by_the_name_of_the_evaluator(tmp_path):
    file = tmp_path / "data.json"
    file.write_text('{"default_evaluators": {"Relevance": {}}, "items": [{"prompt": "x"}]}')
    with pytest.raises(NotStarted) as found:
        await ask_command_line(tmp_path, tmp_path / "evals.db", ["run", str(file), "--target", "demo", "--plan"])
    assert found.value.unjudged == "Relevance"


async def test_a_refusal_is_the_sentence_of_the_command_line(tmp_path):
    with pytest.raises(NotStarted, match="no-such"):
        await ask_command_line(tmp_path, tmp_path / "evals.db", ["run", "no-such.json", "--plan"])


def test_the_form_refuses_what_the_command_line_would():
    assert set(faults_of({})) == {"targets"}
    assert set(faults_of({"targets": ["demo"], "repeats": 0, "budget": 0, "concurrency": -1})) == {
        "repeats",
        "budget",
        "concurrency",
    }
    assert faults_of({"other targets": "openai/x"}) == {}
