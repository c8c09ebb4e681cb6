"""The agent under pytest: gates over runs, and each item of a dataset as a test."""

from __future__ import annotations

import asyncio

from agent import careless_agent, order_agent
from orders import evaluated

from tui_evals import Case, Recorder, cases, gate


def test_the_agent_reads_every_order() -> None:
    assert gate(evaluated(order_agent, "orders"), fail_under=100)


def test_the_careless_agent_is_worse_and_the_comparison_says_so() -> None:
    before, after = evaluated(order_agent, "before"), evaluated(careless_agent, "after")
    compared = before.compare(after)
    assert compared.verdict.startswith("B") and {row["item"] for row in compared.rows() if row["kind"] == "broken"} == {
        "two-apples",
        "numbers",
        "a-dozen",
    }


@cases("evals/greetings.json")
def test_greetings(case: Case, tui_evals: Recorder) -> None:
    answer = tui_evals.check(asyncio.run(order_agent(case.prompt)))
    assert answer.text
