"""Text that fits, whatever signs it is made of."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from wcwidth import wcswidth

from tui_evals.present.columns import (
    Column,
    breaks,
    cell_width,
    cut,
    elide,
    fit,
    fit_columns,
    names_of,
    table,
    told_apart,
    wrap,
)

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


def test_a_mark_that_combines_takes_the_cell_that_it_takes_behind_a_blank():
    assert fit("\u1062", 3) == "\u1062  " and cell_width(f"| {fit(chr(0x1062), 3)}|") == 6


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


# -- which columns, and what names look like in them


def widths(columns, width):
    return {column.by: column.width for column in fit_columns(columns, width)}


LIST = (
    Column("name", "item", 16, 100, 6),
    Column("status", "status", 6, 99),
    Column("empty", "tags", 0, 98),
    Column("cost", "cost", 5, 50, right=True),
    Column("tokens", "tokens", 3, 40),
    Column("answer", "answer", 12, 60, 12, rest=True),
)


@pytest.mark.parametrize(
    ("width", "shown"),
    [
        (4, {"name": 4}),
        (20, {"name": 13, "status": 6}),
        (28, {"name": 8, "status": 6, "answer": 12}),
        (34, {"name": 8, "status": 6, "cost": 5, "answer": 12}),
        (60, {"name": 16, "status": 6, "cost": 5, "tokens": 3, "answer": 26}),
    ],
)
def test_the_important_columns_stay_and_those_that_can_be_cut_give_way(width, shown):
    assert widths(LIST, width) == shown
    assert sum(shown.values()) + len(shown) - 1 <= width


@given(st.integers(0, 230))
def test_a_wider_list_never_loses_a_column(width):
    assert widths(LIST, width).keys() <= widths(LIST, width + 1).keys()


def test_what_nearly_all_names_begin_with_is_left_out_up_to_the_end_of_a_word():
    cases = names_of([f"policy-case-{number:04}" for number in range(200)] + ["zebra"])
    assert cases.fit("policy-case-0033", 12) == "…-0033      "
    assert cases.fit("zebra", 6) == "zebra " and cases.wanted == 6
    assert names_of(f"policycase{number}" for number in range(30)).short("policycase7") == "…7"
    for kept in (["MT-1", "MT-2"], ["policy-case-1"] * 5, ["policy-case", "other"], []):
        assert names_of(kept).shared == ""


def test_a_name_that_is_too_long_keeps_its_end():
    assert elide("a-very-long-name-0021", 12) == "a-v…ame-0021"
    assert elide("short", 12) == "short"
    assert [elide("0021", width) for width in (0, 1, 2)] == ["", "…", "…1"]


@given(st.one_of(st.text(max_size=60), st.lists(st.sampled_from(SIGNS)).map("".join)), st.integers(0, 30))
def test_a_name_without_its_middle_is_never_too_wide(name, width):
    assert cell_width(elide(name, width)) <= width


def test_headings_are_cut_to_what_tells_them_apart():
    assert told_apart(["policy_check_tone", "policy_check_length"], 6) == ["tone", "length"]
    assert told_apart(["latency_p50", "latency_p95", "Relevance"], 6) == ["p50", "p95", "Releva"]
    assert told_apart(["Relevance1", "Relevance2"], 6) == ["R…nce1", "R…nce2"]
    assert told_apart(["Match"], 6) == ["Match"] and told_apart([], 6) == []
    assert told_apart(["a-b", "a-c"], 6) == ["a-b", "a-c"]


def test_names_of_targets_are_told_apart_also_where_two_are_the_same():
    shop = ["assistant-of-the-shop-one", "assistant-of-the-shop-two"]
    assert told_apart(shop, 12) == ["one", "two"] and told_apart(shop, 25) == shop
    assert told_apart(["odd", "odd", "even"], 12) == ["odd", "odd (2)", "even"]
    assert told_apart(["a-long-name-of-a-target"] * 2, 12) == ["target", "target (2)"]
    assert told_apart(["gpt-4o-mini-2024-07-18", "o3"], 12) == ["gpt-4o-mini…", "o3"]


def test_in_a_table_a_name_keeps_its_end_and_an_empty_column_goes():
    rows = [["run", "model", "note"], ["policy-nightly-0021", "", "a note that is long"], ["policy", "", "b"]]
    lines = table(rows, elastic=(0, 2), names=(0,), headed=True, room=26)
    assert all(cell_width(line) <= 26 for line in lines)
    assert "model" not in lines[0] and lines[1].split()[0].endswith("-0021") and "…" in lines[1].split()[0]
