"""What workers are let do together, whatever the order in which letters come and whoever dies on the way."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.runs.cluster.imagined import Clock
from tests.store.helpers import new_run
from tui_evals.runs.executors.cluster.distribution import BudgetLeases, RateAllowance, TargetLeases
from tui_evals.runs.executors.cluster.worker_limits import BudgetLease, FlightPlace, TargetLease
from tui_evals.runs.limits import Budget, BudgetSpent
from tui_evals.store.database import open_store
from tui_evals.store.reader import Reader
from tui_evals.store.writer import Writer
from tui_evals.targets.base import TargetConfig

picks = st.integers(0, 99)


def config(concurrency: int = 4, **more: Any) -> TargetConfig:
    return TargetConfig(name="main", model="demo", concurrency=concurrency, **more)


def by_the_clock(told: Callable[[], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    def test() -> None:
        with asyncio.Runner(loop_factory=Clock) as runner:
            runner.run(told())

    test.__name__ = told.__name__
    return test


@dataclass
class Sharer:
    """A worker: `sent` is what is on its way between it and the driver, `step` who must move next."""

    name: str
    lease: TargetLease = field(default_factory=lambda: TargetLease(lambda: None))
    purse: BudgetLease | None = None
    step: str = "reply"
    sent: Any = None
    lost: bool = False
    tasks: list[asyncio.Task[Any]] = field(default_factory=list)
    ends: list[asyncio.Event] = field(default_factory=list)


class Exchanging(RuleBasedStateMachine):
    """Workers and a driver that exchange letters in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner(loop_factory=Clock)
        self.workers: list[Sharer] = []
        self.joined = 0

    def do(self, what: Callable[[], Any]) -> Any:
        async def settled() -> Any:
            found = what()
            for _ in range(6):
                await asyncio.sleep(0)
            return found

        return self.runner.run(settled())

    def teardown(self) -> None:
        self.do(lambda: [task.cancel() for worker in self.workers for task in worker.tasks])
        self.runner.close()

    @property
    def there(self) -> list[Sharer]:
        return [worker for worker in self.workers if not worker.lost]

    @rule()
    def join(self) -> None:
        self.joined += 1
        self.workers.append(Sharer(str(self.joined)))
        self.do(lambda: self.begin(self.workers[-1]))

    @precondition(lambda self: self.workers)
    @rule(pick=picks)
    def a_letter_goes_its_way(self, pick: int) -> None:
        worker = self.workers[pick % len(self.workers)]
        self.do(lambda: self.move(worker))

    def move(self, worker: Sharer) -> None:
        if worker.step == "reply":
            self.take(worker)
            worker.step = "write"
        elif worker.step == "write":
            worker.sent = self.write(worker)
            worker.step = "letter"
        else:
            worker.sent = self.answer(worker)
            worker.step = "reply"

    def begin(self, worker: Sharer) -> None: ...
    def take(self, worker: Sharer) -> None: ...
    def write(self, worker: Sharer) -> Any: ...
    def answer(self, worker: Sharer) -> Any: ...


class Places(Exchanging):
    """Flights of many workers over one pot."""

    @initialize(concurrency=st.integers(1, 6))
    def open(self, concurrency: int) -> None:
        self.most = concurrency
        self.pot = self.do(lambda: TargetLeases(config(concurrency)))

    def begin(self, worker: Sharer) -> None:
        worker.sent = self.pot.grant(worker.name)

    def take(self, worker: Sharer) -> None:
        worker.lease.set(*worker.sent)

    def write(self, worker: Sharer) -> Any:
        return worker.lease.usage_report()

    def answer(self, worker: Sharer) -> Any:
        self.pot.note_usage(worker.name, *worker.sent)
        return self.pot.grant(worker.name)

    @precondition(lambda self: self.workers)
    @rule(pick=picks, number=st.integers(1, 5))
    def want(self, pick: int, number: int) -> None:
        worker = self.workers[pick % len(self.workers)]

        async def fly(end: asyncio.Event) -> None:
            async with FlightPlace(worker.lease):
                worker.ends.append(end)
                await end.wait()

        begun = lambda: [worker.tasks.append(asyncio.create_task(fly(asyncio.Event()))) for _ in range(number)]  # noqa: E731
        self.do(begun)

    @precondition(lambda self: self.workers)
    @rule(pick=picks)
    def land(self, pick: int) -> None:
        worker = self.workers[pick % len(self.workers)]
        if worker.ends:
            self.do(worker.ends.pop(0).set)

    @precondition(lambda self: self.workers)
    @rule(pick=picks)
    def give_up_waiting(self, pick: int) -> None:
        worker = self.workers[pick % len(self.workers)]
        if worker.tasks:
            self.do(worker.tasks[pick % len(worker.tasks)].cancel)

    @precondition(lambda self: self.workers)
    @rule(pick=picks)
    def die(self, pick: int) -> None:
        worker = self.workers.pop(pick % len(self.workers))
        self.do(lambda: [task.cancel() for task in worker.tasks])
        self.do(lambda: self.pot.forget(worker.name))

    @invariant()
    def no_more_are_in_flight_than_the_target_takes(self) -> None:
        assert sum(worker.lease.in_use for worker in self.workers) <= getattr(self, "most", 0)

    def teardown(self) -> None:
        waiting = [task for worker in self.workers for task in worker.tasks]
        for _ in range(4 * len(waiting) + 8 * len(self.workers) + 8):
            if all(task.done() for task in waiting):
                break
            for worker in self.workers:
                for _ in range(3):
                    self.do(lambda worker=worker: self.move(worker))
                while worker.ends:
                    self.do(worker.ends.pop().set)
        assert all(task.done() for task in waiting)
        super().teardown()


class Money(Exchanging):
    """Calls of many workers out of one budget; one that is given up may live on, and come back."""

    @initialize(most=st.integers(1, 20))
    def open(self, most: int) -> None:
        self.most = float(most)
        self.budget = Budget(self.most)
        self.treasury = BudgetLeases(self.budget)
        self.spent, self.reserved, self.refused = 0.0, 0.0, 0

    def begin(self, worker: Sharer) -> None:
        worker.purse = BudgetLease(self.most, lambda: None)
        worker.sent = self.treasury.grant(worker.name)

    def take(self, worker: Sharer) -> None:
        if worker.sent is not None:
            granted, refused = worker.sent
            worker.purse.set(granted)
            if refused is not None:
                assert self.budget.spent > 0 or self.refused
                worker.purse.refuse(refused)

    def write(self, worker: Sharer) -> Any:
        return worker.purse.spending_report()

    def answer(self, worker: Sharer) -> Any:
        self.treasury.note_spending(worker.name, *worker.sent)
        return None if worker.lost else self.treasury.grant(worker.name)

    @precondition(lambda self: self.workers)
    @rule(pick=picks, cost=st.floats(0.01, 5.0), share=st.sampled_from([0.0, 0.3, 1.0, None]))
    def call(self, pick: int, cost: float, share: float | None) -> None:
        worker = self.workers[pick % len(self.workers)]
        self.refused += cost > self.most

        async def pay(end: asyncio.Event) -> None:
            try:
                await worker.purse.reserve(cost)
            except BudgetSpent:
                return
            self.reserved += cost
            worker.ends.append(end)
            real = None
            try:
                await end.wait()
                real = None if share is None else cost * share
            finally:
                self.reserved -= cost
                self.spent += real or 0.0
                worker.purse.settle(cost, real or 0.0)

        self.do(lambda: worker.tasks.append(asyncio.create_task(pay(asyncio.Event()))))

    @precondition(lambda self: self.workers)
    @rule(pick=picks)
    def return_from_it(self, pick: int) -> None:
        worker = self.workers[pick % len(self.workers)]
        if worker.ends:
            self.do(worker.ends.pop(0).set)

    @precondition(lambda self: self.workers)
    @rule(pick=picks)
    def give_up_a_call(self, pick: int) -> None:
        worker = self.workers[pick % len(self.workers)]
        if worker.tasks:
            self.do(worker.tasks[pick % len(worker.tasks)].cancel)

    @precondition(lambda self: self.there)
    @rule(pick=picks)
    def is_given_up(self, pick: int) -> None:
        worker = self.there[pick % len(self.there)]
        worker.lost = True
        self.treasury.write_off(worker.name)

    @invariant()
    def no_more_is_spent_than_there_is(self) -> None:
        if self.workers:
            assert self.spent + self.reserved <= self.most + 1e-6
            assert self.budget.spent <= self.most + 1e-6

    def teardown(self) -> None:
        for _ in range(4 * sum(len(worker.tasks) for worker in self.workers) + 8):
            if all(worker.step == "reply" and all(task.done() for task in worker.tasks) for worker in self.there):
                break
            for worker in self.workers:
                for _ in range(3):
                    self.do(lambda worker=worker: self.move(worker))
                while worker.ends:
                    self.do(worker.ends.pop().set)
        assert all(task.done() for worker in self.there for task in worker.tasks)
        super().teardown()


TestPlaces = Places.TestCase
TestPlaces.settings = settings(max_examples=20, stateful_step_count=25)
TestMoney = Money.TestCase
TestMoney.settings = settings(max_examples=20, stateful_step_count=25)


@given(
    st.floats(1.0, 600.0),
    st.lists(st.tuples(st.floats(0.0, 10.0), st.integers(0, 50)), min_size=1, max_size=20),
)
def test_a_rate_gives_out_a_little_at_once_and_then_no_more_than_it_says(a_minute, takings):
    async def story() -> None:
        rate, given_out, clock = RateAllowance(a_minute), 0, asyncio.get_running_loop().time
        begun = clock()
        for pause, wanted in takings:
            await asyncio.sleep(pause)
            taken = rate.take(wanted)
            assert 0 <= taken <= wanted
            given_out += taken
            assert given_out <= max(1.0, a_minute / 30) + (clock() - begun) * a_minute / 60 + 1e-6

    by_the_clock(story)()


def said(in_use: int = 0, waiting: int = 0, called: int = 0, took: int = 0) -> dict[str, int]:
    return {"in_use": in_use, "waiting": waiting, "called": called, "took": took}


@by_the_clock
async def test_a_place_that_a_worker_may_still_use_is_nobody_elses():
    pot = TargetLeases(config(4))
    pot.note_usage("a", said(waiting=4), [])
    assert pot.grant("a")[0] == 4
    pot.note_usage("b", said(waiting=4), [])
    assert pot.grant("b")[0] == 0
    pot.note_usage("a", said(in_use=4, waiting=4), [])
    assert pot.grant("a")[0] == 2
    pot.note_usage("b", said(waiting=4), [])
    assert pot.grant("b")[0] == 0
    pot.note_usage("a", said(in_use=2, waiting=4), [])
    pot.note_usage("b", said(waiting=4), [])
    assert pot.grant("b")[0] == 2


@by_the_clock
async def test_a_place_that_is_taken_back_is_free_once_the_worker_has_heard_of_it():
    pot = TargetLeases(config(4))
    pot.note_usage("a", said(waiting=4), [])
    assert pot.grant("a")[0] == 4
    pot.note_usage("b", said(waiting=4), [])
    assert pot.grant("b")[0] == 0
    pot.note_usage("a", said(waiting=4), [])
    assert pot.grant("a")[0] == 2
    pot.note_usage("b", said(waiting=4), [])
    assert pot.grant("b")[0] == 0
    pot.note_usage("a", said(in_use=2, waiting=2), [])
    assert pot.grant("b")[0] == 2


@by_the_clock
async def test_a_pause_that_one_worker_was_asked_for_holds_for_all_and_takes_a_place_away():
    pot = TargetLeases(config(8))
    pot.note_usage("a", said(), [7.0])
    pot.note_usage("b", said(waiting=8), [])
    places, _, _, pause = pot.grant("b")
    assert places == 7 and pause == pytest.approx(7.0)


@by_the_clock
async def test_calls_a_minute_are_leased_no_further_ahead_than_there_are_places():
    pot = TargetLeases(config(2, requests_per_minute=600))
    pot.note_usage("a", said(waiting=40), [])
    await asyncio.sleep(60)
    assert pot.grant("a")[1] == 2
    await asyncio.sleep(60)
    pot.note_usage("a", said(in_use=2, waiting=38, called=1), [])
    assert pot.grant("a")[1] == 3


@by_the_clock
async def test_tokens_that_one_call_took_beyond_its_lease_are_paid_back_before_there_is_another():
    pot = TargetLeases(config(2, tokens_per_minute=60))
    pot.note_usage("a", said(waiting=1), [])
    tokens = pot.grant("a")[2]
    assert tokens == 1
    pot.note_usage("a", said(waiting=1, called=1, took=31), [])
    for _ in range(29):
        await asyncio.sleep(1.01)
        assert pot.grant("a")[2] <= 31
    await asyncio.sleep(2)
    assert pot.grant("a")[2] > 31


def test_what_a_lost_worker_held_counts_as_spent_until_it_says_what_it_did():
    budget = Budget(10.0)
    treasury = BudgetLeases(budget)
    treasury.note_spending("a", 0.0, 0.0, [4.0, 4.0])
    assert treasury.grant("a") == (8.0, None)
    treasury.note_spending("b", 0.0, 0.0, [4.0])
    assert treasury.grant("b") == (0.0, None)
    treasury.write_off("a")
    treasury.note_spending("b", 0.0, 0.0, [4.0])
    assert "resume with a larger --max-cost" in treasury.grant("b")[1]
    treasury.note_spending("a", 1.0, 3.0, [])
    assert budget.spent == pytest.approx(5.0)
    treasury.note_spending("b", 0.0, 0.0, [4.0])
    assert treasury.grant("b") == (4.0, None)


def test_what_workers_may_spend_is_in_the_store_before_they_hear_of_it(tmp_path):
    store = open_store(tmp_path / ".evals" / "evals.db")
    with Writer(store) as writer, Reader(store) as reader:
        run, budget = writer.plan(new_run(), ()).id, Budget(10.0)
        budget.of_run(run, reader, writer)
        treasury = BudgetLeases(budget)

        def stored() -> float:
            asyncio.run(treasury.secure())
            return reader.reserved(run)

        for worker in "ab":
            treasury.note_spending(worker, 0.0, 0.0, [2.0])
            treasury.grant(worker)
        assert stored() == 4.0
        treasury.write_off("a")
        treasury.note_spending("b", 0.5, 1.5, [])
        assert stored() == 2.0
        treasury.note_spending("a", 1.0, 1.0, [])
        assert stored() == 0.0
