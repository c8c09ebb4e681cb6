"""What is written as columns is read as the same record."""

import json

from hypothesis import given
from hypothesis import strategies as st

from tui_evals.figures import Figure, Interval
from tui_evals.store import rows
from tui_evals.store.records import CheckedGate, ScoreRecord
from tui_evals.store.rows import Rejudged, gates_text, label_row, rejudged_of, score_record, score_values

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=5).filter(lambda text: "\0" not in text)
NUMBERS = st.floats(-100, 100)
SCORES = st.builds(
    ScoreRecord,
    key=TEXTS,
    evaluator=TEXTS,
    score=st.none() | NUMBERS,
    result=st.sampled_from(["pass", "fail", "error", "skipped", None]),
    threshold=st.none() | NUMBERS,
    label=st.none() | TEXTS,
    reason=TEXTS,
    details=st.dictionaries(TEXTS, st.none() | st.booleans() | NUMBERS | TEXTS, max_size=3),
    weight=st.floats(0, 1),
    measure=TEXTS,
    origin=st.integers(0, 9),
)
FIGURES = st.builds(
    Figure,
    NUMBERS,
    st.integers(0, 9),
    st.integers(0, 9),
    st.none() | st.builds(Interval, NUMBERS, NUMBERS),
    st.just("by item"),
    TEXTS,
    TEXTS,
    st.integers(0, 9),
)
GATES = st.builds(
    CheckedGate, TEXTS, st.sampled_from(["met", "not met", "not decided"]), TEXTS, st.none() | FIGURES, TEXTS, TEXTS
)


@given(SCORES)
def test_a_score_is_read_as_it_was_written_and_an_older_one_has_no_origin(record):
    values = score_values(record)
    assert score_record(values) == record
    assert score_record(values[:-1]).origin == 0


@given(st.lists(GATES, max_size=3))
def test_gates_are_read_as_they_were_written(gates):
    assert [rows._gate(kept) for kept in json.loads(gates_text(gates) or "[]")] == gates


@given(st.integers(1, 9), st.none() | NUMBERS, st.none() | st.dictionaries(TEXTS, TEXTS, max_size=2))
def test_how_an_answer_was_judged_again_is_read_as_it_was_written(number, score, expected):
    kept = {"pass": number, "status": "fail", "score": score, "expected": expected}
    assert rejudged_of(json.dumps(kept)) == Rejudged(number, "fail", score, expected)
    assert rejudged_of(None) is None


def test_a_label_was_given_blind_or_not():
    values = (1, 2, "Match", "pass", "ann", 5.0, "note")
    assert [label_row((*values, blind)).blind for blind in (0, 1)] == [False, True]
