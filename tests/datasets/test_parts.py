"""Compound values taken apart: every change of a part gives a value, and what was not touched is as it was."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tui_evals.datasets import fields
from tui_evals.datasets.fields import parts_of, shape_of
from tui_evals.datasets.paths import CannotEdit, rewrite_json, set_at

TEXT = st.text(max_size=8)
LEAF = st.none() | st.booleans() | st.integers() | TEXT | st.lists(TEXT, max_size=2)
MESSAGE = st.fixed_dictionaries({"role": st.sampled_from(fields.ROLES), "content": TEXT}, optional={"name": TEXT})
VALUES = st.one_of(
    st.tuples(st.just("pairs"), st.dictionaries(TEXT, LEAF, min_size=1, max_size=5)),
    st.tuples(st.just("messages"), st.lists(MESSAGE | LEAF, min_size=1, max_size=5)),
    st.tuples(st.just("texts"), st.lists(TEXT, min_size=1, max_size=5)),
    st.tuples(st.just("tools"), st.lists(st.dictionaries(TEXT, LEAF, max_size=2), min_size=1, max_size=5)),
)


@settings(max_examples=60)
@given(VALUES, st.data())
def test_what_is_added_copied_moved_or_taken_away_leaves_the_other_parts_as_they_were(drawn, data):
    shape, value = drawn
    before = json.dumps(value)
    count = len(parts_of(shape, value))
    number = data.draw(st.integers(0, count - 1))
    added = fields.with_new_part(shape, value, number + 1, "a name that is not there")
    assert len(parts_of(shape, added)) == count + 1
    assert same(fields.without_part(shape, added, number + 1), value)
    assert same(fields.without_part(shape, fields.with_copied_part(shape, value, number), number + 1), value)
    if shape != "pairs":
        by = data.draw(st.integers(-6, 6))
        moved = fields.with_moved_part(shape, value, number, by)
        there = min(max(number + by, 0), count - 1)
        assert moved[there] == value[number] and same(
            fields.with_moved_part(shape, moved, there, number - there), value
        )
    assert json.dumps(value) == before


@settings(max_examples=60)
@given(VALUES, TEXT, st.data())
def test_a_part_is_set_where_it_says_it_stands_and_no_byte_beside_it_changes(drawn, text, data):
    shape, value = drawn
    number = data.draw(st.integers(0, len(parts_of(shape, value)) - 1))
    part = parts_of(shape, value)[number]
    changed = set_at({"field": value}, ("field", *part.place), text)["field"]
    assert len(parts_of(shape, changed)) == len(parts_of(shape, value))
    for other, now in zip(parts_of(shape, value), parts_of(shape, changed), strict=True):
        if other.place != part.place:
            assert now == other
    file = json.dumps({"before": [1, 2.50], "field": value}, indent=3)
    saved = rewrite_json(file, {"before": [1, 2.50], "field": changed})
    assert saved.startswith('{\n   "before": [\n      1,\n      2.5\n   ],\n   "field": ')
    assert same(json.loads(saved)["field"], changed)


def same(one, other):
    return json.dumps(one) == json.dumps(other)


def test_a_value_is_taken_apart_by_its_name_or_as_a_list_of_texts():
    assert [shape_of(name, None) for name in ("variables", "messages", "ideal", "tools", "notes")] == [
        "pairs",
        "messages",
        "texts",
        "tools",
        None,
    ]
    assert shape_of("own", ["a", "b"]) == "texts" and shape_of("own", ["a", 1]) is None and shape_of("own", []) is None
    assert shape_of("tags", ["a"]) is None and shape_of("metadata.tags", ["a"]) is None
    assert shape_of("variables", [1]) is None and shape_of("messages", {"role": "user"}) is None


def test_of_a_message_the_text_is_edited_and_of_what_is_no_text_all_of_it():
    called = {"role": "assistant", "content": None, "tool_calls": []}
    blocks = {"role": "user", "content": [{"type": "text", "text": "t"}]}
    made = parts_of("messages", [{"role": "user", "content": "a"}, {"role": "tool"}, called, blocks, 5])
    assert [(part.label, part.place) for part in made] == [
        ("user", (0, "content")),
        ("tool", (1, "content")),
        ("assistant", (2,)),
        ("user", (3,)),
        ("?", (4,)),
    ]
    assert [part.label for part in parts_of("tools", [fields.new_tool(), {"name": "flat"}, {}, 5])] == [
        "function_name",
        "flat",
        "3",
        "4",
    ]


def test_the_role_that_comes_next_is_the_one_of_a_new_message():
    chat = None
    for number in range(3):
        chat = fields.with_new_part("messages", chat, number)
    assert [message["role"] for message in chat] == ["user", "assistant", "user"]
    assert fields.with_next_role([{"content": "x", "role": "user", "name": "n"}], 0) == [
        {"content": "x", "role": "assistant", "name": "n"}
    ]
    with pytest.raises(CannotEdit, match="Press v to fix it"):
        fields.with_next_role([5], 0)


def test_a_name_is_given_once_and_a_renamed_pair_stays_in_its_place():
    pairs = {"a": 1, "b": 2}
    assert list(fields.with_renamed_part(pairs, 0, "c").items()) == [("c", 1), ("b", 2)]
    assert fields.with_renamed_part(pairs, 0, "a") is pairs
    assert fields.with_copied_part("pairs", {"a": 1, "a_2": 2}, 0) == {"a": 1, "a_3": 1, "a_2": 2}
    for name in ("b", " "):
        with pytest.raises(CannotEdit):
            fields.with_renamed_part(pairs, 0, name)
    with pytest.raises(CannotEdit, match="there is a b already"):
        fields.with_new_part("pairs", pairs, 0, "b")
    with pytest.raises(CannotEdit, match="order"):
        fields.with_moved_part("pairs", pairs, 0, 1)
    assert fields.without_part("pairs", {"a": 1}, 0) is None
