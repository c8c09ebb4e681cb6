"""A round of each fault of `python -m tests.bench.nightly`, which does as many as one likes."""

import os

import pytest

from tests.bench.nightly import COURSES, Tally, play


@pytest.mark.soak
@pytest.mark.parametrize("course", COURSES, ids=lambda course: course.name)
def test_nothing_is_lost_asked_again_beyond_its_limit_or_counted_wrongly(course):
    if course.name.startswith("disk") and os.geteuid():
        pytest.skip("a small disk can be mounted by root only")
    assert play(course, 1, seed=20) == Tally(1)
