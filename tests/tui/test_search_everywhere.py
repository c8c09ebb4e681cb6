"""`/` searches or filters in every pane, `n` and `N` go on, no letter quits from a field, `q` asks before a loss."""

import json
import re

import pytest

from tests.tui.story import at_the_workbench, configure, write
from tests.tui.terminal import OURS, workbench
from tui_evals.tui.widgets.dialogs import Confirm, Reading
from tui_evals.tui.widgets.lines import Lines


@pytest.mark.story
def test_a_search_typed_in_one_packet_searches_and_never_quits(tmp_path):
    """On a real terminal; `/question` in pane 2 quit at the `q`."""
    items = [{"prompt": "a quick question", "expected_response": "an answer, no question"}, {"prompt": "two"}]
    data = {"default_evaluators": {"Includes": {}, "Latency": {"threshold_ms": 10}}, "items": items}
    (tmp_path / "data.json").write_text(json.dumps({"schemaVersion": "1.11.0", **data}))
    with workbench(tmp_path, "data.json") as terminal:
        terminal.wait("all keys")
        terminal.after("j2/question\r", "“question”: 1 of 2")
        terminal.after("n", "“question”: 2 of 2")
        terminal.after("N", "“question”: 1 of 2")
        terminal.after("\x1b3/laten\r", "“laten”: 1 of")
        terminal.after("?", "help · 3 Evaluators")
        terminal.after("leave", "/leave|leave")
        terminal.after("\x1b\x1b1/q\r", r"/q|1 Dataset")
        terminal.after("n?", "help · 1 Dataset")
        assert not re.search("help · 2 Item", OURS.sub("", terminal.text)), "n went on in what fits, and made no item"
        terminal.press("\x1b\x1bq")
        assert terminal.end() == 0
    assert json.loads((tmp_path / "data.json").read_text())["items"] == items


@pytest.mark.nightly
async def test_search_in_panes_dialogs_and_viewers(tmp_path):
    items = [{"prompt": f"ask {number}"} for number in range(3)]
    write(tmp_path / "data.json", {"schemaVersion": "1.11.0", "items": items})
    async with at_the_workbench(tmp_path, dataset="data.json") as person:
        await person.press("j", "2", "slash", *"prompt", "n", "enter")
        assert len(person.app.workspace.items) == 3 and person.app.screen.focused.searched_text == "promptn"
        assert "n N next" in person.screen()
        await person.press("escape", "n")
        assert len(person.app.workspace.items) == 4, "n is what it was once esc has ended the search"
        await person.press("escape", "u", "1", "colon")
        await person.type("help: datasets")
        await person.press("enter")
        await person.until(lambda: isinstance(person.app.screen, Reading))
        await person.press("slash", *"item", "enter")
        lines = person.app.screen.query_one(Lines)
        first = lines.scroll_offset.y
        await person.press(*"nnnnnnn")
        await person.until(lambda: lines.scroll_offset.y > first)
        await person.press("escape")
        assert isinstance(person.app.screen, Reading), "escape ends the search first"
        await person.press("escape")
        await person.press("slash", *"ask", "enter", "n", "n", "N")
        assert len(person.app.workspace.items) == 3 and person.app.workspace.where == ("items", 1)
        assert "n N next" in person.screen() and "n new" not in person.screen()


@pytest.mark.nightly
async def test_keys_go_back_to_the_box_in_which_somebody_writes(tmp_path):
    write(tmp_path / "data.json", {"schemaVersion": "1.11.0", "items": [{"prompt": "one"}, {"prompt": "two"}]})
    async with at_the_workbench(tmp_path, dataset="data.json") as person:
        await person.press("j", "2", "enter")
        await person.pilot.click("#tree-lines", offset=(3, 1))
        await person.press("D", "d", "q")
        assert person.app.workspace.items[0]["prompt"] == "oneDdq" and len(person.app.workspace.items) == 2
        person.app.bring("runs")
        assert person.app.front == "editor" and "esc" in person.said()
        await person.press("escape", "slash", *"on")
        await person.pilot.click("#tree-lines", offset=(3, 1))
        await person.press("q", "D")
        assert person.app.screen.focused.value == "onqD" and len(person.app.workspace.items) == 2


@pytest.mark.nightly
async def test_q_asks_before_a_conversation_or_a_text_would_be_lost(tmp_path):
    configure(tmp_path, '[run]\ntargets = ["demo"]\n')
    write(tmp_path / "data.json", {"schemaVersion": "1.11.0", "items": [{"prompt": "one", "variables": {"a": 1}}]})
    async with at_the_workbench(tmp_path, dataset="data.json") as person:
        await person.press("P")
        await person.type("a question")
        await person.press("escape", "q")
        await person.sees("Leaving would lose something")
        assert "question in the playground was not sent" in person.screen()
        await person.press("q")
        assert not isinstance(person.app.screen, Confirm) and person.app.is_running
        await person.press("P")
        person.app.screen.query_one("#box").clear()
        await person.press("escape", "j", "2")
        lines = person.app.query_one("#fields", Lines)
        lines.to_key("variables")
        await person.press("v", "x", "ctrl+q")
        await person.until(lambda: isinstance(person.app.screen, Confirm))
        await person.press("n")
        assert person.app.is_running
