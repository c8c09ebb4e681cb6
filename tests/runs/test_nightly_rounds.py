"""A round of each fault of `python -m tests.bench.nightly`, which does as many as one likes."""

import os

import pytest

from tests.bench.nightly import COURSES, Tally, play

_FIRST_OF_ITS_KIND = {course.name.partition(":")[0]: course for course in reversed(COURSES)}
"""One fault of each kind comes at each change and all of them each night; the tests of the room have the others too."""
ROUNDS = [
    pytest.param(course, marks=[] if course in _FIRST_OF_ITS_KIND.values() else [pytest.mark.nightly], id=course.name)
    for course in COURSES
]


@pytest.mark.story
@pytest.mark.cases(2)
@pytest.mark.parametrize("course", ROUNDS)
def test_nothing_is_lost_asked_again_beyond_its_limit_or_counted_wrongly(course):
    if course.name.startswith("disk") and os.geteuid():
        pytest.skip("a small disk can be mounted by root only")
    assert play(course, 1, seed=20) == Tally(1)
