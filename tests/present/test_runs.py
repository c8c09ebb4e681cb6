"""The facts of a run."""

from pathlib import Path
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.present.rows import a_run, totals
from tui_evals.present.runs import (
    basis_sentence,
    column_names,
    command_wait_sentence,
    counts_sentence,
    destination_lines,
    judge_name,
    look_sentence,
    lost_runs_sentence,
    next_step,
    progress,
    rule_entry,
    rule_text,
    rule_words,
    run_cost,
    run_data,
    run_facts,
    standing_data,
    stop_reason,
    target_names,
    together,
    totals_sentence,
    wait_sentence,
    what_if_lines,
    what_if_phrases,
)
from tui_evals.runs.rescoring import Rule
from tui_evals.runs.what_if import ChangedVerdict, PassCount, WhatIf
from tui_evals.store.records import LIVE_STATUSES, RunStatus, StoreWait, Wait, WorkerRow


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


def waiting(**given):
    return Wait(**{"target": "demo", "code": "agentRateLimited", "until": 130.0, "attempt": 2, "attempts": 4, **given})


@pytest.mark.parametrize(
    ("run", "sentence"),
    [
        ({"waiting": waiting()}, "rate limited, next try in 30 s, attempt 2 of 4"),
        ({"waiting": waiting(), "status": "paused"}, "rate limited, next try in 30 s, attempt 2 of 4"),
        ({"waiting": waiting(code="?", attempts=0)}, "call failed, next try in 30 s"),
        ({"waiting": waiting(target="judge", code="outage")}, "judge away, next try in 30 s, attempt 2 of 4"),
        ({"waiting": waiting(), "targets": ("demo", "other")}, "demo rate limited, next try in 30 s, attempt 2 of 4"),
        ({"waiting": waiting(until=100.0)}, ""),
        ({"waiting": waiting(), "status": "finished"}, ""),
        ({}, ""),
    ],
)
def test_a_run_that_waits_says_for_whom_why_and_how_long(run, sentence):
    assert wait_sentence(a_run(**run), 100.0) == sentence


@pytest.mark.parametrize(
    ("code", "why"),
    [
        ("full", "the disk is full: make room for /s/evals.db"),
        ("locked", "backup keeps /s/evals.db locked: let it finish, or stop it"),
        ("unwritable", "/s/evals.db cannot be written (backup): look at the disk and at your quota"),
    ],
)
def test_what_waits_for_a_store_says_what_to_do_and_what_happens_otherwise(code, why):
    wait = StoreWait(code=code, path="/s/evals.db", cause="backup", until=130.0)
    said = f"asking waits, because {why}; in"
    assert wait_sentence(a_run(waiting=wait), 100.0) == f"{said} 30 s the run ends, to be resumed"
    again = f"{said} 1 s this ends, and the same command continues"
    assert command_wait_sentence(wait, 140.0, is_over=False) == again
    assert command_wait_sentence(wait, 100.0, is_over=True) == "/s/evals.db can be written again, and asking continues"


@given(st.lists(st.builds(
    WorkerRow, st.text(), state=st.sampled_from(["alive", "silent", "gone"]), cells=st.integers(0, 9),
    calls=st.integers(0, 9), rate=st.floats(0, 9), errors=st.integers(0, 9), seen=st.just(0.0),
)))  # fmt: skip
def test_workers_together_are_the_sum_of_what_each_still_does(rows):
    found, here = together(rows), [row for row in rows if row.state != "gone"]
    assert found.alive + found.silent + found.gone == len(rows)
    assert (found.cells, found.calls) == (sum(row.cells for row in here), sum(row.calls for row in rows))
    assert found.rate == pytest.approx(sum(row.rate for row in here if row.state == "alive"))
    assert found.errors == sum(row.errors for row in rows)
    assert found.gone == len(rows) - len(here)


def test_what_a_verdict_rests_on_is_counted_with_what_is_missing():
    assert basis_sentence(totals(total=10, passed=6, failed=3, scored=1)) == "rests on all 10 answers"
    assert basis_sentence(totals(total=1, passed=1)) == "rests on 1 answer"
    assert basis_sentence(totals(total=1, pending=1)).startswith("rests on 0 of 1 answer: ")
    said = basis_sentence(totals(total=1_010, passed=1_006, failed=1, errored=2, pending=1))
    assert said.startswith("rests on 1,007 of 1,010 answers: ") and "2 " in said and "1 " in said


@pytest.mark.parametrize("count", [1, 3, 4, 1_003])
def test_a_store_that_lost_its_runs_names_some_of_them(count):
    said = lost_runs_sentence(Path("/s/evals.db"), [f"k{number}" for number in range(count)])
    shown = said[said.index("(") + 1 : said.index(")")].partition(" and ")
    left = count - len(shown[0].split(", "))
    assert shown[2] == (f"{left:,} more" if left else "")
    assert "or remove the folder /s/locks to start again" in said


@pytest.mark.parametrize(
    ("rule", "before", "words", "entry", "text"),
    [
        (
            Rule("pass rule", 0.5),
            Rule("pass rule", 1.0),
            "a pass rule of 50 % of the weights",
            ("pass rule", "an answer needs 50 % of its weights"),
            "an answer passes with 50 % of its weights, now 100 %",
        ),
        (
            Rule("threshold", 3.5, "Tone"),
            Rule("threshold", 3.0, "Tone"),
            "a threshold of 3.5 for Tone",
            ("threshold of Tone", "now 3.5"),
            "the threshold of Tone is 3.5, now 3",
        ),
        (
            Rule("scale", 1.0, "Tone", "good"),
            Rule("scale", 1.0, "Tone", "good"),
            "good on the scale of Tone worth 1",
            ("scale of Tone: good", "now 1"),
            "good on the scale of Tone is worth 1",
        ),
    ],
)
def test_a_rule_is_said_with_its_value_and_the_one_before(rule, before, words, entry, text):
    assert (rule_words(rule), rule_entry(rule), rule_text(rule, before)) == (words, entry, text)


def test_what_would_change_is_counted_by_answers_columns_and_verdicts_of_people():
    changed = (ChangedVerdict(1, "pass", "fail"), ChangedVerdict(2, "pass", "fail"), ChangedVerdict(3, "fail", "pass"))
    columns = {(0, 0): (PassCount(3, 4), PassCount(2, 4)), (0, 1): (PassCount(1, 2), PassCount(1, 2))}
    found = WhatIf(dict.fromkeys(range(6), "pass"), changed, {**columns, (0, 2): (PassCount(0, 0),) * 2}, 2, 1, 0)
    names = {(0, 0): "small", (0, 1): "large", (0, 2): "none"}
    assert what_if_phrases(found, names) == [
        "3 of 8 judged answers would change",
        "0 → 1 contradict people's verdicts",
        "2 have to be judged again to know",
        "small 75 → 50 %",
    ]
    assert what_if_lines(found, names) == [
        "3 of 8 answers would change: 2 pass → fail, 1 fail → pass. Nothing was asked and nothing is stored.",
        "small: 75 → 50 % pass (3 → 2 of 4)",
        "large: 50 → 50 % pass (1 → 1 of 2)",
        "0 → 1 contradict people's verdicts",
        "2 have to be judged again to know; they count as they are",
    ]
    one_open = WhatIf({}, (), {}, 1, 0, 0)
    assert what_if_lines(one_open, names)[1] == "1 has to be judged again to know; it counts as it is"
    nothing = WhatIf({1: "pass"}, (), {(0, 0): (PassCount(0, 0), PassCount(0, 0))}, 0, 0, 0)
    assert what_if_phrases(nothing, names) == ["0 of 1 judged answer would change"]
    assert what_if_lines(nothing, names) == ["0 of 1 answer would change. Nothing was asked and nothing is stored."]
