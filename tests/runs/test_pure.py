"""The arithmetic of runs: statuses, scores, columns, budgets and the gate, without a server."""

import asyncio
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tui_evals.runs.availability import TIMEOUT_ATTEMPTS, Availability, one_attempt
from tui_evals.runs.executors import WaitCut
from tui_evals.runs.limits import Budget, BudgetSpent, Gate, most_it_can_cost
from tui_evals.runs.scoring import column_scores
from tui_evals.runs.status import score_of, status_of, weighted_mean, worst
from tui_evals.store.records import AnswerRow, ScoreRecord
from tui_evals.targets.base import Price, Reply, Request, TargetConfig, TargetError, Usage


@dataclass(frozen=True)
class Judged:
    result: str | None
    weight: float = 1.0


@pytest.mark.parametrize(
    ("results", "threshold", "status"),
    [
        (["pass", "pass"], 1.0, "pass"),
        (["fail", "fail"], 1.0, "fail"),
        (["pass", "fail"], 1.0, "fail"),
        (["pass", "fail"], 0.5, "pass"),
        (["fail", "error"], 1.0, "partial"),
        (["error", "error"], 0.0, "partial"),
        ([], 1.0, "unjudged"),
        (["skipped", None], 1.0, "scored"),
        (["skipped"], 1.0, "unjudged"),
        (["fail", "skipped"], 1.0, "fail"),
        (["pass", "pass", "fail"], 2 / 3, "pass"),
    ],
)
def test_the_status_of_an_answer(results, threshold, status):
    assert status_of([Judged(result) for result in results], threshold) == status


def test_the_worst_turn_is_the_status_of_a_conversation():
    assert worst(["pass", "fail", "partial", "error"]) == "error"
    assert worst(["pass", "fail", "partial"]) == "partial"
    assert worst(["pass", "fail"]) == "fail"
    assert worst(["pass", "unjudged", "scored"]) == "unjudged"
    assert worst(["scored", "pass"]) == "pass"
    assert worst([]) == "unjudged"


def test_scores_are_weighted_and_absent_where_nothing_weighs():
    assert score_of([Judged("pass", 1.0), Judged("fail", 0.5), Judged("error", 1.0)]) == pytest.approx(200 / 3)
    assert score_of([Judged("pass", 0.0)]) is None
    assert score_of([Judged(None), Judged("skipped")]) is None
    assert weighted_mean([(None, 1.0), (50.0, 0.0)]) is None


def row(number: int, item: int, **more: int) -> AnswerRow:
    places = {"turn": 0, "prompt": 0, "target": 0, "repeat": 0} | more
    return AnswerRow(
        number, 1, number, number, number, item, places["turn"], places["prompt"], places["target"], places["repeat"],
        f"#{item + 1}", "", "pass", None, None, None, None, None, 1, False, False, None, None, "x",
    )  # fmt: skip


def record(result: str, weight: float = 1.0, key: str = "E") -> ScoreRecord:
    return ScoreRecord(key=key, evaluator="E", score=None, result=result, weight=weight)


def test_turns_pool_repeats_average_and_items_weigh():
    rows = [row(1, 0), row(2, 0, turn=1), row(3, 1), row(4, 1, repeat=1), row(5, 0, target=1)]
    scores = {
        1: [record("pass"), record("pass")],
        2: [record("fail"), record("fail")],
        3: [record("pass")],
        4: [record("fail")],
        5: [record("error")],
    }
    items = [{"weight": 1.0}, {"weight": 0.5}]
    found = column_scores(rows, scores, items)
    assert found == {(0, 0): pytest.approx(50.0), (0, 1): None}
    scores[3] = scores[4] = [record("pass")]
    assert column_scores(rows, scores, items)[0, 0] == pytest.approx((50 * 1 + 100 * 0.5) / 1.5)


def test_an_answer_of_the_wrong_form_earns_nothing():
    wrong = [record("pass"), record("fail", 0.0, "response_format")]
    assert column_scores([row(1, 0)], {1: wrong}, [{}]) == {(0, 0): 0.0}
    assert column_scores([row(1, 0)], {1: wrong[1:]}, [{}]) == {(0, 0): 0.0}


@given(st.lists(st.tuples(st.floats(0.01, 1), st.floats(0, 1)), max_size=30), st.floats(0.1, 3))
def test_a_budget_is_never_exceeded_while_no_call_costs_more_than_was_set_aside(calls, most):
    async def call(budget: Budget, reserved: float, share: float) -> None:
        try:
            await budget.reserve(reserved)
        except BudgetSpent:
            assert budget.spent + reserved > most
            return
        await asyncio.sleep(0)
        budget.settle(reserved, reserved * share)
        assert budget.spent <= most + 1e-9

    async def main() -> None:
        budget = Budget(most)
        await asyncio.gather(*(call(budget, reserved, share) for reserved, share in calls))
        await asyncio.wait_for(call(budget, most - budget.spent, 0.0), 60)

    asyncio.run(main())


def test_the_bound_of_a_call_counts_bytes_and_the_longest_answer():
    price = Price(1.0, 2.0)
    question = Request(messages=({"role": "user", "content": "é" * 100},), params={"max_tokens": 10})
    cost = most_it_can_cost(question, price)
    assert cost >= price.cost(Usage(200, 10))


QUESTION = Request(messages=())
QUICK = TargetConfig(name="t", model="demo", timeout=0.01)


def asked(gate: Gate, *outcomes: object) -> tuple[object, int]:
    """The end of persistent asking, and how many attempts it took, when asking meets these outcomes."""
    met = iter(outcomes)
    told = []

    class Meeting:
        async def ask(self, request: Request) -> Reply:
            outcome = next(met)
            if isinstance(outcome, Exception):
                raise outcome
            if outcome == "hang":
                await asyncio.Event().wait()
            return Reply(text=str(outcome))

        async def close(self) -> None: ...

    async def attempt(number: int) -> Reply | TargetError:
        told.append(number)
        return await one_attempt(Meeting(), QUESTION, QUICK)

    async def main() -> object:
        try:
            reply, _ = await Availability(QUICK, gate).ask(attempt, None, lambda _: None)
        except TargetError as problem:
            return problem.code
        return reply.text

    return asyncio.run(main()), len(told)


def gate(concurrency: int = 8) -> Gate:
    return Gate(TargetConfig(name="t", model="demo", concurrency=concurrency))


def failure(code: str = "agentRequestFailed", *, retryable: bool = True) -> TargetError:
    return TargetError(code, "no", retryable=retryable, retry_after=0.0, status=500)  # type: ignore[arg-type]


def test_what_may_help_is_tried_again_and_what_may_not_is_not():
    assert asked(gate(), failure(), failure(), "yes") == ("yes", 3)
    assert asked(gate(), *[failure()] * 9) == ("agentRequestFailed", QUICK.retries + 1)
    assert asked(gate(), failure(retryable=False), "yes") == ("agentRequestFailed", 1)
    assert asked(gate(), "hang", "yes") == ("yes", 2)
    assert asked(gate(), *["hang"] * 9) == ("agentTimeout", TIMEOUT_ATTEMPTS)


def test_a_429_takes_a_place_away_and_successes_win_it_back():
    limited = gate(8)
    assert asked(limited, failure("agentRateLimited"), "yes") == ("yes", 2)
    assert limited.now == pytest.approx(7 + 1 / 70)
    for _ in range(200):
        asked(limited, "yes")
    assert limited.now == 8.0 and limited.in_flight == 0


def test_no_more_calls_are_in_flight_than_the_gate_lets_through():
    async def main() -> int:
        limited, most, running = gate(3), 0, 0

        class Counting:
            async def ask(self, request: Request) -> Reply:
                nonlocal most, running
                running += 1
                most = max(most, running)
                try:
                    await asyncio.sleep(0)
                finally:  # a busy machine lets a call take longer than its timeout
                    running -= 1
                return Reply(text="x")

            async def close(self) -> None: ...

        counting, availability = Counting(), Availability(QUICK, limited)

        async def attempt(number: int) -> Reply | TargetError:
            return await one_attempt(counting, QUESTION, QUICK)

        await asyncio.gather(*(availability.ask(attempt, None, lambda _: None) for _ in range(50)))
        assert limited.in_flight == 0
        return most

    assert asyncio.run(main()) == 3


async def test_a_gate_that_is_held_lets_nobody_call_until_it_is_let_go_and_gives_up_who_waits_at_the_end():
    held = gate()
    held.hold(True)
    first = asyncio.create_task(held.enter())
    await asyncio.sleep(0)
    assert not first.done()
    held.hold(False)
    await first
    held.hold(True)
    second = asyncio.create_task(held.enter())
    await asyncio.sleep(0)
    held.halt()
    with pytest.raises(WaitCut):
        await second
    assert held.in_flight == 1
