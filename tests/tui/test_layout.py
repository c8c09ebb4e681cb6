"""Which panes are on screen at which width."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tui_evals.tui.layout import PLACES, WEIGHTS, changed_weight, fitted_weights, next_place, visible_places

places = st.sampled_from(PLACES)


@given(places, st.integers(1, 400), st.booleans())
def test_the_pane_in_front_is_always_on_screen(place, width, zoomed):
    shown = visible_places(place, width, zoomed)
    assert place in shown and len(set(shown)) == len(shown)
    assert len(shown) == (1 if zoomed or width < 100 else 2 if width < 150 else 3)


@pytest.mark.parametrize("width", [80, 120, 160])
def test_tab_comes_round_to_where_it_began(width):
    for start in PLACES:
        place, seen = start, []
        for _ in range(6):
            place = next_place(place, width, False, 1)
            seen.append(place)
            if place == start:
                break
        assert place == start and next_place(seen[0], width, False, -1) == start


def test_every_pane_is_reached_by_tab_where_only_one_fits():
    place, seen = "tree", set()
    for _ in range(6):
        seen.add(place)
        place = next_place(place, 80, False, 1)
    assert seen == set(PLACES)


@given(places, st.lists(st.sampled_from([1, -1]), max_size=60))
def test_no_pane_grows_or_shrinks_beyond_use(place, ways):
    weights = dict(WEIGHTS)
    for way in ways:
        weights = changed_weight(weights, place, way)
    assert all(12 <= weight <= 90 for weight in weights.values())


@given(st.integers(100, 300), st.integers(0, 400))
def test_the_tree_has_the_columns_its_names_need_within_bounds(width, wanted):
    shown = visible_places("tree", width)
    weights = fitted_weights(dict(WEIGHTS), shown, width, {"tree": wanted})
    columns = width * weights["tree"] / sum(weights[place] for place in shown)
    assert width // 4 - 1 <= columns <= width // 2 + 1
    assert abs(columns - wanted) < 1 or not width // 4 < wanted < width // 2
    for way in (1, -1):
        stepped = fitted_weights(changed_weight(dict(WEIGHTS), "tree", way), shown, width, {"tree": wanted})
        assert (stepped["tree"] - weights["tree"]) * way > 0 or stepped["tree"] == 12
