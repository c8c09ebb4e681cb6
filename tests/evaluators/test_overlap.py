"""Levenshtein, RougeN and Bleu: figures worked out by hand, and by the libraries that are known for them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from tests.evaluators.helpers import score
from tests.evaluators.tables import each_row
from tui_evals.evaluators.text import Bleu, Gleu, Levenshtein, RougeN, Translate


@each_row(
    ("options", "response", "expected", "result", "edits"),
    [
        ({}, "kitten", "kitten", "pass", 0),
        ({}, "kitten", "sitting", "fail", 3),
        ({"threshold": 0.5}, "kitten", "sitting", "pass", 3),
        ({"most_edits": 3}, "kitten", "sitting", "pass", 3),
        ({"mostEdits": 2}, "kitten", "sitting", "fail", 3),
        ({"most_edits": 0, "ignore_case": True}, "KITTEN", "kitten", "pass", 0),
        ({"most_edits": 0, "json_path": "$.a"}, '{"a": "b"}', "b", "pass", 0),
        ({}, "", "", "pass", 0),
        ({}, "", "abc", "fail", 3),
    ],
)
def test_edits_are_counted_and_bounded(options, response, expected, result, edits):
    record = score(Levenshtein, options, response=response, expected=expected)
    assert (record.result, record.details["edits"]) == (result, edits)
    assert record.score == pytest.approx(1 - edits / max(len(response), len(expected), 1)) or options.get("json_path")


def test_the_nearest_reference_counts():
    record = score(Levenshtein, response="four", expected="unlike", alternatives=("fours", "for"))
    assert record.details["edits"] == 1 and "'fours'" in record.reason


def test_two_bounds_are_one_too_many():
    with pytest.raises(ValidationError, match="give one of them"):
        Levenshtein.Options.model_validate({"threshold": 0.5, "most_edits": 1})


def test_texts_too_long_to_compare_are_an_error():
    record = score(Levenshtein, response="a" * 200_000, expected="b" * 200_000)
    assert record.details["code"] == "responseTooLarge"


def test_rouge_counts_each_ngram_as_often_as_both_have_it():
    record = score(RougeN, {"n": 2}, response="the cat sat the cat sat", expected="The cat sat.")
    assert (record.details["precision"], record.details["recall"]) == (pytest.approx(2 / 5), 1.0)
    assert score(RougeN, {"n": 2, "part": "recall"}, response="the cat sat on", expected="The cat sat.").score == 1.0
    assert score(RougeN, response="", expected="").score == 0.0
    assert score(RougeN, {"threshold": None}, response="x", expected="y").result is None


@given(st.text("ab \n.,-A1", max_size=40), st.text("ab \n.,-A1", max_size=40), st.integers(1, 3))
def test_rouge_is_that_of_the_library(answer, reference, size):
    scorer = pytest.importorskip("rouge_score.rouge_scorer", reason="rouge-score is not installed")
    known = scorer.RougeScorer([f"rouge{size}"]).score(reference, answer)[f"rouge{size}"]
    record = score(RougeN, {"n": size}, response=answer, expected=reference or " ")
    figures = [record.details[name] for name in ("precision", "recall", "f1")]
    assert figures == pytest.approx([known.precision, known.recall, known.fmeasure])


def test_bleu_is_that_of_translate_on_another_scale():
    pytest.importorskip("sacrebleu", reason="sacrebleu is not installed")
    texts = {"response": "the cat sat on a mat", "expected": "The cat sat on the mat"}
    assert score(Bleu, None, **texts).score == pytest.approx((score(Translate, **texts).score or 0) / 100)
    assert score(Bleu, {"ignore_case": True}, **texts).score > score(Bleu, **texts).score


def test_without_its_library_bleu_says_what_to_install(monkeypatch):
    monkeypatch.setattr("tui_evals.evaluators.text.load_bleu", lambda: None)
    record = score(Bleu, response="a", expected="a")
    assert record.result == "error" and "pip install 'tui-evals[bleu]'" in record.reason


@each_row(
    ("response", "expected", "figure"),
    [
        ("the cat sat on the mat", "the cat sat on the mat", 1.0),
        ("The CAT  sat on the mat", "the cat sat on the mat", 1.0),
        ("a b c d", "a b c e", (3 / 4 * 2 / 3 * 1 / 2 * 1e-7) ** 0.25),
        ("a b c d e f", "a b c d", (4 / 6 * 3 / 5 * 2 / 4 * 1 / 3) ** 0.25),
        ("", "a", 0.0),
    ],
)
def test_bleu_of_promptfoo_needs_no_library(monkeypatch, response, expected, figure):
    monkeypatch.setattr("tui_evals.evaluators.text.load_bleu", lambda: None)
    assert score(Bleu, {"compat": True}, response=response, expected=expected).score == pytest.approx(figure)


@each_row(
    ("response", "expected", "figure"),
    [
        ("the cat sat.", "The cat sat", 1.0),
        ("a b", "a b c d", 3 / 10),
        ("a b c d", "a b", 3 / 10),
        ("x", "y", 0.0),
        ("", "y", 0.0),
    ],
)
def test_gleu_is_the_smaller_of_precision_and_recall(response, expected, figure):
    assert score(Gleu, response=response, expected=expected).score == pytest.approx(figure)


def test_the_nearest_of_several_values_counts():
    assert score(Gleu, {"values": ["x", "a b"]}, response="a b").score == 1.0
    assert score(Bleu, {"compat": True, "values": ["x", "a b c d"]}, response="a b c d").score == pytest.approx(1.0)
