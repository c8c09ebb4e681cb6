from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from tests.evaluators.helpers import score
from tests.evaluators.tables import each_row
from tui_evals.evaluators.base import Evaluator
from tui_evals.evaluators.references import Citations, ExactMatch, PartialMatch

OAUTH = "You can authenticate using OAuth 2.0 or client credentials flow."
ANY_TEXT = st.text(alphabet=st.characters(exclude_categories=()))


def test_golden_08_exact_and_partial_match_of_the_same_text() -> None:
    exact = score(ExactMatch, response=OAUTH, expected=OAUTH)
    assert (exact.result, exact.reason, exact.details) == ("pass", "Exact match found", {"match": True})
    partial = score(PartialMatch, {"threshold": 0.5}, response=OAUTH, expected=OAUTH)
    assert (partial.score, partial.result, partial.threshold) == (1.0, "pass", 0.5)
    assert partial.reason == "Match score: 1.000"


def test_golden_11_citations_below_and_at_the_threshold() -> None:
    response = "The policy allows 25 days of leave [1]."
    two = score(Citations, {"threshold": 2, "citation_format": "mixed"}, response=response)
    assert (two.score, two.result, two.details["count"], two.threshold) == (1.0, "fail", 1, 2)
    assert score(Citations, {"citation_format": "mixed"}, response=response).result == "pass"


@each_row(
    ("options", "response", "expected", "result"),
    [
        ({}, "It is Kimberly King.", "Kimberly King", "pass"),
        ({}, "it is kimberly king", " Kimberly King\n", "pass"),
        ({}, "STRASSE", "Straße", "pass"),
        ({}, "King", "Kimberly King", "fail"),
        ({"mode": "contains", "case_sensitive": True}, "it is kimberly king", "Kimberly King", "fail"),
        ({"caseSensitive": True}, "it is Kimberly King", "Kimberly King", "pass"),
        ({"mode": "equals"}, "It is Kimberly King.", "Kimberly King", "fail"),
        ({"mode": "equals"}, "  kimberly king\n", "Kimberly King", "pass"),
        ({"mode": "equals", "case_sensitive": True}, "kimberly king", "Kimberly King", "fail"),
        ({"json_path": "$.name"}, '{"name": "Kimberly King"}', "Kimberly King", "pass"),
        ({"json_path": "$.nobody", "negate": True}, '{"name": "Kimberly King"}', "Kimberly King", "fail"),
        ({"negate": True}, "Kimberly King", "Kimberly King", "fail"),
        ({}, "", "Kimberly King", "fail"),
    ],
)
def test_exact_match(options: dict[str, Any], response: str, expected: str, result: str) -> None:
    record = score(ExactMatch, options, response=response, expected=expected)
    assert (record.result, record.score) == (result, float(result == "pass"))


def test_any_reference_will_do() -> None:
    references = {"expected": "Rome", "alternatives": ("Paris", "Oslo")}
    assert score(ExactMatch, {"mode": "equals"}, response="Oslo", **references).result == "pass"
    assert score(PartialMatch, response="Oslo", **references).score == 1.0


@each_row(
    ("options", "response", "expected", "f1", "result"),
    [
        ({}, "the cat sat", "the cat", 0.8, "pass"),
        ({}, "a b c d", "a x y z", 0.25, "fail"),
        ({"threshold": 0.25}, "a b c d", "a x y z", 0.25, "pass"),
        ({"threshold": 1}, "a b", "a b", 1.0, "pass"),
        ({}, "yes yes yes", "yes", 0.5, "pass"),
        ({}, "The CAT", "the cat", 1.0, "pass"),
        ({"case_sensitive": True}, "The CAT", "the cat", 0.0, "fail"),
        ({}, "well-known, indeed!", "well known indeed", 1.0, "pass"),
        ({}, "snake_case", "snake case", 0.0, "fail"),
        ({}, "", "cat", 0.0, "fail"),
        ({}, "", "", 1.0, "pass"),
        ({}, "?!", "", 1.0, "pass"),
        ({"json_path": "$[*]"}, '["dog", "the cat"]', "the cat", 1.0, "pass"),
        ({"negate": True}, "dog", "cat", 0.0, "pass"),
    ],
)
def test_partial_match(options: dict[str, Any], response: str, expected: str, f1: float, result: str) -> None:
    record = score(PartialMatch, options, response=response, expected=expected)
    assert record.score == pytest.approx(f1)
    assert record.result == result


UNICODE = "Yes \ue200cite\ue202turn0search1\ue201 and \ue200cite\ue202turn0search2\ue201."


@each_row(
    ("form", "response", "labels"),
    [
        ("oai_unicode", UNICODE, ["cite\ue202turn0search1", "cite\ue202turn0search2"]),
        ("oai_unicode", "\ue200navlist\ue201 \ue200cite open [1]", []),
        (None, UNICODE + " [1]", ["cite\ue202turn0search1", "cite\ue202turn0search2"]),
        ("bracket", "a [2], b [1], again [2]", ["2", "1"]),
        ("bracket", "![1] [1](url) [0] [1234] [x] [] [ 1]", []),
        ("bracket", "see [[3]](https://e.org)", ["3"]),
        ("markdown", "a [1](https://e.org/#s1) b [1](https://e.org/#s2) c [2](x) [3]", ["1", "2"]),
        ("markdown", "[one](https://e.org) ![1](img.png) [1](two words) [4](", []),
        ("mixed", "[2] [1](u#a) " + UNICODE, ["2", "1", "cite\ue202turn0search1", "cite\ue202turn0search2"]),
        ("inline", "[2] [1](u#a)", ["2", "1"]),
        ("mixed", "[1] [1](u#a)", ["1", "1"]),
        ("bracket", "", []),
    ],
)
def test_citations(form: str | None, response: str, labels: list[str]) -> None:
    record = score(Citations, {"citation_format": form} if form else {}, response=response)
    citations = record.details["citations"]
    assert isinstance(citations, list)
    assert [citation["text"] for citation in citations] == labels
    assert (record.score, record.details["count"]) == (len(labels), len(labels))
    assert record.details["format"] == (form or "oai_unicode")
    assert record.result == ("pass" if labels else "fail")


def test_a_citation_says_its_number_and_source() -> None:
    record = score(Citations, {"citation_format": "markdown"}, response="[7](https://e.org/a#part)")
    assert record.details["citations"] == [{"index": 7, "text": "7", "source": "https://e.org/a#part"}]
    first = score(Citations, response=UNICODE).details["citations"]
    assert isinstance(first, list)
    assert [citation["index"] for citation in first] == [1, 2]


def test_citations_inside_a_json_answer() -> None:
    options = {"citation_format": "bracket", "json_path": "$.answer"}
    assert score(Citations, options, response='{"answer": "so [1]", "list": [2]}').details["count"] == 1


def test_the_list_of_citations_is_bounded_and_the_count_is_not() -> None:
    record = score(Citations, {"citation_format": "bracket"}, response="".join(f"[{n}]" for n in range(1, 1000)))
    citations = record.details["citations"]
    assert isinstance(citations, list)
    assert (record.score, len(citations)) == (999, 100)


@each_row(
    ("evaluator", "options"),
    [
        (Citations, {"threshold": 0}),
        (Citations, {"threshold": 1.5}),
        (Citations, {"citation_format": 3}),
        (ExactMatch, {"threshold": 1}),
        (ExactMatch, {"mode": "starts"}),
        (ExactMatch, {"case_sensitive": "no"}),
        (PartialMatch, {"threshold": 1.1}),
        (PartialMatch, {"threshold": -0.1}),
    ],
)
def test_options_out_of_range_are_refused(evaluator: type[Evaluator], options: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        score(evaluator, options, response="x", expected="x")


@each_row("evaluator", [ExactMatch, PartialMatch, Citations])
def test_absent_evidence_is_an_error(evaluator: type[Evaluator]) -> None:
    assert score(evaluator, expected="x").details["code"] == "agentRequestFailed"
    if evaluator is not Citations:
        assert score(evaluator, response="x").details["code"] == "evaluatorConfigurationError"


def test_evil_markers_end() -> None:
    for response in ("[1](" * 300_000, "[1" * 500_000, "\ue200cite" * 200_000, "[1](" + "a" * 1_000_000):
        assert score(Citations, {"citation_format": "mixed"}, response=response).score == 0


@given(ANY_TEXT, ANY_TEXT)
def test_any_unicode_gets_a_verdict(response: str, expected: str) -> None:
    for evaluator in (ExactMatch, PartialMatch, Citations):
        assert score(evaluator, response=response, expected=expected).result in ("pass", "fail")


@given(st.text())
def test_every_text_matches_itself(text: str) -> None:
    assert score(ExactMatch, {"mode": "equals"}, response=text, expected=text).result == "pass"
    assert score(PartialMatch, response=text, expected=text).score == 1.0
