"""A long wait is shown, can be cut, and ends the run where it is longer than the target may wait."""

import asyncio
import json
import re
import signal
import time

import pytest

from tests.runs.conftest import until
from tests.tui.story import at_the_workbench
from tui_evals.runs.executors import WaitCut
from tui_evals.runs.executors.cluster.worker_limits import LeasedGate, TargetLease
from tui_evals.runs.limits import Gate
from tui_evals.targets.base import TargetConfig

LONG = 200.0
"""Seconds of a pause that nobody may have to sit out."""
SOON = 20.0
"""Seconds in which something ends that does not sit it out, however busy the machine is."""


def waiting(project):
    """The wait of the run that was begun last, once there is one."""
    found = []

    def there_is() -> bool:
        if not project.database.exists():
            return False
        with project.reader() as reader:
            found[:] = [run.waiting for run in reader.runs() if run.waiting]
        return bool(found)

    until(there_is)
    return found[0]


@pytest.mark.parametrize("way", [pytest.param(signal.SIGTERM, marks=pytest.mark.nightly), "stop"])
def test_a_wait_is_shown_as_an_event_and_is_cut_by_whoever_stops_the_run(project, way):
    project.server.behave(always="429", retry_after=LONG, latency=0.3)
    project.configure(concurrency=3)
    project.dataset(6)
    process = project.start("run", "data.json", "--target", "main", "--json")
    assert process.stdout is not None
    (event,) = next(found for line in process.stdout if (found := [json.loads(line)])[0]["event"] == "wait")
    assert event["message"] == "rate limited, next try in 3 min, attempt 2 of 10"
    assert (event["target"], event["code"], event["attempt"]) == ("main", "agentRateLimited", 2)
    with project.reader() as reader:
        run = reader.find_run("last")
        until(lambda: reader.totals(run.id).running == 0)  # what waits is not in flight
    assert event["message"] in project.do("show", "last") and event["message"] in project.do("runs")
    stopped = time.monotonic()
    if way == "stop":
        project.do("stop", "last")
    else:
        process.send_signal(way)
    _, err = process.communicate(timeout=SOON)
    assert time.monotonic() - stopped < SOON
    assert process.returncode == 130, err
    project.server.behave()
    project.do("resume", "last", "--quiet")
    assert [row[2] for row in project.table()] == ["pass"] * 6


@pytest.mark.nightly
def test_a_wait_stands_in_the_line(project, monkeypatch):
    monkeypatch.setattr("tui_evals.cli.run.watching._PLAIN_EVERY", 0.0)
    project.server.behave(first=["429"], retry_after=2.2)
    project.dataset(1)
    said = project.do("run", "data.json", "--target", "main")
    assert re.search(r": 0/1 .* · rate limited, next try in [123] s, attempt 2 of 10$", said, re.MULTILINE)


@pytest.mark.nightly
async def test_a_wait_stands_in_the_workbench_and_x_cuts_it(project):
    project.server.behave(always="503", retry_after=LONG)
    project.configure(f'[targets.other]\nmodel = "openai/other"\nbase_url = "{project.server.url}"')
    project.dataset(4)
    await asyncio.to_thread(project.do, "run", "data.json", "--target", "main,other", "--detach")
    await asyncio.to_thread(waiting, project)
    async with at_the_workbench(project.folder, dataset="data.json", run="last", size=(80, 24)) as person:
        await person.press("4")
        await person.sees("call failed, next try in 3 min, attempt 2 of 4", SOON)
        await person.press("x")
        await person.sees("│stopped before the end", SOON)


@pytest.mark.parametrize("kind", ["429", "503"])
def test_a_pause_longer_than_the_target_may_wait_ends_the_run_which_can_be_resumed(project, kind):
    project.server.behave(first=["answer"], always=kind, retry_after=3600)
    project.configure(concurrency=1)
    project.dataset(5, lambda number: "question 0" if number == 0 else f"question {number} [[{kind}]]")
    said = project.do("run", "data.json", "--target", "main", code=4)
    reason = "asks for a pause of 3,600 s, and the target's max_wait is 300 s: resume later, or raise max_wait"
    assert reason in said and "resume" in said
    assert project.server.counts()["met"][kind] == 1
    assert reason in project.do("runs") + project.do("show", "last")
    with project.reader() as reader:
        run = reader.find_run("last")
        assert (run.status, run.code, reader.totals(run.id).errored) == ("interrupted", "limited", 0)
    project.server.behave(markers=False)
    project.do("resume", "last", "--quiet")
    assert {row[2] for row in project.table()} == {"pass"}


def test_retries_max_wait_and_timeout_are_settings_of_a_target(project):
    project.dataset(1, "question {} [[500]]".format)
    for retries in (0, 2):
        project.server.reset()
        project.configure(retries=retries, max_wait=0.01)
        project.do("run", "data.json", "--target", "main", "--quiet", "--no-cache", code=None)
        assert project.server.counts()["met"]["500"] == retries + 1
    project.configure(retries=-1)
    assert "targets.main.retries should be greater than or equal to 0" in project.do("targets", code=3)
    project.configure(max_wait="soon")
    assert "targets.main.max_wait should be a valid number" in project.do("targets", code=3)
    said = project.do("help", "targets")
    assert all(f"\n    {setting} = " in said for setting in ("timeout", "retries", "max_wait", "max_outage"))


async def test_a_stop_cuts_those_who_wait_for_a_pause_and_lets_in_those_who_wait_for_a_place():
    gate = Gate(TargetConfig(name="t", model="demo", concurrency=2))
    await gate.enter()
    await gate.enter()
    placed = asyncio.create_task(gate.enter())
    await asyncio.sleep(0)
    gate.halt()
    gate.leave()
    await placed
    gate.pushed_back(LONG)
    for call in (gate.enter(), gate.rest(LONG)):
        with pytest.raises(WaitCut):
            await call


async def test_a_stop_cuts_the_waits_of_a_worker_of_a_cluster():
    lease = TargetLease(lambda: None)
    lease.set(4, 4, None, 0.0)
    target, judge = (LeasedGate(lease, takes_place=takes) for takes in (False, True))
    target.pushed_back(LONG)
    waits = [asyncio.create_task(call) for call in (target.enter(), judge.enter(), target.rest(LONG))]
    await asyncio.sleep(0)
    lease.halt()
    assert all(isinstance(ended, WaitCut) for ended in await asyncio.gather(*waits, return_exceptions=True))
    assert (lease.in_use, lease.called) == (0, 0)
