"""Tab goes from field to field inside the box; no letter after it is a key of the panes behind."""

import json

from tests.tui.terminal import workbench


def test_letters_after_tab_are_text_of_the_next_field_and_the_footer_is_that_of_the_box(tmp_path):
    file = tmp_path / "data.json"
    items = [{"prompt": "Q1"}, {"prompt": "Q2"}]
    file.write_text(json.dumps({"schemaVersion": "1.11.0", "items": items}))
    with workbench(tmp_path, "data.json") as terminal:
        terminal.wait("all keys")
        terminal.after("j2", "2 Item")
        terminal.after("\r", "ctrl.l zoom")
        terminal.after("\txqd", "xqd")
        terminal.after("\t\x1b[Zr", "xqdr")  # to testId, and back with shift+tab
        terminal.after("\t\t1\t\t", "item 2 of 2")  # over testId, the category, on to the next item's answer
        terminal.after("z\x13", "saved data.json")
        assert json.loads(file.read_text())["items"] == [
            {"prompt": "Q1", "expected_response": "xqdr", "category": "1"},
            {"prompt": "Q2", "expected_response": "z"},
        ]
        terminal.press("q")
        assert terminal.end() == 0
