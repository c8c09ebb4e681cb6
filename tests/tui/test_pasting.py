"""A paste holds nothing a terminal would obey, wherever it lands, and what was changed in it is said."""

import json

import pytest

from tests.tui.hostile import FORBIDDEN
from tests.tui.terminal import pasted, workbench
from tui_evals.text.safe import spelled, unspelled
from tui_evals.tui.widgets.inputs import fit_paste


@pytest.mark.story
def test_a_paste_is_made_safe_in_lines_and_boxes_and_what_was_changed_is_said(tmp_path):
    file = tmp_path / "data.json"
    file.write_text(json.dumps({"items": [{"prompt": "one"}, {"prompt": "two"}]}))
    with workbench(tmp_path, "data.json", size=(120, 40)) as terminal:
        terminal.wait("all keys")
        terminal.after("jC", "category of 1 item")
        since = len(terminal.raw)
        hostile = "tone\x1b]52;c;aGlqYWNr\x07\x1b[31mred\rand\u200bmore"
        terminal.after(pasted(hostile), "pasted without 2 escape sequences, with 1 character spelt out")
        assert "in $EDITOR" not in terminal.shown_since(since)  # a line has no such key
        terminal.after("\r", "category tonered and<U.200B>more")
        assert not [payload for payload in FORBIDDEN if payload in terminal.raw[since:]]
        terminal.after("2", "item 1 of 2")
        terminal.after("\r", "esc done")
        terminal.after(pasted(" zero\u200bwidth\x07"), r"pasted with 2 hidden characters kept and shown as ⟦U.200B⟧")
        terminal.after("\x13", "saved data")
        item = json.loads(file.read_text())["items"][0]
        assert item == {"prompt": "one zero\u200bwidth\x07", "category": "tonered and<U+200B>more"}
        terminal.press("q")
        assert terminal.end() == 0


def test_hidden_characters_are_spelled_and_read_back_unchanged():
    for text, shown in (
        ("a\u200bb\x07", "a⟦U+200B⟧b⟦U+0007⟧"),
        ("⟦U+200B⟧ ⟦x⟧", "⟦U+27E6⟧U+200B⟧ ⟦x⟧"),
        ("\r\n\u202e\ud800", "⟦U+000D⟧\n⟦U+202E⟧⟦U+D800⟧"),
        ("日本語 👩‍👩‍👧", "日本語 👩‍👩‍👧"),
        ("⟦U+27E6⟧U+200B⟧", "⟦U+27E6⟧U+27E6⟧U+200B⟧"),
    ):
        assert spelled(text) == shown and unspelled(shown) == text, text
    assert unspelled("⟦U+FFFFFF⟧") == "⟦U+FFFFFF⟧"


def test_a_paste_that_needs_no_change_is_taken_as_it_is():
    assert fit_paste("日本語 👩‍👩‍👧\ttab\r\nnext\rlast") == ("日本語 👩‍👩‍👧\ttab\nnext\nlast", "")
    assert fit_paste("two\nlines ", one_line=True) == ("two lines", "")
