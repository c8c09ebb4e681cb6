"""Statuses and how totals are counted out by them."""

from typing import get_args

import pytest

from tests.present.rows import a_run, totals
from tui_evals.present.status import (
    ANSWER_LOOKS,
    FINAL,
    LIVE,
    OVER,
    RUN_LOOKS,
    WORST_FIRST,
    final_count,
    result_look,
    run_look,
    short_counts,
    status_counts,
    waiting_count,
)
from tui_evals.store.records import AnswerStatus, RunStatus


def test_every_status_has_a_glyph_and_a_word_of_its_own():
    for looks, statuses in ((ANSWER_LOOKS, get_args(AnswerStatus)), (RUN_LOOKS, get_args(RunStatus))):
        assert set(looks) == set(statuses)
        assert {look.word for look in looks.values()} == set(statuses)
        assert len({look.glyph for look in looks.values()}) == len(looks)
    assert set(WORST_FIRST) == set(get_args(AnswerStatus))


def test_a_run_is_live_or_over_or_only_planned():
    assert not LIVE & OVER
    assert set(get_args(RunStatus)) - LIVE - OVER == {"planned"}


@pytest.mark.parametrize(
    ("status", "control", "shown"),
    [
        ("running", "stop", "▸ stopping"),
        ("running", "pause", "▸ pausing"),
        ("paused", "pause", "‖ paused"),
        ("finished", "stop", "■ finished"),
        ("interrupted", "", "! interrupted"),
    ],
)
def test_what_a_run_was_asked_to_do_shows_before_it_obeys(status, control, shown):
    assert run_look(a_run(status=status, control=control)).text == shown


def test_a_run_that_a_person_stopped_is_no_error_and_one_that_is_judged_again_says_so():
    stopped, broken = (run_look(a_run(status="interrupted", code=code)) for code in ("asked", "budget"))
    assert (stopped.text, stopped.tone) == ("□ stopped", "warn")
    assert (broken.text, broken.tone) == ("! interrupted", "error")
    assert run_look(a_run(status="running", staged_pass=2)).text == "▸ judging"
    assert run_look(a_run(status="running", staged_pass=2, control="stop")).text == "▸ stopping"


def test_answers_without_a_verdict_and_those_without_a_text_are_counted_apart():
    found = totals(passed=3, failed=2, partial=1, errored=1, answered=1, running=1, pending=1, unjudged=2, scored=3)
    assert [one.phrase for one in status_counts(found)] == [
        "3 pass",
        "2 fail",
        "1 could not be judged",
        "1 without an answer",
        "2 unjudged",
        "3 scored",
        "1 answered, not judged",
        "1 in flight",
        "1 pending",
    ]
    assert short_counts(found) == "✓ 3 ✗ 2 ◐ 1 ! 1 ○ 2 – 3"
    assert short_counts(totals(pending=10)) == "✓ 0 ✗ 0"
    assert (final_count(found), waiting_count(found)) == (12, 3)
    assert {one.status for one in status_counts(found)} >= FINAL


def test_an_evaluator_that_gave_no_verdict_is_neither_a_pass_nor_a_failure():
    assert [result_look(result).text for result in ("pass", "error", "skipped", None)] == [
        "✓ pass",
        "! error",
        "– skipped",
        "– scored",
    ]
