"""Anything by its name, the keys of where one is, and a line of keys that tells the truth."""

import asyncio
import time

import pytest

from tests.tui.hostile import STRANGE
from tests.tui.stored_runs import add_run, fresh
from tests.tui.story import at_the_workbench, write
from tui_evals.text.manual import pages
from tui_evals.tui.commands import page_rows
from tui_evals.tui.widgets.bar import Keys
from tui_evals.tui.widgets.dialogs import Menu, Reading
from tui_evals.tui.widgets.field import FieldBox

SIZES = [(80, 24), pytest.param((120, 40), marks=pytest.mark.nightly)]
ITEMS = [
    {"testId": "refund-late", "prompt": "My parcel came late. Do I get my money back?"},
    {"testId": "greeting", "prompt": "Good morning!"},
    {"turns": [{"prompt": "Where are you?"}, {"prompt": "And when?"}]},
]


def dataset(folder, items=ITEMS, name="data.json"):
    return write(folder / name, {"schemaVersion": "1.11.0", "items": items})


def footer(person):
    return str(person.app.query_one(Keys).render())


async def find(person, words):
    await person.press("colon")
    await person.until(lambda: isinstance(person.app.screen, Menu))
    await person.type(words)
    await person.press("enter")


@pytest.mark.nightly
@pytest.mark.parametrize("size", SIZES)
async def test_items_datasets_runs_and_pages_are_found_by_their_names(tmp_path, size):
    dataset(tmp_path)
    dataset(tmp_path, ITEMS[:1], "other.json")
    await add_run(fresh(tmp_path), [("pass", "Seven days.")], name="nightly twelve")
    async with at_the_workbench(tmp_path, size=size, dataset="data.json") as person:
        for words, where in (("item: refund", 0), ("item: gr", 1), ("item: where", 2)):
            await find(person, words)
            await person.until(lambda where=where: person.app.workspace.where == ("items", where))
            await person.until(lambda: person.app.front == "editor")
        await find(person, "nightly")
        await person.until(lambda: person.app.watching.run is not None and person.app.front == "results")
        await person.sees("nightly twelve")
        await find(person, "other.j")
        await person.until(lambda: person.app.workspace.editing.document.file.name == "other.json")
        assert person.app.front == "tree"
        await find(person, "help: exit-c")
        await person.until(lambda: isinstance(person.app.screen, Reading))
        await person.sees("help · exit-codes")
        await person.press("escape")
        await find(person, "zzz")
        await person.sees("nothing matches zzz")


@pytest.mark.nightly
async def test_what_can_be_done_in_another_pane_is_done_there(tmp_path):
    dataset(tmp_path)
    async with at_the_workbench(tmp_path, size=(80, 24), dataset="data.json") as person:
        await person.press("j", "3")
        await find(person, "item: copy")
        await person.until(lambda: len(person.app.workspace.items) == 4)
        assert person.app.front == "editor"


@pytest.mark.nightly
@pytest.mark.parametrize("size", SIZES)
async def test_the_keys_of_a_pane_are_found_by_typing_and_pressed_with_enter(tmp_path, size):
    dataset(tmp_path)
    async with at_the_workbench(tmp_path, size=size, dataset="data.json") as person:
        await person.press("j", "question_mark")
        await person.sees("help · 1 Dataset")
        await person.sees("Mark the item, or all of a category")
        await person.type("duplic")
        assert "Mark the item, or all of a category" not in person.screen()
        await person.press("enter")
        await person.until(lambda: len(person.app.workspace.items) == 4)
        await person.press("question_mark")
        await person.type("undo the last")
        await person.press("enter")
        await person.until(lambda: len(person.app.workspace.items) == 3)
        await person.press("question_mark")
        await person.type("stop")
        await person.press("enter")
        await person.sees("no run is chosen")
        await person.press("escape")
        await person.until(lambda: not isinstance(person.app.screen, Menu))


async def test_in_an_empty_project_the_keys_are_those_that_begin_something(tmp_path):
    async with at_the_workbench(tmp_path, size=(80, 24)) as person:
        keys = footer(person)
        assert footer(person).index("ctrl+n new") < footer(person).index("O import")
        assert ": find" in keys and "O import" in keys
        for word in ("mark", "filter", "delete", "run", "save", "undo", "rescore"):
            assert word not in keys.split(), keys


async def test_the_line_of_keys_shows_what_matters_now_and_uses_the_width(tmp_path):
    dataset(tmp_path)
    async with at_the_workbench(tmp_path, size=(80, 24), dataset="data.json") as person:
        await person.press("j")
        assert "r run" in footer(person) and "undo" not in footer(person) and "save" not in footer(person)
        await person.press("d")
        assert "ctrl+s save" in footer(person) and "n new" in footer(person) and len(footer(person).rstrip()) <= 78
        await person.pilot.resize_terminal(160, 45)
        await person.until(lambda: len(footer(person)) > 120)
        assert len(footer(person)) <= 158 and "d copy" in footer(person)
        await person.press("ctrl+s")
        await person.until(lambda: "ctrl+s save" not in footer(person))
        await person.press("2", "enter")
        await person.until(lambda: person.app.query_one(FieldBox).display)
        assert "ctrl+s save" in footer(person) and "f1 all keys" in footer(person)
        assert not {"r run", "u undo", "? all"} & {footer(person)[n : n + 5] for n in range(160)}


@pytest.mark.nightly
@pytest.mark.parametrize("size", [(120, 40), pytest.param((160, 30), marks=pytest.mark.nightly)])
async def test_the_tree_has_the_width_its_names_need(tmp_path, size):
    names = [f"{number:03}-refunds-after-thirty-days" for number in range(3)]
    dataset(tmp_path, [{"testId": name, "prompt": "Do I get my money back?"} for name in names])
    dataset(tmp_path, ITEMS[1:], "short.json")
    async with at_the_workbench(tmp_path, size=size, dataset="data.json") as person:
        assert all(f"{name} Do I" in person.screen() for name in names)
        wide = person.app.query_one("#tree").region.width
        assert wide <= size[0] // 2
        await find(person, "dataset: short")
        await person.until(lambda: person.app.query_one("#tree").region.width < wide)
        before = person.app.query_one("#tree").region.width
        await person.press("right_square_bracket")
        await person.until(lambda: person.app.query_one("#tree").region.width > before)


@pytest.mark.nightly
async def test_hostile_names_are_found_as_they_are_written(tmp_path):
    hostile = "[/b][@click=app.quit]x[/] \x1b]52;c;aGk=\x07\x1b[2J"
    dataset(tmp_path, [{"testId": hostile, "prompt": text} for text in (hostile, STRANGE[0])])
    await add_run(fresh(tmp_path), [("pass", "x")], name=hostile)
    async with at_the_workbench(tmp_path, size=(120, 40), dataset="data.json") as person:
        await person.press("colon")
        await person.type("[/b]")
        await person.sees("[/b][@click=app.quit]x[/]")
        assert not set(person.screen()) & {"\x1b", "\x07", "\x9b", "\u202e"}
        await person.press("enter")
        await person.until(lambda: person.app.front == "results" and not isinstance(person.app.screen, Menu))


@pytest.mark.nightly
async def test_ten_thousand_items_do_not_hold_up_who_types(tmp_path):
    items = [{"testId": f"T-{n}", "prompt": f"some question about refunds number {n}"} for n in range(10_000)]
    dataset(tmp_path, items)
    async with at_the_workbench(tmp_path, size=(80, 24), dataset="data.json") as person:
        await person.press("colon")
        await person.until(lambda: isinstance(person.app.screen, Menu))
        menu = person.app.screen
        for letter in "number 99":
            line = menu.query_one("#line")
            start = time.process_time()
            line.insert_text_at_cursor(letter)
            await asyncio.sleep(0)
            assert time.process_time() - start < 0.5  # a tenth of it, on a machine that does nothing else
        await person.until(lambda: "item: T-99" in person.screen())
        await person.type("99")
        await person.until(lambda: "item: T-9999" in person.screen())
        await person.press("enter")
        await person.until(lambda: person.app.workspace.where == ("items", 9999))


@pytest.mark.parametrize("width", [40, 74, 106])
def test_every_page_of_the_manual_fits_the_width(width):
    for name, text in pages().items():
        rows = ["".join(piece.text for piece in row.pieces) for row in page_rows(text, width)]
        assert all(len(line) <= width for line in rows), name
        words = " ".join(rows).split()
        assert [word for word in ("Unicode", "**") if word in words] == []
        assert rows[0] == text.partition("\n")[0].removeprefix("# ")[:width] or width == 40


@pytest.mark.nightly
async def test_a_click_on_a_key_presses_it_and_lines_to_type_in_have_keys_of_their_own(tmp_path):
    write(tmp_path / "data.json", {"items": [{"prompt": "one"}, {"prompt": "two"}]})
    async with at_the_workbench(tmp_path, size=(80, 24), dataset="data.json") as person:
        await person.press("1", "g", "j", "/")
        assert person.keys().startswith("enter to the list  → complete  esc no filter")
        await person.press("escape")
        await person.pilot.click("#keys", offset=(person.keys().index("n new") + 1, 0))
        await person.until(lambda: len(person.app.workspace.items) == 3)
        await person.sees("esc done")
        await person.pilot.click("#keys", offset=(person.keys().index("esc done") + 5, 0))
        await person.until(lambda: not person.app.pane("editor").writing)
