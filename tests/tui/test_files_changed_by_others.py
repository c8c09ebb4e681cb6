"""A read-only file is not replaced unasked, and what others write into an open dataset is noticed and kept."""

from __future__ import annotations

import json
import re
import subprocess
import sys

import pytest

from tests.runs.conftest import until
from tests.tui.terminal import Terminal, workbench

ITEMS = [{"testId": "a", "prompt": "one"}, {"testId": "b", "prompt": "two"}, {"testId": "c", "prompt": "three"}]
CHANGE = """
import json, sys
from pathlib import Path
file = Path("support.json")
data = json.loads(file.read_text())
exec(sys.argv[1])
file.write_text(json.dumps(data))
"""


def somebody_else(folder, change):
    """Another process changes the file."""
    subprocess.run([sys.executable, "-c", CHANGE, change], cwd=folder, check=True)


def project(folder):
    file = folder / "support.json"
    file.write_text(json.dumps({"schemaVersion": "1.11.0", "items": ITEMS}, indent=2))
    return file


def prompts(file):
    return [item["prompt"] for item in json.loads(file.read_text())["items"]]


def type_in_prompt(terminal: Terminal, words: str) -> None:
    terminal.after("\r", "esc done")
    terminal.after(words, words)
    terminal.after("\x1b", "u undo")


@pytest.mark.nightly
def test_what_others_write_into_an_open_dataset_is_read_and_merged(tmp_path):
    file = project(tmp_path)
    with workbench(tmp_path, "support.json") as terminal:
        terminal.wait("all keys")
        terminal.press("jj")
        terminal.after("2", "item 2 of 3")
        # Clean: read again, and one stays on the item, which is the third now.
        since = len(terminal.raw)
        somebody_else(tmp_path, "data['items'].insert(0, {'prompt': 'a new first'}); data['items'][2]['notes'] = 'w'")
        terminal.wait("read again", since=since)
        terminal.wait("item 3 of 4", since=since)
        # Dirty: other fields and items of both are kept without a question.
        type_in_prompt(terminal, " of mine")
        since = len(terminal.raw)
        somebody_else(tmp_path, "data['items'][3]['prompt'] = 'theirs'; del data['items'][0]")
        terminal.wait("put together", since=since)
        terminal.after("\x13", "saved")
        assert prompts(file) == ["one", "two of mine", "theirs"]
        # The same field: both stand beside each other, one is chosen, the other one is an undo away.
        type_in_prompt(terminal, " again")
        since = len(terminal.raw)
        somebody_else(tmp_path, "data['items'][1]['prompt'] = 'their two'; data['items'][0]['prompt'] = 'their one'")
        terminal.wait("1 value changed on both sides", since=since)
        terminal.until(lambda: re.search("two of mine again +│ their two", terminal.rows.screen))
        terminal.after("t", "theirs holds")
        terminal.after("\r", "put together")
        terminal.after("u", "undone")
        terminal.after("\x13", "saved")
        assert prompts(file) == ["one", "two of mine again", "theirs"]
        terminal.press("q")
        assert terminal.end() == 0


@pytest.mark.story
def test_a_change_that_was_put_off_is_read_as_soon_as_nothing_is_unsaved(tmp_path):
    project(tmp_path)
    with workbench(tmp_path, "support.json") as terminal:
        terminal.wait("all keys")
        terminal.press("j")
        terminal.after("2", "item 1 of 3")
        type_in_prompt(terminal, " of mine")
        since = len(terminal.raw)
        somebody_else(tmp_path, "data['items'][0]['prompt'] = 'theirs'")
        terminal.wait("1 value changed on both sides", since=since)
        terminal.after("\x1b", "ctrl.s asks again")
        since = len(terminal.raw)
        terminal.press("u")
        terminal.wait("read again", since=since)
        terminal.wait("theirs", since=since)
        terminal.press("q")
        assert terminal.end() == 0


@pytest.mark.story
def test_a_read_only_file_is_asked_about_before_it_is_written(tmp_path):
    file = project(tmp_path)
    file.chmod(0o444)
    before = file.read_text()
    with workbench(tmp_path, "support.json") as terminal:
        terminal.wait("all keys")
        terminal.press("j")
        terminal.after("2", "item 1 of 3")
        type_in_prompt(terminal, " more")
        terminal.after("\x13", r"support.json is read-only; write it anyway\?")
        terminal.after("\r", "as it was")
        assert file.read_text() == before
        terminal.after("\x13", "write it anyway")
        terminal.after("y", "saved")
        until(lambda: prompts(file)[0] == "one more")
        assert file.stat().st_mode & 0o777 == 0o444
        terminal.press("q")
        assert terminal.end() == 0


@pytest.mark.nightly
def test_a_deleted_file_is_noticed_and_written_again_and_one_that_comes_back_is_read(tmp_path):
    file = project(tmp_path)
    before = file.read_text()
    with workbench(tmp_path, "support.json") as terminal:
        terminal.wait("all keys")
        terminal.calm()
        since = len(terminal.raw)
        file.unlink()
        terminal.wait("support.json was deleted", since=since)
        terminal.wait("ctrl.s save", since=since)
        terminal.after("\x13", "saved support.json")
        assert file.read_text() == before
        since = len(terminal.raw)
        file.unlink()
        terminal.wait("support.json was deleted", since=since)
        since = len(terminal.raw)
        file.write_text(before.replace("two", "another"))
        terminal.wait("read again", since=since)
        terminal.wait("another", since=since)
        since = len(terminal.raw)
        file.unlink()
        terminal.wait("support.json was deleted", since=since)
        terminal.press("q")
        assert terminal.end() == 0
        assert "unsaved edits of support.json are kept" in terminal.shown
    with workbench(tmp_path, "support.json") as terminal:
        terminal.wait("unsaved edits were kept · .* · support.json")
        terminal.after("\r", "edits recovered")
        terminal.after("\x13", "saved support.json")
        assert prompts(file) == ["one", "another", "three"]
        terminal.press("q")
        assert terminal.end() == 0
