"""The dataset tree under a person's keys."""

import asyncio
import json
from typing import ClassVar

import pytest
from textual.app import App

from tests.store.helpers import judged, new_run, said
from tests.tui import hostile
from tui_evals.store.database import open_store
from tui_evals.store.reader import Reader
from tui_evals.store.records import PlannedAnswer
from tui_evals.store.writer import Writer
from tui_evals.tui.actions import actions_at
from tui_evals.tui.tree.pane import TreePane, read_tags
from tui_evals.tui.watch import Watch
from tui_evals.tui.workspace import StoreWriter, Workspace

ITEMS = [
    {"testId": "MT-1", "prompt": "Hello there", "category": "Safety"},
    {"testId": "MT-2", "turns": [{"prompt": "first question"}, {"prompt": "second"}]},
    {"testId": "MT-3", "prompt": "Bye", "category": "Tone"},
    {"testId": "MT-4", "prompt": "Again", "category": "Safety"},
]


class Bench(App):
    """The pane alone, its messages heard as the workbench does."""

    BINDINGS: ClassVar = [("escape", "leave", "back")]

    def __init__(self, pane):
        super().__init__()
        self.pane = pane
        self.said, self.went, self.shown, self.changes = [], 0, [], 0

    def compose(self):
        yield self.pane

    def on_status_message(self, message):
        self.said.append((message.kind, message.text))

    def on_state_changed(self):
        self.changes += 1
        self.pane.sync()

    def on_item_shown(self):
        self.went += 1
        self.pane.sync()

    def on_write_prompt(self):
        self.shown.append("prompt")

    def on_show_pane(self, message):
        self.shown.append(message.place)

    def on_open_dataset(self, message):
        self.pane.workspace.open_file(message.file)
        self.pane.sync()

    def action_leave(self):
        self.left = self.pane.escape()


class Tried:
    """A pane in a project of its own."""

    def __init__(self, root, items):
        self.root = root.resolve()
        self.database = open_store(self.root / ".evals" / "evals.db")
        self.space = Workspace(self.root, self.database)
        self.watch = Watch(self.database)
        if items is not None:
            self.write("d.json", items)
            self.space.look()
            self.space.open_file(self.root / "d.json")
        self.pane = TreePane(self.space, self.watch, StoreWriter(self.database, dict))
        self.app = Bench(self.pane)

    def write(self, name, items):
        (self.root / name).write_text(json.dumps({"schemaVersion": "1.11.0", "items": items}))

    @property
    def lines(self):
        return self.pane.query_one("#tree-lines")

    @property
    def texts(self):
        return ["".join(piece.text for piece in row.pieces).rstrip() for row in self.lines.rows]

    @property
    def names(self):
        return [item.get("testId") or item.get("prompt") for item in self.space.items]

    async def settled(self):
        await self.pilot.pause()
        await self.app.workers.wait_for_complete()
        await self.pilot.pause()

    async def press(self, *keys):
        await self.pilot.press(*keys)
        await self.pilot.pause()

    async def until(self, true):
        async with asyncio.timeout(180):
            while not true():
                await self.pilot.pause(0.01)


@pytest.fixture
def tried(tmp_path):
    made = []

    class Opened:
        def __init__(self, items=ITEMS, size=(60, 24), prepare=None):
            self.given = items, size, prepare

        async def __aenter__(self):
            items, size, prepare = self.given
            one = Tried(tmp_path, items)
            made.append(one)
            if prepare:
                prepare(one)
            self.running = one.app.run_test(size=size)
            one.pilot = await self.running.__aenter__()
            await one.settled()
            one.lines.focus()
            return one

        async def __aexit__(self, *problem):
            await made[-1].settled()
            await self.running.__aexit__(*problem)
            made[-1].watch.close()

    return Opened


async def test_the_cursor_says_where_one_is(tried):
    async with tried() as one:
        rows = one.lines.rows
        await one.press("j")
        assert one.space.where == ("items", 0)
        await one.press("j", "j", "j")
        assert one.space.where == ("items", 1, "turns", 1)
        assert one.app.went == 4
        assert one.lines.rows is rows


async def test_the_cursor_follows_where_somebody_else_went(tried):
    async with tried() as one:
        rows = one.lines.rows
        one.space.where = ("items", 3)
        one.pane.sync()
        await one.pilot.pause()
        assert one.lines.key == ("items", 3)
        assert one.space.where == ("items", 3)
        assert one.lines.rows is rows


async def test_where_somebody_went_is_not_undone_by_a_move_of_before(tried):
    async with tried() as one:
        one.lines.action_step(1)
        one.space.where = ("items", 3)
        assert one.pane.selection().says == "item MT-4"
        await one.pilot.pause()
        one.pane.sync()
        assert one.app.went == 0
        assert one.space.where == one.lines.key == ("items", 3)


async def test_a_turn_in_a_folded_conversation_stays_the_place_one_is_at(tried):
    async with tried() as one:
        await one.press("j", "j", "h")
        one.space.where = ("items", 1, "turns", 1)
        one.pane.sync()
        await one.pilot.pause()
        assert one.lines.key == ("items", 1)
        assert one.space.where == ("items", 1, "turns", 1)


async def test_folding_hides_turns_and_goes_up_and_unfolding_goes_down_again(tried):
    async with tried() as one:
        await one.press("j", "j", "j", "h")
        assert one.space.where == ("items", 1)
        await one.press("h")
        assert "first question" not in "\n".join(one.texts[3:])
        await one.press("l")
        assert one.lines.rows[3].key == ("items", 1, "turns", 0)
        await one.press("l")
        assert one.space.where == ("items", 1, "turns", 0)
        await one.press("h", "h", "h")
        assert one.space.where == ()
        assert len(one.lines.rows) == 5


async def test_a_fold_goes_along_when_its_item_moves(tried):
    async with tried() as one:
        await one.press("j", "j", "h", "J")
        assert one.names == ["MT-1", "MT-3", "MT-2", "MT-4"]
        assert [row.key for row in one.lines.rows] == [(), *(("items", n) for n in range(4))]
        assert one.space.where == ("items", 2)


async def test_a_new_item_stands_after_this_one_and_its_prompt_is_to_be_written(tried):
    async with tried() as one:
        await one.press("j", "n")
        assert one.names == ["MT-1", "", "MT-2", "MT-3", "MT-4"]
        assert one.space.where == one.lines.key == ("items", 1)
        assert one.app.shown == ["prompt"]
        assert one.texts[2].startswith(" •  #2")
        assert one.texts[0].startswith(" •d.json 5 items")
        assert one.app.changes == 1


async def test_keys_that_come_faster_than_messages_act_on_the_row_of_the_cursor(tried):
    async with tried(items=[ITEMS[0], ITEMS[2], ITEMS[3]]) as one:
        one.lines.action_step(1)
        one.pane.action_act("remove")
        one.lines.action_step(1)
        one.pane.action_act("remove")
        assert one.names == ["MT-3"]


async def test_deleting_asks_nothing_and_can_be_taken_back(tried):
    async with tried() as one:
        await one.press("j", "space", "space", "D")
        assert one.names == ["MT-3", "MT-4"]
        assert one.app.said[-1] == ("info", "deleted 2 items; u brings them back")
        assert not one.space.marks
        one.space.editing.undo()
        one.pane.sync()
        assert one.names == ["MT-1", "MT-2", "MT-3", "MT-4"]


async def test_the_last_item_stays_and_it_is_said_why(tried):
    async with tried(items=ITEMS[:1]) as one:
        await one.press("j", "D")
        assert one.names == ["MT-1"]
        assert one.app.said[-1][0] == "warn"
        assert "at least one item" in one.app.said[-1][1]


async def test_turns_are_made_moved_copied_and_deleted(tried):
    async with tried() as one:
        await one.press("j", "t")
        assert one.space.where == ("items", 0, "turns", 1)
        assert one.lines.key == ("items", 0, "turns", 1)
        await one.press("K")
        turns = one.space.items[0]["turns"]
        assert [turn["prompt"] for turn in turns] == ["", "Hello there"]
        await one.press("d", "D")
        assert len(one.space.items[0]["turns"]) == 2


async def test_a_new_turn_is_shown_though_the_conversation_was_folded(tried):
    async with tried() as one:
        await one.press("j", "j", "h", "t")
        assert one.lines.key == ("items", 1, "turns", 2)


async def test_a_single_prompt_becomes_a_conversation_and_a_long_conversation_stays_one(tried):
    async with tried() as one:
        await one.press("j", "T")
        assert one.space.items[0]["turns"] == [{"prompt": "Hello there"}]
        await one.press("T")
        assert one.space.items[0]["prompt"] == "Hello there"
        await one.press("j", "T")
        assert one.app.said[-1][0] == "warn"
        assert "delete them first" in one.app.said[-1][1]


async def test_marks_say_what_would_be_run(tried):
    async with tried() as one:
        assert one.pane.selection().items is None
        assert one.pane.selection().says == "all 4 items"
        await one.press("j")
        assert (one.pane.selection().items, one.pane.selection().says) == ((0,), "item MT-1")
        await one.press("j", "j")
        assert (one.pane.selection().items, one.pane.selection().says) == ((1,), "item MT-2")
        await one.press("space", "space")
        assert one.space.marks == {1, 2}
        assert one.lines.key == ("items", 3)
        await one.press("escape")
        assert one.app.left
        assert not one.space.marks
        await one.press("A")
        assert one.pane.selection().says == "4 marked items"
        assert one.texts[1].startswith("▪")
        await one.press("A", "escape")
        assert not one.space.marks
        assert not one.app.left


async def test_a_category_is_folded_marked_and_run_as_a_whole(tried):
    async with tried() as one:
        await one.press("c", "j")
        assert one.lines.key == ("category", "Safety")
        assert (one.pane.selection().items, one.pane.selection().says) == ((0, 3), "category Safety (2 items)")
        await one.press("space")
        assert one.space.marks == {0, 3}
        await one.press("space", "enter")
        assert not one.space.marks
        assert one.lines.rows[2].key == ("category", "Tone")
        await one.press("t")
        assert one.app.said[-1] == ("warn", "that is about one item: go to one of the category")
        await one.press("D")
        assert one.names == ["MT-2", "MT-3"]


async def test_a_filter_shows_what_fits_while_one_types_and_escape_takes_it_off(tried):
    async with tried() as one:
        await one.press("j", "slash", *"tone b")
        assert [row.key for row in one.lines.rows] == [(), ("items", 2)]
        assert one.space.where == ("items", 2)
        assert "1 of 4 items" in one.texts[0]
        await one.press("enter")
        assert one.lines.has_focus
        await one.press("A")
        assert one.space.marks == {2}
        await one.press("escape")
        assert len(one.lines.rows) == 7
        assert one.space.where == one.lines.key == ("items", 2)
        assert one.space.marks == {2}


async def test_a_filter_that_nothing_fits_says_so_and_one_is_back_where_one_was(tried):
    async with tried() as one:
        await one.press("j", "j", "j", "slash", *"zzz")
        assert one.space.where == ()
        assert "nothing fits; esc takes the filter off" in one.texts[1]
        await one.press("escape")
        assert len(one.lines.rows) == 7
        assert one.space.where == one.lines.key == ("items", 1, "turns", 0)


@pytest.mark.nightly
async def test_the_filter_speaks_the_language_of_the_results_as_one_types(tried):
    async with tried() as one:
        await one.press("j", "j", "slash", *"safety category:")
        assert "needs a value" in str(one.pane.query_one(".hint").render())
        await one.press(*"saf*")
        assert [row.key for row in one.lines.rows] == [(), ("items", 0), ("items", 3)]
        await one.press(*" !again", "enter")
        assert [row.key for row in one.lines.rows] == [(), ("items", 0)]
        assert "safety category:saf* !again · 1 of 4" in str(one.pane.border_title)
        await one.press("slash", *["backspace"] * 27)
        assert len(one.lines.rows) == 7 and one.space.where == ("items", 0)
        await one.press(*"score:<1", "enter")
        assert "looks at answers" in str(one.pane.query_one(".hint").render())
        await one.press("escape")
        assert one.space.where == one.lines.key == ("items", 0) and str(one.pane.border_title) == "1 Dataset"


@pytest.mark.nightly
async def test_items_get_a_category_from_those_there_are_or_another_one(tried):
    async with tried() as one:
        await one.press("j", "space", "j", "j", "j", "space", "C")
        await one.press(*"tone", "enter")
        await one.settled()
        assert [item.get("category") for item in one.space.items] == ["Tone", None, "Tone", "Safety"]
        await one.press("escape", "C")
        await one.press(*"Style", "enter")
        await one.settled()
        assert "Style" in [item.get("category") for item in one.space.items]
        assert one.app.said[-1][1].endswith("category Style")


@pytest.mark.nightly
async def test_items_get_tags_and_keep_those_of_their_own(tried):
    items = [{"prompt": "a", "tags": ["old", "mine", "x,y"]}, {"prompt": "b", "tags": ["old"]}]
    async with tried(items=items) as one:
        await one.press("A", "#")
        assert one.app.screen.query_one("#line").value == ""
        await one.press(*"new, +slow, -old", "enter")
        await one.settled()
        assert [item["tags"] for item in one.space.items] == [["mine", "x,y", "new", "slow"], ["new", "slow"]]
        assert one.space.editing.undo()
        assert one.space.items == items


def test_tags_are_added_and_removed_by_their_signs():
    for text, listed, had, removed, added in (
        ("vip", {}, {"smoke"}, [], ["vip"]),
        ("-smoke", {}, {"smoke"}, ["smoke"], []),
        ("-unknown", {}, {"smoke"}, [], ["-unknown"]),
        ("smoke, vip", {"smoke": "smoke"}, {"smoke"}, ["smoke"], ["smoke", "vip"]),
        ("smoke, -smoke", {"smoke": "smoke"}, {"smoke"}, ["smoke"], []),
        ("", {"smoke": "smoke"}, {"smoke"}, ["smoke"], []),
        ("+a, a, , + b", {}, (), [], ["a", "b"]),
    ):
        assert read_tags(text, listed, had) == (removed, added), text


async def test_another_dataset_is_opened_from_the_list(tried):
    def two(one):
        one.write("e.json", ITEMS[:2])
        one.write("f.json", ITEMS[:1])
        one.space.look()

    async with tried(prepare=two) as one:
        await one.press("G")
        assert one.lines.key == ("open", str(one.root / "f.json"))
        assert one.pane.selection() is None
        await one.press("D")
        assert one.app.said[-1] == ("warn", "that is another dataset: enter opens it")
        await one.press("k", "enter")
        await one.settled()
        assert one.space.editing.document.file == one.root / "e.json"
        assert one.lines.key == () == one.space.where
        assert any("d.json" in text for text in one.texts[4:])


async def test_with_no_dataset_the_pane_says_what_to_do_and_no_key_fails(tried):
    async with tried(items=None) as one:
        assert any("ctrl+n" in text for text in one.texts)
        assert one.pane.selection() is None
        for action in actions_at("tree"):
            one.pane.action_act(action.name)
        await one.press("enter", "j", "escape")
        assert {kind for kind, _ in one.app.said} == {"warn"}
        one.write("first.json", ITEMS)
        one.space.look()
        one.pane.sync()
        await one.pilot.pause()
        await one.press("g", "enter")
        await one.until(lambda: one.space.editing is not None)


@pytest.mark.nightly
async def test_the_statuses_of_a_run_appear_and_follow_it(tried):
    async with tried() as one:
        with Writer(one.database) as writer:
            cells = [PlannedAnswer(n, n, 0, 0, 0, 0, f"MT-{n + 1}") for n in range(4)]
            run = writer.plan(new_run(source="d.json"), cells)
            one.pane.pulse(one.watch.poll())
            await one.until(lambda: one.texts[1].endswith("· pending"))
            one.watch.open_run(run.id)
            with Reader(one.database) as reader:
                first, *_, last = (row.id for row in reader.all_rows(run.id))
            for answer in (first, last):
                await writer.answered(answer, said(), "answered")
                await writer.scored(answer, 1, [judged()], "fail", 0.0)
            rows = one.lines.rows
            one.pane.pulse(one.watch.poll())
            assert one.texts[1].endswith("✗ fail")
            assert one.lines.rows is rows
            await one.until(lambda: "✗ fail" in one.lines.render_line(1).text)
            writer.plan(new_run(source="d.json"), cells[3:])
            one.pane.pulse(one.watch.poll())
            await one.until(lambda: one.texts[6].endswith("· pending"))
            assert one.texts[1].endswith("✗ fail")
            writer.run_status(run.id, "finished")
            writer.flush()
            with Reader(one.database) as reader:
                writer.delete_run(reader.run(run.id))
        one.pane.pulse(one.watch.poll())
        await one.until(lambda: "fail" not in one.texts[1])


@pytest.mark.parametrize("width", [38, 76])
async def test_hostile_texts_reach_no_terminal_and_do_nothing(tried, width):
    items = [
        *hostile.dataset()["items"],
        {"testId": "x" * 5000, "prompt": "\ud800 日本語" * 2000, "category": "\ud800"},
    ]
    async with tried(items=items, size=(width, 50)) as one:
        for keys in ("", "c", "A"):
            await one.press(*keys)
            shown = "\n".join(one.lines.render_line(y).text for y in range(50))
            assert "@click=app.quit" in shown or width == 38
            for byte in ("\x1b", "\x07", "\x9b", "\x90", "\u202e", "\ud800", "\r"):
                assert byte not in shown
        await one.press("j", "C", "escape", "#", "escape", "slash", "[", "/", "b", "]")
        assert one.app.is_running


async def test_items_are_not_moved_among_neighbours_that_are_hidden(tried):
    async with tried() as one:
        names = list(one.names)
        await one.press("c", "j", "j", "J")
        assert one.names == names and "c shows them in the order of the file" in one.app.said[-1][1]
        await one.press("c", "slash", *"bye", "enter", "j", "K")
        assert one.names == names and "esc takes the filter off" in one.app.said[-1][1]
        await one.press("escape", "K")
        assert one.names != names


async def test_marks_that_the_filter_hides_are_counted_in_the_frame(tried):
    async with tried() as one:
        await one.press("A", "slash", *"bye", "enter")
        assert str(one.pane.border_title).endswith("4 marked, 3 of them hidden")


async def test_a_pane_that_was_changed_out_of_sight_shows_the_change_when_it_is_back(tried):
    async with tried() as one:
        await one.press("j")
        one.pane.display = False
        await one.pilot.pause()
        one.space.apply({**one.space.data, "items": [*one.space.items[:2], {"prompt": "Quite new"}]}, "elsewhere")
        one.space.where = ("items", 2)
        one.pane.sync()
        await one.pilot.pause()
        one.pane.display = True
        await one.pilot.pause()
        assert any("Quite new" in text for text in one.texts)
        assert one.lines.key == ("items", 2)


async def test_a_key_before_the_rows_follow_a_change_on_disk_goes_to_no_item_that_is_gone(tried):
    async with tried() as one:
        one.space.apply({**one.space.data, "items": one.space.items[:2]}, "elsewhere")
        await one.press("end")
        assert one.space.where == ()
        one.pane.sync()
        await one.press("end")
        assert one.space.where == ("items", 1, "turns", 1)
