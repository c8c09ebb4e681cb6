"""Escape and a letter in one packet are escape and that letter: box, filter and dialog close, and nothing is typed."""

import json

import pytest

from tests.tui.terminal import workbench


@pytest.mark.soak
def test_escape_and_a_letter_in_one_packet_leave_the_box_the_filter_and_the_dialog(tmp_path):
    file = tmp_path / "data.json"
    file.write_text(json.dumps({"items": [{"prompt": "one"}, {"prompt": "two"}]}))
    with workbench(tmp_path, "data.json") as terminal:
        terminal.wait("all keys")
        terminal.after("j2\r, seen", "one, seen")
        terminal.after("\x1b?", "help · 2 Item")
        terminal.after("\x1b1/two", "two")
        terminal.after("\x1b?", "help · 1 Dataset")
        terminal.after("\x1b:", "type to search")
        terminal.after("\x1b\x13", "saved")
        terminal.press("\x1b")  # alone at the end of what was read
        terminal.press("q")
        assert terminal.end() == 0
    assert [item["prompt"] for item in json.loads(file.read_text())["items"]] == ["one, seen", "two"]
