from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.evaluators.helpers import golden, score
from tests.evaluators.tables import each_row
from tui_evals.evaluators.references import FuzzyMatch, normalize, overlap_f1, token_f1

ANY_TEXT = st.text(alphabet=st.characters(exclude_categories=()))


def references(ideal: str | list[str]) -> dict[str, Any]:
    return {"expected": ideal} if isinstance(ideal, str) else {"alternatives": tuple(ideal)}


@each_row("row", golden("openai_evals.json", "normalize"))
def test_golden_normalize(row: dict[str, Any]) -> None:
    assert normalize(row["args"]["s"]) == row["expected"]


@each_row("row", golden("openai_evals.json", "FuzzyMatch.eval_sample"))
def test_golden_fuzzy_match(row: dict[str, Any]) -> None:
    args, expected = row["args"], row["expected"]
    record = score(FuzzyMatch, response=args["completion"], **references(args["ideal"]))
    assert record.result == ("pass" if expected["correct"] else "fail")
    assert record.score == expected["accuracy"]
    assert record.details["f1"] == pytest.approx(expected["f1_score"])


def test_the_f1_of_every_golden_reference_is_the_public_token_f1() -> None:
    assert token_f1("one two three four", "two four") == pytest.approx(2 / 3)
    assert token_f1("", "") == 0.0


@each_row(
    ("text", "normal"),
    [
        ("The cat, an apple; a day!", "cat apple day"),
        ("theatre another", "theatre another"),
        ("well-known", "wellknown"),
        ("it’s — fine", "it’s — fine"),
        ("a’b", "’b"),
        ("\t x\u00a0y\n", "x y"),
        ("Crème BRÛLÉE", "crème brûlée"),
    ],
)
def test_normalize(text: str, normal: str) -> None:
    assert normalize(text) == normal


@each_row(
    ("response", "expected", "result"),
    [
        ("13", "3", "pass"),
        ("hello", "Othello", "pass"),
        ("Paris!", "the Paris", "pass"),
        ("", "x", "fail"),
        ("x", "!!!", "fail"),
        ("?", "", "pass"),
    ],
)
def test_fuzzy_match(response: str, expected: str, result: str) -> None:
    assert score(FuzzyMatch, response=response, expected=expected).result == result


def test_json_path_and_negate() -> None:
    answer = '{"city": ["Rome", "Paris!"]}'
    assert score(FuzzyMatch, {"json_path": "$.city[*]"}, response=answer, expected="paris").result == "pass"
    assert score(FuzzyMatch, {"negate": True}, response="Paris", expected="paris").result == "fail"
    assert score(FuzzyMatch, {"json_path": "$.town", "negate": True}, response=answer, expected="x").result == "fail"


def test_absent_evidence_is_an_error() -> None:
    assert score(FuzzyMatch, response="x").details["code"] == "evaluatorConfigurationError"
    assert score(FuzzyMatch, expected="x").details["code"] == "agentRequestFailed"


@given(ANY_TEXT)
def test_normalize_keeps_no_capital_articles_or_loose_space(text: str) -> None:
    normal = normalize(text)
    assert normal == " ".join(normal.split())
    assert not {"a", "an", "the"} & set(normal.split())


@given(st.lists(st.sampled_from("abc")), st.lists(st.sampled_from("abc")))
def test_f1_is_symmetric_and_one_only_for_the_same_tokens(one: list[str], other: list[str]) -> None:
    f1 = overlap_f1(one, other)
    assert f1 == overlap_f1(other, one)
    assert 0 <= f1 <= 1
    assert (f1 == 1) == (sorted(one) == sorted(other) != [])


@given(ANY_TEXT, ANY_TEXT)
def test_any_unicode_gets_a_verdict(response: str, expected: str) -> None:
    assert score(FuzzyMatch, response=response, expected=expected).result in ("pass", "fail")


@each_row("row", golden("openai_evals.json", "normalize__legacy_2023_03_13"))
def test_compat_normalises_the_first_line_only_as_the_first_release_did(row):
    assert normalize(row["args"]["s"], compat=True) == row["expected"]


@each_row("row", golden("openai_evals.json", "fuzzy_match__legacy_2023_03_13"))
def test_compat_compares_first_lines_only(row):
    options = {"compat": True}
    record = score(FuzzyMatch, options, response=row["args"]["s1"], expected=row["args"]["s2"])
    assert (record.result == "pass") is row["expected"]
    assert score(FuzzyMatch, options, response="other\nworld", expected="world").result == "fail"
    assert score(FuzzyMatch, {}, response="other\nworld", expected="world").result == "pass"
