"""Whole items in $EDITOR: one, or the marked ones, as a file; what is wrong is said by line, nothing is lost."""

import json
import os
import shlex
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.tui.story import at_the_workbench
from tests.tui.terminal import workbench
from tui_evals.tui.external_programs import _at_line

FILE = """{
  "schemaVersion": "1.11.0",
  "house": {"kept":   1.50},
  "items": [
    {"testId": "A-1", "prompt": "first", "expected_response": "one", "own": [1.0,  2]},
    {
      "testId": "A-2", "prompt": "second",
      "messages": [{"role": "user", "content": "Hi,\\nthere"}]
    },
    {"testId": "A-3", "turns": [{"prompt": "hello"}, {"prompt": "and now?"}]},
    {"testId": "A-4", "prompt": "fourth\\r\\u202e", "weight": 1}
  ]
}
"""


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A dataset, and an editor that does what is next in a list; what it is shown is kept in the order of its calls."""
    folder = tmp_path / "project"
    (folder / ".evals").mkdir(parents=True)
    (folder / "data.json").write_text(FILE)
    shown = tmp_path / "shown"
    shown.mkdir()
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    monkeypatch.delenv("VISUAL", raising=False)

    def edits(*steps):
        script = tmp_path / "vi"
        script.write_text(
            f"#!{sys.executable}\nimport sys\nfrom pathlib import Path\n"
            f"shown, steps = Path({str(shown)!r}), {list(steps)!r}\n"
            "number, file = len(list(shown.iterdir())), Path(sys.argv[-1])\n"
            "text = file.read_text()\n"
            "(shown / str(number)).write_text(' '.join(sys.argv[1:-1]) + '\\n' + text)\n"
            "for old, new in steps[number]:\n"
            "    assert old in text, (old, text)\n"
            "    text = text.replace(old, new)\n"
            "file.write_text(text)\n"
        )
        script.chmod(0o755)
        monkeypatch.setenv("EDITOR", shlex.quote(str(script)))

    def saw(number):
        arguments, _, text = (shown / str(number)).read_text().partition("\n")
        return arguments, text

    return folder, edits, saw, temporary


@contextmanager
def lent(person, monkeypatch):
    """The terminal is lent to the editor, which a test without one cannot do."""

    @contextmanager
    def suspend():
        yield

    with monkeypatch.context() as patched:
        patched.setattr(person.app, "suspend", suspend)
        yield


async def test_one_item_is_edited_whole_and_no_byte_of_the_others_changes(project, monkeypatch):
    folder, edits, saw, temporary = project
    edits(
        [
            ("second", "second,\n  with: a colon"),
            ("prompt: ", "prompt: |-\n  "),
            ("      there", "      there\n      and here"),
        ],
        [],
    )
    async with at_the_workbench(folder, dataset="data.json", size=(80, 24)) as person:
        with lent(person, monkeypatch):
            await person.press("j", "j", "2", "E")
            await person.until(lambda: "A-2 taken from the editor" in person.said())
            arguments, text = saw(0)
            assert arguments == ""
            assert text.partition("--- ")[2] == (
                "# item 2 of 4 · A-2\ntestId: A-2\nprompt: second\n"
                "messages:\n  - role: user\n    content: |-\n      Hi,\n      there\n"
            )
            assert "with: a colon" in person.screen()
            assert not list(temporary.iterdir())
            await person.press("u")
            assert not person.app.workspace.editing.dirty
            await person.press("U", "ctrl+s")
            await person.until(lambda: "saved" in person.said())
            await person.press("E")
            await person.until(lambda: "A-2 as before" in person.said())
    assert (folder / "data.json").read_text() == FILE.replace('"second"', '"second,\\nwith: a colon"').replace(
        "Hi,\\nthere", "Hi,\\nthere\\nand here"
    )


@pytest.mark.nightly
async def test_three_marked_items_with_a_broken_file_in_between_lose_nothing(project, monkeypatch):
    folder, edits, saw, temporary = project
    edits(
        [("prompt: first", "prompt: 'first, better"), ("and now?", "and then?")],
        [("'first, better", "first, better\nwight: 0.5")],
        [("wight", "weight")],
    )
    async with at_the_workbench(folder, dataset="data.json", size=(80, 24)) as person:
        with lent(person, monkeypatch):
            await person.press("j", "space", "j", "space", "space", "E")
            await person.sees("edit again at line")
            assert "not valid YAML" in person.screen() and "take it as it is" not in person.screen()
            await person.press("enter")
            await person.sees("take it as it is")
            arguments, text = saw(1)
            line = int(arguments.removeprefix("+"))
            assert text.startswith(f"# ✗ line {line}: not valid YAML") and "and then?" in text
            assert "unknown field 'wight' (did you mean 'weight'?)" in person.screen()
            await person.press("enter")
            await person.until(lambda: "3 items taken from the editor" in person.said())
            arguments, text = saw(2)
            assert text.split("\n")[int(arguments.removeprefix("+")) - 1] == "wight: 0.5"
            assert not list(temporary.iterdir())
            assert "A-2" not in text and [line for line in text.split("\n") if line.startswith("---")] == [
                "--- # item 1 of 4 · A-1",
                "--- # item 3 of 4 · A-3",
                "--- # item 4 of 4 · A-4",
            ]
            await person.press("ctrl+s")
            await person.until(lambda: "saved" in person.said())
    after = FILE.replace('"prompt": "first", ', '"prompt": "first, better", "weight": 0.5, ').replace("now?", "then?")
    assert (folder / "data.json").read_text() == after


@pytest.mark.nightly
async def test_a_file_that_is_given_up_is_kept_and_one_that_can_be_read_is_taken_if_wanted(project, monkeypatch):
    folder, edits, saw, _ = project
    edits([("weight: 1", "weight: [")], [], [("weight: 1", "weight: 7")])
    async with at_the_workbench(folder, dataset="data.json", size=(80, 24)) as person:
        with lent(person, monkeypatch):
            await person.press("G", "E")
            await person.sees("edit again at line")
            await person.press("enter")
            await person.until(lambda: len(list(saw.__closure__[0].cell_contents.iterdir())) == 2)
            await person.sees("edit again at line")
            await person.press("down", "enter")
            await person.until(lambda: "A-4 left as before; what you wrote is kept in" in person.said())
            (kept,) = (folder / ".evals" / "kept").glob("*.yaml")
            assert "weight: [" in kept.read_text() and not person.app.workspace.editing.dirty
            await person.press("E")
            await person.sees("must be at most 1, not 7")
            await person.press("down", "enter")
            await person.until(lambda: "A-4 taken from the editor" in person.said())
            assert person.app.workspace.items[3] == {"testId": "A-4", "prompt": "fourth\r\u202e", "weight": 7}


def test_on_a_terminal_the_editor_is_lent_it_and_begins_at_the_line_that_is_wrong(project):
    folder, edits, saw, _ = project
    edits([("weight: 1", "wight: 1")], [("wight: 1", "weight: 0.5")])
    with workbench(folder, "data.json", EDITOR=os.environ["EDITOR"], VISUAL="") as terminal:
        terminal.wait("A-4")
        terminal.press("G")
        terminal.after("E", "edit again at line 7")
        terminal.after("\r", "A-4 taken from the editor")
        terminal.after("\x13", "saved data.json")
        terminal.press("q")
        assert terminal.end() == 0
    arguments, text = saw(1)
    assert arguments == "+7" and text.split("\n")[6] == "wight: 1"
    assert (folder / "data.json").read_text() == FILE.replace('"weight": 1', '"weight": 0.5')


async def test_the_dataset_itself_is_no_item(project):
    folder, *_ = project
    async with at_the_workbench(folder, dataset="data.json", size=(80, 24)) as person:
        await person.press("E")
        assert "go to an item first, or mark some with space" in person.said()
        await person.press("2", "E")
        assert "go to an item first" in person.said()


def test_an_editor_that_is_known_begins_at_the_line():
    file = Path("/tmp/x.yaml")
    assert _at_line("/usr/bin/nvim", file, 7) == ["+7", "/tmp/x.yaml"]
    assert _at_line("code", file, 7) == ["--goto", "/tmp/x.yaml:7"]
    assert _at_line("hx", file, 7) == ["/tmp/x.yaml:7"]
    assert _at_line("python", file, 7) == _at_line("vi", file, 1) == ["/tmp/x.yaml"]


def test_the_dataset_of_these_stories_is_what_it_seems():
    assert [item["testId"] for item in json.loads(FILE)["items"]] == ["A-1", "A-2", "A-3", "A-4"]
