"""`show --grid` and `compare --columns`: what stands in a column, what fits a terminal, and what is refused."""

import json

import pytest

from tests.cli.past import Said, past
from tests.store.helpers import judged
from tests.tui.hostile import STRANGE
from tui_evals.cli.look import show

pytestmark = pytest.mark.usefixtures("project")


@pytest.fixture
def run():
    """Two items of three columns; the second model passes once more than the first."""
    verdicts = {"a": ("pass", "pass", "fail"), "b": ("fail", "pass", "fail")}
    answers = [
        Said(item, status, target=target, record={"latency_ms": 1_500.0, "cost": 0.25})
        for item, statuses in verdicts.items()
        for target, status in enumerate(statuses)
    ]
    return past(*answers, targets=("openai/one", "openai/two", "openai/three"))


def test_the_grid_has_a_column_for_each_target_with_its_rate_cost_and_latency(run, shell):
    done = shell("show", run.key, "--grid")
    assert done.code == 0
    head, *lines = done.out.splitlines()
    assert head == f"{run.key}  nightly  ■ finished"
    assert [line.split("  ")[0] for line in lines] == ["item", "passes", "95 % interval", "cost, latency", "a", "b"]
    assert lines[0].split() == ["item", "one", "two", "three"]
    assert "50.0 % of 2" in lines[1] and "100.0 % of 2" in lines[1] and "0.0 % of 2" in lines[1]
    assert lines[3].count("$0.500 · 1.5 s") == 3
    assert lines[4].split() == ["a", "✓", "pass", "100", "✓", "pass", "100", "✗", "fail", "0"]


def test_the_rates_of_the_grid_are_those_that_show_says(run, shell):
    columns = json.loads(shell("show", run.key, "--grid", "--json").out)["columns"]
    by_target = json.loads(shell("show", run.key, "--by", "target", "--json").out)
    assert {one["name"]: (one["passed"], one["judged"]) for one in columns} == {
        name: (totals["passed"], totals["passed"] + totals["failed"]) for name, totals in by_target.items()
    }
    said = shell("show", run.key).out
    for one in columns:
        low, high = (f"{100 * end:.1f}" for end in one["interval"])
        assert f"{one['name']}: {one['passed']} of {one['judged']} pass ({100 * one['pass_rate']:.1f} %" in said
        assert f"95 % interval {low} to {high})" in said


def test_rows_are_sorted_and_filtered_and_come_as_data(run, shell):
    assert shell("show", run.key, "--grid", "--sort", "disagreement").out.splitlines()[-2].startswith("a ")
    failures = shell("show", run.key, "--grid", "--sort", "failures").out.splitlines()
    assert [line[0] for line in failures[-2:]] == ["b", "a"]
    data = json.loads(shell("show", run.key, "--grid", "--only", "id:b", "--json").out)
    assert [one["shown_as"] for one in data["columns"]] == ["one", "two", "three"]
    assert data["rows"] == [
        {
            "item": "b",
            "turn": 1,
            "category": "",
            "cells": [
                {"statuses": [status], "answers": 1, "passed": int(status == "pass"), "score": score}
                for status, score in (("fail", 0.0), ("pass", 100.0), ("fail", 0.0))
            ],
        }
    ]
    assert shell("show", run.key, "--grid", "--limit", "1").out.endswith(
        "1 more; `--limit 2` shows all, `--only` those that a filter finds\n"
    )
    assert shell("show", run.key, "--grid", "--only", "id:none").out.endswith("no answer fits the filter\n")


def test_a_narrow_terminal_has_the_columns_that_fit_and_says_how_many_do_not(run, shell, monkeypatch):
    monkeypatch.setattr(show, "columns", lambda: 50)
    done = shell("show", run.key, "--grid").out
    assert "three" not in done and max(map(len, done.splitlines()[:-1])) <= 50
    assert done.splitlines()[-1].startswith("1 more column beyond the width of the terminal")


def test_where_nothing_can_fail_a_column_says_what_it_measured(shell):
    scores = {target: [judged("Tone", 0.25 * (target + 1), result=None)] for target in (0, 1)}
    past(*(Said("a", "scored", target=n, scores=scores[n]) for n in (0, 1)), targets=("x/one", "x/two"))
    assert "Tone: mean 0.250" in shell("show", "last", "--grid").out
    columns = json.loads(shell("show", "last", "--grid", "--json").out)["columns"]
    assert [(one["pass_rate"], one["measures"]) for one in columns] == [
        (None, ["Tone: mean 0.250 (95 % interval 0.000 to 0.943)"]),
        (None, ["Tone: mean 0.500 (95 % interval 0.010 to 0.990)"]),
    ]


def test_names_of_strangers_are_made_safe(shell):
    past(Said(STRANGE), Said(STRANGE, "fail", target=1), targets=(STRANGE, "b"))
    done = shell("show", "last", "--grid")
    assert done.code == 0 and "\x1b" not in done.out and "\x9b" not in done.out


@pytest.mark.story
def test_two_columns_are_compared_as_two_runs_are(run, shell):
    done = shell("compare", run.key, "--columns", "one,two")
    assert done.code == 0
    assert f"A and B are columns of {run.key} (nightly)." in done.out
    assert "B passes 1 more of 2 items than A: could be chance" in done.out
    assert "✓ fixed  b" in done.out
    data = json.loads(shell("compare", run.key, "--columns", "one,two", "--only", "fixed", "--json").out)
    assert [(one["called"], one["name"], one["whole_run"]["cost"]) for one in data["runs"]] == [
        ("A", "openai/one", 0.5),
        ("B", "openai/two", 0.5),
    ]
    assert [one["pass_rates"][0]["value"] for one in data["runs"]] == [0.5, 1.0]
    assert [line["item"] for line in data["lines"]] == ["b"]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("compare", "last", "--columns", "one,four"), "has no column 'four'"),
        (("compare", "last", "--columns", "one"), "'one' names one column; give two"),
        (("compare", "last", "nightly", "--columns", "one,two"), "two columns of one run, and 2 runs were given"),
        (("show", "last", "--sort", "failures"), "--sort orders the rows of a grid; add --grid"),
        (("show", "last", "--grid", "--by", "target"), "leave --item and --by out, or --grid"),
    ],
)
def test_what_cannot_be_is_refused_in_a_sentence(run, shell, arguments, says):
    done = shell(*arguments)
    assert done.code == 2 and says in done.err
