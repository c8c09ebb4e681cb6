"""The hand-off to $EDITOR: what comes back, what is kept when it goes wrong, and what is never left behind."""

import os
import shlex
import signal
import stat
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path

import pytest
from textual.app import App, SuspendNotSupported

from tests.tui.stored_runs import add_run, fresh
from tests.tui.story import at_the_workbench
from tests.tui.test_editor import Bench, press, until, workspace
from tui_evals.tui import external_programs as external
from tui_evals.tui.external_programs import NotEdited, edit_in_editor, editor_command


class Lending:
    """An app as far as the hand-off needs one."""

    def __init__(self):
        self.lent = 0

    @contextmanager
    def suspend(self):
        self.lent += 1
        yield


@pytest.fixture
def editor(tmp_path, monkeypatch):
    """A way to make the editor a script over the file; its temporary files lie in a folder of their own."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    monkeypatch.delenv("VISUAL", raising=False)

    def choose(code):
        script = tmp_path / "an editor.py"
        script.write_text(f"import sys, os, signal\nfrom pathlib import Path\nfile = Path(sys.argv[-1])\n{code}\n")
        monkeypatch.setenv("EDITOR", f"{shlex.quote(sys.executable)} {shlex.quote(str(script))} --wait")
        return folder

    return choose


async def test_what_the_editor_wrote_comes_back_and_nothing_is_left(editor):
    folder = editor("file.write_bytes(file.read_bytes() + b' more \\xc3\\xa9\\r\\n')")
    app = Lending()
    assert await edit_in_editor(app, "text", ".md") == "text more é\r"
    assert app.lent == 1 and list(folder.iterdir()) == []


@pytest.mark.parametrize("text", ["", "text", "text\n", "a\r\nb\x1b[2J\x9b \ud800 日本語"])
async def test_nothing_changed_is_nothing_and_a_last_newline_of_the_editor_does_not_count(editor, text):
    editor("pass")
    assert await edit_in_editor(Lending(), text, ".md") is None
    editor("data = file.read_bytes(); file.write_bytes(data if data.endswith(b'\\n') else data + b'\\n')")
    assert await edit_in_editor(Lending(), text, ".md") is None


async def test_the_file_is_for_its_owner_only_and_named_for_its_kind(editor, tmp_path):
    told = tmp_path / "told"
    editor(f"Path({str(told)!r}).write_text(f'{{file.stat().st_mode}} {{file.parent.stat().st_mode}} {{file.suffix}}')")
    await edit_in_editor(Lending(), "x", ".json")
    file, folder, suffix = told.read_text().split()
    assert (stat.S_IMODE(int(file)), stat.S_IMODE(int(folder)), suffix) == (0o600, 0o700, ".json")


async def test_an_editor_that_fails_leaves_what_it_wrote_in_a_file_that_is_named(editor):
    folder = editor("file.write_text('half'); sys.exit(3)")
    with pytest.raises(NotEdited, match=r"ended with code 3; what it left is kept in (\S+)") as told:
        await edit_in_editor(Lending(), "x", ".md")
    kept = Path(str(told.value).rpartition(" ")[2])
    assert kept.read_text() == "half" and folder in kept.parents


@pytest.mark.parametrize(
    ("code", "said", "left"),
    [
        ("sys.exit(1)", "ended with code 1; nothing was changed", 0),
        ("os.kill(os.getpid(), signal.SIGKILL)", "ended with code -9; nothing was changed", 0),
        ("file.unlink()", "left no file behind; nothing was changed", 0),
        ("file.write_bytes(b'\\xff\\xfe')", "is not UTF-8 text; it is kept in", 1),
    ],
)
async def test_an_editor_that_gives_no_text_is_told_in_a_sentence(editor, code, said, left):
    folder = editor(code)
    with pytest.raises(NotEdited, match=said):
        await edit_in_editor(Lending(), "x", ".md")
    assert len(list(folder.iterdir())) == left


async def test_an_editor_that_is_not_there_or_cannot_be_read_is_named(editor, monkeypatch):
    folder = editor("pass")
    monkeypatch.setenv("EDITOR", "no-such-editor -w")
    with pytest.raises(NotEdited, match="no-such-editor could not be started: No such file"):
        await edit_in_editor(Lending(), "x", ".md")
    monkeypatch.setenv("VISUAL", "vim 'oops")
    with pytest.raises(NotEdited, match=r"\$VISUAL cannot be read as a command \(No closing quotation\): vim 'oops"):
        await edit_in_editor(Lending(), "x", ".md")
    assert list(folder.iterdir()) == []


def test_visual_comes_before_editor_and_then_what_is_there(monkeypatch):
    assert editor_command({"VISUAL": "code --wait", "EDITOR": "ed"}) == ["code", "--wait"]
    assert editor_command({"VISUAL": " ", "EDITOR": "ed"}) == ["ed"]
    monkeypatch.setattr(external.shutil, "which", lambda name: f"/bin/{name}" if name == "nano" else None)
    assert editor_command({}) == ["/bin/nano"]
    monkeypatch.setattr(external.shutil, "which", lambda name: None)
    with pytest.raises(NotEdited, match=r"set \$EDITOR"):
        editor_command({})


async def test_a_terminal_that_cannot_be_lent_is_told_and_no_file_is_left(editor):
    folder = editor("pass")
    app = App()
    async with app.run_test():
        with pytest.raises(SuspendNotSupported), app.suspend():
            pass
        with pytest.raises(NotEdited, match="cannot be lent"):
            await edit_in_editor(app, "x", ".md")
    assert list(folder.iterdir()) == []


async def test_a_folder_without_room_is_told(editor, monkeypatch):
    editor("pass")
    monkeypatch.setattr(tempfile, "tempdir", "/no/such/folder")
    with pytest.raises(NotEdited, match="no room for a file"):
        await edit_in_editor(Lending(), "x", ".md")


async def test_ctrl_c_in_the_editor_does_not_end_the_workbench(editor):
    editor("os.kill(os.getppid(), signal.SIGINT); file.write_text(str(signal.getsignal(signal.SIGINT)))")
    before = signal.getsignal(signal.SIGINT)
    said = await edit_in_editor(Lending(), "x", ".md")
    assert "default_int_handler" in said, "the editor has its own ctrl-c"
    assert signal.getsignal(signal.SIGINT) is before


async def test_the_terminal_is_taken_back_even_when_the_editor_cannot_be_started(editor, monkeypatch):
    class Fragile(Lending):
        back = False

        @contextmanager
        def suspend(self):
            yield
            self.back = True

    monkeypatch.setenv("EDITOR", "no-such-editor")
    app = Fragile()
    with pytest.raises(NotEdited):
        await edit_in_editor(app, "x", ".md")
    assert app.back


# -- in the pane


@pytest.fixture
async def bench(tmp_path, monkeypatch):
    item = {"prompt": "a\x1b[2Jb", "variables": {"k": 1}}
    app = Bench(workspace(tmp_path, item, where=("items", 0)))
    monkeypatch.setattr(app, "suspend", Lending().suspend)
    async with app.run_test(size=(80, 24)) as pilot:
        app.pane.focus_lines()
        await pilot.pause()
        yield app, pilot


async def test_a_field_with_control_characters_is_edited_outside(bench, editor):
    app, pilot = bench
    editor("file.write_bytes(file.read_bytes().replace(b'b', b'B'))")
    await press(pilot, "e")
    await until(pilot, lambda: app.changes)
    assert app.made.items[0]["prompt"] == "a\x1b[2JB" and "prompt taken from the editor" in app.heard
    assert app.made.editing.undo() == "edit prompt"


async def test_json_that_cannot_be_read_is_kept_and_the_item_stays(bench, editor):
    app, pilot = bench
    folder = editor("file.write_text('{\"k\": 2')")
    app.at("variables")
    await press(pilot, "e")
    await until(pilot, lambda: app.heard)
    assert "variables was left as it was: not yet JSON" in app.heard[0]
    (kept,) = folder.glob("*/field.json")
    assert str(kept) in app.heard[0] and kept.read_text() == '{"k": 2'
    assert app.made.items[0]["variables"] == {"k": 1} and not app.changes


async def test_a_field_left_as_it_was_is_no_step(bench, editor):
    app, pilot = bench
    editor("pass")
    await press(pilot, "e")
    await until(pilot, lambda: app.heard)
    assert app.heard == ["prompt is as it was"] and not app.made.editing.dirty


@pytest.mark.skipif(not os.path.exists("/usr/bin/script"), reason="needs a pseudo terminal")
def test_a_real_terminal_is_lent_and_taken_back(editor, tmp_path):
    editor("print('EDITOR SAYS', os.isatty(0), os.isatty(1)); file.write_text('new')")
    code = (
        "from textual.app import App\n"
        "from tui_evals.tui.external_programs import edit_in_editor\n"
        "class Lender(App):\n"
        "    async def on_mount(self):\n"
        "        self.set_timer(0.1, self.lend)\n"
        "    async def lend(self):\n"
        "        self.exit(await edit_in_editor(self, 'old', '.md'))\n"
        "print('RESULT', Lender().run())\n"
    )
    program = tmp_path / "lender.py"
    program.write_text(code)
    root = Path(__file__).parent.parent.parent
    done = subprocess.run(
        ["script", "-qec", f"{shlex.quote(sys.executable)} {shlex.quote(str(program))}", "/dev/null"],
        env={**os.environ, "PYTHONPATH": str(root), "TERM": "xterm"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert "EDITOR SAYS True True" in done.stdout and "RESULT new" in done.stdout


@pytest.mark.nightly
@pytest.mark.skipif(sys.platform != "linux", reason="other desktops have an opener of their own")
async def test_a_report_is_written_by_a_key_and_a_page_opens_in_the_browser_of_the_desktop(tmp_path, monkeypatch):
    opener = tmp_path / "bin" / "xdg-open"
    opener.parent.mkdir()
    opener.write_text(f'#!/bin/sh\necho "$1" >> {shlex.quote(str(tmp_path / "opened"))}\n')
    opener.chmod(0o755)
    monkeypatch.setenv("PATH", f"{opener.parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("DISPLAY", ":0")
    monkeypatch.delenv("SSH_CONNECTION", raising=False)
    path = fresh(tmp_path)
    runs = [await add_run(path, [(verdict, "an answer")] * 3, name=verdict) for verdict in ("pass", "fail")]
    async with at_the_workbench(tmp_path, run=runs[1].key, size=(120, 40)) as person:
        await person.press("6")
        await person.sees("fail")
        await person.press("X")
        await person.sees("a page to read and to send")
        await person.type("html")
        await person.press("enter")
        await person.sees("it opens in the browser")
        file = tmp_path / ".evals" / "results" / f"{runs[1].key}.html"
        assert "an answer" in file.read_text()
        await person.until(lambda: (tmp_path / "opened").exists() and (tmp_path / "opened").read_text() == f"{file}\n")
        await person.press("space", "space", "X")
        await person.sees("report of the 2 marked runs")
        await person.type("jsonl")
        await person.press("enter")
        await person.sees("wrote")
        await person.until(lambda: list((tmp_path / ".evals" / "results").glob("*-*.jsonl")))
        monkeypatch.setenv("SSH_CONNECTION", "1 2 3 4")
        assert not external.open_in_browser(file)
