"""What a save leaves in the history of a file, and what it does where nothing can be left there."""

import json

import pytest

from tui_evals.datasets.document import load
from tui_evals.datasets.editing import Editing
from tui_evals.datasets.history import CannotUndo, history_of, recorded_save, undo
from tui_evals.datasets.save import ChangedOnDisk

ITEMS = [{"testId": "A-1", "prompt": "first"}, {"testId": "A-2", "prompt": "second"}]


@pytest.fixture
def file(tmp_path):
    place = tmp_path / "data.json"
    place.write_text(json.dumps({"schemaVersion": "1.11.0", "items": ITEMS}))
    return place


def save(editing):
    edits = tuple(editing.edits)
    with recorded_save(editing.document.file, edits) as why:
        editing.save()
    editing.forget_edits(len(edits))
    return why


def with_items(editing, items):
    return {**editing.data, "items": items}


def test_each_edit_names_its_items_and_typing_in_one_field_is_one_edit(file):
    editing = Editing(load(file))
    first, second = editing.data["items"]
    editing.apply(with_items(editing, [first, {**second, "prompt": "s"}]), "edit prompt", merge="prompt")
    editing.apply(with_items(editing, [first, {**second, "prompt": "se"}]), "edit prompt", merge="prompt")
    editing.apply(with_items(editing, [editing.data["items"][1]]), "delete item A-1")
    editing.undo()
    editing.redo()
    assert [what for _, what in editing.edits] == [
        "edit prompt · A-2",
        "delete item A-1",
        "undo delete item A-1",
        "redo delete item A-1",
    ]
    editing.apply(with_items(editing, [{**ITEMS[1], "prompt": "x"}]), "edit prompt", merge="again")
    editing.apply(with_items(editing, [{**ITEMS[1], "prompt": "se"}]), "edit prompt", merge="again")
    assert len(editing.edits) == 4


def test_a_save_is_a_step_with_its_edits_which_the_command_undoes_to_the_byte(file):
    before = file.read_bytes()
    editing = Editing(load(file))
    editing.apply(with_items(editing, editing.data["items"][1:]), "delete item A-1")
    editing.apply(with_items(editing, [{**ITEMS[1], "prompt": "x"}]), "edit prompt")
    assert save(editing) == [] and editing.edits == []
    (step,) = history_of(file).steps
    assert [what for _, what in step.edits] == ["delete item A-1", "edit prompt · A-2"]
    assert step.what == "save: delete item A-1, edit prompt · A-2" and step.process
    assert load(history_of(file).content(step.before)).data["items"] == ITEMS
    undo(file)
    assert file.read_bytes() == before


def test_a_file_is_saved_where_its_history_cannot_be_kept_and_says_why(file):
    (file.parent / ".evals").mkdir()
    (file.parent / ".evals" / "history").write_text("in the way")
    editing = Editing(load(file))
    editing.apply(with_items(editing, editing.data["items"][1:]), "delete item A-1")
    (why,) = save(editing)
    assert ".evals/history" in why
    assert load(file).data["items"] == ITEMS[1:] and not editing.dirty


def test_a_save_that_fails_leaves_no_step_and_its_edits(file):
    editing = Editing(load(file))
    editing.apply(with_items(editing, editing.data["items"][1:]), "delete item A-1")
    file.write_text(file.read_text() + " ")
    with pytest.raises(ChangedOnDisk):
        save(editing)
    assert history_of(file).steps == () and len(editing.edits) == 1


def test_what_is_kept_and_was_changed_since_is_not_gone_back_to(file):
    editing = Editing(load(file))
    editing.apply(with_items(editing, editing.data["items"][1:]), "delete item A-1")
    save(editing)
    history = history_of(file)
    (step,) = history.steps
    history.kept(step.before).write_text("{}")
    with pytest.raises(CannotUndo, match="not what was kept"):
        history.content(step.before)


def test_a_packed_file_is_kept_under_a_name_that_can_be_read(tmp_path):
    assert history_of(tmp_path / "data.jsonl.gz").kept("a" * 64).name == "a" * 16 + ".jsonl.gz"
