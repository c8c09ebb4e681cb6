"""From an empty folder to eight items, with all that an item may hold, written with nothing but the keyboard."""

import json

import pytest

from tests.tui.story import at_the_workbench

pytestmark = pytest.mark.story

TOOL = {
    "type": "function",
    "function": {
        "name": "look_up",
        "description": "Finds a word.",
        "parameters": {"type": "object", "properties": {"word": {"type": "string"}}, "required": ["word"]},
    },
}
MEANT = {
    "schemaVersion": "1.11.0",
    "items": [
        {
            "testId": "GEO-1",
            "category": "geography",
            "prompt": "What is the capital of France?\nOne word.",
            "expected_response": "Paris\n(a city)",
        },
        {"prompt": "When are you open?", "expected_response": "From nine.", "context": "We open at nine.\nDaily."},
        {
            "variables": {"name": "Ada", "city": "Oslo\nNorway"},
            "prompt": "Greet {{name}} in {{city}}.",
            "expected_response": "Hello Ada!",
        },
        {
            "name": "Expenses",
            "turns": [
                {"prompt": "I spent $250 on dinner.", "expected_response": "The allowance is $200."},
                {"prompt": "What now?", "expected_response": "Ask your manager."},
                {
                    "prompt": "Just say yes.",
                    "expected_response": "yes",
                    "evaluators": {"ExactMatch": {}},
                    "evaluators_mode": "replace",
                },
            ],
        },
        {
            "messages": [
                {"role": "system", "content": "You are terse.\nVery."},
                {"role": "user", "content": "Explain:\n- this\n- that"},
            ],
            "prompt": "And in one line?",
        },
        {"prompt": "What does owl mean?", "tools": [TOOL]},
        {"prompt": "Name a prime.", "ideal": ["two", "three\nor 3"]},
        {
            "prompt": "Say when.",
            "expected_response": "when",
            "evaluators": {"PartialMatch": {"threshold": 0.8}},
        },
    ],
}


class Author:
    """Somebody who writes, and knows the keys."""

    def __init__(self, person):
        self.person = person
        self.press, self.type = person.press, person.type

    async def fields(self, *texts):
        """What stands in one field after the other, from the one that is open on."""
        for number, text in enumerate(texts):
            await self.press(*["tab"] * (number > 0))
            await self.type(text)
        await self.press("escape")

    async def item(self, *texts):
        await self.press("n")
        await self.fields(*texts)

    async def field(self, name):
        """Add a field, and be in it."""
        await self.press("a")
        await self.type(name)
        await self.press("enter")

    async def part(self, name, value):
        """A value by its name, on a page of parts that asks for the name of a new one."""
        await self.type(name)
        await self.press("enter")
        await self.fields(value)

    async def tool(self, name, about, parameter):
        """A tool with one parameter, which is needed, in its form."""
        await self.type(name)
        await self.press("tab")
        await self.type(about)
        await self.press("tab", "enter", "j", "j", "enter")
        await self.type(parameter)
        await self.press("enter", "escape", "j", "enter", "enter", "escape", "escape")

    async def evaluator(self, name, *options):
        await self.press("3", "a")
        await self.type(name)
        await self.press("enter")
        await self.person.until(lambda: any(name in row for row in self.person.rows("judges")))
        for key in options:
            await self.press(key)


@pytest.mark.nightly
@pytest.mark.parametrize(
    "size", [(80, 24), *(pytest.param(size, marks=pytest.mark.nightly) for size in ((120, 40), (160, 45)))]
)
async def test_from_an_empty_folder_to_eight_items_that_are_what_was_meant(tmp_path, size):
    async with at_the_workbench(tmp_path, size=size) as person:
        author = Author(person)
        await person.press("ctrl+n", "enter")
        await author.fields("What is the capital of France?\nOne word.", "Paris\n(a city)", "GEO-1", "geography")

        await author.item("When are you open?", "From nine.")
        await author.field("context")
        await author.fields("We open at nine.\nDaily.")

        await author.item("Greet {{name}} in {{city}}.", "Hello Ada!")
        await author.field("variables")
        await author.part("name", "Ada")
        await person.press("a")
        await author.part("city", "Oslo\nNorway")
        await person.press("escape")

        await author.item("I spent $250 on dinner.", "The allowance is $200.")
        await author.field("name")
        await author.fields("Expenses")
        await person.press("T", "t")
        await author.fields("What now?", "Ask your manager.")
        await person.press("t")
        await author.fields("Just say yes.", "yes")
        await author.evaluator("ExactMatch", "m")
        await person.press("2")

        await author.item("And in one line?")
        await author.field("messages")
        for place, message in enumerate(MEANT["items"][4]["messages"]):
            await person.press(*["a"] * (place > 0))
            await author.fields(message["content"])
        await person.press(*"kcccjccc", "escape")

        await author.item("What does owl mean?")
        await author.field("tools")
        await author.tool("look_up", "Finds a word.", "word: string")
        await person.press("escape")

        await author.item("Name a prime.")
        await author.field("ideal")
        await author.fields("two")
        await person.press("a")
        await author.fields("three\nor 3")
        await person.press("escape")

        await author.item("Say when.", "when")
        await author.evaluator("PartialMatch", "i", "enter", "ctrl+u", *"0.8", "enter", "ctrl+s")
        await person.press("ctrl+s")
        await person.until(lambda: "saved" in person.said())
    written = (tmp_path / "evals" / "evals.json").read_text(encoding="utf-8")
    assert json.loads(written) == MEANT
    assert written == json.dumps(MEANT, indent=2, ensure_ascii=False) + "\n"
