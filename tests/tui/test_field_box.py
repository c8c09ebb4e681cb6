"""The box of a field: its help is searched and pressed as that of a pane, and what was typed is taken back in it."""

import json

from tests.tui.terminal import pasted, workbench


def test_the_help_of_the_box_is_pressed_and_what_was_typed_is_taken_back_and_done_again(tmp_path):
    file = tmp_path / "data.json"
    file.write_text(json.dumps({"items": [{"prompt": "one"}]}))
    with workbench(tmp_path, "data.json") as terminal:
        terminal.wait("all keys")
        terminal.after("j2", "2 Item")
        terminal.after("\r", "esc done")
        terminal.after(pasted(" wrong"), "one wrong")
        terminal.after("\x1f" + pasted(" two"), "one two")  # ctrl+_
        terminal.after(pasted(" three"), "one two three")
        terminal.after("\x1f\x19!", "one two three!")  # ctrl+y does it again
        terminal.after("\x1bOP", "help · The box of a field")
        terminal.after("next field", "enter does it")
        terminal.after("\r", "The reference the answer is compared with")
        terminal.after("1\x13", "saved data.json")
        assert json.loads(file.read_text())["items"] == [{"prompt": "one two three!", "expected_response": "1"}]
        terminal.press("q")
        assert terminal.end() == 0
