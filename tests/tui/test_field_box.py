"""The box of a field: its help is searched and pressed as that of a pane, and what was typed is taken back in it."""

import json
import re
import shutil
from pathlib import Path

import pytest

from tests.tui.terminal import pasted, workbench


@pytest.mark.story
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


def test_a_sentence_that_is_longer_than_the_line_is_read_to_its_end(tmp_path):
    (tmp_path / "data.json").write_text(json.dumps({"items": [{"prompt": "one"}]}))
    editor = tmp_path / "an-editor-with-a-long-name.sh"
    editor.write_text('#!/bin/sh\necho "half written" > "$1"\nexit 3\n')
    editor.chmod(0o700)
    with workbench(tmp_path, "data.json", EDITOR=str(editor)) as terminal:
        terminal.wait("all keys")
        terminal.after("j2", "2 Item")
        terminal.after("e", r"ended with code 3;[\s\S]*/field.md")
        (kept,) = re.findall(r"\S+/field\.md", terminal.rows.screen)
        assert Path(kept).read_text() == "half written\n"
        shutil.rmtree(Path(kept).parent)
        terminal.after("d", "copied item #1")
        terminal.press("u")
        terminal.press("q")
        assert terminal.end() == 0
