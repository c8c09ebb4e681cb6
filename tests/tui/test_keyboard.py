"""Several keys in one packet: each meets the screen the one before it made, and none is lost."""

import asyncio

import pytest
from textual.events import Key, MouseDown, Paste
from textual.geometry import Offset
from textual.widgets import Static

from tests.tui.story import at_the_workbench, write
from tui_evals.garbage import foreground
from tui_evals.tui.tree.pane import TreePane
from tui_evals.tui.widgets.dialogs import Ask, Entry, Menu

NAMED = {"\r": "enter", "\x1b": "escape", " ": "space", "\x13": "ctrl+s"}


def burst(person, text):
    """What a terminal hands over when all of it comes in one packet."""
    for character in text:
        named = NAMED.get(character, character)
        person.app.post_message(Key(named, character if character.isprintable() else None))


async def done(person):
    await asyncio.sleep(0)
    await person.until(person.app.key_queue.idle.is_set)
    await person.pilot.pause()


@pytest.fixture
def folder(tmp_path):
    write(tmp_path / "data.json", {"schemaVersion": "1.11.0", "items": [{"prompt": "one"}, {"prompt": "two"}]})
    return tmp_path


@pytest.mark.nightly
@pytest.mark.parametrize("size", [(80, 24), pytest.param((120, 40), marks=pytest.mark.nightly)])
async def test_a_field_typed_in_one_packet_holds_every_letter_and_no_command_runs(folder, size):
    async with at_the_workbench(folder, dataset="data.json", size=size) as person:
        burst(person, "j2\r more Dwords eD\x1b1")
        await done(person)
        assert [item["prompt"] for item in person.app.workspace.items] == ["one more Dwords eD", "two"]
        assert person.app.front == "tree"


async def test_a_name_typed_after_the_key_that_asks_for_it_goes_into_the_dialog(folder):
    async with at_the_workbench(folder, dataset="data.json") as person:
        person.app.post_message(Key("ctrl+n", None))
        burst(person, "D")
        await done(person)
        await person.sees("a new dataset")
        assert len(person.app.workspace.items) == 2 and person.app.screen.query_one("#line").value.endswith("D")


async def test_a_pasted_text_waits_for_the_keys_before_it(folder):
    async with at_the_workbench(folder, dataset="data.json") as person:
        burst(person, "j2\r")
        person.app.post_message(Paste(" pasted \x1b[2Jtext"))
        burst(person, "!")
        await done(person)
        assert person.app.workspace.items[0]["prompt"] == "one pasted text!"


async def test_a_hundred_arrow_keys_at_once_all_count(folder):
    write(folder / "data.json", {"items": [{"prompt": f"question {number}"} for number in range(200)]})
    async with at_the_workbench(folder, dataset="data.json") as person:
        burst(person, "j" * 100)
        await done(person)
        assert person.app.workspace.where == ("items", 99)


@pytest.mark.nightly
async def test_what_is_typed_behind_a_dialog_waits_for_the_box_it_leads_to(folder):
    async with at_the_workbench(folder, dataset="data.json") as person:
        burst(person, "j2acategory\rgreen Dr\x1b1")
        await done(person)
        assert person.app.workspace.items == [{"prompt": "one", "category": "green Dr"}, {"prompt": "two"}]
        assert person.app.front == "tree" and len(person.app.screen_stack) == 1


async def test_no_action_runs_between_two_dialogs_of_one(folder, monkeypatch):
    async with at_the_workbench(folder, dataset="data.json") as person:

        async def slow(pane):
            await pane.app.push_screen_wait(Ask("one"))
            await asyncio.sleep(0.1)
            await pane.app.push_screen_wait(Ask("two"))

        monkeypatch.setattr(TreePane, "do_category", slow)
        burst(person, "jCx\rD")
        await done(person)
        assert len(person.app.workspace.items) == 2 and person.app.screen.query_one("#line").value == "D"


async def test_a_key_that_comes_before_a_dialog_is_built_waits_for_it(folder):
    built = asyncio.Event()

    class Later(Menu):
        async def _pre_process(self):
            await built.wait()
            return await super()._pre_process()

    taken = []
    async with at_the_workbench(folder, dataset="data.json") as person:
        person.app.push_screen(Later("a menu", [Entry("one", "one"), Entry("two", "two")]), taken.append)
        for key in ("down", "enter"):
            person.app.post_message(Key(key, None))
        while person.app.key_queue.idle.is_set():
            await asyncio.sleep(0)
        for _ in range(100):  # rounds of the loop, in which the keys would be handed on
            await asyncio.sleep(0)
        built.set()
        await done(person)
    assert taken == ["two"]


async def test_a_click_at_a_widget_that_is_being_removed_does_nothing(folder, monkeypatch):
    async with at_the_workbench(folder, dataset="data.json") as person:
        gone = (Static("gone"), Offset(0, 0))
        monkeypatch.setattr(type(person.app.screen), "get_widget_and_offset_at", lambda *_: gone)
        person.app.post_message(MouseDown(None, 5, 3, 0, 0, 1, False, False, False))
        await done(person)
        burst(person, "j")
        await done(person)
        assert person.app.workspace.where == ("items", 0)


async def test_a_defect_behind_a_key_ends_the_workbench_and_leaves_no_dead_keyboard(folder, monkeypatch):
    async def defect(event):
        raise RuntimeError("a defect behind a key")

    with pytest.raises(RuntimeError, match="a defect behind a key"):
        async with at_the_workbench(folder, dataset="data.json") as person:
            monkeypatch.setattr(person.app.key_queue, "_forward", defect)
            person.app.post_message(Key("j", "j"))
            await person.until(lambda: person.app.return_code)


async def test_long_work_in_threads_rests_from_a_key_until_it_is_drawn(folder, monkeypatch):
    calls = []
    for name in ("begin", "end"):
        usual = getattr(foreground, name)
        monkeypatch.setattr(foreground, name, lambda name=name, usual=usual: calls.append(name) or usual())
    async with at_the_workbench(folder, dataset="data.json") as person:
        await person.pilot.pause()
        del calls[:]
        burst(person, "jj")
        await person.until(lambda: "end" in calls)
        assert calls[:3] == ["begin", "begin", "end"]
