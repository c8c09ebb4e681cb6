"""The head of the results: what has which place, what is left out, and totals that go on between two counts."""

import asyncio
import re
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.compare.test_baseline import Store
from tests.tui.comparisons import passes
from tui_evals.compare.baseline import AgainstBaseline
from tui_evals.figures import single_answers
from tui_evals.present.columns import cell_width
from tui_evals.store.records import AnswerRow, RunRow, Totals
from tui_evals.store.writer import Writer
from tui_evals.tui.results.table import BaselineMeter, RunCounter
from tui_evals.tui.results.totals import RunNumbers, totals_rows
from tui_evals.tui.watch import RunCount, StoreChange, Watch

NOW = 1_000_000.0


def a_run(**given):
    fields = {
        "id": 1,
        "key": "k3fa9z",
        "name": "nightly",
        "suite": "",
        "source": "evals.json",
        "snapshot": "",
        "status": "running",
        "control": "",
        "targets": ("demo",),
        "prompts": ("",),
        "tags": (),
        "parent": None,
        "created": NOW - 100,
        "started": NOW - 100,
        "finished": None,
        "total": 1000,
        "config": {},
        "note": "",
        "pid": 1,
        "host": "h",
        "heartbeat": NOW - 1,
        "scoring_pass": 1,
    }
    return RunRow(**{**fields, **given})


def some(**given):
    fields = dict.fromkeys(
        ("pending", "running", "answered", "passed", "failed", "partial", "errored", "input_tokens", "output_tokens"), 0
    )
    fields = {"total": 1000, "cost": 0.0, "unpriced": 0, **fields, **given}
    return Totals(**fields, rated=single_answers(fields["passed"], fields["passed"] + fields["failed"]))


def an_answer(number, status="pass", seq=0, **given):
    fields = {
        "id": number,
        "run": 1,
        "seq": seq,
        "pos": number - 1,
        "cell": number,
        "item": number - 1,
        "turn": 0,
        "prompt": 0,
        "target": 0,
        "repeat": 0,
        "name": f"#{number}",
        "category": "",
        "status": status,
        "score": 100.0,
        "input_tokens": 10,
        "output_tokens": 5,
        "cost": 0.25,
        "latency_ms": 10.0,
        "attempts": 1,
        "from_cache": False,
        "scripted": False,
        "started": 1.0,
        "code": None,
        "preview": "yes",
    }
    return AnswerRow(**{**fields, **given})


def text(row):
    return "".join(piece.text for piece in row.pieces)


def lines(run, totals, rate=None, width=200, **known):
    numbers = RunNumbers(totals, rate=rate, **known)
    return [text(row).rstrip() for row in totals_rows(run, numbers, NOW, width)]


def budgeted(**given):
    return a_run(config={"terms": {"max_cost": 2.0}}, **given)


def against(broken=0, fixed=0, **given):
    return AgainstBaseline(
        a_run(id=2, name="nightly-12", status="finished"), columns={(0, 0): passes(broken, fixed, **given)}
    )


SOME = some(passed=300, failed=80, errored=12, partial=20, running=8, answered=3, pending=577, cost=0.41)


def test_a_run_that_goes_on_says_how_far_it_is_how_fast_when_it_will_be_over_and_what_of_which_budget_it_cost():
    first, second = lines(budgeted(), SOME, 12.34)
    assert re.fullmatch(
        r"▸ running 412/1,000 · 12\.3/s · 48 s left +\$0\.410 of \$2\.00 +8 in flight · waiting 577", first
    )
    assert second == "demo  78.9 % (75–83)  ✓ 300 pass  ✗ 80 fail  ! 12 error  ◐ 20 partial  … 3 answered"


def test_at_80_columns_the_same_has_the_same_places_in_shorter_words():
    first, second = lines(budgeted(), SOME, 12.34, 76, against=against(10, 40, items=300))
    assert re.fullmatch(r"▸ running 412/1,000 · 12\.3/s · 48 s left +\$0\.410 of \$2\.00 +waiting 577", first)
    assert second == "demo  78.9 % (75–83)  +10, better (p < 0.001)  ✓ 300  ✗ 80  ! 12  ◐ 20  … 3"
    later = some(passed=320, failed=80, errored=12, partial=20, running=8, pending=560, cost=1.2)
    again = lines(budgeted(), later, None, 76)[0]
    assert again.index("$") == first.index("$") and again.endswith("waiting 560")


@pytest.mark.parametrize(
    ("names", "told"),
    [
        (("assistant-of-the-shop-one", "assistant-of-the-shop-two"), ("one", "two")),
        (("odd", "odd"), ("odd", "odd (2)")),
    ],
)
def test_targets_whose_names_begin_alike_or_are_the_same_are_told_apart(names, told):
    """Both lines said "assistant-o…", or "odd"."""
    columns = {(0, number): some(passed=30 + number, total=60) for number in range(2)}
    lines_now = lines(a_run(targets=names), SOME, width=61, columns=columns)
    assert tuple(line.split("  ")[0] for line in lines_now[1:3]) == told


def test_a_long_cost_makes_room_for_what_was_interrupted():
    first, *_ = lines(budgeted(status="interrupted"), some(passed=147, pending=33, total=180, unpriced=141), None, 110)
    assert "cost unknown, 141 unpriced, limit $2.00" in first and first.endswith("  33 interrupted")


@pytest.mark.parametrize("width", [28, 34, 40, 60, 76, 120])
@pytest.mark.parametrize("status", ["running", "paused", "interrupted", "finished"])
def test_the_cost_and_the_progress_never_disappear(width, status):
    run = budgeted(status=status, name="n" * 90, targets=("a-very-long-name-of-a-target",))
    first, *_ = lines(run, some(passed=1, running=8, pending=991, cost=0.41), 12.0, width)
    assert "$0.410" in first and "1/1,000"[: max(width - 30, 0)] in first and cell_width(first) <= width


def test_what_differs_from_the_baseline_and_whether_that_could_be_chance_is_said_per_target():
    _, second = lines(a_run(), some(passed=27, failed=6, total=33), width=120, against=against(3, 7, items=33))
    assert "+12.1 pts on nightly-12, could be chance (p = 0.34)" in second
    _, second = lines(a_run(), some(passed=27, failed=6, total=33), width=120, against=against(12, 1, items=33))
    assert "-33.3 pts on nightly-12, worse (p = 0.003)" in second
    _, second = lines(a_run(), some(passed=27, failed=6), against=AgainstBaseline(a_run(), itself=True))
    assert "is the baseline" in second
    _, second = lines(a_run(), some(passed=27, failed=6), against=against(items=0))
    assert "nothing to compare with nightly-12" in second


def test_columns_have_a_line_each_and_those_there_is_no_room_for_are_counted():
    run = a_run(targets=tuple(f"model-{number}" for number in range(6)), total=600)
    targets = {(0, number): some(passed=10 * number, failed=50, total=100) for number in range(6)}
    every = some(passed=150, failed=300, total=600)
    known = RunNumbers(every, targets, against=against(3, 7))
    first, *rows = [text(row) for row in totals_rows(run, known, NOW, 100, 4)]
    assert "model" not in first and [row.split()[0] for row in rows] == ["model-0", "model-1", "model-2", "and"]
    assert len({row.index("✗") for row in rows[:3]}) == 1 and "and 3 more columns: tui-evals show k3fa9z" in rows[3]
    assert "pts on nightly-12" in rows[0] and "nightly-12" not in rows[1]
    assert len(totals_rows(run, known, NOW, 100, 6)) == 7


def test_what_did_not_happen_takes_no_room_but_pass_and_fail_always_stand():
    first, second = lines(a_run(), some(pending=1000))
    assert second == "demo  ✓ 0 pass  ✗ 0 fail" and "$0 " in first and first.endswith("waiting 1,000")


def test_money_holds_that_of_judges_and_names_it_and_calls_without_a_price():
    totals = some(pending=1000, cost=1.5, judge_cost=0.02, unpriced=3)
    assert "$1.52 and 3 unpriced  of it judges $0.0200" in lines(a_run(), totals)[0]


@pytest.mark.parametrize("given", [{"status": "paused"}, {"status": "finished", "finished": NOW}])
def test_only_a_run_that_runs_has_a_rate(given):
    first, _ = lines(a_run(**given), some(passed=1, pending=999), 5.0)
    assert "/s" not in first
    assert "left" not in first


def test_a_finished_run_says_how_long_it_took():
    first = lines(a_run(status="finished", finished=NOW), some(passed=1000))[0]
    assert first.startswith("■ finished 1,000/1,000 in 1m 40s  ")


def test_a_run_that_stopped_says_why_in_a_line_of_its_own_and_asks_nothing_any_more():
    stopped = a_run(status="interrupted", code="budget", message="the budget is spent")
    first, second, third = lines(stopped, some(passed=1, running=10, pending=989))
    assert first.startswith("! interrupted 1/1,000") and first.endswith("999 interrupted")
    assert "running" not in second and third == "stopped: the budget is spent"
    assert len(lines(a_run(), None)) == 2


@pytest.mark.parametrize(
    ("given", "stuck"),
    [
        ({"heartbeat": NOW - 31}, True),
        ({"heartbeat": NOW - 29}, False),
        ({"heartbeat": None}, False),
        ({"heartbeat": NOW - 99, "status": "finished"}, False),
        ({"heartbeat": NOW - 99, "status": "paused"}, False),
    ],
)
def test_a_run_that_is_silent_for_half_a_minute_may_be_stuck(given, stuck):
    assert any("stuck? silent for" in line for line in lines(a_run(**given), some())) is stuck


def test_a_stop_that_was_asked_for_shows_before_it_is_obeyed():
    assert lines(a_run(control="stop"), some())[0].startswith("▸ stopping")
    assert lines(a_run(control="pause", status="paused"), some())[0].startswith("‖ paused")


def test_before_the_first_count_nothing_is_claimed():
    assert lines(a_run(), None) == ["▸ running  1,000 answers", ""]


def test_a_run_without_answers_is_no_division_by_nothing():
    assert "0/0" in lines(a_run(total=0), some(total=0))[0]


@given(st.integers(38, 200), st.text(max_size=40), st.integers(0, 10**6), st.integers(0, 10**6))
def test_the_lines_never_exceed_the_width(width, name, passed, failed):
    totals = some(total=passed + failed + 5, passed=passed, failed=failed, running=5, cost=123.4, unpriced=9)
    run = budgeted(targets=(name,))
    for row in totals_rows(run, RunNumbers(totals, rate=33.3, against=against(3, 9)), NOW, width):
        assert cell_width(text(row)) <= width


# -- counting


class Held:
    """A watch whose counts can be held back."""

    def __init__(self):
        self.run, self.found, self.taken = a_run(), None, []
        self.totals, self.columns = some(pending=1000), {}

    def count(self):
        return self.found

    def counted(self, found):
        self.taken.append(found)
        return True


async def test_counts_come_one_at_a_time_and_take_at_most_a_four_hundredth_of_the_time(monkeypatch):
    watch, clock = Held(), [NOW]
    watch.found = RunCount(1, some(pending=1000), (), {}, False, False)
    counting = RunCounter(watch, lambda: clock[0])
    ticks = iter([0.0, 0.05])
    monkeypatch.setattr("tui_evals.tui.results.table.time.perf_counter", lambda: next(ticks))
    assert counting.due()
    work = counting.count()
    assert await work
    assert not counting.due()  # nothing changed
    counting.note(StoreChange(rows=[an_answer(1, seq=1)]))
    assert not counting.due()
    clock[0] += 19.9
    assert not counting.due()
    clock[0] += 0.2
    assert counting.due()


async def test_no_count_begins_while_one_is_under_way():
    watch, gate = Held(), threading.Event()
    watch.count = lambda: gate.wait(60) and None
    counting = RunCounter(watch, lambda: NOW)
    work = asyncio.create_task(counting.count())
    await asyncio.sleep(0)
    counting.soon()
    assert not counting.due()
    gate.set()
    assert not await work


async def test_a_run_that_is_over_is_counted_at_once_and_a_count_of_another_run_is_not_taken():
    watch = Held()
    watch.found = RunCount(1, some(), (), {}, False, False)
    counting = RunCounter(watch, lambda: NOW)
    assert await counting.count()
    counting.note(StoreChange(run=True))
    assert counting.due()
    watch.found = RunCount(2, some(), (), {}, False, False)
    assert not await counting.count()
    assert len(watch.taken) == 1
    watch.found = None
    assert not await counting.count()


async def test_a_count_that_fails_ends_the_wait_for_it():
    watch = Held()
    watch.count = lambda: 1 / 0
    counting = RunCounter(watch, lambda: NOW)
    with pytest.raises(ZeroDivisionError):
        await counting.count()
    counting.soon()
    assert counting.due()


def test_the_latest_is_the_last_that_became_final():
    counting = RunCounter(Held(), lambda: NOW)
    counting.note(StoreChange(rows=[an_answer(4, seq=1), an_answer(5, seq=2), an_answer(6, "running", seq=3)]))
    counting.note(StoreChange(rows=[an_answer(7, "running", seq=4)]))
    assert counting.latest == 5


async def test_a_run_is_compared_with_its_baseline_again_when_something_changed_and_seldom(tmp_path):
    store, clock = Store(tmp_path), [NOW]
    before, run = await store.run("nightly-12", one="pffff"), await store.run(one="pp...")
    store.baseline(before)
    watch = Watch(store.path)
    watch.open_run(run.id)
    watch.poll()
    meter = BaselineMeter(watch, tmp_path, lambda: clock[0])
    assert meter.due()
    await meter.measure()
    assert meter.against.columns[0, 0].items == 2 and not meter.due()
    clock[0] += 100
    assert not meter.due()  # nothing changed
    with Writer(store.path) as writer:
        await store.judge(writer, 8, "p")
    clock[0] -= 99
    meter.note(watch.poll())
    assert not meter.due()
    clock[0] += 99
    assert meter.due()
    await meter.measure()
    assert (meter.against.columns[0, 0].items, meter.against.columns[0, 0].difference) == (3, pytest.approx(2 / 3))
    watch.close()
