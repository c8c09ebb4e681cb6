"""Every key of the workbench in a stranger's project: nothing runs, is sent or is written outside it without a yes.

The keys are those of the table of actions, so that a new one is covered the day it appears.
"""

from __future__ import annotations

import socket
import subprocess

import pytest

from tests.hostile.clone import watched
from tests.hostile.workbench import commit_work, go, not_ours
from tests.tui.story import at_the_workbench
from tui_evals.tui.actions import PLACES, Action, actions_at
from tui_evals.tui.widgets.dialogs import ConfirmPage, Dialog

SIZES = [(80, 24), (120, 40)]
LEAVES = {"quit"}
RULED = "tags/tags.json"


@pytest.fixture
async def opened(clone, monkeypatch):
    """The clone with runs and rules in it, which nobody has agreed to."""
    for name in ("EDITOR", "VISUAL", "PAGER"):
        monkeypatch.setenv(name, "true")
    await commit_work(clone)
    return clone


def keys_of(action: Action) -> list[str]:
    return [key.replace("#", "number_sign") for key in action.keys.split(",")]


@pytest.mark.story
@pytest.mark.cases(1)
@pytest.mark.parametrize("size", [SIZES[0], pytest.param(SIZES[1], marks=pytest.mark.nightly)])
@pytest.mark.parametrize("where", PLACES)
async def test_no_key_does_anything_without_a_yes(where, size, opened, stranger, tmp_path):
    """Each key, and enter in whatever it opens, which takes every form as it stands."""
    asked = 0
    with watched(opened.root, stranger, tmp_path / "scratch") as seen:
        async with at_the_workbench(
            opened.root, size=size, dataset=RULED if where == "rules" else "data.json"
        ) as person:
            for action in actions_at(where):
                for key in [] if action.name in LEAVES else keys_of(action):
                    await go(person, where)
                    if where == "playground":
                        await person.type("hi")
                    await person.press(key)
                    for _ in range(3):
                        await person.until(lambda: not waits(person), 10)
                        asked += isinstance(person.app.screen, ConfirmPage)
                        if not isinstance(person.app.screen, Dialog):
                            break
                        await person.press("enter")
    assert opened.marks == []
    assert opened.attacker.heard == []
    assert not_ours(seen) == []
    assert asked or where not in ("everywhere", "playground", "rules"), "the keys that run something were never reached"


@pytest.mark.story
def test_the_witness_sees_what_is_written_started_and_looked_up(tmp_path):
    with watched(tmp_path / "allowed") as seen:
        (tmp_path / "allowed").write_text("")
        (tmp_path / "other").write_text("")
        subprocess.run(["true"], check=True)
        socket.getaddrinfo("localhost", 80)
    assert seen.anything == [f"wrote {tmp_path / 'other'}", "started ['true']", "looked up localhost"]


def waits(person) -> bool:
    """Whether something still works out what it would do, with no dialog to answer."""
    return any(worker.is_running and worker.group in ("price", "asking") for worker in person.app.workers) and not (
        isinstance(person.app.screen, ConfirmPage)
    )
