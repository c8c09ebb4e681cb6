"""What people bring along from another tool: imported at the workbench, read about, and opened."""

import json
import shutil
from pathlib import Path

import pytest
from rich.cells import cell_len

from tests.tui.story import at_the_workbench
from tests.tui.terminal import workbench
from tui_evals.imports.base import ImportResult, Loss
from tui_evals.tui import importing
from tui_evals.tui.importing import problem_text, result_rows, why_no_source
from tui_evals.tui.rows import row_text
from tui_evals.tui.tree.rows import first_page
from tui_evals.tui.widgets.dialogs import Reading

TESTS = Path(__file__).parent.parent / "imports"
HOSTILE = "[/b][@click=app.quit]x[/] \x1b]52;c;aGk=\x07\x1b[2J\x9b31m\u202e日本語 \ud800\nnext"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


async def ask_for(person, path):
    await person.press("O")
    await person.sees("import what another tool wrote")
    await person.type(path)
    await person.press("enter")


@pytest.mark.story
async def test_in_an_empty_folder_a_configuration_of_promptfoo_becomes_the_dataset_on_screen(folder):
    old = folder.parent / f"{folder.name}-old"
    shutil.copytree(TESTS / "promptfoo", old)
    async with at_the_workbench(folder, size=(160, 50)) as person:
        assert "O       import tests from promptfoo" in person.screen()
        await person.press("colon")
        await person.type("workbench: import")
        await person.press("enter")
        await person.sees("import what another tool wrote")
        await person.type(f"../{old.name}/asserts.yaml")
        await person.press("enter")
        await person.sees("imported asserts.yaml")
        page = person.screen()
        for told in ("items from", "dataset: ", "(written)", "asserts.yaml:", "left out: "):
            assert told in page, told
        await person.press("d")
        await person.sees("there are no such verdicts")
        await person.press("escape")
        await person.until(lambda: person.app.workspace.items)
        space = person.app.workspace
        assert person.app.front == "tree" and space.editing.document.file.parent == old and not space.editing.dirty
        assert json.loads(space.editing.document.file.read_text())["items"] == space.items


@pytest.mark.parametrize("width", [20, 40, 78, 220])
def test_the_first_page_of_an_empty_folder_says_at_every_width_which_key_imports(width):
    lines = [row_text(line) for line in first_page((), width)]
    importing = next(line for line in lines if line.split()[:2] == ["O", "import"])
    below = lines[lines.index(importing) :]
    assert "promptfoo" in " ".join(below) and all(cell_len(line) <= width for line in lines)


@pytest.mark.nightly
async def test_unsaved_edits_stay_with_their_dataset_while_another_one_is_imported(folder):
    shutil.copytree(TESTS / "promptfoo", folder / "old", ignore=shutil.ignore_patterns("*.results.json", "*.csv"))
    async with at_the_workbench(folder) as person:
        await person.press("ctrl+n", "enter", "enter")
        await person.type("mine")
        await person.press("escape", "1")
        mine = person.app.workspace.editing
        await ask_for(person, "old/letters.yaml")
        await person.sees("imported letters.yaml")
        await person.press("escape")
        await person.until(lambda: person.app.workspace.editing is not mine)
        assert mine.dirty and person.app.workspace.open[mine.document.file] is mine
        assert mine.data["items"] == [{"prompt": "mine"}]


@pytest.mark.nightly
async def test_a_log_of_inspect_becomes_the_run_on_screen_and_a_second_time_the_same_run(folder):
    shutil.copy(TESTS / "recordings" / "arithmetic.eval", folder)
    async with at_the_workbench(folder) as person:
        await person.press("6")
        await person.sees("No runs yet")
        for told in ("(new)", "no second one was made"):
            await ask_for(person, "arithmetic.eval")
            await person.sees("imported arithmetic.eval")
            assert told in person.screen()
            await person.press("escape")
            await person.until(lambda: person.app.watching.run is not None and person.app.front == "results")
        assert person.app.watching.run.status == "finished" and len(person.app.watching.reader.runs()) == 1
        assert not person.app.workspace.files


def log_with_other_verdicts(folder):
    """A log of Inspect in which two verdicts were turned round."""
    log = json.loads((TESTS / "recordings" / "arithmetic.json").read_text())
    scores = [sample["scores"]["includes"] for sample in log["samples"] if sample.get("scores")]
    for score in scores[:2]:
        score["value"] = "I" if score["value"] == "C" else "C"
    (folder / "log.json").write_text(json.dumps(log))


@pytest.mark.nightly
async def test_recorded_verdicts_are_judged_again_and_those_that_differ_can_be_read(folder):
    log_with_other_verdicts(folder)
    async with at_the_workbench(folder) as person:
        await ask_for(person, "log.json")
        await person.sees("22 of 24 assertions judge as before; 2 differ")
        page = person.screen()
        assert "recorded verdicts have" not in page and "not repeated: " in page
        assert "d the 2 that differ · a all 24 · j k scroll · esc back" in page
        await person.press("d")
        await person.sees("2 verdicts, before and now")
        assert person.screen().count(" before, ") == 2 and "includes: " in person.screen()
        await person.press("escape", "a")
        await person.sees("24 verdicts, before and now")
        assert person.screen().count(", as before") > 10
        await person.press("escape", "escape")
        await person.until(lambda: person.app.watching.run is not None)


@pytest.mark.nightly
async def test_a_wrong_path_is_said_while_one_types_with_what_was_meant_and_is_not_taken(folder):
    (folder / "promptfooconfig.yaml").write_text("prompts: []")
    async with at_the_workbench(folder, size=(120, 40)) as person:
        await ask_for(person, "promptfoconfig.yaml")
        await person.sees("did you mean 'promptfooconfig.yaml'?")
        assert "there is no promptfoconfig.yaml" in person.screen()
        await person.press("escape")
        assert not isinstance(person.app.screen, Reading)


@pytest.mark.nightly
async def test_what_cannot_be_imported_is_a_sentence_and_nothing_is_written(folder):
    (folder / "broken.json").write_text('{"items": [')
    (folder / "notes").mkdir()
    before = {file for file in folder.rglob("*") if ".evals" not in file.parts}
    async with at_the_workbench(folder) as person:
        for name, sentence in (("broken.json", "broken.json:1"), ("notes", "is of no kind that can be read")):
            await ask_for(person, name)
            await person.sees(f"{name} was not imported")
            await person.sees(sentence)
            await person.press("escape")
        assert person.app.workspace.editing is None and not person.app.watching.reader.runs()
    assert {file for file in folder.rglob("*") if ".evals" not in file.parts} == before


async def test_hostile_text_of_what_is_imported_is_shown_and_never_obeyed(folder):
    test = {"vars": {"city": "Oslo"}, "assert": [{"type": HOSTILE.replace("\ud800", "")}]}
    config = {"prompts": ["Where is {{city}}?"], "providers": ["echo"], "tests": [test]}
    (folder / "promptfooconfig.yaml").write_text(json.dumps(config))
    async with at_the_workbench(folder) as person:
        await ask_for(person, "promptfooconfig.yaml")
        await person.until(lambda: isinstance(person.app.screen, Reading))
        page = person.screen()
        assert "[@click=app.quit]x[/]" in page and not set(page) & set("\x1b\x07\x9b\u202e")


@pytest.mark.parametrize("width", [20, 76, 120])
def test_each_loss_begins_a_line_and_all_of_them_fit(width):
    losses = [Loss("carried", HOSTILE, "a.yaml:3", HOSTILE), Loss("left out", "long words " * 30, "a.yaml:9")]
    result = ImportResult(source=Path("a\x1b[2Jb.yaml"), losses=tuple(losses), notes=(HOSTILE,), overview=[{"a": 1}])
    lines = [row_text(one) for one in result_rows(result, width)]
    assert all(cell_len(line) <= width for line in lines)
    assert not set("".join(lines)) & set("\x1b\x07\x9b\u202e\n\ud800")
    starts = [line for line in lines if line.startswith("a.yaml")]
    assert [line[:8] for line in starts] == ["a.yaml:9", "a.yaml:3"], "what was left out comes first"


def test_a_path_is_seen_from_the_project_or_from_home(tmp_path, monkeypatch):
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "Run-1.eval").write_text("")
    monkeypatch.setenv("HOME", str(tmp_path / "logs"))
    for fine in ("logs", " logs/Run-1.eval ", "~/Run-1.eval", str(tmp_path / "logs")):
        assert why_no_source(tmp_path, fine) is None, fine
    assert why_no_source(tmp_path, "  ") == "name a file or folder"
    assert why_no_source(tmp_path, "logs/run") == "there is no run in logs (did you mean 'Run-1.eval'?)"
    assert why_no_source(tmp_path, "lgs/x") == "there is no lgs in the project's folder (did you mean 'logs'?)"
    assert why_no_source(tmp_path / "logs", "../lgs") == f"there is no lgs in {tmp_path} (did you mean 'logs'?)"
    assert "there is no x in" in why_no_source(tmp_path, "logs/Run-1.eval/x")
    assert "there is no" in why_no_source(tmp_path, "~nobody-of-that-name/x\0" + "y" * 5_000)


def test_options_of_the_command_line_are_named_as_such():
    assert problem_text("a.json: is broken", Path("a.json")) == "a.json: is broken"
    assert "tui-evals import a.json …" in problem_text("name another folder with --out", Path("a.json"))
    assert importing.COMMANDS.keys() == {"import"}


@pytest.mark.nightly
def test_on_a_narrow_terminal_the_verdicts_are_judged_again_and_read_too(folder):
    log_with_other_verdicts(folder)
    with workbench(folder) as terminal:
        terminal.wait("all keys")
        terminal.after("O", "import what another tool")
        terminal.press("log.json\r")
        terminal.wait("22 of 24 assertions judge as before; 2 differ")
        terminal.wait("d the 2 that differ · a all 24")
        terminal.after("d", "2 verdicts, before and now")
        terminal.wait("pass 1 before|fail 0 before|before, ")
        terminal.press("\x1b")
        terminal.after("a", "24 verdicts, before and now")
        terminal.wait(", as before")
        terminal.press("\x1b")
        terminal.calm()
        terminal.press("\x1b")
        terminal.press("\x11")
        assert terminal.end() == 0
