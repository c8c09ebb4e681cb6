"""Thirty items with all that an author needs, written by keys alone and a table that is pasted."""

from pathlib import Path

import pytest

from tests.tui.story import Person, at_the_workbench
from tests.tui.test_story_of_eight_items import Author

pytestmark = pytest.mark.story

MEANT = Path(__file__).with_name("thirty_items.json")
TABLE = "testId,prompt,expected_response,country,category,tags\n" + "".join(
    f'CSV-{number},"Name a town of {{{{country}}}}, please",{town},{country},geography,"csv, towns"\n'
    for number, (town, country) in enumerate(
        [
            *(("Oslo", "Norway"), ("Turku", "Finland"), ("Malmö", "Sweden"), ("Aarhus", "Denmark"), ("Riga", "Latvia")),
            *(
                ("Tartu", "Estonia"),
                ("Kaunas", "Lithuania"),
                ("Łódź", "Poland"),
                ("Bonn", "Germany"),
                ("Lyon", "France"),
            ),
            *(("Porto", "Portugal"), ("Bilbao", "Spain"), ("Turin", "Italy"), ("Graz", "Austria"), ("Brno", "Czechia")),
        ],
        1,
    )
)
FUNCTION = """def score(response):
    words = len(response.split())
    return words <= 3, f"{words} words"
"""


class Writer(Author):
    """An author who writes evaluators too."""

    async def new_evaluator(self, kind: str) -> None:
        await self.press("3", "a")
        await self.type(f"new: {kind}")
        await self.press("enter")


async def _plain(author: Writer) -> None:
    await author.fields("What is the capital of France?", "Paris", "GEO-1", "geography")
    await author.item("And of Italy?", "Rome", "GEO-2", "geography")
    await author.item("Is the earth flat?", "No.", "FACT-1", "facts")
    await author.item("When are you open?", "From nine.", "FACT-2", "facts")
    await author.field("context")
    await author.fields("We open at nine.\nDaily.")
    await author.item("Name a prime.")
    await author.field("ideal")
    await author.fields("two")
    await author.press("a")
    await author.fields("three\nor 3")
    await author.press("escape")


async def _variables(author: Writer) -> None:
    for name, town in (("Ada", "Oslo"), ("Grace", "Bergen")):
        await author.item("Greet {{name}} in {{city}}.", f"Hello {name}!")
        await author.field("variables")
        await author.part("name", name)
        await author.press("a")
        await author.part("city", town)
        await author.press("escape")


async def _conversations(author: Writer) -> None:
    for topic, first, second in (("dinner", "$250", "$200"), ("a taxi", "$90", "$50")):
        await author.item(f"I spent {first} on {topic}.", f"The allowance is {second}.")
        await author.press("T", "t")
        await author.fields("What now?", "Ask your manager.")


async def _tools_files_and_user(author: Writer) -> None:
    await author.item("Where is order 7?", "It was sent.")
    await author.field("tools")
    await author.tool("find_order", "Finds an order.", "id: integer")
    await author.press("escape")
    await author.field("tool_r")
    await author.person.sees("a tool of the dataset")
    await author.press("enter", "escape")
    await author.item("What is on the picture?", "A lamp.")
    await author.field("attach")
    await author.type("lamp")
    await author.press("enter")
    await author.item("I want my money back.")
    await author.field("user")
    await author.type("a refund")
    await author.press("tab")
    await author.type("in a hurry")
    await author.press("ctrl+s")


async def _evaluators(author: Writer) -> None:
    await author.item("Name two colors.", "red and blue")
    await author.evaluator("ContainsAll", "enter", "enter")
    await author.type("red\nblue")
    await author.press("escape", "escape", "2")
    await author.item("Write to a customer.", "Dear Ada, …")
    await author.new_evaluator("rubric")
    await author.press("f7")
    await author.type("Polite, and no longer than three sentences.")
    await author.press("escape", "2")
    await author.item("Answer briefly: is water wet?", "Yes.")
    await author.new_evaluator("python")
    await author.type("brief")
    await author.press("enter", "f7")
    await author.type(FUNCTION)
    await author.press("escape")
    await author.person.until(lambda: author.person.app.workspace.items[14].get("evaluators"))
    await author.press("2")


async def _tags(author: Writer) -> None:
    await author.press("1", "g", "j", "space", "space", "number_sign")
    await author.type("smoke, vip")
    await author.press("enter", "escape")


@pytest.mark.nightly
@pytest.mark.parametrize("size", [(80, 24), pytest.param((160, 45), marks=pytest.mark.nightly)])
async def test_thirty_items_written_by_keys_are_the_file_that_was_meant(tmp_path, size, monkeypatch):
    monkeypatch.setattr(Person.until, "__defaults__", (60.0,))
    (tmp_path / "evals" / "pictures").mkdir(parents=True)
    (tmp_path / "evals" / "pictures" / "lamp.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    async with at_the_workbench(tmp_path, size=size) as person:
        author = Writer(person)
        await person.press("ctrl+n", "enter")
        await _plain(author)
        await _variables(author)
        await _conversations(author)
        await _tools_files_and_user(author)
        await _evaluators(author)
        await _tags(author)
        await person.press("v")
        await author.person.paste(TABLE)
        await person.sees("15 items added")
        await person.press("ctrl+s")
        await person.sees("evals.json saved")
    assert (tmp_path / "evals" / "evals.json").read_text(encoding="utf-8") == MEANT.read_text(encoding="utf-8")
    own = tmp_path / "custom-evaluators" / "brief" / "brief.py"
    assert own.read_text(encoding="utf-8") == FUNCTION
