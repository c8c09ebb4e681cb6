"""What people do to a dataset at the workbench: write it, arrange it, mend it, save it."""

import contextlib
import json
import signal
import subprocess
import time
import unicodedata

import pytest
from textual import events

from tests.runs.conftest import Project
from tests.server import running
from tests.tui.story import at_the_workbench, write
from tests.tui.terminal import workbench
from tui_evals.tui import external_programs
from tui_evals.tui.app import Workbench
from tui_evals.tui.widgets.lines import Lines

ITEMS = [
    {"testId": "A-1", "prompt": "first", "expected_response": "one", "category": "facts"},
    {"testId": "A-2", "prompt": "second", "category": "tone", "tags": ["slow"]},
    {"testId": "A-3", "turns": [{"prompt": "hello"}, {"prompt": "and now?", "expected_response": "this"}]},
    {"testId": "A-4", "prompt": "fourth", "category": "facts", "response": "fourth it is"},
]
SIZES = [(80, 24), pytest.param((120, 40), marks=pytest.mark.nightly)]


@pytest.fixture
def folder(tmp_path):
    write(tmp_path / "data.json", {"schemaVersion": "1.11.0", "items": ITEMS})
    return tmp_path


def saved(folder, name="data.json"):
    return json.loads((folder / name).read_text())


@pytest.mark.nightly
async def test_an_empty_folder_offers_what_to_begin_with_and_its_key_leads_to_a_saved_dataset(tmp_path):
    async with at_the_workbench(tmp_path, size=(80, 24)) as person:
        page = person.screen()
        assert "Welcome" in page and "try the sample project" in page
        for key in ("ctrl+n ", " O ", " P ", " ? "):
            assert key in page, key
        footer = person.keys()
        assert "o open" not in footer and "ctrl+n new" in footer
        write(tmp_path / "of a friend.json", {"items": [{"prompt": "theirs"}]})
        await person.press("o")
        await person.sees("of a friend.json")
        await person.press("escape")
        footer = person.keys()
        assert "o open" in footer
        await person.press("ctrl+n", "enter")
        await person.sees("2 Item")
        assert "3: the evaluators" in person.screen()
        await person.press("enter")
        await person.type("What is new?")
        await person.press("escape", "1")
        await person.sees("What is new?")
        await person.press("ctrl+s")
        await person.until(lambda: "saved" in person.said())
    assert saved(tmp_path, "evals/evals.json")["items"] == [{"prompt": "What is new?"}]


async def test_a_row_of_the_first_page_is_reached_by_arrows_and_done_by_enter_or_one_click(tmp_path):
    async with at_the_workbench(tmp_path, size=(80, 24)) as person:
        await person.press("down", "j", "k", "enter")
        await person.sees("a new dataset: its file")
        await person.press("escape")
        number = next(n for n, line in enumerate(person.screen().splitlines()) if "read the keys" in line)
        await person.pilot.click(offset=(20, number))
        await person.sees("help · 1 Dataset")
        await person.press("escape")
        await person.until(lambda: len(person.app.screen_stack) == 1)


async def test_a_name_that_no_file_can_have_is_refused_where_it_is_typed(tmp_path):
    async with at_the_workbench(tmp_path, size=(80, 24)) as person:
        await person.press("ctrl+n")
        await person.sees("a new dataset: its file")
        await person.paste("x" * 300 + ".json")
        await person.sees("no file can have so long a name: at most 255 bytes")
        await person.press("enter")
        await person.sees("a new dataset: its file")


async def test_with_a_dataset_and_no_run_the_empty_panes_offer_the_next_steps(folder):
    async with at_the_workbench(folder, size=(80, 24), dataset="data.json") as person:
        await person.press("j", "6")
        await person.sees("add an evaluator")
        await person.press("down", "enter")
        await person.until(lambda: person.app.front == "judges" and len(person.app.screen_stack) == 2)
        await person.press("escape", "4", "enter")
        await person.sees("run all 4 items")
        assert person.app.front == "tree"
        await person.press("escape")
        await person.until(lambda: len(person.app.screen_stack) == 1)
        assert person.app.watching.answer is None
        await person.press("j", "4", *"1gr")  # the keys that the row names
        await person.sees("run all 4 items")


@pytest.mark.parametrize("size", [(80, 24), pytest.param((160, 45), marks=pytest.mark.nightly)])
def test_a_newcomer_comes_from_an_empty_folder_to_a_first_run_by_enter_and_arrows(tmp_path, size):
    with workbench(tmp_path, size=size) as terminal:
        terminal.wait("try the sample project")
        terminal.press("\x1b[B\x1b[A\r")
        terminal.wait("the sample project is written")
        terminal.press("\r")
        terminal.wait("/33")
        terminal.press("x")
        terminal.wait("stopped")
    assert len(saved(tmp_path, "evals/library-assistant.json")["items"]) == 30


async def test_a_sample_project_never_replaces_a_file(tmp_path):
    async with at_the_workbench(tmp_path, size=(80, 24)) as person:
        (tmp_path / "evals").mkdir()
        (tmp_path / "evals" / "moving-in.json").write_text("mine")
        await person.press("enter")
        await person.until(lambda: "moving-in.json is already there" in person.said())
        assert [file.name for file in (tmp_path / "evals").iterdir()] == ["moving-in.json"]


@pytest.mark.nightly
async def test_a_second_new_dataset_does_not_take_the_place_of_one_that_is_not_saved(tmp_path):
    async with at_the_workbench(tmp_path) as person:
        await person.press("ctrl+n", "enter", "enter")
        await person.type("mine")
        await person.press("escape", "ctrl+n")
        await person.sees("evals/evals-2.json")
        await person.press(*["backspace"] * 7)
        await person.type(".json")
        await person.press("enter")
        await person.sees("open already")
        await person.press("escape", "escape")
        assert person.app.workspace.items == [{"prompt": "mine"}]


@pytest.mark.nightly
async def test_marked_items_are_categorised_tagged_copied_and_deleted_together_and_all_of_it_is_taken_back(folder):
    async with at_the_workbench(folder, dataset="data.json") as person:
        space = person.app.workspace
        before = space.data
        await person.press("j", "space", "space")
        assert space.marks == {0, 1}
        await person.press("C")
        await person.type("brand new")
        await person.press("enter")
        await person.until(lambda: [item.get("category") for item in space.items[:2]] == ["brand new"] * 2)
        await person.press("number_sign")
        await person.type("quick")
        await person.press("enter")
        await person.until(lambda: space.items[1]["tags"] == ["slow", "quick"] and space.items[0]["tags"] == ["quick"])
        await person.press("d")
        assert [item["testId"] for item in space.items][:3] == ["A-1", "A-1-copy", "A-2"]
        await person.press("D")
        assert len(space.items) == 4
        for marks in ({0, 2}, {0, 1}, {0, 1}, {0, 1}):
            await person.press("u")
            await person.pilot.pause()
            assert space.marks == marks
        assert space.data == before and not space.editing.dirty
        for _ in range(4):
            await person.press("U")
        assert len(space.items) == 4 and space.items[0]["testId"] == "A-1-copy"


@pytest.mark.nightly
async def test_undo_leads_back_to_where_the_edit_was_made(folder):
    async with at_the_workbench(folder, dataset="data.json") as person:
        space = person.app.workspace
        await person.press("j", "j", "D")
        assert [item["testId"] for item in space.items] == ["A-1", "A-3", "A-4"]
        await person.press("G", "G", "u")
        assert space.where == ("items", 1) and space.unit["testId"] == "A-2"
        await person.press("g", "U")
        assert space.where == ("items", 1) and space.unit["testId"] == "A-3"


@pytest.mark.nightly
async def test_a_marked_selection_is_what_runs(folder):
    with running() as server:
        project = Project(folder, server)
        project.configure('[run]\ntargets = ["main"]')
        async with at_the_workbench(folder, dataset="data.json") as person:
            await person.press("j", "space", "j", "j", "j", "j", "space", "r")
            await person.sees("2 marked items")
            await person.press("escape")


@pytest.mark.nightly
async def test_a_single_turn_becomes_a_conversation_and_back_without_a_loss(folder):
    async with at_the_workbench(folder, dataset="data.json", size=(80, 24)) as person:
        space = person.app.workspace
        await person.press("j", "2", "T")
        assert space.where == ("items", 0, "turns", 0)
        assert space.items[0] == {
            "testId": "A-1",
            "category": "facts",
            "turns": [{"prompt": "first", "expected_response": "one"}],
        }
        await person.press("t")
        await person.sees("turn 2 of 2")
        await person.press("escape")
        await person.press("T")
        assert "turns" in space.items[0] and "▲" in person.said()
        await person.press("1", "D", "T")
        assert space.items[0] == ITEMS[0]
        await person.press("u", "u", "u", "u")
        assert space.items[0] == ITEMS[0] and not space.editing.dirty


@pytest.mark.nightly
async def test_values_are_added_renamed_and_deleted_as_rows(folder):
    async with at_the_workbench(folder, dataset="data.json", size=(80, 24)) as person:
        space = person.app.workspace
        await person.press("j", "2", "a")
        await person.type("variables")
        await person.press("enter")
        await person.sees("the name of the new value")
        await person.type("city")
        await person.press("enter")
        await person.type("Oslo\nNorway")
        await person.press("escape", "a")
        await person.type("city")
        await person.sees("there is a city already")
        await person.press("escape")
        await person.sees("“city” cannot be taken: there is a city already. esc again discards it.")
        await person.press("backspace", "backspace", "backspace", "backspace")
        await person.type("days")
        await person.press("enter", "escape", "v")
        await person.press("backspace", "backspace")
        await person.type("[1]")
        await person.press("escape")
        assert space.items[0]["variables"] == {"city": "Oslo\nNorway", "days": [1]}
        await person.sees("variables · 2 values")
        assert [row.split() for row in person.rows("editor")[4:]] == [
            ["city", "Oslo"],
            ["Norway"],
            ["days", "["],
            ["1"],
            ["]"],
        ]
        await person.press("k", "c")
        await person.press(*["backspace"] * 4)
        await person.type("days")
        await person.sees("there is a days already")
        await person.press(*["backspace"] * 4)
        await person.type("town")
        await person.press("enter")
        assert list(space.items[0]["variables"].items()) == [("town", "Oslo\nNorway"), ("days", [1])]
        await person.press("J")
        assert "the order of these says nothing" in person.said()
        await person.press("j", "D")
        assert space.items[0]["variables"] == {"town": "Oslo\nNorway"} and "took days away" in person.said()
        await person.press("D")
        await person.sees("no value yet; a adds one")
        assert "variables" not in space.items[0]
        for _ in range(4):
            await person.press("u")
        assert space.items[0]["variables"] == {"city": "Oslo\nNorway", "days": ""}
        await person.press("u", "u")
        assert not space.editing.dirty
        await person.press("escape")
        await person.sees("expected_response")


@pytest.mark.nightly
async def test_a_chat_of_three_messages_is_written_with_line_breaks_and_reordered(folder):
    before = (folder / "data.json").read_text()
    async with at_the_workbench(folder, dataset="data.json", size=(80, 24)) as person:
        space = person.app.workspace
        await person.press("j", "2", "a")
        await person.type("messages")
        await person.press("enter")
        for text in ("Hello\nthere", "Hi", "And now?\n- this\n- that"):
            await person.type(text)
            await person.press("escape", "a")
        await person.press("escape", "D")
        await person.sees("messages · 3 messages")
        written = [("user", "Hello\nthere"), ("assistant", "Hi"), ("user", "And now?\n- this\n- that")]
        assert [(one["role"], one["content"]) for one in space.items[0]["messages"]] == written
        rows = person.rows("editor")
        assert "Hello" in rows[4] and rows[5].strip() == "there" and "- that" in rows[9]
        await person.press("K", "K", "c", "c", "c")
        written = [("system", "And now?\n- this\n- that"), *written[:2]]
        assert [(one["role"], one["content"]) for one in space.items[0]["messages"]] == written
        await person.press("K", "enter", "tab")
        assert person.app.query_one("#field").text == "Hello\nthere"
        await person.press("shift+tab", "shift+tab")
        assert person.app.query_one("#field").border_title.startswith("expected_response")
        await person.press("escape", "ctrl+s")
        await person.until(lambda: "saved" in person.said())
    messages = json.dumps([{"role": role, "content": content} for role, content in written], indent=2)
    added = '"category": "facts",\n      "messages": ' + messages.replace("\n", "\n      ")
    assert (folder / "data.json").read_text() == before.replace('"category": "facts"', added, 1)


@pytest.mark.nightly
async def test_acceptable_references_are_rows(folder):
    async with at_the_workbench(folder, dataset="data.json", size=(80, 24)) as person:
        space = person.app.workspace
        await person.press("j", "2", "a")
        await person.type("ideal")
        await person.press("enter")
        await person.type("one\nand a half")
        await person.press("escape", "a")
        await person.type("two")
        await person.press("escape", "d", "K", "K")
        assert space.items[0]["ideal"] == ["two", "one\nand a half", "two"]
        await person.press("G", "D", "escape")
        assert space.items[0]["ideal"] == ["two", "one\nand a half"] and person.app.pane("editor").page is None
        await person.press("enter", "c")
        assert "no name or role" in person.said()


@pytest.mark.story
async def test_a_misspelt_key_of_a_tool_is_shown_with_the_one_that_was_meant(folder):
    file = folder / "data.json"
    data = json.loads(file.read_text())
    data["items"][0]["tools"] = [{"type": "function", "function": {"nme": "look_up"}}]
    file.write_text(json.dumps(data, indent=2))
    async with at_the_workbench(folder, dataset="data.json", size=(80, 24)) as person:
        await person.press("j", "2")
        person.app.query_one("#fields", Lines).to_key("tools")
        await person.sees("unknown key 'nme' (did you mean 'name'?)")


@pytest.mark.nightly
async def test_a_limit_that_is_not_kept_is_said_beside_its_field(folder):
    async with at_the_workbench(folder, dataset="data.json", size=(80, 24)) as person:
        space = person.app.workspace
        await person.press("j", "2", "a")
        await person.type("threshold")
        await person.press("enter")
        await person.type("5")
        await person.sees("must be at most 1, not 5")
        await person.press("backspace")
        await person.type("1")
        await person.press("escape")
        assert space.items[0]["threshold"] == 1
        await person.press("ctrl+s")
        await person.until(lambda: "saved" in person.said())
    assert saved(folder)["items"][0]["threshold"] == 1


@pytest.mark.nightly
async def test_the_dataset_says_whether_runevals_can_read_it_and_its_items_do_not(folder):
    write(folder / "plain.json", {"schemaVersion": "1.0.0", "items": [{"prompt": "a", "expected_response": "b"}]})
    async with at_the_workbench(folder, dataset="plain.json", size=(120, 40)) as person:
        await person.sees("Microsoft's runevals can read this file.")
        await person.press("j")
        await person.press("2", "a")
        await person.type("testId")
        await person.press("enter")
        await person.type("X-1")
        await person.press("escape")
        assert "runevals" not in person.screen()
        await person.press("1", "k")
        await person.sees("Microsoft's runevals cannot read this file")
        await person.press("u", "k")
        await person.sees("Microsoft's runevals can read this file.")


@pytest.mark.nightly
async def test_problems_are_gone_through_by_a_key_and_named_when_the_file_is_saved(folder):
    items = [{"prompt": "fine"}, {"prompt": "x", "weight": 7}, {"turns": [{"prompt": "y"}, {"expected_response": "z"}]}]
    write(folder / "bad.json", {"schemaVersion": "1.11.0", "items": items, "default_evaluators": {"Nope": {}}})
    async with at_the_workbench(folder, dataset="bad.json", size=(120, 40)) as person:
        space = person.app.workspace
        seen = []
        for key in ("!", "!", "right_curly_bracket", "!", "left_curly_bracket", "left_curly_bracket"):
            await person.press(key)
            await person.until(lambda: "problem " in person.said())
            seen.append((space.where, person.app.query_one("#fields").key))
        item, turn, whole = (("items", 1), "weight"), (("items", 2, "turns", 1), "prompt"), ((), "default_evaluators")
        assert [where for where, _ in seen] == [one[0] for one in (whole, item, turn, whole, turn, item)]
        assert seen[1] == item and seen[0] == whole
        assert "problem 2 of 3, item 2, weight: must be at most 1, not 7" in person.said()
        await person.press("d")
        await person.until(lambda: space.reported == space.editing.state)
        await person.press("ctrl+s")
        await person.until(lambda: "saved bad.json" in person.said())
        assert "4 problems: item 2, weight: must be at most 1, not 7 …; ! goes" in person.said()


@pytest.mark.story
async def test_a_broken_file_is_shown_at_its_line_and_opened_once_it_was_mended(tmp_path, monkeypatch):
    file = tmp_path / "torn.json"
    file.write_text('{"schemaVersion": "1.11.0",\n "items": [\n  {"prompt": "a"}\n  {"prompt": "b"}\n]}\n')
    calls = []

    def mended(command, **_):
        calls.append(command)
        file.write_text(file.read_text().replace('"a"}\n', '"a"},\n'))
        return subprocess.CompletedProcess(command, 0)

    monkeypatch.setattr(external_programs.subprocess, "run", mended)
    monkeypatch.setattr(Workbench, "suspend", lambda self: contextlib.nullcontext())
    monkeypatch.setenv("VISUAL", "vim -n")
    async with at_the_workbench(tmp_path, dataset="torn.json") as person:
        await person.sees("torn.json cannot be opened")
        assert "line 4: not valid JSON" in person.screen() and '▸     4   {"prompt": "b"}' in person.screen()
        await person.press("c", "e")
        await person.until(lambda: person.app.workspace.editing)
        assert calls == [["vim", "-n", "+4", str(file)]]
        assert person.app.workspace.items == [{"prompt": "a"}, {"prompt": "b"}]


@pytest.mark.nightly
async def test_a_table_with_other_columns_becomes_a_dataset_by_saying_which_is_what(tmp_path):
    table = tmp_path / "table.csv"
    table.write_text("Question,Answer,Locale,Notes on it\nwhere?,there,de,x\nwhen?,now,en,y\n")
    async with at_the_workbench(tmp_path, dataset="table.csv") as person:
        await person.sees("there is no column 'input'")
        await person.press("c")
        await person.sees("which column is what")
        assert "2 items" in person.screen() and "1  prompt: where?" in person.screen()
        assert "expected_response: there" in person.screen() and "Locale = de" in person.screen()
        await person.press("D")
        await person.sees("choose the column with the prompt")
        await person.press("enter")
        await person.sees("type to search")
        await person.type("quest")
        await person.press("enter")
        await person.sees("1  prompt: where?")
        await person.press("ctrl+s")
        await person.until(lambda: person.app.workspace.editing)
        await person.press("ctrl+s")
        await person.until(lambda: "saved table.json" in person.said())
    first = saved(tmp_path, "table.json")["items"][0]
    assert (first["prompt"], first["expected_response"], first["variables"]["Locale"]) == ("where?", "there", "de")
    assert table.read_text().startswith("Question,Answer")


@pytest.mark.nightly
async def test_a_name_gets_its_ending_and_the_first_evaluator_writes_the_system_defaults_out(tmp_path):
    async with at_the_workbench(tmp_path) as person:
        await person.press("ctrl+n")
        await person.press("end", *["backspace"] * len("evals/evals.json"))
        await person.type("support")
        await person.press("enter")
        await person.type("Why?")
        await person.press("escape", "ctrl+s")
        await person.until(lambda: "saved support.json" in person.said())
        assert saved(tmp_path, "support.json")["items"] == [{"prompt": "Why?"}]
        await person.press("3", "l", "a")
        await person.type("citat")
        await person.press("enter")
        await person.until(lambda: "Citations judges the dataset now" in person.said())
        assert "Relevance and Coherence, which judge where nothing is said, are in the file too" in person.said()


@pytest.mark.nightly
async def test_an_evaluator_is_tried_on_the_answer_in_place(folder):
    async with at_the_workbench(folder, dataset="data.json", size=(120, 40)) as person:
        await person.press("G", "3", "a")
        await person.type("Equals")
        await person.press("enter")
        await person.sees("Equals")
        if person.app.screen is not person.app.screen_stack[0]:
            await person.press("ctrl+s")
        await person.until(lambda: any("Equals" in row for row in person.rows("judges")))
        await person.press("t")
        await person.until(lambda: any("tried on" in row for row in person.rows("judges")))
        await person.press("escape")
        assert not any("tried on" in row for row in person.rows("judges"))


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("name", "text", "kept"),
    [
        ("data.csv", "input,reference_output,city\none,1,Oslo\n", "one more,1,Oslo"),
        ("data.jsonl", '{"input": "one", "ideal": "1"}\n{"input": "two", "ideal": "2"}\n', '"one more"'),
    ],
)
async def test_a_table_and_samples_are_edited_and_saved_as_they_were_and_as_a_document_where_they_cannot(
    tmp_path, name, text, kept
):
    (tmp_path / name).write_text(text)
    async with at_the_workbench(tmp_path, dataset=name) as person:
        await person.press("j", "2", "enter")
        await person.type(" more")
        await person.press("escape", "ctrl+s")
        await person.until(lambda: "saved" in person.said())
        assert kept in (tmp_path / name).read_text()
        as_it_was = (tmp_path / name).read_text()
        await person.press("1", "g", "2", "enter")
        await person.type("A name")
        await person.press("escape", "ctrl+s")
        await person.until(lambda: "no place for metadata" in person.said())
        assert "W saves it under another name" in person.said()
        assert (tmp_path / name).read_text() == as_it_was
        await person.press("W")
        await person.sees("data.json")
        await person.press("enter")
        await person.until(lambda: "saved data.json" in person.said())
        assert (tmp_path / name).read_text() == as_it_was
        assert person.app.workspace.editing.document.file.name == "data.json"
    assert saved(tmp_path)["metadata"] == {"name": "A name"}
    assert saved(tmp_path)["items"][0]["prompt"] == "one more"


@pytest.mark.nightly
async def test_a_name_that_is_taken_is_said_before_anything_is_written(folder):
    write(folder / "other.json", {"items": [{"prompt": "theirs"}]})
    async with at_the_workbench(folder, dataset="data.json") as person:
        await person.press("W")
        await person.sees("data-mine.json")
        await person.press(*["backspace"] * len("data-mine.json"))
        await person.type("other.json")
        await person.sees("that file is there already")
        await person.press("enter")
        assert isinstance(saved(folder, "other.json")["items"], list)
        await person.press(*["backspace"] * 5)
        await person.type(".txt")
        await person.sees("ends in .json")
        await person.press("escape")
    assert saved(folder, "other.json") == {"items": [{"prompt": "theirs"}]}


async def test_a_folder_that_cannot_be_written_says_what_to_do_and_keeps_the_edits(folder, monkeypatch):
    async with at_the_workbench(folder, dataset="data.json") as person:
        await person.press("j", "2", "enter")
        await person.type("!")
        await person.press("escape")

        def refuse(*_, **__):
            raise PermissionError(13, "Permission denied")

        with monkeypatch.context() as patched:
            patched.setattr("tui_evals.files.tempfile.mkstemp", refuse)
            await person.press("ctrl+s")
            await person.until(lambda: "cannot be written to" in person.said())
        assert "W saves it under another name" in person.said() and person.app.workspace.editing.dirty


@pytest.mark.nightly
def test_what_was_typed_is_offered_back_after_a_crash_in_the_middle_of_it(folder):
    with workbench(folder, "data.json") as terminal:
        terminal.wait("A-1")
        terminal.press("j")
        terminal.after("2", "2 Item")
        terminal.after("\r", "esc done")
        terminal.press(" typed before the crash")
        deadline = time.monotonic() + 40
        while not _drafted(folder):
            assert time.monotonic() < deadline
            terminal.read()
        terminal.kill(signal.SIGKILL)
        terminal.end()
    assert saved(folder)["items"][0] == ITEMS[0]
    with workbench(folder, "data.json") as terminal:
        terminal.press("gjjnnew words\t")  # by somebody who does not know that there is a question
        terminal.wait("they are offered once this is done")
        terminal.after("no answer\x1b", "enter takes · esc leaves")
        terminal.after("\x1b", "new words")
        terminal.after("\x13", "saved data.json")
        assert saved(folder)["items"][2] == {"prompt": "new words", "expected_response": "no answer"}
        terminal.press("q")
        assert terminal.end() == 0
    with workbench(folder, "data.json") as terminal:
        terminal.wait("unsaved edits were kept · .* · data.json")
        terminal.after("\r", "edits recovered")
        terminal.after("\x13", "saved data.json")
        terminal.press("q")
        assert terminal.end() == 0
    assert saved(folder)["items"] == [{**ITEMS[0], "prompt": "first typed before the crash"}, *ITEMS[1:]]


def _drafted(folder):
    from tui_evals.store.reader import Reader

    with Reader(folder / ".evals" / "evals.db") as reader:
        return any("before the crash" in draft.data for draft in reader.drafts())


@pytest.mark.nightly
async def test_ten_thousand_items_are_filtered_grouped_marked_edited_and_taken_back(tmp_path):
    items = [{"testId": f"B-{n:05}", "prompt": f"question {n}", "category": f"cat {n % 25}"} for n in range(10_000)]
    write(tmp_path / "big.json", {"schemaVersion": "1.11.0", "items": items})
    async with at_the_workbench(tmp_path, dataset="big.json", size=(80, 24)) as person:
        space = person.app.workspace
        await person.sees("10,000 items")
        await person.press("slash")
        await person.type("0777")
        await person.press("enter")
        assert len(person.rows("tree")) == 12
        await person.press("A", "d")
        assert len(space.items) == 10_011 and "11 items" in person.said()
        await person.press("u", "escape", "escape", "c")
        assert space.items == items
        assert len(person.rows("tree")) == 1 + 25 + 10_000
        await person.press("g", "h")
        assert len(person.rows("tree")) == 1 + 25
        await person.press("G", "space", "D")
        assert len(space.items) == 9_600
        await person.press("u")
        assert space.data["items"] == items and len(space.marks) == 400


def strange_texts():
    """A hundred texts that terminals, markup and layouts have stumbled over."""
    controls = [f"{name} {chr(code)} after" for code, name in enumerate(["nul", *["c0"] * 31])]
    controls += [f"c1 {chr(code)}31m after" for code in range(0x7F, 0xA0)]
    markup = ["[/b]", "[/INST]", "[@click=app.quit]press[/]", "[link=http://x]y[/link]", "[[]", "{{ 7*7 }}", "%s {0}"]
    escapes = [
        *("\x1b]52;c;aGlqYWNr\x07", "\x1b]0;owned\x07", "\x1b]8;;http://evil\x1b\\x\x1b]8;;\x1b\\", "\x1b[2J\x1b[H"),
        *("\x1b[31mred", "\x1bPq#0\x1b\\", "\x1b[?1049l", "\x1b_G\x1b\\"),
    ]
    bidi = ["\u202eevil\u202c", "\u2066x\u2069", "\u200fעברית", "العربية", "a\u200bb\ufeffc", "\u061c\u200e"]
    wide = [
        "日本語" * 40,
        "한국어",
        "ｆｕｌｌ",
        "👩‍👩‍👧‍👦 👍🏽 🇳🇴",
        "é" * 30,
        "Z͑ͫ̓ͪ̂ͫ̽" * 20,
        "\U0001f9d1\u200d\U0001f680",
        "ﷺ",
    ]
    long = [
        "x" * 5_000,
        "word " * 2_000,
        "\n" * 200,
        "a\n" * 500,
        "\t\t\ttab",
        "one\r\ntwo\r\nthree\rfour",
        " " * 300,
        "",
        "\n",
    ]
    halves = ["\ud800", "\udfff half", "a\ud83dz", "\ude00\ud83d"]
    found = [*markup, *escapes, *bidi, *wide, *long, *halves, *controls]
    return (found + [f"{one} again" for one in found])[:100]


def strange_item(number, text):
    if number % 3:
        return {
            **dict.fromkeys(("prompt", "expected_response", "category", "notes", "context", "description"), text),
            "testId": f"S-{number} {text}",
            "response": f"{text} ",
            "tags": [text],
            "variables": {f"v{text}": text},
        }
    turns = [
        {"prompt": text, "response": text, "expected_response": f"{text}!"},
        {"prompt": f"{text}?", "response": ""},
    ]
    return {"testId": f"S-{number} {text}", "name": text, "description": text, "category": text, "turns": turns}


def can_be_asked(text):
    """A run takes no empty prompt and no half of a character; the workbench shows both."""
    return bool(text.strip()) and not any("\ud800" <= one <= "\udfff" for one in text)


def hidden(screen):
    """Characters of a screen that are none to see: a terminal would obey them, or show text where it does not stand."""
    return {
        f"U+{ord(one):04X}" for one in screen if one != "\n" and unicodedata.category(one) in ("Cc", "Cs", "Zl", "Zp")
    } | {
        f"U+{ord(one):04X}"
        for one in screen
        if one in "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200e\u200f"
    }


@pytest.mark.nightly
@pytest.mark.parametrize("size", [(80, 24), pytest.param((120, 40), marks=pytest.mark.nightly)])
async def test_a_hundred_strange_texts_through_every_pane(tmp_path, size):
    texts = strange_texts()
    assert len(set(texts)) == 100
    root = {"schemaVersion": "1.11.0", "metadata": {"name": texts[9]}, "default_evaluators": {"Includes": {}}}
    items = {text: strange_item(number, text) for number, text in enumerate(texts)}
    write(tmp_path / "strange.json", {**root, "items": list(items.values())})
    write(tmp_path / "asked.json", {**root, "items": [item for text, item in items.items() if can_be_asked(text)]})
    given = ("--target", "replay:asked.json", "--name", texts[7], "--tag", texts[8], "--quiet")
    Project(tmp_path, None).do("run", "asked.json", *given, code=None)
    async with at_the_workbench(tmp_path, dataset="strange.json", run="last", size=size) as person:
        app = person.app
        assert app.watching.run is not None and app.watching.run.total
        seen = 0

        def look():
            nonlocal seen
            screen = person.screen()
            assert not hidden(screen), (hidden(screen), screen)
            assert app.is_running and not app._exit
            seen += 1

        async def key(name, character):
            app.key_queue.take(events.Key(name, character))
            await app.key_queue.idle.wait()

        units = len(list(app.workspace.units()))
        small = size[0] < 100  # where two panes stand side by side, one walk shows both
        walks = {"1": ("j", "j"), "2": ("greater_than_sign", ">"), "3": ("greater_than_sign", ">")}
        for pane, on in (walks if small else {"3": walks["3"]}).items():
            await person.press("1", "g", pane)
            for _ in range(units):
                await key(*on)
                look()
            assert app.workspace.item == len(texts) - 1
        await person.press("6")
        look()
        for pane, on in (("4", "j"), ("5", "J")) if small else (("5", "J"),):
            await person.press("4", "g", pane)
            for _ in range(app.watching.run.total):
                look()
                await key(on, on)
        assert seen > (500 if small else 200)
