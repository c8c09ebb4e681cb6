"""JSON that is laid out here is what the standard library lays out."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tui_evals.text.strictjson import indented, one_line, pieces

SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text()
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4)
)


@given(VALUES)
def test_both_layouts_are_those_of_the_standard_library(value):
    assert indented(value) == json.dumps(value, ensure_ascii=False, indent=2)
    assert one_line(value) == json.dumps(value, ensure_ascii=False)


@pytest.mark.parametrize("value", [(), (1, ("a", {})), {"a": ({"b": []},)}, "\x85\u2028\ud800\x7f"])
def test_tuples_are_lists_and_every_sign_stays(value):
    assert indented(value) == json.dumps(value, ensure_ascii=False, indent=2)


def with_iterators(value):
    if isinstance(value, list):
        return map(with_iterators, value)
    return {name: with_iterators(own) for name, own in value.items()} if isinstance(value, dict) else value


@given(VALUES)
def test_in_pieces_lists_may_be_iterators(value):
    assert "".join(pieces(with_iterators(value))) == indented(value)
    assert "".join(pieces(with_iterators(value), None)) == one_line(value)


@pytest.mark.parametrize("line", ["\n", None])
def test_what_json_cannot_hold_is_refused_in_pieces_too(line):
    with pytest.raises(TypeError):
        list(pieces({"a": iter([{1}])}, line))
