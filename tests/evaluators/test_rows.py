"""Rows in, records out: what scripts speak."""

import asyncio
import json
from typing import Any

from tests.evaluators.tables import each_row
from tui_evals.evaluators.base import ToolCall
from tui_evals.evaluators.registry import load_registry
from tui_evals.evaluators.rows import RowScorer, evidence_of, record_of

SCORER = RowScorer(load_registry())


def scored(row: object) -> dict[str, Any]:
    return record_of(asyncio.run(SCORER.score(row)))


def test_a_row_becomes_a_record_of_six_fields():
    record = scored({"evaluator": "Equals", "options": {"ignore_case": True}, "response": "A", "expected": "a"})
    assert list(record) == ["score", "result", "label", "threshold", "reason", "details"]
    assert (record["score"], record["result"]) == (1.0, "pass")


def test_ideal_gives_every_reference_and_the_first_is_expected():
    evidence = evidence_of({"response": "x", "ideal": ["a", "b"]})
    assert (evidence.expected, evidence.references) == ("a", ("a", "b"))
    assert evidence_of({"ideal": "a"}).references == ("a",)
    assert evidence_of({"ideal": ["a"], "expected": "b"}).references == ("b", "a")


@each_row(
    "call",
    [
        {"name": "find", "arguments": {"q": "x"}},
        {"name": "find", "arguments": '{"q": "x"}'},
        {"id": "1", "type": "function", "function": {"name": "find", "arguments": '{"q": "x"}'}},
    ],
)
def test_tool_calls_are_read_in_either_shape(call):
    assert evidence_of({"tool_calls": [call]}).tool_calls == (ToolCall("find", {"q": "x"}),)


def test_arguments_that_do_not_parse_stay_text():
    assert evidence_of({"tool_calls": [{"name": "f", "arguments": "{oops"}]}).tool_calls == (ToolCall("f", "{oops"),)


@each_row(
    ("row", "said"),
    [
        (3, "not a JSON object"),
        ({}, "evaluator: the name"),
        ({"evaluator": "Equalz", "response": "a"}, "did you mean 'Equals'"),
        ({"evaluator": "Equals", "response": 3}, "response: must be text"),
        ({"evaluator": "Equals", "options": [], "response": "a", "expected": "a"}, None),
        ({"evaluator": "Equals", "options": "x", "response": "a"}, "options: must be an object"),
        ({"evaluator": "Equals", "options": {"valeu": 1}, "response": "a"}, "options.valeu"),
        ({"evaluator": "Latency", "response": "a", "latency_ms": "3"}, "latency_ms: must be a number"),
        ({"evaluator": "ToolCalled", "response": "a", "tool_calls": [{}]}, "each call needs a name"),
        ({"evaluator": "Equals", "response": "a", "ideal": [1]}, "ideal: must be text"),
        ({"evaluator": "Relevance", "response": "a", "prompt": "b"}, "needs a judge"),
    ],
)
def test_a_bad_row_is_an_error_record_that_says_why(row, said):
    record = scored(row)
    if said is None:
        assert record["result"] == "pass"
    else:
        assert record["result"] == "error" and said in record["reason"]


def test_the_reply_of_a_row_stands_in_for_the_judge():
    row = {"evaluator": "Relevance", "response": "a", "prompt": "b"}
    assert scored({**row, "judge_reply": '{"score": 4, "reason": "good"}'})["score"] == 4
    repaired = scored({**row, "judge_reply": ["no idea", '{"score": 2, "reason": "meh"}']})
    assert (repaired["score"], repaired["result"]) == (2, "fail")
    assert scored({**row, "judge_reply": "no idea"})["details"]["code"] == "judgeOutputUnparseable"


def test_the_documented_functions_are_where_scripts_look_for_them():
    from tui_evals.evaluators.grading_specs import parse_choice
    from tui_evals.evaluators.references import normalize
    from tui_evals.evaluators.style import flesch_reading_ease

    assert (
        parse_choice("Because.\nYes", ["Yes", "No"], eval_type="cot_classify", match_fn="starts_or_endswith") == "Yes"
    )
    assert normalize("The  Cat!") == "cat"
    assert flesch_reading_ease("") == 206.84
    assert all(function.__doc__ for function in (parse_choice, normalize, flesch_reading_ease))


def test_evidence_from_rows_is_plain_json_back():
    row = {"evaluator": "Citations", "options": {"citation_format": "bracket"}, "response": "a [1]"}
    assert json.loads(json.dumps(scored(row)))["score"] == 1
