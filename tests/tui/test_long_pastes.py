"""A paste that is too long for a box is put into a file at once, and the box goes on as before."""

import json

import pytest

from tests.tui.terminal import pasted, workbench


@pytest.mark.story
def test_ten_megabytes_are_kept_in_a_file_and_the_next_key_is_taken(tmp_path):
    file = tmp_path / "data.json"
    file.write_text(json.dumps({"schemaVersion": "1.11.0", "items": [{"prompt": "Q1"}]}))
    text = "What is the answer?\r" * 524_288
    with workbench(tmp_path, "data.json") as terminal:
        terminal.wait("all keys")
        terminal.after("j2", "2 Item")
        terminal.after("\r", "esc done")
        terminal.after(pasted(text), r"too long to paste; it is kept in \.evals/kept/pasted-1\.txt")
        terminal.after("!\x13", "saved data.json")
        terminal.press("q")
        assert terminal.end() == 0
    kept = tmp_path / ".evals" / "kept" / "pasted-1.txt"
    assert kept.read_text() == text.replace("\r", "\n") and kept.stat().st_mode & 0o777 == 0o600
    assert json.loads(file.read_text())["items"] == [{"prompt": "Q1!"}]
