"""The user, the tool results, the files of an item and lists of objects are written without JSON."""

import pytest

from tests.store.helpers import new_run, said
from tests.tui.story import Person, at_the_workbench, write
from tui_evals.datasets.attachments import attachable_files, describe_file
from tui_evals.evaluators.registry import load_registry
from tui_evals.evaluators.trust import Trust
from tui_evals.runs.readiness import options_of
from tui_evals.store.database import open_store
from tui_evals.store.reader import Reader
from tui_evals.store.records import PlannedAnswer
from tui_evals.store.writer import Writer
from tui_evals.tui.item.forms import recorded_result
from tui_evals.tui.model_form import form_fields
from tui_evals.tui.widgets.form import ListForm
from tui_evals.tui.widgets.form_fields import read_value, written_value

TOOLS = [{"type": "function", "function": {"name": "find_order", "parameters": {"type": "object"}}}]
ITEM = {"testId": "A-1", "prompt": "first"}


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "pictures").mkdir()
    (tmp_path / "pictures" / "lamp.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    (tmp_path / "a note.txt").write_text("Open from nine.\n")
    (tmp_path / "node_modules").mkdir()
    (tmp_path / "node_modules" / "x.txt").write_text("x")
    write(tmp_path / "data.json", {"items": [ITEM], "tools": TOOLS})
    return tmp_path


@pytest.fixture(autouse=True)
def _soon(monkeypatch):
    """What does not come true is known after seconds."""
    monkeypatch.setattr(Person.until, "__defaults__", (15.0,))
    monkeypatch.setattr(Person.sees, "__defaults__", (15.0,))


async def begin(person):
    await person.press("1", "g", "j", "2")


def item(person):
    return person.app.workspace.items[0]


async def test_a_picture_elsewhere_in_the_project_is_copied_next_to_the_dataset(folder):
    (folder / "evals").mkdir()
    write(folder / "evals" / "own.json", {"items": [ITEM]})
    picture = (folder / "pictures" / "lamp.png").read_bytes()
    async with at_the_workbench(folder, dataset="evals/own.json") as person:
        await begin(person)
        await person.press("a")
        await person.type("attach\n")
        await person.sees("elsewhere in the project; a copy is put next to the dataset")
        assert "a note.txt" not in person.screen()
        await person.type("lamp\n")
        await person.until(lambda: item(person).get("attachments") == ["pictures/lamp.png"], 20)
        assert "copied to evals/: pictures/lamp.png" in person.said()
        assert (folder / "evals" / "pictures" / "lamp.png").read_bytes() == picture
        await person.press("g", "j", "enter")
        await person.sees("files that go along")
        assert "elsewhere in the project" not in person.screen()


@pytest.mark.nightly
async def test_files_are_chosen_by_name_with_a_preview_and_taken_away_by_unmarking(folder):
    async with at_the_workbench(folder, dataset="data.json") as person:
        await begin(person)
        await person.press("a")
        await person.type("attach")
        await person.press("enter")
        await person.sees("image/png")
        assert "data.json" not in person.screen().partition("files that go along")[2].partition("type to search")[0]
        await person.type("note")
        await person.sees("Open from nine.")
        await person.press("enter")
        assert item(person)["attachments"] == ["a note.txt"]
        await person.press("g", "j", "enter")
        await person.sees("files that go along")
        await person.type("lamp")
        await person.press("tab", "enter")
        assert item(person)["attachments"] == ["a note.txt", "pictures/lamp.png"]
        await person.press("u")
        assert item(person)["attachments"] == ["a note.txt"]
        await person.press("enter")
        await person.sees("files that go along")
        await person.press("tab", "enter")
        assert "attachments" not in item(person)


@pytest.mark.nightly
async def test_a_pinned_file_keeps_its_hash_and_a_missing_one_says_so(folder):
    pinned = {"path": "a note.txt", "sha256": "0" * 64}
    write(folder / "data.json", {"items": [{**ITEM, "attachments": [pinned, "gone.png"]}]})
    async with at_the_workbench(folder, dataset="data.json") as person:
        await begin(person)
        await person.press("j", "enter")
        await person.sees("missing")
        await person.type("lamp")
        await person.press("tab", "enter")
        assert item(person)["attachments"] == [pinned, "gone.png", "pictures/lamp.png"]


@pytest.mark.nightly
async def test_a_tool_of_the_dataset_is_a_template_and_entries_are_edited_moved_and_deleted(folder):
    async with at_the_workbench(folder, dataset="data.json") as person:
        await begin(person)
        await person.press("a")
        await person.type("tool_r")
        await person.press("enter")
        await person.sees("a tool of the dataset")
        await person.press("enter")
        await person.sees("tool: find_order, result: what it gives")
        await person.press("enter", "j", "j", "j", "D", "j", "enter")
        await person.type("not found")
        await person.press("escape", "escape", "a")
        await person.type("find")
        await person.press("enter", "K", "escape")
        first, second = item(person)["tool_results"]
        assert first == {"tool": "find_order", "result": "what it gives"}
        assert second["error"] == "not found"
        await person.press("g", *["j"] * 4)
        await person.until(lambda: person.app.pane("editor").lines.key == "tool_results")
        await person.press("enter", "D", "escape")
        assert item(person)["tool_results"] == [second]


@pytest.mark.nightly
async def test_a_call_of_the_run_on_screen_is_offered_with_what_it_gave(folder):
    (folder / ".evals").mkdir()
    path = open_store(folder / ".evals" / "evals.db")
    call = {"name": "find_order", "arguments": '{"id": 7}', "result": '{"status": "sent"}'}
    with Writer(path) as writer, Reader(path) as reader:
        snapshot = writer.snapshot({"items": [ITEM]}, "data.json")
        given = {"source": "data.json", "targets": ("one",)}
        run = writer.plan(new_run(name="r-1", snapshot=snapshot, **given), [PlannedAnswer(0, 0, 0, 0, 0, 0, "A-1")])
        (row,) = reader.all_rows(run.id)
        steps = ({"text": None, "calls": [call]}, {"text": "It was sent.", "calls": []})
        await writer.answered(row.id, said("It was sent.", steps=steps), "answered")
        writer.run_status(run.id, "finished")
    async with at_the_workbench(folder, dataset="data.json", run=run.key) as person:
        await begin(person)
        await person.press("a")
        await person.type("tool_r")
        await person.press("enter")
        await person.sees("recorded for A-1 in r-1")
        await person.press("enter", "escape")
        expected = {"tool": "find_order", "arguments": {"id": 7}, "result": {"status": "sent"}}
        assert item(person)["tool_results"] == [expected]


@pytest.mark.nightly
async def test_the_user_is_written_in_fields_and_json_stays_behind_one_key(folder):
    async with at_the_workbench(folder, dataset="data.json") as person:
        await begin(person)
        await person.press("a")
        await person.type("user")
        await person.press("enter")
        await person.type("a refund")
        await person.press("escape", "escape")
        assert item(person)["user"] == {"goal": "a refund"}
        await person.press("v")
        await person.sees('"goal": "a refund"')


def test_a_recorded_call_is_a_result_with_its_data_and_a_failed_one_an_error():
    assert recorded_result("t", '{"n": 1}', '{"a": [1]}') == {"tool": "t", "arguments": {"n": 1}, "result": {"a": [1]}}
    assert recorded_result("t", "", "plain") == {"tool": "t", "result": "plain"}
    assert recorded_result("t", "{}", "no such", failed=True) == {"tool": "t", "error": "no such"}


def test_files_of_hidden_and_installed_folders_are_left_out_and_what_cannot_go_says_why(folder):
    (folder / ".git").mkdir()
    (folder / ".git" / "x").write_text("x")
    (folder / "odd.bin").write_bytes(b"\0\1")
    assert [name for name, _ in attachable_files(folder)] == ["a note.txt", "data.json", "odd.bin", "pictures/lamp.png"]
    assert describe_file(folder, "odd.bin").startswith("'odd.bin' is no picture, sound, PDF or text")
    assert describe_file(folder, "a note.txt") == "Open from nine.\n"


def test_each_object_in_a_list_of_an_evaluator_goes_through_its_form_unchanged():
    kinds = load_registry(None, Trust()).kinds
    nested = {(kind.name, one.name): one for kind in kinds for one in form_fields(options_of(kind), {}) if one.rows}
    for where, value in (
        (("ToolCallSelection", "calls"), {"tool": {"functionName": "f", "plugin_name": "p"}}),
        (("RetrievalResult", "expected_items"), {"retrievalExtract_contains": "late"}),
        (("Relevance", "examples"), {"answer": "No.", "score": 1}),
    ):
        shape = nested[where].rows.entry("1", value).shape
        assert shape.written(value, shape.values(value)) == value
    assert nested["Relevance", "examples"].rows.entry("1", {}).shape.faults({"score": 1}) == {"answer": "must be given"}


def test_a_value_is_a_text_unless_it_reads_as_something_else():
    for value, text in (("plain", "plain"), ({"a": 1}, '{"a": 1}'), ("3", '"3"'), (3, "3")):
        assert written_value("value", value) == text and read_value("value", text) == (value, None)


def test_the_faults_of_a_list_stand_at_the_number_of_their_entry():
    kinds = {kind.name: kind for kind in load_registry(None, Trust()).kinds}
    fields = {one.name: one for one in form_fields(options_of(kinds["ToolTrajectory"]), {})}
    form = ListForm("calls", fields["calls"].rows, [{"tool": "a"}, {"arguments": {}}, "named"])
    assert form._faults(form.values) == {"2": "tool: must be given"}
