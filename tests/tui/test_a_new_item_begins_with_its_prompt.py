"""After an answer was written, the next new item begins with its prompt, whatever field the cursor was on."""

import json

import pytest

from tests.tui.terminal import workbench


@pytest.mark.nightly
def test_three_keys_lead_from_one_item_to_the_next_and_each_text_is_where_it_belongs(tmp_path):
    file = tmp_path / "data.json"
    file.write_text(json.dumps({"schemaVersion": "1.11.0", "items": [{"prompt": "Q1", "expected_response": "A1"}]}))
    with workbench(tmp_path, "data.json") as terminal:
        terminal.wait("all keys")
        terminal.after("j2", "2 Item")
        terminal.after("n", "new item, 2 of 2")
        terminal.after("Q2\t", "expected_response ·")
        terminal.after("A2\x1b", "r.run")
        # Enter out of habit, although the box is open already.
        terminal.after("n", "new item, 3 of 3")
        terminal.after("\rQ3\tA3\x1b", "r.run")
        terminal.after("\x13", "saved data.json")
        terminal.after("n", "new item, 4 of 4")
        terminal.after("\x1b", "must not be empty")
        terminal.press("\x11")
        assert terminal.end() == 0
    assert json.loads(file.read_text())["items"] == [
        {"prompt": f"Q{number}", "expected_response": f"A{number}"} for number in (1, 2, 3)
    ]
