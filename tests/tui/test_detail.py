"""Pane 5: what is shown of an answer, how quickly, and what can be done with it."""

import asyncio
import json
import threading
import time
from array import array
from dataclasses import replace
from pathlib import Path

import pytest
from textual.app import App
from textual.widgets import Input

from tests.store.helpers import judged, new_run, said
from tests.store.passes import new_pass
from tui_evals.datasets.matrix import place_of
from tui_evals.datasets.steps import set_field
from tui_evals.present.figures import exact_time
from tui_evals.present.transcripts import TranscriptLine
from tui_evals.store.database import open_store
from tui_evals.store.reader import Reader
from tui_evals.store.records import CallRecord, PlannedAnswer
from tui_evals.store.writer import Writer
from tui_evals.tui import answer_context
from tui_evals.tui.answer import pane as presenting
from tui_evals.tui.answer.pane import DetailPane
from tui_evals.tui.answer.rows import AnswerView, answer_rows, badge_rows, tree_rows
from tui_evals.tui.answer_actions import copyable_parts
from tui_evals.tui.answer_context import AnswerFinder, ComparedAnswer, unit_place
from tui_evals.tui.diff_rows import diff_texts
from tui_evals.tui.external_programs import pager_command, show_in_pager
from tui_evals.tui.messages import ShowPane
from tui_evals.tui.rows import row_text
from tui_evals.tui.watch import AnswerOrder, StoreChange, Watch
from tui_evals.tui.widgets.dialogs import Ask, Menu
from tui_evals.tui.workspace import StoreWriter, Workspace

HOSTILE = (
    "[/b] [@click=app.quit]x[/] \x1b]52;c;aGk=\x07 \x1b[2J \x9b31m \u202e 日本語 \ud800 "
    + "long " * 1_000
    + "\r\x08\x7f end"
)
SINGLE = {"testId": "capital", "prompt": "Capital of France?", "expected_response": "Paris is the capital."}
BARE = {"testId": "free", "prompt": "Say something"}
TALK = {
    "testId": "talk",
    "turns": [
        {"prompt": "My name is Ada", "expected_response": "Hello Ada"},
        {"prompt": "What is my name?", "expected_response": "Ada"},
    ],
}


def document(*items):
    return {"schemaVersion": "1.11.0", "items": list(items or (SINGLE, BARE, TALK))}


def answered(text, **given):
    given.setdefault("request", {"messages": [{"role": "user", "content": "Capital of France?"}]})
    return said(text, **given)


class Project:
    """A dataset file, a store, and a run with an answer for every turn of the dataset."""

    def __init__(self, root, data=None, records=(), source="data.json"):
        self.root = root
        self.data = data or document()
        self.file = root / "data.json"
        self.file.write_text(json.dumps(self.data))
        self.path = open_store(root / ".evals" / "evals.db")
        planned = [
            PlannedAnswer(number, number, turn, 0, 0, 0, item.get("testId", f"#{number + 1}"))
            for number, item in enumerate(self.data["items"])
            for turn in range(len(item.get("turns", [item])))
        ]
        with Writer(self.path) as writer, Reader(self.path) as reader:
            snapshot = writer.snapshot(self.data, "x")
            run = writer.plan(new_run(snapshot=snapshot, source=source), planned)
            self.run = run.id
            self.rows = [row.id for row in reader.window(run.id, 0, 100)]

    def write(self, step):
        with Writer(self.path) as writer:
            outcome = step(writer)
            if asyncio.iscoroutine(outcome):
                raise AssertionError("use `answer` for steps that wait")
            return outcome

    async def answer(self, place, record, *scores, number=1, status="fail"):
        def wait(work):
            return asyncio.run(work)

        def step():
            with Writer(self.path) as writer:
                if record is not None:
                    wait(writer.answered(self.rows[place], record, "error" if record.text is None else "answered"))
                if scores:
                    wait(writer.scored(self.rows[place], number, scores, status, scores[0].score))

        await asyncio.to_thread(step)

    async def together(self, item, turn, record, number=1):
        with Writer(self.path) as writer:
            await writer.group_scored(self.run, number, item, turn, record)

    def case(self, place):
        return AnswerFinder(self.path).find(self.rows[place])

    def text(self, place, width=80, **manner):
        rows = answer_rows(ComparedAnswer(self.case(place)), AnswerView(**manner), width)
        return "\n".join(row_text(one).rstrip() for one in rows)


@pytest.fixture
def project(tmp_path):
    return Project(tmp_path)


# -- what is shown


async def test_a_failed_answer_is_told_from_its_facts_to_its_attempts(project):
    record = answered(
        "Lyon is the capital.",
        model="gpt-x-2024",
        finish_reason="stop",
        input_tokens=12,
        output_tokens=5,
        cost=0.00012,
        latency_ms=812.0,
        attempts=2,
        tool_calls=({"id": "1", "name": "lookup", "arguments": '{"city": "Lyon"}'},),
        diagnostics={"shard": 7},
    )
    score = judged("Match", 0.25, threshold=0.5, label="wrong", reason="not the city", details={"seen": "Lyon"})
    await project.answer(0, record, score)
    call = CallRecord(
        answer=project.rows[0],
        kind="target",
        target="demo",
        attempt=1,
        started=1.0,
        latency_ms=30.0,
        code="agentRateLimited",
        message="slow down",
    )
    project.write(lambda writer: writer.call(call, project.run))
    project.write(lambda writer: writer.label(project.rows[0], "fail", "ada", note="a classic"))
    text = project.text(0, 120)
    order = [
        "✗ fail 0.25  capital",
        "✗ Match 0.25",
        "Match 0.25 (at least 0.5): not the city",
        "812 ms · 12 tokens in, 5 out · $0.0001 · 2 attempts · answered by gpt-x-2024",
        "Expected and answer, side by side",
        "~ 1 line changed",
        "Lyon is the capital.",
        "Scores",
        "✗ ada says it is bad: a classic",
        "✗ fail    Match 0.25 (at least 0.5) · wrong",
        "seen: Lyon",
        "Tool calls",
        "→ lookup",
        '{"city": "Lyon"}',
        "Request",
        "user:",
        "Diagnostics",
        "Attempts",
        f"! target demo · {exact_time(1.0)} · 30 ms · agentRateLimited: slow down",
    ]
    places = [text.find(part) for part in order]
    assert -1 not in places, order[places.index(-1)]
    assert places == sorted(places)


async def test_the_steps_of_an_agent_are_a_section(project):
    call = {"id": "a", "name": "find", "arguments": '{"id": 7}', "result": HOSTILE, "by": "scripted", "failed": True}
    steps = ({"text": None, "calls": [call], "latency_ms": 20.0}, {"text": "Paris", "calls": [], "latency_ms": 3.0})
    tools = ({"id": "a", "name": "find", "arguments": '{"id": 7}'},)
    await project.answer(0, answered("Paris", steps=steps, tool_calls=tools))
    text = project.text(0, 120)
    order = [
        "2 steps",
        "Steps",
        "step 1 of 2 · 20 ms",
        '→ find {"id": 7}',
        "! [/b]",
        "scripted",
        "step 2 of 2",
        "Request",
    ]
    places = [text.find(part) for part in order]
    assert -1 not in places and places == sorted(places)
    assert "Tool calls" not in text and not {"\x1b", "\x07", "\x9b"} & set(text)


async def test_a_conversation_with_a_simulated_user_is_read_turn_by_turn(project):
    said = {"goal": "reached", "message": HOSTILE}
    steps = (
        {"asked": "Where is it?", "text": "Which order?", "calls": []},
        {"asked": "Order 7.", "text": "Paris", "calls": [], "user": said},
    )
    await project.answer(0, answered("Paris", steps=steps))
    text = project.text(0, 120)
    order = ["Steps", "user: Where is it?", "Which order?", "user: Order 7.", "Paris", "user, whose goal is reached: "]
    places = [text.find(part, text.find("Steps")) for part in order]
    assert -1 not in places and places == sorted(places) and not {"\x1b", "\x07", "\x9b"} & set(text)


async def test_where_there_is_no_answer_the_reason_and_what_was_expected_stand(project):
    await project.answer(0, answered(None, code="agentTimeout", message="took too long"))
    text = project.text(0)
    assert "! agentTimeout: took too long" in text
    assert "Paris is the capital." in text
    assert "Not asked yet." in project.text(1)


async def test_without_a_reference_the_answer_stands_alone_and_a_is_offered(project):
    await project.answer(1, answered("something"))
    text = project.text(1)
    assert "│" not in text
    assert "a makes it the expected response" in text


async def test_layouts_show_two_columns_one_or_only_the_answer(project):
    await project.answer(0, answered("Paris is the capital. Yes."))
    assert "│" in project.text(0)
    assert "│" not in project.text(0, layout="unified")
    assert "\n-Paris is the capital." in project.text(0, layout="unified")
    only = project.text(0, layout="answer")
    assert "\nParis is the capital. Yes." in only
    assert "\n-" not in only
    assert "z zooms" in project.text(0, width=38).replace("\n", " ")
    assert "│" not in project.text(0, width=38)


async def test_raw_spells_out_what_a_terminal_would_obey(project):
    await project.answer(0, answered("Paris\x1b[2J"))
    assert "\\x1b[2J" in project.text(0, raw=True)
    assert "\\x1b" not in project.text(0)
    assert "\\x1b[2J" in project.text(0, raw=True, layout="answer")


async def test_a_rescored_answer_shows_every_pass(project):
    await project.answer(0, answered("Lyon"), judged("Match", 0.0))
    project.write(lambda writer: new_pass(writer, project.run, {}))
    await project.answer(0, None, judged("Match", 1.0), number=2, status="pass")
    text = project.text(0)
    assert "Scores of pass 2" in text
    assert "✓ pass    Match 1\n" in text
    assert "pass 1: ✗ fail 0" in text


async def test_what_was_found_of_all_answers_to_an_item_stands_below_the_answers_own_scores(project):
    await project.answer(0, answered("Lyon"), judged("Match", 0.0))
    await project.together(0, 0, judged("Best", 0.25, threshold=0.5, reason="the second is better"))
    text = project.text(0)
    order = [
        "Scores\n",
        "✗ fail    Match 0\n",
        "All answers to this item; it counts into the status of none of them:\n",
        "✗ fail    Best 0.25 (at least 0.5)\n",
        "the second is better",
    ]
    places = [text.find(part) for part in order]
    assert -1 not in places, order[places.index(-1)]
    assert places == sorted(places)
    assert "All answers" not in project.text(1)
    project.write(lambda writer: new_pass(writer, project.run, {}))
    assert "Not judged in this pass." in project.text(0) and "All answers" not in project.text(0)
    await project.together(0, 0, judged("Best", 1.0), number=2)
    assert "✓ pass    Best 1\n  pass 1: ✗ fail 0.25\n" in project.text(0)
    assert "Not judged" not in project.text(0)


async def test_in_a_conversation_all_answers_are_those_to_the_turn(project):
    await project.answer(2, answered("Hello Ada"), judged("Match", 1.0), status="pass")
    await project.answer(3, answered("Eve"), judged("Match", 0.0))
    await project.together(2, 1, judged("Best", 1.0))
    assert "All answers to this turn;" in project.text(3)
    assert "All answers" not in project.text(2)


async def test_a_conversation_shows_every_turn_against_what_was_expected(project):
    await project.answer(2, answered("Hello Ada, dear"), judged("Match", 1.0), status="pass")
    await project.answer(3, answered("Eve"), judged("Match", 0.0))
    text = project.text(3)
    assert "talk · turn 2 of 2" in text
    order = [
        "asked  What is my name?",
        "Expected and answer",
        "Eve",
        "Conversation of 2 turns",
        "My name is Ada",
        "dear",
    ]
    places = [text.find(part) for part in order]
    assert text.rindex("user: What is my name?") > places[-1]
    assert -1 not in places
    assert places == sorted(places)
    assert text.count("its answer is above") == 1


async def test_an_answer_that_is_only_tool_calls_says_so(project):
    await project.answer(1, answered("", tool_calls=({"id": "1", "name": "go", "arguments": "not json"},)))
    text = project.text(1)
    assert "The answer is empty. The tool calls are below." in text
    assert "→ go\n  not json" in text


async def test_messages_that_are_no_text_are_named(project):
    picture = {"role": "user", "content": [{"type": "text", "text": "What is it?"}, {"type": "image_url"}]}
    await project.answer(1, answered("a cat", request={"messages": [picture], "temperature": 0}))
    assert "  What is it?\n  <image_url>\n" in project.text(1)
    assert "temperature: 0" in project.text(1)


@pytest.mark.story
@pytest.mark.parametrize("width", [20, 38, 76])
async def test_hostile_texts_are_rows_like_others(tmp_path, width):
    item = {"testId": HOSTILE[:60].replace("\ud800", ""), "prompt": "x", "expected_response": "\x1b[2Jx"}
    project = Project(tmp_path, document(item))
    record = answered(
        HOSTILE,
        model="\x1b[31mred",
        finish_reason="[/b]",
        request={"messages": [{"role": HOSTILE, "content": HOSTILE}]},
        tool_calls=({"name": HOSTILE, "arguments": HOSTILE},),
        diagnostics={HOSTILE: HOSTILE},
    )
    await project.answer(0, record, judged(reason=HOSTILE, label=HOSTILE, details={"x": HOSTILE}))
    strange = judged(HOSTILE.replace("\ud800", ""), reason=HOSTILE, label=HOSTILE, details={"x": HOSTILE})
    await project.together(0, 0, strange)
    for layout in ("sides", "unified", "answer"):
        for raw in (False, True):
            text = project.text(0, width, layout=layout, raw=raw)
            assert "\x1b" not in text
            assert "[@click=app.quit]x[/]" in text.replace("\n", "") or width < 38


# -- where its item is now


def test_an_item_is_found_by_name_by_place_or_by_what_it_asks():
    items = [BARE, SINGLE, {"prompt": "no name"}]
    assert place_of(items, SINGLE, 0) == 1
    assert place_of(items, {**SINGLE, "prompt": "another"}, 0) == 1
    assert place_of(items, {"prompt": "no name"}, 0) == 2
    assert place_of(items, {"prompt": "no name", "expected_response": "x"}, 2) == 2
    assert place_of(items, {"prompt": "gone"}, 0) is None
    assert place_of([SINGLE, SINGLE], SINGLE, 1) == 1
    assert place_of([{"prompt": "x"}, None, {"prompt": "x"}], {"prompt": "x"}, 1) is None


def test_a_turn_is_found_in_its_conversation(project):
    asked = project.case(3)
    assert unit_place([BARE, TALK], asked) == ("items", 1, "turns", 1)
    assert unit_place([{**TALK, "turns": TALK["turns"][:1]}], asked) is None


async def test_everything_that_can_be_copied_has_a_name(project):
    await project.answer(0, answered("Lyon is the capital."))
    parts = copyable_parts(project.case(0))
    assert parts["answer"].text == "Lyon is the capital."
    assert parts["prompt"].text == "Capital of France?"
    assert parts["expected"].text == "Paris is the capital."
    assert parts["diff"].text == "-Paris is the capital.\n+Lyon is the capital.\n"
    assert json.loads(parts["request"].text)["messages"][0]["role"] == "user"
    assert parts["command"].text.endswith("--item capital")
    assert copyable_parts(project.case(1))["answer"].why_not == "there is no answer"


# -- the pane


class Bench(App[None]):
    """Only this pane, and what it tells."""

    CSS = ".filter { dock: bottom; height: 1; display: none; }"

    def __init__(self, project, place=0):
        super().__init__()
        watch = Watch(project.path)
        watch.open_run(project.run)
        watch.answer = project.rows[place]
        self.pane = DetailPane(Workspace(project.root, project.path), watch, StoreWriter(project.path, dict))
        self.heard = []
        self.told = []

    def compose(self):
        yield self.pane

    def on_status_message(self, message):
        self.heard.append(message.text)

    def on_copy_text(self, message):
        self.told.append((message.what, message.text))

    def on_state_changed(self):
        self.told.append("changed")
        self.pane.sync()

    def on_item_shown(self):
        self.told.append("went")

    def on_show_pane(self, message):
        if isinstance(message, ShowPane):
            self.told.append(f"show {message.place}")

    def on_answer_shown(self):
        self.pane.sync()

    @property
    def lines(self):
        return self.pane.query_one("Lines")

    @property
    def text(self):
        return "\n".join(row_text(one) for one in self.lines.rows)


async def until(pilot, condition, seconds=180.0):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it never came"
        await pilot.pause(0.005)


async def test_an_answer_is_shown_and_another_with_a_key(project):
    await project.answer(0, answered("Lyon is the capital."))
    await project.answer(1, answered("anything"))
    app = Bench(project)
    async with app.run_test(size=(80, 20)) as pilot:
        await until(pilot, lambda: "Lyon is the capital." in app.text)
        assert "capital · side by side" in str(app.pane.border_title)
        app.pane.focus_lines()
        await pilot.press("J")
        await until(pilot, lambda: "anything" in app.text)
        await pilot.press("less_than_sign", "K")
        await until(pilot, lambda: "Lyon is the capital." in app.text and app.heard)
        assert app.heard == ["this is the first answer"]


async def test_layout_and_raw_are_keys_and_stand_in_the_title(project):
    await project.answer(0, answered("Paris\x1b[2J"))
    app = Bench(project)
    async with app.run_test(size=(80, 20)) as pilot:
        await until(pilot, lambda: "│" in app.text)
        app.pane.focus_lines()
        await pilot.press("d", "w")
        await until(pilot, lambda: "\n+Paris\\x1b[2J" in app.text)
        assert "unified · raw" in str(app.pane.border_title)


async def test_without_an_answer_the_pane_says_what_belongs_here(project):
    app = Bench(project)
    app.pane.watching.answer = None
    async with app.run_test(size=(38, 8)) as pilot:
        await until(pilot, lambda: "No answer is chosen." in app.text)
        app.pane.focus_lines()
        await pilot.press("a")
        await until(pilot, lambda: app.heard)
        assert app.heard == ["no answer is chosen; choose one in the results (4)"]


async def test_an_answer_that_is_deleted_is_told(project):
    app = Bench(project)
    app.pane.watching.answer = 999
    async with app.run_test(size=(60, 8)) as pilot:
        await until(pilot, lambda: "is no longer in the store" in app.text)


async def test_what_changes_in_the_store_is_shown_where_one_is(project):
    await project.answer(0, answered("Lyon\n" * 60))
    app = Bench(project)
    async with app.run_test(size=(80, 12)) as pilot:
        await until(pilot, lambda: "Lyon" in app.text)
        app.pane.watching.poll()
        app.lines.scroll_to(y=10, animate=False)
        await pilot.pause()
        await project.answer(0, None, judged(reason="told later"))
        app.pane.pulse(app.pane.watching.poll())
        await until(pilot, lambda: "told later" in app.text)
        assert app.lines.scroll_offset.y == 10


async def test_of_a_run_that_goes_on_only_what_is_on_screen_is_fetched_again(project, monkeypatch):
    for place in (0, 2):
        await project.answer(place, answered("Lyon"))
    app = Bench(project, 3)
    async with app.run_test(size=(80, 30)) as pilot:
        await until(pilot, lambda: "Lyon" in app.text)
        fetched = []
        find = AnswerFinder.find
        monkeypatch.setattr(AnswerFinder, "find", lambda self, answer: fetched.append(answer) or find(self, answer))
        pane, going_on = app.pane, replace(app.pane.watching.run, status="running")
        rows = pane.watching.reader.rows(project.rows)
        pane.watching.run = going_on
        pane.pulse(StoreChange(rows=[rows[0]], runs=True))
        await pilot.pause(0.05)
        assert fetched == []
        pane.pulse(StoreChange(rows=[rows[2]], runs=True))
        await until(pilot, lambda: fetched == [project.rows[3]])


@pytest.mark.nightly
async def test_a_long_diff_is_waited_for_with_the_answer_on_screen(tmp_path, monkeypatch):
    project = Project(tmp_path, document({"prompt": "x", "expected_response": "y"}))
    await project.answer(0, answered("long words\n" * 30_000))
    gate = threading.Event()
    monkeypatch.setattr(answer_context, "diff_texts", lambda *texts: gate.wait(60) and diff_texts(*texts))
    app = Bench(project)
    async with app.run_test(size=(80, 12)) as pilot:
        await until(pilot, lambda: "… comparing with what was expected" in app.text)
        assert "long words" in app.text
        gate.set()
        await until(pilot, lambda: "│" in app.text)
        assert "comparing" not in app.text


async def test_what_was_laid_out_too_late_is_never_shown(project, monkeypatch):
    for place, text in enumerate(("Lyon", "anything")):
        await project.answer(place, answered(text))
    gate, started = threading.Event(), threading.Event()

    def slow(look, manner, width):
        if manner.layout == "unified":
            started.set()
            gate.wait(60)
        return answer_rows(look, manner, width)

    app = Bench(project)
    async with app.run_test(size=(80, 20)) as pilot:
        await until(pilot, lambda: "Lyon" in app.text)
        monkeypatch.setattr(presenting, "answer_rows", slow)
        app.pane.focus_lines()
        await pilot.press("d")
        await until(pilot, started.is_set)
        seen = []
        show = app.lines.show
        monkeypatch.setattr(app.lines, "show", lambda maker: show(maker) or seen.append(app.text))
        app.pane.watching.answer = project.rows[1]
        app.pane.sync()
        gate.set()
        await until(pilot, lambda: "anything" in app.text)
        assert not [text for text in seen if "Lyon" in text]


async def test_an_answer_the_filter_leaves_out_lies_before_the_first_and_behind_the_last(project):
    app = Bench(project)
    watch = app.pane.watching
    watch.arrange(AnswerOrder("turn"), array("q", project.rows[1:3]))
    async with app.run_test(size=(80, 20)) as pilot:
        for key, row in (("J", 1), ("K", 2)):
            watch.answer = project.rows[0]
            app.pane.focus_lines()
            await pilot.press(key)
            await until(pilot, lambda row=row: watch.answer == project.rows[row])


async def test_a_search_marks_jumps_and_goes_round(project):
    await project.answer(1, answered("\n".join(f"line {n} {'needle' if n in (50, 80) else ''}" for n in range(100))))
    app = Bench(project, 1)
    async with app.run_test(size=(60, 12)) as pilot:
        await until(pilot, lambda: "needle" in app.text)
        rows = [number for number, one in enumerate(app.lines.rows) if "needle" in row_text(one)]
        app.pane.focus_lines()
        await pilot.press("slash", *"NEEDLE")
        await until(pilot, lambda: app.lines.scroll_offset.y == rows[0] - 1)
        await pilot.press("enter")
        await until(pilot, lambda: app.heard)
        assert app.heard == ["“NEEDLE”: 1 of 2 · n N · esc ends it"]
        await pilot.press("n")
        await until(pilot, lambda: app.lines.scroll_offset.y == rows[1] - 1)
        await until(pilot, lambda: app.heard[-1].startswith("“NEEDLE”: 2 of 2"))
        await pilot.press("n")
        await until(pilot, lambda: app.lines.scroll_offset.y == rows[0] - 1)
        await pilot.press("N")
        await until(pilot, lambda: app.lines.scroll_offset.y == rows[1] - 1)
        assert app.pane.escape()
        assert not app.pane.escape()
        assert not app.query_one(Input).display


async def test_accepting_makes_it_the_expected_response_and_undo_takes_it_back(project):
    await project.answer(0, answered("Lyon is the capital."))
    app = Bench(project)
    async with app.run_test(size=(80, 20)) as pilot:
        await until(pilot, lambda: "Lyon" in app.text)
        app.pane.focus_lines()
        await pilot.press("a")
        await until(pilot, lambda: app.heard)
        assert app.heard[0].startswith("capital now expects this answer; u undoes it")
        workspace = app.pane.workspace
        assert workspace.editing.document.file == project.file.resolve()
        assert workspace.items[0]["expected_response"] == "Lyon is the capital."
        assert "changed" in app.told
        workspace.editing.undo()
        assert workspace.items[0] == SINGLE


async def test_accepting_a_turn_changes_that_turn(project):
    await project.answer(3, answered("Your name is Ada"))
    app = Bench(project, 3)
    async with app.run_test(size=(80, 20)) as pilot:
        await until(pilot, lambda: "Your name" in app.text)
        app.pane.focus_lines()
        await pilot.press("a")
        await until(pilot, lambda: app.heard)
        assert [turn["expected_response"] for turn in app.pane.workspace.items[2]["turns"]] == [
            "Hello Ada",
            "Your name is Ada",
        ]


async def test_what_cannot_be_accepted_says_why(tmp_path):
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    for folder, change, sentence in (
        ("one", {"source": "prompts"}, "the run asked prompts, which is no dataset file"),
        ("two", {}, "capital is not in data.json any more"),
    ):
        project = Project(tmp_path / folder, **change)
        await project.answer(0, answered("Lyon"))
        project.file.write_text(json.dumps(document(BARE)))
        app = Bench(project)
        async with app.run_test(size=(80, 20)) as pilot:
            await until(pilot, lambda app=app: "Lyon" in app.text)
            app.pane.focus_lines()
            await pilot.press("a")
            await until(pilot, lambda app=app: app.heard)
            assert sentence in app.heard[0]
            assert "changed" not in app.told or app.pane.workspace.items == [BARE]


async def test_i_goes_to_the_item_and_r_would_run_it(project):
    app = Bench(project, 3)
    async with app.run_test(size=(80, 20)) as pilot:
        await until(pilot, lambda: "talk" in app.text)
        assert app.pane.selection() is None
        app.pane.focus_lines()
        await pilot.press("i")
        await until(pilot, lambda: "show editor" in app.told)
        assert app.pane.workspace.where == ("items", 2, "turns", 1)
        assert app.told == ["changed", "went", "show editor"]
        assert app.pane.selection().items == (2,)


async def test_a_conversation_becomes_an_item_after_the_one_one_is_in(project):
    chat = [{"role": "system", "content": "Be kind"}, {"role": "user", "content": "Hello?"}]
    await project.answer(0, answered("Hello!", request={"messages": chat}))
    app = Bench(project)
    app.pane.workspace.open_file(project.file)
    app.pane.workspace.where = ("items", 1)
    async with app.run_test(size=(80, 20)) as pilot:
        await until(pilot, lambda: "Hello!" in app.text)
        app.pane.focus_lines()
        await pilot.press("I")
        await until(pilot, lambda: "show editor" in app.told)
        item = app.pane.workspace.items[2]
        assert (item["prompt"], item["expected_response"]) == ("Hello?", "Hello!")
        assert app.pane.workspace.where == ("items", 2)
        assert len(app.pane.workspace.items) == 4


@pytest.mark.nightly
async def test_a_verdict_with_a_note_is_stored_and_shown_and_taken_back(project):
    await project.answer(0, answered("Lyon"))
    app = Bench(project)
    async with app.run_test(size=(80, 30)) as pilot:
        await until(pilot, lambda: "Lyon" in app.text)
        app.pane.focus_lines()
        await pilot.press("v")
        await until(pilot, lambda: isinstance(app.screen, Menu))
        await pilot.press(*"bad", "enter")
        await until(pilot, lambda: isinstance(app.screen, Ask))
        await pilot.press(*"no", "enter")
        await until(pilot, lambda: "says it is bad: no" in app.text)
        app.pane.focus_lines()
        await pilot.press("v")
        await until(pilot, lambda: isinstance(app.screen, Menu))
        await pilot.press(*"clear", "enter")
        await until(pilot, lambda: "says it is" not in app.text)
        await app.pane.writer.close()
    assert project.case(0).detail.labels == ()


async def test_the_copy_menu_posts_what_was_chosen(project):
    await project.answer(0, answered("Lyon"))
    app = Bench(project)
    async with app.run_test(size=(80, 30)) as pilot:
        await until(pilot, lambda: "Lyon" in app.text)
        app.pane.focus_lines()
        await pilot.press("y")
        await until(pilot, lambda: isinstance(app.screen, Menu))
        await pilot.press(*"diff", "enter")
        await until(pilot, lambda: app.told)
        assert app.told == [("diff", "-Paris is the capital.\n+Lyon\n")]


async def test_the_pager_needs_a_terminal_and_says_so(project):
    await project.answer(0, answered("Lyon"))
    app = Bench(project)
    async with app.run_test(size=(80, 30)) as pilot:
        await until(pilot, lambda: "Lyon" in app.text)
        app.pane.focus_lines()
        await pilot.press("vertical_line")
        await until(pilot, lambda: app.heard)
        assert app.heard == ["this terminal cannot be lent to a pager; y copies the answer"]


def test_the_pager_is_the_one_that_was_chosen():
    assert pager_command({"PAGER": "more -s"}) == ["more", "-s"]
    assert pager_command({"PAGER": " "}) == pager_command({}) == ["less"]


class Lending:
    """An app whose terminal can be lent."""

    class suspend:
        def __enter__(self):
            return self

        def __exit__(self, *_):
            return None


def test_the_pager_is_given_a_safe_text_in_a_file_that_is_gone_afterwards(tmp_path, monkeypatch):
    script = tmp_path / "pager.sh"
    seen = tmp_path / "seen"
    script.write_text(f'#!/bin/sh\nstat -c %a "$1" > {seen}\necho "$1" >> {seen}\ncat "$1" >> {seen}\n')
    script.chmod(0o700)
    monkeypatch.setenv("PAGER", str(script))
    assert show_in_pager(Lending(), "Paris\x1b[2J\u202e") is None
    mode, name, text = seen.read_text().split("\n", 2)
    assert mode == "600"
    assert text == "Paris<U+202E>"
    assert not Path(name).exists()


@pytest.mark.parametrize(
    ("chosen", "sentence"), [("no-such-pager", "could not be started"), ("'unclosed", "cannot be read as a command")]
)
def test_a_pager_that_cannot_be_started_is_told(monkeypatch, chosen, sentence):
    monkeypatch.setenv("PAGER", chosen)
    assert sentence in show_in_pager(Lending(), "text")


async def test_hostile_answers_reach_no_line_of_the_screen(tmp_path):
    project = Project(tmp_path, document({"prompt": "x", "expected_response": "\x1b]52;c;aGk=\x07 [/b]"}))
    await project.answer(0, answered(HOSTILE), judged(reason=HOSTILE))
    app = Bench(project)
    async with app.run_test(size=(60, 20)) as pilot:
        await until(pilot, lambda: "日本語" in app.text)
        app.pane.focus_lines()
        for key in ("d", "d", "w"):
            drawn = "".join(app.lines.render_line(y).text for y in range(app.lines.size.height))
            assert not [sign for sign in "\x1b\x9b\u202e\x07\r\x08\x7f\ud800" if sign in drawn]
            assert not app._exception
            await pilot.press(key)
            await pilot.pause()
        await until(pilot, lambda: "\\x1b" in app.text)


async def test_of_many_wishes_only_the_last_is_shown(project, monkeypatch):
    for place, text in enumerate(("Lyon", "anything", "Hello", "Eve")):
        await project.answer(place, answered(text))
    app = Bench(project)
    fetched = []
    find = AnswerFinder.find
    monkeypatch.setattr(AnswerFinder, "find", lambda self, answer: fetched.append(answer) or find(self, answer))
    async with app.run_test(size=(60, 20)) as pilot:
        await until(pilot, lambda: "Lyon" in app.text)
        for answer in (*project.rows * 20, project.rows[3]):
            app.pane.watching.answer = answer
            app.pane.sync()
        await until(pilot, lambda: "Eve" in app.text)
        assert len(fetched) <= 4


async def test_a_hidden_pane_fetches_nothing_until_it_is_seen(project, monkeypatch):
    await project.answer(0, answered("Lyon"))
    await project.answer(1, answered("anything"))
    app = Bench(project)
    async with app.run_test(size=(60, 20)) as pilot:
        await until(pilot, lambda: "Lyon" in app.text)
        app.pane.display = False
        await pilot.pause()
        fetched = []
        find = AnswerFinder.find
        monkeypatch.setattr(AnswerFinder, "find", lambda self, answer: fetched.append(answer) or find(self, answer))
        app.pane.watching.answer = project.rows[1]
        app.pane.sync()
        await pilot.pause(0.2)
        assert fetched == []
        app.pane.display = True
        await until(pilot, lambda: "anything" in app.text)


@pytest.mark.nightly
async def test_an_answer_of_a_megabyte_is_shown_before_it_is_compared(tmp_path):
    text = "\n".join(f"line {n} of a very long answer, with some words more in it" for n in range(17_000))
    assert len(text) > 1_000_000
    project = Project(tmp_path, document({"prompt": "x", "expected_response": text[:3_000]}, {"prompt": "y"}))
    await project.answer(0, answered(text))
    app = Bench(project, 1)
    async with app.run_test(size=(100, 30)) as pilot:
        await until(pilot, lambda: "Not asked yet." in app.text)
        app.pane.watching.answer = project.rows[0]
        app.pane.sync()
        await until(pilot, lambda: "line 0 of" in "".join(row_text(one) for one in app.lines.rows[:12]))
        await until(pilot, lambda: "│" in "".join(row_text(one) for one in app.lines.rows[:12]))


async def test_the_details_of_a_score_are_lines_and_those_that_say_nothing_are_left_out(project):
    details = {"found": [], "reply": '{"score": 2}', "scripted": True, "seen": None, "kept": {"a": 1}}
    await project.answer(0, answered("Lyon"), judged("Match", 2.0, threshold=3.0, details=details))
    text = project.text(0)
    assert "Match 2 (at least 3)" in text
    assert '  reply: {"score": 2}\n  scripted: true\n  kept: {"a": 1}\n' in text
    assert "found" not in text and "seen" not in text


async def test_a_long_question_stands_above_its_answer_in_three_lines(tmp_path):
    project = Project(tmp_path, document({"testId": "long", "prompt": "word " * 500, "expected_response": "x"}))
    assert project.text(0, 60).count("word") < 60 and "full text is below" not in project.text(0, 60)
    await project.answer(0, answered("y", request={"messages": [{"role": "user", "content": "word " * 500}]}))
    lines = project.text(0, 60).split("\n")
    start = next(number for number, line in enumerate(lines) if line.startswith("asked  word"))
    assert lines[start + 3] == "       … the full text is below"


async def test_an_answer_that_a_stopped_run_left_open_says_how_it_goes_on(project):
    project.write(lambda writer: writer.running(project.rows[:1], 1.0))
    reason = {"message": "the budget is spent", "code": "budget"}
    project.write(lambda writer: writer.run_status(project.run, "interrupted", **reason))
    text = project.text(0)
    assert text.startswith("· pending") and "answered: the budget is spent. p resumes it" in text


# -- what judged it, and where a key goes


VERDICTS = (
    judged("PartialMatch", 0.74, threshold=0.6),
    judged("Relevance", 5.0, threshold=3, result="pass"),
    judged("Includes", 0.0, reason='"28 days" is not in the answer'),
)


async def test_under_the_status_stands_a_badge_for_each_evaluator_then_why_the_first_that_failed_did(project):
    await project.answer(0, answered("Lyon"), *VERDICTS)
    first, badges, reason, *_ = project.text(0).splitlines()
    assert "capital" in first and badges == "✗ Includes  ✓ PartialMatch 0.74  ✓ Relevance 5"
    assert reason == 'Includes 0: "28 days" is not in the answer'


def test_badges_take_two_lines_at_most_and_count_the_others():
    scores = [judged(f"Evaluator{number}") for number in range(9)]
    lines = [row_text(one) for one in badge_rows(scores, 40, 2)]
    assert len(lines) == 2 and lines[1].endswith("  +4") and max(map(len, lines)) <= 40
    assert len(badge_rows(scores, 40, None)) == 3 and badge_rows([], 40, 2) == []
    assert [row_text(one) for one in badge_rows(scores[:2], 13, 2)] == ["✓ Evaluator0", "✓ Evaluator1"]


async def test_what_a_pager_or_a_copy_is_given_is_never_cut(tmp_path):
    lines = [f"line {number} of what is expected here" for number in range(40)]
    item = {"testId": "long", "prompt": "why? " * 400, "expected_response": "\n".join(lines)}
    project = Project(tmp_path, document(item))
    reason = "because " * 90 + "of that"
    text = "\n".join([*lines[:20], "another line", *lines[21:]])
    await project.answer(0, answered(text), judged("Includes", 0.0, reason=reason))
    shown, whole = (project.text(0, layout="unified", whole=one) for one in (False, True))
    assert "lines alike" in shown and "the full text is below" in shown
    assert "lines alike" not in whole and "full text is below" not in whole and "…" not in whole
    assert whole.count("why?") >= 400 and all(line in whole for line in lines)
    assert whole.split("demo")[0].replace("\n", " ").count("because") == 90
    copied = copyable_parts(project.case(0))["diff"].text
    assert all(f" {line}" in copied or f"-{line}" in copied for line in lines) and "+another line" in copied


async def test_keys_go_to_the_next_change_failing_evaluator_and_section_and_round_again(tmp_path):
    lines = [f"line {number} of what is expected here" for number in range(60)]
    text = "\n".join("something else" if number in (5, 6, 50) else line for number, line in enumerate(lines))
    project = Project(tmp_path, document({"testId": "long", "prompt": "?", "expected_response": "\n".join(lines)}))
    await project.answer(0, answered(text), *VERDICTS, judged("Equals", 0.0))
    app = Bench(project)
    async with app.run_test(size=(80, 20)) as pilot:
        await until(pilot, lambda: "something else" in app.text)
        app.pane.focus_lines()
        at = []
        for key in ("c", "c", "c", "C", "f", "f", "f", "full_stop"):
            await pilot.press(key)
            await until(pilot, lambda: len(app.heard) == len(at) + 1)
            top = int(app.lines.scroll_offset.y)
            at.append("\n".join(row_text(one) for one in app.lines.rows[top : top + 20]))
        assert app.heard[:4] == [
            "change 1 of 2",
            "change 2 of 2",
            "change 1 of 2, round again",
            "change 2 of 2, round again",
        ]
        assert app.heard[4:7] == [
            "not passed 1 of 2: Equals 0",
            "not passed 2 of 2: Includes 0",
            "not passed 1 of 2: Equals 0, round again",
        ]
        assert "section" in app.heard[7]
        assert "line 5 " in at[0] and "line 50 " in at[1] and "line 5 " in at[2] and "Equals" in at[4]
        await pilot.press("d", "d")
        await until(pilot, lambda: "only the answer" in str(app.pane.border_title))
        await until(pilot, lambda: "the answer is as expected" in (app.pane.why_not("next_change") or ""))


async def test_the_diff_is_against_what_was_judged_and_says_that_the_dataset_expects_otherwise_now(project):
    await project.answer(0, answered("Lyon is the capital."), judged("Match", 0.0))
    app = Bench(project)
    async with app.run_test(size=(90, 20)) as pilot:
        await until(pilot, lambda: "Lyon is the capital." in app.text)
        assert "expects otherwise" not in app.text
        workspace = app.pane.workspace
        workspace.open_file(project.file)
        workspace.apply(set_field(workspace.data, ("items", 0), "expected_response", "Lyon is it."), "an edit")
        app.pane.sync()
        await until(pilot, lambda: "the dataset expects otherwise now" in app.text)
        assert "Paris is the capital." in app.text and "Lyon is it." not in app.text
        workspace.editing.undo()
        app.pane.sync()
        await until(pilot, lambda: "expects otherwise" not in app.text)


WINDOW = slice(5_000, 5_024)


def test_of_a_long_transcript_only_rows_in_sight_are_made(monkeypatch):
    lines = [
        TranscriptLine("step" if number % 4 == 0 else "said", f"line {number}\n more", "1.5 s")
        for number in range(10_000)
    ]
    rows = tree_rows(lines, 80)
    made = []
    monkeypatch.setattr(
        "tui_evals.tui.answer.rows.safe_line", lambda text, most: made.append(text) or text.partition("\n")[0]
    )
    shown = [row_text(rows[number]) for number in range(10_000)[WINDOW]]
    assert len(rows) == 10_000 and len(made) == 2 * len(shown)
    assert shown[0].startswith("▾ line 5000") and shown[0].endswith(" 1.5 s") and {len(one) for one in shown} == {80}
    folded = tree_rows(lines, 80, "steps")
    assert len(folded) == 2_500 and row_text(folded[1]).startswith("▸ line 4")
    assert len(tree_rows(lines[:100], 80)) == 275, "a short one is shown whole, with what each part took"


async def test_the_steps_fold_to_time_and_cost_at_80_by_24(project):
    call = {"id": "a", "name": "find", "arguments": '{"id": 7}', "result": HOSTILE}
    steps = ({"text": "I look.", "calls": [call], "latency_ms": 20.0, "cost": 0.25}, {"text": "Paris", "calls": []})
    await project.answer(0, answered("Paris", steps=steps))
    whole = project.text(0, 80)
    assert "I look." in whole and "! " not in whole.partition("Steps")[0]
    for fold, there, gone in (
        ("parts", ["▾ step 1 of 2", "→ find"], []),
        ("steps", ["▸ step 1 of 2"], ["→ find", "I look."]),
    ):
        text = project.text(0, 80, fold=fold).partition("Steps")[2].partition("Request")[0]
        assert all(part in text for part in [*there, "20 ms · $0.250"]) and not any(part in text for part in gone)
        assert "\x1b" not in text
