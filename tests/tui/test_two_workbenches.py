"""One store, two workbenches, a command line that runs, and a line that drops: each sees the same."""

import re

import pytest

from tests.tui.terminal import workbench

SIZE = (120, 40)


def sees(terminal, keys, *patterns):
    """Press keys; all of this stands on the screen then."""
    terminal.press(keys)
    terminal.until(lambda: all(re.search(pattern, " ".join(terminal.rows.screen.split())) for pattern in patterns))


@pytest.mark.story
def test_two_workbenches_and_a_command_see_the_same_numbers_and_a_dropped_line_loses_no_filter(project):
    """The line of one drops while a run goes on that the other one and a command follow to its end."""
    project.dataset(40, lambda number: f"question {number}" if number % 4 else "of another kind")
    project.do("run", "data.json", "--quiet", "--name", "earlier", code=None)
    project.server.behave(latency=1.0)
    project.configure('[run]\ntargets = ["main"]', concurrency=2)
    running = project.start("run", "data.json", "--quiet", "--no-cache", "--name", "nightly")
    with workbench(project.folder, size=SIZE) as first, workbench(project.folder, size=SIZE) as second:
        for terminal in (first, second):
            terminal.wait("all keys")
            sees(terminal, "6", "nightly ▸ running", "earlier ■ finished 75 %")
        sees(second, "G\r", "4 Results · earlier")
        sees(second, "/!fail\t", "30 of 40 · !fail", "S sort")
        sees(second, "6", "# tags")
        sees(second, "g\r", "4 Results · nightly", r"▸ running \d+/40")
        sees(first, "g\r", "4 Results · nightly", r"▸ running \d+/40")
        sees(first, "/fail\t", r"\d+ of 40 · fail", "S sort")
        sees(second, "p", r"paused \d+/40")
        sees(first, "", r"paused \d+/40")
        sees(first, "p", r"▸ running \d+/40")
        first.hang_up()
        project.server.behave(latency=0)
        running.communicate(timeout=60)
        assert running.returncode == 0
        sees(second, "", "■ finished 40/40", "✓ 30 pass ✗ 10 fail")
        second.press("q")
        assert second.end() == 0
    with workbench(project.folder, size=SIZE) as again:
        again.wait("all keys")
        sees(again, "4", "nightly · 10 of 40 · fail", "■ finished 40/40", "✓ 30 pass ✗ 10 fail")
        sees(again, "6", "# tags")
        sees(again, "G\r", "earlier · 30 of 40 · !fail")
        again.press("q")
        assert again.end() == 0
    assert "30 of 40 pass" in project.do("show", "last", code=None)
