"""What somebody at the workbench is asked before a project does something, and what a yes and a no come to."""

from __future__ import annotations

import re

import pytest

from tests.hostile.test_workbench import opened  # noqa: F401
from tests.tui.story import at_the_workbench, configure, write
from tests.tui.terminal import workbench
from tui_evals.store.reader import Reader
from tui_evals.tui.widgets.dialogs import ConfirmPage, Reading

SIZES = [(80, 24), pytest.param((120, 40), marks=pytest.mark.nightly)]
DATA = {
    "schemaVersion": "1.0.0",
    "default_evaluators": {"Includes": {}},
    "items": [{"testId": "A", "prompt": "one", "expected_response": "hello"}],
}


@pytest.fixture
def own(tmp_path, stranger):
    """A project with a function that answers, which nobody has agreed to."""
    folder = tmp_path / "own"
    folder.mkdir()
    configure(folder, '[run]\ntargets = ["agent"]\n\n[targets.agent]\nmodel = "python:helper:answer"\n')
    (folder / "helper.py").write_text("def answer(prompt): return 'hello'\n")
    write(folder / "data.json", DATA)
    return folder


def runs_of(folder):
    with Reader(folder / ".evals" / "evals.db") as reader:
        return list(reader.runs())


def words_of(person):
    """What is on screen, across the lines of a box."""
    return " ".join(re.sub("[│╭╮╰╯─]", " ", person.screen()).split())


def page_is_up(person):
    return isinstance(person.app.screen, ConfirmPage)


async def finished(person, count):
    def over():
        runs = runs_of(person.app.workspace.root)
        return len(runs) == count and all(run.status == "finished" for run in runs)

    await person.until(over)


@pytest.mark.nightly
@pytest.mark.parametrize("size", SIZES)
async def test_it_asks_once_and_again_for_what_changed(own, size):
    """n leaves everything as it was, y runs it, a second run asks nothing, another function does."""
    async with at_the_workbench(own, size=size, dataset="data.json") as person:
        await person.press("r")
        await person.sees("1 call")
        await person.press("enter")
        await person.until(lambda: page_is_up(person))
        assert "calls the function helper:answer" in person.screen()
        assert ".evals/config.toml:4" in person.screen()
        await person.press("n")
        await person.sees("you did not agree")
        assert runs_of(own) == []
        await person.press("r")
        await person.sees("1 call")
        await person.press("enter")
        await person.until(lambda: page_is_up(person))
        await person.press("y")
        await finished(person, 1)
        await person.press("r")
        await person.sees("1 call")
        await person.press("enter")
        await finished(person, 2)
        (own / "helper.py").write_text("def answer(prompt): return 'hello again'\n")
        await person.press("r")
        await person.sees("1 call")
        await person.press("enter")
        await person.until(lambda: page_is_up(person))
        assert "its code has changed since you said yes" in words_of(person)
        assert len(runs_of(own)) == 2


ASKING = {
    "run": ("data.json", ("1", "j", "r", "ctrl+s"), "touch"),
    "run again": ("data.json", ("4", "R", "ctrl+s"), "rerun"),
    "rescore": ("data.json", ("4", "s", "y"), "rerun"),
    "resume": ("data.json", ("6", "G", "p"), "hands its work, answers included, to the cluster tcp://"),
    "playground": ("data.json", ("P", "h", "i", "f5"), "runs the command"),
    "items proposed": ("data.json", ("1", "j", "ctrl+g", "enter", "enter", "y"), "touch"),
    "a judge tried": ("data.json", ("1", "j", "j", "3", "G", "t"), "touch"),
    "an evaluator tried": ("data.json", ("1", "j", "j", "3", "j", "t"), "runs the evaluator Mine"),
    "tests of a rule": ("tags/tags.json", ("7", "t", "enter"), "rules"),
    "inverse of a rule": ("tags/tags.json", ("7", "i", "enter"), "rules"),
    "run of a rule": ("tags/tags.json", ("7", "r", "ctrl+s"), "runs the command"),
}


@pytest.mark.story
@pytest.mark.cases(2)
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name == "run" else pytest.mark.nightly) for name in ASKING]
)
async def test_every_way_to_run_something_asks_first(name, opened):  # noqa: F811
    dataset, keys, says = ASKING[name]
    async with at_the_workbench(opened.root, size=(120, 40), dataset=dataset) as person:
        for key in keys:
            await person.press(key)
            if key in ("r", "R"):
                await person.sees("repairs and retries may add some")
        await person.until(lambda: page_is_up(person), 20)
        assert says in words_of(person)
        assert "Allow this?" in person.screen()
        await person.press("n")
        await person.until(lambda: not page_is_up(person))
    assert opened.marks == []
    assert opened.attacker.heard == []


@pytest.mark.nightly
async def test_a_yes_lets_a_generation_go_on(opened):  # noqa: F811
    """What the page asked is what the process that generates does: it asks for nothing more."""
    async with at_the_workbench(opened.root, size=(80, 24), dataset="tags/tags.json") as person:
        await person.press("7", "t", "enter")
        await person.until(lambda: page_is_up(person))
        assert opened.marks == []
        await person.press("y")
        screen = person.app.get_screen("rules")
        await person.until(lambda: screen.making is not None and not screen.making.live)
    assert opened.marks == ["rules"]
    assert "agreed" not in screen.making.row.message


@pytest.mark.nightly
async def test_a_yes_in_the_playground_asks_the_target(own):
    async with at_the_workbench(own, size=(80, 24), dataset="data.json") as person:
        await person.press("P")
        await person.type("hi")
        await person.press("f5")
        await person.until(lambda: page_is_up(person))
        await person.press("n")
        await person.sees("still in the box")
        await person.press("f5")
        await person.until(lambda: page_is_up(person))
        await person.press("y")
        await person.sees("hello")
        await person.type("more")
        await person.press("f5")
        await person.until(lambda: person.screen().count("hello") == 2)


@pytest.mark.nightly
async def test_what_is_typed_into_the_form_is_a_yes_and_what_stands_there_is_not(own, kept):
    """A form as a stranger's store left it is no form that somebody filled in."""
    configure(own, "")
    typed = "command:echo hello"
    async with at_the_workbench(own, size=(120, 40), dataset="data.json") as person:
        await person.press("r", "g", "j", "enter")
        await person.type(typed)
        await person.press("enter")
        await person.sees("1 call")
        await person.press("ctrl+s")
        await finished(person, 1)
        assert [entry["does"] for one in kept()["projects"].values() for entry in one.values()] == [
            "runs the command echo hello"
        ]
        person.app.session.put("form", {"other targets": "command:echo hello, command:echo other"})
        await person.press("1", "r")
        await person.sees("2 calls")
        await person.press("enter")
        await person.until(lambda: page_is_up(person))
        assert "runs the command echo other" in person.screen()
        assert "runs the command echo hello" not in person.screen()


@pytest.mark.nightly
async def test_it_can_be_read_without_running_anything(opened, kept):  # noqa: F811
    async with at_the_workbench(opened.root, size=(120, 40), dataset="data.json") as person:
        await person.press("Y")
        await person.until(lambda: isinstance(person.app.screen, Reading))
        words = words_of(person)
        assert "sends GITHUB_TOKEN to 127.0.0.1" in words
        assert "runs the evaluator Mine" in words
        await person.press("escape", "colon")
        await person.type("trust")
        assert "What you allowed this project" in person.screen()
    assert opened.marks == []
    assert kept()["projects"] == {}


async def test_the_run_form_says_where_a_key_goes(own):
    configure(
        own,
        '[run]\ntargets = ["far"]\n[targets.far]\nmodel = "openai/x"\nbase_url = "http://10.1.2.3:8000/v1"\n'
        'api_key = "env:OPENAI_API_KEY"\n',
    )
    async with at_the_workbench(own, size=(120, 40), dataset="data.json") as person:
        await person.press("r")
        await person.sees("OPENAI_API_KEY to 10.1.2.3:8000, without")


@pytest.mark.nightly
async def test_what_the_settings_form_writes_asks_nothing_anew(own):
    """The form changes numbers and names; what a section does is still what was agreed to."""
    async with at_the_workbench(own, size=(120, 40), dataset="data.json") as person:
        await person.press("r")
        await person.sees("1 call")
        await person.press("enter")
        await person.until(lambda: page_is_up(person))
        await person.press("y")
        await finished(person, 1)
        await person.press("comma", *"jjjjjjjj", "enter", "2", "enter", "ctrl+s")
        await person.until(lambda: "written" in person.said())
        assert "repeats = 2" in (own / ".evals" / "config.toml").read_text()
        await person.press("1", "r")
        await person.sees("2 calls")
        await person.press("enter")
        await finished(person, 2)


@pytest.mark.story
def test_on_a_real_terminal_n_does_nothing_and_y_runs_it(own, stranger):
    """The real program, its bytes and its own processes: the project answers once somebody has said yes."""
    mark = own / "ran"
    (own / "helper.py").write_text(f"open({str(mark)!r}, 'w').close()\ndef answer(prompt): return 'hello'\n")
    with workbench(own, "data.json") as terminal:
        terminal.wait("all keys")
        for last, then in (("n", "you did not agree"), ("y", "finished")):
            terminal.after("r", "1 call")
            terminal.after("\r", "asks for your yes before it")
            terminal.calm()
            assert "calls the function helper:answer" in terminal.shown
            assert not mark.exists()
            terminal.after(last, then)
        assert mark.exists()
        terminal.press("q")
        assert terminal.end() == 0
