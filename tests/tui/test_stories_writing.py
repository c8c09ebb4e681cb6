"""What people do to write items one after the other: the box of a field, its keys, and what becomes of the text."""

from pathlib import Path

import pytest

import tui_evals
from tests.bench import keys
from tests.tui.story import at_the_workbench, write
from tui_evals.tui.widgets.bar import Keys
from tui_evals.tui.widgets.field import FieldBox

ITEMS = [
    {"testId": "A-1", "prompt": "first", "expected_response": "one", "weight": 0.5},
    {"testId": "A-2", "turns": [{"prompt": "hello"}, {"prompt": "and now?"}]},
]
SMALL = (80, 24)


@pytest.fixture
def folder(tmp_path):
    write(tmp_path / "data.json", {"schemaVersion": "1.11.0", "items": ITEMS})
    return tmp_path


def box(person):
    return person.app.query_one(FieldBox)


def footer(person):
    return str(person.app.query_one(Keys).render())


def is_open(person, name):
    return box(person).display and str(box(person).border_title).startswith(name)


@pytest.mark.nightly
async def test_items_are_written_one_after_the_other_with_three_keys_each(folder):
    async with at_the_workbench(folder, dataset="data.json", size=SMALL) as person:
        space = person.app.workspace
        await person.press("G")
        for number in (3, 4):
            await person.press("n")
            assert is_open(person, "prompt") and box(person).text == ""
            assert "esc done" in footer(person) and "r run" not in footer(person)
            await person.type(f"Q{number}")
            await person.press("tab")
            assert is_open(person, "expected_response")
            await person.type(f"A{number}")
            await person.press("escape")
            assert not box(person).display
            await person.until(lambda: "r run" in footer(person))  # once the new item has been checked
        assert space.items[2:] == [{"prompt": f"Q{number}", "expected_response": f"A{number}"} for number in (3, 4)]
        for left in (["Q3", "Q4"], ["Q3", "Q4"], ["Q3", ""], ["Q3"]):
            assert [item["prompt"] for item in space.items[2:]] == left
            await person.press("u")
        assert [item.get("expected_response") for item in space.items[2:]] == [None]


@pytest.mark.nightly
async def test_tab_goes_through_a_conversation_and_stays_at_the_ends(folder):
    async with at_the_workbench(folder, dataset="data.json", size=SMALL) as person:
        space = person.app.workspace
        await person.press("j", "2", "enter", *["tab"] * 5)
        assert space.where == ("items", 1) and is_open(person, "testId")
        await person.press("tab", "tab")
        assert space.where == ("items", 1, "turns", 0) and is_open(person, "prompt")
        await person.press("tab", "tab", "tab")
        await person.type("this")
        await person.press("tab")
        assert space.where == ("items", 1, "turns", 1) and is_open(person, "expected_response")
        assert space.unit == {"prompt": "and now?", "expected_response": "this"}
        assert "last field of the last item: esc, then n makes another" in person.said()
        await person.press("shift+tab", "shift+tab", "shift+tab", "shift+tab")
        assert space.where == ("items", 1) and is_open(person, "category")
        await person.press(*["shift+tab"] * 12)
        assert space.where == () and "the first field of all" in person.said()
        await person.press("escape", "1")
        assert person.app.query_one("#tree").query_one("Lines").key == ()


@pytest.mark.nightly
async def test_enter_takes_one_line_and_adds_a_line_to_others_and_the_box_says_which(folder):
    async with at_the_workbench(folder, dataset="data.json", size=SMALL) as person:
        space = person.app.workspace
        await person.press("j", "2", "enter")
        assert "enter adds a line" in person.screen()
        await person.press("enter", "x", "ctrl+j", "y", "escape")
        assert space.unit["prompt"] == "first\nx\ny"
        await person.press("j", "j", "enter")
        assert is_open(person, "testId") and "enter takes it" in person.screen()
        await person.press("x", "enter")
        assert not box(person).display and space.unit["testId"] == "A-1x"


@pytest.mark.nightly
async def test_the_box_grows_with_its_text_and_takes_the_whole_pane_on_demand(folder):
    async with at_the_workbench(folder, dataset="data.json", size=SMALL) as person:
        await person.press("j", "2", "enter")
        heights = []
        for _ in range(3):
            heights.append(box(person).outer_size.height)
            box(person).area.insert("\nx" * 8)
            await person.press("x")
        assert heights == [4, 11, 16] and any(row.startswith("│prompt") for row in person.screen().splitlines())
        await person.press("ctrl+l")
        assert box(person).outer_size.height == 20
        assert "esc done" in person.screen().splitlines()[20]
        await person.press("ctrl+l", "f1")
        await person.sees("Start a new line")
        await person.press("escape")
        assert is_open(person, "prompt")


@pytest.mark.nightly
async def test_the_manual_says_how_many_keys_each_job_of_an_author_takes():
    await keys.do_all()
    page = Path(tui_evals.__file__).parent / "help" / "workbench.md"
    assert keys.table() in page.read_text(encoding="utf-8")
    assert all(job.keys <= (6 if "proposed" in job.name else 4) for job in keys.JOBS)


@pytest.mark.nightly
async def test_the_manual_says_how_many_keys_each_question_about_a_run_takes():
    await keys.ask_all()
    page = Path(tui_evals.__file__).parent / "help" / "workbench.md"
    assert keys.questions_table() in page.read_text(encoding="utf-8")
    assert max(len(question.keys) for question in keys.QUESTIONS) <= keys.MOST_KEYS
