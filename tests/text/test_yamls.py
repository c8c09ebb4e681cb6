"""YAML is read as plain data, or refused with a sentence and a place."""

import json
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tui_evals.text import yamls
from tui_evals.text.yamls import YamlError, load_mapping, load_yaml

LAUGHS = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{new}: &{new} [{','.join([f'*{old}'] * 9)}]\n" for old, new in zip("abcdefghi", "bcdefghij", strict=True)
)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", None),
        ("# nothing\n", None),
        ("word", "word"),
        ("a: 1\nb: [x, 2.5, true]\n", {"a": 1, "b": ["x", 2.5, True]}),
        ("no", "no"),
        ("[yes, on, off, Y, 12:30, 1_000, 0b11, 2024-01-31, 2024-01-31T10:00:00Z]",
         ["yes", "on", "off", "Y", "12:30", "1_000", "0b11", "2024-01-31", "2024-01-31T10:00:00Z"]),
        ("[true, False, TRUE, null, ~, Null]", [True, False, True, None, None, None]),
        ("[-3, +4, 007, 0x1F, 0o17, .5, 1., -1.5e3, 1e2]", [-3, 4, 7, 31, 15, 0.5, 1.0, -1500.0, 100.0]),
        ("['1', \"true\", 'null']", ["1", "true", "null"]),
        ("a:\nb: ''", {"a": None, "b": ""}),
        ("a: |\n  one\n  two\nb: >-\n  one\n  two\n", {"a": "one\ntwo\n", "b": "one two"}),
        ("1: a\nno: b\nnull: c\n1.5: d", {"1": "a", "no": "b", "null": "c", "1.5": "d"}),
        ("a: &x {k: [1]}\nb: *x", {"a": {"k": [1]}, "b": {"k": [1]}}),
        ("'<<': 1", {"<<": 1}),
        ("\ufeffa: é", {"a": "é"}),
        (b"\xef\xbb\xbfa: \xc3\xa9", {"a": "é"}),
        ("a: 1\r\nb: 2\r\n", {"a": 1, "b": 2}),
        ("%YAML 1.1\n---\na: yes", {"a": "yes"}),
        ('"\\ud83d\\ude00 \\U0001F600"', "😀 😀"),
    ],
)  # fmt: skip
def test_what_is_read(text: str | bytes, value: object) -> None:
    assert load_yaml(text) == value
    assert json.dumps(load_yaml(text)) == json.dumps(value), "1 and True are equal, so compare what is written"


@pytest.mark.parametrize(
    ("text", "sentence", "place"),
    [
        ("a: 1\nb: 2\na: 3", "the key 'a' appears twice", (3, 1)),
        ("1: a\n'1': b", "the key '1' appears twice", (2, 1)),
        ("x: [{k: 1,\n k: 2}]", "the key 'k' appears twice", (2, 2)),
        ("x: !!python/object/apply:os.system ['id']", "tag tag:yaml.org,2002:python/object/apply", (1, 4)),
        ("- !custom {a: 1}", "tag !custom is not supported", (1, 3)),
        ("!!str 1", "tag tag:yaml.org,2002:str", (1, 1)),
        ("a: *x", "*x refers to nothing", (1, 4)),
        ("a: &x [*x]", "*x refers to nothing", (1, 8)),
        ("a: &x {k: 1}\nb:\n  <<: *x", "merging with << is not supported", (3, 3)),
        ("[a]: 1", "a key must be plain text", (1, 1)),
        ("!t a: 1", "a key must be plain text", (1, 1)),
        ("a: .nan", ".nan is not a finite number", (1, 4)),
        ("a: -.INF", "-.INF is not a finite number", (1, 4)),
        ("a: 1e999", "1e999 is not a finite number", (1, 4)),
        ("a: " + "9" * 5000, "too many digits", (1, 4)),
        ("a\n---\nb", "a second document starts here", (3, 1)),
        ("a: [1,\n", "not valid YAML", (2, 1)),
        ("a: 'open", "not valid YAML", (1, 9)),
        ("a: b: c", "mapping values are not allowed here", (1, 5)),
        ("a:\n\t- b", "not valid YAML", (2, 1)),
        ("a\nb \x00", "this control character is not allowed", (2, 3)),
        (b"a: 1\nb: \xff", "this is not UTF-8 text", (2, 4)),
        ("a: 1".encode("utf-16"), "this is not UTF-8 text", (1, 1)),
        ('"\\ud83d"', "half of a surrogate pair", (1, 1)),
        ('"\\UFFFFFFFF"', "names no character", (None, None)),
        ("- " * 70 + "a", "nested more than 64 deep", (1, 131)),
        ("[" * 100, "nested more than 64 deep", (1, 66)),
        ("x" * 1_000_001, "longer than 1,000,000 characters", (None, None)),
    ],
)
def test_what_is_refused(text: str | bytes, sentence: str, place: tuple[int | None, int | None]) -> None:
    with pytest.raises(YamlError) as error:
        load_yaml(text)
    assert sentence in str(error.value)
    assert (error.value.line, error.value.column) == place
    assert place[0] is None or f"(line {place[0]}, column {place[1]})" in str(error.value)


@pytest.mark.parametrize(
    "text",
    [LAUGHS, "a: &x " + "z" * 90_000 + "\nb: [" + "*x," * 50 + "]"],
    ids=["laughs", "long text repeated"],
)
def test_aliases_cannot_multiply(text: str) -> None:
    with pytest.raises(YamlError, match="what an alias repeats is counted each time"):
        load_yaml(text)


def test_many_values_are_refused_though_none_is_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(yamls, "MAX_WEIGHT", 5_000)
    assert load_yaml("[" + "x, " * 40 + "]") == ["x"] * 40
    with pytest.raises(YamlError, match="the text holds too many values"):
        load_yaml("[" + "x, " * 60 + "]")


def test_the_limit_can_be_set() -> None:
    assert load_yaml("a: 12", limit=5) == {"a": 12}
    with pytest.raises(YamlError, match="longer than 4 characters"):
        load_yaml("a: 12", limit=4)


def test_what_an_alias_repeats_is_not_shared() -> None:
    value = load_yaml("a: &x {k: [1]}\nb: *x\nc: *x")
    assert isinstance(value, dict)
    value["b"]["k"].append(2)
    assert value == {"a": {"k": [1]}, "b": {"k": [1, 2]}, "c": {"k": [1]}}


KEYS = st.text(max_size=80)
"""Of at most 960 characters as JSON, for a key of YAML may have no more than 1,024."""
PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=8,
)


@given(PLAIN)
def test_json_is_yaml(value: object) -> None:
    assert json.dumps(load_yaml(json.dumps(value))) == json.dumps(value)


ALPHABET = st.sampled_from([*"ab:-?[]{},&*!|>'\"%#\n \t\\01.~<=\x85\u2028\ud800", "- ", ": ", "\n  ", "---\n"])


@given(st.lists(ALPHABET, max_size=20).map("".join))
def test_any_text_is_plain_data_or_an_error(text: str) -> None:
    try:
        value = load_yaml(text)
    except YamlError as error:
        assert str(error)
    else:
        json.dumps(value, allow_nan=False).encode()


def test_a_mapping_with_the_lines_of_its_keys() -> None:
    text = "\n# about\nname: x\ninputs:\n  name: 1\n  more: [\n    2]\n'quoted': |\n  name: no\nlast: 1\n"
    value, lines = load_mapping(text)
    assert list(value) == ["name", "inputs", "quoted", "last"]
    assert lines == {"name": 3, "inputs": 4, "quoted": 8, "last": 10}


def test_an_empty_mapping() -> None:
    assert load_mapping("# nothing\n") == ({}, {})


@pytest.mark.parametrize("text", ["\n- a", "\nword"])
def test_not_a_mapping(text: str) -> None:
    with pytest.raises(YamlError, match="a mapping is needed here") as error:
        load_mapping(text)
    assert error.value.line == 2


def test_import_is_cheap_and_reading_is_silent() -> None:
    code = (
        "import sys, tui_evals.text.yamls as y; assert not [m for m in sys.modules if m.startswith('ruamel')];"
        "y.load_yaml('a: &a 1\\nb: &a 2\\nc: *a\\nd: 2001-01-01\\n%')"
    )
    done = subprocess.run([sys.executable, "-W", "always", "-c", code], capture_output=True, text=True)
    assert done.stdout == ""
    assert done.stderr.count("Warning") == 0
    assert "YamlError" in done.stderr
