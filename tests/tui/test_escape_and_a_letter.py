"""Escape and a letter in one packet close box, filter and dialog, and the letter deletes and stops nothing."""

import json

import pytest

from tests.tui.terminal import workbench


@pytest.mark.story
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


@pytest.mark.story
@pytest.mark.parametrize("size", [(80, 24), (160, 45)])
def test_alt_and_a_letter_deletes_nothing_and_ctrl_c_says_what_leaves(tmp_path, size):
    file = tmp_path / "data.json"
    file.write_text(json.dumps({"items": [{"prompt": "one"}, {"prompt": "two"}]}))
    with workbench(tmp_path, "data.json", size=size) as terminal:
        terminal.wait("all keys")
        terminal.press("j")
        terminal.after("\x1bD", r"alt\+D does nothing. Press D alone.")
        terminal.after("\x1bx", r"alt\+x does nothing. Press x alone.")
        terminal.after("\x03", r"ctrl\+c does not leave. esc goes back, ctrl\+q leaves, y copies.")
        terminal.after("?", "help · 1 Dataset")
        terminal.after("\x03", r"ctrl\+c does not leave")
        terminal.after("\x1b", "all keys")
        terminal.after("D", "deleted item")
        terminal.after("u", "all keys")
        terminal.press("q")
        assert terminal.end() == 0
    assert len(json.loads(file.read_text())["items"]) == 2
