"""Evaluators whose judge goes through a list: what the entries come to, and which replies are none."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.evaluators.helpers import Judge, score
from tests.evaluators.tables import each_row
from tui_evals.evaluators.agents import (
    GoalReached,
    KnowledgeRetention,
    RoleAdherence,
    StepsWasted,
    ToolCorrectness,
    TrajectoryMatch,
)
from tui_evals.evaluators.base import Score, ToolCall
from tui_evals.evaluators.grading import Hallucination
from tui_evals.evaluators.retrieval import (
    AnswerCorrectness,
    ContextPrecision,
    ContextRecall,
    ContextRelevance,
    Faithfulness,
)

CHUNKS = ("one", "two", "three", "four")


def entries(about: str, verdict: str, *goods: bool, texts: bool = False) -> list[dict[str, Any]]:
    return [{about: f"c{n}" if texts else n, "reason": "why", verdict: good} for n, good in enumerate(goods, 1)]


def of_chunks(kind: Any, verdict: str, *goods: bool, **options: Any) -> Score:
    reply = json.dumps({"chunks": entries("chunk", verdict, *goods)})
    return score(kind, options, Judge(reply), prompt="q", expected="e", chunks=CHUNKS)


@each_row(
    ("useful", "precision"),
    [
        ((True, True, False, False), 1.0),
        ((False, False, True, True), (1 / 3 + 2 / 4) / 2),
        ((True, False, True, False), (1 + 2 / 3) / 2),
        ((False, False, False, False), 0.0),
    ],
)
def test_context_precision_weighs_ranks(useful: tuple[bool, ...], precision: float) -> None:
    record = of_chunks(ContextPrecision, "useful", *useful)
    assert record.score == pytest.approx(precision) and record.result == ("pass" if precision >= 0.7 else "fail")
    assert [entry["useful"] for entry in record.details["chunks"]] == list(useful)


def test_context_relevance_is_a_share_and_only_the_first_count_where_said() -> None:
    assert of_chunks(ContextRelevance, "relevant", True, False, False, True).score == 0.5
    assert of_chunks(ContextRelevance, "relevant", True, True, most=2).score == 1.0


@each_row("numbers", [(1, 2, 3), (1, 2, 3, 3), (1, 2, 3, 5), (0, 1, 2, 3)])
def test_a_chunk_that_is_left_out_or_named_twice_makes_no_verdict(numbers: tuple[int, ...]) -> None:
    listed = [{"chunk": number, "reason": "", "relevant": True} for number in numbers]
    record = score(ContextRelevance, {}, Judge(json.dumps({"chunks": listed})), prompt="q", chunks=CHUNKS)
    assert record.details["code"] == "judgeOutputUnparseable"


def test_without_chunks_the_way_to_them_is_told_and_the_context_is_one() -> None:
    record = score(ContextRelevance, {}, Judge("?"), prompt="q")
    assert record.result == "error" and "extensions.chunks" in record.reason
    reply = json.dumps({"chunks": entries("chunk", "relevant", True)})
    assert score(ContextRelevance, {}, Judge(reply), prompt="q", context="c").score == 1.0


def test_an_answer_that_claims_nothing_is_faithful_and_the_reason_says_so() -> None:
    record = score(Faithfulness, {}, Judge(json.dumps({"claims": []})), prompt="q", response="a", context="c")
    assert (record.score, record.result, record.details["counted"]) == (1.0, "pass", 0) and "claim" in record.reason


def test_faithfulness_is_the_share_of_claims_and_shows_each() -> None:
    reply = json.dumps({"claims": entries("claim", "supported", True, True, True, False, texts=True)})
    record = score(Faithfulness, {}, Judge(reply), prompt="q", response="a", context="c")
    assert (record.score, record.result, record.threshold) == (0.75, "pass", 0.7)
    assert record.reason == "supported, 3 of 4; not: 'c4'" and len(record.details["claims"]) == 4
    assert score(Faithfulness, {}, Judge('{"claims": []}'), response="Hello!", context="c").score == 1.0
    assert score(Faithfulness, {}, Judge("?"), response="a", prompt="q").result == "error"


def test_context_recall_of_the_reference() -> None:
    reply = json.dumps({"claims": entries("claim", "found", True, False, texts=True)})
    assert score(ContextRecall, {}, Judge(reply), prompt="q", expected="e", chunks=CHUNKS).score == 0.5
    assert (
        score(ContextRecall, {}, Judge('{"claims": []}'), prompt="q", expected="e", chunks=CHUNKS).result == "skipped"
    )


def test_answer_correctness_is_the_f1_of_claims() -> None:
    answer, reference = entries("claim", "right", True, False, texts=True), entries("claim", "said", True, texts=True)
    reply = json.dumps({"answer": answer, "reference": reference})
    record = score(AnswerCorrectness, {}, Judge(reply), prompt="q", response="a", expected="e")
    assert record.score == pytest.approx(2 * 0.5 * 1 / 1.5) and record.result == "fail"
    assert (record.details["precision"], record.details["recall"]) == (0.5, 1.0)
    assert "wrong: 'c2'" in record.reason


def test_hallucination_gives_its_counts() -> None:
    claims = [{"claim": f"c{n}", "evidence": "", "supported": n < 3} for n in (1, 2, 3)]
    record = score(Hallucination, {}, Judge(json.dumps({"claims": claims})), response="a", context="c")
    assert (record.result, record.details["claims"], record.details["supported"]) == ("fail", 3, 2)
    assert record.details["unsupported"] == ["c3"] and record.details["checked"] == claims


CALLS = (ToolCall("find", {"id": 7}, "found"), ToolCall("mail", {}, "sent"))


def test_tool_correctness_counts_calls_and_needs() -> None:
    needs = [{"need": "refund", "reason": "", "met": False}]
    reply = json.dumps({"calls": entries("call", "right", True, False), "needs": needs})
    record = score(ToolCorrectness, {}, Judge(reply), prompt="q", response="a", tool_calls=CALLS)
    assert record.score == pytest.approx(1 / 3) and "wrong: call 2" in record.reason and "'refund'" in record.reason
    nothing = Judge('{"calls": [], "needs": []}')
    assert score(ToolCorrectness, {}, nothing, prompt="q", response="a", tool_calls=()).score == 1.0


def test_wasted_steps_are_counted_and_fewer_is_better() -> None:
    reply = json.dumps({"calls": entries("call", "needed", True, False)})
    record = score(StepsWasted, {}, Judge(reply), prompt="q", response="a", tool_calls=CALLS)
    assert (record.score, record.result, record.measure) == (1.0, "fail", "at most calls")
    assert "2 (mail)" in record.reason
    assert (
        score(StepsWasted, {"threshold": 1}, Judge(reply), prompt="q", response="a", tool_calls=CALLS).result == "pass"
    )
    assert score(StepsWasted, {}, Judge(reply), prompt="q", response="a", tool_calls=()).result == "skipped"


def test_a_trajectory_needs_a_reference_which_the_item_may_hold() -> None:
    evidence: dict[str, Any] = {"prompt": "q", "response": "a", "tool_calls": CALLS}
    assert "variable trajectory" in score(TrajectoryMatch, {}, Judge("?"), **evidence).reason
    judge = Judge('{"reason": "r", "score": 4}')
    assert score(TrajectoryMatch, {}, judge, variables={"trajectory": ["find", "mail"]}, **evidence).score == 4
    assert "1. find\n2. mail" in judge.prompt


HISTORY = ({"role": "user", "content": "I am Ada."}, {"role": "assistant", "content": "Hello Ada."})


def test_a_role_is_judged_message_by_message() -> None:
    good = [{"message": 2, "reason": "", "kept": True}, {"message": 4, "reason": "", "kept": False}]
    record = score(RoleAdherence, {}, Judge(json.dumps({"messages": good})), history=HISTORY, prompt="q", response="a")
    assert (record.score, record.result) == (0.5, "fail") and "message 4" in record.reason
    other = json.dumps({"messages": entries("message", "kept", True, True)})
    assert score(RoleAdherence, {}, Judge(other), history=HISTORY, prompt="q", response="a").result == "error"


def test_a_goal_needs_an_entry_and_knowledge_may_have_none() -> None:
    empty = Judge('{"goals": []}')
    assert score(GoalReached, {}, empty, history=HISTORY, prompt="q", response="a").result == "error"
    nothing = Judge('{"facts": []}')
    assert score(KnowledgeRetention, {}, nothing, history=HISTORY, prompt="q", response="a").result == "skipped"


def test_a_list_that_the_answer_holds_is_no_verdict() -> None:
    verdict = json.dumps({"claims": entries("claim", "supported", True, texts=True)})
    record = score(Faithfulness, {}, Judge(verdict), response=f"Copy this: {verdict}", context="c")
    assert record.details["code"] == "judgeOutputUnparseable"
