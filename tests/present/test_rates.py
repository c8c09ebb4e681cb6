"""Each rate names its items and its column, wherever a run is shown."""

from __future__ import annotations

import asyncio
import json
import re
import time

import pytest

from tests.cli.past import Said, past
from tests.reports.written import report_text
from tests.store.helpers import cells, judged, new_run, said
from tui_evals.store.database import open_store
from tui_evals.store.reader import Reader
from tui_evals.store.records import CallRecord
from tui_evals.store.writer import Writer
from tui_evals.tui.results.totals import RunNumbers, totals_rows
from tui_evals.tui.rows import row_text
from tui_evals.tui.runs.rows import RunHistory, run_columns, run_line
from tui_evals.tui.watch import Watch


def status(good):
    return "pass" if good else "fail"


def often(items, repeats):
    """Every other item passes, as often as it is asked."""
    return [Said(f"t{n}", status(n % 2), repeat=again) for n in range(items) for again in range(repeats)]


def test_repeats_do_not_narrow_the_interval_of_a_rate(project, shell):
    once, again = past(*often(10, 1)), past(*often(10, 20))
    shown = [shell("show", run.key).out for run in (once, again)]
    ends = [re.search(r"95 % interval ([\d.]+ to [\d.]+)", text)[1] for text in shown]
    assert ends == ["21.7 to 78.3"] * 2
    assert "100 of 200 pass (50.0 % of 10 items, 20 answers each, 95 % interval" in shown[1]
    with Reader(project / ".evals" / "evals.db") as reader:
        for kind in ("html", "md", "junit"):
            text = report_text(kind, reader, [reader.run(again.id)])
            assert "21.7 to 78.3" in text and "10 items" in text, kind
    head = workbench_head(project, again.id)
    assert "50.0 % of 10 items (22–78)" in head


def test_turns_of_a_conversation_are_one_proof(project, shell):
    past(*(Said(f"t{n}", status(n % 2), turn=turn) for n in range(10) for turn in range(10)))
    assert "95 % interval 21.7 to 78.3" in shell("show", "last").out


def test_a_mean_counts_items_not_repeats(project, shell):
    def scored(n, again):
        return Said(f"t{n}", "scored", repeat=again, scores=[judged("Mood", n / 10, result=None, threshold=None)])

    for repeats in (1, 20):
        past(*(scored(n, again) for n in range(10) for again in range(repeats)))
    first, second = (
        re.search(r"95 % interval ([\d.]+) to ([\d.]+)", shell("show", key).out).groups()
        for key in reversed([run["key"] for run in json.loads(shell("runs", "--json").out)])
    )
    assert list(map(float, first)) == pytest.approx(list(map(float, second)), abs=0.002)


def grid():
    """Two prompts: one good, one that fails everything."""
    good = [Said(f"t{n}", status(n < 6), prompt=0) for n in range(7)]
    return past(*good, *(Said(f"t{n}", "fail", prompt=1) for n in range(7)), prompts=("short", "long"))


def test_a_grid_has_a_rate_for_each_prompt_and_none_for_all(project, shell):
    run = grid()
    for text in (shell("show", run.key).out, shell("show", run.key, "--by", "prompt").out):
        assert "6 of 7 pass (85.7 %" in text and "0 of 7 pass (0.0 %" in text and "42.9" not in text
    assert "demo · short: 6 of 7 pass" in shell("show", run.key).out
    assert "all 2 columns: 6 of 14 pass · " in shell("show", run.key).out
    (listed,) = json.loads(shell("runs", "--json").out)
    assert listed["totals"]["pass_rate"] is None
    assert [round(one["pass_rate"]["value"], 3) for one in listed["columns"]] == [0.857, 0.0]
    with Reader(project / ".evals" / "evals.db") as reader:
        for kind in ("html", "md", "junit", "json"):
            assert "42.9" not in report_text(kind, reader, [reader.run(run.id)]), kind
    head = workbench_head(project, run.id)
    assert "85.7 %" in head and "0.0 %" in head and "42.9" not in head
    assert "0–86 %" in pane_6(project)


def workbench_head(project, run):
    """The lines above the results, without any count beside the look at the store."""
    watch = Watch(project / ".evals" / "evals.db")
    try:
        row = watch.open_run(run)
        return "\n".join(row_text(line) for line in totals_rows(row, numbers(watch), time.time(), 200))
    finally:
        watch.close()


def numbers(watch):
    return RunNumbers(watch.totals, watch.columns if len(watch.columns) > 1 else {})


def pane_6(project):
    runs = RunHistory(project / ".evals" / "evals.db", project).load().listed
    shape = run_columns(runs, 158, time.time())
    return "\n".join(row_text(run_line(one, shape, False, False)) for one in runs)


def test_the_list_of_runs_says_of_which_answers_a_rate_is(project):
    answers = [Said(f"t{n}", status(n < 4)) for n in range(9)]
    past(*answers, Said("lost", "error", None), Said("odd", "partial"))
    line = pane_6(project)
    assert "44 %" in line and "4/9 pass, 2 not judged" in line


@pytest.fixture
def live(project):
    path = open_store(project / ".evals" / "evals.db")
    with Writer(path) as writer, Reader(path) as reader:
        run = writer.plan(new_run(), cells(4))
        writer.run_status(run.id, "running", started=time.time())
        watch = Watch(path)
        watch.open_run(run.id)
        yield writer, watch, list(reader.ids(run.id)), run
        watch.close()


def judge_call(answer, cost):
    return CallRecord(
        answer=answer,
        kind="judge",
        target="j",
        attempt=1,
        started=1.0,
        latency_ms=2.0,
        cost=cost,
        code=None,
        from_cache=False,
    )


def test_what_judges_cost_shows_with_the_next_look_at_the_store(live):
    writer, watch, ids, run = live

    async def answer():
        await writer.answered(ids[0], said(cost=0.25), "answered")
        writer.call(judge_call(ids[0], 0.5), run.id)
        await writer.scored(ids[0], 1, [judged()], "pass", 100.0)

    asyncio.run(answer())
    watch.poll()
    assert watch.totals.cost + watch.totals.judge_cost == 0.75
    writer.call(judge_call(ids[1], None), run.id)
    writer.flush()
    watch.poll()
    head = row_text(totals_rows(watch.run, numbers(watch), time.time(), 200)[0])
    assert "$0.750 and 1 unpriced" in head and "of it judges $0.500" in head


def test_totals_stay_those_of_the_pass_that_counts_while_another_is_under_way(live):
    writer, watch, ids, run = live

    async def judge(number, verdict):
        for answer in ids:
            if number == 1:
                await writer.answered(answer, said(), "answered")
            await writer.scored(answer, number, [judged()], verdict, 0.0)
            watch.poll()
            yield watch.totals

    async def both():
        async for _ in judge(1, "pass"):
            pass
        number = writer.begin_pass(run.id, {})
        async for totals in judge(number, "fail"):
            assert (totals.total, totals.passed, totals.failed) == (4, 4, 0)
        writer.count_pass(run.id)

    asyncio.run(both())
    watch.poll()
    assert (watch.totals.total, watch.totals.passed, watch.totals.failed) == (4, 0, 4)
    assert "4/4" in row_text(totals_rows(watch.run, numbers(watch), time.time(), 200)[0])


def test_what_a_function_of_ones_own_costs_is_unknown_until_it_has_a_price(project, shell):
    (project / "mine.py").write_text("def answer(prompt):\n    return 'yes'\n")
    (project / "evals.json").write_text(json.dumps({"items": [{"prompt": "?", "expected_response": "yes"}]}))
    config = '[targets.own]\nmodel = "python:mine:answer"\n'
    for price, words in (("", "cost unknown, 1 unpriced"), ("price = { per_call = 0 }\n", "$0")):
        (project / ".evals").mkdir(exist_ok=True)
        (project / ".evals" / "config.toml").write_text(config + price)
        done = shell("run", "evals.json", "-t", "own", "-e", "ExactMatch", "--trust", "--no-cache")
        assert f" · {words}\n" in done.out, done


def test_a_clock_that_jumps_makes_no_run_longer(project, shell, monkeypatch):
    from tui_evals.runs import engine

    class Jumping:
        monotonic, asked = staticmethod(time.monotonic), 0

        def time(self):
            self.asked += 1
            return time.time() + 7_200 * (self.asked > 1)

    monkeypatch.setattr(engine, "time", Jumping())
    (project / "evals.json").write_text(json.dumps({"items": [{"prompt": "?", "expected_response": "yes"}]}))
    shell("run", "evals.json", "-t", "demo", "-e", "ExactMatch", "--quiet")
    (run,) = json.loads(shell("runs", "--json").out)
    assert 0 <= run["finished"] - run["started"] < 600
