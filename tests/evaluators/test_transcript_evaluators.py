"""What a transcript shows without a judge: counts, results that are used, what steps take, what was retrieved."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from tests.evaluators.helpers import Judge, score
from tui_evals.evaluators.agents import ToolInputAccuracy, ToolSelection
from tui_evals.evaluators.base import ToolCall
from tui_evals.evaluators.registry import built_in
from tui_evals.evaluators.trajectory import (
    ResultsUsed,
    RetrievalPrecision,
    RetrievalRecall,
    StepCost,
    StepTime,
    ToolCallCount,
    ToolsF1,
)
from tui_evals.transcript import Document, Message, Retrieval, Text, Took, Transcript

FIND = ToolCall("find", {"order": 7}, '{"status": "paid", "cents": 2490}')
CALLS = (FIND, ToolCall("find", {"order": 8}, "no such order", failed=True), ToolCall("pay", {"cents": 2490}, "ok!"))


def test_calls_are_counted_within_bounds():
    for options, result, number in (
        ({"most": 3}, "pass", 3),
        ({"tool": "find", "most": 1}, "fail", 2),
        ({"tool": "gone", "most": 0}, "pass", 0),
        ({"tool": "pay", "least": 2}, "fail", 1),
        ({}, None, 3),
    ):
        record = score(ToolCallCount, options, response="a", tool_calls=CALLS)
        assert (record.result, record.score) == (result, number), options
    with pytest.raises(ValidationError):
        ToolCallCount.Options(most=1, least=2)


def test_a_result_is_used_where_a_value_of_it_comes_again():
    used = score(ResultsUsed, {}, response="Order 7 is PAID. ok!", tool_calls=CALLS)
    assert (used.result, used.score) == ("pass", 1.0)
    later = score(ResultsUsed, {"tool": "find"}, response="Done.", tool_calls=CALLS)
    assert later.result == "pass", "its cents are an argument of the next call"
    half = score(ResultsUsed, {}, response="Done.", tool_calls=CALLS)
    assert (half.result, half.score) == ("fail", 0.5) and "'pay'" in half.reason
    assert score(ResultsUsed, {}, response="a", tool_calls=(ToolCall("f"),)).result == "skipped"


def test_the_step_that_took_most_is_compared():
    def said(**took):
        return Message(role="assistant", parts=(Text("a"),), took=Took(**took) if took else None)

    transcript = Transcript((said(seconds=1.0, cost=0.01), said(seconds=2.5), said()))
    slow = score(StepTime, {"threshold": 2000}, response="a", transcript=transcript)
    assert (slow.result, slow.score) == ("fail", 2500.0) and "step 2" in slow.reason
    assert score(StepCost, {"threshold": 0.02}, response="a", transcript=transcript).result == "pass"
    assert score(StepCost, {}, response="a", transcript=transcript).result is None
    assert score(StepCost, {}, response="a").result == "skipped", "what is not known is no zero"


def test_retrieval_is_compared_with_the_documents_that_belong_to_the_question():
    documents = (Document("Refunds take 14 days.", "d1"), Document("Open at nine.", source="faq"), Document("x", "d3"))
    transcript = Transcript((Message(role="tool", parts=(Retrieval(documents),)),))
    for kind, options, expected in (
        (RetrievalPrecision, {"relevant": ["d1", "faq"]}, 2 / 3),
        (RetrievalPrecision, {"relevant": ["d1"], "k": 1}, 1.0),
        (RetrievalRecall, {"relevant": ["14 days", "d9"]}, 0.5),
    ):
        assert score(kind, options, response="a", transcript=transcript).score == pytest.approx(expected), options
    given = {"variables": {"relevant": ["Refunds"]}, "chunks": ("Refunds take 14 days.",)}
    assert score(RetrievalRecall, {}, response="a", **given).result == "pass"
    assert score(RetrievalPrecision, {"relevant": ["d1"]}, response="a").result == "fail"
    assert (
        score(RetrievalRecall, {}, response="a", transcript=transcript).details["code"] == "evaluatorConfigurationError"
    )


def test_each_call_is_judged_and_the_names_of_azure_are_known():
    reply = (
        '{"calls": [{"call": 1, "reason": "ok", "fitting": true}, {"call": 2, "reason": "twice", "fitting": false}]}'
    )
    record = score(ToolSelection, {}, Judge(reply), prompt="q", response="a", tool_calls=CALLS[:2])
    assert (record.result, record.score) == ("fail", 0.5) and "call 2: twice" in record.reason
    assert score(ToolInputAccuracy, {}, Judge(reply), prompt="q", response="a", tool_calls=()).result == "skipped"
    names = "task_adherence intent_resolution tool_selection tool_input_accuracy tool_output_utilization"
    assert set(f"{names} response_completeness".split()) <= set(built_in())


@pytest.mark.parametrize(
    ("called", "f1", "result"),
    [(["a", "b", "a"], 1.0, "pass"), (["a"], 2 / 3, "fail"), (["a", "b", "c"], 0.8, "fail"), ([], 0.0, "fail")],
)
def test_the_tools_that_were_called_are_compared_as_sets(called, f1, result):
    calls = tuple(ToolCall(name, {}) for name in called)
    record = score(ToolsF1, {"tools": ["a", "b"]}, response="x", tool_calls=calls)
    assert (record.score, record.result) == (pytest.approx(f1), result)
