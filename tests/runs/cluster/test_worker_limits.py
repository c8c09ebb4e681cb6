"""What a worker may do by its lease: who waits passes in order, nobody is forgotten, what is not needed goes back."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.runs.cluster.imagined import Clock
from tui_evals.runs.executors.cluster.worker_limits import BudgetLease, FlightPlace, LeasedGate, TargetLease, Turnstile
from tui_evals.runs.limits import BudgetSpent


async def settled() -> None:
    for _ in range(6):
        await asyncio.sleep(0)


def told() -> tuple[TargetLease, list[str]]:
    nudges: list[str] = []
    return TargetLease(lambda: nudges.append("nudge")), nudges


steps = st.lists(st.tuples(st.sampled_from(["enter", "leave", "cancel", "room"]), st.integers(0, 20)), max_size=40)


@given(steps)
def test_a_turnstile_lets_through_in_order_and_forgets_nobody_whoever_gives_up(steps):
    async def story() -> None:
        inside, most, order, entered = 0, 1, [], []

        def take(number: int) -> None:
            nonlocal inside
            inside += number
            assert 0 <= inside <= most

        turnstile = Turnstile(lambda: inside < most, take, lambda: None)

        async def pass_through(number: int) -> None:
            await turnstile.enter()
            entered.append(number)

        for step, pick in steps:
            if step != "cancel" or pick % 2:
                await settled()
            if step == "enter":
                order.append(asyncio.create_task(pass_through(len(order))))
            elif step == "leave" and inside:
                inside -= 1
                turnstile.wake()
            elif step == "cancel" and order:
                order[pick % len(order)].cancel()
            elif step == "room":
                most += pick % 2
                turnstile.wake()
        await settled()
        assert entered == sorted(entered)
        # Whoever has neither passed nor given up is kept out by those inside alone.
        assert inside == most or all(task.done() for task in order)
        for task in order:
            task.cancel()

    with asyncio.Runner(loop_factory=Clock) as runner:
        runner.run(story())


async def test_a_flight_that_is_cancelled_in_the_moment_it_may_start_gives_its_place_to_the_next():
    lease, _ = told()

    async def fly() -> str:
        async with FlightPlace(lease):
            return "flown"

    first, second = asyncio.create_task(fly()), asyncio.create_task(fly())
    await settled()
    lease.set(1, 0, None, 0.0)
    first.cancel()
    assert await second == "flown"
    assert lease.in_use == 0 and first.cancelled()


async def test_an_attempt_that_is_cancelled_gives_its_call_back():
    lease, _ = told()
    lease.set(2, 0, None, 0.0)
    gate = LeasedGate(lease, takes_place=False)
    first, second = asyncio.create_task(gate.enter()), asyncio.create_task(gate.enter())
    await settled()
    lease.set(2, 1, None, 0.0)
    first.cancel()
    await second
    assert lease.called == 1


async def test_places_that_nobody_here_wants_are_given_back_with_the_letter():
    lease, nudges = told()
    lease.set(5, 20, None, 0.0)
    async with FlightPlace(lease):
        assert lease.usage_report() == ({"in_use": 1, "waiting": 0, "called": 0, "took": 0}, [])
        other = asyncio.create_task(FlightPlace(lease).__aenter__())
        await settled()
        assert not other.done() and nudges == ["nudge"]
    await other


async def test_who_waits_is_told_of_once_and_anew_after_a_letter_that_knew_of_nobody():
    lease, nudges = told()
    waiting = [asyncio.create_task(FlightPlace(lease).__aenter__()) for _ in range(3)]
    await settled()
    assert lease.usage_report()[0]["waiting"] == 3
    begun = len(nudges)
    waiting.append(asyncio.create_task(FlightPlace(lease).__aenter__()))
    await settled()
    assert len(nudges) == begun
    lease.set(4, 4, None, 0.0)
    await asyncio.gather(*waiting)
    assert lease.usage_report()[0] == {"in_use": 4, "waiting": 0, "called": 0, "took": 0}
    waiting.append(asyncio.create_task(FlightPlace(lease).__aenter__()))
    await settled()
    assert len(nudges) == begun + 1
    waiting[-1].cancel()


def test_after_a_pause_whoever_waits_goes_on_by_itself():
    async def story() -> float:
        lease, _ = told()
        lease.set(1, 9, None, 0.0)
        gate = LeasedGate(lease, takes_place=True)
        gate.pushed_back(3.0)
        gate.pushed_back(1.0)
        begun = asyncio.get_running_loop().time()
        await gate.enter()
        assert lease.usage_report()[1] == [3.0, 1.0] and lease.usage_report()[1] == []
        return asyncio.get_running_loop().time() - begun

    with asyncio.Runner(loop_factory=Clock) as runner:
        assert runner.run(story()) == pytest.approx(3.0, abs=0.01)


async def test_no_call_is_made_beyond_the_tokens_of_a_lease():
    lease, _ = told()
    lease.set(5, 9, 100, 0.0)
    gate = LeasedGate(lease, takes_place=True)
    await gate.enter()
    gate.succeeded(120)
    gate.leave()
    other = asyncio.create_task(gate.enter())
    await settled()
    assert not other.done()
    lease.set(5, 9, 121, 0.0)
    await other


def purse() -> BudgetLease:
    return BudgetLease(10.0, lambda: None)


async def asking(purse: BudgetLease, cost: float) -> asyncio.Task[Any]:
    made = asyncio.create_task(purse.reserve(cost))
    await settled()
    return made


async def test_what_a_settled_call_left_over_goes_back_even_while_a_dearer_one_waits():
    ours = purse()
    first = await asking(ours, 3.0)
    ours.set(3.0)
    await first
    second = await asking(ours, 4.0)
    ours.settle(3.0, 1.0)
    assert ours.spending_report() == (1.0, 2.0, [4.0])
    ours.set(7.0)
    await second


async def test_a_call_that_is_cancelled_while_it_is_refused_makes_no_money():
    ours = purse()
    waiting = await asking(ours, 3.0)
    ours.refuse("nothing is left")
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    assert ours.spending_report() == (0.0, 0.0, [])


async def test_a_call_that_is_cancelled_while_it_is_granted_gives_its_money_back():
    ours = purse()
    waiting = await asking(ours, 3.0)
    ours.set(3.0)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    assert ours.spending_report() == (0.0, 3.0, [])


async def test_a_refusal_ends_every_call_that_waits_and_a_later_one_is_asked_for_anew():
    ours = purse()
    waiting = [await asking(ours, cost) for cost in (3.0, 1.0)]
    ours.refuse("nothing is left")
    for one in waiting:
        with pytest.raises(BudgetSpent, match="nothing is left"):
            await one
    later = await asking(ours, 2.0)
    assert ours.spending_report() == (0.0, 0.0, [2.0])
    ours.set(2.0)
    await later


async def test_a_call_that_cost_more_than_was_set_aside_is_told_of():
    ours = purse()
    first = await asking(ours, 1.0)
    ours.set(1.0)
    await first
    ours.settle(1.0, 3.0)
    assert ours.spending_report() == (3.0, -2.0, [])


async def test_without_a_budget_nobody_waits():
    free = BudgetLease(None, lambda: None)
    await free.reserve(1000.0)
    free.settle(1000.0, 5.0)
    assert free.spending_report() == (0.0, 0.0, [])
