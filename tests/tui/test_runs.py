"""Pane 6: the list of runs, what is counted for it and how often, and what can be done with a run."""

import asyncio
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from textual.app import App

from tests.store.passes import new_pass
from tests.tui.stored_runs import HOSTILE, add_run, answer, drawn, fresh, text_of, until
from tui_evals import tui
from tui_evals.compare.trend import draw_bars
from tui_evals.figures import single_answers
from tui_evals.present.columns import cell_width
from tui_evals.store.connection import hold, run_lock
from tui_evals.store.reader import Reader
from tui_evals.store.records import RunRow, Totals
from tui_evals.store.writer import Writer
from tui_evals.text.measures import age
from tui_evals.text.safe import safe_line
from tui_evals.tui.compare.screen import CompareScreen
from tui_evals.tui.runs import pane as run_loading
from tui_evals.tui.runs import rows
from tui_evals.tui.runs.pane import RunsPane, tags_of, why_no_baseline
from tui_evals.tui.runs.rows import (
    ListedRun,
    RunHistory,
    RunList,
    RunRows,
    about_lines,
    choose_runs,
    empty_lines,
    run_columns,
    run_line,
)
from tui_evals.tui.runs.run_status import told_ending
from tui_evals.tui.watch import Watch
from tui_evals.tui.widgets.dialogs import Ask, Confirm
from tui_evals.tui.workspace import StoreWriter, Workspace

STYLES = Path(tui.__file__).parent / "styles" / "app.tcss"
PASS, FAIL = ("pass", "yes"), ("fail", "no")


def run(id=1, **given):
    fields = dict.fromkeys(RunRow.__dataclass_fields__, "")
    fields |= {"status": "finished", "targets": ("demo",), "prompts": ("",), "tags": (), "parent": None, "created": 0.0}
    fields |= {"started": None, "finished": None, "config": {}}
    return RunRow(**{**fields, "id": id, "key": f"key{id}", "name": f"run {id}", "total": 10, **given})


def totals(passed=7, failed=3, **given):
    fields = dict.fromkeys(Totals.__dataclass_fields__, 0)
    rated = single_answers(passed, passed + failed)
    return Totals(**{**fields, "passed": passed, "failed": failed, "total": passed + failed, "rated": rated, **given})


def past(id=1, *, passed=7, failed=3, **given):
    return ListedRun(
        run(id, **given), totals(passed, failed), rates=(passed / (passed + failed),) if passed + failed else ()
    )


# -- rows


def told(one, width, now=0.0, shown=False, marked=False):
    """The line of a run that is alone in the list."""
    return text_of([run_line(one, run_columns([one], width, now), shown, marked)])[0]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-5, "0 s"),
        (59.9, "59 s"),
        (60, "1 min"),
        (3_599, "59 min"),
        (3_600, "1 h"),
        (86_400, "1 d"),
        (40 * 86_400, "40 d"),
        (200 * 86_400, "200 d"),
        (800 * 86_400, "2 y"),
    ],
)
def test_ages_are_in_one_unit(seconds, text):
    assert age(seconds) == text


def test_rates_become_bars_from_low_to_high():
    assert draw_bars([0.0, 0.5, 0.99, 1.0]) == "▁▅██"
    assert draw_bars([]) == ""


def test_money_says_when_not_all_of_it_is_known():
    for numbers, cost in (
        (None, "…"),
        (totals(), "$0"),
        (totals(cost=2.0, judge_cost=0.5), "$2.50"),
        (totals(cost=0.0123, unpriced=1), "$0.0123+"),
    ):
        assert cost in told(ListedRun(run(), numbers), 110).split()


def test_runs_are_grouped_by_suite_and_else_by_file_under_the_trend_of_what_finished():
    shelf = RunList(
        (
            past(5, suite="nightly", passed=0, failed=4),
            past(4, source="a/b/evals.json"),
            past(3, suite="nightly", status="interrupted"),
            past(2, suite="nightly", passed=4, failed=0),
            past(1, source="a\\b\\evals.json"),
        )
    )
    rows = RunRows(shelf, 60, None, ())
    assert [row.key for row in rows] == [None, 5, 3, 2, None, 4, 1]
    headers = [text.split() for text, row in zip(text_of(rows), rows, strict=True) if row.key is None]
    assert headers == [["nightly", "█▁"], ["evals.json", "▆▆"]]
    assert [rows.find(key) for key in (5, 1, 9, None)] == [1, 6, None, None]


def test_only_the_last_twelve_runs_make_the_trend():
    runs = (past(n, suite="s", passed=int(n > 3), failed=int(n <= 3)) for n in range(20, 0, -1))
    shelf = RunList(tuple(runs))
    assert text_of(RunRows(shelf, 60, None, ()))[0].split() == ["s", "█" * 12]


@pytest.mark.parametrize("width", [20, 37, 75, 110, 158])
def test_a_row_fits_its_width_whatever_the_run_is_called(width):
    for one in (past(name=HOSTILE, tags=(HOSTILE,), targets=(HOSTILE,), note=HOSTILE, parent=3), past()):
        line = told(one, width, 60.0, True, True)
        assert cell_width(safe_line(line)) <= max(width, 29)
        assert "\x1b" not in safe_line(line)


def test_a_narrow_row_says_how_it_stands_in_a_word_and_a_wide_one_says_more():
    one = ListedRun(run(status="interrupted", tags=("slow",), parent=1, note="x"), totals(cost=0.5), rates=(0.7,))
    narrow, wide = (told(one, width, 180.0, True, True) for width in (44, 110))
    assert narrow.startswith("▪›3 min key1 run 1")
    assert "! interrupted" in narrow and "70 %" in narrow and "↳✎" in narrow
    assert "7/10 pass" in wide and "$0.500" in wide and "#slow demo" in wide


def test_a_run_that_stopped_says_why_beside_its_status_and_in_full_below_the_list():
    why = "the next call could cost $0.0700 and $0.0300 of $0.100 are left; resume with a larger --max-cost"
    one = ListedRun(run(status="interrupted", code="budget", message=why, tags=("slow",)), totals(cost=0.07))
    narrow, wide, widest = (told(one, width) for width in (50, 110, 300))
    assert "the next" not in narrow and "the next call could cost" in wide and "#slow demo" in wide
    assert why in widest and "#slow demo" in widest
    assert why in " ".join(text_of(about_lines(one, "", 40)))


async def test_a_run_that_is_over_is_told_with_what_came_of_it_or_why_it_stopped(tmp_path):
    path = fresh(tmp_path)
    done, cut = (
        await add_run(path, [PASS, FAIL], name="done"),
        await add_run(path, [PASS, None], name="cut", status="interrupted"),
    )
    with Reader(path) as reader:
        done, cut = reader.run(done.id), reader.run(cut.id)
    spent = replace(cut, message="the budget is spent", code="budget")
    asked = replace(cut, message="stopped before the end", code="asked")
    assert [told_ending(path, one) for one in (done, spent, asked)] == [
        ("done is finished: 1 of 2 passed; R asks the other 1 again; rests on all 2 answers", True),
        ("cut stopped: the budget is spent; p resumes it", False),
        ("cut stopped with 1 of 2 answered; p resumes it", False),
    ]


def test_totals_that_are_not_counted_yet_are_left_open_and_no_rate_is_no_zero():
    assert "…" in told(ListedRun(run(), None), 60)
    assert "0 %" not in told(past(passed=0, failed=0), 60)


def test_a_run_that_goes_on_says_how_far_it_is():
    one = ListedRun(run(status="running"), totals(2, 1, total=10, pending=6, running=1))
    assert "3/10 done" in told(one, 80)


def test_the_lines_about_a_run_hold_all_that_its_row_may_cut():
    one = past(tags=("slow", "ci"), note="mind the gap", targets=("small", "large"))
    text = " ".join(line.rstrip() for line in text_of(about_lines(one, "run 0", 30)))
    for part in ("run 1", "key1", "small · large", "✓ 7 ✗ 3", "#slow #ci", "↳ run 0", "✎ mind the gap"):
        assert part in text
    assert about_lines(None, "", 30) == []


def test_an_empty_list_says_what_belongs_there():
    assert "run the whole dataset" in "\n".join(text_of(empty_lines("", 80)))
    assert len(empty_lines("", 80, any_open=False)) == 1
    assert "nightly" in "\n".join(text_of(empty_lines("nightly", 80)))


async def test_a_run_of_some_items_is_a_hollow_point_in_the_header_of_its_suite(tmp_path):
    path = fresh(tmp_path)
    await add_run(path, [PASS] * 4)
    await add_run(path, [FAIL, None, None, None], config={"only": [0]})
    runs = RunHistory(path, tmp_path).load()
    assert "█○" in text_of(RunRows(runs, 80, None, ()))[0]


def test_tags_are_words_with_spaces_or_commas_between_them():
    assert tags_of(" #slow, ci  slow,,##x ") == ("slow", "ci", "x")
    assert tags_of("  ") == ()


def test_what_is_compared_is_what_is_marked_else_what_it_came_from():
    one, two, three = run(1), run(2), run(3)
    others = None, one, [three, two]
    assert choose_runs(three, [two, one], *others) == ((one, two), "the 2 marked runs")
    assert choose_runs(one, [three, one, two], *others).runs == (one, two, three)
    assert choose_runs(one, [three], *others) == ((one, three), "key1 and the marked run, key3")
    assert choose_runs(three, [three], *others) == ((one, three), "key3 and its parent, key1")
    assert choose_runs(three, [], None, None, [three, two]) == ((two, three), "key3 and the run before, key2")
    assert choose_runs(one, [], three, two, []) == ((three, one), "key1 and its baseline, key3")
    assert choose_runs(one, [], None, None, [one]) is None
    assert choose_runs(None, [one], *others) is None


def test_the_other_runs_are_those_of_the_same_dataset():
    runs = (ListedRun(run(number), totals(), dataset) for number, dataset in ((4, "a"), (3, "b"), (2, "a"), (1, "b")))
    shelf = RunList(tuple(runs))
    assert [[one.id for one in shelf.others(number)] for number in (4, 3, 9)] == [[4, 2], [3, 1], []]


def test_the_baseline_of_a_dataset_holds_for_all_its_runs():
    shelf = RunList((ListedRun(run(2), totals(), "a"), ListedRun(run(1), totals(), "b")), baselines=(("a", 9),))
    assert [shelf.baseline_of(number) for number in (2, 1, 5)] == [9, None, None]


@pytest.mark.parametrize(("width", "says"), [(37, "⚑ "), (80, "⚑ baseline"), (120, "⚑ baseline")])
def test_a_baseline_is_a_sign_and_a_word_where_there_is_room(width, says):
    one = ListedRun(run(name="the one that went out"), totals(), "evals/a.json", True)
    assert says in told(one, width)
    assert "⚑ baseline of evals/a.json" in "\n".join(text_of(about_lines(one, "", 60)))
    assert "⚑" not in told(past(), width)


@pytest.mark.parametrize(
    ("one", "why"),
    [
        (past(), None),
        (ListedRun(run(), None), None),
        (past(status="interrupted"), "is interrupted"),
        (past(passed=0, failed=0), "no answer that was judged"),
        (ListedRun(run(status="interrupted"), totals(), "a", True), None),
    ],
)
def test_only_a_run_that_is_finished_and_judged_can_be_a_baseline_and_any_can_be_taken_back(one, why):
    found = why_no_baseline(one)
    assert found is None if why is None else why in found


# -- counting


@pytest.fixture
def counted(monkeypatch):
    """How often each run was counted."""
    counts = Counter()
    real = Reader.totals

    def totals(self, number):
        counts[number] += 1
        return real(self, number)

    monkeypatch.setattr(Reader, "totals", totals)
    return counts


async def test_a_run_that_is_over_is_counted_once_for_each_scoring_pass(tmp_path, counted):
    path = fresh(tmp_path)
    for status in ("finished", "interrupted", "planned"):
        await add_run(path, [PASS, FAIL], status=status)
    shelves = RunHistory(path, path.parent.parent)
    first = shelves.load()
    assert [one.rate for one in first.listed] == [0.5] * 3
    assert first.counted and not first.more
    with Writer(path) as writer:
        writer.edit(1, name="other")
        assert [one.run.name for one in shelves.load().listed][-1] == "other"
        assert counted == {1: 1, 2: 1, 3: 1}
        new_pass(writer, 1, {})
        shelves.load()
        writer.heartbeat(1)
        writer.flush()
        shelves.load()
    assert counted == {1: 3, 2: 1, 3: 1}


async def test_a_live_run_is_counted_again_when_answers_came(tmp_path, counted):
    path = fresh(tmp_path)
    live = await add_run(path, [PASS, None], status="running")
    shelves = RunHistory(path, path.parent.parent, clock=lambda: 0.0)
    with hold(run_lock(path, live.key)), Writer(path) as writer:
        assert [one.live for one in shelves.load().listed] == [True]
        shelves.load()
        assert counted[live.id] == 1
        await answer(path, writer, live.id, [None, FAIL])
        (one,) = shelves.load().listed
        assert (counted[live.id], one.judged, one.rate) == (2, 2, 0.5)


async def test_a_live_run_that_takes_long_to_count_is_counted_seldom_and_at_once_when_it_is_over(tmp_path, counted):
    path = fresh(tmp_path)
    live = await add_run(path, [PASS, None], status="running")
    clock = iter([0.0, 0.0, 0.25, 1.0, 49.0, 49.0, 49.0])
    shelves = RunHistory(path, path.parent.parent, clock=lambda: next(clock))
    with hold(run_lock(path, live.key)), Writer(path) as writer:
        shelves.load()
        await answer(path, writer, live.id, [None, FAIL])
        assert [one.judged for one in shelves.load().listed] == [1]
        assert counted[live.id] == 1
    writer = Writer(path)
    with writer:
        writer.run_status(live.id, "finished")
    assert [one.judged for one in shelves.load().listed] == [2]
    assert counted[live.id] == 2


async def test_counting_gives_way_to_showing_and_goes_on_with_the_next_load(tmp_path, counted):
    path = fresh(tmp_path)
    for _ in range(3):
        await add_run(path, [PASS])
    steps = iter([0, 0, 1, 1, 2, 2, 3, 3, 3])
    shelves = RunHistory(path, path.parent.parent, clock=lambda: next(steps))
    assert [sum(one.totals is not None for one in shelves.load().listed) for _ in range(3)] == [1, 2, 3]
    assert counted == {1: 1, 2: 1, 3: 1}


async def test_runs_that_go_on_do_not_keep_others_from_being_counted(tmp_path, counted):
    path = fresh(tmp_path)
    await add_run(path, [PASS])
    live = await add_run(path, [PASS, None], status="running")
    steps = iter([0, 0, 1, 2, 2, 3])
    shelves = RunHistory(path, path.parent.parent, clock=lambda: next(steps))
    with hold(run_lock(path, live.key)), Writer(path) as writer:
        assert [one.judged for one in shelves.load().listed] == [1, 0]
        await answer(path, writer, live.id, [None, PASS])
        shelf = shelves.load()
    assert shelf.counted and [one.judged for one in shelf.listed] == [1, 1]


# -- the pane


class Bench(App):
    CSS_PATH = STYLES

    def __init__(self, path):
        super().__init__()
        self.watch = Watch(path)
        self.writer = StoreWriter(path, dict)
        self.pane = RunsPane(Workspace(path.parent.parent, path), self.watch, self.writer)
        self.said, self.opened = [], []

    def compose(self):
        yield self.pane

    def on_mount(self):
        self.pane.focus_lines()
        self.set_interval(0.02, self.look)

    def look(self):
        if pulse := self.watch.poll():
            self.pane.pulse(pulse)

    def on_status_message(self, message):
        self.said.append((message.kind, message.text))

    def on_open_run(self, message):
        self.opened.append(message.run)
        self.watch.open_run(message.run)
        self.pane.sync()

    def on_compare_runs(self, message):
        self.push_screen(CompareScreen(self.watch.database, message.runs, message.why))

    async def on_unmount(self):
        await self.writer.close()
        self.watch.close()

    @property
    def lines(self):
        return text_of(self.pane.lines.rows)

    @property
    def keys(self):
        return [row.key for row in self.pane.lines.rows if row.key is not None]


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """Looks at the store follow each other sooner than a person would want."""
    monkeypatch.setattr(run_loading, "_PACE", 0.02)


@pytest.fixture
async def path(tmp_path):
    """Three runs of a suite, the last one begun from the first, and one of another."""
    path = fresh(tmp_path)
    first = await add_run(path, [PASS, FAIL], suite="nightly", name="first")
    await add_run(path, [PASS, PASS], suite="nightly", name="second", tags=("slow",))
    await add_run(path, [PASS], source="other.json", name="other")
    await add_run(path, [FAIL, PASS], suite="nightly", name="third", parent=first.id)
    return path


async def opened(pilot, count=4):
    await until(pilot, lambda: len(pilot.app.keys) == count)


async def dialog(pilot, kind):
    await until(pilot, lambda: isinstance(pilot.app.screen, kind))


async def test_enter_puts_the_run_on_screen_and_marks_it(path):
    async with Bench(path).run_test(size=(60, 20)) as pilot:
        await opened(pilot)
        assert pilot.app.keys == [4, 2, 1, 3]
        assert pilot.app.pane.run_row().name == "third"
        await pilot.press("j", "enter")
        await until(pilot, lambda: pilot.app.opened == [2])
        assert [line[1] == "›" for line in pilot.app.lines] == [False, False, True, False, False, False]


@pytest.mark.nightly
async def test_a_run_is_renamed_tagged_and_noted(path):
    async with Bench(path).run_test(size=(60, 20)) as pilot:
        await opened(pilot)
        await pilot.press("n")
        await dialog(pilot, Ask)
        await pilot.press(*"!", "enter")
        await until(pilot, lambda: pilot.app.pane.run_row().name == "third!")
        await pilot.press("t")
        await dialog(pilot, Ask)
        await pilot.press(*"#a,b", "space", "c", "enter")
        await until(pilot, lambda: pilot.app.pane.run_row().tags == ("a", "b", "c"))
        await pilot.press("e")
        await dialog(pilot, Ask)
        await pilot.press(*"why", "enter")
        await until(pilot, lambda: pilot.app.pane.run_row().note == "why")
        await until(pilot, lambda: any("✎ why" in line for line in drawn(pilot.app.pane.about)))
        assert [kind for kind, _ in pilot.app.said] == ["info"] * 3


@pytest.mark.nightly
async def test_a_name_of_nothing_is_not_taken(path):
    async with Bench(path).run_test(size=(60, 20)) as pilot:
        await opened(pilot)
        await pilot.press("n")
        await dialog(pilot, Ask)
        await pilot.press(*["backspace"] * 5, "enter")
        await pilot.pause()
        assert isinstance(pilot.app.screen, Ask)
        await pilot.press("escape")
        await until(pilot, lambda: not isinstance(pilot.app.screen, Ask))
        assert pilot.app.pane.run_row().name == "third"


async def test_a_run_is_deleted_after_a_question_that_names_it(path):
    async with Bench(path).run_test(size=(60, 20)) as pilot:
        await opened(pilot)
        await pilot.press("D")
        await dialog(pilot, Confirm)
        asked = pilot.app.screen._text
        assert "third" in asked and "2 answers" in asked and pilot.app.pane.run_row().key in asked
        await pilot.press("enter")
        await until(pilot, lambda: not isinstance(pilot.app.screen, Confirm))
        assert len(pilot.app.keys) == 4
        await pilot.press("D")
        await dialog(pilot, Confirm)
        await pilot.press("y")
        await opened(pilot, 3)
        assert pilot.app.keys == [3, 2, 1]


async def test_a_run_that_is_being_executed_is_not_deleted(path):
    async with Bench(path).run_test(size=(60, 20)) as pilot:
        await opened(pilot)
        with hold(run_lock(path, pilot.app.pane.run_row().key)):
            await pilot.press("D")
            await dialog(pilot, Confirm)
            await pilot.press("y")
            await until(pilot, lambda: pilot.app.said)
        ((kind, text),) = pilot.app.said
        assert kind == "error" and "tui-evals stop" in text
        assert len(pilot.app.keys) == 4


@pytest.mark.story
async def test_the_parent_is_compared_else_the_run_before_else_what_is_marked(path):
    async with Bench(path).run_test(size=(60, 20)) as pilot:
        await opened(pilot)
        pane = pilot.app.pane

        def names():
            chosen = pane.chosen()
            return chosen and [one.name for one in chosen.runs]

        assert names() == ["first", "third"] and "its parent" in pane.chosen().why
        await pilot.press("j")
        assert names() == ["first", "second"] and "the run before" in pane.chosen().why
        await pilot.press("G")
        assert names() is None
        await pilot.press("equals_sign")
        await until(pilot, lambda: pilot.app.said)
        assert "space" in pilot.app.said[0][1]
        await pilot.press("g", "space")
        assert names() == ["second", "third"] and "the marked run" in pane.chosen().why
        await pilot.press("space")
        assert names() == ["second", "third"]
        await pilot.press("space", "space")
        assert names() == ["first", "second", "other", "third"]
        assert [line[0] for line in pilot.app.lines] == ["n", "▪", "▪", "▪", "o", "▪"]
        await pilot.press("g", "space")
        assert names() == ["first", "second", "other"]
        await pilot.press("equals_sign")
        await until(pilot, lambda: isinstance(pilot.app.screen, CompareScreen))
        await pilot.press("escape")
        await until(pilot, lambda: not isinstance(pilot.app.screen, CompareScreen))
        assert pane.escape()
        assert not pane.escape()
        assert not any("▪" in line for line in pilot.app.lines)


async def test_with_only_a_stopped_run_before_it_that_one_is_named_and_compared_once_it_is_marked(tmp_path):
    path = fresh(tmp_path)
    cut = await add_run(path, [PASS, None], name="cut", status="interrupted")
    await add_run(path, [PASS, PASS], name="whole")
    async with Bench(path).run_test(size=(60, 20)) as pilot:
        await opened(pilot, 2)
        await pilot.press("equals_sign")
        await until(pilot, lambda: pilot.app.said)
        only = f"no finished run of its dataset comes before it, only {cut.key}, which is interrupted"
        assert pilot.app.said[0][1] == f"{only}: mark other runs with space"
        await pilot.press("j", "space", "g", "equals_sign")
        await until(pilot, lambda: isinstance(pilot.app.screen, CompareScreen))


async def test_of_five_marks_the_oldest_goes(path):
    await add_run(path, [PASS], name="fifth", suite="nightly")
    async with Bench(path).run_test(size=(60, 20)) as pilot:
        await opened(pilot, 5)
        await pilot.press(*["space"] * 5)
        assert [one.name for one in pilot.app.pane.chosen().runs] == ["first", "second", "other", "third"]


async def test_a_baseline_is_set_moved_and_taken_back_and_is_what_runs_are_compared_with(path):
    async with Bench(path).run_test(size=(80, 20)) as pilot:
        await opened(pilot)
        app = pilot.app
        assert [line.split()[3] for line in app.lines if "first" in line] == ["first"]
        await pilot.press("j", "b")
        await until(pilot, lambda: any("second" in line and "⚑ baseline" in line for line in app.lines))
        said = app.said[-1][1]
        assert said.startswith("second is the baseline of evals.json now. ") and "at least 6" in said
        await pilot.press("g")
        chosen = app.pane.chosen()
        assert [one.name for one in chosen.runs] == ["second", "third"] and "its baseline" in chosen.why
        await pilot.press("b")
        await until(pilot, lambda: any("third" in line and "⚑ baseline" in line for line in app.lines))
        assert not any("second" in line and "⚑" in line for line in app.lines)
        assert "its parent" in app.pane.chosen().why
        await pilot.press("b")
        await until(pilot, lambda: app.said[-1][1] == "evals.json has no baseline now")
        await until(pilot, lambda: not any("⚑" in line for line in app.lines))


@pytest.mark.nightly
async def test_the_baseline_is_not_deleted_and_the_store_says_what_to_do(path):
    async with Bench(path).run_test(size=(80, 20)) as pilot:
        await opened(pilot)
        await pilot.press("b")
        await until(pilot, lambda: any("⚑ baseline" in line for line in pilot.app.lines))
        await pilot.press("D")
        await dialog(pilot, Confirm)
        await pilot.press("y")
        await until(pilot, lambda: pilot.app.said[-1][0] == "error")
        assert "is the baseline of evals.json" in pilot.app.said[-1][1]
        assert "tui-evals baseline clear" in pilot.app.said[-1][1]
        assert len(pilot.app.keys) == 4


async def test_a_run_that_is_not_over_is_no_baseline(path):
    await add_run(path, [PASS, None], name="cut", suite="nightly", status="interrupted")
    async with Bench(path).run_test(size=(80, 20)) as pilot:
        await opened(pilot, 5)
        await pilot.press("b")
        await until(pilot, lambda: pilot.app.said)
        assert "cut is interrupted" in pilot.app.said[0][1]


@pytest.mark.nightly
async def test_words_filter_the_runs_while_they_are_typed(path):
    async with Bench(path).run_test(size=(60, 20)) as pilot:
        await opened(pilot)
        await pilot.press("slash", *"slow")
        await until(pilot, lambda: "filter: slow" in str(pilot.app.pane.border_title))
        assert pilot.app.keys == [2]
        await pilot.press("enter", "x")
        assert pilot.app.pane.entry.value == "slow"
        assert pilot.app.pane.escape()
        await opened(pilot)
        await pilot.press("slash", *"nothing")
        await until(pilot, lambda: "No run has all of these words: nothing" in pilot.app.lines[0])


async def test_a_run_started_elsewhere_and_one_that_goes_on_show_here(path):
    async with Bench(path).run_test(size=(60, 20)) as pilot:
        await opened(pilot)
        live = await add_run(path, [None, None], suite="nightly", name="fifth", status="running")
        with hold(run_lock(path, live.key)), Writer(path) as writer:
            await until(pilot, lambda: any("fifth" in line and "▸ running" in line for line in pilot.app.lines))
            await answer(path, writer, live.id, [PASS])
            await until(pilot, lambda: any("fifth" in line and "▸ running 50 %" in line for line in pilot.app.lines))
        assert pilot.app.pane.run_row().name == "third"


async def test_looks_at_the_store_keep_their_pace(path, monkeypatch):
    monkeypatch.setattr(run_loading, "_PACE", 60.0)
    loads = Counter()
    real = RunHistory.load
    monkeypatch.setattr(RunHistory, "load", lambda self, *given: loads.update(["load"]) or real(self, *given))
    async with Bench(path).run_test(size=(60, 20)) as pilot:
        await opened(pilot)
        for name in "abc":
            with Writer(path) as writer:
                writer.edit(1, name=name)
            pilot.app.look()
            await pilot.pause()
        assert loads["load"] == 1


@pytest.mark.nightly
async def test_a_pane_nobody_sees_loads_nothing_until_it_is_seen(path):
    async with Bench(path).run_test(size=(60, 20)) as pilot:
        await opened(pilot)
        pilot.app.pane.display = False
        loads = pilot.app.pane._loader
        await until(pilot, lambda: loads._timer is None and not loads._busy)
        shelf = pilot.app.pane._runs
        with Writer(path) as writer:
            writer.edit(4, name="later")
        await until(pilot, lambda: loads._missed)
        assert pilot.app.pane._runs is shelf
        pilot.app.pane.display = True
        await until(pilot, lambda: any("later" in line for line in pilot.app.lines))


async def test_earlier_runs_come_when_the_cursor_reaches_the_end(tmp_path, monkeypatch):
    monkeypatch.setattr(rows, "PAGE", 3)
    monkeypatch.setattr(run_loading, "PAGE", 3)
    path = fresh(tmp_path)
    for number in range(5):
        await add_run(path, [PASS], name=f"run {number}")
    async with Bench(path).run_test(size=(60, 20)) as pilot:
        await opened(pilot, 3)
        assert "earlier runs" in pilot.app.lines[-1]
        await pilot.press("G")
        await opened(pilot, 5)
        assert "earlier runs" not in pilot.app.lines[-1]
        assert pilot.app.pane.run_row().id == 3


async def test_no_runs_say_how_one_is_made(tmp_path):
    async with Bench(fresh(tmp_path)).run_test(size=(40, 10)) as pilot:
        await until(pilot, lambda: any("No runs yet" in line for line in pilot.app.lines))
        await pilot.press("D", "n", "space", "equals_sign", "enter")
        await pilot.pause()
        assert {text for _, text in pilot.app.said} == {"no run yet: r starts one"}


@pytest.mark.parametrize("size", [(38, 8), (76, 20), (120, 30)])
async def test_hostile_names_tags_and_notes_reach_no_terminal(tmp_path, size):
    path = fresh(tmp_path)
    clean = HOSTILE.replace("\ud800", "?")
    run = await add_run(path, [PASS], name=clean, suite=clean[:80], tags=(clean[:60],), targets=(clean[:60],))
    with Writer(path) as writer:
        writer.edit(run.id, note=clean)
    async with Bench(path).run_test(size=size) as pilot:
        await opened(pilot, 1)
        await pilot.pause()
        shown = "\n".join([*drawn(pilot.app.pane.lines), *drawn(pilot.app.pane.about)])
        assert "[/b]" in shown
        assert not any(sign in shown for sign in "\x1b\x07\x9b\u202e")
        await pilot.press("D")
        await dialog(pilot, Confirm)
        await pilot.press("escape")
        await asyncio.sleep(0)
