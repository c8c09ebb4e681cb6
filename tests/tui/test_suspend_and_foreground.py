"""ctrl+z gives the terminal back to the shell, and fg brings back all that was on screen, dialogs included."""

import json
import sys

import pytest

from tests.tui.terminal import Terminal

pytestmark = pytest.mark.story


@pytest.mark.story
def test_ctrl_z_suspends_from_a_list_a_dialog_and_a_field_and_fg_brings_all_back(tmp_path):
    (tmp_path / "data.json").write_text(json.dumps({"items": [{"prompt": "one"}, {"prompt": "two"}]}))
    (tmp_path / "rc").write_text("PS1='ready> '\nset -b\n")
    shell = ["/bin/bash", "--rcfile", str(tmp_path / "rc"), "-i"]
    with Terminal(shell, tmp_path, size=(120, 40)) as terminal:
        terminal.wait("ready> ")
        terminal.after(f"{sys.executable} -m tui_evals data.json\n", "all keys")
        before = terminal.attributes()
        terminal.after("\x1a", "(?s)Stopped.*ready> ")
        assert terminal.left_on() == {"2004"}, "bash has bracketed paste on itself"
        assert terminal.attributes() != before
        terminal.after("fg\n", "(?s)1 Dataset.*all keys")
        terminal.after("?", "help · 1 Dataset")
        terminal.calm()
        terminal.after("\x1a", "(?s)Stopped.*ready> ")
        since = len(terminal.raw)
        terminal.press("bg\n")
        terminal.wait("Stopped", since=since)
        terminal.calm()
        terminal.after("fg\n", "help · 1 Dataset")
        terminal.calm()
        terminal.after("\x1b", "data.json 2 items")
        terminal.after("j2\r typed", "typed")
        terminal.after("\x1a", "(?s)Stopped.*ready> ")
        terminal.after("fg\n", "one typed")
        terminal.after(" on", "one typed on")
        terminal.press("\x1b")
        terminal.after("q", "are kept and will be offered")
        terminal.press("exit\n")
        terminal.end()
