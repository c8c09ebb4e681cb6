import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.evaluators.helpers import golden, score
from tests.evaluators.tables import each_row
from tui_evals.evaluators.style import Readability, flesch_reading_ease, measure_reading, word_count

MB = 1_000_000


def text_of(row: dict[str, Any]) -> str:
    return str(row["args"].get("candidate", row["args"].get("text")))


@each_row("row", golden("arthur_bench.json", "readability"))
def test_the_ease_is_that_of_the_original(row: dict[str, Any]) -> None:
    assert flesch_reading_ease(row["args"]["candidate"]) == row["expected"]["score"]
    assert score(Readability, response=row["args"]["candidate"]).score == row["expected"]["score"]


@each_row("row", golden("arthur_bench.json", "readability.components"))
def test_the_counts_are_those_of_the_original(row: dict[str, Any]) -> None:
    reading = measure_reading(row["args"]["candidate"])
    assert row["expected"] == {
        "lexicon_count": reading.words,
        "sentence_count": reading.sentences,
        "syllable_count": reading.syllables,
        "avg_sentence_length": reading.words_per_sentence,
        "avg_syllables_per_word": reading.syllables_per_word,
    }


@each_row("row", golden("arthur_bench.json", "lexicon_count"))
def test_words_are_counted_as_the_original_does(row: dict[str, Any]) -> None:
    assert word_count(row["args"]["text"]) == row["expected"]


@each_row(
    ("text", "words", "sentences"),
    [
        ("don't re-enter", 2, 1),
        ("a . b", 2, 1),
        ("a.b.c", 1, 1),
        ("One two three. Four five. Six seven eight", 8, 2),
        ("One two three?! And so on... Done.", 7, 2),
        ("one\ntwo\x1cthree\u2028four", 4, 1),
        ("— – …", 0, 1),
        ("½ _ ²", 3, 1),
        ("\ud800 x", 1, 1),
    ],
)
def test_words_and_sentences(text: str, words: int, sentences: int) -> None:
    assert (measure_reading(text).words, measure_reading(text).sentences) == (words, sentences)


@given(st.text())
def test_the_word_count_is_what_is_left_between_white_space(text: str) -> None:
    bare = "".join(char for char in text if char.isalnum() or char == "_" or char.isspace())
    assert word_count(text) == measure_reading(text).words == len(bare.split())
    assert measure_reading(text).syllables >= measure_reading(text).words


@each_row(("threshold", "result"), [(None, None), (100, "pass"), (116.15, "pass"), (116.16, "fail"), (-50, "pass")])
def test_a_result_needs_a_threshold(threshold: float | None, result: str | None) -> None:
    record = score(Readability, {"threshold": threshold}, response="The cat sat on the mat.")
    assert (record.score, record.result, record.threshold) == (116.15, result, threshold)
    assert record.details == {"words": 6, "sentences": 1, "syllables": 6}


def test_the_threshold_can_be_negated_and_the_number_stays() -> None:
    record = score(Readability, {"threshold": 100, "negate": True}, response="The cat sat on the mat.")
    assert (record.score, record.result) == (116.15, "fail")


@each_row("option", ["json_path", "jsonPath"])
def test_a_value_of_a_json_answer(option: str) -> None:
    answer = json.dumps({"id": "antidisestablishmentarianism", "body": ["The cat sat on the mat."]})
    assert score(Readability, {option: "$.body[0]"}, response=answer).score == 116.15
    assert score(Readability, {option: "$.title"}, response=answer).result == "fail"


def test_without_an_answer() -> None:
    assert score(Readability, response=None).details["code"] == "agentRequestFailed"
    assert score(Readability, response="").score == 206.84


@pytest.mark.story
def test_the_same_words_many_times_are_read_in_full() -> None:
    reading = measure_reading("The cat sat on the mat. " * (10 * MB // 24))
    assert (reading.words, reading.ease) == (10 * MB // 24 * 6, 116.15)


@pytest.mark.nightly
@each_row(
    "text",
    [
        lambda: "a" * 10 * MB,
        lambda: "a." * 5 * MB,
        lambda: " ".join(f"word{number}" for number in range(MB)),
        lambda: "".join(map(chr, range(0xAC00, 0xD7A3))) * 20,
    ],
)
def test_a_text_of_too_long_or_too_many_words_cannot_be_judged(text: Callable[[], str]) -> None:
    record = score(Readability, response=text())
    assert (record.result, record.details["code"]) == ("error", "responseTooLarge")
    assert "too many to look each of them up" in record.reason


@pytest.mark.story
@each_row("text", ["." * 10 * MB, " " * 10 * MB, "-\n" * 5 * MB])
def test_ten_megabytes_without_a_word(text: str) -> None:
    assert flesch_reading_ease(text) == 206.84
