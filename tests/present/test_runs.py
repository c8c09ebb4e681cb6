"""The facts of a run."""

from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.present.rows import a_run, totals
from tui_evals.present.runs import (
    column_names,
    counts_sentence,
    destination_lines,
    judge_name,
    look_sentence,
    next_step,
    progress,
    run_cost,
    run_data,
    run_facts,
    standing_data,
    stop_reason,
    target_names,
    totals_sentence,
)
from tui_evals.store.records import LIVE_STATUSES, RunStatus


def test_a_finished_run_says_how_it_stands_what_came_of_it_and_what_that_cost():
    found = run_facts(a_run(status="finished", finished=190.0), totals(passed=2, failed=1, cost=0.02, unpriced=2))
    assert found.headline == "■ finished in 1m 30s"
    assert found.sentence == "2 of 3 pass (66.7 %, 95 % interval 15.1 to 99.2) · $0.0200 and 2 unpriced"
    assert (found.reason, found.next_step) == ("", "")


def test_targets_that_send_the_same_to_one_host_share_a_line():
    said = {name: {"sentence": "sends KEY to a.example"} for name in ("main", "other", "judge")}
    said |= {name: {"sentence": "sends its questions to b.example"} for name in ("local", "small")}
    assert destination_lines(said) == [
        "main, other, judge send KEY to a.example",
        "local, small send their questions to b.example",
    ]
    assert destination_lines({"main": {"sentence": "sends KEY to a.example"}}) == ["main sends KEY to a.example"]


def test_a_run_that_stopped_says_what_goes_on_with_it():
    found = run_facts(a_run(status="interrupted"), totals(pending=10))
    assert (found.headline, found.counts) == ("! interrupted", "10 interrupted")
    assert found.next_step == "`tui-evals resume k3fa9z` continues it"
    assert next_step(a_run(status="interrupted", config={"generation": {}})) == ""
    assert next_step(a_run(status="running")) == ""


@given(st.sampled_from(get_args(RunStatus)), st.integers(0, 5), st.integers(0, 5), st.integers(0, 5), st.booleans())
def test_the_progress_of_a_run_that_continues_is_the_share_of_what_is_final(status, final, left, judged, again):
    run = a_run(status=status, staged_pass=2 * again, staged=judged, staged_total=judged + left)
    counts = totals(total=final + left, passed=final, pending=left)
    done, total = (judged, judged + left) if again else (final, final + left)
    shown = f"{100 * done // total} %" if status in LIVE_STATUSES and total else ""
    assert (progress(run, counts), progress(run, None)) == (shown, "")


def test_why_a_run_stopped_is_what_its_row_says():
    assert stop_reason(a_run()) == ""
    assert stop_reason(a_run(message="main cannot be reached")) == "main cannot be reached"


def test_the_judges_and_what_nobody_knows_the_price_of_are_in_the_cost():
    cost = run_cost(totals(cost=1.5, judge_cost=0.5, unpriced=3))
    assert (cost.text, cost.short, cost.judge_text) == ("$2.00 and 3 unpriced", "$2.00+", "of it judges $0.500")
    assert run_cost(totals(unpriced=3)).short == "unpriced"
    assert (run_cost(totals()).text, run_cost(totals()).short, run_cost(totals()).judge_text) == ("$0", "$0", "")


def test_nothing_that_happened_is_left_out_of_the_counts():
    every = totals(passed=1, partial=1, errored=1, answered=1, running=1, pending=1)
    assert counts_sentence(every).endswith(
        "1 could not be judged · 1 without an answer · 1 answered, not judged · 1 in flight · 1 pending"
    )
    assert totals_sentence(a_run(), totals()) == "no answers · $0"


def test_as_data_there_is_null_where_nothing_is_known():
    assert run_data(a_run())["message"] is None
    found = standing_data(a_run(status="finished", finished=190.0), totals(passed=1, cost=0.5, unpriced=2))
    assert (found["status"], found["message"], found["seconds"]) == ("finished", None, 90.0)
    assert (found["cost"], found["unpriced"], found["totals"]["passed"]) == (0.5, 2, 1)


@pytest.mark.parametrize(
    ("config", "judge"),
    [
        ({"judge": {"name": "j", "model": "m"}}, "j (m)"),
        ({"judge": {"name": "j", "model": "j"}}, "j"),
        ({"without_judges": True}, "left out"),
        ({}, "none named"),
    ],
)
def test_who_judges_is_named_with_the_model(config, judge):
    assert judge_name(a_run(config=config)) == judge


def test_targets_are_named_with_their_models_and_columns_with_their_prompts():
    run = a_run(targets=("a", "b"), prompts=("p", "q"), config={"targets": [{"model": "m"}, {"model": "b"}]})
    assert target_names(run) == ("a (m)", "b")
    assert column_names(run)[1, 0] == "a · q"
    assert list(column_names(a_run(targets=("odd", "odd"))).values()) == ["odd", "odd (2)"]


def test_the_command_after_a_run_shows_the_worst_that_there_is():
    counts = {"failed": "fail", "errored": "error", "partial": "partial", "unjudged": "unjudged"}
    for better, (field, word) in enumerate(counts.items()):
        given = dict.fromkeys(list(counts)[better:], 1)
        assert look_sentence(a_run(), totals(**given)).startswith(f"`tui-evals show k3fa9z --only {word}`"), field
    assert look_sentence(a_run(), totals(passed=10)) == "`tui-evals show k3fa9z` shows its answers"
