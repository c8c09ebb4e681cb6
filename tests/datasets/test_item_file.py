"""Items as a file to be edited by hand: read back as they were, and what is wrong is said with its line."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tui_evals.datasets.document import Document
from tui_evals.datasets.item_file import CannotRead, item_faults, read_items, with_faults, without_faults, write_items
from tui_evals.datasets.paths import CannotEdit, same_data
from tui_evals.datasets.portable import PUBLIC
from tui_evals.text.yamls import load_yaml, write_yaml

pytestmark = pytest.mark.story

SHORT = st.text(max_size=12) | st.text(
    st.sampled_from("ab1:#-|>'\"\\ \n\t\r&*~<=\u2028\x7f\x85\u202e\ufeff日"), max_size=20
)
TEXT = SHORT.filter(lambda text: not any(0xD800 <= ord(character) < 0xE000 for character in text))
LEAF = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT
VALUE = st.recursive(
    LEAF, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3), max_leaves=8
)


@pytest.mark.nightly
@settings(max_examples=100)
@given(st.lists(st.dictionaries(TEXT, VALUE, min_size=1, max_size=4), min_size=1, max_size=3))
def test_whatever_items_hold_is_read_back_as_it_was(items):
    text = write_items([(f"item {number}", item) for number, item in enumerate(items)])
    assert all(same_data(read.data, item) for read, item in zip(read_items(text, len(items)), items, strict=True))


def test_texts_stand_as_they_are_and_quotes_only_where_they_are_needed():
    item = {
        "prompt": "Write:\n\n  - a list\n---\n# with 'quotes'",
        "expected_response": 'yes, it\'s "done"\n',
        "variables": {"zip": "01234", "on": "no", "n": 1.50, "hidden": "a\u202eb", "empty": "", "my key": None},
        "messages": [{"role": "user", "content": "one\ntwo"}, {"role": "assistant", "content": "x: y"}],
        "tags": [],
    }
    assert write_yaml(item) == (
        "prompt: |-\n  Write:\n\n    - a list\n  ---\n  # with 'quotes'\n"
        'expected_response: |\n  yes, it\'s "done"\n'
        'variables:\n  zip: "01234"\n  on: no\n  n: 1.5\n  hidden: "a\\u202eb"\n  empty: ""\n  "my key": null\n'
        "messages:\n  - role: user\n    content: |-\n      one\n      two\n"
        '  - role: assistant\n    content: "x: y"\ntags: []\n'
    )
    assert same_data(load_yaml(write_yaml(item)), item)


def test_each_item_has_its_name_above_it_and_the_file_says_how_to_write():
    lines = write_items([("item 1 of 2 · A\nB", {"prompt": "x"}), ("item 2 of 2", {"turns": [{"prompt": "y"}]})]).split(
        "\n"
    )
    assert lines[0].startswith("# Save and quit the editor") and "|" in lines[0]
    assert lines[2:] == ["--- # item 1 of 2 · A⏎B", "prompt: x", "--- # item 2 of 2", "turns:", "  - prompt: y", ""]


@pytest.mark.parametrize("item", [5, {"a": "\ud800"}, {"a": 10**4200}])
def test_what_such_a_file_cannot_hold_is_not_handed_out(item):
    with pytest.raises(CannotEdit, match=r"^item #3 "):
        write_items([("item #3", item)])


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("# help\n--- # 1\nprompt: x\n--- # 2\nprompt: 'y\n", 6, "not valid YAML"),
        ("# help\n--- # 1\nprompt: x\n--- # 2\nprompt: y\nprompt: z\n", 6, "'prompt' appears twice"),
        ("--- # 1\n- prompt: x\n---\nprompt: y\n", 2, "a mapping is needed"),
        ("--- # 1\nprompt: x\n--- # 2\n", 3, "holds nothing"),
        ("--- # 1\nprompt: x\n", 1, "the file holds 1 item and was begun with 2"),
        ("---\nprompt: x\n---\nprompt: y\n---\nprompt: z\n", 5, "the file holds 3 items and was begun with 2"),
        ("", 1, "the file holds 0 items and was begun with 2"),
    ],
)
def test_what_cannot_be_read_is_said_with_its_line(text, line, message):
    with pytest.raises(CannotRead, match=message) as told:
        read_items(text, 2)
    assert told.value.fault.line == line


def test_a_lost_first_marker_and_windows_line_ends_do_no_harm():
    read = read_items("# help\r\nprompt: |\r\n  a\r\n  b\r\n---\r\nprompt: y\r\n", 2)
    assert [item.data for item in read] == [{"prompt": "a\nb\n"}, {"prompt": "y"}]


def test_what_the_format_refuses_is_said_with_the_line_of_the_field_it_is_about():
    text = (
        "--- # 1\nprompt: x\nwight: 1\n--- # 2\nturns:\n  - prompt: |\n      a\n      b\n    weight: 1\n"
        "--- # 3\nprompt: z\nweight: 3\nevaluators:\n  ExactMatch:\n    case: true\n"
    )
    document = Document(None, "", "", "document", {"schemaVersion": "1.11.0", "items": [{"prompt": 5}]})
    before = [{"prompt": 5}, {"turns": [{"prompt": "x"}], "own": 1}, {"prompt": "z", "weight": 4}]
    faults = item_faults(read_items(text, 3), before, document, PUBLIC, ())
    assert [(fault.line, fault.message) for fault in faults] == [
        (3, "unknown field 'wight' (did you mean 'weight'?)"),
        (9, "turns[0]: unknown field 'weight'"),
        (12, "weight: must be at most 1, not 3"),
        (15, "evaluators.ExactMatch: unknown field 'case'"),
    ]
    marked, line = with_faults(text, faults)
    assert line == 7 and marked.split("\n")[line - 1] == "wight: 1"
    assert marked.startswith("# ✗ line 7: unknown field 'wight' (did you mean 'weight'?)\n# ✗ line 13: turns[0]: ")
    assert not item_faults(read_items(text, 3), [item.data for item in read_items(text, 3)], document, PUBLIC, ())
    assert without_faults(marked) == text and with_faults(marked, faults) == (marked, line)
    assert [item.data for item in read_items(marked, 3)] == [item.data for item in read_items(text, 3)]
