"""One spelling for JSON, and where two values differ."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tui_evals.compare.diff import MAX_DEPTH, JsonChange, canonical_lines, json_changes

values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-3, 3)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text("ab.'\"\n"),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text("ab '", max_size=2), inner, max_size=4),
    max_leaves=12,
)


def reordered(value):
    if isinstance(value, dict):
        return {key: reordered(value[key]) for key in reversed(value)}
    return [reordered(one) for one in value] if isinstance(value, list) else value


def spelled(value):
    return json.dumps(value, sort_keys=True)


def test_a_value_a_line_with_sorted_keys_and_no_commas():
    assert canonical_lines({"b": [1, {}], "a": "x\ny"}) == [
        "{\n",
        '  "a": "x\\ny"\n',
        '  "b": [\n',
        "    1\n",
        "    {}\n",
        "  ]\n",
        "}\n",
    ]


@given(values)
def test_key_order_makes_no_difference(value):
    assert canonical_lines(value) == canonical_lines(reordered(value))
    assert not list(json_changes(value, reordered(value)))


@given(values, values)
def test_there_are_changes_exactly_where_the_lines_differ(left, right):
    assert (
        bool(list(json_changes(left, right)))
        == (canonical_lines(left) != canonical_lines(right))
        == (spelled(left) != spelled(right))
    )


@given(values, values)
def test_changes_are_symmetric(left, right):
    swap = {"changed": "changed", "removed": "added", "added": "removed"}
    assert [JsonChange(one.path, swap[one.kind]) for one in json_changes(left, right)] == list(
        json_changes(right, left)
    )


@pytest.mark.parametrize(
    ("left", "right", "found"),
    [
        ({"a": 1}, {"a": 2}, [("$.a", "changed")]),
        ({"a": 1}, {"b": 1}, [("$.a", "removed"), ("$.b", "added")]),
        ([1, [2, 3]], [1, [2], 4], [("$[1][1]", "removed"), ("$[2]", "added")]),
        ({"a": {"b c": [True]}}, {"a": {"b c": [1]}}, [("$.a['b c'][0]", "changed")]),
        ({"a": 1}, {"a": 1.0}, [("$.a", "changed")]),
        ([], {}, [("$", "changed")]),
        ({"": None}, {"": 0}, [("$['']", "changed")]),
        ({"a": {"x": 1}, "b": {}}, {"a": {}, "b": {"x": 1}}, [("$.a.x", "removed"), ("$.b.x", "added")]),
    ],
)
def test_paths(left, right, found):
    assert [(one.path, one.kind) for one in json_changes(left, right)] == found


def test_what_is_deeper_than_the_levels_stands_on_one_line():
    left, right = 1, 2
    for _ in range(MAX_DEPTH + 10):
        left, right = [left], [right]
    assert len(canonical_lines(left)) == 2 * MAX_DEPTH + 1
    assert [one.path for one in json_changes(left, right)] == ["$" + "[0]" * MAX_DEPTH]
