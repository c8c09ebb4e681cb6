"""Writing JSON: colours of a line, indent of a new one, and a line break inside a text, which nobody has to spell."""

import json

import pytest

from tui_evals.tui.widgets.inputs import closes_block, new_line, tokens


def shown(line):
    return [(line[start:end], kind) for start, end, kind in tokens(line)]


def test_keys_texts_numbers_and_words_are_told_apart():
    assert shown('  "a\\"b" : ["c: 1", -2.5e3, true, nul, "open') == [
        ('"a\\"b"', "key"),
        ('"c: 1"', "text"),
        ("-2.5e3", "number"),
        ("true", "word"),
        ('"open', "text"),
    ]
    assert shown("") == [] and shown("{}[],:") == []


@pytest.mark.parametrize(
    ("text", "after"),
    [
        ("{|}", "{\n  |\n}"),
        ('  "a": [|', '  "a": [\n    |'),
        ('  "a": 1,|', '  "a": 1,\n  |'),
        ('{"a": "one|two"}', '{"a": "one\\n|two"}'),
        ('{"a": "one\\\\"|}', '{"a": "one\\\\"\n|}'),
        ('{"a": "one\\"|"}', '{"a": "one\\"\\n|"}'),
        ("|{}", "\n|{}"),
    ],
)
def test_a_new_line_is_indented_and_in_a_text_it_is_spelled_for_you(text, after):
    before, rest = text.split("|")
    ahead, behind = new_line(before, rest)
    assert f"{before}{ahead}|{behind}{rest}" == after
    if after.startswith("{") and after.endswith("}") and '"' in after:
        json.loads(after.replace("|", ""))


def test_a_closing_bracket_goes_back_a_step_on_a_line_of_its_own():
    assert closes_block("{\n    ") and not closes_block("{\n") and not closes_block('{\n  "a": 1  ')
