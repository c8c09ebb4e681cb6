"""Which panes are on screen at which width."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tui_evals.tui.layout import PLACES, WEIGHTS, changed_weight, next_place, visible_places

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
