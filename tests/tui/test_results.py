"""The table of results: columns of a width, a row of an answer, and the pane over a store that changes."""

import asyncio
import json
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from textual.app import App
from textual.widgets import Input

from tests.store.helpers import cells, judged, new_run, said
from tests.tui.test_totals import NOW, a_run, an_answer
from tui_evals.present.columns import Names, cell_width, names_of
from tui_evals.store.connection import hold, run_lock
from tui_evals.store.database import StoreError
from tui_evals.store.records import PlannedAnswer
from tui_evals.store.rows import EvaluatorMean
from tui_evals.tui import app as workbench
from tui_evals.tui.messages import AnswerShown, ShowPane
from tui_evals.tui.results.pane import ResultsPane
from tui_evals.tui.results.rows import (
    USUAL,
    AnswerTable,
    RunExtent,
    answer_row,
    column_at,
    heading,
    layout,
    sample_extent,
    score_in_signs,
    verdict_cells,
)
from tui_evals.tui.results.table import PLAN, no_answers_rows, order_after_choice, order_words, sort_columns
from tui_evals.tui.watch import AnswerOrder, Watch, column_means
from tui_evals.tui.widgets.dialogs import Menu
from tui_evals.tui.widgets.lines import Lines
from tui_evals.tui.workspace import Selection, StoreWriter, Workspace

pytestmark = pytest.mark.story

STYLES = Path(workbench.__file__).parent / "styles" / "app.tcss"
HOSTILE = (
    "[/b] [@click=app.quit]x[/] \x1b]52;c;aGk=\x07 \x1b[2J \x9b31m \u202e 日本語 \ud800 " + "long " * 1000,
    "[/INST]\x1b[31m\r\n\x07",
)
BYTES = ("\x1b", "\x9b", "\x07", "\u202e", "\ud800", "\r")
KEYS = ("Includes", "PartialMatch", "Relevance", "Coherence", "Groundedness", "Tone")
WORDS = ["Includ", "Partia", "Releva", "Cohere", "Ground", "Tone"]
EVALUATORS = tuple((key, 6) for key in KEYS)


def text(row):
    return "".join(piece.text for piece in row.pieces)


def words(columns):
    return [column.word for column in (*columns.fixed, *columns.texts, *columns.shifting)]


# -- columns


def test_a_wide_pane_shows_every_column_and_a_narrow_one_has_a_sign_for_each_evaluator():
    several = RunExtent(evaluators=EVALUATORS, names=Names(wanted=4), questions=True)
    wide = layout(220, a_run(), several)
    texts = ["question", "answer", "why it failed"]
    assert words(wide) == ["item", "status", *texts, *WORDS, "score", "latency", "cost", "tokens"]
    assert (wide.first, wide.more, wide.signs) == (0, False, False)
    narrow = layout(76, a_run(), several)
    assert words(narrow) == ["item", "status", "answer", "why it failed", *"IPRCGT"]
    assert narrow.signs and narrow.more
    assert narrow.room >= 34


def test_only_what_there_are_several_of_has_a_column():
    run = a_run(targets=("openai/gpt-4o", "openai/gpt-4o-mini"), prompts=("short", "long"))
    found = layout(160, run, RunExtent(turns=True, repeats=True))
    assert words(found)[:7] == ["item", "turn", "target", "rep", "prompt", "status", "answer"]
    assert found.targets == ("gpt-4o", "gpt-4o-mini")
    assert layout(160, a_run(targets=("a/x", "b/x")), RunExtent()).targets == ("a/x", "b/x")


@pytest.mark.parametrize("width", [38, 76, 160])
def test_the_cursor_of_columns_goes_through_every_column_and_is_always_in_sight(width):
    several = RunExtent(evaluators=EVALUATORS, names=Names(wanted=4))
    chosen = [layout(width, a_run(), several, at).chosen for at in range(20)]
    assert chosen[:10] == [*(f"evaluator:{key}" for key in KEYS), "score", "latency_ms", "cost", "output_tokens"]
    assert set(chosen[10:]) == {"output_tokens"}
    assert not layout(width, a_run(), several, 9).more
    assert layout(160, a_run(), several, 5).first == 0


def test_the_column_that_answers_are_sorted_by_is_shown_before_the_other_facts():
    several = RunExtent(evaluators=EVALUATORS, names=Names(wanted=4))
    assert "tokens" not in words(layout(100, a_run(), several))
    assert words(layout(100, a_run(), several, sort="output_tokens"))[-1] == "tokens"


def test_a_word_of_the_heading_is_the_column_at_its_cells():
    columns = layout(160, a_run(), RunExtent(evaluators=EVALUATORS, names=Names(wanted=4)))
    line = text(heading(columns))
    found = [column_at(columns, line.index(word)) for word in ("item", "status", "answer", "Releva", "latency")]
    assert found == ["name", "status", "answer", "evaluator:Relevance", "latency_ms"]


@pytest.mark.parametrize("width", [80, 120, 160, 220])
def test_names_that_begin_alike_are_told_apart_and_many_evaluators_leave_room_for_the_answer(width):
    names = names_of(f"policy-case-{number:04}" for number in range(2_000))
    graders = tuple((f"policy_check_{number}", 1 if number % 2 else 6) for number in range(20))
    shown = layout(width, a_run(), RunExtent(evaluators=graders, names=names, filled=USUAL - {"score", "latency_ms"}))
    answer = an_answer(7, "fail", name="policy-case-0033", preview="The answer in words " * 20)
    scores = {key: judged(key, 0.0 if cells == 1 else 0.25, threshold=0.5) for key, cells in graders}
    line = text(answer_row(answer, scores, shown, now=NOW))
    assert line.startswith("   …-0033 ✗ fail") and cell_width(line) == width
    assert [column.by for column in shown.shifting[:3]] == [f"evaluator:policy_check_{n}" for n in range(3)]
    assert line.count("✗") >= 10
    assert shown.room >= width // 5 and "The answer" in line


def evaluated(key, passed, failed, mean=1.0, squares=1.0, **given):
    numbers = {"scored": passed + failed, "passed": passed, "failed": failed, "errored": 0, "skipped": 0}
    place = {"evaluator": key, "scope": "answer", "prompt": None, "target": None}
    return EvaluatorMean(key=key, mean=mean, squares=squares, **place, **numbers, **given)


def test_evaluators_that_fail_come_first_then_those_that_judged_most_and_a_yes_or_no_takes_one_cell():
    means = [
        evaluated("aaa", 1, 0),
        evaluated("most", 2_000, 0),
        evaluated("fails", 900, 100, 0.9, 0.9),
        evaluated("scale", 1_900, 0, 0.7, 0.6),
        evaluated("label", 0, 0, None, None, labels={"polite": 3}),
    ]
    assert [mean.key for mean in column_means(means)] == ["fails", "most", "scale", "label", "aaa"]
    assert [verdict_cells(mean) for mean in means] == [1, 1, 1, 6, 6]


def test_hints_stand_where_there_are_more_columns():
    several = RunExtent(evaluators=EVALUATORS, names=Names(wanted=4))
    assert "›" in text(heading(layout(38, a_run(), several)))
    assert "‹" not in text(heading(layout(38, a_run(), several)))
    middle = text(heading(layout(38, a_run(), several, 8)))
    assert "‹" in middle and middle.endswith("›")
    assert "›" not in text(heading(layout(180, a_run(), several)))


def test_the_sorted_column_says_which_way():
    columns = layout(160, a_run(), RunExtent(evaluators=EVALUATORS))
    assert " scor▲ " in text(heading(columns, "score"))
    assert " Relev▼ " in text(heading(columns, "evaluator:Relevance", True))


@given(
    st.integers(0, 220),
    st.lists(st.text(min_size=1, max_size=30), max_size=8, unique=True),
    st.integers(0, 12),
    st.booleans(),
    st.integers(0, 40),
    st.sampled_from(["pending", "running", "answered", "pass", "fail", "partial", "error"]),
    st.text(max_size=60),
)
def test_every_row_and_the_heading_fill_the_width_exactly(width, keys, offset, several, longest, status, name):
    run = a_run(targets=("日本語/モデル", "b") if several else ("b",), prompts=("", "two") if several else ("",))
    columns = layout(
        width, run, RunExtent(several, several, tuple((key, 6) for key in keys), Names(wanted=longest)), offset
    )
    row = an_answer(7, status, name=name, preview=name, cost=12.5, latency_ms=1e5)
    scores = {key: judged(key, 0.25, threshold=0.5) for key in keys}
    made = answer_row(row, scores, columns, now=NOW, marked=True, verdict="pass")
    floor = 3 + sum(column.width + 1 for column in columns.fixed)
    for line in (made, heading(columns, "score", True)):
        assert cell_width(text(line)) == max(width, floor) or status in ("pending", "running")
        assert cell_width(text(line)) <= max(width, floor)


# -- a row


def row_of(answer, scores=None, width=120, **given):
    columns = layout(width, a_run(), RunExtent(evaluators=(("Match", 6),), names=Names(wanted=6)))
    return text(answer_row(answer, scores or {}, columns, now=NOW, **given))


def test_an_answer_is_shown_with_status_text_reason_evaluator_score_latency_and_cost():
    shown = row_of(an_answer(7, "fail", score=12.5, latency_ms=1234.0), {"Match": judged(score=0.2, threshold=0.5)})
    assert " ".join(shown.split()) == "#7 ✗ fail yes Match 0.2 (at least 0.5): no reas… ✗ 0.20 12.5 1.2 s $0.250"


def test_a_failed_answer_says_why_next_to_its_text_where_there_is_room():
    scores = {"Match": judged(score=0.2, threshold=0.5, reason="names no day")}
    assert "Match 0.2 (at least 0.5): names" in row_of(an_answer(7, "fail"), scores, width=160)
    assert "names" not in row_of(an_answer(7, "fail"), scores, width=80)
    assert "Match" not in row_of(an_answer(7, "pass"), {"Match": judged(score=1.0, reason="names a day")}, width=160)


@pytest.mark.parametrize("width", [60, 80, 120, 160])
def test_what_tells_rows_apart_stays_before_the_answer_does(width):
    run = a_run(targets=("big", "small"), prompts=("short", "long", "friendly"))
    found = layout(width, run, RunExtent(evaluators=EVALUATORS, names=Names(wanted=40)))
    assert {"item", "target", "prompt"} <= set(words(found))


def test_a_call_in_flight_says_how_long_it_has_taken():
    shown = row_of(an_answer(7, "running", started=NOW - 12.3, score=None))
    assert " ".join(shown.split()) == "#7 ▸ running in flight for 12 s"
    assert "in flight" not in row_of(an_answer(7, "pending", started=None))
    assert row_of(an_answer(7, "running", started=NOW + 5)).split()[-2:] == ["0", "ms"]


def test_an_error_shows_its_message_and_not_the_word_of_its_cause():
    shown = row_of(an_answer(7, "error", score=None, code="agentTimeout", preview="too long", cost=None))
    assert "too long" in shown and "agentTimeout" not in shown
    assert "?" not in shown


@pytest.mark.parametrize(
    ("given", "shown"),
    [({"from_cache": True}, "cached"), ({"scripted": True}, "scripted"), ({"cost": None}, "?"), ({"cost": 0.0}, "$0")],
)
def test_what_cost_nothing_says_why(given, shown):
    assert f" {shown} " in row_of(an_answer(7, **given))


@pytest.mark.parametrize(
    ("record", "shown"),
    [
        (None, ""),
        (judged(score=1.0), "✓"),
        (judged(score=1.0, threshold=0.5), "✓ 1.00"),
        (judged(score=0.2, threshold=0.5), "✗ 0.20"),
        (judged(score=4.0, threshold=3.0), "✓ 4.00"),
        (judged(score=87.5, threshold=90.0), "✓ 87.5"),
        (judged(score=None), ""),
        (judged("M", None, label="B"), "B"),
    ],
)
def test_an_evaluator_says_it_in_a_few_signs(record, shown):
    assert score_in_signs(record)[0] == shown


@pytest.mark.parametrize(("result", "shown"), [("error", "!"), ("skipped", "–")])
def test_an_evaluator_that_did_not_judge_says_so(result, shown):
    from dataclasses import replace

    assert score_in_signs(replace(judged("M", None), result=result))[0] == shown


def test_marks_and_verdicts_stand_before_the_name():
    assert row_of(an_answer(7), marked=True, verdict="fail").startswith("▪- #7")
    assert row_of(an_answer(7), verdict="pass").startswith(" + #7")


def test_pieces_of_one_style_are_one_piece():
    columns = layout(120, a_run(), RunExtent())
    assert len(answer_row(an_answer(7, "pending"), {}, columns, now=NOW).pieces) == 1 + 1


# -- the order in words


def test_choosing_the_column_again_turns_the_order_round():
    plan, score, cost = (sort for sort in sort_columns(()) if sort.by in (PLAN, "score", "cost"))
    assert order_after_choice(AnswerOrder("failed"), score) == AnswerOrder("failed", "score", False)
    assert order_after_choice(AnswerOrder("failed", "score"), score) == AnswerOrder("failed", "score", True)
    assert order_after_choice(AnswerOrder(), cost) == AnswerOrder("", "cost", True)
    assert order_after_choice(AnswerOrder(), plan) == AnswerOrder("", None, True)
    assert order_after_choice(AnswerOrder("", "score", True), plan) == AnswerOrder()


def test_the_title_tells_filter_and_sorting():
    assert order_words(AnswerOrder(), None) == ""
    assert order_words(AnswerOrder("failed", "latency_ms", True), None) == "failed · by latency ▼"
    assert order_words(AnswerOrder("", "evaluator:Match"), None) == "by Match ▲"
    assert order_words(AnswerOrder("", None, True), None) == "by plan ▼"
    assert "as of " in order_words(AnswerOrder("failed"), NOW)


def test_an_empty_pane_says_what_belongs_there_and_the_key_that_makes_one():
    assert "1 g r   run the whole dataset" in text(no_answers_rows(None, AnswerOrder(), 60)[1])
    assert len(no_answers_rows(None, AnswerOrder(), 60, any_open=False)) == 1
    assert "failed" in text(no_answers_rows(a_run(), AnswerOrder("failed"), 60)[0])


# -- the table


class Held:
    """Answers of which the store may refuse to tell."""

    run, marks, verdicts, tried = a_run(), frozenset(), {}, {}
    problem = False

    def __len__(self):
        return 2

    def row(self, number):
        if self.problem:
            raise StoreError("the disk is gone")
        return an_answer(1) if number == 0 else None

    def scores(self, row):
        return {}

    def question(self, row):
        return ""

    def find(self, key):
        return self.row(0) and 0


def test_a_deleted_answer_and_a_store_that_fails_are_rows_that_say_so():
    held = Held()
    table = AnswerTable(held, layout(80, a_run(), RunExtent()), lambda: NOW)
    assert "deleted" in text(table[1])
    assert table[1].key is None
    assert [row.key for row in table[0:2]] == [1, None]
    held.problem = True
    assert "the disk is gone" in text(table[0])
    assert table.find(1) is None
    assert table.in_flight([0, 1]) == []
    assert sample_extent(held) == RunExtent()


# -- the pane


class Bench(App[None]):
    CSS_PATH = STYLES
    ENABLE_COMMAND_PALETTE = False

    def __init__(self, pane):
        super().__init__()
        self.pane, self.said, self.heard = pane, [], []

    def compose(self):
        yield self.pane

    def on_status_message(self, message):
        self.said.append(message.text)

    def on_answer_shown(self, message):
        self.heard.append(AnswerShown)

    def on_show_pane(self, message):
        if isinstance(message, ShowPane):
            self.heard.append(message.place)


class World:
    """A pane over a store, looked at when the test says so, and a clock that stands still."""

    def __init__(self, path, writer):
        self.path, self.writer, self.clock = path, writer, NOW
        self.watch = Watch(path)
        self.workspace = Workspace(path.parent.parent, path)
        self.pane = ResultsPane(self.workspace, self.watch, StoreWriter(path, dict), now=lambda: self.clock)

    def plan(self, planned, **given):
        self.run = self.writer.plan(new_run(**given), planned if isinstance(planned, list) else cells(planned))
        self.watch.open_run(self.run.id)
        self.watch.poll()
        self.ids = list(self.watch.reader.ids(self.run.id))
        return self

    async def answer(self, *numbers, status="pass", score=100.0, words="yes", key="Match", **given):
        for number in numbers:
            one = self.ids[number]
            await self.writer.answered(one, said(words, **given), "error" if status == "error" else "answered")
            if status != "error":
                await self.writer.scored(one, 1, [judged(key, score / 100, threshold=0.5)], status, score)

    def look(self):
        self.pane.pulse(self.watch.poll())

    async def idle(self, pilot):
        """Until no work is due or under way and what it brought is drawn."""
        async with asyncio.timeout(180):
            for _ in range(2):  # a click reaches the pane, and its work begins, after the widget that was clicked
                await pilot.pause()
                self.pane._count_if_due()  # at the next tick its lines would move what is looked at
                while any(not worker.is_finished for worker in pilot.app.workers):
                    await asyncio.sleep(0.001)
        await pilot.pause()

    def bench(self, size=(100, 20)):
        return Bench(self.pane).run_test(size=size)

    async def press(self, pilot, *keys):
        await pilot.press(*keys)
        await self.idle(pilot)

    def lines(self):
        lines = self.pane.query_one("#answers", Lines)
        return [lines.render_line(y).text.rstrip() for y in range(lines.size.height)]

    def names(self):
        return [line.split()[0].lstrip("▪+-") or line.split()[1] for line in self.lines() if line.strip()]

    def head(self):
        """Two lines of totals, then the words above the columns; the line about one column is `column`."""
        lines = self.pane.query_one("#totals", Lines)
        drawn = [lines.render_line(y).text.rstrip() for y in range(lines.size.height)]
        return [*drawn[:2], next((line for line in drawn if line.split()[:1] == ["item"]), drawn[-1])]

    @property
    def column(self):
        lines = self.pane.query_one("#totals", Lines)
        return lines.render_line(lines.size.height - 2).text.rstrip()

    @property
    def title(self):
        return str(self.pane.border_title)

    @property
    def cursor(self):
        return self.pane.query_one("#answers", Lines).cursor


@pytest.fixture
def world(path, writer):
    world = World(path, writer)
    yield world
    world.watch.close()


async def test_without_a_run_the_pane_says_what_belongs_here(world):
    async with world.bench((38, 10)) as pilot:
        world.pane.focus_lines()
        await world.press(pilot, "S")
        shown = " ".join(world.lines())
        assert " ".join(shown.split()) == "The answers of a run appear here."
        assert pilot.app.said == ["there is no run on screen; r starts one, 6 lists the runs"]


async def test_a_run_shows_its_answers_the_totals_and_where_one_is(world):
    world.plan(3)
    await world.answer(0, cost=0.5, latency_ms=20.0, input_tokens=5, output_tokens=7)
    await world.answer(1, status="fail", score=0.0)
    async with world.bench() as pilot:
        await world.idle(pilot)
        assert world.title == "4 Results · nightly"
        assert world.head()[1].startswith("demo  50.0 % (1–99)  ✓ 1 pass  ✗ 1 fail")
        assert world.head()[2].split() == ["item", "status", "answer", "why", "it", "failed", "Match›"]
        assert world.lines()[0].split() == ["#1", "✓", "pass", "yes", "✓"]
        assert world.lines()[2].split() == ["#3", "·", "pending"]
        assert world.watch.answer == world.ids[0]
        assert AnswerShown in pilot.app.heard


@pytest.mark.nightly
async def test_columns_of_heading_and_rows_stand_below_each_other_at_every_width(world):
    world.plan([PlannedAnswer(n, n // 4, n % 2, 0, 0, n // 2 % 2, f"name {n // 4}") for n in range(40)])
    await world.answer(*range(40))
    for width in (38, 76, 120):
        pane = world.pane = ResultsPane(world.workspace, world.watch, world.pane.writer, now=lambda: NOW)
        async with Bench(pane).run_test(size=(width, 12)) as pilot:
            async with asyncio.timeout(180):
                while "status" not in world.head()[2] or "✓ pass" not in world.lines()[0]:
                    await pilot.pause()
            column = world.head()[2].index("status")
            assert world.lines()[0][column:].startswith("✓ pass")
            assert "turn rep" in world.head()[2]


async def test_a_change_draws_its_row_and_the_totals_without_counting_again(world, monkeypatch):
    world.plan(5)
    async with world.bench() as pilot:
        await world.idle(pilot)
        counts = []
        monkeypatch.setattr(world.watch, "count", lambda: counts.append(1))
        await world.answer(1, status="fail", score=0.0)
        world.look()
        await pilot.pause()
        assert world.lines()[1].split()[:3] == ["#2", "✗", "fail"]
        world.pane._tick()
        assert counts == []
        assert "✓ 0 pass  ✗ 1 fail" in world.head()[1]


async def test_a_change_out_of_view_is_seen_when_one_comes_back_to_it(world):
    world.plan(100)
    await world.answer(1)
    async with world.bench() as pilot:
        world.pane.focus_lines()
        await world.idle(pilot)
        assert "pending" in world.lines()[0]
        await world.press(pilot, "G")
        await world.answer(0)
        world.look()
        await world.press(pilot, "g")
        assert "pass" in world.lines()[0]


async def test_nothing_is_drawn_or_measured_anew_while_results_arrive(world, monkeypatch):
    world.plan(50)
    async with world.bench() as pilot:
        await world.idle(pilot)
        lines = world.pane.query_one("#answers", Lines)
        shown, drawn_lines = [], []
        monkeypatch.setattr(lines, "show", lambda *_, **__: shown.append(1))
        monkeypatch.setattr(lines, "refresh_line", drawn_lines.append)
        await world.answer(2, 40)
        world.look()
        assert shown == []
        assert drawn_lines == [2]


async def test_the_age_of_a_call_grows_by_the_clock_alone(world, writer):
    world.plan(3)
    writer.run_status(world.run.id, "running", host="elsewhere")
    writer.running([world.ids[1]], NOW - 5)
    writer.flush()
    async with world.bench() as pilot:
        await world.idle(pilot)
        assert "in flight for 5.0 s" in world.lines()[1]
        world.clock += 60
        world.pane._beat = 1
        world.pane._tick()
        await pilot.pause()
        assert "in flight for 1m 05s" in world.lines()[1]


async def typed(world, pilot, text):
    """Have this in the line of the filter, as after typing without a pause, until what it finds is shown."""
    pilot.app.query_one(Input).value = text
    await pilot.pause()
    world.pane._filter_as_typed()
    await world.idle(pilot)


async def test_a_filter_is_checked_while_one_types_and_applied_with_enter(world):
    world.plan(6)
    await world.answer(0, 1, 2)
    await world.answer(3, 4, status="fail", score=0.0)
    async with world.bench() as pilot:
        world.pane.focus_lines()
        await world.press(pilot, "slash")
        await typed(world, pilot, "status:odd")
        hint = str(world.pane._filter._hint.render())
        assert "there is no status 'odd'" in hint
        await world.press(pilot, "enter")
        assert world.watch.order == AnswerOrder()
        pilot.app.query_one(Input).value = "failed"
        await world.press(pilot, "enter")
        assert world.names() == ["#4", "#5"]
        assert world.title == "4 Results · nightly · 2 of 6 · failed"
        assert world.watch.answer == world.ids[3]
        assert world.pane.query_one("#answers").has_focus
        assert world.pane.escape()
        await world.idle(pilot)
        assert len(world.names()) == 6
        assert world.watch.answer == world.ids[3]
        assert not world.pane.escape()


async def test_a_filter_shows_what_fits_while_one_types_and_escape_brings_back_what_was(world):
    world.plan(6)
    await world.answer(0, 1, 2)
    await world.answer(3, 4, status="fail", score=0.0)
    async with world.bench() as pilot:
        world.pane.focus_lines()
        await world.press(pilot, "down")
        await world.press(pilot, "slash")
        await typed(world, pilot, "failed")
        assert world.names() == ["#4", "#5"]
        assert world.title == "4 Results · nightly · 2 of 6 · failed"
        assert world.watch.answer == world.ids[3]
        await typed(world, pilot, "failed score:<")
        assert world.names() == ["#4", "#5"]  # half a term finds nothing yet, and is no fault
        assert "not a comparison" in str(world.pane._filter._hint.render())
        assert not world.pane._filter._hint.has_class("wrong")
        await world.press(pilot, "enter")
        assert world.pane._filter._hint.has_class("wrong")
        assert world.pane.escape()
        await world.idle(pilot)
        assert len(world.names()) == 6
        assert world.watch.answer == world.ids[1]
        assert world.watch.filters == {}


async def test_answers_enter_and_leave_the_filter_as_they_come_and_the_cursor_stays(world, writer):
    world.plan(5)
    with hold(run_lock(world.path, world.run.key)):
        writer.run_status(world.run.id, "running")
        await world.answer(1, 3, status="fail", score=0.0)
        world.watch.poll()
        async with world.bench() as pilot:
            world.pane.focus_lines()
            await world.press(pilot, "slash", *"failed", "enter", "down")
            assert (world.names(), world.cursor) == (["#2", "#4"], 1)
            for number in (0, 2):
                await world.answer(number, status="fail", score=0.0)
                world.look()
                await world.idle(pilot)
            assert world.names() == ["#2", "#4"]  # asked at most once a second
            world.clock += 60  # on a busy machine the filter is asked less often than once a second
            world.pane._tick()
            await world.idle(pilot)
            assert (world.names(), world.cursor) == (["#1", "#2", "#3", "#4"], 3)
            assert world.title == "4 Results · nightly · 4 of 5 · failed"
            world.clock += 60
            writer.write("UPDATE answers SET status = 'pass', seq = seq + 100 WHERE id = ?", world.ids[3])
            writer.flush()
            world.look()
            await world.idle(pilot)
            assert (world.names(), world.cursor) == (["#1", "#2", "#3"], 2)
            assert world.watch.answer == world.ids[2]


@pytest.mark.nightly
async def test_of_many_answers_the_beginnings_are_searched_first(world, monkeypatch):
    monkeypatch.setattr("tui_evals.tui.watch._MANY", 3)
    world.plan(4)
    await world.answer(0, words="refund at the beginning")
    await world.answer(1, 2, words=" ".join(["long"] * 100) + " refund")
    search, read = world.watch.sorted, threading.Event()
    monkeypatch.setattr(world.watch, "sorted", lambda order: read.wait(60) and search(order))
    async with world.bench() as pilot:
        world.pane.focus_lines()
        await world.press(pilot, "slash")
        await pilot.press(*"refund")
        async with asyncio.timeout(180):
            while world.title != "4 Results · nightly · 1… of 4 · refund":
                await asyncio.sleep(0.01)
        read.set()
        await world.idle(pilot)
        assert world.names() == ["#1", "#2", "#3"]
        assert world.title == "4 Results · nightly · 3 of 4 · refund"


@pytest.mark.nightly
async def test_an_answer_that_is_read_in_another_pane_does_not_vanish_with_its_row(world, writer):
    world.plan(3)
    await world.answer(0, 1, status="fail", score=0.0)
    async with world.bench() as pilot:
        world.pane.focus_lines()
        await world.press(pilot, "slash", *"failed", "enter")
        pilot.app.set_focus(None)
        world.clock += 60
        await world.answer(0)
        world.look()
        await world.idle(pilot)
        assert world.names() == ["#2"]
        assert world.watch.answer == world.ids[0]
        world.pane.focus_lines()
        assert world.watch.answer == world.ids[1]


@pytest.mark.nightly
async def test_each_run_keeps_its_filter(world, writer):
    world.plan(3)
    await world.answer(1, status="fail", score=0.0)
    first = world.run
    async with world.bench() as pilot:
        world.pane.focus_lines()
        await world.press(pilot, "slash", *"failed", "enter")
        world.plan(2)
        world.pane.sync()
        await world.idle(pilot)
        assert (world.names(), world.watch.filters) == (["#1", "#2"], {first.key: "failed"})
        world.watch.open_run(first.id)
        world.pane.sync()
        await world.idle(pilot)
        assert world.title == "4 Results · nightly · 1 of 3 · failed"
        assert world.pane.escape()
        await world.idle(pilot)
        assert (len(world.names()), world.watch.filters) == (3, {})


async def test_escape_leaves_the_typing_before_it_takes_the_filter_away(world):
    world.plan(2)
    async with world.bench() as pilot:
        world.pane.focus_lines()
        await world.press(pilot, "slash", *"id:*2", "enter")
        await world.press(pilot, "slash", *"x")
        assert world.pane.escape()
        await world.idle(pilot)
        assert world.names() == ["#2"]
        assert world.watch.order.text == "id:*2"


async def test_where_nothing_fits_the_pane_says_so_and_n_finds_no_failure(world):
    world.plan(2)
    async with world.bench() as pilot:
        world.pane.focus_lines()
        await world.press(pilot, "slash", *"failed", "enter")
        assert "No answer matches the filter failed" in world.lines()[0]
        assert world.watch.answer is None
        await world.press(pilot, "n", "v")
        assert pilot.app.said == ["no failures", "there is no answer under the cursor"]


@pytest.mark.nightly
async def test_sorting_goes_to_the_top_and_the_same_column_turns_round(world):
    world.plan(4)
    for number, latency in enumerate((30.0, 10.0, 40.0, 20.0)):
        await world.answer(number, latency_ms=latency)
    async with world.bench() as pilot:
        world.pane.focus_lines()
        await world.press(pilot, "G")
        for expected in (["#3", "#1", "#4", "#2"], ["#2", "#4", "#1", "#3"]):
            await pilot.press("S")
            await pilot.pause()
            assert isinstance(pilot.app.screen, Menu)
            await pilot.press(*"latency", "enter")
            await world.idle(pilot)
            assert world.names() == expected
            assert world.cursor == 0
        assert world.title == "4 Results · nightly · by latency ▲"
        assert "latenc▲" in world.head()[2]


async def test_sorted_answers_keep_their_places_until_the_run_is_over(world, writer):
    world.plan(3)
    with hold(run_lock(world.path, world.run.key)):
        writer.run_status(world.run.id, "running")
        await world.answer(0, score=50.0)
        world.look_first = world.watch.poll()
        async with world.bench() as pilot:
            await world.idle(pilot)
            await world.pane._arrange(AnswerOrder(sort="score", descending=True))
            assert world.names() == ["#1", "#2", "#3"]
            await world.answer(2, score=90.0)
            world.look()
            world.pane._tick()
            await pilot.pause()
            assert world.names() == ["#1", "#2", "#3"]
            assert "90" in world.lines()[2]
            assert "as of " in world.title
            writer.run_status(world.run.id, "finished", finished=NOW)
            world.look()
            await world.idle(pilot)
            assert world.names() == ["#3", "#1", "#2"]
            assert "as of " not in world.title
            assert world.cursor == 1  # it stays with its answer


async def test_an_older_order_never_replaces_a_later_one(world, monkeypatch):
    world.plan(4)
    await world.answer(0)
    gates = {"failed": asyncio.Event(), "status:pass": asyncio.Event()}
    fetch = Watch.sorted

    async def held(function, order):
        await gates[order.text].wait()
        return fetch(world.watch, order)

    async with world.bench() as pilot:
        await world.idle(pilot)
        monkeypatch.setattr("tui_evals.tui.results.table.asyncio.to_thread", held)
        first = asyncio.create_task(world.pane._arrange(AnswerOrder("failed")))
        await asyncio.sleep(0)
        second = asyncio.create_task(world.pane._arrange(AnswerOrder("status:pass")))
        await asyncio.sleep(0)
        gates["status:pass"].set()
        await second
        gates["failed"].set()
        await first
        assert world.watch.order.text == "status:pass"
        await pilot.pause()
        assert world.names() == ["#1"]


async def test_n_goes_through_the_failures_and_round_the_end(world):
    world.plan(50)
    await world.answer(5, 30, status="fail", score=0.0)
    await world.answer(7)
    async with world.bench() as pilot:
        world.pane.focus_lines()
        seen = []
        for key in ("n", "n", "n", "N"):
            await world.press(pilot, key)
            seen.append(world.cursor)
        assert seen == [5, 30, 5, 30]
        assert world.watch.answer == world.ids[30]


async def test_following_stays_with_the_latest_answer_until_the_cursor_is_moved(world, writer):
    world.plan(100)
    with hold(run_lock(world.path, world.run.key)):
        writer.run_status(world.run.id, "running")
        async with world.bench() as pilot:
            world.pane.focus_lines()
            world.look()
            await world.press(pilot, "f")
            assert "follow" in world.title
            for number in (3, 60):
                await world.answer(number)
                world.clock += 2
                world.look()
                world.pane._tick()
                await world.idle(pilot)
                assert world.cursor == number
                assert world.watch.answer == world.ids[number]
                assert f"#{number + 1}" in world.names()
            assert "follow" in world.title
            await world.press(pilot, "j")
            assert "follow" not in world.title
            await world.answer(90)
            world.clock += 2
            world.look()
            world.pane._tick()
            await world.idle(pilot)
            assert world.cursor == 61


async def test_a_run_that_is_over_cannot_be_followed_and_following_ends_with_it(world, writer):
    world.plan(3)
    with hold(run_lock(world.path, world.run.key)):
        writer.run_status(world.run.id, "running")
        async with world.bench() as pilot:
            world.pane.focus_lines()
            world.look()
            await world.press(pilot, "f")
            writer.run_status(world.run.id, "finished")
            world.look()
            await world.idle(pilot)
            assert "follow" not in world.title
            await world.press(pilot, "f")
            assert pilot.app.said == ["the run is finished; one can follow answers while they come"]


@pytest.mark.nightly
async def test_h_and_l_go_through_the_columns_name_each_whole_and_say_when_there_are_no_more(world):
    world.plan(2)
    for key in ("Aaaaaa", "Bbbbbb", "Cccccc"):
        await world.writer.scored(world.ids[0], 1, [judged(key)], "pass", 100.0)
    await world.answer(0)
    async with world.bench((60, 10)) as pilot:
        world.pane.focus_lines()
        await world.idle(pilot)
        await world.press(pilot, "h")
        assert pilot.app.said == ["there are no columns further left"]
        before = world.head()[2]
        assert world.column.startswith("Aaaaaa ✓ 1  passes 1 of 1 answer ")
        await world.press(pilot, "l")
        assert world.column.startswith("Bbbbbb ✓ 1  passes 1 of 1 answer ")
        await world.press(pilot, "down")
        assert world.column.startswith("Bbbbbb  passes 1 of 1 answer ")
        for _ in range(10):
            await world.press(pilot, "right")
        assert "tokens" in world.head()[2] and "‹" in world.head()[2]
        assert pilot.app.said[-1] == "there are no columns further right"
        for _ in range(10):
            await world.press(pilot, "left")
        assert world.head()[2] == before


async def shown(pilot, kind, title=""):
    """Wait until a dialog is on screen."""
    async with asyncio.timeout(60):
        while not (isinstance(pilot.app.screen, kind) and title in pilot.app.screen._heading):
            await asyncio.sleep(0.001)
    await pilot.pause()


async def test_the_lines_above_the_answers_have_their_room_at_once_at_another_width(world):
    world.plan(3)
    await world.answer(0, 1, 2)
    async with world.bench((120, 20)) as pilot:
        await world.idle(pilot)
        world.pane._clock.pause()  # what happens without it
        totals, heights = world.pane.query_one("#totals", Lines), []
        for width in (10, 120, 80):
            await pilot.resize_terminal(width, 20)
            async with asyncio.timeout(20):
                while totals.size != (width - 2, len(world.pane._above)):
                    await pilot.pause()
            assert world.head()[2] == totals.render_line(totals.size.height - 1).text.rstrip()
            heights.append(totals.size.height)
        assert len(set(heights)) > 1


async def test_a_click_on_the_word_of_a_column_sorts_by_it_and_S_begins_with_the_column_under_the_cursor(world):
    world.plan(3)
    for number, score in enumerate((50.0, 10.0, 90.0)):
        await world.answer(number, score=score)
    async with world.bench() as pilot:
        world.pane.focus_lines()
        await world.idle(pilot)
        x = world.head()[2].index("Match")
        await pilot.click("#totals", offset=(x, len(world.pane._above) - 1))
        await world.idle(pilot)
        assert (world.names(), world.watch.order.sort) == (["#2", "#1", "#3"], "evaluator:Match")
        await pilot.press("S")
        await shown(pilot, Menu)
        await world.press(pilot, "enter")
        assert world.names() == ["#3", "#1", "#2"]


async def test_answers_are_grouped_by_a_field_with_sums_and_a_group_is_shown_alone(world):
    planned = [PlannedAnswer(n, n, 0, 0, 0, 0, f"#{n + 1}", ("refunds", "returns", "")[n % 3]) for n in range(6)]
    world.plan(planned)
    await world.answer(0, 3, status="fail", score=0.0, cost=0.5, latency_ms=100.0)
    await world.answer(1, 4)
    async with world.bench() as pilot:
        world.pane.focus_lines()
        await pilot.press("c")
        await shown(pilot, Menu)
        assert [entry.name for entry in pilot.app.screen._entries] == ["category", "status"]
        await pilot.press("enter")
        await shown(pilot, Menu, "nightly by category")
        groups = {entry.name: entry for entry in pilot.app.screen._entries}
        assert list(groups) == ["refunds", "(none)", "returns"]
        assert " ".join(groups["refunds"].about.split()) == "0.0 % pass 0 of 2 judged 2 answers $1.00 100 ms"
        assert "no filter shows these" in groups["(none)"].why_not
        await world.press(pilot, "enter")
        assert world.names() == ["#1", "#4"]
        assert world.title == "4 Results · nightly · 2 of 6 · category:refunds"


async def test_enter_shows_the_answer_and_the_cursor_follows_one_looked_at_elsewhere(world):
    world.plan(5)
    async with world.bench() as pilot:
        world.pane.focus_lines()
        await world.press(pilot, "j", "enter")
        assert pilot.app.heard[-1] == "detail"
        assert world.watch.answer == world.ids[1]
        world.watch.answer = world.ids[4]
        world.pane.sync()
        await pilot.pause()
        assert world.cursor == 4


async def test_a_count_that_ends_just_after_a_key_does_not_take_the_cursor_back(world):
    world.plan(5)
    async with world.bench() as pilot:
        await world.idle(pilot)
        world.pane._lines.to_row(3)
        world.pane.sync()
        await pilot.pause()
        assert world.cursor == 3
        assert world.watch.answer == world.ids[3]


@pytest.mark.nightly
async def test_another_run_begins_at_its_top_with_nothing_of_the_one_before(world, writer):
    world.plan(5)
    await world.answer(0, 1)
    other = writer.plan(new_run(name="other"), cells(3))
    async with world.bench() as pilot:
        world.pane.focus_lines()
        await world.press(pilot, "j", "space", "slash", *"id:*", "enter")
        world.watch.open_run(other.id)
        world.pane.sync()
        await world.idle(pilot)
        assert world.title == "4 Results · other"
        assert "✓ 0 pass" in world.head()[1]
        assert world.cursor == 0
        assert world.watch.answer == world.watch.row(0).id
        world.look()
        writer.delete_run(other)
        world.look()
        await world.idle(pilot)
        assert "The answers of a run appear here." in " ".join(world.lines())
        assert world.title == "4 Results"


async def test_a_verdict_given_anywhere_shows_beside_the_mark(world, writer):
    world.plan(2)
    async with world.bench() as pilot:
        world.pane.focus_lines()
        await world.press(pilot, "space")
        writer.label(world.ids[0], "fail", "ada")
        world.look()
        world.clock += 1000
        world.pane._tick()
        await world.idle(pilot)
        assert world.lines()[0].startswith("▪- #1")
        assert world.title.endswith("1 marked")
        assert world.pane.escape()
        assert world.watch.marks == frozenset()


@pytest.mark.nightly
async def test_typing_a_filter_takes_letters_that_are_keys_elsewhere(world):
    world.plan(3)
    async with world.bench() as pilot:
        world.pane.focus_lines()
        await world.press(pilot, "slash", *"nfv S", "space", "left", "right")
        assert pilot.app.query_one(Input).value == "nfv S "
        assert world.watch.marks == frozenset()


async def test_only_items_that_are_still_those_of_the_open_dataset_can_be_run(world, tmp_path):
    file = tmp_path / "evals.json"
    items = [{"testId": "a", "prompt": "?"}, {"prompt": "?"}, {"testId": "c", "prompt": "?"}]
    file.write_text(json.dumps({"schemaVersion": "1.11.0", "items": items}))
    planned = [PlannedAnswer(n, n, 0, 0, 0, 0, name) for n, name in enumerate(("a", "#2", "c"))]
    world.plan(planned, source="evals.json")
    async with world.bench() as pilot:
        world.pane.focus_lines()
        await world.idle(pilot)
        assert world.pane.selection() is None
        editing = world.workspace.open_file(file)
        assert world.pane.selection() == Selection((0,), "item a")
        await world.press(pilot, "space", "j", "space")
        assert world.pane.selection() == Selection((0, 1), "2 marked items")
        editing.apply({**editing.data, "items": items[1:]}, "less")
        assert world.pane.selection() is None
        editing.apply({**editing.data, "items": [items[0], {**items[1], "testId": "b"}]}, "named")
        assert world.pane.selection() is None
        other = tmp_path / "other.json"
        other.write_text(file.read_text())
        world.workspace.open_file(other)
        assert world.pane.selection() is None


@pytest.mark.parametrize("name", ["a#1", "#1"])  # the second by an earlier version
async def test_items_of_one_test_id_are_known_by_their_number(world, tmp_path, name):
    file = tmp_path / "evals.json"
    items = [{"testId": "a", "prompt": "?"}, {"testId": "a", "prompt": "?"}]
    file.write_text(json.dumps({"schemaVersion": "1.11.0", "items": items}))
    world.plan([PlannedAnswer(0, 0, 0, 0, 0, 0, name)], source=str(file))
    world.workspace.open_file(file)
    async with world.bench() as pilot:
        await world.idle(pilot)
        assert world.pane.selection() == Selection((0,), f"item {name}")


@pytest.mark.nightly
async def test_hostile_texts_reach_no_terminal(world, writer):
    clean = [hostile.replace("\ud800", "") for hostile in HOSTILE]
    planned = [PlannedAnswer(n, n, 0, n % 2, n % 2, 0, clean[n % 2]) for n in range(20)]
    world.plan(planned, name=clean[0], targets=tuple(clean), prompts=tuple(clean))
    await world.answer(0, words=HOSTILE[0], key=clean[0][:60])
    await world.answer(1, words=HOSTILE[1], key=clean[1])
    await world.answer(2, status="error", words=None, code="x[/b]", message=HOSTILE[0])
    for size in ((38, 9), (76, 14), (160, 20)):
        world.pane = ResultsPane(world.workspace, world.watch, world.pane.writer, now=lambda: NOW)
        async with world.bench(size) as pilot:
            world.pane.focus_lines()
            await world.press(pilot, "l", "slash", *"id:[*", "enter")
            await pilot.press("S", "escape")
            await world.idle(pilot)
            world.pane.escape()
            await world.idle(pilot)
            shown = [*world.lines(), *world.head(), world.title]
            assert not [line for line in shown if any(byte in line for byte in BYTES)]
            if size[0] == 160:
                assert any("[/b]" in line for line in shown)
            assert pilot.app.is_running


async def test_a_hundred_thousand_answers_open_and_move_without_being_fetched(world, monkeypatch):
    world.plan(20)
    monkeypatch.setattr(Watch, "__len__", lambda watch: 100_000)
    fetched = []
    row = Watch.row
    monkeypatch.setattr(Watch, "row", lambda watch, number: fetched.append(number) or row(watch, number % 20))
    async with world.bench() as pilot:
        await world.idle(pilot)
        assert len(set(fetched)) < 150
