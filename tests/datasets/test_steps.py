"""Steps change what they are asked to change, share the rest, and keep a valid dataset valid."""

import copy
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tui_evals.datasets import steps
from tui_evals.datasets.document import Document
from tui_evals.datasets.model import Dataset, Item, Turn
from tui_evals.datasets.paths import DOCUMENT_FIELDS, UNIT_FIELDS, CannotEdit, same_data
from tui_evals.datasets.resolve import effective_evaluators
from tui_evals.datasets.validate import validate

EVALUATORS = ("Relevance", "Coherence", "Equals")
DEFAULTS = ("default_evaluators",)


def dataset(*items, **more):
    return {"schemaVersion": "1.11.0", **more, "items": list(items)}


def errors(data):
    document = Document(Path("d.json"), json.dumps(data), "", "document", data)
    return [str(found) for found in validate(document, {}, EVALUATORS).problems if found.severity == "error"]


def prompts(data):
    return "".join(item["prompt"] for item in data["items"])


options = st.fixed_dictionaries({}, optional={"threshold": st.sampled_from([0.0, 1.0, 0.5])})
evaluators = st.dictionaries(st.sampled_from(EVALUATORS), options, max_size=2)
said = st.text(alphabet="ab \n", min_size=1, max_size=3)
on_turns = {
    "expected_response": said,
    "context": said,
    "evaluators": evaluators,
    "evaluators_mode": st.sampled_from(["extend", "replace"]),
    "allowed_tools": st.lists(st.just("search"), max_size=1),
    "ideal": st.lists(said, max_size=2),
    "response": said,
    "status": st.sampled_from(["pass", "fail"]),
    "scores": st.just({"Equals": {"result": "pass"}}),
}
on_items = {
    "testId": st.sampled_from(["A", "B"]),
    "category": said,
    "notes": said,
    "variables": st.dictionaries(said, said, max_size=1),
    "messages": st.lists(st.just({"role": "user", "content": "hi"}), max_size=1),
    "tags": st.lists(said, max_size=1),
    "extensions": st.dictionaries(said, st.integers(), max_size=1),
    "weight": st.just(0.5),
}
turns = st.fixed_dictionaries({"prompt": said}, optional=on_turns)
singles = st.fixed_dictionaries({"prompt": said}, optional={**on_turns, **on_items})
conversations = st.fixed_dictionaries({"turns": st.lists(turns, min_size=1, max_size=3)}, optional=on_items)
datasets = st.builds(
    lambda items, more: {"schemaVersion": "1.11.0", **more, "items": items},
    st.lists(singles | conversations, min_size=1, max_size=4),
    st.fixed_dictionaries({}, optional={"default_evaluators": evaluators, "mine": st.just([1])}),
)


def a_unit(draw, data):
    number = draw(st.integers(0, len(data["items"])))
    places = st.just(("items", number)) | st.builds(lambda turn: ("items", number, "turns", turn), st.integers(0, 2))
    return draw(places)


@st.composite
def some_step(draw, data):
    """One step with arguments, many of which do not fit."""
    number = draw(st.integers(0, len(data["items"])))
    chosen = draw(st.sets(st.integers(0, len(data["items"])), max_size=3))
    unit, turn, by = a_unit(draw, data), draw(st.integers(0, 3)), draw(st.sampled_from([-1, 1]))
    where, key = draw(st.just(DEFAULTS) | st.just(unit)), draw(st.sampled_from(EVALUATORS))
    given_options = draw(options)
    name = draw(st.sampled_from(["expected_response", "notes", "context"]))
    value = draw(said | st.sampled_from(["", None]))
    return draw(
        st.sampled_from(
            [
                (steps.insert_item, number, draw(singles | conversations)),
                (steps.remove_items, chosen),
                (steps.move_items, chosen, by),
                (steps.duplicate_items, chosen),
                (steps.insert_turn, number, turn, draw(turns)),
                (steps.remove_turn, number, turn),
                (steps.move_turn, number, turn, by),
                (steps.duplicate_turn, number, turn),
                (steps.to_conversation, number),
                (steps.to_single, number),
                (steps.set_field, unit, name, value),
                (steps.set_field, unit, "prompt", draw(said)),
                (steps.add_evaluator, where, key, given_options),
                (steps.override_evaluator, unit, key, given_options),
                (steps.remove_evaluator, where, key),
                (steps.write_options, where, key, given_options),
                (steps.toggle_mode, unit),
            ]
        )
    )


@given(st.data())
def test_no_step_makes_a_valid_dataset_invalid_or_touches_what_it_is_given(data):
    before = data.draw(datasets)
    step, *arguments = data.draw(some_step(before))
    assert errors(before) == []
    kept = copy.deepcopy((before, arguments))
    try:
        after = step(before, *arguments)
    except CannotEdit as refused:
        assert str(refused)
        after = before
    assert same_data([before, arguments], list(kept))
    assert errors(after) == []


@given(st.data())
def test_a_step_on_one_item_shares_all_others(data):
    before = data.draw(datasets)
    number = data.draw(st.integers(0, len(before["items"]) - 1))
    for step in (steps.to_conversation, steps.to_single, lambda d, n: steps.set_field(d, ("items", n), "notes", "new")):
        try:
            after = step(before, number)
        except CannotEdit:
            continue
        assert after is not before and after["items"][number] is not before["items"][number]
        others = [place for place in range(len(before["items"])) if place != number]
        assert all(after["items"][place] is before["items"][place] for place in others)


@given(singles)
def test_a_single_prompt_made_a_conversation_and_back_is_as_it_was(item):
    data = dataset(item)
    there = steps.to_conversation(data, 0)
    assert errors(there) == [] and set(there["items"][0]) <= {*on_items, "turns"}
    assert same_data(steps.to_single(there, 0), data)


@given(turns, st.fixed_dictionaries({}, optional=on_items))
def test_a_conversation_of_one_turn_made_a_single_prompt_and_back_is_as_it_was(turn, rest):
    data = dataset({**rest, "turns": [turn]})
    assert same_data(steps.to_conversation(steps.to_single(data, 0), 0), data)


def test_known_fields_have_a_place_each():
    assert set(UNIT_FIELDS) == Item.model_fields.keys() | Turn.model_fields.keys()
    assert set(DOCUMENT_FIELDS) == Dataset.model_fields.keys()
    assert len(set(UNIT_FIELDS)) == len(UNIT_FIELDS)


def test_new_fields_take_their_natural_place_and_known_ones_keep_theirs():
    data = dataset({"x_mine": 1, "expected_response": "e", "prompt": "p"})
    for name in ("notes", "testId", "category"):
        data = steps.set_field(data, ("items", 0), name, name)
    assert list(data["items"][0]) == ["testId", "category", "x_mine", "expected_response", "notes", "prompt"]
    changed = steps.set_field(data, ("items", 0), "prompt", "other")
    assert list(changed["items"][0]) == list(data["items"][0])
    turn = steps.set_field(dataset({"turns": [{"prompt": "p"}]}), ("items", 0, "turns", 0), "messages", [])
    assert list(turn["items"][0]["turns"][0]) == ["messages", "prompt"]
    assert list(steps.set_at(data, DEFAULTS, {})) == ["schemaVersion", "default_evaluators", "items"]
    assert list(steps.set_at(data, ("mine", "deeper"), 1)) == ["schemaVersion", "items", "mine"]


def test_setting_what_is_there_already_changes_nothing_and_true_is_not_one():
    data = dataset({"prompt": "p", "repeats": 1})
    assert steps.set_field(data, ("items", 0), "prompt", "p") is data
    assert steps.remove_at(data, ("items", 0, "absent")) is data
    assert steps.set_at(data, ("items", 0, "repeats"), True)["items"][0]["repeats"] is True
    assert not same_data(1, True) and not same_data([1.0], [1]) and same_data({"a": 1, "b": 2}, {"b": 2, "a": 1})


def test_a_path_that_leads_nowhere_is_a_sentence():
    data = dataset({"prompt": "p"})
    assert steps.get_at(data, ("items", 0, "prompt", "deeper")) is None
    assert steps.get_at(data, ("items", -1)) is None
    for path in [
        ("items", 1, "prompt"),
        ("items", -1, "prompt"),
        ("items", "x"),
        ("items", 0, "prompt", "deeper"),
        (0,),
    ]:
        with pytest.raises(CannotEdit, match=r"not in the list|holds nothing"):
            steps.set_at(data, path, "x")
    with pytest.raises(CannotEdit, match=r"items\[7\] cannot be edited: there is none"):
        steps.set_field(data, ("items", 7), "notes", "x")
    with pytest.raises(CannotEdit, match="no list of items"):
        steps.remove_items({"items": "broken"}, [0])
    with pytest.raises(CannotEdit, match="is not an object"):
        steps.set_field(dataset("broken"), ("items", 0), "notes", "x")


def test_an_emptied_field_is_gone_but_a_prompt_that_is_needed_stays_empty():
    data = dataset({"prompt": "p", "notes": "n", "evaluators": {}, "evaluators_mode": "replace"})
    assert "notes" not in steps.set_field(data, ("items", 0), "notes", "")["items"][0]
    assert set(steps.set_field(data, ("items", 0), "evaluators", None)["items"][0]) == {"prompt", "notes"}
    assert steps.set_field(data, ("items", 0), "prompt", None)["items"][0]["prompt"] == ""
    asked_by_dataset = {**data, "prompt_file": "ask.prompty"}
    assert "prompt" not in steps.set_field(asked_by_dataset, ("items", 0), "prompt", "")["items"][0]
    talk = {**asked_by_dataset, "items": [{"turns": [{"prompt": "p"}]}]}
    assert steps.set_field(talk, ("items", 0, "turns", 0), "prompt", "")["items"][0]["turns"][0] == {"prompt": ""}


def test_fields_are_set_where_they_belong():
    data = dataset({"turns": [{"prompt": "p"}]})
    with pytest.raises(CannotEdit, match="belongs to the turns"):
        steps.set_field(data, ("items", 0), "expected_response", "x")
    with pytest.raises(CannotEdit, match="'notes' belongs to the item as a whole"):
        steps.set_field(data, ("items", 0, "turns", 0), "notes", "x")
    for step in (
        lambda: steps.toggle_mode(data, ("items", 0)),
        lambda: steps.override_evaluator(data, ("items", 0), "A", {}),
    ):
        with pytest.raises(CannotEdit, match="choose the turn"):
            step()


@pytest.mark.parametrize(
    ("positions", "by", "order"),
    [
        ([1], -1, "bacde"),
        ([0, 1], 1, "cabde"),
        ([0, 3], 1, "baced"),
        ([0, 3], -1, "abcde"),
        ([4], 1, "abcde"),
        ([1, 2], 9, "adebc"),
        ([], 1, "abcde"),
    ],
)
def test_marked_items_move_together_and_stop_at_the_ends(positions, by, order):
    data = dataset(*({"prompt": name} for name in "abcde"))
    moved = steps.move_items(data, positions, by)
    assert prompts(moved) == order
    assert (moved is data) == (order == "abcde")


def test_the_last_item_and_the_last_turn_cannot_be_removed():
    data = dataset({"turns": [{"prompt": "a"}]}, {"prompt": "b"})
    with pytest.raises(CannotEdit, match="at least one item"):
        steps.remove_items(data, [0, 1])
    with pytest.raises(CannotEdit, match="at least one turn"):
        steps.remove_turn(data, 0, 0)
    with pytest.raises(CannotEdit, match="no item 2 any more"):
        steps.remove_items(data, [2])
    assert steps.remove_items(data, [1])["items"] == [data["items"][0]]


def test_copies_stand_after_their_originals_under_names_of_their_own_without_results():
    done = {"response": "r", "status": "pass", "scores": {}, "citations": [], "diagnostics": {}}
    data = dataset(
        {"testId": "X", "prompt": "a", **done},
        {"testId": "X-copy", "turns": [{"prompt": "b", **done}], "summary": {}, "conversation_id": "c"},
        {"prompt": "c"},
    )
    copied = steps.duplicate_items(data, [0, 1, 2])["items"]
    assert copied[::2] == data["items"]
    assert copied[1::2] == [
        {"testId": "X-copy2", "prompt": "a"},
        {"testId": "X-copy3", "turns": [{"prompt": "b"}]},
        {"prompt": "c"},
    ]
    twice = steps.duplicate_turn(data, 1, 0)["items"][1]["turns"]
    assert twice == [data["items"][1]["turns"][0], {"prompt": "b"}]


def test_a_conversation_grows_to_as_many_turns_as_the_format_takes():
    data = dataset({"turns": [{"prompt": "a"}] * (steps.MAX_TURNS - 1)})
    full = steps.insert_turn(data, 0, 9_999, {"prompt": "z"})
    assert full["items"][0]["turns"][-1] == {"prompt": "z"} and errors(full) == []
    with pytest.raises(CannotEdit, match="at most 2,000 turns"):
        steps.duplicate_turn(full, 0, 0)
    more = steps.set_at(full, ("items", 0, "turns"), [{"prompt": "a"}] * (steps.MAX_TURNS + 1))
    assert errors(more) != []


def test_turns_move_within_their_conversation():
    data = dataset({"turns": [{"prompt": name} for name in "abc"]})
    moved = steps.move_turn(data, 0, 0, 1)
    assert [turn["prompt"] for turn in moved["items"][0]["turns"]] == ["b", "a", "c"]
    assert steps.move_turn(data, 0, 2, 1) is data
    with pytest.raises(CannotEdit, match="make it a conversation first"):
        steps.move_turn(dataset({"prompt": "a"}), 0, 0, 1)


def test_a_conversation_of_several_turns_does_not_become_a_single_prompt():
    data = dataset({"turns": [{"prompt": name} for name in "abc"]})
    with pytest.raises(CannotEdit, match="the 2 turns after the first would be lost"):
        steps.to_single(data, 0)
    with pytest.raises(CannotEdit, match="the turn after the first would be lost"):
        steps.to_single(steps.remove_turn(data, 0, 2), 0)
    with pytest.raises(CannotEdit, match="conversation already"):
        steps.to_conversation(data, 0)
    with pytest.raises(CannotEdit, match="has no prompt"):
        steps.to_conversation(dataset({"messages": []}), 0)


def test_what_an_item_and_its_turn_both_hold_is_joined_or_refused():
    turn = {"prompt": "p", "messages": [{"role": "user", "content": "2"}], "tags": ["b", "a"], "extensions": {"y": 2}}
    item = {"messages": [{"role": "user", "content": "1"}], "tags": ["a"], "extensions": {"x": 1}, "turns": [turn]}
    single = steps.to_single(dataset(item), 0)["items"][0]
    assert [message["content"] for message in single["messages"]] == ["1", "2"]
    assert (single["tags"], single["extensions"]) == (["a", "b"], {"x": 1, "y": 2})
    repeated = steps.to_single(dataset({**item, "messages": turn["messages"]}), 0)["items"][0]
    assert [message["content"] for message in repeated["messages"]] == ["2", "2"]
    clash = {**item, "extensions": {"y": 1}}
    with pytest.raises(CannotEdit, match="both have 'y'"):
        steps.to_single(dataset(clash), 0)


def test_toggling_goes_between_extend_and_replace_and_leaves_nothing_idle_behind():
    unit = ("items", 0)
    bare = dataset({"prompt": "p"})
    replacing = steps.toggle_mode(bare, unit)
    assert replacing["items"][0] == {"prompt": "p", "evaluators": {}, "evaluators_mode": "replace"}
    assert steps.toggle_mode(replacing, unit) == bare
    own = dataset({"prompt": "p", "evaluators": {"Equals": {}}, "evaluators_mode": "extend"})
    replacing = steps.toggle_mode(own, unit)
    assert replacing["items"][0]["evaluators_mode"] == "replace"
    assert steps.toggle_mode(replacing, unit)["items"][0] == {"prompt": "p", "evaluators": {"Equals": {}}}


def test_a_mode_that_has_no_effect_is_no_replacing():
    idle = dataset({"prompt": "p", "evaluators_mode": "replace"})
    assert steps.toggle_mode(idle, ("items", 0))["items"][0]["evaluators"] == {}


@given(datasets, st.data())
def test_toggling_changes_what_judges_as_resolution_says(data, more):
    place = more.draw(st.integers(0, len(data["items"]) - 1))
    path = ("items", place, "turns", 0) if "turns" in data["items"][place] else ("items", place)

    def judges(of):
        unit = steps.get_at(of, path)
        found = effective_evaluators(
            of.get("default_evaluators"), unit.get("evaluators"), unit.get("evaluators_mode"), "item"
        )
        return {entry.key: entry.options for entry in found}

    own = steps.get_at(data, (*path, "evaluators")) or {}
    toggled = steps.toggle_mode(data, path)
    one, other = judges(data), judges(toggled)
    assert own in (one, other) and judges(steps.toggle_mode(toggled, path)) == one


def test_the_first_evaluator_of_a_dataset_joins_those_that_judged_before():
    data = steps.add_evaluator(dataset({"prompt": "p"}), DEFAULTS, "Equals", {"value": "x"})
    assert data["default_evaluators"] == {"Relevance": {}, "Coherence": {}, "Equals": {"value": "x"}}
    assert list(steps.remove_evaluator(dataset({"prompt": "p"}), DEFAULTS, "Relevance")["default_evaluators"]) == [
        "Coherence"
    ]
    none = dataset({"prompt": "p"}, default_evaluators={"Equals": {}})
    assert steps.remove_evaluator(none, DEFAULTS, "Equals")["default_evaluators"] == {}
    with pytest.raises(CannotEdit, match=r"'Equals' is not written on the dataset$"):
        steps.remove_evaluator(dataset(), DEFAULTS, "Equals")


def test_own_evaluators_are_added_changed_and_removed():
    unit = ("items", 0)
    data = steps.add_evaluator(dataset({"prompt": "p"}), unit, "Equals", {"value": "x"})
    with pytest.raises(CannotEdit, match="'Equals' is here already"):
        steps.add_evaluator(data, unit, "Equals", {})
    data = steps.write_options(data, unit, "Equals", {"threshold": 0.5})
    assert data["items"][0]["evaluators"] == {"Equals": {"threshold": 0.5}}
    assert steps.remove_evaluator(data, unit, "Equals")["items"][0] == {"prompt": "p"}
    replacing = steps.toggle_mode(data, unit)
    emptied = steps.remove_evaluator(replacing, unit, "Equals")["items"][0]
    assert emptied == {"prompt": "p", "evaluators": {}, "evaluators_mode": "replace"}


def test_an_inherited_evaluator_is_written_out_before_it_is_changed():
    unit = ("items", 0)
    data = dataset({"prompt": "p"}, default_evaluators={"Equals": {"value": "x"}})
    with pytest.raises(CannotEdit, match="switch to replace"):
        steps.remove_evaluator(data, unit, "Equals")
    changed = steps.write_options(data, unit, "Equals", {"value": "x", "threshold": 0.5})
    assert changed["items"][0]["evaluators"] == {"Equals": {"value": "x", "threshold": 0.5}}
    assert changed["default_evaluators"] is data["default_evaluators"]
    assert steps.override_evaluator(changed, unit, "Equals", {}) is changed


def test_what_is_added_does_not_change_with_what_it_was_made_of():
    given_options = {"value": "x"}
    data = steps.add_evaluator(dataset({"prompt": "p"}), DEFAULTS, "Equals", given_options)
    given_options["value"] = "y"
    assert data["default_evaluators"]["Equals"] == {"value": "x"}


def test_items_are_inserted_where_asked_or_at_the_nearest_end():
    data = dataset({"prompt": "a"}, {"prompt": "b"})
    placed = {place: prompts(steps.insert_item(data, place, {"prompt": "-"})) for place in (-1, 0, 1, 2, 9)}
    assert placed == {-1: "-ab", 0: "-ab", 1: "a-b", 2: "ab-", 9: "ab-"}


def test_a_new_item_is_valid_once_its_prompt_is_written():
    new = dataset(steps.new_item())
    assert errors(new) == ["items[0].prompt: must not be empty"]
    assert errors(steps.set_field(new, ("items", 0), "prompt", "What?")) == []
