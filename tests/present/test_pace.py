"""How fast a run goes, and how long the rest of it takes."""

import pytest

from tui_evals.present.runs import Pace, pace_parts


def noted(*samples):
    pace = Pace()
    for now, count in samples:
        pace.note(now, count)
    return pace.rate()


def test_the_rate_hides_until_five_results_have_come():
    assert noted() is None
    assert noted((0, 0)) is None
    assert noted((0, 0), (2, 4)) is None
    assert noted((0, 0), (2, 5)) == 2.5


def test_the_rate_is_that_of_the_last_ten_seconds():
    samples = [(second / 2, second * 5) for second in range(41)] + [
        (20 + second / 2, 200 + second) for second in range(41)
    ]
    assert noted(*samples) == pytest.approx(2.0, rel=0.1)


def test_a_slow_run_has_a_rate_over_a_longer_time():
    assert noted(*[(second, second // 10) for second in range(101)]) == pytest.approx(0.1, rel=0.25)


def test_a_count_that_falls_begins_anew():
    assert noted((0, 0), (1, 100), (2, 3)) is None


def test_a_run_that_stalls_slows_down_and_keeps_few_samples():
    pace = Pace()
    for half in range(20):
        pace.note(half / 2, half * 10)
    quick = pace.rate()
    for half in range(20, 4000):
        pace.note(half / 2, 190)
    assert pace.rate() < quick / 50
    assert len(pace._samples) < 30


def test_the_pace_is_said_once_it_is_known_and_the_time_left_while_something_is():
    assert pace_parts(None, 10) == []
    assert pace_parts(2.0, 240) == ["2.0/s", "2m 00s left"]
    assert pace_parts(2.0, 0) == ["2.0/s"]
