"""Records of all answers to an item together, where `tui-evals show` tells of its answers and evaluators."""

import asyncio
import json
from pathlib import Path

import pytest

from tests.cli.past import Said, past
from tests.store.helpers import judged
from tests.tui.hostile import FORBIDDEN, STRANGE
from tui_evals.store.writer import Writer

pytestmark = pytest.mark.usefixtures("project")


def together(run, item, turn, *records):
    with Writer(Path(".evals/evals.db").absolute()) as writer:
        for record in records:
            asyncio.run(writer.group_scored(run.id, run.scoring_pass, item, turn, record))


def test_they_stand_below_the_scores_of_each_answer_and_say_what_they_are_of(shell):
    run = past(Said("a"), Said("a", repeat=1), Said("b"))
    together(run, 0, 0, judged("Best", 0.25, threshold=0.5, reason="the second is better"))
    line = "  all answers to this item: ✗ Best 0.25 (at least 0.5)  the second is better"
    lines = shell("show", "last", "--item", "a").out.splitlines()
    assert lines.count(line) == 2
    assert lines[lines.index(line) - 1].startswith("  ✓ Match 1")
    assert "all answers" not in shell("show", "last", "--item", "b").out
    details = json.loads(shell("show", "last", "--item", "a", "--json").out)
    assert [[one["key"] for one in detail["together"]["1"]] for detail in details] == [["Best"]] * 2
    assert [[one["key"] for one in detail["scores"]["1"]] for detail in details] == [["Match"]] * 2


def test_in_a_conversation_they_are_of_a_turn(shell):
    items = [{"testId": "a", "turns": [{"prompt": "one"}, {"prompt": "two"}]}]
    run = past(Said("a"), Said("a", turn=1), items=items)
    together(run, 0, 1, judged("Best", 1.0))
    first, second = shell("show", "last", "--item", "a").out.split("two")
    assert "all answers to this turn: ✓ Best 1" in second and "all answers" not in first


def test_their_evaluators_have_means_over_the_groups(shell):
    run = past(Said("a"), Said("a", repeat=1), Said("b"), Said("b", repeat=1))
    for item, score in enumerate((0.0, 1.0)):
        together(run, item, 0, judged("Best", score))
    best, match = json.loads(shell("show", "last", "--by", "evaluator", "--json").out)
    assert (best["key"], best["scope"], best["scored"], best["mean"]) == ("Best", "group", 2, 0.5)
    assert (match["key"], match["scope"], match["scored"]) == ("Match", "answer", 4)
    shown = shell("show", "last", "--by", "evaluator").out
    assert "of all answers to an item together" in shown.splitlines()[1]
    assert "all answers" not in shown.splitlines()[2]
    past(Said("a"))
    trend = shell("trend", "--evaluator", "Best").out
    assert "all answers to an item" in trend and "0.5" in trend
    assert "(all answers to an item)" in shell("report", run.key, "--to", "md", "-o", "-").out


def test_hostile_texts_reach_no_terminal(shell):
    run = past(Said("a"))
    together(run, 0, 0, judged(STRANGE, 1.0, reason=STRANGE, label=STRANGE, details={STRANGE: STRANGE}))
    for options in ((), ("--json",)):
        out = shell("show", "last", "--item", "a", *options).out.encode()
        assert b"[@click=app.quit]press[/]" in out
        assert not [bad for bad in FORBIDDEN if bad in out]
