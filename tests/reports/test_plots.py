"""The geometry of the plots: everything that is counted is drawn, inside its frame."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tui_evals.reports.plots import (
    HEIGHT,
    METER,
    SCATTER,
    STEPS_HEIGHT,
    STEPS_WIDTH,
    WIDTH,
    histogram,
    levels,
    meter,
    scatter,
    stacked,
    steps,
)

VALUES = st.lists(st.floats(-10, 10), min_size=1, max_size=50)
POINTS = st.floats(0, 100)


@given(VALUES)
def test_a_histogram_draws_every_value_inside_its_frame(values):
    found = histogram(values)
    assert sum(int(bar.title.rpartition(": ")[2]) for bar in found.bars) == len(values)
    for bar in found.bars:
        assert bar.x >= 0 and bar.x + bar.width <= WIDTH + 0.1
        assert bar.height > 0 and bar.y + bar.height == pytest.approx(HEIGHT, abs=0.2)


def test_a_histogram_marks_the_threshold_that_all_share():
    assert histogram([1, 5], [3.0]).threshold == 0.6 * WIDTH
    assert histogram([1, 5], [3.0, 4.0]).threshold is None
    assert histogram([1, 5], [9.0]).threshold is None
    assert histogram([]) is None


def test_a_single_value_among_many_can_still_be_seen():
    low, _ = histogram([0.0] + [1.0] * 10_000).bars
    assert low.height == 1.5


def test_words_are_counted_the_frequent_first_and_the_rest_together():
    found = levels({f"word {n}": n for n in range(1, 12)})
    assert [(level.name, level.count) for level in found[:2]] == [("word 11", 11), ("word 10", 10)]
    assert (found[-1].name, found[-1].count, len(found)) == ("others", 10, 8)
    assert sum(level.count for level in found) == sum(range(1, 12))
    assert levels({}) == ()


@given(st.lists(VALUES, min_size=1, max_size=4))
def test_the_steps_of_all_runs_have_one_scale(runs):
    found = steps(runs)
    assert len(found.lines) == len(runs)
    heights = []
    for line in found.lines:
        points = [tuple(map(float, point.split(","))) for point in line.split()]
        assert [x for x, _ in points] == sorted(x for x, _ in points)
        assert points[-1] == (STEPS_WIDTH, STEPS_HEIGHT) and points[0] == (0, STEPS_HEIGHT)
        heights += [y for _, y in points]
    assert min(heights) == 2.0 and max(heights) == STEPS_HEIGHT


def test_a_run_without_scores_is_a_flat_line_and_none_at_all_no_plot():
    assert steps([[1.0], []]).lines[1].endswith(f"{STEPS_WIDTH},{STEPS_HEIGHT}.0")
    assert steps([[], []]) is None


@given(st.lists(st.tuples(POINTS, POINTS), min_size=1, max_size=50))
def test_a_scatter_counts_every_item_and_keeps_it_inside(pairs):
    found = scatter(pairs, "A", "B")
    assert found.better + found.worse + found.equal == len(pairs)
    assert all(0 <= dot.x <= SCATTER and 0 <= dot.y <= SCATTER and dot.radius >= 2.5 for dot in found.dots)


def test_equal_pairs_are_one_larger_dot_above_the_diagonal_where_they_got_better():
    found = scatter([(0, 100)] * 3 + [(100, 0)], "A", "B")
    many, one = found.dots
    assert (many.x, many.y, many.side, many.title) == (0, 0, "better", "A 0, B 100: 3 items")
    assert (one.x, one.y, one.side, one.title) == (SCATTER, SCATTER, "worse", "A 100, B 0: 1 item")
    assert many.radius > one.radius
    assert scatter([], "A", "B") is None


def test_a_whole_is_divided_without_a_gap():
    found = stacked({"pass": 3, "fail": 0, "error": 1})
    assert [(part.name, part.x, part.width) for part in found] == [("pass", 0, 750), ("error", 750, 250)]
    assert meter(0.5, 0.25, 1.0) == meter(0.5, 0.25, 1.0) and meter(0.5, 0.25, 1.0).share == METER / 2
