"""A field that cannot be read: the whole sentence at 80 columns, and a question before anything is let go."""

import json

import pytest

from tests.tui.terminal import workbench


@pytest.mark.story
def test_esc_tab_and_save_ask_what_is_to_become_of_a_text_that_cannot_be_read(tmp_path):
    file = tmp_path / "data.json"
    items = [{"prompt": "Q1", "variables": {"city": "Oslo"}}]
    file.write_text(json.dumps({"schemaVersion": "1.11.0", "items": items}))
    with workbench(tmp_path, "data.json") as terminal:
        terminal.wait("all keys")
        terminal.after("j2", "2 Item")
        terminal.after("jjv", "esc done")
        terminal.after('\x1b[18~{"city": "Oslo", "when": "yester', "yester")
        for key in ("\x1b", "\t", "\x13"):
            terminal.after(key, "variables cannot be taken as it is")
            terminal.after("\r", "ctrl.l zoom")
        terminal.calm()
        shown = " ".join(terminal.shown.replace("│", " ").split())
        assert "not yet JSON: the text that starts here is never closed (line 1, column 26)" in shown
        terminal.after("\x1b", "keep editing")
        terminal.after("file\r", r"kept in \.evals/kept/variables-1\.json")
        kept = tmp_path / ".evals" / "kept" / "variables-1.json"
        assert kept.read_text() == '{"city": "Oslo", "when": "yester'
        assert kept.stat().st_mode & 0o777 == 0o600 and kept.parent.stat().st_mode & 0o777 == 0o700
        terminal.after("v", "esc done")
        terminal.after("!\x1b", "drop it")
        terminal.after("drop\r", "variables was left as it was")
        terminal.after("v", "esc done")
        terminal.after("!\x11", "would only be in a file")
        terminal.press("y")
        terminal.wait(r"kept in \.evals/kept/variables-2\.json")
        assert terminal.end() == 0
    assert json.loads(file.read_text())["items"] == items
