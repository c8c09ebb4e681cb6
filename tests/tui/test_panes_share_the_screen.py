"""Panes share the whole screen at each size."""

import json
import re

import pytest

from tests.tui.terminal import workbench

TITLES = {1: "Dataset", 2: "Item", 3: "Evaluators", 4: "Results", 5: "Answer", 6: "Runs"}


@pytest.fixture
def project(tmp_path):
    items = [{"testId": f"T-{number}", "prompt": f"question {number}"} for number in range(40)]
    (tmp_path / "data.json").write_text(json.dumps({"schemaVersion": "1.11.0", "items": items}))
    return tmp_path


def panes(terminal):
    """The numbers of the panes whose titles stand on the screen."""
    shown = re.findall(r"╭─ (\d) (\w+)", terminal.rows.screen)
    assert all(TITLES[int(number)] == name for number, name in shown), shown
    return sorted(int(number) for number, _ in shown)


def presses(terminal, key, wanted):
    since = len(terminal.raw)
    terminal.press(key)
    terminal.until(lambda: panes(terminal) == wanted)
    terminal.calm(0.2)
    return len(terminal.raw) - since


@pytest.mark.nightly
def test_all_panes_at_160_columns_and_arrangements_on_one_key(project):
    with workbench(project, "data.json", size=(160, 45)) as terminal:
        terminal.wait("all keys")
        terminal.calm()
        assert panes(terminal) == [1, 2, 3, 4, 5, 6]
        for key in "2345612":
            assert presses(terminal, key, [1, 2, 3, 4, 5, 6]) <= 15_000
        terminal.press("1")
        terminal.calm()
        presses(terminal, "Z", [1, 2, 3])
        presses(terminal, "Z", [4, 5, 6])
        presses(terminal, "Z", [4, 5])
        presses(terminal, "1", [1, 2, 3, 4, 5, 6])  # what an arrangement lacks is shown for as long as it is in front
        presses(terminal, "4", [4, 5])
        presses(terminal, "z", [4])
        presses(terminal, "z", [4, 5])
        terminal.press("q")
        assert terminal.end() == 0
    with workbench(project, "data.json", size=(160, 45)) as terminal:
        terminal.wait("all keys")
        presses(terminal, "4", [4, 5])  # the arrangement is kept
        terminal.press("q")
        assert terminal.end() == 0


@pytest.mark.parametrize(
    ("size", "writing", "watching"),
    [
        ((80, 24), [2], [4]),
        ((120, 40), [1, 2, 3], [4, 5, 6]),
        ((220, 60), [1, 2, 3, 4, 5, 6], [1, 2, 3, 4, 5, 6]),
    ],
)
def test_each_size_shows_what_it_has_room_for(project, size, writing, watching):
    with workbench(project, "data.json", size=size) as terminal:
        terminal.wait("all keys")
        presses(terminal, "2", writing)
        presses(terminal, "4", watching)
        terminal.press("q")
        assert terminal.end() == 0
