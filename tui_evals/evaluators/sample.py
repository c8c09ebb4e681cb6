"""What a judge is asked by an evaluator, shown with a sample item that has everything an item can have."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .base import Evaluator, Evidence, Question, ToolCall, evaluate

SAMPLE: Mapping[str, Any] = {
    "history": (
        {"role": "system", "content": "You are the polite clerk of a shop."},
        {"role": "user", "content": "Hello, this is Ada. Is my order 7 paid?"},
        {"role": "assistant", "content": "It is, Ada."},
    ),
    "prompt": "Then refund it, please.",
    "response": "Order 7 is refunded: 24.90 euros.",
    "expected": "The order is refunded, and the amount is told.",
    "context": "Orders are refunded within 14 days.",
    "tool_calls": (
        ToolCall("find_order", {"number": 7}, '{"status": "paid", "cents": 2490}'),
        ToolCall("refund", {"order": 7}, "refunded 2490 cents"),
    ),
    "tools": (
        {"type": "function", "function": {"name": "find_order", "description": "Looks up an order."}},
        {"type": "function", "function": {"name": "refund", "description": "Pays the money for an order back."}},
    ),
    "diagnostics": {
        "route": "refunds",
        "retrieval_executions": [
            {
                "capability": "Email",
                "queries": [{"queryString": "refund rules"}],
                "retrievalHits": [
                    {"rank": 1, "extracts": [{"text": "Refunds are paid the way the order was paid."}]},
                    {"rank": 2, "extracts": [{"text": "The shop opens at nine."}]},
                ],
            }
        ],
    },
}
"""The words of evidence of the item; what else an evaluator needs comes from its example."""


async def sample_questions(kind: type[Evaluator]) -> tuple[Question, ...]:
    """What a judge is asked about the sample item, with the options of the evaluator's example; empty for nothing."""
    example: dict[str, Any] = dict(kind.example)
    options: dict[str, Any] = dict(example.pop("options", {}))
    if kind.may_ask and "mode" in kind.Options.model_fields:
        options["mode"] = "judge"
    replies: Any = example.pop("judge_reply", "")
    first = str(replies if isinstance(replies, str) else replies[0])
    asked: list[Question] = []

    async def note(question: Question) -> str:
        if not any(question.messages[: len(one.messages)] == one.messages for one in asked):  # a repair says it again
            asked.append(question)
        return first

    await evaluate(kind(kind.Options.model_validate(options), note), Evidence(**{**example, **SAMPLE}))
    return tuple(asked)
