"""The facts of an answer, why it did not pass, and what was expected."""

import pytest

from tests.present.rows import an_answer
from tests.store.helpers import judged, said
from tui_evals.present.answers import (
    answer_name,
    answer_words,
    complaints,
    earlier_text,
    error_text,
    expected_text,
    missing_text,
    opinion,
    preview,
    prompt_text,
    reference_text,
    rejudged_change,
    rejudged_text,
    score_text,
    shortened,
)
from tui_evals.present.figures import local_time
from tui_evals.store.records import ScoreRecord
from tui_evals.store.rows import EarlierAttempt, Label, Rejudged


def test_the_facts_stand_in_one_order():
    record = said(model="m-1", finish_reason="length")
    found = answer_words(an_answer(attempts=2), record, calls=3)
    assert found.text == (
        "1.5 s · 10 tokens in, 5 out · $0.250 · cut off at the limit of tokens · 2 attempts · "
        "answered by m-1 · 3 calls in all"
    )


@pytest.mark.parametrize(
    ("row", "record", "text"),
    [
        ({"status": "pending", "latency_ms": None, "input_tokens": None, "output_tokens": None}, None, ""),
        (
            {"status": "error", "code": "turnSkipped", "cost": None, "latency_ms": None}
            | {"input_tokens": None, "output_tokens": None},
            said(None, code="turnSkipped"),
            "",
        ),
        ({"cost": None}, said(), "1.5 s · 10 tokens in, 5 out · unpriced"),
        ({"from_cache": True}, said(from_cache=True), "from the cache · 10 tokens in, 5 out"),
        ({"scripted": True, "cost": 0.0}, said(), "scripted, not a model · 1.5 s · 10 tokens in, 5 out"),
    ],
    ids=["not asked", "never called", "unpriced", "cached", "scripted"],
)
def test_what_did_not_happen_is_no_fact(row, record, text):
    assert answer_words(an_answer(**row), record).text == text


def test_everything_that_would_be_right_is_expected_each_once():
    unit = {"expected_response": "Paris", "ideal": ["Paris", "Lutetia"]}
    assert expected_text(unit) == "Paris\nLutetia"
    assert expected_text({"ideal": "one"}) == "one"
    assert expected_text({}) == ""


def test_an_answer_is_held_against_the_expected_text_that_it_says_else_against_all():
    unit = {"ideal": ["Paris", "Lutetia"]}
    assert reference_text(unit, " Lutetia\n") == "Lutetia"
    assert reference_text(unit, "Rome") == "Paris\nLutetia"
    assert reference_text({}, "Rome") is None


def test_a_complaint_says_who_with_which_number_and_why():
    scores = [
        judged("Short", 0.0, threshold=0.5, reason="too long"),
        judged("Fine", 1.0),
        ScoreRecord(key="Judge", evaluator="Judge", score=None, result="error", reason=""),
    ]
    assert list(complaints(said(), scores)) == [
        "Short 0 (at least 0.5): too long",
        "Judge could not judge: no reason was given",
    ]
    assert list(complaints(said(None, code="timeout"), [])) == ["timeout: no more is known"]
    assert score_text(judged("Match", 0.25)) == "Match 0.25"


def test_what_is_missing_is_said_and_what_is_there_is_not():
    assert missing_text(an_answer(status="pending"), None) == "Not asked yet."
    assert "has not answered yet" in missing_text(an_answer(status="running"), None)
    assert missing_text(an_answer(), said(" ")) == "The answer is empty."
    assert (missing_text(an_answer(), said("yes")), error_text(said("yes")), error_text(None)) == ("", "", "")


def test_an_answer_is_named_by_item_turn_and_repeat_where_there_are_several():
    assert answer_name(an_answer(turn=1, repeat=2), True, True) == "a turn 2 repeat 3"
    assert answer_name(an_answer(), True, False, " · ") == "a · turn 1"
    assert answer_name(an_answer(), False, False) == "a"


def test_what_was_asked_is_the_prompt_else_the_last_thing_the_user_said():
    assert prompt_text({"prompt": "ask"}, said()) == "ask"
    assert prompt_text({}, said()) == "?"
    assert prompt_text({}, None) == ""


def test_long_texts_say_how_much_is_left_out():
    assert shortened("abc", 3) == "abc"
    assert shortened("abcd", 3) == "abc\n… 1 more character"
    assert preview("a\nb") == "a b" and len(preview("word " * 100)) <= 161


EDITED = {"item": {}}


@pytest.mark.parametrize("expected", [None, EDITED])
def test_an_answer_that_was_judged_again_says_when_by_what_and_what_it_was(expected):
    scores = (judged("Match", 0.0), ScoreRecord(key="Length", evaluator="Length", score=12.0, result=None))
    attempt = EarlierAttempt(60.0, None, scores, Rejudged(1, "fail", 50.0, expected))
    by = "" if expected is None else " by an edited expectation"
    assert rejudged_text(attempt) == f"judged again {local_time(60.0)}{by}"
    assert earlier_text(attempt) == f"before {local_time(60.0)}: ✗ fail 50 · Match 0 fail · Length 12"
    unscored = EarlierAttempt(60.0, None, (), Rejudged(1, "error", None, expected))
    assert earlier_text(unscored) == f"before {local_time(60.0)}: ! error"
    before, now = an_answer(status="fail", score=None), an_answer(status="pass", score=87.5)
    assert rejudged_change(before, now, expected is not None) == f"a: ✗ fail → ✓ pass 87.5, judged again{by}"


def test_an_answer_that_was_asked_again_says_which_error_it_was():
    when = f"before {local_time(60.0)}: "
    failed = EarlierAttempt(60.0, said(None, code="timeout", message="no answer\nin 60 s"))
    assert earlier_text(failed) == f"{when}timeout: no answer⏎in 60 s"
    unjudged = tuple(judged(key, None, result="error", reason="no\nreply") for key in ("Judge", "Other"))
    said_so = f"{when}Judge could not judge: no⏎reply; Other could not judge: no⏎reply"
    assert earlier_text(EarlierAttempt(60.0, None, unjudged)) == said_so


def test_an_opinion_says_of_what_it_is():
    about = {"run": 1, "answer": 1, "author": "ann", "time": 0.0, "note": ""}
    assert opinion(Label(evaluator=None, verdict="fail", **about)) == "says fail"
    assert opinion(Label(evaluator="Exact", verdict="pass", **about)) == "says pass for Exact"
