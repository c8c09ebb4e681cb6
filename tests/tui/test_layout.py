"""Which panes are on screen at which size, and where they stand."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tui_evals.tui.layout import (
    ARRANGEMENTS,
    PLACES,
    WEIGHTS,
    boxes,
    changed_weight,
    columns,
    next_arrangement,
    next_place,
    places_in,
)

places = st.sampled_from(PLACES)
arrangements = st.sampled_from(ARRANGEMENTS)
recents = st.lists(places, max_size=6)


@given(places, st.integers(1, 400), st.integers(1, 120), arrangements, st.booleans())
def test_the_pane_in_front_is_always_on_screen(place, width, height, arrangement, zoomed):
    shown = columns(place, width, height, arrangement, zoomed=zoomed)
    assert place in places_in(shown)
    assert len(shown) == (1 if zoomed or width < 100 else len(shown)) and sum(map(len, shown)) == len(places_in(shown))


@pytest.mark.parametrize(
    ("width", "height", "front", "shown"),
    [
        (80, 24, "editor", [["editor"]]),
        (80, 60, "editor", [["editor"]]),
        (120, 30, "editor", [["tree"], ["editor"]]),
        (120, 40, "editor", [["tree"], ["editor", "judges"]]),
        (120, 40, "detail", [["results", "runs"], ["detail"]]),
        (160, 30, "editor", [["tree"], ["editor"], ["judges"]]),
        (160, 45, "editor", [["tree", "runs"], ["editor", "results"], ["judges", "detail"]]),
        (160, 45, "detail", [["tree", "runs"], ["editor", "results"], ["judges", "detail"]]),
        (220, 60, "detail", [["tree", "runs"], ["editor", "judges"], ["results"], ["detail"]]),
    ],
)
def test_panes_share_columns_where_there_are_lines_for_two(width, height, front, shown):
    assert [list(column) for column in columns(front, width, height)] == shown


@given(st.integers(100, 300), st.integers(24, 90), places, recents, st.integers(0, 300), arrangements)
def test_the_panes_cover_the_screen_once(width, height, front, visited, wanted, arrangement):
    shown = columns(front, width, height, arrangement)
    placed = boxes(shown, width, height, (*visited, front), WEIGHTS, {"tree": wanted})
    assert set(placed) == set(places_in(shown))
    assert sum(box[2] * box[3] for box in placed.values()) == width * height
    assert all(left + wide <= width and top + tall <= height for left, top, wide, tall in placed.values())
    assert all(wide >= 12 and tall >= min(8, height // 2) for _, _, wide, tall in placed.values())


@given(st.integers(150, 300), st.integers(36, 90), places, recents)
def test_the_pane_in_front_has_the_larger_share_of_its_column(width, height, front, visited):
    shown = columns(front, width, height)
    placed = boxes(shown, width, height, (*visited, front), WEIGHTS, {})
    column = next(column for column in shown if front in column)
    assert all(placed[front][3] >= placed[other][3] for other in column)


def test_a_column_keeps_its_shares_while_another_one_is_in_front():
    shown = columns("results", 160, 45)
    at_results = boxes(shown, 160, 45, ("judges", "results"), WEIGHTS, {})
    at_tree = boxes(shown, 160, 45, ("judges", "results", "tree"), WEIGHTS, {})
    assert all(at_results[place][1::2] == at_tree[place][1::2] for place in ("results", "judges"))
    assert boxes(shown, 160, 45, ("results",), WEIGHTS, {})["detail"][3] > 20, "the answer belongs to the results"


@given(st.integers(160, 300), st.integers(24, 90), places, arrangements)
def test_results_have_three_fifths_of_a_wide_screen_in_front_and_while_watching(width, height, front, arrangement):
    shown = columns(front, width, height, arrangement)
    placed = boxes(shown, width, height, (front,), WEIGHTS, {"tree": 60})
    if front == "results" or (arrangement == "watch" and front in ("runs", "results", "detail")):
        assert placed["results"][2] >= width * 6 // 10
        assert all(box[2] >= 12 for box in placed.values())


@given(places, st.integers(100, 300), st.integers(24, 90), arrangements)
def test_the_key_goes_round_the_arrangements(front, width, height, arrangement):
    seen = []
    for _ in range(5):
        before = columns(front, width, height, arrangement)
        arrangement, front = next_arrangement(front, width, height, arrangement)
        seen.append(columns(front, width, height, arrangement))
        assert seen[-1] != before
    assert (("results",), ("detail",)) in seen


@pytest.mark.parametrize("size", [(80, 24), (120, 30), (120, 40), (160, 30), (160, 45), (220, 60)])
@pytest.mark.parametrize("arrangement", ARRANGEMENTS)
def test_tab_comes_round_to_where_it_began(size, arrangement):
    benches = {"write": ("tree", "editor", "judges"), "watch": ("runs", "results", "detail")}
    for start in {**benches, "compare": ("results", "detail"), "all": PLACES}[arrangement]:
        place, seen = start, []
        for _ in range(6):
            place = next_place(place, columns(place, *size, arrangement), arrangement, 1)
            seen.append(place)
            if place == start:
                break
        assert place == start and len(seen) == len(set(seen)) > 1
        assert next_place(seen[0], columns(seen[0], *size, arrangement), arrangement, -1) == start


def test_every_pane_is_reached_by_tab_where_only_one_fits():
    place, seen = "tree", set()
    for _ in range(6):
        seen.add(place)
        place = next_place(place, columns(place, 80, 24), "all", 1)
    assert seen == set(PLACES)


@given(places, st.lists(st.sampled_from([1, -1]), max_size=60))
def test_no_pane_grows_or_shrinks_beyond_use(place, ways):
    weights = dict(WEIGHTS)
    for way in ways:
        weights = changed_weight(weights, place, way)
    assert all(12 <= weight <= 90 for weight in weights.values())


@given(st.integers(100, 300), st.integers(0, 400))
def test_the_tree_has_the_columns_its_names_need_within_bounds(width, wanted):
    def tree(weights):
        return boxes(columns("tree", width, 30), width, 30, ("tree",), weights, {"tree": wanted})["tree"][2]

    assert width // 4 - 1 <= tree(WEIGHTS) <= width // 2 + 1
    assert abs(tree(WEIGHTS) - wanted) <= 1 or not width // 4 < wanted < width // 2
    for way in (1, -1):
        step = (tree(changed_weight(WEIGHTS, "tree", way)) - tree(WEIGHTS)) * way
        assert step >= 0
