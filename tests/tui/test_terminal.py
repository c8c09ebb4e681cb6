"""The workbench on a real terminal: what may reach it, and that it is given back as it was."""

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import termios
import time
import tty
from pathlib import Path

import pytest

from tests.runs.conftest import until
from tests.tui.hostile import FORBIDDEN, LITERAL, hostile_project
from tests.tui.terminal import OURS, Terminal, workbench
from tui_evals.store.database import open_store
from tui_evals.store.reader import Reader
from tui_evals.tui.terminal import notification_bytes

PANES = {"1": "1 Dataset", "2": "2 Item", "3": "3 Evaluators", "4": "4 Results", "5": "5 Answer", "6": "6 Runs"}


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    """A project in which every text is hostile, and a finished run of it."""
    return hostile_project(tmp_path_factory.mktemp("hostile"))


def harmless(raw: bytes) -> None:
    """Nothing in the bytes comes from the payloads, and what is left of them holds no control character."""
    for payload in FORBIDDEN:
        assert payload not in raw, payload
    rest = OURS.sub("", raw.decode("utf-8", "replace"))
    assert not re.findall(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", rest.replace("\r", ""))


@pytest.mark.story
@pytest.mark.cases(2)
@pytest.mark.parametrize("key", PANES)
def test_no_hostile_byte_reaches_the_terminal_from_a_pane(hostile, key):
    with workbench(hostile, size=(100, 30)) as terminal:
        terminal.wait("all keys")
        terminal.after(key, PANES[key])
        terminal.calm()
        if key == "5":
            terminal.after(".", "section 1 of")
            terminal.after("c", "change")
        for more in ("z", "j", "j", "G", "g", "\r", "?", "\x1b", "\x1b"):
            terminal.press(more)
            terminal.calm(0.2)
        terminal.press("\x11")
        assert terminal.end() == 0
        harmless(terminal.raw)


@pytest.mark.nightly
def test_markup_stands_literally_and_no_action_fires(hostile):
    with workbench(hostile, size=(160, 45)) as terminal:
        terminal.wait("all keys")
        for key, title in PANES.items():
            terminal.after(key, title)
            terminal.calm(0.3)
        for text in LITERAL:
            assert text in terminal.shown, text
        terminal.press("\x11")
        assert terminal.end() == 0


@pytest.mark.nightly
def test_hostile_texts_in_dialogs_palette_search_and_toasts(hostile):
    with workbench(hostile, size=(120, 40)) as terminal:
        terminal.wait("all keys")
        for keys in (
            ":",
            "\x1b",
            "o",
            "\x1b",
            "r",
            "\x1b",
            "4",
            "/",
            "[/b]",
            "\r",
            "\x1b",
            "S",
            "\x1b",
            "6",
            "n",
            "\x1b",
            "=",
            "\x1b",
        ):
            terminal.press(keys)
            terminal.calm(0.25)
        terminal.press("\x11")
        assert terminal.end() == 0
        harmless(terminal.raw)


BROKEN = """
import tui_evals.tui.tree.pane as tree
def broken(self):
    secret = "sk-value-of-a-local-variable"
    raise RuntimeError("a defect [/b] \\x1b[2J" + secret[:0])
tree.TreePane.do_group = broken
from tui_evals.__main__ import main
import sys
sys.argv = ["tui-evals"]
main()
"""


def left_as_it_was(terminal: Terminal, before) -> None:
    assert terminal.attributes() == before
    assert terminal.left_on() == set()


@pytest.mark.first
@pytest.mark.parametrize(
    "way", ["quit", *(pytest.param(way, marks=pytest.mark.nightly) for way in ("SIGTERM", "SIGHUP", "exception"))]
)
def test_the_terminal_is_given_back_as_it_was(tmp_path, way):
    (tmp_path / "evals").mkdir()
    (tmp_path / "evals" / "evals.json").write_text(json.dumps({"items": [{"prompt": "one"}]}))
    command = [sys.executable, "-m", "tui_evals"]
    if way == "exception":
        command = [sys.executable, "-c", BROKEN]
    with Terminal(["/bin/sh", "-c", 'exec 3>&1; "$@"; echo "code $?"; sleep 60', "sh", *command], tmp_path) as terminal:
        before = terminal.attributes()
        terminal.wait("all keys")
        assert terminal.attributes() != before
        if way == "quit":
            terminal.press("q")
        elif way == "exception":
            terminal.press("c")
        else:
            kill_children(terminal.pid, getattr(signal, way))
        terminal.wait("code [0-9]+")
        left_as_it_was(terminal, before)
        code = int(re.search("code ([0-9]+)", terminal.shown)[1])
        assert code == (1 if way == "exception" else 0)
        assert "Traceback" not in terminal.shown
        if way == "exception":
            assert "workbench.log" in terminal.shown.replace("\r\n", "")
            log = (tmp_path / ".evals" / "logs" / "workbench.log").read_text()
            assert "a defect" in log and "sk-value-of-a-local" not in log.replace('secret = "sk-value', "")


def test_a_key_that_stops_the_output_does_not_hold_up_the_end(tmp_path):
    """Ctrl-S stops what a terminal writes once it is given back; by then everything is written."""
    with Terminal([sys.executable, "-m", "tui_evals"], tmp_path, size=(200, 60)) as terminal:
        terminal.wait("all keys")
        for columns in (190, 200) * 4:
            terminal.resize(columns, 60)
        terminal.press("q")
        while not terminal.attributes()[tty.LFLAG] & termios.ICANON and terminal.read(0.2):
            pass  # until it is a terminal of lines again, or the process has ended already
        os.write(terminal.master, b"\x13")
        assert terminal.end() == 0
        assert terminal.left_on() == set()


def kill_children(parent: int, number: int) -> None:
    for child in Path(f"/proc/{parent}/task/{parent}/children").read_text().split():
        os.kill(int(child), number)


@pytest.mark.story
def test_a_run_outlives_the_terminal_it_was_started_from(tmp_path):
    """Closing the terminal leaves the run going; opening the workbench again shows it."""
    (tmp_path / ".evals").mkdir()
    (tmp_path / ".evals" / "config.toml").write_text(
        '[run]\ntargets = ["slow"]\n[targets.slow]\nmodel = "command:sh -c \'sleep 0.2; echo yes\'"\nconcurrency = 2\n'
    )
    items = [{"prompt": f"question {number}", "expected_response": "yes"} for number in range(30)]
    data = {"schemaVersion": "1.11.0", "default_evaluators": {"Includes": {}}, "items": items}
    (tmp_path / "data.json").write_text(json.dumps(data))
    with workbench(tmp_path, "data.json") as terminal:
        terminal.wait("all keys")
        terminal.after("r", "30 calls, free")
        terminal.after("\r", "pauses")
        terminal.kill(signal.SIGHUP)
        terminal.end()
    database = tmp_path / ".evals" / "evals.db"
    with Reader(open_store(database)) as reader:
        run = reader.find_run("last")
        assert run.status == "running"
        with workbench(tmp_path) as terminal:
            terminal.wait("4 Results|running")
            terminal.after("4", "data")
        until(lambda: reader.run(run.id).status == "finished")
        assert reader.totals(run.id).passed == 30


@pytest.mark.nightly
@pytest.mark.parametrize("way", ["9", "777"])
def test_a_run_that_ends_rings_and_notifies_once_and_leaves_the_table_as_it_was(tmp_path, way):
    """The answers are a table while they come and afterwards; what failed is shown when it is asked for."""
    (tmp_path / ".evals").mkdir()
    (tmp_path / ".evals" / "config.toml").write_text(
        f'[run]\ntargets = ["slow"]\n[ui]\nnotify = "{way}"\n'
        "[targets.slow]\nmodel = \"command:sh -c 'sleep 0.2; echo no'\"\nconcurrency = 2\n"
    )
    items = [{"prompt": f"question {number}", "expected_response": "yes"} for number in range(20)]
    data = {"schemaVersion": "1.11.0", "default_evaluators": {"Includes": {}}, "items": items}
    (tmp_path / "data.json").write_text(json.dumps(data))
    sent = re.compile(re.escape(notification_bytes("data finished", way).decode()))
    with workbench(tmp_path, "data.json", size=(160, 45)) as terminal:
        terminal.wait("all keys")
        terminal.after("r", "20 calls, free")
        terminal.after("\r", "pauses")
        terminal.press("4gjj")
        terminal.until(lambda: "question 2" in terminal.rows.screen and "✗ fail" in terminal.rows.screen)
        terminal.until(lambda: sent.search(terminal.text))
        terminal.until(lambda: "■ finished 20/20" in terminal.rows.screen)
        terminal.calm()
        assert "what failed ─" not in terminal.rows.screen and "question 2" in terminal.rows.screen
        assert len(sent.findall(terminal.text)) == 1
        assert re.sub(r"\x1b\][^\x07\x1b]*\x07", "", terminal.text).count("\a") == 1
        terminal.press("F")
        terminal.until(lambda: "what failed ─" in terminal.rows.screen)
        terminal.press("q")
        assert terminal.end() == 0


@pytest.mark.nightly
def test_edits_survive_a_kill_and_are_offered_back(tmp_path):
    """A crash in the middle of editing: what was typed comes back, and one key takes it up."""
    data = {"schemaVersion": "1.11.0", "items": [{"prompt": "one"}, {"prompt": "two"}]}
    file = tmp_path / "data.json"
    file.write_text(json.dumps(data))
    with workbench(tmp_path, "data.json") as terminal:
        terminal.wait("all keys")
        terminal.after("j", "one")
        terminal.after("2", "prompt")
        terminal.press("\r")
        terminal.after(" more words", "more words")
        database = tmp_path / ".evals" / "evals.db"
        until(lambda: bool(drafts(database)))
        terminal.kill()
        terminal.end()
    assert json.loads(file.read_text()) == data
    with workbench(tmp_path, "data.json") as terminal:
        terminal.wait("unsaved edits")
        terminal.after("\r", "recovered")
        terminal.after("\x13", "saved")
        terminal.press("q")
        assert terminal.end() == 0
    assert json.loads(file.read_text())["items"][0]["prompt"] == "one more words"
    assert not drafts(database)


def drafts(database):
    with Reader(database) as reader:
        return [draft for draft in reader.drafts() if "more words" in draft.data]


@pytest.mark.nightly
@pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed")
def test_a_terminal_of_another_width_shows_the_panes_that_fit_it(tmp_path):
    """It showed those of the width before: three panes of 26 columns at 80, after 160."""
    (tmp_path / "data.json").write_text(json.dumps({"items": [{"prompt": "one"}]}))

    environment = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES", "TMUX")}

    def tmux(*words):
        command = ["tmux", "-S", str(tmp_path / "tmux"), *words]
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True)
        return done.stdout

    program = shlex.join([sys.executable, "-P", "-m", "tui_evals", "data.json"])
    tmux("-f", "/dev/null", "new-session", "-d", "-s", "one", "-x", "160", "-y", "45", program)
    try:
        for columns, lines, panes in ((160, 45, 3), (80, 24, 1), (120, 40, 2), (160, 45, 3), (80, 24, 1)):
            tmux("resize-window", "-t", "one", "-x", str(columns), "-y", str(lines))
            deadline = time.monotonic() + 60
            while (top := tmux("capture-pane", "-p", "-t", "one").splitlines()[0]).count("╭─") != panes:
                assert time.monotonic() < deadline, (columns, top)
    finally:
        tmux("kill-server")


@pytest.mark.story
@pytest.mark.parametrize(("term", "color"), [("xterm", ""), ("screen", ""), ("xterm-256color", "1")])
def test_it_works_on_older_terminals_and_without_colour(tmp_path, term, color):
    (tmp_path / "data.json").write_text(json.dumps({"items": [{"prompt": "one"}]}))
    with workbench(tmp_path, "data.json", TERM=term, **({"NO_COLOR": color} if color else {})) as terminal:
        terminal.wait("all keys")
        terminal.press("q")
        assert terminal.end() == 0
        assert terminal.left_on() == set()


def test_without_a_terminal_each_door_says_what_to_run_instead(tmp_path):
    import subprocess

    for words, instead in (([], "--help"), (["demo"], "--plain"), (["watch", "last", "--tui"], "watch")):
        command = [sys.executable, "-m", "tui_evals", *words]
        done = subprocess.run(
            command, cwd=tmp_path, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=60
        )
        assert done.returncode == 2 and instead in done.stderr and "Traceback" not in done.stderr, words


@pytest.mark.parametrize(
    ("way", "sent"),
    [("9", b"\x1b]9;tui-evals: a,b finished\x07"), ("777", b"\x1b]777;notify;tui-evals;a,b finished\x07")],
)
def test_the_end_of_a_run_is_one_notification_that_no_name_can_break_out_of(way, sent):
    assert notification_bytes("a;b finished", way) == sent
    assert notification_bytes("a\x07\x1b]52;c;aGk=", way).count(b"\x1b") == 1
