"""What a slow line brings in pieces is what it is whole: nothing of it runs as keys."""

import json
import time

import pytest

from tests.tui.terminal import Terminal, workbench

GAP = 0.15
"""Seconds between two pieces; however much longer they take, nothing else may come of them."""


def slowly(terminal: Terminal, *pieces: str) -> None:
    for piece in pieces:
        terminal.press(piece)
        began = time.monotonic()
        while time.monotonic() - began < GAP:
            terminal.read()


@pytest.mark.nightly
def test_sequences_pastes_reports_and_answers_in_pieces(tmp_path):
    file = tmp_path / "data.json"
    before = [{"prompt": f"question {number}"} for number in range(9)]
    file.write_text(json.dumps({"items": before}))
    with workbench(tmp_path, "data.json") as terminal:
        terminal.wait("all keys")
        slowly(terminal, "\x1b[", "D", "\x1b", "[", "B", "\x1b[", "B", "\x1bO", "B", "\x1b[1;", "5D", "\x1b", "[A")
        slowly(terminal, "\x1b[<35;2", "0;10M", "\x1b[", "<35;20;11M", "\x1b]11;rgb:1e1e/", "1e1e/1e1e\x1b", "\\")
        slowly(terminal, "\x1b[?6", "2;22c", "\x1b[12;", "40R", "\x1b", "[I")
        slowly(terminal, "\x1b[20", "0~q D", "A \x1b", "[A 7\r\x1b[2", "01~")
        terminal.after("2", "question 1")
        began = len(terminal.raw)
        terminal.press("\x1a")  # there is no shell to go back to, so it goes on at once
        while b"\x1b[?25l" not in terminal.raw[began:]:  # written once every key is taken as it is
            assert terminal.read(), "it ended"
        terminal.press("\r, seen ")
        slowly(terminal, "\x1b[200~pas", "ted é\x1b", "[201", "~")
        terminal.after("!", "question 1, seen pasted é!")
        terminal.after("\x1b\x13", "saved")
        terminal.press("q")
        assert terminal.end() == 0
    before[1]["prompt"] += ", seen pasted é!"
    assert json.loads(file.read_text())["items"] == before
