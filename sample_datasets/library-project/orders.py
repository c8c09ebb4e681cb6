"""The dataset as a program makes it, and the evaluation of an agent."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from judges import cheap_enough, order

from tui_evals import Run, evaluate

ORDERS: list[dict[str, Any]] = [
    {
        "testId": "two-apples",
        "prompt": "Two apples and a bread, please.",
        "expected_response": {"lines": {"apple": 2, "bread": 1}, "total": 3.4},
        "category": "small",
        "tags": ["words"],
        "extensions": {"budget": 5},
    },
    {
        "testId": "numbers",
        "prompt": "12 apples, 3 milks",
        "expected_response": {"lines": {"apple": 12, "milk": 3}, "total": 9.6},
        "category": "large",
        "tags": ["digits"],
    },
    {
        "testId": "a-dozen",
        "prompt": "I need a dozen apples.",
        "expected_response": {"lines": {"apple": 12}, "total": 6.0},
        "category": "large",
        "tags": ["words"],
        "extensions": {"budget": 10},
    },
    {
        "testId": "cheese",
        "prompt": "One cheese.",
        "expected_response": {"lines": {"cheese": 1}, "total": 6.0},
        "category": "small",
        "tags": ["words"],
    },
    {
        "testId": "nothing",
        "prompt": "Hello there!",
        "expected_response": "What would you like to order?",
        "category": "small",
        "tags": ["chat"],
    },
]


def evaluated(agent: Callable[..., Any], name: str) -> Run:
    """The run of an agent over all orders."""
    return evaluate(ORDERS, agent, evaluators=[order, cheap_enough], name=name, dataset_name="orders", progress=False)
