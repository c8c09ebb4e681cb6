"""Gates in words and as data."""

import json

import pytest

from tui_evals.compare.measures import MeasuredDifference, RunDifference
from tui_evals.figures import Figure, Interval
from tui_evals.present.gates import gate_figure, gate_lines, gate_texts, gates_data, gates_event
from tui_evals.runs.gates import GateResults
from tui_evals.store.records import CheckedGate


def a_figure(value, unit, *, ends=None, items=4, answers=4, population="judged", missing=0):
    return Figure(value, items, answers, ends and Interval(*ends), "by item", unit, population, missing)


@pytest.mark.parametrize(
    ("figure", "text"),
    [
        (a_figure(3, "answers", answers=1_000), "3 of 1,000 answers judged"),
        (a_figure(1, "items", items=1, answers=8), "1 of 1 item judged"),
        (a_figure(71.25, "score"), "71.2 of 100 over 4 items"),
        (a_figure(71.25, "score", ends=(60, 80.04)), "71.2 of 100 over 4 items, 95 % interval 60.0 to 80.0"),
        (a_figure(-0.05, "points", ends=(-0.1, 0.0)), "-5.0 points over 4 items, 95 % interval -10.0 to 0.0"),
        (
            a_figure(0.0004, "points", ends=(-0.0004, 0.01), items=1),
            "0.0 points over 1 item, 95 % interval 0.0 to +1.0",
        ),
        (a_figure(0.5, "points", population="so far", missing=3), "+50.0 points over 4 items, 3 still open"),
        (
            a_figure(0.5, "points", population="planned", missing=3),
            "+50.0 points over 4 items, 3 missing, counted as not passed",
        ),
    ],
)
def test_the_figure_of_a_gate_is_said_with_its_population(figure, text):
    assert gate_figure(figure) == text


MET = CheckedGate("--max-errors 3", "met", "1 of 4 answers", a_figure(1, "answers"))
NOT = CheckedGate("--fail-under 80", "not met", "75 % is below 80 %", None, "small", "by others: met")
OPEN = CheckedGate("--fail-under 80", "not decided", "2 are open")


def test_a_gate_that_is_not_met_says_why_and_one_that_is_met_does_not():
    assert [text.why for text in gate_texts([MET, NOT, OPEN])] == [
        "",
        "75 % is below 80 % by others: met",
        "2 are open",
    ]
    assert [text.name for text in gate_texts([MET, NOT])] == ["--max-errors 3", "--fail-under 80 · small"]
    assert [text.look.text for text in gate_texts([MET, NOT, OPEN])] == ["✓ met", "✗ not met", "○ not decided"]
    assert [text.figure for text in gate_texts([MET, NOT])] == ["1 of 4 answers judged", ""]
    assert len(gate_lines([MET, NOT])) >= 3 and "below" not in "".join(gate_lines([NOT])) and gate_lines([]) == []


def a_difference(what):
    fields = {"what": what, "items": 4, "before": 0.5, "after": 0.25, "interval": None, "p": 0.01, "adjusted": 0.02}
    return MeasuredDifference(**fields, needed=None, direction=1)


def test_gates_as_data_say_what_a_run_was_measured_against():
    alone = gates_event(GateResults((MET, NOT)))
    assert (alone["met"], alone["against"]) == (False, None)
    assert [(gate["gate"], gate["met"], gate["says"]) for gate in alone["gates"]] == [
        ("--max-errors 3", True, []),
        ("--fail-under 80", False, ["small: 75 % is below 80 %"]),
    ]
    assert alone["gates"] == gates_data([MET, NOT])
    refused = gates_event(GateResults((MET,), baseline="k3fa9z", verdict="no items in common"))
    assert refused["against"] == {"baseline": "k3fa9z", "verdict": "no items in common"} and refused["met"]
    against = RunDifference(4, 1, 2, a_difference(""), (a_difference("Match"),))
    event = gates_event(GateResults((MET,), baseline="k3fa9z", verdict="worse", against=against))
    found = event["against"]
    assert (found["items"], found["broken"], found["fixed"]) == (4, 1, 2)
    assert [(test["evaluator"], test["baseline"], test["run"], test["p"]) for test in found["tests"]] == [
        ("", 0.5, 0.25, 0.02),
        ("Match", 0.5, 0.25, 0.02),
    ]
    json.dumps(event, allow_nan=False)
