"""A diff as rows: nothing is lost, columns keep their width and stay in step, and colour never speaks alone."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tui_evals.present.columns import cell_width
from tui_evals.text.safe import safe, safe_line
from tui_evals.tui.diff_rows import SideBySideRows, column_titles, diff_summary, diff_texts, unified_rows, unified_text
from tui_evals.tui.rows import JoinedRows, StyledLines, TextRows, paragraph, row_text, rows_with_text

WORDS = st.lists(st.sampled_from(["alpha", "beta", "gamma.", "δέλτα", "日本", "x\n", "\n"]), max_size=40).map(" ".join)
HOSTILE = [
    "[/b]",
    "[@click=app.quit]x[/]",
    "\x1b]52;c;aGk=\x07",
    "\x1b[2J",
    "\x9b31m",
    "\u202e",
    "日本語",
    "\ud800",
    "\t\r",
]


def columns(rows, width):
    half = (width - 3) // 2
    left, right = [], []
    for shown in rows:
        text = row_text(shown)
        assert text.count("│") == 1
        one, other = text.split("│")
        assert cell_width(safe_line(one)) == half + 1
        assert cell_width(safe_line(other)) <= half + 1
        left.append(one)
        right.append(other)
    return left, right


def letters(lines):
    return "".join("".join(line[1:].split()) for line in lines)


@given(WORDS, WORDS, st.integers(9, 90))
def test_each_column_holds_its_text_at_any_width(left, right, width):
    one, other = columns(SideBySideRows(diff_texts(left, right), width), width)
    assert letters(one).replace("⏎", "") == "".join(left.split())
    assert letters(other).replace("⏎", "") == "".join(right.split())


@given(WORDS, WORDS)
def test_a_unified_diff_holds_both_texts_but_for_its_gaps(left, right):
    lines = unified_text(diff_texts(left, right)).split("\n")
    if not any(line.startswith("@@") for line in lines):
        assert letters(line for line in lines if line[:1] in (" ", "-")) == "".join(left.split())
        assert letters(line for line in lines if line[:1] in (" ", "+")) == "".join(right.split())


def test_signs_say_what_colours_say():
    rows = list(SideBySideRows(diff_texts("kept\nold words stay here\ngone\n", "kept\nnew words stay here\n"), 60))
    signs = {shown.ground: (row_text(shown)[0], row_text(shown).split("│")[1][:1]) for shown in rows}
    assert signs == {"": (" ", " "), "changed": ("~", "~"), "removed": ("-", " ")}
    rows = list(unified_rows(diff_texts("a b c d\n", "a b c e\n"), 60))
    assert [(shown.ground, row_text(shown)[0]) for shown in rows] == [("removed", "-"), ("added", "+")]


def test_only_the_words_that_changed_are_marked():
    (shown,) = SideBySideRows(diff_texts("the cat sat on the mat", "the dog sat on the mat"), 80)
    assert [piece.text.strip() for piece in shown.pieces if piece.style == "removed"] == ["cat"]
    assert [piece.text.strip() for piece in shown.pieces if piece.style == "added"] == ["dog"]


def test_a_row_that_wraps_on_one_side_keeps_the_next_rows_facing_each_other():
    left, right = columns(SideBySideRows(diff_texts("short\nsame\n", "short " + "long " * 20 + "\nsame\n"), 40), 40)
    assert left[-1].strip() == right[-1].strip() == "same"
    assert len(left) > 3


def test_every_line_of_a_wrapped_change_has_its_sign():
    rows = list(SideBySideRows(diff_texts("", "word " * 30), 40))
    assert len(rows) > 3
    assert {row_text(shown).split("│")[1][0] for shown in rows} == {"+"}
    assert not [piece for shown in rows for piece in shown.pieces if piece.style == "added"]


def test_a_line_end_that_only_one_has_is_shown():
    (shown,) = SideBySideRows(diff_texts("Paris\n", "Paris"), 40)
    assert "⏎" in row_text(shown)
    assert "⏎" not in row_text(SideBySideRows(diff_texts("Paris\n", "Rome\n"), 40)[0])


def test_json_is_compared_as_json():
    diff = diff_texts('{"a": 1, "b": [1, 2]}', '{"b":[1,3],\n"a":1}')
    assert diff_summary(diff) == "~ 1 line of JSON changed · at $.b[1]"
    assert diff_summary(diff_texts('{"a": 1}', '{ "a":1 }')) == "the same JSON as expected"


def test_raw_texts_are_spelt_out_and_differ_where_their_bytes_do():
    diff = diff_texts('{"a": 1}\r', '{ "a":1 }\x1b[2J', raw=True)
    shown = "".join(map(row_text, SideBySideRows(diff, 80)))
    assert diff.unit == "line"
    assert "\\r" in shown
    assert "\\x1b[2J" in shown


def test_texts_that_are_the_same_are_shown_whole():
    diff = diff_texts("one\ntwo\n" * 20, "one\ntwo\n" * 20)
    assert diff_summary(diff) == "the answer is what was expected"
    assert len(unified_rows(diff, 40)) == 40
    assert "alike" in row_text(unified_rows(diff_texts("x\n" * 20 + "a", "x\n" * 20 + "b"), 40)[0])


@pytest.mark.parametrize("width", [9, 38, 76])
def test_hostile_texts_keep_the_columns(width):
    left, right = "\n".join(HOSTILE), "\n".join(reversed(HOSTILE))
    for raw in (False, True):
        columns(SideBySideRows(diff_texts(left, right, raw), width), width)
        shown = "".join(map(row_text, unified_rows(diff_texts(left, right, raw), width)))
        assert safe(shown.replace("\n", "")) == shown


@given(
    st.lists(st.tuples(st.text("ab 日\n", max_size=12), st.sampled_from(["", "added"])), max_size=6), st.integers(1, 9)
)
def test_cutting_loses_nothing_but_the_spaces_it_breaks_at(parts, width):
    lines = list(map(StyledLines(parts, width).__getitem__, range(len(StyledLines(parts, width)))))
    texts = ["".join(piece.text for piece in line) for line in lines]
    assert all(cell_width(text) <= max(width, 2) for text in texts)
    for style in ("", "added"):
        kept = "".join(piece.text for line in lines for piece in line if piece.style == style)
        assert "".join(kept.split()) == "".join("".join(text for text, of in parts if of == style).split())


@given(st.lists(st.lists(st.text("ab", max_size=3), max_size=4), max_size=5))
def test_joined_parts_read_like_one_list(parts):
    rows = JoinedRows([TextRows(part) for part in parts])
    flat = [line for part in parts for line in part]
    assert [row_text(shown) for shown in rows] == flat
    assert [row_text(rows[number]) for number in range(len(rows))] == flat
    assert [row_text(shown) for shown in rows[1:3]] == flat[1:3]
    with pytest.raises(IndexError):
        rows[len(flat)]


def test_a_search_finds_rows_however_they_are_capitalised():
    rows = paragraph("Alpha\nbeta\nALPHA BETA", 40)
    assert rows_with_text(rows, "alpha") == [0, 2]
    assert rows_with_text(rows, "") == []


@pytest.mark.parametrize("width", [38, 80])
def test_the_titles_stand_above_their_columns(width):
    shown = row_text(column_titles(width))
    assert shown.index("│") == (width - 3) // 2 + 1
    assert "expected" in shown
    assert "answer" in shown


def test_two_answers_of_20000_words_are_compared_word_by_word():
    random = Random(5)
    words = [f"w{random.randrange(3000)}" for _ in range(20_000)]
    other = [word if random.random() > 0.03 else "changed" for word in words]
    texts = [" ".join(f"{word}." if n % 12 == 11 else word for n, word in enumerate(found)) for found in (words, other)]
    found = diff_texts(*texts)
    assert not found.coarse and len(SideBySideRows(found, 76)) > 1_000
