import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tui_evals.datasets.paths import Layout, rewrite_json

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(max_size=5), inner, max_size=5),
    max_leaves=20,
)
styles = st.fixed_dictionaries(
    {
        "indent": st.sampled_from([None, 0, 1, 2, 4, "\t"]),
        "ensure_ascii": st.booleans(),
        "separators": st.sampled_from([None, (",", ":"), (" , ", " : ")]),
    }
)


def strictly_equal(one: object, other: object) -> bool:
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)


@given(values, styles)
def test_an_unchanged_value_keeps_its_text_to_the_byte(value, style):
    text = "\n " + json.dumps(value, **style) + "\n\n"
    assert rewrite_json(text, json.loads(text)) == text


@given(values, values, styles, st.sampled_from(["\n", "\r\n"]))
def test_a_rewritten_text_holds_the_new_value(old, new, style, newline):
    text = json.dumps(old, **style).replace("\n", newline) + newline
    assert strictly_equal(json.loads(rewrite_json(text, new)), new)


@given(st.lists(values, min_size=1, max_size=6), st.data())
def test_editing_one_element_leaves_the_text_of_the_others(elements, data):
    place = data.draw(st.integers(0, len(elements) - 1))
    changed = [*elements[:place], {"edited": True}, *elements[place + 1 :]]
    before = json.dumps(elements, indent=4).split("\n    ")
    text = json.dumps(elements, indent=4)
    after = rewrite_json(text, changed)
    kept = [line for number, line in enumerate(before[1:]) if number < place and len(before) == len(elements) + 1]
    assert all(line.rstrip("\n]") in after for line in kept)
    assert json.loads(after) == changed


@pytest.mark.parametrize(
    ("text", "new", "wanted"),
    [
        ('{"a": 1.0e2, "b": 2}', {"a": 100.0, "b": 3}, '{"a": 1.0e2, "b": 3}'),
        ('{"a": 1}', {"a": True}, '{"a": true}'),
        ("[1, 2]", [9, 1, 2], "[9, 1, 2]"),
        ("[1, 2]", [2], "[2]"),
        ("[1,2]", [1, 2, 3], "[1,2,3]"),
        ("{}", {"a": [1]}, '{"a": [1]}'),
        ('{\n  "b": 1\n}\n', {"a": 0, "b": 1, "c": []}, '{\n  "a": 0,\n  "b": 1,\n  "c": []\n}\n'),
        ('{\n  "b": 1,\n  "c": 2\n}\n', {"b": 1}, '{\n  "b": 1\n}\n'),
        ('{\r\n\t"b": 1\r\n}', {"b": {"x": 1}}, '{\r\n\t"b": {\r\n\t\t"x": 1\r\n\t}\r\n}'),
        ('{"k": "\\u00e9"}', {"k": "\u00e8"}, '{"k": "\\u00e8"}'),
        ('{"k": "é"}', {"k": "è"}, '{"k": "è"}'),
        (
            '{\n  "items": [\n    {"p": "a", "e": {}},\n    {"p": "b"}\n  ]\n}',
            {"items": [{"p": "a", "e": {"X": 1}}, {"p": "b"}]},
            '{\n  "items": [\n    {"p": "a", "e": {"X": 1}},\n    {"p": "b"}\n  ]\n}',
        ),
    ],
)
def test_the_style_of_the_neighbours_is_kept(text, new, wanted):
    changed = rewrite_json(text, new)
    assert json.loads(changed) == new
    assert changed == wanted


def test_the_line_of_a_value_is_the_line_of_its_key():
    text = '{\n  "a": [\n    1,\n    {"b":\n 2}\n  ],\n  "c": 3\n}'
    layout = Layout(text)
    assert [layout.line(path) for path in [("a",), ("a", 0), ("a", 1, "b"), ("c",)]] == [2, 3, 4, 7]
    assert layout.line(("a", 1, "absent")) == 4
    assert layout.line(()) == 1


def test_members_that_stand_on_lines_of_their_own_stay_there_beside_a_change():
    text = '{\n  "a": 1, "b": 2,\n  "c": [\n    1, 2,\n    3\n  ]\n}\n'
    assert rewrite_json(text, {"a": 1, "b": 3, "c": [1, 2, 4]}) == text.replace('"b": 2', '"b": 3').replace(
        "3\n", "4\n"
    )
