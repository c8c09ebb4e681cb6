"""Expression: what it may use, whose fault it is when it cannot be computed, and that nothing in it costs much."""

import time

import pytest
from pydantic import ValidationError

from tests.evaluators.helpers import score
from tests.evaluators.tables import each_row
from tui_evals.evaluators.base import ToolCall
from tui_evals.evaluators.conditions import Expression

EVIDENCE = {
    "prompt": "How much?",
    "response": '{"total": 12.5, "lines": ["a", "b"], "who": {"name": "Ada"}}',
    "expected": "12.5",
    "alternatives": ("12.50",),
    "context": "prices",
    "variables": {"limit": 20, "tags": ["x"]},
    "tool_calls": (ToolCall("search", {"query": "price"}),),
    "latency_ms": 350.0,
    "cost": 0.002,
    "tokens": 40,
}


@each_row(
    ("expression", "result"),
    [
        ("json.total == expected | float", "pass"),
        ("(json.total - 12) | abs < 0.6 and json.lines | length == 2", "pass"),
        ("json.who.name == 'Ada' and 'b' in json.lines", "pass"),
        ("json.total < variables.limit and 'x' in variables.tags", "pass"),
        ("tool_calls[0].name == 'search' and tool_calls[0].arguments.query == 'price'", "pass"),
        ("latency_ms < 300 or cost > 1", "fail"),
        ("not (tokens > 50)", "pass"),
        ("'total' in response and (response | lower) != response", "pass"),
        ("json.missing is defined", "fail"),
        ("'12.50' in references and context == 'prices' and prompt == 'How much?'", "pass"),
    ],
)
def test_an_expression_sees_what_is_known_of_the_answer(expression, result):
    assert score(Expression, {"expression": expression}, **EVIDENCE).result == result


@each_row(
    ("expression", "said"),
    [
        ("", "at least 1 character"),
        ("response ==", "the expression is not valid"),
        ("respons == 'x'", "did you mean 'response'"),
        ("response) }}{{ (json", "single expression"),
        ("response %}{% if json", "the expression"),
        ("response.upper() == 'A'", "calls, macros"),
        ("response | system", "filter 'system'"),
        ("().__class__.__bases__", None),
        ("1 + 2", None),
    ],
)
def test_what_cannot_be_an_expression_is_refused_in_a_sentence(expression, said):
    if said is None:
        record = score(Expression, {"expression": expression}, **EVIDENCE)
        assert record.result == "error" and record.details["code"] == "evaluatorConfigurationError"
        return
    with pytest.raises(ValidationError, match=said):
        Expression.Options.model_validate({"expression": expression})


def test_what_the_answer_lacks_is_its_fault_and_negate_does_not_turn_that():
    for response in ("no json", "{}"):
        record = score(Expression, {"expression": "json.total > 1", "negate": True}, response=response)
        assert record.result == "fail" and record.reason


def test_what_was_not_measured_is_skipped_and_what_the_item_lacks_is_an_error():
    assert score(Expression, {"expression": "cost < 1"}, response="x").result == "skipped"
    assert score(Expression, {"expression": "expected == response"}, response="x").result == "error"
    assert score(Expression, {"expression": "variables.no == 1"}, response="x").result == "error"


@each_row(
    "expression",
    [
        "'a' * 999999999 == response",
        "9 ** 64 ** 64 ** 64 > 1",
        "response | replace('a', response) == ''",
        "('a' ~ response) == ''",
    ],
)
def test_no_expression_takes_long_or_grows(expression):
    began = time.process_time()
    record = score(Expression, {"expression": expression}, response="a" * 200_000)
    assert record.result in ("error", "fail") and time.process_time() - began < 2
