"""23: what somebody at the workbench is asked about the store of a clone, once, and what a yes and a no come to."""

import shutil
from contextlib import closing

import pytest

from tests.hostile.test_workbench_stories import DATA, finished, page_is_up, words_of
from tests.tui.story import at_the_workbench, configure, write
from tests.tui.terminal import Terminal
from tui_evals.interpreter import python_command
from tui_evals.store.connection import open_database
from tui_evals.store.database import open_store
from tui_evals.store.reader import Reader


@pytest.fixture
def clone(tmp_path, stranger):
    """A project with a target that asks nobody, and a store that was begun by somebody else."""
    folder = tmp_path / "clone"
    folder.mkdir()
    configure(folder, '[run]\ntargets = ["agent"]\n\n[targets.agent]\nmodel = "demo"\n')
    write(folder / "data.json", DATA)
    open_store(folder / ".evals" / "evals.db")
    shutil.rmtree(stranger / "tui_evals")
    return folder


def is_foreign(folder):
    with Reader(folder / ".evals" / "evals.db") as reader:
        return reader.is_foreign


async def start(person):
    await person.press("r")
    await person.sees("1 call")
    await person.press("enter")


@pytest.mark.nightly
@pytest.mark.parametrize("size", [(80, 24), pytest.param((120, 40), marks=pytest.mark.nightly)])
async def test_a_yes_to_the_store_is_asked_for_once(clone, size):
    async with at_the_workbench(clone, size=size, dataset="data.json") as person:
        await start(person)
        await person.until(lambda: page_is_up(person))
        assert "answers from its store, which was not begun here" in words_of(person)
        await person.press("y")
        await finished(person, 1)
        assert not is_foreign(clone)
        await start(person)
        await finished(person, 2)


@pytest.mark.nightly
async def test_a_no_to_the_store_asks_everything_anew(clone, monkeypatch):
    told = []
    async with at_the_workbench(clone, dataset="data.json") as person:
        monkeypatch.setattr(person.app, "tell", lambda text, *_: told.append(text))
        await start(person)
        await person.until(lambda: page_is_up(person))
        await person.press("n")
        await finished(person, 1)
    assert any("the cached answers of this store are not used" in text for text in told)
    assert is_foreign(clone)


async def test_the_page_of_permissions_lists_the_store(clone):
    async with at_the_workbench(clone, dataset="data.json") as person:
        await person.press("Y")
        await person.sees("answers from its store")


@pytest.mark.nightly
async def test_a_store_with_a_trigger_opens_and_starts_nothing(clone):
    with closing(open_database(clone / ".evals" / "evals.db")) as store:
        store.execute("CREATE TRIGGER wins AFTER UPDATE ON answers BEGIN SELECT 1; END")
    async with at_the_workbench(clone, dataset="data.json") as person:
        await start(person)
        await person.until(lambda: page_is_up(person))
        await person.press("y")
        await person.until(lambda: "the trigger 'wins' on answers" in words_of(person))
    with Reader(clone / ".evals" / "evals.db") as reader:
        assert reader.runs() == []


@pytest.mark.story
def test_run_asks_at_a_terminal(clone):
    run = python_command("-m", "tui_evals", "run", "data.json", "--quiet")
    for key, foreign in (("n", True), ("y", False)):
        with Terminal(run, clone, size=(120, 30)) as terminal:
            terminal.wait(r"Allow this\?")
            terminal.press(f"{key}\r")
            code = terminal.end()
            said = terminal.raw.decode("utf-8", "replace")
        assert code in (0, 1), said
        assert "answers from its store, which was not begun here" in said
        assert is_foreign(clone) == foreign
    with Terminal(run, clone, size=(120, 30)) as terminal:
        assert terminal.end() in (0, 1)
        assert "Allow this?" not in terminal.raw.decode("utf-8", "replace")
