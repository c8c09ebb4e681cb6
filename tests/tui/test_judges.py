"""The evaluators pane: who judges here and why, extend and replace, options, and a trial on the answer at hand."""

import asyncio
import json
import threading
from pathlib import Path

import pytest
from rich.cells import cell_len
from textual.app import App

from tui_evals.datasets.resolve import EffectiveEvaluator, resolve_evaluators
from tui_evals.datasets.steps import write_options
from tui_evals.datasets.validate import parse_dataset
from tui_evals.evaluators.base import Evaluator, Score
from tui_evals.evaluators.registry import Registry, built_in
from tui_evals.store.database import open_store
from tui_evals.store.records import AnswerRecord, NewRun, PlannedAnswer
from tui_evals.store.writer import Writer
from tui_evals.targets.base import TargetConfig
from tui_evals.targets.config import Settings
from tui_evals.text.safe import safe_line
from tui_evals.tui import app as workbench
from tui_evals.tui.judges.options import evaluator_choices, judges_page
from tui_evals.tui.judges.pane import JudgesPane
from tui_evals.tui.judges.rows import judge_rows, judges_here, options_words
from tui_evals.tui.judges.trial import CannotTry, TrialResult, on_own_loop
from tui_evals.tui.rows import row_text
from tui_evals.tui.watch import Watch
from tui_evals.tui.widgets.dialogs import Menu
from tui_evals.tui.widgets.form import Form
from tui_evals.tui.widgets.form_fields import free_key
from tui_evals.tui.widgets.lines import Lines
from tui_evals.tui.workspace import StoreWriter, Workspace

HOSTILE = "[/b] [@click=app.quit]x[/] \x1b]52;c;aGk=\x07 \x1b[2J \x9b31m \u202e 日本語 \ud800 " + "long " * 1000
STYLES = Path(workbench.__file__).parent / "styles" / "app.tcss"
SINGLE, SECOND, TALK = ("items", 0), ("items", 1), ("items", 2)


def document(**more):
    return {
        "schemaVersion": "1.11.0",
        "default_evaluators": {"PartialMatch": {"threshold": 0.5}, "Relevance": {}},
        "items": [
            {
                "testId": "greet",
                "prompt": "Say hello",
                "expected_response": "hello there",
                "evaluators": {"PartialMatch": {"threshold": 0.9}, "Twice": {"type": "ExactMatch"}},
            },
            {"prompt": "Say bye", "expected_response": "bye", "response": "bye bye"},
            {"testId": "talk", "turns": [{"prompt": "one", "evaluators": {"Citations": {}}}, {"prompt": "two"}]},
        ],
        **more,
    }


def shown_rows(data, where, of_dataset=False, width=60, **workspace):
    space = Workspace(Path(), Path(), registry=Registry(built_in()), **workspace)
    here = judges_here(data, where, of_dataset)
    return judge_rows(judges_page(space, here, {}), width)


def plain(rows):
    return ["".join(piece.text for piece in row.pieces).rstrip() for row in rows]


def text_of(data, where, **more):
    return "\n".join(plain(shown_rows(data, where, **more)))


# -- who judges, and why


def test_each_evaluator_says_whose_word_it_is_and_what_it_overrides():
    text = text_of(document(), SINGLE, width=40)
    assert "◆ PartialMatch                      item" in text
    assert "  threshold=0.9" in text
    assert "  overrides dataset: threshold=0.5" in text
    assert "◇ Relevance                      dataset" in text
    assert "◆ Twice → ExactMatch                item" in text


def test_a_dataset_that_names_none_has_the_defaults_of_the_system():
    data = document()
    del data["default_evaluators"]
    text = text_of(data, SECOND)
    assert "○ Relevance" in text and "○ Coherence" in text and "system default" in text
    assert "overrides system default: without options" in text_of(
        {**data, "items": [{"prompt": "x", "evaluators": {"Relevance": {"threshold": 4}}}]}, SINGLE
    )


def test_replacing_lists_what_is_left_out():
    data = document()
    data["items"][0]["evaluators_mode"] = "replace"
    text = text_of(data, SINGLE)
    assert "mode    replace" in text
    assert "left out here: Relevance" in text
    assert "overrides" not in text


def test_a_dataset_without_evaluators_says_which_key_adds_one():
    assert "Nothing judges here. Press a" in text_of(document(default_evaluators={}), SECOND)


def test_a_conversation_offers_its_turns():
    rows = shown_rows(document(), TALK)
    assert [row.key for row in rows if row.key] == [("turn", 0), ("turn", 1)]
    assert "its turns have" in "\n".join(plain(rows))
    turn = judges_here(document(), (*TALK, "turns", 0), False)
    assert [(entry.key, entry.origin) for entry in turn.entries][-1] == ("Citations", "turn")


def test_who_is_asked_is_named_and_missed_when_nobody_is():
    assert "no judge named" in text_of(document(), SECOND)
    assert "asks a judge, and none is named" in text_of(document(), SECOND)
    named = text_of(document(), SECOND, settings=Settings(judge="demo"))
    assert "judge   demo" in named and "asks a judge: demo" in named
    own = document(default_evaluators={"Relevance": {"judge": "mine"}})
    assert "asks a judge: mine" in text_of(own, SECOND) and "no judge named" not in text_of(own, SECOND)
    assert "judge" not in text_of(document(default_evaluators={"ExactMatch": {}}), SECOND)


def test_wrong_options_are_said_under_the_evaluator_before_anything_was_validated():
    text = text_of(document(default_evaluators={"Relevance": {"threshold": 9}, "Relevence": {}}), SECOND)
    assert "! threshold: must be at most 5, not 9" in text
    assert "! unknown evaluator 'Relevence'" in text


def test_what_validation_reports_is_said_as_long_as_it_is_about_the_data_as_it_is(space):
    space.open_file(space.root / "evals.json")
    space.apply(document(default_evaluators={"Relevance": {"threshold": 9}, "1st": {}}), "breaking it")
    space.check()
    assert "default_evaluators: '1st' is not an evaluator name" in "\n".join(
        plain(judge_rows(judges_page(space, judges_here(space.data, SECOND, True), {}), 100))
    )
    space.apply(document(), "mending it")
    here = judges_page(space, judges_here(space.data, SECOND, True), {})
    assert not here.problems and not any(block.problems for block in here.blocks)


@pytest.mark.parametrize(
    "wrong", [None, 3, "x", [], [1], {"Relevance": None}, {"Relevance": 3}, {"x": {"type": 4}}, {}]
)
@pytest.mark.parametrize("place", ["default_evaluators", "evaluators", "evaluators_mode", "item", "turns", "items"])
def test_data_of_any_shape_is_shown(wrong, place):
    data = document()
    if place in ("default_evaluators", "items"):
        data[place] = wrong
    elif place == "item":
        data["items"][0] = wrong
    else:
        data["items"][0][place] = wrong
    for where in ((), SINGLE, SECOND, (*SINGLE, "turns", 0)):
        for of_dataset in (True, False):
            assert shown_rows(data, where, of_dataset)


def test_options_that_are_no_object_are_said_and_others_go_on():
    text = text_of(document(default_evaluators={"Relevance": 3, "ExactMatch": {}}), SECOND)
    assert "! the options are no object" in text and "ExactMatch" in text


def test_what_is_shown_is_what_judges():
    data = document()
    for mode in ("extend", "replace"):
        data["items"][0]["evaluators_mode"] = mode
        dataset, problems = parse_dataset(data)
        assert not problems
        assert judges_here(data, SINGLE, False).entries == resolve_evaluators(dataset, dataset.items[0])


def test_options_in_short_quote_what_could_be_misread_and_cut_what_is_long():
    assert options_words({"a": 0.6, "b": "two words", "c": [1], "d": ""}) == 'a=0.6  b="two words"  c=[1]  d=""'
    assert len(options_words({"a": "x" * 10_000, "b": list(range(10_000))})) < 200


@pytest.mark.story
@pytest.mark.parametrize("width", [30, 36, 74, 150])
def test_no_row_is_wider_than_the_pane_whatever_the_texts(width):
    data = document(default_evaluators={HOSTILE: {HOSTILE: HOSTILE}, "Regex": {"pattern": HOSTILE}})
    data["items"][0]["testId"] = data["items"][2]["turns"][0]["prompt"] = HOSTILE
    tried = TrialResult(
        EffectiveEvaluator("Regex", {"pattern": HOSTILE}, "dataset"), Score(1, "pass", 0.5, HOSTILE, HOSTILE), HOSTILE
    )
    space = Workspace(Path(), Path(), registry=Registry(built_in()))
    for where in ((), SINGLE, TALK):
        here = judges_page(space, judges_here(data, where, False), {"Regex": tried})
        for row in judge_rows(here, width):
            assert sum(cell_len(safe_line(piece.text)) for piece in row.pieces) <= width, row


# -- steps


def test_a_second_use_gets_a_name_of_its_own():
    assert free_key("ExactMatch", {"Relevance"}) == "ExactMatch"
    assert free_key("ExactMatch", {"ExactMatch", "ExactMatch2"}) == "ExactMatch3"


def test_options_of_a_system_default_are_written_with_the_other_defaults_kept():
    data = write_options({"items": []}, ("default_evaluators",), "Relevance", {"threshold": 4})
    assert data["default_evaluators"] == {"Relevance": {"threshold": 4}, "Coherence": {}}


def test_the_list_marks_those_that_judge_already_and_offers_every_evaluator():
    entries = evaluator_choices(Registry(built_in()), judges_here(document(), SINGLE, False))
    found = {entry.key: entry for entry in entries}
    assert set(found) == {kind.name for kind in built_in().values()}
    assert found["ExactMatch"].about.startswith("✓ here")
    assert not found["Citations"].about.startswith("✓")
    assert "Example" in found["Citations"].more and "threshold (default: 1)" in found["Citations"].more


# -- the pane


@pytest.fixture
def space(tmp_path):
    (tmp_path / "evals.json").write_text(json.dumps(document()))
    made = Workspace(tmp_path, open_store(tmp_path / ".evals" / "evals.db"))
    made.configure()
    return made


class Bench(App[None]):
    CSS_PATH = STYLES

    def __init__(self, space, where):
        super().__init__()
        self.heard = []
        self.space = space
        self.watching = Watch(space.database)
        self.pane = JudgesPane(space, self.watching, StoreWriter(space.database, dict))
        if where is not None:
            space.open_file(space.root / "evals.json")
            space.where = where

    def compose(self):
        yield self.pane

    def on_unmount(self):
        self.watching.close()

    def on_status_message(self, message):
        self.heard.append(message.text)

    def on_state_changed(self):
        self.pane.sync()

    def on_item_shown(self):
        self.pane.sync()

    @property
    def text(self):
        return "\n".join(plain(self.pane.query_one(Lines).rows))

    def to(self, key):
        self.pane.query_one(Lines).to_key(("evaluator", key))


async def until(pilot, condition):
    async with asyncio.timeout(180):
        while not condition():
            await pilot.pause()
            await asyncio.sleep(0.005)


def bench(space, where=SINGLE, size=(60, 30)):
    return Bench(space, where).run_test(size=size)


async def test_m_turns_extend_into_replace_and_the_list_follows_at_once(space):
    async with bench(space) as pilot:
        await pilot.press("m")
        await pilot.pause()
        assert space.data["items"][0]["evaluators_mode"] == "replace"
        assert "left out here: Relevance" in pilot.app.text
        await pilot.press("m")
        await pilot.pause()
        assert "evaluators_mode" not in space.data["items"][0]
        assert "left out here" not in pilot.app.text
        assert space.editing.undo()


async def test_before_the_evaluators_are_found_nothing_is_said_of_no_dataset(space):
    async with bench(space) as pilot:
        found, space.registry = space.registry, Registry({})
        pilot.app.pane.sync()
        assert "being found" in pilot.app.text and "No dataset" not in pilot.app.text
        space.registry = found
        pilot.app.pane.sync()
        assert "level   " in pilot.app.text


async def test_l_goes_to_the_dataset_and_another_item_comes_back(space):
    async with bench(space) as pilot:
        await pilot.press("l")
        assert "level   the dataset" in pilot.app.text and "Twice" not in pilot.app.text
        await pilot.press("m")
        assert "apply to all items" in pilot.app.heard[-1]
        space.where = SECOND
        pilot.app.pane.sync()
        await pilot.pause()
        assert "level   #2" in pilot.app.text


async def test_an_evaluator_without_needs_is_added_at_once(space):
    async with bench(space, SECOND) as pilot:
        await pilot.press("a")
        await until(pilot, lambda: isinstance(pilot.app.screen, Menu))
        assert "help page which-evaluator" in row_text(pilot.app.screen._rows(80)[0])
        await pilot.press(*"citat", "enter")
        await until(pilot, lambda: pilot.app.heard)
        assert space.data["items"][1]["evaluators"] == {"Citations": {}}
        assert pilot.app.pane.query_one(Lines).key == ("evaluator", "Citations")


@pytest.mark.nightly
async def test_a_second_use_is_added_under_a_name_of_its_own(space):
    async with bench(space, SECOND) as pilot:
        await pilot.press("a", *"partialm", "enter")
        await until(pilot, lambda: pilot.app.heard)
        assert space.data["items"][1]["evaluators"] == {"PartialMatch2": {"type": "PartialMatch"}}


@pytest.mark.nightly
async def test_an_evaluator_that_needs_options_asks_for_them_first(space):
    async with bench(space, SECOND) as pilot:
        await pilot.press("a", *"regex", "enter")
        await until(pilot, lambda: isinstance(pilot.app.screen, Form))
        await pilot.press("ctrl+s")
        assert isinstance(pilot.app.screen, Form)
        await pilot.press("enter", *"by+e", "enter", "ctrl+s")
        await until(pilot, lambda: pilot.app.heard)
        assert space.data["items"][1]["evaluators"] == {"Regex": {"pattern": "by+e"}}


@pytest.mark.nightly
async def test_leaving_the_menu_or_the_form_adds_nothing(space):
    async with bench(space, SECOND) as pilot:
        await pilot.press("a", "escape")
        await until(pilot, lambda: not isinstance(pilot.app.screen, Menu))
        await pilot.press("a", *"regex", "enter")
        await until(pilot, lambda: isinstance(pilot.app.screen, Form))
        await pilot.press("escape")
        await until(pilot, lambda: pilot.app.heard)
        assert pilot.app.heard == ["Regex was not added"]
        assert not space.editing.dirty


async def test_options_of_an_inherited_one_are_written_on_the_item_and_it_is_said(space):
    async with bench(space, SECOND) as pilot:
        pilot.app.to("PartialMatch")
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(pilot.app.screen, Form))
        await pilot.press("enter", "ctrl+u", *"0.8", "enter", "ctrl+s")
        await until(pilot, lambda: pilot.app.heard)
        assert space.data["items"][1]["evaluators"] == {"PartialMatch": {"threshold": 0.8}}
        assert space.data["default_evaluators"]["PartialMatch"] == {"threshold": 0.5}
        assert pilot.app.heard == ["PartialMatch now overrides the dataset's here"]
        assert "overrides dataset: threshold=0.5" in pilot.app.text


async def test_options_that_are_wrong_are_not_taken(space):
    async with bench(space, SECOND) as pilot:
        pilot.app.to("PartialMatch")
        await pilot.press("i")
        await until(pilot, lambda: isinstance(pilot.app.screen, Form))
        await pilot.press("enter", "ctrl+u", *"8", "enter", "ctrl+s")
        await pilot.pause()
        fields = "\n".join(plain(pilot.app.screen.query_one("#fields", Lines).rows))
        assert "must be at most 1, not 8" in fields
        assert not space.editing.dirty


@pytest.mark.cases(3)
@pytest.mark.parametrize("criteria", ["two\nlines", "\u202eturned", "\x1b[31m", ["a", "b"]])
async def test_a_text_of_several_lines_comes_back_from_its_box_as_it_was(space, criteria):
    data = document(default_evaluators={"Rubric": {"criteria": criteria}})
    (space.root / "evals.json").write_text(json.dumps(data))
    async with bench(space, ()) as pilot:
        await pilot.press("i")
        await until(pilot, lambda: isinstance(pilot.app.screen, Form))
        await pilot.press("enter", "escape")
        await pilot.pause()
        assert pilot.app.screen.values == {"criteria": criteria}


@pytest.mark.nightly
async def test_a_form_taken_as_it_was_changes_nothing(space):
    async with bench(space, SECOND) as pilot:
        pilot.app.to("PartialMatch")
        await pilot.press("i")
        await until(pilot, lambda: isinstance(pilot.app.screen, Form))
        await pilot.press("ctrl+s")
        await until(pilot, lambda: not isinstance(pilot.app.screen, Form))
        await pilot.pause()
        assert not space.editing.dirty


async def test_an_own_evaluator_is_removed_and_an_inherited_one_is_not(space):
    async with bench(space) as pilot:
        pilot.app.to("Twice")
        await pilot.press("D")
        await pilot.pause()
        assert "Twice" not in space.data["items"][0]["evaluators"]
        pilot.app.to("Relevance")
        await pilot.press("D")
        await pilot.pause()
        assert "m replaces inherited evaluators" in pilot.app.heard[-1]
        assert "Relevance" in space.data["default_evaluators"]


async def test_removing_a_system_default_writes_the_others(space):
    data = document()
    del data["default_evaluators"]
    (space.root / "evals.json").write_text(json.dumps(data))
    async with bench(space, ()) as pilot:
        pilot.app.to("Relevance")
        await pilot.press("D")
        await pilot.pause()
        assert space.data["default_evaluators"] == {"Coherence": {}}


async def test_enter_on_a_turn_of_a_conversation_goes_there(space):
    async with bench(space, TALK) as pilot:
        await pilot.press("a")
        assert "choose one of its turns" in pilot.app.heard[-1]
        await pilot.press("j", "enter")
        await until(pilot, lambda: space.where == (*TALK, "turns", 1))
        await until(pilot, lambda: "level   talk, turn 2" in pilot.app.text)


async def test_every_action_has_a_method_and_says_why_it_cannot_be_done_without_a_dataset(space):
    async with bench(space, None) as pilot:
        assert "No dataset is open" in pilot.app.text
        for action in ("edit", "add", "remove", "mode", "level", "try"):
            assert callable(getattr(pilot.app.pane, f"do_{action}"))
            assert "no dataset is open" in pilot.app.pane.why_not(action)
        assert pilot.app.pane.selection() is None


async def test_run_would_run_the_item_one_is_in(space):
    async with bench(space) as pilot:
        assert pilot.app.pane.selection().items == (0,)
        space.where = ()
        assert pilot.app.pane.selection().items is None


@pytest.mark.nightly
@pytest.mark.parametrize("size", [(38, 8), (76, 24)])
async def test_hostile_texts_are_shown_and_nothing_more(space, size):
    data = document(default_evaluators={HOSTILE: {HOSTILE: HOSTILE}, "Regex": {"pattern": HOSTILE}})
    data["items"][0]["testId"] = data["items"][2]["turns"][0]["prompt"] = HOSTILE
    async with bench(space, (), size=size) as pilot:
        space.apply(data, "hostile")
        for where in ((), SINGLE, TALK):
            space.where = where
            pilot.app.pane.sync()
            await pilot.press("j", "j", "G")
            await pilot.pause()
            lines = pilot.app.pane.query_one(Lines)
            drawn = "".join(lines.render_line(y).text for y in range(lines.size.height))
            assert not any(byte in drawn for byte in "\x1b\x07\x9b\u202e\ud800")
        assert pilot.app.is_running


# -- trying


@pytest.fixture
def answered(space):
    """Stores the answer of a target to an item of the dataset as it is saved."""

    async def store(position=0, name="greet", turn=0, source="evals.json", text="hello there"):
        data = json.loads((space.root / "evals.json").read_text())
        with Writer(space.database) as writer:
            new = NewRun(
                name="nightly", snapshot=writer.snapshot(data, source), source=source, targets=("demo",), config={}
            )
            run = writer.plan(new, [PlannedAnswer(0, position, turn, 0, 0, 0, name)])
            watch = Watch(space.database)
            (row,) = watch.reader.window(run.id, 0, 1)
            watch.close()
            messages = [{"role": "user", "content": "Say hello"}]
            record = AnswerRecord(text=text, request={"messages": messages}, latency_ms=5.0)
            await writer.answered(row.id, record, "answered")
            return row.id

    return store


async def test_t_judges_the_answer_on_screen_in_place(space, answered):
    answer = await answered()
    async with bench(space) as pilot:
        pilot.app.watching.answer = answer
        pilot.app.to("PartialMatch")
        await pilot.press("t")
        await until(pilot, lambda: "✓ pass" in pilot.app.text)
        assert "tried on the answer to greet in nightly" in pilot.app.text
        space.where = SECOND
        pilot.app.pane.sync()
        await pilot.pause()
        assert "tried on" not in pilot.app.text


async def test_a_trial_uses_the_item_as_it_is_edited_now(space, answered):
    answer = await answered()
    async with bench(space) as pilot:
        pilot.app.watching.answer = answer
        data = document()
        data["items"][0]["expected_response"] = "something else"
        space.apply(data, "another reference")
        pilot.app.to("Twice")
        await pilot.press("t")
        await until(pilot, lambda: "✗ fail" in pilot.app.text)
        assert "No exact match of 'something else'" in pilot.app.text


async def test_what_was_tried_goes_once_the_options_differ_and_comes_back_with_undo(space, answered):
    answer = await answered()
    async with bench(space) as pilot:
        pilot.app.watching.answer = answer
        pilot.app.to("PartialMatch")
        await pilot.press("t")
        await until(pilot, lambda: "✓ pass" in pilot.app.text)
        space.apply(write_options(space.data, SINGLE, "PartialMatch", {"threshold": 1}), "options")
        pilot.app.pane.sync()
        await pilot.pause()
        assert "✓ pass" not in pilot.app.text
        space.editing.undo()
        pilot.app.pane.sync()
        await pilot.pause()
        assert "✓ pass" in pilot.app.text
        assert pilot.app.pane.escape()
        assert "✓ pass" not in pilot.app.text
        assert not pilot.app.pane.escape()


async def test_without_an_answer_the_response_in_the_dataset_is_judged(space):
    async with bench(space, SECOND) as pilot:
        pilot.app.to("PartialMatch")
        await pilot.press("t")
        await until(pilot, lambda: "tried on the response in the dataset" in pilot.app.text)


async def test_with_nothing_to_judge_a_sentence_says_where_to_look(space):
    async with bench(space) as pilot:
        pilot.app.to("PartialMatch")
        await pilot.press("t")
        await until(pilot, lambda: pilot.app.heard)
        assert pilot.app.heard[-1] == "no answer is on screen; look at one to greet in the results (4) and come back"
        assert "judging" not in pilot.app.text


@pytest.mark.parametrize(
    "other",
    [
        {"position": 2, "name": "talk"},
        {"source": "elsewhere/other.json"},
        {"position": 0, "name": "#1"},
    ],
)
async def test_the_answer_to_another_item_or_dataset_is_not_judged(space, answered, other):
    answer = await answered(**other)
    if other.get("name") == "#1":
        data = document()
        data["items"][0]["prompt"] = "Say something else"
    async with bench(space) as pilot:
        pilot.app.watching.answer = answer
        if other.get("name") == "#1":
            space.apply(data, "another prompt")
        pilot.app.to("PartialMatch")
        await pilot.press("t")
        await until(pilot, lambda: pilot.app.heard)
        assert "the answer on screen is one to" in pilot.app.heard[-1]


async def test_the_answer_to_another_turn_is_not_judged(space, answered):
    answer = await answered(position=2, name="talk", turn=1)
    async with bench(space, (*TALK, "turns", 0)) as pilot:
        pilot.app.watching.answer = answer
        pilot.app.to("Citations")
        await pilot.press("t")
        await until(pilot, lambda: pilot.app.heard)
        assert "is one to talk, turn 2; look at one to talk, turn 1" in pilot.app.heard[-1]


async def test_at_the_dataset_any_answer_is_judged_by_its_own_item(space, answered):
    answer = await answered(position=2, name="talk", turn=1, text="hm [1]")
    async with bench(space, ()) as pilot:
        pilot.app.watching.answer = answer
        pilot.app.to("PartialMatch")
        await pilot.press("t")
        await until(pilot, lambda: "! error" in pilot.app.text)
        assert "tried on the answer to talk, turn 2 in nightly" in pilot.app.text
        assert "needs an expected response" in " ".join(pilot.app.text.split())


async def test_the_configured_judge_is_asked_and_a_scripted_verdict_says_so(space):
    judge = TargetConfig(name="demo", model="demo")
    async with bench(space, SECOND) as pilot:
        space.settings = Settings(judge="demo", targets={"demo": judge})
        pilot.app.to("Relevance")
        await pilot.press("t")
        await until(pilot, lambda: "tried on" in pilot.app.text)
        assert "scripted:" in pilot.app.text


@pytest.mark.nightly
async def test_a_trial_counts_the_score_that_was_to_be_expected(space, one_server):
    one_server.reset()
    one_server.behave("judge", say='{"reason": "so", "score": 4}', markers=False, likely={"4": 0.5, "5": 0.5})
    judge = TargetConfig(name="judge", model="openai/judge", base_url=one_server.url)
    async with bench(space, SECOND) as pilot:
        space.settings = Settings(judge="judge", targets={"judge": judge})
        space.apply(write_options(space.data, SECOND, "Relevance", {"expected_score": True}), "options")
        pilot.app.to("Relevance")
        await pilot.press("t")
        await until(pilot, lambda: "tried on" in pilot.app.text)
        assert "Expected score 4.50, written 4." in " ".join(pilot.app.text.split())


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (Settings(), "asks a judge and none is named"),
        (Settings(judge="nobody"), "there is no target nobody"),
    ],
)
async def test_without_a_judge_to_ask_a_sentence_says_so(space, settings, said):
    async with bench(space, SECOND) as pilot:
        space.settings = settings
        pilot.app.to("Relevance")
        await pilot.press("t")
        await until(pilot, lambda: pilot.app.heard)
        assert said in pilot.app.heard[-1]


async def test_a_judge_that_fails_or_takes_too_long_is_a_record(space):
    (space.root / "slow.py").write_text("import asyncio\nasync def answer(request):\n    await asyncio.sleep(60)\n")
    slow = TargetConfig(name="slow", model="python:slow:answer", timeout=0.05)
    async with bench(space, SECOND) as pilot:
        space.settings = Settings(judge="slow", targets={"slow": slow})
        pilot.app.to("Relevance")
        await pilot.press("t")
        await until(pilot, lambda: "! error" in pilot.app.text)
        assert "gave no verdict" in " ".join(pilot.app.text.split())


class Waiting(Evaluator):
    """Waits."""

    name = "Waiting"
    family = "test"
    begun = threading.Event()
    ended = threading.Event()

    async def score(self, evidence):
        self.begun.set()
        try:
            await asyncio.sleep(60)
        finally:
            self.ended.set()


@pytest.mark.parametrize("leave", ["escape", "item", "app"])
async def test_a_trial_that_is_left_is_cancelled(space, leave):
    Waiting.begun.clear()
    Waiting.ended.clear()
    async with bench(space, SECOND) as pilot:
        space.registry = Registry({**built_in(), "Waiting": Waiting})
        space.apply(write_options(space.data, SECOND, "Waiting", {}), "waiting")
        pilot.app.pane.sync()
        pilot.app.to("Waiting")
        await pilot.press("t")
        await until(pilot, Waiting.begun.is_set)
        assert "judging" in pilot.app.text
        await pilot.press("t")
        assert "is being tried" in pilot.app.heard[-1]
        if leave == "escape":
            assert pilot.app.pane.escape()
        elif leave == "item":
            space.where = SINGLE
            pilot.app.pane.sync()
        else:
            pilot.app.exit()
        await until(pilot, Waiting.ended.is_set) if leave != "app" else None
        if leave != "app":
            await pilot.pause()
            assert "judging" not in pilot.app.text
    assert await asyncio.to_thread(Waiting.ended.wait, 10)


async def test_work_apart_is_on_another_thread_and_gives_back_what_it_raises():
    async def where():
        return threading.get_ident()

    async def refuses():
        raise CannotTry("no")

    assert await on_own_loop(where) != threading.get_ident()
    with pytest.raises(CannotTry):
        await on_own_loop(refuses)
