"""Text that fits, whatever signs it is made of."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from wcwidth import wcswidth

from tui_evals.present.columns import breaks, cell_width, cut, fit, table, wrap

HEART = "❤\ufe0f"
"""One sign of two cells, made of characters of one cell and of none."""
SIGNS = [HEART, "👩\u200d💻", "🇩🇪", "👍🏽", "#\ufe0f\u20e3", "図", "한", "é", "e\u0301", "a"]
"""A joined pair of people, a flag, a skin tone, a keycap, wide letters, and accents in one character and in two."""


@given(
    st.one_of(st.text(max_size=60), st.lists(st.sampled_from(SIGNS)).map("".join)), st.integers(0, 30), st.booleans()
)
@example(HEART * 9, 5, False)
@example("図" * 9, 2, False)
def test_what_is_fitted_is_exactly_as_wide_as_it_should_be(text, width, right):
    assert wcswidth(fit(text, width, right=right)) == width


@given(st.lists(st.sampled_from([*"b \t\n", *SIGNS]), max_size=80).map("".join), st.integers(2, 30))
@example(f"{HEART * 5} {HEART * 5}", 4)
def test_what_is_wrapped_is_never_wider_than_the_room_and_loses_nothing_but_spaces(text, room):
    lines = wrap(text, room)
    assert all(wcswidth(line) <= room for line in lines)
    assert "".join("".join(lines).split()) == "".join(text.split())


@pytest.mark.parametrize("sign", SIGNS)
def test_no_sign_is_cut_in_two(sign):
    size = cell_width(sign)
    assert fit(sign * 9, 2 * size + 1) == sign * 2 + "…"
    assert wrap(sign * 5, 2 * size) == [sign * 2, sign * 2, sign]


def test_a_wide_sign_that_does_not_fit_leaves_a_gap():
    assert fit("図図図", 4) == "図 …"
    assert fit("図図図", 2) == " …"
    assert fit("図図図", 1) == "…"


def test_lines_break_between_words_and_a_space_between_them_belongs_to_neither():
    assert wrap("one two three", 7) == ["one two", "three"]
    assert wrap("abcdefgh", 3) == ["abc", "def", "gh"]
    assert breaks("ab cd", 2) == [(0, 2), (3, 5)]
    assert wrap("a\tb\nc", None) == ["a    b", "c"]


def test_where_nothing_is_known_of_the_room_nothing_is_cut():
    assert cut("a\nb" * 100, None) == "a⏎b" * 100
    assert cut("abcdef", 4) == "abc…"


def test_columns_are_equal_numbers_stand_right_and_the_widest_elastic_one_gives_way():
    rows = [["name", "n"], ["a long name of something", "12"], ["図図", "3"]]
    assert table(rows, right=(1,), room=None)[0] == "name" + " " * 22 + " n"
    lines = table(rows, right=(1,), room=16)
    assert lines == ["name           n", "a long name…  12", "図図           3"]
    assert {cell_width(line) for line in lines} == {16}


@pytest.mark.parametrize("room", [5, 20, None])
def test_a_table_without_elastic_columns_is_cut_at_the_edge(room):
    (line,) = table([["abcdef", "abcdef"]], elastic=(), room=room)
    assert line == ("abcd…" if room == 5 else "abcdef  abcdef")
