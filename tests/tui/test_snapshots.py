"""What panes, dialogs and empty places look like, byte by byte."""

import re

import pytest

from tests.pictures.script import played
from tests.tui.snapshots import GALLERY

pytestmark = pytest.mark.story


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    return played(tmp_path_factory.mktemp("played") / "base")


@pytest.mark.story
@pytest.mark.cases(5)
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if shot.size == (80, 24) else pytest.mark.nightly)
        for name, shot in GALLERY.shots.items()
    ],
)
async def test_it_looks_as_it_did(name, base, tmp_path):
    await GALLERY.check(name, base, tmp_path)


def test_there_are_few_pictures_and_none_is_left_over():
    assert {file.stem for file in GALLERY.folder.glob("*.svg")} == set(GALLERY.shots)
    assert len(GALLERY.shots) <= 25


def test_nothing_in_a_picture_comes_from_elsewhere():
    for name in GALLERY.shots:
        found = re.findall(r"https?://[^\"'<\s]+", GALLERY.kept(name) or "")
        assert set(found) <= {"http://www.w3.org/2000/svg", "https://www.textualize.io"}
