"""While a key is held down nothing follows the cursor; another key, or a moment, has it followed."""

import json

import pytest

from tests.tui.story import at_the_workbench
from tui_evals.tui import app as workbench

pytestmark = pytest.mark.story


@pytest.fixture
def folder(tmp_path):
    items = [{"testId": f"q-{number}", "prompt": f"question {number}"} for number in range(9)]
    (tmp_path / "data.json").write_text(json.dumps({"schemaVersion": "1.11.0", "items": items}))
    return tmp_path


def shown(person):
    return str(person.app.pane("editor").border_title)


async def test_another_key_finds_the_panes_at_the_item_that_a_held_key_led_to(folder, monkeypatch):
    monkeypatch.setattr(workbench, "_HELD_SECONDS", 3600.0)
    async with at_the_workbench(folder, dataset="data.json", size=(160, 45)) as person:
        await person.pilot.press("1", "j")
        await person.until(lambda: "q-0" in shown(person) and person.app.workspace.report is not None)
        await person.pilot.press("j", "j")
        await person.until(lambda: person.app.workspace.item == 2)
        assert "q-0" in shown(person)
        await person.pilot.press("n")
        await person.until(lambda: person.app.workspace.item == 3)
        await person.pilot.press("escape")
        assert [item.get("testId") for item in person.app.workspace.items[:4]] == ["q-0", "q-1", "q-2", None]


async def test_the_panes_follow_a_moment_after_the_key_was_let_go(folder):
    async with at_the_workbench(folder, dataset="data.json", size=(160, 45)) as person:
        await person.pilot.press("1", *"jjjjj")
        await person.until(lambda: "q-4" in shown(person))
