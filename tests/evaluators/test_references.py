import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from tests.evaluators.helpers import golden, score
from tests.evaluators.tables import each_row
from tui_evals.datasets import rows
from tui_evals.datasets.paths import LineError
from tui_evals.evaluators.base import Evaluator
from tui_evals.evaluators.references import Includes, Match, MultipleChoice, starting_option

ANY_TEXT = st.text(alphabet=st.characters(exclude_categories=()))


def judged(row: dict[str, Any], evaluator: type[Evaluator], options: dict[str, Any]) -> tuple[str, object]:
    """The outcome of a golden row in its own words: what the reader of samples refuses never reaches an evaluator."""
    args = row["args"]
    sample = args["sample"] if "sample" in args else {"input": "?", "ideal": args["ideal"]}
    try:
        (item,), _ = rows.read_jsonl(json.dumps(sample))
    except LineError:
        return "error", None
    evidence = {"expected": item.get("expected_response"), "alternatives": tuple(item.get("ideal", ()))}
    record = score(evaluator, options, response=args["completion"], **evidence)
    return str(record.result), record.details.get("picked")


@each_row("row", golden("openai_evals.json", "Match.eval_sample"))
def test_golden_match(row: dict[str, Any]) -> None:
    result, picked = judged(row, Match, {})
    if row["args"].get("ideal") == [] or "error" in row["expected"]:
        assert result == "error"  # an item without any reference cannot be judged, which is not a fail
        return
    assert result == ("pass" if row["expected"]["correct"] else "fail")
    assert picked == row["expected"]["picked"]


@each_row("row", golden("openai_evals.json", "Includes.eval_sample"))
def test_golden_includes(row: dict[str, Any]) -> None:
    result, _ = judged(row, Includes, {"ignore_case": row["args"]["ignore_case"]})
    assert result == ("error" if "error" in row["expected"] else "pass" if row["expected"]["correct"] else "fail")


@each_row("row", golden("openai_evals.json", "record_and_check_match"))
def test_golden_record_and_check_match(row: dict[str, Any]) -> None:
    args = row["args"]
    expected = [args["expected"]] if isinstance(args["expected"], str) else args["expected"]
    separator = {"str.isspace": str.isspace, None: None}[args["separator"]]
    picked = starting_option(args["sampled"], args["options"] or expected, separator)
    assert {"correct": picked in expected, "picked": picked} == row["expected"]


@each_row(
    ("answer", "picked"), [("A", "A"), ("A b", "A"), ("A\nb", "A"), ("Ab", None), ("", None), ("C", None), ("B", "B")]
)
def test_pick_with_a_separator(answer: str, picked: str | None) -> None:
    assert starting_option(answer, ["A", "B"], str.isspace) == picked


@each_row(
    ("evaluator", "options", "response", "result"),
    [
        (Match, {}, "Paris is it", "pass"),
        (Match, {}, " Paris", "fail"),
        (Match, {}, "It is Paris", "fail"),
        (Match, {}, "paris", "fail"),
        (Match, {"ignore_case": True}, "PARIS!", "pass"),
        (Match, {"json_path": "$.city"}, '{"city": "Paris"}', "pass"),
        (Match, {"negate": True}, "Rome", "pass"),
        (Includes, {}, "It is Paris.", "pass"),
        (Includes, {}, "It is paris.", "fail"),
        (Includes, {"ignoreCase": True}, "It is PARIS.", "pass"),
        (Includes, {}, "", "fail"),
        (Includes, {"json_path": "$[*]"}, '["Rome", "in Paris"]', "pass"),
        (Includes, {"json_path": "$[9]", "negate": True}, '["Rome"]', "fail"),
    ],
)
def test_match_and_includes(evaluator: type[Evaluator], options: dict[str, Any], response: str, result: str) -> None:
    assert score(evaluator, options, response=response, expected="Paris").result == result


CHOICES = ["Rome", "Paris", "Oslo"]


@each_row(
    ("response", "expected", "picked", "result"),
    [
        ("B", "B", "B", "pass"),
        ("B", "Paris", "B", "pass"),
        ("B) Paris", "Paris", "B", "pass"),
        ("B.", "B", "B", "pass"),
        ("B\nbecause", "B", "B", "pass"),
        ("B是", "B", "B", "pass"),
        ("A", "B", "A", "fail"),
        ("Because", "B", None, "fail"),
        ("B2", "B", None, "fail"),
        ("b", "B", None, "fail"),
        (" B", "B", None, "fail"),
        ("(B)", "B", None, "fail"),
        ("D", "B", None, "fail"),
        ("Paris", "Paris", None, "fail"),
        ("", "B", None, "fail"),
    ],
)
def test_multiple_choice(response: str, expected: str, picked: str | None, result: str) -> None:
    for options, variables in (({"choices": CHOICES}, {}), ({}, {"choices": CHOICES})):
        record = score(MultipleChoice, options, response=response, expected=expected, variables=variables)
        assert (record.result, record.details["picked"], record.details["right"]) == (result, picked, ["B"])


def test_multiple_choice_without_choices_knows_every_letter() -> None:
    assert score(MultipleChoice, response="Z", expected="Z").result == "pass"
    assert score(MultipleChoice, response="Z", expected="Y").details["picked"] == "Z"


def test_multiple_choice_options() -> None:
    lower = {"choices": CHOICES, "ignore_case": True}
    assert score(MultipleChoice, lower, response="b)", expected="b").result == "pass"
    path = {"choices": CHOICES, "json_path": "$.choice"}
    assert score(MultipleChoice, path, response='{"choice": "B"}', expected="Paris").result == "pass"
    assert score(MultipleChoice, {"negate": True}, response="A", expected="B").result == "pass"
    several = score(MultipleChoice, {"choices": CHOICES}, response="C", alternatives=("Paris", "Oslo"))
    assert (several.result, several.details["right"]) == ("pass", ["B", "C"])
    with pytest.raises(ValidationError):
        score(MultipleChoice, {"choices": ["x"] * 27}, response="A", expected="A")


def test_the_text_of_a_choice_wins_over_its_letter() -> None:
    assert score(MultipleChoice, {"choices": ["B", "A"]}, response="A", expected="B").result == "pass"


def test_numbers_may_be_choices() -> None:
    assert score(MultipleChoice, response="B", expected="42", variables={"choices": [41, 42]}).result == "pass"


@each_row(
    ("expected", "variables"),
    [("Berlin", {"choices": CHOICES}), ("D", {"choices": CHOICES}), ("Berlin", {}), ("A", {"choices": "Rome, Paris"})],
)
def test_a_right_choice_that_is_not_there_is_an_error(expected: str, variables: dict[str, object]) -> None:
    record = score(MultipleChoice, {"negate": True}, response="A", expected=expected, variables=variables)
    assert (record.result, record.details["code"]) == ("error", "evaluatorConfigurationError")


@each_row("evaluator", [Match, Includes, MultipleChoice])
def test_absent_evidence_is_an_error(evaluator: type[Evaluator]) -> None:
    assert score(evaluator, response="x").details["code"] == "evaluatorConfigurationError"
    assert score(evaluator, expected="x").details["code"] == "agentRequestFailed"


@given(ANY_TEXT, ANY_TEXT)
def test_any_unicode_gets_a_verdict(response: str, expected: str) -> None:
    for evaluator in (Match, Includes):
        for ignore in (False, True):
            record = score(evaluator, {"ignore_case": ignore}, response=response, expected=expected)
            assert record.result in ("pass", "fail")
    record = score(MultipleChoice, {"choices": [expected]}, response=response, expected=expected)
    assert record.result in ("pass", "fail")
