"""What is written in a box is completed: variables, tags, categories, tools, evaluators and paths."""

import pytest

from tests.tui.story import at_the_workbench, write
from tui_evals.evaluators.registry import Registry, built_in
from tui_evals.tui.completion import Completer, item_filter_values, known_tags
from tui_evals.tui.item.field_edit import known_names
from tui_evals.tui.widgets.finding import complete_list
from tui_evals.tui.workspace import Workspace

TOOL = {"type": "function", "function": {"name": "find_order", "parameters": {"type": "object"}}}
ITEMS = [
    {"testId": "A-1", "prompt": "Greet ", "variables": {"name": "Ada"}, "category": "tone", "tags": ["smoke"]},
    {"testId": "A-2", "prompt": "b", "variables": {"city": "Oslo"}, "category": "facts", "tags": ["vip", "smoke"]},
    {"testId": "A-3", "prompt": "c", "category": "facts", "turns": [{"prompt": "d", "variables": {"country": "x"}}]},
]
DATA = {"schemaVersion": "1.11.0", "variables": {"number": 1}, "tools": [TOOL], "items": ITEMS}


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "prompts").mkdir()
    (tmp_path / "prompts" / "short.md").write_text("x")
    write(tmp_path / "data.json", DATA)
    return tmp_path


@pytest.fixture
def space(folder):
    made = Workspace(folder, folder / "evals.db")
    made.open_file(folder / "data.json")
    made.registry = Registry(built_in())
    made.where = ("items", 0)
    return made


def names(space, field, before, after=""):
    found = Completer(space, field)(before, after)
    return found and list(found.names)


def test_a_brace_offers_variables_the_own_ones_first_and_closes_them(space):
    assert names(space, "prompt", "Greet {{") == ["name", "number", "city"]
    found = Completer(space, "prompt")("Greet {{ n", "")
    assert (found.text, found.rest) == ("name }}", "ame }}") and list(found.names) == ["name", "number"]
    assert Completer(space, "prompt")("{{na", "}} in").text == "name"
    assert names(space, "prompt", "{{nothing") is None and names(space, "prompt", "Greet na") is None
    assert Completer(space, "prompt")("{{ity", "").rest == ""  # within a name: shown in the line below only


def test_lines_of_tags_categories_and_tools_are_completed_by_those_there_are(space):
    assert names(space, "tags", "smoke\nv") == ["vip"] and names(space, "tags", "vip\nv") is None
    assert names(space, "category", "f") == ["facts"] and names(space, "category", "facts") is None
    assert names(space, "category", "") is None and names(space, "expected_response", "f") is None
    assert names(space, "allowed_tools", "fin") == ["find_order"]
    assert names(space, "prompt", "read file://sh") == ["prompts/short.md"]
    assert names(space, "prompt_file", "pro") == ["prompts/short.md"]


@pytest.mark.parametrize(
    "before", ['{"Cont', '{"ExactMatch": {"type": "Cont', '{"Any": {"evaluators": {"A": {"x": [1]}, "Cont']
)
def test_names_of_evaluators_are_completed_where_json_holds_one(space, before):
    found = Completer(space, "evaluators")(before, "")
    assert found.text == 'ContainsAll"' and "ContainsAny" in found.names
    assert Completer(space, "default_evaluators")(before, '": {}').text == "ContainsAll"
    assert names(space, "prompt", before) is None


@pytest.mark.parametrize(
    "before", ['{"Contains": {"val', '{"Contains": {"values": ["Cont', '{"Contains": {"value": "Cont']
)
def test_options_and_values_are_not_taken_for_names_of_evaluators(space, before):
    assert names(space, "evaluators", before) is None


def test_a_new_variable_is_offered_by_the_names_that_the_texts_of_the_item_use_first(space):
    space.items[0]["prompt"] = "Greet {{ guest }} and {{name}} in {{country}}"
    assert list(known_names(space, "variables", {"name"})) == ["guest", "country", "number", "city"]
    assert list(known_names(space, "metadata", ())) == []


def test_a_filter_of_items_completes_categories_tags_and_statuses():
    values = item_filter_values(ITEMS)
    assert values["category"] == ["facts", "tone"] and values["tag"] == ["smoke", "vip"] and "fail" in values["status"]


def test_the_last_of_several_tags_in_a_line_is_completed_and_none_twice(space):
    complete = complete_list(known_tags(space.items))
    assert complete("vip, +s", "").rest == "moke" and complete("smoke, s", "") is None and complete("", "") is None


async def test_tab_in_the_values_goes_on_to_the_variable_that_has_none(folder):
    async with at_the_workbench(folder, dataset="data.json", size=(120, 40)) as person:
        items = person.app.workspace
        await person.press("1", "g", "n")
        await person.type("{{guest}} of {{city}} and {{home}}")
        await person.press("escape", "a")
        await person.type("variables\n")
        await person.sees("{{guest}} is in a text of the item")
        await person.press("enter")
        await person.type("Ada")
        await person.press("tab")
        await person.type("Oslo")
        await person.press("tab")
        await person.type("Bergen")
        await person.press("tab")
        await person.sees("─ testId ·")
        made = items.items[items.item]
        assert made["variables"] == {"guest": "Ada", "city": "Oslo", "home": "Bergen"}
        await person.press("escape", "u")
        assert items.items[items.item]["variables"] == {"guest": "Ada", "city": "Oslo"}


@pytest.mark.nightly
async def test_the_right_arrow_takes_what_is_offered_in_a_box_in_the_tags_and_in_a_cell(folder):
    async with at_the_workbench(folder, dataset="data.json", size=(80, 24)) as person:
        items = person.app.workspace
        await person.press("1", "g", "j", "2", "g", "enter")
        await person.type("{{n")
        assert "→ takes name · also number" in person.screen() and "Greet {{name}}" in person.screen()
        await person.press("right")
        assert items.items[0]["prompt"] == "Greet {{name}}" and "→ takes" not in person.screen()
        await person.type("{{ity")
        await person.press("right", "escape")
        assert items.items[0]["prompt"] == "Greet {{name}}{{city}}"
        await person.press("1", "#")
        await person.type("v")
        await person.pilot.pause()
        await person.press("right", "enter")
        assert items.items[0]["tags"] == ["smoke", "vip"]
        await person.press("v", "g")
        await person.press("enter", *["tab"] * 4)
        assert "category of A-1" in person.screen()
        await person.press("ctrl+u")
        await person.type("f")
        await person.pilot.pause()
        await person.press("right", "enter")
        assert items.items[0]["category"] == "facts"


@pytest.mark.nightly
async def test_the_right_arrow_takes_what_is_offered_in_the_options_of_an_evaluator(folder):
    async with at_the_workbench(folder, dataset="data.json", size=(80, 24)) as person:
        items = person.app.workspace
        await person.press("1", "g", "j", "3", "a")
        await person.type("containsany")
        await person.press("enter")
        await person.until(lambda: "ContainsAny" in items.items[0].get("evaluators", {}))
        await person.press("enter")
        await person.sees("▸ take these options")
        await person.press("enter")
        await person.type("of {{n")
        await person.sees("→ takes name · also number")
        await person.press("right", "escape", "ctrl+s")
        await person.until(lambda: items.items[0].get("evaluators") == {"ContainsAny": {"values": ["of {{name}}"]}})
        await person.press("enter")
        await person.sees("▸ take these options")
        await person.press("v", "f7")
        await person.type('["{{ci')
        await person.sees("→ takes city")
        await person.press("right")
        await person.type('"]')
        await person.press("escape", "ctrl+s")
        await person.until(lambda: items.items[0]["evaluators"] == {"ContainsAny": {"values": ["{{city}}"]}})


@pytest.mark.nightly
async def test_moving_in_the_text_offers_nothing_that_is_not_there(folder):
    async with at_the_workbench(folder, dataset="data.json", size=(80, 24)) as person:
        await person.press("1", "g", "j", "2", "g", "enter")
        await person.type("{{n")
        await person.press("left")
        assert "→ takes" not in person.screen()
        await person.press("right")
        assert "→ takes" in person.screen() and person.app.workspace.items[0]["prompt"] == "Greet {{n"
        await person.press("home", "right", "end")
        assert "→ takes" in person.screen() and person.app.workspace.items[0]["prompt"] == "Greet {{n"
