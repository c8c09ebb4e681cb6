"""What is typed into several workbenches, in bursts and among clicks: none of it is lost and none goes elsewhere."""

import json
import signal

import pytest

from tests.tui.story import at_the_workbench
from tests.tui.terminal import workbench
from tui_evals.datasets.document import load
from tui_evals.datasets.editing import Editing, changed_names
from tui_evals.store.database import open_store
from tui_evals.store.reader import Reader
from tui_evals.store.writer import Writer

SIZES = ((80, 24), (160, 45))
ITEMS = [{"testId": "A-1", "prompt": "first"}, {"testId": "A-2", "prompt": "second"}]


@pytest.fixture
def file(tmp_path):
    place = tmp_path / "data.json"
    place.write_text(json.dumps({"schemaVersion": "1.11.0", "items": ITEMS}))
    return place


def drafts(folder):
    with Reader(folder / ".evals" / "evals.db") as reader:
        return [draft.data for draft in reader.drafts()]


def write(terminal, down, text):
    """Add to the prompt of an item, and leave the box open."""
    terminal.wait("all keys")
    terminal.press("g" + "j" * down)
    terminal.after("2", "2 Item")
    terminal.after("\r", "esc done")
    terminal.after(f" {text}", text)


@pytest.mark.story
@pytest.mark.parametrize("size", SIZES)
def test_a_click_in_a_burst_of_text_waits_for_the_text(file, size):
    with workbench(file.parent, "data.json", size=size) as terminal:
        terminal.wait("all keys")
        terminal.press("gj")
        terminal.after("2", "2 Item")
        terminal.after("\r", "esc done")
        terminal.press(" Delete Duplicate JUMP\x1b[<0;3;4M\x1b[<0;3;4m\x1b")
        terminal.calm()
        terminal.after("\x13", "saved data.json")
        terminal.press("q")
        assert terminal.end() == 0
    items = json.loads(file.read_text())["items"]
    assert items == [{**ITEMS[0], "prompt": "first Delete Duplicate JUMP"}, ITEMS[1]]


@pytest.mark.story
def test_two_workbenches_on_one_file_tell_each_other_and_lose_nothing_when_both_are_killed(file):
    folder = file.parent
    with (
        workbench(folder, "data.json", size=SIZES[1]) as first,
        workbench(folder, "data.json", size=SIZES[1]) as second,
    ):
        second.wait("all keys")
        write(first, 1, "from one")
        second.wait("data.json: edited in another window, 1 item")
        write(second, 2, "from two")
        first.wait("data.json: edited in another window, 1 item")
        first.until(
            lambda: (
                {"from one", "from two"}
                <= {text for text in ("from one", "from two") for d in drafts(folder) if text in d}
            )
        )
        with workbench(folder, "data.json", size=SIZES[1]) as third:  # the edits of the living are not offered
            third.wait("all keys")
            third.wait("edited in another window")
            assert "were kept" not in third.shown
            third.press("q")
            assert third.end() == 0
        for terminal in (first, second):
            terminal.kill(signal.SIGKILL)
            terminal.end()
    assert len(drafts(folder)) == 2
    with workbench(folder, "data.json", size=SIZES[1]) as terminal:
        terminal.wait(r"unsaved edits were kept · \d{4}-\d\d-\d\d \d\d:\d\d · 1 item · data.json")
        terminal.wait("1 item changed: A-2")
        terminal.after("\r", "1 item changed: A-1")
        terminal.after("\r", "edits recovered")
        terminal.after("\x13", "saved data.json")
        terminal.press("q")
        assert terminal.end() == 0
    prompts = [item["prompt"] for item in json.loads(file.read_text())["items"]]
    assert prompts == ["first from one", "second from two"] and not drafts(folder)
    assert not list((folder / ".evals" / "sessions").glob("*.lock"))


def left_behind(file, *names):
    """Edits of an ended session to each of these files, which add an item to those of `file`."""
    with Writer(open_store(file.parent / ".evals" / "evals.db")) as writer:
        for name in names:
            edited = Editing(load(file))
            edited.apply({**edited.data, "items": [*ITEMS, {"prompt": f"kept of {name}"}]}, "edit")
            writer.draft_put(f"{file.parent / name}\tan-ended-session", edited.document.digest, edited.draft())


async def test_of_several_datasets_with_kept_edits_the_one_that_was_opened_is_shown_in_the_end(file):
    (file.parent / "other.json").write_text(file.read_text())
    left_behind(file, "other.json", "data.json")
    async with at_the_workbench(file.parent, dataset=file.name) as person:
        await person.sees("1 item · other.json")
        await person.press("enter")
        await person.sees("1 item · data.json")
        await person.press("enter")
        await person.sees("kept of data")
        assert "data.json 3 items" in person.screen()


async def test_kept_edits_under_a_name_that_no_file_can_have_do_not_hide_those_of_others(file):
    left_behind(file, f"{'x' * 500}.json", "data.json")
    async with at_the_workbench(file.parent, dataset=file.name) as person:
        await person.sees("· xxx")
        await person.press("enter")
        await person.sees("1 item · data.json")
        await person.press("enter")
        await person.sees("edits recovered")


def test_recovered_edits_are_merged_with_those_made_since(file):
    editing = Editing(load(file))
    other = Editing(load(file))
    other.apply({**other.data, "items": [ITEMS[0], {**ITEMS[1], "prompt": "theirs"}]}, "edit")
    editing.apply({**editing.data, "items": [{**ITEMS[0], "prompt": "mine"}, ITEMS[1]]}, "edit")
    assert editing.restore(other.draft()) == 0
    assert [item["prompt"] for item in editing.data["items"]] == ["mine", "theirs"]
    editing.undo()
    assert [item["prompt"] for item in editing.data["items"]] == ["first", "theirs"]
    editing.undo()
    assert [item["prompt"] for item in editing.data["items"]] == ["mine", "second"]
    editing.apply({**editing.data, "items": [ITEMS[0], {**ITEMS[1], "prompt": "otherwise"}]}, "edit")
    assert editing.restore(other.draft()) == 1
    assert editing.data["items"][1]["prompt"] == "otherwise"


def test_the_items_of_a_draft_are_named():
    data = {"items": [*ITEMS, {"prompt": "third"}]}
    for items, names in (
        (data["items"], []),
        ([ITEMS[0], {**ITEMS[1], "prompt": "x"}, {"prompt": "y"}], ["A-2", "item 3"]),
        (ITEMS, ["a deleted item"]),
        ([ITEMS[0], ITEMS[0], *data["items"][1:]], ["A-1"]),
    ):
        assert changed_names(data, json.dumps({"items": items})) == names, items


@pytest.mark.story
@pytest.mark.cases(1)
@pytest.mark.parametrize("size", SIZES)
def test_the_history_is_browsed_and_undone_after_a_restart(file, size):
    with workbench(file.parent, "data.json", size=size) as terminal:
        terminal.wait("all keys")
        terminal.press("gj")
        terminal.after("D", "deleted")
        terminal.after("\x13", "saved data.json")
        terminal.after("d", "copied")
        terminal.after("\x13", "saved data.json")
        terminal.press("q")
        assert terminal.end() == 0
    assert [item["testId"] for item in json.loads(file.read_text())["items"]] == ["A-2", "A-2-copy"]
    with workbench(file.parent, "data.json", size=size) as terminal:
        terminal.wait("all keys")
        terminal.after("H", r"\d\d:\d\d:\d\d · saved in the workbench, process \d+")
        terminal.wait("copy")
        terminal.after("\x1b[B", "going back changes 1 item: A-1")
        terminal.after("\r", r"data.json is as it was before \d{4}")
        terminal.after("\x13", "saved data.json")
        terminal.press("q")
        assert terminal.end() == 0
    assert json.loads(file.read_text())["items"] == ITEMS
    with workbench(file.parent, "data.json", size=size) as terminal:
        terminal.wait("all keys")
        terminal.after("H", "go back to before")
        terminal.press("\x1bq")
        assert terminal.end() == 0
