"""Tests as models write them: the kinds of tables that can be told for sure, and those that cannot."""

import csv
import io
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tui_evals.generate.asking import read_tests
from tui_evals.generate.folder import Test

HEADER = ["ruleid", "testid", "expectedoutput", "reasoning", "word", "sentence"]
ROW = ["2", "1", "NN", "a noun", "aura", "An aura, of mystery"]
VALUES = {"word": "aura", "sentence": "An aura, of mystery"}


def table(*rows, delimiter=",", quoting=csv.QUOTE_MINIMAL):
    out = io.StringIO()
    csv.writer(out, delimiter=delimiter, quoting=quoting, lineterminator="\n").writerows(rows)
    return out.getvalue()


def markdown(*rows):
    lines = [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join([lines[0], "|---|:--|--:|:-:|---|---|", *lines[1:]])


KINDS = {
    "semicolons": table(HEADER, ROW, delimiter=";"),
    "tabs": table(HEADER, ROW, delimiter="\t"),
    "markdown": f"Here is the table:\n\n{markdown(HEADER, ROW)}\n\nI hope it helps!",
    "another order": table(HEADER[::-1], ROW[::-1]),
    "capitals": table([name.upper() for name in HEADER], ROW),
    "spaces and underscores": table(["rule_id", "Test ID", "expected output", "**reasoning**", *HEADER[4:]], ROW),
    "all quoted": table(HEADER, ROW, quoting=csv.QUOTE_ALL),
    "quoted behind spaces": table(HEADER, ROW, quoting=csv.QUOTE_ALL).replace('","', '", "'),
    "byte order mark": "\ufeff" + table(HEADER, ROW, quoting=csv.QUOTE_ALL),
    "carriage returns": table(HEADER, ROW).replace("\n", "\r\n"),
    "first line left out": table(ROW),
    "first line said again": table(HEADER, ROW, HEADER),
    "json": f"Sure!\n{json.dumps([dict(zip(HEADER, ROW, strict=True))])}",
    "json in a fence": f"```json\n{json.dumps({'tests': [dict(zip(HEADER, [2, 1, *ROW[2:]], strict=True))]})}\n```",
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_table_of_another_kind_is_read_where_it_can_be_told_for_sure(kind):
    found = read_tests(KINDS[kind], ["word", "sentence"], [1, 2])
    (test,) = found.tests
    assert json.loads(test["testinput"]) == VALUES and test["ruleid"] == 2
    assert (test["expectedoutput"], test["reasoning"]) == ("NN", "a noun")
    # What stands behind a table of Markdown is a row with too few cells.
    assert found.dropped == (kind == "markdown")


@pytest.mark.parametrize("written", ["Rule 2", "R2", "2.", "#2", "rule-2:", "**2**", " 2 "])
def test_the_number_of_a_rule_is_read_however_it_is_written(written):
    (test,) = read_tests(table(HEADER, [written, *ROW[1:]]), ["word", "sentence"], [1, 2]).tests
    assert test["ruleid"] == 2


@pytest.mark.parametrize(
    ("row", "column", "text"),
    [
        ("2,1,NN,a noun, after an article, as usual,aura,Fine", "reasoning", "a noun, after an article, as usual"),
        ('2,1,NN,"a noun",aura,Well, that is fine', "sentence", "Well, that is fine"),
        ('2,1,"NN",a noun, I think, "aura","Fine"', "reasoning", "a noun, I think"),
    ],
)
def test_a_row_torn_by_a_comma_of_a_sentence_is_put_together(row, column, text):
    found = read_tests(",".join(HEADER) + "\n" + row, ["word", "sentence"], [2])
    (test,) = found.tests
    assert test[column] == text and test["word"] == "aura" and (found.joined, found.dropped) == (1, 0)


@pytest.mark.parametrize(
    "row",
    [
        "2,1,NN,a noun,no space,aura,Fine",
        "2, 1, NN, a noun, I think, aura, Fine",
        "2,1,NN,a noun, I think, no doubt, aura,Fine",
        "2,1,NN,a noun, I think, no doubt,aura",
        "2, 1,NN,a noun,aura,Fine,1",
        "For 2 of them, that is, too, many, cells, I fear, friend",
        '2,1,NN,"a noun", I think,aura,Fine',
    ],
)
def test_a_row_with_too_many_cells_that_could_be_torn_elsewhere_is_left_out(row):
    found = read_tests(",".join(HEADER) + "\n" + row, ["word", "sentence"], [2])
    assert found.tests == () and found.dropped == 1


@pytest.mark.parametrize(
    ("rules", "written", "meant"),
    [
        ([4, 5, 6], [1, 2, 3], [4, 5, 6]),
        ([4, 5, 6], [1, 3, 1], [4, 6, 4]),
        ([2, 3], [1, 2], [2, 3]),
        ([3, 7], [1, 2], [3, 7]),
        ([4, 5, 6], [1, 4, 5], [4, 5]),
        ([4, 5, 6], [2, 3], []),
        ([2, 3], [2, 2], [2, 2]),
        ([4], [1, 2], []),
    ],
)
def test_rules_that_a_reply_numbers_from_1_are_told_from_those_nobody_asked_about(rules, written, meant):
    found = read_tests(table(HEADER, *([str(n), *ROW[1:]] for n in written)), ["word", "sentence"], rules)
    assert [test["ruleid"] for test in found.tests] == meant
    assert found.renumbered == (written[0] == 1 and len(meant) == len(written))


@pytest.mark.parametrize("name", ["testid", "expectedoutput", "reasoning", "ruleid"])
def test_an_input_may_be_called_like_a_column_that_stands_before_it(name):
    (test,) = read_tests(table([*HEADER[:4], name], ["2", "1", "NN", "a noun", "mine"]), [name], [2]).tests
    fixed = {"ruleid": 2, "testid": "1", "expectedoutput": "NN", "reasoning": "a noun"}
    assert test["testinput"] == "mine" and {key: test[key] for key in fixed} == fixed


def test_an_input_called_like_a_column_that_is_there_once_is_missing():
    assert read_tests(table(HEADER[:4], ["2", "1", "NN", "a noun"]), ["ruleid"], [2]).tests == ()


@pytest.mark.parametrize("name", [name for name in Test.model_fields if name not in HEADER and name != "testinput"])
def test_a_column_called_like_a_field_of_tests_never_stands_for_it(name):
    (test,) = read_tests(table([*HEADER[:4], "word", name], ROW), ["word"], [2]).tests
    assert name not in test and test["testinput"] == "aura"
    (test,) = read_tests(table([*HEADER[:4], name], ROW[:5]), [name], [2]).tests
    assert name not in test and Test.model_validate(test).testinput == "aura"


NAMES = st.text(st.characters(blacklist_characters="\0\r\n\\", blacklist_categories=["Cs"]), min_size=1)


@given(st.text(st.characters(blacklist_characters="\0\r\\")), NAMES.filter(lambda name: name == name.strip()))
def test_a_table_written_by_the_book_is_read_to_the_letter(text, name):
    header = [*HEADER[:4], name]
    if text.strip():
        (test,) = read_tests(table(header, [*ROW[:4], text], quoting=csv.QUOTE_ALL), [name], [2]).tests
        assert test["testinput"] == text
