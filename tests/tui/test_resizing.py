"""The layout was one resize behind, and the row the cursor stood on went out of sight in fewer lines.

What a terminal shows after any way through other sizes is what a workbench shows that was started at the size.
"""

import asyncio
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import time

import pytest

from tests.tui.stored_runs import add_run, fresh

pytestmark = [
    pytest.mark.nightly,
    pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed"),
]

SMALL, MIDDLE, LARGE = (80, 24), (120, 40), (160, 45)


class Windows:
    """Workbenches in windows of tmux, each of a size of its own."""

    def __init__(self, folder):
        self.folder = folder
        kept = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES", "TMUX")}
        self.environment = kept | {"TEXTUAL_ANIMATIONS": "none"}
        # A server that leaves with its last session may be met by the next one on its way out.
        (folder / "tmux.conf").write_text("set -g exit-empty off\n")

    def tmux(self, *words):
        command = ["tmux", "-S", str(self.folder / "tmux"), "-f", str(self.folder / "tmux.conf"), *words]
        done = subprocess.run(command, cwd=self.folder, env=self.environment, capture_output=True, text=True)
        assert done.returncode == 0, (words, done.stderr)
        return done.stdout

    def start(self, name, size):
        program = shlex.join([sys.executable, "-P", "-m", "tui_evals", "data.json"])
        self.tmux("new-session", "-d", "-s", name, "-x", str(size[0]), "-y", str(size[1]), program)
        return self.until(name, lambda screen: "all keys" in screen and "being found" not in screen)

    def size(self, name, *sizes):
        for columns, lines in sizes:
            self.tmux("resize-window", "-t", name, "-x", str(columns), "-y", str(lines))

    def press(self, name, *keys):
        self.tmux("send-keys", "-t", name, *keys)

    def screen(self, name):
        return self.tmux("capture-pane", "-p", "-t", name)

    def until(self, name, condition):
        """The screen, once it is as it should be; a minute later what it is instead is the failure."""
        deadline = time.monotonic() + 60
        while not condition(screen := self.screen(name)):
            assert time.monotonic() < deadline, f"{name} shows:\n{screen}"
            time.sleep(0.05)
        return screen

    def has_shape(self, name, wanted):
        """Wait until what is drawn around the texts of a window is what it is on another screen."""
        shape, deadline = frames(wanted), time.monotonic() + 60
        while frames(screen := self.screen(name)) != shape:
            assert time.monotonic() < deadline, f"{name} shows:\n{screen}\ninstead of:\n{wanted}"
            time.sleep(0.05)


def frames(screen):
    return [re.sub("[^─│╭╮╰╯]", " ", line).rstrip() for line in screen.splitlines()]


@pytest.fixture
def windows(tmp_path):
    items = [{"testId": f"T-{number}", "prompt": f"question {number}"} for number in range(15)]
    (tmp_path / "data.json").write_text(json.dumps({"schemaVersion": "1.11.0", "items": items}))
    made = Windows(tmp_path)
    yield made
    made.tmux("kill-server")


@pytest.mark.nightly
def test_every_way_through_other_sizes_ends_as_a_start_at_the_size(windows):
    wanted = {}
    for size in (SMALL, MIDDLE, LARGE):
        wanted[size] = windows.start("fresh", size)
        if size != LARGE:
            windows.tmux("kill-session", "-t", "fresh")
    assert [screen.splitlines()[0].count("╭─") for screen in wanted.values()] == [1, 2, 3]

    # Resized at once, one size after the other, and there and back.
    for ways in ((SMALL,), (LARGE, SMALL), (LARGE,), (SMALL, LARGE), (MIDDLE, SMALL, LARGE, MIDDLE)):
        windows.size("fresh", *ways)
        windows.has_shape("fresh", wanted[ways[-1]])

    # While a dialog lies over it, and as it closes.
    windows.size("fresh", LARGE)
    for key, title in (("?", "help"), ("r", "run")):
        for size in (SMALL, LARGE):
            windows.press("fresh", key)
            windows.until("fresh", lambda screen, title=title: f"─ {title}" in screen)
            windows.size("fresh", size)
            windows.press("fresh", "Escape")
            windows.has_shape("fresh", wanted[size])


def test_a_dialog_below_a_dialog_and_the_row_of_the_cursor(windows):
    windows.start("form", SMALL)
    windows.press("form", "r")
    for size in (LARGE, SMALL, LARGE):
        windows.until("form", lambda screen: "▸ start" in screen or "ask again" in screen)
        windows.press("form", "Enter")
        windows.until("form", lambda screen: "type to search" in screen)
        windows.size("form", size)
        windows.press("form", "Escape")
        windows.until("form", lambda screen: "type to search" not in screen and "╭─ run all" in screen)
        windows.until("form", lambda screen, all_of_it=size == SMALL: ("\n╭─ run all" in screen) is all_of_it)
    windows.press("form", "Escape")
    windows.until("form", lambda screen: "╭─ run all" not in screen)
    windows.press("form", "G")
    windows.size("form", (80, 40))
    windows.until("form", lambda screen: screen.count("╭─") == 1 and "T-0" in screen and "T-14" in screen)
    windows.size("form", (80, 12))
    windows.until("form", lambda screen: len(screen.splitlines()) == 12 and "T-14" in screen)


@pytest.mark.nightly
def test_a_screen_of_its_own_below_a_dialog(windows):
    path = fresh(windows.folder)
    for number, answer in enumerate((("pass", "Seven days."), ("fail", "I am not sure."))):
        asyncio.run(add_run(path, [answer], name=f"try {number}", expected="Seven days."))
    windows.start("runs", SMALL)
    windows.press("runs", "6")
    windows.until("runs", lambda screen: "try 1" in screen)
    windows.press("runs", "=")
    windows.until("runs", lambda screen: "\n✗ broken  t-0" in screen)
    for size, where in ((MIDDLE, "│✗ broken  t-0"), (SMALL, "\n✗ broken  t-0")):
        windows.press("runs", "?")
        windows.until("runs", lambda screen: "─ help" in screen)
        windows.size("runs", size)
        windows.press("runs", "Escape")
        windows.until("runs", lambda screen, where=where: where in screen and "─ help" not in screen)
