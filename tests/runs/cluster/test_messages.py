"""The desk of the driver and the sessions of workers against each other, over lines that fail in every way."""

from __future__ import annotations

import asyncio
import random
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.runs.cluster.imagined import Model, Weather, World, lived, shared_out
from tui_evals.datasets.model import Dataset, Item
from tui_evals.runs.availability import Unavailable, room_of
from tui_evals.runs.executors import Cell, Stopped
from tui_evals.runs.executors.cluster.distribution import Shards, WorkDistributor, WorkerState
from tui_evals.runs.executors.cluster.terms import dump_call
from tui_evals.runs.executors.cluster.worker_session import ShardSink, WorkerSession
from tui_evals.runs.judges import opened
from tui_evals.runs.limits import Budget
from tui_evals.store.records import AnswerRecord, CallRecord
from tui_evals.store.rows import body_of
from tui_evals.targets.base import Price, Reply, TargetConfig, TargetError

pytestmark = pytest.mark.story

chances = st.sampled_from([0.0, 0.1, 0.4])


def dataset_of(items: int, **more) -> Dataset:
    found = [
        {"turns": [{"prompt": f"{n} {turn}", "expected_response": f"{n}"} for turn in range(n % 3)]}
        if n % 3
        else {"prompt": f"{n}", "expected_response": f"{n}"}
        for n in range(items)
    ]
    return Dataset.model_validate({"default_evaluators": {"Includes": {}}, "items": found, **more})


def target_of(concurrency: int, **more) -> TargetConfig:
    return TargetConfig(name="main", model="openai/m", base_url="http://localhost:1", concurrency=concurrency, **more)


def test_a_run_without_any_trouble_is_done_with_one_call_for_each_answer():
    world = World(random.Random(0), Weather(), 4)
    lived(lambda: shared_out(world, dataset_of(30), target_of(4), 3))
    assert set(world.answers) == set(world.ids.values()) == set(world.scores)
    assert set(world.asked.values()) == set(world.scores.values()) == {1}
    assert len(world.log) == len(world.answers)
    assert world.peak["target main"] == 4


def check(world: World, concurrency: int) -> None:
    """What holds at the end of a run, whatever happened on the way."""
    assert set(world.answers) == set(world.ids.values())
    judged = {answer for answer, record in world.answers.items() if record.text is not None}
    assert world.scores == dict.fromkeys(judged, 1)
    assert not world.late
    assert world.peak["target main"] <= concurrency
    told = [(call.answer, call.started, call.attempt) for call in world.log if call.kind == "target"]
    assert len(told) == len(set(told))
    called = {answer for answer, _, _ in told}
    assert {answer for answer, record in world.answers.items() if record.attempts and record.code is None} <= called


weathers = st.builds(
    Weather,
    request_lost=chances,
    answer_lost=chances,
    repeated=chances,
    delay=st.sampled_from([0.0, 0.3]),
    throttled=chances,
    failing=chances,
    deaths=st.lists(st.floats(0.1, 20.0), max_size=3),
)


@pytest.mark.story
@given(weathers, st.integers(0, 10**6), st.integers(1, 5), st.integers(1, 3))
def test_whatever_befalls_letters_and_workers_each_answer_is_committed_and_judged_once(
    weather, seed, concurrency, workers
):
    world = World(random.Random(seed), weather, concurrency)
    lived(lambda: shared_out(world, dataset_of(20), target_of(concurrency), workers))
    check(world, concurrency)
    again = sum(world.asked.values()) - len(world.asked)
    assert again <= concurrency * len(weather.deaths)


@pytest.mark.nightly
@settings(max_examples=8)
@given(
    st.lists(st.tuples(st.floats(0.1, 60.0), st.sampled_from([5.0, 40.0, 90.0])), min_size=1, max_size=4),
    st.integers(0, 10**6),
    st.integers(1, 5),
    st.integers(1, 3),
)
def test_workers_that_were_given_up_and_come_back_double_nothing_and_do_not_hold_up_the_run(
    cuts, seed, concurrency, workers
):
    world = World(random.Random(seed), Weather(cuts=cuts, throttled=0.3), concurrency)
    lived(lambda: shared_out(world, dataset_of(40), target_of(concurrency), workers))
    assert set(world.answers) == set(world.ids.values())
    assert world.scores == dict.fromkeys(world.answers, 1)
    given_up = sum(seconds > 30 for _, seconds in cuts)
    assert world.peak["target main"] <= concurrency * (1 + given_up)
    assert sum(world.asked.values()) - len(world.asked) <= concurrency * given_up


@pytest.mark.nightly
@settings(max_examples=8)
@given(
    st.lists(st.floats(0.1, 20.0), max_size=2),
    st.lists(st.tuples(st.floats(0.1, 20.0), st.just(40.0)), max_size=2),
    st.sampled_from([0.0, 0.3]),
    st.integers(0, 10**6),
    st.integers(1, 8),
)
def test_no_worker_spends_more_than_the_budget_and_the_run_says_when_it_is_spent(deaths, cuts, lost, seed, calls):
    world = World(random.Random(seed), Weather(deaths=deaths, cuts=cuts, answer_lost=lost, repeated=lost), 3)
    target = target_of(3, price=Price(1.0, 1.0), params={"max_tokens": 100})
    budget = Budget(calls * 0.00016)
    with pytest.raises(Stopped, match="the budget is spent"):
        lived(lambda: shared_out(world, dataset_of(100), target, 2, budget=budget))
    assert world.spent <= budget.most and (world.spent or deaths or cuts)
    assert not set(world.scores.values()) - {1}


@pytest.mark.nightly
@settings(max_examples=8)
@given(weathers, st.integers(0, 10**6))
def test_judges_are_asked_within_their_own_places(weather, seed):
    world = World(random.Random(seed), weather, 4)
    judge = TargetConfig(name="judge", model="openai/j", base_url="http://localhost:1", concurrency=2)
    dataset = dataset_of(10, default_evaluators={"Coherence": {}, "Relevance": {}})
    lived(lambda: shared_out(world, dataset, target_of(4), 2, judge=judge))
    check(world, 4)
    assert 0 < world.peak["judge judge"] <= 2


@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("after", [0, 9])
def test_a_target_that_refuses_its_key_leaves_its_cells_pending_and_ends_the_sharing_out(after, workers):
    world = World(random.Random(1), Weather(refusing=("target", after)), 4)
    target, *_ = lived(lambda: shared_out(world, dataset_of(40), target_of(4), workers))
    assert "the key expired" in str(target.availability.closed)
    assert all(record.text is not None for record in world.answers.values()), "no refusal is a row"
    assert after - workers <= len(world.answers) < 40 and set(world.scores) == set(world.answers)
    assert world.refused <= 2 * 4 + workers


@pytest.mark.parametrize("workers", [1, 3])
def test_a_judge_that_refuses_its_key_leaves_verdicts_pending_while_every_answer_is_asked_for(workers):
    world = World(random.Random(1), Weather(refusing=("judge", 5)), 4)
    judge = TargetConfig(name="judge", model="openai/j", base_url="http://localhost:1", concurrency=2)
    dataset = dataset_of(20, default_evaluators={"Coherence": {}})
    _, refused = lived(lambda: shared_out(world, dataset, target_of(4), workers, judge=judge))
    assert "the key expired" in str(refused.availability.closed)
    assert set(world.answers) == set(world.ids.values()) and set(world.asked.values()) == {1}
    assert len(world.scores) <= 5, "a verdict takes a call or two"


@settings(max_examples=8)
@given(weathers, st.integers(0, 10**6), st.floats(0.0, 10.0))
def test_a_run_that_is_stopped_ends_and_what_was_asked_is_committed_and_judged(weather, seed, at):
    world = World(random.Random(seed), replace(weather, deaths=()), 3)

    async def story() -> None:
        asyncio.get_running_loop().call_later(at, setattr, world, "stopping", True)
        await shared_out(world, dataset_of(300), target_of(3), 2)

    lived(story)
    assert set(world.scores) == {answer for answer, record in world.answers.items() if record.text is not None}
    assert not world.late and len(world.answers) < len(world.ids)


@pytest.mark.nightly
@settings(max_examples=8)
@given(st.integers(0, 10**6), st.floats(20.0, 120.0), st.integers(1, 3))
def test_the_workers_together_keep_to_the_calls_a_minute(seed, a_minute, workers):
    world = World(random.Random(seed), Weather(), 20)
    lived(lambda: shared_out(world, dataset_of(40), target_of(20, requests_per_minute=a_minute), workers))
    check(world, 20)
    begun = sorted(world.begun)
    burst = max(1.0, 2 * a_minute / 60)
    for first in range(len(begun)):
        for last in range(first, len(begun)):
            # What was leased before a moment and is called after it is no more than the places there are.
            assert last - first <= burst + 20 + (begun[last] - begun[first]) * a_minute / 60


def letter_of(number: int, **records) -> dict:
    return {"number": number, "cells": 1, "waiting": [], "demand": [], **records}


def desk_with(cell: Cell) -> tuple[World, WorkDistributor]:
    world = World(random.Random(0), Weather(), 2)
    budget = Budget(None)
    asked = opened(target_of(2), "target", budget, {}, Path.cwd(), target=Model(world, target_of(2), "target"))
    return world, WorkDistributor(world, [asked], Shards({0: iter([cell])}, [2], world.known), "the order", budget)


def one_cell() -> Cell:
    return Cell(Item(prompt="?"), "#1", 0, 0, 0, 0, (1,), {}, frozenset())


def test_scores_that_two_workers_send_for_one_answer_are_committed_once():
    async def story() -> None:
        world, desk = desk_with(one_cell())
        desk._shards.next_shard(1)
        workers = [WorkerState(name, name) for name in "ab"]
        for worker in workers:
            desk.first_message(worker)
        answer = [1, body_of(AnswerRecord(text="said", request={})), None, "main"]
        for worker in workers:
            await desk.receive(worker, letter_of(1, answers=[answer]))
        for worker in workers:
            await desk.receive(worker, letter_of(2, scores=[[1, [], "pass", 1.0]]))
        assert world.scores == {1: 1}

    lived(story)


def test_a_worker_that_was_given_up_may_hand_in_what_it_has_and_is_then_over():
    async def story() -> None:
        _, desk = desk_with(one_cell())
        worker = WorkerState("a", "a")
        desk.first_message(worker)
        wanting = {"in_use": 0, "waiting": 2, "called": 0, "took": 0}
        owed = await desk.receive(worker, letter_of(1, demand=[["target main", wanting, []]]))
        assert owed["leases"][0][1][0] == 2
        desk.give_up(worker)
        letter = desk.first_message(worker)
        assert letter["number"] == owed["number"] and letter["leases"] == [["target main", (0, 0, 0, 0.0)]]
        assert letter["stopping"] and not letter["over"]
        answer = [1, body_of(AnswerRecord(text="said", request={})), None, "main"]
        assert not (await desk.receive(worker, letter_of(2)))["over"]
        letter = await desk.receive(worker, letter_of(3, answers=[answer], shards=[1]))
        assert not letter["over"] and letter["firsts"] == [[1, True]] and "shards" not in letter
        assert (await desk.receive(worker, letter_of(4)))["over"]

    lived(story)


def test_every_worker_hears_that_a_target_has_answered():
    async def story() -> None:
        _, desk = desk_with(one_cell())
        first, second = (WorkerState(name, name) for name in "ab")
        for worker in (first, second):
            assert not desk.first_message(worker)["answers"]
        call = CallRecord(answer=1, kind="target", target="main", attempt=1, started=0.0, latency_ms=1.0)
        await desk.receive(first, letter_of(1, calls=[dump_call(call)]))
        assert (await desk.receive(second, letter_of(1)))["answers"] == [["target main", 1]]

    lived(story)


@pytest.mark.parametrize("others", [0, 3])
def test_a_worker_that_never_answered_waits_for_a_target_that_answered_others(others):
    async def story() -> None:
        config = target_of(2, retries=0)
        room = room_of(config)
        room.availability.note_others(others)
        gone = TargetError("agentRequestFailed", "nobody there", retryable=True, status=503)
        outcomes, looks = [gone, Reply(text="said")], [gone, gone, None]

        async def attempt(number: int) -> Reply | TargetError:
            return outcomes.pop(0)

        async def probe() -> TargetError | None:
            return looks.pop(0)

        asked = room.availability.ask(attempt, probe, lambda wait: None)
        if others:
            assert (await asked)[0].text == "said" and room.availability.closed is None
        else:
            with pytest.raises(Unavailable, match="answered no question"):
                await asked

    lived(story)


@pytest.mark.parametrize("news", [{"recalled": [1]}, {"stopping": True}])
async def test_a_worker_begins_nothing_more_of_what_is_wanted_back_or_of_a_run_that_stops(news):
    session = WorkerSession("a worker")
    holding = asyncio.create_task(session.hold(1))
    while not session.held:
        await asyncio.sleep(0)
    sink = ShardSink(session, session._shards[1])
    assert await sink.may_begin(5) and not sink.stopping
    await session.exchange({"number": 1, "patience": 0.0, "gather": 0.0, **news})
    assert not await sink.may_begin(6) and sink.stopping
    session.abandon()
    with pytest.raises(asyncio.CancelledError):
        await holding
