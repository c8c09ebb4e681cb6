"""The bytes that set a clipboard, through multiplexers, and the file where they would be too many."""

import json
import os
import re
import stat
from base64 import b64decode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.tui.terminal import workbench
from tui_evals.tui.terminal import LONGEST, base64_text, copy_to_clipboard, osc52_sequence

_PLAIN = re.compile(rb"\x1b\]52;c;([A-Za-z0-9+/=]*)\x07")


@given(st.text())
def test_what_is_encoded_comes_back(text):
    clean = text.encode("utf-8", "replace").decode()
    assert b64decode(base64_text(text)).decode() == clean


def test_without_a_multiplexer_the_sequence_stands_alone():
    assert osc52_sequence(b"aGk=", {}) == b"\x1b]52;c;aGk=\x07"


def test_tmux_gets_the_plain_form_and_the_one_it_passes_on():
    found = osc52_sequence(b"aGk=", {"TMUX": "/tmp/tmux-1/default,1,0"})
    assert found == b"\x1b]52;c;aGk=\x07\x1bPtmux;\x1b\x1b]52;c;aGk=\x07\x1b\\"


def test_screen_gets_pieces_that_are_short_enough_and_say_the_same_joined():
    payload = base64_text("x" * 3_000)
    found = osc52_sequence(payload, {"STY": "1.pts-0.host"})
    pieces = re.findall(rb"\x1bP(.*?)\x1b\\", found, re.DOTALL)
    assert b"".join(b"\x1bP" + piece + b"\x1b\\" for piece in pieces) == found
    assert max(map(len, pieces)) <= 256
    assert len(pieces) > 1
    assert _PLAIN.fullmatch(b"".join(pieces))[1] == payload


@pytest.fixture
def terminal(tmp_path):
    """What stands for the terminal, and a way to read what was written to it."""
    file = tmp_path / "tty"
    file.touch()
    return file


def test_a_copy_says_what_and_how_much(tmp_path, terminal):
    said = copy_to_clipboard("é" * 1_204, "answer", tmp_path, {}, terminal=str(terminal))
    assert said == "answer copied, 1,204 characters"
    assert b64decode(_PLAIN.fullmatch(terminal.read_bytes())[1]).decode() == "é" * 1_204
    assert not (tmp_path / ".evals").exists()


def test_nothing_that_acts_on_a_terminal_can_be_pasted(tmp_path, terminal):
    said = copy_to_clipboard("ls\x1b[201~\nrm -rf\x07 \u202e", "answer", tmp_path, {}, terminal=str(terminal))
    pasted = b64decode(_PLAIN.fullmatch(terminal.read_bytes())[1]).decode()
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e]", pasted)
    assert "rm -rf" in pasted
    assert "spelt out" in said


def test_the_longest_that_fits_is_copied_and_one_more_is_saved(tmp_path, terminal):
    most = LONGEST // 4 * 3
    assert "copied" in copy_to_clipboard("x" * most, "answer", tmp_path, {}, terminal=str(terminal))
    said = copy_to_clipboard("x" * (most + 1), "answer", tmp_path, {}, terminal=str(terminal))
    (file,) = (tmp_path / ".evals" / "copies").iterdir()
    assert str(file) in said
    assert "too long" in said
    assert len(file.read_text()) == most + 1


def test_a_saved_copy_is_as_it_was_and_its_owners_alone(tmp_path):
    text = "a\r\nb\x1b[2J" + "日" * 100_000
    copy_to_clipboard(text, "the answer/../x", tmp_path, {}, terminal=str(tmp_path / "none"))
    (file,) = (tmp_path / ".evals" / "copies").iterdir()
    assert file.read_bytes().decode() == text
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700


def test_without_a_terminal_it_is_saved(tmp_path):
    said = copy_to_clipboard("short", "prompt", tmp_path, {}, terminal=str(tmp_path / "none"))
    assert said.startswith("there is no terminal that takes the prompt: saved to ")


def test_where_nothing_can_be_saved_it_says_so(tmp_path):
    (tmp_path / ".evals").write_text("a file")
    said = copy_to_clipboard("short", "prompt", tmp_path, {}, terminal=str(tmp_path / "none"))
    assert "could not be saved" in said


def test_halves_of_characters_do_no_harm(tmp_path, terminal):
    assert "copied" in copy_to_clipboard("a\ud800b", "answer", tmp_path, {}, terminal=str(terminal))
    assert "saved" in copy_to_clipboard("\ud800" * LONGEST, "answer", tmp_path, {}, terminal=str(terminal))


def test_a_write_that_takes_only_some_of_it_is_continued(tmp_path, terminal, monkeypatch):
    whole = os.write
    monkeypatch.setattr(os, "write", lambda descriptor, data: whole(descriptor, data[:7]))
    copy_to_clipboard("a longer text", "answer", tmp_path, {}, terminal=str(terminal))
    assert _PLAIN.fullmatch(terminal.read_bytes())


@pytest.mark.story
def test_a_field_an_item_and_marked_items_are_copied_from_the_panes_they_are_written_in(tmp_path):
    items = [{"testId": "a", "prompt": "one", "variables": {"city": "Oslo"}}, {"prompt": "two"}]
    (tmp_path / "data.json").write_text(json.dumps({"items": items}))
    with workbench(tmp_path, "data.json") as terminal:

        def copied(keys):
            since = len(terminal.raw)
            terminal.after(keys, "enter copies")
            terminal.press("\r")
            terminal.until(lambda: _PLAIN.search(terminal.raw, since))
            return b64decode(_PLAIN.search(terminal.raw, since)[1]).decode()

        terminal.wait("all keys")
        terminal.press("j")
        assert copied("y") == "one"
        assert copied("2jyas JSON") == json.dumps(items[0], indent=2)
        terminal.after("g/var\r", "esc ends it")
        assert json.loads(copied("y")) == {"city": "Oslo"}
        terminal.after("\x1b\r", "1 value")
        assert copied("y") == "Oslo"
        terminal.press("\x1b1A")
        assert json.loads(copied("y")) == items
        terminal.press("q")
        assert terminal.end() == 0
