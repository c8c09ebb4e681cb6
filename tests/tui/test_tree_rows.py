"""The dataset tree as rows, without a screen."""

import re
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tui_evals.datasets.paths import Problem
from tui_evals.present.columns import cell_width
from tui_evals.store.filters import FilterError
from tui_evals.text.safe import safe_line
from tui_evals.tui.latest_statuses import item_key
from tui_evals.tui.tree.rows import (
    DATASET,
    OtherDataset,
    Tree,
    TreeRows,
    TreeShape,
    first_page,
    follow_items,
    items_by_category,
    parent_row,
    preview,
    problem_counts,
    row_keys,
)

ITEMS = [
    {"testId": "MT-1", "prompt": "Hello there", "category": "Safety", "tags": ["smoke"]},
    {"turns": [{"prompt": "first question"}, {"prompt": "second"}]},
    {"testId": "MT-3", "prompt": "Bye", "category": "Tone"},
    {"testId": "MT-4", "prompt": "Again", "category": "Safety"},
]


def laid(shape=None, items=ITEMS, keep=None, **given):
    shape = shape or TreeShape()
    shape.lay(items, keep)
    shown = {"groups": shape.groups, "folded": shape.folded, "shut": shape.shut}
    return Tree("d.json", False, items, shape.keys, shape.names, **shown, **given)


def texts(tree, width=60):
    return ["".join(piece.text for piece in row.pieces) for row in TreeRows(tree, width)]


def line(tree, key, width=60):
    rows = TreeRows(tree, width)
    return texts(tree, width)[rows.find(key)]


def test_units_stand_below_the_dataset_and_their_keys_are_their_paths():
    assert [row.key for row in TreeRows(laid(), 60)] == [
        (),
        ("items", 0),
        ("items", 1),
        ("items", 1, "turns", 0),
        ("items", 1, "turns", 1),
        ("items", 2),
        ("items", 3),
    ]


def test_every_key_is_found_at_its_row():
    tree = laid(TreeShape(by_category=True), others=[OtherDataset("/x/b.json", "b.json", False)])
    rows = TreeRows(tree, 60)
    for number, row in enumerate(rows):
        if row.key is not None:
            assert rows.find(row.key) == number
    assert rows.find(("items", 99)) is None
    assert rows[-1].key == ("open", "/x/b.json")
    assert [row.key for row in rows[1:3]] == [("category", "Safety"), ("items", 0)]


def test_an_item_shows_its_name_prompt_problems_and_how_it_did():
    tree = laid(
        changed={0},
        marks={0},
        problems=problem_counts([Problem("bad", ("items", 0, "prompt")), Problem("worse", ("items", 0))]),
        statuses={"MT-1": "fail"},
    )
    shown = line(tree, ("items", 0))
    assert shown.startswith("▪•  MT-1 Hello there")
    assert shown.endswith("!2 ✗ fail    ")
    assert line(tree, ("items", 2)).startswith("    MT-3 Bye")
    assert "fail" not in line(tree, ("items", 2))


def test_an_item_without_a_name_is_called_by_its_position():
    assert line(laid(TreeShape(folded=frozenset({1}))), ("items", 1)).startswith("  ▸ #2   2 turns · first question")


def test_an_unfolded_conversation_does_not_say_its_first_prompt_twice():
    assert line(laid(), ("items", 1)).split() == ["▾", "#2", "2", "turns"]
    turns = {"turns": [{"prompt": "hello"}], "name": "A greeting"}
    assert preview(turns, whole=False) == ("1 turn · A greeting", "dim")
    assert preview(turns) == ("1 turn · hello", "dim")


def test_an_item_with_a_simulated_user_says_what_the_user_wants():
    assert preview({"user": {"goal": "a\n refund"}, "name": "Maud"}) == ("a user: a refund", "dim")


def test_items_of_which_none_has_a_category_stand_in_no_groups():
    shape = TreeShape(by_category=True)
    shape.lay([{"prompt": "a"}, {"prompt": "b"}], None)
    assert shape.groups is None and list(shape.keys) == [("items", 0), ("items", 1)]


def test_the_dataset_shows_its_file_its_size_and_its_errors():
    tree = laid(
        problems=problem_counts([Problem("no name", ("metadata",)), Problem("hm", ("items", 0), severity="warning")])
    )
    assert line(tree, DATASET) == "  d.json 4 items !1"
    assert line(laid(filtered=2), DATASET) == "  d.json 2 of 4 items"


def test_errors_of_a_turn_count_for_its_item_and_the_dataset():
    found = problem_counts([Problem("x", ("items", 1, "turns", 0, "prompt")), Problem("y", ("items", 1, "turns", 1))])
    assert found == {(): 2, ("items", 1): 2, ("items", 1, "turns", 0): 1, ("items", 1, "turns", 1): 1}


def test_groups_come_in_order_of_appearance_and_items_without_category_last():
    assert items_by_category(ITEMS, range(4)) == {"Safety": [0, 3], "Tone": [2], "": [1]}
    keys = row_keys(
        [0, 2, 0, 0],
        range(4),
        groups=items_by_category(ITEMS, range(4)),
        shut=frozenset({"Safety"}),
        folded=frozenset({1}),
    )
    assert list(keys) == [("category", "Safety"), ("category", "Tone"), ("items", 2), ("category", ""), ("items", 1)]


def test_a_category_shows_how_many_it_has_and_a_mark_when_all_of_them_are_marked():
    tree = laid(TreeShape(by_category=True), marks={0, 3})
    assert line(tree, ("category", "Safety")) == "▪ ▾ Safety 2"
    assert line(tree, ("category", "Tone")) == "  ▾ Tone 1"
    assert line(tree, ("category", "")) == "  ▾ no category 1"


def filtered(words, items=ITEMS, **given):
    shape = TreeShape(**given)
    shape.follow(items)
    shape.filter(words)
    return shape


def test_a_filter_keeps_the_item_one_is_in_on_screen():
    shape = filtered("smoke")
    shape.lay(ITEMS, keep=2)
    assert list(shape.keys) == [("items", 0), ("items", 2)]
    assert list(shape.shown) == [0]
    assert shape.hides(2)
    assert not shape.hides(0)


def test_a_filter_reads_a_changed_item_anew():
    shape = filtered("bye")
    assert shape.shown == [2]
    items = list(ITEMS)
    items[2] = {**items[2], "prompt": "Good evening"}
    shape.lay(items, None)
    assert shape.shown == []


def test_a_filter_for_a_status_looks_at_how_items_did_last():
    statuses = {"MT-1": "fail", item_key(ITEMS[1]): "pass"}
    assert filtered("fail", statuses=statuses).shown == [0]
    shape = filtered("!status:pass", statuses=statuses)
    assert shape.shown == [0, 2, 3]
    statuses["MT-4"] = "pass"
    shape.lay(ITEMS, None)
    assert shape.shown == [0, 2]


def test_a_filter_that_cannot_be_read_leaves_everything_as_it_was():
    shape = filtered("bye")
    with pytest.raises(FilterError):
        shape.filter("category:")
    assert (shape.words, shape.shown) == ("bye", [2])


def test_folds_go_along_with_items_that_move():
    one, two, three = ({"turns": [{}]} for _ in range(3))
    assert follow_items(frozenset({1}), [one, two], [three, one, two]) == {2}
    assert follow_items(frozenset({1}), [one, two], [one, three]) == {1}
    assert follow_items(frozenset({1}), [one, two], [one]) == frozenset()


def test_a_place_that_is_folded_is_stood_for_by_what_it_is_folded_into():
    shape = TreeShape(by_category=True)
    shape.lay(ITEMS, None)
    assert shape.row_for(("items", 1, "turns", 1)) == ("items", 1, "turns", 1)
    assert shape.fold(("items", 1))
    assert shape.row_for(("items", 1, "turns", 1)) == ("items", 1)
    assert shape.fold(("category", "Safety"))
    assert shape.row_for(("items", 3)) == ("category", "Safety")
    assert shape.row_for(("items", 9)) == DATASET


def test_the_dataset_folds_and_unfolds_everything():
    shape = TreeShape()
    shape.lay(ITEMS, None)
    assert shape.fold(DATASET)
    assert shape.folded == {1}
    assert not shape.fold(DATASET)
    assert shape.unfold(DATASET)
    assert not shape.folded


def test_what_a_row_belongs_to():
    assert parent_row(("items", 1, "turns", 0), ITEMS, True) == ("items", 1)
    assert parent_row(("items", 0), ITEMS, True) == ("category", "Safety")
    assert parent_row(("items", 0), ITEMS, False) == DATASET
    assert parent_row(("category", "Safety"), ITEMS, True) == DATASET


def test_an_empty_pane_says_what_belongs_here_and_the_keys():
    told = "\n".join("".join(piece.text for piece in row.pieces) for row in first_page([], 40))
    assert "Welcome" in told and "sample project" in told
    assert re.findall(r"^ (\S+)", told, re.MULTILINE) == ["ctrl+n", "O", "8", "P", "?"]
    rows = first_page([OtherDataset("/x/b.json", "b.json", True)], 40)
    first, *steps = [row.key for row in rows if row.key]
    assert first == ("open", "/x/b.json") and steps[0].name == "new_dataset"
    assert "sample" not in [step.name for step in steps]


@pytest.mark.parametrize("width", [20, 38, 76, 120])
@pytest.mark.parametrize("others", [[], [OtherDataset("/x/b.json", "日本" * 40, True)]])
def test_the_first_page_fits_its_pane(width, others):
    for row in first_page(others, width):
        assert sum(cell_width(safe_line(piece.text)) for piece in row.pieces) <= width


def test_what_an_item_without_a_prompt_asks_is_shown_otherwise():
    items = [{"variables": {"city": "Oslo", "n": 3}}, {}, "no object", {"turns": []}, {"turns": "?"}, {"prompt": 5}]
    shown = texts(laid(items=items))
    assert "city: Oslo, n: 3" in shown[1]
    assert "no prompt yet" in shown[2]
    assert "no object; fix it in the file" in shown[3]
    assert "0 turns" in shown[4]
    assert "no prompt yet" in shown[5]
    assert "no prompt yet" in shown[6]


def test_items_are_known_again_by_name_else_by_what_they_ask():
    assert item_key(ITEMS[0]) == "MT-1"
    assert item_key(ITEMS[1]) == item_key({**ITEMS[1], "category": "Tone"})
    assert item_key(ITEMS[1]) != item_key({"turns": [{"prompt": "first question"}]})
    assert item_key("no object") is None


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)
fields = st.sampled_from(["testId", "prompt", "category", "tags", "turns", "variables", "name", "messages"])
units = st.dictionaries(fields, json_values, max_size=5) | json_values


@given(st.lists(units, max_size=5), st.booleans(), st.integers(38, 90), st.text(max_size=3))
def test_whatever_a_dataset_holds_each_row_fits_the_width(items, by_category, width, words):
    statuses = {item_key(item): "answered" for item in items}
    shape = TreeShape(by_category=by_category)
    with suppress(FilterError):
        shape.filter(words)
    tree = laid(shape, items, keep=0 if items else None, statuses=statuses)
    for text in texts(tree, width):
        assert cell_width(safe_line(text)) <= width


@pytest.mark.parametrize("width", [40, 80, 120])
def test_names_that_begin_alike_keep_what_tells_them_apart(width):
    items = [{"testId": f"policy-case-{number:04}", "prompt": "Is it allowed?"} for number in range(40)]
    tree = laid(items=items, statuses={"policy-case-0033": "pass"})
    assert line(tree, ("items", 33), width).startswith("  …-0033 Is it allowed?")
    assert line(tree, ("items", 33), width).endswith(" ✓ pass    ")
