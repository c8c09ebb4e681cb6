"""Paths find what they name, in order, and never run away."""

import copy
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonpath_ng import parse

from tui_evals.text.strictjson import PathError, find_by_path

DATA = {
    "a": {"b": [1, 2, {"c": 3}], "a": {"b": 9}},
    "x.y": 1,
    "it's": 2,
    "é": 3,
    "where": 4,
    "len": 5,
    "*": 6,
    "0": "zero",
    "list": [{"n": 1}, {"n": 2}, {"n": None}],
    "null": None,
    "text": "abc",
}


@pytest.mark.parametrize(
    ("path", "values"),
    [
        ("$", (DATA,)),
        ("$.a.b[0]", (1,)),
        ("a.b[2].c", (3,)),
        ("$['a']['b'][0]", (1,)),
        ("['a'].b[0]", (1,)),
        ("$['x.y']", (1,)),
        ('$["it\'s"]', (2,)),
        (r"$['it\'s']", (2,)),
        ("$['é']", (3,)),
        ("$['where']", (4,)),
        ("$.len", (5,)),
        ("$['*']", (6,)),
        ("$.0", ("zero",)),
        ("$['text', '0']", ("abc", "zero")),
        ("$.list[*].n", (1, 2, None)),
        ("$.list[-1].n", (None,)),
        ("$.list[0,1].n", (1, 2)),
        ("$.list[1:].n", (2, None)),
        ("$.list[::-1].n", (None, 2, 1)),
        ("$.list[::0]", ()),
        ("$.list[9]", ()),
        ("$..c", (3,)),
        ("$..n", (1, 2, None)),
        ("$..[1].n", (2,)),
        ("$.a.*", ([1, 2, {"c": 3}], {"b": 9})),
        ("(a.b)[0]", (1,)),
        ("$.null", (None,)),
        ("$.null.x", ()),
        ("$.text[0]", ()),
        ("$.text.upper", ()),
        ("$.text.*", ()),
        ("$.list.n", ()),
        ("$.nowhere", ()),
        ("$[0]", ()),
        ("$.A", ()),
    ],
)
def test_what_is_found(path: str, values: tuple[object, ...]) -> None:
    assert find_by_path(path, DATA) == values


@pytest.mark.parametrize("data", [None, True, 0, 1.5, "text", [], {}])
def test_any_value_may_be_the_root(data: object) -> None:
    assert find_by_path("$", data) == (data,)
    assert (
        find_by_path("$.a", data)
        == find_by_path("$[0]", data)
        == find_by_path("$.*", data)
        == find_by_path("$..a", data)
        == ()
    )


def test_a_list_may_be_the_root() -> None:
    assert find_by_path("$[1].a", [0, {"a": 1}]) == find_by_path("[1].a", [0, {"a": 1}]) == (1,)
    assert find_by_path("$.a", [{"a": 1}]) == ()


def test_a_value_reached_on_two_ways_counts_twice() -> None:
    assert find_by_path("$..a..b", {"a": {"a": {"b": 1}}}) == (1, 1)


@pytest.mark.parametrize(
    ("path", "sentence"),
    [
        ("", "cannot be read because it ends too early"),
        ("  ", "cannot be read because it ends too early"),
        ("$.", "cannot be read because it ends too early"),
        ("$..", "cannot be read because it ends too early"),
        (".a", "cannot be read at position 1"),
        ("$.a]", "cannot be read at position 4"),
        ("$.a b", "cannot be read at position 5"),
        ("$.é", "cannot be read at position 3; unusual keys are quoted as in $['my key']"),
        ("$.a.length()", "cannot be read at position 11"),
        ("$['a", "a quote is not closed"),
        ("$.list[?(@.n == 1)]", "filter expressions are not supported"),
        ("$.list[?@.n]", "filter expressions are not supported"),
        ("$[?(@.x =~ '^(a+)+$')]", "filter expressions are not supported"),
        ("$.text =~ 'a'", "filter expressions are not supported"),
        ("$.a|$.b", "uses '|' at position 4, which is not supported"),
        ("$.a & b", "uses '&' at position 5, which is not supported"),
        ("$.where", "uses 'where' at position 3, which is not supported; a key is quoted as in ['where']"),
        ("$.* where b", "uses 'where'"),
        ("$.* wherenot b", "uses 'wherenot'"),
        ("$.a.`parent`", "uses 'parent'"),
        ("`this`", "uses 'this'"),
        ("$.a.`len`", "uses 'len'"),
        ("$.a.$", "uses '$' at position 5"),
        ("$.a~", "uses '~'"),
        ("$" + "..$" * 3000, "is longer than 1,000 characters"),
        ("$" + "[0]" * 5000, "is longer than 1,000 characters"),
    ],
)
def test_what_is_refused(path: str, sentence: str) -> None:
    with pytest.raises(PathError) as error:
        find_by_path(path, DATA)
    assert sentence in str(error.value)
    assert str(error.value).startswith("the path ")


def nested(depth: int) -> object:
    value: object = 1
    for _ in range(depth):
        value = {"a": value}
    return value


@pytest.mark.parametrize(
    ("path", "data", "sentence"),
    [
        ("$..*", list(range(20_000)), "matches more than 10,000 values"),
        ("$..*", [{"a": 1, "b": [1, 2, 3]}] * 100_000, "visits more than 200,000 values"),
        ("$..a..a..a", nested(900), "visits more than 200,000 values"),
        ("$" + "..a" * 300, nested(900), "visits more than 200,000 values"),
        ("$" + "[" + "0," * 400 + "0][" + "0," * 90 + "0]", [[1]], "matches more than 10,000 values"),
    ],
)
def test_a_path_that_runs_away_is_stopped(path: str, data: object, sentence: str) -> None:
    with pytest.raises(PathError, match=sentence):
        find_by_path(path, data)


@pytest.mark.parametrize("path", ["$" + ".a" * 490, "$" + "[0]" * 330, "$" + "..a" * 330, "(" * 490 + "a" + ")" * 490])
def test_a_long_path_is_only_long(path: str) -> None:
    assert find_by_path(path, {"b": [1]}) == ()


def test_deep_data_is_walked() -> None:
    assert find_by_path("$..b", {"a": nested(5000), "b": 2}) == (2,)


STEPS = st.sampled_from(
    [".a", ".b", "..a", "..b", "[0]", "[-1]", "[*]", ".*", "..*", "['a','b']", "[0,1]", "[1:]", "..[0]"]
)
JSON = st.recursive(
    st.none() | st.integers(0, 3) | st.text("ab", max_size=1),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("ab"), inner, max_size=2),
    max_leaves=12,
)


@given(st.lists(STEPS, max_size=4).map(lambda steps: "$" + "".join(steps)), JSON)
def test_the_walk_agrees_with_the_library(path: str, data: object) -> None:
    before = copy.deepcopy(data)
    assert list(find_by_path(path, data)) == [match.value for match in parse(path).find(data)]
    assert data == before


@given(st.text(alphabet=st.sampled_from("$.[]()ab01-*,:'\"`\\?@=~|& é\n"), max_size=12))
def test_any_path_finds_or_explains(path: str) -> None:
    try:
        assert isinstance(find_by_path(path, DATA), tuple)
    except PathError as error:
        assert str(error)


def test_paths_side_by_side() -> None:
    paths = [f"$.k{n}['x'][{n}]..b" for n in range(200)]
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda n: find_by_path(paths[n], {f"k{n}": {"x": [0] * n + [{"b": n}]}}), range(200)))
    assert results == [(n,) for n in range(200)]


def test_import_is_cheap_and_nothing_is_printed_or_written(tmp_path: Path) -> None:
    code = (
        "import os, sys, tui_evals.text.strictjson as j; assert not [m for m in sys.modules if 'jsonpath_ng' in m];"
        "j.find_by_path('$.a..b[0]', {}); print(os.listdir('.'))"
    )
    environment = {"PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-W", "error", "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=environment)
    assert (done.stdout, done.stderr) == ("[]\n", "")
