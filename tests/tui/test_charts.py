"""A comparison as charts: every one can be read without colour and fits eighty columns."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.tui.comparisons import against, comparison, figure, line, passes, rates, side
from tests.tui.stored_runs import HOSTILE, text_of
from tui_evals.figures import Interval
from tui_evals.present.columns import cell_width
from tui_evals.text.safe import safe_line
from tui_evals.tui.compare.charts import (
    category_rows,
    chart_rows,
    histogram_rows,
    meanings,
    paired_scores,
    scatter_rows,
    sections,
    table_rows,
    word_rows,
)


def fits(rows, width):
    return all(cell_width(safe_line(text)) <= width for text in text_of(rows))


# -- the table of tests


def test_the_table_holds_both_means_the_difference_with_its_interval_the_chance_and_a_word():
    tests = (
        passes(6, 0, 26, interval=Interval(-0.5, -0.1)),
        passes(what="Match", before=0.4, after=0.5, interval=Interval(-0.05, 0.25), p=0.2, adjusted=0.4),
    )
    head, passing, match, *says = text_of(table_rows(tests, "C", 79))[1:]
    assert head.split() == ["A", "C", "difference", "p"]
    assert " ".join(passing.split()) == "pass rate (26) 80.0 % 56.9 % -23.1 % [-50, -10] 0.031 worse"
    assert " ".join(match.split()) == "Match (10) 0.4 0.5 +0.1 [-0.05, +0.25] 0.40 could be chance"
    assert "Holm" in " ".join(says)
    assert fits(table_rows(tests, "C", 79), 79)


def test_one_test_alone_needs_no_correction():
    assert "Holm" not in "\n".join(text_of(table_rows((passes(1),), "B", 79)))


@pytest.mark.parametrize(
    ("given", "word"),
    [
        ({"before": 0.5, "after": 0.5}, "equal"),
        ({"before": 0.5, "after": 0.6, "adjusted": 0.2}, "could be chance"),
        ({"before": 0.5, "after": 0.6, "adjusted": 0.01}, "better"),
        ({"before": 0.5, "after": 0.6, "adjusted": 0.01, "direction": -1}, "worse"),
        ({"before": 0.5, "after": 0.6, "adjusted": 0.01, "direction": 0}, "differs"),
    ],
)
def test_the_table_ends_with_the_outcome_of_each_test(given, word):
    *_, last = text_of(table_rows((passes(**given),), "B", 79))
    assert last.rstrip().endswith(word)


# -- how scores spread


def test_all_runs_have_the_same_bins_and_one_scale_of_shares():
    rows = text_of(histogram_rows([[0.0, 1.0, 1.0, 1.0], [0.0] * 4], 61))
    bars = [row.split("│")[1] if "│" in row else "" for row in rows]
    assert all(len(bar) == 40 for bar in bars[:6])
    high, low = bars[:3], bars[3:6]
    assert [bar[-2:] for bar in high] == ["▂▂", "██", "██"]
    assert [bar[:2] for bar in high] == ["  ", "  ", "▆▆"]
    assert [bar[:2] for bar in low] == ["██", "██", "██"]
    assert [bar[-2:] for bar in low] == ["  "] * 3
    assert "full height 100 %" in rows[6] and rows[7].split() == ["0", "1"]
    assert [row.split("│")[0].strip() for row in rows[:6]] == ["A", "mean 0.75", "4 scores", "B", "mean 0", "4 scores"]


def test_a_share_of_few_is_still_seen():
    rows = text_of(histogram_rows([[1.0] * 1000 + [0.0]], 61))
    assert rows[2].split("│")[1].startswith("▁▁")


def test_scores_that_are_all_one_take_a_line_for_each_run():
    assert text_of(histogram_rows([[1.0] * 3, [], [1.0]], 80)) == [
        "A 3 scores, all 1",
        "B no scores",
        "C 1 score, all 1",
    ]


def test_a_run_without_scores_has_an_empty_row():
    rows = text_of(histogram_rows([[0.0, 1.0], []], 80))
    assert "no scores" in rows[4] and not rows[4].split("│")[1].strip()


# -- categories


def test_each_run_has_a_bar_as_long_as_its_rate_with_the_numbers_beside_it():
    full, half, none, unjudged = text_of(category_rows("fees", (figure(4, 4), figure(2, 4), figure(0, 4), None), 64))
    assert full.startswith("fees") and full.count("█") == 20 and full.endswith("100 % of 4 items")
    assert half.split()[0] == "B" and half.count("█") == 10 and half.endswith("50 % of 4 items")
    assert "█" not in none and none.endswith("0 % of 4 items")
    assert unjudged.endswith(" n/a")


# -- one run against another


def test_scores_of_answers_that_both_runs_scored_are_paired():
    lines = [
        line(scores=(0.5, 1.0)),
        line(scores=(None, 1.0)),
        line("gone", statuses=("pass", None), scores=(1.0, None)),
    ]
    assert paired_scores(lines, 1) == [(0.5, 1.0)]


def test_what_the_later_run_scores_higher_lies_above_the_line():
    rows = text_of(scatter_rows([(0.0, 1.0), (1.0, 0.0), (0.5, 0.5), (0.5, 0.5)], "C", 80))
    cells = [row.split("│")[1] for row in rows[:12]]
    assert cells[0][0] == "·" and cells[-1][-1] == "·"
    assert sum(row.count("█") for row in cells) == 1
    assert cells[5][21] == "█" or cells[6][21] == "█"
    assert any("╱" in row for row in cells)
    assert rows[0].split("│")[0].strip() == "1" and rows[11].split("│")[0].strip() == "0" and "C" in rows[5]
    assert "C scores 1 answer higher, 1 lower, 2 the same" in " ".join(rows[14:])


@given(st.lists(st.tuples(st.floats(-5, 100), st.floats(-5, 100)), min_size=1, max_size=40), st.integers(20, 120))
def test_every_score_is_somewhere_on_the_grid(points, width):
    rows = text_of(scatter_rows(points, "B", width))
    cells = "".join(row.split("│", 1)[1] for row in rows[:12])
    assert 1 <= sum(cells.count(shade) for shade in "·░▒▓█") <= len(points)
    assert all(cell_width(row) <= max(width, 24) for row in rows)


# -- all of it


def whole(name="Match"):
    tests = (passes(what=name, before=0.4, after=0.5, p=0.2),)
    scores = {name: [0.1, 0.5, 0.9]}
    sides = tuple(side(number, scores=scores, name=name) for number in (1, 2, 3))
    lines = [line("broken", "same", statuses=("pass",) * 3, scores=(0.5, 0.7, 0.1))]
    categories = [rates(3, 1, 2, name), rates(3, 0, 1)]
    return comparison(lines, [against(6, tests=tests), against(0, 2)], sides, categories)


def test_all_charts_of_a_comparison_stand_below_each_other():
    text = text_of(chart_rows(whole(), 79))
    titles = [row for row in text if row.startswith(("A against", "Pass rate", "Score"))]
    assert titles == [
        "Pass rates are over the items that all 3 runs judged.",
        "A against B",
        "A against C",
        "Pass rate in each category, over shared items",
        "Score of each answer, A against B",
        "Score of each answer, A against C",
        "Scores of Match",
    ]
    joined = " ".join(text)
    assert "B is worse: 6 fewer of 10 items pass" in joined and "C passes 2 more of 10 items than A" in joined
    assert "(none)" in joined


@pytest.mark.parametrize("width", [38, 79, 159])
@pytest.mark.parametrize("name", ["Match", HOSTILE])
def test_the_charts_fit_their_width_whatever_is_called_how(width, name):
    rows = chart_rows(whole(name), width)
    assert fits([row for row in rows if not row.ground], max(width, 70))
    assert "\x1b" not in "\n".join(safe_line(text) for text in text_of(rows))


# -- words


PAGE = """# Words

## interval
Where the true
value lies. It is narrow for many.

## Holm
A correction.

### not a word of its own

## p
"""


def test_a_page_of_words_is_read_by_its_headings():
    found = sections(PAGE)
    assert found["interval"] == "Where the true value lies. It is narrow for many."
    assert found["holm"] == "A correction." and found["p"] == ""


def test_words_are_explained_from_the_manual_in_two_sentences_and_unknown_ones_are_left_out():
    found = meanings(("McNemar", "interval", "Holm", "no such word"))
    assert list(found) == ["McNemar", "interval", "Holm"]
    assert all(text.count(". ") >= 1 for text in found.values())
    rows = text_of(word_rows(("Holm", "no such word"), 60))
    assert rows[1] == "Holm" and len(rows) > 2
