"""A run on a real terminal: live lines that redraw themselves, and two ways of Ctrl-C."""

import os
import re
import select
import sys
import time

import pytest

from tests import warm
from tests.runs.conftest import Project


class Terminal:
    """A command on a terminal of 80 columns, with what it has shown so far."""

    def __init__(self, project: Project, *arguments: str) -> None:
        command = [sys.executable, "-m", "tui_evals", *arguments]
        environment = {**os.environ, "COLUMNS": "80", "LINES": "24"}
        self.pid, self.master, self._end = warm.at_terminal(command, project.folder, environment, (80, 24))
        self.shown = ""

    def read(self, until: str | None, seconds: float = 60.0) -> None:
        """Read until a pattern shows, or to the end."""
        deadline = time.monotonic() + seconds
        while until is None or not re.search(until, self.shown):
            assert time.monotonic() < deadline, self.shown
            if select.select([self.master], [], [], 0.1)[0]:
                try:
                    chunk = os.read(self.master, 65536)
                except OSError:
                    return
                if not chunk:
                    return
                self.shown += chunk.decode()

    def code(self) -> int:
        self.read(None)
        return self._end()


def test_the_live_line_is_redrawn_in_place_and_the_end_is_told(project):
    project.server.behave(latency=0.3)
    project.configure(concurrency=5)
    project.dataset(20)
    terminal = Terminal(project, "run", "data.json", "--target", "main")
    assert terminal.code() == 0
    assert "\x1b[1F\x1b[J" in terminal.shown
    assert "main: 20/20" in terminal.shown and "20 of 20 pass" in terminal.shown
    plain = re.sub(r"\x1b\[[0-9;]*[mFJ]", "", terminal.shown)
    assert "\x1b" not in plain
    assert max(map(len, plain.splitlines())) <= 90


@pytest.mark.story
@pytest.mark.cases(1)
@pytest.mark.parametrize(
    ("presses", "cluster"), [(1, ()), (2, ()), pytest.param(1, ("--cluster", "local:2"), marks=pytest.mark.nightly)]
)
def test_ctrl_c_ends_the_run_so_that_it_can_go_on(project, presses, cluster):
    if cluster:
        pytest.importorskip("distributed", reason="the cluster extra is not installed")
    project.server.behave(latency=0.2)
    project.configure(concurrency=5)
    project.dataset(60)
    terminal = Terminal(project, "run", "data.json", "--target", "main", *cluster)
    terminal.read("main: [1-9]")
    for _ in range(presses):
        os.write(terminal.master, b"\x03")
        terminal.read("Ctrl-C again stops now")
    assert terminal.code() == 130
    assert "tui-evals resume" in terminal.shown and "Traceback" not in terminal.shown
    with project.reader() as reader:
        run = reader.find_run("last")
        assert run.status == "interrupted" and 0 < reader.totals(run.id).pending < 60
    project.do("resume", "last", "--quiet")
    assert [row[2] for row in project.table()] == ["pass"] * 60
    assert project.server.counts()["asked"] <= 60 + (5 if presses == 2 else 0)
