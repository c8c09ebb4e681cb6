from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.evaluators.helpers import golden, score
from tests.evaluators.tables import each_row
from tui_evals.evaluators.style import WordCountMatch, word_count_match


@each_row("row", golden("arthur_bench.json", "word_count_match"))
def test_the_match_is_that_of_the_original(row: dict[str, Any]) -> None:
    candidate, reference, expected = row["args"]["candidate"], row["args"]["reference"], row["expected"]
    record = score(WordCountMatch, response=candidate, expected=reference)
    if expected == {"error": "ZeroDivisionError"}:
        assert record.score == 1.0
    elif "error" in expected:
        assert record.details["code"] == "evaluatorConfigurationError"
    else:
        assert (record.score, record.result) == (expected["score"], None)


@given(st.integers(0, 50), st.integers(0, 50))
def test_the_match_is_a_share_and_whole_only_for_equal_counts(answer: int, reference: int) -> None:
    match = word_count_match(answer, reference)
    assert 0 <= match <= 1
    assert (match == 1) == (answer == reference)
    assert (match == 0) == (answer != reference and (answer == 0 or answer >= 2 * reference))


@each_row(
    ("options", "result"),
    [
        ({}, None),
        ({"threshold": 0.75}, "pass"),
        ({"threshold": 0.76}, "fail"),
        ({"threshold": 0.76, "negate": True}, "pass"),
    ],
)
def test_a_result_needs_a_threshold(options: dict[str, Any], result: str | None) -> None:
    record = score(WordCountMatch, options, response="one two three", expected="one two three four")
    assert (record.score, record.result) == (0.75, result)
    assert record.reason.removeprefix("negated: ") == "the answer has 3 words, the reference 4"


def test_the_closest_of_several_references_counts() -> None:
    record = score(WordCountMatch, response="a b c", expected="a b c d e f", alternatives=("a", "x y z w"))
    assert (record.score, record.details) == (0.75, {"words": 3, "reference_words": 4})


def test_a_value_of_a_json_answer() -> None:
    answer = '{"text": "one two", "more": ["three", "four"]}'
    assert score(WordCountMatch, {"json_path": "$.more[*]"}, response=answer, expected="x y").score == 1.0
    assert score(WordCountMatch, {"jsonPath": "$.none"}, response=answer, expected="x y").result == "fail"


def test_absent_evidence() -> None:
    assert score(WordCountMatch, response="x").details["code"] == "evaluatorConfigurationError"
    assert score(WordCountMatch, expected="x").details["code"] == "agentRequestFailed"
    assert score(WordCountMatch, response="", expected="").score == 1.0
    assert score(WordCountMatch, response="\ud800", expected="x").score == 0.0


def test_ten_megabytes() -> None:
    assert score(WordCountMatch, response="a-b " * 2_500_000, expected="x " * 2_000_000).score == 0.75
