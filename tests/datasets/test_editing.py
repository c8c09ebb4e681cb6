"""Every edit can be taken back, and what is saved is what was edited."""

import copy
import json
import operator
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.datasets.test_steps import datasets, some_step
from tui_evals.datasets import steps
from tui_evals.datasets.document import Document, load
from tui_evals.datasets.editing import Editing
from tui_evals.datasets.paths import CannotEdit, DatasetError, same_data
from tui_evals.datasets.save import ChangedOnDisk
from tui_evals.datasets.validate import validate
from tui_evals.files import CannotSave

STYLED = """{
    "schemaVersion": "1.0.0",
    "items": [
        { "testId": "A", "prompt": "a", "x": [1,2] },
        {"testId": "B", "prompt": "b"}
    ],
    "ours": {"kept" : 1.50}
}
"""


@pytest.fixture
def file(tmp_path):
    made = tmp_path / "d.json"
    made.write_text(STYLED)
    return made


@pytest.fixture
def editing(file):
    return Editing(load(file))


def ask(editing, place, prompt, merge=None):
    editing.apply(steps.set_field(editing.data, ("items", place), "prompt", prompt), f"prompt {prompt}", merge)


def same_objects(one, other):
    """Whether the data is the same down to the objects its items are, which an undo gives back."""
    return same_data(one, other) and all(map(operator.is_, one["items"], other["items"]))


def in_memory(data, digest="read"):
    return Editing(Document("d.json", json.dumps(data), digest, "document", data))


@given(st.data())
def test_any_edits_can_all_be_taken_back_and_all_be_done_again(data):
    original = data.draw(datasets)
    kept = copy.deepcopy(original)
    editing = in_memory(original)
    reached = [original]
    for number in range(data.draw(st.integers(0, 6))):
        step, *arguments = data.draw(some_step(editing.data))
        try:
            editing.apply(step(editing.data, *arguments), f"step {number}")
        except CannotEdit:
            continue
        if editing.data is not reached[-1]:
            reached.append(editing.data)
    assert editing.dirty == (not same_data(editing.data, original))
    names = []
    for wanted in reversed(reached[:-1]):
        names.append(editing.undo())
        assert same_objects(editing.data, wanted)
    assert editing.undo() is None and not editing.can_undo
    assert same_objects(editing.data, original) and not editing.dirty and editing.changed_items() == frozenset()
    assert same_data(original, kept)
    for wanted in reached[1:]:
        assert editing.redo() == names.pop()
        assert same_objects(editing.data, wanted)
    assert editing.redo() is None and not editing.can_redo


@given(st.data())
def test_changed_items_are_those_that_the_file_does_not_hold(data):
    original = data.draw(datasets)
    editing = in_memory(original)
    for _ in range(data.draw(st.integers(1, 3))):
        step, *arguments = data.draw(some_step(editing.data))
        try:
            editing.apply(step(editing.data, *arguments), "step")
        except CannotEdit:
            continue
    held = [any(same_data(item, saved) for saved in original["items"]) for item in editing.data["items"]]
    changed = editing.changed_items()
    assert {place for place, known in enumerate(held) if not known} <= changed
    known = set(map(id, original["items"]))
    assert not any(id(editing.data["items"][place]) in known for place in changed)
    if changed:
        assert editing.dirty


def test_what_is_typed_in_one_go_is_undone_in_one_go(editing):
    start = editing.data
    for text in ("h", "he", "hel"):
        ask(editing, 0, text, "prompt of A")
    ask(editing, 1, "x", "prompt of B")
    assert editing.undo() == "prompt x"
    assert editing.undo() == "prompt h" and same_objects(editing.data, start)
    assert editing.redo() == "prompt h" and editing.data["items"][0]["prompt"] == "hel"
    ask(editing, 0, "help", "prompt of A")
    editing.undo()
    assert editing.data["items"][0]["prompt"] == "hel"


def test_typing_after_undo_is_a_step_of_its_own(editing):
    ask(editing, 0, "kept")
    ask(editing, 0, "h", "typing")
    editing.undo()
    ask(editing, 0, "he", "typing")
    editing.undo()
    assert editing.data["items"][0]["prompt"] == "kept"


def test_typing_that_ends_where_it_began_leaves_no_step(editing):
    start = editing.data
    ask(editing, 0, "ab", "typing")
    ask(editing, 0, "a", "typing")
    assert same_objects(editing.data, start) and not editing.can_undo and not editing.dirty


def test_a_step_that_changes_nothing_is_none_and_true_is_a_change_of_one(editing):
    version = editing.version
    editing.apply(copy.deepcopy(editing.data), "nothing")
    assert (editing.version, editing.can_undo) == (version, False)
    editing.apply({**editing.data, "ours": {"kept": 1}}, "one")
    editing.apply({**editing.data, "ours": {"kept": True}}, "true")
    assert editing.data["ours"]["kept"] is True and editing.version == version + 2


def test_a_new_step_after_undo_ends_what_could_be_done_again(editing):
    ask(editing, 0, "one")
    editing.undo()
    assert editing.can_redo
    ask(editing, 0, "two")
    assert not editing.can_redo and editing.redo() is None


def test_a_thousand_steps_are_kept(editing):
    for number in range(1010):
        ask(editing, 0, f"{number}")
    count = 0
    while editing.undo():
        count += 1
    assert count == 1000 and editing.data["items"][0]["prompt"] == "9"


def test_an_item_put_back_by_hand_is_no_changed_one_even_when_others_moved_it(editing):
    ask(editing, 1, "other")
    assert editing.changed_items() == {1}
    editing.apply(steps.insert_item(editing.data, 0, steps.new_item()), "new")
    assert editing.changed_items() == {0, 2}
    ask(editing, 2, "b")
    assert editing.changed_items() == {0}
    editing.apply(steps.remove_items(editing.data, [0]), "gone")
    editing.apply(steps.insert_item(editing.data, 2, steps.new_item()), "new at the end")
    ask(editing, 0, "other")
    ask(editing, 0, "a")
    assert editing.changed_items() == {2}
    editing.apply(steps.remove_items(editing.data, [2]), "gone")
    assert editing.changed_items() == frozenset() and not editing.dirty


def test_saving_changes_the_edited_lines_only_and_undo_goes_on_from_there(editing, file):
    ask(editing, 1, "B")
    edited = editing.data
    editing.save()
    assert same_objects(editing.data, edited) and editing.document.data is edited
    assert file.read_text() == STYLED.replace('"b"', '"B"')
    assert not editing.dirty and editing.changed_items() == frozenset()
    assert editing.undo() == "prompt B"
    assert editing.dirty and editing.changed_items() == {1}
    editing.save()
    assert file.read_text() == STYLED
    editing.redo()
    assert editing.data["items"][1]["prompt"] == "B" and editing.dirty


def test_typing_goes_on_in_a_step_of_its_own_after_a_save(editing):
    ask(editing, 0, "saved", "typing")
    editing.save()
    ask(editing, 0, "saved and more", "typing")
    editing.undo()
    assert editing.data["items"][0]["prompt"] == "saved" and not editing.dirty


def test_an_edit_made_while_the_file_is_written_stays_unsaved(editing, file, monkeypatch):
    from tui_evals.datasets import editing as module

    ask(editing, 0, "first")
    real = module.save

    def slow(document, data, **how):
        saved = real(document, data, **how)
        ask(editing, 0, "second")
        return saved

    monkeypatch.setattr(module, "save", slow)
    editing.save()
    assert "first" in file.read_text()
    assert editing.data["items"][0]["prompt"] == "second" and editing.dirty and editing.changed_items() == {0}


def test_a_file_that_changed_meanwhile_is_kept_until_it_is_overwritten(editing, file):
    ask(editing, 0, "mine")
    file.write_text(STYLED.replace('"a"', '"theirs"'))
    with pytest.raises(ChangedOnDisk):
        editing.save()
    assert editing.dirty and "theirs" in file.read_text()
    editing.overwrite()
    assert file.read_text() == STYLED.replace('"a"', '"mine"') and not editing.dirty


def test_reading_again_drops_the_edits_and_undo_brings_them_back_unsaved(editing, file):
    ask(editing, 0, "mine")
    mine, untouched = editing.data, editing.data["items"][1]
    file.write_text(STYLED.replace('"a"', '"theirs"'))
    editing.reload()
    assert editing.data["items"][0]["prompt"] == "theirs" and not editing.dirty
    assert editing.data["items"][1] is untouched
    assert editing.undo() == "reading the file again"
    assert same_objects(editing.data, mine) and editing.dirty and editing.changed_items() == {0}
    editing.save()
    assert "mine" in file.read_text()


def test_reading_again_fails_in_a_sentence_and_loses_nothing(editing, file):
    ask(editing, 0, "mine")
    file.unlink()
    with pytest.raises(DatasetError, match="there is no such file"):
        editing.reload()
    assert editing.dirty and editing.data["items"][0]["prompt"] == "mine"


def test_saved_under_another_name_the_style_goes_with_it_and_the_first_file_stays(editing, file, tmp_path):
    ask(editing, 1, "B")
    with pytest.raises(CannotSave, match="is already there; choose another name"):
        editing.save_as(file)
    other = tmp_path / "new" / "other.json"
    editing.save_as(other)
    assert other.read_text() == STYLED.replace('"b"', '"B"') and file.read_text() == STYLED
    assert editing.document.file == other and not editing.dirty
    ask(editing, 1, "BB")
    editing.save()
    assert "BB" in other.read_text()


@pytest.mark.parametrize("name", ["other.json", "other.csv", "other.jsonl"])
@pytest.mark.parametrize(
    ("first", "text"),
    [
        ("d.csv", "input,reference_output\na,b\n"),
        ("d.json", '[{"prompt": "a", "expected_response": "b"}]'),
        ("d.jsonl", '{"input": "a", "ideal": "b"}\n'),
    ],
)
def test_a_dataset_is_saved_in_the_form_that_the_new_name_says(tmp_path, first, text, name):
    (tmp_path / first).write_text(text)
    editing = Editing(load(tmp_path / first))
    editing.apply(steps.set_field(editing.data, ("items", 0), "prompt", "changed"), "edit")
    assert editing.save_as(tmp_path / name).backup is None
    assert load(tmp_path / name).data["items"] == [{"prompt": "changed", "expected_response": "b"}]
    assert (tmp_path / first).read_text() == text and not editing.dirty


def test_what_a_form_cannot_hold_is_refused_and_nothing_is_written(editing, tmp_path):
    editing.apply(steps.toggle_mode(editing.data, ("items", 0)), "mode")
    for name in ("other.csv", "other.json.gz", "d.json/other.json"):
        with pytest.raises(CannotSave):
            editing.save_as(tmp_path / name)
    assert os.listdir(tmp_path) == ["d.json"] and editing.dirty


def test_what_a_table_leaves_out_is_brought_back_by_undo(tmp_path):
    file = tmp_path / "t.csv"
    file.write_text("input\na\n")
    editing = Editing(load(file))
    editing.apply(steps.set_at(editing.data, ("items", 0, "context"), " "), "blank")
    edited = editing.data
    editing.save()
    assert not editing.dirty and "context" not in editing.data["items"][0]
    assert editing.undo() == "leaving out what the file cannot hold" and same_objects(editing.data, edited)


def test_an_older_shape_is_upgraded_by_the_first_save_and_kept_beside(tmp_path):
    file = tmp_path / "old.json"
    file.write_text('[{"prompt": "a"}]')
    editing = Editing(load(file))
    ask(editing, 0, "b")
    saved = editing.save()
    assert saved.backup is not None and saved.backup.read_text() == '[{"prompt": "a"}]'
    assert saved.document is editing.document and not editing.document.needs_upgrade


def test_half_a_character_cannot_be_saved_and_is_named(tmp_path):
    file = tmp_path / "d.json"
    file.write_text('{"schemaVersion": "1.0.0", "items": [{"prompt": "é"}]}')
    editing = Editing(load(file))
    ask(editing, 0, "\ud800")
    with pytest.raises(CannotSave, match=r"U\+D800"):
        editing.save()
    assert "é" in file.read_text() and os.listdir(tmp_path) == ["d.json"]
    again = Editing(load(file))
    assert editing.draft().isascii()
    again.restore(editing.draft())
    assert again.data["items"][0]["prompt"] == "\ud800"


def test_a_draft_is_taken_up_as_one_step(editing, file):
    editing.apply(steps.insert_item(editing.data, 0, steps.new_item()), "new")
    ask(editing, 1, "typed before the crash")
    draft = editing.draft()
    after = Editing(load(file))
    start = after.data
    after.restore(draft)
    assert same_data(after.data, editing.data) and after.dirty and after.changed_items() == {0, 1}
    assert after.data["items"][2] is start["items"][1]
    assert after.undo() == "recovered edits" and same_objects(after.data, start)


def test_each_draft_holds_the_data_as_it_is_whatever_the_draft_before_held(editing):
    taken = [
        lambda: editing.apply(steps.insert_item(editing.data, 1, steps.new_item()), "new"),
        lambda: ask(editing, 1, "typed"),
        lambda: editing.apply(steps.move_items(editing.data, [0], 1), "move"),
        lambda: editing.apply({**editing.data, "items": "no list"}, "wrong"),
        editing.undo,
        editing.undo,
        editing.forget_draft,
        lambda: editing.apply(steps.remove_items(editing.data, [0]), "remove"),
        editing.redo,
    ]
    for step in taken:
        step()
        assert json.loads(editing.draft()) == editing.data


@pytest.mark.parametrize("text", ["", "[]", '{"items": 1}', '{"items"', '{"items": [NaN]}'])
def test_a_draft_that_is_none_is_left_alone(editing, text):
    start = editing.data
    with pytest.raises(CannotEdit, match="left alone"):
        editing.restore(text)
    assert same_objects(editing.data, start) and not editing.can_undo


def test_a_new_dataset_is_made_by_its_first_save(tmp_path):
    file = tmp_path / "evals" / "new.json"
    editing = Editing.new_file(file)
    assert editing.dirty and editing.changed_items() == {0} and not editing.in_file
    assert [str(one) for one in validate(editing.document, {}).problems] == ["items[0].prompt: must not be empty"]
    assert not editing.document.needs_upgrade
    assert not file.parent.exists()
    saved = editing.save()
    assert saved.backup is None and not editing.dirty and editing.in_file and editing.changed_items() == frozenset()
    assert file.read_text().startswith('{\n  "schemaVersion": "1.11.0",\n  "items": [\n')
    ask(editing, 0, "first")
    editing.save()
    assert load(file).data["items"] == [{"prompt": "first"}]


def test_a_new_dataset_does_not_replace_a_file_that_appeared_meanwhile(tmp_path):
    editing = Editing.new_file(tmp_path / "new.json")
    (tmp_path / "new.json").write_text(STYLED)
    with pytest.raises(ChangedOnDisk, match="has been made by someone else"):
        editing.save()
    assert (tmp_path / "new.json").read_text() == STYLED
    ask(editing, 0, "mine")
    editing.reload()
    assert editing.data["items"][0]["prompt"] == "a" and not editing.dirty
    editing.undo()
    editing.overwrite()
    assert load(tmp_path / "new.json").data["items"] == [{"prompt": "mine"}]


@pytest.mark.parametrize("name", ["new.csv", "new.jsonl", "new.json.gz"])
def test_a_new_dataset_is_an_eval_document(tmp_path, name):
    with pytest.raises(CannotSave, match=r"ends in \.json"):
        Editing.new_file(tmp_path / name)


def test_undo_and_redo_tell_where_one_was(editing):
    editing.apply(steps.duplicate_items(editing.data, [0]), "one", cursor="before one")
    editing.set_cursor("after one")
    editing.apply(steps.remove_items(editing.data, [1]), "two", cursor="before two")
    editing.undo()
    assert editing.cursor == "before two"
    editing.undo()
    assert editing.cursor == "before one"
    editing.redo()
    assert editing.cursor == "after one"
    editing.redo()
    assert editing.cursor == "before two"
    assert editing.redo() is None and editing.cursor is None


@pytest.mark.parametrize(
    ("name", "text"), [("d.csv", "input,reference_output\na,b\n"), ("d.jsonl", '{"input":"a","ideal":"b"}\n')]
)
def test_what_a_table_has_no_place_for_is_not_lost_in_silence(tmp_path, name, text):
    file = tmp_path / name
    file.write_text(text)
    editing = Editing(load(file))
    editing.apply(steps.set_at(editing.data, ("metadata",), {"name": "x"}), "name")
    with pytest.raises(CannotSave, match=r"no place for metadata of the dataset; save it as a \.json file"):
        editing.save()
    assert file.read_text() == text and editing.data["metadata"] == {"name": "x"}
    editing.save_as(tmp_path / "d.json")
    assert json.loads((tmp_path / "d.json").read_text())["metadata"] == {"name": "x"}


def test_a_dataset_whose_file_is_gone_is_written_again_or_goes_on_from_the_file_that_came_back(tmp_path):
    file = tmp_path / "data.json"
    file.write_text(STYLED)
    editing = Editing(load(file))
    assert not editing.note_absence() and not editing.dirty
    file.unlink()
    assert editing.note_absence() and not editing.note_absence(), "said once"
    assert editing.dirty and not editing.in_file and editing.changed_items() and editing.incoming() is None
    editing.save()
    assert file.read_text() == STYLED and not editing.dirty and editing.in_file
    file.unlink()
    assert editing.note_absence()
    file.write_text(STYLED)
    assert editing.incoming() is None and editing.in_file and not editing.dirty
    file.unlink()
    assert editing.note_absence()
    file.write_text('{"items": [{"prompt": "theirs"}]}')
    with pytest.raises(ChangedOnDisk):
        editing.save()
    incoming = editing.incoming()
    assert incoming is not None and incoming.merge is None, "nothing was edited here"
    assert editing.take_up(incoming, incoming.document.data) and not editing.dirty
    assert editing.data["items"] == [{"prompt": "theirs"}]
