"""What people do at the workbench, from the first key to the last."""

import json

import pytest

from tests.runs.conftest import FREE
from tests.tui.story import at_the_workbench, configure, write
from tui_evals.store.reader import Reader

SIZES = [(80, 24), *(pytest.param(size, marks=pytest.mark.nightly) for size in ((120, 40), (160, 45)))]


def last_run(folder):
    with Reader(folder / ".evals" / "evals.db") as reader:
        run = reader.find_run("last")
        return run, [row.status for row in reader.all_rows(run.id)]


@pytest.mark.story
@pytest.mark.cases(1)
@pytest.mark.parametrize("size", SIZES)
async def test_a_dataset_is_written_from_nothing_and_run(project, size):
    """Begin a dataset, write an item, say how it is judged, save, run, and see it pass."""
    folder = project.folder
    async with at_the_workbench(folder, size=size) as person:
        assert "ctrl+n" in person.screen()
        await person.press("ctrl+n")
        await person.press("enter")
        await person.sees("2 Item")
        await person.press("enter")
        await person.type("question 1")
        await person.press("escape", "down", "enter")
        await person.type("question 1")
        await person.press("escape", "3")
        await person.until(lambda: any("Relevance" in row for row in person.rows("judges")))
        await person.press("l", "a")
        await person.type("Includes")
        await person.press("enter")
        await person.until(lambda: any("Includes" in row for row in person.rows("judges")))
        for name in ("Relevance", "Coherence"):
            await person.until(lambda name=name: any(name in row for row in person.rows("judges")))
            await person.press("g")
            while name not in str(person.app.query_one("#judges").query_one("Lines").key):
                await person.press("j")
            await person.press("D")
        await person.press("ctrl+s")
        await person.until(lambda: "saved" in person.said())
        saved = json.loads((folder / "evals" / "evals.json").read_text())
        assert saved["default_evaluators"] == {"Includes": {}}
        assert saved["items"][0]["prompt"] == saved["items"][0]["expected_response"] == "question 1"
        await person.press("r")
        await person.sees("1 call")
        await person.press("enter")
        await person.until(lambda: person.app.watching.run and person.app.watching.run.status == "finished")
        await person.sees("✓ pass")
    run, statuses = last_run(folder)
    assert statuses == ["pass"] and run.source.endswith("evals.json")
    assert project.server.counts()["asked"] == 1


async def test_extend_and_replace_are_seen_and_saved(project):
    """The effective list follows one key, and the file says what the screen said."""
    file = write(
        project.folder / "data.json",
        {
            "schemaVersion": "1.11.0",
            "default_evaluators": {"Includes": {}, "PartialMatch": {"threshold": 0.5}},
            "items": [{"prompt": "one", "evaluators": {"PartialMatch": {"threshold": 0.9}}}],
        },
    )
    async with at_the_workbench(project.folder, dataset="data.json", size=(160, 45)) as person:
        await person.press("j", "3")
        text = "\n".join(person.rows("judges"))
        assert "Includes" in text and "0.9" in text and "overrides" in text
        await person.press("m")
        await person.until(lambda: "left out" in "\n".join(person.rows("judges")))
        await person.press("ctrl+s")
        await person.until(lambda: "saved" in person.said())
        assert json.loads(file.read_text())["items"][0]["evaluators_mode"] == "replace"
        await person.press("u")
        await person.until(lambda: "left out" not in "\n".join(person.rows("judges")))
        await person.press("ctrl+s")
        await person.until(lambda: "evaluators_mode" not in file.read_text())


@pytest.mark.story
@pytest.mark.cases(1)
@pytest.mark.parametrize("size", SIZES)
async def test_a_failing_item_is_diffed_mended_run_again_and_passes(project, size):
    """From the red row to the diff, to the item, to a green row."""
    items = [{"prompt": f"question {number}", "expected_response": f"question {number}"} for number in range(4)]
    items[2]["expected_response"] = "something else entirely"
    data = {"schemaVersion": "1.11.0", "default_evaluators": {"Includes": {}}, "items": items}
    write(project.folder / "data.json", data)
    project.do("run", "data.json", "--quiet")
    async with at_the_workbench(project.folder, dataset="data.json", run="last", size=size) as person:
        await person.press("n")
        await person.until(lambda: person.app.watching.answer is not None and "#3" in person.screen())
        await person.press("5")
        await person.sees("something else")
        await person.press("a")
        await person.until(lambda: person.app.workspace.editing.dirty)
        await person.press("i")
        await person.sees("2 Item")
        await person.until(lambda: person.app.workspace.where == ("items", 2))
        await person.press("r")
        await person.sees("1 call")
        await person.press("enter")
        await person.until(lambda: person.app.watching.run.total == 1 and person.app.watching.run.status == "finished")
        await person.sees("✓ pass")
        await person.press("1", "ctrl+s")
        await person.until(lambda: "saved" in person.said())
    _, statuses = last_run(project.folder)
    assert statuses == ["pass"]
    saved = json.loads((project.folder / "data.json").read_text())
    assert "question 2" in saved["items"][2]["expected_response"]


@pytest.mark.story
async def test_failures_of_a_run_are_asked_again_with_one_key(project):
    """R asks what did not pass again, as it is edited now."""
    items = [{"prompt": f"question {number}", "expected_response": "question 1"} for number in range(3)]
    write(project.folder / "data.json", {"default_evaluators": {"Includes": {}}, "items": items})
    project.do("run", "data.json", "--quiet", code=None)
    async with at_the_workbench(project.folder, dataset="data.json", run="last") as person:
        await person.press("R")
        await person.sees("2 calls")
        await person.press("enter")
        await person.until(lambda: person.app.watching.run.total == 2 and person.app.watching.run.status == "finished")
    _, statuses = last_run(project.folder)
    assert statuses == ["fail", "fail"]


@pytest.mark.nightly
async def test_a_run_started_elsewhere_shows_is_paused_goes_on_and_stops(project):
    """What another terminal started is watched and steered from here."""
    project.server.behave(latency=1.5)  # half a minute, which leaves time for four keys on any machine
    project.configure(FREE + '[run]\ntargets = ["main"]', concurrency=2)
    project.dataset(40)
    async with at_the_workbench(project.folder, dataset="data.json") as person:
        project.do("run", "data.json", "--detach", "--name", "elsewhere")
        await person.press("6")
        await person.sees("elsewhere")
        await person.press("enter")
        await person.until(lambda: person.app.watching.run and person.app.watching.run.name == "elsewhere")
        await person.press("p")
        await person.until(lambda: person.app.watching.run.status == "paused")
        await person.press("p")
        await person.until(lambda: person.app.watching.run.status == "running")
        await person.press("x")
        await person.until(lambda: person.app.watching.run.status == "interrupted")
        project.server.behave(latency=0)
        await person.press("p")
        await person.until(lambda: person.app.watching.run.status == "finished")
    _, statuses = last_run(project.folder)
    assert statuses == ["pass"] * 40
    assert project.server.counts()["asked"] == 40


@pytest.mark.nightly
async def test_a_verdict_and_a_note_of_ones_own(project):
    """v, good, a note: kept beside the scores."""
    project.dataset(2)
    project.do("run", "data.json", "--quiet")
    async with at_the_workbench(project.folder, dataset="data.json", run="last") as person:
        await person.press("j", "k", "v")
        await person.press("enter")
        await person.type("fine by me")
        await person.press("enter")

        def labelled():
            with Reader(project.database) as reader:
                return reader.labels(reader.find_run("last").id)

        await person.until(labelled)
        assert [(label.verdict, label.note) for label in labelled()] == [("pass", "fine by me")]


@pytest.mark.nightly
async def test_a_file_changed_by_somebody_else_is_not_overwritten_unasked(project):
    """What conflicts is asked; put off, saving asks again with three ways out, and reading can be taken back."""
    file = project.dataset(2)
    async with at_the_workbench(project.folder, dataset="data.json") as person:
        await person.press("j", "2", "enter")
        await person.type(" mine")
        theirs = json.loads(file.read_text())
        theirs["items"][0]["prompt"] = "theirs"
        file.write_text(json.dumps(theirs))
        await person.press("escape")
        await person.sees("1 value changed on both sides")
        assert "question 0 mine" in person.screen() and "│ theirs" in person.screen()
        await person.press("escape")
        await person.sees("ctrl+s asks again")
        await person.press("ctrl+s")
        await person.sees("put both together")
        assert "another name" in person.screen() and "read it again" in person.screen()
        await person.press("escape")
        assert json.loads(file.read_text()) == theirs
        await person.press("ctrl+s")
        await person.type("read")
        await person.press("enter")
        await person.until(lambda: person.app.workspace.items[0]["prompt"] == "theirs")
        await person.press("u")
        await person.until(lambda: "mine" in person.app.workspace.items[0]["prompt"])


@pytest.mark.nightly
async def test_what_was_on_screen_is_there_again(project):
    """The dataset, the item and the run of last time come back in silence."""
    project.dataset(5)
    project.do("run", "data.json", "--quiet")
    async with at_the_workbench(project.folder, dataset="data.json") as person:
        await person.press("j", "j", "j", "2")
        where = person.app.workspace.where
        assert where == ("items", 2)
        await person.press("q")
    async with at_the_workbench(project.folder) as person:
        assert person.app.workspace.where == where and person.app.front == "editor"
        assert person.app.watching.run is not None


@pytest.mark.first
@pytest.mark.parametrize("size", SIZES)
async def test_every_pane_is_reached_by_its_digit_by_tab_and_from_the_palette(project, size):
    project.dataset(3)
    async with at_the_workbench(project.folder, dataset="data.json", size=size) as person:
        for digit, place in zip("123456", ("tree", "editor", "judges", "results", "detail", "runs"), strict=True):
            await person.press(digit)
            assert person.app.front == place and person.app.query_one(f"#{place}").has_focus_within
            assert person.app.query_one(f"#{place}").region.width >= 30
        await person.press("colon")
        await person.type("dataset")
        await person.press("enter")
        await person.until(lambda: person.app.front == "tree")
        await person.press("z", "right_square_bracket", "left_square_bracket", "z")
        await person.press("question_mark")
        await person.sees("help ·")
        await person.press("escape")


async def test_a_key_that_can_do_nothing_says_why(project):
    async with at_the_workbench(project.folder) as person:
        for key, why in (("u", "nothing to undo"), ("r", "no dataset"), ("x", "no run"), ("R", "no run")):
            await person.press(key)
            assert why in person.said(), key


@pytest.mark.nightly
async def test_settings_are_written_to_the_configuration(project):
    async with at_the_workbench(project.folder) as person:
        await person.press("comma")
        await person.press("enter")
        await person.type("ansi-dark")
        await person.press("enter", "ctrl+s")
        await person.until(lambda: person.app.theme == "ansi-dark")
    written = (project.folder / ".evals" / "config.toml").read_text()
    assert 'theme = "ansi-dark"' in written and "[targets.main]" in written


async def test_a_broken_configuration_is_a_sentence(tmp_path):
    configure(tmp_path, "[run\n")
    async with at_the_workbench(tmp_path) as person:
        await person.sees("not valid")


async def test_a_broken_dataset_is_a_sentence_and_another_can_be_opened(project):
    project.dataset(1)
    (project.folder / "broken.json").write_text('{"items": [')
    async with at_the_workbench(project.folder, dataset="broken.json") as person:
        await person.sees("broken.json")
        assert person.app.workspace.editing is None
        await person.sees("cannot be opened")
        await person.press("escape", "o")
        await person.type("data.json")
        await person.press("enter")
        await person.until(lambda: person.app.workspace.editing is not None)
